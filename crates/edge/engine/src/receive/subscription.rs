//! Subscriptions: the ring of a received stream that local readers read, and its writing end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cast::receive::Event;
use ledger::Gap;
use ring::sync::{AtomicU64, Ordering};
use ring::{Doorbell, Ring, Writer};
use sample::StreamName;
use units::{Epoch, StreamId};
use wire::Description;

use crate::host::{HostRings, RingWriter};
use crate::ledger_page::{EpochOnPage, LedgerPage, write_page};
use crate::record::{Record, block_head, kind};

/// Time span of a stream that a ring holds, approximately, so that a reader may be away for that
/// long.
const RING_TIME: Duration = Duration::from_secs(4);
/// The smallest ring: slow streams send few but whole records.
const MIN_RING_BYTES: usize = 1 << 18;
/// The largest ring: fast streams give their readers less time.
const MAX_RING_BYTES: usize = 1 << 26;
/// Maximum size of all rings of a process together: rates are claims, but memory is limited.
const RING_BUDGET_BYTES: usize = 1 << 29;
/// Offset in a ring's memory beyond which its beginning is used again: with the data of one duty
/// cycle and its receive buffers this fits into a processor's own cache of 2 MiB. Source: measured
/// (`cargo xtask bench net`).
const REWIND_BYTES: u64 = 1 << 19;
/// Maximum number of epochs whose totals are kept; a receiver has fewer of which records may still
/// come.
const MAX_EPOCHS: usize = 8;
/// Maximum size of a record beyond its payload, for the estimate of a ring's size.
const RECORD_OVERHEAD_BYTES: f64 = 96.0;
/// Maximum number of gaps of ended accounts kept for lapped readers: as many as a ledger remembers.
const MAX_GAPS_OF_ENDED: usize = 8_192;

/// A stream as local readers find it.
#[derive(Clone)]
pub struct Subscription {
    /// The stream.
    pub stream: StreamId,
    /// Name, schema, station.
    pub description: Arc<Description>,
    /// Ring of its records.
    pub ring: Ring,
}

/// The received streams, for all threads of the process.
#[derive(Default)]
pub(crate) struct Registry {
    subscriptions: Mutex<Vec<Subscription>>,
    /// Counts changes, so that readers read the list only when it has changed.
    generation: AtomicU64,
    pub(crate) doorbell: Doorbell,
}

impl Registry {
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn subscriptions(&self) -> Vec<Subscription> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, act: impl FnOnce(&mut Vec<Subscription>)) {
        act(&mut self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner));
        // Pairs with the load in `generation`: a thread that sees the new count finds the new list.
        self.generation.fetch_add(1, Ordering::Release);
        self.doorbell.ring();
    }
}

/// Identifies a port while the agent runs.
pub(super) type PortToken = u64;

/// The writing ends of all subscriptions, owned by the agent.
///
/// A stream may arrive at several ports, such as a group and an address of this host. It is received at the one
/// where its account began first, until that account ends: delivered twice, its account would not balance.
pub(super) struct Subscriptions {
    registry: Arc<Registry>,
    /// Location of rings that other processes read too; `None` keeps rings on the heap.
    host: Option<HostRings>,
    stream_rings: BTreeMap<StreamId, StreamRing>,
    /// Accounts that began although another port has the stream: their events are not written.
    surplus: BTreeSet<(PortToken, StreamId)>,
    /// Streams whose port has changed, or was contended for.
    news_of_ports: Vec<StreamId>,
    scratch: Vec<u8>,
    written: bool,
    /// Maximum size of the rings together.
    budget_bytes: usize,
    warned_of_budget: bool,
    warned_of_host: bool,
}

struct StreamRing {
    writer: Writer,
    /// Ledger page for readers in other processes.
    page: LedgerPage,
    /// True if records were written since the doorbell last rang.
    written: bool,
    ring_bytes: usize,
    /// The port at which the stream is received, while it has open accounts there.
    port: Option<PortToken>,
    open_accounts: usize,
    /// The current epoch and its predecessors, the newest last.
    epochs: Vec<EpochTotals>,
    /// Gaps of ended accounts, the newest last.
    gaps_of_ended: VecDeque<(Epoch, Gap)>,
}

/// Totals of an epoch over all its accounts, so that a reader that was lapped across the end of one
/// account and the beginning of the next takes differences as usual.
struct EpochTotals {
    epoch: Epoch,
    /// Cumulative elements delivered and missing.
    totals: [u64; 2],
}

