//! A near relay at the far end: its machine, and its connection of the moment.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use engine::ReliablePort;
use relay::{Cause, FarConfig, FarEnd, FarEvent, FarInput, FarOutput, Publish};
use sys::clock;
use tallycast::udt::PublicKey;
use udt::{Sent, SocketId, Terms};
use units::Instant;
use wire::Description;

use super::{FarSettings, Newcomer};
use crate::Publication;
use crate::near::path_of;
use crate::notice::{LinkState, Notice, StreamState};

/// Silence after which a connection may belong to a relay that was killed: a near end speaks ten times a second.
const QUIET: Duration = Duration::from_millis(350);

/// A near relay, connected or expected back.
pub(super) struct Visitor {
    number: u64,
    machine: FarEnd,
    /// Who it is, from its first connection on.
    who: Option<Who>,
    connection: Option<Connection>,
    /// Names of the streams that are published.
    names: BTreeMap<u16, String>,
    is_fault_told: bool,
    message: Vec<u8>,
}

struct Who {
    peer: SocketAddr,
    key: Option<PublicKey>,
    station: String,
    incarnation: u64,
}

struct Connection {
    socket: SocketId,
    heard: Instant,
    /// Messages that found no room.
    stalled: VecDeque<(Vec<u8>, Option<Instant>)>,
}

impl Visitor {
    pub(super) fn new(now: Instant, number: u64, settings: &FarSettings) -> Self {
        let config = FarConfig { station: settings.station.clone(), incarnation: settings.incarnation };
        Self {
            number,
            machine: FarEnd::new(config, now),
            who: None,
            connection: None,
            names: BTreeMap::new(),
            is_fault_told: false,
            message: Vec::new(),
        }
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Returns whether nothing of it is left.
    pub(super) fn is_gone(&self) -> bool {
        self.connection.is_none() && self.names.is_empty()
    }

    /// Returns whether a newcomer is the same process.
    pub(super) fn is_incarnation(&self, newcomer: &Newcomer) -> bool {
        self.who
            .as_ref()
            .is_some_and(|who| who.incarnation == newcomer.hello.incarnation && who.key == newcomer.key)
    }

    /// Returns whether a newcomer is this relay after another start.
    pub(super) fn is_succeeded_by(&self, now: Instant, newcomer: &Newcomer) -> bool {
        self.is_like(newcomer) && self.connection.as_ref().is_none_or(|it| now >= it.heard + QUIET)
    }

    /// Returns whether it is not known yet if a newcomer is this relay after another start: nothing was heard of it since
    /// the newcomer came.
    pub(super) fn may_be_succeeded_by(&self, now: Instant, newcomer: &Newcomer) -> bool {
        let is_unsure = |it: &Connection| now < it.heard + QUIET && it.heard <= newcomer.since;
        self.is_like(newcomer) && self.connection.as_ref().is_some_and(is_unsure)
    }

    fn is_like(&self, newcomer: &Newcomer) -> bool {
        let is_like = |who: &Who| {
            let is_host = who.key.is_some() || who.peer.ip() == newcomer.peer.ip();
            who.incarnation != newcomer.hello.incarnation
                && who.key == newcomer.key
                && who.station == newcomer.hello.station
                && is_host
        };
        self.who.as_ref().is_some_and(is_like)
    }

    /// Goes on over a connection, in place of one before.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        newcomer: Newcomer,
        port: &ReliablePort,
        take: &mut dyn FnMut(Notice),
    ) {
        self.hang_up(port);
        let Newcomer { socket, peer, key, hello, messages, .. } = newcomer;
        self.who = Some(Who { peer, key, station: hello.station, incarnation: hello.incarnation });
        self.connection = Some(Connection { socket, heard: now, stalled: VecDeque::new() });
        self.machine.handle(now, FarInput::Connected);
        take(Notice::Connected { peer });
        self.look_at_way(port);
        for (bytes, arrival) in messages {
            let (sent_us, arrived) = (arrival.sent_us, arrival.arrived);
            self.machine.handle(clock::monotonic(), FarInput::Message { bytes: &bytes, sent_us, arrived });
        }
    }

    /// Ends its connection.
    pub(super) fn hang_up(&mut self, port: &ReliablePort) {
        if let Some(connection) = self.connection.take() {
            port.leave(connection.socket);
            self.machine.handle(clock::monotonic(), FarInput::Disconnected);
        }
    }

