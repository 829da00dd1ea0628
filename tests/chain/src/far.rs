//! The far relay: a far end around an endpoint, and a sender on its bus for each stream that it publishes.

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use cast::send::ReaderDeadlines;
use relay::{FarConfig, FarEnd, FarEvent, FarInput, FarOutput, Publish, WantedBy};
use sim::{Address, Arrival, Group, NodeId, Socket};
use udt::{Endpoint, EndpointConfig, Event, SocketConfig, SocketId, Terms};
use units::Instant;
use wire::Description;

use crate::bus::Bus;
use crate::driver::{self, Application};
use crate::feed::Shape;
use crate::hostile::Hostile;
use crate::published::Published;
use crate::secured::Secured;

/// A far relay with all its incarnations.
#[derive(Debug)]
pub struct Far {
    endpoint: Endpoint,
    /// Sessions around the endpoint, if the link has keys.
    secured: Option<Secured>,
    setting: FarSetting,
    seed: u64,
    live: Option<Live>,
    /// Publications, of each stream that it began.
    pub published: Vec<Published>,
    /// Number of ignored inputs, which must be 0.
    pub ignored: Vec<FarEvent>,
    /// Number of times that a stream went on.
    pub resumed: u64,
    /// Number of messages that had to be ignored.
    pub hostile: u64,
    /// Deadlines that it has decided to keep for its readers, in their order.
    pub decided: Vec<Duration>,
    /// Number of readers' deadlines that were refused.
    pub refused_deadlines: u64,
    /// The most bytes that waited behind holes.
    pub most_held: usize,
}

/// Settings of a far relay.
#[derive(Clone, Debug)]
pub(crate) struct FarSetting {
    pub(crate) config: SocketConfig,
    pub(crate) has_keys: bool,
    pub(crate) relay: FarConfig,
    /// The near relay.
    pub(crate) peer: NodeId,
    /// Probability that a message of it is preceded by one that must be ignored.
    pub(crate) hostile: f64,
    /// The bus behind it.
    pub(crate) group: Group,
    /// Forms of the streams.
    pub(crate) shapes: Vec<Shape>,
    /// Stations that its streams have passed.
    pub(crate) stations: Vec<String>,
    /// When it is dead.
    pub(crate) deaths: Vec<Range<Instant>>,
}

#[derive(Debug)]
struct Live {
    end: FarEnd,
    socket: Option<SocketId>,
    /// Connections over which nothing was said yet.
    lobby: Vec<SocketId>,
    /// Streams by their slot.
    open: BTreeMap<u16, usize>,
    /// Senders by the number of what they publish.
    senders: BTreeMap<usize, Bus>,
    /// What readers were last seen to want, by slot, and when to look again.
    wanted: BTreeMap<u16, ReaderDeadlines>,
    next_look: Instant,
    hostile: Hostile,
}

impl Far {
    pub(crate) fn new(seed: u64, setting: FarSetting) -> Self {
        let mut far = Self {
            endpoint: Endpoint::new(&EndpointConfig { seed, secret: [8; 16] }),
            secured: None,
            setting,
            seed,
            live: None,
            published: Vec::new(),
            ignored: Vec::new(),
            resumed: 0,
            hostile: 0,
            decided: Vec::new(),
            refused_deadlines: 0,
            most_held: 0,
        };
        far.start(Instant::ORIGIN);
        far
    }

    fn start(&mut self, now: Instant) {
        self.seed += 1_000_000;
        self.setting.relay.incarnation += 1;
        self.endpoint = Endpoint::new(&EndpointConfig { seed: self.seed, secret: [8; 16] });
        self.secured = self.setting.has_keys.then(|| Secured::far(self.seed, now));
        self.endpoint.listen(self.setting.config.clone(), 8).expect("the only listener");
        let end = FarEnd::new(self.setting.relay.clone(), now);
        self.live = Some(Live {
            end,
            socket: None,
            lobby: Vec::new(),
            open: BTreeMap::new(),
            senders: BTreeMap::new(),
            wanted: BTreeMap::new(),
            next_look: now,
            hostile: Hostile::new(self.seed, self.setting.hostile),
        });
    }

