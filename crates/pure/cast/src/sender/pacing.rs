//! Pacing of datagrams: evenly by time, in short trains, never in bursts after a stall.
//!
//! Datagrams are paid for at an even rate, a little above the stream's own. A publisher that wakes late is credited
//! with the datagrams of that time, up to a *quantum*: a millisecond, or an eighth of the smallest receive buffer.
//! Further credit is forgotten: after a stall there is no burst (Gu & Grossman 2005).

use core::time::Duration;

use units::Instant;

use super::backlog::Backlog;

/// Spreading of a publisher's datagrams over time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pacing {
    /// At the stream's own rate with some headroom, faster while a backlog waits.
    Stream(Limits),
    /// As fast as the socket takes them, in trains of up to this many datagrams: for measurements.
    Unlimited {
        /// Maximum number of datagrams in one train.
        train: usize,
    },
}

impl Pacing {
    /// Returns this pacing with trains of at most this many datagrams.
    #[must_use]
    pub fn in_trains_of(self, most: usize) -> Self {
        match self {
            Self::Stream(limits) => Self::Stream(Limits { train: limits.train.min(most), ..limits }),
            Self::Unlimited { train } => Self::Unlimited { train: train.min(most) },
        }
    }

    /// Returns the maximum number of datagrams in a train.
    #[must_use]
    pub const fn max_train(self) -> usize {
        match self {
            Self::Stream(Limits { train, .. }) | Self::Unlimited { train } => train,
        }
    }
}

/// Limits of sending at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of datagrams in one train.
    pub train: usize,
    /// Maximum time whose datagrams are sent at once.
    pub quantum: Duration,
}

impl Default for Limits {
    /// The values of the architecture, "The machine contract".
    fn default() -> Self {
        Self { train: DEFAULT_TRAIN, quantum: Duration::from_millis(1) }
    }
}

impl Default for Pacing {
    fn default() -> Self {
        Self::Stream(Limits::default())
    }
}

/// Default of the maximum number of datagrams in a train (architecture, "The machine contract").
pub const DEFAULT_TRAIN: usize = 16;
/// Rate of sending relative to the stream's own rate, so that joining and headers are covered.
const HEADROOM: f64 = 1.25;
/// Minimum rate: slow streams are not paced, because their single datagrams cost little.
const MIN_BYTES_PER_SECOND: f64 = 1_000_000.0;
/// Divisor of the smallest receive buffer for the size sent at once (architecture, "The machine contract").
const BUFFER_SHARE: f64 = 8.0;
/// Assumed receive buffer of readers that have not reported theirs: the default of Linux (`net.core.rmem_default`).
const UNKNOWN_BUFFER_BYTES: u32 = 212_992;
/// Smallest receive buffer that is believed: no reader can slow a publisher down to single datagrams.
const MIN_BUFFER_BYTES: u32 = 32_768;
/// Maximum lateness of a sleep on a host that is not overloaded: datagrams that fell due in that time are no burst.
///
/// Source: measured, a sleep ends 6 to 80 µs late, twice that beside other work.
const LATENESS: Duration = Duration::from_micros(200);

/// Spreads datagrams over time.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    pacing: Pacing,
    /// Size of a full datagram.
    datagram_bytes: f64,
    /// Rate of the stream on the wire, with headroom.
    stream_bytes_per_second: f64,
    backlog: Backlog,
    /// Maximum number of bytes at once, by the smallest receive buffer.
    buffer_share_bytes: f64,
    /// Time at which everything sent so far would have left at the even rate.
    even_until: Instant,
    /// True once all credit is used: the next datagrams leave when a whole train is due, so that a few wake-ups send
    /// many datagrams instead of one each.
    resting: bool,
}

impl Pacer {
    #[expect(clippy::cast_precision_loss, reason = "a datagram's size is small")]
    pub(super) fn new(
        pacing: Pacing,
        stream_bytes_per_second: f64,
        datagram_bytes: usize,
        now: Instant,
    ) -> Self {
        Self {
            pacing,
            datagram_bytes: datagram_bytes as f64,
            stream_bytes_per_second: stream_bytes_per_second * HEADROOM,
            backlog: Backlog::new(),
            buffer_share_bytes: f64::from(UNKNOWN_BUFFER_BYTES) / BUFFER_SHARE,
            even_until: now,
            resting: false,
        }
    }

    /// Returns the maximum number of datagrams in a train.
    pub(super) const fn max_train(&self) -> usize {
        self.pacing.max_train()
    }

