//! A subscriber's samples as an iterator: blocks, each with the gaps that lie before it.
//!
//! For whoever reads values and does not care when an account begins or how its gaps settle; that is told by
//! [`Subscriber::next`] and [`Subscriber::accounts`].

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sample::{Block, StreamName};

use crate::event::{Event, StreamGap};
use crate::subscriber::Subscriber;

/// The most gaps that wait for a block of their stream; the oldest ones beyond are in the account only.
const MAX_WAITING_GAPS: usize = 1_024;

/// A block as the reader gets it, with what is missing before it. Reads like a [`Block`].
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The samples, in the reader's own buffer.
    pub block: Block,
    /// The gaps between the stream's previous block and this one, oldest first.
    ///
    /// As they were declared: evidence that comes later is in the account, [`Subscriber::accounts`].
    pub gaps: Vec<StreamGap>,
}

impl Delivery {
    /// Returns when the first sample was taken. Units: nanoseconds since 1970 UTC.
    #[must_use]
    pub const fn t0_ns(&self) -> i64 {
        self.block.t0.as_nanos()
    }
}

impl Deref for Delivery {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.block
    }
}

/// Blocks in the order in which they came; made by [`Subscriber::blocks`].
pub struct Blocks<'a> {
    subscriber: &'a mut Subscriber,
    patience: Duration,
    /// Gaps of which the next block has not come yet.
    gaps: BTreeMap<Arc<StreamName>, Vec<StreamGap>>,
}

impl Subscriber {
    /// Returns an iterator over the blocks of all streams; it waits for each, and ends when none has come
    /// within `patience`.
    ///
    /// Gaps at the very end of a stream lie before no block: the accounts of [`Subscriber::close`] hold them.
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
        Blocks { subscriber: self, patience, gaps: BTreeMap::new() }
    }
}

impl Iterator for Blocks<'_> {
    type Item = Delivery;

    fn next(&mut self) -> Option<Delivery> {
        let deadline = Instant::now().checked_add(self.patience);
        loop {
            let left = deadline.map_or(Duration::MAX, |it| it.saturating_duration_since(Instant::now()));
            match self.subscriber.next(left)? {
                Event::Block(block) => {
                    let gaps = self.gaps.remove(&block.stream).unwrap_or_default();
                    return Some(Delivery { block, gaps });
                }
                Event::Gap(gap) => self.keep(gap),
                // What is left of an account that is over lies before no block any more.
                Event::Ended(account) => {
                    if let Some(gaps) = self.gaps.get_mut(&account.stream) {
                        gaps.retain(|gap| gap.epoch != account.epoch);
                    }
                }
                Event::Began(_) | Event::Settled(_) => {}
            }
        }
    }
}

impl Blocks<'_> {
    fn keep(&mut self, gap: StreamGap) {
        let gaps = self.gaps.entry(Arc::clone(&gap.stream)).or_default();
        if gaps.len() == MAX_WAITING_GAPS {
            gaps.remove(0);
        }
        gaps.push(gap);
    }
}
