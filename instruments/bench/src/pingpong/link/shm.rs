//! Two rings in shared memory as a carrier of messages, for two ends on one host: each end writes one and reads the
//! other.
//!
//! A message is cut into records, so that the reader copies one while the writer writes the next. A ring holds the largest
//! message, and only one is in flight: no reader is lapped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ring::shared::{self, Access};
use ring::{Doorbell, Read, Reader, Writer};
use sys::clock;

use super::stream::{Called, Carrier, HEAD_BYTES, StreamEnd, accept};
use super::{Attending, Far, LinkError, Listening, Near, POLL_INTERVAL, Task};
use crate::pingpong::options::Wait;

/// The memory file system that every Linux has.
const DIRECTORY: &str = "/dev/shm";
/// Prefix of the rings' names, followed by the token of the run and the end that writes the ring.
const PREFIX: &str = "tallycast-bench-pingpong-";

/// Largest record: small enough that reader and writer overlap at large messages. Units: bytes.
const RECORD_BYTES: usize = 256 << 10;
/// Room for a record's header and for the space that the ring keeps free before its writer.
const RECORD_OVERHEAD_BYTES: usize = 64;
/// The kind of the records; the ring does not interpret it.
const MESSAGE: u16 = 1;

/// Interval at which the far end looks for the near end's ring: a file that appears wakes nobody.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Either end of a connection.
struct Shm {
    writer: Writer,
    /// Running totals in every record: records and bytes before it.
    totals: [u64; 2],
    reader: Reader,
    doorbell: Arc<Doorbell>,
    record: Vec<u8>,
    how: Wait,
}

/// Outcome of a look into the ring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Record,
    Nothing,
    End,
    /// Overwritten or damaged: no end of this program does that.
    Broken,
}

impl Shm {
    /// Opens the other end's ring beside one's own.
    fn over(writer: Writer, other: &Path, how: Wait) -> Result<Self, LinkError> {
        let opened = shared::open(other)?;
        let (reader, doorbell) = (opened.ring().reader_at_head(), Arc::clone(opened.doorbell()));
        Ok(Self { writer, totals: [0; 2], reader, doorbell, record: Vec::with_capacity(RECORD_BYTES), how })
    }
}

impl Carrier for Shm {
    fn send(&mut self, bytes: &[u8]) -> Result<Option<usize>, LinkError> {
        let record = &bytes[..bytes.len().min(RECORD_BYTES)];
        self.writer.write(MESSAGE, self.totals, &[record]).expect("a ring takes records of this size");
        self.writer.ring_doorbell();
        self.totals[0] += 1;
        self.totals[1] += record.len() as u64;
        Ok(Some(record.len()))
    }

    fn receive(&mut self, memory: &mut [u8]) -> Result<Option<usize>, LinkError> {
        let Self { reader, doorbell, record, how, .. } = self;
        let mut look = || Some(read(reader, record)).filter(|seen| *seen != Seen::Nothing);
        let seen = match how {
            Wait::Sleep => doorbell.wait_until(POLL_INTERVAL, look),
            Wait::Spin => look(),
        };
        match seen {
            None | Some(Seen::Nothing) => Ok(None),
            Some(Seen::End) => Ok(Some(0)),
            Some(Seen::Broken) => Err(LinkError::Broken),
            Some(Seen::Record) if record.len() > memory.len() => Err(LinkError::TooMuch),
            Some(Seen::Record) => {
                // The record is the message's copy at this end; only a head is read from the memory.
                let head_bytes = record.len().min(HEAD_BYTES);
                memory[..head_bytes].copy_from_slice(&record[..head_bytes]);
                Ok(Some(record.len()))
            }
        }
    }
}

fn read(reader: &mut Reader, record: &mut Vec<u8>) -> Seen {
    match reader.read(record) {
        Read::Record { .. } => Seen::Record,
        Read::Empty => Seen::Nothing,
        Read::Closed => Seen::End,
        Read::Lapped { .. } | Read::Broken => Seen::Broken,
    }
}

/// Removes leftovers of benches that were killed.
pub(in crate::pingpong) fn sweep() {
    // Without the directory there is nothing to sweep; creating a ring reports that later.
    let _ = shared::sweep(Path::new(DIRECTORY), PREFIX);
}

/// Returns the path of the ring that an end writes.
fn path(token: u64, end: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{PREFIX}{token:016x}-{end}.{}", shared::RING_EXTENSION))
}

/// Creates the ring that an end writes: it holds the largest message, and the records around it.
fn create(task: &Task<'_>, token: u64, end: &str) -> Result<Writer, LinkError> {
    let message_bytes = HEAD_BYTES + task.options.largest_bytes() as usize;
    let records = message_bytes.div_ceil(RECORD_BYTES) + 2;
    let mut options = shared::Options::default();
    options.capacity_bytes = message_bytes + 2 * RECORD_BYTES + records * RECORD_OVERHEAD_BYTES;
    options.access = Access::Owner;
    Ok(shared::create(&path(token, end), &options)?)
}

/// Opens the client's end.
pub(super) fn connect(task: &Task<'_>, token: u64) -> Result<Box<dyn Near>, LinkError> {
    let carrier = Shm::over(create(task, token, "near")?, &path(token, "far"), task.options.wait)?;
    Ok(Box::new(StreamEnd::over(Box::new(carrier), task)))
}

/// The server's end, which waits for the client's ring.
struct ShmListening {
    writer: Option<Writer>,
    token: u64,
    /// Unused, as rings have no address; an address of this host, as the protocol of the control connection wants one.
    endpoint: SocketAddr,
}

/// Opens the server's end.
pub(super) fn listen(task: &Task<'_>, token: u64) -> Result<Box<dyn Listening>, LinkError> {
    let writer = Some(create(task, token, "far")?);
    Ok(Box::new(ShmListening { writer, token, endpoint: task.local }))
}

impl Listening for ShmListening {
    fn endpoint(&self) -> SocketAddr {
        self.endpoint
    }

    fn accept(
        mut self: Box<Self>,
        task: &Task<'_>,
        meanwhile: &mut dyn Attending,
    ) -> Result<Option<Box<dyn Far>>, LinkError> {
        let near = path(self.token, "near");
        let mut next = || -> Result<Option<Called>, LinkError> {
            if shared::look(&near).is_err() {
                clock::sleep_until(clock::monotonic() + LOOK_INTERVAL);
                return Ok(None);
            }
            let writer = self.writer.take().expect("a connection is made once");
            Ok(Some(Called::OfRun(Box::new(Shm::over(writer, &near, task.options.wait)?))))
        };
        accept(task, 0, meanwhile, &mut next)
    }
}
