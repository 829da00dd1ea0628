//! Reading streams: every sample that arrives, every gap at its position, and the account.

mod ended;
mod ending;
mod host;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    Attendance, News, PortStatus, ReceiveAgent, ReceiveError, ReceiveFrom, StreamAccountView, Subscription,
};
use ring::{Doorbell, Idle, wait_any};
use sample::{StreamName, StreamPattern};
use units::{Epoch, StreamId};

use crate::blocks::BlockView;
use crate::event::{Event, StreamAccount, StreamHorizon};
use crate::flow::{Bridge, Flow, GapList, Handing, Rest};
use crate::host_view::{HostView, Reach, Start};
use crate::tap::Tapped;
use ended::complete;
use ending::Ends;

/// Maximum number of bytes of samples that one poll takes from the rings before they are delivered.
const MAX_BYTES_PER_POLL: usize = 1 << 26;

/// A reader of every stream that matches its patterns, including those that begin later.
pub struct Subscriber {
    /// The receiving agent, if the bus has a network.
    agent: Option<Attendance>,
    /// The rings of this host, unless addresses were given.
    host: Option<HostView>,
    reader: String,
    start: Start,
    /// Age up to which samples are of use.
    deadline: Option<Duration>,
    /// Deadlines that a tap states for single streams.
    stated: BTreeMap<StreamName, Duration>,
    patterns: Vec<StreamPattern>,
    /// Number of patterns, the first ones, for which this host was searched.
    waited_for: usize,
    /// Addresses at which the agent receives for this subscriber.
    _pinned: Option<Pinned>,
    generation: Option<u64>,
    flows: BTreeMap<StreamId, Flow>,
    /// State of flows whose writers on this host have ended: the stream may return, by the same reach or
    /// another.
    resting: BTreeMap<StreamId, Rest>,
    queue: VecDeque<Event>,
    scratch: Vec<Event>,
    ended: VecDeque<StreamAccount>,
    ends: Ends,
    /// Streams that were left while others in this process still read them, after their rings were read.
    left: BTreeSet<StreamId>,
    max_sample_bytes: usize,
    handing: Handing,
    /// Records for a tap.
    tapped: VecDeque<Tapped>,
    /// Time for which a wait polls before it sleeps.
    spin: Duration,
    /// Streams with samples larger than the maximum.
    refused: BTreeSet<StreamId>,
    /// Socket accounts of the streams that are being left, which end with them.
    leaving: SocketAccounts,
    /// The stream that is read first next time.
    next_stream: Option<StreamId>,
    pub(crate) view: BlockView,
}

/// Addresses at which a subscriber asked to receive, released when it is dropped.
pub(crate) struct Pinned {
    agent: Arc<ReceiveAgent>,
    addresses: Vec<SocketAddr>,
}

impl Pinned {
    pub(crate) const fn new(agent: Arc<ReceiveAgent>) -> Self {
        Self { agent, addresses: Vec::new() }
    }

    pub(crate) fn listen(&mut self, address: SocketAddr) -> Result<(), ReceiveError> {
        self.agent.listen(address)?;
        self.addresses.push(address);
        Ok(())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.addresses.drain(..).for_each(|address| self.agent.unlisten(address));
    }
}

/// Maximum number of streams of this host that are remembered after they ended.
const MAX_RESTING: usize = 4_096;

/// The accounts of this process's sockets, by stream and epoch.
type SocketAccounts = BTreeMap<(StreamId, Epoch), StreamAccountView>;

/// The settings of a subscriber.
pub(crate) struct SubscriberConfig {
    pub(crate) reader: String,
    pub(crate) patterns: Vec<StreamPattern>,
    pub(crate) max_sample_bytes: usize,
    pub(crate) handing: Handing,
    pub(crate) spin: Duration,
    pub(crate) start: Start,
    pub(crate) deadline: Option<Duration>,
}

