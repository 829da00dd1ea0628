//! The board on which a drop reporter (a process that sees the kernel's drop events) posts freed
//! datagrams for this host's processes.
//!
//! A reader knows which numbers are missing; a process with the privilege knows which datagrams the
//! kernel dropped and why. That process writes [notices](DropNotice) into a ring in shared memory,
//! and agents read them while an account waits for evidence. Each network namespace has one board
//! with one writer; it is trusted only if root or the same user owns it.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ledger::{DropNotice, KernelName, Stage};
use ring::shared::{self, CreateError, Liveness, Options, Trusted};
use ring::{Read, Reader, Writer};
use units::{Instant, StreamId};

use crate::bytes::{Cursor, Put};

/// Kinds of the board's records: a drop notice, and the scope (a byte: 1 if all drops are reported,
/// else 0).
const NOTICE: u16 = 1;
const SCOPE: u16 = 2;
/// Interval at which a missing board is looked for, and the writer of a present one is checked for
/// being alive.
const BOARD_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of notices taken in one call, so that a flood of them does not stop the streams.
const MAX_NOTICES: usize = 4_096;

/// The writing end of the board; dropping it removes the board.
pub struct DropBoard {
    writer: Writer,
    record: Vec<u8>,
}

impl DropBoard {
    /// Creates the board, readable by every user of this host.
    ///
    /// # Errors
    /// [`CreateError`]: above all [`CreateError::InUse`] while another process reports.
    pub fn open(directory: &Path) -> Result<Self, CreateError> {
        let path = path(directory, sys::process::network_namespace());
        let writer = shared::create(&path, &Options::default())?;
        Ok(Self { writer, record: Vec::new() })
    }

    /// Posts whether all drops of this namespace are reported. Must be repeated, because a reader
    /// may start later.
    pub fn post_scope(&mut self, sees_all: bool) {
        let _ = self.writer.write(SCOPE, [0; 2], &[&[u8::from(sees_all)]]);
    }

    /// Posts dropped datagrams. A process that reads too late misses them: the board has room for
    /// about ten thousand.
    pub fn post(&mut self, notice: &DropNotice) {
        self.record.clear();
        encode(notice, &mut self.record);
        // A record has about a hundred bytes.
        let _ = self.writer.write(NOTICE, [0; 2], &[&self.record]);
    }
}

/// The reading end of the board, whether or not one exists.
pub(crate) struct DropNews {
    path: PathBuf,
    board: Option<(Reader, Arc<Liveness>)>,
    next_look: Instant,
    record: Vec<u8>,
    /// Scope as the board last reported it.
    sees_all: bool,
}

impl DropNews {
    pub(crate) fn new(directory: &Path, now: Instant) -> Self {
        let path = path(directory, sys::process::network_namespace());
        Self { path, board: None, next_look: now, record: Vec::new(), sees_all: false }
    }

    /// Returns whether a drop reporter is running.
    pub(crate) const fn has_board(&self) -> bool {
        self.board.is_some()
    }

    /// Returns whether a drop reporter is running that sees all drops of the kernel.
    pub(crate) const fn sees_all(&self) -> bool {
        self.sees_all && self.has_board()
    }

    /// Returns the notices since the last call; the first call returns all that the board still
    /// holds.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<DropNotice> {
        if now >= self.next_look {
            self.next_look = now + BOARD_CHECK_INTERVAL;
            let is_over = |liveness: &Liveness| !liveness.writer_is_alive() || liveness.is_replaced();
            if self.board.as_ref().is_none_or(|(_, liveness)| is_over(liveness)) {
                // The last notices of a writer that has ended have been read, or are lost.
                self.board = find(&self.path);
                self.sees_all = false;
            }
        }
        let Some((reader, _)) = &mut self.board else { return Vec::new() };
        let mut notices = Vec::new();
        while notices.len() < MAX_NOTICES {
            match reader.read(&mut self.record) {
                Read::Record { kind: NOTICE, .. } => notices.extend(decode(&self.record)),
                Read::Record { kind: SCOPE, .. } => self.sees_all = self.record == [1],
                Read::Record { .. } | Read::Lapped { .. } => {}
                Read::Empty => break,
                Read::Closed | Read::Broken => {
                    self.board = None;
                    break;
                }
            }
        }
        notices
    }
}

/// Returns whether a notice concerns datagrams for a socket bound to `address`.
pub(crate) fn concerns_reader(notice: &DropNotice, address: SocketAddr, cookie: Option<u64>) -> bool {
    let is_on_receivers_way = (Stage::Network..=Stage::ReceiverUdpMemory).contains(&notice.stage);
    let is_this_socket = notice.socket.is_none_or(|socket| cookie == Some(socket));
    let is_bound = |to: IpAddr| address.ip().is_unspecified() || address.ip() == to;
    let is_addressed = address.port() == notice.destination.port() && is_bound(notice.destination.ip());
    is_on_receivers_way && is_this_socket && is_addressed
}

/// Returns whether a notice concerns datagrams that never left their sender's host.
pub(crate) const fn concerns_sender(notice: &DropNotice) -> bool {
    matches!(notice.stage, Stage::SenderIp | Stage::SenderQdisc | Stage::SenderNic)
}

/// Returns the path of a network namespace's board: drops in other namespaces do not concern its
/// readers.
fn path(directory: &Path, namespace: Option<u32>) -> PathBuf {
    let namespace = namespace.unwrap_or_default();
    directory.join(format!("tallycast.drops.{namespace}.{}", shared::RING_EXTENSION))
}

