//! When this reader reports, so that all readers together keep within the budget.
//!
//! Source: RFC 3550 §6.3 with unconditional reconsideration: when a report falls due, the interval is read
//! again from the newest tally, and if the crowd has grown meanwhile, the report waits on. Every wait is at
//! least one interval, so that the budget holds for any number of readers.

use core::time::Duration;

use units::{Instant, Random};

use crate::sender::MIN_REPORT_INTERVAL;

/// The first report waits for a random share of this, so that readers who join together do not report
/// together: RFC 3550 §6.2 halves its minimum of five seconds for the first report.
const FIRST_WAIT: Duration = Duration::from_millis(2_500);
/// The least share of the first wait.
const FIRST_SHARE: f64 = 0.2;
/// Waits are spread over this much of an interval.
const SPREAD: f64 = 0.5;
/// No publisher may silence its readers for longer than this.
const MAX_REPORT_INTERVAL: Duration = Duration::from_secs(24 * 3_600);

/// Keeps the time of one reader's reports.
#[derive(Debug)]
pub(super) struct ReportClock {
    random: Random,
    interval: Duration,
    /// Since when the present wait counts: the last report, or the joining.
    since: Instant,
    due: Instant,
    reported: bool,
}

impl ReportClock {
    pub(super) fn new(seed: u64, now: Instant) -> Self {
        let mut random = Random::for_purpose(seed, "reports");
        let first = FIRST_WAIT.mul_f64(FIRST_SHARE + (1.0 - FIRST_SHARE) * random.unit());
        Self { random, interval: MIN_REPORT_INTERVAL, since: now, due: now + first, reported: false }
    }

    /// Takes over the interval that a tally announced.
    pub(super) fn announced(&mut self, interval: Duration) {
        self.interval = interval.clamp(MIN_REPORT_INTERVAL, MAX_REPORT_INTERVAL);
    }

    /// Brings the next report forward because of a new loss, as far as the budget allows.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.reported {
            self.due = self.due.min(now.max(self.since + self.interval));
        }
    }

    /// Tells whether to report now; a crowd that has grown meanwhile makes the wait longer.
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
        clock.announced(Duration::from_secs(300));
        let first = next_report(&mut clock).since(Instant::ORIGIN);
        assert!((300.0..=450.0).contains(&first.as_secs_f64()), "{first:?}");
    }

    #[test]
    fn a_loss_is_told_early_but_never_before_the_interval_is_over() {
        let mut clock = ReportClock::new(1, Instant::ORIGIN);
        clock.announced(Duration::from_secs(10));
        let last = next_report(&mut clock);
        clock.hurry(last + Duration::from_secs(3));
        assert_eq!(clock.due(), last + Duration::from_secs(10));
    }
}