impl Subscriptions {
    pub(super) fn new(registry: Arc<Registry>, host: Option<HostRings>) -> Self {
        Self {
            registry,
            host,
            stream_rings: BTreeMap::new(),
            surplus: BTreeSet::new(),
            news_of_ports: Vec::new(),
            scratch: Vec::new(),
            written: false,
            budget_bytes: RING_BUDGET_BYTES,
            warned_of_budget: false,
            warned_of_host: false,
        }
    }

    /// Writes an event of a port's stream machine into its stream's ring, with the totals of its
    /// epoch before it.
    pub(super) fn write(&mut self, port: PortToken, event: Event<'_>) {
        if self.is_surplus(port, &event) {
            return;
        }
        self.written = true;
        match event {
            Event::Began { stream, epoch, origin, description, first_index } => {
                self.open(stream, description);
                self.account_began(port, stream);
                self.put(stream, &Record::Began { epoch, first_index, origin }, [0, 0]);
            }
            Event::Block { stream, dtype, block } => {
                let Some(stream_ring) = self.stream_rings.get_mut(&stream) else { return };
                let positions = block.positions(dtype);
                let head = block_head(&block);
                let pieces = std::iter::once(&head[..]).chain(block.payload.pieces());
                stream_ring.put(block.epoch, kind::BLOCK, pieces, [positions.end - positions.start, 0]);
            }
            Event::Gap { stream, epoch, gap } => {
                let missing = gap.len();
                self.put(stream, &Record::Gap(epoch, gap), [0, missing]);
            }
            Event::Settled { stream, epoch, gap } => self.put(stream, &Record::Settled(epoch, gap), [0, 0]),
            Event::Ended { stream, epoch, account } => {
                let record = Record::Ended { epoch, state: account.state, datagrams: account.datagrams };
                self.put(stream, &record, [0, 0]);
                self.account_ended(stream, epoch, account.gaps);
            }
            Event::Statement { stream, epoch, bytes } => {
                self.put(stream, &Record::Statement(epoch, &bytes), [0, 0]);
            }
            Event::Upstream { stream, epoch, hops } => {
                self.put(stream, &Record::Upstream(epoch, hops), [0, 0]);
            }
            Event::Horizon { stream, epoch, position, at, is_idle } => {
                self.put(stream, &Record::Horizon { epoch, position, at, is_idle }, [0, 0]);
            }
            Event::UnknownVersion { version, from } => tracing::warn!(
                "{from} sends version {version} of the protocol, but this program supports {}: such datagrams are \
                 ignored and counted as unknown_version\nuse the same version on both hosts",
                wire::VERSION
            ),
            Event::Imposter { stream, believed, imposter, .. } => {
                self.warn_of_imposter(stream, believed, imposter)
            }
            Event::TwoPublishers { stream, winner, other } => {
                self.put(stream, &Record::TwoPublishers { winner, other }, [0, 0]);
            }
        }
    }

    /// Returns the streams that are received, by their names.
    pub(super) fn names(&self) -> Vec<(StreamId, StreamName)> {
        let streams = self.registry.subscriptions();
        streams.into_iter().map(|it| (it.stream, it.description.name.clone())).collect()
    }

    /// Returns the port where a stream is received, while it has an account there.
    pub(super) fn port_of(&self, stream: StreamId) -> Option<PortToken> {
        self.stream_rings.get(&stream)?.port
    }

    /// Returns the epochs of a stream with the gaps of their ended accounts.
    pub(super) fn epochs_of(&self, stream: StreamId) -> Vec<EpochOnPage> {
        let Some(stream_ring) = self.stream_rings.get(&stream) else { return Vec::new() };
        let gaps = |epoch| stream_ring.gaps_of_ended.iter().filter(move |(of, _)| *of == epoch);
        let gaps = |epoch| gaps(epoch).map(|(_, gap)| gap.clone()).collect();
        stream_ring.page.epochs().map(|it| EpochOnPage { gaps: gaps(it.epoch), ..it }).collect()
    }

    /// Returns the streams whose ports must be notified where the stream is received now.
    pub(super) fn take_news_of_ports(&mut self) -> Vec<(StreamId, Option<PortToken>)> {
        let streams = std::mem::take(&mut self.news_of_ports);
        streams.into_iter().map(|stream| (stream, self.port_of(stream))).collect()
    }

