//! Event files: the snapshots and events of a watch, so that it can be evaluated again elsewhere.
//!
//! JSON, one object per line: first the kind of file, then snapshots, each with its drop events. A snapshot has only
//! the counters that changed. `docs/reference/formats/doctor-events.md` is the manual.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use diagnose::{Losses, Numbers, Observed, Settings, Snapshot, Socket, Watch};
use serde::{Deserialize, Serialize};
use serde_json::json;
use units::Instant;

use crate::seen::Seen;
use crate::wanted::Wanted;

/// Name of the format in the first line.
const FORMAT: &str = "tallycast doctor events";
const VERSION: u64 = 1;

/// Writer of an event file.
#[derive(Debug)]
pub(crate) struct Recorder {
    output: BufWriter<File>,
    /// Counters of the last snapshot.
    counters: BTreeMap<String, u64>,
}

/// Evaluation of an event file.
pub struct Replay {
    lines: Lines,
    counters: BTreeMap<String, u64>,
    wanted: Wanted,
    watch: Watch,
    /// Header of the file.
    pub about: About,
}

/// First line.
#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u64,
    #[serde(flatten)]
    about: About,
    #[serde(flatten)]
    wanted: Wanted,
}

/// Header of an event file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// Release of the kernel.
    pub kernel: String,
    /// True if the file has single datagrams.
    pub names_datagrams: bool,
}

/// Any other line: a snapshot, and the drop events before it.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(rename = "look")]
    changes: Changes,
    drops: Option<Observed>,
}

/// A snapshot as the changes of one before.
#[derive(Serialize, Deserialize)]
struct Changes {
    at_ns: Instant,
    /// Counters that are new or have changed.
    counters: BTreeMap<String, u64>,
    gone: BTreeSet<String>,
    /// `None` if no counter rose that they explain, and in files of older doctors.
    levels: Option<BTreeMap<String, u64>>,
    sockets: Vec<Socket>,
    early_drops: Vec<(u64, u32)>,
    devices: Vec<(u32, String)>,
    #[serde(flatten)]
    settings: Settings,
}

/// Reason why an event file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be opened or read.
    #[error("the event file cannot be read")]
    File(#[from] io::Error),
    /// It is no event file, or one of a later version.
    #[error("not an event file of version {VERSION}; write one with `tallycast doctor watch --record FILE`")]
    NotOne,
    /// A line is invalid.
    #[error(
        "line {0} of the event file is invalid: it was changed or damaged; the lines before it were evaluated"
    )]
    Line(usize),
    /// A line, or the counters kept from earlier snapshots, is longer than any host's.
    #[error(
        "line {0} of the event file is longer than {LONGEST} bytes: the file is damaged or not an event file"
    )]
    TooLong(usize),
}

/// Maximum size of a line, in bytes. A snapshot of ten thousand sockets takes some three million.
const LONGEST: usize = 1 << 25;

/// Lines of a file, each of a size that can be held.
struct Lines {
    input: Box<dyn BufRead>,
    /// Number of lines read.
    count: usize,
}

impl Lines {
    /// Returns the next line, or none if it is no text; `None` at the end.
    fn next(&mut self) -> Result<Option<String>, ReplayError> {
        let mut bytes = Vec::new();
        let most = LONGEST as u64 + 1;
        if self.input.by_ref().take(most).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        self.count += 1;
        if bytes.len() > LONGEST {
            return Err(ReplayError::TooLong(self.count));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| ReplayError::Line(self.count))
    }
}

impl Recorder {
    /// Creates a file with the first snapshot.
    ///
    /// # Errors
    /// If it cannot be written; an existing file of that name is overwritten.
    pub(crate) fn begin(
        path: &Path,
        wanted: &Wanted,
        first: &Snapshot,
        names_datagrams: bool,
    ) -> io::Result<Self> {
        let output = BufWriter::new(File::create(path)?);
        let mut recorder = Self { output, counters: BTreeMap::new() };
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let about = About { kernel: kernel.trim().to_owned(), names_datagrams };
        let head = Head { format: FORMAT.to_owned(), version: VERSION, about, wanted: wanted.clone() };
        recorder.write(&head)?;
        recorder.write_snapshot(first, None)?;
        Ok(recorder)
    }

