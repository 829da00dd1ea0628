//! When a datagram may leave: evenly by time, in short trains, never in bursts after a stall.

use core::time::Duration;

use units::Instant;

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
/// A backlog is spread over this time: long enough not to be a burst, short enough to stay timely.
const BACKLOG_TIME: Duration = Duration::from_millis(50);
/// Slow streams are not held back: what one datagram of theirs costs is of no consequence.
const MIN_BYTES_PER_SECOND: f64 = 1_000_000.0;
/// The longest train, in time (architecture, "The machine contract").
const MAX_QUANTUM: Duration = Duration::from_millis(1);
/// The longest train, in segments (architecture, "The machine contract").
pub const MAX_TRAIN: usize = 16;
/// A train takes at most an eighth of the smallest receive buffer; until readers report theirs, that is the
/// default of Linux (`net.core.rmem_default`).
const MAX_QUANTUM_BYTES: f64 = 212_992.0 / 8.0;

/// Spreads datagrams over time.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    pacing: Pacing,
    stream_bytes_per_second: f64,
    bytes_per_second: f64,
    /// When everything let out so far would have left at the even rate.
    even_until: Instant,
}

impl Pacer {
    pub(super) fn new(pacing: Pacing, stream_bytes_per_second: f64, now: Instant) -> Self {
        let bytes_per_second = (stream_bytes_per_second * HEADROOM).max(MIN_BYTES_PER_SECOND);
        Self { pacing, stream_bytes_per_second, bytes_per_second, even_until: now }
    }

    /// Adapts the rate to what waits.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
    pub(super) fn backlog(&mut self, bytes: usize) {
        let drain = bytes as f64 / BACKLOG_TIME.as_secs_f64();
        self.bytes_per_second =
            (self.stream_bytes_per_second * HEADROOM).max(MIN_BYTES_PER_SECOND).max(drain);
    }

    /// Returns when the next datagram may leave: now or earlier means at once.
    pub(super) fn ready_at(&self) -> Instant {
        match self.pacing {
            Pacing::Unlimited => Instant::ORIGIN,
            Pacing::Stream => self.even_until - self.quantum(),
        }
    }

    /// Notes that a datagram of `bytes` left.
    #[expect(clippy::cast_precision_loss, reason = "a datagram's size is small")]
    pub(super) fn spend(&mut self, now: Instant, bytes: usize) {
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        // Time in which nothing was sent gives no credit: a stall is not made up for by a burst.
        self.even_until = self.even_until.max(now) + cost;
    }

    /// Returns how far ahead of the even rate a train may run.
    fn quantum(&self) -> Duration {
        MAX_QUANTUM.min(Duration::from_secs_f64(MAX_QUANTUM_BYTES / self.bytes_per_second))
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
            pacer.spend(now, 1_000);
            times.push(now.as_nanos());
        }
        times
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
        let after = Instant::from_nanos(5_000_000_000);
        let times = departures(&mut pacer, 100, after);
        let burst = times.iter().filter(|time| **time == after.as_nanos()).count();
        assert_eq!(burst, 27, "an eighth of the default receive buffer, and the one that exceeds it");
    }

    #[test]
    fn a_backlog_is_drained_within_its_time() {
        let mut pacer = Pacer::new(Pacing::Stream, 1e3, Instant::ORIGIN);
        pacer.backlog(10_000_000);
        let times = departures(&mut pacer, 10_000, Instant::ORIGIN);
        let last = *times.last().unwrap() as f64 / 1e9;
        assert!((0.049..0.051).contains(&last), "{last}");
    }

    #[test]
    fn measurements_are_not_held_back() {
        let mut pacer = Pacer::new(Pacing::Unlimited, 1e3, Instant::ORIGIN);
        assert!(departures(&mut pacer, 1_000, Instant::ORIGIN).iter().all(|time| *time == 0));
    }
}
