//! A ring in shared memory: one copy in, one copy out, and a wake-up if the reader sleeps.
//!
//! A cycle is one record, since a ring takes any record that fills at most half of it. The ring holds at least
//! [`RING_CYCLES`] cycles: a reader that is further behind is lapped, and the missed pieces are missing in its
//! account.

use std::path::Path;
use std::time::Duration;

use probe::cycle::Cut;
use sys::clock;
use units::Instant;

use super::{Opened, ReceiveEnd, SendEnd, Task, TransportError};
use crate::shared_ring::{self, RECORD_OVERHEAD_BYTES, RingReader, RingWriter, Seen};

/// Minimum number of cycles in a ring: the newest, and a few for a reader that is held up.
const RING_CYCLES: usize = 4;

/// Prefix of the rings' names, followed by the process of the writer, and the run.
const PREFIX: &str = "tallycast-bench-cycle-";

/// Records taken before the reader checks for messages.
const RECORDS_AT_ONCE: u64 = 64;

/// Time a reader sleeps after its writer has closed the ring, until the bench reports the sent counts.
const AFTER_END: Duration = Duration::from_millis(1);

/// Removes leftovers of benches that were killed.
pub(super) fn sweep() {
    shared_ring::sweep(PREFIX);
}

/// Returns the size of a ring for a run.
pub(super) fn ring_bytes(cut: &Cut) -> usize {
    RING_CYCLES * (cut.cycle_bytes() + cut.pieces() as usize * RECORD_OVERHEAD_BYTES)
}

pub(super) fn open_send(task: &Task) -> Result<Opened<dyn SendEnd>, TransportError> {
    let path = shared_ring::path(&format!("{PREFIX}{}-{}", std::process::id(), task.run));
    let end = Box::new(RingWriter::create(&path, task.buffer_bytes)?);
    Ok(Opened { end, endpoint: path.display().to_string(), notes: Vec::new() })
}

pub(super) fn open_receive(task: &Task) -> Result<Opened<dyn ReceiveEnd>, TransportError> {
    let end = Box::new(RingReader::open(Path::new(&task.endpoint), task.unit_bytes)?);
    Ok(Opened { end, endpoint: task.endpoint.clone(), notes: Vec::new() })
}

impl SendEnd for RingWriter {
    fn send(&mut self, pieces: &[&[u8]]) -> Result<u64, TransportError> {
        pieces.iter().try_for_each(|piece| self.write(piece))?;
        self.wake();
        Ok(0)
    }
}

impl ReceiveEnd for RingReader {
    fn receive(&mut self, until: Instant, take: &mut dyn FnMut(&[u8])) -> Result<u64, TransportError> {
        let mut seen = self.wait(until.since(clock::monotonic()));
        // Missed pieces are missing in the account; the reader goes on with the next whole one.
        while seen == Some(Seen::Lapped) {
            seen = self.look();
        }
        match seen {
            None | Some(Seen::Lapped) => return Ok(0),
            Some(Seen::End) => {
                clock::sleep_until(until.min(clock::monotonic() + AFTER_END));
                return Ok(0);
            }
            Some(Seen::Broken) => return Err(TransportError::Broken),
            Some(Seen::Record) => take(self.record()),
        }
        let mut taken = 1;
        while taken < RECORDS_AT_ONCE && self.look() == Some(Seen::Record) {
            take(self.record());
            taken += 1;
        }
        Ok(taken)
    }

    fn dropped(&self) -> Option<u64> {
        None
    }
}
