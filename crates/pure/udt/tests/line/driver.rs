//! What drives an endpoint at a node of the virtual network: datagrams in, datagrams and events out.
//!
//! The scenes of this crate and those of chains of relays share it; what an application does between is its own.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use sim::{Address, Arrival, NodeId, Socket};
use udt::{Datagrams, Endpoint, Event, Output, SocketId};
use units::Instant;

/// Datagrams, concatenated, and the size of each but the last.
pub(crate) type Train<'a> = (&'a [u8], usize);

/// What uses an endpoint.
pub(crate) trait Application {
    fn endpoint(&mut self) -> &mut Endpoint;

    /// Takes an event of a connection; it acts afterwards.
    fn note(&mut self, now: Instant, id: SocketId, event: Event);

    /// Does what it can; returns when it wants to again.
    fn act(&mut self, now: Instant) -> Option<Instant>;

    /// Sends datagrams of the endpoint to another node.
    fn transmit(&mut self, now: Instant, socket: &mut Socket<'_>, to: NodeId, train: Train<'_>) {
        let _ = now;
        socket.send_train(Address::Node(to), train.0, train.1);
    }
}

/// Returns the address of a node.
pub(crate) fn address(node: NodeId) -> SocketAddr {
    let index = u8::try_from(node.0).expect("a small scene");
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, index)), 9_000)
}

/// Returns the node at an address.
pub(crate) fn node_at(address: SocketAddr) -> NodeId {
    let SocketAddr::V4(address) = address else { panic!("scenes have IPv4") };
    NodeId(u32::from(address.ip().octets()[3]))
}

/// Hands a datagram over.
pub(crate) fn receive(endpoint: &mut Endpoint, now: Instant, arrival: &Arrival<'_>) {
    let Arrival { from, bytes, arrived, .. } = *arrival;
    endpoint.handle(now, &Datagrams { from: address(from), bytes, segment_bytes: bytes.len(), arrived });
}

/// Lets application and endpoint work until both are idle; returns when one of them wants to again.
pub(crate) fn poll(
    application: &mut impl Application,
    now: Instant,
    socket: &mut Socket<'_>,
) -> Option<Instant> {
    let mut wants = application.act(now);
    loop {
        match application.endpoint().poll(now) {
            Output::Transmit(transmit) => {
                let (to, segment_bytes) = (node_at(transmit.to), transmit.segment_bytes);
                let bytes = transmit.bytes.to_vec();
                application.transmit(now, socket, to, (&bytes, segment_bytes));
            }
            Output::Event { socket, event } => {
                application.note(now, socket, event);
                wants = application.act(now);
            }
            Output::Idle { deadline } => return Instant::earlier(deadline, wants),
        }
    }
}
