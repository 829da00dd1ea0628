//! Whole samples of the channels that pages show as pictures, within a bound of memory.
//!
//! A channel's samples are kept from the first request on, and until a minute after the last one. Of vectors and matrices
//! that no page asks for, the newest sample is kept, so that the first request is answered at once however slow the
//! stream is. Elements stay as they came: a viewer reduces what it shows. Start with [`Pictures`].

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sample::{Block, Schema};
use units::WallTime;
use wire::Obstacle;

use crate::clock::Moment;

/// Maximum size of all samples of a channel if there is more than one: a minute of a simulation's field.
const MAX_CHANNEL_BYTES: usize = 16 << 20;
/// Maximum size of one sample: a camera image of 32 megapixels in 16 bits.
const MAX_SAMPLE_BYTES: usize = 64 << 20;
/// Maximum size of all samples of all streams.
const MAX_BYTES: usize = 256 << 20;
/// Maximum size of the samples of all streams that are kept before a page asks for their channel.
const MAX_UNASKED_BYTES: usize = 16 << 20;
/// A channel that no view asked for during this time is forgotten: pages ask several times a second.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// One whole sample of a channel.
#[derive(Clone, Debug)]
pub(crate) struct WholeSample {
    pub(crate) time: WallTime,
    pub(crate) index: u64,
    /// Number of samples of the channel that came before this one since it was first asked for.
    pub(crate) number: u64,
    /// Elements, little-endian.
    pub(crate) bytes: Arc<[u8]>,
    /// Elements that never arrived.
    pub(crate) missing: Arc<[Range<usize>]>,
}

/// Whole samples of a stream, by channel.
#[derive(Debug)]
pub(crate) struct Pictures {
    channels: BTreeMap<usize, Kept>,
    /// Channels of more than one element that no view asks for, with their newest sample; `None` if there is no room.
    unasked: BTreeMap<usize, Option<WholeSample>>,
    budget: PictureBudget,
}

/// Whole samples of a channel, oldest first.
#[derive(Debug)]
struct Kept {
    samples: VecDeque<WholeSample>,
    bytes: usize,
    taken: u64,
    asked: Instant,
    obstacle: Option<Obstacle>,
}

/// Memory that pictures of all streams may still take: of channels that pages ask for, and of the others.
#[derive(Clone, Debug)]
pub(crate) struct PictureBudget {
    asked: Bytes,
    unasked: Bytes,
}

impl Default for PictureBudget {
    fn default() -> Self {
        Self { asked: Bytes::new(MAX_BYTES), unasked: Bytes::new(MAX_UNASKED_BYTES) }
    }
}

impl PictureBudget {
    /// Returns the memory of what pages ask for.
    pub(super) const fn asked(&self) -> &Bytes {
        &self.asked
    }
}

/// Bytes that may still be taken.
#[derive(Clone, Debug)]
pub(super) struct Bytes(Arc<AtomicUsize>);