    /// Returns whether an event belongs to an account that should not have begun, and keeps track
    /// of those.
    fn is_surplus(&mut self, port: PortToken, event: &Event<'_>) -> bool {
        match *event {
            Event::Began { stream, .. } => {
                let surplus = self.port_of(stream).is_some_and(|owner| owner != port);
                if surplus {
                    self.surplus.insert((port, stream));
                    self.news_of_ports.push(stream);
                }
                surplus
            }
            Event::Ended { stream, .. } => self.surplus.remove(&(port, stream)),
            Event::Block { stream, .. }
            | Event::Gap { stream, .. }
            | Event::Settled { stream, .. }
            | Event::Statement { stream, .. }
            | Event::Upstream { stream, .. }
            | Event::Horizon { stream, .. }
            | Event::Imposter { stream, .. }
            | Event::TwoPublishers { stream, .. } => self.surplus.contains(&(port, stream)),
            // It belongs to no known stream.
            Event::UnknownVersion { .. } => false,
        }
    }

    fn warn_of_imposter(&self, stream: StreamId, believed: SocketAddr, imposter: SocketAddr) {
        let subscriptions = self.registry.subscriptions();
        let name = subscriptions
            .iter()
            .find(|subscription| subscription.stream == stream)
            .map(|subscription| subscription.description.name.to_string());
        tracing::warn!(
            "stream `{}` also comes from {imposter}, whose datagrams are ignored and counted as imposter: its publisher \
             sends from {believed}\nfind out what sends from {}; a publisher that has moved is accepted once its old \
             address is silent",
            name.unwrap_or_default(),
            imposter.ip()
        );
    }

    fn account_began(&mut self, port: PortToken, stream: StreamId) {
        let Some(stream_ring) = self.stream_rings.get_mut(&stream) else { return };
        stream_ring.open_accounts += 1;
        if stream_ring.port.replace(port).is_none() {
            self.news_of_ports.push(stream);
        }
    }

    fn account_ended(&mut self, stream: StreamId, epoch: Epoch, gaps: Vec<Gap>) {
        let Some(stream_ring) = self.stream_rings.get_mut(&stream) else { return };
        stream_ring.gaps_of_ended.extend(gaps.into_iter().map(|gap| (epoch, gap)));
        let surplus = stream_ring.gaps_of_ended.len().saturating_sub(MAX_GAPS_OF_ENDED);
        stream_ring.gaps_of_ended.drain(..surplus);
        stream_ring.open_accounts = stream_ring.open_accounts.saturating_sub(1);
        if stream_ring.open_accounts == 0 {
            stream_ring.port = None;
            self.news_of_ports.push(stream);
        }
    }

    /// Closes the rings of streams for which `is_over` is true; its last argument is true for a
    /// stream without an account.
    pub(super) fn close_where(&mut self, is_over: impl Fn(StreamId, &Description, bool) -> bool) {
        let all = self.registry.subscriptions();
        let is_idle =
            |stream| self.stream_rings.get(&stream).is_none_or(|stream_ring| stream_ring.open_accounts == 0);
        let is_over = |it: &&Subscription| is_over(it.stream, &it.description, is_idle(it.stream));
        let closed: Vec<_> = all.iter().filter(is_over).map(|it| it.stream).collect();
        if !closed.is_empty() {
            self.stream_rings.retain(|stream, _| !closed.contains(stream));
            self.registry.change(|subscriptions| {
                subscriptions.retain(|subscription| !closed.contains(&subscription.stream))
            });
        }
    }

    pub(super) fn close_all(&mut self) {
        self.stream_rings.clear();
        self.registry.change(Vec::clear);
    }

    /// Wakes the readers if records were written since the last call.
    pub(super) fn ring_doorbell(&mut self) {
        if !std::mem::take(&mut self.written) {
            return;
        }
        if self.host.is_some() {
            for stream_ring in self.stream_rings.values_mut().filter(|stream_ring| stream_ring.written) {
                stream_ring.written = false;
                write_page(&mut stream_ring.writer, &mut stream_ring.page, &mut self.scratch);
                stream_ring.writer.ring_doorbell();
            }
        }
        self.registry.doorbell.ring();
    }

