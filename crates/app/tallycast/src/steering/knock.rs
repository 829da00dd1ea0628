//! Whether a host refuses datagrams to a port: the quickest sign that the process that had it has ended.
//!
//! A host answers a datagram to a port without a socket with an ICMP message (RFC 1122 §4.1.3.1), and the kernel tells a
//! connected socket of it. A firewall may drop these messages, and a sender off the path might forge one: a refusal is
//! a reason to look for another run of the app, and silence proves nothing.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// A socket whose empty datagrams ask a host about a port. Reliable ports ignore them.
pub(super) struct Knock(UdpSocket);

impl Knock {
    /// Opens a socket for one port of a host.
    pub(super) fn at(peer: SocketAddr) -> io::Result<Self> {
        let any = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        socket.connect(peer)?;
        Ok(Self(socket))
    }

    /// Asks once more, and returns whether the host has refused a datagram since the last call. It never waits.
    pub(super) fn is_refused(&self) -> bool {
        // An error of an earlier datagram ends this call instead of sending.
        let sent = self.0.send(&[]).map(drop);
        is_refusal(&sent) || is_refusal(&self.0.take_error().and_then(|error| error.map_or(Ok(()), Err)))
    }

    /// Asks, and returns whether the host refuses within `patience`.
    pub(super) fn is_refused_within(&self, patience: Duration) -> bool {
        self.is_refused()
            || self.0.set_read_timeout(Some(patience)).is_ok() && is_refusal(&self.0.recv(&mut [0]).map(drop))
    }
}

fn is_refusal(result: &io::Result<()>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_refused_from_the_end_of_its_socket_on() {
        let open = UdpSocket::bind("127.0.0.1:0").unwrap();
        let knock = Knock::at(open.local_addr().unwrap()).unwrap();
        assert!(!knock.is_refused());
        assert_eq!(open.recv(&mut [0]).unwrap(), 0, "an empty datagram");
        assert!(!knock.is_refused());
        drop(open);
        support::wait_until("a refusal", || knock.is_refused().then_some(()));
    }
}
