//! The near relay: a near end around an endpoint, and the reader of the bus before it.

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use ledger::{Outcome, Stage};
use relay::{
    Began, Elements, FirstConnection, NearConfig, NearEnd, NearEvent, NearInput, NearOutput, Path, Second,
    SecondConnection, Step,
};
use sim::{Address, Arrival, NodeId, Socket};
use udt::{Endpoint, EndpointConfig, Event, Sent, SocketConfig, SocketId, Terms};
use units::Instant;

use crate::MS;
use crate::diary::Diary;
use crate::driver::{self, Application};
use crate::feed::{Feed, shares};
use crate::hostile::Hostile;
use crate::secured::Secured;
use crate::tap::Tap;

/// A near relay with all its incarnations.
#[derive(Debug)]
pub struct Near {
    endpoint: Endpoint,
    /// Sessions around the endpoint, if the link has keys.
    secured: Option<Secured>,
    setting: NearSetting,
    seed: u64,
    live: Option<Live>,
    /// Diaries of the streams of a bus; those of rings are in their feeds.
    diaries: Vec<Diary>,
    /// Number of ignored inputs, which must be 0.
    pub ignored: Vec<NearEvent>,
    /// Elements that it gave up, by cause.
    pub given_up: [u64; 4],
    /// The same by stream, in the order of their beginnings.
    pub given_up_of: BTreeMap<u16, [u64; 4]>,
    /// The most bytes that waited.
    pub most_queued: usize,
    /// Number of connections that a second one replaced while they were silent.
    pub replaced: u64,
    /// Number of second connections that were given up, because the first was heard.
    pub given_up_beside: u64,
    /// Number of messages that had to be ignored.
    pub hostile: u64,
    /// Deadlines that readers behind the link wanted, in their order.
    pub wanted: Vec<Duration>,
    /// Deadlines for which it asked on its own bus, in their order.
    pub asked: Vec<Option<Duration>>,
}

/// Settings of a near relay.
#[derive(Debug)]
pub(crate) struct NearSetting {
    pub(crate) config: SocketConfig,
    pub(crate) has_keys: bool,
    pub(crate) relay: NearConfig,
    /// The far relay.
    pub(crate) peer: NodeId,
    /// Probability that a message of it is preceded by one that must be ignored.
    pub(crate) hostile: f64,
    pub(crate) source: Source,
    /// When it is dead.
    pub(crate) deaths: Vec<Range<Instant>>,
    /// When it takes its connection for silent, whatever is heard.
    pub(crate) deaf: Vec<Range<Instant>>,
}

/// Where its streams come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// The rings of publishers on its host.
    Rings(Vec<Feed>),
    /// A bus.
    Bus,
}

#[derive(Debug)]
struct Live {
    end: NearEnd,
    socket: Option<SocketId>,
    is_connected: bool,
    retry_at: Option<Instant>,
    /// Whether a second connection is made, and the one that is, with whether it is connected.
    beside: SecondConnection,
    second: Option<(SocketId, bool)>,
    /// Feeds that are read.
    reading: Vec<Reading>,
    /// Feeds that it has taken up, or that were over before it came.
    known: Vec<bool>,
    tap: Option<Tap>,
    hostile: Hostile,
}

#[derive(Debug)]
struct Reading {
    feed: usize,
    slot: u16,
    first: u64,
    next: u64,
}

impl Near {
    pub(crate) fn new(seed: u64, setting: NearSetting) -> Self {
        let mut near = Self {
            endpoint: Endpoint::new(&EndpointConfig { seed, secret: [7; 16] }),
            secured: None,
            setting,
            seed,
            live: None,
            diaries: Vec::new(),
            ignored: Vec::new(),
            given_up: [0; 4],
            given_up_of: BTreeMap::new(),
            most_queued: 0,
            replaced: 0,
            given_up_beside: 0,
            hostile: 0,
            wanted: Vec::new(),
            asked: Vec::new(),
        };
        near.start(Instant::ORIGIN);
        near
    }

