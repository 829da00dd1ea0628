//! Reading of an Arrow segment with or without its index.
//!
//! Every batch has a copy of its own entry, bound to its stream, epoch and segment, at the end of its metadata: so a
//! batch proves that it is intact and where it belongs, and an index that is damaged, lost or foreign is rebuilt from
//! the segment. Nothing is changed here; the recovery writes the result. Start with [`Look`].

use core::ops::Range;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_buffer::Buffer;

use crate::Description;
use crate::checksum::crc32c;
use crate::columns::arrow_schema;
use crate::error::ArchiveError;
use crate::folders::{SegmentFile, segment_path};
use crate::index::layout::{ENTRY_BYTES, HEADER_BYTES};
use crate::index::{Entry, Header, Index, IndexError};
use crate::rows::Rows;
use crate::segment::{END_OF_STREAM, Schema, identity_of, regenerated_schema};
use crate::store::{Readable, Store, StoreError, read_whole};

/// Size of the part that is searched at a time for the next batch behind a damaged one.
const SCAN_BYTES: usize = 1 << 20;
/// Messages of an Arrow stream begin at multiples of this. Source: Arrow columnar format, "Encapsulated message format".
const ALIGNMENT: usize = 8;

/// Segment folder to be examined, and what the account says about it.
pub(crate) struct Look<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) folder: &'a Path,
    pub(crate) description: &'a Arc<Description>,
    /// Index of stored samples according to the account.
    pub(crate) told_index: u64,
    /// Segment with the last of them, according to the account.
    pub(crate) told_segment: Option<u32>,
    /// Treatment of batches behind the acknowledged ones.
    pub(crate) tail: Tail,
}

/// Treatment of batches behind the last that the index acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tail {
    /// Ignore them: a recorder is at work there.
    Leave,
    /// Accept intact ones: no recorder is writing.
    Take,
}

/// Result of examining a segment.
#[derive(Debug)]
pub(crate) struct Found {
    /// Batches that can be read, and those that an intact entry describes.
    pub(crate) index: Index,
    /// Faults of the files as text.
    pub(crate) faults: Vec<String>,
    /// True if the index on the disk differs from this one and must be rewritten.
    pub(crate) rebuilt: bool,
    /// Number of entries at the end that were never acknowledged and are intact all the same.
    pub(crate) unacknowledged: usize,
    /// True if something may have been acknowledged that was not found.
    pub(crate) incomplete: bool,
    /// Size of the segment, in bytes.
    pub(crate) data_bytes: u64,
    /// Size of the index on the disk, in bytes.
    pub(crate) index_bytes: u64,
}

/// Index as it is on the disk.
struct OnDisk {
    bytes: Vec<u8>,
    index: Option<Index>,
    fault: Option<String>,
}

