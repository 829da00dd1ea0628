//! Sockets for the datagrams that a reader sends back: its reports, and requests for descriptions.

use std::net::SocketAddr;

use sys::{Interface, Loopback, SendOptions, SendSocket, SendTechniques};

/// Reports and requests are small; a send buffer of this size never fills.
const REPORT_BUFFER_BYTES: usize = 1 << 18;

/// A socket for each family of addresses, opened when first needed.
pub(super) struct ReplySockets {
    interface: Option<Interface>,
    v4: Option<SendSocket>,
    v6: Option<SendSocket>,
}

impl ReplySockets {
    pub(super) const fn new(interface: Option<Interface>) -> Self {
        Self { interface, v4: None, v6: None }
    }

    pub(super) fn send(&mut self, datagram: &[u8], to: SocketAddr) {
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
