//! A client and a server, and the path between them.

use core::net::SocketAddr;

use sim::{Link, Network, NodeId, Port};
use udt::{Endpoint, EndpointConfig, Event, SocketConfig, SocketId, SocketType, Stats};
use units::Instant;
use wire::udt::{Body, Control};

use crate::line::{Host, SECOND, Work, address, config};

pub(crate) const CLIENT: NodeId = NodeId(0);
pub(crate) const SERVER: NodeId = NodeId(1);

/// The link from the client to the server, and the one in reverse.
pub(crate) struct Path {
    pub(crate) forward: Link,
    pub(crate) reverse: Link,
}

impl Path {
    pub(crate) fn of(delay: core::time::Duration) -> Self {
        let link = Link::ideal().delay(delay);
        Self { forward: link.clone(), reverse: link }
    }
}

/// Runs a client's work with a server that listens.
pub(crate) fn pair(
    seed: u64,
    path: Path,
    client: (SocketConfig, Work),
    server: (SocketConfig, Work),
) -> Network<Host> {
    let mut network = Network::new(seed);
    let expected = client.1.send_bytes;
    let client_host = Host::new(seed, client.1).expecting(server.1.send_bytes);
    let port = Port { up: path.forward, down: path.reverse, ..Port::default() };
    network.add("client", client_host, port);
    let server_host = Host::new(seed + 1, server.1).listening(server.0).expecting(expected);
    let ideal = Link::ideal();
    network.add("server", server_host, Port { up: ideal.clone(), down: ideal, ..Port::default() });
    network.act(CLIENT, |host, now, _| host.connect(now, SERVER, client.0));
    network
}

/// Runs until both ends have closed, or have nothing to do any more, at most for this many seconds of the network.
pub(crate) fn run(network: &mut Network<Host>, seconds: u32) {
    let end = Instant::ORIGIN + SECOND * seconds;
    while network.now() < end {
        let is_over = |node| {
            let host: &Host = network.node(node);
            !host.seen.is_empty() && host.seen.values().all(|seen| seen.closed.is_some())
        };
        if is_over(CLIENT) && is_over(SERVER) || network.next_event_at().is_none_or(|at| at > end) {
            return;
        }
        network.step();
    }
}

pub(crate) fn stats(network: &Network<Host>, node: NodeId) -> Stats {
    let host = network.node(node);
    host.endpoint.stats(host.only_id()).expect("the connection is still there")
}

/// Exchanges datagrams between a client and a server until neither has any to send; returns the client's events.
pub(crate) fn shake_hands(
    client: &mut Endpoint,
    server: &mut Endpoint,
    client_address: SocketAddr,
) -> Vec<Event> {
    let server_address = address(SERVER);
    let mut events = Vec::new();
    loop {
        let from_client = said(client, &mut events);
        hear(server, client_address, &from_client);
        let from_server = said(server, &mut Vec::new());
        hear(client, server_address, &from_server);
        if from_client.is_empty() && from_server.is_empty() {
            return events;
        }
    }
}

/// Returns the datagrams that an endpoint sends at the beginning.
pub(crate) fn said(endpoint: &mut Endpoint, events: &mut Vec<Event>) -> Vec<Vec<u8>> {
    said_at(Instant::ORIGIN, endpoint, events)
}

/// Returns the datagrams that an endpoint sends now.
pub(crate) fn said_at(now: Instant, endpoint: &mut Endpoint, events: &mut Vec<Event>) -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    loop {
        match endpoint.poll(now) {
            udt::Output::Transmit(transmit) => {
                said.extend(transmit.bytes.chunks(transmit.segment_bytes).map(<[u8]>::to_vec));
            }
            udt::Output::Event { event, .. } => events.push(event),
            udt::Output::Idle { .. } => return said,
        }
    }
}

pub(crate) fn hear(endpoint: &mut Endpoint, from: SocketAddr, datagrams: &[Vec<u8>]) {
    hear_at(Instant::ORIGIN, endpoint, from, datagrams);
}

pub(crate) fn hear_at(now: Instant, endpoint: &mut Endpoint, from: SocketAddr, datagrams: &[Vec<u8>]) {
    for bytes in datagrams {
        let datagrams = udt::Datagrams { from, bytes, segment_bytes: bytes.len(), arrived: now };
        endpoint.handle(now, &datagrams);
    }
}

/// Creates an endpoint with a seed.
pub(crate) fn endpoint(seed: u64) -> Endpoint {
    Endpoint::new(&EndpointConfig { seed, secret: [9; 16] })
}

/// A client and a server that are connected, and the sockets at both ends.
pub(crate) fn connected() -> (Endpoint, Endpoint, SocketId, SocketId, SocketAddr) {
    connected_by(&config(SocketType::Stream))
}

pub(crate) fn connected_by(config: &SocketConfig) -> (Endpoint, Endpoint, SocketId, SocketId, SocketAddr) {
    let (mut client, mut server) = (endpoint(1), endpoint(2));
    server.listen(config.clone(), 8).expect("the only listener");
    let from = address(NodeId(10));
    let id = client.connect(Instant::ORIGIN, address(SERVER), config.clone());
    assert_eq!(shake_hands(&mut client, &mut server, from), [Event::Connected]);
    let socket = server.accept().expect("a client waits");
    (client, server, id, socket, from)
}

/// Returns a control packet as a peer sends it.
pub(crate) fn control(destination: SocketId, body: Body<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Control { timestamp_us: 0, destination, body }.write(&mut bytes);
    bytes
}
