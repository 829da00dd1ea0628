//! The socket by which a publisher's datagrams leave, and the settings with which it is opened, and
//! opened again when its interface has changed.

use std::net::{IpAddr, SocketAddr};

use sample::StreamName;
use sys::{Buffer, Interest, Interface, Loopback, Outcome, PathError, Poller, SendOptions, SendSocket};

use crate::send::error::SendError;
use crate::send::publication_config::{PublicationConfig, SocketFull, Surroundings};

/// Default TTL of multicast: it stays in the local network.
const MULTICAST_TTL: u8 = 1;

/// An open socket and its settings.
pub(super) struct Egress {
    settings: Settings,
    socket: SendSocket,
    /// True if the agent's poller reports when the socket has room.
    is_watched: bool,
}

struct Settings {
    stream: StreamName,
    destinations: Vec<SocketAddr>,
    options: SendOptions,
    unicast_ttl: Option<u8>,
    socket_full: SocketFull,
}

impl Egress {
    pub(super) fn open(config: &PublicationConfig, with: &Surroundings) -> Result<Self, SendError> {
        let destinations = config.destinations.clone();
        let first = *destinations.first().ok_or(SendError::NoDestination)?;
        if destinations.iter().any(|other| other.is_ipv4() != first.is_ipv4()) {
            return Err(SendError::MixedDestinations);
        }
        let settings = Settings {
            stream: config.description.name.clone(),
            destinations,
            options: SendOptions {
                destination: first,
                interface: with.interface.clone(),
                ttl: with.ttl.unwrap_or(MULTICAST_TTL),
                loopback: Loopback::On,
                buffer_bytes: config.send_buffer_bytes,
                techniques: config.techniques,
            },
            unicast_ttl: with.ttl,
            socket_full: config.socket_full,
        };
        Ok(Self { socket: settings.open()?, settings, is_watched: false })
    }

    /// Returns the first destination: the group, if the stream is sent to one.
    pub(super) const fn group(&self) -> SocketAddr {
        self.settings.options.destination
    }

    /// Returns the number of destinations.
    pub(super) const fn destinations(&self) -> usize {
        self.settings.destinations.len()
    }

    /// Returns the index of the destination with this address.
    pub(super) fn destination(&self, address: SocketAddr) -> Option<usize> {
        self.settings.destinations.iter().position(|known| *known == address)
    }

    /// Returns the send buffer that the kernel granted.
    pub(super) const fn granted_buffer(&self) -> Buffer {
        self.socket.granted_buffer()
    }

    /// Returns whether datagrams that find the send buffer full wait for room.
    pub(super) fn waits_when_full(&self) -> bool {
        self.settings.socket_full == SocketFull::Wait
    }

    /// Sends a train to a destination; returns the result of each of its datagrams.
    pub(super) fn send_train(
        &mut self,
        train: &[u8],
        segment_bytes: usize,
        destination: usize,
    ) -> &[Outcome] {
        self.socket.send_train(train, segment_bytes, self.settings.destinations[destination])
    }

    /// Sends a datagram without a number: if it is lost, the next one of its kind is as good.
    pub(super) fn send_unaccounted(&mut self, datagram: &[u8], to: SocketAddr) {
        let _ = self.socket.send_batch(&[datagram], to);
    }

    /// Logs, once, that this path does not support trains.
    pub(super) fn log_end_of_trains(&mut self) {
        if let Some(error) = self.socket.take_end_of_trains() {
            tracing::info!(
                "stream `{}` is sent datagram by datagram: this path does not support trains ({error})",
                self.settings.stream
            );
        }
    }

    /// Sends without trains from now on if a queue discipline segments them: it may have been set
    /// since the socket was opened.
    pub(super) fn keep_trains_whole(&mut self) {
        self.settings.keep_trains_whole(&mut self.socket);
    }

    /// Returns whether the network has reported datagrams as undeliverable since the last call.
    pub(super) const fn met_path_errors(&mut self) -> bool {
        self.socket.met_path_errors()
    }

    /// Takes what the network has reported about datagrams that the socket accepted.
    pub(super) fn drain_path_errors(&self, into: &mut Vec<PathError>) {
        if let Err(error) = self.socket.drain_error_queue(into) {
            tracing::debug!("stream `{}`: the error queue cannot be read: {error}", self.settings.stream);
        }
    }

