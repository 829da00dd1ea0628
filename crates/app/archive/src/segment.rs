//! A segment: a plain Arrow IPC stream, and beside it the index that acknowledges what of it is stored.
//!
//! Writing goes in the order on which crash safety rests: batches ([`SegmentWriter::write`]), a sync of the
//! data, index entries ([`SegmentWriter::acknowledge`]), a sync of the index. Reading starts at
//! [`SegmentReader`] and touches only what an index entry acknowledges.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamEncoder;

use crate::Description;
use crate::checksum::crc32c;
use crate::columns::{DESCRIPTION_KEY, Span, arrow_schema};
use crate::error::ArchiveError;
use crate::folders::{SegmentFile, segment_path};
use crate::index::{Entry, Header, Index};
use crate::rows::Rows;
use crate::store::{Appendable, Readable, Store, StoreError, read_whole};

/// What ends an Arrow IPC stream: the continuation mark and a length of zero.
/// Source: Arrow columnar format, "IPC Streaming Format".
pub(crate) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// A segment that is being written.
pub(crate) struct SegmentWriter {
    number: u32,
    data: Box<dyn Appendable>,
    index: Box<dyn Appendable>,
    encoder: StreamEncoder,
    written_bytes: u64,
    acknowledged_bytes: u64,
    index_bytes: u64,
    next_index: u64,
    staged: Vec<Entry>,
    /// The folder has names that may not be durable yet.
    pub(crate) fresh: bool,
}

impl SegmentWriter {
    /// Begins a segment with its first batch.
    ///
    /// # Errors
    /// What the disk says; then no file of this segment is left, as far as the disk lets it go.
    pub(crate) fn create(
        store: &dyn Store,
        folder: &Path,
        header: Header,
        batch: &RecordBatch,
        span: Span,
    ) -> Result<Self, ArchiveError> {
        let number = header.segment;
        let paths = [SegmentFile::Arrow, SegmentFile::Index].map(|file| segment_path(folder, number, file));
        let data = store.create(&paths[0])?;
        let index = store.create(&paths[1]);
        let begun = index.map_err(ArchiveError::from).and_then(|index| {
            let mut writer = Self {
                number,
                data,
                index,
                encoder: StreamEncoder::try_new(&batch.schema())?,
                written_bytes: 0,
                acknowledged_bytes: 0,
                index_bytes: 0,
                next_index: span.first_index,
                staged: Vec::new(),
                fresh: true,
            };
            writer.begin(header, batch, span)?;
            Ok(writer)
        });
        if begun.is_err() {
            // Best effort: what stays has no acknowledged entry and is trimmed by the next recovery.
            paths.iter().for_each(|path| drop(store.remove(path)));
        }
        begun
    }

    fn begin(&mut self, mut header: Header, batch: &RecordBatch, span: Span) -> Result<(), ArchiveError> {
        let buffers = self.encoder.encode(batch)?;
        let parts: Vec<&[u8]> = buffers.iter().map(Buffer::as_slice).collect();
        let schema_bytes = schema_message_bytes(&parts);
        let (schema, message) = split_parts(&parts, schema_bytes);
        header.schema_bytes =
            u32::try_from(schema_bytes).expect("a schema message is bounded by its channels");
        header.schema_crc = crc32c(schema.iter().copied());
        self.data.append(&schema)?;
        self.written_bytes = schema_bytes as u64;
        self.acknowledged_bytes = self.written_bytes;
        let encoded = header.encode();
        self.index.append(&[&encoded])?;
        self.index_bytes = encoded.len() as u64;
        self.stage(&message, batch.num_rows(), span)
    }

    /// Appends a batch. It is stored only when its entry is acknowledged.
    ///
    /// # Errors
    /// What the disk says; the segment then must be given up with [`Self::give_up`].
    pub(crate) fn write(&mut self, batch: &RecordBatch, span: Span) -> Result<(), ArchiveError> {
        let buffers = self.encoder.encode(batch)?;
        let parts: Vec<&[u8]> = buffers.iter().map(Buffer::as_slice).collect();
        self.stage(&parts, batch.num_rows(), span)
    }