    /// Writes a snapshot, and the drops before it.
    ///
    /// # Errors
    /// If it cannot be written, as to a full disk; earlier snapshots stay in the file.
    pub(crate) fn write_snapshot(
        &mut self,
        snapshot: &Snapshot,
        observed: Option<&Observed>,
    ) -> io::Result<()> {
        let changes = Changes::between(&self.counters, snapshot);
        self.counters.clone_from(&snapshot.counters);
        self.write(&Line { changes, drops: observed.cloned() })?;
        self.output.flush()
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        writeln!(self.output, "{}", json!(line))
    }
}

impl Replay {
    /// Opens an event file.
    ///
    /// # Errors
    /// [`ReplayError`] if it cannot be read or is none.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        Self::read(BufReader::new(File::open(path)?))
    }

    /// Reads an event file from any input.
    ///
    /// # Errors
    /// [`ReplayError`] if it cannot be read or is none.
    pub fn read(input: impl BufRead + 'static) -> Result<Self, ReplayError> {
        let mut lines = Lines { input: Box::new(input), count: 0 };
        let head = match lines.next() {
            Err(ReplayError::Line(_) | ReplayError::TooLong(_)) => return Err(ReplayError::NotOne),
            head => head?,
        };
        let Head { about, wanted, .. } = head
            .and_then(|line| serde_json::from_str(&line).ok())
            .filter(|head: &Head| head.format == FORMAT && head.version == VERSION)
            .ok_or(ReplayError::NotOne)?;
        let mut counters = BTreeMap::new();
        let first = lines.next()?.and_then(|line| read_line(&line, &mut counters));
        let (first, _) = first.ok_or(ReplayError::Line(2))?;
        Ok(Self { lines, counters, wanted, watch: Watch::begin(first), about })
    }

    /// Evaluates the next snapshot; `None` at the end.
    ///
    /// # Errors
    /// [`ReplayError`]; earlier results stay valid.
    pub fn next_snapshot(&mut self) -> Result<Option<Seen>, ReplayError> {
        let Some(line) = self.lines.next()? else { return Ok(None) };
        let number = self.lines.count;
        let (snapshot, observed) = read_line(&line, &mut self.counters).ok_or(ReplayError::Line(number))?;
        // A first snapshot has all of them in one line: no snapshot keeps more than that.
        if self.counters.keys().map(String::len).sum::<usize>() > LONGEST {
            return Err(ReplayError::TooLong(number));
        }
        let before = self.watch.last().at;
        if snapshot.at < before {
            return Err(ReplayError::Line(number));
        }
        let time = snapshot.at.since(before);
        let mut losses = self.watch.compare(snapshot, observed);
        losses.findings.retain(|finding| self.wanted.has_finding(finding));
        Ok(Some(Seen { losses, time, recording_failed: None }))
    }

    /// Ends and returns losses that were not reported yet.
    pub fn finish(&mut self) -> Losses {
        self.watch.finish()
    }
}

impl Changes {
    fn between(before: &BTreeMap<String, u64>, snapshot: &Snapshot) -> Self {
        let levels = changed(&snapshot.levels, &BTreeMap::new());
        Self {
            at_ns: snapshot.at,
            counters: changed(&snapshot.counters, before),
            gone: before.keys().filter(|name| !snapshot.counters.contains_key(*name)).cloned().collect(),
            levels: (!levels.is_empty()).then_some(levels),
            sockets: snapshot.sockets.clone(),
            early_drops: snapshot.early_drops.iter().map(|(cookie, drops)| (*cookie, *drops)).collect(),
            devices: snapshot.devices.iter().map(|(number, name)| (*number, name.clone())).collect(),
            settings: snapshot.settings,
        }
    }

    /// Returns the snapshot, with the counters of the one before; `None` if a count is too large.
    fn apply(mut self, counters: &mut BTreeMap<String, u64>) -> Option<Snapshot> {
        let levels = self.levels.unwrap_or_default();
        let is_sound = self.counters.values().chain(levels.values()).all(|count| *count < MAX_COUNT);
        is_sound.then(|| {
            counters.append(&mut self.counters);
            counters.retain(|name, _| !self.gone.contains(name));
            self.sockets.sort_by_key(|socket| socket.cookie);
            Snapshot {
                at: self.at_ns,
                counters: counters.clone(),
                levels,
                sockets: self.sockets,
                early_drops: self.early_drops.into_iter().collect(),
                devices: self.devices.into_iter().collect(),
                settings: self.settings,
            }
        })
    }
}