    /// Rewinds rings that are far from their beginning; returns whether there were any.
    ///
    /// Only for a caller that has just read all of them to their ends and is their only reader.
    pub(super) fn rewind(&mut self) -> bool {
        // The readers of a ring in shared memory are not known.
        if self.host.is_some() {
            return false;
        }
        self.stream_rings.values_mut().fold(false, |any, stream_ring| any | stream_ring.rewind())
    }

    fn open(&mut self, stream: StreamId, description: Arc<Description>) {
        if self.stream_rings.contains_key(&stream) {
            return;
        }
        let requested = ring_bytes(&description);
        if affordable(requested, self.left_bytes()) < requested {
            // Streams that have ended make room: their readers still get all that is in their
            // rings.
            self.close_where(|_, _, idle| idle);
        }
        let ring_bytes = affordable(requested, self.left_bytes());
        if ring_bytes < requested && !std::mem::replace(&mut self.warned_of_budget, true) {
            tracing::warn!(
                "the rings of all streams take {RING_BUDGET_BYTES} bytes: those of `{}` and of later streams are \
                 smaller, and their readers are lapped sooner\nread fewer fast streams in one process",
                description.name
            );
        }
        let Some(writer) = self.make_ring(stream, &description, ring_bytes) else { return };
        let ring = writer.reading_end();
        self.stream_rings.insert(stream, StreamRing::new(writer, ring_bytes));
        self.registry.change(|subscriptions| subscriptions.push(Subscription { stream, description, ring }));
    }

    /// Returns the rest of the budget for all rings.
    fn left_bytes(&self) -> usize {
        let used: usize = self.stream_rings.values().map(|stream_ring| stream_ring.ring_bytes).sum();
        self.budget_bytes.saturating_sub(used)
    }

    /// Creates a stream's ring; `None` where other processes should read it and cannot, until its
    /// next account.
    fn make_ring(
        &mut self,
        stream: StreamId,
        description: &Description,
        ring_bytes: usize,
    ) -> Option<Writer> {
        let Some(host) = &self.host else { return Some(ring::ring(ring_bytes).0) };
        let made = host.create(stream, RingWriter::Agent, description, ring_bytes);
        made.inspect_err(|error| {
            if !std::mem::replace(&mut self.warned_of_host, true) {
                let name = &description.name;
                tracing::warn!(
                    "stream `{name}` cannot be shared with other processes, which receive it themselves: {error}"
                );
            }
        })
        .ok()
    }

    fn put(&mut self, stream: StreamId, record: &Record<'_>, advance: [u64; 2]) {
        let Some(stream_ring) = self.stream_rings.get_mut(&stream) else { return };
        stream_ring.note(record);
        if matches!(record, Record::Began { .. }) {
            // Before the record: a reader must not find an epoch in the ring that is not on the page.
            write_page(&mut stream_ring.writer, &mut stream_ring.page, &mut self.scratch);
        }
        self.scratch.clear();
        let kind = record.encode(&mut self.scratch);
        stream_ring.put(record.epoch(), kind, std::iter::once(&self.scratch[..]), advance);
    }
}

impl StreamRing {
    fn new(writer: Writer, ring_bytes: usize) -> Self {
        Self {
            writer,
            page: LedgerPage::default(),
            written: false,
            ring_bytes,
            port: None,
            open_accounts: 0,
            epochs: Vec::new(),
            gaps_of_ended: VecDeque::new(),
        }
    }

    /// Keeps gaps and totals that a lapped reader may look up.
    fn note(&mut self, record: &Record<'_>) {
        match record {
            Record::Began { epoch, origin, .. } => self.page.began(*epoch, *origin),
            Record::Gap(epoch, gap) | Record::Settled(epoch, gap) => self.page.gap(*epoch, gap),
            Record::Ended { epoch, .. } => self.page.ended(*epoch),
            Record::Block(_)
            | Record::TwoPublishers { .. }
            | Record::Statement(..)
            | Record::Upstream(..)
            | Record::Horizon { .. } => {}
        }
    }

