//! Receiving only: a receiver counts datagrams and does nothing else with them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sys::{
    Interest, OpenError, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket, ReceiveTechniques, clock,
};
use units::Instant;

use super::message::{Counted, Place};
use super::options::Calls;

/// Maximum time a receiver sleeps before it checks whether the run is over.
const LOOK: Duration = Duration::from_millis(20);

/// Time without datagrams, once all was sent, after which missing ones count as lost.
pub(super) const QUIET: Duration = Duration::from_millis(200);

/// Maximum time a receiver continues after all was sent, even if other senders use its port.
const LONGEST_TAIL: Duration = Duration::from_secs(5);

/// Receive buffer of a socket by default, where the kernel does not report it: 208 KiB, which the kernel
/// reports doubled.
const SYSTEM_BUFFER_BYTES: u64 = 106_496;

/// Signals receivers when to end.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// Time at which sending was known to have ended, in nanoseconds of the monotonic clock; 0 until then.
    over_ns: AtomicU64,
    is_given_up: AtomicBool,
}

impl Ending {
    /// Signals that nothing more is sent.
    pub(super) fn say_over(&self) {
        self.over_ns.store(clock::monotonic().as_nanos().max(1), Ordering::Relaxed);
    }

    /// Signals that the counts are no longer needed.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Returns whether a receiver with its last datagram at `last` can expect no more.
    fn has_come(&self, now: Instant, last: Option<Instant>) -> bool {
        if self.is_given_up.load(Ordering::Relaxed) {
            return true;
        }
        let over = match self.over_ns.load(Ordering::Relaxed) {
            0 => return false,
            nanos => Instant::from_nanos(nanos),
        };
        now.since(last.map_or(over, |last| last.max(over))) >= QUIET || now.since(over) >= LONGEST_TAIL
    }
}

/// Opens a receiving socket.
pub(super) fn open(place: &Place) -> Result<ReceiveSocket, OpenError> {
    let system = || sys::host::receive_buffer_default().map_or(SYSTEM_BUFFER_BYTES, |bytes| bytes / 2);
    let buffer_bytes = place.buffer_bytes.unwrap_or_else(|| usize::try_from(system()).unwrap_or(usize::MAX));
    let batches = place.calls != Calls::Single;
    ReceiveSocket::open(&ReceiveOptions {
        techniques: ReceiveTechniques { gro: false, batches },
        shared: place.is_shared,
        ..ReceiveOptions::at(place.address, buffer_bytes)
    })
}

/// Counts datagrams of a socket until the run is over.
pub(super) fn receive(socket: &ReceiveSocket, payload_bytes: usize, ending: &Ending) -> io::Result<Counted> {
    let began_cpu_ns = thread_cpu_ns();
    let mut poller = Poller::new()?;
    poller.add(socket, 0, Interest::Read)?;
    let mut batch = ReceiveBatch::with_slot_bytes(payload_bytes);
    let mut counted = Counted::default();
    let (mut first, mut last, mut now) = (None, None, clock::monotonic());
    loop {
        let received = socket.receive_batch(&mut batch)?;
        // A read that found nothing says nothing about later times: the thread may have been stopped since.
        let looked = std::mem::replace(&mut now, clock::monotonic());
        if received > 0 {
            first.get_or_insert(now);
            last = Some(now);
            count(&batch, payload_bytes, &mut counted);
        }
        if ending.has_come(looked, last) {
            break;
        }
        if received == 0 {
            poller.wait(Some(now + LOOK))?;
        }
    }
    counted.cpu_ns = thread_cpu_ns().saturating_sub(began_cpu_ns);
    (counted.first_ns, counted.last_ns) = (first.map(Instant::as_nanos), last.map(Instant::as_nanos));
    Ok(counted)
}

fn count(batch: &ReceiveBatch, payload_bytes: usize, counted: &mut Counted) {
    for datagram in batch.iter() {
        if datagram.bytes.len() == payload_bytes && !datagram.truncated {
            counted.datagrams += 1;
            counted.bytes += payload_bytes as u64;
        } else {
            counted.foreign += 1;
        }
    }
}

/// Returns the processor time of this thread so far, including the kernel's on its behalf.
pub(super) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_after_a_quiet_time_and_a_tail_has_an_end() {
        let ending = Ending::default();
        let now = clock::monotonic();
        assert!(!ending.has_come(now + LONGEST_TAIL * 2, None), "nobody said so");
        ending.say_over();
        let over = Instant::from_nanos(ending.over_ns.load(Ordering::Relaxed));
        assert!(!ending.has_come(over, None));
        assert!(ending.has_come(over + QUIET, None));
        let last = over + QUIET / 2;
        assert!(!ending.has_come(over + QUIET, Some(last)));
        assert!(ending.has_come(last + QUIET, Some(last)));
        // Another sender never stops.
        let end = over + LONGEST_TAIL;
        assert!(ending.has_come(end, Some(end)));
        let ending = Ending::default();
        ending.give_up();
        assert!(ending.has_come(now, Some(now)));
    }
}