    /// Ends its streams; returns their numbers.
    pub(super) fn end(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.names).into_keys().collect()
    }

    /// Does everything that can be done now; returns when to do so again.
    pub(super) fn go_round(
        &mut self,
        port: &ReliablePort,
        publication: &mut impl Publication,
        take: &mut dyn FnMut(Notice),
    ) -> Option<Instant> {
        self.look_at_way(port);
        self.hear(port, take);
        for (slot, deadline, priority) in publication.wanted(self.number) {
            self.machine.handle(clock::monotonic(), FarInput::Wanted { slot, deadline, priority });
        }
        loop {
            self.machine.handle(clock::monotonic(), FarInput::Advance);
            self.send(port);
            let mut has_sent = false;
            let deadline = loop {
                match self.machine.poll(clock::monotonic()) {
                    FarOutput::Publish { slot, publish } => self.publish(slot, publish, publication, take),
                    FarOutput::Send { bytes, deadline } => {
                        if let Some(connection) = &mut self.connection {
                            connection.stalled.push_back((bytes, deadline));
                        }
                        self.send(port);
                        has_sent = true;
                    }
                    FarOutput::Event(event) => self.on_event(event, take),
                    FarOutput::Idle { deadline } => break deadline,
                }
            };
            // Meanwhile the port may have made room, of which it does not tell.
            if !has_sent {
                return deadline;
            }
            self.look_at_way(port);
        }
    }

    fn look_at_way(&mut self, port: &ReliablePort) {
        let way = self.connection.as_ref().and_then(|it| port.way(it.socket));
        if let Some(way) = way {
            self.machine.handle(way.at, FarInput::Path(path_of(&way)));
        }
    }

    fn hear(&mut self, port: &ReliablePort, take: &mut dyn FnMut(Notice)) {
        let Some(connection) = &mut self.connection else { return };
        // Controls have no deadline, and totals that are late are followed by others.
        let _ = port.take_expired(connection.socket);
        let end = loop {
            match port.try_receive_message(connection.socket, &mut self.message) {
                Ok(Some(arrival)) => {
                    let now = clock::monotonic();
                    connection.heard = now;
                    let (bytes, sent_us, arrived) = (&self.message[..], arrival.sent_us, arrival.arrived);
                    self.machine.handle(now, FarInput::Message { bytes, sent_us, arrived });
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = end {
            self.hang_up(port);
            if let Some(who) = &self.who {
                take(Notice::Disconnected { peer: who.peer, reason: error.to_string(), retry_in_s: None });
            }
        }
    }

    /// Sends what the machine has handed out: at once, but for a message of more packets than there is room for.
    fn send(&mut self, port: &ReliablePort) {
        let Some(connection) = &mut self.connection else { return };
        while let Some((bytes, deadline)) = connection.stalled.front() {
            let terms = Terms { is_ordered: false, deadline: *deadline, tag: 0 };
            match port.try_send_message(connection.socket, bytes, terms) {
                Ok(Sent::NoRoom) => return,
                Ok(Sent::Queued | Sent::TooLate) | Err(_) => {}
            }
            connection.stalled.pop_front();
        }
    }

    fn publish(
        &mut self,
        slot: u16,
        publish: Publish,
        publication: &mut impl Publication,
        take: &mut dyn FnMut(Notice),
    ) {
        match &publish {
            Publish::Begin { description, first_position, .. } => {
                let name = Description::decode(description)
                    .map_or_else(|_| format!("stream {slot}"), |description| description.name.to_string());
                take(Notice::Opened { stream: name.clone(), position: *first_position });
                self.names.insert(slot, name);
            }
            Publish::End => {
                if let Some(stream) = self.names.remove(&slot) {
                    take(Notice::Closed { stream });
                }
            }
            _ => {}
        }
        if let Some(reason) = publication.publish((self.number, slot), publish) {
            let stream = self.names.get(&slot).cloned().unwrap_or_else(|| format!("stream {slot}"));
            take(Notice::Refused { stream, reason });
        }
    }

    fn on_event(&mut self, event: FarEvent, take: &mut dyn FnMut(Notice)) {
        match event {
            FarEvent::Met { station } => {
                if let Some(who) = &self.who {
                    take(Notice::Met { peer: who.peer, station });
                }
            }
            FarEvent::Refused { origin, refusal } => {
                take(Notice::Refused { stream: format!("epoch {origin}"), reason: refusal.to_string() });
            }
            // The first is seen by its connection, the other is summed up in the state.
            FarEvent::Resumed { .. } | FarEvent::Lost { .. } => {}
            FarEvent::Ignored(fault) => {
                if !std::mem::replace(&mut self.is_fault_told, true) {
                    take(Notice::Warning {
                        what: format!("{fault}; this and what follows of it is ignored"),
                    });
                }
            }
        }
    }

    pub(super) fn state(&self, port: &ReliablePort) -> Option<LinkState> {
        let who = self.who.as_ref()?;
        let socket = self.connection.as_ref().map(|it| it.socket);
        let way = socket.and_then(|socket| port.way(socket));
        let stats = socket.and_then(|socket| port.stats(socket));
        let streams = self.names.iter().filter_map(|(slot, name)| {
            let it = self.machine.totals(*slot)?;
            let given_up = it.causes.iter().sum();
            let causes = Cause::ALL.iter().zip(it.causes).filter(|(_, count)| *count > 0);
            Some(StreamState {
                name: name.clone(),
                first: it.first,
                next: it.next,
                delivered: it.delivered,
                missing: it.hops.total().saturating_sub(given_up),
                given_up,
                in_flight: 0,
                causes: causes.map(|(cause, count)| (cause.name(), count)).collect(),
            })
        });
        Some(LinkState {
            peer: who.peer,
            station: Some(who.station.clone()),
            is_up: way.is_some_and(|way| way.is_up),
            round_trip_ns: way.and_then(|way| way.round_trip).map(crate::notice::nanos),
            repaired_packets: stats.map_or(0, |stats| stats.duplicate_packets),
            sent_packets: stats.map_or(0, |stats| stats.received_packets),
            ignored: self.machine.ignored(),
            streams: streams.collect(),
        })
    }
}
