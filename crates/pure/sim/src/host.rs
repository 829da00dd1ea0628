//! The host around a node: how much its socket holds, when its process runs, and the socket's drop counter.
//!
//! A [`Host`] is the description, `ReceiveQueue` the socket at work. Processor cost per datagram, timer
//! granularity and clocks of their own are not modelled yet; they belong here.

use core::fmt;
use core::num::NonZeroUsize;
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;

use crate::Damage;

/// What the kernel charges a receive buffer for a datagram beyond its payload, in bytes, unless told
/// otherwise: about what Linux on x86-64 keeps beside a small datagram (its `truesize` is 768).
pub const BUFFER_OVERHEAD_BYTES: u64 = 768;

/// How many datagrams a node reads at once unless told otherwise: a usual batch of `recvmmsg`.
const BATCH: NonZeroUsize = NonZeroUsize::new(64).expect("64 is not zero");

/// How a node's socket and process behave.
#[derive(Clone, Debug)]
pub struct Host {
    buffer_bytes: Option<u64>,
    overhead_bytes: u64,
    cycle: Option<Duration>,
    batch: NonZeroUsize,
    stalls: Vec<Range<Instant>>,
}

impl Host {
    /// Makes a host that reads everything at once and whose socket never overflows.
    #[must_use]
    pub const fn ideal() -> Self {
        Self {
            buffer_bytes: None,
            overhead_bytes: BUFFER_OVERHEAD_BYTES,
            cycle: None,
            batch: BATCH,
            stalls: Vec::new(),
        }
    }

    /// Bounds the receive buffer; a datagram that would go beyond is dropped and counted.
    ///
    /// Units: bytes, of which each datagram takes its payload and [`BUFFER_OVERHEAD_BYTES`].
    #[must_use]
    pub const fn receive_buffer(mut self, size_bytes: u64) -> Self {
        self.buffer_bytes = Some(size_bytes);
        self
    }

    /// Sets what the receive buffer is charged for a datagram beyond its payload.
    #[must_use]
    pub const fn buffer_overhead(mut self, size_bytes: u64) -> Self {
        self.overhead_bytes = size_bytes;
        self
    }

    /// Lets the process run only at the multiples of `cycle`, and read at most `batch` datagrams each time.
    ///
    /// # Panics
    /// If either is zero: such a process never reads.
    #[must_use]
    pub fn reads_every(mut self, cycle: Duration, batch: usize) -> Self {
        assert!(!cycle.is_zero(), "a cycle of no time is none; leave `reads_every` out to read at once");
        self.cycle = Some(cycle);
        self.batch = NonZeroUsize::new(batch).expect("a batch has at least one datagram");
        self
    }

    /// Stops the process for a span of time: it neither reads nor keeps its deadlines, its socket fills.
    #[must_use]
    pub fn stalls(mut self, span: Range<Instant>) -> Self {
        self.stalls.push(span);
        self
    }

    pub(crate) const fn batch(&self) -> usize {
        self.batch.get()
    }

    /// Returns the first moment from `at` on at which the process runs.
    pub(crate) fn runs_from(&self, at: Instant) -> Instant {
        let mut at = self.next_cycle(at);
        // A stall may end inside another one, so look again after each; each is left at most once.
        while let Some(stall) = self.stalls.iter().find(|stall| stall.contains(&at)) {
            at = self.next_cycle(stall.end);
        }
        at
    }

    /// Returns the first moment after `at` at which the process runs once more after a full batch.
    pub(crate) fn runs_again(&self, at: Instant) -> Instant {
        match self.cycle {
            Some(_) => self.runs_from(at + Duration::from_nanos(1)),
            None => self.runs_from(at),
        }
    }

    fn next_cycle(&self, at: Instant) -> Instant {
        let Some(cycle) = self.cycle else { return at };
        let cycle_nanos = u64::try_from(cycle.as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(at.as_nanos().div_ceil(cycle_nanos).saturating_mul(cycle_nanos))
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::ideal()
    }
}

impl fmt::Display for Host {
    /// Writes what is not ideal: `buffer 4096 B, reads 64 every 1ms`; nothing for an ideal host.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffer = self.buffer_bytes.map(|bytes| format!("buffer {bytes} B"));
        let cycle = self.cycle.map(|cycle| format!("reads {} every {cycle:?}", self.batch));
        let stalls = self.stalls.iter().map(|span| format!("stalls {:?} to {:?}", span.start, span.end));
        let parts: Vec<String> = buffer.into_iter().chain(cycle).chain(stalls).collect();
        formatter.write_str(&parts.join(", "))
    }
}

/// A socket's receive buffer with its drop counter.
pub(crate) struct ReceiveQueue {
    limit_bytes: Option<u64>,
    overhead_bytes: u64,
    queued: VecDeque<Queued>,
    held_bytes: u64,
    /// Cumulative and wrapping, like the kernel's.
    drops: u32,
}

/// A datagram in the receive buffer, by its row in the log.
pub(crate) struct Queued {
    pub(crate) row: u32,
    pub(crate) damage: Option<Damage>,
    pub(crate) arrived: Instant,
    /// The drop counter as it was when the datagram was queued.
    pub(crate) drops: u32,
    charge_bytes: u64,
}

/// Says that a receive buffer has no room.
pub(crate) struct BufferFull;

impl ReceiveQueue {
    pub(crate) const fn new(host: &Host) -> Self {
        Self {
            limit_bytes: host.buffer_bytes,
            overhead_bytes: host.overhead_bytes,
            queued: VecDeque::new(),
            held_bytes: 0,
            drops: 0,
        }
    }

    /// Queues a datagram and stamps it with the drops so far, or counts a drop.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        row: u32,
        damage: Option<Damage>,
        size_bytes: usize,
    ) -> Result<(), BufferFull> {
        let charge_bytes = size_bytes as u64 + self.overhead_bytes;
        if self.limit_bytes.is_some_and(|limit| self.held_bytes + charge_bytes > limit) {
            self.drops = self.drops.wrapping_add(1);
            return Err(BufferFull);
        }
        self.held_bytes += charge_bytes;
        self.queued.push_back(Queued { row, damage, arrived: now, drops: self.drops, charge_bytes });
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let queued = self.queued.pop_front()?;
        self.held_bytes -= queued.charge_bytes;
        Some(queued)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    pub(crate) const fn drops(&self) -> u32 {
        self.drops
    }

    pub(crate) const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn a_process_runs_at_the_multiples_of_its_cycle_outside_its_stalls() {
        let host = Host::ideal().reads_every(Duration::from_micros(100), 1).stalls(at(250)..at(420));
        assert_eq!(host.runs_from(at(0)), at(0));
        assert_eq!(host.runs_from(at(101)), at(200));
        assert_eq!(host.runs_from(at(201)), at(500));
        assert_eq!(host.runs_again(at(200)), at(500));
    }

    #[test]
    fn stalls_that_touch_are_one_stall_in_any_order() {
        let host = Host::ideal().stalls(at(20)..at(30)).stalls(at(10)..at(20));
        assert_eq!(host.runs_from(at(10)), at(30));
        assert_eq!(host.runs_from(at(30)), at(30));
    }

    #[test]
    fn a_buffer_takes_its_bytes_with_overhead_and_not_one_more() {
        let queued = |limit| {
            let mut queue = ReceiveQueue::new(&Host::ideal().receive_buffer(limit));
            (0..9).filter(|row| queue.push(at(0), *row, None, 100).is_ok()).count()
        };
        assert_eq!(queued(2 * 868), 2);
        assert_eq!(queued(2 * 868 - 1), 1);
    }
}
