//! Sockets for the datagrams that a reader sends back: its reports, and requests for descriptions.

use std::net::SocketAddr;

use cast::secure::ControlSealer;
use keyring::random_salt;
use keys::Membership;
use sys::{Interface, Loopback, SendOptions, SendSocket, SendTechniques, clock};

/// Reports and requests are small; a send buffer of this size never fills.
const REPORT_BUFFER_BYTES: usize = 1 << 18;

/// A socket for each family of addresses, opened when first needed.
pub(super) struct ReplySockets {
    interface: Option<Interface>,
    /// Secures what is sent on a secured bus.
    sealer: Option<ControlSealer>,
    /// The process that drew the salt: a forked child must not send with it.
    home: u32,
    v4: Option<SendSocket>,
    v6: Option<SendSocket>,
}

impl ReplySockets {
    pub(super) fn new(interface: Option<Interface>, membership: Option<&Membership>) -> Self {
        let sealer = membership.map(|it| ControlSealer::new(it, random_salt(), clock::wall()));
        Self { interface, sealer, home: std::process::id(), v4: None, v6: None }
    }

    /// Sends by another interface from now on.
    pub(super) fn follow_interface(&mut self, interface: Interface) {
        (self.interface, self.v4, self.v6) = (Some(interface), None, None);
    }

    /// Secures with other keys from now on.
    pub(super) fn adopt(&mut self, membership: &Membership) {
        if let Some(sealer) = &mut self.sealer {
            sealer.renew(membership, clock::wall(), random_salt());
        }
    }

    /// Sends the datagram at the start of `buffer`, and secures it there on a secured bus.
    pub(super) fn send(&mut self, buffer: &mut [u8], plain_bytes: usize, to: SocketAddr) {
        let size_bytes = match &mut self.sealer {
            Some(_) if self.home != std::process::id() => return,
            // A buffer that is too small for a report holds it back, as it does a plain one.
            Some(sealer) => match sealer.seal(clock::wall(), buffer, plain_bytes) {
                Some(size_bytes) => size_bytes,
                None => return,
            },
            None => plain_bytes,
        };
        let datagram = &buffer[..size_bytes];
        let slot = if to.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        if slot.is_none() {
            let interface = self.interface.clone();
            let (ttl, loopback, techniques) = (1, Loopback::On, SendTechniques::NONE);
            let options = SendOptions {
                destination: to,
                interface,
                ttl,
                loopback,
                buffer_bytes: REPORT_BUFFER_BYTES,
                techniques,
            };
            match SendSocket::open(&options) {
                Ok(socket) => *slot = Some(socket),
                Err(error) => return tracing::debug!("reports cannot be sent: {error}"),
            }
        }
        if let Some(socket) = slot {
            // Reports are cumulative: the next one repeats a refused one.
            let _ = socket.send_batch(&[datagram], to);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use units::{Epoch, ReaderId, StreamId};
    use wire::{Datagram, Request, Wanted};

    use super::*;
    use crate::send::tests::{listener, membership};

    #[test]
    fn a_forked_child_sends_no_reports_on_a_secured_bus() {
        let (listener, address) = listener();
        listener.set_nonblocking(true).unwrap();
        let mut reply = ReplySockets::new(None, Some(&membership()));
        let epoch = Epoch { start_ns: 1, incarnation: 2 };
        let (stream, reader, what) = (StreamId(1), ReaderId(3), Wanted::Descriptor);
        let request = Request { stream, epoch, reader, what, waiting: None, nonce: None };
        let send = |reply: &mut ReplySockets| {
            let mut buffer = [0; wire::DATAGRAM_BYTES_IPV4];
            let plain_bytes = Datagram::Request(request).encode(&mut buffer).unwrap();
            reply.send(&mut buffer, plain_bytes, address);
            listener.recv(&mut buffer).map_err(|error| error.kind())
        };
        assert!(send(&mut reply).is_ok());
        reply.home ^= 1;
        assert_eq!(send(&mut reply), Err(ErrorKind::WouldBlock));
    }
}