    /// Records the number of waiting bytes of samples, here and in the ring.
    pub(super) fn waiting(&mut self, now: Instant, bytes: usize) {
        self.backlog.waiting(now, bytes);
    }

    /// Records that all waiting samples were held on purpose for this time: they leave at the stream's rate with its
    /// headroom.
    pub(super) fn was_held(&mut self, now: Instant, held_for: Duration) {
        self.backlog.was_held(now, held_for);
    }

    /// Returns the number of waiting bytes of samples, here and in the ring.
    pub(super) const fn waiting_bytes(&self) -> usize {
        self.backlog.waiting_bytes()
    }

    /// Records the smallest receive buffer that readers report.
    pub(super) fn smallest_buffer(&mut self, bytes: Option<u32>) {
        let believed = bytes.unwrap_or(UNKNOWN_BUFFER_BYTES).max(MIN_BUFFER_BYTES);
        self.buffer_share_bytes = f64::from(believed) / BUFFER_SHARE;
    }

    /// Returns when the next datagram may leave: a time up to now means at once.
    pub(super) fn ready_at(&self) -> Instant {
        match self.pacing {
            Pacing::Unlimited { .. } => Instant::ORIGIN,
            Pacing::Stream(limits) => {
                let (ahead, train) = (self.ahead(limits), self.train_time(limits));
                // A slow stream's datagrams do not wait for a train: sending them one by one costs little.
                let rest = if self.resting && train < ahead { train } else { Duration::ZERO };
                self.even_until - (ahead - rest)
            }
        }
    }

    /// Returns how many datagrams of `size_bytes` may leave together now: one at least.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limited to a train")]
    #[expect(clippy::cast_precision_loss, reason = "a datagram's size is small")]
    pub(super) fn train(&self, now: Instant, size_bytes: usize) -> usize {
        match self.pacing {
            Pacing::Unlimited { train } => train,
            Pacing::Stream(limits) => {
                let owed = (now + self.ahead(limits)).since(self.even_until.max(now));
                let bytes = owed.as_secs_f64() * self.bytes_per_second();
                ((bytes / size_bytes as f64).ceil() as usize).clamp(1, limits.train)
            }
        }
    }

    /// Records that `size_bytes` leave, of which `sample_bytes` are samples.
    #[expect(clippy::cast_precision_loss, reason = "a train's size is small")]
    pub(super) fn spend(&mut self, now: Instant, size_bytes: usize, sample_bytes: usize) {
        let cost = Duration::from_secs_f64(size_bytes as f64 / self.bytes_per_second());
        // Idle time gives no credit beyond the quantum: a stall is not followed by a burst.
        self.even_until = self.even_until.max(now) + cost;
        self.backlog.taken(sample_bytes);
        if let Pacing::Stream(limits) = self.pacing {
            self.resting = self.even_until >= now + self.ahead(limits);
        }
    }

    fn bytes_per_second(&self) -> f64 {
        // Held samples keep the pace of the fastest and of the slowest stream.
        let least = if self.backlog.is_held() { 0.0 } else { MIN_BYTES_PER_SECOND };
        self.stream_bytes_per_second.max(least).max(self.backlog.bytes_per_second())
    }

    /// Returns how far ahead of the even rate datagrams may be: a train, plus what falls due while a sleep ends late,
    /// but never more than the quantum.
    fn ahead(&self, limits: Limits) -> Duration {
        let buffer = Duration::from_secs_f64(self.buffer_share_bytes / self.bytes_per_second());
        (self.train_time(limits) + LATENESS).min(limits.quantum).min(buffer)
    }

