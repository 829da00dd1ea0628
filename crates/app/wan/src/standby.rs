//! Relays of one stream on one bus: one publishes, the others stand by until it is silent.
//!
//! The relay that published first goes on, so that one that comes back does not move the readers again. A relay that
//! stands by keeps the samples that are not older than the deadline, and continues with them under an epoch of its
//! own, at the indices of the origin.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use ledger::{Cause, HopCounts};
use tallycast::relayed::ElementTimes;
use units::{Epoch, Instant};

/// Time after which a publication whose announcement is not repeated is over. Units: halves of the period.
const SILENT_HALVES: u32 = 5;
/// Maximum size of the elements that a standby keeps.
const MAX_HELD_BYTES: usize = 1 << 23;

/// Publication of the same stream by another station of the bus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rival {
    pub(crate) epoch: Epoch,
    pub(crate) station: String,
    /// Time of its last announcement, and the announcements' period.
    pub(crate) heard: Instant,
    pub(crate) period: Duration,
}

/// Returns the rival behind which a relay stands by: any that is alive if it does not publish yet, else one that began
/// earlier, or the origin itself. A rival last heard before this relay began to publish, at `since`, may be over.
pub(crate) fn foremost(
    rivals: &[Rival],
    own: Option<(Epoch, Instant)>,
    origin: Epoch,
    now: Instant,
) -> Option<&Rival> {
    let is_alive = |rival: &&Rival| now < rival.heard + rival.period * SILENT_HALVES / 2;
    let is_before = |rival: &&Rival| {
        own.is_none_or(|(own, since)| rival.heard > since && (rival.epoch < own || rival.epoch == origin))
    };
    rivals.iter().filter(is_alive).find(is_before)
}

/// The newest items of a stream, which a relay that stands by would have published.
#[derive(Debug, Default)]
pub(crate) struct Held {
    items: VecDeque<Item>,
    bytes: usize,
}

/// A range of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Item {
    Elements { positions: Range<u64>, times: ElementTimes, bytes: Vec<u8> },
    Missing { positions: Range<u64>, shares: HopCounts, cause: Option<Cause> },
}

impl Item {
    const fn start(&self) -> u64 {
        match self {
            Self::Elements { positions, .. } | Self::Missing { positions, .. } => positions.start,
        }
    }

    const fn bytes(&self) -> usize {
        match self {
            Self::Elements { bytes, .. } => bytes.len(),
            Self::Missing { .. } => 0,
        }
    }
}

impl Held {
    /// Keeps an item, and forgets those that are older than the deadline.
    pub(crate) fn push(&mut self, now: Instant, deadline: Duration, item: Item) {
        self.bytes += item.bytes();
        self.items.push_back(item);
        let is_of_use = |item: &Item| match item {
            Item::Elements { times, .. } => times.born.is_none_or(|born| now <= born + deadline),
            Item::Missing { .. } => false,
        };
        while self.items.front().is_some_and(|item| !is_of_use(item) || self.bytes > MAX_HELD_BYTES) {
            self.pop();
        }
    }

    /// Takes new outcomes of missing elements.
    pub(crate) fn settle(&mut self, settled: &Range<u64>, news: &HopCounts) {
        for item in &mut self.items {
            if let Item::Missing { positions, shares, .. } = item
                && positions == settled
            {
                shares.clone_from(news);
            }
        }
    }

    /// Returns the position at which publication can begin, that of the first whole sample, and forgets everything
    /// before.
    pub(crate) fn first_position(&mut self, per_sample: u64) -> Option<u64> {
        while let Some(item) = self.items.front() {
            if item.start().is_multiple_of(per_sample) {
                return Some(item.start());
            }
            self.pop();
        }
        None
    }

    /// Takes everything.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Item> + use<> {
        std::mem::take(self).items.into_iter()
    }

    fn pop(&mut self) {
        if let Some(item) = self.items.pop_front() {
            self.bytes -= item.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use tallycast::{Clock, WallTime};

    use super::*;

    const ORIGIN: Epoch = Epoch { start_ns: 1, incarnation: 1 };

    fn epoch(start_ns: u64) -> Epoch {
        Epoch { start_ns, incarnation: 9 }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn rival(epoch: Epoch, heard_ms: u64) -> Rival {
        Rival { epoch, station: "gate".to_owned(), heard: at(heard_ms), period: Duration::from_secs(1) }
    }

    #[test]
    fn who_came_first_publishes_and_the_other_goes_on_once_it_is_silent() {
        let behind = |rivals: &[Rival], own, now| foremost(rivals, own, ORIGIN, at(now)).is_some();
        let others = [rival(epoch(50), 1_000)];
        assert!(behind(&others, None, 3_499), "it does not publish yet");
        assert!(!behind(&others, None, 3_500), "two and a half periods are silence");
        assert!(behind(&others, Some((epoch(60), at(900))), 1_100), "the other was first");
        assert!(!behind(&others, Some((epoch(40), at(900))), 1_100), "this one was first");
        assert!(!behind(&others, Some((epoch(60), at(1_000))), 1_100), "heard before it began");
        let clock_set_back = Some((Epoch { start_ns: 0, incarnation: 0 }, at(900)));
        assert!(behind(&[rival(ORIGIN, 1_000)], clock_set_back, 1_100), "the origin itself is always first");
    }

    fn elements(positions: Range<u64>, born_ms: u64) -> Item {
        let bytes = vec![7; usize::try_from(positions.end - positions.start).unwrap()];
        let times =
            ElementTimes { t0: WallTime::from_nanos(0), clock: Clock::System, born: Some(at(born_ms)) };
        Item::Elements { positions, times, bytes }
    }

    #[test]
    fn what_is_of_use_is_kept_from_a_whole_sample_on() {
        let deadline = Duration::from_millis(100);
        let mut held = Held::default();
        held.push(at(10), deadline, elements(0..4, 10));
        held.push(
            at(20),
            deadline,
            Item::Missing { positions: 4..6, shares: HopCounts::default(), cause: None },
        );
        held.push(at(30), deadline, elements(6..12, 30));
        held.push(at(40), deadline, elements(12..16, 40));
        assert_eq!(held.first_position(4), Some(0));
        // The oldest samples are of no use any more, and so are the holes behind them.
        held.push(at(111), deadline, elements(16..20, 111));
        assert_eq!(held.items.len(), 3);
        assert_eq!(held.first_position(4), Some(12), "6 is inside a sample");
        let left: Vec<u64> = held.take().map(|item| item.start()).collect();
        assert_eq!((left, held.bytes, held.first_position(4)), (vec![12, 16], 0, None));
    }

    #[test]
    fn memory_is_bounded_whatever_the_deadline() {
        let mut held = Held::default();
        for step in 0..20 {
            held.push(at(1), Duration::from_secs(60), elements(step << 20..(step + 1) << 20, 1));
            assert!(held.bytes <= MAX_HELD_BYTES);
        }
        assert_eq!(held.items.len(), 8);
    }
}
