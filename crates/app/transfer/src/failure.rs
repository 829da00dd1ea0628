//! Why a transfer ends before its end.

use std::io;

/// Why a transfer ends before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The connection broke: it is worth trying again.
    #[error("the connection broke: {0}")]
    Connection(#[source] io::Error),
    /// The other end says why it cannot go on.
    #[error("the other end reports: {0}")]
    Peer(String),
    /// The other end does not keep to the protocol: not one of ours, or one that lies.
    #[error("the other end violates the protocol: {0}")]
    Protocol(String),
    /// The two ends are of different versions.
    #[error(
        "the other end speaks version {0} of the protocol, this one version 1\nuse the same release at both ends"
    )]
    Version(u32),
    /// The receiver's directory cannot take it.
    #[error("{path}: {error}")]
    Store {
        /// Where.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// There is not enough room for what is offered.
    #[error("not enough space in {path}: {needed_bytes} bytes needed, {free_bytes} free")]
    Room {
        /// What is to come. Units: bytes.
        needed_bytes: u64,
        /// What is free. Units: bytes.
        free_bytes: u64,
        /// Where.
        path: String,
    },
    /// Somebody wished to end.
    #[error("stopped")]
    Stopped,
    /// A newer connection brings the same file: the older one is taken for dead.
    #[error("a newer connection transfers the same file")]
    TakenOver,
}

impl Failure {
    /// Tells whether another connection may succeed where this one did not.
    #[must_use]
    pub const fn is_worth_another_try(&self) -> bool {
        matches!(self, Self::Connection(_))
    }

    pub(crate) fn protocol(what: impl Into<String>) -> Self {
        Self::Protocol(what.into())
    }
}
