//! A subscriber's samples block by block, each with the gaps before it.
//!
//! For readers that need values and not the begin of accounts or the settling of gaps; those are reported by
//! [`Subscriber::next`] and [`Subscriber::accounts`].

use std::collections::BTreeMap;
use std::ops::{Bound, Deref};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::{AccountState, GapKind};
use sample::{Block, StreamName};

use crate::event::{Event, StreamGap};
use crate::subscriber::Subscriber;

/// Maximum number of gaps that wait for a block of their stream; older ones are in the account only.
const MAX_WAITING_GAPS: usize = 1_024;
/// Maximum number of blocks skipped to find the newest: a stream that arrives faster than it is read has no
/// last one.
const MAX_PASSED_OVER: usize = 4_096;

/// A block with the gaps before it. Dereferences to the [`Block`].
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The samples, in the reader's own buffer.
    pub block: Block,
    /// The gaps between the stream's previous block and this one, oldest first.
    ///
    /// They are as they were declared: evidence that arrives later is in the account,
    /// [`Subscriber::accounts`].
    pub gaps: Vec<StreamGap>,
    /// Number of samples that were skipped for this block; only of [`Subscriber::newest_block`].
    pub passed_over: u64,
}

impl Delivery {
    /// Returns the time at which the first sample was taken. Units: nanoseconds since 1970 UTC.
    #[must_use]
    pub const fn t0_ns(&self) -> i64 {
        self.block.t0.as_nanos()
    }

    /// Skips another block in favour of this one.
    fn replaces(&mut self, mut older: Self) {
        self.passed_over += older.passed_over + older.block.samples;
        older.gaps.append(&mut self.gaps);
        let surplus = older.gaps.len().saturating_sub(MAX_WAITING_GAPS);
        self.gaps = older.gaps.split_off(surplus);
    }
}

impl Deref for Delivery {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.block
    }
}

/// State that a subscriber keeps between two blocks.
#[derive(Debug, Default)]
pub(crate) struct BlockView {
    /// Gaps whose next block has not arrived yet.
    gaps: BTreeMap<Arc<StreamName>, Vec<StreamGap>>,
    /// Newest blocks that are chosen and not delivered yet.
    picked: BTreeMap<Arc<StreamName>, Delivery>,
    /// The stream whose block was delivered last.
    last_served: Option<Arc<StreamName>>,
}

/// Blocks in the order of arrival; created by [`Subscriber::blocks`].
pub struct Blocks<'a> {
    subscriber: &'a mut Subscriber,
    patience: Duration,
}

impl Subscriber {
    /// Returns an iterator over the blocks of all streams; it waits for each, and ends when none has arrived
    /// within `patience`.
    ///
    /// Gaps at the very end of a stream precede no block: they are in the accounts of [`Subscriber::close`].
    ///
    /// ```
    /// # use tallycast::{Bus, Dtype, Node};
    /// # use std::time::Duration;
    /// # let node = Node::open("udp://239.84.0.0:7491?iface=lo".parse::<Bus>()?)?;
    /// let mut subscriber = node.subscriber("lab/*").open()?;
    /// for block in subscriber.blocks(Duration::from_millis(50)) {
    ///     let missing: u64 = block.gaps.iter().map(|gap| gap.samples()).sum();
    ///     let samples: &[f32] = block.elements()?; // [sample][element]
    ///     println!("{} from {} at {} ns, {missing} missing", samples.len(), block.first_index, block.t0_ns());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn blocks(&mut self, patience: Duration) -> Blocks<'_> {
        Blocks { subscriber: self, patience }
    }

    /// Returns the next block with the gaps before it, `None` if none has arrived within `patience`.
    pub fn next_block(&mut self, patience: Duration) -> Option<Delivery> {
        let deadline = Instant::now().checked_add(patience);
        loop {
            let left = deadline.map_or(Duration::MAX, |it| it.saturating_duration_since(Instant::now()));
            let event = self.next(left)?;
            if let Some(delivery) = self.view.take(event) {
                return Some(delivery);
            }
        }
    }

    /// Returns the next block of those that were read with others before them; `None` if that requires
    /// reading or waiting.
    ///
    /// Cost: no system call, no copy.
    pub fn block_at_hand(&mut self) -> Option<Delivery> {
        loop {
            let event = self.untold()?;
            if let Some(delivery) = self.view.take(event) {
                return Some(delivery);
            }
        }
    }

    /// Returns the newest block of a stream, in turn of all that have one, and skips those before it; `None`
    /// if none has arrived within `patience`.
    ///
    /// Skipped blocks count as delivered: this reader asked for the newest only.
    pub fn newest_block(&mut self, patience: Duration) -> Option<Delivery> {
        let first = if self.view.picked.is_empty() { self.next_block(patience) } else { None };
        let more = std::iter::from_fn(|| self.next_block(Duration::ZERO)).take(MAX_PASSED_OVER);
        let came: Vec<Delivery> = first.into_iter().chain(more).collect();
        for mut delivery in came {
            if let Some(older) = self.view.picked.remove(&delivery.block.stream) {
                delivery.replaces(older);
            }
            self.view.picked.insert(Arc::clone(&delivery.block.stream), delivery);
        }
        self.view.next_picked()
    }
}

