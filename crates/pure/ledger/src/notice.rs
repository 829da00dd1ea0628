//! What is told of a stream's datagrams by somebody who saw the kernel free them.

use core::fmt;
use core::net::SocketAddr;
use core::ops::Range;

use units::StreamId;

use crate::Stage;

/// Datagrams of a stream that the kernel freed unread, as a drop event named them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DropNotice {
    /// The stream.
    pub stream: StreamId,
    /// The publisher's incarnation: the random part of the epoch, which every datagram carries.
    pub incarnation: u64,
    /// Their numbers.
    pub numbers: Range<u64>,
    /// Where they were lost.
    pub stage: Stage,
    /// Why and where in the kernel.
    pub reason: KernelName,
    /// Where they were sent to.
    pub destination: SocketAddr,
    /// The cookie of the socket that would have received them; `None` where they were lost for all.
    pub socket: Option<u64>,
}

/// The kernel's own name of a reason and a place, such as `SOCKET_RCVBUFF @ udp_queue_rcv_one_skb`.
///
/// It is kept in place: evidence is copied often, and names are short. What is longer is cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelName {
    bytes: [u8; Self::MAX_BYTES],
    len: u8,
}

impl KernelName {
    /// The longest name.
    pub const MAX_BYTES: usize = 63;

    /// Takes a name, as much of it as fits.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let ends = name.char_indices().map(|(start, letter)| start + letter.len_utf8());
        let len = ends.take_while(|end| *end <= Self::MAX_BYTES).last().unwrap_or(0);
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        Self { bytes, len: u8::try_from(len).expect("shorter than 64 bytes") }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..usize::from(self.len)]).expect("cut between two characters")
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl fmt::Debug for KernelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_cut_between_two_characters() {
        let name = "SOCKET_RCVBUFF @ udp_queue_rcv_one_skb";
        assert_eq!(KernelName::new(name).as_str(), name);
        let long = format!("{}µµ", "x".repeat(KernelName::MAX_BYTES - 3));
        assert_eq!(KernelName::new(&long).as_str(), &long[..KernelName::MAX_BYTES - 1]);
    }
}
