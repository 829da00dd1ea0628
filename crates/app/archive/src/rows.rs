//! Conversion from Arrow back to blocks: the samples of a record batch, from any file.
//!
//! A batch is read as runs: samples with consecutive indices and times. Start with [`Rows`].

use core::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::SchemaRef;
use sample::{Block, Dtype, SampleBuffer};
use units::{RangeSet, WallTime};

use crate::Description;
use crate::columns::{LEADING_COLUMNS, Times};
use crate::wanted::Wanted;

/// Maximum difference of two times of one clock within a run: the publisher rounds each datagram's time down
/// separately, and two floors of one fraction differ by at most this.
const TIME_ROUNDING_NS: u64 = 1;

/// Samples of a record batch.
pub(crate) struct Rows {
    description: Arc<Description>,
    index: ScalarBuffer<u64>,
    times: ScalarBuffer<i64>,
    channels: Vec<Values>,
}

/// Consecutive samples of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) first_index: u64,
    pub(crate) t0: WallTime,
    pub(crate) rows: Range<usize>,
}

/// Elements of one channel, as in a block.
struct Values {
    bytes: Buffer,
    valid: Option<NullBuffer>,
    elements: usize,
}

impl Rows {
    /// Reads a batch; `None` if its columns are not those of the stream.
    pub(crate) fn new(
        batch: &RecordBatch,
        description: &Arc<Description>,
        arrow: &SchemaRef,
    ) -> Option<Self> {
        let types = |schema: &SchemaRef| -> Vec<_> {
            schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        if types(&batch.schema()) != types(arrow) {
            return None;
        }
        let schema = &description.schema;
        let columns = batch.columns()[LEADING_COLUMNS..].iter().zip(&schema.channels);
        let channels = columns.map(|(array, channel)| {
            let elements = channel.elements().expect("a checked schema") as usize;
            let array = if channel.shape.is_empty() { Arc::clone(array) } else { list_items(array) };
            let (bytes, valid) = element_bytes(&array, schema.dtype);
            Values { bytes, valid, elements }
        });
        Some(Self {
            description: Arc::clone(description),
            index: batch.column(0).as_primitive::<UInt64Type>().values().clone(),
            times: batch.column(1).as_primitive::<Int64Type>().values().clone(),
            channels: channels.collect(),
        })
    }

    /// Returns the index of the first sample, the index one behind the last, and the number of samples.
    pub(crate) fn span(&self) -> Option<(u64, u64, usize)> {
        let (first, last) = (*self.index.first()?, *self.index.last()?);
        Some((first, last.checked_add(1)?, self.index.len()))
    }

    /// Splits the batch where indices or times break.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut expected: Option<Times> = None;
        for (row, (&index, &time)) in self.index.iter().zip(self.times.iter()).enumerate() {
            let follows = runs.last().is_some_and(|run| run.first_index + run.rows.len() as u64 == index)
                && expected.as_mut().is_some_and(|times| times.step().abs_diff(time) <= TIME_ROUNDING_NS);
            match runs.last_mut() {
                Some(run) if follows => run.rows.end = row + 1,
                _ => {
                    let t0 = WallTime::from_nanos(time);
                    let mut times = Times::new(self.description.schema.rate, t0);
                    times.step();
                    expected = Some(times);
                    runs.push(Run { first_index: index, t0, rows: row..row + 1 });
                }
            }
        }
        runs
    }

    /// Returns the requested part of a run; `None` if there is none.
    pub(crate) fn clip(&self, run: &Run, asked: &Wanted) -> Option<Run> {
        let times = &self.times[run.rows.clone()];
        let row_of =
            |index: u64| usize::try_from(index.saturating_sub(run.first_index)).unwrap_or(usize::MAX);
        let first = times
            .partition_point(|&time| time < asked.times.start.as_nanos())
            .max(row_of(asked.indices.start));
        let end =
            times.partition_point(|&time| time < asked.times.end.as_nanos()).min(row_of(asked.indices.end));
        if first >= end {
            return None;
        }
        Some(Run {
            first_index: run.first_index + first as u64,
            t0: WallTime::from_nanos(times[first]),
            rows: run.rows.start + first..run.rows.start + end,
        })
    }

    /// Assembles the samples of a run into a block.
    ///
    /// Cost: one copy of the samples.
    pub(crate) fn block(&self, run: &Run) -> Block {
        let description = &self.description;
        let schema = Arc::clone(&description.schema);
        let samples = run.rows.len();
        let sample_bytes = schema.sample_bytes();
        let element_size = schema.dtype.size_bytes();
        let mut data = SampleBuffer::zeroed(samples * sample_bytes);
        let mut missing = RangeSet::new();
        let mut first_element = 0;
        for values in &self.channels {
            let width = values.elements * element_size;
            let rows = &values.bytes[run.rows.start * width..run.rows.end * width];
            scatter(rows, width, data.as_bytes_mut(), sample_bytes, first_element * element_size);
            let place = |element: usize| {
                let (sample, within) = (element / values.elements, element % values.elements);
                (sample * schema.elements_per_sample() as usize + first_element + within) as u64
            };
            for element in values.missing(&run.rows) {
                let position = place(element);
                missing.insert(position..position + 1);
                let start = usize::try_from(position).expect("in memory") * element_size;
                data.as_bytes_mut()[start..start + element_size].fill(0);
            }
            first_element += values.elements;
        }
        Block {
            stream: Arc::clone(&description.name),
            schema,
            epoch: description.epoch,
            first_index: run.first_index,
            t0: run.t0,
            samples: samples as u64,
            data,
            missing,
        }
    }
}