    /// Returns the number of sessions that the link has had.
    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.secured.as_ref().map_or(0, Secured::sessions)
    }

    /// Returns the outcomes of each stream's elements before the link.
    #[must_use]
    pub fn diaries(&self) -> Vec<&Diary> {
        match &self.setting.source {
            Source::Rings(feeds) => feeds.iter().map(|feed| &feed.diary).collect(),
            Source::Bus => self.diaries.iter().collect(),
        }
    }

    /// Returns the number of connections that it has, or makes.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.endpoint.socket_count()
    }

    fn start(&mut self, now: Instant) {
        self.seed += 1_000_000;
        self.setting.relay.incarnation += 1;
        self.endpoint = Endpoint::new(&EndpointConfig { seed: self.seed, secret: [7; 16] });
        self.secured = self.setting.has_keys.then(|| Secured::near(self.seed, now));
        // Feeds that are over, and left the ring, are history.
        let (known, tap) = match &mut self.setting.source {
            Source::Rings(feeds) => {
                let over = feeds.iter_mut().filter(|feed| feed.is_over());
                over.for_each(|feed| (feed.diary.may_be_cut, feed.diary.is_left) = (true, true));
                (feeds.iter().map(Feed::is_over).collect(), None)
            }
            Source::Bus => {
                // What it does not hear any more remains as the one before told of it.
                self.diaries.iter_mut().for_each(|it| (it.may_be_cut, it.is_left) = (true, true));
                (Vec::new(), Some(Tap::new(self.seed)))
            }
        };
        self.live = Some(Live {
            end: NearEnd::new(self.setting.relay.clone(), now),
            socket: None,
            is_connected: false,
            retry_at: Some(now),
            beside: SecondConnection::new(now),
            second: None,
            reading: Vec::new(),
            known,
            tap,
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
        } else if let Some(tap) = &mut live.tap {
            tap.receive(now, arrival);
        }
    }

    pub(crate) fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        let deadline = driver::poll(self, now, socket);
        let secured = self.secured.as_mut().and_then(|secured| secured.poll(now, socket));
        let deadline = Instant::earlier(deadline, secured);
        if let Some(tap) = self.live.as_mut().and_then(|live| live.tap.as_mut()) {
            tap.send(socket);
        }
        deadline
    }

    fn relay_on(&mut self, now: Instant) -> Option<Instant> {
        let live = self.live.as_mut()?;
        if live.retry_at.is_some_and(|at| at <= now) {
            live.retry_at = None;
            let to = driver::address(self.setting.peer);
            live.socket = Some(self.endpoint.connect(now, to, self.setting.config.clone()));
        }
        self.look_beside(now);
        let live = self.live.as_mut()?;
        let mut tapped = None;
        match (&mut self.setting.source, &mut live.tap) {
            (Source::Rings(feeds), _) => read_feeds(live, feeds, now),
            (Source::Bus, Some(tap)) => {
                let end = &mut live.end;
                tapped = tap.read(now, &mut self.diaries, &mut |input| end.handle(now, input));
            }
            (Source::Bus, None) => unreachable!("it reads its bus"),
        }
        live.end.handle(now, NearInput::Advance);
        let socket = live.socket.filter(|_| live.is_connected);
        if let Some(socket) = socket {
            let mut bytes = Vec::new();
            while self.endpoint.receive_message(socket, &mut bytes).is_some() {
                if let Some(hostile) = live.hostile.for_near(&bytes) {
                    let before = live.end.ignored();
                    live.end.handle(now, NearInput::Message(&hostile));
                    live.hostile.ignored(live.end.ignored() - before);
                    self.hostile += live.end.ignored() - before;
                }
                live.end.handle(now, NearInput::Message(&bytes));
                bytes.clear();
            }
            if let Some(path) = path(&self.endpoint, now, socket) {
                live.end.handle(now, NearInput::Path(path));
            }
        }
        let deadline = loop {
            match live.end.poll(now) {
                NearOutput::Send { tag, bytes, deadline, priority } => {
                    let socket = socket.expect("it sends only over a connection");
                    let terms = Terms { is_ordered: false, deadline, priority, tag };
                    match self.endpoint.send_message(now, socket, &bytes, terms) {
                        Ok(Sent::Queued) => {}
                        Ok(Sent::NoRoom | Sent::TooLate) | Err(_) => {
                            live.end.handle(now, NearInput::Expired { tag, was_sent: false });
                        }
                    }
                }
                NearOutput::Event(event) => match event {
                    NearEvent::Ignored(_) if live.hostile.is_told() => {}
                    // The far end judges whether it is right.
                    NearEvent::Refused { refusal: relay::Refusal::Superseded, .. } => {}
                    NearEvent::Ignored(_) | NearEvent::Refused { .. } => self.ignored.push(event),
                    NearEvent::GaveUp { slot, positions, cause } => {
                        self.given_up[cause as usize] += positions.end - positions.start;
                        self.given_up_of.entry(slot).or_default()[cause as usize] +=
                            positions.end - positions.start;
                    }
                    NearEvent::Wanted { deadline, .. } => self.wanted.push(deadline),
                    NearEvent::Ask { stream, deadline } => {
                        self.asked.push(deadline);
                        if let Some(tap) = &mut live.tap {
                            tap.state_deadline(now, stream, deadline);
                        }
                    }
                    _ => {}
                },
                NearOutput::Idle { deadline } => break deadline,
            }
        };
        self.most_queued = self.most_queued.max(live.end.queued_bytes());
        check(live);
        let deadline = deadline.map(|deadline| deadline.max(now + MS));
        let beside = live.beside.deadline().filter(|_| live.is_connected);
        [deadline, live.retry_at, tapped, beside].into_iter().flatten().min()
    }

    /// Makes a second connection while the first is silent, and goes on with the one that answers.
    fn look_beside(&mut self, now: Instant) {
        let NearSetting { config, peer, deaf, .. } = &self.setting;
        let Some(live) = self.live.as_mut().filter(|live| live.is_connected) else { return };
        while let Some(socket) = live.socket
            && let Some(heard) = self.endpoint.heard_at(socket)
            && let Some(stats) = self.endpoint.stats(socket)
        {
            let deaf = deaf.iter().find(|deaf| deaf.contains(&now));
            let heard = deaf.map_or(heard, |deaf| heard.min(deaf.start));
            let second = match live.second {
                None => Second::Missing,
                Some((_, false)) => Second::Connecting,
                Some((_, true)) => Second::Connected,
            };
            let first = FirstConnection { heard, round_trip: stats.round_trip };
            let Some(step) = live.beside.poll(now, &first, second) else { return };
            if let (Some(secured), Step::Ask | Step::Begin) = (&mut self.secured, step) {
                secured.renew(now, *peer, relay::silence_bound(stats.round_trip) / 2);
            }
            match step {
                Step::Ask => self.endpoint.ask(now, socket),
                Step::Begin => {
                    let to = driver::address(*peer);
                    live.second = Some((self.endpoint.connect(now, to, config.clone()), false));
                }
                Step::GiveUp => {
                    if let Some((second, _)) = live.second.take() {
                        self.endpoint.close(now, second);
                        self.given_up_beside += 1;
                    }
                }
                Step::Replace => {
                    self.endpoint.close(now, socket);
                    self.replaced += 1;
                    live.go_on_with_second(now);
                }
            }
        }
    }
}

