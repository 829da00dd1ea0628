//! The reader's side: every stream that comes in at one socket, put in order, its gaps declared on evidence.
//!
//! Give it datagrams with [`Receiver::handle`]; after every input, [`Receiver::poll`] until it is idle. A
//! datagram that arrives in its turn is handed over at once. One that arrives early waits until what is
//! missing below it has come or has been declared missing: by later numbers or by a tally, never by a timer
//! alone. So one lost datagram costs its own samples and no more, and a delay of a few datagrams.
//!
//! The receiver owns neither clock nor socket. It keeps the [ledgers](ledger::SocketLedger), because only here are all
//! inputs of the account: arrivals, tallies, the socket's drop counter and the passing of time.
//!
//! Source: `docs/protocol/stream.md`, "Receiving"; `docs/protocol/account.md`.

mod challengers;
mod epoch;
mod extensions;
mod holes;
mod newcomer;
mod outbox;
mod pin;
mod plausible;
mod reports;
mod rivals;
mod run;
mod stream;
mod unusable;
mod waiting;

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::{
    Account, Brackets, DropNotice, DropUnit, Imbalance, LedgerConfig, MAX_POSITION, Reclassified, StageCounts,
};
use sample::Selection;
use units::{Epoch, Instant, ReaderId, StreamId};
use wire::{Announcement, Data, Datagram, Description, Malformed, Reason};

pub use extensions::UnknownExtensions;
use outbox::Outbox;
pub use outbox::{Event, Output, Payload};
use run::Run;
use stream::{Arrival, Stream, Surroundings};
pub use waiting::WaitsSince;

/// The most streams at one socket. A new one takes the slot of the one that was heard of first and is not described yet;
/// where all are, its datagrams are counted and dropped.
const MAX_STREAMS: usize = 1_024;
/// The furthest position that is heard: at a thousand million elements a second a publisher comes there in eighteen years. Beyond
/// [`MAX_POSITION`] nobody reads an account, and half of that leaves room for several accounts of one epoch.
const MAX_HEARD_POSITION: u64 = MAX_POSITION / 2;
/// The most streams of which nothing is known but a datagram; beyond, one of them is forgotten, so that
/// made-up streams neither fill the table nor the memory with unfinished descriptions.
const MAX_STRAYS: usize = 256;

/// Who reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReaderIdentity {
    /// Drawn at random when the reader joins.
    pub id: ReaderId,
    /// The name it reports under.
    pub name: String,
    /// What its socket holds, so that publishers keep their trains short enough; 0 where it is not known.
    pub receive_buffer_bytes: u32,
}

