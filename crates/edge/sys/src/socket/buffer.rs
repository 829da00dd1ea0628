//! Socket buffers: requested, clamped by the kernel, read back, and described.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{SockRef, Socket};
use units::text::exact_size;

use crate::host;

/// Maximum request: the kernel doubles it and keeps it in an `int`.
const MAX_ASKED_BYTES: u64 = i32::MAX as u64 / 2;

/// One of a socket's two buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// `SO_RCVBUF`, limited by `net.core.rmem_max`.
    Receive,
    /// `SO_SNDBUF`, limited by `net.core.wmem_max`.
    Send,
}

/// Requested and granted size of a buffer. `Display` describes both, with the remedy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// The buffer described.
    pub direction: Direction,
    /// Requested size.
    pub asked_bytes: u64,
    /// Size as read back. The kernel doubles the request and charges its own overhead against it: a
    /// datagram of 1,472 bytes takes about 2,304.
    pub effective_bytes: u64,
    /// Limit without privilege, before doubling; `None` if it could not be read.
    pub limit_bytes: Option<u64>,
}

impl Buffer {
    /// Requests a receive buffer for an open socket, beyond the limit where that is permitted.
    ///
    /// # Errors
    /// The kernel's error, such as for a descriptor that is not a socket.
    pub fn ask_receive(socket: impl AsFd, asked_bytes: usize) -> io::Result<Self> {
        Self::request(&SockRef::from(&socket), Direction::Receive, asked_bytes)
    }

    /// Requests `asked_bytes`, beyond the limit where that is permitted, and reads back the granted
    /// size.
    pub(crate) fn request(socket: &Socket, direction: Direction, asked_bytes: usize) -> io::Result<Self> {
        let asked_bytes = u64::try_from(asked_bytes).unwrap_or(u64::MAX).min(MAX_ASKED_BYTES);
        let asked = usize::try_from(asked_bytes).expect("at most i32::MAX");
        let (forced, limit) = match direction {
            Direction::Receive => {
                (setsockopt(socket, sockopt::RcvBufForce, &asked), host::receive_buffer_limit())
            }
            Direction::Send => (setsockopt(socket, sockopt::SndBufForce, &asked), host::send_buffer_limit()),
        };
        match (forced, direction) {
            (Ok(()), _) => {}
            (Err(Errno::EPERM), Direction::Receive) => socket.set_recv_buffer_size(asked)?,
            (Err(Errno::EPERM), Direction::Send) => socket.set_send_buffer_size(asked)?,
            (Err(other), _) => return Err(other.into()),
        }
        let effective = match direction {
            Direction::Receive => socket.recv_buffer_size()?,
            Direction::Send => socket.send_buffer_size()?,
        };
        let effective_bytes = u64::try_from(effective).unwrap_or(u64::MAX);
        Ok(Self { direction, asked_bytes, effective_bytes, limit_bytes: limit.ok() })
    }

    /// Returns whether the kernel granted less than requested.
    #[must_use]
    pub const fn clamped(&self) -> bool {
        self.effective_bytes < 2 * self.asked_bytes
    }

    const fn names(&self) -> (&'static str, &'static str) {
        match self.direction {
            Direction::Receive => ("receive buffer", "net.core.rmem_max"),
            Direction::Send => ("send buffer", "net.core.wmem_max"),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, sysctl) = self.names();
        let (asked, granted) = (exact_size(self.asked_bytes), exact_size(self.effective_bytes / 2));
        if !self.clamped() {
            return write!(formatter, "{name} of {granted} granted ({asked} asked for)");
        }
        write!(formatter, "{name} of only {granted} granted, {asked} asked for")?;
        if let Some(limit_bytes) = self.limit_bytes {
            write!(formatter, ": {sysctl} is {limit_bytes}")?;
        }
        write!(formatter, "\nraise the limit with: sudo sysctl -w {sysctl}={}", self.asked_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAMPED: Buffer = Buffer {
        direction: Direction::Receive,
        asked_bytes: 8 << 20,
        effective_bytes: 425_984,
        limit_bytes: Some(212_992),
    };

    #[test]
    fn a_clamped_buffer_says_which_command_raises_the_limit() {
        assert!(CLAMPED.clamped());
        assert_eq!(
            CLAMPED.to_string(),
            "receive buffer of only 208 KiB granted, 8 MiB asked for: net.core.rmem_max is 212992\n\
             raise the limit with: sudo sysctl -w net.core.rmem_max=8388608"
        );
    }

    #[test]
    fn the_kernels_doubling_is_not_taken_for_a_grant() {
        let granted = Buffer { asked_bytes: 212_992, ..CLAMPED };
        assert!(!granted.clamped());
        assert_eq!(granted.to_string(), "receive buffer of 208 KiB granted (208 KiB asked for)");
        let one_more = Buffer { asked_bytes: 212_993, ..CLAMPED };
        assert!(one_more.clamped());
    }
}
