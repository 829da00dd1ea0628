//! Assembles blocks of whole samples from the pieces in datagrams.
//!
//! Consecutive pieces are joined into larger blocks. A sample that was divided over several datagrams is
//! delivered when its last piece has arrived or is missing; missing elements read as zero and are marked in
//! the block's mask. A sample of which nothing arrived is not delivered at all, and takes no memory.
//!
//! A record that is large enough to be a block alone becomes one in place: its bytes are copied once, out of
//! the ring.

use std::ops::Range;
use std::sync::Arc;

use engine::record::{Record, UnreadableRecord};
use ring::{Read, Reader};
use sample::{Block, SampleBuffer, Schema, SparePool, StreamName};
use units::{Epoch, RangeSet, WallTime};
use zerocopy::IntoBytes;

/// Size at which a block is delivered.
const MAX_BLOCK_BYTES: usize = 256 * 1024;
/// Minimum size of a record that becomes a block alone.
pub(crate) const MIN_RECORD_BYTES: usize = 4 * 1024;
/// Zeros that are written in one call.
const ZEROS: [u8; 4_096] = [0; 4_096];

/// A record copied from a ring, in words from which elements can be read in place.
#[derive(Default)]
pub(crate) struct RecordBuffer {
    words: Vec<u64>,
    size_bytes: usize,
}

/// Elements at the end of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Position of the first element.
    pub(crate) position: u64,
    /// Time at which the sample that holds the first element was taken.
    pub(crate) t0: WallTime,
    /// Size of the elements.
    pub(crate) size_bytes: usize,
}

impl RecordBuffer {
    /// Copies the next record of a ring; one that may become a block alone goes into memory of its size.
    pub(crate) fn read_from(&mut self, reader: &mut Reader, spare: &SparePool) -> Read {
        let Self { words, size_bytes } = self;
        reader.read_words(move |record_bytes| {
            *size_bytes = record_bytes;
            if record_bytes >= MIN_RECORD_BYTES {
                spare.fit(words, record_bytes);
            }
            words
        })
    }

    /// Decodes the record as one of a stream.
    pub(crate) fn decode(
        &self,
        schema: &Schema,
        kind: u16,
        totals: [u64; 2],
    ) -> Result<Record<'_>, UnreadableRecord> {
        Record::decode_of(schema, kind, totals, self.bytes())
    }

    fn bytes(&self) -> &[u8] {
        &self.words.as_bytes()[..self.size_bytes]
    }
}

/// Collects the pieces of one epoch of a stream.
pub(crate) struct Assembly {
    stream: Arc<StreamName>,
    schema: Arc<Schema>,
    epoch: Epoch,
    per_sample: u64,
    element_bytes: usize,
    /// Maximum deviation of a piece's time from the one extrapolated from the block's start.
    time_tolerance_ns: u128,
    /// Position of the first element in `data`; the start of a sample.
    start: u64,
    t0: WallTime,
    /// Number of elements collected or missing since `start`.
    len: u64,
    /// The collected elements; missing elements after the last one that arrived are not written yet.
    data: SampleBuffer,
    /// Missing positions among them.
    missing: RangeSet,
    /// Pool to which blocks return their memory.
    spare: SparePool,
}

impl Assembly {
    pub(crate) fn new(stream: Arc<StreamName>, schema: Arc<Schema>, epoch: Epoch, spare: SparePool) -> Self {
        Self {
            per_sample: u64::from(schema.elements_per_sample()),
            element_bytes: schema.dtype.size_bytes(),
            time_tolerance_ns: time_tolerance_ns(&schema),
            stream,
            schema,
            epoch,
            start: 0,
            t0: WallTime::default(),
            len: 0,
            data: SampleBuffer::default(),
            missing: RangeSet::new(),
            spare,
        }
    }

    /// Adds the piece at the end of a record, whose memory may be exchanged for other memory; delivers the
    /// blocks that the piece completes.
    pub(crate) fn record(&mut self, piece: Piece, record: &mut RecordBuffer, out: &mut Vec<Block>) {
        let Piece { position, t0, size_bytes } = piece;
        let content = record.size_bytes - size_bytes..record.size_bytes;
        let begins_sample = position.is_multiple_of(self.per_sample) && self.is_whole();
        let in_place = content.start.is_multiple_of(size_of::<u64>());
        if size_bytes < MIN_RECORD_BYTES || !begins_sample || !in_place {
            return self.piece(position, t0, &record.bytes()[content], out);
        }
        self.flush(out);
        self.begin(position, t0);
        let words = std::mem::take(&mut record.words);
        self.data = SampleBuffer::over(words, content, self.spare.clone());
        self.len = (size_bytes / self.element_bytes) as u64;
        self.pause(out);
    }

    /// Adds a piece; delivers the blocks that it completes.
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

