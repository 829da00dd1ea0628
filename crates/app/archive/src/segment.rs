//! Segment: a plain Arrow IPC stream with an index that acknowledges its stored batches.
//!
//! Crash safety rests on the order of writing: batches ([`SegmentWriter::write`]), a sync of the data, index entries
//! ([`SegmentWriter::acknowledge`]), a sync of the index. Reading starts at [`SegmentReader`] and uses only what an
//! index entry acknowledges.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::{Schema as ArrowSchema, SchemaRef};

use crate::Description;
use crate::checksum::{crc32c, joined};
use crate::columns::{DESCRIPTION_KEY, Span, arrow_schema};
use crate::error::ArchiveError;
use crate::folders::{SegmentFile, arrow_paths, segment_path};
use crate::index::layout::ENTRY_BYTES;
use crate::index::{Entry, Header, Index};
use crate::rows::Rows;
use crate::store::{Appendable, Readable, Store, StoreError};
use crate::version::VERSION_KEY;

/// End of an Arrow IPC stream: the continuation mark and a length of zero.
/// Source: Arrow columnar format, "IPC Streaming Format".
pub(crate) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// A segment that is being written.
pub(crate) struct SegmentWriter {
    number: u32,
    /// Identity that its batches are bound to.
    identity: Vec<u8>,
    data: Box<dyn Appendable>,
    index: Box<dyn Appendable>,
    encoder: StreamEncoder,
    written_bytes: u64,
    acknowledged_bytes: u64,
    index_bytes: u64,
    next_index: u64,
    staged: Vec<Entry>,
    /// True if the folder has names that may not be durable yet.
    pub(crate) fresh: bool,
}

/// Properties of a new segment.
pub(crate) struct Birth<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) description: &'a Description,
    pub(crate) number: u32,
    pub(crate) session: u32,
}

