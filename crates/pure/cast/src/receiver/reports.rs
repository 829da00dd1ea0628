//! Times of this reader's reports, chosen so that all readers together stay within the budget.
//!
//! Source: RFC 3550 §6.3 with unconditional reconsideration: when a report falls due, the interval is read again from
//! the newest tally. If the number of readers has grown meanwhile, the report is postponed; if it has shrunk, the
//! report comes sooner. Every wait is at least one interval, so that the budget holds for any number of readers.

use core::time::Duration;

use units::{Instant, Random};

use crate::sender::{MAX_REPORT_INTERVAL, MIN_REPORT_INTERVAL};

/// Maximum wait for the first report, of which a random share is taken so that readers who join together do not
/// report together: RFC 3550 §6.2 halves its minimum of five seconds for the first report.
const FIRST_WAIT: Duration = Duration::from_millis(2_500);
/// Smallest share of the first wait.
const FIRST_SHARE: f64 = 0.2;
/// Random spread of a wait, as a share of the interval.
const SPREAD: f64 = 0.5;

/// Schedules one reader's reports.
#[derive(Debug)]
pub(super) struct ReportClock {
    random: Random,
    interval: Duration,
    /// Interval from which the present wait was drawn.
    drawn_from: Duration,
    /// Start of the present wait: the last report, or the joining.
    since: Instant,
    due: Instant,
    reported: bool,
}

impl ReportClock {
    pub(super) fn new(seed: u64, now: Instant) -> Self {
        let mut random = Random::for_purpose(seed, "reports");
        let first = FIRST_WAIT.mul_f64(FIRST_SHARE + (1.0 - FIRST_SHARE) * random.unit());
        let interval = MIN_REPORT_INTERVAL;
        Self { random, interval, drawn_from: interval, since: now, due: now + first, reported: false }
    }

    /// Adopts the interval that a tally announced, within the bounds that every publisher keeps: a forged tally
    /// silences no reader for longer.
    ///
    /// If it is shorter than the interval of the present wait, both the remaining and the elapsed part of the wait
    /// shrink with it. Otherwise readers that have left would keep the others silent for longer than the publisher,
    /// which counts in its present interval, waits for them.
    ///
    /// Source: RFC 3550 §6.3.4 (reverse reconsideration), with the intervals in place of the members.
    pub(super) fn announced(&mut self, now: Instant, interval: Duration) {
        self.interval = interval.clamp(MIN_REPORT_INTERVAL, MAX_REPORT_INTERVAL);
        if self.interval >= self.drawn_from {
            return;
        }
        let share = self.interval.as_secs_f64() / self.drawn_from.as_secs_f64();
        self.drawn_from = self.interval;
        self.since = now - now.since(self.since).mul_f64(share);
        // Rounding must not make it due a moment before the interval has passed: it would then wait once more.
        self.due = (now + self.due.since(now).mul_f64(share)).max(self.since + self.interval);
    }