impl Look<'_> {
    /// Examines a segment.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist; [`ArchiveError::Index`] if it has a later version, and the
    /// error that makes the segment unreadable, unless an intact index has the range it held.
    pub(crate) fn at(&self, number: u32) -> Result<Found, ArchiveError> {
        let path = segment_path(self.folder, number, SegmentFile::Arrow);
        let data = self.store.open(&path)?;
        let on_disk = self.index_of(number)?;
        let size = data.size_bytes()?;
        let walk = Walk {
            data: &*data,
            size,
            salt: identity_of(self.description, number),
            description: self.description,
            told_index: self.told_index,
            slots: on_disk.slots(),
        };
        let written = on_disk.index.as_ref().map(|index| index.header.schema_crc);
        let schema = Schema::of(&path, &*data, self.description, written)?;
        let mut faults: Vec<String> = on_disk.fault.iter().cloned().collect();
        if faults.is_empty()
            && let Some(what) = self.fault_beside(number, &walk, &schema, on_disk.index.as_ref())?
        {
            let path = segment_path(self.folder, number, SegmentFile::Index);
            faults.push(format!("{}: {what}", path.display()));
        }
        let Some(index) = on_disk.index.as_ref().filter(|_| faults.is_empty()) else {
            return self.rebuilt(number, &walk, &schema, on_disk, faults);
        };
        let end = index.acknowledged_bytes();
        let behind = index.entries.last().map_or(0, |entry| entry.next_index);
        let lacks = behind < self.told_index && !index.ended;
        let mut found = Found {
            index: index.clone(),
            faults,
            rebuilt: false,
            unacknowledged: 0,
            incomplete: false,
            data_bytes: size,
            index_bytes: on_disk.bytes.len() as u64,
        };
        if !index.ended && size > end && (self.tail == Tail::Take || lacks) {
            let taken = walk.from(end, index.entries.len(), &BTreeMap::new(), &schema)?;
            found.unacknowledged = taken.len();
            for entry in taken.into_values() {
                found.index.take(entry);
            }
        }
        if size < end {
            let said = format!("{}: it ends at byte {size}, its index tells of {end}", path.display());
            found.faults.push(said);
        }
        if index.header.schema_crc != schema.crc && !index.entries.is_empty() {
            found
                .faults
                .push(format!("{}: its schema message is damaged; stream.json tells it", path.display()));
        }
        Ok(found)
    }

    /// Returns the fault of an index that is intact but contradicts its segment or the account.
    fn fault_beside(
        &self,
        number: u32,
        walk: &Walk<'_>,
        schema: &Schema,
        index: Option<&Index>,
    ) -> Result<Option<String>, ArchiveError> {
        let behind = index.and_then(|index| index.entries.last()).map_or(0, |entry| entry.next_index);
        let is_open = !index.is_some_and(|index| index.ended);
        let (end, told) = (index.map_or(schema.end, Index::acknowledged_bytes), self.told_index);
        match self.told_segment.filter(|_| is_open) {
            Some(last) if number == last && behind < told => {
                let said = format!("it covers samples up to {behind}, the account those up to {told}");
                return Ok(Some(said));
            }
            // A later segment was begun once all of this was acknowledged, or cut off.
            Some(last) if number < last && walk.sealed_at(end)?.is_some() => {
                return Ok(Some(format!("it covers samples up to {behind}, its segment has more")));
            }
            _ => {}
        }
        let Some(index) = index else { return Ok(None) };
        if !walk.fits(index)? {
            return Ok(Some("it does not fit its segment".to_owned()));
        }
        if index.is_gapless() {
            return Ok(None);
        }
        // Damaged batches leave such places, too.
        let told: BTreeMap<u64, Entry> = index.entries.iter().map(|entry| (entry.offset, *entry)).collect();
        let end = index.acknowledged_bytes();
        let found = walk.from(schema.end, 0, &told, schema)?;
        let passed = found.range(..end).filter(|(offset, _)| !told.contains_key(offset)).count();
        Ok((passed > 0).then(|| format!("it skips {passed} batches of its segment")))
    }

    /// Returns the samples that an index describes if its segment cannot be read.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub(crate) fn told_by_index(&self, number: u32) -> Result<Option<Range<u64>>, ArchiveError> {
        let index = self.index_of(number)?.index;
        let entries = index.as_ref().map(|index| (index.entries.first(), index.entries.last()));
        let Some((Some(first), Some(last))) = entries else { return Ok(None) };
        Ok(Some(first.first_index..last.next_index))
    }

    fn index_of(&self, number: u32) -> Result<OnDisk, ArchiveError> {
        let path = segment_path(self.folder, number, SegmentFile::Index);
        let bytes = match read_whole(self.store, &path) {
            Ok(bytes) => bytes,
            Err(StoreError::NotFound(_)) => {
                let fault = Some(format!("{} is missing", path.display()));
                return Ok(OnDisk { bytes: Vec::new(), index: None, fault });
            }
            Err(error) if error.is_damage() => {
                let fault = Some(ArchiveError::from(error).first_line());
                return Ok(OnDisk { bytes: Vec::new(), index: None, fault });
            }
            Err(error) => return Err(error.into()),
        };
        let index = match Index::decode(&bytes) {
            Ok(index) => index,
            Err(cause @ IndexError::Version(_)) => return Err(ArchiveError::Index { path, cause }),
            // The state after a crash, before anything was acknowledged.
            Err(_) if bytes.iter().all(|byte| *byte == 0) => {
                return Ok(OnDisk { bytes, index: None, fault: None });
            }
            Err(IndexError::NoHeader(_)) if self.tail == Tail::Leave => {
                return Ok(OnDisk { bytes, index: None, fault: None });
            }
            Err(cause) => {
                let fault = Some(format!("{}: {cause}", path.display()));
                return Ok(OnDisk { bytes, index: None, fault });
            }
        };
        if let Some(stranger) = index.header.stranger(self.description, number) {
            let fault = Some(format!("{}: it belongs to {stranger}", path.display()));
            return Ok(OnDisk { bytes: Vec::new(), index: None, fault });
        }
        let spoiled = index.spoiled_entries(&bytes);
        let fault =
            (spoiled > 0).then(|| format!("{}: {spoiled} of its entries are damaged", path.display()));
        Ok(OnDisk { bytes, index: Some(index), fault })
    }

    /// Rebuilds the index from the segment and the intact entries of the old one.
    fn rebuilt(
        &self,
        number: u32,
        walk: &Walk<'_>,
        schema: &Schema,
        on_disk: OnDisk,
        faults: Vec<String>,
    ) -> Result<Found, ArchiveError> {
        let told = on_disk.index.as_ref().map(|index| index.entries.clone()).unwrap_or_default();
        let told: BTreeMap<u64, Entry> = told.into_iter().map(|entry| (entry.offset, entry)).collect();
        let mut entries = walk.from(schema.end, 0, &told, schema)?;
        for entry in told.into_values() {
            let overlaps = entries.values().any(|it| it.offset < entry.end() && entry.offset < it.end());
            if !overlaps {
                // Its batch is damaged: the entry has the range of the hole.
                entries.insert(entry.offset, entry);
            }
        }
        let header = Header {
            epoch: self.description.epoch,
            elements_per_sample: self.description.schema.elements_per_sample(),
            segment: number,
            session: on_disk.index.as_ref().map_or(1, |index| index.header.session),
            schema_bytes: u32::try_from(schema.end).unwrap_or(u32::MAX),
            schema_crc: if schema.is_intact {
                schema.crc
            } else {
                crc32c([&regenerated_schema(self.description)?[..]])
            },
            stream_crc: Header::stream_crc_of(self.description),
        };
        let mut index = Index::new(header);
        entries.into_values().for_each(|entry| index.take(entry));
        // A segment that was closed stays closed, although its index no longer says so.
        let ended = on_disk.index.as_ref().is_some_and(|index| index.ended)
            || ends_there(walk.data, index.acknowledged_bytes(), walk.size)?;
        index.ended = ended;
        let slots = on_disk.slots();
        Ok(Found {
            incomplete: index.entries.len() + usize::from(ended) < slots,
            index,
            // Nothing was ever acknowledged in it, and it is empty: a crash leaves it so.
            faults,
            rebuilt: true,
            unacknowledged: 0,
            data_bytes: walk.size,
            index_bytes: on_disk.bytes.len() as u64,
        })
    }
}

