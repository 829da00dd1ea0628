//! Conversion of blocks to Arrow: names of a segment's columns, and how samples get into them.
//!
//! A block is ordered by sample, Arrow by column: the only work on the hot path is to separate the channels. Values
//! are copied as bytes and never interpreted. The conversion back is in [`crate::rows`]. Start with [`arrow_schema`]
//! and [`Columns`].

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeListArray, PrimitiveArray, RecordBatch,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema as ArrowSchema, SchemaRef};
use sample::{Block, Channel, Dtype};
use units::{SampleRate, WallTime};

use crate::Description;
use crate::version::{VERSION, VERSION_KEY};

/// Name of the column of sample indices.
pub const INDEX_COLUMN: &str = "index";
/// Name of the column of times. Units: nanoseconds since 1970 UTC.
pub const TIME_COLUMN: &str = "time_ns";
/// Key of the whole description in the metadata of a segment.
pub(crate) const DESCRIPTION_KEY: &str = "tallycast.description";
/// Number of columns before the channels.
pub(crate) const LEADING_COLUMNS: usize = 2;

/// Size of the part of a block that is separated at a time, so that all channels read it from the nearest cache.
const TILE_BYTES: usize = 16 << 10;

/// Returns the Arrow schema of a stream: `index`, `time_ns`, and a column for each channel.
///
/// A channel whose sample is an array is a fixed-size list, a complex number a fixed-size list of two, a
/// boolean a bit. Names, units, scale, offset and shape are metadata of the fields; the stream's name,
/// epoch, dtype, rate, labels and station are metadata of the schema.
#[must_use]
pub fn arrow_schema(description: &Description) -> SchemaRef {
    let schema = &description.schema;
    let mut fields = vec![
        Field::new(INDEX_COLUMN, DataType::UInt64, false),
        Field::new(TIME_COLUMN, DataType::Int64, false),
    ];
    fields.extend(schema.channels.iter().map(|channel| channel_field(channel, schema.dtype)));
    let rate = format!("{}/{}", schema.rate.numerator(), schema.rate.denominator());
    let labels = serde_json::json!(schema.labels).to_string();
    let metadata = [
        ("tallycast.format", "segment".to_owned()),
        (VERSION_KEY, VERSION.to_string()),
        (DESCRIPTION_KEY, description.to_json().to_string()),
        ("name", description.name.to_string()),
        ("epoch", description.epoch.to_string()),
        ("dtype", schema.dtype.name().to_owned()),
        ("rate", rate),
        ("labels", labels),
        ("station", description.station.clone()),
    ];
    let metadata: HashMap<String, String> =
        metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Arc::new(ArrowSchema::new_with_metadata(fields, metadata))
}

fn channel_field(channel: &Channel, dtype: Dtype) -> Field {
    let element = element_type(dtype);
    let data_type = if channel.shape.is_empty() {
        element
    } else {
        let len = i32::try_from(elements_of(channel)).expect("a checked schema");
        DataType::FixedSizeList(item(element), len)
    };
    let metadata = [
        ("name", channel.name.clone()),
        ("unit", channel.unit.clone()),
        ("scale", channel.scale.to_string()),
        ("offset", channel.offset.to_string()),
        ("shape", serde_json::json!(channel.shape).to_string()),
    ];
    let metadata: HashMap<String, String> =
        metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Field::new(column_name(&channel.name), data_type, true).with_metadata(metadata)
}

/// Returns the column's name: the channel's, unless that would hide one of the leading columns.
pub(crate) fn column_name(channel: &str) -> String {
    match channel {
        INDEX_COLUMN | TIME_COLUMN => format!("channel:{channel}"),
        name => name.to_owned(),
    }
}

fn elements_of(channel: &Channel) -> usize {
    channel.elements().expect("a checked schema") as usize
}

fn item(element: DataType) -> FieldRef {
    Arc::new(Field::new("item", element, true))
}