impl Subscriber {
    pub(crate) fn new(
        config: SubscriberConfig,
        agent: Option<Arc<ReceiveAgent>>,
        host: Option<HostView>,
        pinned: Option<Pinned>,
    ) -> Self {
        let SubscriberConfig { reader, patterns, max_sample_bytes, handing, spin, start, deadline } = config;
        let mut subscriber = Self {
            agent: agent.map(Attendance::new),
            host,
            reader,
            patterns,
            waited_for: 0,
            start,
            deadline,
            stated: BTreeMap::new(),
            _pinned: pinned,
            generation: None,
            flows: BTreeMap::new(),
            resting: BTreeMap::new(),
            queue: VecDeque::new(),
            scratch: Vec::new(),
            ended: VecDeque::new(),
            ends: Ends::default(),
            left: BTreeSet::new(),
            max_sample_bytes,
            handing,
            tapped: VecDeque::new(),
            spin,
            refused: BTreeSet::new(),
            leaving: SocketAccounts::new(),
            next_stream: None,
            view: BlockView::default(),
        };
        // Streams on this host are found before the network is asked for any.
        subscriber.look_at_host();
        if let Some(agent) = &subscriber.agent {
            subscriber
                .patterns
                .iter()
                .for_each(|pattern| agent.select(pattern.clone(), start.received(), deadline));
        }
        subscriber
    }

    /// Returns the next event, `None` if none has arrived within `patience`.
    pub fn next(&mut self, patience: Duration) -> Option<Event> {
        self.next_of(patience, None, |subscriber| subscriber.queue.pop_front())
    }

    /// Returns the next record, `None` if none has arrived within `patience`; only for a tap.
    pub(crate) fn next_record(&mut self, patience: Duration, news: Option<&News>) -> Option<Tapped> {
        self.next_of(patience, news, |subscriber| {
            subscriber.queue.clear();
            subscriber.tapped.pop_front()
        })
    }

    /// Reads until there is something to `take`, there are `news`, which it takes, or `patience` is over.
    fn next_of<T>(
        &mut self,
        patience: Duration,
        news: Option<&News>,
        mut take: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now().checked_add(patience);
        loop {
            if let Some(next) = take(self) {
                return Some(next);
            }
            // A poll may yield no event although there is more to read.
            if self.pump() || self.flows.values_mut().any(Flow::is_ready) {
                continue;
            }
            if news.is_some_and(News::take) {
                return take(self);
            }
            let left = deadline.map_or(Duration::MAX, |it| it.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                // Datagrams that have just arrived are also for callers that do not wait.
                self.agent.as_ref()?.look_round();
                self.pump();
                return take(self);
            }
            self.wait(left, news);
        }
    }

    /// Returns the next event of records that were read already.
    pub(crate) fn untold(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }

    /// Waits until there is something to read, there are news, or a check is due.
    fn wait(&mut self, patience: Duration, news: Option<&News>) {
        let until_look = |host: &HostView| host.next_look().saturating_duration_since(Instant::now());
        let patience = self.host.as_ref().map_or(patience, |host| patience.min(until_look(host)));
        let (agent, flows, generation) = (self.agent.as_ref(), &mut self.flows, self.generation);
        let on_host: Vec<_> = flows.values().filter_map(Flow::doorbell).cloned().collect();
        let mut doorbells: Vec<&Doorbell> = on_host.iter().map(Arc::as_ref).collect();
        let all_on_host = !doorbells.is_empty() && doorbells.len() == flows.len();
        doorbells.extend(news.map(News::doorbell));
        let mut look = || {
            let changed = agent.is_some_and(|agent| generation != Some(agent.generation()));
            let is_told = news.is_some_and(News::is_told);
            (changed || is_told || flows.values_mut().any(Flow::is_ready)).then_some(())
        };
        // Streams from the network would not be received meanwhile.
        if all_on_host
            && !self.spin.is_zero()
            && wait_any(&[], Idle::Spin, patience.min(self.spin), &mut look).is_some()
        {
            return;
        }
        match agent {
            Some(agent) => agent.wait_until(&doorbells, patience, look),
            None => wait_any(&doorbells, Idle::Sleep, patience, look),
        };
    }

