//! A publisher: a feed, a sender and a socket that sometimes refuses.

use std::collections::BTreeMap;

use cast::Sender;
use cast::send::{Input, Output, SenderConfig, SenderEvent};
use ledger::Stage;
use sim::{Address, Arrival, Socket};
use units::{Epoch, Instant, Random, RangeSet};
use wire::{Datagram, Predecessor, Report};

use super::GROUP;
use super::feed::{Feed, Source};

/// A publisher with all its epochs.
pub(crate) struct Publisher {
    sender: Option<Sender>,
    feed: Box<dyn Source>,
    refusal: Refusal,
    is_watched: bool,
    /// Converts its datagrams to those of another version of the protocol.
    translate: fn(&mut Vec<u8>),
    random: Random,
    /// Refusals that the network reports later, as `IP_RECVERR` does.
    late_refusals: Vec<(usize, u64, usize)>,
    commands: Vec<(Instant, Command)>,
    buffer: Vec<u8>,
    /// Datagrams that this publisher sent in each epoch: the truth that accounts are compared with.
    pub(crate) epochs: Vec<EpochAsSent>,
    pub(crate) events: Vec<(Instant, SenderEvent)>,
    pub(crate) last_report: Option<Report>,
}

/// Refusals by the socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusal {
    /// Probability of a refusal at once.
    pub(crate) socket: f64,
    /// Probability of a drop by the queue discipline, reported a turn later.
    pub(crate) qdisc: f64,
}

/// A command of the scene to a publisher.
pub(crate) enum Command {
    Inject(f64),
    /// Makes a signed statement.
    State(Vec<u8>),
    /// Ends the epoch in order.
    Finish,
    /// Dies without a final tally.
    Die,
    /// Begins a new epoch.
    Restart(Box<Restart>),
}

pub(crate) struct Restart {
    pub(crate) config: SenderConfig,
    pub(crate) feed: Feed,
}

/// One epoch as its publisher sent it.
#[derive(Debug)]
pub(crate) struct EpochAsSent {
    pub(crate) epoch: Epoch,
    /// Numbers that went to the network.
    pub(crate) sent: RangeSet,
    pub(crate) refused: BTreeMap<u64, Stage>,
    /// Sample at which the epoch ends, once the final tally has left.
    pub(crate) end: Option<u64>,
    /// Refusals reported after that: only its later copies may include them.
    pub(crate) refused_late: u64,
    /// One more than the highest assigned number.
    pub(crate) next_number: u64,
    pub(crate) totals: wire::Totals,
    /// Predecessor in every descriptor of the epoch.
    pub(crate) predecessor: Option<Predecessor>,
}

impl Publisher {
    pub(crate) fn new(config: SenderConfig, feed: impl Source + 'static, seed: u64, now: Instant) -> Self {
        let epoch = config.epoch;
        let sender = Sender::new(config, seed, now).expect("a description that fits");
        // One datagram at a time, or in trains: the account is the same.
        let buffer =
            vec![0; if seed.is_multiple_of(2) { sender.min_buffer_bytes() } else { sender.train_bytes() }];
        Self {
            sender: Some(sender),
            feed: Box::new(feed),
            refusal: Refusal::default(),
            is_watched: false,
            translate: |_| (),
            random: Random::for_purpose(seed, "refusals"),
            late_refusals: Vec::new(),
            commands: Vec::new(),
            buffer,
            epochs: vec![EpochAsSent::new(epoch)],
            events: Vec::new(),
            last_report: None,
        }
    }

    pub(crate) fn refusing(mut self, refusal: Refusal) -> Self {
        self.refusal = refusal;
        self
    }

    /// Watches kernel drops on its host.
    pub(crate) fn watched(mut self, now: Instant) -> Self {
        self.is_watched = true;
        self.sender.iter_mut().for_each(|sender| sender.handle(now, Input::Watched(true)));
        self
    }

    /// Sends as another version of the protocol would.
    pub(crate) fn translating(mut self, translate: fn(&mut Vec<u8>)) -> Self {
        self.translate = translate;
        self
    }

    pub(crate) fn told(mut self, at: Instant, command: Command) -> Self {
        self.commands.push((at, command));
        self.commands.sort_by_key(|(at, _)| *at);
        self
    }

    pub(crate) fn sender(&self) -> Option<&Sender> {
        self.sender.as_ref()
    }