fn element_type(dtype: Dtype) -> DataType {
    match dtype {
        Dtype::I8 => DataType::Int8,
        Dtype::I16 => DataType::Int16,
        Dtype::I32 => DataType::Int32,
        Dtype::I64 => DataType::Int64,
        Dtype::U8 => DataType::UInt8,
        Dtype::U16 => DataType::UInt16,
        Dtype::U32 => DataType::UInt32,
        Dtype::U64 => DataType::UInt64,
        Dtype::F4 => DataType::Float32,
        Dtype::F8 => DataType::Float64,
        Dtype::C8 => DataType::FixedSizeList(item(DataType::Float32), 2),
        Dtype::C16 => DataType::FixedSizeList(item(DataType::Float64), 2),
        Dtype::Bool => DataType::Boolean,
    }
}

/// Builder of a record batch.
pub(crate) struct Columns {
    description: Arc<Description>,
    arrow: SchemaRef,
    index: MutableBuffer,
    times: MutableBuffer,
    channels: Vec<Column>,
    span: Option<Span>,
    samples: usize,
}

/// First and last sample of a batch, with their times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) first_index: u64,
    pub(crate) next_index: u64,
    pub(crate) t0: WallTime,
    pub(crate) t1: WallTime,
}

struct Column {
    place: Place,
    values: MutableBuffer,
    /// Created when the first element is missing; complete batches carry no validity bitmap.
    valid: Option<BooleanBufferBuilder>,
}

/// Offset and size of a channel within a sample.
#[derive(Clone, Copy)]
struct Place {
    offset_bytes: usize,
    size_bytes: usize,
    first_element: usize,
    elements: usize,
}

impl Columns {
    pub(crate) fn new(description: Arc<Description>) -> Self {
        let arrow = arrow_schema(&description);
        let schema = &description.schema;
        let element_bytes = schema.dtype.size_bytes();
        let mut first_element = 0;
        let mut channels = Vec::with_capacity(schema.channels.len());
        for channel in &schema.channels {
            let elements = elements_of(channel);
            let (offset_bytes, size_bytes) = (first_element * element_bytes, elements * element_bytes);
            let place = Place { offset_bytes, size_bytes, first_element, elements };
            channels.push(Column { place, values: MutableBuffer::new(0), valid: None });
            first_element += elements;
        }
        let (index, times) = (MutableBuffer::new(0), MutableBuffer::new(0));
        Self { description, arrow, index, times, channels, span: None, samples: 0 }
    }

    pub(crate) fn arrow_schema(&self) -> &SchemaRef {
        &self.arrow
    }

    /// Returns the size that the batch will have, without its metadata.
    pub(crate) fn size_bytes(&self) -> usize {
        self.samples * (self.description.schema.sample_bytes() + 16)
    }

    /// Appends a block except its first `skipped` samples.
    ///
    /// Cost: one copy of the samples, and 16 bytes per sample for index and time.
    pub(crate) fn append(&mut self, block: &Block, skipped: u64) {
        let schema = Arc::clone(&self.description.schema);
        let sample_bytes = schema.sample_bytes();
        let skipped_samples = usize::try_from(skipped).expect("a block lies in memory");
        let source = &block.data.as_bytes()[skipped_samples * sample_bytes..];
        let samples = source.len() / sample_bytes;
        let first_index = block.first_index + skipped;
        let t0 = block.time_of(first_index);
        let times = &mut self.times;
        let behind = Times::new(schema.rate, t0).fill(samples, |time| times.push(time));
        (0..samples as u64).for_each(|sample| self.index.push(first_index + sample));
        let element_bytes = schema.dtype.size_bytes();
        for column in &mut self.channels {
            column.values.resize((self.samples + samples) * column.place.size_bytes, 0);
        }
        let tile_samples = (TILE_BYTES / sample_bytes).max(1);
        let mut done = self.samples;
        for tile in source.chunks(tile_samples * sample_bytes) {
            for column in &mut self.channels {
                let target = &mut column.values.as_slice_mut()[done * column.place.size_bytes..];
                column.place.gather(tile, sample_bytes, element_bytes, target);
            }
            done += tile.len() / sample_bytes;
        }
        self.mark_missing(block, skipped, samples);
        self.samples += samples;
        let t1 = WallTime::from_nanos(behind);
        let next_index = first_index + samples as u64;
        let begin = self.span.unwrap_or(Span { first_index, next_index, t0, t1 });
        self.span = Some(Span { next_index, t1, ..begin });
    }