    /// Brings the next report forward because of a new loss, as far as the budget allows.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.reported {
            self.due = self.due.min(now.max(self.since + self.interval));
        }
    }

    /// Returns whether to report now; the wait is extended if the number of readers has grown.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        let earliest = self.since + self.interval;
        let alone = self.interval == MIN_REPORT_INTERVAL && !self.reported;
        if now < earliest && !alone {
            self.due = self.since + self.draw();
            return false;
        }
        self.since = now;
        self.reported = true;
        self.due = now + self.draw();
        true
    }

    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    fn draw(&mut self) -> Duration {
        self.drawn_from = self.interval;
        self.interval.mul_f64(1.0 + SPREAD * self.random.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_report(clock: &mut ReportClock) -> Instant {
        for _ in 0..100 {
            let due = clock.due();
            if clock.is_due(due) {
                return due;
            }
        }
        panic!("a report that is put off for ever");
    }

    #[test]
    fn a_single_reader_reports_soon_and_then_about_every_second() {
        let mut clock = ReportClock::new(1, Instant::ORIGIN);
        let first = next_report(&mut clock);
        assert!(first.as_nanos() <= 2_500_000_000);
        for _ in 0..100 {
            let before = clock.since;
            let wait = next_report(&mut clock).since(before).as_secs_f64();
            assert!((1.0..=1.5).contains(&wait), "{wait}");
        }
    }

    #[test]
    fn a_crowd_that_shows_before_the_first_report_puts_it_off() {
        let mut clock = ReportClock::new(1, Instant::ORIGIN);
        clock.announced(Instant::ORIGIN, Duration::from_secs(300));
        let first = next_report(&mut clock).since(Instant::ORIGIN);
        assert!((300.0..=450.0).contains(&first.as_secs_f64()), "{first:?}");
    }

    #[test]
    fn a_loss_is_told_early_but_never_before_the_interval_is_over() {
        let mut clock = ReportClock::new(1, Instant::ORIGIN);
        clock.announced(Instant::ORIGIN, Duration::from_secs(10));
        let last = next_report(&mut clock);
        clock.hurry(last + Duration::from_secs(3));
        assert_eq!(clock.due(), last + Duration::from_secs(10));
    }

    /// A clock that has just reported, among readers with this interval, and the time of that report.
    fn in_crowd(seed: u64, interval: Duration) -> (ReportClock, Instant) {
        let mut clock = ReportClock::new(seed, Instant::ORIGIN);
        clock.announced(Instant::ORIGIN, interval);
        let last = next_report(&mut clock);
        (clock, last)
    }

    #[test]
    fn a_crowd_that_has_gone_brings_the_next_report_forward_in_proportion() {
        let mut waits = Vec::new();
        for seed in 0..100 {
            let (mut clock, last) = in_crowd(seed, Duration::from_secs(20));
            let left = clock.due().since(last + Duration::from_secs(10));
            assert!((10.0..=20.0).contains(&left.as_secs_f64()), "{left:?}");
            let now = last + Duration::from_secs(10);
            clock.announced(now, Duration::from_secs(1));
            let wait = next_report(&mut clock).since(now).as_secs_f64();
            assert!((wait - left.as_secs_f64() / 20.0).abs() < 1e-6, "{wait} s of {left:?}");
            waits.push(wait);
            let last = clock.since;
            let wait = next_report(&mut clock).since(last).as_secs_f64();
            assert!((1.0..=1.5).contains(&wait), "and from then on as a single reader: {wait}");
        }
        // The other readers do not report all at once.
        waits.sort_by(f64::total_cmp);
        assert!(waits[99] - waits[0] > 0.4, "{waits:?}");
    }

    #[test]
    fn a_crowd_that_shrinks_a_little_at_a_time_brings_it_forward_as_far() {
        let (mut clock, last) = in_crowd(3, Duration::from_secs(20));
        for step in 1..=190 {
            clock.announced(last + Duration::from_millis(step), Duration::from_millis(20_000 - 100 * step));
        }
        let wait = next_report(&mut clock).since(last).as_secs_f64();
        assert!((1.0..=1.7).contains(&wait), "{wait}");
    }

    #[test]
    fn a_report_that_is_due_when_the_interval_is_over_stays_so() {
        for millis in 1_000..1_100 {
            let (mut clock, last) = in_crowd(1, Duration::from_secs(10));
            clock.hurry(last);
            let now = last + Duration::from_nanos(3_333_333_333);
            let interval = Duration::from_millis(millis);
            clock.announced(now, interval);
            let due = clock.due();
            assert!(clock.is_due(due), "put off at an interval of {interval:?}");
        }
    }

    #[test]
    fn only_a_wait_that_was_drawn_from_a_longer_interval_is_shortened() {
        let mut clock = ReportClock::new(1, Instant::ORIGIN);
        let first = clock.due();
        clock.announced(Instant::ORIGIN, Duration::from_secs(20));
        clock.announced(Instant::ORIGIN, Duration::from_secs(1));
        assert_eq!(clock.due(), first, "the first wait is nobody's interval");
        let (mut clock, last) = in_crowd(1, Duration::from_secs(10));
        let due = clock.due();
        clock.announced(last, Duration::from_secs(40));
        clock.announced(last, Duration::from_secs(10));
        assert_eq!(clock.due(), due);
    }
}
