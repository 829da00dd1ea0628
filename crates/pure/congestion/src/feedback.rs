//! Common parts of controls with reports: a receiver's count of arrivals, and a sender's own account of losses, which
//! applies while the peer's control sends no reports.

use core::time::Duration;

use units::Instant;

use crate::{Received, RoundTrip};

/// Number of intervals, in addition to two round trips, after which a peer without a report counts as not reporting.
const SILENT_INTERVALS: u32 = 4;

/// Arrivals since the beginning, and the time of the next report.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    beat: Beat,
    received: u64,
    missing: u64,
}

/// Packets sent and lost in an interval, by loss reports.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    beat: Beat,
    sent: f64,
    lost: f64,
    /// Time of the latest report of the peer's control, or of the first packet.
    waits_since: Option<Instant>,
    was_heard: bool,
    /// True if the peer's control had reported recently at the end of the last interval, or has since.
    is_heard: bool,
}

/// Periodic times, while there is something to do.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    every: Duration,
    last: Option<Instant>,
    due: Option<Instant>,
}

impl Beat {
    pub(crate) const fn new(every: Duration) -> Self {
        Self { every, last: None, due: None }
    }

    /// Schedules the next time if none is: in step with the last one, unless that is long ago.
    pub(crate) fn want(&mut self, now: Instant) {
        let in_step = self.last.map(|last| last + self.every).filter(|next| *next >= now);
        self.due = self.due.or(Some(in_step.unwrap_or(now + self.every)));
    }

    /// Sets the period from the next time on.
    pub(crate) const fn set_every(&mut self, every: Duration) {
        self.every = every;
    }

    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let is_due = self.is_due(now);
        if is_due {
            self.last = self.due.take();
        }
        is_due
    }
}

impl Arrivals {
    /// Counts for reports at this interval.
    pub(crate) const fn each(every: Duration) -> Self {
        Self { beat: Beat::new(every), received: 0, missing: 0 }
    }

    pub(crate) fn count(&mut self, now: Instant, received: &Received) {
        self.received += u64::from(received.packets);
        self.missing += u64::from(received.newly_missing);
        self.beat.want(now);
    }

    /// Returns the time of the next report, while packets arrive.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.beat.due
    }

    /// Returns, when due, the numbers of packets received and found missing since the beginning.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(u64, u64)> {
        self.beat.take(now).then_some((self.received, self.missing))
    }
}

impl Departures {
    /// Keeps an account over intervals of this length.
    pub(crate) const fn each(every: Duration) -> Self {
        let beat = Beat::new(every);
        Self { beat, sent: 0.0, lost: 0.0, waits_since: None, was_heard: false, is_heard: false }
    }

    pub(crate) fn send(&mut self, now: Instant, packets: u32) {
        self.sent += f64::from(packets);
        self.beat.want(now);
        self.waits_since = self.waits_since.or(Some(now));
    }

    /// Sets the length of intervals from the next one on.
    pub(crate) const fn set_every(&mut self, every: Duration) {
        self.beat.set_every(every);
    }

    pub(crate) fn lose(&mut self, packets: u32) {
        self.lost += f64::from(packets);
    }

    /// Records a report of the peer's control.
    pub(crate) const fn hear(&mut self, now: Instant) {
        self.waits_since = Some(now);
        (self.was_heard, self.is_heard) = (true, true);
    }

    /// Returns whether reports have been missing for so long that the own account applies.
    pub(crate) fn is_alone(&self, now: Instant, round_trip: &RoundTrip) -> bool {
        let patience = self.beat.every * SILENT_INTERVALS + round_trip.smoothed.min(RoundTrip::LONGEST) * 2;
        self.waits_since.is_some_and(|since| now.since(since) > patience)
    }

    pub(crate) const fn due(&self) -> Option<Instant> {
        self.beat.due
    }

    /// Returns, at the end of an interval, the fraction of sent packets that were lost.
    pub(crate) fn take(&mut self, now: Instant, round_trip: &RoundTrip) -> Option<f64> {
        if !self.beat.take(now) {
            return None;
        }
        self.is_heard = self.was_heard && !self.is_alone(now, round_trip);
        let (sent, lost) = (core::mem::take(&mut self.sent), core::mem::take(&mut self.lost));
        Some(if sent > 0.0 { (lost / sent).min(1.0) } else { 0.0 })
    }

    /// Reports whether the peer's control reports.
    pub(crate) fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("peer_reports", f64::from(u8::from(self.is_heard)));
    }
}

/// Returns the low word of a count that is sent in words, and wraps.
#[expect(clippy::cast_possible_truncation, reason = "who reads it knows that it wraps")]
pub(crate) const fn low_word(count: u64) -> u32 {
    count as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn what_came_is_told_once_an_interval_while_something_comes() {
        let mut arrivals = Arrivals::each(Duration::from_millis(10));
        let received = Received { packets: 3, bytes: 4_500, newly_missing: 1, arrived: at(0) };
        arrivals.count(at(0), &received);
        arrivals.count(at(5), &received);
        assert_eq!((arrivals.take(at(9)), arrivals.due()), (None, Some(at(10))));
        assert_eq!((arrivals.take(at(10)), arrivals.due()), (Some((6, 2)), None));
        arrivals.count(at(12), &received);
        assert_eq!(arrivals.due(), Some(at(20)), "in step, though nothing came at 10 ms");
        assert_eq!(arrivals.take(at(21)), Some((9, 3)));
        arrivals.count(at(50), &received);
        assert_eq!(arrivals.due(), Some(at(60)));
    }

    #[test]
    fn an_own_account_holds_until_the_peer_speaks_and_when_it_stops() {
        let mut departures = Departures::each(Duration::from_millis(10));
        departures.send(at(0), 30);
        departures.lose(3);
        let unknown = RoundTrip { smoothed: Duration::from_millis(50), ..RoundTrip::UNKNOWN };
        assert_eq!(departures.take(at(9), &unknown), None);
        assert_eq!(departures.take(at(10), &unknown), Some(0.1));
        assert!(!departures.is_alone(at(140), &unknown) && departures.is_alone(at(141), &unknown));
        departures.hear(at(200));
        for (millis, is_heard) in [(340, true), (350, false)] {
            departures.beat.want(at(millis - 10));
            assert!(departures.take(at(millis), &unknown).is_some());
            assert_eq!(departures.is_heard, is_heard, "{millis} ms");
        }
    }
}
