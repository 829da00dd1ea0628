//! The contract of every reach: guarantees to a publisher and its readers, independent of the transport.
//!
//! A [`Place`] is a bus of one test with one reach; the suite in `tests/reaches.rs` runs every scene over all of
//! them. They differ only in what a scene asks [`Place`] for by name.

mod accounts;

use std::collections::BTreeMap;
use std::time::Duration;

pub use accounts::sum;
use support::Watchdog;
use tallycast::{
    Account, AccountState, Block, Bus, Epoch, Event, HostAgent, Node, Publisher, PublisherBuilder, Reach,
    StreamAccount, StreamGap, Subscriber, SubscriberBuilder,
};

/// Transports of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Shared memory, written by the publisher.
    Shm,
    /// UDP multicast, received by the reader's process.
    Udp,
    /// UDP multicast, received by an agent and read from its shared memory.
    Agent,
}

/// A bus used by one test alone.
pub struct Place {
    transport: Transport,
    publisher: Node,
    reader: Node,
    agent: Option<HostAgent>,
}

impl Place {
    /// Creates a bus with this transport.
    ///
    /// # Panics
    /// If it cannot be created: then the test has failed.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        // A unique port separates buses, on the network and in the names of rings.
        let port = support::ports::free();
        let network = format!("udp://239.84.0.0:{port}?iface=lo");
        let shared = format!("{network}&shm=on&access=owner");
        let (publishers, readers) = match transport {
            Transport::Shm => {
                let bus = format!("shm://contract-{port}-{}?access=owner", std::process::id());
                (bus.clone(), bus)
            }
            Transport::Udp => (network.clone(), network),
            Transport::Agent => (network, shared),
        };
        let bus = |text: &str| text.parse::<Bus>().expect("a bus");
        let node = |text: &str| Node::builder().bus(bus(text)).station("test").build().expect("a node");
        let agent = (transport == Transport::Agent)
            .then(|| HostAgent::open(bus(&readers), &["**".to_owned()]).expect("an agent can be started"));
        Self { transport, publisher: node(&publishers), reader: node(&readers), agent }
    }

    /// Returns the transport of this bus.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the reach that readers report.
    #[must_use]
    pub const fn reach(&self) -> Reach {
        match self.transport {
            Transport::Shm => Reach::Shm,
            Transport::Udp => Reach::Udp,
            Transport::Agent => Reach::ShmAgent,
        }
    }

    /// Returns the builder of a stream of unsigned 32-bit numbers.
    #[must_use]
    pub fn publisher(&self, name: &str) -> PublisherBuilder {
        let builder = self.publisher.publisher(name).dtype(tallycast::Dtype::U32).rate("100k");
        builder.on_full(tallycast::OnFull::Block)
    }

    /// Opens a reader of one stream and waits until it has joined.
    ///
    /// # Panics
    /// If it has not joined before the watchdog ends the wait.
    #[must_use]
    pub fn joined(&self, name: &str) -> Watched {
        if let Some(agent) = &self.agent {
            let watchdog = Watchdog::new(format_args!("the agent to receive `{name}`"));
            // A reader would receive a stream itself that the agent has not joined yet.
            while !agent.streams().iter().any(|it| it == name) {
                watchdog.check();
                agent.wait_for_change(agent.generation(), Duration::from_millis(100));
            }
        }
        let mut watched = Watched::open(self.reader.subscriber(name));
        watched.until(|seen| seen.began > 0);
        watched
    }

    /// Stops the agent.
    pub fn end_agent(&mut self) {
        self.agent = None;
    }
}

/// A reader and everything it reported.
pub struct Watched {
    subscriber: Subscriber,
    /// Events so far.
    pub seen: Seen,
}

/// Events of a reader.
#[derive(Default)]
pub struct Seen {
    /// Number of accounts that were opened.
    pub began: usize,
    /// All blocks.
    pub blocks: Vec<Block>,
    /// All gaps, in their latest version.
    pub gaps: Vec<StreamGap>,
    /// All accounts that have ended.
    pub ended: Vec<StreamAccount>,
}

