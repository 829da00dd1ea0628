//! Reports of a stream's datagrams that the kernel was seen to free.

use core::fmt;
use core::net::SocketAddr;
use core::ops::Range;

use units::StreamId;

use crate::Stage;

/// Datagrams of a stream that the kernel freed unread, from a drop event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DropNotice {
    /// The stream.
    pub stream: StreamId,
    /// The publisher's incarnation: the random part of the epoch, which every datagram carries.
    pub incarnation: u64,
    /// Their numbers.
    pub numbers: Range<u64>,
    /// Stage of the loss.
    pub stage: Stage,
    /// Reason and place in the kernel.
    pub reason: KernelName,
    /// Destination address of the datagrams.
    pub destination: SocketAddr,
    /// Cookie of the socket that would have received them; `None` if they were lost for all sockets.
    pub socket: Option<u64>,
}

/// The kernel's own name of a reason and a place, such as `SOCKET_RCVBUFF @ udp_queue_rcv_one_skb`.
///
/// Stored inline: evidence is copied often, and names are short. Longer names are truncated.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelName {
    bytes: [u8; Self::MAX_BYTES],
    len: u8,
}

impl KernelName {
    /// Maximum length of a name.
    pub const MAX_BYTES: usize = 63;

    /// Creates a name, truncated to the maximum length.
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
