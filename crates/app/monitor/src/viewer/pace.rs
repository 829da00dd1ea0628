//! Frame rate of one view, its coarseness when it does not keep up, and the bytes that a viewer gets.

use std::time::{Duration, Instant};

use crate::clock::nanos_since_origin;

/// Observation time before the coarseness changes: a shorter one would follow every short delay.
const WATCHED: Duration = Duration::from_secs(2);
/// Maximum coarseness: a view that is never quick enough gets a quarter of the requested columns.
pub(super) const MAX_FURTHER: u32 = 4;
/// Making frames for one view takes at most this fraction of a processor.
const MOST_OF_A_PROCESSOR: u32 = 5;

/// The pace of one view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    further: u32,
    since: Option<Instant>,
    made: u32,
    dropped: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { further: 1, since: None, made: 0, dropped: 0 }
    }
}

impl Pace {
    /// Time of a beat, in which a view has at most one frame: 30 per second look smooth.
    pub(super) const FRAME: Duration = Duration::from_nanos(Self::FRAME_NS);
    const FRAME_NS: u64 = 33_333_000;
    /// Minimum time between two questions to the store: short enough for panning.
    pub(super) const ASK: Duration = Duration::from_millis(300);

    /// Returns the number of the beat of this moment.
    ///
    /// All pages have the same beats: one wake of the server serves all of them, and pages that show the same have the same
    /// successive drawings.
    pub(super) fn beat(now: Instant) -> u64 {
        nanos_since_origin(now) / Self::FRAME_NS
    }

    /// Returns when the next beat begins.
    pub(super) fn next_beat(now: Instant) -> Instant {
        now + Duration::from_nanos(Self::FRAME_NS - nanos_since_origin(now) % Self::FRAME_NS)
    }

    /// Returns how much longer than usual the next frame of a view waits after one that took `cost`.
    pub(super) fn extra(cost: Duration) -> Duration {
        (cost * MOST_OF_A_PROCESSOR).saturating_sub(Self::FRAME)
    }

    /// Returns the factor by which frames are coarser than requested.
    pub(super) const fn further(&self) -> u32 {
        self.further
    }

    pub(super) fn made(&mut self, now: Instant) {
        self.made += 1;
        self.judge(now);
    }

    pub(super) fn dropped(&mut self, now: Instant) {
        self.dropped += 1;
        self.judge(now);
    }

    fn judge(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < WATCHED {
            return;
        }
        if self.dropped > self.made {
            self.further = (self.further * 2).min(MAX_FURTHER);
        } else if self.dropped == 0 {
            self.further = (self.further / 2).max(1);
        }
        *self = Self { further: self.further, since: Some(now), made: 0, dropped: 0 };
    }
}

/// Bytes of frames that a viewer gets per second, 16 Mbit/s: a hundred traces fit, and a radio link carries it.
const BYTES_PER_S: u32 = 2_000_000;
/// Time for which a viewer may get more than that: a new view is drawn at once.
const BURST: Duration = Duration::from_millis(500);

/// The bytes that a viewer may still get.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    /// Time at which everything sent so far was within the rate.
    paid_at: Option<Instant>,
}

impl Allowance {
    pub(super) fn is_spent(&self, now: Instant) -> bool {
        self.paid_at.is_some_and(|paid_at| paid_at > now + BURST)
    }

    pub(super) fn spend(&mut self, bytes: usize, now: Instant) {
        let from = self.paid_at.map_or(now, |paid_at| paid_at.max(now));
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.paid_at = Some(from + Duration::from_secs(1) * bytes / BYTES_PER_S);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_that_drops_most_is_thinned_further_and_recovers() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..1_000 {
            now += Pace::FRAME;
            pace.dropped(now);
        }
        assert_eq!(pace.further(), MAX_FURTHER);
        for _ in 0..1_000 {
            now += Pace::FRAME;
            pace.made(now);
        }
        assert_eq!(pace.further(), 1);
    }

    #[test]
    fn a_viewer_gets_its_bytes_per_second_after_the_first_burst() {
        let (mut allowance, begin) = (Allowance::default(), Instant::now());
        let mut sent = 0;
        for millis in 0..10_000 {
            let now = begin + Duration::from_millis(millis);
            if !allowance.is_spent(now) {
                allowance.spend(400_000, now);
                sent += 400_000;
            }
        }
        let (rate, burst) = (u64::from(BYTES_PER_S), u64::from(BYTES_PER_S) / 2);
        assert!((10 * rate..=10 * rate + burst + 400_000).contains(&sent), "{sent} bytes in 10 s");
        assert!(!allowance.is_spent(begin + Duration::from_secs(11)), "it recovers");
    }

    #[test]
    fn a_costly_view_waits_longer() {
        assert_eq!(Pace::extra(Duration::ZERO), Duration::ZERO);
        assert_eq!(Pace::FRAME + Pace::extra(Duration::from_millis(100)), Duration::from_millis(500));
    }
}
