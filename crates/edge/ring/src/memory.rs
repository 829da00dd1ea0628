//! The image of a ring in memory.
//!
//! Payload words are relaxed atomics: a reader may copy words that the writer is overwriting, and
//! discards the copy when it notices. That is a defined race; the module `copy` makes copying fast.

use std::ops::Range;

use crate::copy::{load_words, store_words};
use crate::layout::{Header, MAGIC, MIN_CAPACITY_BYTES, WORD_BYTES, control};
use crate::run::Run;
use crate::sync::{AtomicU64, Ordering, fence};
use crate::words::Words;

/// The image drawn in `docs/reference/formats/ring.md`.
pub(crate) struct Memory {
    words: Words,
    /// Positions of the parts. Kept here and not read again: a malicious writer may change them in
    /// the memory.
    parts: Parts,
}

/// Positions of the parts of an image, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parts {
    pub(crate) label: Range<usize>,
    pub(crate) page: Range<usize>,
    pub(crate) records: Range<usize>,
}

/// Requested sizes of the parts of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) label_bytes: usize,
    pub(crate) page_bytes: usize,
    pub(crate) capacity_bytes: usize,
    /// Alignment of the records.
    pub(crate) align_bytes: usize,
}

impl Parts {
    /// Computes the positions of an image's parts.
    ///
    /// # Panics
    /// If no power of two of that size exists on this machine.
    pub(crate) fn lay_out(sizes: Sizes) -> Self {
        let label = words_at(control::WORDS, sizes.label_bytes);
        let page = words_at(label.end, sizes.page_bytes);
        let align_words = sizes.align_bytes.div_ceil(WORD_BYTES).max(1);
        let capacity_bytes = sizes
            .capacity_bytes
            .max(MIN_CAPACITY_BYTES)
            .checked_next_power_of_two()
            .expect("a capacity is at most the largest power of two");
        let records = words_at(page.end.next_multiple_of(align_words), capacity_bytes);
        Self { label, page, records }
    }

    /// Returns the size of an image.
    pub(crate) const fn size_bytes(&self) -> usize {
        self.records.end * WORD_BYTES
    }
}

/// Returns the words from `start` on that hold `size_bytes` bytes.
fn words_at(start: usize, size_bytes: usize) -> Range<usize> {
    start..start + size_bytes.div_ceil(WORD_BYTES)
}

impl Memory {
    pub(crate) fn on_heap(capacity_bytes: usize) -> Self {
        Self::on_heap_of(Sizes { label_bytes: 0, page_bytes: 0, capacity_bytes, align_bytes: WORD_BYTES })
    }

    pub(crate) fn on_heap_of(sizes: Sizes) -> Self {
        let parts = Parts::lay_out(sizes);
        let memory = Self::over(Words::on_heap(parts.records.end), parts);
        memory.describe(0);
        memory
    }

    /// Uses words as an image with these parts.
    pub(crate) const fn over(words: Words, parts: Parts) -> Self {
        Self { words, parts }
    }

    /// Writes the constant words of the control block, with the label's true size.
    pub(crate) fn describe(&self, label_bytes: usize) {
        let Parts { page, records, .. } = &self.parts;
        let constants = [
            (control::CAPACITY, self.capacity_bytes()),
            (control::RECORDS_OFFSET, (records.start * WORD_BYTES) as u64),
            (control::LABEL_BYTES, label_bytes as u64),
            (control::PAGE_BYTES, (page.len() * WORD_BYTES) as u64),
        ];
        for (word, value) in constants {
            self.control(word).store(value, Ordering::Relaxed);
        }
        // The magic is written last, so that a reader that finds it finds the rest.
        self.control(control::MAGIC).store(MAGIC, Ordering::Release);
    }

    pub(crate) fn control(&self, word: usize) -> &AtomicU64 {
        &self.words[word]
    }

    pub(crate) const fn parts(&self) -> &Parts {
        &self.parts
    }

    pub(crate) const fn capacity_bytes(&self) -> u64 {
        (self.capacity_words() * WORD_BYTES) as u64
    }

    const fn capacity_words(&self) -> usize {
        self.parts.records.end - self.parts.records.start
    }

    /// Returns the largest payload: a record may fill half the ring.
    pub(crate) const fn max_payload_bytes(&self) -> usize {
        let half = self.capacity_words() / 2 * WORD_BYTES - Header::BYTES;
        if half > u32::MAX as usize { u32::MAX as usize } else { half }
    }

    /// Returns the `count` words of records from `position` on.
    #[inline]
    pub(crate) fn run(&self, position: u64, count: usize) -> Run<'_> {
        let records = &self.words[self.parts.records.clone()];
        // The capacity is a power of two: the mask gives the remainder, even if the position
        // exceeds a machine word.
        let start = (position / WORD_BYTES as u64) as usize & (records.len() - 1);
        Run::of(records, start, count)
    }

    /// Returns the writer's intent at a moment after all copies made before this call.
    pub(crate) fn intent_behind_a_copy(&self) -> u64 {
        // Pairs with the release fence of the writer's claim, explained there.
        fence(Ordering::Acquire);
        self.control(control::INTENT).load(Ordering::Acquire)
    }

    /// Copies a part outside the records, such as the label: `size_bytes` bytes.
    pub(crate) fn load_part(&self, part: &Range<usize>, into: &mut Vec<u8>, size_bytes: usize) {
        let count = size_bytes.div_ceil(WORD_BYTES).min(part.len());
        into.resize(count * WORD_BYTES, 0);
        load_words(&self.words[part.start..part.start + count], into);
        into.truncate(size_bytes);
    }

    /// Writes a part outside the records, the last word padded with zeros.
    ///
    /// # Panics
    /// If it does not fit.
    pub(crate) fn store_part(&self, part: &Range<usize>, bytes: &[u8]) {
        let words = &self.words[part.clone()];
        let whole = bytes.len() / WORD_BYTES;
        let (aligned, rest) = bytes.split_at(whole * WORD_BYTES);
        store_words(&words[..whole], aligned);
        if !rest.is_empty() {
            let mut last = [0; WORD_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            store_words(&words[whole..=whole], &last);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_powers_of_two() {
        assert_eq!(Memory::on_heap(0).capacity_bytes(), 64);
        assert_eq!(Memory::on_heap(65).capacity_bytes(), 128);
        assert_eq!(Memory::on_heap(4096).capacity_bytes(), 4096);
        assert_eq!(Memory::on_heap(4096).max_payload_bytes(), 2048 - 24);
    }

    #[test]
    fn the_parts_of_an_image_lie_one_behind_the_other() {
        let sizes = Sizes { label_bytes: 9, page_bytes: 100, capacity_bytes: 5000, align_bytes: 4096 };
        let parts = Parts::lay_out(sizes);
        assert_eq!((parts.label, parts.page), (64..66, 66..79));
        assert_eq!(parts.records, 512..512 + 1024);
    }
}
