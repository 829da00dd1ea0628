//! Reasons why a change of this host is not made, or not undone.

use std::io;

/// Reason why a change was not made, or not undone.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// This process has no permission.
    #[error(
        "not permitted: run it as root (queues and settings take CAP_NET_ADMIN, a socket's buffer the right to trace its process, too, threads CAP_SYS_NICE)"
    )]
    NotPermitted,
    /// The kernel grants less.
    #[error("the kernel grants {granted} of {asked} bytes; run it as root, or raise net.core.rmem_max")]
    Clamped {
        /// Requested size, in bytes.
        asked: u64,
        /// Granted size, in bytes.
        granted: u64,
    },
    /// The value was changed by others since.
    #[error(
        "{what} is {now}, not {expected}: it was changed by another program since, so it is left unchanged"
    )]
    ChangedSince {
        /// Name of the value.
        what: String,
        /// Current value.
        now: i64,
        /// Value that this program left.
        expected: i64,
    },
    /// This program cannot make the change.
    #[error("the doctor cannot do this: {0}")]
    ByHand(String),
    /// The process, the socket, the device or its queue no longer exists.
    #[error("it no longer exists: there is nothing to change")]
    Gone,
    /// The kernel returned another error.
    #[error("the kernel refused the change")]
    Kernel(#[source] io::Error),
}

impl From<io::Error> for ChangeError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted,
            io::ErrorKind::NotFound => Self::Gone,
            // ESRCH: the process has ended.
            _ if error.raw_os_error() == Some(3) => Self::Gone,
            _ => Self::Kernel(error),
        }
    }
}

impl ChangeError {
    pub(super) fn since<T: TryInto<i64>>(what: &str, now: T, expected: T) -> Self {
        let number = |number: T| number.try_into().unwrap_or(i64::MAX);
        Self::ChangedSince { what: what.to_owned(), now: number(now), expected: number(expected) }
    }
}