    /// Joins more streams.
    pub fn add_pattern(&mut self, pattern: StreamPattern) {
        // Streams of the other patterns are found as waited for.
        self.look_at_host();
        self.patterns.push(pattern.clone());
        self.generation = None;
        if let Some(host) = &mut self.host {
            host.look_at_all_again();
        }
        self.look_at_host();
        if let Some(agent) = &self.agent {
            agent.select(pattern, self.start.received(), self.deadline);
        }
    }

    /// States a deadline for a stream, or no other than that of all streams any more.
    pub(crate) fn state_deadline(&mut self, stream: &StreamName, deadline: Option<Duration>) {
        let before = match deadline {
            Some(deadline) => self.stated.insert(stream.clone(), deadline),
            None => self.stated.remove(stream),
        };
        if let Some(agent) = &self.agent {
            // The stream is selected throughout.
            if let Some(deadline) = deadline {
                agent.select(only(stream), ReceiveFrom::Now, Some(deadline));
            }
            if let Some(before) = before {
                agent.deselect(only(stream), Some(before));
            }
        }
        self.look_at_host();
    }

    /// Leaves the streams that no other pattern selects; their accounts are cut and reported.
    pub fn remove_pattern(&mut self, pattern: &StreamPattern) {
        if let Some(index) = self.patterns.iter().position(|known| known == pattern) {
            self.patterns.remove(index);
            self.waited_for -= usize::from(index < self.waited_for);
            if let Some(agent) = &self.agent {
                agent.deselect(pattern.clone(), self.deadline);
            }
            self.leave_what_others_read();
        }
    }

    /// Returns the selected patterns.
    #[must_use]
    pub fn patterns(&self) -> &[StreamPattern] {
        &self.patterns
    }

    /// Returns the number of current streams that are not read because their samples are too large.
    #[must_use]
    pub fn refused_streams(&self) -> usize {
        self.refused.len()
    }

    /// Returns the current accounts of all open epochs, with the counters of their sockets.
    #[must_use]
    pub fn accounts(&self) -> Vec<StreamAccount> {
        self.open_accounts(GapList::Full)
    }

    /// Returns the same accounts without their lists of gaps; the sums include all gaps. For frequent calls.
    #[must_use]
    pub fn accounts_without_gaps(&self) -> Vec<StreamAccount> {
        self.open_accounts(GapList::Empty)
    }

    /// Returns how far streams are known of which nothing arrives: those of which a tally came without samples since the
    /// last call, and those of publishers on this host. Nothing while events are left to take, because a horizon is behind
    /// them.
    ///
    /// A stream that neither sends nor tells its horizon is dead or cut off: tallies come at least every second. A
    /// publisher on this host is there as long as its process runs: 2 s after it was stopped, the horizon is not told
    /// any longer.
    #[must_use]
    pub fn horizons(&mut self) -> Vec<StreamHorizon> {
        if !self.queue.is_empty() {
            return Vec::new();
        }
        let now = sys::clock::monotonic();
        self.flows.values_mut().filter_map(|flow| flow.take_horizon(now)).collect()
    }

    /// Returns the state of this process's receiving sockets.
    #[must_use]
    pub fn ports(&self) -> Vec<PortStatus> {
        self.agent.as_ref().map_or_else(Vec::new, |agent| agent.ports())
    }

    /// Leaves all streams; returns every account: those that have ended and those cut now.
    ///
    /// While losses wait for evidence it waits for the publisher's next tally, two seconds at most.
    ///
    /// Events that were not taken before are dropped: [`Subscriber::close_into`] delivers them.
    #[must_use]
    pub fn close(self) -> Vec<StreamAccount> {
        self.close_into(drop)
    }

