//! The near relay: a near end around an endpoint, and the reader of the feed.

use core::ops::Range;

use ledger::{Outcome, Stage};
use relay::{Began, Elements, NearConfig, NearEnd, NearEvent, NearInput, NearOutput, Path};
use sim::NodeId;
use udt::{Endpoint, EndpointConfig, Event, Sent, SocketConfig, SocketId, Terms};
use units::Instant;

use crate::feed::{Feed, shares};
use crate::{MS, address};

/// A near relay with all its incarnations.
#[derive(Debug)]
pub struct Near {
    pub(crate) endpoint: Endpoint,
    config: SocketConfig,
    relay: NearConfig,
    far: NodeId,
    seed: u64,
    /// The feeds, one after the other.
    pub feeds: Vec<Feed>,
    live: Option<Live>,
    /// Spans in which it is dead.
    deaths: Vec<Range<Instant>>,
    /// What it ignored, which nobody makes it do.
    pub ignored: Vec<NearEvent>,
    /// Elements that it gave up, by cause.
    pub given_up: [u64; 4],
    /// The most bytes that waited.
    pub most_queued: usize,
}

#[derive(Debug)]
struct Live {
    end: NearEnd,
    socket: Option<SocketId>,
    is_connected: bool,
    retry_at: Option<Instant>,
    /// Feed that is read, and the next position.
    reading: Option<Reading>,
    next_feed: usize,
}

#[derive(Debug)]
struct Reading {
    feed: usize,
    slot: u16,
    first: u64,
    next: u64,
}

impl Near {
    pub(crate) fn new(
        seed: u64,
        feeds: Vec<Feed>,
        config: SocketConfig,
        relay: NearConfig,
        deaths: Vec<Range<Instant>>,
        far: NodeId,
    ) -> Self {
        let mut near = Self {
            endpoint: Endpoint::new(&EndpointConfig { seed, secret: [7; 16] }),
            config,
            relay,
            far,
            seed,
            feeds,
            live: None,
            deaths,
            ignored: Vec::new(),
            given_up: [0; 4],
            most_queued: 0,
        };
        near.start(Instant::ORIGIN);
        near
    }

    fn start(&mut self, now: Instant) {
        self.seed += 1_000_000;
        self.relay.incarnation += 1;
        self.endpoint = Endpoint::new(&EndpointConfig { seed: self.seed, secret: [7; 16] });
        // Feeds that are over, and left the ring, are history.
        let next_feed = self.feeds.iter().position(|feed| !feed.is_over()).unwrap_or(self.feeds.len());
        self.live = Some(Live {
            end: NearEnd::new(self.relay.clone(), now),
            socket: None,
            is_connected: false,
            retry_at: Some(now),
            reading: None,
            next_feed,
        });
    }

    /// Incarnations or dies, and reads; returns when it wants to again.
    pub(crate) fn act(&mut self, now: Instant) -> Option<Instant> {
        let is_dead = self.deaths.iter().any(|death| death.contains(&now));
        self.feeds.iter_mut().for_each(|feed| feed.produce(now));
        match (is_dead, &self.live) {
            (true, _) => self.live = None,
            (false, None) => self.start(now),
            (false, Some(_)) => {}
        }
        // Nobody waits for the outcomes of a feed that was over before this incarnation.
        let feeds = self.feeds.iter().filter_map(Feed::next_due).filter(|at| *at > now).min();
        let deaths =
            self.deaths.iter().flat_map(|death| [death.start, death.end]).filter(|at| *at > now).min();
        let relay = self.live.is_some().then(|| self.relay_on(now)).flatten();
        [feeds, deaths, relay].into_iter().flatten().min()
    }

    pub(crate) const fn is_alive(&self) -> bool {
        self.live.is_some()
    }

