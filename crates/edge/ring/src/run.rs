//! A run of words among the records: contiguous, or in two parts where it wraps round the end of
//! the memory.
//!
//! Nearly every record is contiguous, so each function here checks that case first.

use crate::copy::{load_words, store_words};
use crate::layout::{Header, WORD_BYTES};
use crate::sync::{AtomicU64, Ordering};

/// Consecutive words in ring order.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    first: &'a [AtomicU64],
    /// The part from the start of the memory on; usually empty.
    second: &'a [AtomicU64],
}

impl<'a> Run<'a> {
    /// Returns the `count` words that follow the first `start` words of a ring.
    ///
    /// # Panics
    /// If the ring has fewer words.
    #[inline]
    pub(crate) fn of(ring: &'a [AtomicU64], start: usize, count: usize) -> Self {
        let until_end = &ring[start..];
        if count <= until_end.len() {
            return Self { first: &until_end[..count], second: &[] };
        }
        Self { first: until_end, second: &ring[..count - until_end.len()] }
    }

    /// Splits the run after `count` words.
    ///
    /// # Panics
    /// If it has fewer words.
    #[inline]
    pub(crate) fn split_at(self, count: usize) -> (Self, Self) {
        if let Some((before, behind)) = self.first.split_at_checked(count) {
            return (Self { first: before, second: &[] }, Self { first: behind, ..self });
        }
        let (before, behind) = self.second.split_at(count - self.first.len());
        (Self { second: before, ..self }, Self { first: behind, second: &[] })
    }

    /// Returns the words one by one.
    pub(crate) fn words(self) -> impl Iterator<Item = &'a AtomicU64> {
        self.first.iter().chain(self.second)
    }

    /// Returns the words if they are contiguous.
    pub(crate) const fn one_piece(self) -> Option<&'a [AtomicU64]> {
        if self.second.is_empty() { Some(self.first) } else { None }
    }

    /// Reads a header.
    #[inline]
    pub(crate) fn load_header(self) -> Header {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        if let [a, b, c] = self.first {
            return Header::from_words([load(a), load(b), load(c)]);
        }
        let mut words = [0; Header::WORDS];
        for (into, word) in words.iter_mut().zip(self.words()) {
            *into = load(word);
        }
        Header::from_words(words)
    }

    /// Writes a header.
    #[inline]
    pub(crate) fn store_header(self, header: Header) {
        let values = header.to_words();
        if let [a, b, c] = self.first {
            for (word, value) in [a, b, c].into_iter().zip(values) {
                word.store(value, Ordering::Relaxed);
            }
            return;
        }
        for (word, value) in self.words().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Copies the whole run.
    ///
    /// # Panics
    /// If the size of `into` is not that of the words.
    #[inline]
    pub(crate) fn load(self, into: &mut [u8]) {
        if self.second.is_empty() {
            return load_words(self.first, into);
        }
        let (into_first, into_second) = into.split_at_mut(size_of_val(self.first));
        load_words(self.first, into_first);
        load_words(self.second, into_second);
    }

    /// Writes the whole run.
    ///
    /// # Panics
    /// If the size of `bytes` is not that of the words.
    #[inline]
    pub(crate) fn store(self, bytes: &[u8]) {
        if self.second.is_empty() {
            return store_words(self.first, bytes);
        }
        let (first, second) = bytes.split_at(size_of_val(self.first));
        store_words(self.first, first);
        store_words(self.second, second);
    }

    /// Writes `parts` in sequence, the last word padded with zeros.
    ///
    /// # Panics
    /// If they need more words than the run has.
    #[inline]
    pub(crate) fn store_parts<'p>(self, parts: impl Iterator<Item = &'p [u8]>) {
        let mut free = self;
        // Bytes of a word that the next part completes.
        let mut partial = [0; WORD_BYTES];
        let mut filled = 0;
        for mut part in parts {
            if filled > 0 {
                let taken = part.len().min(WORD_BYTES - filled);
                partial[filled..filled + taken].copy_from_slice(&part[..taken]);
                filled += taken;
                part = &part[taken..];
                if filled < WORD_BYTES {
                    continue;
                }
                free = free.store_first(&partial);
            }
            let (whole, rest) = part.split_at(part.len() - part.len() % WORD_BYTES);
            free = free.store_first(whole);
            filled = rest.len();
            if filled > 0 {
                partial = [0; WORD_BYTES];
                partial[..filled].copy_from_slice(rest);
            }
        }
        if filled > 0 {
            free.store_first(&partial);
        }
    }

    /// Writes whole words at its beginning; returns the rest of the run.
    #[inline]
    fn store_first(self, bytes: &[u8]) -> Self {
        let (taken, free) = self.split_at(bytes.len() / WORD_BYTES);
        taken.store(bytes);
        free
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const RING_WORDS: usize = 8;

    fn ring() -> Vec<AtomicU64> {
        (0..RING_WORDS as u64).map(AtomicU64::new).collect()
    }

    #[test]
    fn a_run_goes_round_the_end_and_is_divided_anywhere() {
        let ring = ring();
        let numbers = |run: Run<'_>| run.words().map(|it| it.load(Ordering::Relaxed)).collect::<Vec<_>>();
        for start in 0..RING_WORDS {
            for count in 0..=RING_WORDS {
                let run = Run::of(&ring, start, count);
                let expected: Vec<u64> = (start..start + count).map(|it| (it % RING_WORDS) as u64).collect();
                assert_eq!(numbers(run), expected);
                for at in 0..=count {
                    let (before, behind) = run.split_at(at);
                    assert_eq!((&numbers(before)[..], &numbers(behind)[..]), expected.split_at(at));
                }
            }
        }
    }

    #[test]
    fn a_header_survives_every_place() {
        let (ring, header) = (ring(), Header { payload_bytes: 7, kind: 5, totals: [u64::MAX, 3] });
        for start in 0..RING_WORDS {
            let run = Run::of(&ring, start, Header::WORDS);
            run.store_header(header);
            assert_eq!(run.load_header(), header);
        }
    }

    #[test]
    fn parts_of_any_length_join_without_a_seam_at_every_place() {
        let ring = ring();
        let bytes: Vec<u8> = (1..=40).collect();
        for start in 0..RING_WORDS {
            let run = Run::of(&ring, start, bytes.len() / WORD_BYTES);
            for first in 0..=bytes.len() {
                for second in first..=bytes.len().min(first + 10) {
                    let parts = [&bytes[..first], &bytes[first..second], &[], &bytes[second..]];
                    run.store_parts(parts.into_iter());
                    let mut read = [0; 40];
                    run.load(&mut read);
                    assert_eq!(read[..], bytes[..], "parts end at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn the_last_word_is_filled_up_with_zeros() {
        let ring = ring();
        let run = Run::of(&ring, 0, 2);
        run.store_parts(std::iter::once(&[0xff; 16][..]));
        run.store_parts([&[1, 2][..], &[3]].into_iter());
        let mut read = [0; 16];
        run.load(&mut read);
        assert_eq!(read[..8], [1, 2, 3, 0, 0, 0, 0, 0]);
    }
}
