//! Descriptions: the information that a reader needs to understand a stream, as CBOR with integer keys.
//!
//! The encoding is deterministic, so that every publisher of the same schema gets the same digest; the rules
//! are in the module `cbor` and in `docs/protocol/stream.md`, section "Description".

use sample::{Schema, SchemaError, StreamName, UnknownEntries};
use units::StreamId;

use crate::cbor::key::description::PROOF;
use crate::{MAX_STATION_BYTES, cbor, identity, text};

/// Maximum size of an encoded description: 4,096 channels with 64 bytes each. Units: bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 1 << 18;
/// Maximum length of a channel name, label or label's value. Units: bytes.
pub const MAX_TEXT_BYTES: usize = 255;
/// Maximum length of a unit. Units: bytes.
pub const MAX_UNIT_BYTES: usize = 63;
/// Maximum number of labels of a stream.
pub const MAX_LABELS: usize = 256;
/// Maximum number of extents of a channel's shape; NumPy has 64, no known instrument needs more than four.
pub const MAX_SHAPE_EXTENTS: usize = 8;

/// Encoding of true (RFC 8949 §3.3).
const CBOR_TRUE: [u8; 1] = [0xf5];

/// Description of a stream.
#[derive(Clone, PartialEq, Debug)]
pub struct Description {
    /// The stream's name.
    pub name: StreamName,
    /// Meaning of the samples.
    pub schema: Schema,
    /// Port for reports and requests, on the source address of the datagrams; 0 for none.
    pub report_port: u16,
    /// The name of the host or process that publishes.
    pub station: String,
    /// Entries of later versions: [`UnknownEntries`].
    pub unknown: UnknownEntries,
}

/// Reason why a description cannot be sent or is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// More bytes than a description may have.
    #[error(
        "the description has {0} bytes, at most {MAX_DESCRIPTION_BYTES} are allowed; \
         shorten channel names and labels, or split the stream"
    )]
    TooLarge(usize),
    /// A text, list or shape beyond its limit.
    #[error("{what} is {actual} long, at most {limit} are allowed")]
    Limit {
        /// Name of the text, list or shape.
        what: &'static str,
        /// Its length.
        actual: usize,
        /// Its maximum length.
        limit: usize,
    },
    /// A text with a control character.
    #[error("{0} contains control characters; remove them")]
    ControlCharacter(&'static str),
    /// Unexpected CBOR.
    #[error("unexpected CBOR at byte {0} of the description")]
    Cbor(usize),
    /// Keys not in ascending order: repeated or unsorted.
    #[error("the keys before byte {0} of the description are not in ascending order")]
    KeyOrder(usize),
    /// A required key is missing.
    #[error("the description has no {0}")]
    Missing(&'static str),
    /// An unknown dtype code.
    #[error("unknown dtype code {0}")]
    Dtype(u8),
    /// A rate of zero, or one that is not in lowest terms.
    #[error("{0}/{1} is not a sample rate in lowest terms")]
    Rate(u32, u32),
    /// An invalid name or schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

impl Description {
    /// Returns whether the publisher says that it signs statements about its samples.
    #[must_use]
    pub fn has_proof(&self) -> bool {
        self.unknown.get(&PROOF).is_some_and(|entry| entry[..] == CBOR_TRUE)
    }

    /// Says that the publisher signs statements about its samples.
    pub fn put_proof(&mut self) {
        self.unknown.insert(PROOF, CBOR_TRUE.to_vec());
    }

    /// Encodes the description as canonical CBOR.
    ///
    /// # Errors
    /// `TooLarge`, `Limit`, `ControlCharacter` and `Schema` of [`DescriptionError`].
    pub fn encode(&self) -> Result<Vec<u8>, DescriptionError> {
        self.check()?;
        let bytes = cbor::encode_description(self);
        if bytes.len() > MAX_DESCRIPTION_BYTES {
            return Err(DescriptionError::TooLarge(bytes.len()));
        }
        Ok(bytes)
    }

    /// Decodes a description and checks everything that readers rely on.
    ///
    /// Unknown keys are skipped and kept: [`Description::encode`] writes them again.
    ///
    /// Cost: allocates in proportion to `bytes`, regardless of the lengths they claim.
    ///
    /// # Errors
    /// Every variant of [`DescriptionError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DescriptionError> {
        Self::decode_identified(bytes).map(|(description, _)| description)
    }

    /// Decodes a description; also returns the identity computed from its received bytes.
    pub(crate) fn decode_identified(bytes: &[u8]) -> Result<(Self, StreamId), DescriptionError> {
        if bytes.len() > MAX_DESCRIPTION_BYTES {
            return Err(DescriptionError::TooLarge(bytes.len()));
        }
        let (description, schema_bytes) = cbor::decode_description(bytes)?;
        description.check()?;
        let id = identity::of_encoded(&description.name, schema_bytes);
        Ok((description, id))
    }

    fn check(&self) -> Result<(), DescriptionError> {
        self.schema.check()?;
        check_text("the station's name", &self.station, MAX_STATION_BYTES)?;
        check_len("the list of labels", self.schema.labels.len(), MAX_LABELS)?;
        for (label, value) in &self.schema.labels {
            check_text("a label", label, MAX_TEXT_BYTES)?;
            check_text("a label's value", value, MAX_TEXT_BYTES)?;
        }
        for channel in &self.schema.channels {
            check_text("a channel's name", &channel.name, MAX_TEXT_BYTES)?;
            check_text("a channel's unit", &channel.unit, MAX_UNIT_BYTES)?;
            check_len("a channel's shape", channel.shape.len(), MAX_SHAPE_EXTENTS)?;
        }
        Ok(())
    }
}

fn check_text(what: &'static str, text: &str, limit: usize) -> Result<(), DescriptionError> {
    check_len(what, text.len(), limit)?;
    if text::is_plain(text) { Ok(()) } else { Err(DescriptionError::ControlCharacter(what)) }
}

const fn check_len(what: &'static str, actual: usize, limit: usize) -> Result<(), DescriptionError> {
    if actual > limit { Err(DescriptionError::Limit { what, actual, limit }) } else { Ok(()) }
}
