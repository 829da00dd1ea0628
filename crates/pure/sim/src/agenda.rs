//! The event queue: a heap of events keyed by time, ties broken by insertion.
//!
//! The tie-break makes a run repeatable: two events of the same nanosecond happen in the order in which they were
//! planned, not in the order in which a heap stores them.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use units::Instant;

use crate::fabric::Copy;
use crate::path::Wear;
use crate::{NodeId, SiteId};

/// A planned event of the network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A datagram leaves a shared link.
    Cross { copy: Copy, place: Place },
    /// A datagram leaves an addressee's link; `row` is its line in the log.
    Arrive { node: NodeId, row: u32, wear: Wear },
    /// A host reads its socket.
    Read(NodeId),
    /// A host wakes up for a deadline of its node.
    Wake(NodeId),
}

/// Location of a datagram that has not yet been distributed to all its addressees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// At its sender, which worked until then.
    Host,
    /// Past its sender's link, at its sender's site.
    Home,
    /// Past its sender's site.
    Middle,
    /// At a site of addressees.
    Site(SiteId),
}

/// Pending events.
#[derive(Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    inserted: u64,
}

struct Entry {
    at: Instant,
    insertion: u64,
    event: Event,
}

impl Agenda {
    /// Plans an event.
    pub(crate) fn insert(&mut self, at: Instant, event: Event) {
        self.heap.push(Reverse(Entry { at, insertion: self.inserted, event }));
        self.inserted += 1;
    }

    /// Returns the next event if it is not after `limit`.
    pub(crate) fn pop_until(&mut self, limit: Instant) -> Option<(Instant, Event)> {
        if self.next_at()? > limit {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }

    /// Returns the time of the next event.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.insertion).cmp(&(other.at, other.insertion))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_nanosecond_keep_their_order_of_insertion() {
        let mut agenda = Agenda::default();
        let late = Instant::from_nanos(9);
        for index in 0..100 {
            agenda.insert(late, Event::Wake(NodeId(index)));
        }
        agenda.insert(Instant::ORIGIN, Event::Read(NodeId(7)));
        assert!(matches!(agenda.pop_until(Instant::ORIGIN), Some((_, Event::Read(NodeId(7))))));
        assert!(agenda.pop_until(Instant::ORIGIN).is_none());
        for index in 0..100 {
            let next = agenda.pop_until(late);
            assert!(matches!(next, Some((_, Event::Wake(NodeId(node)))) if node == index));
        }
    }
}