    fn mark_missing(&mut self, block: &Block, skipped: u64, samples: usize) {
        let per_sample = u64::from(self.description.schema.elements_per_sample());
        let missing: Vec<_> = block
            .missing
            .intersection(skipped * per_sample..block.samples * per_sample)
            .map(|range| range.start - skipped * per_sample..range.end - skipped * per_sample)
            .collect();
        for column in &mut self.channels {
            column.mark(self.samples, samples, per_sample, &missing);
        }
    }

    /// Takes the samples out as a record batch with its span; `None` if there are none.
    ///
    /// # Errors
    /// None for columns that this type has filled; the signature is Arrow's.
    pub(crate) fn finish(&mut self) -> Result<Option<(RecordBatch, Span)>, ArrowError> {
        let Some(span) = self.span.take() else { return Ok(None) };
        let samples = core::mem::take(&mut self.samples);
        let mut arrays: Vec<ArrayRef> = vec![
            primitive::<UInt64Type>(take(&mut self.index), samples, None),
            primitive::<Int64Type>(take(&mut self.times), samples, None),
        ];
        let schema = &self.description.schema;
        for (column, channel) in self.channels.iter_mut().zip(&schema.channels) {
            let len = samples * column.place.elements;
            let nulls = column.valid.take().map(|mut valid| NullBuffer::new(valid.finish()));
            let elements = element_array(schema.dtype, take(&mut column.values), len, nulls)?;
            arrays.push(if channel.shape.is_empty() {
                elements
            } else {
                let size = i32::try_from(column.place.elements).expect("a checked schema");
                let list =
                    FixedSizeListArray::try_new(item(element_type(schema.dtype)), size, elements, None)?;
                Arc::new(list)
            });
        }
        Ok(Some((RecordBatch::try_new(Arc::clone(&self.arrow), arrays)?, span)))
    }

    /// Drops the samples and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.span = None;
        self.samples = 0;
        for buffer in [&mut self.index, &mut self.times] {
            buffer.clear();
        }
        for column in &mut self.channels {
            column.values.clear();
            column.valid = None;
        }
    }
}

/// Takes a buffer out and leaves one of the same capacity, so that the next batch need not grow its own.
fn take(buffer: &mut MutableBuffer) -> Buffer {
    let next = MutableBuffer::new(buffer.len());
    core::mem::replace(buffer, next).into()
}

impl Place {
    fn gather(self, source: &[u8], stride: usize, element_bytes: usize, target: &mut [u8]) {
        let width = self.size_bytes;
        if width == stride {
            target[..source.len()].copy_from_slice(source);
            return;
        }
        if self.elements > 1 {
            gather_any(source, stride, self.offset_bytes, width, target);
            return;
        }
        // The sizes of single elements are constants here: each copy is then one load and one store.
        match element_bytes {
            1 => gather_fixed::<1>(source, stride, self.offset_bytes, target),
            2 => gather_fixed::<2>(source, stride, self.offset_bytes, target),
            4 => gather_fixed::<4>(source, stride, self.offset_bytes, target),
            8 => gather_fixed::<8>(source, stride, self.offset_bytes, target),
            _ => gather_any(source, stride, self.offset_bytes, width, target),
        }
    }
}

impl Column {
    /// Marks the missing elements among the `samples` that follow the first `before` ones.
    fn mark(&mut self, before: usize, samples: usize, per_sample: u64, missing: &[core::ops::Range<u64>]) {
        let Place { first_element, elements, .. } = self.place;
        let own = first_element as u64..(first_element + elements) as u64;
        if missing.is_empty() && self.valid.is_none() {
            return;
        }
        let valid = self.valid.get_or_insert_with(|| {
            let mut valid = BooleanBufferBuilder::new((before + samples) * elements);
            valid.append_n(before * elements, true);
            valid
        });
        valid.append_n(samples * elements, true);
        for element in missing.iter().cloned().flatten() {
            let (sample, within) = (element / per_sample, element % per_sample);
            if own.contains(&within) {
                let sample = usize::try_from(sample).expect("a block lies in memory");
                let within = usize::try_from(within - own.start).expect("a block lies in memory");
                valid.set_bit((before + sample) * elements + within, false);
            }
        }
    }
}

fn gather_fixed<const WIDTH: usize>(source: &[u8], stride: usize, offset: usize, target: &mut [u8]) {
    for (sample, slot) in source.chunks_exact(stride).zip(target.chunks_exact_mut(WIDTH)) {
        slot.copy_from_slice(&sample[offset..offset + WIDTH]);
    }
}

