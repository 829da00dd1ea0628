//! The viewers of a monitor: how many there are, from where, and what they were sent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::MAX_PAGES;
use crate::connections::{Slots, Source, TurnedAway};

/// Counts of all viewers; nothing is ordered by them.
pub(crate) struct Viewers {
    slots: Arc<Slots>,
    open: Mutex<BTreeMap<Source, usize>>,
    next: AtomicU64,
    counts: [AtomicU64; 2],
}

/// A viewer's slot; released on drop.
pub(crate) struct ViewerSlot {
    pub(crate) number: u64,
    pub(crate) source: Source,
    viewers: Arc<Viewers>,
    counted: [u64; 2],
}

impl Viewers {
    pub(crate) fn new(slots: Arc<Slots>) -> Self {
        Self { slots, open: Mutex::default(), next: AtomicU64::new(0), counts: Default::default() }
    }

    /// Returns how many viewers there are.
    pub(crate) fn open(&self) -> usize {
        self.by_source().values().sum()
    }

    fn by_source(&self) -> MutexGuard<'_, BTreeMap<Source, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_in(&self, source: Source) -> Result<(), TurnedAway> {
        let mut open = self.by_source();
        if open.values().sum::<usize>() >= MAX_PAGES {
            return Err(TurnedAway::Pages);
        }
        let of_source = open.get(&source).copied().unwrap_or(0);
        if of_source >= self.slots.bounds.pages_of_one_source {
            return Err(TurnedAway::SourcePages);
        }
        open.insert(source, of_source + 1);
        Ok(())
    }

    /// Returns the frames sent and the frames dropped, over all viewers.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [0, 1].map(|place| self.counts[place].load(Ordering::Relaxed))
    }
}

impl ViewerSlot {
    /// Takes a slot, if one is free and the source has less than its share; counts the refusal otherwise.
    pub(crate) fn take(viewers: &Arc<Viewers>, source: Source) -> Result<Self, TurnedAway> {
        let taken = viewers.count_in(source);
        taken.inspect_err(|why| viewers.slots.tally.turned_away(*why, &source))?;
        let number = viewers.next.fetch_add(1, Ordering::Relaxed);
        Ok(Self { number, source, viewers: Arc::clone(viewers), counted: [0; 2] })
    }

    /// Adds what is new in a viewer's own counts.
    pub(crate) fn count(&mut self, counts: [u64; 2]) {
        for ((all, before), now) in self.viewers.counts.iter().zip(&mut self.counted).zip(counts) {
            all.fetch_add(now.saturating_sub(*before), Ordering::Relaxed);
            *before = now;
        }
    }
}

impl Drop for ViewerSlot {
    fn drop(&mut self) {
        let mut open = self.viewers.by_source();
        let left = open.get_mut(&self.source).expect("a slot that was taken is counted");
        *left -= 1;
        if *left == 0 {
            open.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::Bounds;
    use std::time::Duration;

    fn viewers(pages_of_one_source: usize) -> Arc<Viewers> {
        let bounds = Bounds::new(u64::MAX, pages_of_one_source, MAX_PAGES, Duration::from_secs(30));
        Arc::new(Viewers::new(Arc::new(Slots::new(bounds))))
    }

    fn source(last: u8) -> Source {
        Source::of([192, 0, 2, last].into())
    }

    fn turned_away(viewers: &Viewers, why: TurnedAway) -> u64 {
        let counts = viewers.slots.tally.turned_away_counts();
        counts.iter().find(|(reason, _)| *reason == why).unwrap().1
    }

    #[test]
    fn there_are_so_many_seats_and_one_that_is_left_is_free_again() {
        let viewers = viewers(MAX_PAGES);
        let mut seats: Vec<_> =
            (0..MAX_PAGES).map(|_| ViewerSlot::take(&viewers, source(1)).unwrap()).collect();
        assert_eq!(ViewerSlot::take(&viewers, source(2)).err(), Some(TurnedAway::Pages));
        let left = seats.pop().unwrap().number;
        let next = ViewerSlot::take(&viewers, source(2)).unwrap();
        assert!(next.number > left, "a number is not reused");
        drop((seats, next));
        assert_eq!((viewers.open(), turned_away(&viewers, TurnedAway::Pages)), (0, 1));
    }

    #[test]
    fn one_address_has_its_share_of_the_seats_and_leaves_the_rest() {
        let viewers = viewers(2);
        let mut seats: Vec<_> = (0..2).map(|_| ViewerSlot::take(&viewers, source(1)).unwrap()).collect();
        assert_eq!(ViewerSlot::take(&viewers, source(1)).err(), Some(TurnedAway::SourcePages));
        assert!(ViewerSlot::take(&viewers, source(2)).is_ok());
        seats.pop();
        assert!(ViewerSlot::take(&viewers, source(1)).is_ok(), "a slot that was left is free");
        assert_eq!(turned_away(&viewers, TurnedAway::SourcePages), 1);
    }
}
