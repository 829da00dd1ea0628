//! When a datagram may leave: evenly by time, in short trains, never in bursts after a stall.

use core::time::Duration;

use units::Instant;

use super::backlog::Backlog;

/// How a publisher spreads its datagrams over time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pacing {
    /// At the stream's own rate with some headroom, faster while a backlog waits.
    Stream,
    /// As fast as the socket takes them: for measurements.
    Unlimited,
}

/// How much faster than the stream's own rate datagrams leave, so that joining and headers are covered.
const HEADROOM: f64 = 1.25;
/// Slow streams are not held back: what one datagram of theirs costs is of no consequence.
const MIN_BYTES_PER_SECOND: f64 = 1_000_000.0;
/// The longest train, in time (architecture, "The machine contract").
const MAX_QUANTUM: Duration = Duration::from_millis(1);
/// The longest train, in datagrams (architecture, "The machine contract").
pub const MAX_TRAIN: usize = 16;
/// A train takes at most this share of the smallest receive buffer (architecture, "The machine contract").
const BUFFER_SHARE: f64 = 8.0;
/// The receive buffer that readers are taken to have until they say so: the default of Linux
/// (`net.core.rmem_default`).
const UNKNOWN_BUFFER_BYTES: u32 = 212_992;
/// A smaller receive buffer than this is not believed: nobody shall slow a publisher down to single datagrams.
const MIN_BUFFER_BYTES: u32 = 32_768;

/// Spreads datagrams over time.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    pacing: Pacing,
    /// What the stream takes at its own rate, with headroom.
    even_bytes_per_second: f64,
    backlog: Backlog,
    quantum_bytes: f64,
    /// When everything let out so far would have left at the even rate.
    even_until: Instant,
    /// The same behind each of the last datagrams: a train goes on while the datagram a whole train ago would
    /// have left.
    even_ends: [Instant; MAX_TRAIN],
    next_end: usize,
    /// The train has as many datagrams as it may: the next one leaves once the even rate has caught up, so that a few
    /// wake-ups send many datagrams, and not each its own.
    resting: bool,
}

impl Pacer {
    pub(super) fn new(pacing: Pacing, stream_bytes_per_second: f64, now: Instant) -> Self {
        Self {
            pacing,
            even_bytes_per_second: (stream_bytes_per_second * HEADROOM).max(MIN_BYTES_PER_SECOND),
            backlog: Backlog::new(),
            quantum_bytes: f64::from(UNKNOWN_BUFFER_BYTES) / BUFFER_SHARE,
            even_until: now,
            even_ends: [Instant::ORIGIN; MAX_TRAIN],
            next_end: 0,
            resting: false,
        }
    }

    /// Notes how many bytes of samples wait, here and in front of the machine.
    pub(super) fn waiting(&mut self, now: Instant, bytes: usize) {
        self.backlog.waiting(now, bytes);
    }

    /// Notes the smallest receive buffer that readers report.
    pub(super) fn smallest_buffer(&mut self, bytes: Option<u32>) {
        let believed = bytes.unwrap_or(UNKNOWN_BUFFER_BYTES).max(MIN_BUFFER_BYTES);
        self.quantum_bytes = f64::from(believed) / BUFFER_SHARE;
    }

    /// Returns when the next datagram may leave: now or earlier means at once.
    pub(super) fn ready_at(&self) -> Instant {
        match self.pacing {
            Pacing::Unlimited => Instant::ORIGIN,
            Pacing::Stream if self.resting => self.even_until,
            Pacing::Stream => self.train_goes_on_at(),
        }
    }

    /// Returns when another datagram fits into the train.
    fn train_goes_on_at(&self) -> Instant {
        (self.even_until - self.quantum()).max(self.even_ends[self.next_end])
    }

