//! The newest sample of a stream, whole, as it was published.
//!
//! A small one is always kept, so that a table has it at once; a large one from the first request on, until a minute after
//! the last one, as far as pictures leave memory for it. Start with [`Newest`].

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sample::Block;
use units::WallTime;

use super::pictures::{Bytes, PictureBudget};
use crate::clock::Moment;

/// Samples up to this size are kept without a request: a copy of them costs less than their reception.
const SMALL_BYTES: usize = 64 << 10;
/// A larger one that was not asked for during this time is no longer kept.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// The newest sample of a stream.
#[derive(Debug)]
pub(crate) struct Newest {
    sample: Option<NewestSample>,
    asked: Option<Instant>,
    /// Memory that large samples of all streams may still take, and how much of it this one has.
    budget: Bytes,
    taken: usize,
}

/// A whole sample.
#[derive(Clone, Debug)]
pub(crate) struct NewestSample {
    pub(crate) time: WallTime,
    /// Elements, little-endian.
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Elements that never arrived.
    pub(crate) missing: Arc<[Range<usize>]>,
}

impl Newest {
    pub(super) fn new(budget: &PictureBudget) -> Self {
        Self { sample: None, asked: None, budget: budget.asked().clone(), taken: 0 }
    }

    /// Returns the sample, if it is kept; keeps those that come, also large ones.
    pub(crate) fn ask(&mut self, now: Moment) -> Option<&NewestSample> {
        self.asked = Some(now.steady);
        self.sample.as_ref()
    }

    /// Takes the last sample of a block, which is not empty.
    ///
    /// Cost: a copy of one sample. Its memory is used again unless a reader still has it.
    pub(super) fn push(&mut self, block: &Block, now: Moment) {
        let size = block.schema.sample_bytes();
        if size > SMALL_BYTES && !self.has_room(size, now) {
            self.sample = None;
            return;
        }
        let before = self.sample.take().map(|sample| sample.bytes).unwrap_or_default();
        self.sample = Some(NewestSample::with_memory(block, before));
    }

    /// Takes memory for a large sample, or gives it back a minute after the last request.
    fn has_room(&mut self, size: usize, now: Moment) -> bool {
        let silent = |at| now.steady.saturating_duration_since(at) > FORGOTTEN_AFTER;
        if self.asked.is_none_or(silent) {
            self.budget.give_back(std::mem::take(&mut self.taken));
        } else if self.taken == 0 && self.budget.take(size) {
            // A stream's samples have one size.
            self.taken = size;
        }
        self.taken > 0
    }
}

impl NewestSample {
    /// Copies the last sample of a block, which is not empty.
    pub(crate) fn of(block: &Block) -> Self {
        Self::with_memory(block, Arc::default())
    }

    fn with_memory(block: &Block, mut bytes: Arc<Vec<u8>>) -> Self {
        let (last, size) = (block.samples - 1, block.schema.sample_bytes());
        let per_sample = u64::from(block.schema.elements_per_sample());
        let first = last * per_sample;
        let holes = block.missing.intersection(first..first + per_sample);
        // Within one sample: they fit.
        let missing = holes.map(|hole| (hole.start - first) as usize..(hole.end - first) as usize).collect();
        let start = last as usize * size;
        let of_block = &block.data.as_bytes()[start..start + size];
        match Arc::get_mut(&mut bytes) {
            Some(bytes) => {
                bytes.clear();
                bytes.extend_from_slice(of_block);
            }
            None => bytes = Arc::new(of_block.to_vec()),
        }
        Self { time: block.time_of(block.next_index() - 1), bytes, missing }
    }
}

impl Drop for Newest {
    fn drop(&mut self) {
        self.budget.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{self, SECOND};
    use sample::{Channel, Dtype, SampleBuffer, Schema};

    fn at(seconds: i64) -> Moment {
        scene::moment(WallTime::from_nanos(seconds * SECOND))
    }

    /// Two samples of this many elements, those of the first all 1, those of the second all 2.
    fn block(elements: u32, first_index: u64) -> Block {
        let channels = vec![Channel::new("image", "").with_shape([elements])];
        let schema = Schema::new(Dtype::U8, "10".parse().unwrap(), channels).unwrap();
        let bytes = [vec![1; elements as usize], vec![2; elements as usize]].concat();
        let plain = scene::block(&scene::info("lab/camera", 10), first_index, &[0.0, 0.0]);
        Block { schema: Arc::new(schema), data: SampleBuffer::from_bytes(&bytes), ..plain }
    }

    #[test]
    fn a_small_sample_is_always_kept_and_its_memory_is_used_again() {
        let mut newest = Newest::new(&PictureBudget::default());
        newest.push(&block(3, 0), at(100));
        let first = newest.ask(at(100)).unwrap().clone();
        assert_eq!((first.time, &first.bytes[..]), (block(3, 0).time_of(1), &[2, 2, 2][..]));
        let mut partial = block(3, 2);
        partial.missing.insert(2..4);
        newest.push(&partial, at(101));
        let second = newest.ask(at(101)).unwrap();
        assert_eq!((second.time, &*second.missing), (partial.time_of(3), &[0..1][..]), "of its own");
        assert_eq!(first.bytes[..], [2, 2, 2], "what a reader has does not change");
        let place = Arc::as_ptr(&second.bytes);
        newest.push(&block(3, 4), at(102));
        assert_eq!(Arc::as_ptr(&newest.ask(at(102)).unwrap().bytes), place);
    }

    #[test]
    fn a_large_sample_is_kept_from_a_request_until_a_minute_after_the_last() {
        let (mut newest, large) = (Newest::new(&PictureBudget::default()), SMALL_BYTES as u32 + 1);
        newest.push(&block(large - 1, 0), at(100));
        assert!(newest.ask(at(0)).is_some(), "small");
        let mut newest = Newest::new(&PictureBudget::default());
        newest.push(&block(large, 0), at(100));
        assert!(newest.ask(at(100)).is_none());
        newest.push(&block(large, 2), at(160));
        assert!(newest.sample.is_some());
        newest.push(&block(large, 4), at(161));
        assert!(newest.sample.is_none(), "a minute has passed");
    }

    #[test]
    fn large_samples_take_the_memory_that_there_is_and_give_it_back() {
        let (budget, large) = (PictureBudget::default(), SMALL_BYTES as u32 + 1);
        let [mut first, mut second] = [(); 2].map(|()| Newest::new(&budget));
        while budget.asked().take(large as usize) {}
        budget.asked().give_back(large as usize);
        for newest in [&mut first, &mut second] {
            newest.ask(at(100));
            (0..3).for_each(|index| newest.push(&block(large, 2 * index), at(100)));
        }
        assert!(first.sample.is_some() && second.sample.is_none());
        second.push(&block(large - 1, 6), at(100));
        assert!(second.sample.is_some(), "small ones are kept all the same");
        drop(first);
        second.push(&block(large, 8), at(101));
        assert!(second.sample.is_some());
        second.push(&block(large, 10), at(200));
        assert!(second.sample.is_none() && budget.asked().take(large as usize), "given back");
    }
}