    fn stage(&mut self, parts: &[&[u8]], rows: usize, span: Span) -> Result<(), ArchiveError> {
        self.data.append(parts)?;
        let length = parts.iter().map(|part| part.len() as u64).sum();
        self.staged.push(Entry {
            offset: self.written_bytes,
            length,
            first_index: span.first_index,
            next_index: span.next_index,
            t0: span.t0,
            t1: span.t1,
            samples: u32::try_from(rows).expect("a batch is bounded in bytes"),
            data_crc: crc32c(parts.iter().copied()),
        });
        self.written_bytes += length;
        Ok(())
    }

    /// Returns the data file, to be synced before [`Self::acknowledge`].
    pub(crate) fn data(&mut self) -> &mut dyn Appendable {
        &mut *self.data
    }

    /// Returns the index file, to be synced after [`Self::acknowledge`].
    pub(crate) fn index(&mut self) -> &mut dyn Appendable {
        &mut *self.index
    }

    /// Tells whether batches wait for their acknowledgement.
    pub(crate) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Returns how many bytes were written to the data file.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Returns how many bytes wait for their acknowledgement.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.written_bytes - self.acknowledged_bytes
    }

    /// Writes the entries of all batches, which must have been synced. They count once the index is synced.
    ///
    /// # Errors
    /// What the disk says; the segment then must be given up.
    pub(crate) fn acknowledge(&mut self) -> Result<(), StoreError> {
        let encoded: Vec<_> = self.staged.iter().map(Entry::encode).collect();
        let parts: Vec<&[u8]> = encoded.iter().map(<[u8; 64]>::as_slice).collect();
        self.index.append(&parts)
    }

    /// Notes that the index is synced: what was staged is stored.
    pub(crate) fn acknowledged(&mut self) {
        if let Some(last) = self.staged.last() {
            self.acknowledged_bytes = last.end();
            self.next_index = last.next_index;
        }
        self.index_bytes += 64 * self.staged.len() as u64;
        self.staged.clear();
    }

    /// Writes the end-of-stream marker and its entry, and syncs both: the segment is closed.
    ///
    /// # Errors
    /// What the disk says; what was acknowledged stays so.
    pub(crate) fn close(mut self) -> Result<u32, StoreError> {
        debug_assert!(self.staged.is_empty(), "a segment is closed after its last commit");
        self.data.append(&[&END_OF_STREAM])?;
        self.data.sync()?;
        let end = Entry::encode_end(self.written_bytes, END_OF_STREAM.len() as u64, self.next_index);
        self.index.append(&[&end])?;
        self.index.sync()?;
        Ok(self.number)
    }

    /// Cuts off what was not acknowledged, as far as the disk lets it: a later recovery would do the same.
    pub(crate) fn give_up(mut self) {
        drop(self.data.truncate(self.acknowledged_bytes));
        drop(self.index.truncate(self.index_bytes));
    }
}

/// Returns the size of the schema message, which has no body: prefix of eight bytes and metadata.
fn schema_message_bytes(parts: &[&[u8]]) -> usize {
    let mut prefix = parts.iter().flat_map(|part| part.iter().copied()).skip(4);
    let length: [u8; 4] = core::array::from_fn(|_| prefix.next().expect("a message has a prefix"));
    8 + u32::from_le_bytes(length) as usize
}

fn split_parts<'a>(parts: &[&'a [u8]], at: usize) -> (Vec<&'a [u8]>, Vec<&'a [u8]>) {
    let (mut before, mut behind, mut left) = (Vec::new(), Vec::new(), at);
    for part in parts {
        let (head, tail) = part.split_at(left.min(part.len()));
        left -= head.len();
        before.extend((!head.is_empty()).then_some(head));
        behind.extend((!tail.is_empty()).then_some(tail));
    }
    (before, behind)
}

/// Returns the description that the schema of an acknowledged segment carries.
///
/// # Errors
/// What makes the segment unreadable.
pub(crate) fn describing_schema(
    store: &dyn Store,
    folder: &Path,
    number: u32,
) -> Result<Option<String>, ArchiveError> {
    let path = segment_path(folder, number, SegmentFile::Index);
    let index =
        Index::decode(&read_whole(store, &path)?).map_err(|cause| ArchiveError::Index { path, cause })?;
    if index.entries.is_empty() {
        return Ok(None);
    }
    let path = segment_path(folder, number, SegmentFile::Arrow);
    let decoder = decode_schema(&path, &*store.open(&path)?, &index.header)?;
    Ok(decoder.schema().and_then(|schema| schema.metadata().get(DESCRIPTION_KEY).cloned()))
}

