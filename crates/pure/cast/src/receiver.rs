//! The receiving side: every stream that arrives at one socket, put in order, with gaps declared on evidence.
//!
//! Pass datagrams to [`Receiver::handle`]; after every input, call [`Receiver::poll`] until it is idle. A datagram
//! that arrives in order is delivered at once. One that arrives early waits until the numbers below it have arrived
//! or been declared missing: by later numbers or by a tally, never by a timer alone. One lost datagram therefore
//! costs only its own samples and a delay of a few datagrams.
//!
//! The receiver owns neither clock nor socket. It keeps the [ledgers](ledger::SocketLedger), because all inputs of
//! the account meet here: arrivals, tallies, the socket's drop counter and the passing of time.
//!
//! Source: `docs/protocol/stream.md`, "Receiving"; `docs/protocol/account.md`.

mod challengers;
mod epoch;
mod event;
mod extensions;
mod holes;
mod newcomer;
mod outbox;
mod pin;
mod plausible;
mod reports;
mod rivals;
mod run;
mod stated;
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
use wire::{Announcement, Data, Datagram, Description, Malformed, Nonce, Origin, Reason};

pub use event::{Block, Event, Output, Payload};
pub use extensions::UnknownExtensions;
use outbox::Outbox;
use run::Run;
pub use stated::StatedDeadlines;
use stream::{Arrival, Stream, Surroundings};
pub use waiting::WaitsSince;

/// Maximum number of streams at one socket. A new stream takes the slot of the oldest stream that is not described
/// yet; if all are described, its datagrams are counted and dropped.
const MAX_STREAMS: usize = 1_024;
/// Largest position that is accepted: a publisher reaches it after eighteen years at a thousand million elements a
/// second. No account can be read beyond [`MAX_POSITION`], and half of that leaves room for several accounts of one
/// epoch.
const MAX_HEARD_POSITION: u64 = MAX_POSITION / 2;
/// Maximum number of streams known only by a datagram; beyond it one of them is forgotten, so that forged streams
/// fill neither the table nor the memory with unfinished descriptions.
const MAX_STRAYS: usize = 256;

/// Identity of the reader in reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReaderIdentity {
    /// Random identifier, drawn when the reader joins.
    pub id: ReaderId,
    /// Name in the reader's reports.
    pub name: String,
    /// Size of its socket's receive buffer, by which publishers limit their trains; 0 if unknown.
    pub receive_buffer_bytes: u32,
}

/// An input of the receiver.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram read from the socket.
    Datagram {
        /// The payload.
        bytes: &'a [u8],
        /// Source address.
        from: SocketAddr,
        /// Cumulative drop counter of the socket as stamped on the datagram (`SO_RXQ_OVFL`).
        drops: Option<u32>,
    },
    /// A train of datagrams read from the socket at once. Its outputs are copied; prefer [`Receiver::take_train`].
    Train(Train<'a>),
    /// The socket's current cumulative drop counter (`SO_MEMINFO`), for drops after the last datagram.
    ///
    /// Only valid for a socket that was just found empty: unread datagrams precede the drops and would seem to follow
    /// them.
    SocketDrops(u32),
    /// The kernel was seen to free datagrams of a stream on their way to this socket.
    Dropped(&'a DropNotice),
    /// Maximum delay of the drop reporter of this host; `None`, the initial state: there is no reporter.
    ///
    /// A reader that leaves waits this long for reports that explain its losses.
    DropReporter(Option<Duration>),
    /// A host announced a stream.
    Announced {
        /// The announcement.
        announcement: &'a Announcement,
        /// Address of the announcing host.
        from: SocketAddr,
    },
    /// Selects these streams from now on. Accounts of others are cut: at once, or at the publisher's next tally while
    /// losses wait for evidence. Initially every stream is selected.
    Select(&'a Selection),
    /// States from now on, to publishers, up to which age samples are of use to this reader. Initially nothing.
    Deadlines(StatedDeadlines),
    /// Start of the reader's wait for the streams at this socket that it does not know yet. Initially, and with
    /// `None`, accounts begin where the reader joins them.
    Waits(Option<WaitsSince>),
    /// News of an epoch, from the gate in front of this receiver.
    Epoch {
        /// The stream.
        stream: StreamId,
        /// The epoch.
        epoch: Epoch,
        /// The news.
        news: EpochNews<'a>,
    },
    /// A stream, and true if another socket of the process receives it; this one then does not.
    Elsewhere(StreamId, bool),
    /// Leaves and forgets all streams.
    LeaveAll,
    /// Time has passed.
    Advance,
}

/// What is known of an epoch beside its datagrams.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum EpochNews<'a> {
    /// It is sent from another address now, as its keys prove.
    Moved {
        /// The new address.
        to: SocketAddr,
    },
    /// Datagrams of it arrive that cannot be read before its description.
    Undescribed {
        /// Number for the publisher to repeat.
        nonce: Nonce,
    },
    /// Its publisher has to prove that it is sent now, before anything of it is passed.
    Unconfirmed {
        /// Number for the publisher to repeat.
        nonce: Nonce,
        /// The publisher's address for requests.
        to: SocketAddr,
    },
    /// Its description, which belongs to the stream; its datagrams follow.
    Described {
        /// The description.
        description: &'a Description,
        /// Source address of the epoch.
        from: SocketAddr,
    },
}

/// Counters of unusable datagrams, by reason. Units: datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReceiverStats {
    /// All datagrams read from the socket.
    pub datagrams: u64,
    /// Foreign to this protocol, damaged, or contradicting what is known.
    pub malformed: u64,
    /// Of an unknown version of the protocol.
    pub unknown_version: u64,
    /// Of an unknown kind.
    pub unknown_kind: u64,
    /// With unknown flags.
    pub unknown_flags: u64,
    /// With an unknown critical extension, by its type.
    pub unknown_extensions: UnknownExtensions,
    /// With implausible numbers or indices that no second datagram confirmed.
    pub suspicious: u64,
    /// Received before the stream's description, or starting inside a sample.
    pub undescribed: u64,
    /// Of streams that are not selected: several streams may share a socket.
    pub unwanted: u64,
    /// Of an epoch that a later one had replaced.
    pub replaced: u64,
    /// In the name of an epoch, from an address that is not believed for it.
    pub imposter: u64,
    /// Of an account that had ended.
    pub after_end: u64,
    /// Of streams beyond the maximum per socket.
    pub too_many_streams: u64,
    /// Of kinds that do not belong on this socket.
    pub misdirected: u64,
}