impl Bytes {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    // A count that nothing else is read by: no ordering is needed.
    pub(super) fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Pictures {
    pub(super) fn new(schema: &Schema, budget: PictureBudget) -> Self {
        let is_vector = |channel: &usize| schema.channel_elements(*channel).len() > 1;
        let unasked = (0..schema.channels.len()).filter(is_vector).map(|channel| (channel, None)).collect();
        Self { channels: BTreeMap::new(), unasked, budget }
    }

    /// Keeps samples of a channel until a minute after the last call, and the newest one of before.
    pub(crate) fn ask(&mut self, channel: usize, now: Moment) {
        if let Some(kept) = self.channels.get_mut(&channel) {
            kept.asked = now.steady;
            return;
        }
        let before = self.unasked.insert(channel, None).flatten();
        let mut kept = Kept {
            samples: VecDeque::new(),
            bytes: 0,
            taken: 0,
            asked: now.steady,
            // Until a sample comes.
            obstacle: before.is_none().then_some(Obstacle::Unasked),
        };
        if let Some(sample) = before {
            self.budget.unasked.give_back(sample.bytes.len());
            kept.obstacle = kept.make_room(sample.bytes.len(), &self.budget.asked);
            if kept.obstacle.is_none() {
                kept.add(sample);
            }
        }
        self.channels.insert(channel, kept);
    }

    /// Returns the newest sample of a channel, of those up to `end` if there is one.
    pub(crate) fn newest(&self, channel: usize, end: Option<WallTime>) -> Option<&WholeSample> {
        let samples = &self.channels.get(&channel)?.samples;
        let before = |sample: &&WholeSample| end.is_none_or(|end| sample.time <= end);
        samples.iter().rev().find(before)
    }

    /// Returns the time of the oldest sample of a channel.
    pub(crate) fn kept_from(&self, channel: usize) -> Option<WallTime> {
        self.channels.get(&channel)?.samples.front().map(|sample| sample.time)
    }

    /// Returns why the newest sample of a channel is not kept.
    pub(crate) fn obstacle(&self, channel: usize) -> Option<Obstacle> {
        self.channels.get(&channel)?.obstacle
    }

    /// Takes the samples of a block, for the channels that were asked for, and the last one for others.
    ///
    /// Cost: a copy of these channels.
    pub(super) fn push(&mut self, block: &Block, now: Moment) {
        let forgotten = |kept: &Kept| now.steady.saturating_duration_since(kept.asked) > FORGOTTEN_AFTER;
        self.channels.retain(|_, kept| {
            if forgotten(kept) {
                self.budget.asked.give_back(kept.bytes);
            }
            !forgotten(kept)
        });
        for (channel, kept) in &mut self.channels {
            for sample in 0..block.samples {
                kept.take(block, sample, *channel, &self.budget.asked);
            }
        }
        for (channel, newest) in &mut self.unasked {
            let bytes = block.schema.channel_elements(*channel).len() * block.schema.dtype.size_bytes();
            let asked = self.channels.contains_key(channel);
            if !asked && (newest.is_some() || self.budget.unasked.take(bytes)) {
                *newest = Some(WholeSample::of(block, block.samples - 1, *channel));
            }
        }
    }
}

impl Drop for Pictures {
    fn drop(&mut self) {
        self.budget.asked.give_back(self.channels.values().map(|kept| kept.bytes).sum());
        self.budget.unasked.give_back(self.unasked.values().flatten().map(|sample| sample.bytes.len()).sum());
    }
}

impl WholeSample {
    /// Copies a channel of a sample, counted from the block's first.
    pub(crate) fn of(block: &Block, sample: u64, channel: usize) -> Self {
        let (elements, size) = (block.schema.channel_elements(channel), block.schema.dtype.size_bytes());
        let per_sample = u64::from(block.schema.elements_per_sample());
        let first = sample * per_sample + elements.start as u64;
        let holes = block.missing.intersection(first..first + elements.len() as u64);
        // Within one sample: they fit.
        let missing = holes.map(|hole| (hole.start - first) as usize..(hole.end - first) as usize);
        let start = first as usize * size;
        let index = block.first_index + sample;
        Self {
            time: block.time_of(index),
            index,
            number: 0,
            bytes: block.data.as_bytes()[start..start + elements.len() * size].into(),
            missing: missing.collect(),
        }
    }
}

impl Kept {
    fn take(&mut self, block: &Block, sample: u64, channel: usize, budget: &Bytes) {
        let bytes = block.schema.channel_elements(channel).len() * block.schema.dtype.size_bytes();
        self.obstacle = self.make_room(bytes, budget);
        if self.obstacle.is_some() {
            self.taken += 1;
            return;
        }
        self.add(WholeSample::of(block, sample, channel));
    }

    /// Adds a sample for which memory was taken.
    fn add(&mut self, sample: WholeSample) {
        self.bytes += sample.bytes.len();
        self.samples.push_back(WholeSample { number: self.taken, ..sample });
        self.taken += 1;
    }

