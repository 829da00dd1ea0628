//! Frames of the connection: messages as JSON, data as binary.
//!
//! A frame is a kind of one byte, a length of four bytes (big-endian), and the content of that length. A message is
//! one JSON object. Data begin with the CRC-64/NVME of their content in eight bytes (big-endian): BLAKE3 verifies a
//! file as a whole, the CRC detects damage in transit at once.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::entry::Entry;
use crate::failure::Failure;
use crate::opening::Place;
use crate::order::Order;

/// Maximum size of the content of a data frame. Units: bytes.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// Maximum size of a message. Units: bytes.
const MAX_WORD_BYTES: u32 = 4 << 20;
/// Maximum number of entries or answers in one message.
pub(crate) const LISTED_TOGETHER: usize = 256;
/// Size of kind and length. Units: bytes.
pub(crate) const HEADER_BYTES: usize = 5;
/// Size of the CRC in front of data. Units: bytes.
pub(crate) const CRC_BYTES: usize = 8;

const WORD: u8 = 1;
const DATA: u8 = 2;

/// Message of a sender.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromSender {
    /// First message.
    Hello {
        protocol: String,
        version: u32,
        /// True if it understands `busy`, which was added after version 1.
        #[serde(default)]
        hears_busy: bool,
    },
    /// First message of a stream of a striped transfer.
    Join { protocol: String, version: u32, place: Place },
    /// First message of a client that orders a transfer between two other hosts.
    Order { protocol: String, version: u32, order: Order },
    /// Part of the list of offered entries; `last` ends the list.
    Entries { entries: Vec<Entry>, last: bool },
    /// A file begins, or continues from a byte.
    Start { index: u64, from: u64 },
    /// A file ends, with the hash of the whole.
    End { index: u64, blake3: String },
    /// The file in its place is the same.
    Same { index: u64 },
    /// A file will not come after all.
    Skip { index: u64, reason: String },
    /// Everything was sent.
    Done,
    /// The sender ends with a failure.
    Fail { reason: String },
}

/// Message of a receiver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromReceiver {
    /// A stream of a striped transfer is taken.
    Joined,
    /// State of some entries, in their order.
    Answers { answers: Vec<Answer> },
    /// A file is complete, and in its place.
    Verified { index: u64 },
    /// A file arrived complete with a wrong hash: it must come again.
    Damaged { index: u64 },
    /// A file is not accepted.
    Refused { index: u64, reason: String },
    /// The receiver still reads its part of the entries: its silence means nothing else.
    Busy,
    /// Everything that was sent is on the disk.
    Finished,
    /// The receiver ends with a failure.
    Fail { reason: String },
}

/// State of an entry at the receiver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Number of bytes that it has, and their hash.
    Has { bytes: u64, blake3: String },
    /// A file of this size, or a directory, is in its place and has this hash.
    IsThere { blake3: String, may_be_replaced: bool },
    /// It has nothing of the entry.
    Nothing,
    /// It refuses the entry.
    Refuses { reason: String },
}

/// Frame that was received.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Frame<W> {
    Word(W),
    /// Verified data, in the given buffer.
    Data,
}

/// Returns the frame of a message.
pub(crate) fn word_frame(word: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec(word).expect("words are plain data");
    let length = u32::try_from(text.len()).expect("words are short");
    [&[WORD][..], &length.to_be_bytes(), &text].concat()
}

/// Fills in the header and CRC of data: `piece` begins with room for them.
pub(crate) fn seal_data(piece: &mut [u8]) {
    let crc = checksum(&piece[HEADER_BYTES + CRC_BYTES..]);
    let length = u32::try_from(piece.len() - HEADER_BYTES).expect("pieces are short");
    piece[0] = DATA;
    piece[1..HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
    piece[HEADER_BYTES..HEADER_BYTES + CRC_BYTES].copy_from_slice(&crc.to_be_bytes());
}

/// Returns the number of bytes that follow a header.
///
/// # Errors
/// If the header is invalid.
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

/// Reads the content behind a header; data are left in `body` without their CRC.
///
/// # Errors
/// If it is invalid, or was damaged.
pub(crate) fn read<W: DeserializeOwned>(kind: u8, body: &mut Vec<u8>) -> Result<Frame<W>, Failure> {
    if kind == WORD {
        let word = serde_json::from_slice(body);
        return word
            .map(Frame::Word)
            .map_err(|error| Failure::protocol(format!("malformed message: {error}")));
    }
    let (crc, data) = body.split_first_chunk::<CRC_BYTES>().ok_or_else(|| Failure::protocol("no data"))?;
    if u64::from_be_bytes(*crc) != checksum(data) {
        // No violation but damage on the path, so another connection may succeed.
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
