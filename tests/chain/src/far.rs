//! The far relay: a far end around an endpoint, and the readers of what it publishes.

use core::ops::Range;
use std::collections::BTreeMap;

use relay::{FarConfig, FarEnd, FarEvent, FarInput, FarOutput, Publish};
use udt::{Endpoint, EndpointConfig, Event, SocketConfig, SocketId, Terms};
use units::Instant;

use crate::Reader;
use crate::feed::Shape;

/// A far relay with all its incarnations.
#[derive(Debug)]
pub struct Far {
    pub(crate) endpoint: Endpoint,
    config: SocketConfig,
    relay: FarConfig,
    seed: u64,
    shape: Shape,
    live: Option<Live>,
    deaths: Vec<Range<Instant>>,
    /// A reader of each stream that it began.
    pub readers: Vec<Reader>,
    /// What it ignored, which nobody makes it do.
    pub ignored: Vec<FarEvent>,
    /// Number of times that a stream went on.
    pub resumed: u64,
    /// The most bytes that waited behind holes.
    pub most_held: usize,
}

#[derive(Debug)]
struct Live {
    end: FarEnd,
    socket: Option<SocketId>,
    /// Readers by the slot of their stream.
    open: BTreeMap<u16, usize>,
}

impl Far {
    pub(crate) fn new(
        seed: u64,
        shape: Shape,
        config: SocketConfig,
        relay: FarConfig,
        deaths: Vec<Range<Instant>>,
    ) -> Self {
        let mut far = Self {
            endpoint: Endpoint::new(&EndpointConfig { seed, secret: [8; 16] }),
            config,
            relay,
            seed,
            shape,
            live: None,
            deaths,
            readers: Vec::new(),
            ignored: Vec::new(),
            resumed: 0,
            most_held: 0,
        };
        far.start(Instant::ORIGIN);
        far
    }

    fn start(&mut self, now: Instant) {
        self.seed += 1_000_000;
        self.relay.incarnation += 1;
        self.endpoint = Endpoint::new(&EndpointConfig { seed: self.seed, secret: [8; 16] });
        self.endpoint.listen(self.config.clone(), 8).expect("the only listener");
        let end = FarEnd::new(self.relay.clone(), now);
        self.live = Some(Live { end, socket: None, open: BTreeMap::new() });
    }

    pub(crate) fn act(&mut self, now: Instant) -> Option<Instant> {
        let is_dead = self.deaths.iter().any(|death| death.contains(&now));
        match (is_dead, &self.live) {
            (true, _) => self.live = None,
            (false, None) => self.start(now),
            (false, Some(_)) => {}
        }
        let deaths =
            self.deaths.iter().flat_map(|death| [death.start, death.end]).filter(|at| *at > now).min();
        let relay = self.live.is_some().then(|| self.relay_on(now)).flatten();
        Instant::earlier(deaths, relay)
    }

    pub(crate) const fn is_alive(&self) -> bool {
        self.live.is_some()
    }

    pub(crate) fn note(&mut self, now: Instant, id: SocketId, event: Event) {
        let Some(live) = &mut self.live else { return };
        match event {
            Event::Accepted { .. } => {
                if let Some(socket) = self.endpoint.accept() {
                    live.socket = Some(socket);
                    live.end.handle(now, FarInput::Connected);
                }
            }
            Event::Closed(_) if live.socket == Some(id) => {
                live.socket = None;
                live.end.handle(now, FarInput::Disconnected);
            }
            _ => {}
        }
    }

    fn relay_on(&mut self, now: Instant) -> Option<Instant> {
        let mut bytes = Vec::new();
        while let Some(socket) = self.live.as_ref().and_then(|live| live.socket)
            && let Some(arrival) = self.endpoint.receive_message(socket, &mut bytes)
        {
            let (sent_us, arrived) = (arrival.sent_us, arrival.arrived);
            self.input(now, FarInput::Message { bytes: &bytes, sent_us, arrived });
            bytes.clear();
        }
        self.input(now, FarInput::Advance).map(|deadline| deadline.max(now + crate::MS))
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
                let terms = Terms { is_ordered: false, deadline, tag: 0 };
                if let Some(socket) = live.socket {
                    let _ = self.endpoint.send_message(now, socket, &bytes, terms);
                }
            }
            FarOutput::Publish {
                slot,
                publish: Publish::Begin { origin, hop, stations, first_position, deadline, .. },
            } => {
                assert_eq!((hop.get(), &stations[..]), (2, &["daq".to_owned(), "gate-a".to_owned()][..]));
                live.open.insert(slot, self.readers.len());
                self.readers.push(Reader::new(origin, first_position, deadline, self.shape.clone()));
            }
            FarOutput::Publish { slot, publish } => {
                let is_end = publish == Publish::End;
                self.readers[live.open[&slot]].take(now, publish);
                if is_end {
                    live.open.remove(&slot);
                }
            }
            FarOutput::Event(event) => match event {
                // What was under way when another connection took the place of this one (seed 89).
                FarEvent::Ignored(relay::FarFault::UnknownStream(_)) => {}
                FarEvent::Ignored(_) | FarEvent::Refused { .. } => self.ignored.push(event),
                FarEvent::Resumed { .. } => self.resumed += 1,
                FarEvent::Met { .. } | FarEvent::Lost { .. } => {}
            },
            FarOutput::Idle { .. } => {}
        }
    }

    /// Compares the readers' ledgers with the far end's accounts.
    fn check(&mut self) {
        let Some(live) = &self.live else { return };
        self.most_held = self.most_held.max(live.end.held_bytes());
        for (&slot, &reader) in &live.open {
            self.readers[reader].check(&live.end.totals(slot).expect("a stream that began"));
        }
    }
}
