//! What goes over the connection: words as JSON, data as it is.
//!
//! A frame is a kind of one byte, a length of four (big-endian), and so many bytes. A word is one JSON object. Data has
//! the CRC-64/NVME of what follows it in its first eight bytes (big-endian): BLAKE3 judges a file as a whole, this
//! says at once that something was damaged on the way.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::entry::Entry;
use crate::failure::Failure;

/// The most that comes in one frame of data. Units: bytes.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// The most that a word may have. Units: bytes.
const MAX_WORD_BYTES: u32 = 4 << 20;
/// Entries or answers in one word.
pub(crate) const LISTED_TOGETHER: usize = 256;
/// Kind and length.
pub(crate) const HEADER_BYTES: usize = 5;
/// In front of data.
pub(crate) const CRC_BYTES: usize = 8;

const WORD: u8 = 1;
const DATA: u8 = 2;

/// What a sender says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromSender {
    /// The first word.
    Hello {
        protocol: String,
        version: u32,
        /// It understands `busy`, which came after version 1 began.
        #[serde(default)]
        hears_busy: bool,
    },
    /// Some of what is offered; `last` ends the list.
    Entries { entries: Vec<Entry>, last: bool },
    /// A file begins, or goes on from a byte.
    Start { index: u64, from: u64 },
    /// A file ends, and what the whole of it hashes to.
    End { index: u64, blake3: String },
    /// What is in its place already is the same.
    Same { index: u64 },
    /// A file does not come after all.
    Skip { index: u64, reason: String },
    /// Everything was sent.
    Done,
    /// It cannot go on.
    Fail { reason: String },
}

/// What a receiver says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromReceiver {
    /// What it has of some entries, in their order.
    Answers { answers: Vec<Answer> },
    /// A file is whole, and in its place.
    Verified { index: u64 },
    /// A file arrived whole and hashes to something else: it must come again.
    Damaged { index: u64 },
    /// A file is not taken.
    Refused { index: u64, reason: String },
    /// It still reads what it has of the entries: nothing else is to be concluded from its silence.
    Busy,
    /// Everything that was sent is on the disk.
    Finished,
    /// It cannot go on.
    Fail { reason: String },
}

/// What a receiver has of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// So many bytes of it, which hash to this.
    Has { bytes: u64, blake3: String },
    /// A file of this size, or a directory, is in its place and hashes to this.
    IsThere { blake3: String, may_be_replaced: bool },
    /// Nothing of it.
    Nothing,
    /// It will not take it.
    Refuses { reason: String },
}

/// A frame that arrived.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Frame<W> {
    Word(W),
    /// Data that are what was sent, in the buffer that was given.
    Data,
}

/// Returns a word's frame.
pub(crate) fn word_frame(word: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec(word).expect("words are plain data");
    let length = u32::try_from(text.len()).expect("words are short");
    [&[WORD][..], &length.to_be_bytes(), &text].concat()
}

/// Fills in what stands in front of data: `piece` begins with room for it.
pub(crate) fn seal_data(piece: &mut [u8]) {
    let crc = checksum(&piece[HEADER_BYTES + CRC_BYTES..]);
    let length = u32::try_from(piece.len() - HEADER_BYTES).expect("pieces are short");
    piece[0] = DATA;
    piece[1..HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
    piece[HEADER_BYTES..HEADER_BYTES + CRC_BYTES].copy_from_slice(&crc.to_be_bytes());
}

/// Returns how many bytes follow a header.
///
/// # Errors
/// If nothing of ours begins so.
pub(crate) fn length(header: [u8; HEADER_BYTES]) -> Result<usize, Failure> {
    let [kind, length @ ..] = header;
    let length = u32::from_be_bytes(length);
    let most = match kind {
        WORD => MAX_WORD_BYTES,
        DATA => (PIECE_BYTES + CRC_BYTES) as u32,
        _ => return Err(Failure::protocol(format!("a frame of kind {kind}"))),
    };
    if length > most || kind == DATA && length as usize <= CRC_BYTES {
        return Err(Failure::protocol(format!("a frame of {length} bytes")));
    }
    Ok(length as usize)
}

/// Reads what follows a header; data are left in `body` without what stands in front of them.
///
/// # Errors
/// If it makes no sense, or was damaged.
pub(crate) fn read<W: DeserializeOwned>(kind: u8, body: &mut Vec<u8>) -> Result<Frame<W>, Failure> {
    if kind == WORD {
        let word = serde_json::from_slice(body);
        return word
            .map(Frame::Word)
            .map_err(|error| Failure::protocol(format!("malformed message: {error}")));
    }
    let (crc, data) = body.split_first_chunk::<CRC_BYTES>().ok_or_else(|| Failure::protocol("no data"))?;
    if u64::from_be_bytes(*crc) != checksum(data) {
        // Not a lie but a fault of the way, so another connection may do better.
        let damaged = std::io::Error::new(std::io::ErrorKind::InvalidData, "data were damaged in transit");
        return Err(Failure::Connection(damaged));
    }
    body.drain(..CRC_BYTES);
    Ok(Frame::Data)
}

fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<W: DeserializeOwned>(bytes: &[u8]) -> Result<Frame<W>, Failure> {
        let header = *bytes.first_chunk().expect("a header");
        let length = length(header)?;
        read(header[0], &mut bytes[HEADER_BYTES..HEADER_BYTES + length].to_vec())
    }

    #[test]
    fn words_and_data_read_as_they_were_written() {
        let word = FromSender::Start { index: 3, from: 1 << 40 };
        assert_eq!(parse(&word_frame(&word)).unwrap(), Frame::Word(word));
        let mut piece = [&[0; HEADER_BYTES + CRC_BYTES][..], b"samples"].concat();
        seal_data(&mut piece);
        assert!(matches!(parse::<FromSender>(&piece), Ok(Frame::Data)));
        piece[15] ^= 1;
        let damaged = parse::<FromSender>(&piece).unwrap_err();
        assert!(damaged.is_worth_another_try(), "{damaged}");
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        for header in [[0, 0, 0, 0, 1], [3, 0, 0, 0, 1], [1, 255, 0, 0, 0], [2, 0, 0, 0, 8], [2, 0, 16, 0, 9]]
        {
            assert!(length(header).is_err(), "{header:?}");
        }
        let mut nonsense = b"{\"fly\":1}".to_vec();
        assert!(read::<FromSender>(WORD, &mut nonsense).is_err());
    }
}