    /// Opens the socket again for an interface that has returned, or has other addresses: the old
    /// socket keeps a number and a source address that no longer exist. Without a pinned interface,
    /// only if its source is no address of this host any more.
    pub(super) fn follow_interface(&mut self, interface: Option<&Interface>) {
        let is_of_use = match interface {
            Some(interface) => self.settings.is_another(interface),
            None => self.socket.has_lost_its_source(),
        };
        if !is_of_use {
            return;
        }
        let before = self.settings.options.interface.clone();
        self.settings.options.interface = interface.cloned().or_else(|| before.clone());
        match self.settings.open() {
            // The poller forgets a socket that is closed.
            Ok(socket) => (self.socket, self.is_watched) = (socket, false),
            // The next change is another attempt.
            Err(error) => {
                self.settings.options.interface = before;
                tracing::warn!("stream `{}` is not sent: {error}", self.settings.stream);
            }
        }
    }

    /// Registers the socket with a poller while it is full and datagrams wait for room.
    pub(super) fn watch_for_room(&mut self, waits: bool, poller: &Poller, token: u64) {
        if waits == self.is_watched {
            return;
        }
        let changed = if waits {
            poller.add(&self.socket, token, Interest::Write)
        } else {
            poller.remove(&self.socket)
        };
        match changed {
            Ok(()) => self.is_watched = waits,
            // Then the send path polls again at its deadline.
            Err(error) => tracing::debug!("a full socket cannot be watched: {error}"),
        }
    }
}

impl Settings {
    fn open(&self) -> Result<SendSocket, SendError> {
        let mut socket = SendSocket::open(&self.options)?;
        if self.socket_full == SocketFull::Wait {
            socket.stop_when_full();
        }
        self.keep_trains_whole(&mut socket);
        self.pin_unicast(&socket)?;
        if let [only] = self.destinations[..]
            && let Err(error) = socket.connect(only)
        {
            tracing::debug!("each train looks its route to {only} up: {error}");
        }
        Ok(socket)
    }

    /// Sends without trains where a queue discipline would segment them and silently drop some of
    /// their datagrams: of the pinned device, or of any.
    fn keep_trains_whole(&self, socket: &mut SendSocket) {
        if !socket.techniques().gso {
            return;
        }
        let device = self.options.interface.as_ref().map(|interface| interface.index);
        // Where the kernel lists none, drops there are unexplained, like drops along the path.
        let all = sys::qdiscs().unwrap_or_default();
        if all.iter().any(|it| it.cuts_trains() && device.is_none_or(|device| device == it.device)) {
            let stream = &self.stream;
            tracing::debug!(
                "stream `{stream}` is sent datagram by datagram: a queue discipline segments trains"
            );
            socket.send_singly();
        }
    }

    /// Configures unicast with the interface and the TTL that were asked for, as multicast.
    ///
    /// This host itself is reached only by its own interface.
    fn pin_unicast(&self, socket: &SendSocket) -> Result<(), SendError> {
        let is_another_host = |to: &&SocketAddr| !to.ip().is_multicast() && !to.ip().is_loopback();
        if let Some(host) = self.destinations.iter().find(is_another_host) {
            socket.pin_unicast(*host, self.options.interface.as_ref(), self.unicast_ttl)?;
        }
        Ok(())
    }

    /// Returns whether an interface differs from that of this socket, and has an address to send
    /// from: a new interface has none for a moment.
    fn is_another(&self, interface: &Interface) -> bool {
        let is_v4 = self.options.destination.is_ipv4();
        let of_version = |interface: &Interface| -> Vec<IpAddr> {
            interface.addresses.iter().copied().filter(|address| address.is_ipv4() == is_v4).collect()
        };
        let known = self.options.interface.as_ref().map(|known| (known.index, of_version(known)));
        let addresses = of_version(interface);
        !addresses.is_empty() && known != Some((interface.index, addresses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::tests::{listener, publication_config};

    fn interface(index: u32, addresses: &[&str]) -> Interface {
        Interface {
            name: "eth0".to_owned(),
            index,
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            loopback: false,
            up: true,
            mtu: 1_500,
        }
    }

    #[test]
    fn a_socket_is_opened_again_only_for_another_number_or_address_of_its_ip_version() {
        let (_listener, open) = listener();
        let with = Surroundings { interface: None, ttl: None, predecessor: None, membership: None };
        let mut settings = Egress::open(&publication_config(vec![open]), &with).unwrap().settings;
        settings.options.interface = Some(interface(2, &["192.0.2.1", "fe80::1"]));
        for (other, expected) in [
            (interface(2, &["192.0.2.1", "fe80::1"]), false),
            (interface(2, &["192.0.2.1", "fe80::2"]), false),
            (interface(2, &["192.0.2.2", "fe80::1"]), true),
            (interface(3, &["192.0.2.1"]), true),
            (interface(3, &["fe80::1"]), false),
            (interface(3, &[]), false),
        ] {
            assert_eq!(settings.is_another(&other), expected, "{other:?}");
        }
    }
}
