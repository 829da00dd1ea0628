//! Receiving only: a receiver counts datagrams and does nothing else with them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sys::{OpenError, ReceiveBatch, ReceiveOptions, ReceiveSocket, ReceiveTechniques};
use units::Instant;

use super::message::{Counted, Place};
use super::options::Calls;
use flow::udp::{Counting, Receiver, receive_buffer_bytes};
use flow::{Ending, Tail};

/// Time limits of a receiver once all was sent.
pub(super) const TAIL: Tail = Tail { quiet: Duration::from_millis(200), longest: Duration::from_secs(5) };

/// Opens a receiving socket.
pub(super) fn open(place: &Place) -> Result<ReceiveSocket, OpenError> {
    let batches = place.calls != Calls::Single;
    ReceiveSocket::open(&ReceiveOptions {
        techniques: ReceiveTechniques { gro: false, batches },
        shared: place.is_shared,
        ..ReceiveOptions::at(place.address, receive_buffer_bytes(place.buffer_bytes))
    })
}

/// Counts datagrams of a socket until the run is over.
pub(super) fn receive(
    socket: &Arc<ReceiveSocket>,
    payload_bytes: usize,
    ending: &Ending<()>,
) -> io::Result<Counted> {
    let began_cpu_ns = thread_cpu_ns();
    let mut counter = Counter { payload_bytes, counted: Counted::default() };
    Receiver::at(Arc::clone(socket), payload_bytes)?.receive(ending, TAIL, &mut counter)?;
    Ok(Counted { cpu_ns: thread_cpu_ns().saturating_sub(began_cpu_ns), ..counter.counted })
}

struct Counter {
    payload_bytes: usize,
    counted: Counted,
}

impl Counting<()> for Counter {
    fn count(&mut self, batch: &ReceiveBatch, now: Instant) -> bool {
        let Self { payload_bytes, counted } = self;
        counted.first_ns.get_or_insert(now.as_nanos());
        counted.last_ns = Some(now.as_nanos());
        for datagram in batch.iter() {
            if datagram.bytes.len() == *payload_bytes && !datagram.truncated {
                counted.datagrams += 1;
                counted.bytes += *payload_bytes as u64;
            } else {
                counted.foreign += 1;
            }
        }
        true
    }

    /// Returns false: receivers may share what was sent, so that its count is unknown here.
    fn has_all(&self, (): &()) -> bool {
        false
    }
}

/// Returns the processor time of this thread so far, including the kernel's on its behalf.
pub(super) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}
