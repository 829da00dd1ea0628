//! Lists of lost packets: a word is one of them, two words with the first one's first bit set are a range.

use super::{Malformed, Sequence, Words};

const RANGE: u32 = 1 << 31;

/// A list of lost packets as it came; every range is known to have an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossList<'a>(pub(super) Words<'a>);

/// Gathers ranges of lost packets as words, as long as there is room.
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
            // The end of a range must be there, and is no beginning of another one.
            if word & RANGE != 0 && words.next().is_none_or(|end| end & RANGE != 0) {
                return Err(Malformed::LossList);
            }
        }
        Ok(Self(body))
    }

    /// Returns the first and the last number of each range; which lies behind the other is for the reader to see.
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
    /// Begins a list that fits into a packet of `packet_bytes`, its headers included.
    #[must_use]
    pub const fn new(packet_bytes: usize) -> Self {
        Self { words: Vec::new(), most_words: packet_bytes.saturating_sub(super::OVERHEAD_BYTES) / 4 }
    }

    /// Adds the packets from `first` to `last`; tells whether there was room.
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

    /// Tells whether nothing is in it.
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
