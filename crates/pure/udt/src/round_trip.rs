//! Round-trip time from a packet to its acknowledgement.

use core::time::Duration;

use congestion::RoundTrip;

/// Estimate shared by both directions of a connection.
///
/// A receiver measures the time from an acknowledgement to its answer; a sender adopts the receiver's value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTripEstimate {
    view: RoundTrip,
    /// True once the times of data have been measured.
    is_measured: bool,
}

/// Maximum plausible value: no path takes longer, and timeouts are several times this.
const MOST: Duration = Duration::from_secs(60);
/// libudt's values before its first sample, which carry no information.
const PLACEHOLDER_US: (u32, u32) = (100_000, 50_000);

impl RoundTripEstimate {
    pub(crate) const fn new() -> Self {
        Self { view: RoundTrip::UNKNOWN, is_measured: false }
    }

    pub(crate) const fn view(&self) -> RoundTrip {
        self.view
    }

    /// Takes a sample measured at this end.
    ///
    /// Source: the weights 1/8 and 1/4 are RFC 6298's and libudt's; like RFC 6298 and unlike libudt the first sample
    /// is used alone, or it would take fifty acknowledgements to forget the initial 100 ms.
    pub(crate) fn sample(&mut self, sample: Duration) {
        let view = &mut self.view;
        if view.latest.is_none() {
            view.smoothed = sample;
            view.variation = sample / 2;
        } else {
            view.variation = (view.variation * 3 + view.smoothed.abs_diff(sample)) / 4;
            view.smoothed = (view.smoothed * 7 + sample) / 8;
        }
        self.note(sample);
    }

    /// Takes the time from data to their acknowledgement. From then on `latest` and `least` are of those:
    /// acknowledgements and their answers are small, and return sooner.
    pub(crate) fn measure(&mut self, sample: Duration) {
        if self.view.latest.is_none() {
            (self.view.smoothed, self.view.variation) = (sample, sample / 2);
        }
        if !core::mem::replace(&mut self.is_measured, true) {
            self.view.least = None;
        }
        self.keep(sample);
    }

    /// Takes the peer's smoothed values; smoothing them again would only add delay.
    pub(crate) fn told(&mut self, smoothed_us: u32, variation_us: u32) {
        if (smoothed_us, variation_us) == PLACEHOLDER_US || smoothed_us == 0 {
            return;
        }
        self.view.smoothed = Duration::from_micros(smoothed_us.into()).min(MOST);
        self.view.variation = Duration::from_micros(variation_us.into()).min(MOST);
        self.note(self.view.smoothed);
    }

    /// Returns smoothed time and variation for acknowledgements. Units: microseconds.
    pub(crate) fn words(&self) -> (u32, u32) {
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        (micros(self.view.smoothed), micros(self.view.variation))
    }

    /// Returns the time after which an answer counts as lost: the smoothed time and four variations.
    pub(crate) fn patience(&self) -> Duration {
        self.view.smoothed + self.view.variation * 4
    }

    /// Returns the time after which a packet that was reported missing counts as lost again: the report travels to
    /// the sender, and the packet returns behind everything that has filled the queue meanwhile. Without the
    /// additional half round trip, a steady path leaves it no margin.
    pub(crate) fn repair(&self) -> Duration {
        self.patience() + self.view.smoothed / 2
    }

    /// Returns that time for live messages, which are repaired at once: a report too many costs a packet, one that waits
    /// costs the deadline.
    pub(crate) fn timely_repair(&self) -> Duration {
        /// Minimum margin: the lateness of timers at both ends.
        const LEAST_MARGIN: Duration = Duration::from_micros(250);
        self.view.smoothed + self.view.variation.max(LEAST_MARGIN)
    }

    fn note(&mut self, sample: Duration) {
        if !self.is_measured {
            self.keep(sample);
        }
    }

    fn keep(&mut self, sample: Duration) {
        self.view.latest = Some(sample);
        self.view.least = Some(self.view.least.map_or(sample, |least| least.min(sample)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_sample_stands_alone_and_the_next_ones_are_weighed() {
        let mut estimate = RoundTripEstimate::new();
        assert_eq!(estimate.words(), (100_000, 50_000));
        estimate.sample(20 * MS);
        assert_eq!(estimate.words(), (20_000, 10_000));
        estimate.sample(28 * MS);
        assert_eq!(estimate.words(), (21_000, 9_500));
        assert_eq!(estimate.view().least, Some(20 * MS));
    }

    #[test]
    fn a_placeholder_is_no_sample() {
        let mut estimate = RoundTripEstimate::new();
        estimate.told(100_000, 50_000);
        estimate.told(0, 0);
        assert_eq!(estimate.view(), RoundTrip::UNKNOWN);
        estimate.told(87_505, 62_489);
        assert_eq!(estimate.words(), (87_505, 62_489));
        // A value of an hour is not believed.
        estimate.told(u32::MAX, u32::MAX);
        assert_eq!(estimate.view().smoothed, MOST);
        assert_eq!(estimate.patience(), MOST * 5);
    }

    #[test]
    fn what_was_measured_first_stands_alone_too_and_nothing_is_spread_over_the_placeholder() {
        let mut estimate = RoundTripEstimate::new();
        estimate.measure(MS * 20);
        assert_eq!(estimate.view().smoothed, MS * 20);
        estimate.sample(MS * 20);
        assert_eq!((estimate.view().smoothed, estimate.view().least), (MS * 20, Some(MS * 20)));
        // An acknowledgement and its answer are small: they are no minimum round trip of data.
        estimate.sample(MS * 19);
        assert_eq!(estimate.view().least, Some(MS * 20));
    }
}
