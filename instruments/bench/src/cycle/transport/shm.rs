//! A ring in shared memory: one copy in, one copy out, and a wake-up if the reader sleeps.
//!
//! A cycle is one record, since a ring takes any record that fills at most half of it. The ring holds at least
//! [`RING_CYCLES`] cycles: a reader that is further behind is lapped, and the missed pieces are missing in its
//! account.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use probe::cycle::Cut;
use ring::shared::{self, Access, Options};
use ring::{Doorbell, Read, Reader, Writer};
use sys::clock;
use units::Instant;

use super::{Opened, ReceiveEnd, SendEnd, Task, TransportError};

/// Minimum number of cycles in a ring: the newest, and a few for a reader that is held up.
const RING_CYCLES: usize = 4;

/// Room for a record's header and for the space that the ring keeps free before its writer.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// The memory file system that every Linux has.
const DIRECTORY: &str = "/dev/shm";
/// Prefix of the rings' names, followed by the process of the writer, and the run.
const PREFIX: &str = "tallycast-bench-cycle-";

/// The kind of the records; the ring does not interpret it.
const PIECE: u16 = 1;

/// Records taken before the reader checks for messages.
const RECORDS_AT_ONCE: u64 = 64;

/// Time a reader sleeps after its writer has closed the ring, until the bench reports the sent counts.
const AFTER_END: Duration = Duration::from_millis(1);

struct Sender {
    writer: Writer,
    /// Running totals in every record: pieces and bytes before it.
    totals: [u64; 2],
}

struct Receiver {
    reader: Reader,
    doorbell: Arc<Doorbell>,
    record: Vec<u8>,
}

/// Removes leftovers of benches that were killed.
pub(super) fn sweep() {
    // Without the directory there is nothing to sweep; creating a ring reports that later.
    let _ = shared::sweep(Path::new(DIRECTORY), PREFIX);
}

/// Returns the size of a ring for a run.
pub(super) fn ring_bytes(cut: &Cut) -> usize {
    RING_CYCLES * (cut.cycle_bytes() + cut.pieces() as usize * RECORD_OVERHEAD_BYTES)
}

pub(super) fn open_send(task: &Task) -> Result<Opened<dyn SendEnd>, TransportError> {
    let name = format!("{PREFIX}{}-{}.{}", std::process::id(), task.run, shared::RING_EXTENSION);
    let path = PathBuf::from(DIRECTORY).join(name);
    let mut options = Options::default();
    options.capacity_bytes = task.buffer_bytes;
    options.access = Access::Owner;
    let writer = shared::create(&path, &options)?;
    let end = Box::new(Sender { writer, totals: [0; 2] });
    Ok(Opened { end, endpoint: path.display().to_string(), notes: Vec::new() })
}

pub(super) fn open_receive(task: &Task) -> Result<Opened<dyn ReceiveEnd>, TransportError> {
    let opened = shared::open(Path::new(&task.endpoint))?;
    let (reader, doorbell) = (opened.ring().reader_at_head(), Arc::clone(opened.doorbell()));
    // Touched before the run: the first cycle must not pay for page faults.
    let record = vec![0xff; task.unit_bytes];
    let end = Box::new(Receiver { reader, doorbell, record });
    Ok(Opened { end, endpoint: task.endpoint.clone(), notes: Vec::new() })
}

impl SendEnd for Sender {
    fn send(&mut self, pieces: &[&[u8]]) -> Result<u64, TransportError> {
        for piece in pieces {
            self.writer.write(PIECE, self.totals, &[piece])?;
            self.totals[0] += 1;
            self.totals[1] += piece.len() as u64;
        }
        self.writer.ring_doorbell();
        Ok(0)
    }
}

impl ReceiveEnd for Receiver {
    fn receive(&mut self, until: Instant, take: &mut dyn FnMut(&[u8])) -> Result<u64, TransportError> {
        let Self { reader, doorbell, record } = self;
        let timeout = until.since(clock::monotonic());
        let first =
            doorbell.wait_until(timeout, || Some(read(reader, record)).filter(|it| *it != Seen::Nothing));
        match first {
            None | Some(Seen::Nothing) => return Ok(0),
            Some(Seen::End) => {
                clock::sleep_until(until.min(clock::monotonic() + AFTER_END));
                return Ok(0);
            }
            Some(Seen::Broken) => return Err(TransportError::Broken),
            Some(Seen::Record) => take(record),
        }
        let mut taken = 1;
        while taken < RECORDS_AT_ONCE && read(reader, record) == Seen::Record {
            take(record);
            taken += 1;
        }
        Ok(taken)
    }

    fn dropped(&self) -> Option<u64> {
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Record,
    Nothing,
    End,
    Broken,
}

/// Reads the next record; a lapped reader continues at the next whole one.
fn read(reader: &mut Reader, record: &mut Vec<u8>) -> Seen {
    loop {
        match reader.read(record) {
            Read::Record { .. } => return Seen::Record,
            Read::Lapped { .. } => {}
            Read::Empty => return Seen::Nothing,
            Read::Closed => return Seen::End,
            Read::Broken => return Seen::Broken,
        }
    }
}