/// What a receiver is told.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram read from the socket.
    Datagram {
        /// Its bytes.
        bytes: &'a [u8],
        /// Where it came from.
        from: SocketAddr,
        /// The socket's cumulative drop counter as stamped on it (`SO_RXQ_OVFL`).
        drops: Option<u32>,
    },
    /// Datagrams that were read from the socket in one piece. What comes of them is copied: rather use
    /// [`Receiver::take_train`].
    Train(Train<'a>),
    /// The socket's cumulative drop counter now (`SO_MEMINFO`), for what was dropped behind the last datagram.
    ///
    /// Only for a socket that was just found empty: what is still unread lies before the drops and would seem
    /// to lie behind them.
    SocketDrops(u32),
    /// Somebody saw the kernel free datagrams of a stream, on the way to this socket.
    Dropped(&'a DropNotice),
    /// A process of this host reports the kernel's drop events within this time; `None`, as at the beginning: there is none.
    ///
    /// A reader that leaves waits so long for reports that explain its losses.
    DropReporter(Option<Duration>),
    /// A stream was announced by a host.
    Announced {
        /// What was announced.
        announcement: &'a Announcement,
        /// By whom.
        from: SocketAddr,
    },
    /// From now on only these streams are wanted; accounts of others are cut, where losses wait for evidence at
    /// the publisher's next tally. Until told, every stream is wanted.
    Select(&'a Selection),
    /// Since when the reader waits for the streams at this socket that it does not know yet; until told, and with `None`, it
    /// takes what comes: their accounts begin where it joins them.
    Waits(Option<WaitsSince>),
    /// Whether another socket of the process receives this stream: then this one does not.
    Elsewhere(StreamId, bool),
    /// The reader leaves all streams, and forgets them.
    LeaveAll,
    /// Nothing but the passing of time.
    Advance,
}

/// What a receiver could not use. Units: datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReceiverStats {
    /// Everything that was read from the socket.
    pub datagrams: u64,
    /// Not of this protocol, damaged, or contradicting what is known.
    pub malformed: u64,
    /// Of a version of the protocol that this one does not know.
    pub unknown_version: u64,
    /// Of a kind that this version does not know.
    pub unknown_kind: u64,
    /// With flags that this version does not know.
    pub unknown_flags: u64,
    /// With a critical extension that this version does not know, by its type.
    pub unknown_extensions: UnknownExtensions,
    /// Numbers or indices beyond belief that no second datagram confirmed.
    pub suspicious: u64,
    /// Before the stream's description was known, or inside a sample.
    pub undescribed: u64,
    /// Of streams that nobody asked for: several may share a socket.
    pub unwanted: u64,
    /// Of an epoch that had already been replaced.
    pub replaced: u64,
    /// In the name of an epoch, from an address that the epoch is not believed from.
    pub imposter: u64,
    /// Of an account that had ended.
    pub after_end: u64,
    /// Of more streams than one socket takes.
    pub too_many_streams: u64,
    /// Kinds that do not belong on this socket.
    pub misdirected: u64,
}

impl ReceiverStats {
    /// Returns what could not be used by reason, under the names that all outputs share. Units: datagrams.
    #[must_use]
    pub const fn unused(&self) -> [(&'static str, u64); 13] {
        [
            ("malformed", self.malformed),
            ("unknown_version", self.unknown_version),
            ("unknown_kind", self.unknown_kind),
            ("unknown_flags", self.unknown_flags),
            ("unknown_extension", self.unknown_extensions.total()),
            ("suspicious", self.suspicious),
            ("undescribed", self.undescribed),
            ("unwanted", self.unwanted),
            ("replaced", self.replaced),
            ("imposter", self.imposter),
            ("after_end", self.after_end),
            ("too_many_streams", self.too_many_streams),
            ("misdirected", self.misdirected),
        ]
    }
}

/// The reader's side of every stream at one socket.
#[derive(Debug)]
pub struct Receiver {
    reader: ReaderIdentity,
    config: LedgerConfig,
    seed: u64,
    selection: Selection,
    streams: BTreeMap<StreamId, Stream>,
    brackets: Brackets,
    /// The drop counter up to which drops have been counted.
    drops: u32,
    drop_unit: DropUnit,
    next_key: u32,
    /// How long it takes somebody who sees what the kernel frees to tell of it.
    drop_reporter: Option<Duration>,
    waiting: Option<WaitsSince>,
    out: Outbox,
    stats: ReceiverStats,
}

/// Datagrams of one sender that were read from the socket in one piece, in the order in which they were sent.
#[derive(Clone, Copy, Debug)]
pub struct Train<'a> {
    /// Their bytes, one behind the other.
    pub bytes: &'a [u8],
    /// The size of each but the last, which may be shorter; not zero.
    pub segment_bytes: usize,
    /// Where they came from.
    pub from: SocketAddr,
    /// The socket's cumulative drop counter as stamped on them (`SO_RXQ_OVFL`).
    pub drops: Option<u32>,
}

/// What came of a train, and whatever else there is to do before time passes.
pub struct Outputs<'a> {
    out: &'a mut Outbox,
    train: &'a [u8],
}

impl Outputs<'_> {
    /// Returns what to do next, `None` if nothing; a datagram to transmit is written to the start of `buffer`.
    pub fn next(&mut self, buffer: &mut [u8]) -> Option<Output<'_>> {
        self.out.take(buffer, self.train)
    }
}

impl Drop for Outputs<'_> {
    fn drop(&mut self) {
        self.out.leave_train(self.train);
    }
}

/// A view of one account.
#[derive(Clone, Debug)]
pub struct AccountView {
    /// The stream.
    pub stream: StreamId,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// Name, schema, station.
    pub description: Arc<Description>,
    /// The account as it stands.
    pub account: Account,
    /// Moves of settled datagrams from class to class.
    pub reclassified: Vec<Reclassified>,
    /// When the publisher was last heard.
    pub last_heard: Instant,
    /// How many later datagrams declare a number missing now: grows when datagrams come late.
    pub reorder_count: u32,
    /// Gaps that had to settle before their time for evidence was over, because too many waited.
    pub settled_early: u64,
}

impl Receiver {
    /// Makes a receiver for a socket that has just been opened: its drop counter is zero.
    #[must_use]
    pub fn new(reader: ReaderIdentity, config: LedgerConfig, seed: u64) -> Self {
        Self {
            reader,
            config,
            seed,
            selection: Selection::all(),
            streams: BTreeMap::new(),
            brackets: Brackets::default(),
            drops: 0,
            drop_unit: DropUnit::Datagram,
            next_key: 0,
            drop_reporter: None,
            waiting: None,
            out: Outbox::default(),
            stats: ReceiverStats::default(),
        }
    }

