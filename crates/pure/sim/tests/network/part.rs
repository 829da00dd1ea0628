//! Two minimal nodes: one that sends at a steady pace, one that listens and may answer.

use core::time::Duration;

use sim::{Address, Arrival, Group, Node, NodeId, Socket};
use units::Instant;

pub(crate) const GROUP: Group = Group(1);
pub(crate) const PUBLISHER: NodeId = NodeId(0);
pub(crate) const READER: NodeId = NodeId(1);

pub(crate) enum Part {
    Beacon(Beacon),
    Listener(Listener),
}

/// Sends datagrams of 100 bytes that carry their number, one per `every`.
pub(crate) struct Beacon {
    count: u64,
    every: Duration,
    sent: u64,
    next: Instant,
    pub(crate) answers: u64,
}

/// Records what it receives.
#[derive(Default)]
pub(crate) struct Listener {
    pub(crate) heard: Vec<Heard>,
    pub(crate) turns: u64,
    /// Socket drop counter, as read at its latest turn.
    pub(crate) meminfo: u32,
    pub(crate) answering: bool,
    answers_due: Vec<NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Heard {
    pub(crate) number: u64,
    pub(crate) from: NodeId,
    pub(crate) arrived: Instant,
    pub(crate) read: Instant,
    pub(crate) drops: Option<u32>,
}

impl Part {
    pub(crate) fn beacon(count: u64, every: Duration) -> Self {
        Self::Beacon(Beacon { count, every, sent: 0, next: Instant::ORIGIN, answers: 0 })
    }

    pub(crate) fn listener() -> Self {
        Self::Listener(Listener::default())
    }

    pub(crate) fn answering_listener() -> Self {
        Self::Listener(Listener { answering: true, ..Listener::default() })
    }

    pub(crate) fn listening(&self) -> &Listener {
        match self {
            Self::Listener(listener) => listener,
            Self::Beacon(_) => panic!("a beacon does not listen"),
        }
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.listening().heard.iter().map(|heard| heard.number).collect()
    }
}

impl Node for Part {
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        match self {
            Self::Beacon(beacon) => beacon.answers += 1,
            Self::Listener(listener) => {
                let number = arrival.bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                let Arrival { from, arrived, drops, .. } = *arrival;
                listener.heard.push(Heard { number, from, arrived, read: now, drops });
                if listener.answering {
                    listener.answers_due.push(from);
                }
            }
        }
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        match self {
            Self::Beacon(beacon) => beacon.poll(now, socket),
            Self::Listener(listener) => {
                listener.turns += 1;
                listener.meminfo = socket.drops();
                for publisher in listener.answers_due.drain(..) {
                    socket.send(Address::Node(publisher), b"heard");
                }
                None
            }
        }
    }
}

impl Beacon {
    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        let mut bytes = [0; 100];
        while self.sent < self.count && self.next <= now {
            bytes[..8].copy_from_slice(&self.sent.to_le_bytes());
            socket.send(Address::Group(GROUP), &bytes);
            self.sent += 1;
            self.next += self.every;
        }
        (self.sent < self.count).then_some(self.next)
    }
}

pub(crate) fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

pub(crate) const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
