//! State of a TCP connection in the kernel.

use std::io;
use std::os::fd::AsFd;

use crate::raw;

/// Number of words of the kernel's structure up to `tcpi_notsent_bytes`, which Linux has had since
/// 4.6.
const WORDS: usize = 37;

/// State of a TCP connection, from `TCP_INFO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpInfo {
    /// The largest segment it sends.
    pub send_mss_bytes: u32,
    /// Number of segments sent and not acknowledged.
    pub unacknowledged_segments: u32,
    /// Bytes written and not sent yet; zero on kernels that do not report it.
    pub not_sent_bytes: u32,
    /// Largest packet that the path is known to carry.
    pub path_mtu_bytes: u32,
    /// The smoothed round trip. Units: microseconds.
    pub rtt_us: u32,
    /// Variation of the round trip. Units: microseconds.
    pub rtt_variance_us: u32,
    /// Maximum number of segments in flight.
    pub congestion_window_segments: u32,
    /// Number of segments retransmitted since it began.
    pub retransmitted_segments: u32,
}

impl TcpInfo {
    /// Reads the state of a connection.
    ///
    /// # Errors
    /// The kernel's error, such as for a socket that is not TCP.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut words = [0_u32; WORDS];
        raw::tcp_info(socket.as_fd(), &mut words)?;
        Ok(Self::from_words(&words))
    }

    /// Source: `struct tcp_info` in the kernel's `uapi/linux/tcp.h`: eight bytes of flags, then
    /// words. Fields that an older kernel omits stay zero.
    const fn from_words(words: &[u32; WORDS]) -> Self {
        Self {
            send_mss_bytes: words[4],
            unacknowledged_segments: words[6],
            path_mtu_bytes: words[15],
            rtt_us: words[17],
            rtt_variance_us: words[18],
            congestion_window_segments: words[20],
            retransmitted_segments: words[25],
            not_sent_bytes: words[36],
        }
    }

    /// Returns the congestion window in bytes of full segments.
    #[must_use]
    pub fn congestion_window_bytes(&self) -> u64 {
        u64::from(self.congestion_window_segments) * u64::from(self.send_mss_bytes)
    }

    /// Returns whether all bytes written were acknowledged by the peer's kernel.
    #[must_use]
    pub const fn is_acknowledged(&self) -> bool {
        self.unacknowledged_segments == 0 && self.not_sent_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_connection_tells_what_lies_unsent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_reader, _) = listener.accept().unwrap();
        let idle = TcpInfo::of(&sender).unwrap();
        assert!(idle.is_acknowledged() && idle.send_mss_bytes > 0 && idle.congestion_window_segments > 0);
        assert!(idle.path_mtu_bytes >= idle.send_mss_bytes && idle.retransmitted_segments == 0, "{idle:?}");
        // The peer does not read: the buffers of both ends fill, and further bytes wait.
        sender.set_nonblocking(true).unwrap();
        while sender.write(&[0; 65_536]).is_ok() {}
        let full = TcpInfo::of(&sender).unwrap();
        assert!(full.not_sent_bytes > 0 && !full.is_acknowledged(), "{full:?}");
    }

    #[test]
    fn what_is_no_connection_is_an_error() {
        assert!(TcpInfo::of(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