impl Live {
    /// Goes on without the first connection; returns false if there is no second, or attempt to make one.
    fn go_on_with_second(&mut self, now: Instant) -> bool {
        if core::mem::take(&mut self.is_connected) {
            self.end.handle(now, NearInput::Disconnected);
        }
        let Some((socket, is_connected)) = self.second.take() else {
            self.socket = None;
            return false;
        };
        (self.socket, self.beside) = (Some(socket), SecondConnection::new(now));
        self.is_connected = is_connected;
        if is_connected {
            self.end.handle(now, NearInput::Connected);
        }
        true
    }
}

impl Application for Near {
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
        if let Some((second, is_connected)) = &mut live.second
            && *second == id
        {
            match event {
                Event::Connected => *is_connected = true,
                Event::Closed(_) => {
                    live.second = None;
                    self.endpoint.close(now, id);
                }
                _ => {}
            }
        }
        if live.socket != Some(id) {
            return;
        }
        match event {
            Event::Connected => {
                (live.is_connected, live.beside) = (true, SecondConnection::new(now));
                live.end.handle(now, NearInput::Connected);
            }
            Event::Expired { tag, was_sent } => live.end.handle(now, NearInput::Expired { tag, was_sent }),
            Event::Closed(_) => {
                self.endpoint.close(now, id);
                if !live.go_on_with_second(now) {
                    live.retry_at = Some(now + 250 * MS);
                }
            }
            _ => {}
        }
    }

    /// Starts or dies, and reads; returns when it wants to again.
    fn act(&mut self, now: Instant) -> Option<Instant> {
        let NearSetting { deaths, source, .. } = &mut self.setting;
        let is_dead = deaths.iter().any(|death| death.contains(&now));
        let deaths = deaths.iter().flat_map(|death| [death.start, death.end]).filter(|at| *at > now).min();
        // Nothing waits for the outcomes of a feed that was over before this incarnation.
        let feeds = match source {
            Source::Rings(feeds) => {
                feeds.iter_mut().for_each(|feed| feed.produce(now));
                feeds.iter().filter_map(Feed::next_due).filter(|at| *at > now).min()
            }
            Source::Bus => None,
        };
        match (is_dead, &self.live) {
            (true, Some(_)) => {
                (self.live, self.secured) = (None, None);
                self.endpoint = Endpoint::new(&EndpointConfig { seed: self.seed, secret: [7; 16] });
            }
            (false, None) => self.start(now),
            (true, None) | (false, Some(_)) => {}
        }
        let relay = self.live.is_some().then(|| self.relay_on(now)).flatten();
        [feeds, deaths, relay].into_iter().flatten().min()
    }
}