    /// Leaves all streams and delivers the remaining events; returns every account: the ended ones, with the
    /// last updates of their gaps, and those cut now.
    #[must_use]
    pub fn close_into(mut self, take: impl FnMut(Event)) -> Vec<StreamAccount> {
        self.leave_all(take);
        self.ended.drain(..).collect()
    }

    /// Does the same for a tap.
    pub(crate) fn close_records_into(mut self, take: impl FnMut(Tapped)) -> Vec<StreamAccount> {
        self.leave_all(drop);
        self.tapped.drain(..).for_each(take);
        self.ended.drain(..).collect()
    }

    fn leave_all(&mut self, mut take: impl FnMut(Event)) {
        self.leaving = self.socket_accounts();
        // Streams that began until now were waited for.
        self.read_what_was_left(&mut take);
        self.deselect_all();
        self.leave_what_others_read();
        // A poll may yield no event although there is more to read.
        while self.pump() || self.flows.values_mut().any(Flow::is_ready) {
            self.queue.drain(..).for_each(&mut take);
        }
        // An agent that has ended does not end its accounts.
        for flow in self.flows.values_mut() {
            flow.close(&self.reader, &mut self.scratch);
        }
        self.tell();
        self.take_records();
        self.queue.drain(..).for_each(&mut take);
    }

    /// Takes the records that the flows have read for a tap.
    fn take_records(&mut self) {
        if self.handing == Handing::Records {
            self.flows.values_mut().for_each(|flow| self.tapped.extend(flow.take_records()));
        }
    }

    /// Leaves the streams that no pattern selects although others in this process read them.
    fn leave_what_others_read(&mut self) {
        // When the agent answers, it has ended the accounts of all streams that are not selected any more,
        // and closed their rings. The streams that it keeps have other readers.
        let ports = self.agent.as_ref().map_or_else(Vec::new, |agent| agent.wait_until_left());
        for socket in self.leaving.values_mut() {
            socket.port =
                ports.iter().find(|port| port.address == socket.port.address).copied().unwrap_or(socket.port);
        }
        let kept: BTreeSet<StreamId> =
            self.subscriptions().iter().map(|subscription| subscription.stream).collect();
        let Self { flows, patterns, scratch, reader, left, .. } = self;
        for flow in flows.values_mut() {
            let selected = patterns.iter().any(|pattern| pattern.matches(&flow.name));
            let is_of_another = flow.reach() != Reach::Udp;
            if !selected && (is_of_another || kept.contains(&flow.stream())) {
                flow.leave(reader, scratch);
                if !is_of_another {
                    left.insert(flow.stream());
                }
            }
        }
        self.resting.retain(|_, rest| self.patterns.iter().any(|pattern| pattern.matches(&rest.name)));
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        self.agent.as_ref().map_or_else(Vec::new, |agent| agent.subscriptions())
    }

    fn deselect_all(&mut self) {
        let patterns = std::mem::take(&mut self.patterns);
        self.waited_for = 0;
        if let Some(agent) = &self.agent {
            patterns.into_iter().for_each(|pattern| agent.deselect(pattern, self.deadline));
            let stated = std::mem::take(&mut self.stated).into_iter();
            stated.for_each(|(stream, deadline)| agent.deselect(only(&stream), Some(deadline)));
        }
    }

    /// Returns the current reach of every stream that is read.
    #[must_use]
    pub fn reaches(&self) -> Vec<(StreamId, Reach)> {
        self.flows.values().map(|flow| (flow.stream(), flow.reach())).collect()
    }

    fn open_accounts(&self, gaps: GapList) -> Vec<StreamAccount> {
        let accounts = self.flows.values().flat_map(|flow| flow.accounts(&self.reader, gaps));
        let mut accounts: Vec<_> = accounts.collect();
        let sockets = self.socket_accounts();
        for account in accounts.iter_mut().filter(|account| account.reach == Reach::Udp) {
            if let Some(socket) = sockets.get(&(account.id, account.epoch)) {
                account.account.datagrams = socket.view.account.datagrams;
                complete(account, socket);
            }
        }
        accounts
    }

