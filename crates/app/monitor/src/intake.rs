//! The one thread that listens to the bus: all events of its subscriber go into live memory and into the nodes of the
//! graph.
//!
//! A plain thread: it never waits for a viewer, and viewers hold its locks only briefly. Requests that change the
//! joined streams or the graph arrive as [`Command`]s. Start with [`Intake::run`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use sample::{StreamName, StreamPattern};
use tallycast::{AccountState, Event, StreamAccount, Subscriber};
use units::Epoch;

use crate::clock::{self, Moment};
use crate::history::History;
use crate::nodes::{Applied, GraphError, Nodes};
use crate::operators::Operators;
use crate::requests::{Command, GraphRequest};
use crate::shared::Shared;

/// Maximum wait for events before commands are checked.
const PATIENCE: Duration = Duration::from_millis(20);
/// Interval at which accounts are taken: that at which pages are sent them.
const ACCOUNTS_EVERY: Duration = Duration::from_millis(500);
/// Interval at which horizons are looked at: that of tallies behind data.
const HORIZONS_EVERY: Duration = Duration::from_millis(100);
/// Events taken before commands are checked, if events arrive continuously.
const EVENTS_PER_TURN: usize = 256;
/// Maximum wait for the end of the streams of the graph and of the operators streams, so that their accounts
/// close: a loss settles in two seconds, the rest is reserve for busy machines.
const CLOSING_PATIENCE: Duration = Duration::from_secs(5);

/// The thread's belongings.
pub(crate) struct Intake {
    subscriber: Subscriber,
    nodes: Nodes,
    operators: Operators,
    shared: Arc<Shared>,
    accounts_at: Instant,
    /// Time of the next look at the horizons of streams.
    horizons_at: units::Instant,
    /// Streams with open accounts.
    open: BTreeSet<(Arc<StreamName>, Epoch)>,
    /// Time at which it ends at the latest, once the end is requested.
    deadline: Option<Instant>,
}

impl Intake {
    pub(crate) fn new(
        subscriber: Subscriber,
        nodes: Nodes,
        operators: Operators,
        shared: Arc<Shared>,
    ) -> Self {
        let (accounts_at, horizons_at) = (Instant::now(), units::Instant::ORIGIN);
        let (open, deadline) = (BTreeSet::new(), None);
        Self { subscriber, nodes, operators, shared, accounts_at, horizons_at, open, deadline }
    }