/// Returns the changed counters. Values that a reader would refuse are left out: a driver that counts backwards from
/// zero.
fn changed(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let changed =
        now.iter().filter(|(name, number)| before.get(*name) != Some(number) && **number < MAX_COUNT);
    changed.map(|(name, number)| (name.clone(), *number)).collect()
}

/// Parses a snapshot and its events; `None` for any other line.
fn read_line(line: &str, counters: &mut BTreeMap<String, u64>) -> Option<(Snapshot, Option<Observed>)> {
    let Line { changes, mut drops } = serde_json::from_str(line).ok()?;
    for event in drops.iter_mut().flat_map(|observed| &mut observed.events) {
        event.numbers = event.numbers.filter(are_sound);
        u32::try_from(event.count).ok()?;
    }
    Some((changes.apply(counters)?, drops))
}

fn are_sound(numbers: &Numbers) -> bool {
    numbers.first <= numbers.last && numbers.last < u64::MAX
}

/// Maximum of a counter: sums of a few smaller ones do not overflow.
const MAX_COUNT: u64 = 1 << 56;

#[cfg(test)]
mod tests {
    use super::*;
    use diagnose::{DropEvent, Owner, Thread};
    use std::fs;

    /// Records two snapshots of a socket that dropped nine datagrams, each named.
    fn recorded(path: &Path) {
        let socket = |drops| Socket {
            cookie: 7,
            local: "127.0.0.1:7400".parse().unwrap(),
            buffer_bytes: 8_192,
            drops,
            owner: Some(Owner {
                pid: 3,
                name: "reader".to_owned(),
                threads: vec![Thread { tid: 3, ran_ns: 1, waited_ns: 2, major_faults: 4, is_blocked: false }],
            }),
        };
        let snapshot = |at, drops: u32| Snapshot {
            at: Instant::from_nanos(at),
            counters: [("UdpRcvbufErrors", drops.into()), ("UdpInErrors", drops.into()), ("IpForwarding", 2)]
                .map(|(name, count): (&str, u64)| (name.to_owned(), count))
                .into(),
            levels: [("UDP mem".to_owned(), u64::from(drops)), ("net.ipv4.udp_mem".to_owned(), 90)].into(),
            sockets: vec![socket(drops)],
            early_drops: [(7, drops)].into(),
            devices: [(1, "lo".to_owned())].into(),
            settings: Settings { rmem_max_bytes: Some(212_992), ..Settings::default() },
        };
        let event = DropEvent {
            at: Instant::from_nanos(5),
            reason: "SOCKET_RCVBUFF".into(),
            location: Some("udp_queue_rcv_one_skb".into()),
            socket: Some(7),
            namespace: Some(9),
            device: None,
            is_incoming: true,
            source: "127.0.0.1:4000".parse().unwrap(),
            destination: "127.0.0.1:7400".parse().unwrap(),
            fragment: None,
            numbers: Some(Numbers { stream: u64::MAX, incarnation: 1, first: 3, last: 11 }),
            count: 9,
        };
        let wanted = Wanted { ports: [7_400].into(), ..Wanted::default() };
        let mut recorder = Recorder::begin(path, &wanted, &snapshot(0, 0), true).unwrap();
        let observed = Observed { events: vec![event], is_of_ports: true };
        recorder.write_snapshot(&snapshot(1_000_000_000, 9), Some(&observed)).unwrap();
    }

    fn replayed(path: &Path) -> Result<Vec<Losses>, ReplayError> {
        let mut replay = Replay::open(path)?;
        let mut losses = Vec::new();
        while let Some(seen) = replay.next_snapshot()? {
            losses.push(seen.losses);
        }
        losses.push(replay.finish());
        Ok(losses)
    }