impl Seen {
    fn take(&mut self, event: Event) {
        match event {
            Event::Began(_) => self.began += 1,
            Event::Block(block) => self.blocks.push(block),
            Event::Gap(gap) => self.gaps.push(gap),
            Event::Settled(gap) => {
                let known = self.gaps.iter_mut().find(|it| it.epoch == gap.epoch && it.gap.id == gap.gap.id);
                *known.expect("news of a gap that was told") = gap;
            }
            Event::Statement(_) => {}
            Event::Ended(account) => self.ended.push(account),
        }
    }

    /// Returns the values received, in order of arrival.
    ///
    /// # Panics
    /// If a block is of another type.
    #[must_use]
    pub fn values(&self) -> Vec<u32> {
        let values = self.blocks.iter().flat_map(|block| block.elements::<u32>().expect("numbers").to_vec());
        values.collect()
    }

    /// Returns the number of samples received.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.blocks.iter().map(|block| block.samples).sum()
    }

    /// Returns the accounts that have ended, by epoch.
    #[must_use]
    pub fn by_epoch(&self) -> BTreeMap<Epoch, Vec<StreamAccount>> {
        let mut by_epoch: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for account in &self.ended {
            by_epoch.entry(account.epoch).or_default().push(account.clone());
        }
        by_epoch
    }

    /// Returns the number of epochs received to their end. Over the network, a silent epoch does not count: it may
    /// continue.
    #[must_use]
    pub fn closed(&self) -> usize {
        self.ended.iter().filter(|account| account.account.state == AccountState::Closed).count()
    }
}

impl Watched {
    /// Opens a reader that may not have joined any stream yet.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[must_use]
    pub fn open(subscriber: SubscriberBuilder) -> Self {
        Self { subscriber: subscriber.open().expect("a subscriber"), seen: Seen::default() }
    }

    /// Returns the reader itself.
    #[must_use]
    pub const fn subscriber(&self) -> &Subscriber {
        &self.subscriber
    }

    /// Waits for the next event for at most `patience`.
    pub fn wait(&mut self, patience: Duration) {
        if let Some(event) = self.subscriber.next(patience) {
            self.seen.take(event);
        }
    }

    /// Reads until a condition on the events is true.
    ///
    /// # Panics
    /// If it does not become true before the watchdog ends the wait.
    pub fn until(&mut self, is_true: impl Fn(&Seen) -> bool) {
        let watchdog = Watchdog::new("an event");
        while !is_true(&self.seen) {
            watchdog.check();
            self.wait(Duration::from_millis(200));
            for account in self.subscriber.accounts() {
                assert_eq!(account.account.check(), Ok(()), "the law holds at any moment");
            }
        }
    }

    /// Reads the available events without waiting.
    pub fn glance(&mut self) {
        while let Some(event) = self.subscriber.next(Duration::ZERO) {
            self.seen.take(event);
        }
    }

    /// Returns the reaches of the streams.
    #[must_use]
    pub fn reaches(&self) -> Vec<Reach> {
        self.subscriber.reaches().into_iter().map(|(_, reach)| reach).collect()
    }

    /// Closes the reader; returns its events, with the accounts that this cut off.
    #[must_use]
    pub fn leave(self) -> Seen {
        let Self { subscriber, mut seen } = self;
        let accounts = subscriber.close_into(|event| seen.take(event));
        seen.ended = accounts;
        seen
    }
}

/// Closes a publisher and checks that every accepted sample was numbered.
///
/// # Panics
/// If one was not.
pub fn close(publisher: Publisher) {
    let offered = publisher.next_index();
    let samples = publisher.close().samples;
    assert_eq!(samples.numbered + samples.source, offered);
}

/// Checks the accounts of an epoch that ran to the publisher's end: closed, balanced, explained, and of the
/// expected hop. Returns their sum.
///
/// # Panics
/// If the accounts are not in order.
pub fn check_closed(place: &Place, accounts: &[StreamAccount]) -> Account {
    // In shared memory, a publisher without a processor does not count as silent.
    assert!(accounts.len() == 1 || place.transport() != Transport::Shm, "{accounts:?}");
    for account in accounts {
        assert_eq!(account.reach, place.reach());
        // Rule 11: a reader behind shared memory alone has no network counters.
        assert_eq!(account.account.datagrams.is_none(), place.transport() == Transport::Shm);
    }
    let account = sum(accounts);
    assert_eq!(account.state, AccountState::Closed);
    assert!(account.closed() && account.explained(), "{account:?}");
    account
}
