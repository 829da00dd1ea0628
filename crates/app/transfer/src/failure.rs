//! Failures of a transfer.

use std::io;

/// Reason why a transfer ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The connection broke: another attempt may succeed.
    #[error("the connection broke: {0}")]
    Connection(#[source] io::Error),
    /// The other end reported a failure.
    #[error("the other end reports: {0}")]
    Peer(String),
    /// The other end violates the protocol: a foreign program, or a faulty one.
    #[error("the other end violates the protocol: {0}")]
    Protocol(String),
    /// This end does not do what the connection is for.
    #[error("{0}")]
    Unwanted(&'static str),
    /// The receiver takes no parallel streams.
    #[error("the receiver takes one stream only: {0}\nuse the same release at both ends, or omit --streams")]
    OneStream(String),
    /// The two ends are of different versions.
    #[error(
        "the other end speaks version {0} of the protocol, this one version 1\nuse the same release at both ends"
    )]
    Version(u32),
    /// The receiver's directory cannot store it.
    #[error("{path}: {error}")]
    Store {
        /// Path of the file.
        path: String,
        /// Error of the system.
        error: io::Error,
    },
    /// There is not enough space for the offered files.
    #[error("not enough space in {path}: {needed_bytes} bytes needed, {free_bytes} free")]
    Room {
        /// Size of the files still to come. Units: bytes.
        needed_bytes: u64,
        /// Free space. Units: bytes.
        free_bytes: u64,
        /// Path of the directory.
        path: String,
    },
    /// The transfer was stopped on request.
    #[error("stopped")]
    Stopped,
    /// A newer connection transfers the same file: the older one is considered dead.
    #[error("a newer connection transfers the same file")]
    TakenOver,
}

impl Failure {
    /// Returns whether another connection may succeed where this one did not.
    #[must_use]
    pub const fn is_worth_another_try(&self) -> bool {
        matches!(self, Self::Connection(_))
    }

    pub(crate) fn protocol(what: impl Into<String>) -> Self {
        Self::Protocol(what.into())
    }
}
