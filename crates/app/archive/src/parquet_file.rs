//! Closed segments as Parquet: how they are written, recognised and read through a store.
//!
//! Columns and their meaning are those of [`crate::columns`]; the file's metadata has the span of indices and times,
//! so that the catalogue reads footers only. Every byte read is checked by [`crate::seal`]. Start with
//! [`ParquetSegment`].

use core::ops::Range;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnPath;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use units::WallTime;

use crate::Description;
use crate::columns::DESCRIPTION_KEY;
use crate::error::ArchiveError;
use crate::seal::{Sealed, Sealing};
use crate::store::{Appendable, Store};
use crate::version::{VERSION, VERSION_KEY};
use crate::wanted::Wanted;

/// Key of our own metadata in the footer.
const SEGMENT_KEY: &str = "tallycast.segment";
/// Size at which a row group is closed: large enough for efficient reads, small enough to be held in memory.
const ROW_GROUP_BYTES: usize = 64 << 20;
/// Numbers of the columns that have statistics.
const INDICES: usize = 0;
const TIMES: usize = 1;
/// Number of bytes decoded at a time.
const READ_BATCH_BYTES: usize = 4 << 20;

/// First and last sample of a segment, with their times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SegmentSpan {
    pub(crate) first_index: u64,
    pub(crate) next_index: u64,
    #[serde(rename = "t0_ns")]
    pub(crate) t0: WallTime,
    #[serde(rename = "t1_ns")]
    pub(crate) t1: WallTime,
    pub(crate) samples: u64,
}

/// A segment's note in its footer.
#[derive(Serialize, Deserialize)]
struct SegmentNote {
    version: u64,
    segment: u32,
    #[serde(flatten)]
    span: SegmentSpan,
}

/// Writer of a stream's record batches as Parquet.
pub(crate) struct ParquetWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(crate) fn new(target: W, schema: &SchemaRef) -> Result<Self, ArchiveError> {
        let writer = ArrowWriter::try_new(target, Arc::clone(schema), Some(properties(schema)))?;
        Ok(Self { writer })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArchiveError> {
        self.writer.write(batch)?;
        if self.writer.in_progress_size() >= ROW_GROUP_BYTES {
            self.writer.flush()?;
        }
        Ok(())
    }

    /// Adds a key to the footer's metadata.
    pub(crate) fn note(&mut self, key: &str, value: String) {
        self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
    }

    /// Writes the footer.
    pub(crate) fn finish(self) -> Result<W, ArchiveError> {
        Ok(self.writer.into_inner()?)
    }
}

impl<W: Write + Send> ParquetWriter<Sealing<W>> {
    /// Writes the footer with the segment's span, and the seal before it.
    pub(crate) fn seal(mut self, number: u32, span: SegmentSpan) -> Result<W, ArchiveError> {
        let note = SegmentNote { version: VERSION, segment: number, span };
        self.note(SEGMENT_KEY, json!(note).to_string());
        // The last row group first, which is large; only a little is then held back.
        self.writer.flush()?;
        self.writer.inner_mut().hold();
        Ok(self.finish()?.finish()?)
    }
}

/// Returns the encodings: measured values rarely repeat, so no dictionaries; the bytes of floats are split by
/// significance, integers (and so indices and times) are delta encoded; zstd then finds the regularities.
fn properties(schema: &SchemaRef) -> WriterProperties {
    // The Arrow schema in the footer has these too, but only Arrow's readers decode it.
    let pair = |(key, value): (&String, &String)| KeyValue::new(key.clone(), value.clone());
    let mut metadata: Vec<KeyValue> = schema.metadata().iter().map(pair).collect();
    metadata.sort_by(|a, b| a.key.cmp(&b.key));
    let mut properties = WriterProperties::builder()
        .set_key_value_metadata(Some(metadata))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_created_by(concat!("tallycast ", env!("CARGO_PKG_VERSION")).to_owned());
    for (position, field) in schema.fields().iter().enumerate() {
        let (path, encoding) = leaf(field);
        let path = ColumnPath::new(path);
        if let Some(encoding) = encoding {
            properties = properties.set_column_encoding(path.clone(), encoding);
        }
        if position < crate::columns::LEADING_COLUMNS {
            // Ranges are searched by these two; statistics of the others would only cost space.
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::Chunk);
        }
    }
    properties.build()
}

fn leaf(field: &Field) -> (Vec<String>, Option<Encoding>) {
    let mut path = vec![field.name().clone()];
    let mut data_type = field.data_type();
    while let DataType::FixedSizeList(item, _) = data_type {
        path.extend(["list".to_owned(), item.name().clone()]);
        data_type = item.data_type();
    }
    let encoding = match data_type {
        DataType::Float32 | DataType::Float64 => Some(Encoding::BYTE_STREAM_SPLIT),
        DataType::Boolean => None,
        _ => Some(Encoding::DELTA_BINARY_PACKED),
    };
    (path, encoding)
}

/// Parquet segment opened for reading.
pub(crate) struct ParquetSegment {
    file: Sealed,
    metadata: ArrowReaderMetadata,
    span: SegmentSpan,
    number: u32,
}