impl ReceiverStats {
    /// Returns the counts of unusable datagrams by reason, under the names that all outputs share. Units: datagrams.
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

/// The receiving side of every stream at one socket.
#[derive(Debug)]
pub struct Receiver {
    reader: ReaderIdentity,
    config: LedgerConfig,
    seed: u64,
    selection: Selection,
    deadlines: StatedDeadlines,
    streams: BTreeMap<StreamId, Stream>,
    brackets: Brackets,
    /// Value of the drop counter up to which drops have been counted.
    drops: u32,
    drop_unit: DropUnit,
    next_key: u32,
    /// Maximum delay of a drop reporter.
    drop_reporter: Option<Duration>,
    waiting: Option<WaitsSince>,
    out: Outbox,
    stats: ReceiverStats,
}

/// Datagrams of one sender that were read from the socket at once, in the order of sending.
#[derive(Clone, Copy, Debug)]
pub struct Train<'a> {
    /// The payloads, concatenated.
    pub bytes: &'a [u8],
    /// Size of each payload; the last may be shorter. Not zero.
    pub segment_bytes: usize,
    /// Source address.
    pub from: SocketAddr,
    /// Cumulative drop counter of the socket as stamped on them (`SO_RXQ_OVFL`).
    pub drops: Option<u32>,
    /// True if a gate has opened them: their tags were checked, and their CRCs are not checked again.
    pub is_authentic: bool,
}

impl<'a> Train<'a> {
    /// Reads one of its datagrams if it is data.
    fn data(&self, datagram: &'a [u8]) -> Option<Data<'a>> {
        if self.is_authentic { Data::decode_authentic(datagram) } else { Data::decode(datagram) }
    }
}

/// Outputs of a train, followed by all other pending outputs.
pub struct Outputs<'a> {
    out: &'a mut Outbox,
    train: &'a [u8],
}

impl Outputs<'_> {
    /// Returns the next output, `None` if there is none; a datagram to transmit is written to the start of `buffer`.
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
    /// Origin of a relayed stream: the epoch is then that of its last hop.
    pub origin: Option<Origin>,
    /// Name, schema, station.
    pub description: Arc<Description>,
    /// The account in its current state.
    pub account: Account,
    /// Moves of settled datagrams between classes.
    pub reclassified: Vec<Reclassified>,
    /// Time of the publisher's latest datagram.
    pub last_heard: Instant,
    /// Number of later datagrams that declare a number missing; it grows when datagrams arrive late.
    pub reorder_count: u32,
    /// Gaps that settled before their time for evidence had passed, because too many were waiting.
    pub settled_early: u64,
}

