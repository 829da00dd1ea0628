//! The test line-up of the machine: publishers, readers and strangers over the virtual network.
//!
//! A [`Publisher`] feeds a sender with samples whose bits follow from their position, a [`Reader`] checks every
//! event, and the law in datagrams and elements after every input; [`truth`] compares the accounts with the network's
//! own log. Start with [`scene`], which sets them up.

mod checkpoint;
pub(crate) mod continuity;
pub(crate) mod feed;
pub(crate) mod publisher;
pub(crate) mod reader;
pub(crate) mod relay;
pub(crate) mod scene;
pub(crate) mod truth;
pub(crate) mod watch;

use core::net::{Ipv4Addr, SocketAddr};

use sim::{Address, Arrival, Group, Node, NodeId, Socket};
use units::Instant;

use publisher::Publisher;
use reader::Reader;

/// The group of all streams of a scene.
pub(crate) const GROUP: Group = Group(1);
/// Port of every node; its value has no meaning.
const PORT: u16 = 7400;

/// A node of the line-up.
pub(crate) enum Part {
    Publisher(Box<Publisher>),
    Reader(Box<Reader>),
    Stranger(Stranger),
}

/// A node that sends given datagrams at given times.
pub(crate) struct Stranger(pub(crate) Vec<(Instant, Vec<u8>)>);

impl Part {
    pub(crate) fn publisher(&self) -> &Publisher {
        let Self::Publisher(publisher) = self else { panic!("not a publisher") };
        publisher
    }

    pub(crate) fn reader(&self) -> &Reader {
        let Self::Reader(reader) = self else { panic!("not a reader") };
        reader
    }
}

impl Node for Part {
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        match self {
            Self::Publisher(publisher) => publisher.receive(now, arrival),
            Self::Reader(reader) => reader.receive(now, arrival),
            Self::Stranger(_) => {}
        }
    }

    fn advance(&mut self, now: Instant) {
        match self {
            Self::Publisher(publisher) => publisher.advance(now),
            Self::Reader(reader) => reader.advance(now),
            Self::Stranger(_) => {}
        }
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        match self {
            Self::Publisher(publisher) => publisher.poll(now, socket),
            Self::Reader(reader) => reader.poll(now, socket),
            Self::Stranger(stranger) => stranger.poll(now, socket),
        }
    }
}

impl Stranger {
    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        while let Some((_, bytes)) = self.0.first().filter(|(at, _)| *at <= now) {
            socket.send(Address::Group(GROUP), bytes);
            self.0.remove(0);
        }
        self.0.first().map(|(at, _)| *at)
    }
}

/// Returns the address of a node.
pub(crate) fn address(node: NodeId) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(0x0a00_0000 | node.0).into(), PORT)
}

/// First report port of nodes that share the first one's host, by their numbers.
pub(crate) const SHARED_PORTS: u16 = 20_000;

/// Returns the node at an address.
pub(crate) fn node_at(address: SocketAddr) -> NodeId {
    if let Some(node) = address.port().checked_sub(SHARED_PORTS) {
        return NodeId(node.into());
    }
    let SocketAddr::V4(address) = address else { panic!("{address} is nobody's address here") };
    NodeId(u32::from(*address.ip()) & 0x00ff_ffff)
}

/// Returns a moment of the scene.
pub(crate) fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}