    /// Writes a record of an epoch, and advances the totals of this epoch only: records of a
    /// replaced epoch may follow after its successor has begun.
    fn put<'p>(
        &mut self,
        epoch: Epoch,
        kind: u16,
        pieces: impl Iterator<Item = &'p [u8]> + Clone,
        advance: [u64; 2],
    ) {
        let index = self.index_of(epoch);
        let totals = &mut self.epochs[index].totals;
        let written = self.writer.write_pieces(kind, *totals, pieces);
        written.expect("records of one datagram fit into the smallest ring");
        self.written = true;
        totals[0] += advance[0];
        totals[1] += advance[1];
    }

    fn rewind(&mut self) -> bool {
        let totals = self.epochs.last().map_or([0, 0], |known| known.totals);
        self.writer.rewind(REWIND_BYTES, totals)
    }

    /// Returns the index of an epoch, making room for it if needed.
    fn index_of(&mut self, epoch: Epoch) -> usize {
        if let Some(index) = self.epochs.iter().rposition(|known| known.epoch == epoch) {
            return index;
        }
        if self.epochs.len() == MAX_EPOCHS {
            self.epochs.remove(0);
        }
        self.epochs.push(EpochTotals { epoch, totals: [0, 0] });
        self.epochs.len() - 1
    }
}

