//! Who may bring something at once: a bounded number of places, shared among neighbours.
//!
//! A place is for a sender that brings something. One that offers nothing in time loses it. Where all are taken, a
//! newcomer gets that of a neighbour who has more of them than the newcomer's and has not offered anything, or that of
//! a sender for which nothing has moved for long; otherwise it has to come again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A sender that has offered nothing for so long after it connected loses its place. The list is the first that it says,
/// and that of a million entries takes less over 10 Mbit/s.
const OFFERS_WITHIN: Duration = Duration::from_secs(120);
/// A sender that holds a place for so long without having offered anything gives way to others.
const GIVES_WAY_UNOFFERED: Duration = Duration::from_secs(2);
/// A sender for which nothing has moved for so long gives way to others, and may go on later where it was: files are
/// mostly written out, and looked through again at the other end, in less.
const GIVES_WAY_IDLE: Duration = Duration::from_secs(30);

/// A sender's place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place(u64);

/// The places of senders from neighbours `S`.
#[derive(Debug)]
pub struct Places<S> {
    most: usize,
    next: u64,
    seats: BTreeMap<Place, Seat<S>>,
}

#[derive(Debug)]
struct Seat<S> {
    source: S,
    has_offered: bool,
    /// When something last moved, or it came.
    moved: Instant,
}

/// What a newcomer gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// A place that was free.
    Free(Place),
    /// The place of another sender, whose connection is to be ended.
    InsteadOf {
        /// The newcomer's place.
        place: Place,
        /// The one that gives way.
        gone: Place,
    },
    /// None.
    Full,
}

impl<S: Copy + Ord> Places<S> {
    /// Makes so many places.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, next: 0, seats: BTreeMap::new() }
    }

    /// Takes a place for a newcomer.
    pub fn take(&mut self, now: Instant, source: S) -> Taken {
        if self.seats.len() < self.most {
            return Taken::Free(self.sit(now, source));
        }
        let Some(gone) = self.gives_way(now, source) else { return Taken::Full };
        self.leave(gone);
        Taken::InsteadOf { place: self.sit(now, source), gone }
    }

    /// Takes note that a sender has offered something.
    pub fn offered(&mut self, now: Instant, place: Place) {
        if let Some(seat) = self.seats.get_mut(&place) {
            (seat.has_offered, seat.moved) = (true, now);
        }
    }

    /// Takes note that something moved.
    pub fn moved(&mut self, now: Instant, place: Place) {
        if let Some(seat) = self.seats.get_mut(&place) {
            seat.moved = now;
        }
    }

    /// Frees a place.
    pub fn leave(&mut self, place: Place) {
        self.seats.remove(&place);
    }

    /// Frees and returns the places of those who offered nothing in time.
    pub fn overdue(&mut self, now: Instant) -> Vec<Place> {
        let is_overdue =
            |seat: &Seat<S>| !seat.has_offered && now.duration_since(seat.moved) >= OFFERS_WITHIN;
        let overdue: Vec<Place> =
            self.seats.iter().filter(|(_, seat)| is_overdue(seat)).map(|(place, _)| *place).collect();
        overdue.iter().for_each(|place| self.leave(*place));
        overdue
    }

    fn sit(&mut self, now: Instant, source: S) -> Place {
        let place = Place(self.next);
        self.next += 1;
        self.seats.insert(place, Seat { source, has_offered: false, moved: now });
        place
    }

    /// Returns the place that gives way to a newcomer: of the neighbour that has most of those that may, the one for
    /// which nothing has moved for longest.
    fn gives_way(&self, now: Instant, source: S) -> Option<Place> {
        let held = |source: S| self.seats.values().filter(|seat| seat.source == source).count();
        let own = held(source);
        let may_go = |seat: &Seat<S>| {
            let idle = now.duration_since(seat.moved);
            let has_more = held(seat.source) > own + 1;
            idle >= GIVES_WAY_IDLE || !seat.has_offered && idle >= GIVES_WAY_UNOFFERED && has_more
        };
        let going = self.seats.iter().filter(|(_, seat)| may_go(seat));
        let order = |seat: &Seat<S>| (held(seat.source), now.duration_since(seat.moved));
        going.max_by_key(|(_, seat)| order(seat)).map(|(place, _)| *place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Places that are all taken by one neighbour.
    fn full(start: Instant, most: usize) -> (Places<u8>, Vec<Place>) {
        let mut places = Places::new(most);
        let mut take = |_| match places.take(start, 1) {
            Taken::Free(place) => place,
            other => panic!("{other:?}"),
        };
        let seats = (0..most).map(&mut take).collect();
        (places, seats)
    }

    #[test]
    fn a_sender_that_offers_nothing_loses_its_place_in_two_minutes() {
        let start = Instant::now();
        let (mut places, seats) = full(start, 2);
        places.offered(start, seats[1]);
        assert_eq!(places.overdue(start + OFFERS_WITHIN - MS), []);
        assert_eq!(places.overdue(start + OFFERS_WITHIN), [seats[0]]);
        assert_eq!(places.overdue(start + OFFERS_WITHIN * 9), []);
        assert!(matches!(places.take(start + OFFERS_WITHIN, 2), Taken::Free(_)));
    }

    #[test]
    fn a_neighbour_with_many_silent_senders_gives_way_to_one_with_fewer() {
        let start = Instant::now();
        let (mut places, seats) = full(start, 3);
        places.offered(start, seats[0]);
        let soon = start + GIVES_WAY_UNOFFERED;
        assert_eq!(places.take(soon - MS, 2), Taken::Full, "it may still be about to offer something");
        assert!(matches!(places.take(soon, 2), Taken::InsteadOf { gone, .. } if seats[1..].contains(&gone)));
        // Two of one against one of the other: none has a right to another's place.
        assert_eq!(places.take(soon, 2), Taken::Full);
        assert_eq!(places.take(soon, 1), Taken::Full);
        assert!(matches!(places.take(soon, 3), Taken::InsteadOf { .. }), "two against none");
        assert_eq!(places.take(soon, 4), Taken::Full, "one against none");
    }

    #[test]
    fn a_sender_for_which_nothing_moves_gives_way_and_one_that_moves_does_not() {
        let start = Instant::now();
        let (mut places, seats) = full(start, 2);
        for place in &seats {
            places.offered(start, *place);
        }
        places.moved(start + MS, seats[0]);
        let later = start + GIVES_WAY_IDLE;
        assert_eq!(places.take(later - MS, 1), Taken::Full);
        assert!(matches!(places.take(later, 1), Taken::InsteadOf { gone, .. } if gone == seats[1]));
        places.leave(seats[0]);
        assert!(matches!(places.take(later, 1), Taken::Free(_)));
    }
}
