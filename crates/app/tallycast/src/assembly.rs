//! Blocks of whole samples out of the pieces that datagrams bring.
//!
//! Pieces that follow each other are joined into larger blocks. A sample that was cut over several
//! datagrams is handed over when its last piece has come or is missing; what is missing of it reads as zero
//! and is named in the block's mask. A sample of which nothing came is not handed over at all, and takes no
//! memory.

use std::ops::Range;
use std::sync::Arc;

use sample::{Block, SampleBuffer, Schema, StreamName};
use units::{Epoch, RangeSet, WallTime};

/// A block is handed over when it has grown to this size.
const MAX_BLOCK_BYTES: usize = 256 * 1024;
/// Zeros are put in so many at a time.
const ZEROS: [u8; 4_096] = [0; 4_096];

/// Collects the pieces of one epoch of a stream.
pub(crate) struct Assembly {
    stream: Arc<StreamName>,
    schema: Arc<Schema>,
    epoch: Epoch,
    per_sample: u64,
    element_bytes: usize,
    /// Position of the first element in `data`; the start of a sample.
    start: u64,
    t0: WallTime,
    /// How many elements have been collected or are missing since `start`.
    len: u64,
    /// What has been collected; missing elements behind the last that came are not written yet.
    data: SampleBuffer,
    /// Missing positions among the collected.
    missing: RangeSet,
}

impl Assembly {
    pub(crate) fn new(stream: Arc<StreamName>, schema: Arc<Schema>, epoch: Epoch) -> Self {
        Self {
            per_sample: u64::from(schema.elements_per_sample()),
            element_bytes: schema.dtype.size_bytes(),
            stream,
            schema,
            epoch,
            start: 0,
            t0: WallTime::default(),
            len: 0,
            data: SampleBuffer::default(),
            missing: RangeSet::new(),
        }
    }

    /// Adds a piece; hands over what it completes.
    pub(crate) fn piece(&mut self, position: u64, t0: WallTime, payload: &[u8], out: &mut Vec<Block>) {
        if self.next_position() != Some(position) || self.jumps(position, t0) {
            self.flush(out);
            self.begin(position, t0);
        }
        self.write_zeros(self.len);
        self.data.extend_from_bytes(payload);
        self.len += (payload.len() / self.element_bytes) as u64;
        if self.data.as_bytes().len() >= MAX_BLOCK_BYTES && self.is_whole() {
            self.flush(out);
        }
    }

    /// Notes missing elements; hands over the whole samples before them.
    pub(crate) fn gap(&mut self, positions: &Range<u64>, out: &mut Vec<Block>) {
        let in_sample = self.next_position() == Some(positions.start) && !self.is_whole();
        if !in_sample {
            self.flush(out);
        } else {
            // The sample that is being collected ends with this gap, or goes on behind it.
            let sample_end = positions.start.next_multiple_of(self.per_sample);
            self.skip(positions.start..positions.end.min(sample_end));
            if positions.end < sample_end {
                return;
            }
            self.flush(out);
        }
        let tail = positions.end - positions.end % self.per_sample;
        if tail >= positions.start && tail < positions.end {
            // The gap ends inside a sample whose rest is still to come.
            self.start = tail;
            self.skip(tail..positions.end);
        }
    }

    /// Hands over the whole samples that have been collected, because nothing more is there at the moment.
    pub(crate) fn pause(&mut self, out: &mut Vec<Block>) {
        if self.is_whole() {
            self.flush(out);
        }
    }

    /// Hands over everything; an incomplete last sample is given up.
    pub(crate) fn flush(&mut self, out: &mut Vec<Block>) {
        let whole = self.len - self.len % self.per_sample;
        let end = self.start + whole;
        let nothing_came = self.missing.count_in(self.start..end) == whole;
        if whole > 0 && !nothing_came {
            self.write_zeros(whole);
            let bytes = self.bytes_of(whole);
            let data = if self.data.as_bytes().len() == bytes {
                std::mem::take(&mut self.data)
            } else {
                SampleBuffer::from_bytes(&self.data.as_bytes()[..bytes])
            };
            let missing = self.missing.intersection(self.start..end);
            out.push(Block {
                stream: Arc::clone(&self.stream),
                schema: Arc::clone(&self.schema),
                epoch: self.epoch,
                first_index: self.start / self.per_sample,
                t0: self.t0,
                samples: whole / self.per_sample,
                data,
                missing: missing.map(|range| range.start - self.start..range.end - self.start).collect(),
            });
        }
        self.data.clear();
        self.len = 0;
        self.missing = RangeSet::new();
    }

    fn begin(&mut self, position: u64, t0: WallTime) {
        self.start = position - position % self.per_sample;
        self.t0 = t0;
        self.skip(self.start..position);
    }

    /// Tells whether a piece's time breaks with what the block's start and rate foretell, by half a sample.
    fn jumps(&self, position: u64, t0: WallTime) -> bool {
        let index = position / self.per_sample;
        let expected = self.schema.rate.time_of(index, self.start / self.per_sample, self.t0);
        let half_a_sample = self.schema.rate.duration_of(1).as_nanos() / 2;
        u128::from(t0.nanos_since(expected).unsigned_abs()) > half_a_sample.max(1_000)
    }

    /// Notes that elements behind the last are missing.
    fn skip(&mut self, positions: Range<u64>) {
        self.len += positions.end - positions.start;
        self.missing.insert(positions);
    }