    #[test]
    fn lines_are_written_byte_for_byte_as_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        recorded(&path);
        let text = fs::read_to_string(&path).unwrap();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(text.replace(kernel.trim(), "6.18.0"), include_str!("../tests/recorded.jsonl"));
    }

    #[test]
    fn what_is_read_is_written_again() {
        for line in include_str!("../tests/events.jsonl").lines().skip(1) {
            let mut expected: serde_json::Value = serde_json::from_str(line).unwrap();
            // Null in files of today, absent in older ones.
            expected["look"]["levels"] = expected["look"]["levels"].take();
            assert_eq!(json!(serde_json::from_str::<Line>(line).unwrap()), expected);
        }
    }

    #[test]
    fn what_was_recorded_is_judged_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        recorded(&path);
        let losses = replayed(&path).unwrap();
        let finding = &losses[0].findings[0];
        assert_eq!((finding.count, finding.not_observed, finding.datagrams.len()), (9, Some(0), 1));
        assert_eq!(finding.datagrams[0].stream, Some((u64::MAX, 1)));
        assert!(finding.cause.is_some(), "threads are recorded");
        assert_eq!((losses.len(), losses[1].findings.len()), (2, 0));
    }

    #[test]
    fn what_explains_a_loss_is_recorded_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let snapshot = |seconds: u64, counters: &[(&str, u64)], levels: Vec<(String, u64)>, faults| {
            let thread = Thread { tid: 3, ran_ns: 1, waited_ns: 2, major_faults: faults, is_blocked: true };
            let drops = if seconds == 0 { 0 } else { 9 };
            Snapshot {
                at: Instant::from_nanos(seconds * 1_000_000_000),
                counters: counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
                levels: levels.into_iter().collect(),
                sockets: vec![Socket {
                    cookie: 7,
                    local: "127.0.0.1:7400".parse().unwrap(),
                    buffer_bytes: 8_192,
                    drops,
                    owner: Some(Owner { pid: 3, name: "reader".to_owned(), threads: vec![thread] }),
                }],
                early_drops: [(7, drops)].into(),
                devices: [(2, "eth0".to_owned())].into(),
                settings: Settings::default(),
            }
        };
        let driver = "ethtool:rx0_xdp_drops/eth0";
        let before = snapshot(
            0,
            &[(driver, 5), ("ethtool:rx0_drops/eth0", u64::MAX), ("pressure:io_some_us", 4)],
            vec![],
            0,
        );
        let disk = diagnose::disk_levels("/var", 100, 1_000);
        let after = snapshot(
            1,
            &[(driver, 8), ("pressure:io_some_us", 900_004), ("UdpRcvbufErrors", 9), ("UdpInErrors", 9)],
            disk.to_vec(),
            2,
        );
        let mut recorder = Recorder::begin(&path, &Wanted::default(), &before, false).unwrap();
        recorder.write_snapshot(&after, None).unwrap();
        let replayed = replayed(&path).unwrap().remove(0);
        assert_eq!(replayed, Watch::begin(before).compare(after, None));
        let [buffer, program] = &replayed.findings[..] else { panic!("{replayed:?}") };
        assert_eq!((program.count, program.evidence[0].counter.as_str()), (3, driver));
        assert_eq!((buffer.cause, buffer.levels.len()), (Some(diagnose::BufferCause::BlockedByDisk), 1));
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&u64::MAX.to_string()), "no reader takes such a count");
    }

    #[test]
    fn counters_that_did_not_change_are_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        recorded(&path);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("IpForwarding").count(), 1);
    }

    #[test]
    fn another_file_is_refused_and_a_damaged_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        for text in ["", "nonsense\n", "{}\n", "{\"format\":\"tallycast doctor events\",\"version\":2}\n"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(replayed(&path), Err(ReplayError::NotOne)), "{text}");
        }
        recorded(&path);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        fs::write(&path, format!("{}\n{}\n{}\n", lines[0], lines[1], &lines[2][..lines[2].len() / 2]))
            .unwrap();
        assert!(matches!(replayed(&path), Err(ReplayError::Line(3))));
        // Back in time.
        fs::write(&path, format!("{}\n{}\n{}\n", lines[0], lines[2], lines[1])).unwrap();
        assert!(matches!(replayed(&path), Err(ReplayError::Line(3))));
    }

    #[test]
    fn whatever_is_changed_in_a_file_it_is_judged_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        recorded(&path);
        let text = fs::read(&path).unwrap();
        let mut random = units::Random::new(1);
        for _ in 0..2_000 {
            let mut changed = text.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(changed.len() as u64) as usize;
                changed[at] = b"0123456789,:{}[]\"nul -tf"[random.below(24) as usize];
            }
            fs::write(&path, &changed).unwrap();
            let _ = replayed(&path);
        }
    }
}
