//! Receiving, and nothing else: what a receiver does with a datagram is to count it.

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

/// How long a receiver sleeps at most before it looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);

/// How long nothing must have come, once all was sent, before what is missing is taken for lost.
pub(super) const QUIET: Duration = Duration::from_millis(200);

/// How long after all was sent a receiver goes on at most, whoever else sends to its port.
const LONGEST_TAIL: Duration = Duration::from_secs(5);

/// What a socket gets that asks for nothing, where the kernel does not say: 208 KiB, told doubled.
const SYSTEM_BUFFER_BYTES: u64 = 106_496;

/// Tells receivers when to end.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// When it was known that nothing more is sent, in nanoseconds of the monotonic clock; 0 until then.
    over_ns: AtomicU64,
    is_given_up: AtomicBool,
}

impl Ending {
    /// Says that nothing more is sent.
    pub(super) fn say_over(&self) {
        self.over_ns.store(clock::monotonic().as_nanos().max(1), Ordering::Relaxed);
    }

    /// Says that nobody waits for what is counted.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Tells whether a receiver that got its last datagram at `last` has had all that comes.
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

/// Opens a socket to receive at.
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

/// Counts what comes at a socket until it is over.
pub(super) fn receive(socket: &ReceiveSocket, payload_bytes: usize, ending: &Ending) -> io::Result<Counted> {
    let began_cpu_ns = thread_cpu_ns();
    let mut poller = Poller::new()?;
    poller.add(socket, 0, Interest::Read)?;
    let mut batch = ReceiveBatch::with_slot_bytes(payload_bytes);
    let mut counted = Counted::default();
    let (mut first, mut last, mut now) = (None, None, clock::monotonic());
    loop {
        let received = socket.receive_batch(&mut batch)?;
        // What this look did not find says nothing of a time behind its beginning: this thread may have been stopped since.
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

/// Returns the processor time of this thread so far, the kernel's in its name included.
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
        // Somebody else sends on and on.
        let end = over + LONGEST_TAIL;
        assert!(ending.has_come(end, Some(end)));
        let ending = Ending::default();
        ending.give_up();
        assert!(ending.has_come(now, Some(now)));
    }
}
