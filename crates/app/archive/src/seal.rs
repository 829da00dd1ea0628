//! Seal of a Parquet segment: checksums over the whole file, so that damage is detected and never decoded.
//!
//! Parquet's own page checksums are optional, few writers have them, and they do not cover headers and footer. A seal
//! is between the last page and the footer, which readers of Parquet skip: the file stays standard Parquet. Blocks of
//! [`BLOCK_BYTES`] are checked one by one when they are read, so a short read of a large file stays short. The layout
//! is drawn in `docs/reference/formats/archive.md`; a test compares the page with `layout`. Start with [`Sealing`] and
//! [`Sealed`].

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::checksum::crc32c;
use crate::error::ArchiveError;
use crate::store::{Readable, Store};

/// Size of the block that a checksum covers: pages of narrow columns have about this size.
pub(crate) const BLOCK_BYTES: usize = 16 << 10;
/// Size of the end of a Parquet file behind the footer's metadata: their length, and the format's name.
/// Source: Apache Parquet, "File Format".
const PARQUET_END_BYTES: usize = 8;
const PARQUET_MAGIC: &[u8; 4] = b"PAR1";

/// Offsets of the trailer's fields, little-endian, behind the checksums of the blocks.
mod layout {
    use core::ops::Range;

    /// Last bytes of every seal.
    pub(super) const MAGIC: &[u8; 8] = b"TALLYSUM";
    /// Size of the trailer.
    pub(super) const TRAILER_BYTES: usize = 32;

    pub(super) const DATA_BYTES: Range<usize> = 0..8;
    pub(super) const BLOCK_BYTES: Range<usize> = 8..12;
    pub(super) const BLOCKS: Range<usize> = 12..16;
    pub(super) const FOOTER_CRC: Range<usize> = 16..20;
    pub(super) const SEAL_CRC: Range<usize> = 20..24;
    pub(super) const MAGIC_PLACE: Range<usize> = 24..32;
}

use layout::{MAGIC, TRAILER_BYTES};

/// Writer that passes a Parquet file on to its target and seals it.
pub(crate) struct Sealing<W> {
    target: W,
    /// Checksums of the completed blocks, and of the last of `partial` bytes.
    blocks: Vec<u32>,
    /// Content of the last block.
    partial: Vec<u8>,
    written: u64,
    /// End of the file with the footer, held back from [`Sealing::hold`] on.
    held: Option<Vec<u8>>,
}

impl<W: Write> Sealing<W> {
    pub(crate) fn new(target: W) -> Self {
        let partial = Vec::with_capacity(BLOCK_BYTES);
        Self { target, blocks: Vec::new(), partial, written: 0, held: None }
    }