    pub(crate) fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let Some(live) = &mut self.live else { return };
        if arrival.from == self.setting.peer {
            match &mut self.secured {
                Some(secured) => secured.receive(now, &mut self.endpoint, arrival),
                None => driver::receive(&mut self.endpoint, now, arrival),
            }
        } else {
            live.senders.values_mut().for_each(|sender| sender.receive(now, arrival));
        }
    }

    pub(crate) fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        let link = driver::poll(self, now, socket);
        let secured = self.secured.as_mut().and_then(|secured| secured.poll(now, socket));
        let link = Instant::earlier(link, secured);
        let Some(live) = &mut self.live else { return link };
        let senders = loop {
            // As in the product, the sender of a stream begins once the one before it has sent its end.
            let (mut names, mut deadline) = (BTreeSet::new(), None);
            for (number, sender) in &mut live.senders {
                let published = &mut self.published[*number];
                if names.insert(published.name().to_owned()) {
                    deadline = Instant::earlier(deadline, sender.poll(now, socket));
                    published.is_on_bus |= sender.has_sent();
                }
            }
            let count = live.senders.len();
            live.senders.retain(|_, sender| !sender.is_over());
            if live.senders.len() == count {
                break deadline;
            }
        };
        Instant::earlier(link, senders)
    }

    /// As in the product, a connection replaces the one before when something is said over it.
    fn welcome(&mut self, now: Instant) {
        let Some(live) = &mut self.live else { return };
        let spoken = live.lobby.iter().position(|socket| self.endpoint.is_readable(*socket));
        if let Some(place) = spoken {
            if let Some(before) = live.socket.replace(live.lobby.remove(place)) {
                self.endpoint.close(now, before);
            }
            live.end.handle(now, FarInput::Connected);
        }
    }

    fn relay_on(&mut self, now: Instant) -> Option<Instant> {
        self.welcome(now);
        let mut bytes = Vec::new();
        while let Some(socket) = self.live.as_ref().and_then(|live| live.socket)
            && let Some(arrival) = self.endpoint.receive_message(socket, &mut bytes)
        {
            let (sent_us, arrived) = (arrival.sent_us, arrival.arrived);
            let live = self.live.as_mut().expect("it has a socket");
            if let Some(bytes) = live.hostile.for_far(&bytes, sent_us) {
                self.input_hostile(now, FarInput::Message { bytes: &bytes, sent_us, arrived });
            }
            self.input(now, FarInput::Message { bytes: &bytes, sent_us, arrived });
            bytes.clear();
        }
        self.look_at_readers(now);
        self.input(now, FarInput::Advance).map(|deadline| deadline.max(now + crate::MS))
    }

    /// Takes a message that must be ignored.
    fn input_hostile(&mut self, now: Instant, input: FarInput<'_>) {
        let ignored = self.ignored.len();
        let counted = |far: &Self| far.live.as_ref().map_or(0, |live| live.end.ignored());
        let before = counted(self);
        self.input(now, input);
        self.hostile += counted(self) - before;
        self.ignored.truncate(ignored);
    }

    /// Tells the far end what readers want where that has changed, ten times a second.
    fn look_at_readers(&mut self, now: Instant) {
        let Some(live) = self.live.as_mut().filter(|live| live.next_look <= now) else { return };
        live.next_look = now + 100 * crate::MS;
        let mut news = Vec::new();
        for (&slot, number) in &live.open {
            let Some(sender) = live.senders.get_mut(number) else { continue };
            let wanted = sender.sender().reader_deadlines(now);
            if live.wanted.get(&slot) != Some(&wanted) {
                live.wanted.insert(slot, wanted.clone());
                news.push((slot, wanted));
            }
        }
        for (slot, ReaderDeadlines { stated, unstated }) in news {
            let stated = stated.into_iter().map(|it| WantedBy {
                reader: it.reader.0,
                name: it.name,
                deadline: it.deadline,
            });
            self.input(now, FarInput::Wanted { slot, stated: stated.collect(), has_unstated: unstated > 0 });
        }
    }

    /// Takes an input and all that follows from it, after which the law must hold.
    fn input(&mut self, now: Instant, input: FarInput<'_>) -> Option<Instant> {
        let live = self.live.as_mut()?;
        if let Some(path) = live.socket.and_then(|socket| crate::near::path(&self.endpoint, now, socket)) {
            live.end.handle(now, FarInput::Path(path));
        }
        live.end.handle(now, input);
        let deadline = loop {
            match self.live.as_mut()?.end.poll(now) {
                FarOutput::Idle { deadline } => break deadline,
                output => self.take(now, output),
            }
        };
        self.check();
        deadline
    }

    fn take(&mut self, now: Instant, output: FarOutput) {
        let Some(live) = &mut self.live else { return };
        match output {
            FarOutput::Send { bytes, deadline } => {
                let terms = Terms { deadline, ..Terms::default() };
                if let Some(socket) = live.socket {
                    let _ = self.endpoint.send_message(now, socket, &bytes, terms);
                }
            }
            FarOutput::Publish { slot, publish: Publish::Begin { stations, description, .. } }
                if stations != self.setting.stations =>
            {
                panic!("slot {slot} passed {stations:?}: {description:?}");
            }
            FarOutput::Publish { slot, publish } => {
                if let Publish::Begin { origin, hop, first_position, deadline, description, .. } = &publish {
                    assert_eq!(usize::from(hop.get()), self.setting.stations.len());
                    let seed = self.seed + (self.published.len() as u64) * 1_000_000_007;
                    let station = &self.setting.relay.station;
                    let bus = Bus::begin(now, seed, self.setting.group, station, &publish);
                    let origin = wire::Origin { epoch: *origin, hop: *hop };
                    let description = Description::decode(description).expect("it was read");
                    let mut shapes = self.setting.shapes.iter();
                    let shape = shapes.find(|shape| shape.name == description.name.to_string());
                    let shape = shape.expect("a stream of the scene").clone();
                    let published = Published::new(bus.epoch(), origin, *first_position, *deadline, shape);
                    let mut open = live.open.values().map(|number| &self.published[*number]);
                    let is_beside = open.any(|other| other.name() == published.name());
                    assert!(!is_beside, "one epoch of a stream at a time: {:?}", published.epoch);
                    live.open.insert(slot, self.published.len());
                    live.senders.insert(self.published.len(), bus);
                    self.published.push(published);
                    return;
                }
                let number = live.open[&slot];
                if publish == Publish::End {
                    live.wanted.remove(&slot);
                    live.open.remove(&slot);
                }
                if let Some(sender) = live.senders.get_mut(&number) {
                    sender.publish(now, publish.clone());
                }
                self.published[number].take(now, publish);
            }
            FarOutput::Event(event) => match event {
                // Messages in flight when another connection took the place of this one (seed 89).
                FarEvent::Ignored(relay::FarFault::UnknownStream(_)) => {}
                FarEvent::Ignored(_) | FarEvent::Refused { .. } => self.ignored.push(event),
                FarEvent::Resumed { .. } => self.resumed += 1,
                FarEvent::Deadline { slot, deadline } => {
                    self.decided.push(deadline);
                    if let Some(number) = live.open.get(&slot) {
                        self.published[*number].allow(deadline);
                    }
                }
                FarEvent::DeadlineRefused { .. } => self.refused_deadlines += 1,
                FarEvent::Met { .. } | FarEvent::Lost { .. } => {}
            },
            FarOutput::Idle { .. } => {}
        }
    }

    /// Compares what was published with the far end's accounts.
    fn check(&mut self) {
        let Some(live) = &self.live else { return };
        self.most_held = self.most_held.max(live.end.held_bytes());
        for (&slot, &number) in &live.open {
            self.published[number].check(&live.end.totals(slot).expect("a stream that began"));
        }
    }
}