    /// Notes that a datagram of `size_bytes` leaves, with so many bytes of samples.
    #[expect(clippy::cast_precision_loss, reason = "a datagram's size is small")]
    pub(super) fn spend(&mut self, now: Instant, size_bytes: usize, sample_bytes: usize) {
        let cost = Duration::from_secs_f64(size_bytes as f64 / self.bytes_per_second());
        // Time in which nothing was sent gives no credit: a stall is not made up for by a burst.
        self.even_until = self.even_until.max(now) + cost;
        self.even_ends[self.next_end] = self.even_until;
        self.next_end = (self.next_end + 1) % MAX_TRAIN;
        self.resting = self.even_ends[self.next_end] > now;
        self.backlog.taken(sample_bytes);
    }

    fn bytes_per_second(&self) -> f64 {
        self.even_bytes_per_second.max(self.backlog.bytes_per_second())
    }

    /// Returns how far ahead of the even rate a train may run.
    fn quantum(&self) -> Duration {
        MAX_QUANTUM.min(Duration::from_secs_f64(self.quantum_bytes / self.bytes_per_second()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets datagrams of 1,000 bytes out as soon as they may leave, and returns when each did.
    fn departures(pacer: &mut Pacer, count: usize, mut now: Instant) -> Vec<u64> {
        let mut times = Vec::new();
        for _ in 0..count {
            now = now.max(pacer.ready_at());
            pacer.spend(now, 1_000, 1_000);
            times.push(now.as_nanos());
        }
        times
    }

    /// Returns how many datagrams leave at once when a pacer has rested.
    fn train(mut pacer: Pacer) -> usize {
        let after = Instant::from_nanos(5_000_000_000);
        let times = departures(&mut pacer, 100, after);
        times.iter().filter(|time| **time == after.as_nanos()).count()
    }

    #[test]
    fn the_long_run_rate_is_the_streams_with_headroom() {
        let mut pacer = Pacer::new(Pacing::Stream, 80e6, Instant::ORIGIN);
        let times = departures(&mut pacer, 100_000, Instant::ORIGIN);
        // 100 MB at 100 MB/s.
        let last = *times.last().unwrap() as f64 / 1e9;
        assert!((0.998..1.001).contains(&last), "{last}");
    }

    #[test]
    fn a_train_is_short_even_after_a_stall() {
        let mut pacer = Pacer::new(Pacing::Stream, 80e6, Instant::ORIGIN);
        departures(&mut pacer, 10, Instant::ORIGIN);
        assert_eq!(train(pacer), MAX_TRAIN);
    }

    #[test]
    fn a_train_takes_an_eighth_of_the_smallest_receive_buffer() {
        let mut pacer = Pacer::new(Pacing::Stream, 80e6, Instant::ORIGIN);
        pacer.smallest_buffer(Some(80_000));
        assert_eq!(train(pacer.clone()), 11, "10,000 bytes, and the one that exceeds them");
        pacer.smallest_buffer(Some(1));
        assert_eq!(train(pacer.clone()), 5, "a buffer that nobody has");
        pacer.smallest_buffer(None);
        assert_eq!(train(pacer), MAX_TRAIN);
    }

    #[test]
    fn trains_are_full_so_that_few_wake_ups_send_many() {
        let mut pacer = Pacer::new(Pacing::Stream, 80e6, Instant::ORIGIN);
        let mut times = departures(&mut pacer, 100 * MAX_TRAIN, Instant::ORIGIN);
        times.dedup();
        assert_eq!(times.len(), 100, "a train each time, not a datagram whenever there is room for one");
    }

    #[test]
    fn a_slow_streams_train_is_a_millisecond_long() {
        assert_eq!(train(Pacer::new(Pacing::Stream, 4e6, Instant::ORIGIN)), 6, "5 MB/s, and one");
    }

    #[test]
    fn measurements_are_not_held_back() {
        let mut pacer = Pacer::new(Pacing::Unlimited, 1e3, Instant::ORIGIN);
        assert!(departures(&mut pacer, 1_000, Instant::ORIGIN).iter().all(|time| *time == 0));
    }
}