    pub(crate) fn note(&mut self, now: Instant, id: SocketId, event: Event) {
        let Some(live) = &mut self.live else { return };
        if live.socket != Some(id) {
            return;
        }
        match event {
            Event::Connected => {
                live.is_connected = true;
                live.end.handle(now, NearInput::Connected);
            }
            Event::Expired { tag, was_sent } => live.end.handle(now, NearInput::Expired { tag, was_sent }),
            Event::Closed(_) => {
                if core::mem::take(&mut live.is_connected) {
                    live.end.handle(now, NearInput::Disconnected);
                }
                live.socket = None;
                live.retry_at = Some(now + 250 * MS);
            }
            _ => {}
        }
    }

    fn relay_on(&mut self, now: Instant) -> Option<Instant> {
        let live = self.live.as_mut()?;
        if live.retry_at.is_some_and(|at| at <= now) {
            live.retry_at = None;
            live.socket = Some(self.endpoint.connect(now, address(self.far), self.config.clone()));
        }
        read_feeds(live, &mut self.feeds, now);
        live.end.handle(now, NearInput::Advance);
        let socket = live.socket.filter(|_| live.is_connected);
        if let Some(socket) = socket {
            let mut bytes = Vec::new();
            while self.endpoint.receive_message(socket, &mut bytes).is_some() {
                live.end.handle(now, NearInput::Message(&bytes));
                bytes.clear();
            }
            if let Some(path) = path(&self.endpoint, now, socket) {
                live.end.handle(now, NearInput::Path(path));
            }
        }
        let deadline = loop {
            match live.end.poll(now) {
                NearOutput::Send { tag, bytes, deadline } => {
                    let socket = socket.expect("it sends only over a connection");
                    let terms = Terms { is_ordered: false, deadline, tag };
                    match self.endpoint.send_message(now, socket, &bytes, terms) {
                        Ok(Sent::Queued) => {}
                        Ok(Sent::NoRoom | Sent::TooLate) | Err(_) => {
                            live.end.handle(now, NearInput::Expired { tag, was_sent: false });
                        }
                    }
                }
                NearOutput::Event(event) => match event {
                    NearEvent::Ignored(_) | NearEvent::Refused { .. } => self.ignored.push(event),
                    NearEvent::GaveUp { positions, cause, .. } => {
                        self.given_up[cause as usize] += positions.end - positions.start;
                    }
                    _ => {}
                },
                NearOutput::Idle { deadline } => break deadline,
            }
        };
        self.most_queued = self.most_queued.max(live.end.queued_bytes());
        check(live);
        let deadline = deadline.map(|deadline| deadline.max(now + MS));
        Instant::earlier(deadline, live.retry_at)
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

/// Checks the near end's account of its stream: what was offered is delivered, missing, given up, or in flight.
fn check(live: &Live) {
    let Some(account) = live.reading.as_ref().and_then(|reading| live.end.account(reading.slot)) else {
        return;
    };
    let outcome = account.delivered + account.missing + account.given_up + account.in_flight;
    assert_eq!(account.next - account.first, outcome, "the near end's law: {account:?}");
}

/// Hands over what the ring has.
fn read_feeds(live: &mut Live, feeds: &mut [Feed], now: Instant) {
    let Live { end, reading, next_feed, .. } = live;
    if reading.is_none()
        && let Some(feed) = feeds.get(*next_feed).filter(|feed| feed.end() > 0)
    {
        let (slot, first) = (u16::try_from(*next_feed).expect("a few feeds"), feed.join());
        end.handle(
            now,
            NearInput::Began(Began {
                slot,
                description: feed.shape.description().encode().expect("a description"),
                origin: feed.origin,
                stations: Vec::new(),
                first_position: first,
            }),
        );
        *reading = Some(Reading { feed: *next_feed, slot, first, next: first });
        *next_feed += 1;
    }
    let Some(Reading { feed, slot, first, next }) = reading else { return };
    let feed = &mut feeds[*feed];
    let slot = *slot;
    for record in feed.records_from(*next) {
        let positions = record.positions;
        if positions.start > *next {
            // The ring has lapped its reader.
            let missing = *next..positions.start;
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
    if feed.is_over() && feed.next_due().is_none() {
        end.handle(now, NearInput::Ended { slot });
        *reading = None;
    }
}
