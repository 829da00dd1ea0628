//! Reading streams: every sample that arrives, every gap where it belongs, and the account.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::ReceiveAgent;
use sample::StreamPattern;
use units::{Epoch, StreamId};

use crate::event::{Event, StreamAccount};
use crate::flow::Flow;

/// How long a closing subscriber waits for the last word of the agent.
const CLOSING_PATIENCE: Duration = Duration::from_secs(5);
/// Accounts of ended epochs that are kept for [`Subscriber::close`].
const MAX_ENDED: usize = 4_096;

/// A reader of every stream that matches its patterns, also of those that come later.
pub struct Subscriber {
    agent: Arc<ReceiveAgent>,
    reader: String,
    patterns: Vec<StreamPattern>,
    generation: Option<u64>,
    flows: BTreeMap<StreamId, Flow>,
    queue: VecDeque<Event>,
    scratch: Vec<Event>,
    ended: VecDeque<StreamAccount>,
    /// The stream whose turn comes first next time.
    turn: Option<StreamId>,
}

impl Subscriber {
    pub(crate) fn new(agent: Arc<ReceiveAgent>, reader: String, patterns: Vec<StreamPattern>) -> Self {
        for pattern in &patterns {
            agent.select(pattern.clone());
        }
        Self {
            agent,
            reader,
            patterns,
            generation: None,
            flows: BTreeMap::new(),
            queue: VecDeque::new(),
            scratch: Vec::new(),
            ended: VecDeque::new(),
            turn: None,
        }
    }

    /// Returns the next piece of news, `None` when none has come within `patience`.
    pub fn next(&mut self, patience: Duration) -> Option<Event> {
        let deadline = Instant::now().checked_add(patience);
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            if self.pump() {
                continue;
            }
            let left = deadline.map_or(Duration::MAX, |it| it.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            let (agent, flows, generation) = (&self.agent, &self.flows, self.generation);
            agent.doorbell().wait_until(left, || {
                let changed = generation != Some(agent.generation());
                (changed || flows.values().any(Flow::is_ready)).then_some(())
            });
        }
    }

    /// Joins more streams.
    pub fn add_pattern(&mut self, pattern: StreamPattern) {
        self.agent.select(pattern.clone());
        self.patterns.push(pattern);
        self.generation = None;
    }

    /// Leaves the streams that no other pattern asks for; their accounts are cut and told.
    pub fn remove_pattern(&mut self, pattern: &StreamPattern) {
        if let Some(index) = self.patterns.iter().position(|known| known == pattern) {
            self.patterns.remove(index);
            self.agent.deselect(pattern.clone());
        }
    }

    /// Returns the patterns asked for.
    #[must_use]
    pub fn patterns(&self) -> &[StreamPattern] {
        &self.patterns
    }

    /// Returns the accounts of all open epochs as this reader stands, with the books of their sockets.
    #[must_use]
    pub fn accounts(&self) -> Vec<StreamAccount> {
        let mut accounts: Vec<_> = self.flows.values().flat_map(|flow| flow.accounts(&self.reader)).collect();
        let views: BTreeMap<(StreamId, Epoch), _> = self
            .agent
            .accounts()
            .into_iter()
            .map(|account| ((account.view.stream, account.view.epoch), account))
            .collect();
        for account in &mut accounts {
            if let Some(socket) = views.get(&(account.id, account.epoch)) {
                account.account.datagrams = socket.view.account.datagrams;
                account.reclassified.clone_from(&socket.view.reclassified);
                account.port = Some(socket.port);
                account.age = Some(socket.age);
            }
        }
        accounts
    }

    /// Leaves all streams; returns every account, the ended ones and those cut now.
    #[must_use]
    pub fn close(mut self) -> Vec<StreamAccount> {
        for pattern in std::mem::take(&mut self.patterns) {
            self.agent.deselect(pattern);
        }
        let deadline = Instant::now() + CLOSING_PATIENCE;
        while self.flows.values().any(|flow| !flow.closed) && Instant::now() < deadline {
            if !self.pump() {
                let flows = &self.flows;
                self.agent.doorbell().wait_until(Duration::from_millis(50), || {
                    flows.values().any(Flow::is_ready).then_some(())
                });
            }
            self.queue.clear();
        }
        let open: Vec<_> = self.accounts();
        self.ended.drain(..).chain(open).collect()
    }

    /// Reads on in every stream; tells whether there is news.
    fn pump(&mut self) -> bool {
        self.look_for_streams();
        let first = self.turn.take();
        let after = self.flows.range_mut(first.unwrap_or(StreamId(0))..);
        let mut next_turn = None;
        for (_, flow) in after {
            flow.pump(&self.reader, &mut self.scratch);
            next_turn = next_turn.or_else(|| flow.is_ready().then(|| flow.stream()));
        }
        if let Some(first) = first {
            for (_, flow) in self.flows.range_mut(..first) {
                flow.pump(&self.reader, &mut self.scratch);
            }
        }
        self.turn = next_turn;
        let news = !self.scratch.is_empty();
        for event in &self.scratch {
            if let Event::Ended(account) = event {
                if self.ended.len() == MAX_ENDED {
                    self.ended.pop_front();
                }
                self.ended.push_back(account.clone());
            }
        }
        self.queue.extend(self.scratch.drain(..));
        self.flows.retain(|_, flow| !flow.closed);
        news
    }

    fn look_for_streams(&mut self) {
        let generation = self.agent.generation();
        if self.generation == Some(generation) {
            return;
        }
        self.generation = Some(generation);
        for inlet in self.agent.inlets() {
            let wanted = self.patterns.iter().any(|pattern| pattern.matches(&inlet.description.name));
            if wanted && !self.flows.contains_key(&inlet.stream) {
                self.flows.insert(inlet.stream, Flow::new(inlet));
            }
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        for pattern in std::mem::take(&mut self.patterns) {
            self.agent.deselect(pattern);
        }
    }
}
