//! A near relay's reader on its bus: a receiver, whose events become inputs of the near end.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use cast::Receiver;
use cast::receive::{Event, Input, Output, ReaderIdentity};
use ledger::{AccountState, Gap, HopCounts, HopShare, LedgerConfig, Outcome, Stage};
use relay::{Began, Elements, NearInput};
use sample::StreamName;
use sim::{Address, Arrival, NodeId, Socket};
use units::{Epoch, Instant, ReaderId, StreamId};
use wire::MAX_DATAGRAM_BYTES;

use crate::diary::Diary;
use crate::driver;

/// A reader of a bus.
#[derive(Debug)]
pub(crate) struct Tap {
    receiver: Receiver,
    outgoing: Vec<(NodeId, Vec<u8>)>,
    buffer: Vec<u8>,
    streams: BTreeMap<Epoch, Stream>,
    next_slot: u16,
    /// Deadlines that it states for streams.
    stated: BTreeMap<StreamName, Duration>,
}

#[derive(Debug)]
struct Stream {
    slot: u16,
    id: StreamId,
    is_over: bool,
    /// Epoch of its publisher.
    origin: Epoch,
    /// Hop of the bus.
    hop: u8,
    beginning: Option<Began>,
    /// Inputs that wait for the list of stations.
    early: Vec<Said>,
    next: u64,
}

/// An input of the near end.
#[derive(Debug)]
enum Said {
    Elements { position: u64, t0: units::WallTime, clock: wire::Clock, bytes: Vec<u8>, heard: Instant },
    Missing(Gap),
    Settled(Gap),
    Statement(Vec<u8>),
    Ended,
}

impl Tap {
    pub(crate) fn new(id: u64) -> Self {
        let identity =
            ReaderIdentity { id: ReaderId(id), name: format!("relay {id}"), receive_buffer_bytes: 0 };
        Self {
            receiver: Receiver::new(identity, LedgerConfig::default(), id),
            outgoing: Vec::new(),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
            streams: BTreeMap::new(),
            next_slot: 0,
            stated: BTreeMap::new(),
        }
    }

    /// States a deadline for a stream, or none any more.
    pub(crate) fn state_deadline(&mut self, now: Instant, stream: StreamName, deadline: Option<Duration>) {
        match deadline {
            Some(deadline) => self.stated.insert(stream, deadline),
            None => self.stated.remove(&stream),
        };
        let pattern = |(name, &deadline): (&StreamName, &Duration)| {
            (name.as_str().parse().expect("a name is a pattern"), deadline)
        };
        self.receiver.handle(now, Input::Deadlines(self.stated.iter().map(pattern).collect()));
    }

    pub(crate) fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let Arrival { bytes, from, drops, .. } = *arrival;
        let from: SocketAddr = driver::address(from);
        self.receiver.handle(now, Input::Datagram { bytes, from, drops });
    }

    /// Sends its reports; returns when it wants to be read again.
    pub(crate) fn send(&mut self, socket: &mut Socket<'_>) {
        for (to, bytes) in self.outgoing.drain(..) {
            socket.send(Address::Node(to), &bytes);
        }
    }

    /// Passes on what has arrived; returns when it wants to again.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        diaries: &mut Vec<Diary>,
        hand: &mut impl FnMut(NearInput<'_>),
    ) -> Option<Instant> {
        let deadline = loop {
            match self.receiver.poll(now, &mut self.buffer) {
                Output::Transmit { to, size_bytes } => {
                    self.outgoing.push((driver::node_at(to), self.buffer[..size_bytes].to_vec()));
                }
                Output::Event(event) => {
                    take(&mut self.streams, &mut self.next_slot, now, event, diaries, hand);
                }
                Output::Idle { deadline } => break deadline,
            }
        };
        assert_eq!(self.receiver.check(), Ok(()), "the law at the near relay");
        deadline.filter(|deadline| *deadline > now)
    }
}

