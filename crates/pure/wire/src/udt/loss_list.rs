//! Lists of lost packets: one word is a packet; two words, the first with its first bit set, are a range.

use super::{Malformed, Sequence, Words};

const RANGE: u32 = 1 << 31;

/// A received list of lost packets; every range is known to have an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossList<'a>(pub(super) Words<'a>);

/// Collects ranges of lost packets as words, up to a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LossListWriter {
    words: Vec<u32>,
    most_words: usize,
}

impl<'a> LossList<'a> {
    pub(super) fn read(body: Words<'a>) -> Result<Self, Malformed> {
        if body.is_empty() {
            return Err(Malformed::LossList);
        }
        let mut words = body.iter();
        while let Some(word) = words.next() {
            // The end of a range must exist, and must not begin another one.
            if word & RANGE != 0 && words.next().is_none_or(|end| end & RANGE != 0) {
                return Err(Malformed::LossList);
            }
        }
        Ok(Self(body))
    }

    /// Returns the first and the last number of each range; their order is not checked.
    pub fn ranges(self) -> impl Iterator<Item = (Sequence, Sequence)> + use<'a> {
        let mut words = self.0.iter();
        core::iter::from_fn(move || {
            let word = words.next()?;
            let first = Sequence::from_word(word);
            let last = if word & RANGE != 0 { Sequence::from_word(words.next()?) } else { first };
            Some((first, last))
        })
    }
}

impl LossListWriter {
    /// Creates an empty list for a packet of `packet_bytes`, its headers included.
    #[must_use]
    pub const fn new(packet_bytes: usize) -> Self {
        Self { words: Vec::new(), most_words: packet_bytes.saturating_sub(super::OVERHEAD_BYTES) / 4 }
    }

    /// Adds the packets from `first` to `last`; returns whether there was room.
    pub fn push(&mut self, first: Sequence, last: Sequence) -> bool {
        let needed = if first == last { 1 } else { 2 };
        if self.words.len() + needed > self.most_words {
            return false;
        }
        if first == last {
            self.words.push(first.word());
        } else {
            self.words.extend([first.word() | RANGE, last.word()]);
        }
        true
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the words of the list.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }
}
