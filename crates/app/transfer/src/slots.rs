//! Slots of senders that transfer at once: a bounded number, shared among neighbours.
//!
//! A slot is for a sender that transfers something. One that offers nothing in time loses it. If all are taken, a
//! newcomer gets that of a neighbour with more slots than the newcomer's that has not offered anything, or that of a
//! sender without progress for long; otherwise it has to try again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time within which a sender must offer something after it connected, or it loses its slot. The list is its first
/// message, and that of a million entries takes less over 10 Mbit/s.
const OFFERS_WITHIN: Duration = Duration::from_secs(120);
/// Time after which a sender that has a slot and has offered nothing gives way to others.
const GIVES_WAY_UNOFFERED: Duration = Duration::from_secs(2);
/// Time without progress after which a sender gives way to others, and may continue later where it was: files are
/// mostly written out, and verified at the other end, in less.
const GIVES_WAY_IDLE: Duration = Duration::from_secs(30);

/// Identifies a sender's slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlotId(u64);

/// Slots of senders from neighbours `S`.
#[derive(Debug)]
pub struct Slots<S> {
    most: usize,
    next: u64,
    holders: BTreeMap<SlotId, Holder<S>>,
}

#[derive(Debug)]
struct Holder<S> {
    source: S,
    has_offered: bool,
    /// Time of the last progress, or of connecting.
    moved: Instant,
}

/// Result of a newcomer's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// A slot that was free.
    Free(SlotId),
    /// The slot of another sender, whose connection is to be ended.
    InsteadOf {
        /// The newcomer's slot.
        slot: SlotId,
        /// Slot of the sender that gives way.
        gone: SlotId,
    },
    /// No slot is available.
    Full,
}

impl<S: Copy + Ord> Slots<S> {
    /// Creates a table of `most` slots.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, next: 0, holders: BTreeMap::new() }
    }

    /// Takes a slot for a newcomer.
    pub fn take(&mut self, now: Instant, source: S) -> Taken {
        if self.holders.len() < self.most {
            return Taken::Free(self.hold(now, source));
        }
        let Some(gone) = self.gives_way(now, source) else { return Taken::Full };
        self.leave(gone);
        Taken::InsteadOf { slot: self.hold(now, source), gone }
    }

    /// Records that a sender has offered something.
    pub fn offered(&mut self, now: Instant, slot: SlotId) {
        if let Some(holder) = self.holders.get_mut(&slot) {
            (holder.has_offered, holder.moved) = (true, now);
        }
    }

    /// Records that a sender made progress.
    pub fn moved(&mut self, now: Instant, slot: SlotId) {
        if let Some(holder) = self.holders.get_mut(&slot) {
            holder.moved = now;
        }
    }

    /// Frees a slot.
    pub fn leave(&mut self, slot: SlotId) {
        self.holders.remove(&slot);
    }

    /// Frees and returns the slots of senders that offered nothing in time.
    pub fn overdue(&mut self, now: Instant) -> Vec<SlotId> {
        let is_overdue =
            |holder: &Holder<S>| !holder.has_offered && now.duration_since(holder.moved) >= OFFERS_WITHIN;
        let overdue: Vec<SlotId> =
            self.holders.iter().filter(|(_, holder)| is_overdue(holder)).map(|(slot, _)| *slot).collect();
        overdue.iter().for_each(|slot| self.leave(*slot));
        overdue
    }

    fn hold(&mut self, now: Instant, source: S) -> SlotId {
        let slot = SlotId(self.next);
        self.next += 1;
        self.holders.insert(slot, Holder { source, has_offered: false, moved: now });
        slot
    }

    /// Returns the slot that gives way to a newcomer: of the neighbour with most of those that may, the one without
    /// progress for longest.
    fn gives_way(&self, now: Instant, source: S) -> Option<SlotId> {
        let held = |source: S| self.holders.values().filter(|holder| holder.source == source).count();
        let own = held(source);
        let may_go = |holder: &Holder<S>| {
            let idle = now.duration_since(holder.moved);
            let has_more = held(holder.source) > own + 1;
            idle >= GIVES_WAY_IDLE || !holder.has_offered && idle >= GIVES_WAY_UNOFFERED && has_more
        };
        let going = self.holders.iter().filter(|(_, holder)| may_go(holder));
        let order = |holder: &Holder<S>| (held(holder.source), now.duration_since(holder.moved));
        going.max_by_key(|(_, holder)| order(holder)).map(|(slot, _)| *slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns slots that are all taken by one neighbour.
    fn full(start: Instant, most: usize) -> (Slots<u8>, Vec<SlotId>) {
        let mut slots = Slots::new(most);
        let mut take = |_| match slots.take(start, 1) {
            Taken::Free(slot) => slot,
            other => panic!("{other:?}"),
        };
        let ids = (0..most).map(&mut take).collect();
        (slots, ids)
    }

    #[test]
    fn a_sender_that_offers_nothing_loses_its_place_in_two_minutes() {
        let start = Instant::now();
        let (mut slots, ids) = full(start, 2);
        slots.offered(start, ids[1]);
        assert_eq!(slots.overdue(start + OFFERS_WITHIN - MS), []);
        assert_eq!(slots.overdue(start + OFFERS_WITHIN), [ids[0]]);
        assert_eq!(slots.overdue(start + OFFERS_WITHIN * 9), []);
        assert!(matches!(slots.take(start + OFFERS_WITHIN, 2), Taken::Free(_)));
    }

    #[test]
    fn a_neighbour_with_many_silent_senders_gives_way_to_one_with_fewer() {
        let start = Instant::now();
        let (mut slots, ids) = full(start, 3);
        slots.offered(start, ids[0]);
        let soon = start + GIVES_WAY_UNOFFERED;
        assert_eq!(slots.take(soon - MS, 2), Taken::Full, "it may still be about to offer something");
        assert!(matches!(slots.take(soon, 2), Taken::InsteadOf { gone, .. } if ids[1..].contains(&gone)));
        // Two of one against one of the other: neither has a right to another's slot.
        assert_eq!(slots.take(soon, 2), Taken::Full);
        assert_eq!(slots.take(soon, 1), Taken::Full);
        assert!(matches!(slots.take(soon, 3), Taken::InsteadOf { .. }), "two against none");
        assert_eq!(slots.take(soon, 4), Taken::Full, "one against none");
    }

    #[test]
    fn a_sender_for_which_nothing_moves_gives_way_and_one_that_moves_does_not() {
        let start = Instant::now();
        let (mut slots, ids) = full(start, 2);
        for slot in &ids {
            slots.offered(start, *slot);
        }
        slots.moved(start + MS, ids[0]);
        let later = start + GIVES_WAY_IDLE;
        assert_eq!(slots.take(later - MS, 1), Taken::Full);
        assert!(matches!(slots.take(later, 1), Taken::InsteadOf { gone, .. } if gone == ids[1]));
        slots.leave(ids[0]);
        assert!(matches!(slots.take(later, 1), Taken::Free(_)));
    }
}
