//! The host of a node: capacity of its socket, run times of its process, and the socket's drop counter.
//!
//! A [`Host`] is the description, `ReceiveQueue` the socket in operation; the running process is in `process.rs`.

use core::fmt;
use core::num::NonZeroUsize;
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;

use crate::path::Wear;

/// Bytes the kernel charges to a receive buffer for a datagram beyond its payload: about the overhead of Linux on
/// x86-64 for a small datagram (its `truesize` is 768).
pub const BUFFER_OVERHEAD_BYTES: u64 = 768;

const ZERO: Duration = Duration::ZERO;

/// Default number of datagrams per read: a usual batch of `recvmmsg`.
const BATCH: NonZeroUsize = NonZeroUsize::new(64).expect("64 is not zero");

/// Behaviour of a node's socket and process.
#[derive(Clone, Debug)]
pub struct Host {
    buffer_bytes: Option<u64>,
    cycle: Option<Duration>,
    batch: NonZeroUsize,
    stalls: Vec<Range<Instant>>,
    pub(crate) timer_step: Option<Duration>,
    pub(crate) lateness: Option<Lateness>,
    pub(crate) costs: Costs,
    /// Mean interval between the starts of random stalls, and the range of their lengths.
    pub(crate) random_stalls: Option<(Duration, Range<Duration>)>,
    pub(crate) clock: Clock,
}

/// Wake-up delay of a sleeping process: usually small, occasionally large.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lateness {
    /// Half the maximum of the usual delay, which is uniformly distributed.
    pub usual: Duration,
    /// Probability of a rare delay.
    pub rare: f64,
    /// Maximum of the rare delay.
    pub most: Duration,
}

/// Processor time of a process's work; it does nothing else meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Costs {
    /// Each turn: a wake-up and the calls that check for input.
    pub turn: Duration,
    /// Each datagram received.
    pub received: Duration,
    /// Each call that sends, whether one datagram or a train of them.
    pub send_call: Duration,
    /// Each datagram sent.
    pub sent: Duration,
}

/// A host's clock relative to the network's time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Clock {
    /// Reading when the network's time was zero.
    pub offset: Duration,
    /// Excess of the clock's rate. Units: nanoseconds per second.
    pub skew_ppb: i32,
}

impl Host {
    /// Makes a host that reads everything at once and whose socket never overflows.
    #[must_use]
    pub const fn ideal() -> Self {
        Self {
            buffer_bytes: None,
            cycle: None,
            batch: BATCH,
            stalls: Vec::new(),
            timer_step: None,
            lateness: None,
            costs: Costs { turn: ZERO, received: ZERO, send_call: ZERO, sent: ZERO },
            random_stalls: None,
            clock: Clock { offset: ZERO, skew_ppb: 0 },
        }
    }

    /// Rounds deadlines up to multiples of a step, like a kernel's coarse timer.
    ///
    /// # Panics
    /// If the step is zero.
    #[must_use]
    pub fn timer_step(mut self, step: Duration) -> Self {
        assert!(!step.is_zero(), "the timer step is zero; leave `timer_step` out");
        self.timer_step = Some(step);
        self
    }

    /// Delays the process whenever it wakes up.
    #[must_use]
    pub const fn wakes_late(mut self, lateness: Lateness) -> Self {
        self.lateness = Some(lateness);
        self
    }

    /// Sets the processor time of the process's work.
    #[must_use]
    pub const fn costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }

    /// Stalls the process at random: stalls begin `apart` on average, and last a time within `lengths`.
    #[must_use]
    pub const fn stalls_now_and_then(mut self, apart: Duration, lengths: Range<Duration>) -> Self {
        self.random_stalls = Some((apart, lengths));
        self
    }

    /// Gives the host its own clock, which all times that its node sees are taken from.
    #[must_use]
    pub const fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Bounds the receive buffer; a datagram that would go beyond is dropped and counted.
    ///
    /// Units: bytes, of which each datagram takes its payload and [`BUFFER_OVERHEAD_BYTES`].
    #[must_use]
    pub const fn receive_buffer(mut self, size_bytes: u64) -> Self {
        self.buffer_bytes = Some(size_bytes);
        self
    }

    /// Runs the process only at multiples of `cycle`, and reads at most `batch` datagrams each time.
    ///
    /// # Panics
    /// If either is zero: such a process never reads.
    #[must_use]
    pub fn reads_every(mut self, cycle: Duration, batch: usize) -> Self {
        assert!(!cycle.is_zero(), "the cycle is zero; leave `reads_every` out to read at once");
        self.cycle = Some(cycle);
        self.batch = NonZeroUsize::new(batch).expect("a batch has at least one datagram");
        self
    }

    /// Stalls the process for a span of time: it neither reads nor meets its deadlines, and its socket fills.
    #[must_use]
    pub fn stalls(mut self, span: Range<Instant>) -> Self {
        self.stalls.push(span);
        self
    }

    pub(crate) const fn batch(&self) -> usize {
        self.batch.get()
    }

    /// Returns the first instant at or after `at` at which the process runs.
    pub(crate) fn runs_from(&self, at: Instant) -> Instant {
        let mut at = self.next_cycle(at);
        // A stall may end inside another one, so check again after each; each is left at most once.
        while let Some(stall) = self.stalls.iter().find(|stall| stall.contains(&at)) {
            at = self.next_cycle(stall.end);
        }
        at
    }

    /// Returns the first instant after `at` at which the process runs again after a full batch.
    pub(crate) fn runs_again(&self, at: Instant) -> Instant {
        match self.cycle {
            Some(_) => self.runs_from(at + Duration::from_nanos(1)),
            None => self.runs_from(at),
        }
    }

    /// Returns the time at which a timer set for `deadline` fires.
    pub(crate) fn fires_at(&self, deadline: Instant) -> Instant {
        self.timer_step.map_or(deadline, |step| next_multiple(deadline, step))
    }

    fn next_cycle(&self, at: Instant) -> Instant {
        self.cycle.map_or(at, |cycle| next_multiple(at, cycle))
    }
}

