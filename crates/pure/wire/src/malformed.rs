//! Reasons why a datagram is refused or cannot be written.

use crate::Numbered;

/// Bytes from the network that are not a datagram of this protocol.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Malformed {
    /// Reason of the refusal.
    pub reason: Reason,
    /// Number and position of a numbered datagram whose header has a correct CRC.
    ///
    /// With it the account attributes the number to stage `decode`, instead of leaving it unexplained.
    pub head: Option<Numbered>,
}

/// Reason to refuse a datagram; each is counted, none is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Fewer bytes than the header needs.
    #[error("a datagram of {0} bytes is shorter than its header")]
    TooShort(usize),
    /// Foreign to this protocol.
    #[error("wrong magic number {0:#06x}")]
    Magic(u16),
    /// Unknown version.
    #[error("unknown version {0} of the stream protocol")]
    Version(u8),
    /// Unknown kind.
    #[error("unknown datagram kind {0}")]
    Kind(u8),
    /// Unknown flags.
    #[error("unknown flags {0:#06x}")]
    Flags(u16),
    /// Unknown critical extension.
    #[error("unknown critical extension {0}; update this software to read the stream")]
    Extension(u8),
    /// The header was damaged.
    #[error("wrong header checksum")]
    HeaderCrc,
    /// The payload was damaged.
    #[error("wrong payload checksum")]
    PayloadCrc,
    /// Sizes and counts do not match the number of bytes received.
    #[error("sizes and counts do not match the bytes received")]
    Length,
    /// Invalid value of a field.
    #[error("invalid value of field `{0}`")]
    Field(&'static str),
}

/// A buffer that is too small for the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the buffer is too small: the datagram needs {needed} bytes")]
pub struct BufferTooSmall {
    /// Sufficient size. Units: bytes.
    pub needed: usize,
}
