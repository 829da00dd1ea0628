//! Receiving only: a receiver counts datagrams and does nothing else with them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sys::{
    Cancellation, Interest, OpenError, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket,
    ReceiveTechniques, clock,
};
use units::Instant;

use super::message::{Counted, Place};
use super::options::Calls;

/// Poller tokens of a receiver.
const SOCKET: u64 = 0;
const OVER: u64 = 1;

/// Time without datagrams, once all was sent, after which missing ones count as lost.
pub(super) const QUIET: Duration = Duration::from_millis(200);

/// Maximum time a receiver continues after all was sent, even if other senders use its port.
const LONGEST_TAIL: Duration = Duration::from_secs(5);

/// Receive buffer of a socket by default, where the kernel does not report it: 208 KiB, which the kernel
/// reports doubled.
const SYSTEM_BUFFER_BYTES: u64 = 106_496;

/// Signals receivers when to end.
#[derive(Debug)]
pub(super) struct Ending {
    /// Time at which sending was known to have ended, in nanoseconds of the monotonic clock; 0 until then.
    over_ns: AtomicU64,
    is_given_up: AtomicBool,
    /// Cancelled by either signal.
    over: Cancellation,
}

impl Ending {
    pub(super) fn new() -> io::Result<Self> {
        let (over_ns, is_given_up) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(Self { over_ns, is_given_up, over: Cancellation::new()? })
    }

    /// Signals that nothing more is sent.
    pub(super) fn say_over(&self) {
        self.over_ns.store(clock::monotonic().as_nanos().max(1), Ordering::Relaxed);
        self.over.cancel();
    }

    /// Signals that the counts are no longer needed.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.over.cancel();
    }

    /// Returns when a receiver with its last datagram at `last` can expect no more; `None` before all was
    /// sent.
    fn comes_at(&self, last: Option<Instant>) -> Option<Instant> {
        if self.is_given_up.load(Ordering::Relaxed) {
            return Some(Instant::ORIGIN);
        }
        let over = match self.over_ns.load(Ordering::Relaxed) {
            0 => return None,
            nanos => Instant::from_nanos(nanos),
        };
        Some((last.map_or(over, |last| last.max(over)) + QUIET).min(over + LONGEST_TAIL))
    }

    /// Returns whether a receiver with its last datagram at `last` can expect no more.
    fn has_come(&self, now: Instant, last: Option<Instant>) -> bool {
        self.comes_at(last).is_some_and(|moment| now >= moment)
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
    poller.add(socket, SOCKET, Interest::Read)?;
    poller.add(&ending.over, OVER, Interest::Read)?;
    let mut waits_for_over = true;
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
            let deadline = ending.comes_at(last);
            if deadline.is_some() && std::mem::take(&mut waits_for_over) {
                poller.remove(&ending.over)?;
            }
            poller.wait(deadline)?;
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
        let ending = Ending::new().unwrap();
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
        let ending = Ending::new().unwrap();
        ending.give_up();
        assert!(ending.has_come(now, Some(now)));
    }
}
