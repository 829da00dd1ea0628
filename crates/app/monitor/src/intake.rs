//! The one thread that listens to the bus: all events of its subscriber go into live memory and into the nodes of the
//! graph.
//!
//! A plain thread: it never waits for a viewer, and viewers hold its locks only briefly. Requests that change the
//! joined streams or the graph arrive as [`Command`]s. Start with [`Intake::run`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use graph::plan::Node as GraphNode;
use sample::{StreamName, StreamPattern};
use tallycast::{AccountState, Event, StreamAccount, Subscriber};
use units::Epoch;

use crate::clock::{self, Moment};
use crate::history::History;
use crate::kept_graph::{Answer, Changed, GraphKeeper, Origin, lock};
use crate::nodes::{self, GraphStatus, NodeStatus, Nodes};
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
    keeper: GraphKeeper,
    shared: Arc<Shared>,
    accounts_at: Instant,
    /// Time of the next look at the horizons of streams.
    horizons_at: units::Instant,
    /// Streams with open accounts.
    open: BTreeSet<(Arc<StreamName>, Epoch)>,
    /// Time at which it ends at the latest, once the end is requested.
    deadline: Option<Instant>,
}

/// What runs beside the intake's thread for the graph.
pub(crate) struct Processes {
    pub(crate) operators: Operators,
    pub(crate) keeper: GraphKeeper,
}

impl Intake {
    pub(crate) fn new(
        subscriber: Subscriber,
        nodes: Nodes,
        processes: Processes,
        shared: Arc<Shared>,
    ) -> Self {
        let Processes { operators, keeper } = processes;
        let (accounts_at, horizons_at) = (Instant::now(), units::Instant::ORIGIN);
        let (open, deadline) = (BTreeSet::new(), None);
        Self { subscriber, nodes, operators, keeper, shared, accounts_at, horizons_at, open, deadline }
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
                self.show_graph();
                self.shared.reception.set_ports(self.subscriber.ports());
                self.shared.reception.set_rings_distrusted(self.nodes.publishing().0.rings_distrusted());
                self.shared.reception.set_unjoined(self.nodes.publishing().0.unjoined());
                self.shared.reception.set_relays(self.nodes.publishing().0.relays_on_host());
                self.shared.reception.set_keys(self.nodes.publishing().0.key_state());
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
                Ok(Command::Graph(request, answer)) => self.change(&request, answer),
                Ok(Command::Finish(patience)) => {
                    let now = Instant::now();
                    self.deadline = Some(now.checked_add(patience).unwrap_or(now));
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Shows the graph with the state of each node.
    pub(crate) fn show_graph(&self) {
        let processes = crate::operators::lock(&self.shared.operators);
        let nodes = self.nodes.status().into_iter().map(|of| {
            let process = of.node.python().and_then(|_| processes.get(of.node.name.as_str())).cloned();
            NodeStatus::new(of, process)
        });
        let (revision, undo, nodes) = (self.nodes.revision(), self.nodes.undo(), nodes.collect());
        // A request for the graph is told where it comes from at that moment.
        let origin = Origin::default();
        self.shared.reception.set_graph(GraphStatus { revision, undo, origin, nodes });
    }

    /// Starts the operators in Python among nodes that begin.
    pub(crate) fn begin_operators(&mut self, begun: &[GraphNode]) -> std::io::Result<()> {
        begun.iter().try_for_each(|node| self.operators.begin_node(node))
    }

    fn change(&mut self, request: &GraphRequest, answer: Answer) {
        let GraphRequest { change, of, only_check } = request;
        let history = &self.shared.history;
        let schema =
            |name: &StreamName| Some(Arc::clone(&history.stream(name.as_str())?.memory().info.schema));
        let result = if *only_check {
            self.nodes.check(change, *of, &schema).map(|(_, applied)| applied)
        } else {
            self.nodes.apply(change, *of, &schema)
        };
        let applied = match result {
            Ok(applied) if !*only_check && !applied.difference.is_empty() => applied,
            unchanged => {
                let is_kept = {
                    let origin = lock(&self.shared.origin);
                    origin.kept.is_some() && origin.problem.is_none()
                };
                // The client may have disconnected.
                let _ = answer.send(unchanged.map(|applied| Changed { applied, lasting: is_kept }));
                return;
            }
        };
        // Joined first: a stream that both plans read stays joined.
        self.join(applied.join.clone());
        self.leave(&applied.leave);
        applied.difference.removed.iter().chain(&applied.difference.changed).for_each(|name| {
            if !applied.begun.iter().any(|node| node.name == *name && node.python().is_some()) {
                self.operators.end_node(name);
            }
        });
        if let Err(error) = self.begin_operators(&applied.begun) {
            tracing::error!("cannot start an operator: {error}\nraise the limit on processes (ulimit -u)");
        }
        self.show_graph();
        self.keeper.applied(self.nodes.nodes(), applied, answer);
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
            nodes::horizon(&mut self.nodes, &horizon);
        }
        self.nodes.advance(now);
    }

    fn take(&mut self, event: &Event) {
        let now = clock::now();
        note(&self.shared.history, event, now);
        match event {
            Event::Began(info) => {
                self.open.insert((Arc::clone(&info.name), info.epoch));
                nodes::began(&mut self.nodes, info, sys::clock::monotonic());
            }
            Event::Block(block) => {
                self.shared.alarms.block(block);
                self.nodes.block(block, sys::clock::monotonic());
            }
            Event::Gap(gap) | Event::Settled(gap) => nodes::gap(&mut self.nodes, gap),
            Event::Statement(_) => {}
            Event::Ended(account) => {
                // A pending end also waits for silent streams: their publisher may only have been delayed.
                let is_silence = account.account.state == AccountState::Unconfirmed;
                if !(is_silence && self.deadline.is_some()) {
                    self.open.remove(&(Arc::clone(&account.stream), account.epoch));
                }
                nodes::ended(&mut self.nodes, account);
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
