//! Timeout of silent readers: by the longest report interval that they may still follow.
//!
//! A reader draws its waits from the latest interval that it received. When many readers leave, the interval falls as
//! they are forgotten, while the remaining ones still wait by the old interval: measured by the new one they would
//! seem gone.

use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;

/// Number of silent intervals after which a reader is gone (RFC 3550 §6.3.5).
pub(super) const SILENT_INTERVALS: u32 = 5;
/// Resolution of intervals: one that is shorter by less than one part in this many counts as the same, so that at
/// most some fifty steps from the longest to the shortest are remembered.
const STEP: u32 = 8;

/// The recent report intervals.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    present: Duration,
    /// Longer ones that readers may still follow, the longest first; each ended before the next.
    past: VecDeque<Past>,
}

/// An interval that is no longer in force.
#[derive(Clone, Copy, Debug)]
struct Past {
    interval: Duration,
    until: Instant,
}

impl Patience {
    pub(super) const fn new(interval: Duration) -> Self {
        Self { present: interval, past: VecDeque::new() }
    }

    /// Records the interval that is in force from now on.
    pub(super) fn follow(&mut self, now: Instant, interval: Duration) {
        if interval >= self.present {
            // A reader that may still follow a shorter one may follow this one too.
            self.present = interval;
            while self.past.back().is_some_and(|past| past.interval <= interval) {
                self.past.pop_back();
            }
        } else if interval <= self.present - self.present / STEP {
            self.past.push_back(Past { interval: self.present, until: now });
            self.present = interval;
        }
        let is_over = |past: &Past| now.since(past.until) >= past.interval * SILENT_INTERVALS;
        while self.past.front().is_some_and(is_over) {
            self.past.pop_front();
        }
    }

    /// Returns how long a reader may be silent whose latest report came at this time.
    pub(super) fn with_reader_heard(&self, heard: Instant) -> Duration {
        let longest = self.past.iter().find(|past| heard <= past.until);
        longest.map_or(self.present, |past| past.interval) * SILENT_INTERVALS
    }

    /// Returns the minimum of the allowed silence of any reader.
    pub(super) fn least(&self) -> Duration {
        self.present * SILENT_INTERVALS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn at(count: u64) -> Instant {
        Instant::ORIGIN + seconds(count)
    }

    #[test]
    fn a_reader_is_judged_by_the_longest_interval_since_it_was_heard() {
        let mut patience = Patience::new(seconds(1));
        patience.follow(at(10), seconds(20));
        assert_eq!(patience.with_reader_heard(at(5)), seconds(100), "it was put off when the crowd came");
        patience.follow(at(30), seconds(8));
        patience.follow(at(40), seconds(1));
        for (heard, expected) in [(5, 100), (30, 100), (31, 40), (40, 40), (41, 5)] {
            assert_eq!(patience.with_reader_heard(at(heard)), seconds(expected), "heard at {heard} s");
        }
        assert_eq!(patience.least(), seconds(5));
    }

    #[test]
    fn a_longer_interval_makes_the_shorter_ones_before_it_unimportant() {
        let mut patience = Patience::new(seconds(20));
        for (now, interval) in [(1, 10), (2, 5), (3, 1), (4, 10)] {
            patience.follow(at(now), seconds(interval));
        }
        assert_eq!(patience.with_reader_heard(at(2)), seconds(50));
        assert_eq!(patience.with_reader_heard(at(1)), seconds(100));
        assert_eq!(patience.past.len(), 1);
    }

    #[test]
    fn an_interval_is_forgotten_when_whoever_follows_it_would_be_gone() {
        let mut patience = Patience::new(seconds(20));
        patience.follow(at(10), seconds(1));
        patience.follow(at(110) - Duration::from_nanos(1), seconds(1));
        assert_eq!(patience.past.len(), 1);
        patience.follow(at(110), seconds(1));
        assert_eq!(patience.past.len(), 0);
    }

    #[test]
    fn however_slowly_the_interval_falls_few_are_remembered_and_none_is_underrated() {
        let mut patience = Patience::new(seconds(600));
        let mut interval = seconds(600);
        while interval > seconds(1) {
            interval = interval.mul_f64(0.999).max(seconds(1));
            patience.follow(at(1), interval);
            assert!(patience.least() >= interval * SILENT_INTERVALS);
            assert!(patience.least().mul_f64(0.875) <= interval * SILENT_INTERVALS);
        }
        assert!((30..60).contains(&patience.past.len()), "{}", patience.past.len());
    }
}
