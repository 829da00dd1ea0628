//! Sidecar index of a segment: its batches, and with them the acknowledgement that they are stored.
//!
//! An entry is written after the bytes that it describes were synced, so an intact entry proves an intact batch. The
//! layout is drawn in `docs/reference/formats/archive.md`; a test compares the page with `layout`. Start with
//! [`Index::decode`].

use core::ops::Range;

use units::{Epoch, WallTime};

use crate::Description;
use crate::checksum::crc32c;

/// Offsets of the fields, little-endian.
pub(crate) mod layout {
    /// First bytes of every index.
    pub(crate) const MAGIC: &[u8; 8] = b"TALLYIDX";
    /// The only version so far.
    pub(crate) const VERSION: u32 = 1;
    /// Size of the header.
    pub(crate) const HEADER_BYTES: usize = 64;
    /// Size of an entry.
    pub(crate) const ENTRY_BYTES: usize = 64;
    /// Kind of an entry for a record batch.
    pub(crate) const KIND_BATCH: u32 = 1;
    /// Kind of an entry for the end-of-stream marker: the segment is closed.
    pub(crate) const KIND_END: u32 = 2;
    /// Kind of an entry within the segment, at the end of its batch's metadata.
    pub(crate) const KIND_IN_STREAM: u32 = 3;

    /// Fields of the header.
    pub(crate) mod header {
        use core::ops::Range;

        pub(crate) const MAGIC: Range<usize> = 0..8;
        pub(crate) const VERSION: Range<usize> = 8..12;
        pub(crate) const HEADER_BYTES: Range<usize> = 12..16;
        pub(crate) const ENTRY_BYTES: Range<usize> = 16..20;
        pub(crate) const ELEMENTS_PER_SAMPLE: Range<usize> = 20..24;
        pub(crate) const EPOCH_START_NS: Range<usize> = 24..32;
        pub(crate) const EPOCH_INCARNATION: Range<usize> = 32..40;
        pub(crate) const SEGMENT: Range<usize> = 40..44;
        pub(crate) const SESSION: Range<usize> = 44..48;
        pub(crate) const SCHEMA_BYTES: Range<usize> = 48..52;
        pub(crate) const SCHEMA_CRC: Range<usize> = 52..56;
        pub(crate) const STREAM_CRC: Range<usize> = 56..60;
        pub(crate) const HEADER_CRC: Range<usize> = 60..64;
    }

    /// Fields of an entry.
    pub(crate) mod entry {
        use core::ops::Range;

        pub(crate) const OFFSET: Range<usize> = 0..8;
        pub(crate) const LENGTH: Range<usize> = 8..16;
        pub(crate) const FIRST_INDEX: Range<usize> = 16..24;
        pub(crate) const NEXT_INDEX: Range<usize> = 24..32;
        pub(crate) const T0_NS: Range<usize> = 32..40;
        pub(crate) const T1_NS: Range<usize> = 40..48;
        pub(crate) const SAMPLES: Range<usize> = 48..52;
        pub(crate) const DATA_CRC: Range<usize> = 52..56;
        pub(crate) const KIND: Range<usize> = 56..60;
        pub(crate) const ENTRY_CRC: Range<usize> = 60..64;
    }
}

use layout::{
    ENTRY_BYTES, HEADER_BYTES, KIND_BATCH, KIND_END, KIND_IN_STREAM, MAGIC, VERSION, entry, header,
};

/// Header of an index: facts about its segment as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Epoch of the publisher.
    pub epoch: Epoch,
    /// Elements in one sample.
    pub elements_per_sample: u32,
    /// Number of the segment, counted from 1 within its epoch.
    pub segment: u32,
    /// Number of the recorder in this epoch, from 1.
    pub session: u32,
    /// Size of the Arrow schema message at the start of the segment, in bytes.
    pub schema_bytes: u32,
    /// CRC-32C of that message.
    pub schema_crc: u32,
    /// CRC-32C of the stream's name; 0 in files written before it was added.
    pub stream_crc: u32,
}

/// Acknowledged record batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Offset of its message in the segment, in bytes.
    pub offset: u64,
    /// Size of its message, metadata and body, in bytes.
    pub length: u64,
    /// Index of its first sample.
    pub first_index: u64,
    /// Index one behind its last sample; more than `first_index + samples` if there is a hole in between.
    pub next_index: u64,
    /// Time of its first sample.
    pub t0: WallTime,
    /// Time one sample behind its last.
    pub t1: WallTime,
    /// Number of samples.
    pub samples: u32,
    /// CRC-32C of its message.
    pub data_crc: u32,
}

