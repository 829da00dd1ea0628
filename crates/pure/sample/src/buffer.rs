//! The memory of a block: bytes that any element type may be read from in place, and the pool of such memory.

use std::collections::TryReserveError;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use zerocopy::IntoBytes;

const WORD_BYTES: usize = size_of::<u64>();
/// Number of memory blocks a pool keeps, and the maximum size of each: enough to bridge blocks that are dropped just
/// before the next ones are needed, without keeping memory of large images.
const MAX_SPARE: usize = 16;
const MAX_SPARE_BYTES: usize = 1 << 20;
/// Maximum ratio of a block's memory to its content, so that readers who keep blocks do not keep much more than that.
const MAX_ROOM: usize = 4;

/// Memory of another owner: samples that stay where their writer put them, and may be overwritten by it.
///
/// No safe code of this project reads it; explicit readers must verify afterwards that it was not overwritten.
pub trait Foreign: Send + Sync + std::fmt::Debug {
    /// Returns the start of the samples; the memory stays valid for the lifetime of this object.
    fn address(&self) -> *const u8;
    /// Returns whether everything read there so far is what the writer wrote.
    fn is_valid(&self) -> bool;
}

/// Bytes that any element type may be read from in place.
///
/// Backed by 64-bit words, so that the largest element's alignment holds without unsafe code.
#[derive(Default)]
pub struct SampleBuffer {
    words: Vec<u64>,
    /// Offset of the content; a multiple of the word size.
    start_bytes: usize,
    size_bytes: usize,
    home: Option<SparePool>,
    /// Memory that holds the content instead of `words`.
    foreign: Option<Arc<dyn Foreign>>,
}

/// Memory of dropped blocks, for reuse by later ones.
///
/// Recently used memory is in the processor's cache and need not be cleared; allocating a block's size costs more than
/// filling it.
#[derive(Clone, Debug, Default)]
pub struct SparePool(Arc<Mutex<Vec<Vec<u64>>>>);

impl SampleBuffer {
    /// Makes a buffer with a copy of `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut buffer = Self::default();
        buffer.extend_from_bytes(bytes);
        buffer
    }

    /// Makes an empty buffer with room for `size_bytes`.
    ///
    /// # Errors
    /// [`TryReserveError`] if there is not enough memory.
    pub fn try_with_room(size_bytes: usize) -> Result<Self, TryReserveError> {
        let mut buffer = Self::default();
        buffer.words.try_reserve_exact(size_bytes.div_ceil(WORD_BYTES))?;
        Ok(buffer)
    }

    /// Makes a buffer of `size_bytes` zeros.
    #[must_use]
    pub fn zeroed(size_bytes: usize) -> Self {
        let words = vec![0; size_bytes.div_ceil(WORD_BYTES)];
        Self { words, start_bytes: 0, size_bytes, home: None, foreign: None }
    }

    /// Makes a buffer from the bytes `content` of `words`, without a copy; on drop the memory returns to `home`.
    ///
    /// # Panics
    /// If the content does not begin at a word boundary, or is not within the words.
    #[must_use]
    pub fn over(words: Vec<u64>, content: Range<usize>, home: SparePool) -> Self {
        assert!(content.start.is_multiple_of(WORD_BYTES), "elements are read in place");
        assert!(content.end <= words.len() * WORD_BYTES, "the content is within the words");
        let (start_bytes, size_bytes) = (content.start, content.len());
        Self { words, start_bytes, size_bytes, home: Some(home), foreign: None }
    }

    /// Makes a buffer whose content is elsewhere: it has no bytes of its own.
    #[must_use]
    pub fn left_in(foreign: Arc<dyn Foreign>) -> Self {
        let mut buffer = Self::default();
        buffer.foreign = Some(foreign);
        buffer
    }

    /// Returns the location of the content, if it is elsewhere.
    #[must_use]
    pub const fn foreign(&self) -> Option<&Arc<dyn Foreign>> {
        self.foreign.as_ref()
    }

    /// Appends a copy of `bytes`.
    pub fn extend_from_bytes(&mut self, bytes: &[u8]) {
        let end = self.start_bytes + self.size_bytes;
        self.size_bytes += bytes.len();
        if end.is_multiple_of(WORD_BYTES) {
            // Word by word, so that memory is not cleared before it is written.
            let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
            self.words.truncate(end / WORD_BYTES);
            self.words.extend(whole.iter().map(|word| u64::from_ne_bytes(*word)));
            let mut last = [0; WORD_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            self.words.extend((!rest.is_empty()).then_some(u64::from_ne_bytes(last)));
        } else {
            let all = self.start_bytes + self.size_bytes;
            self.words.resize(all.div_ceil(WORD_BYTES), 0);
            self.words.as_mut_bytes()[end..all].copy_from_slice(bytes);
        }
    }

    /// Drops the content, keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        (self.start_bytes, self.size_bytes) = (0, 0);
    }

    /// Returns the content.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.words.as_bytes()[self.start_bytes..][..self.size_bytes]
    }

    /// Returns the content for writing.
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.words.as_mut_bytes()[self.start_bytes..][..self.size_bytes]
    }
}

