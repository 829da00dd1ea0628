//! Board on which a publishing process shows the reports of its readers to the processes of its
//! host.
//!
//! Readers send their [reports](wire::Report) to publishers, whose tallies contain only the number
//! of readers. Each sending agent also writes received reports, unchanged, into a ring of its own
//! in shared memory, so that other processes of the host see the readers of its streams on other
//! hosts. The board is optional: if it cannot be created, a warning is logged; one that is not
//! trusted is ignored. A board belongs to a network namespace, and is removed with its agent.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use keys::PublicKey;
use ring::shared::{self, Access, Liveness, Options, Trusted};
use ring::{Read, Reader, Writer};
use sys::clock;
use units::{Epoch, Instant, ReaderId, StreamId};
use wire::{Datagram, Report};

use crate::bytes::{Cursor, Put};
use crate::host::of_laboratory;

/// Kind of the board's records.
const REPORT: u16 = 1;
/// Size of a board, room for some hundred reports: a process that reads late misses older ones.
const BOARD_BYTES: usize = 1 << 18;
/// Prefix of the names of all boards.
const PREFIX: &str = "tallycast.reports.";
/// Maximum number of readers that are shown, so that a flood of forged ones takes no more memory.
const MAX_READERS: usize = 4_096;
/// Age after which a reader without a new report is not shown any more. Source: the longest
/// interval between the reports of one reader (`cast::send`), past which a publisher forgets it.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Settings of a board: who may read it, and of which bus it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sharing {
    /// Access of other processes of this host.
    pub access: Access,
    /// Group of the board, else that of new files.
    pub group: Option<u32>,
    /// Authority of a secured bus: boards of clear buses and of other laboratories are apart.
    pub authority: Option<PublicKey>,
}

/// The writing end of a board; the ring is created with the first report.
pub(crate) struct ReportBoard {
    path: PathBuf,
    sharing: Sharing,
    writer: Option<Writer>,
    gave_up: bool,
    record: Vec<u8>,
}

/// A report that a publisher of this host received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeardReport {
    /// The reader's last report.
    pub report: Report,
    /// Address it came from.
    pub from: SocketAddr,
    /// Time of its arrival, by this host's monotonic clock.
    pub heard: Instant,
    /// Total and arrival of its previous report on the same epoch.
    pub before: Option<(u64, Instant)>,
}

/// The readers of this host's streams whose reports publishers of this host received.
pub struct HeardReports {
    directory: PathBuf,
    trusted: Trusted,
    prefix: String,
    boards: BTreeMap<PathBuf, (Reader, Arc<Liveness>)>,
    readers: BTreeMap<(StreamId, Epoch, ReaderId), (PathBuf, HeardReport)>,
    looked: Instant,
    record: Vec<u8>,
}

impl ReportBoard {
    /// `address` is where the agent receives reports; no other socket in this network namespace has
    /// it.
    pub(crate) fn new(directory: &Path, sharing: Sharing, address: SocketAddr) -> Self {
        let version = if address.is_ipv4() { 4 } else { 6 };
        let name =
            format!("{}v{version}-{}.{}", prefix(sharing.authority), address.port(), shared::RING_EXTENSION);
        let path = directory.join(name);
        Self { path, sharing, writer: None, gave_up: false, record: Vec::new() }
    }

    /// Posts a report, unchanged.
    pub(crate) fn post(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        if self.writer.is_none() && !self.gave_up {
            let mut options = Options::default();
            options.capacity_bytes = BOARD_BYTES;
            (options.access, options.group) = (self.sharing.access, self.sharing.group);
            if let Some(directory) = self.path.parent() {
                // Boards of killed agents remain, and on a bus without shared memory nothing else
                // would remove them.
                let _ = shared::sweep(directory, PREFIX);
            }
            match shared::create(&self.path, &options) {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => {
                    self.gave_up = true;
                    tracing::debug!("what readers report is not shown on this host: {error}");
                }
            }
        }
        let Some(writer) = &mut self.writer else { return };
        self.record.clear();
        self.record.u64(now.as_nanos());
        self.record.text(&from.to_string());
        self.record.extend_from_slice(datagram);
        // A report has about a hundred bytes.
        let _ = writer.write(REPORT, [0; 2], &[&self.record]);
    }
}

impl HeardReports {
    /// Reads the boards in this directory: those of root, of this user and of the group that the sharing names.
    #[must_use]
    pub fn new(directory: &Path, sharing: Sharing) -> Self {
        Self {
            directory: directory.to_owned(),
            trusted: Trusted { group: sharing.group },
            prefix: prefix(sharing.authority),
            boards: BTreeMap::new(),
            readers: BTreeMap::new(),
            looked: clock::monotonic(),
            record: Vec::new(),
        }
    }