    /// Adds missing elements; delivers the whole samples before them.
    pub(crate) fn gap(&mut self, positions: &Range<u64>, out: &mut Vec<Block>) {
        let in_sample = self.next_position() == Some(positions.start) && !self.is_whole();
        if !in_sample {
            self.flush(out);
        } else {
            // The current sample ends with this gap, or continues behind it.
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

    /// Delivers the whole samples collected so far, because no more are available at the moment.
    pub(crate) fn pause(&mut self, out: &mut Vec<Block>) {
        if self.is_whole() {
            self.flush(out);
        }
    }

    /// Delivers everything; an incomplete last sample is given up.
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

    /// Returns whether a piece's time deviates from the one extrapolated from the block's start and rate.
    fn jumps(&self, position: u64, t0: WallTime) -> bool {
        let index = position / self.per_sample;
        let expected = self.schema.rate.time_of(index, self.start / self.per_sample, self.t0);
        u128::from(t0.nanos_since(expected).unsigned_abs()) > self.time_tolerance_ns
    }

    /// Marks elements after the last one as missing.
    fn skip(&mut self, positions: Range<u64>) {
        self.len += positions.end - positions.start;
        self.missing.insert(positions);
    }

    /// Writes zeros for missing elements below `len`, once elements behind them have arrived.
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

    pub(crate) const fn is_whole(&self) -> bool {
        self.len.is_multiple_of(self.per_sample)
    }

    fn next_position(&self) -> Option<u64> {
        (self.len > 0).then_some(self.start + self.len)
    }
}

/// In fast streams, a microsecond is no reason to end a block; for samples with times of their own it is.
fn time_tolerance_ns(schema: &Schema) -> u128 {
    let tolerance_ns = schema.time_tolerance().as_nanos();
    if schema.has_own_times() { tolerance_ns } else { tolerance_ns.max(1_000) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{Channel, Dtype};
    use units::SampleRate;

    fn assembly(channels: usize) -> Assembly {
        let channels = (0..channels).map(|index| Channel::new(index.to_string(), "")).collect();
        let schema = Schema::new(Dtype::U8, SampleRate::hz(1_000).unwrap(), channels).unwrap();
        let (epoch, spare) = (Epoch { start_ns: 0, incarnation: 0 }, SparePool::default());
        Assembly::new(Arc::new("a/b".parse().unwrap()), Arc::new(schema), epoch, spare)
    }

    fn at(index: u64) -> WallTime {
        WallTime::from_nanos(i64::try_from(index).unwrap() * 1_000_000)
    }

    /// Returns blocks as (first index, bytes, missing).
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

    /// Builds a record: a head of `head` bytes, and a payload.
    fn record(head: usize, payload: &[u8]) -> RecordBuffer {
        let mut record = RecordBuffer::default();
        read(&mut record, head, payload, &SparePool::default());
        record
    }

    /// Reads such a record into memory that may have been used before.
    fn read(record: &mut RecordBuffer, head: usize, payload: &[u8], spare: &SparePool) {
        let bytes = [&vec![0xee; head], payload].concat();
        let (mut writer, ring) = ring::ring(1 << 20);
        writer.write(1, [0, 0], &[&bytes]).unwrap();
        let read = record.read_from(&mut ring.reader_at_oldest(), spare);
        assert_eq!(read, Read::Record { kind: 1, totals: [0, 0] });
    }

    #[test]
    fn a_large_record_is_a_block_where_it_lies_and_its_memory_comes_back() {
        let payload: Vec<u8> = (0..MIN_RECORD_BYTES).map(|at| (at % 251) as u8).collect();
        let (mut assembly, mut out) = (assembly(2), Vec::new());
        assembly.piece(0, at(0), &[1, 2], &mut out);
        let mut record = record(40, &payload);
        let memory = record.words.as_ptr();
        let piece = Piece { position: 2, t0: at(1), size_bytes: payload.len() };
        assembly.record(piece, &mut record, &mut out);
        let lies_in_record = out[1].data.as_bytes().as_ptr().addr() == memory.addr() + 40;
        assert!(lies_in_record, "no copy was made");
        assert_eq!(seen(&out), [(0, vec![1, 2], vec![]), (1, payload, vec![])]);
        assert_eq!(record.words.capacity(), 0, "it belongs to the block");
        out.clear();
        read(&mut record, 40, &[1; MIN_RECORD_BYTES], &assembly.spare);
        assert_eq!(record.words.as_ptr(), memory);
    }

    #[test]
    fn a_record_that_cannot_be_a_block_by_itself_is_copied() {
        let payload = vec![7; MIN_RECORD_BYTES];
        for (head, first, size_bytes) in [
            (40, 2, MIN_RECORD_BYTES - 2), // Too small.
            (41, 2, MIN_RECORD_BYTES),     // Not where elements could be read.
            (40, 1, MIN_RECORD_BYTES),     // The rest of a sample that has begun.
        ] {
            let (mut assembly, mut out) = (assembly(2), Vec::new());
            assembly.piece(0, at(0), &[1, 2][..first], &mut out);
            let mut record = record(head, &payload[..size_bytes]);
            let piece = Piece { position: first as u64, t0: at(first as u64 / 2), size_bytes };
            assembly.record(piece, &mut record, &mut out);
            assert!(!record.words.is_empty() && out.is_empty(), "one block is being collected");
            assembly.flush(&mut out);
            let bytes = [&[1, 2][..first], &payload[..size_bytes]].concat();
            let whole = bytes.len() / 2 * 2;
            assert_eq!(seen(&out), [(0, bytes[..whole].to_vec(), vec![])]);
        }
    }

    #[test]
    fn a_block_does_not_keep_the_memory_of_a_much_larger_record() {
        let (mut assembly, mut out) = (assembly(1), Vec::new());
        let mut buffer = record(40, &vec![1; 8 * MIN_RECORD_BYTES]);
        read(&mut buffer, 40, &[2; MIN_RECORD_BYTES], &assembly.spare);
        assert!(buffer.words.capacity() * size_of::<u64>() < 2 * MIN_RECORD_BYTES);
        let piece = Piece { position: 0, t0: at(0), size_bytes: MIN_RECORD_BYTES };
        assembly.record(piece, &mut buffer, &mut out);
        assert_eq!(seen(&out), [(0, vec![2; MIN_RECORD_BYTES], vec![])]);
        read(&mut buffer, 40, &vec![3; 7 * MIN_RECORD_BYTES], &assembly.spare);
        assert!(
            buffer.words.capacity() * size_of::<u64>() >= 8 * MIN_RECORD_BYTES,
            "it was kept for the next such"
        );
    }
}