impl SegmentWriter {
    /// Begins a segment with its first batch.
    ///
    /// # Errors
    /// The error of the disk; the files of this segment are then removed if the disk permits it.
    pub(crate) fn create(
        store: &dyn Store,
        birth: &Birth<'_>,
        batch: &RecordBatch,
        span: Span,
    ) -> Result<Self, ArchiveError> {
        let number = birth.number;
        let paths = arrow_paths(birth.folder, number);
        let data = store.create(&paths[0])?;
        let index = store.create(&paths[1]);
        let begun = index.map_err(ArchiveError::from).and_then(|index| {
            let mut writer = Self {
                number,
                identity: identity_of(birth.description, number),
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
            writer.begin(birth, batch, span)?;
            Ok(writer)
        });
        if begun.is_err() {
            // Best effort: remaining files have no acknowledged entry and are trimmed by the next recovery.
            paths.iter().for_each(|path| drop(store.remove(path)));
        }
        begun
    }

    fn begin(&mut self, birth: &Birth<'_>, batch: &RecordBatch, span: Span) -> Result<(), ArchiveError> {
        let buffers = self.encoder.encode(batch)?;
        let parts: Vec<&[u8]> = buffers.iter().map(Buffer::as_slice).collect();
        let schema_bytes = metadata_end(&parts);
        let (schema, message) = split_parts(&parts, schema_bytes);
        let header = Header {
            epoch: birth.description.epoch,
            elements_per_sample: birth.description.schema.elements_per_sample(),
            segment: birth.number,
            session: birth.session,
            schema_bytes: u32::try_from(schema_bytes).expect("a schema message is bounded by its channels"),
            schema_crc: crc32c(schema.iter().copied()),
            stream_crc: Header::stream_crc_of(birth.description),
        };
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
    /// The error of the disk; the segment then must be given up with [`Self::give_up`].
    pub(crate) fn write(&mut self, batch: &RecordBatch, span: Span) -> Result<(), ArchiveError> {
        let buffers = self.encoder.encode(batch)?;
        let parts: Vec<&[u8]> = buffers.iter().map(Buffer::as_slice).collect();
        self.stage(&parts, batch.num_rows(), span)
    }

    /// Writes a message with a copy of its entry at the end of its metadata, which Arrow readers take for padding.
    fn stage(&mut self, parts: &[&[u8]], rows: usize, span: Span) -> Result<(), ArchiveError> {
        let (metadata, body) = split_parts(parts, metadata_end(parts));
        let mut head = metadata.concat();
        let metadata_bytes = u32::try_from(head.len() - 8 + ENTRY_BYTES).expect("bounded by its channels");
        head[4..8].copy_from_slice(&metadata_bytes.to_le_bytes());
        let body_bytes: u64 = body.iter().map(|part| part.len() as u64).sum();
        let body_crc = crc32c(body.iter().copied());
        let mut entry = Entry {
            offset: self.written_bytes,
            length: (head.len() + ENTRY_BYTES) as u64 + body_bytes,
            first_index: span.first_index,
            next_index: span.next_index,
            t0: span.t0,
            t1: span.t1,
            samples: u32::try_from(rows).expect("a batch is bounded in bytes"),
            data_crc: joined(crc32c([&head[..]]), body_crc, body_bytes),
        };
        head.extend(entry.encode_in_stream(&self.identity));
        entry.data_crc = joined(crc32c([&head[..]]), body_crc, body_bytes);
        let message: Vec<&[u8]> = core::iter::once(&head[..]).chain(body).collect();
        self.data.append(&message)?;
        self.staged.push(entry);
        self.written_bytes += entry.length;
        Ok(())
    }

    /// Checks that both files are still where they were created, and unchanged by others.
    ///
    /// # Errors
    /// [`StoreError::Gone`], [`StoreError::Changed`]; the segment then must be given up.
    pub(crate) fn check(&mut self) -> Result<(), StoreError> {
        self.data.check_place()?;
        self.index.check_place()?;
        self.data.check_size()?;
        self.index.check_size()
    }

    /// Returns the data file, to be synced before [`Self::acknowledge`].
    pub(crate) fn data(&mut self) -> &mut dyn Appendable {
        &mut *self.data
    }

    /// Returns the index file, to be synced after [`Self::acknowledge`].
    pub(crate) fn index(&mut self) -> &mut dyn Appendable {
        &mut *self.index
    }

    /// Returns the segment's number.
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether batches wait for their acknowledgement.
    pub(crate) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Returns the number of bytes written to the data file.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Returns the number of bytes that wait for their acknowledgement.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.written_bytes - self.acknowledged_bytes
    }

    /// Writes the entries of all batches, which must have been synced. They are valid once the index is synced.
    ///
    /// # Errors
    /// The error of the disk; the segment then must be given up.
    pub(crate) fn acknowledge(&mut self) -> Result<(), StoreError> {
        let encoded: Vec<_> = self.staged.iter().map(Entry::encode).collect();
        let parts: Vec<&[u8]> = encoded.iter().map(<[u8; 64]>::as_slice).collect();
        self.index.append(&parts)
    }

    /// Marks the staged batches as stored, after the index was synced.
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
    /// The error of the disk; acknowledged batches stay acknowledged.
    pub(crate) fn close(mut self) -> Result<u32, StoreError> {
        debug_assert!(self.staged.is_empty(), "a segment is closed after its last commit");
        self.data.append(&[&END_OF_STREAM])?;
        self.data.sync()?;
        let end = Entry::encode_end(self.written_bytes, END_OF_STREAM.len() as u64, self.next_index);
        self.index.append(&[&end])?;
        self.index.sync()?;
        Ok(self.number)
    }

    /// Cuts off the bytes that were not acknowledged, if the disk permits it: a later recovery would do the same.
    pub(crate) fn give_up(mut self) {
        drop(self.data.truncate(self.acknowledged_bytes));
        drop(self.index.truncate(self.index_bytes));
    }
}

/// Returns the end of the metadata of a message, which follow a prefix of eight bytes.
fn metadata_end(parts: &[&[u8]]) -> usize {
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

/// Returns the identity that the batches of a segment are bound to: stream, epoch and number.
pub(crate) fn identity_of(description: &Description, number: u32) -> Vec<u8> {
    let Description { name, epoch, .. } = description;
    let numbers =
        [&epoch.start_ns.to_le_bytes()[..], &epoch.incarnation.to_le_bytes(), &number.to_le_bytes()];
    [name.as_str().as_bytes(), &numbers.concat()].concat()
}

/// Returns the description that the schema of a segment carries.
///
/// # Errors
/// The error that makes the segment unreadable.
pub(crate) fn describing_schema(
    store: &dyn Store,
    folder: &Path,
    number: u32,
) -> Result<Option<String>, ArchiveError> {
    let path = segment_path(folder, number, SegmentFile::Arrow);
    let message = schema_message(&*store.open(&path)?)?;
    let schema = message.map(|message| try_schema_from_ipc_buffer(&message)).transpose()?;
    ArchiveError::reject_later(&path, schema.as_ref().and_then(version_of))?;
    Ok(schema.and_then(|schema| schema.metadata.get(DESCRIPTION_KEY).cloned()))
}

fn version_of(schema: &ArrowSchema) -> Option<u64> {
    schema.metadata.get(VERSION_KEY)?.parse().ok()
}

/// Reads the message at the beginning of a segment; `None` if there is none.
fn schema_message(data: &dyn Readable) -> Result<Option<Vec<u8>>, StoreError> {
    let size_bytes = data.size_bytes()?;
    let mut prefix = [0; 8];
    if size_bytes < prefix.len() as u64 {
        return Ok(None);
    }
    data.read_at(0, &mut prefix)?;
    let length = metadata_end(&[&prefix]);
    // Checked before memory is allocated: a length beyond the end of the segment is wrong.
    if prefix[..4] != END_OF_STREAM[..4] || length as u64 > size_bytes || !length.is_multiple_of(8) {
        return Ok(None);
    }
    let mut message = vec![0; length];
    data.read_at(0, &mut message)?;
    Ok(Some(message))
}

/// Returns the schema message at the start of a stream's segment.
pub(crate) fn regenerated_schema(description: &Description) -> Result<Vec<u8>, ArchiveError> {
    let stream = StreamEncoder::try_new(&arrow_schema(description))?.finish()?;
    let parts: Vec<&[u8]> = stream.iter().map(Buffer::as_slice).collect();
    Ok(split_parts(&parts, metadata_end(&parts)).0.concat())
}

/// Decodes a schema message.
fn decoder_of(schema: Vec<u8>) -> Result<StreamDecoder, ArchiveError> {
    let mut decoder = StreamDecoder::new();
    decoder.decode(&mut Buffer::from_vec(schema))?;
    Ok(decoder)
}

/// Schema message of a segment as read.
pub(crate) struct Schema {
    message: Option<Vec<u8>>,
    /// Offset of its end; 0 if it is unknown.
    pub(crate) end: u64,
    pub(crate) crc: u32,
    /// True if it can be decoded and is that of the stream.
    pub(crate) is_intact: bool,
}

impl Schema {
    /// Reads the schema message of a segment; `written` is its checksum from the index, if there is one.
    ///
    /// # Errors
    /// [`ArchiveError::Later`]; [`ArchiveError::Segment`] if it is another stream's; the error of the disk.
    pub(crate) fn of(
        path: &Path,
        data: &dyn Readable,
        description: &Description,
        written: Option<u32>,
    ) -> Result<Self, ArchiveError> {
        let message = schema_message(data)?;
        let (end, crc) = message.as_ref().map_or((0, 0), |it| (it.len() as u64, crc32c([&it[..]])));
        // A decoder would return the schema only with the first batch.
        let found = message.as_ref().and_then(|message| try_schema_from_ipc_buffer(message).ok());
        let expected = arrow_schema(description);
        let told = |schema: &ArrowSchema| {
            ["name", "epoch"].map(|key| schema.metadata.get(key).cloned().unwrap_or_default())
        };
        let is_intact = found.as_ref() == Some(&*expected);
        if is_intact {
            return Ok(Self { message, end, crc, is_intact });
        }
        // A flipped bit in the version is damage, no later version: the checksum of the message is then wrong.
        if written.is_none_or(|written| written == crc) {
            ArchiveError::reject_later(path, found.as_ref().and_then(version_of))?;
        }
        // A flipped bit in a name is damage, no foreign segment: that one is intact, with a description of its own
        // that agrees.
        let own = found.as_ref().and_then(|found| {
            let description = found.metadata.get(DESCRIPTION_KEY)?;
            Description::decode(description.as_bytes()).ok().map(|own| (told(found), own))
        });
        let stranger = own.and_then(|([name, epoch], own)| {
            let is_whole = *own.name.as_str() == *name && own.epoch.to_string() == epoch;
            let is_other = own.name != description.name || own.epoch != description.epoch;
            (is_whole && is_other).then(|| format!("it belongs to stream {name} in epoch {epoch}"))
        });
        match stranger {
            Some(stranger) => Err(ArchiveError::segment(path, &stranger)),
            None => Ok(Self { message, end, crc, is_intact }),
        }
    }

    /// Returns a decoder for the batches behind it: from the message if it is intact, else from the description.
    ///
    /// # Errors
    /// The error of Arrow.
    pub(crate) fn decoder(&self, description: &Description) -> Result<StreamDecoder, ArchiveError> {
        match &self.message {
            Some(message) if self.is_intact => decoder_of(message.clone()),
            _ => decoder_of(regenerated_schema(description)?),
        }
    }
}

/// Segment opened for reading, also while it is being written.
pub(crate) struct SegmentReader {
    path: PathBuf,
    data: Box<dyn Readable>,
    decoder: StreamDecoder,
    description: Arc<Description>,
    arrow: SchemaRef,
    /// Batches that can be read.
    pub(crate) index: Index,
}

impl SegmentReader {
    /// Opens segment `number` of an epoch's folder; `index` has its readable batches.
    ///
    /// # Errors
    /// [`ArchiveError::Segment`] if the file is damaged or foreign.
    pub(crate) fn open(
        store: &dyn Store,
        folder: &Path,
        description: &Arc<Description>,
        index: Index,
    ) -> Result<Self, ArchiveError> {
        let path = segment_path(folder, index.header.segment, SegmentFile::Arrow);
        let data = store.open(&path)?;
        let schema = Schema::of(&path, &*data, description, Some(index.header.schema_crc))?;
        let decoder = schema.decoder(description)?;
        let arrow = arrow_schema(description);
        Ok(Self { path, data, decoder, description: Arc::clone(description), arrow, index })
    }

    /// Reads a batch and checks every byte of it.
    ///
    /// # Errors
    /// [`ArchiveError::Segment`] if the batch differs from the acknowledged one.
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
        batch.ok_or_else(|| ArchiveError::segment(&self.path, "an entry refers to no record batch"))
    }

    /// Reads the samples of a batch.
    ///
    /// # Errors
    /// [`ArchiveError::Segment`] if the batch differs from the acknowledged one, or its columns are not the stream's.
    pub(crate) fn rows(&mut self, entry: &Entry) -> Result<Rows, ArchiveError> {
        let batch = self.batch(entry)?;
        let rows = Rows::new(&batch, &self.description, &self.arrow)
            .ok_or_else(|| ArchiveError::segment(&self.path, "its columns are not those of stream.json"))?;
        if rows.span() != Some((entry.first_index, entry.next_index, entry.samples as usize)) {
            let said = format!("the batch at byte {} has other samples than its index states", entry.offset);
            return Err(ArchiveError::segment(&self.path, &said));
        }
        Ok(rows)
    }
}
