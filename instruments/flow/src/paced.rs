//! Sending by a timetable.

use std::time::Duration;

use probe::flow::{Due, FlowRate, Pace};
use sys::clock;
use units::Instant;

/// Interval at which a sender checks whether it is to end: paced sleeps are exact only on the clock.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time and rate of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Timetable {
    /// Time of the first unit.
    pub start: Instant,
    /// End, at which no more is sent.
    pub end: Instant,
    /// Rate in between.
    pub rate: FlowRate,
}

/// A sender of units, in bursts.
pub trait Paced {
    /// Error that ends the flow: a refused unit is counted, with the stage that refused it.
    type Error;

    /// Sends `count` units, as far as there is room, without waiting for it.
    ///
    /// # Errors
    /// The error that ends the flow.
    fn send(&mut self, count: u32) -> Result<Room, Self::Error>;

    /// Waits for room, until the time limit.
    ///
    /// # Errors
    /// The error that ends the flow.
    fn wait_for_room(&mut self, until: Instant) -> Result<(), Self::Error>;

    /// Publishes the counts so far; called at least every 20 ms.
    fn show(&mut self, _now: Instant) {}
}

/// Result of sending units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// This number of units was sent.
    Taken(u32),
    /// Only this number was sent, as there was no more room: wait before the next call.
    Full(u32),
}

/// Outcome of a sender.
pub struct Sending<E> {
    /// The error that ended it, if one did.
    pub outcome: Result<(), E>,
    /// Time of the end: that of the timetable, unless the sender began later or ended earlier.
    pub ended: Instant,
    /// Units that a stall kept from being sent.
    pub skipped: u64,
}

/// Sends from the beginning of a timetable to its end, or until `is_to_end`: at least once, even if the thread is
/// scheduled only after the end. A run in which nothing was sent says nothing.
pub fn send<P: Paced + ?Sized>(
    paced: &mut P,
    timetable: Timetable,
    is_to_end: &dyn Fn() -> bool,
) -> Sending<P::Error> {
    let Timetable { start, end, rate } = timetable;
    let mut pace = Pace::new(rate, start);
    let mut first = None;
    let outcome = loop {
        let now = clock::monotonic();
        if is_to_end() || (now >= end && first.is_some()) {
            break Ok(());
        }
        paced.show(now);
        let look = end.min(now + POLL_INTERVAL);
        match pace.due(now.min(end)) {
            Due::At(moment) => clock::sleep_until(moment.min(look)),
            Due::Now(count) => {
                first.get_or_insert(now);
                if let Err(error) = hand(paced, count, &mut pace, look) {
                    break Err(error);
                }
            }
        }
    };
    let now = clock::monotonic();
    let ended = now.min(end.max(first.unwrap_or(now)));
    Sending { outcome, ended, skipped: pace.skipped() }
}

/// Sends what is due, and waits for room if there is none for all of it.
fn hand<P: Paced + ?Sized>(
    paced: &mut P,
    count: u32,
    pace: &mut Pace,
    until: Instant,
) -> Result<(), P::Error> {
    let room = paced.send(count)?;
    let (Room::Taken(handed) | Room::Full(handed)) = room;
    pace.hand(handed);
    if let Room::Full(_) = room { paced.wait_for_room(until) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has room for one unit at a time, and breaks at the fourth.
    #[derive(Default)]
    struct Narrow {
        sent: u32,
        waits: u32,
        first: Option<Instant>,
    }

    impl Paced for Narrow {
        type Error = u32;

        fn send(&mut self, _count: u32) -> Result<Room, u32> {
            if self.sent == 3 {
                return Err(self.sent);
            }
            self.sent += 1;
            self.first.get_or_insert(clock::monotonic());
            Ok(Room::Full(1))
        }

        fn wait_for_room(&mut self, _until: Instant) -> Result<(), u32> {
            self.waits += 1;
            Ok(())
        }
    }

    fn run(timetable: Timetable, is_to_end: bool) -> (Narrow, Sending<u32>) {
        let mut narrow = Narrow::default();
        let sending = send(&mut narrow, timetable, &|| is_to_end);
        (narrow, sending)
    }

    #[test]
    fn a_sender_waits_for_room_and_ends_with_its_error() {
        let start = clock::monotonic();
        let timetable = Timetable { start, end: start + Duration::from_secs(60), rate: FlowRate::Unlimited };
        let (narrow, sending) = run(timetable, false);
        assert_eq!((narrow.sent, narrow.waits, sending.outcome), (3, 3, Err(3)));
    }

    #[test]
    fn a_sender_that_comes_late_sends_one_burst_and_says_when() {
        let end = clock::monotonic();
        let timetable = Timetable { start: end, end, rate: FlowRate::of_units(10) };
        let (late, sending) = run(timetable, false);
        assert_eq!((late.sent, sending.outcome, sending.skipped), (1, Ok(()), 0));
        assert!(sending.ended > end, "not before it was sent");
        assert_eq!(run(timetable, true).0.sent, 0, "it was cancelled");
    }

    #[test]
    fn a_slow_sender_waits_for_the_end_of_its_timetable() {
        let start = clock::monotonic();
        let end = start + Duration::from_millis(50);
        let (narrow, sending) = run(Timetable { start, end, rate: FlowRate::of_units(10) }, false);
        assert!(narrow.sent == 1 && clock::monotonic() >= end);
        // Later only if this thread had no processor until then.
        assert!((end..=end.max(narrow.first.unwrap())).contains(&sending.ended));
    }
}