impl Receiver {
    /// Creates a receiver for a socket that has just been opened: its drop counter is zero.
    #[must_use]
    pub fn new(reader: ReaderIdentity, config: LedgerConfig, seed: u64) -> Self {
        Self {
            reader,
            config,
            seed,
            selection: Selection::all(),
            deadlines: StatedDeadlines::NONE,
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

    /// Sets the unit of the socket's drop counter; the default is datagrams.
    #[must_use]
    pub const fn counting_drops_in(mut self, unit: DropUnit) -> Self {
        self.drop_unit = unit;
        self
    }

    /// Handles one input.
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
            // A stream that was never received here misses nothing.
            Input::Dropped(notice) if self.streams.contains_key(&notice.stream) => {
                self.with_stream(now, notice.stream, Arrival::NONE, |stream, with| {
                    stream.on_drop(notice, with)
                });
            }
            Input::Dropped(_) => {}
            Input::DropReporter(told_within) => self.drop_reporter = told_within,
            Input::Waits(waiting) => self.waiting = waiting,
            Input::Announced { announcement, from } => {
                let arrival = Arrival::of(from, &[]);
                self.with_stream(now, announcement.stream, arrival, |stream, with| {
                    stream.on_announcement(announcement, with);
                });
            }
            Input::Epoch { stream, epoch, news } => self.on_news(now, stream, epoch, news),
            Input::Select(selection) => self.select(now, selection),
            Input::Deadlines(deadlines) => self.state_deadlines(now, deadlines),
            // A stream that was never received here need not be left.
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

    /// Handles a train and lends its outputs from the memory in which the payloads are.
    ///
    /// Outputs that are not taken from the result are copied and returned by the next [`poll`](Self::poll).
    pub fn take_train<'a>(&'a mut self, now: Instant, train: Train<'a>) -> Outputs<'a> {
        if let Some(drops) = train.drops {
            self.on_drops(now, drops);
        }
        self.on_train(now, train);
        Outputs { out: &mut self.out, train: train.bytes }
    }

    /// Returns the next output; a datagram to transmit is written to the start of `buffer`.
    pub fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Output<'_> {
        if self.out.is_empty() && self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.advance(now);
        }
        if self.out.is_empty() {
            self.tell_horizons(now);
        }
        // Computed before the outbox lends its payloads, and skipped when an output is pending.
        let deadline = if self.out.has_news() { None } else { self.next_deadline() };
        self.out.take(buffer, &[]).unwrap_or(Output::Idle { deadline })
    }

    /// Returns the counters of unusable datagrams.
    #[must_use]
    pub const fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Returns the drops of the socket that match no missing datagram.
    #[must_use]
    pub const fn unmatched(&self) -> &StageCounts {
        self.brackets.unmatched()
    }