impl Application for Far {
    fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    fn transmit(&mut self, now: Instant, socket: &mut Socket<'_>, to: NodeId, train: driver::Train<'_>) {
        match &mut self.secured {
            Some(secured) => secured.transmit(now, socket, to, train),
            None => socket.send_train(Address::Node(to), train.0, train.1),
        }
    }

    fn note(&mut self, now: Instant, id: SocketId, event: Event) {
        let Some(live) = &mut self.live else { return };
        match event {
            Event::Accepted { .. } => {
                live.lobby.extend(self.endpoint.accept());
            }
            Event::Closed(_) if live.lobby.contains(&id) => live.lobby.retain(|it| *it != id),
            Event::Closed(_) if live.socket == Some(id) => {
                live.socket = None;
                live.end.handle(now, FarInput::Disconnected);
            }
            _ => {}
        }
    }

    /// Starts or dies, and relays; returns when it wants to again.
    fn act(&mut self, now: Instant) -> Option<Instant> {
        let is_dead = self.setting.deaths.iter().any(|death| death.contains(&now));
        match (is_dead, &self.live) {
            (true, Some(_)) => {
                (self.live, self.secured) = (None, None);
                self.endpoint = Endpoint::new(&EndpointConfig { seed: self.seed, secret: [8; 16] });
            }
            (false, None) => self.start(now),
            (true, None) | (false, Some(_)) => {}
        }
        let deaths = self.setting.deaths.iter().flat_map(|death| [death.start, death.end]);
        let deaths = deaths.filter(|at| *at > now).min();
        let relay = self.live.is_some().then(|| self.relay_on(now)).flatten();
        Instant::earlier(deaths, relay)
    }
}
