//! Messages of a backfill's connection: one byte of kind, then JSON, or a piece of an answer's content.
//!
//! An answer's content is a head in JSON and the samples as they are; its BLAKE3 hash comes before it. Everything
//! that a peer sends is checked here.

use std::ops::Range;
use std::sync::Arc;

use archive::{Description, Supply};
use sample::{Block, SampleBuffer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use units::{RangeSet, WallTime};

/// Size of a piece. It is several packets; an answer is many pieces.
pub(super) const PIECE_BYTES: usize = 16 << 10;
/// Maximum number of ranges in a question.
pub(super) const MAX_RANGES: usize = 600;

const MAGIC: &[u8] = b"\0tallycast backfill 1 ";

/// A message.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Message {
    /// The near end begins: its station.
    Greeting(String),
    /// The far end is there.
    Here,
    /// The far end asks for samples.
    Want(Wanted),
    /// An answer follows, in pieces.
    Answer(Answer),
    /// The next piece of it.
    Piece(Vec<u8>),
    /// There is no answer.
    Refusal(Refusal),
}

/// Samples that are asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub(super) id: u64,
    pub(super) stream: String,
    pub(super) epoch: String,
    /// First index and count of each range.
    pub(super) samples: Vec<(u64, u64)>,
}

/// Size and hash of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) id: u64,
    pub(super) bytes: u64,
    pub(super) blake3: String,
}

/// Reason why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Refusal {
    pub(super) id: u64,
    pub(super) reason: String,
}

/// Fault of a message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Fault(pub(super) String);

fn fault(what: impl Into<String>) -> Fault {
    Fault(what.into())
}

/// Returns whether a connection's first message is that of a backfill.
pub(crate) fn is_greeting(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let json = |kind: u8, value: &dyn erased::Json| {
            let mut bytes = vec![kind];
            bytes.extend(value.json());
            bytes
        };
        match self {
            Self::Greeting(station) => [MAGIC, station.as_bytes()].concat(),
            Self::Here => vec![1],
            Self::Want(wanted) => json(2, wanted),
            Self::Answer(answer) => json(3, answer),
            Self::Piece(bytes) => [&[4], &bytes[..]].concat(),
            Self::Refusal(refusal) => json(5, refusal),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        if let Some(station) = bytes.strip_prefix(MAGIC) {
            let station = std::str::from_utf8(station).map_err(|_| fault("the station is no text"))?;
            return Ok(Self::Greeting(station.to_owned()));
        }
        let (kind, content) = bytes.split_first().ok_or_else(|| fault("an empty message"))?;
        let wrong = |error: serde_json::Error| fault(format!("a message of kind {kind}: {error}"));
        Ok(match kind {
            1 => Self::Here,
            2 => Self::Want(serde_json::from_slice(content).map_err(wrong)?),
            3 => Self::Answer(serde_json::from_slice(content).map_err(wrong)?),
            4 => Self::Piece(content.to_vec()),
            5 => Self::Refusal(serde_json::from_slice(content).map_err(wrong)?),
            kind => return Err(fault(format!("a message of unknown kind {kind}"))),
        })
    }
}

mod erased {
    /// A value as JSON.
    pub(super) trait Json {
        fn json(&self) -> Vec<u8>;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> Vec<u8> {
            serde_json::to_vec(self).expect("plain values")
        }
    }
}

/// Returns ranges as pairs of first and count.
pub(super) fn pairs(set: &RangeSet) -> Vec<(u64, u64)> {
    set.iter().map(|range| (range.start, range.end - range.start)).collect()
}

/// Returns pairs of first and count as ranges.
pub(super) fn ranges(pairs: &[(u64, u64)]) -> Result<RangeSet, Fault> {
    let range = |(start, count): &(u64, u64)| Some(*start..start.checked_add(*count)?);
    pairs.iter().map(range).collect::<Option<RangeSet>>().ok_or_else(|| fault("a range beyond all numbers"))
}

#[derive(Serialize, Deserialize)]
struct Head {
    station: String,
    description: Value,
    reaches: (u64, u64),
    answered: Vec<(u64, u64)>,
    lacking: Vec<(u64, u64)>,
}