/// Opens the board if there is one that is trusted.
fn find(path: &Path) -> Option<(Reader, Arc<Liveness>)> {
    let found = shared::look(path).and_then(|found| found.trust(Trusted::default())).ok()?;
    if !found.liveness().writer_is_alive() {
        return None;
    }
    let shared = found.open().ok()?;
    Some((shared.ring().reader_at_oldest(), Arc::clone(shared.liveness())))
}

fn encode(notice: &DropNotice, out: &mut Vec<u8>) {
    let DropNotice { stream, incarnation, numbers, stage, reason, destination, socket } = notice;
    out.u64(stream.0);
    out.u64(*incarnation);
    out.range(numbers);
    out.u64(socket.unwrap_or(0));
    out.push(stage.code());
    out.text(reason.as_str());
    out.text(&destination.to_string());
}

fn decode(bytes: &[u8]) -> Option<DropNotice> {
    let mut cursor = Cursor::new(bytes);
    let stream = StreamId(cursor.u64()?);
    let (incarnation, numbers) = (cursor.u64()?, cursor.range()?);
    let socket = Some(cursor.u64()?).filter(|socket| *socket != 0);
    let stage = Stage::from_code(cursor.u8()?)?;
    let reason = KernelName::new(cursor.text()?);
    let destination = cursor.text()?.parse().ok()?;
    let is_whole = cursor.is_empty() && numbers.start < numbers.end;
    is_whole.then_some(DropNotice { stream, incarnation, numbers, stage, reason, destination, socket })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::clock;

    fn notice() -> DropNotice {
        DropNotice {
            stream: StreamId(5),
            incarnation: 6,
            numbers: 7..9,
            stage: Stage::ReceiverSocketBuffer,
            reason: KernelName::new("SOCKET_RCVBUFF @ udp_queue_rcv_one_skb"),
            destination: "239.84.1.2:7400".parse().unwrap(),
            socket: Some(10),
        }
    }

    #[test]
    fn what_is_posted_is_read_by_those_who_come_later_and_once() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let now = clock::monotonic();
        let mut news = DropNews::new(directory.path(), now);
        assert!(news.take(now).is_empty() && !news.has_board());
        let mut board = DropBoard::open(directory.path()).unwrap();
        assert!(matches!(DropBoard::open(directory.path()), Err(CreateError::InUse { .. })));
        let for_all = DropNotice { socket: None, ..notice() };
        for posted in [&notice(), &for_all] {
            board.post(posted);
        }
        assert!(news.take(now).is_empty(), "it looks for a board once a second");
        assert_eq!(news.take(now + BOARD_CHECK_INTERVAL), [notice(), for_all]);
        assert!(news.take(now + BOARD_CHECK_INTERVAL).is_empty() && news.has_board());
        drop(board);
        assert!(news.take(now + BOARD_CHECK_INTERVAL).is_empty() && !news.has_board());
        let mut board = DropBoard::open(directory.path()).unwrap();
        board.post(&notice());
        assert_eq!(news.take(now + 2 * BOARD_CHECK_INTERVAL), [notice()]);
    }

    #[test]
    fn a_board_says_whether_it_tells_all_and_only_while_it_is_there() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let now = clock::monotonic();
        let mut news = DropNews::new(directory.path(), now);
        for sees_all in [true, false] {
            let mut board = DropBoard::open(directory.path()).unwrap();
            let now = now + if sees_all { BOARD_CHECK_INTERVAL } else { 3 * BOARD_CHECK_INTERVAL };
            news.take(now);
            assert!(!news.sees_all(), "it has said nothing yet");
            board.post_scope(sees_all);
            assert_eq!((news.take(now), news.sees_all()), (vec![], sees_all));
            drop(board);
            news.take(now + BOARD_CHECK_INTERVAL);
            assert!(!news.sees_all());
        }
    }

    #[test]
    fn a_notice_concerns_the_socket_it_names_or_all_that_are_bound_to_its_address() {
        let (group, any): (SocketAddr, SocketAddr) =
            ("239.84.1.2:7400".parse().unwrap(), "0.0.0.0:7400".parse().unwrap());
        let concerns = |notice: &DropNotice, at| concerns_reader(notice, at, Some(10));
        assert!(concerns(&notice(), group) && concerns(&notice(), any));
        assert!(!concerns_reader(&notice(), group, Some(11)), "another reader's socket");
        let for_all = DropNotice { socket: None, ..notice() };
        assert!(concerns_reader(&for_all, group, Some(11)));
        assert!(!concerns(&for_all, "239.84.1.3:7400".parse().unwrap()));
        assert!(!concerns(&for_all, "0.0.0.0:7401".parse().unwrap()));
        let senders = DropNotice { stage: Stage::SenderQdisc, ..notice() };
        assert!(!concerns(&senders, group), "the publisher tells of its own");
        assert!(concerns_sender(&senders) && !concerns_sender(&notice()));
    }

    #[test]
    fn what_no_writer_wrote_is_no_notice() {
        let mut bytes = Vec::new();
        encode(&notice(), &mut bytes);
        assert_eq!(decode(&bytes), Some(notice()));
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None);
        }
        bytes.push(0);
        assert_eq!(decode(&bytes), None, "something behind it");
        let mut backwards = Vec::new();
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is wrong with it")]
        encode(&DropNotice { numbers: 9..7, ..notice() }, &mut backwards);
        assert_eq!(decode(&backwards), None);
    }
}
