//! A reader on a bus: a receiver whose every event is compared with the stream, and whose accounts with what was
//! published.

use core::hash::{Hash, Hasher};
use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;
use std::hash::DefaultHasher;

use cast::Receiver;
use cast::receive::{Event, Input, Output, ReaderIdentity, WaitsSince};
use ledger::{Account, AccountState, Gap, HopCounts, LedgerConfig, Outcome, Stage};
use sim::{Address, Arrival, NodeId, Socket};
use units::{Epoch, Instant, RangeSet, ReaderId, StreamId, WallTime};
use wire::{MAX_DATAGRAM_BYTES, Origin, UpstreamHop};

use crate::feed::{Feed, Shape, value};
use crate::published::Published;

/// Number of inputs between two comparisons of all gaps; the rows are checked after every input.
const GAPS_CHECKED_EVERY: u64 = 256;

/// A reader of a bus.
#[derive(Debug)]
pub struct Reader {
    receiver: Receiver,
    shapes: Vec<(StreamId, Shape)>,
    outgoing: Vec<(NodeId, Vec<u8>)>,
    buffer: Vec<u8>,
    inputs: u64,
    drops: u32,
    /// The accounts in their order.
    pub followed: Vec<Following>,
    /// Hash over all that was delivered, and when.
    transcript: DefaultHasher,
}

/// One account, by the reader's events.
#[derive(Debug)]
pub struct Following {
    /// Epoch of the relay that published it.
    pub epoch: Epoch,
    /// Origin of its samples.
    pub origin: Option<Origin>,
    first: u64,
    cursor: u64,
    /// Positions that were delivered.
    pub delivered: RangeSet,
    gaps: BTreeMap<u64, Gap>,
    /// The hops before, as last told.
    pub upstream: Vec<UpstreamHop>,
    /// What was delivered: when, from which position on, and when the origin published it by its age.
    pub times: Vec<(Instant, u64, Option<Instant>)>,
    /// The final account.
    pub ended: Option<Account>,
}

impl Reader {
    /// Creates a reader that has waited from the beginning; it states a deadline for all streams, if it has one.
    pub(crate) fn new(id: u64, shapes: &[Shape], deadline: Option<Duration>) -> Self {
        let identity =
            ReaderIdentity { id: ReaderId(id), name: format!("reader {id}"), receive_buffer_bytes: 0 };
        let mut receiver = Receiver::new(identity, LedgerConfig::default(), id);
        let waits = WaitsSince { since: Instant::ORIGIN, wall: WallTime::from_nanos(0) };
        receiver.handle(Instant::ORIGIN, Input::Waits(Some(waits)));
        let all = |deadline| ("**".parse().expect("a pattern"), deadline);
        receiver.handle(Instant::ORIGIN, Input::Deadlines(deadline.into_iter().map(all).collect()));
        Self {
            receiver,
            shapes: shapes.iter().map(|shape| (shape.stream(), shape.clone())).collect(),
            outgoing: Vec::new(),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
            inputs: 0,
            drops: 0,
            followed: Vec::new(),
            transcript: DefaultHasher::new(),
        }
    }

