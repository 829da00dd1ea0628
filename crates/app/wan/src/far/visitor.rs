//! A near relay at the far end: its machine, and its connection of the moment.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use engine::ReliablePort;
use relay::{FarConfig, FarEnd, FarEvent, FarInput, Publish};
use sys::clock;
use tallycast::udt::PublicKey;
use tallycast::{RelayLink, RelayStream};
use udt::SocketId;
use units::Instant;
use wire::Description;

use super::{FarSettings, Newcomer};
use crate::deadline::DeadlineError;
use crate::driver::{self, Driver, FarAct, Turn};
use crate::notice::{Notice, age_state, cause_states, nanos};
use crate::{Publication, Wanted};

/// Silence after which a connection may belong to a relay that was killed: a near end sends ten messages a second.
const QUIET: Duration = Duration::from_millis(350);

/// A near relay, connected or expected back.
pub(super) struct Visitor {
    number: u64,
    machine: FarEnd,
    driver: Driver,
    /// Its identity, from its first connection on.
    who: Option<Who>,
    connection: Option<Connection>,
    /// Names of the streams that are published.
    names: BTreeMap<u16, String>,
    /// Streams that were refused by the bus.
    refused: u64,
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
}

impl Visitor {
    pub(super) fn new(now: Instant, number: u64, settings: &FarSettings) -> Self {
        let FarSettings { station, incarnation, deadline, .. } = settings.clone();
        let config = FarConfig { station, incarnation, deadline };
        Self {
            number,
            machine: FarEnd::new(config, now),
            driver: Driver::default(),
            who: None,
            connection: None,
            names: BTreeMap::new(),
            refused: 0,
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

    /// Returns whether its near relay answers.
    pub(super) fn is_up(&self, port: &ReliablePort) -> bool {
        self.connection.as_ref().and_then(|it| port.way(it.socket)).is_some_and(|way| way.is_up)
    }

    /// Returns whether it has no connection, and no streams, of which it may also ask how they ended.
    pub(super) fn is_gone(&self) -> bool {
        self.connection.is_none() && self.names.is_empty() && self.machine.is_idle()
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

    /// Returns whether a newcomer may be this relay after another start: that is not known until something is heard of
    /// this one after the newcomer came.
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

    /// Goes on over a new connection.
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
        self.connection = Some(Connection { socket, heard: now });
        self.driver.restart();
        self.machine.handle(now, FarInput::Connected);
        take(Notice::Connected { peer });
        driver::look(&mut self.machine, self.connection.as_ref().map(|it| (port, it.socket)));
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
        driver::look(&mut self.machine, self.connection.as_ref().map(|it| (port, it.socket)));
        self.hear(port, take);
        for Wanted { slot, stated, has_unstated } in publication.wanted(self.number) {
            self.machine.handle(clock::monotonic(), FarInput::Wanted { slot, stated, has_unstated });
        }
        loop {
            let connection = self.connection.as_ref().map(|it| (port, it.socket));
            match self.driver.turn(&mut self.machine, connection) {
                Turn::Act(FarAct::Publish(slot, publish)) => self.publish(slot, publish, publication, take),
                Turn::Act(FarAct::Tell(event)) => self.on_event(event, take),
                Turn::Idle(until) => return until,
            }
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
            self.dismiss(port, &error.to_string(), take);
        }
    }

    /// Ends its connection, if there is one, with a reason.
    pub(super) fn dismiss(&mut self, port: &ReliablePort, reason: &str, take: &mut dyn FnMut(Notice)) {
        if self.connection.is_none() {
            return;
        }
        self.hang_up(port);
        if let Some(who) = &self.who {
            take(Notice::Disconnected { peer: who.peer, reason: reason.to_owned(), retry_in_s: None });
        }
    }

    /// Returns the key by which it identified itself.
    pub(super) fn key(&self) -> Option<PublicKey> {
        self.who.as_ref().and_then(|who| who.key)
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
            self.refused += 1;
            let stream = self.name(slot);
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
            FarEvent::Deadline { slot, deadline } => {
                let deadline_ns = nanos(deadline);
                let priority = self.machine.terms(slot).map_or(0, |(_, priority)| priority);
                take(Notice::Wanted { stream: self.name(slot), deadline_ns, priority });
            }
            FarEvent::DeadlineRefused { slot, wanted, round_trip } => {
                let (stream, reader, deadline) = (self.name(slot), wanted.name, wanted.deadline);
                let reason = DeadlineError::TooShort { deadline, round_trip };
                take(Notice::Warning {
                    what: format!("{stream}: reader `{reader}` is not served: {reason}"),
                });
            }
            // The connection shows the first; the state sums up the other.
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

    fn name(&self, slot: u16) -> String {
        self.names.get(&slot).cloned().unwrap_or_else(|| format!("stream {slot}"))
    }

    pub(super) fn state(&mut self, port: &ReliablePort) -> Option<RelayLink> {
        let who = self.who.as_ref()?;
        let socket = self.connection.as_ref().map(|it| it.socket);
        let way = socket.and_then(|socket| port.way(socket));
        let stats = socket.and_then(|socket| port.stats(socket));
        let machine = &mut self.machine;
        let streams = self.names.iter().filter_map(|(slot, name)| {
            let it = machine.totals(*slot)?;
            let (deadline, priority) = machine.terms(*slot)?;
            let given_up = it.causes.iter().sum();
            Some(RelayStream {
                name: name.clone(),
                first: it.first,
                next: it.next,
                delivered: it.delivered,
                missing: it.hops.total().saturating_sub(given_up),
                given_up,
                in_flight: 0,
                deadline_ns: Some(nanos(deadline)),
                priority,
                causes: cause_states(it.causes),
                age: machine.take_ages(*slot).map(age_state),
                degraded: None,
            })
        });
        let streams = streams.collect();
        Some(RelayLink {
            peer: who.peer.to_string(),
            station: Some(who.station.clone()),
            is_up: way.is_some_and(|way| way.is_up),
            round_trip_ns: way.and_then(|way| way.round_trip).map(nanos),
            repaired_packets: stats.map_or(0, |stats| stats.duplicate_packets),
            sent_packets: stats.map_or(0, |stats| stats.received_packets),
            ignored: self.machine.ignored() + self.refused,
            waiting_bytes: self.machine.held_bytes() as u64,
            streams,
        })
    }
}
