//! A UDP port whose datagrams all travel inside sessions: one message a datagram.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use keys::service::MAX_MESSAGE_BYTES;
use noise::{Config, OVERHEAD_BYTES, Output, Sessions, Train};
use sys::{Interest, Poller, clock};
use units::Instant;

/// Datagrams that are taken in a row before others have a turn.
const MAX_DATAGRAMS: usize = 256;
/// Size of the longest datagram; a longer one is nobody's message. Units: bytes.
const MAX_BYTES: usize = MAX_MESSAGE_BYTES + OVERHEAD_BYTES + 1;

/// A port and its sessions.
pub(crate) struct Port {
    socket: UdpSocket,
    pub(crate) sessions: Sessions,
}

impl Port {
    /// Opens a port at this address.
    pub(crate) fn open(address: SocketAddr, config: Config) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, sessions: Sessions::new(config) })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Lets a poller report under `token` when there is something to take.
    pub(crate) fn watch(&self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.add(&self.socket, token, Interest::Read)
    }

    /// Sends a message, or keeps it for the session that begins.
    pub(crate) fn send(&mut self, now: Instant, peer: SocketAddr, bytes: &[u8]) {
        if let Some(sealed) = self.sessions.seal(now, &Train { peer, bytes, segment_bytes: bytes.len() }) {
            // What the network does not take is asked or answered again.
            let _ = self.socket.send_to(sealed.bytes, peer);
        }
    }

    /// Takes what has arrived and calls `handle` for each message; returns when the sessions are due.
    pub(crate) fn take(&mut self, mut handle: impl FnMut(&mut Self, SocketAddr, &[u8])) -> Option<Instant> {
        let mut datagram = [0; MAX_BYTES];
        for _ in 0..MAX_DATAGRAMS {
            // An error is that of a datagram sent before.
            let (size_bytes, from) = match self.socket.recv_from(&mut datagram) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => continue,
            };
            let (now, bytes) = (clock::monotonic(), &datagram[..size_bytes]);
            let opened = self.sessions.open(now, &Train { peer: from, bytes, segment_bytes: size_bytes });
            let message = zeroize::Zeroizing::new(opened.bytes.to_vec());
            if !message.is_empty() {
                handle(self, from, &message);
            }
        }
        loop {
            match self.sessions.poll(clock::monotonic()) {
                Output::Transmit(train) => {
                    for datagram in train.bytes.chunks(train.segment_bytes.max(1)) {
                        let _ = self.socket.send_to(datagram, train.peer);
                    }
                }
                Output::Idle { deadline } => return deadline,
            }
        }
    }
}