    fn socket_accounts(&self) -> SocketAccounts {
        let sockets = self.agent.as_ref().map_or_else(Vec::new, |agent| agent.accounts()).into_iter();
        sockets.map(|socket| ((socket.view.stream, socket.view.epoch), socket)).collect()
    }

    /// Reads from every stream; returns whether there are events.
    fn pump(&mut self) -> bool {
        // Streams of this host are read there, from their first sample; the others are requested from the
        // network.
        if self.host.as_mut().is_some_and(HostView::is_due) || self.has_unknown_subscription() {
            self.look_at_host();
        }
        self.look_for_streams();
        let first = self.next_stream.take().unwrap_or(StreamId(0));
        let after = self.flows.range(first..).map(|(id, _)| *id);
        let streams: Vec<_> = after.chain(self.flows.range(..first).map(|(id, _)| *id)).collect();
        let mut bytes = 0;
        for stream in streams {
            if bytes >= MAX_BYTES_PER_POLL {
                self.next_stream = Some(stream);
                break;
            }
            let Some(flow) = self.flows.get_mut(&stream) else { continue };
            bytes += flow.pump(&self.reader, &mut self.scratch);
            self.next_stream = self.next_stream.or_else(|| flow.is_ready().then_some(stream));
        }
        let news = !self.scratch.is_empty();
        self.tell();
        self.put_away_closed();
        news || !self.tapped.is_empty()
    }

    /// Returns whether the network may have a stream that is not read yet.
    fn has_unknown_subscription(&self) -> bool {
        let changed = |agent: &Attendance| self.generation != Some(agent.generation());
        self.host.is_some() && self.agent.as_ref().is_some_and(changed)
    }

    fn look_for_streams(&mut self) {
        let Some(agent) = self.agent.as_ref().map(|it| Arc::clone(it.agent())) else { return };
        let generation = agent.generation();
        if self.generation == Some(generation) {
            return;
        }
        self.generation = Some(generation);
        let subscriptions = agent.subscriptions();
        if self.host.is_none() {
            self.refused
                .retain(|stream| subscriptions.iter().any(|subscription| subscription.stream == *stream));
        }
        self.left.retain(|stream| subscriptions.iter().any(|subscription| subscription.stream == *stream));
        for subscription in subscriptions {
            let selected =
                self.patterns.iter().any(|pattern| pattern.matches(&subscription.description.name));
            if !selected || self.flows.contains_key(&subscription.stream) || self.refuses(&subscription) {
                continue;
            }
            let bridge = Arc::clone(&agent) as Arc<dyn Bridge>;
            let stream = subscription.stream;
            let mut flow = if self.left.remove(&stream) {
                Flow::from_now(subscription, bridge)
            } else {
                Flow::new(subscription, bridge)
            };
            if let Some(before) = self.resting.remove(&stream) {
                flow.resume(before);
            }
            flow.hand_over_as(self.handing);
            flow.set_deadline(self.deadline);
            self.flows.insert(stream, flow);
        }
    }

    /// Returns whether samples are larger than this reader's maximum, and logs it once.
    fn refuses(&mut self, subscription: &Subscription) -> bool {
        let sample_bytes = subscription.description.schema.sample_bytes();
        if sample_bytes <= self.max_sample_bytes {
            return false;
        }
        if self.refused.insert(subscription.stream) {
            tracing::warn!(
                "stream `{}` is not read: its samples of {sample_bytes} bytes are larger than {}\n\
                 allow more with max_sample_bytes",
                subscription.description.name,
                self.max_sample_bytes
            );
        }
        true
    }
}

/// Returns the pattern of a stream alone.
fn only(stream: &StreamName) -> StreamPattern {
    stream.as_str().parse().expect("a name is a pattern")
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.deselect_all();
    }
}