/// Reads the schema message at the start of a segment and checks every byte of it.
fn decode_schema(path: &Path, data: &dyn Readable, header: &Header) -> Result<StreamDecoder, ArchiveError> {
    // Asked before room is made for it: the index is not believed beyond the file.
    if u64::from(header.schema_bytes) > data.size_bytes()? {
        return Err(ArchiveError::segment(path, "it ends before its schema does"));
    }
    let mut schema = vec![0; header.schema_bytes as usize];
    data.read_at(0, &mut schema)?;
    if crc32c([&schema[..]]) != header.schema_crc {
        return Err(ArchiveError::segment(path, "its schema does not match the checksum in the index"));
    }
    let mut decoder = StreamDecoder::new();
    decoder.decode(&mut Buffer::from_vec(schema))?;
    Ok(decoder)
}

/// A segment that is read, also while it is being written.
pub(crate) struct SegmentReader {
    path: PathBuf,
    data: Box<dyn Readable>,
    decoder: StreamDecoder,
    description: Arc<Description>,
    arrow: arrow_schema::SchemaRef,
    /// What the segment acknowledges.
    pub(crate) index: Index,
}

impl SegmentReader {
    /// Opens segment `number` of an epoch's folder.
    ///
    /// # Errors
    /// [`ArchiveError::Index`] and [`ArchiveError::Segment`] if a file is not what it should be.
    pub(crate) fn open(
        store: &dyn Store,
        folder: &Path,
        number: u32,
        description: &Arc<Description>,
    ) -> Result<Self, ArchiveError> {
        let path = segment_path(folder, number, SegmentFile::Arrow);
        let index_path = segment_path(folder, number, SegmentFile::Index);
        let data = store.open(&path)?;
        let index = Index::decode(&read_whole(store, &index_path)?)
            .map_err(|cause| ArchiveError::Index { path: index_path, cause })?;
        let expected = (description.epoch, description.schema.elements_per_sample());
        if (index.header.epoch, index.header.elements_per_sample) != expected {
            return Err(ArchiveError::segment(&path, "its index belongs to another epoch or schema"));
        }
        let decoder = decode_schema(&path, &*data, &index.header)?;
        let arrow = arrow_schema(description);
        Ok(Self { path, data, decoder, description: Arc::clone(description), arrow, index })
    }

    /// Reads a batch and checks every byte of it.
    ///
    /// # Errors
    /// [`ArchiveError::Segment`] if the batch is not what was acknowledged.
    pub(crate) fn batch(&mut self, entry: &Entry) -> Result<RecordBatch, ArchiveError> {
        let damaged = || {
            let place = format!("the batch at byte {} does not match its checksum", entry.offset);
            ArchiveError::segment(&self.path, &place)
        };
        let in_file = entry.end() <= self.data.size_bytes()?;
        let length = usize::try_from(entry.length).ok().filter(|_| in_file).ok_or_else(damaged)?;
        let mut message = vec![0; length];
        self.data.read_at(entry.offset, &mut message)?;
        if crc32c([&message[..]]) != entry.data_crc {
            return Err(damaged());
        }
        let batch = self.decoder.decode(&mut Buffer::from_vec(message))?;
        batch.ok_or_else(|| ArchiveError::segment(&self.path, "an entry speaks of no record batch"))
    }

    /// Reads the samples of a batch.
    ///
    /// # Errors
    /// [`ArchiveError::Segment`] if the batch is not what was acknowledged, or its columns are not the stream's.
    pub(crate) fn rows(&mut self, entry: &Entry) -> Result<Rows, ArchiveError> {
        let batch = self.batch(entry)?;
        Rows::new(&batch, &self.description, &self.arrow)
            .ok_or_else(|| ArchiveError::segment(&self.path, "its columns are not those of stream.json"))
    }
}