impl ParquetSegment {
    /// Opens a file and reads its footer.
    ///
    /// # Errors
    /// [`ArchiveError::Segment`] if it is damaged, or Parquet but not from an archive; [`ArchiveError::Later`].
    pub(crate) fn open(store: &dyn Store, path: &Path) -> Result<Self, ArchiveError> {
        let file = Sealed::open(store, path)?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default());
        let metadata = metadata.map_err(|error| damaged(path, error))?;
        let told = metadata.schema().metadata().get(VERSION_KEY).and_then(|version| version.parse().ok());
        ArchiveError::reject_later(path, told)?;
        let segment = segment_of(metadata.metadata());
        ArchiveError::reject_later(path, segment.as_ref().and_then(|segment| segment["version"].as_u64()))?;
        let foreign = || ArchiveError::segment(path, "this is not a segment of a tallycast archive");
        let note = segment.and_then(|segment| SegmentNote::deserialize(segment).ok());
        let SegmentNote { segment: number, span, .. } =
            note.filter(|note| note.version == VERSION).ok_or_else(foreign)?;
        Ok(Self { file, metadata, span, number })
    }

    /// Opens a file that must be this segment of this stream.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_as(
        store: &dyn Store,
        path: &Path,
        description: &Description,
        number: u32,
    ) -> Result<Self, ArchiveError> {
        let found = Self::open(store, path)?;
        let own = found.description().and_then(|text| Description::decode(text.as_bytes()).ok());
        let stranger = match own {
            Some(own) if own.name != description.name || own.epoch != description.epoch => {
                Some(format!("stream {} in epoch {}", own.name, own.epoch))
            }
            _ => (found.number != number).then(|| format!("segment {}", found.number)),
        };
        match stranger {
            Some(stranger) => Err(ArchiveError::segment(path, &format!("it belongs to {stranger}"))),
            None => Ok(found),
        }
    }

    /// Returns the description in the footer.
    pub(crate) fn description(&self) -> Option<String> {
        self.metadata.schema().metadata().get(DESCRIPTION_KEY).cloned()
    }

    pub(crate) const fn span(&self) -> SegmentSpan {
        self.span
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    /// Returns the row groups that may hold requested samples.
    pub(crate) fn groups(&self, asked: &Wanted) -> VecDeque<usize> {
        let metadata = self.metadata.metadata();
        let times = asked.times.start.as_nanos()..asked.times.end.as_nanos();
        // Parquet keeps the bits of the unsigned column in a signed one; real indices are far below the difference.
        let signed = |index: u64| i64::try_from(index).unwrap_or(i64::MAX);
        let indices = signed(asked.indices.start)..signed(asked.indices.end);
        let wanted = |&group: &usize| {
            overlaps(metadata, group, TIMES, &times) && overlaps(metadata, group, INDICES, &indices)
        };
        (0..metadata.num_row_groups()).filter(wanted).collect()
    }

    /// Returns the index one behind the last sample of a row group; the segment's if the file does not have it.
    pub(crate) fn group_end(&self, group: usize) -> u64 {
        // Parquet keeps the bits of the unsigned column in a signed one.
        let last = self.group_last(group).map(|(last, _)| last.saturating_add(1));
        last.unwrap_or(self.span.next_index)
    }

    /// Returns index and time of the last sample of a row group, if the file has them.
    pub(crate) fn group_last(&self, group: usize) -> Option<(u64, WallTime)> {
        let group = self.metadata.metadata().row_group(group);
        match (group.column(INDICES).statistics()?, group.column(TIMES).statistics()?) {
            (Statistics::Int64(indices), Statistics::Int64(times)) => {
                let (index, time) = (indices.max_opt()?, times.max_opt()?);
                Some((index.cast_unsigned(), WallTime::from_nanos(*time)))
            }
            _ => None,
        }
    }

    /// Returns the batches of a row group.
    ///
    /// # Errors
    /// [`ArchiveError::Segment`] if it is damaged.
    pub(crate) fn batches(&self, group: usize, sample_bytes: usize) -> Result<Batches, ArchiveError> {
        let batch_samples = (READ_BATCH_BYTES / (sample_bytes + 16)).clamp(1, 1 << 16);
        let path = self.file.path().to_owned();
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone());
        let builder = builder.with_row_groups(vec![group]).with_batch_size(batch_samples);
        let reader = builder.build().map_err(|error| damaged(&path, error))?;
        Ok(Batches { path, reader })
    }
}

/// Batches of a row group in their order.
pub(crate) struct Batches {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(batch.map_err(|error| ArchiveError::segment(&self.path, &error.to_string())))
    }
}

/// Adds the file's name to an error of the library; an error of the system, such as permission, is no damage.
fn damaged(path: &Path, error: ParquetError) -> ArchiveError {
    let of_disk = |cause: &io::Error| cause.kind() != io::ErrorKind::InvalidData;
    match &error {
        ParquetError::External(cause) if cause.downcast_ref().is_none_or(of_disk) => error.into(),
        _ => ArchiveError::segment(path, &error.to_string()),
    }
}

fn segment_of(metadata: &ParquetMetaData) -> Option<Value> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let pair = pairs.iter().find(|pair| pair.key == SEGMENT_KEY)?;
    serde_json::from_str(pair.value.as_ref()?).ok()
}

/// Returns whether a row group may hold values of a range; without statistics it may hold any.
fn overlaps(metadata: &ParquetMetaData, group: usize, column: usize, range: &Range<i64>) -> bool {
    let Some(Statistics::Int64(values)) = metadata.row_group(group).column(column).statistics() else {
        return true;
    };
    let starts_before_end = values.min_opt().is_none_or(|&first| first < range.end);
    starts_before_end && values.max_opt().is_none_or(|&last| last >= range.start)
}

/// Adapter that lets the Parquet library write to a store's file.
pub(crate) struct WriteTo(pub(crate) Box<dyn Appendable>);

impl Write for WriteTo {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(&[bytes]).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