    /// Takes the reports since the last call.
    ///
    /// Cost: reads a directory, and the new records.
    pub fn look(&mut self) {
        self.look_at(clock::monotonic());
    }

    fn look_at(&mut self, now: Instant) {
        self.looked = now;
        self.find_boards();
        let Self { boards, readers, record, .. } = self;
        for (path, (ring, _)) in &mut *boards {
            // A board that is written faster than it is read does not stop the caller.
            for _ in 0..MAX_READERS {
                match ring.read(record) {
                    Read::Record { kind: REPORT, .. } => {
                        if let Some(heard) = decode(record) {
                            note(readers, path, heard);
                        }
                    }
                    Read::Record { .. } | Read::Lapped { .. } => {}
                    Read::Empty | Read::Closed | Read::Broken => break,
                }
            }
        }
        let is_over = |liveness: &Liveness| !liveness.writer_is_alive() || liveness.is_replaced();
        boards.retain(|_, (_, liveness)| !is_over(liveness));
        readers.retain(|_, (path, heard)| boards.contains_key(path) && now.since(heard.heard) < MAX_AGE);
    }

    /// Returns the readers of an epoch of a stream, in the order of their names.
    #[must_use]
    pub fn of(&self, stream: StreamId, epoch: Epoch) -> Vec<&HeardReport> {
        let all = (stream, epoch, ReaderId(0))..=(stream, epoch, ReaderId(u64::MAX));
        let mut heard: Vec<_> = self.readers.range(all).map(|(_, (_, heard))| heard).collect();
        heard.sort_by(|a, b| (&a.report.name, a.report.reader).cmp(&(&b.report.name, b.report.reader)));
        heard
    }

    /// Returns the age of a reader's report at the last call of `look`.
    #[must_use]
    pub fn age(&self, heard: &HeardReport) -> Duration {
        self.looked.since(heard.told())
    }

    fn find_boards(&mut self) {
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().and_then(|name| name.to_str());
            let is_board = path.extension().is_some_and(|extension| extension == shared::RING_EXTENSION)
                && name.is_some_and(|name| name.starts_with(&self.prefix));
            if !is_board || self.boards.contains_key(&path) {
                continue;
            }
            // A board that may not be read, is not trusted, or whose writer was killed, shows
            // nothing.
            let found = shared::look(&path).and_then(|found| found.trust(self.trusted)).ok();
            let found = found.filter(|found| found.liveness().writer_is_alive());
            if let Some(shared) = found.and_then(|found| found.open().ok()) {
                let board = (shared.ring().reader_at_oldest(), Arc::clone(shared.liveness()));
                self.boards.insert(path, board);
            }
        }
    }
}

impl HeardReport {
    /// Returns the elements per second that the reader received between its last two reports.
    #[must_use]
    pub fn elements_per_s(&self) -> Option<f64> {
        let (delivered, at) = self.before?;
        let seconds = self.told().since(at).as_secs_f64();
        let elements = self.report.elements.delivered.checked_sub(delivered)?;
        (seconds > 0.0).then(|| elements as f64 / seconds)
    }