impl Iterator for Blocks<'_> {
    type Item = Delivery;

    fn next(&mut self) -> Option<Delivery> {
        self.subscriber.next_block(self.patience)
    }
}

impl BlockView {
    /// Returns whether no chosen block waits to be delivered.
    pub(crate) fn is_empty(&self) -> bool {
        self.picked.is_empty()
    }

    fn take(&mut self, event: Event) -> Option<Delivery> {
        match event {
            Event::Block(block) => {
                let gaps = self.gaps.remove(&block.stream).unwrap_or_default();
                return Some(Delivery { block, gaps, passed_over: 0 });
            }
            Event::Gap(gap) => self.keep(gap),
            // An epoch that only fell silent may have another block; otherwise its remaining gaps precede
            // none.
            Event::Ended(account) if account.account.state == AccountState::Unconfirmed => {}
            Event::Ended(account) => self.forget(&account.stream, |gap| gap.epoch == account.epoch),
            Event::Began(info) => {
                let is_of_another =
                    |gap: &StreamGap| gap.epoch != info.epoch && gap.gap.kind == GapKind::Missing;
                self.forget(&info.name, is_of_another);
            }
            Event::Settled(_) | Event::Statement(_) => {}
        }
        None
    }

    /// Takes the chosen block of the stream after the last served one, so that a fast stream does not block
    /// the others.
    fn next_picked(&mut self) -> Option<Delivery> {
        let behind = (self.last_served.take().map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let stream = self.picked.range(behind).next().or_else(|| self.picked.first_key_value())?.0;
        let stream = Arc::clone(self.last_served.insert(Arc::clone(stream)));
        self.picked.remove(&stream)
    }

    fn forget(&mut self, stream: &StreamName, is_over: impl Fn(&StreamGap) -> bool) {
        if let Some(gaps) = self.gaps.get_mut(stream) {
            gaps.retain(|gap| !is_over(gap));
        }
    }

    fn keep(&mut self, gap: StreamGap) {
        let gaps = self.gaps.entry(Arc::clone(&gap.stream)).or_default();
        if gaps.len() == MAX_WAITING_GAPS {
            gaps.remove(0);
        }
        gaps.push(gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{account, info, missing};
    use sample::SampleBuffer;
    use units::{RangeSet, WallTime};

    fn began(incarnation: u64, join: u32) -> Event {
        Event::Began(Arc::new(info(incarnation, join)))
    }

    fn gap(incarnation: u64) -> Event {
        Event::Gap(missing(&info(incarnation, 1)))
    }

    fn ended(incarnation: u64, state: AccountState) -> Event {
        Event::Ended(account(&info(incarnation, 1), state))
    }

    /// Returns the number of gaps before a block of this incarnation, after the events in `came`.
    fn gaps_before_block(came: impl IntoIterator<Item = Event>, incarnation: u64) -> usize {
        let mut view = BlockView::default();
        for event in came {
            assert!(view.take(event).is_none());
        }
        let info = info(incarnation, 1);
        let block = Block {
            stream: info.name,
            schema: info.schema,
            epoch: info.epoch,
            first_index: 1,
            t0: WallTime::from_nanos(1),
            samples: 1,
            data: SampleBuffer::from_bytes(&[0; 4]),
            missing: RangeSet::default(),
        };
        view.take(Event::Block(block)).expect("it is handed over").gaps.len()
    }

    #[test]
    fn what_was_missing_before_a_silence_lies_before_the_block_behind_it() {
        let silence = ended(1, AccountState::Unconfirmed);
        assert_eq!(gaps_before_block([gap(1), silence, began(1, 2)], 1), 1);
    }

    #[test]
    fn what_was_missing_at_the_end_of_an_epoch_lies_before_no_block() {
        for state in [AccountState::Closed, AccountState::Cut, AccountState::Unconfirmed] {
            assert_eq!(gaps_before_block([gap(1), ended(1, state), began(2, 1)], 2), 0, "{state:?}");
        }
    }
}