fn take(
    streams: &mut BTreeMap<Epoch, Stream>,
    next_slot: &mut u16,
    now: Instant,
    event: Event<'_>,
    diaries: &mut Vec<Diary>,
    hand: &mut impl FnMut(NearInput<'_>),
) {
    let (epoch, said) = match event {
        Event::Began { epoch, .. } if streams.contains_key(&epoch) => return,
        Event::Began { stream, epoch, origin, description, first_index } => {
            // A publisher has one epoch at a time.
            for (_, before) in streams.iter_mut().filter(|(before, it)| **before < epoch && it.id == stream) {
                if !before.is_over && before.beginning.is_none() {
                    before.say(now, Said::Ended, diaries, hand);
                }
            }
            let id = stream;
            let elements_per_sample = u64::from(description.schema.elements_per_sample());
            let slot = *next_slot;
            *next_slot += 1;
            let first_position = first_index * elements_per_sample;
            let hop = origin.map_or(0, |origin| origin.hop.get());
            let origin = origin.map_or(epoch, |origin| origin.epoch);
            let beginning = Began {
                slot,
                description: description.encode().expect("it was read"),
                origin,
                stations: if hop > 0 { vec![description.station.clone()] } else { Vec::new() },
                first_position,
            };
            let mut stream = Stream {
                slot,
                id,
                is_over: false,
                origin,
                hop,
                beginning: Some(beginning),
                early: Vec::new(),
                next: first_position,
            };
            if hop == 0 {
                stream.begin(Vec::new(), diaries, hand);
            }
            streams.insert(epoch, stream);
            return;
        }
        Event::Upstream { epoch, hops, .. } => {
            let stream = streams.get_mut(&epoch).expect("it began");
            if stream.beginning.is_some() {
                stream.begin(hops.into_iter().map(|hop| hop.station).collect(), diaries, hand);
                for said in core::mem::take(&mut stream.early) {
                    stream.say(now, said, diaries, hand);
                }
            }
            return;
        }
        Event::Block { block, .. } => {
            let bytes = block.payload.pieces().collect::<Vec<_>>().concat();
            let (position, t0, clock) = (block.position, block.t0, block.clock);
            let said = Said::Elements { position, t0, clock, bytes, heard: block.born.unwrap_or(now) };
            (block.epoch, said)
        }
        Event::Gap { epoch, gap, .. } => (epoch, Said::Missing(gap)),
        Event::Settled { epoch, gap, .. } => (epoch, Said::Settled(gap)),
        Event::Statement { epoch, bytes, .. } => (epoch, Said::Statement(bytes)),
        Event::Ended { epoch, account, .. } if account.state == AccountState::Closed => (epoch, Said::Ended),
        Event::Ended { .. } | Event::Horizon { .. } => return,
        Event::Imposter { .. } | Event::UnknownVersion { .. } | Event::TwoPublishers { .. } => {
            panic!("one station publishes: {event:?}")
        }
    };
    let stream = streams.get_mut(&epoch).expect("it began");
    if stream.beginning.is_some() {
        stream.early.push(said);
    } else {
        stream.say(now, said, diaries, hand);
    }
}

impl Stream {
    fn begin(
        &mut self,
        mut stations: Vec<String>,
        diaries: &mut Vec<Diary>,
        hand: &mut impl FnMut(NearInput<'_>),
    ) {
        let mut began = self.beginning.take().expect("it begins once");
        stations.append(&mut began.stations);
        began.stations = stations;
        let diary = match diaries.iter_mut().position(|diary| diary.origin == self.origin) {
            Some(place) => &mut diaries[place],
            None => {
                diaries.push(Diary::new(self.origin));
                diaries.last_mut().expect("it is there")
            }
        };
        diary.starts.push(began.first_position);
        diary.is_left = false;
        // What an account before did not have of it, this one may have.
        diary.missing.remove(began.first_position..u64::MAX);
        diary.end = None;
        hand(NearInput::Began(began));
    }

    fn say(&mut self, now: Instant, said: Said, diaries: &mut [Diary], hand: &mut impl FnMut(NearInput<'_>)) {
        if self.is_over {
            // The next epoch has begun: what the account of this one still learns is not relayed.
            return;
        }
        let diary = diaries.iter_mut().find(|diary| diary.origin == self.origin).expect("it began");
        let (slot, hop) = (self.slot, self.hop);
        let start = match &said {
            Said::Elements { position, .. } => Some(*position),
            Said::Missing(gap) => Some(gap.positions.start),
            Said::Settled(_) | Said::Statement(_) | Said::Ended => None,
        };
        if let Some(positions) = start.map(|start| self.next..start).filter(|between| !between.is_empty()) {
            // Between two accounts of the epoch.
            diary.missing.insert(positions.clone());
            let count = positions.end - positions.start;
            let shares = [HopShare { hop, outcome: Outcome::Unexplained, count }].into_iter().collect();
            hand(NearInput::Missing { slot, positions, shares });
        }
        match said {
            Said::Elements { position, t0, clock, bytes, heard } => {
                let positions = position..position + bytes.len() as u64;
                self.next = positions.end;
                let age = now.since(heard);
                let elements = Elements { positions, t0, clock, bytes: &bytes, age };
                hand(NearInput::Elements { slot, elements });
            }
            Said::Missing(gap) => {
                self.next = gap.positions.end;
                diary.missing.insert(gap.positions.clone());
                let shares = shares(&gap, hop);
                hand(NearInput::Missing { slot, positions: gap.positions, shares });
            }
            Said::Settled(gap) => {
                let (positions, shares) = (gap.positions.clone(), shares(&gap, hop));
                hand(match gap.apportioned && !gap.inherited.is_empty() {
                    true => NearInput::Estimated { slot, positions, shares },
                    false => NearInput::Settled { slot, positions, shares },
                });
            }
            Said::Statement(bytes) => hand(NearInput::Statement { slot, bytes }),
            Said::Ended => {
                self.is_over = true;
                diary.end = Some(self.next);
                hand(NearInput::Ended { slot });
            }
        }
    }
}

/// Returns hop and outcome of a gap's elements.
fn shares(gap: &Gap, hop: u8) -> HopCounts {
    let mut shares = gap.inherited.clone();
    let is_inherited = |stage| stage == Stage::Source && !gap.inherited.is_empty();
    for (stage, count) in gap.lost.nonzero().filter(|(stage, _)| !is_inherited(*stage)) {
        shares.add(HopShare { hop, outcome: Outcome::Lost(stage), count });
    }
    for (outcome, count) in [(Outcome::Unexplained, gap.unexplained), (Outcome::Unsettled, gap.unsettled)] {
        if count > 0 {
            shares.add(HopShare { hop, outcome, count });
        }
    }
    shares
}