    /// Holds back all following bytes: the end of the file, until the start of its footer is known.
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Writes the seal and the footer behind it, and returns the target.
    ///
    /// # Panics
    /// If the bytes held back do not end as Parquet does.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let held = self.held.take().expect("the end of a file is held back");
        let footer_bytes = footer_bytes(&held).filter(|size| *size <= held.len());
        let footer_at = held.len() - footer_bytes.expect("a written file ends with its footer");
        self.pass(&held[..footer_at])?;
        if !self.partial.is_empty() {
            self.blocks.push(crc32c([&self.partial[..]]));
        }
        let seal = encode(&self.blocks, self.written, &held[footer_at..]);
        self.target.write_all(&seal)?;
        self.target.write_all(&held[footer_at..])?;
        Ok(self.target)
    }

    fn pass(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.target.write_all(bytes)?;
        self.written += bytes.len() as u64;
        while !bytes.is_empty() {
            let (block, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.partial.len()));
            self.partial.extend_from_slice(block);
            if self.partial.len() == BLOCK_BYTES {
                self.blocks.push(crc32c([&self.partial[..]]));
                self.partial.clear();
            }
            bytes = rest;
        }
        Ok(())
    }
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.held {
            Some(held) => held.extend_from_slice(bytes),
            None => self.pass(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

/// Returns the length of the footer with its metadata, from the last bytes of a file.
fn footer_bytes(end: &[u8]) -> Option<usize> {
    let end: &[u8; PARQUET_END_BYTES] = end.last_chunk()?;
    let (size, magic) = end.split_first_chunk::<4>()?;
    (magic == PARQUET_MAGIC).then(|| PARQUET_END_BYTES.saturating_add(u32::from_le_bytes(*size) as usize))
}

fn encode(blocks: &[u32], data_bytes: u64, footer: &[u8]) -> Vec<u8> {
    let mut seal: Vec<u8> = blocks.iter().flat_map(|crc| crc.to_le_bytes()).collect();
    let count = u32::try_from(blocks.len()).expect("a segment is smaller than 64 TiB");
    let mut trailer = [0; TRAILER_BYTES];
    trailer[layout::DATA_BYTES].copy_from_slice(&data_bytes.to_le_bytes());
    trailer[layout::BLOCK_BYTES].copy_from_slice(&(BLOCK_BYTES as u32).to_le_bytes());
    trailer[layout::BLOCKS].copy_from_slice(&count.to_le_bytes());
    trailer[layout::FOOTER_CRC].copy_from_slice(&crc32c([footer]).to_le_bytes());
    let crc = crc32c([&seal[..], &trailer[..layout::SEAL_CRC.start]]);
    trailer[layout::SEAL_CRC].copy_from_slice(&crc.to_le_bytes());
    trailer[layout::MAGIC_PLACE].copy_from_slice(MAGIC);
    seal.extend(trailer);
    seal
}

/// Sealed file opened for reading: every byte is checked before it is returned.
#[derive(Clone)]
pub(crate) struct Sealed {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    file: Box<dyn Readable>,
    size_bytes: u64,
    data_bytes: u64,
    blocks: Vec<u32>,
    footer_at: u64,
    footer: Bytes,
    /// Block read last: where a page ends the next one begins.
    last: Mutex<Option<(u64, Bytes)>>,
}

impl Sealed {
    /// Opens a file, and checks its seal and its footer.
    ///
    /// # Errors
    /// [`ArchiveError::Segment`] if either is damaged or missing; the error of the disk.
    pub(crate) fn open(store: &dyn Store, path: &Path) -> Result<Self, ArchiveError> {
        let file = store.open(path)?;
        let size_bytes = file.size_bytes()?;
        let read = |from: u64, to: u64| -> Result<Vec<u8>, ArchiveError> {
            let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(usize::MAX)];
            file.read_at(from, &mut bytes)?;
            Ok(bytes)
        };
        let damaged = || ArchiveError::segment(path, "its end is damaged: no footer with a seal before it");
        let end_at = size_bytes.checked_sub(PARQUET_END_BYTES as u64).ok_or_else(damaged)?;
        let footer_bytes = footer_bytes(&read(end_at, size_bytes)?).ok_or_else(damaged)? as u64;
        let footer_at = size_bytes.checked_sub(footer_bytes).ok_or_else(damaged)?;
        let trailer_at = footer_at.checked_sub(TRAILER_BYTES as u64).ok_or_else(damaged)?;
        let trailer = read(trailer_at, footer_at)?;
        let footer = read(footer_at, size_bytes)?;
        let blocks_bytes = blocks_bytes(&trailer, trailer_at).ok_or_else(damaged)?;
        let blocks = read(trailer_at - blocks_bytes, trailer_at)?;
        let crc = crc32c([&blocks[..], &trailer[..layout::SEAL_CRC.start]]);
        if crc != u32_at(&trailer, layout::SEAL_CRC)
            || crc32c([&footer[..]]) != u32_at(&trailer, layout::FOOTER_CRC)
        {
            return Err(damaged());
        }
        let inner = Inner {
            path: path.to_owned(),
            file,
            size_bytes,
            data_bytes: trailer_at - blocks_bytes,
            blocks: blocks.chunks_exact(4).map(|crc| u32_at(crc, 0..4)).collect(),
            footer_at,
            footer: footer.into(),
            last: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.inner.path
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.inner.size_bytes
    }

    /// Returns the bytes at an offset, up to the end of its block; empty behind the end.
    fn read_on(&self, offset: u64) -> io::Result<Bytes> {
        let inner = &*self.inner;
        if let Some(within) = offset.checked_sub(inner.footer_at) {
            let within = usize::try_from(within).unwrap_or(usize::MAX).min(inner.footer.len());
            return Ok(inner.footer.slice(within..));
        }
        if offset >= inner.data_bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the footer refers to a page that does not exist",
            ));
        }
        let number = offset / BLOCK_BYTES as u64;
        let block = self.block(number)?;
        Ok(block.slice(usize::try_from(offset % BLOCK_BYTES as u64).expect("within a block")..))
    }

    fn block(&self, number: u64) -> io::Result<Bytes> {
        let inner = &*self.inner;
        let last = || inner.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, block)) = last().as_ref().filter(|(last, _)| *last == number) {
            return Ok(block.clone());
        }
        let start = number * BLOCK_BYTES as u64;
        let size = (inner.data_bytes - start).min(BLOCK_BYTES as u64);
        let mut block = vec![0; usize::try_from(size).expect("a block is small")];
        inner.file.read_at(start, &mut block).map_err(|error| {
            let is_damage = error.is_damage();
            io::Error::new(if is_damage { io::ErrorKind::InvalidData } else { io::ErrorKind::Other }, error)
        })?;
        let expected = usize::try_from(number).ok().and_then(|number| inner.blocks.get(number));
        if expected != Some(&crc32c([&block[..]])) {
            let said = format!("the part from byte {start} on does not match its checksum");
            return Err(io::Error::new(io::ErrorKind::InvalidData, said));
        }
        let block = Bytes::from(block);
        *last() = Some((number, block.clone()));
        Ok(block)
    }
}

