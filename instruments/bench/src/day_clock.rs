//! Detection of changes to the time of day during a measurement.
//!
//! Durations and rates are of the monotonic clock, which is never set; a report's stamps, and the kernel's
//! arrival times, are of the time of day. Slewing moves both clocks alike, so that the difference between them
//! changes by a step alone.

use std::time::Duration;

use sys::clock;
use units::{Instant, WallTime};

/// Maximum difference that reading the two clocks one after the other may cause.
const READING_NS: i64 = 1_000_000;

/// Time after a step in which times of day from before it may still come, such as those of datagrams in a
/// queue.
const DISTRUST: Duration = Duration::from_secs(1);

/// Both clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    pub(crate) monotonic: Instant,
    pub(crate) wall: WallTime,
}

impl Moment {
    /// Reads both clocks.
    pub(crate) fn now() -> Self {
        let (monotonic, wall) = clock::pair();
        Self { monotonic, wall }
    }

    /// Returns by how much the time of day was set between `before` and this moment, in nanoseconds; `None` if
    /// it was not.
    fn step_since(&self, before: &Self) -> Option<i64> {
        let elapsed = i64::try_from(self.monotonic.since(before.monotonic).as_nanos()).unwrap_or(i64::MAX);
        let step = self.wall.nanos_since(before.wall).saturating_sub(elapsed);
        (step.saturating_abs() > READING_NS).then_some(step)
    }

    /// Returns the moment as it would be had the time of day been set forward by `seconds` since.
    #[cfg(test)]
    pub(crate) fn before_a_step_of(self, seconds: i64) -> Self {
        Self { wall: self.wall.offset(-seconds * 1_000_000_000), ..self }
    }

    /// Returns a note that the time of day was set since, if it was.
    pub(crate) fn step_in_words(&self, now: &Self) -> Option<String> {
        let seconds = Duration::from_nanos(now.step_since(self)?.unsigned_abs()).as_secs_f64();
        let way = if now.step_since(self)? > 0 { "forward" } else { "back" };
        Some(format!(
            "the time of day of this host was set {way} by {seconds:.3} s while it was measured, or the host slept: stamps before \
             and after it do not fit together; durations and rates are of another clock, which is not set"
        ))
    }
}

/// Decides moment by moment whether times of day from shortly before are trusted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DayClock {
    last: Moment,
    distrusted_until: Option<Instant>,
}

impl DayClock {
    /// Begins at a moment.
    pub(crate) const fn new(now: Moment) -> Self {
        Self { last: now, distrusted_until: None }
    }

    /// Returns whether a time of day from before this moment is trusted.
    pub(crate) fn is_believed(&mut self, now: Moment) -> bool {
        if now.step_since(&self.last).is_some() {
            self.distrusted_until = Some(now.monotonic + DISTRUST);
        }
        self.last = now;
        self.distrusted_until.is_none_or(|until| now.monotonic >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A moment `nanos` after the first, with the time of day set by `set_by` nanoseconds in between.
    fn after(nanos: u64, set_by: i64) -> Moment {
        let wall = WallTime::from_nanos(1_000_000_000_000).offset(nanos as i64 + set_by);
        Moment { monotonic: Instant::from_nanos(5_000_000_000 + nanos), wall }
    }

    #[test]
    fn a_step_is_what_one_clock_went_and_the_other_did_not() {
        let first = after(0, 0);
        for (set_by, step) in [
            (0, None),
            (READING_NS, None),
            (-READING_NS, None),
            (READING_NS + 1, Some(READING_NS + 1)),
            (-3_000_000_000, Some(-3_000_000_000)),
        ] {
            assert_eq!(after(60_000_000_000, set_by).step_since(&first), step, "{set_by}");
        }
    }

    #[test]
    fn a_step_is_said_with_its_way_and_nothing_is_where_there_was_none() {
        let said = |set_by| after(10, 0).step_in_words(&after(1_000_000_000, set_by));
        assert_eq!(said(0), None);
        assert!(said(2_500_000_000).unwrap().contains("set forward by 2.500 s"));
        assert!(said(-40_000_000).unwrap().contains("set back by 0.040 s"));
    }

    #[test]
    fn what_lay_in_a_queue_when_the_clock_was_set_is_not_believed_and_later_ones_are() {
        let (distrust, step) = (1_000_000_000, 500_000_000);
        let mut clock = DayClock::new(after(0, 0));
        assert!(clock.is_believed(after(100, 0)));
        assert!(!clock.is_believed(after(200, step)), "half a second that nobody waited");
        assert!(!clock.is_believed(after(199 + distrust, step)), "from before, perhaps");
        assert!(clock.is_believed(after(200 + distrust, step)));
    }
}