fn next_multiple(at: Instant, step: Duration) -> Instant {
    let nanos = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
    Instant::from_nanos(at.as_nanos().div_ceil(nanos).saturating_mul(nanos))
}

impl Clock {
    /// Returns the clock's reading at a time of the network.
    pub(crate) fn shows(self, at: Instant) -> Instant {
        if self == Self::default() {
            return at;
        }
        let nanos = i128::from(at.as_nanos());
        let shown = nanos + nanos * i128::from(self.skew_ppb) / PPB + self.offset.as_nanos().cast_signed();
        Instant::from_nanos(u64::try_from(shown).unwrap_or(u64::MAX))
    }

    /// Returns the first time of the network at which the clock shows no less than `shown`.
    pub(crate) fn at(self, shown: Instant) -> Instant {
        if self == Self::default() {
            return shown;
        }
        let nanos = i128::from(shown.as_nanos()) - self.offset.as_nanos().cast_signed();
        // Both conversions round; from slightly before, the first sufficient time is two or three steps away.
        let nanos = (nanos * PPB / (PPB + i128::from(self.skew_ppb)) - 2).max(0);
        let mut at = Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        while self.shows(at) < shown && at.as_nanos() < u64::MAX {
            at += Duration::from_nanos(1);
        }
        at
    }
}

const PPB: i128 = 1_000_000_000;

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
        let step = self.timer_step.map(|step| format!("timers each {step:?}"));
        let late = self.lateness.map(|Lateness { usual, rare, most }| {
            format!("wakes late by {usual:?}, {rare} of all by up to {most:?}")
        });
        let Costs { turn, received, send_call, sent } = self.costs;
        let costs = (self.costs != Costs::default())
            .then(|| format!("a turn {turn:?}, in {received:?}, call {send_call:?}, out {sent:?}"));
        let random = self.random_stalls.as_ref().map(|(apart, lengths)| {
            format!("stalls each {apart:?} for {:?} to {:?}", lengths.start, lengths.end)
        });
        let Clock { offset, skew_ppb } = self.clock;
        let clock =
            (self.clock != Clock::default()).then(|| format!("clock {offset:?} ahead, {skew_ppb} ppb fast"));
        let parts: Vec<String> = buffer
            .into_iter()
            .chain(cycle)
            .chain(step)
            .chain(late)
            .chain(costs)
            .chain(stalls)
            .chain(random)
            .chain(clock)
            .collect();
        formatter.write_str(&parts.join(", "))
    }
}

/// A socket's receive buffer with its drop counter.
pub(crate) struct ReceiveQueue {
    limit_bytes: Option<u64>,
    queued: VecDeque<Queued>,
    held_bytes: u64,
    /// Cumulative and wrapping, like the kernel's.
    drops: u32,
}

/// A datagram in the receive buffer, by its row in the log.
pub(crate) struct Queued {
    pub(crate) row: u32,
    pub(crate) wear: Wear,
    pub(crate) arrived: Instant,
    /// Drop counter when the datagram was queued.
    pub(crate) drops: u32,
    charge_bytes: u64,
}

/// Error for a receive buffer without room.
pub(crate) struct BufferFull;

impl ReceiveQueue {
    pub(crate) const fn new(host: &Host) -> Self {
        Self { limit_bytes: host.buffer_bytes, queued: VecDeque::new(), held_bytes: 0, drops: 0 }
    }

    /// Queues a datagram and stamps it with the drops so far, or counts a drop.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        row: u32,
        wear: Wear,
        size_bytes: usize,
    ) -> Result<(), BufferFull> {
        let charge_bytes = size_bytes as u64 + BUFFER_OVERHEAD_BYTES;
        if self.limit_bytes.is_some_and(|limit| self.held_bytes + charge_bytes > limit) {
            self.drops = self.drops.wrapping_add(1);
            return Err(BufferFull);
        }
        self.held_bytes += charge_bytes;
        self.queued.push_back(Queued { row, wear, arrived: now, drops: self.drops, charge_bytes });
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
    fn a_clock_shows_its_own_time_and_a_deadline_of_it_is_never_early() {
        for clock in [
            Clock { offset: Duration::from_secs(3), skew_ppb: 100_000 },
            Clock { offset: Duration::ZERO, skew_ppb: -100_000 },
            Clock::default(),
        ] {
            for micros in [0, 1, 999_999, 1_000_000, 123_456_789_012] {
                let shown = clock.shows(at(micros));
                assert_eq!(clock.shows(clock.at(shown)), shown);
                let before = Instant::from_nanos(clock.at(shown).as_nanos().saturating_sub(1));
                assert!(micros == 0 || clock.shows(before) < shown, "{clock:?} {micros}");
            }
        }
        let fast = Clock { offset: Duration::from_secs(3), skew_ppb: 100_000 };
        assert_eq!(fast.shows(at(10_000_000)), at(13_001_000));
        assert_eq!(fast.at(at(1_000_000)), at(0), "before the beginning is at the beginning");
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
            (0..9).filter(|row| queue.push(at(0), *row, Wear::default(), 100).is_ok()).count()
        };
        assert_eq!(queued(2 * 868), 2);
        assert_eq!(queued(2 * 868 - 1), 1);
    }
}