/// Index as read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    /// Facts about the segment as a whole.
    pub header: Header,
    /// Acknowledged batches in the order of the segment.
    pub entries: Vec<Entry>,
    /// True if the segment was closed with its end-of-stream marker.
    pub ended: bool,
    /// Size of the index up to and including its last intact entry, in bytes; the rest was never acknowledged.
    pub intact_bytes: u64,
    /// Number of damaged entries before that; their batches can no longer be found.
    pub damaged: u32,
}

/// Reason why bytes are not an index.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The file is shorter than a header: it was never synced.
    #[error("the index has {0} bytes and no complete header: nothing of this segment was acknowledged")]
    NoHeader(usize),
    /// The file is no index.
    #[error("this is not a tallycast segment index")]
    Foreign,
    /// The file has a later version.
    #[error("the index has format version {0}, this program reads up to {VERSION}\nuse a newer tallycast")]
    Version(u32),
    /// The header's checksum does not match.
    #[error("the header of the index is damaged")]
    Damaged,
}

impl Header {
    /// Returns the header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[header::MAGIC].copy_from_slice(MAGIC);
        put_u32(&mut bytes, header::VERSION, VERSION);
        put_u32(&mut bytes, header::HEADER_BYTES, HEADER_BYTES as u32);
        put_u32(&mut bytes, header::ENTRY_BYTES, ENTRY_BYTES as u32);
        put_u32(&mut bytes, header::ELEMENTS_PER_SAMPLE, self.elements_per_sample);
        put_u64(&mut bytes, header::EPOCH_START_NS, self.epoch.start_ns);
        put_u64(&mut bytes, header::EPOCH_INCARNATION, self.epoch.incarnation);
        put_u32(&mut bytes, header::SEGMENT, self.segment);
        put_u32(&mut bytes, header::SESSION, self.session);
        put_u32(&mut bytes, header::SCHEMA_BYTES, self.schema_bytes);
        put_u32(&mut bytes, header::SCHEMA_CRC, self.schema_crc);
        put_u32(&mut bytes, header::STREAM_CRC, self.stream_crc);
        let crc = crc32c([&bytes[..header::HEADER_CRC.start]]);
        put_u32(&mut bytes, header::HEADER_CRC, crc);
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Every variant of [`IndexError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        if bytes.len() < HEADER_BYTES {
            return Err(IndexError::NoHeader(bytes.len()));
        }
        // Comes first, so that a flipped bit in magic or version is reported as damage and not as a foreign format:
        // the checksum of the first 64 bytes is at the same place in every version.
        let is_whole = crc32c([&bytes[..header::HEADER_CRC.start]]) == u32_at(bytes, header::HEADER_CRC);
        if &bytes[header::MAGIC] != MAGIC {
            return Err(if is_whole { IndexError::Foreign } else { IndexError::Damaged });
        }
        if !is_whole {
            return Err(IndexError::Damaged);
        }
        let version = u32_at(bytes, header::VERSION);
        if version != VERSION {
            return Err(IndexError::Version(version));
        }
        let sizes =
            (u32_at(bytes, header::HEADER_BYTES) as usize, u32_at(bytes, header::ENTRY_BYTES) as usize);
        if sizes != (HEADER_BYTES, ENTRY_BYTES) {
            return Err(IndexError::Damaged);
        }
        Ok(Self {
            epoch: Epoch {
                start_ns: u64_at(bytes, header::EPOCH_START_NS),
                incarnation: u64_at(bytes, header::EPOCH_INCARNATION),
            },
            elements_per_sample: u32_at(bytes, header::ELEMENTS_PER_SAMPLE),
            segment: u32_at(bytes, header::SEGMENT),
            session: u32_at(bytes, header::SESSION),
            schema_bytes: u32_at(bytes, header::SCHEMA_BYTES),
            schema_crc: u32_at(bytes, header::SCHEMA_CRC),
            stream_crc: u32_at(bytes, header::STREAM_CRC),
        })
    }

    /// Returns the field of an index header that identifies a stream's name.
    pub(crate) fn stream_crc_of(description: &Description) -> u32 {
        crc32c([description.name.as_str().as_bytes()])
    }

    /// Returns the owner of the index if it is not this segment of this stream.
    pub(crate) fn stranger(&self, description: &Description, segment: u32) -> Option<String> {
        if self.epoch != description.epoch {
            return Some(format!("epoch {}", self.epoch));
        }
        if self.segment != segment {
            return Some(format!("segment {}", self.segment));
        }
        let is_ours = self.stream_crc == 0 || self.stream_crc == Self::stream_crc_of(description);
        (!is_ours || self.elements_per_sample != description.schema.elements_per_sample())
            .then(|| "another stream".to_owned())
    }
}

impl Entry {
    /// Returns the entry's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        self.encode_as(KIND_BATCH)
    }

    /// Returns the bytes of the entry that acknowledges the end-of-stream marker at `offset`.
    #[must_use]
    pub fn encode_end(offset: u64, length: u64, next_index: u64) -> [u8; ENTRY_BYTES] {
        let time = WallTime::default();
        let end = Self {
            offset,
            length,
            first_index: next_index,
            next_index,
            t0: time,
            t1: time,
            samples: 0,
            data_crc: 0,
        };
        end.encode_as(KIND_END)
    }

    /// Returns the copy of the entry that the segment contains, bound to `identity`; its `data_crc` is that of the
    /// message without this copy.
    pub(crate) fn encode_in_stream(&self, identity: &[u8]) -> [u8; ENTRY_BYTES] {
        let mut bytes = self.encode_as(KIND_IN_STREAM);
        let crc = crc32c([&bytes[..entry::ENTRY_CRC.start], identity]);
        put_u32(&mut bytes, entry::ENTRY_CRC, crc);
        bytes
    }

    /// Reads such a copy; `None` if the bytes are none, damaged, or of another segment.
    pub(crate) fn decode_in_stream(bytes: &[u8], identity: &[u8]) -> Option<Self> {
        let is_ours = Self::is_in_stream(bytes)
            && crc32c([&bytes[..entry::ENTRY_CRC.start], identity]) == u32_at(bytes, entry::ENTRY_CRC);
        is_ours.then(|| Self::fields(bytes)).filter(Self::is_sound)
    }

    /// Returns whether bytes look like such a copy, intact or not.
    pub(crate) fn is_in_stream(bytes: &[u8]) -> bool {
        bytes.len() == ENTRY_BYTES && u32_at(bytes, entry::KIND) == KIND_IN_STREAM
    }

    /// Returns whether another entry describes the same batch.
    pub(crate) fn tells_the_same_as(&self, other: &Self) -> bool {
        Self { data_crc: 0, ..*self } == Self { data_crc: 0, ..*other }
    }

    /// Returns whether the numbers can be those of a batch.
    fn is_sound(&self) -> bool {
        let span = self.next_index.checked_sub(self.first_index);
        self.samples > 0 && span.is_some_and(|span| span >= u64::from(self.samples))
    }

    fn encode_as(&self, kind: u32) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put_u64(&mut bytes, entry::OFFSET, self.offset);
        put_u64(&mut bytes, entry::LENGTH, self.length);
        put_u64(&mut bytes, entry::FIRST_INDEX, self.first_index);
        put_u64(&mut bytes, entry::NEXT_INDEX, self.next_index);
        put_u64(&mut bytes, entry::T0_NS, self.t0.as_nanos().cast_unsigned());
        put_u64(&mut bytes, entry::T1_NS, self.t1.as_nanos().cast_unsigned());
        put_u32(&mut bytes, entry::SAMPLES, self.samples);
        put_u32(&mut bytes, entry::DATA_CRC, self.data_crc);
        put_u32(&mut bytes, entry::KIND, kind);
        let crc = crc32c([&bytes[..entry::ENTRY_CRC.start]]);
        put_u32(&mut bytes, entry::ENTRY_CRC, crc);
        bytes
    }

    /// Reads an entry and its kind; `None` if it is torn or damaged.
    fn decode(bytes: &[u8]) -> Option<(Self, u32)> {
        if bytes.len() != ENTRY_BYTES
            || crc32c([&bytes[..entry::ENTRY_CRC.start]]) != u32_at(bytes, entry::ENTRY_CRC)
        {
            return None;
        }
        Some((Self::fields(bytes), u32_at(bytes, entry::KIND)))
    }

    fn fields(bytes: &[u8]) -> Self {
        Self {
            offset: u64_at(bytes, entry::OFFSET),
            length: u64_at(bytes, entry::LENGTH),
            first_index: u64_at(bytes, entry::FIRST_INDEX),
            next_index: u64_at(bytes, entry::NEXT_INDEX),
            t0: WallTime::from_nanos(u64_at(bytes, entry::T0_NS).cast_signed()),
            t1: WallTime::from_nanos(u64_at(bytes, entry::T1_NS).cast_signed()),
            samples: u32_at(bytes, entry::SAMPLES),
            data_crc: u32_at(bytes, entry::DATA_CRC),
        }
    }

    /// Returns the offset of the next message.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

impl Index {
    /// Reads an index, also one that is being written or was cut off.
    ///
    /// # Errors
    /// Every variant of [`IndexError`], about its header. Torn and damaged entries are no errors: they are counted in
    /// the result.
    pub fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let mut index = Self::new(Header::decode(bytes)?);
        let mut damaged_since = 0;
        for (position, chunk) in bytes[HEADER_BYTES..].chunks(ENTRY_BYTES).enumerate() {
            match Entry::decode(chunk) {
                Some((entry, KIND_BATCH)) if index.follows(&entry) => index.entries.push(entry),
                Some((_, KIND_END)) => index.ended = true,
                _ => {
                    damaged_since += 1;
                    continue;
                }
            }
            // Damage behind the last intact entry is a torn tail; before it, it is a loss.
            index.damaged += core::mem::take(&mut damaged_since);
            index.intact_bytes = (HEADER_BYTES + (position + 1) * ENTRY_BYTES) as u64;
        }
        Ok(index)
    }

    /// Creates an index without entries.
    pub(crate) fn new(header: Header) -> Self {
        let intact_bytes = HEADER_BYTES as u64;
        Self { header, entries: Vec::new(), ended: false, intact_bytes, damaged: 0 }
    }

    /// Adds an entry if it follows the existing ones.
    pub(crate) fn take(&mut self, entry: Entry) {
        if self.follows(&entry) {
            self.entries.push(entry);
        }
    }

    /// Returns whether the batches are contiguous, without a byte between them that no entry describes.
    pub(crate) fn is_gapless(&self) -> bool {
        let first = self.entries.first().is_none_or(|it| it.offset == u64::from(self.header.schema_bytes));
        first && self.entries.windows(2).all(|pair| pair[0].end() == pair[1].offset)
    }

    /// Returns the bytes of the whole index, closed or not.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.header.encode().to_vec();
        self.entries.iter().for_each(|entry| bytes.extend(entry.encode()));
        bytes
    }

    /// Returns the number of damaged entries except those that a crash may have left unwritten: the torn last one and
    /// those of zeros only.
    pub(crate) fn spoiled_entries(&self, bytes: &[u8]) -> usize {
        let written = |chunk: &&[u8]| chunk.iter().any(|byte| *byte != 0);
        let slots = bytes[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).filter(written).count();
        slots.saturating_sub(self.entries.len() + usize::from(self.ended))
    }

    /// Returns the size of the acknowledged part of the segment, in bytes.
    #[must_use]
    pub fn acknowledged_bytes(&self) -> u64 {
        self.entries.last().map_or(u64::from(self.header.schema_bytes), Entry::end)
    }

    fn follows(&self, entry: &Entry) -> bool {
        let behind = self.entries.last().map_or(0, |last| last.next_index);
        entry.offset >= self.acknowledged_bytes() && entry.first_index >= behind && entry.is_sound()
    }
}

fn put_u32(bytes: &mut [u8], field: Range<usize>, value: u32) {
    bytes[field].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], field: Range<usize>, value: u64) {
    bytes[field].copy_from_slice(&value.to_le_bytes());
}

fn u32_at(bytes: &[u8], field: Range<usize>) -> u32 {
    u32::from_le_bytes(bytes[field].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], field: Range<usize>) -> u64 {
    u64::from_le_bytes(bytes[field].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_header() -> Header {
        let epoch = Epoch { start_ns: 1_700_000_000_000_000_000, incarnation: 0x1234_5678_9abc_def0 };
        Header {
            epoch,
            elements_per_sample: 3,
            segment: 2,
            session: 1,
            schema_bytes: 512,
            schema_crc: 7,
            stream_crc: 8,
        }
    }

    fn an_entry(position: u64) -> Entry {
        Entry {
            offset: 512 + position * 100,
            length: 100,
            first_index: position * 10,
            next_index: position * 10 + 9,
            t0: WallTime::from_nanos(-5),
            t1: WallTime::from_nanos(90),
            samples: 8,
            data_crc: 0xdead_beef,
        }
    }

    fn index(entries: u64) -> Vec<u8> {
        let mut bytes = a_header().encode().to_vec();
        (0..entries).for_each(|position| bytes.extend(an_entry(position).encode()));
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        let mut bytes = index(3);
        bytes.extend(Entry::encode_end(812, 8, 29));
        let read = Index::decode(&bytes).unwrap();
        assert_eq!(read.header, a_header());
        assert_eq!(read.entries, [an_entry(0), an_entry(1), an_entry(2)]);
        assert!(read.ended && read.damaged == 0);
        assert_eq!((read.intact_bytes, read.acknowledged_bytes()), (320, 812));
    }

    #[test]
    fn an_index_cut_at_any_byte_keeps_exactly_its_whole_entries() {
        let bytes = index(3);
        for cut in 0..bytes.len() {
            match Index::decode(&bytes[..cut]) {
                Ok(read) => assert_eq!(read.entries.len(), cut / ENTRY_BYTES - 1, "cut at {cut}"),
                Err(error) => assert_eq!(error, IndexError::NoHeader(cut)),
            }
        }
    }

    #[test]
    fn a_damaged_entry_hides_only_itself() {
        let mut bytes = index(3);
        bytes[64 + 64 + 20] ^= 1;
        let read = Index::decode(&bytes).unwrap();
        assert_eq!(read.entries, [an_entry(0), an_entry(2)]);
        assert_eq!((read.damaged, read.intact_bytes), (1, 256));
    }

    #[test]
    fn foreign_later_and_damaged_headers_are_told_apart() {
        let flipped = |offset: usize, value: u8| {
            let mut bytes = index(1);
            bytes[offset] = value;
            bytes
        };
        let written = |offset: usize, value: u8| {
            let mut bytes = flipped(offset, value);
            let crc = crc32c([&bytes[..header::HEADER_CRC.start]]);
            put_u32(&mut bytes, header::HEADER_CRC, crc);
            Index::decode(&bytes)
        };
        assert_eq!(written(0, b'X'), Err(IndexError::Foreign));
        assert_eq!(written(8, 2), Err(IndexError::Version(2)));
        for offset in [0, 8, 30] {
            assert_eq!(Index::decode(&flipped(offset, 0xaa)), Err(IndexError::Damaged), "byte {offset}");
        }
        assert_eq!(Index::decode(&[0; 128]), Err(IndexError::Damaged));
    }

    /// Returns the rows `| offset | bytes | field | …` of the page's table under `heading`.
    fn table(heading: &str) -> Vec<(String, Range<usize>)> {
        let page = include_str!("../../../../docs/reference/formats/archive.md");
        let section = page.split(heading).nth(1).expect("the page has the section");
        let section = section.split("\n#").next().unwrap();
        let row = |line: &str| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let (offset, size): (usize, usize) = (cells.first()?.parse().ok()?, cells.get(1)?.parse().ok()?);
            Some((cells.get(2)?.trim_matches('`').to_owned(), offset..offset + size))
        };
        section.lines().filter_map(row).collect()
    }

    fn named<const N: usize>(fields: [(&str, Range<usize>); N]) -> Vec<(String, Range<usize>)> {
        fields.map(|(name, range)| (name.to_owned(), range)).into()
    }

    #[test]
    fn the_format_page_draws_the_header_as_it_is() {
        let fields = named([
            ("magic", header::MAGIC),
            ("version", header::VERSION),
            ("header_bytes", header::HEADER_BYTES),
            ("entry_bytes", header::ENTRY_BYTES),
            ("elements_per_sample", header::ELEMENTS_PER_SAMPLE),
            ("epoch_start_ns", header::EPOCH_START_NS),
            ("epoch_life", header::EPOCH_INCARNATION),
            ("segment", header::SEGMENT),
            ("session", header::SESSION),
            ("schema_bytes", header::SCHEMA_BYTES),
            ("schema_crc", header::SCHEMA_CRC),
            ("stream_crc", header::STREAM_CRC),
            ("header_crc", header::HEADER_CRC),
        ]);
        assert_eq!(table("### Index header"), fields);
        assert!(fields.windows(2).all(|pair| pair[0].1.end == pair[1].1.start));
        assert_eq!(header::HEADER_CRC.end, HEADER_BYTES);
    }

    #[test]
    fn the_format_page_draws_an_entry_as_it_is() {
        let fields = named([
            ("offset", entry::OFFSET),
            ("length", entry::LENGTH),
            ("first_index", entry::FIRST_INDEX),
            ("next_index", entry::NEXT_INDEX),
            ("t0_ns", entry::T0_NS),
            ("t1_ns", entry::T1_NS),
            ("samples", entry::SAMPLES),
            ("data_crc", entry::DATA_CRC),
            ("kind", entry::KIND),
            ("entry_crc", entry::ENTRY_CRC),
        ]);
        assert_eq!(table("### Index entry"), fields);
        assert!(fields.windows(2).all(|pair| pair[0].1.end == pair[1].1.start));
        assert_eq!(entry::ENTRY_CRC.end, ENTRY_BYTES);
    }
}