    /// Listens until it is asked to finish; returns every account, ended or cut now.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) -> Vec<StreamAccount> {
        while self.obey(commands) && !self.is_finished() {
            // All that had come by then is taken once the subscriber has nothing more.
            let now = sys::clock::monotonic();
            if self.listen() {
                self.look_at_silent(now);
            }
            if self.accounts_at.elapsed() >= ACCOUNTS_EVERY {
                self.accounts_at = Instant::now();
                self.shared.history.accounts_are(self.subscriber.accounts_without_gaps());
                self.shared.reception.set_graph(self.nodes.status());
                self.shared.reception.set_ports(self.subscriber.ports());
                self.shared.reception.set_rings_distrusted(self.nodes.bus().rings_distrusted());
                self.shared.reception.set_unjoined(self.nodes.bus().unjoined());
                self.shared.reception.set_relays(self.nodes.bus().relays_on_host());
                self.shared.reception.set_keys(self.nodes.bus().key_state());
            }
        }
        self.close()
    }

    /// Returns whether the requested end is reached; nodes and operators end with their inputs.
    fn is_finished(&mut self) -> bool {
        let Some(deadline) = self.deadline else { return false };
        let open = &self.open;
        let is_open = |input: &StreamName| open.iter().any(|(stream, _)| **stream == *input);
        self.nodes.finish(is_open);
        self.operators.finish(is_open);
        self.open.is_empty() || Instant::now() >= deadline
    }

    /// Follows the commands that are there; `false` ends the thread.
    fn obey(&mut self, commands: &Receiver<Command>) -> bool {
        loop {
            match commands.try_recv() {
                Ok(Command::Join(pattern)) => self.subscriber.add_pattern(pattern),
                Ok(Command::Leave(pattern)) => self.leave(&[pattern]),
                Ok(Command::Graph(request, answer)) => {
                    // The client may have disconnected: the graph is changed all the same.
                    let _ = answer.send(self.change(&request));
                }
                Ok(Command::Finish(patience)) => {
                    let now = Instant::now();
                    self.deadline = Some(now.checked_add(patience).unwrap_or(now));
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn change(&mut self, request: &GraphRequest) -> Result<Applied, GraphError> {
        let GraphRequest { change, of, only_check } = request;
        let history = &self.shared.history;
        let schema =
            |name: &StreamName| Some(Arc::clone(&history.stream(name.as_str())?.memory().info.schema));
        if *only_check {
            return self.nodes.check(change, *of, &schema).map(|(_, applied)| applied);
        }
        let applied = self.nodes.apply(change, *of, &schema)?;
        self.shared.reception.set_graph(self.nodes.status());
        // Joined first: a stream that both plans read stays joined.
        self.join(applied.join.clone());
        self.leave(&applied.leave);
        Ok(applied)
    }

    pub(crate) fn join(&mut self, patterns: Vec<StreamPattern>) {
        patterns.into_iter().for_each(|pattern| self.subscriber.add_pattern(pattern));
    }

    /// Leaves patterns, and forgets the streams that no other pattern matches, except those whose accounts are still
    /// open.
    fn leave(&mut self, patterns: &[StreamPattern]) {
        patterns.iter().for_each(|pattern| self.subscriber.remove_pattern(pattern));
        let is_open = |name: &StreamName| self.open.iter().any(|(stream, _)| **stream == *name);
        self.shared.history.retain(|info| self.wants(&info.name) || is_open(&info.name));
    }

    fn wants(&self, name: &StreamName) -> bool {
        self.subscriber.patterns().iter().any(|it| it.matches(name))
    }

    /// Takes the events that are there, waiting for the first; returns whether none is left.
    fn listen(&mut self) -> bool {
        let mut patience = PATIENCE;
        for _ in 0..EVENTS_PER_TURN {
            let Some(event) = self.subscriber.next(patience) else { return true };
            self.take(&event);
            patience = Duration::ZERO;
        }
        false
    }

    /// Passes on how far streams are known that send nothing, and finds inputs that are absent.
    fn look_at_silent(&mut self, now: units::Instant) {
        if now < self.horizons_at {
            return;
        }
        self.horizons_at = now + HORIZONS_EVERY;
        for horizon in self.subscriber.horizons() {
            self.nodes.horizon(&horizon);
        }
        self.nodes.advance(now);
    }

    fn take(&mut self, event: &Event) {
        let now = clock::now();
        note(&self.shared.history, event, now);
        match event {
            Event::Began(info) => {
                self.open.insert((Arc::clone(&info.name), info.epoch));
                self.nodes.began(info, sys::clock::monotonic());
            }
            Event::Block(block) => {
                self.shared.alarms.block(block);
                self.nodes.block(block, sys::clock::monotonic());
            }
            Event::Gap(gap) | Event::Settled(gap) => self.nodes.gap(gap),
            Event::Statement(_) => {}
            Event::Ended(account) => {
                // A pending end also waits for silent streams: their publisher may only have been delayed.
                let is_silence = account.account.state == AccountState::Unconfirmed;
                if !(is_silence && self.deadline.is_some()) {
                    self.open.remove(&(Arc::clone(&account.stream), account.epoch));
                }
                self.nodes.ended(account);
                self.forget_left(account);
            }
        }
    }

    /// Drops a stream that was left because no pattern matches it any longer.
    fn forget_left(&self, account: &StreamAccount) {
        if account.account.state == AccountState::Cut && !self.wants(&account.stream) {
            self.shared.history.retain(|info| self.wants(&info.name));
        }
    }

    fn close(mut self) -> Vec<StreamAccount> {
        let is_open = |name: &StreamName| self.open.iter().any(|(stream, _)| **stream == *name);
        let made = self.operators.end().into_iter().filter(is_open);
        let mut ending: BTreeSet<StreamName> = made.collect();
        ending.extend(self.nodes.close());
        let deadline = Instant::now() + CLOSING_PATIENCE;
        while !ending.is_empty() && Instant::now() < deadline {
            let Some(event) = self.subscriber.next(PATIENCE) else { continue };
            if let Event::Ended(account) = &event {
                ending.remove(&*account.stream);
            }
            self.take(&event);
        }
        let Self { subscriber, shared, operators, .. } = self;
        drop(operators);
        subscriber.close_into(|event| note(&shared.history, &event, clock::now()))
    }
}

/// Records an event in live memory.
fn note(history: &History, event: &Event, now: Moment) {
    match event {
        Event::Began(info) => history.begin(info, now),
        Event::Block(block) => history.block(block, now),
        Event::Gap(gap) | Event::Settled(gap) => history.gap(gap, now),
        Event::Statement(_) => {}
        Event::Ended(account) => history.end(account),
    }
}