impl Values {
    /// Returns the missing elements of some rows, counted from the first of these rows.
    fn missing(&self, rows: &Range<usize>) -> impl Iterator<Item = usize> {
        let range = rows.start * self.elements..rows.end * self.elements;
        let start = range.start;
        let nulls = self.valid.as_ref().filter(|valid| valid.null_count() > 0);
        nulls
            .into_iter()
            .flat_map(move |valid| range.clone().filter(|&element| valid.is_null(element)))
            .map(move |element| element - start)
    }
}

fn scatter(source: &[u8], width: usize, target: &mut [u8], stride: usize, offset: usize) {
    if width == stride {
        target.copy_from_slice(source);
        return;
    }
    for (value, sample) in source.chunks_exact(width).zip(target.chunks_exact_mut(stride)) {
        sample[offset..offset + width].copy_from_slice(value);
    }
}

fn list_items(array: &ArrayRef) -> ArrayRef {
    let list = array.as_fixed_size_list();
    let size = usize::try_from(list.value_length()).expect("a list has no negative size");
    let start = list.value_offset_at(0);
    list.values().slice(start, list.len() * size)
}

fn element_bytes(array: &ArrayRef, dtype: Dtype) -> (Buffer, Option<NullBuffer>) {
    macro_rules! bytes {
        ($type:ty, $array:expr) => {
            $array.as_primitive::<$type>().values().inner().clone()
        };
    }
    let bytes = match dtype {
        Dtype::I8 => bytes!(Int8Type, array),
        Dtype::I16 => bytes!(Int16Type, array),
        Dtype::I32 => bytes!(Int32Type, array),
        Dtype::I64 => bytes!(Int64Type, array),
        Dtype::U8 => bytes!(UInt8Type, array),
        Dtype::U16 => bytes!(UInt16Type, array),
        Dtype::U32 => bytes!(UInt32Type, array),
        Dtype::U64 => bytes!(UInt64Type, array),
        Dtype::F4 => bytes!(Float32Type, array),
        Dtype::F8 => bytes!(Float64Type, array),
        Dtype::C8 => bytes!(Float32Type, list_items(array)),
        Dtype::C16 => bytes!(Float64Type, list_items(array)),
        Dtype::Bool => array.as_boolean().values().iter().map(u8::from).collect::<Vec<u8>>().into(),
    };
    (bytes, array.nulls().cloned())
}

/// Checksum of samples, independent of their division into batches.
pub(crate) struct Digest {
    samples: u64,
    index: crc_fast::Digest,
    times: crc_fast::Digest,
    /// Digests of the values and missing elements of each channel.
    channels: Vec<(crc_fast::Digest, crc_fast::Digest)>,
}

impl Digest {
    pub(crate) fn new(description: &Description) -> Self {
        let digest = || crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
        let channels = description.schema.channels.iter().map(|_| (digest(), digest())).collect();
        Self { samples: 0, index: digest(), times: digest(), channels }
    }

    pub(crate) fn update(&mut self, rows: &Rows) {
        let samples = rows.index.len();
        self.index.update(&rows.index.inner().as_slice()[..samples * 8]);
        self.times.update(&rows.times.inner().as_slice()[..samples * 8]);
        for ((values, missing), channel) in self.channels.iter_mut().zip(&rows.channels) {
            let elements = samples * channel.elements;
            let size = channel.bytes.len().checked_div(elements).unwrap_or(0);
            let absent: Vec<usize> = channel.missing(&(0..samples)).collect();
            if absent.is_empty() {
                values.update(&channel.bytes[..elements * size]);
                continue;
            }
            // Bytes in the place of a missing element have no meaning.
            let mut bytes = channel.bytes[..elements * size].to_vec();
            for element in absent {
                bytes[element * size..(element + 1) * size].fill(0);
                let place = self.samples * channel.elements as u64 + element as u64;
                missing.update(&place.to_le_bytes());
            }
            values.update(&bytes);
        }
        self.samples += samples as u64;
    }

    fn values(&self) -> Vec<u64> {
        let channels = self.channels.iter().flat_map(|(values, missing)| [values, missing]);
        [&self.index, &self.times].into_iter().chain(channels).map(crc_fast::Digest::finalize).collect()
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.samples == other.samples && self.values() == other.values()
    }
}
