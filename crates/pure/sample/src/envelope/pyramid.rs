//! Extremes and means of increasingly long runs of samples: the coarser the bucket, the further back it reaches.

use core::ops::Range;
use std::collections::VecDeque;

use super::column::{Column, joined_mean};

/// Each level's buckets hold 2² of the level below.
const LEVEL_SHIFT: u32 = 2;

/// One bucket: the extremes and the mean of a fixed run of slots. How many were expected follows from its place.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    min: f64,
    max: f64,
    mean: f64,
    present: u16,
    not_a_number: u16,
    /// First and last slot with a sample, counted from the bucket's own first.
    first: u16,
    last: u16,
}

#[derive(Clone, Debug)]
struct Level {
    /// The binary logarithm of a bucket's samples: looking a bucket up must not cost a division.
    shift: u32,
    /// The number of the first bucket kept; bucket `n` covers the slots from `n << shift` on.
    first: u64,
    buckets: VecDeque<Bucket>,
}

/// All levels over one line of slots.
#[derive(Clone, Debug)]
pub(super) struct Pyramid {
    levels: Vec<Level>,
    buckets_per_level: usize,
}

/// A bucket found for a position.
pub(super) struct Found {
    /// Extremes and counts; the number of expected samples is known from the line.
    pub(super) content: Column,
    /// The slots it covers.
    pub(super) slots: Range<u64>,
    /// Slots from the first to the last sample: the drawable part.
    pub(super) present: Range<u64>,
}

impl Bucket {
    const EMPTY: Self = Self {
        min: f64::NAN,
        max: f64::NAN,
        mean: f64::NAN,
        present: 0,
        not_a_number: 0,
        first: u16::MAX,
        last: 0,
    };

    /// Adds a run without missing samples, from the slot `at` of the bucket on.
    fn take(&mut self, at: u64, part: &Column) {
        self.min = self.min.min(part.min);
        self.max = self.max.max(part.max);
        let values = u64::from(self.present - self.not_a_number);
        self.mean = joined_mean((self.mean, values), (part.mean, part.present - part.not_a_number));
        // A bucket holds at most 2^15 samples: `Pyramid::new` ensures it.
        self.present += part.present as u16;
        self.not_a_number += part.not_a_number as u16;
        self.first = self.first.min(at as u16);
        self.last = self.last.max((at + part.present - 1) as u16);
    }
}

impl Level {
    fn found(&self, slot: u64) -> Option<Found> {
        let number = slot >> self.shift;
        let bucket = self.buckets.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        let content = Column {
            min: bucket.min,
            max: bucket.max,
            mean: bucket.mean,
            present: u64::from(bucket.present),
            expected: 0,
            not_a_number: u64::from(bucket.not_a_number),
            exact: true,
        };
        let slots = number << self.shift..(number + 1) << self.shift;
        let present = match bucket.present {
            0 => slots.start..slots.start,
            _ => slots.start + u64::from(bucket.first)..slots.start + u64::from(bucket.last) + 1,
        };
        Some(Found { content, slots, present })
    }

    /// Returns the bucket of `slot`, the last one from now on, making room for it and for holes before it.
    fn reach(&mut self, slot: u64, capacity: usize) -> &mut Bucket {
        let number = slot >> self.shift;
        if self.buckets.is_empty() {
            self.first = number;
        }
        let keep_from = (number + 1).saturating_sub(capacity as u64);
        if keep_from >= self.first + self.buckets.len() as u64 {
            self.buckets.clear();
            self.first = self.first.max(keep_from);
        }
        while self.first < keep_from {
            self.buckets.pop_front();
            self.first += 1;
        }
        while self.first + (self.buckets.len() as u64) <= number {
            self.buckets.push_back(Bucket::EMPTY);
        }
        self.buckets.back_mut().expect("the last bucket is that of the slot")
    }
}

impl Pyramid {
    /// Makes `levels` empty levels, the finest with buckets of `bucket_samples`.
    ///
    /// # Panics
    /// If a number is zero, `bucket_samples` is not a power of two, or the coarsest bucket would hold more than 2¹⁵
    /// samples.
    pub(super) fn new(bucket_samples: u64, levels: u32, buckets_per_level: usize) -> Self {
        assert!(bucket_samples.is_power_of_two(), "a bucket holds a power of two of samples");
        assert!(levels > 0 && buckets_per_level > 0, "an envelope has some buckets");
        let shift = |level| bucket_samples.trailing_zeros() + level * LEVEL_SHIFT;
        assert!(shift(levels - 1) < u16::BITS, "a bucket counts its samples in 16 bits");
        let level = |number| Level { shift: shift(number), first: 0, buckets: VecDeque::new() };
        Self { levels: (0..levels).map(level).collect(), buckets_per_level }
    }

    pub(super) fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.buckets.clear());
    }

    /// Takes a run of samples from `slot` on; slots only increase.
    pub(super) fn take(&mut self, mut slot: u64, mut values: &[f64]) {
        let finest = self.finest();
        while !values.is_empty() {
            let room = finest - slot % finest;
            let (now, rest) = values.split_at(values.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            let mut part = Column::EMPTY;
            part.take(now);
            for level in &mut self.levels {
                let at = slot & ((1 << level.shift) - 1);
                level.reach(slot, self.buckets_per_level).take(at, &part);
            }
            slot += now.len() as u64;
            values = rest;
        }
    }

    /// Records that the slots before `slot` are missing.
    pub(super) fn skip_to(&mut self, slot: u64) {
        for level in &mut self.levels {
            level.reach(slot.saturating_sub(1), self.buckets_per_level);
        }
    }

    /// Returns the coarsest bucket that begins at `slot` and ends at or before `end`.
    pub(super) fn beginning_at(&self, slot: u64, end: u64) -> Option<Found> {
        self.levels.iter().rev().find_map(|level| {
            let samples = 1 << level.shift;
            let fits = slot & (samples - 1) == 0 && end - slot >= samples;
            fits.then(|| level.found(slot)).flatten()
        })
    }

    /// Returns the finest bucket that covers `slot`.
    pub(super) fn covering(&self, slot: u64) -> Option<Found> {
        self.levels.iter().find_map(|level| level.found(slot))
    }

    /// Returns the size of the finest buckets.
    pub(super) fn finest(&self) -> u64 {
        1 << self.levels[0].shift
    }

    /// Returns the first slot that any level still covers.
    pub(super) fn first_slot(&self) -> Option<u64> {
        let first = |level: &Level| level.first << level.shift;
        self.levels.iter().filter(|level| !level.buckets.is_empty()).map(first).min()
    }
}