    pub(super) fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let Some(sender) = &mut self.sender else { return };
        match Datagram::decode(arrival.bytes) {
            Ok(Datagram::Report(report)) => {
                // Each node has an address of its own.
                let from = core::net::Ipv4Addr::from(0x0a00_0000 + arrival.from.0).into();
                let size_bytes = arrival.bytes.len();
                sender.handle(now, Input::Report { report: &report, from, size_bytes });
                self.last_report = Some(*report);
            }
            Ok(Datagram::Request(request)) => sender.handle(now, Input::Request(&request)),
            _ => {}
        }
    }

    pub(super) fn advance(&mut self, now: Instant) {
        if let Some(sender) = &mut self.sender {
            sender.handle(now, Input::Advance);
        }
    }

    pub(super) fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        self.obey(now);
        for (destination, number, size_bytes) in core::mem::take(&mut self.late_refusals) {
            self.refuse(now, destination, number, size_bytes, Stage::SenderQdisc);
        }
        self.feed.produce(now);
        let machine = self.drain(now, socket);
        let feed = if self.sender.is_some() { self.feed.next_due() } else { None };
        let command = self.commands.first().map(|(at, _)| *at);
        [machine, feed, command].into_iter().flatten().min()
    }

    fn drain(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        loop {
            let sender = self.sender.as_mut()?;
            self.feed.hand_over(now, sender);
            let output = sender.poll(now, &mut self.buffer);
            self.check();
            match output {
                Output::Transmit { destinations, numbers, segment_bytes, size_bytes } => {
                    let train = self.buffer[..size_bytes].to_vec();
                    for destination in destinations {
                        let datagrams = train.chunks(segment_bytes);
                        assert_eq!(datagrams.len() as u64, numbers.end - numbers.start);
                        for (number, datagram) in numbers.clone().zip(datagrams) {
                            self.transmit(now, socket, destination, number, datagram);
                        }
                    }
                }
                Output::Event(event) => self.events.push((now, event)),
                Output::Idle { .. } if !self.feed.is_empty() && self.wants_samples() => {}
                Output::Idle { deadline } => return deadline,
            }
        }
    }

    fn wants_samples(&self) -> bool {
        self.sender.as_ref().is_some_and(Sender::wants_samples)
    }

    fn transmit(
        &mut self,
        now: Instant,
        socket: &mut Socket<'_>,
        destination: usize,
        number: u64,
        datagram: &[u8],
    ) {
        let size_bytes = datagram.len();
        let decoded = Datagram::decode(datagram).expect("a sender writes what can be read");
        assert_eq!(decoded.head().map(|head| head.number), Some(number), "a train is as it says");
        if let Datagram::Tally(tally) = &decoded
            && tally.last
        {
            self.epochs.last_mut().expect("an epoch").end = Some(tally.head.first_index);
        }
        if self.random.chance(self.refusal.socket) {
            self.refuse(now, destination, number, size_bytes, Stage::SenderSocket);
        } else if self.random.chance(self.refusal.qdisc) {
            self.late_refusals.push((destination, number, size_bytes));
        } else {
            let mut datagram = datagram.to_vec();
            (self.translate)(&mut datagram);
            socket.send(Address::Group(GROUP), &datagram);
            self.epochs.last_mut().expect("an epoch").sent.insert(number..number + 1);
        }
    }

    fn refuse(&mut self, now: Instant, destination: usize, number: u64, size_bytes: usize, stage: Stage) {
        if let Some(sender) = &mut self.sender {
            sender.handle(now, Input::Refused { destination, number, stage, size_bytes });
        }
        let as_sent = self.epochs.last_mut().expect("an epoch");
        as_sent.refused.insert(number, stage);
        as_sent.refused_late += u64::from(as_sent.end.is_some());
        self.check();
    }

    fn check(&mut self) {
        let Some(sender) = &self.sender else { return };
        let totals = sender.totals();
        assert!(totals.samples.is_balanced(), "the publisher's samples do not add up: {totals:?}");
        let as_sent = self.epochs.last_mut().expect("an epoch");
        as_sent.next_number = sender.next_head().number;
        as_sent.totals = totals;
    }

    fn obey(&mut self, now: Instant) {
        while self.commands.first().is_some_and(|(at, _)| *at <= now) {
            let (_, command) = self.commands.remove(0);
            match (command, &mut self.sender) {
                (Command::Inject(share), Some(sender)) => sender.handle(now, Input::Inject(share)),
                (Command::Finish, Some(sender)) => sender.handle(now, Input::Finish),
                (Command::State(statement), Some(sender)) => {
                    sender.handle(now, Input::Statement(&statement));
                }
                (Command::Inject(_) | Command::State(_) | Command::Finish, None) => {}
                (Command::Die, sender) => *sender = None,
                (Command::Restart(restart), sender) => {
                    let Restart { mut config, feed } = *restart;
                    // A publisher that died remembers nothing.
                    config.predecessor = sender.as_ref().map(Sender::as_predecessor);
                    self.late_refusals.clear();
                    let predecessor = config.predecessor;
                    self.epochs.push(EpochAsSent { predecessor, ..EpochAsSent::new(config.epoch) });
                    self.feed = Box::new(feed);
                    let seed = config.epoch.incarnation;
                    let begun =
                        sender.insert(Sender::new(config, seed, now).expect("a description that fits"));
                    begun.handle(now, Input::Watched(self.is_watched));
                }
            }
        }
    }
}

impl EpochAsSent {
    fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            sent: RangeSet::new(),
            refused: BTreeMap::new(),
            end: None,
            refused_late: 0,
            next_number: 0,
            totals: wire::Totals::default(),
            predecessor: None,
        }
    }

    /// Returns the stage at which a number was lost before it reached the network.
    pub(crate) fn withheld(&self, number: u64) -> Option<Stage> {
        if self.sent.contains(number) {
            return None;
        }
        Some(self.refused.get(&number).copied().unwrap_or(Stage::Injected))
    }
}