    pub(crate) fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let Arrival { bytes, from, drops, .. } = *arrival;
        self.input(now, Input::Datagram { bytes, from: crate::driver::address(from), drops });
    }

    pub(crate) fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        if socket.unread_bytes() == 0 && socket.drops() != self.drops {
            self.drops = socket.drops();
            self.input(now, Input::SocketDrops(self.drops));
        }
        let deadline = self.drain(now);
        for (to, bytes) in self.outgoing.drain(..) {
            socket.send(Address::Node(to), &bytes);
        }
        deadline.filter(|deadline| *deadline > now)
    }

    /// Returns the present account of a stream's epoch.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn account(&self, following: &Following) -> Account {
        if let Some(account) = &following.ended {
            return account.clone();
        }
        let mut views = self.receiver.accounts();
        views.find(|view| view.epoch == following.epoch).expect("an account that has not ended").account
    }

    /// Returns the elements that all accounts lost on the reader's own bus.
    #[must_use]
    pub fn own_losses(&self) -> u64 {
        let rows = self.followed.iter().map(|following| self.account(following).elements);
        rows.map(|rows| rows.missing() - rows.lost[Stage::Source]).sum()
    }

    /// Returns a hash of all that was delivered, and when.
    #[must_use]
    pub fn transcript(&self) -> u64 {
        self.transcript.finish()
    }

    fn input(&mut self, now: Instant, input: Input<'_>) {
        self.inputs += 1;
        self.receiver.handle(now, input);
        self.drain(now);
    }

    /// Takes all outputs, then checks the law.
    fn drain(&mut self, now: Instant) -> Option<Instant> {
        let Self { receiver, shapes, followed, transcript, outgoing, buffer, .. } = self;
        let deadline = loop {
            match receiver.poll(now, buffer) {
                Output::Transmit { to, size_bytes } => {
                    outgoing.push((crate::driver::node_at(to), buffer[..size_bytes].to_vec()));
                }
                Output::Event(event) => take(followed, shapes, transcript, now, event),
                Output::Idle { deadline } => break deadline,
            }
        };
        assert_eq!(self.receiver.check(), Ok(()), "the law after input {}", self.inputs);
        if self.inputs.is_multiple_of(GAPS_CHECKED_EVERY) {
            self.followed.iter().for_each(|following| following.check(&self.account(following)));
        }
        deadline
    }

    /// Compares all accounts with what was published; `is_clean`: this bus loses nothing.
    ///
    /// # Panics
    /// If they differ.
    pub fn verify(&self, published: &[Published], is_clean: bool) {
        for following in &self.followed {
            let account = self.account(following);
            following.check(&account);
            let it = published.iter().find(|it| it.epoch == following.epoch);
            let it = it.expect("only what was published has an account");
            following.verify(&account, it, is_clean);
        }
        for it in published.iter().filter(|it| is_clean && it.is_on_bus && it.next() > it.first) {
            let is_there = self.followed.iter().any(|following| following.epoch == it.epoch);
            assert!(is_there, "an account of each stream with an element: {:?}", it.epoch);
        }
    }
}

fn take(
    followed: &mut Vec<Following>,
    shapes: &[(StreamId, Shape)],
    transcript: &mut DefaultHasher,
    now: Instant,
    event: Event<'_>,
) {
    let shape_of = |id: StreamId| {
        let mut all = shapes.iter();
        all.find(|(stream, _)| *stream == id).map(|(_, shape)| shape).expect("a stream of the scene")
    };
    match event {
        Event::Began { stream, epoch, origin, first_index, .. } => {
            let first = first_index * u64::from(shape_of(stream).elements);
            followed.push(Following::new(epoch, origin, first));
        }
        Event::Block { stream, dtype, block } => {
            let shape = shape_of(stream);
            let positions = block.positions(dtype);
            let bytes = block.payload.pieces().flatten().copied();
            assert!(positions.clone().map(value).eq(bytes), "the values of {positions:?}");
            let t0 = shape.time_of(positions.start / u64::from(shape.elements));
            assert_eq!((block.t0, block.clock), (t0, Feed::clock()), "the time of {positions:?}");
            (now, &positions).hash(transcript);
            let following = of(followed, block.epoch).pass(&positions);
            following.times.push((now, positions.start, block.born));
            following.delivered.insert(positions);
        }
        Event::Gap { epoch, gap, .. } => {
            assert_eq!(gap.check(), Ok(()), "{gap:?}");
            let following = of(followed, epoch).pass(&gap.positions);
            assert!(following.gaps.insert(gap.id, gap).is_none(), "a gap told twice");
        }
        Event::Settled { epoch, gap, .. } => {
            assert_eq!(gap.check(), Ok(()), "{gap:?}");
            let known = of(followed, epoch).gaps.get_mut(&gap.id).expect("a gap that was told");
            assert_eq!(known.positions, gap.positions);
            *known = gap;
        }
        Event::Ended { epoch, account, .. } => of(followed, epoch).ended = Some(account),
        Event::Upstream { epoch, hops, .. } => of(followed, epoch).upstream = hops,
        Event::Statement { .. } | Event::Horizon { .. } => {}
        Event::TwoPublishers { .. } | Event::Imposter { .. } | Event::UnknownVersion { .. } => {
            panic!("one relay publishes one epoch at a time: {event:?}")
        }
    }
}

