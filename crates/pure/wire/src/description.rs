//! Descriptions: what a reader must know to understand a stream, as CBOR with integer keys.
//!
//! The encoding is deterministic, so that every publisher of the same schema gets the same digest; the rules
//! are in the module `cbor` and in `docs/protocol/stream.md`, section "Description".

use sample::{Schema, SchemaError, StreamName, UnknownEntries};
use units::StreamId;

use crate::{MAX_STATION_BYTES, cbor, identity, text};

/// The largest encoded description: 4,096 channels with 64 bytes each.
pub const MAX_DESCRIPTION_BYTES: usize = 1 << 18;
/// The longest channel name, label or label's value in bytes.
pub const MAX_TEXT_BYTES: usize = 255;
/// The longest unit in bytes.
pub const MAX_UNIT_BYTES: usize = 63;
/// The most labels of a stream.
pub const MAX_LABELS: usize = 256;
/// The most extents of a channel's shape; NumPy has 64, no instrument that we know needs more than four.
pub const MAX_SHAPE_EXTENTS: usize = 8;

/// What a reader must know about a stream.
#[derive(Clone, PartialEq, Debug)]
pub struct Description {
    /// The stream's name.
    pub name: StreamName,
    /// What the samples mean.
    pub schema: Schema,
    /// The port, on the address that the datagrams come from, for reports and requests; 0 for none.
    pub report_port: u16,
    /// The name of the host or process that publishes.
    pub station: String,
    /// See [`UnknownEntries`].
    pub unknown: UnknownEntries,
}

/// Says why a description cannot be sent or is not believed.
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
        /// What is too long.
        what: &'static str,
        /// How long it is.
        actual: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A text with a control character.
    #[error("{0} contains control characters; remove them")]
    ControlCharacter(&'static str),
    /// Not the CBOR that was expected.
    #[error("unexpected CBOR at byte {0} of the description")]
    Cbor(usize),
    /// Keys that do not ascend: doubled or unsorted.
    #[error("the keys before byte {0} of the description do not ascend")]
    KeyOrder(usize),
    /// A key that must be there is not.
    #[error("the description has no {0}")]
    Missing(&'static str),
    /// A code that names no dtype.
    #[error("unknown dtype code {0}")]
    Dtype(u8),
    /// A rate of zero, or one that is not in lowest terms.
    #[error("{0}/{1} is not a sample rate in lowest terms")]
    Rate(u32, u32),
    /// A name or a schema that cannot be.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

impl Description {
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

    /// Decodes a description and checks all that readers rely on.
    ///
    /// Unknown keys are passed over and kept: a later version may say more, and [`Description::encode`] says it again.
    ///
    /// Cost: allocates in proportion to `bytes`, whatever lengths they claim.
    ///
    /// # Errors
    /// Every variant of [`DescriptionError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DescriptionError> {
        Self::decode_identified(bytes).map(|(description, _)| description)
    }

    /// Decodes a description; also returns the identity that follows from its bytes as they lie.
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
