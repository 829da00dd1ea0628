//! The ends of a flow: one sends continuously, one reads continuously.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use sim::{Address, Arrival, Node, NodeId, Socket};
use udt::{Datagrams, Endpoint, EndpointConfig, Event, Output, SocketConfig, SocketId, Stats};
use units::Instant;

/// Size of one write or read. Units: bytes.
const BLOCK_BYTES: usize = 1 << 18;

/// An end of a flow.
pub(crate) enum Part {
    Sender(Sender),
    Receiver(Receiver),
}

/// Sends as fast as it can, from its start on.
pub(crate) struct Sender {
    endpoint: Endpoint,
    config: SocketConfig,
    to: NodeId,
    starts: Instant,
    socket: Option<SocketId>,
    block: Vec<u8>,
}

/// Reads everything that arrives.
pub(crate) struct Receiver {
    endpoint: Endpoint,
    socket: Option<SocketId>,
    pub(crate) received_bytes: u64,
    block: Vec<u8>,
}

impl Part {
    /// Creates the end that sends to a node from `starts` on, by its own clock.
    pub(crate) fn sender(seed: u64, config: SocketConfig, to: NodeId, starts: Instant) -> Self {
        let block = vec![0; BLOCK_BYTES];
        Self::Sender(Sender { endpoint: endpoint(seed), config, to, starts, socket: None, block })
    }

    pub(crate) fn receiver(seed: u64, config: SocketConfig) -> Self {
        let mut endpoint = endpoint(seed);
        endpoint.listen(config, 1).expect("the only listener");
        Self::Receiver(Receiver { endpoint, socket: None, received_bytes: 0, block: vec![0; BLOCK_BYTES] })
    }

    pub(crate) fn received_bytes(&self) -> u64 {
        match self {
            Self::Sender(_) => 0,
            Self::Receiver(receiver) => receiver.received_bytes,
        }
    }

    /// Returns the statistics of the sender's connection, once it is established.
    pub(crate) fn stats(&self) -> Option<Stats> {
        match self {
            Self::Sender(sender) => sender.endpoint.stats(sender.socket?),
            Self::Receiver(_) => None,
        }
    }

    fn endpoint(&mut self) -> &mut Endpoint {
        match self {
            Self::Sender(sender) => &mut sender.endpoint,
            Self::Receiver(receiver) => &mut receiver.endpoint,
        }
    }

    fn note(&mut self, event: Event) {
        match (self, event) {
            (Self::Sender(sender), Event::Connected | Event::Writable) => sender.fill(),
            (Self::Receiver(receiver), Event::Accepted { .. }) => {
                receiver.socket = receiver.endpoint.accept()
            }
            (Self::Receiver(receiver), Event::Readable) => receiver.drain(),
            _ => {}
        }
    }
}

impl Sender {
    fn begin(&mut self, now: Instant) {
        if self.socket.is_none() && now >= self.starts {
            self.socket = Some(self.endpoint.connect(now, address(self.to), self.config.clone()));
        }
    }

    fn fill(&mut self) {
        let Some(socket) = self.socket else { return };
        while self.endpoint.send(socket, &self.block).is_ok_and(|taken| taken > 0) {}
    }
}

impl Receiver {
    fn drain(&mut self) {
        let Some(socket) = self.socket else { return };
        loop {
            let count = self.endpoint.receive(socket, &mut self.block);
            self.received_bytes += count as u64;
            if count == 0 {
                break;
            }
        }
    }
}

impl Node for Part {
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let datagrams = Datagrams {
            from: address(arrival.from),
            bytes: arrival.bytes,
            segment_bytes: arrival.bytes.len(),
            arrived: arrival.arrived,
        };
        self.endpoint().handle(now, &datagrams);
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        match self {
            Self::Sender(sender) => sender.begin(now),
            Self::Receiver(receiver) => receiver.drain(),
        }
        loop {
            match self.endpoint().poll(now) {
                Output::Transmit(transmit) => {
                    let to = Address::Node(node_at(transmit.to));
                    socket.send_train(to, transmit.bytes, transmit.segment_bytes);
                }
                Output::Event { event, .. } => self.note(event),
                Output::Idle { deadline } => return Instant::earlier(deadline, self.starts()),
            }
        }
    }
}

impl Part {
    /// Returns the start time if the sender has not started yet.
    fn starts(&self) -> Option<Instant> {
        match self {
            Self::Sender(sender) if sender.socket.is_none() => Some(sender.starts),
            Self::Sender(_) | Self::Receiver(_) => None,
        }
    }
}

fn endpoint(seed: u64) -> Endpoint {
    Endpoint::new(&EndpointConfig { seed, secret: [5; 16] })
}

/// Returns the address of a node: its number, in network 10.
fn address(node: NodeId) -> SocketAddr {
    let [_, one, two, three] = node.0.to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, one, two, three)), 9_000)
}

fn node_at(address: SocketAddr) -> NodeId {
    let SocketAddr::V4(address) = address else { unreachable!("every node has an IPv4 address") };
    let [_, one, two, three] = address.ip().octets();
    NodeId(u32::from_be_bytes([0, one, two, three]))
}