    /// Returns whether a stream that is no longer selected still waits for its publisher to settle its losses.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.streams.values().any(Stream::is_leaving)
    }

    /// Returns whether any account waits for evidence of missing datagrams.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        self.streams.values().flat_map(Stream::epochs).any(|state| state.ledger.is_unsettled())
    }

    /// Returns whether the description of any stream has arrived completely and belongs to its stream.
    #[must_use]
    pub fn knows_a_stream(&self) -> bool {
        self.streams.values().any(|stream| stream.description().is_some())
    }

    /// Returns whether any account is open.
    #[must_use]
    pub fn has_open_accounts(&self) -> bool {
        self.streams.values().flat_map(Stream::epochs).any(|state| !state.ended)
    }

    /// Returns the selected streams whose publishers fell silent without a final tally, each with the time of its
    /// latest datagram. Their accounts continue where they ended once the publisher is received again (rule 16).
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

    /// Returns [`Receiver::accounts`] without their lists of gaps; the sums count all gaps.
    pub fn summaries(&self) -> impl Iterator<Item = AccountView> + '_ {
        self.streams.values().flat_map(Stream::epochs).map(|state| state.view(state.ledger.summary()))
    }

    /// Checks the law in datagrams and in elements for every account, without inspecting single gaps.
    ///
    /// Cost: some hundred additions per account; nothing is allocated.
    ///
    /// # Errors
    /// [`Imbalance`] of the first ledger that does not balance, which is a defect of this program.
    pub fn check(&self) -> Result<(), Imbalance> {
        self.streams.values().flat_map(Stream::epochs).try_for_each(|state| state.ledger.check())
    }

    /// Returns the description of a stream, once it is known.
    #[must_use]
    pub fn description(&self, stream: StreamId) -> Option<&Arc<Description>> {
        self.streams.get(&stream)?.description()
    }

    /// Returns whether an announcement is useful: of a stream that is not described yet, or of an epoch whose
    /// beginning is awaited.
    #[must_use]
    pub fn wants_announcement(&self, announcement: &Announcement) -> bool {
        self.streams.get(&announcement.stream).is_none_or(|stream| stream.wants_announcement(announcement))
    }

    fn on_news(&mut self, now: Instant, stream: StreamId, epoch: Epoch, news: EpochNews<'_>) {
        let arrival = match news {
            // Anybody can make up streams.
            EpochNews::Moved { .. } | EpochNews::Undescribed { .. }
                if !self.streams.contains_key(&stream) =>
            {
                return;
            }
            EpochNews::Described { from, .. } => Arrival::of(from, &[]),
            EpochNews::Moved { .. } | EpochNews::Undescribed { .. } | EpochNews::Unconfirmed { .. } => {
                Arrival::NONE
            }
        };
        self.with_stream(now, stream, arrival, |stream, with| match news {
            EpochNews::Moved { to } => stream.moves_to(epoch, to),
            EpochNews::Undescribed { nonce } => stream.request_described(epoch, nonce, with),
            EpochNews::Unconfirmed { nonce, to } => stream.request_proof((epoch, to), nonce, with),
            EpochNews::Described { description, .. } => stream.on_description(epoch, description, with),
        });
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
            let Some(first) = train.data(datagram).filter(is_heard) else {
                self.stats.datagrams += 1;
                self.on_datagram(now, datagram, from);
                start += datagram.len();
                continue;
            };
            let stream = first.head.stream;
            let schema = self.streams.get(&stream).and_then(Stream::description).map(|it| &it.schema);
            // The samples' own times are only in their datagrams.
            let rate = schema.filter(|schema| !schema.has_own_times()).map(|schema| schema.rate);
            let run = Run::take(first, &train, start, rate);
            self.stats.datagrams += run.datagrams();
            let arrival = Arrival::of(from, datagram);
            self.with_stream(now, stream, arrival, |stream, with| stream.on_run(&run, with));
            start += run.size_bytes();
        }
    }

    fn on_datagram(&mut self, now: Instant, bytes: &[u8], from: SocketAddr) {
        let it = Arrival::of(from, bytes);
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
        // A damaged datagram never opens a stream: it only marks numbers of a known one.
        if let Some(head) = malformed.head.as_ref().filter(|head| self.streams.contains_key(&head.stream)) {
            self.with_stream(now, head.stream, it, |stream, with| stream.on_damaged(head, with));
        }
    }

    /// Counts what the socket dropped since the counter was last seen.
    fn on_drops(&mut self, now: Instant, drops: u32) {
        let rise = drops.wrapping_sub(self.drops);
        // A stamp may be older than a counter read meanwhile: a rise over half the range is a step back.
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

    /// Tells the horizons of streams of which a tally came and no samples did.
    fn tell_horizons(&mut self, now: Instant) {
        for id in self.out.take_owed() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if stream.tell_horizon(now, &mut self.out) {
                self.out.owe_horizon(id);
            }
        }
    }

    fn select(&mut self, now: Instant, selection: &Selection) {
        self.selection.clone_from(selection);
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids {
            self.with_stream(now, id, Arrival::NONE, Stream::selection_changed);
        }
    }

    fn state_deadlines(&mut self, now: Instant, deadlines: StatedDeadlines) {
        self.deadlines = deadlines;
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids {
            self.with_stream(now, id, Arrival::NONE, |stream, with| stream.deadlines_changed(with));
        }
    }

    fn leave(&mut self, now: Instant, id: StreamId) {
        self.with_stream(now, id, Arrival::NONE, Stream::leave);
        self.streams.remove(&id);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.streams.values().filter_map(Stream::next_deadline).min()
    }

    /// Returns whether the stream has a slot at this socket or can get one.
    #[must_use]
    pub fn has_slot_for(&self, stream: StreamId) -> bool {
        let is_unknown = |stream: &Stream| stream.description().is_none();
        self.streams.len() < MAX_STREAMS
            || self.streams.contains_key(&stream)
            || self.streams.values().any(is_unknown)
    }

    /// Frees a slot for a new stream; returns whether one is free.
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
        let Self { streams, brackets, out, stats, next_key, selection, deadlines, .. } = self;
        let stream = streams.get_mut(&id).expect("just looked up or inserted");
        let mut with = Surroundings {
            now,
            arrival,
            brackets,
            out,
            stats,
            next_key,
            selection,
            drop_reporter,
            deadlines,
        };
        act(stream, &mut with);
    }
}

/// Returns the largest position that a datagram mentions.
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