/// Returns the account of an epoch that is open.
fn of(followed: &mut [Following], epoch: Epoch) -> &mut Following {
    let mut all = followed.iter_mut().rev();
    all.find(|it| it.epoch == epoch && it.ended.is_none()).expect("it began")
}

impl Following {
    const fn new(epoch: Epoch, origin: Option<Origin>, first: u64) -> Self {
        Self {
            epoch,
            origin,
            first,
            cursor: first,
            delivered: RangeSet::new(),
            gaps: BTreeMap::new(),
            upstream: Vec::new(),
            times: Vec::new(),
            ended: None,
        }
    }

    fn pass(&mut self, positions: &Range<u64>) -> &mut Self {
        assert_eq!(positions.start, self.cursor, "each position once, ascending");
        self.cursor = positions.end;
        self
    }

    /// Compares events and account: the law over the chain at this reader.
    fn check(&self, account: &Account) {
        assert_eq!(account.check(), Ok(()));
        let rows = &account.elements;
        let per_sample = u64::from(rows.per_sample);
        assert_eq!(rows.first * per_sample, self.first, "it begins where the events do");
        assert_eq!(rows.delivered, self.delivered.count_in(0..u64::MAX), "what is handed over is counted");
        let mut hops = HopCounts::default();
        self.gaps.values().for_each(|gap| hops.add_all(&gap.inherited));
        assert_eq!(hops, account.hops, "the hops of all gaps");
        let own = rows.lost.total() - rows.lost[Stage::Source] + rows.unexplained + rows.unsettled;
        let source = rows.lost[Stage::Source];
        assert_eq!(hops.total(), source, "what is lost on the hops before is no loss of this one");
        let offered = (rows.next - rows.first) * per_sample;
        assert_eq!(offered, rows.delivered + hops.total() + own + rows.in_flight, "the law over the chain");
    }

    /// Compares an account with what was published on its bus.
    fn verify(&self, account: &Account, it: &Published, is_clean: bool) {
        assert_eq!(self.origin, Some(it.origin), "the samples' epoch, and the hop");
        let rows = &account.elements;
        let per_sample = u64::from(rows.per_sample);
        let until = (rows.next * per_sample).min(it.next());
        // An account has whole samples: a stream may end within one.
        let rest = self.cursor.saturating_sub(it.next());
        let (offered, told) = (it.first..it.next(), self.first..self.cursor);
        let is_offered = told.start >= offered.start && rest < per_sample;
        assert!(is_offered, "what was never offered is no loss: {told:?} of {offered:?}: {account:?}");
        for positions in self.delivered.iter() {
            assert_eq!(it.delivered_in(&positions), positions.end - positions.start, "{positions:?}");
        }
        let Some(truth) = it.hops_in(&(self.first..until)) else { return };
        let source = rows.lost[Stage::Source];
        assert!(source <= truth.total() + rest, "{account:?} of {truth:?}");
        for share in account.hops.shares().filter(|share| matches!(share.outcome, Outcome::Lost(_))) {
            let happened = it.hops.rows(share.hop).count(share.outcome);
            assert!(share.count <= happened, "{share:?} of {happened}: {account:?}");
        }
        if !is_clean {
            return;
        }
        assert_eq!(self.first, it.first, "a reader that waits misses nothing");
        if it.has_ended {
            assert_eq!((account.state, until), (AccountState::Closed, it.next()), "{account:?}");
            assert_eq!(rows.delivered, it.delivered_in(&(self.first..until)));
            assert!(rest > 0 || account.hops == truth, "the hops before: {account:?} of {truth:?}");
        }
        // A relay that dies leaves what it had not told of: elements that were missing, and what it had not sent of a sample.
        let is_told = account.state != AccountState::Unconfirmed;
        // The scene may be over before the evidence of what was skipped last is there.
        let open = if account.state == AccountState::Open { rows.unsettled } else { 0 };
        let (cut, behind) = (per_sample - 1, truth.total().saturating_sub(source));
        let untold = if is_told { rest + open } else { rest.max(cut) + behind };
        assert!(rows.missing() - source <= untold, "this bus loses nothing: {account:?} of {truth:?}");
    }
}
