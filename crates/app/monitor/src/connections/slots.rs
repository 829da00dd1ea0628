//! Slots of connections: their number, the share of each source, and the choice of the one to free.
//!
//! If a source has its share of slots, its new connection takes the slot of that of its connections that has waited
//! longest for a request. If all slots are taken, the source with the most loses one in the same way, if it has more
//! than the new connection's source. So a source that keeps idle connections open takes no slot from active ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::Source;
use super::conduct::Conduct;
use super::tally::{Closed, Tally, TurnedAway};

/// Maximum number of connections: those of all pages, and as many requests of other programs as two threads can answer.
const MOST_CONNECTIONS: usize = 1_024;
/// Connections use at most this fraction of the descriptors. The rest is for stream sockets, memory and archive files.
const SHARE_OF_DESCRIPTORS: u64 = 2;
/// Maximum number of displaced connections that have not yet closed; beyond it no connection is accepted.
const MOST_LEAVING: usize = 32;

/// The bounds of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// The most connections.
    pub(crate) connections: usize,
    /// The most connections of one source.
    pub(crate) of_one_source: usize,
    /// The most pages of one source.
    pub(crate) pages_of_one_source: usize,
    /// Maximum time a connection may be idle, or accept no data.
    pub(crate) patience: Duration,
}

impl Bounds {
    /// Computes the bounds for a process that may open `descriptors` files, where one source may have `share` of
    /// `pages`.
    pub(crate) fn new(descriptors: u64, share: usize, pages: usize, patience: Duration) -> Self {
        let descriptors = usize::try_from(descriptors / SHARE_OF_DESCRIPTORS).unwrap_or(usize::MAX);
        let connections = descriptors.clamp(1, MOST_CONNECTIONS);
        let of_one_source = (connections * share).div_ceil(pages).clamp(1, connections);
        Self { connections, of_one_source, pages_of_one_source: share, patience }
    }
}

/// All slots.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) bounds: Bounds,
    pub(crate) tally: Tally,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    occupants: BTreeMap<u64, Arc<Occupant>>,
}

/// A connection that holds a slot.
#[derive(Debug)]
pub(super) struct Occupant {
    pub(super) source: Source,
    /// True once it must leave. Written under the lock of the state, which orders it before the call of the waker.
    displaced: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    conduct: Conduct,
    reader: Option<Waker>,
}

/// A connection's slot; released on drop.
#[derive(Debug)]
pub(super) struct Slot {
    number: u64,
    pub(super) occupant: Arc<Occupant>,
    slots: Arc<Slots>,
}