/// Returns the state of a connection.
pub(crate) fn path(endpoint: &Endpoint, now: Instant, socket: SocketId) -> Option<Path> {
    Some(Path {
        round_trip: endpoint.stats(socket)?.round_trip,
        clock_us: endpoint.clock_us(now, socket)?,
        room: endpoint.room(socket),
        message_bytes: endpoint.message_bytes(socket),
        is_up: endpoint.is_link_up(socket),
    })
}

/// Checks the near end's accounts of its streams: what was offered is delivered, missing, given up, or in flight.
fn check(live: &Live) {
    for account in live.reading.iter().filter_map(|reading| live.end.account(reading.slot)) {
        let outcome = account.delivered + account.missing + account.given_up + account.in_flight;
        assert_eq!(account.next - account.first, outcome, "the near end's law: {account:?}");
    }
}

/// Hands over what the rings have.
fn read_feeds(live: &mut Live, feeds: &mut [Feed], now: Instant) {
    let Live { end, reading, known, .. } = live;
    for place in 0..feeds.len() {
        let name = &feeds[place].shape.name;
        // A publisher has one epoch at a time.
        let is_next = !known[place] && reading.iter().all(|reading| feeds[reading.feed].shape.name != *name);
        if is_next && feeds[place].end() > 0 {
            known[place] = true;
            let feed = &mut feeds[place];
            let (slot, first) = (u16::try_from(place).expect("a few feeds"), feed.join());
            feed.diary.starts.push(first);
            end.handle(
                now,
                NearInput::Began(Began {
                    slot,
                    description: feed.shape.description().encode().expect("a description"),
                    origin: feed.diary.origin,
                    stations: Vec::new(),
                    first_position: first,
                }),
            );
            reading.push(Reading { feed: place, slot, first, next: first });
        }
    }
    reading.retain_mut(|reading| read_feed(end, reading, &mut feeds[reading.feed], now));
}

/// Hands over what a ring has; returns whether there will be more.
fn read_feed(end: &mut NearEnd, reading: &mut Reading, feed: &mut Feed, now: Instant) -> bool {
    let Reading { slot, first, next, .. } = reading;
    let slot = *slot;
    for record in feed.records_from(*next) {
        let positions = record.positions;
        if positions.start > *next {
            // The ring has lapped its reader.
            let missing = *next..positions.start;
            feed.diary.lapped.insert(missing.clone());
            let shares = shares(Outcome::Lost(Stage::ReaderLag), missing.end - missing.start);
            end.handle(now, NearInput::Missing { slot, positions: missing, shares });
        }
        *next = positions.end;
        match record.missing {
            Some(outcome) => {
                let shares = shares(outcome, positions.end - positions.start);
                end.handle(now, NearInput::Missing { slot, positions, shares });
            }
            None => {
                let bytes = Feed::bytes(positions.clone());
                let t0 = feed.shape.time_of(positions.start / u64::from(feed.shape.elements));
                let age = now.since(record.at);
                let elements = Elements { positions, t0, clock: Feed::clock(), bytes: &bytes, age };
                end.handle(now, NearInput::Elements { slot, elements });
            }
        }
    }
    while let Some(positions) = feed.settle(now) {
        if positions.start >= *first {
            let shares = shares(Outcome::Lost(Stage::Network), positions.end - positions.start);
            end.handle(now, NearInput::Settled { slot, positions, shares });
        }
    }
    let is_over = feed.is_over() && feed.next_due().is_none();
    if is_over {
        end.handle(now, NearInput::Ended { slot });
    }
    !is_over
}