    /// Writes zeros for what is missing below `len`, now that something behind it came.
    fn write_zeros(&mut self, len: u64) {
        let bytes = self.bytes_of(len);
        if self.data.as_bytes().is_empty() && bytes > 0 {
            self.data = SampleBuffer::zeroed(bytes);
        }
        while let lacking @ 1.. = bytes.saturating_sub(self.data.as_bytes().len()) {
            self.data.extend_from_bytes(&ZEROS[..lacking.min(ZEROS.len())]);
        }
    }

    fn bytes_of(&self, elements: u64) -> usize {
        usize::try_from(elements).expect("within what fits into memory") * self.element_bytes
    }

    const fn is_whole(&self) -> bool {
        self.len.is_multiple_of(self.per_sample)
    }

    fn next_position(&self) -> Option<u64> {
        (self.len > 0).then_some(self.start + self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{Channel, Dtype};
    use units::SampleRate;

    fn assembly(channels: usize) -> Assembly {
        let channels = (0..channels).map(|index| Channel::new(index.to_string(), "")).collect();
        let schema = Schema::new(Dtype::U8, SampleRate::hz(1_000).unwrap(), channels).unwrap();
        let epoch = Epoch { start_ns: 0, life: 0 };
        Assembly::new(Arc::new("a/b".parse().unwrap()), Arc::new(schema), epoch)
    }

    fn at(index: u64) -> WallTime {
        WallTime::from_nanos(i64::try_from(index).unwrap() * 1_000_000)
    }

    /// Sums a block up as (first index, bytes, missing).
    fn seen(blocks: &[Block]) -> Vec<(u64, Vec<u8>, Vec<Range<u64>>)> {
        let one = |block: &Block| {
            (block.first_index, block.data.as_bytes().to_vec(), block.missing.iter().collect())
        };
        blocks.iter().map(one).collect()
    }

    #[test]
    fn pieces_that_follow_each_other_become_one_block() {
        let (mut assembly, mut out) = (assembly(2), Vec::new());
        assembly.piece(0, at(0), &[1, 2, 3, 4], &mut out);
        assembly.piece(4, at(2), &[5, 6], &mut out);
        assert!(out.is_empty());
        assembly.pause(&mut out);
        assert_eq!(seen(&out), [(0, vec![1, 2, 3, 4, 5, 6], vec![])]);
    }

    #[test]
    fn a_gap_of_whole_samples_parts_the_blocks() {
        let (mut assembly, mut out) = (assembly(2), Vec::new());
        assembly.piece(0, at(0), &[1, 2], &mut out);
        assembly.gap(&(2..6), &mut out);
        assembly.piece(6, at(3), &[7, 8], &mut out);
        assembly.pause(&mut out);
        assert_eq!(seen(&out), [(0, vec![1, 2], vec![]), (3, vec![7, 8], vec![])]);
        assert_eq!(out[1].t0, at(3));
    }

    #[test]
    fn a_partial_sample_is_handed_over_with_its_mask() {
        let (mut assembly, mut out) = (assembly(6), Vec::new());
        assembly.piece(0, at(0), &[1, 2], &mut out);
        assembly.gap(&(2..4), &mut out);
        assembly.piece(4, at(0), &[5, 6], &mut out);
        assembly.pause(&mut out);
        let mask: Vec<Range<u64>> = std::iter::once(2..4).collect();
        assert_eq!(seen(&out), [(0, vec![1, 2, 0, 0, 5, 6], mask)]);
    }

    #[test]
    fn a_gap_over_several_samples_leaves_both_torn_ones_partial() {
        let (mut assembly, mut out) = (assembly(4), Vec::new());
        assembly.piece(0, at(0), &[1, 2, 3], &mut out);
        assembly.gap(&(3..14), &mut out);
        assembly.piece(14, at(3), &[15, 16], &mut out);
        assembly.pause(&mut out);
        let (first, last) = (std::iter::once(3..4).collect(), std::iter::once(0..2).collect());
        assert_eq!(seen(&out), [(0, vec![1, 2, 3, 0], first), (3, vec![0, 0, 15, 16], last)]);
    }

    #[test]
    fn a_sample_of_which_nothing_came_is_not_handed_over() {
        let (mut assembly, mut out) = (assembly(4), Vec::new());
        assembly.gap(&(0..6), &mut out);
        assembly.gap(&(6..8), &mut out);
        assembly.piece(8, at(2), &[1, 2, 3, 4], &mut out);
        assembly.pause(&mut out);
        assert_eq!(seen(&out), [(2, vec![1, 2, 3, 4], vec![])]);
    }

    #[test]
    fn a_sample_of_which_nothing_came_takes_no_memory() {
        let (mut assembly, mut out) = (assembly(1), Vec::new());
        assembly.per_sample = 1 << 60;
        assembly.gap(&(0..1 << 59), &mut out);
        assembly.gap(&(1 << 59..(1 << 60) + 5), &mut out);
        assembly.flush(&mut out);
        assert!(out.is_empty() && assembly.data.as_bytes().is_empty());
    }

    #[test]
    fn a_jump_in_time_begins_a_new_block() {
        let (mut assembly, mut out) = (assembly(1), Vec::new());
        assembly.piece(0, at(0), &[1], &mut out);
        assembly.piece(1, at(5), &[2], &mut out);
        assembly.pause(&mut out);
        assert_eq!(out.iter().map(|block| block.t0).collect::<Vec<_>>(), [at(0), at(5)]);
    }
}