    /// Takes memory for one more sample, that of older ones if need be.
    fn make_room(&mut self, bytes: usize, budget: &Bytes) -> Option<Obstacle> {
        if bytes > MAX_SAMPLE_BYTES {
            return Some(Obstacle::TooLarge);
        }
        loop {
            let fits = self.samples.is_empty() || self.bytes + bytes <= MAX_CHANNEL_BYTES;
            if fits && budget.take(bytes) {
                return None;
            }
            let Some(oldest) = self.samples.pop_front() else { return Some(Obstacle::NoRoom) };
            self.bytes -= oldest.bytes.len();
            budget.give_back(oldest.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{self, SECOND};
    use sample::{SampleBuffer, Schema};
    use tallycast::{Channel, Dtype};
    use units::RangeSet;

    fn at(seconds: i64) -> Moment {
        scene::moment(WallTime::from_nanos(seconds * SECOND))
    }

    /// One sample of a channel `t` and an image of this shape, whose elements are all `value`.
    fn block(shape: [u32; 2], first_index: u64, value: u8) -> Block {
        let channels = vec![Channel::new("t", "s"), Channel::new("image", "").with_shape(shape)];
        let schema = Schema::new(Dtype::U8, "10".parse().unwrap(), channels).unwrap();
        let bytes = vec![value; schema.sample_bytes()];
        let plain = scene::block(&scene::info("lab/camera", 10), first_index, &[0.0]);
        Block {
            schema: Arc::new(schema),
            data: SampleBuffer::from_bytes(&bytes),
            missing: RangeSet::new(),
            ..plain
        }
    }

    fn empty(budget: &PictureBudget) -> Pictures {
        Pictures::new(&block([2, 3], 0, 0).schema, budget.clone())
    }

    fn left(budget: &PictureBudget) -> usize {
        budget.asked.0.load(Ordering::Relaxed)
    }

    #[test]
    fn samples_are_kept_from_the_first_request_until_a_minute_after_the_last() {
        let budget = PictureBudget::default();
        let mut pictures = empty(&budget);
        pictures.push(&block([2, 3], 0, 1), at(100));
        assert!(pictures.newest(1, None).is_none());
        pictures.ask(1, at(100));
        assert_eq!(pictures.newest(1, None).unwrap().index, 0, "the newest of before");
        for index in 1..4 {
            pictures.push(&block([2, 3], index, index as u8), at(101));
        }
        let newest = pictures.newest(1, None).unwrap();
        assert_eq!((newest.index, newest.number, newest.bytes[..].to_vec()), (3, 3, vec![3; 6]));
        let second = pictures.newest(1, Some(newest.time.offset(-1))).unwrap();
        assert_eq!(second.index, 2);
        let oldest = pictures.kept_from(1).unwrap();
        assert!(pictures.newest(1, Some(oldest.offset(-1))).is_none());
        assert_eq!(left(&budget), MAX_BYTES - 24);
        pictures.push(&block([2, 3], 4, 4), at(160));
        assert_eq!(pictures.newest(1, None).unwrap().index, 4);
        pictures.push(&block([2, 3], 5, 5), at(161));
        assert!(pictures.newest(1, None).is_none(), "a minute has passed");
        assert_eq!(left(&budget), MAX_BYTES);
    }

    #[test]
    fn the_newest_sample_of_before_is_kept_as_far_as_there_is_room() {
        let budget = PictureBudget::default();
        let left = || budget.unasked.0.load(Ordering::Relaxed);
        let side = 1 << 10;
        // Ten megabytes each.
        let mut both = [(); 2].map(|()| empty(&budget));
        for index in 0..5 {
            both.iter_mut().for_each(|each| each.push(&block([10 * side, side], index, 1), at(100)));
        }
        assert_eq!(left(), MAX_UNASKED_BYTES - (10 << 20));
        both.iter_mut().for_each(|each| each.ask(1, at(101)));
        let [first, second] = &mut both;
        assert_eq!((first.newest(1, None).unwrap().index, first.obstacle(1)), (4, None));
        assert!(second.newest(1, None).is_none());
        assert_eq!(second.obstacle(1), Some(Obstacle::Unasked));
        assert_eq!(left(), MAX_UNASKED_BYTES, "given back");
        second.push(&block([10 * side, side], 5, 1), at(101));
        assert_eq!((second.newest(1, None).unwrap().index, second.obstacle(1)), (5, None));
        // A minute after the last request, the newest one is kept again.
        first.push(&block([10 * side, side], 5, 1), at(200));
        assert_eq!(left(), MAX_UNASKED_BYTES - (10 << 20));
        drop(both);
        assert_eq!(left(), MAX_UNASKED_BYTES);
    }

    #[test]
    fn elements_that_never_arrived_are_told() {
        let mut pictures = empty(&PictureBudget::default());
        pictures.ask(1, at(100));
        let mut partial = block([2, 3], 0, 1);
        partial.missing.insert(0..2);
        partial.missing.insert(5..7);
        pictures.push(&partial, at(100));
        assert_eq!(*pictures.newest(1, None).unwrap().missing, [0..1, 4..6]);
    }

    #[test]
    fn memory_is_bounded_by_channel_and_in_all() {
        let budget = PictureBudget::default();
        let mut pictures = empty(&budget);
        pictures.ask(1, at(100));
        for index in 0..40 {
            pictures.push(&block([1 << 10, 1 << 10], index, 1), at(100));
        }
        assert_eq!(left(&budget), MAX_BYTES - MAX_CHANNEL_BYTES);
        assert_eq!(pictures.newest(1, None).unwrap().index, 39);
        // One that is larger than that is kept alone.
        pictures.push(&block([MAX_SAMPLE_BYTES as u32 >> 10, 1 << 10], 40, 1), at(100));
        assert_eq!(left(&budget), MAX_BYTES - MAX_SAMPLE_BYTES);
        assert_eq!(pictures.obstacle(1), None);
        pictures.push(&block([(MAX_SAMPLE_BYTES as u32 >> 10) + 1, 1 << 10], 41, 1), at(100));
        assert_eq!(pictures.obstacle(1), Some(Obstacle::TooLarge));
        assert!(budget.asked.take(left(&budget)));
        let mut other = empty(&budget);
        other.ask(1, at(100));
        other.push(&block([2, 2], 0, 1), at(100));
        assert_eq!(other.obstacle(1), Some(Obstacle::NoRoom));
        drop(pictures);
        assert_eq!(left(&budget), MAX_SAMPLE_BYTES, "given back");
        other.push(&block([2, 2], 1, 1), at(100));
        assert_eq!(other.obstacle(1), None);
    }
}