fn gather_any(source: &[u8], stride: usize, offset: usize, width: usize, target: &mut [u8]) {
    for (sample, slot) in source.chunks_exact(stride).zip(target.chunks_exact_mut(width)) {
        slot.copy_from_slice(&sample[offset..offset + width]);
    }
}

fn primitive<T: ArrowPrimitiveType>(values: Buffer, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(values, 0, len), nulls))
}

fn element_array(
    dtype: Dtype,
    values: Buffer,
    len: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    Ok(match dtype {
        Dtype::I8 => primitive::<Int8Type>(values, len, nulls),
        Dtype::I16 => primitive::<Int16Type>(values, len, nulls),
        Dtype::I32 => primitive::<Int32Type>(values, len, nulls),
        Dtype::I64 => primitive::<Int64Type>(values, len, nulls),
        Dtype::U8 => primitive::<UInt8Type>(values, len, nulls),
        Dtype::U16 => primitive::<UInt16Type>(values, len, nulls),
        Dtype::U32 => primitive::<UInt32Type>(values, len, nulls),
        Dtype::U64 => primitive::<UInt64Type>(values, len, nulls),
        Dtype::F4 => primitive::<Float32Type>(values, len, nulls),
        Dtype::F8 => primitive::<Float64Type>(values, len, nulls),
        Dtype::C8 => complex::<Float32Type>(values, len, nulls)?,
        Dtype::C16 => complex::<Float64Type>(values, len, nulls)?,
        Dtype::Bool => {
            let bits = BooleanBuffer::collect_bool(len, |element| values[element] != 0);
            Arc::new(BooleanArray::new(bits, nulls))
        }
    })
}

fn complex<T: ArrowPrimitiveType>(
    values: Buffer,
    len: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let parts = primitive::<T>(values, len * 2, None);
    Ok(Arc::new(FixedSizeListArray::try_new(item(T::DATA_TYPE), 2, parts, nulls)?))
}

/// Iterator over the times of consecutive samples, without a division for each: [`SampleRate::time_of`] unrolled.
pub(crate) struct Times {
    time: i64,
    /// Remaining fraction of a nanosecond, in units of 1/`numerator`.
    remainder: u64,
    whole: i64,
    rest: u64,
    numerator: u64,
}

impl Times {
    pub(crate) fn new(rate: SampleRate, t0: WallTime) -> Self {
        let period = u64::from(rate.denominator()) * 1_000_000_000;
        let numerator = u64::from(rate.numerator());
        let whole = i64::try_from(period / numerator).expect("a u32 of seconds fits into i64 nanoseconds");
        Self { time: t0.as_nanos(), remainder: 0, whole, rest: period % numerator, numerator }
    }

    /// Returns this sample's time and advances to the next. Units: nanoseconds since 1970 UTC.
    pub(crate) fn step(&mut self) -> i64 {
        let time = self.time;
        self.remainder += self.rest;
        let carry = self.remainder >= self.numerator;
        self.remainder -= if carry { self.numerator } else { 0 };
        self.time = time.saturating_add(self.whole).saturating_add(i64::from(carry));
        time
    }

    /// Pushes the times of `samples`; returns the time of the sample behind them.
    fn fill(mut self, samples: usize, mut push: impl FnMut(i64)) -> i64 {
        (0..samples).for_each(|_| push(self.step()));
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrolled_times_are_those_of_the_rate() {
        for (numerator, denominator) in
            [(360, 1), (48_000, 1), (1000, 3), (1, 10), (u32::MAX, 1), (3, 1 << 20)]
        {
            let rate = SampleRate::new(numerator, denominator).unwrap();
            let t0 = WallTime::from_nanos(-1_234_567);
            let mut times = Times::new(rate, t0);
            for index in 0..1_000 {
                assert_eq!(times.step(), rate.time_of(index, 0, t0).as_nanos(), "{rate} at {index}");
            }
        }
    }

    #[test]
    fn channels_named_like_the_leading_columns_hide_nothing() {
        assert_eq!(column_name("index"), "channel:index");
        assert_eq!(column_name("Index"), "Index");
    }
}