impl Clone for SampleBuffer {
    fn clone(&self) -> Self {
        let mut copy = Self::from_bytes(self.as_bytes());
        copy.foreign.clone_from(&self.foreign);
        copy
    }
}

impl Drop for SampleBuffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give_back(std::mem::take(&mut self.words));
        }
    }
}

impl std::fmt::Debug for SampleBuffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SampleBuffer({} bytes)", self.size_bytes)
    }
}

impl SparePool {
    /// Ensures that `words` hold at least `size_bytes` and at most four times as many: otherwise their memory returns
    /// to the pool and fitting memory is taken or allocated. The content is unspecified afterwards.
    pub fn fit(&self, words: &mut Vec<u64>, size_bytes: usize) {
        let fits = |words: &Vec<u64>| {
            let capacity = words.capacity() * WORD_BYTES;
            (size_bytes..=size_bytes.saturating_mul(MAX_ROOM)).contains(&capacity)
        };
        if fits(words) {
            return;
        }
        let mut spare = self.spare();
        let fitting = spare.iter().rposition(fits).map(|index| spare.remove(index));
        drop(spare);
        // A block that is a little larger finds room in it too.
        let make = || Vec::with_capacity((size_bytes + size_bytes / 4).div_ceil(WORD_BYTES));
        self.give_back(std::mem::replace(words, fitting.unwrap_or_else(make)));
    }

    fn give_back(&self, words: Vec<u64>) {
        let mut spare = self.spare();
        if spare.len() < MAX_SPARE && (1..=MAX_SPARE_BYTES).contains(&(words.capacity() * WORD_BYTES)) {
            spare.push(words);
        }
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u64>>> {
        // Whatever a panic left there is memory all the same.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_by_any_number_of_bytes() {
        for first in 0..20 {
            for second in 0..20 {
                let bytes: Vec<u8> = (1..=first + second).collect();
                let (before, behind) = bytes.split_at(usize::from(first));
                let mut buffer = SampleBuffer::from_bytes(before);
                buffer.extend_from_bytes(behind);
                assert_eq!(buffer.as_bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_buffer_over_a_part_of_some_words_grows_behind_that_part() {
        for size_bytes in 0..=16 {
            let words = vec![0x0707_0707_0707_0707; 5];
            let mut buffer = SampleBuffer::over(words, 8..8 + size_bytes, SparePool::default());
            buffer.extend_from_bytes(&[1, 2, 3]);
            assert_eq!(buffer.as_bytes(), [&[7; 16][..size_bytes], &[1, 2, 3]].concat());
            buffer.clear();
            buffer.extend_from_bytes(&[4]);
            assert_eq!(buffer.as_bytes(), [4]);
        }
    }

    #[test]
    fn memory_comes_home_once_and_no_more_than_is_kept() {
        let home = SparePool::default();
        let one = |size| SampleBuffer::over(vec![0; size], 0..size * 8, home.clone());
        let kept = || home.spare().iter().map(Vec::len).collect::<Vec<_>>();
        let buffer = one(4);
        drop(buffer.clone());
        assert_eq!(kept(), [], "a copy has its own memory");
        drop(buffer);
        assert_eq!(kept(), [4]);
        drop(one(MAX_SPARE_BYTES));
        assert_eq!(kept(), [4], "what is very large is not kept");
        let many: Vec<_> = (0..MAX_SPARE + 3).map(|_| one(1)).collect();
        drop(many);
        assert_eq!(home.spare().len(), MAX_SPARE);
    }

    #[test]
    fn memory_is_exchanged_for_what_fits() {
        let home = SparePool::default();
        let mut words = vec![0; 100];
        let memory = words.as_ptr();
        for size_bytes in [800, 799, 200] {
            home.fit(&mut words, size_bytes);
            assert_eq!(words.as_ptr(), memory, "{size_bytes} bytes are at home in 800");
        }
        home.fit(&mut words, 199);
        assert!((25..=99).contains(&words.capacity()), "more than four times as much is too much");
        home.fit(&mut words, 801);
        assert!((101..=400).contains(&words.capacity()));
        home.fit(&mut words, 250);
        assert_eq!(words.as_ptr(), memory, "it was returned, and the other is too small");
        let mut none = Vec::new();
        home.fit(&mut none, 0);
        assert_eq!(none.capacity(), 0);
    }
}