/// Returns the length of the checksums before a trailer; `None` if it is no trailer, or another file's.
fn blocks_bytes(trailer: &[u8], trailer_at: u64) -> Option<u64> {
    let data: [u8; 8] = trailer[layout::DATA_BYTES].try_into().ok()?;
    let (data_bytes, blocks) = (u64::from_le_bytes(data), u64::from(u32_at(trailer, layout::BLOCKS)));
    let is_seal = trailer[layout::MAGIC_PLACE] == *MAGIC
        && u32_at(trailer, layout::BLOCK_BYTES) as usize == BLOCK_BYTES
        && blocks == data_bytes.div_ceil(BLOCK_BYTES as u64)
        && data_bytes.checked_add(4 * blocks) == Some(trailer_at);
    is_seal.then_some(4 * blocks)
}

fn u32_at(bytes: &[u8], field: core::ops::Range<usize>) -> u32 {
    u32::from_le_bytes(bytes[field].try_into().expect("four bytes"))
}

impl Length for Sealed {
    fn len(&self) -> u64 {
        self.inner.size_bytes
    }
}

impl ChunkReader for Sealed {
    type T = ReadFrom;

    fn get_read(&self, start: u64) -> Result<ReadFrom, ParquetError> {
        Ok(ReadFrom { file: self.clone(), offset: start, ahead: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if self.inner.size_bytes.checked_sub(start).is_none_or(|left| left < length as u64) {
            return Err(ParquetError::EOF(format!("{} is cut", self.inner.path.display())));
        }
        let mut bytes = vec![0; length];
        self.get_read(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Reader of a sealed file from an offset on.
pub(crate) struct ReadFrom {
    file: Sealed,
    offset: u64,
    /// Bytes that were read and checked, and not yet returned.
    ahead: Bytes,
}

impl Read for ReadFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() {
            self.ahead = self.file.read_on(self.offset)?;
        }
        let len = buffer.len().min(self.ahead.len());
        buffer[..len].copy_from_slice(&self.ahead.split_to(len));
        self.offset += len as u64;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FileStore;

    /// Returns a file of three blocks and a part, with a short footer; its content need not be Parquet.
    fn sealed(folder: &Path, data_bytes: usize) -> (FileStore, Vec<u8>) {
        let data: Vec<u8> = (0..data_bytes).map(|at| (at * at % 251) as u8).collect();
        let mut sealing = Sealing::new(Vec::new());
        // Writes of any size, not held back before the last page, give the same seal.
        for piece in data.chunks(7_001) {
            sealing.write_all(piece).unwrap();
        }
        sealing.hold();
        sealing.write_all(b"the index of pages").unwrap();
        sealing.write_all(b"footer\x06\0\0\0PAR1").unwrap();
        let file = sealing.finish().unwrap();
        std::fs::write(folder.join("sealed"), &file).unwrap();
        (FileStore::create(folder).unwrap(), [&data[..], b"the index of pages"].concat())
    }

    fn open(store: &FileStore) -> Result<Sealed, ArchiveError> {
        Sealed::open(store, Path::new("sealed"))
    }

    #[test]
    fn what_was_sealed_is_read_as_it_was_whatever_its_size() {
        let folder = tempfile::tempdir().unwrap();
        for data_bytes in [0, 1, BLOCK_BYTES - 18, BLOCK_BYTES - 17, 3 * BLOCK_BYTES + 100] {
            let (store, data) = sealed(folder.path(), data_bytes);
            let file = open(&store).unwrap();
            assert_eq!(file.get_bytes(0, data.len()).unwrap(), data);
            let footer_at = file.len() - 14;
            assert_eq!(file.get_bytes(footer_at, 14).unwrap(), &b"footer\x06\0\0\0PAR1"[..]);
            let mut behind = Vec::new();
            file.get_read(footer_at + 6).unwrap().read_to_end(&mut behind).unwrap();
            assert_eq!(behind, b"\x06\0\0\0PAR1");
            assert!(file.get_bytes(footer_at, 15).is_err());
            // The seal belongs to no page.
            assert!(file.get_bytes(data.len() as u64, 1).is_err());
        }
    }

    #[test]
    fn a_flipped_bit_costs_its_own_block_or_the_whole_file_and_is_never_read() {
        let folder = tempfile::tempdir().unwrap();
        let (store, data) = sealed(folder.path(), 3 * BLOCK_BYTES + 100);
        let whole = std::fs::read(folder.path().join("sealed")).unwrap();
        for at in (0..data.len()).step_by(1_009).chain(data.len() - 2..whole.len()) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(folder.path().join("sealed"), &damaged).unwrap();
            if at >= data.len() {
                let said = open(&store).err().expect("seal and footer are checked first").to_string();
                assert!(said.contains("its end is damaged"), "{said}");
                continue;
            }
            let file = open(&store).unwrap();
            for (number, block) in data.chunks(BLOCK_BYTES).enumerate() {
                let read = file.get_bytes((number * BLOCK_BYTES) as u64, block.len());
                match number == at / BLOCK_BYTES {
                    true => assert!(read.unwrap_err().to_string().contains("checksum"), "byte {at}"),
                    false => assert_eq!(read.unwrap(), block, "byte {at}"),
                }
            }
        }
    }

    #[test]
    fn every_truncation_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = sealed(folder.path(), 200);
        let whole = std::fs::read(folder.path().join("sealed")).unwrap();
        for len in 0..whole.len() {
            std::fs::write(folder.path().join("sealed"), &whole[..len]).unwrap();
            assert!(open(&store).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn the_format_page_draws_the_trailer_as_it_is() {
        let page = include_str!("../../../../docs/reference/formats/archive.md");
        let section = page.split("### Seal").nth(1).expect("the page has the section");
        let row = |line: &str| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let (offset, size): (usize, usize) = (cells.first()?.parse().ok()?, cells.get(1)?.parse().ok()?);
            Some((cells.get(2)?.trim_matches('`').to_owned(), offset..offset + size))
        };
        let table: Vec<_> = section.split("\n#").next().unwrap().lines().filter_map(row).collect();
        let fields = [
            ("data_bytes", layout::DATA_BYTES),
            ("block_bytes", layout::BLOCK_BYTES),
            ("blocks", layout::BLOCKS),
            ("footer_crc", layout::FOOTER_CRC),
            ("seal_crc", layout::SEAL_CRC),
            ("magic", layout::MAGIC_PLACE),
        ];
        let fields: Vec<_> = fields.map(|(name, range)| (name.to_owned(), range)).into();
        assert_eq!(table, fields);
        assert!(fields.windows(2).all(|pair| pair[0].1.end == pair[1].1.start));
        assert_eq!(layout::MAGIC_PLACE.end, TRAILER_BYTES);
        assert!(section.contains(&format!("{BLOCK_BYTES}")));
    }
}
