//! Two rings in shared memory as a carrier of messages, for two ends on one host: each end writes one and reads the
//! other.
//!
//! A message is cut into records, so that the reader copies one while the writer writes the next. A ring holds the largest
//! message, and only one is in flight: no reader is lapped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::shared;
use sys::clock;

use super::stream::{Called, Carrier, HEAD_BYTES, StreamEnd, accept};
use super::{Attending, Far, LinkError, Listening, Near, POLL_INTERVAL, Task};
use crate::pingpong::options::Wait;
use crate::shared_ring::{self, RECORD_OVERHEAD_BYTES, RingReader, RingWriter, Seen};

/// Prefix of the rings' names, followed by the token of the run and the end that writes the ring.
const PREFIX: &str = "tallycast-bench-pingpong-";

/// Largest record: small enough that reader and writer overlap at large messages. Units: bytes.
const RECORD_BYTES: usize = 256 << 10;

/// Interval at which the far end looks for the near end's ring: a file that appears wakes nobody.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Either end of a connection.
struct Shm {
    writer: RingWriter,
    reader: RingReader,
    how: Wait,
}

impl Shm {
    /// Opens the other end's ring beside one's own.
    fn over(writer: RingWriter, other: &Path, how: Wait) -> Result<Self, LinkError> {
        Ok(Self { writer, reader: RingReader::open(other, RECORD_BYTES)?, how })
    }
}

impl Carrier for Shm {
    fn send(&mut self, bytes: &[u8]) -> Result<Option<usize>, LinkError> {
        let record = &bytes[..bytes.len().min(RECORD_BYTES)];
        self.writer.write(record).expect("a ring takes records of this size");
        self.writer.wake();
        Ok(Some(record.len()))
    }

    fn receive(&mut self, memory: &mut [u8]) -> Result<Option<usize>, LinkError> {
        let seen = match self.how {
            Wait::Sleep => self.reader.wait(POLL_INTERVAL),
            Wait::Spin => self.reader.look(),
        };
        let record = self.reader.record();
        match seen {
            None => Ok(None),
            Some(Seen::End) => Ok(Some(0)),
            // No end of this program overwrites what is not read.
            Some(Seen::Lapped | Seen::Broken) => Err(LinkError::Broken),
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

/// Removes leftovers of benches that were killed.
pub(in crate::pingpong) fn sweep() {
    shared_ring::sweep(PREFIX);
}

/// Returns the path of the ring that an end writes.
fn path(token: u64, end: &str) -> PathBuf {
    shared_ring::path(&format!("{PREFIX}{token:016x}-{end}"))
}

/// Creates the ring that an end writes: it holds the largest message, and the records around it.
fn create(task: &Task<'_>, token: u64, end: &str) -> Result<RingWriter, LinkError> {
    let message_bytes = HEAD_BYTES + task.options.largest_bytes() as usize;
    let records = message_bytes.div_ceil(RECORD_BYTES) + 2;
    let capacity_bytes = message_bytes + 2 * RECORD_BYTES + records * RECORD_OVERHEAD_BYTES;
    Ok(RingWriter::create(&path(token, end), capacity_bytes)?)
}

/// Opens the client's end.
pub(super) fn connect(task: &Task<'_>, token: u64) -> Result<Box<dyn Near>, LinkError> {
    let carrier = Shm::over(create(task, token, "near")?, &path(token, "far"), task.options.wait)?;
    Ok(Box::new(StreamEnd::over(Box::new(carrier), task)))
}

/// The server's end, which waits for the client's ring.
struct ShmListening {
    writer: Option<RingWriter>,
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