/// Returns the size of a ring of the `requested` size within the remaining budget: a power of two,
/// and never too small for the records of a datagram.
fn affordable(requested: usize, budget: usize) -> usize {
    let largest = budget.checked_ilog2().map_or(0, |exponent| 1 << exponent);
    requested.min(largest).max(MIN_RING_BYTES)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an estimate that is clamped"
)]
fn ring_bytes(description: &Description) -> usize {
    let schema = &description.schema;
    let payload = schema.rate.as_hz() * schema.sample_bytes() as f64;
    let records = (schema.rate.as_hz()).min(payload / 1_000.0 + 200.0);
    let bytes = (payload + records * RECORD_OVERHEAD_BYTES) * RING_TIME.as_secs_f64();
    (bytes as usize).clamp(MIN_RING_BYTES, MAX_RING_BYTES).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger_page::read_ledger_page;
    use cast::receive::{Block, Payload};
    use ledger::{Account, AccountState, GapKind, HopCounts, ReaderRows, StageCounts};
    use ring::{Read, Reader};
    use sample::{Channel, Dtype, Schema};
    use units::{SampleRate, WallTime};
    use wire::Clock;

    const A: Epoch = Epoch { start_ns: 1, incarnation: 1 };
    const B: Epoch = Epoch { start_ns: 2, incarnation: 2 };
    const PORT: PortToken = 7;

    fn description(stream: u64, hz: u32) -> (StreamId, Arc<Description>) {
        let channels = vec![Channel::new("a", "V")];
        let schema = Schema::new(Dtype::U8, SampleRate::hz(hz).unwrap(), channels).unwrap();
        let name = format!("lab/p{stream}").parse().unwrap();
        let (station, unknown) = ("here".to_owned(), sample::UnknownEntries::new());
        (StreamId(stream), Arc::new(Description { name, schema, station, report_port: 1, unknown }))
    }

    fn began(subscriptions: &mut Subscriptions, epoch: Epoch, first_index: u64) {
        let (stream, description) = description(1, 1_000);
        subscriptions.write(PORT, Event::Began { stream, epoch, origin: None, description, first_index });
    }

    fn block(subscriptions: &mut Subscriptions, epoch: Epoch, positions: std::ops::Range<u64>) {
        let payload = vec![0; usize::try_from(positions.end - positions.start).unwrap()];
        let (t0, clock, payload) = (WallTime::default(), Clock::System, Payload::whole(&payload));
        let block = Block { epoch, position: positions.start, t0, clock, born: None, payload };
        subscriptions.write(PORT, Event::Block { stream: StreamId(1), dtype: Dtype::U8, block });
    }

    fn gap(subscriptions: &mut Subscriptions, epoch: Epoch, positions: std::ops::Range<u64>) {
        let unexplained = positions.end - positions.start;
        let gap = Gap {
            id: 0,
            kind: GapKind::Missing,
            positions,
            numbers: 0..1,
            lost: StageCounts::default(),
            inherited: HopCounts::default(),
            unexplained,
            unsettled: 0,
            apportioned: false,
            evidence: Vec::new(),
        };
        subscriptions.write(PORT, Event::Gap { stream: StreamId(1), epoch, gap });
    }

    fn ended(subscriptions: &mut Subscriptions, epoch: Epoch) {
        ended_with(subscriptions, epoch, Vec::new());
    }

    fn ended_with(subscriptions: &mut Subscriptions, epoch: Epoch, gaps: Vec<Gap>) {
        let (state, elements) = (AccountState::Unconfirmed, ReaderRows::default());
        let hops = HopCounts::default();
        let account = Account { state, datagrams: None, elements, hops, gaps };
        subscriptions.write(PORT, Event::Ended { stream: StreamId(1), epoch, account });
    }

    fn totals(reader: &mut Reader) -> Vec<[u64; 2]> {
        let mut record = Vec::new();
        let next = || match reader.read(&mut record) {
            Read::Record { totals, .. } => Some(totals),
            Read::Empty | Read::Lapped { .. } | Read::Closed | Read::Broken => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn totals_continue_over_the_accounts_of_an_epoch() {
        let registry = Arc::new(Registry::default());
        let mut subscriptions = Subscriptions::new(Arc::clone(&registry), None);
        began(&mut subscriptions, A, 5);
        block(&mut subscriptions, A, 5..15);
        ended(&mut subscriptions, A);
        began(&mut subscriptions, A, 15);
        gap(&mut subscriptions, A, 15..18);
        block(&mut subscriptions, A, 18..20);
        ended(&mut subscriptions, A);
        let mut reader = registry.subscriptions()[0].ring.reader_at_oldest();
        let expected = [[0, 0], [0, 0], [10, 0], [10, 0], [10, 0], [10, 3], [12, 3]];
        assert_eq!(totals(&mut reader), expected);
    }

    #[test]
    fn losses_of_an_epoch_before_a_silence_are_known_after_it() {
        let mut subscriptions = Subscriptions::new(Arc::new(Registry::default()), None);
        for account in 0..3 {
            let first = account * 6_000;
            began(&mut subscriptions, A, first);
            let gaps = (0..6_000).map(|at| Gap::unexplained(first + at..first + at + 1)).collect();
            ended_with(&mut subscriptions, A, gaps);
        }
        began(&mut subscriptions, A, 18_000);
        began(&mut subscriptions, B, 0);
        let epochs = subscriptions.epochs_of(StreamId(1));
        let told: Vec<_> = epochs.iter().map(|known| (known.epoch, known.ended, known.gaps.len())).collect();
        assert_eq!(told, [(A, false, MAX_GAPS_OF_ENDED), (B, false, 0)]);
        assert_eq!(epochs[0].gaps.last().unwrap().positions, 17_999..18_000, "the newest are kept");
        assert_eq!(subscriptions.epochs_of(StreamId(2)), []);
    }

    #[test]
    fn an_epoch_is_on_the_ledger_page_as_soon_as_it_is_in_the_ring() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let host = HostRings::new(directory.path(), "test", ring::shared::Access::Owner);
        let registry = Arc::new(Registry::default());
        let mut subscriptions = Subscriptions::new(Arc::clone(&registry), Some(host));
        let on_page = || {
            let mut page = Vec::new();
            assert!(registry.subscriptions()[0].ring.page(&mut page));
            let epochs = read_ledger_page(&page).unwrap();
            epochs.iter().map(|known| (known.epoch, known.ended)).collect::<Vec<_>>()
        };
        began(&mut subscriptions, A, 0);
        assert_eq!(on_page(), [(A, false)]);
        subscriptions.ring_doorbell();
        ended(&mut subscriptions, A);
        began(&mut subscriptions, B, 0);
        assert_eq!(on_page(), [(A, true), (B, false)]);
    }

    #[test]
    fn the_rest_of_a_replaced_epoch_is_not_counted_for_its_successor() {
        let registry = Arc::new(Registry::default());
        let mut subscriptions = Subscriptions::new(Arc::clone(&registry), None);
        began(&mut subscriptions, A, 0);
        block(&mut subscriptions, A, 0..6);
        began(&mut subscriptions, B, 0);
        gap(&mut subscriptions, A, 6..8);
        block(&mut subscriptions, B, 0..3);
        ended(&mut subscriptions, A);
        block(&mut subscriptions, B, 3..4);
        let mut reader = registry.subscriptions()[0].ring.reader_at_oldest();
        let expected = [[0, 0], [0, 0], [0, 0], [6, 0], [0, 0], [6, 2], [3, 0]];
        assert_eq!(totals(&mut reader), expected);
    }

    #[test]
    fn a_stream_is_received_at_one_port_and_at_another_when_its_account_there_has_ended() {
        let registry = Arc::new(Registry::default());
        let mut subscriptions = Subscriptions::new(Arc::clone(&registry), None);
        let at = |subscriptions: &mut Subscriptions, port, first_index| {
            let (stream, description) = description(1, 1_000);
            subscriptions
                .write(port, Event::Began { stream, epoch: A, origin: None, description, first_index });
        };
        let stream = StreamId(1);
        at(&mut subscriptions, PORT, 0);
        assert_eq!(subscriptions.take_news_of_ports(), [(stream, Some(PORT))]);
        at(&mut subscriptions, PORT + 1, 0);
        assert_eq!(
            subscriptions.take_news_of_ports(),
            [(stream, Some(PORT))],
            "the other must hear it again"
        );
        let end = |subscriptions: &mut Subscriptions, port| {
            let account = Account {
                state: AccountState::Unconfirmed,
                datagrams: None,
                elements: ReaderRows::default(),
                hops: HopCounts::default(),
                gaps: Vec::new(),
            };
            subscriptions.write(port, Event::Ended { stream, epoch: A, account });
        };
        end(&mut subscriptions, PORT + 1);
        assert!(subscriptions.take_news_of_ports().is_empty());
        end(&mut subscriptions, PORT);
        assert_eq!(subscriptions.take_news_of_ports(), [(stream, None)]);
        at(&mut subscriptions, PORT + 1, 9);
        assert_eq!(subscriptions.port_of(stream), Some(PORT + 1));
        let mut reader = registry.subscriptions()[0].ring.reader_at_oldest();
        assert_eq!(totals(&mut reader).len(), 3, "began, ended, began");
    }

    #[test]
    fn streams_that_have_ended_make_room_and_their_readers_get_all_the_same() {
        let registry = Arc::new(Registry::default());
        let mut subscriptions = Subscriptions::new(Arc::clone(&registry), None);
        subscriptions.budget_bytes = 1 << 21;
        let begin = |subscriptions: &mut Subscriptions, stream| {
            let (stream, description) = description(stream, 1_000_000_000);
            subscriptions
                .write(PORT, Event::Began { stream, epoch: A, origin: None, description, first_index: 0 });
        };
        let capacities =
            || registry.subscriptions().iter().map(|it| it.ring.capacity_bytes()).collect::<Vec<_>>();
        begin(&mut subscriptions, 1);
        let mut reader = registry.subscriptions()[0].ring.reader_at_oldest();
        begin(&mut subscriptions, 2);
        assert_eq!(capacities(), [1 << 21, 1 << 18], "both are under way");
        ended(&mut subscriptions, A);
        begin(&mut subscriptions, 3);
        assert_eq!(capacities(), [1 << 18, 1 << 20], "what is left beside the second's");
        assert_eq!(totals(&mut reader).len(), 2, "began and ended");
        assert_eq!(reader.read(&mut Vec::new()), Read::Closed);
        begin(&mut subscriptions, 1);
        assert_eq!(capacities().len(), 3, "it comes back in a ring of its own");
    }

    #[test]
    fn claimed_rates_share_one_budget() {
        assert_eq!(affordable(1 << 26, RING_BUDGET_BYTES), 1 << 26);
        assert_eq!(affordable(1 << 26, (1 << 26) - 1), 1 << 25);
        assert_eq!(affordable(1 << 26, 0), MIN_RING_BYTES);
        let registry = Arc::new(Registry::default());
        let mut subscriptions = Subscriptions::new(Arc::clone(&registry), None);
        subscriptions.budget_bytes = 1 << 21;
        for stream in 0..8 {
            let (stream, description) = description(stream, 1_000_000_000);
            subscriptions
                .write(PORT, Event::Began { stream, epoch: A, origin: None, description, first_index: 0 });
        }
        let bytes: Vec<_> =
            registry.subscriptions().iter().map(|subscription| subscription.ring.capacity_bytes()).collect();
        assert_eq!(bytes, [1 << 21, 1 << 18, 1 << 18, 1 << 18, 1 << 18, 1 << 18, 1 << 18, 1 << 18]);
        subscriptions.close_where(|_, _, _| true);
        let (stream, description) = description(9, 1_000_000_000);
        subscriptions
            .write(PORT, Event::Began { stream, epoch: A, origin: None, description, first_index: 0 });
        assert_eq!(
            registry.subscriptions()[0].ring.capacity_bytes(),
            1 << 21,
            "what is closed is given back"
        );
    }
}
