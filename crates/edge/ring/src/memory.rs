//! The words that writer and readers share, and copying in and out of them.
//!
//! Payload words are relaxed atomics: a reader may copy what the writer is overwriting, and throws the copy
//! away when it notices. That is a defined race, and needs no unsafe code.

use crate::layout::{Header, MAGIC, MIN_CAPACITY_BYTES, WORD_BYTES, control};
use crate::sync::{AtomicU64, Ordering};

/// The image drawn in `layout`.
pub(crate) struct Memory {
    words: Box<[AtomicU64]>,
    capacity_words: usize,
}

impl Memory {
    pub(crate) fn on_heap(capacity_bytes: usize) -> Self {
        let capacity_bytes = capacity_bytes
            .max(MIN_CAPACITY_BYTES)
            .checked_next_power_of_two()
            .expect("a capacity is at most the largest power of two");
        let capacity_words = capacity_bytes / WORD_BYTES;
        let words = (0..control::WORDS + capacity_words).map(|_| AtomicU64::new(0)).collect();
        let memory = Self { words, capacity_words };
        memory.control(control::CAPACITY).store(capacity_bytes as u64, Ordering::Relaxed);
        // The magic comes last, so that whoever finds it finds the rest.
        memory.control(control::MAGIC).store(MAGIC, Ordering::Release);
        memory
    }

    pub(crate) fn control(&self, word: usize) -> &AtomicU64 {
        &self.words[word]
    }

    pub(crate) const fn capacity_bytes(&self) -> u64 {
        (self.capacity_words * WORD_BYTES) as u64
    }

    /// Returns the largest payload: a record may fill half the ring.
    pub(crate) const fn max_payload_bytes(&self) -> usize {
        let half = self.capacity_words / 2 * WORD_BYTES - Header::BYTES;
        if half > u32::MAX as usize { u32::MAX as usize } else { half }
    }

    /// Returns the `count` words at `position`, in two runs if they go round the end.
    fn runs(&self, position: u64, count: usize) -> (&[AtomicU64], &[AtomicU64]) {
        let records = &self.words[control::WORDS..];
        // The capacity is a power of two: the mask is the remainder, whatever fits into a word.
        let start = (position / WORD_BYTES as u64) as usize & (self.capacity_words - 1);
        let until_end = count.min(self.capacity_words - start);
        (&records[start..start + until_end], &records[..count - until_end])
    }

    pub(crate) fn load_header(&self, position: u64) -> Header {
        let (first, second) = self.runs(position, Header::WORDS);
        let mut words = [0; Header::WORDS];
        for (into, word) in words.iter_mut().zip(first.iter().chain(second)) {
            *into = word.load(Ordering::Relaxed);
        }
        Header::from_words(words)
    }

    pub(crate) fn store_header(&self, position: u64, header: Header) {
        let (first, second) = self.runs(position, Header::WORDS);
        for (word, value) in first.iter().chain(second).zip(header.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Copies `into.len()` bytes from `position` on.
    ///
    /// # Panics
    /// If that is not a whole number of words.
    pub(crate) fn load(&self, position: u64, into: &mut [u8]) {
        let (chunks, rest) = into.as_chunks_mut::<WORD_BYTES>();
        assert!(rest.is_empty(), "records are whole words");
        let (first, second) = self.runs(position, chunks.len());
        let (into_first, into_second) = chunks.split_at_mut(first.len());
        for (words, chunks) in [(first, into_first), (second, into_second)] {
            for (word, chunk) in words.iter().zip(chunks) {
                *chunk = word.load(Ordering::Relaxed).to_le_bytes();
            }
        }
    }

    /// Stores `parts` one behind the other from `position` on, the last word filled up with zeros.
    pub(crate) fn store_parts(&self, position: u64, parts: &[&[u8]]) {
        let mut position = position;
        let mut partial = [0; WORD_BYTES];
        let mut filled = 0;
        for &part in parts {
            let mut part = part;
            if filled > 0 {
                let (completing, rest) = part.split_at(part.len().min(WORD_BYTES - filled));
                partial[filled..filled + completing.len()].copy_from_slice(completing);
                filled += completing.len();
                part = rest;
                if filled < WORD_BYTES {
                    continue;
                }
                self.store(position, &[partial]);
                position += WORD_BYTES as u64;
            }
            let (whole, rest) = part.as_chunks::<WORD_BYTES>();
            self.store(position, whole);
            position += (whole.len() * WORD_BYTES) as u64;
            partial = [0; WORD_BYTES];
            partial[..rest.len()].copy_from_slice(rest);
            filled = rest.len();
        }
        if filled > 0 {
            self.store(position, &[partial]);
        }
    }

    fn store(&self, position: u64, chunks: &[[u8; WORD_BYTES]]) {
        let (first, second) = self.runs(position, chunks.len());
        let (from_first, from_second) = chunks.split_at(first.len());
        for (words, chunks) in [(first, from_first), (second, from_second)] {
            for (word, chunk) in words.iter().zip(chunks) {
                word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_of_any_length_join_without_a_seam_at_every_place() {
        let memory = Memory::on_heap(64);
        let bytes: Vec<u8> = (1..=40).collect();
        for position in (0..128).step_by(WORD_BYTES) {
            for first in 0..=bytes.len() {
                for second in first..=bytes.len().min(first + 10) {
                    let parts = [&bytes[..first], &bytes[first..second], &[], &bytes[second..]];
                    memory.store_parts(position, &parts);
                    let mut read = [0; 40];
                    memory.load(position, &mut read);
                    assert_eq!(read[..], bytes[..], "parts end at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn the_last_word_is_filled_up_with_zeros() {
        let memory = Memory::on_heap(64);
        memory.store_parts(0, &[&[0xff; 16]]);
        memory.store_parts(0, &[&[1, 2], &[3]]);
        let mut read = [0; 16];
        memory.load(0, &mut read);
        assert_eq!(read[..8], [1, 2, 3, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn capacities_are_powers_of_two() {
        assert_eq!(Memory::on_heap(0).capacity_bytes(), 64);
        assert_eq!(Memory::on_heap(65).capacity_bytes(), 128);
        assert_eq!(Memory::on_heap(4096).capacity_bytes(), 4096);
        assert_eq!(Memory::on_heap(4096).max_payload_bytes(), 2048 - 24);
    }
}
