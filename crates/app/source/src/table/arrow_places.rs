//! Places in an Arrow file: messages and buffers that lie beyond their bounds are refused before the library reads them.
//!
//! `arrow-ipc` panics on them, and allocates as much as a compressed buffer claims. Everything else that is wrong it
//! refuses itself.
//!
//! Source: Apache Arrow columnar format, "Encapsulated message format", "IPC File Format"; `Message.fbs`, `File.fbs`.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use arrow_ipc::reader::read_footer_length;
use arrow_ipc::{Block, Message, root_as_footer, root_as_message};
use arrow_schema::ArrowError;

use super::TableError;
use super::arrow_file::{CONTINUATION, MAGIC};

/// Most bytes that a byte of a compressed buffer becomes: zstd makes a block of 128 KiB of four; LZ4 makes fewer.
const MOST_UNPACKED: u64 = 1 << 15;
/// Footer's length and the magic letters, at the end of a file.
const TAIL_BYTES: u64 = 10;

/// Checks the places of all messages and their buffers.
pub(super) fn check(file: &File) -> Result<(), TableError> {
    let size = file.metadata()?.len();
    let mut reader = Places(BufReader::new(file.try_clone()?));
    if reader.bytes(0, MAGIC.len() as u64)? == MAGIC {
        reader.check_file(size)
    } else {
        reader.check_stream(size)
    }
}

struct Places(BufReader<File>);

impl Places {
    /// Reads the bytes at a place: fewer where the file ends.
    fn bytes(&mut self, at: u64, length: u64) -> Result<Vec<u8>, TableError> {
        self.0.seek(SeekFrom::Start(at))?;
        let mut bytes = Vec::new();
        self.0.by_ref().take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Checks a stream up to its end, or to a message that the library refuses or does not reach.
    fn check_stream(&mut self, size: u64) -> Result<(), TableError> {
        let mut at = 0;
        while let Some((metadata, behind)) = self.next_metadata(at)? {
            let Ok(message) = root_as_message(&metadata) else { return Ok(()) };
            let Ok(body) = u64::try_from(message.bodyLength()) else { return Err(damaged()) };
            self.check_buffers(&message, behind, body)?;
            at = behind.saturating_add(body);
            if at > size {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the metadata of a stream's message, and returns the place behind it; `None` at the end.
    fn next_metadata(&mut self, at: u64) -> Result<Option<(Vec<u8>, u64)>, TableError> {
        let head = self.bytes(at, 8)?;
        let skipped = if head.starts_with(CONTINUATION) { 4 } else { 0 };
        let Some(length) = head.get(skipped..skipped + 4) else { return Ok(None) };
        let length = i32::from_le_bytes(length.try_into().expect("four bytes"));
        let Some(length) = u64::try_from(length).ok().filter(|length| *length > 0) else { return Ok(None) };
        let begin = at + skipped as u64 + 4;
        let metadata = self.bytes(begin, length)?;
        Ok((metadata.len() as u64 == length).then_some((metadata, begin + length)))
    }

    fn check_file(&mut self, size: u64) -> Result<(), TableError> {
        let end = size.checked_sub(TAIL_BYTES).ok_or_else(damaged)?;
        let tail = self.bytes(end, TAIL_BYTES)?;
        let length = read_footer_length(tail.try_into().map_err(|_| damaged())?)? as u64;
        let footer = self.bytes(end.checked_sub(length).ok_or_else(damaged)?, length)?;
        let footer = root_as_footer(&footer).map_err(|_| damaged())?;
        for block in [footer.dictionaries(), footer.recordBatches()].into_iter().flatten().flatten() {
            self.check_block(block, size)?;
        }
        Ok(())
    }

    fn check_block(&mut self, block: &Block, size: u64) -> Result<(), TableError> {
        let unsigned = |value: i64| u64::try_from(value).map_err(|_| damaged());
        let (at, body) = (unsigned(block.offset())?, unsigned(block.bodyLength())?);
        let length = unsigned(block.metaDataLength().into())?;
        let behind = at.saturating_add(length);
        if behind.saturating_add(body) > size {
            return Err(damaged());
        }
        let metadata = self.bytes(at, length)?;
        let head = if metadata.starts_with(CONTINUATION) { 8 } else { 4 };
        let message = metadata.get(head..).filter(|_| length >= 8).ok_or_else(damaged)?;
        let message = root_as_message(message).map_err(|_| damaged())?;
        self.check_buffers(&message, behind, body)
    }

    /// Checks that the buffers of a batch lie in its body, and that a compressed one claims no impossible size.
    fn check_buffers(&mut self, message: &Message<'_>, body_at: u64, body: u64) -> Result<(), TableError> {
        let batch = message.header_as_record_batch();
        let Some(batch) = batch.or_else(|| message.header_as_dictionary_batch()?.data()) else {
            return Ok(());
        };
        for buffer in batch.buffers().into_iter().flatten() {
            let place = u64::try_from(buffer.offset()).ok().zip(u64::try_from(buffer.length()).ok());
            let inside = place.filter(|(offset, length)| offset.saturating_add(*length) <= body);
            let (offset, length) = inside.ok_or_else(damaged)?;
            if batch.compression().is_some() && length >= 8 {
                let unpacked = self.bytes(body_at.saturating_add(offset), 8)?;
                // A stream may end within the body, which the library says.
                let Ok(unpacked) = <[u8; 8]>::try_from(unpacked) else { return Ok(()) };
                let unpacked = u64::try_from(i64::from_le_bytes(unpacked)).unwrap_or(0);
                if unpacked > length.saturating_mul(MOST_UNPACKED) {
                    return Err(damaged());
                }
            }
        }
        Ok(())
    }
}

fn damaged() -> TableError {
    ArrowError::ParseError("its footer or a message is damaged".to_owned()).into()
}
