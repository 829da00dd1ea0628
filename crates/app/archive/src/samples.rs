//! Samples of an epoch's range in one array, for numerical programs.
//!
//! A hole is never bridged: samples on both sides of it are in adjacent rows, and [`SampleRun`]s have the sample
//! index and time of each row. Start with [`Archive::samples`].

use core::ops::Range;
use std::sync::Arc;

use sample::{Block, SampleBuffer};
use units::{RangeSet, WallTime};

use crate::Description;
use crate::catalogue::{Archive, Recording};
use crate::columns::Times;
use crate::error::ArchiveError;
use crate::feed::{Hole, Piece};

/// Samples of one epoch, and the holes between them.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Name, epoch, schema and station.
    pub description: Arc<Description>,
    /// Shape: `[rows, elements per sample]`, row-major, little-endian.
    pub data: SampleBuffer,
    /// Runs of consecutive samples, in the order of the rows; every row is in one run.
    pub runs: Vec<SampleRun>,
    /// Elements that never arrived, counted from the first of `data`; their value is zero.
    pub missing: RangeSet,
    /// Holes between the rows, before the first and behind the last, in their order.
    pub holes: Vec<Hole>,
}

/// Consecutive samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleRun {
    /// Index of the first sample.
    pub first_index: u64,
    /// Time of the first sample; the others follow by the stream's rate.
    pub t0: WallTime,
    /// Number of samples.
    pub samples: u64,
}

impl Archive {
    /// Reads the samples of an epoch in a range of time and of indices.
    ///
    /// Cost: two copies of the samples; memory for the requested samples, once.
    ///
    /// # Errors
    /// [`ArchiveError::Unsuited`] if there is not enough memory; the error of reading.
    pub fn samples(
        &self,
        recording: &Recording,
        range: Range<WallTime>,
        indices: Range<u64>,
    ) -> Result<Samples, ArchiveError> {
        let description = Arc::clone(&recording.description);
        let size_bytes = recording.most_bytes_in(&range, &indices);
        let too_large = |_| {
            let text = format!(
                "{size_bytes} bytes of {} are more than this process gets\n\
                 ask for less at a time: a shorter range, fewer points, or one segment after the other",
                description.name
            );
            ArchiveError::Unsuited(text)
        };
        let data = SampleBuffer::try_with_room(size_bytes).map_err(too_large)?;
        let (runs, missing, holes) = (Vec::new(), RangeSet::new(), Vec::new());
        let mut samples = Samples { description: Arc::clone(&description), data, runs, missing, holes };
        for piece in self.epoch(recording, range).within(indices) {
            match piece? {
                Piece::Epoch(_) => {}
                Piece::Hole(hole) => samples.holes.push(hole),
                Piece::Block(block) => samples.append(&block),
            }
        }
        Ok(samples)
    }
}

impl Samples {
    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.runs.iter().map(|run| run.samples).sum()
    }

    /// Returns the index of each row.
    #[must_use]
    pub fn indices(&self) -> Vec<u64> {
        self.runs.iter().flat_map(|run| run.first_index..run.first_index + run.samples).collect()
    }

    /// Returns the time of each row. Units: nanoseconds since 1970 UTC.
    #[must_use]
    pub fn times_ns(&self) -> Vec<i64> {
        let rate = self.description.schema.rate;
        let times = |run: &SampleRun| {
            let mut times = Times::new(rate, run.t0);
            (0..run.samples).map(move |_| times.step())
        };
        self.runs.iter().flat_map(times).collect()
    }

    fn append(&mut self, block: &Block) {
        let before = self.data.as_bytes().len() / self.description.schema.dtype.size_bytes();
        for range in block.missing.iter() {
            self.missing.insert(before as u64 + range.start..before as u64 + range.end);
        }
        self.data.extend_from_bytes(block.data.as_bytes());
        self.runs.push(SampleRun { first_index: block.first_index, t0: block.t0, samples: block.samples });
    }
}

impl Recording {
    /// Returns the maximum size of the samples in a range, in bytes.
    fn most_bytes_in(&self, range: &Range<WallTime>, indices: &Range<u64>) -> usize {
        let apart = |first: u64, next: u64| next.min(indices.end).saturating_sub(first.max(indices.start));
        let refills = self.contents.refills.iter().filter_map(|refill| refill.segment.as_ref());
        let segments = self.contents.segments.iter().chain(refills);
        let segments = segments.filter(|it| it.t0 < range.end && it.t1 > range.start);
        let samples: u64 = segments.map(|it| it.samples.min(apart(it.first_index, it.next_index))).sum();
        usize::try_from(samples).unwrap_or(usize::MAX).saturating_mul(self.description.schema.sample_bytes())
    }
}
