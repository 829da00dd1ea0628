//! Schedule of tallies.

use core::time::Duration;

use units::Instant;

/// Maximum time from data to the next tally.
pub(crate) const FIRST_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum interval while idle; the interval doubles up to it.
pub(crate) const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// Number of ranges not yet in any tally that calls for one at once: a tally holds twice as many, so each range is
/// sent, and twice unless a whole train was refused datagram by datagram.
const MAX_UNTOLD_RANGES: usize = wire::MAX_RANGES / 2;

/// Number of new readers that calls for an early tally.
const NEW_READERS: usize = 16;

/// Schedules tallies.
#[derive(Clone, Debug)]
pub(super) struct TallyClock {
    last: Instant,
    interval: Duration,
    /// Departure of the first data since the last tally.
    data_since: Option<Instant>,
    untold_ranges: usize,
    /// Readers with a first report since the last tally.
    new_readers: usize,
    /// True if a reader has challenged the publisher with a nonce since the last tally.
    has_nonces: bool,
    /// True if a statement waits for a tally.
    has_statement: bool,
}

impl TallyClock {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            last: now,
            interval: FIRST_INTERVAL,
            data_since: None,
            untold_ranges: 0,
            new_readers: 0,
            has_nonces: false,
            has_statement: false,
        }
    }

    pub(super) fn data_left(&mut self, now: Instant) {
        self.data_since.get_or_insert(now);
    }

    pub(super) const fn range_added(&mut self) {
        self.untold_ranges += 1;
    }

    /// Records a new reader. A crowd that joins at once must learn of its own size before it reports; but it may be
    /// forged, and cannot call for tallies more often than data do.
    pub(super) const fn reader_added(&mut self) {
        self.new_readers += 1;
    }

    /// Records that the next tally repeats a nonce. It comes early, but no sooner than after data.
    pub(super) const fn nonce_added(&mut self) {
        self.has_nonces = true;
    }

    /// Records that a statement waits: at most one for each mebibyte of the stream or each second.
    pub(super) const fn statement_added(&mut self) {
        self.has_statement = true;
    }

    /// Returns the number of ranges that no tally had yet.
    pub(super) const fn untold_ranges(&self) -> usize {
        self.untold_ranges
    }

    /// Returns whether enough readers are new to call for a tally.
    pub(super) const fn is_crowd(&self) -> bool {
        self.new_readers >= NEW_READERS
    }

    /// Returns how many datagrams may leave before the next tally without more ranges than it holds: in the worst
    /// case every second one is refused.
    pub(super) fn untold_room(&self) -> usize {
        (2 * wire::MAX_RANGES.saturating_sub(self.untold_ranges)).max(1)
    }

    /// Returns when the next tally is due.
    pub(super) fn due(&self) -> Instant {
        if self.has_statement || self.untold_ranges >= MAX_UNTOLD_RANGES {
            return self.last;
        }
        let is_called_for = self.is_crowd() || self.has_nonces;
        let promised = self.last + if is_called_for { FIRST_INTERVAL } else { self.interval };
        self.data_since.map_or(promised, |since| promised.min(since + FIRST_INTERVAL))
    }

    /// Records that a tally is being sent; returns the latest time of the next one.
    pub(super) fn told(&mut self, now: Instant) -> Duration {
        self.interval = match self.data_since {
            Some(_) => FIRST_INTERVAL,
            None => (self.interval * 2).min(MAX_INTERVAL),
        };
        self.last = now;
        self.data_since = None;
        self.untold_ranges = 0;
        self.new_readers = 0;
        self.has_nonces = false;
        self.has_statement = false;
        self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_follow_data_within_100_ms_and_slow_down_while_idle() {
        let mut clock = TallyClock::new(Instant::ORIGIN);
        let mut now = Instant::ORIGIN + Duration::from_millis(30);
        clock.told(Instant::ORIGIN);
        clock.data_left(now);
        clock.data_left(now + Duration::from_millis(50));
        let mut waits = Vec::new();
        for _ in 0..6 {
            let due = clock.due();
            waits.push(due.since(now).as_millis());
            clock.told(due);
            now = due;
        }
        assert_eq!(waits, [100, 100, 200, 400, 800, 1_000]);
    }

    #[test]
    fn sixteen_new_readers_call_for_a_tally_but_not_within_100_ms_of_the_last() {
        let mut clock = TallyClock::new(Instant::ORIGIN);
        // Idle for long: a tally a second.
        let mut now = Instant::ORIGIN;
        for _ in 0..6 {
            now = clock.due();
            clock.told(now);
        }
        (1..16).for_each(|_| clock.reader_added());
        assert_eq!(clock.due(), now + MAX_INTERVAL);
        clock.reader_added();
        assert_eq!(clock.due(), now + FIRST_INTERVAL);
        clock.told(now + FIRST_INTERVAL);
        assert_eq!(clock.due(), now + FIRST_INTERVAL + MAX_INTERVAL, "they have been told");
    }

    #[test]
    fn a_nonce_calls_for_a_tally_but_not_within_100_ms_of_the_last() {
        let mut clock = TallyClock::new(Instant::ORIGIN);
        let now = Instant::ORIGIN + MAX_INTERVAL;
        (0..6).for_each(|_| _ = clock.told(now));
        clock.nonce_added();
        assert_eq!(clock.due(), now + FIRST_INTERVAL);
        clock.told(now + FIRST_INTERVAL);
        assert_eq!(clock.due(), now + FIRST_INTERVAL + MAX_INTERVAL, "it has been repeated");
    }

    #[test]
    fn sixteen_untold_ranges_call_for_a_tally_at_once() {
        let mut clock = TallyClock::new(Instant::ORIGIN);
        for _ in 0..15 {
            clock.range_added();
        }
        assert_eq!(clock.due(), Instant::ORIGIN + FIRST_INTERVAL);
        clock.range_added();
        assert_eq!(clock.due(), Instant::ORIGIN);
    }
}