    /// Says what the socket's drop counter counts; without it, datagrams.
    #[must_use]
    pub const fn counting_drops_in(mut self, unit: DropUnit) -> Self {
        self.drop_unit = unit;
        self
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Datagram { bytes, from, drops } => {
                self.stats.datagrams += 1;
                if let Some(drops) = drops {
                    self.on_drops(now, drops);
                }
                self.on_datagram(now, bytes, from);
            }
            Input::Train(train) => drop(self.take_train(now, train)),
            Input::SocketDrops(drops) => self.on_drops(now, drops),
            // Of a stream that was never heard here nothing is missing.
            Input::Dropped(notice) if self.streams.contains_key(&notice.stream) => {
                self.with_stream(now, notice.stream, Arrival::NONE, |stream, with| {
                    stream.on_drop(notice, with)
                });
            }
            Input::Dropped(_) => {}
            Input::DropReporter(told_within) => self.drop_reporter = told_within,
            Input::Waits(waiting) => self.waiting = waiting,
            Input::Announced { announcement, from } => {
                let arrival = Arrival { from, bytes: &[] };
                self.with_stream(now, announcement.stream, arrival, |stream, with| {
                    stream.on_announcement(announcement, with);
                });
            }
            Input::Select(selection) => self.select(now, selection),
            // Of a stream that was never heard here there is nothing to leave.
            Input::Elsewhere(id, elsewhere) if self.streams.contains_key(&id) => {
                self.with_stream(now, id, Arrival::NONE, |stream, with| stream.is_elsewhere(elsewhere, with));
            }
            Input::Elsewhere(..) => {}
            Input::LeaveAll => {
                let ids: Vec<_> = self.streams.keys().copied().collect();
                ids.into_iter().for_each(|id| self.leave(now, id));
            }
            Input::Advance => self.advance(now),
        }
    }

    /// Takes datagrams that came in one piece, and lends what came of them from the memory in which they lie.
    ///
    /// What is not taken from the outputs is copied, and there at the next [`poll`](Self::poll).
    pub fn take_train<'a>(&'a mut self, now: Instant, train: Train<'a>) -> Outputs<'a> {
        if let Some(drops) = train.drops {
            self.on_drops(now, drops);
        }
        self.on_train(now, train);
        Outputs { out: &mut self.out, train: train.bytes }
    }

    /// Returns what to do next; a datagram to transmit is written to the start of `buffer`.
    pub fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Output<'_> {
        if self.out.is_empty() && self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.advance(now);
        }
        // Asked for before the outbox lends its payloads, and not when there is news in any case.
        let deadline = if self.out.has_news() { None } else { self.next_deadline() };
        self.out.take(buffer, &[]).unwrap_or(Output::Idle { deadline })
    }

    /// Returns what could not be used so far.
    #[must_use]
    pub const fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Returns what the socket's drop counter counted beyond what was missing.
    #[must_use]
    pub const fn unmatched(&self) -> &StageCounts {
        self.brackets.unmatched()
    }

    /// Tells whether a stream that is not wanted any more still waits for the publisher's word on its losses.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.streams.values().any(Stream::is_leaving)
    }

    /// Tells whether any account waits for evidence of what is missing.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        self.streams.values().flat_map(Stream::epochs).any(|state| state.ledger.is_unsettled())
    }

    /// Tells whether the description of any stream has come whole, and is that of its stream.
    #[must_use]
    pub fn knows_a_stream(&self) -> bool {
        self.streams.values().any(|stream| stream.description().is_some())
    }

    /// Tells whether any account is open.
    #[must_use]
    pub fn has_open_accounts(&self) -> bool {
        self.streams.values().flat_map(Stream::epochs).any(|state| !state.ended)
    }

    /// Returns the wanted streams whose publishers fell silent without a last word, and when each was heard last: their
    /// accounts go on where they ended once the publisher is heard again (rule 16).
    pub fn silent(&self) -> impl Iterator<Item = (StreamId, Instant)> + '_ {
        self.streams.iter().filter_map(|(id, stream)| Some((*id, stream.silent_since()?)))
    }

    /// Returns the drops of the socket counted so far. Units: datagrams.
    #[must_use]
    pub const fn socket_drops(&self) -> u32 {
        self.drops
    }

    /// Returns the accounts of all current epochs and of those that still settle.
    pub fn accounts(&self) -> impl Iterator<Item = AccountView> + '_ {
        self.streams.values().flat_map(Stream::epochs).map(|state| state.view(state.ledger.account()))
    }

    /// Returns the accounts of one stream.
    pub fn accounts_of(&self, stream: StreamId) -> impl Iterator<Item = AccountView> + '_ {
        let epochs = self.streams.get(&stream).into_iter().flat_map(Stream::epochs);
        epochs.map(|state| state.view(state.ledger.account()))
    }

    /// Returns the same as [`Receiver::accounts`] without the lists of gaps; the sums count them all.
    pub fn summaries(&self) -> impl Iterator<Item = AccountView> + '_ {
        self.streams.values().flat_map(Stream::epochs).map(|state| state.view(state.ledger.summary()))
    }

    /// Checks the law in datagrams and in elements for every account, without looking at single gaps.
    ///
    /// Cost: some hundred additions per account; nothing is allocated.
    ///
    /// # Errors
    /// [`Imbalance`] of the first ledger that does not balance: a defect of ours.
    pub fn check(&self) -> Result<(), Imbalance> {
        self.streams.values().flat_map(Stream::epochs).try_for_each(|state| state.ledger.check())
    }

    /// Returns the description of a stream, once it is known.
    #[must_use]
    pub fn description(&self, stream: StreamId) -> Option<&Arc<Description>> {
        self.streams.get(&stream)?.description()
    }

    /// Tells whether an announcement is of use: of a stream that is not described yet, or of an epoch whose beginning is waited
    /// for.
    #[must_use]
    pub fn wants_announcement(&self, announcement: &Announcement) -> bool {
        self.streams.get(&announcement.stream).is_none_or(|stream| stream.wants_announcement(announcement))
    }

    fn on_train(&mut self, now: Instant, train: Train<'_>) {
        let Train { bytes, segment_bytes, from, .. } = train;
        if bytes.is_empty() {
            self.stats.datagrams += 1;
            self.on_datagram(now, bytes, from);
        }
        let mut start = 0;
        while start < bytes.len() {
            let datagram = &bytes[start..bytes.len().min(start + segment_bytes)];
            let is_heard = |first: &Data<'_>| first.positions().end <= MAX_HEARD_POSITION;
            let Some(first) = Data::decode(datagram).filter(is_heard) else {
                self.stats.datagrams += 1;
                self.on_datagram(now, datagram, from);
                start += datagram.len();
                continue;
            };
            let stream = first.head.stream;
            let schema = self.streams.get(&stream).and_then(Stream::description).map(|it| &it.schema);
            // Times that are the samples' own are in their datagrams and nowhere else.
            let rate = schema.filter(|schema| !schema.has_own_times()).map(|schema| schema.rate);
            let run = Run::take(first, bytes, start, segment_bytes, rate);
            self.stats.datagrams += run.datagrams();
            let arrival = Arrival { from, bytes: datagram };
            self.with_stream(now, stream, arrival, |stream, with| stream.on_run(&run, with));
            start += run.size_bytes();
        }
    }

    fn on_datagram(&mut self, now: Instant, bytes: &[u8], from: SocketAddr) {
        let it = Arrival { from, bytes };
        match Datagram::decode(bytes) {
            Ok(datagram) if furthest_position(&datagram) > MAX_HEARD_POSITION => self.stats.malformed += 1,
            Ok(Datagram::Data(data)) => {
                self.with_stream(now, data.head.stream, it, |stream, with| stream.on_data(&data, with));
            }
            Ok(Datagram::Tally(tally)) => {
                self.with_stream(now, tally.head.stream, it, |stream, with| stream.on_tally(&tally, with));
            }
            Ok(Datagram::Descriptor(part)) => {
                self.with_stream(now, part.head.stream, it, |stream, with| stream.on_descriptor(&part, with));
            }
            Ok(Datagram::Report(_) | Datagram::Announcement(_) | Datagram::Request(_)) => {
                self.stats.misdirected += 1;
            }
            Err(malformed) => self.on_malformed(now, &malformed, it),
        }
    }

    fn on_malformed(&mut self, now: Instant, malformed: &Malformed, it: Arrival<'_>) {
        match malformed.reason {
            Reason::Version(version) => {
                if self.stats.unknown_version == 0 {
                    self.out.event(Event::UnknownVersion { version, from: it.from });
                }
                self.stats.unknown_version += 1;
            }
            Reason::Kind(_) => self.stats.unknown_kind += 1,
            Reason::Flags(_) => self.stats.unknown_flags += 1,
            Reason::Extension(code) => self.stats.unknown_extensions.count(code),
            _ => self.stats.malformed += 1,
        }
        // A damaged datagram never opens a stream: only what is known already can be named.
        if let Some(head) = malformed.head.as_ref().filter(|head| self.streams.contains_key(&head.stream)) {
            self.with_stream(now, head.stream, it, |stream, with| stream.on_damaged(head, with));
        }
    }

    /// Counts what the socket dropped since the counter was last seen.
    fn on_drops(&mut self, now: Instant, drops: u32) {
        let rise = drops.wrapping_sub(self.drops);
        // A stamp is older than a counter read meanwhile: half the range tells forward from back.
        if rise == 0 || rise > u32::MAX / 2 {
            return;
        }
        self.drops = drops;
        let ledgers: Vec<_> = self.streams.values().flat_map(Stream::ledgers).collect();
        self.brackets.socket_drops_rose(now, u64::from(rise), self.drop_unit, ledgers);
    }

    fn advance(&mut self, now: Instant) {
        self.brackets.expire(now);
        let due = |stream: &Stream| stream.next_deadline().is_some_and(|deadline| deadline <= now);
        let ids: Vec<_> = self.streams.iter().filter(|(_, stream)| due(stream)).map(|(id, _)| *id).collect();
        for id in ids {
            self.with_stream(now, id, Arrival::NONE, Stream::advance);
        }
    }

    fn select(&mut self, now: Instant, selection: &Selection) {
        self.selection.clone_from(selection);
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids {
            self.with_stream(now, id, Arrival::NONE, Stream::selection_changed);
        }
    }

    fn leave(&mut self, now: Instant, id: StreamId) {
        self.with_stream(now, id, Arrival::NONE, Stream::leave);
        self.streams.remove(&id);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.streams.values().filter_map(Stream::next_deadline).min()
    }

    /// Tells whether the socket has a free slot for a stream, or the stream has one already.
    #[must_use]
    pub fn has_slot_for(&self, stream: StreamId) -> bool {
        let is_unknown = |stream: &Stream| stream.description().is_none();
        self.streams.len() < MAX_STREAMS
            || self.streams.contains_key(&stream)
            || self.streams.values().any(is_unknown)
    }

    /// Frees a slot for a new stream; tells whether there is one.
    fn free_slot(&mut self) -> bool {
        if self.streams.len() < MAX_STREAMS {
            return true;
        }
        let unknown = self.streams.iter().filter(|(_, stream)| stream.description().is_none());
        let first = unknown.min_by_key(|(_, stream)| stream.since).map(|(id, _)| *id);
        first.is_some_and(|first| self.streams.remove(&first).is_some())
    }

    fn make_room_for_a_stray(&mut self) {
        let mut strays = self.streams.iter().filter(|(_, stream)| stream.is_stray()).map(|(id, _)| *id);
        if let (Some(first), Some(_)) = (strays.next(), strays.nth(MAX_STRAYS - 2)) {
            self.streams.remove(&first);
        }
    }

    fn with_stream(
        &mut self,
        now: Instant,
        id: StreamId,
        arrival: Arrival<'_>,
        act: impl FnOnce(&mut Stream, &mut Surroundings<'_>),
    ) {
        if !self.streams.contains_key(&id) {
            if !self.free_slot() {
                self.stats.too_many_streams += 1;
                return;
            }
            self.make_room_for_a_stray();
            let (reader, waiting) = (self.reader.clone(), self.waiting);
            let stream = Stream::new(id, reader, self.config, (self.seed, now), waiting);
            self.streams.insert(id, stream);
        }
        let drop_reporter = self.drop_reporter;
        let Self { streams, brackets, out, stats, next_key, selection, .. } = self;
        let stream = streams.get_mut(&id).expect("just looked up or inserted");
        act(
            stream,
            &mut Surroundings { now, arrival, brackets, out, stats, next_key, selection, drop_reporter },
        );
    }
}

/// Returns the furthest position that a datagram tells of.
fn furthest_position(datagram: &Datagram<'_>) -> u64 {
    match datagram {
        Datagram::Data(data) => data.positions().end,
        Datagram::Tally(tally) => tally.head.position(),
        Datagram::Descriptor(part) => {
            let before = part.predecessor.map_or(0, |word| word.position(part.head.elements_per_sample));
            part.head.position().max(before)
        }
        Datagram::Report(_) | Datagram::Announcement(_) | Datagram::Request(_) => 0,
    }
}