impl OnDisk {
    /// Returns the number of entries written, intact or torn: the data of each was synced before.
    fn slots(&self) -> usize {
        let behind = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        behind.chunks(ENTRY_BYTES).filter(|chunk| chunk.iter().any(|byte| *byte != 0)).count()
    }
}

/// Returns whether a segment ends with the marker, directly behind its last batch.
pub(crate) fn ends_there(data: &dyn Readable, end: u64, size_bytes: u64) -> Result<bool, StoreError> {
    let mut marker = END_OF_STREAM;
    if size_bytes != end + marker.len() as u64 {
        return Ok(false);
    }
    data.read_at(end, &mut marker)?;
    Ok(marker == END_OF_STREAM)
}

/// Segment that is read from batch to batch.
struct Walk<'a> {
    data: &'a dyn Readable,
    size: u64,
    salt: Vec<u8>,
    description: &'a Arc<Description>,
    told_index: u64,
    slots: usize,
}

impl Walk<'_> {
    /// Returns whether an index belongs to this segment: its first and last entries equal those of the batches.
    fn fits(&self, index: &Index) -> Result<bool, StoreError> {
        let ends = [index.entries.first(), index.entries.last()];
        for entry in ends.into_iter().flatten() {
            match self.told_at(entry.offset)? {
                Told::Entry(own) if own.tells_the_same_as(entry) => {}
                // A batch without its own entry, from an earlier version, or one behind the end of the file.
                Told::Nothing => {}
                Told::Entry(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns every intact batch from `at` on, by its offset; `known` batches are before it.
    fn from(
        &self,
        at: u64,
        known: usize,
        told: &BTreeMap<u64, Entry>,
        schema: &Schema,
    ) -> Result<BTreeMap<u64, Entry>, ArchiveError> {
        let mut entries = BTreeMap::new();
        let mut at = at;
        while at < self.size {
            if let Some(entry) = self.sealed_at(at)? {
                at = entry.end();
                entries.insert(entry.offset, entry);
            } else if let Some(entry) = told.get(&at) {
                // The copy of the entry is used even if the batch is damaged.
                at = entry.end().max(at + ALIGNMENT as u64);
            } else if let Some(entry) = self.unsealed_at(at, known + entries.len() + told.len(), schema)? {
                at = entry.end();
                entries.insert(entry.offset, entry);
            } else if let Some(next) = self.next_sealed(at)? {
                at = next;
            } else {
                break;
            }
        }
        Ok(entries)
    }

    /// Reads a range of bytes; `None` if the segment is shorter, or the disk cannot read it: a batch there is
    /// damaged.
    fn read(&self, at: u64, length: u64) -> Result<Option<Vec<u8>>, StoreError> {
        if at.checked_add(length).is_none_or(|end| end > self.size) {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        match self.data.read_at(at, &mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.is_damage() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the end of the metadata of the message at an offset.
    fn metadata_end(&self, at: u64) -> Result<Option<u64>, StoreError> {
        let Some(prefix) = self.read(at, 8)? else { return Ok(None) };
        let length = u32::from_le_bytes(prefix[4..8].try_into().expect("four bytes"));
        let is_message =
            prefix[..4] == END_OF_STREAM[..4] && length > 0 && (length as usize).is_multiple_of(ALIGNMENT);
        Ok(is_message.then(|| at + 8 + u64::from(length)).filter(|end| *end <= self.size))
    }

    /// Returns the copy of the entry in the batch at an offset.
    fn told_at(&self, at: u64) -> Result<Told, StoreError> {
        let Some(end) = self.metadata_end(at)? else { return Ok(Told::Nothing) };
        let Some(place) = end.checked_sub(ENTRY_BYTES as u64).filter(|place| *place >= at + 8) else {
            return Ok(Told::Nothing);
        };
        let Some(bytes) = self.read(place, ENTRY_BYTES as u64)? else { return Ok(Told::Nothing) };
        let entry = Entry::decode_in_stream(&bytes, &self.salt);
        Ok(entry.filter(|entry| entry.offset == at).map_or(Told::Nothing, Told::Entry))
    }

    /// Returns the entry of the batch at an offset if every byte of it is intact.
    fn sealed_at(&self, at: u64) -> Result<Option<Entry>, StoreError> {
        let Told::Entry(own) = self.told_at(at)? else { return Ok(None) };
        let Some(end) = self.metadata_end(at)? else { return Ok(None) };
        let Some(message) = self.read(at, own.length)? else { return Ok(None) };
        let head = usize::try_from(end - at).unwrap_or(usize::MAX);
        let Some(seal) = head.checked_sub(ENTRY_BYTES).filter(|_| head <= message.len()) else {
            return Ok(None);
        };
        let is_whole = crc32c([&message[..seal], &message[head..]]) == own.data_crc;
        Ok(is_whole.then(|| Entry { data_crc: crc32c([&message[..]]), ..own }))
    }

    /// Returns the entry of a batch without a copy, from an earlier version, if its data were certainly synced.
    fn unsealed_at(&self, at: u64, before: usize, schema: &Schema) -> Result<Option<Entry>, ArchiveError> {
        let Some(end) = self.metadata_end(at)? else { return Ok(None) };
        let Some(metadata) = self.read(at + 8, end - at - 8)? else { return Ok(None) };
        // A batch with a wrong copy is damaged, even if it can be decoded.
        let sealed =
            metadata.len() >= ENTRY_BYTES && Entry::is_in_stream(&metadata[metadata.len() - ENTRY_BYTES..]);
        let body = arrow_ipc::root_as_message(&metadata).ok().map(|message| message.bodyLength());
        let Some(body) = body.and_then(|bytes| u64::try_from(bytes).ok()).filter(|_| !sealed) else {
            return Ok(None);
        };
        let Some(message) = self.read(at, (end - at).saturating_add(body))? else { return Ok(None) };
        let (length, data_crc) = (message.len() as u64, crc32c([&message[..]]));
        let mut decoder = schema.decoder(self.description)?;
        let Ok(Some(batch)) = decoder.decode(&mut Buffer::from_vec(message)) else { return Ok(None) };
        let arrow = arrow_schema(self.description);
        let Some(rows) = Rows::new(&batch, self.description, &arrow) else { return Ok(None) };
        let runs = rows.runs();
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(None) };
        let next_index = last.first_index.saturating_add(last.rows.len() as u64);
        let rate = self.description.schema.rate;
        let entry = Entry {
            offset: at,
            length,
            first_index: first.first_index,
            next_index,
            t0: first.t0,
            t1: rate.time_of(next_index, last.first_index, last.t0),
            samples: u32::try_from(batch.num_rows()).unwrap_or(u32::MAX),
            data_crc,
        };
        Ok((before < self.slots || next_index <= self.told_index).then_some(entry))
    }

    /// Searches the next intact batch behind a damaged place.
    fn next_sealed(&self, behind: u64) -> Result<Option<u64>, StoreError> {
        let mut at = behind.next_multiple_of(ALIGNMENT as u64);
        while at + ENTRY_BYTES as u64 <= self.size {
            let length = (self.size - at).min((SCAN_BYTES + ENTRY_BYTES) as u64);
            let bytes = self.read(at, length)?.unwrap_or_default();
            for window in bytes.windows(ENTRY_BYTES).step_by(ALIGNMENT) {
                if let Some(entry) = Entry::decode_in_stream(window, &self.salt)
                    && entry.offset > behind
                    && self.sealed_at(entry.offset)?.is_some()
                {
                    return Ok(Some(entry.offset));
                }
            }
            at += SCAN_BYTES as u64;
        }
        Ok(None)
    }
}

enum Told {
    Nothing,
    Entry(Entry),
}