/// Returns the content of an answer.
pub(super) fn encode(supply: &Supply, station: &str) -> Vec<u8> {
    let head = Head {
        station: station.to_owned(),
        description: supply.description.to_json(),
        reaches: (supply.reaches.start, supply.reaches.end),
        answered: pairs(&supply.answered),
        lacking: pairs(&supply.lacking),
    };
    let head = serde_json::to_vec(&head).expect("plain values");
    let mut content = (head.len() as u64).to_le_bytes().to_vec();
    content.extend(head);
    for block in &supply.blocks {
        let numbers = [block.first_index, block.t0.as_nanos().cast_unsigned(), block.samples];
        let missing = block.missing.iter().flat_map(|range| [range.start, range.end]);
        let count = block.missing.range_count() as u64;
        for number in numbers.into_iter().chain([count]).chain(missing) {
            content.extend(number.to_le_bytes());
        }
        content.extend(block.data.as_bytes());
    }
    content
}

/// Reads the content of an answer about samples of a stream.
pub(super) fn decode(content: &[u8], ours: &Arc<Description>, asked: &RangeSet) -> Result<Supply, Fault> {
    let mut rest = Rest(content);
    let head_bytes = rest.number()?;
    let head: Head =
        serde_json::from_slice(rest.take(head_bytes)?).map_err(|error| fault(error.to_string()))?;
    let description = Description::decode(head.description.to_string().as_bytes());
    let description = Arc::new(description.map_err(|error| fault(error.to_string()))?);
    if description.name != ours.name || description.epoch != ours.epoch {
        return Err(fault(format!("it is about {} in epoch {}", description.name, description.epoch)));
    }
    if description.schema != ours.schema {
        return Err(fault("the schema there is another than here"));
    }
    let (answered, lacking) = (ranges(&head.answered)?, ranges(&head.lacking)?);
    let is_within =
        |answered: &RangeSet, range: Range<u64>| answered.count_in(range.clone()) == range.end - range.start;
    let per_sample = u64::from(ours.schema.elements_per_sample());
    // Positions are counted in 64 bits, too.
    if head.reaches.0 > head.reaches.1 || head.reaches.1.checked_mul(per_sample).is_none() {
        return Err(fault("it reaches beyond all numbers"));
    }
    if answered.iter().any(|range| !is_within(asked, range)) {
        return Err(fault("it answers what was not asked"));
    }
    let elements = |range: Range<u64>| range.start / per_sample..range.end.div_ceil(per_sample);
    if lacking.iter().any(|range| !is_within(&answered, elements(range))) {
        return Err(fault("it lacks what was not asked"));
    }
    let (mut blocks, mut next) = (Vec::new(), 0);
    while !rest.0.is_empty() {
        let block = rest.block(ours)?;
        if block.first_index < next || !is_within(&answered, block.first_index..block.next_index()) {
            return Err(fault("it has samples that were not asked for, or twice"));
        }
        next = block.next_index();
        blocks.push(block);
    }
    let reaches = head.reaches.0..head.reaches.1;
    Ok(Supply { description: Arc::clone(ours), station: head.station, reaches, answered, blocks, lacking })
}

/// The unread rest of a content.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8], Fault> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.0.len());
        let (taken, rest) = self.0.split_at(count.ok_or_else(|| fault("it ends too early"))?);
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, Fault> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn block(&mut self, description: &Arc<Description>) -> Result<Block, Fault> {
        let (first_index, t0, samples, ranges) =
            (self.number()?, self.number()?.cast_signed(), self.number()?, self.number()?);
        let schema = &description.schema;
        let elements = samples.checked_mul(u64::from(schema.elements_per_sample()));
        let bytes = samples.checked_mul(schema.sample_bytes() as u64);
        let beyond = || fault("more samples than there can be");
        let (elements, bytes) = elements.zip(bytes).ok_or_else(beyond)?;
        first_index.checked_add(samples).filter(|_| samples > 0).ok_or_else(beyond)?;
        let mut missing = RangeSet::new();
        for _ in 0..ranges {
            let (start, end) = (self.number()?, self.number()?);
            if start >= end || end > elements {
                return Err(fault("an element is missing that its block cannot have"));
            }
            missing.insert(start..end);
        }
        Ok(Block {
            stream: Arc::clone(&description.name),
            schema: Arc::clone(schema),
            epoch: description.epoch,
            first_index,
            t0: WallTime::from_nanos(t0),
            samples,
            data: SampleBuffer::from_bytes(self.take(bytes)?),
            missing,
        })
    }
}

#[cfg(test)]
mod tests;