impl Slots {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, tally: Tally::default(), table: Mutex::default() }
    }

    /// Returns how many connections there are.
    pub(crate) fn taken(&self) -> usize {
        self.lock().occupants.len()
    }

    /// Takes a slot for a new connection; if none is free, that of another one.
    pub(super) fn take(self: &Arc<Self>, source: Source, now: Instant) -> Result<Slot, TurnedAway> {
        let mut table = self.lock();
        if table.occupants.len() >= self.bounds.connections + MOST_LEAVING {
            return Err(TurnedAway::Connections);
        }
        let counts = table.counts();
        let own = counts.get(&source).copied().unwrap_or(0);
        if own >= self.bounds.of_one_source {
            let waiting = table.longest_waiting(|it| (it.source == source).then_some(0));
            let waiting = waiting.ok_or(TurnedAway::SourceConnections)?;
            self.displace(&waiting);
        } else if counts.values().sum::<usize>() >= self.bounds.connections {
            let greater = |it: &Occupant| counts.get(&it.source).copied().filter(|count| *count > own);
            let waiting = table.longest_waiting(greater).ok_or(TurnedAway::Connections)?;
            self.displace(&waiting);
        }
        let number = table.next;
        table.next += 1;
        let occupant = Arc::new(Occupant::new(source, Conduct::new(self.bounds.patience, now)));
        table.occupants.insert(number, Arc::clone(&occupant));
        Ok(Slot { number, occupant, slots: Arc::clone(self) })
    }

    /// Lets the connection that has waited longest give up its slot, if one waits.
    pub(super) fn give_one_up(&self) {
        if let Some(waiting) = self.lock().longest_waiting(|_| Some(0)) {
            self.displace(&waiting);
        }
    }

    fn displace(&self, occupant: &Occupant) {
        self.tally.closed(Closed::Displaced, &occupant.source);
        // Under the lock: a reader that registers later sees the flag, see `call_when_displaced`.
        let reader = {
            let mut state = occupant.lock();
            occupant.displaced.store(true, Ordering::Relaxed);
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns how many connections each source has, without those that are leaving.
    fn counts(&self) -> BTreeMap<Source, usize> {
        let mut counts = BTreeMap::new();
        for occupant in self.staying() {
            *counts.entry(occupant.source).or_default() += 1;
        }
        counts
    }

    /// Returns the connection of the highest rank that waits for a request, and has done so longest.
    fn longest_waiting(&self, rank: impl Fn(&Occupant) -> Option<usize>) -> Option<Arc<Occupant>> {
        let waiting = self.staying().filter_map(|it| {
            let since = it.lock().conduct.waits_since()?;
            Some(((std::cmp::Reverse(rank(it)?), since), it))
        });
        waiting.min_by_key(|(key, _)| *key).map(|(_, it)| Arc::clone(it))
    }

    fn staying(&self) -> impl Iterator<Item = &Arc<Occupant>> {
        self.occupants.values().filter(|it| !it.is_displaced())
    }
}

impl Occupant {
    fn new(source: Source, conduct: Conduct) -> Self {
        Self { source, displaced: AtomicBool::new(false), state: Mutex::new(State { conduct, reader: None }) }
    }

    /// Returns whether it must leave.
    pub(super) fn is_displaced(&self) -> bool {
        self.displaced.load(Ordering::Relaxed)
    }

    /// Registers a waker for the moment it must leave; returns whether it must already.
    pub(super) fn call_when_displaced(&self, reader: &Waker) -> bool {
        let mut state = self.lock();
        match &mut state.reader {
            Some(known) => known.clone_from(reader),
            none => *none = Some(reader.clone()),
        }
        self.is_displaced()
    }

    /// Looks at the conduct, or notes what happens.
    pub(super) fn conduct<T>(&self, look: impl FnOnce(&mut Conduct) -> T) -> T {
        look(&mut self.lock().conduct)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Counts that the connection is closed.
    pub(super) fn closed(&self, why: Closed) {
        self.slots.tally.closed(why, &self.occupant.source);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().occupants.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> Source {
        Source::of([192, 0, 2, last].into())
    }

    fn slots(connections: usize, of_one_source: usize) -> Arc<Slots> {
        let patience = Duration::from_secs(30);
        Arc::new(Slots::new(Bounds { connections, of_one_source, pages_of_one_source: 1, patience }))
    }

    fn later(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[test]
    fn half_the_descriptors_are_left_to_streams() {
        let bounds = |descriptors, share| Bounds::new(descriptors, share, 256, Duration::from_secs(30));
        assert_eq!((bounds(1_024, 64).connections, bounds(1_024, 64).of_one_source), (512, 128));
        assert_eq!((bounds(65_536, 64).connections, bounds(65_536, 64).of_one_source), (1_024, 256));
        assert_eq!((bounds(u64::MAX, 256).connections, bounds(u64::MAX, 256).of_one_source), (1_024, 1_024));
        assert_eq!((bounds(1, 1).connections, bounds(1, 1).of_one_source), (1, 1));
    }

    #[test]
    fn one_source_has_its_share_and_the_others_have_places() {
        let slots = slots(8, 3);
        let busy = |last| {
            let slot = slots.take(source(last), later(0)).unwrap();
            slot.occupant.conduct(Conduct::serving);
            slot
        };
        let _mine = [busy(1), busy(1), busy(1)];
        assert_eq!(slots.take(source(1), later(0)).unwrap_err(), TurnedAway::SourceConnections);
        let _others = [busy(2), busy(2), busy(2), busy(3), busy(3)];
        assert_eq!(slots.take(source(4), later(0)).unwrap_err(), TurnedAway::Connections);
        assert_eq!(slots.taken(), 8);
        drop(_others);
        assert_eq!(slots.taken(), 3);
        assert!(slots.take(source(4), later(0)).is_ok(), "a slot that was left is free");
    }

    #[test]
    fn who_waits_longest_gives_its_place_to_a_newcomer_of_its_source() {
        let slots = slots(8, 3);
        let [old, older, busy] = [2, 1, 0].map(|seconds| slots.take(source(1), later(seconds)).unwrap());
        busy.occupant.conduct(Conduct::serving);
        let elsewhere = slots.take(source(2), later(0)).unwrap();
        let new = slots.take(source(1), later(3)).unwrap();
        let displaced = [&old, &older, &busy, &elsewhere, &new].map(|it| it.occupant.is_displaced());
        assert_eq!(displaced, [false, true, false, false, false]);
        let counts = slots.tally.closed_counts();
        assert_eq!(counts.iter().find(|(why, _)| *why == Closed::Displaced).unwrap().1, 1);
    }

    #[test]
    fn where_all_places_are_taken_the_source_that_has_most_gives_one_up() {
        let slots = slots(4, 3);
        let many = [3, 2, 1].map(|seconds| slots.take(source(1), later(seconds)).unwrap());
        let one = slots.take(source(2), later(0)).unwrap();
        let new = slots.take(source(3), later(4)).unwrap();
        assert_eq!(many.each_ref().map(|it| it.occupant.is_displaced()), [false, false, true]);
        assert!(!one.occupant.is_displaced() && !new.occupant.is_displaced());
        // Two sources with one each: the one with two gives up its second.
        let newer = slots.take(source(4), later(5)).unwrap();
        assert_eq!(many.each_ref().map(|it| it.occupant.is_displaced()), [false, true, true]);
        assert_eq!(
            slots.take(source(2), later(6)).unwrap_err(),
            TurnedAway::Connections,
            "as many as others"
        );
        drop((newer, one));
    }

    #[test]
    fn those_that_are_leaving_are_bounded_too() {
        let slots = slots(1, 1);
        let kept: Vec<_> =
            (0..=MOST_LEAVING as u64).map(|it| slots.take(source(1), later(it)).unwrap()).collect();
        assert_eq!(slots.take(source(1), later(99)).unwrap_err(), TurnedAway::Connections);
        assert_eq!(slots.taken(), 1 + MOST_LEAVING);
        drop(kept);
        assert!(slots.take(source(1), later(99)).is_ok());
    }
}