    /// Returns the duration of a full train at the even rate.
    #[expect(clippy::cast_precision_loss, reason = "a train is short")]
    fn train_time(&self, limits: Limits) -> Duration {
        Duration::from_secs_f64(limits.train as f64 * self.datagram_bytes / self.bytes_per_second())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Pacing = Pacing::Stream(Limits { train: 16, quantum: Duration::from_millis(1) });

    fn pacer(bytes_per_second: f64) -> Pacer {
        Pacer::new(STREAM, bytes_per_second, 1_000, Instant::ORIGIN)
    }

    /// Sends datagrams of 1,000 bytes as soon as they may leave, from a publisher that wakes late, and returns the
    /// departure times.
    fn departures(pacer: &mut Pacer, count: usize, late: Duration) -> Vec<u64> {
        let (mut times, mut now) = (Vec::new(), Instant::ORIGIN);
        while times.len() < count {
            if pacer.ready_at() > now {
                now = pacer.ready_at() + late;
            }
            let datagrams = pacer.train(now, 1_000);
            pacer.spend(now, datagrams * 1_000, datagrams * 1_000);
            times.extend(std::iter::repeat_n(now.as_nanos(), datagrams));
        }
        times
    }

    /// Returns how many datagrams leave at once after a pause.
    fn burst(mut pacer: Pacer) -> usize {
        let (after, mut count) = (Instant::from_nanos(5_000_000_000), 0);
        while pacer.ready_at() <= after {
            let datagrams = pacer.train(after, 1_000);
            pacer.spend(after, datagrams * 1_000, 0);
            count += datagrams;
        }
        count
    }

    #[test]
    fn the_long_run_rate_is_the_streams_with_headroom_also_when_sleeps_end_late() {
        for late_us in [0, 60, 200] {
            let mut pacer = pacer(80e6);
            pacer.smallest_buffer(Some(4 << 20));
            let times = departures(&mut pacer, 100_000, Duration::from_micros(late_us));
            // 100 MB at 100 MB/s.
            let last = *times.last().unwrap() as f64 / 1e9;
            assert!((0.998..1.001).contains(&last), "{last} s, each {late_us} us late");
        }
    }

    #[test]
    fn a_fast_stream_keeps_its_rate_although_its_sleeps_take_many_trains() {
        let mut pacer = Pacer::new(STREAM, 4e9, 1_000, Instant::ORIGIN);
        pacer.smallest_buffer(Some(32 << 20));
        let times = departures(&mut pacer, 5_000_000, Duration::from_micros(150));
        let last = *times.last().unwrap() as f64 / 1e9;
        assert!((0.99..1.01).contains(&last), "{last} s for 5 GB at 5 GB/s");
    }

    #[test]
    fn what_leaves_after_a_stall_is_a_train_and_what_a_late_sleep_is_owed() {
        let mut pacer = pacer(80e6);
        pacer.smallest_buffer(Some(4 << 20));
        let burst = burst(pacer);
        assert!(
            (36..=37).contains(&burst),
            "100 datagrams a millisecond: 16, and 20 for 200 us, not {burst}"
        );
    }

    #[test]
    fn no_train_is_longer_than_asked_for() {
        let mut pacer = pacer(800e6);
        pacer.smallest_buffer(Some(4 << 20));
        let now = Instant::from_nanos(5_000_000_000);
        assert_eq!(pacer.train(now, 1_000), 16);
        let long = Pacing::Stream(Limits { train: 64, ..Limits::default() });
        let mut pacer = Pacer::new(long, 800e6, 1_000, Instant::ORIGIN);
        pacer.smallest_buffer(Some(4 << 20));
        assert_eq!(pacer.train(now, 1_000), 64);
    }

    #[test]
    fn a_burst_takes_an_eighth_of_the_smallest_receive_buffer() {
        let mut pacer = pacer(80e6);
        pacer.smallest_buffer(Some(80_000));
        assert_eq!(burst(pacer.clone()), 11, "10,000 bytes, and the one that exceeds them");
        pacer.smallest_buffer(Some(1));
        assert_eq!(burst(pacer.clone()), 5, "a buffer that nobody has");
        pacer.smallest_buffer(None);
        assert_eq!(burst(pacer), 27, "the default of Linux");
    }

    #[test]
    fn trains_are_full_so_that_few_wake_ups_send_many() {
        let mut times = departures(&mut pacer(80e6), 1_600, Duration::ZERO);
        times.dedup();
        assert!(
            times.len() <= 100,
            "a train each time, not a datagram whenever there is room: {}",
            times.len()
        );
    }

    #[test]
    fn a_slow_streams_burst_is_a_millisecond_long() {
        assert_eq!(burst(pacer(4e6)), 6, "5 MB/s, and one");
        let quantum = Duration::from_millis(3);
        let pacing = Pacing::Stream(Limits { quantum, ..Limits::default() });
        assert_eq!(burst(Pacer::new(pacing, 4e6, 1_000, Instant::ORIGIN)), 16, "or as long as asked for");
    }

    #[test]
    fn measurements_are_not_held_back() {
        let mut pacer = Pacer::new(Pacing::Unlimited { train: 44 }, 1e3, 1_000, Instant::ORIGIN);
        assert_eq!(pacer.train(Instant::ORIGIN, 1_000), 44);
        assert!(departures(&mut pacer, 1_000, Duration::ZERO).iter().all(|time| *time == 0));
    }
}
