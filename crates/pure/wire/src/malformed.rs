//! Why a datagram is refused, and why one could not be written.

use crate::Numbered;

/// Says why bytes from the network are not a datagram of this protocol.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Malformed {
    /// What is wrong.
    pub reason: Reason,
    /// The number and position of the datagram, when its header's CRC held and it is a numbered one.
    ///
    /// With it the account names the number as lost in stage `decode`, instead of leaving it unexplained.
    pub head: Option<Numbered>,
}

/// What is wrong with a datagram; each is counted, none is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Fewer bytes than the header has.
    #[error("a datagram of {0} bytes is shorter than its header")]
    TooShort(usize),
    /// Not of this protocol at all.
    #[error("wrong magic number {0:#06x}")]
    Magic(u16),
    /// Of a version that this software does not know.
    #[error("unknown version {0} of the stream protocol")]
    Version(u8),
    /// Of a kind that this software does not know.
    #[error("unknown kind {0} of datagram")]
    Kind(u8),
    /// With flags that this software does not know.
    #[error("unknown flags {0:#06x}")]
    Flags(u16),
    /// With a critical extension that this software does not know.
    #[error("unknown critical extension {0}; update this software to read the stream")]
    Extension(u8),
    /// The header was damaged.
    #[error("wrong checksum of the header")]
    HeaderCrc,
    /// The payload was damaged.
    #[error("wrong checksum of the payload")]
    PayloadCrc,
    /// Sizes and counts do not agree with the number of bytes that arrived.
    #[error("sizes and counts do not agree with the bytes that arrived")]
    Length,
    /// A field has a value that makes no sense.
    #[error("invalid value of field `{0}`")]
    Field(&'static str),
}

/// Says that a datagram does not fit into the buffer it should be written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the datagram needs {needed} bytes of buffer")]
pub struct BufferTooSmall {
    /// The size that suffices. Units: bytes.
    pub needed: usize,
}