    /// Returns the time at which the report was valid.
    fn told(&self) -> Instant {
        let nanos = u64::try_from(self.report.age.as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(self.heard.as_nanos().saturating_sub(nanos))
    }
}

fn note(
    readers: &mut BTreeMap<(StreamId, Epoch, ReaderId), (PathBuf, HeardReport)>,
    path: &Path,
    mut heard: HeardReport,
) {
    let key = (heard.report.stream, heard.report.epoch, heard.report.reader);
    if let Some((_, known)) = readers.get(&key) {
        heard.before = Some((known.report.elements.delivered, known.told()));
    } else if readers.len() >= MAX_READERS {
        return;
    }
    readers.insert(key, (path.to_owned(), heard));
}

fn decode(record: &[u8]) -> Option<HeardReport> {
    let mut cursor = Cursor::new(record);
    let heard = Instant::from_nanos(cursor.u64()?);
    let from = cursor.text()?.parse().ok()?;
    let Ok(Datagram::Report(report)) = Datagram::decode(cursor.rest()) else { return None };
    Some(HeardReport { report: *report, from, heard, before: None })
}

/// Reports received in another network namespace are those of another host.
fn prefix(authority: Option<PublicKey>) -> String {
    let namespace = sys::process::network_namespace().unwrap_or_default().to_string();
    format!("{PREFIX}{}.", of_laboratory(namespace, authority))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{AccountState, NetworkRows, ReaderRows};

    const STREAM: StreamId = StreamId(5);
    const EPOCH: Epoch = Epoch { start_ns: 1, incarnation: 2 };

    fn report(reader: u64, name: &str, delivered: u64) -> Vec<u8> {
        let elements = ReaderRows { next: delivered, per_sample: 1, delivered, ..ReaderRows::default() };
        let report = Report {
            stream: STREAM,
            epoch: EPOCH,
            reader: ReaderId(reader),
            name: name.to_owned(),
            state: AccountState::Open,
            age: Duration::from_millis(250),
            receive_buffer_bytes: 0,
            datagrams: NetworkRows::default(),
            elements,
            waiting: None,
        };
        let mut datagram = vec![0; wire::MAX_DATAGRAM_BYTES];
        let size_bytes = report.encode(&mut datagram).unwrap();
        datagram.truncate(size_bytes);
        datagram
    }

    fn board(directory: &Path, port: u16) -> ReportBoard {
        ReportBoard::new(directory, Sharing::default(), SocketAddr::from(([0; 4], port)))
    }

    #[test]
    fn what_publishers_hear_is_seen_with_rate_and_age_as_long_as_they_live() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let from = SocketAddr::from(([10, 84, 0, 2], 9));
        let (start, second) = (clock::monotonic(), Duration::from_secs(1));
        let (mut one, mut other) = (board(directory.path(), 1), board(directory.path(), 2));
        let mut heard = HeardReports::new(directory.path(), Sharing::default());
        heard.look_at(start);
        assert!(heard.of(STREAM, EPOCH).is_empty(), "no board is made for nothing");
        one.post(start, from, &report(1, "desk", 100));
        one.post(start + 2 * second, from, &report(1, "desk", 500));
        other.post(start, from, &report(2, "attic", 7));
        let now = start + 3 * second;
        heard.look_at(now);
        let readers = heard.of(STREAM, EPOCH);
        let names: Vec<_> = readers.iter().map(|it| (it.report.name.as_str(), it.elements_per_s())).collect();
        assert_eq!(names, [("attic", None), ("desk", Some(200.0))]);
        assert_eq!(heard.age(readers[1]), second + Duration::from_millis(250));
        assert_eq!(readers[1].from, from);
        assert!(heard.of(STREAM, Epoch { incarnation: 3, ..EPOCH }).is_empty(), "another epoch");
        drop(other);
        heard.look_at(now);
        assert_eq!(heard.of(STREAM, EPOCH).len(), 1, "its publisher has gone");
        heard.look_at(start + 2 * second + MAX_AGE);
        assert!(heard.of(STREAM, EPOCH).is_empty(), "not heard for too long");
    }

    #[test]
    fn the_board_of_a_killed_agent_goes_with_the_next_report() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let from = SocketAddr::from(([10, 84, 0, 2], 9));
        let (mut killed, mut other) = (board(directory.path(), 1), board(directory.path(), 2));
        killed.post(clock::monotonic(), from, &report(1, "desk", 100));
        // A copy has no writer that holds it, as after a kill.
        let left = killed.path.with_file_name(format!("{}v4-3.{}", prefix(None), shared::RING_EXTENSION));
        std::fs::copy(&killed.path, &left).unwrap();
        other.post(clock::monotonic(), from, &report(2, "attic", 7));
        assert!(!left.exists());
        assert!(killed.path.exists() && other.path.exists(), "those of live agents stay");
    }

    #[test]
    fn a_flood_of_made_up_readers_takes_bounded_memory() {
        let mut readers = BTreeMap::new();
        let heard = |reader| {
            let mut record = Vec::new();
            record.u64(1);
            record.text("10.84.0.2:9");
            record.extend(report(reader, "flood", 1));
            decode(&record).unwrap()
        };
        for reader in 0..=MAX_READERS as u64 {
            note(&mut readers, Path::new("one"), heard(reader));
        }
        assert_eq!(readers.len(), MAX_READERS);
        note(&mut readers, Path::new("one"), heard(0));
        assert!(readers[&(STREAM, EPOCH, ReaderId(0))].1.before.is_some(), "who is known is heard on");
    }

    #[test]
    fn what_no_agent_wrote_is_no_report() {
        let mut record = Vec::new();
        record.u64(1);
        record.text("10.84.0.2:9");
        record.extend(report(1, "desk", 1));
        assert!(decode(&record).is_some());
        for end in 0..record.len() {
            assert_eq!(decode(&record[..end]), None);
        }
    }
}
