//! A node that sends live messages at a fixed period, or receives them and takes down when each arrived.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use sim::{Arrival, Node, NodeId};
use udt::{Endpoint, EndpointConfig, Event, Sent, SocketConfig, SocketId, Terms};
use units::Instant;

use super::driver::{self, Application, address};

/// What is sent: a message each period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feed {
    pub(crate) period: Duration,
    pub(crate) count: u64,
    pub(crate) bytes: usize,
    pub(crate) lifetime: Duration,
    /// True if some messages are longer than a packet, and some have no deadline.
    pub(crate) is_varied: bool,
}

impl Feed {
    pub(crate) fn has_deadline(&self, index: u64) -> bool {
        !self.is_varied || index % 7 != 3
    }

    fn bytes_of(&self, index: u64) -> usize {
        if self.is_varied && index % 11 == 5 { self.bytes * 4 } else { self.bytes }
    }

    fn deadline(&self, index: u64, born: Instant) -> Option<Instant> {
        self.has_deadline(index).then(|| born + self.lifetime)
    }
}

/// A host of one connection.
pub(crate) struct Live {
    pub(crate) endpoint: Endpoint,
    pub(crate) socket: Option<SocketId>,
    pub(crate) events: Vec<(Instant, Event)>,
    feed: Option<Feed>,
    next_at: Instant,
    /// Number of messages made so far.
    pub(crate) made: u64,
    /// Messages that wait for room, with the time when each was made.
    queue: VecDeque<(u64, Instant)>,
    /// Time when each message in the connection was made.
    born: BTreeMap<u64, Instant>,
    /// Messages that are given up: true if they had been sent.
    pub(crate) given_up: BTreeMap<u64, bool>,
    pub(crate) got: BTreeMap<u64, Got>,
    pub(crate) twice: u64,
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Got {
    pub(crate) at: Instant,
    /// Time since it was made.
    pub(crate) age: Duration,
    /// True if it is in time by the age that the receiver infers.
    pub(crate) is_in_time: bool,
}

impl Live {
    pub(crate) fn new(seed: u64, feed: Option<Feed>) -> Self {
        Self {
            endpoint: Endpoint::new(&EndpointConfig { seed, secret: [7; 16] }),
            socket: None,
            events: Vec::new(),
            feed,
            next_at: Instant::ORIGIN,
            made: 0,
            queue: VecDeque::new(),
            born: BTreeMap::new(),
            given_up: BTreeMap::new(),
            got: BTreeMap::new(),
            twice: 0,
        }
    }

    pub(crate) fn listening(mut self, config: SocketConfig) -> Self {
        self.endpoint.listen(config, 8).expect("the only listener");
        self
    }

    pub(crate) fn connect(&mut self, now: Instant, to: NodeId, config: SocketConfig) {
        self.endpoint.connect(now, address(to), config);
    }

    /// Returns whether every message was made, and none waits for anything.
    pub(crate) fn is_done(&self) -> bool {
        self.feed.is_none_or(|feed| self.made == feed.count)
            && self.queue.is_empty()
            && self.socket.is_some_and(|socket| self.endpoint.is_flushed(socket))
    }

    fn note(&mut self, now: Instant, id: SocketId, event: Event) {
        self.events.push((now, event));
        match event {
            Event::Connected => (self.socket, self.next_at) = (Some(id), now),
            Event::Accepted { socket } => self.socket = self.endpoint.accept().filter(|it| *it == socket),
            Event::Expired { tag, was_sent } => {
                let feed = self.feed.expect("it sends");
                match self.born.get(&tag) {
                    // Handed back because the link went down: there may be time yet.
                    Some(born) if !was_sent && *born + feed.lifetime > now => {
                        self.queue.push_front((tag, *born));
                        self.queue.make_contiguous().sort_unstable();
                    }
                    _ => _ = self.given_up.insert(tag, was_sent),
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, now: Instant) -> Option<Instant> {
        let socket = self.socket?;
        self.read(now, socket);
        let feed = self.feed?;
        while self.made < feed.count && self.next_at <= now {
            self.queue.push_back((self.made, self.next_at));
            self.made += 1;
            self.next_at += feed.period;
        }
        let late = |(index, born): &(u64, Instant)| feed.deadline(*index, *born).is_some_and(|at| at <= now);
        self.given_up.extend(self.queue.iter().filter(|it| late(it)).map(|(index, _)| (*index, false)));
        self.queue.retain(|it| !late(it));
        self.send(now, socket, &feed);
        (self.made < feed.count).then_some(self.next_at)
    }

    /// Sends what there is room for: the oldest first, and the newest while the link is down or carries too little.
    fn send(&mut self, now: Instant, socket: SocketId, feed: &Feed) {
        while self.endpoint.room(socket) > 0 {
            let is_up = self.endpoint.is_link_up(socket);
            let oldest = self.queue.front().map_or(Duration::ZERO, |(_, born)| now.since(*born));
            let is_short = oldest > feed.lifetime / 4;
            let next = if is_up && !is_short { self.queue.pop_front() } else { self.queue.pop_back() };
            let Some((index, born)) = next else { return };
            let clock_us = self.endpoint.clock_us(now, socket).expect("it is connected");
            let waited_us = now.since(born).as_micros() as u32;
            let mut bytes = vec![0; feed.bytes_of(index)];
            bytes[..8].copy_from_slice(&index.to_le_bytes());
            bytes[8..16].copy_from_slice(&born.as_nanos().to_le_bytes());
            bytes[16..20].copy_from_slice(&clock_us.wrapping_sub(waited_us).to_le_bytes());
            bytes[20..28].copy_from_slice(&(feed.lifetime.as_nanos() as u64).to_le_bytes());
            let terms = Terms { deadline: feed.deadline(index, born), tag: index, ..Terms::default() };
            match self.endpoint.send_message(now, socket, &bytes, terms).expect("it is connected") {
                Sent::Queued => _ = self.born.insert(index, born),
                Sent::TooLate => _ = self.given_up.insert(index, false),
                Sent::NoRoom => return self.queue.push_back((index, born)),
            }
        }
    }

    fn read(&mut self, now: Instant, socket: SocketId) {
        let mut bytes = Vec::new();
        while let Some(arrival) = self.endpoint.receive_message(socket, &mut bytes) {
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
            let born_us = u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes"));
            let round_trip = self.endpoint.stats(socket).expect("it is connected").round_trip;
            let way = Duration::from_micros(arrival.sent_us.wrapping_sub(born_us).into());
            let inferred = way + round_trip / 2 + now.since(arrival.arrived);
            let got = Got {
                at: now,
                age: now.since(Instant::from_nanos(word(8))),
                is_in_time: inferred <= Duration::from_nanos(word(20)),
            };
            self.twice += u64::from(self.got.insert(word(0), got).is_some());
            bytes.clear();
        }
    }
}

impl Application for Live {
    fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    fn note(&mut self, now: Instant, id: SocketId, event: Event) {
        self.note(now, id, event);
    }

    fn act(&mut self, now: Instant) -> Option<Instant> {
        self.act(now)
    }
}

impl Node for Live {
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        driver::receive(&mut self.endpoint, now, arrival);
    }

    fn poll(&mut self, now: Instant, socket: &mut sim::Socket<'_>) -> Option<Instant> {
        driver::poll(self, now, socket)
    }
}
