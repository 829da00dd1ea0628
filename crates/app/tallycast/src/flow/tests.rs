//! Flows read from a small ring that a test writes, with a bridge that the test controls.

mod aged;
mod horizon;
mod host;
mod relayed;
mod resumed;
mod tapped;

use super::*;
use std::num::NonZeroU8;
use std::ops::Range;
use std::sync::Mutex;

use ledger::{Evidence, EvidenceSource, GapKind, HopCounts, HopShare, Outcome, Stage, StageCounts, Unit};
use ring::Writer;
use sample::{Channel, Dtype, Schema};
use units::{SampleRate, WallTime};
use wire::{Clock, Description, Origin};

use crate::event::StreamGap;

const A: Epoch = Epoch { start_ns: 1, incarnation: 1 };
const B: Epoch = Epoch { start_ns: 2, incarnation: 2 };
const E: u64 = 2;
const RING_BYTES: usize = 1 << 12;
/// Number of elements that do not fit into the ring together.
const TOO_MANY: u64 = 4_000;

#[derive(Default)]
struct KnownAccounts(Mutex<Vec<EpochOnPage>>);

impl Bridge for KnownAccounts {
    fn epochs_of(&self, _: StreamId) -> Option<Vec<EpochOnPage>> {
        Some(self.0.lock().unwrap().clone())
    }
}

/// The writing end, as the agent has it, and a subscriber's flow.
struct Scene {
    writer: Writer,
    subscription: Subscription,
    totals: BTreeMap<Epoch, [u64; 2]>,
    bridge: Arc<KnownAccounts>,
    flow: Flow,
    events: Vec<Event>,
}

impl Scene {
    fn new() -> Self {
        let (writer, ring) = ring::ring(RING_BYTES);
        let subscription = Subscription { stream: StreamId(1), description: Arc::new(description()), ring };
        let bridge = Arc::new(KnownAccounts::default());
        let flow = Flow::new(subscription.clone(), Arc::clone(&bridge) as Arc<dyn Bridge>);
        Self { writer, subscription, totals: BTreeMap::new(), bridge, flow, events: Vec::new() }
    }

    fn put(&mut self, record: &Record<'_>, advance: [u64; 2]) {
        let mut bytes = Vec::new();
        let kind = record.encode(&mut bytes);
        let totals = self.totals.entry(record.epoch()).or_default();
        self.writer.write(kind, *totals, &[&bytes]).unwrap();
        totals[0] += advance[0];
        totals[1] += advance[1];
    }

    fn began(&mut self, epoch: Epoch, position: u64) {
        self.put(&Record::Began { epoch, first_index: position / E, origin: None }, [0, 0]);
    }

    /// Writes blocks of fifty samples or less.
    fn blocks(&mut self, epoch: Epoch, positions: Range<u64>) {
        self.late_blocks(epoch, positions, 0);
    }

    /// Writes blocks that were taken `late_ms` milliseconds later than the rate implies.
    fn late_blocks(&mut self, epoch: Epoch, positions: Range<u64>, late_ms: i64) {
        let mut at = positions.start;
        while at < positions.end {
            let end = positions.end.min(at + 100);
            let payload = vec![7; usize::try_from(end - at).unwrap()];
            let block = BlockRecord {
                epoch,
                position: at,
                t0: time_in(epoch, at / E).offset(late_ms * 1_000_000),
                clock: Clock::System,
                born: None,
                payload: &payload,
            };
            self.put(&Record::Block(block), [end - at, 0]);
            at = end;
        }
    }

    fn gap(&mut self, epoch: Epoch, gap: Gap) {
        let missing = gap.len();
        self.put(&Record::Gap(epoch, gap), [0, missing]);
    }

    fn settled(&mut self, epoch: Epoch, gap: Gap) {
        self.put(&Record::Settled(epoch, gap), [0, 0]);
    }

    fn ended(&mut self, epoch: Epoch, state: AccountState) {
        self.put(&Record::Ended { epoch, state, datagrams: Some(NetworkRows::default()) }, [0, 0]);
    }

    fn bridge_knows(&self, epoch: Epoch, gaps: Vec<Gap>) {
        self.bridge.0.lock().unwrap().push(EpochOnPage { epoch, ended: false, origin: None, gaps });
    }

    /// Reads to the end; every open account balances.
    fn read(&mut self) -> Vec<Event> {
        while self.flow.is_ready() {
            self.flow.pump("desk", &mut self.events);
        }
        self.flow.pump("desk", &mut self.events);
        for account in self.flow.accounts("desk", GapList::Full) {
            assert_eq!(account.account.check(), Ok(()));
        }
        std::mem::take(&mut self.events)
    }
}

fn description() -> Description {
    let channels = vec![Channel::new("a", "V"), Channel::new("b", "V")];
    let schema = Schema::new(Dtype::U8, SampleRate::hz(1_000).unwrap(), channels).unwrap();
    let (name, station) = ("lab/probe".parse().unwrap(), "here".to_owned());
    Description { name, schema, report_port: 0, station, unknown: sample::UnknownEntries::new() }
}

/// Samples are one millisecond apart; every epoch begins an hour after its predecessor.
fn time_in(epoch: Epoch, index: u64) -> WallTime {
    let hours = i64::try_from(epoch.start_ns).unwrap() * 3_600_000_000_000;
    WallTime::from_nanos(hours + i64::try_from(index).unwrap() * 1_000_000)
}

fn gap(positions: Range<u64>, lost: StageCounts) -> Gap {
    let unsettled = positions.end - positions.start - lost.total();
    let line = |(stage, count)| {
        let source = EvidenceSource::TallyRange;
        Evidence { stage, count, unit: Unit::Elements, source }
    };
    Gap {
        id: 0,
        kind: GapKind::Missing,
        numbers: 0..1,
        inherited: HopCounts::default(),
        unexplained: 0,
        unsettled,
        apportioned: false,
        evidence: lost.nonzero().map(line).collect(),
        positions,
        lost,
    }
}

fn unsettled(positions: Range<u64>) -> Gap {
    gap(positions, StageCounts::default())
}

fn injected(positions: Range<u64>) -> Gap {
    let len = positions.end - positions.start;
    gap(positions, StageCounts::of(Stage::Injected, len))
}

/// Origin of a relayed stream, on the hop from the relay to this reader.
const ORIGIN: Origin =
    Origin { epoch: Epoch { start_ns: 1, incarnation: 77 }, hop: NonZeroU8::new(2).expect("not zero") };

/// A gap of elements that were lost before the relay: the first at the relay's own ring, the others between the relays.
fn inherited(positions: Range<u64>) -> Gap {
    let len = positions.end - positions.start;
    let lag = HopShare { hop: 0, outcome: Outcome::Lost(Stage::ReaderLag), count: 1 };
    let waits = HopShare { hop: 1, outcome: Outcome::Unsettled, count: len.saturating_sub(1) };
    let shares = [lag, waits].into_iter().filter(|share| share.count > 0);
    Gap { inherited: shares.collect(), ..gap(positions, StageCounts::of(Stage::Source, len)) }
}

/// Returns events as short texts.
fn words(events: &[Event]) -> Vec<String> {
    let span = |gap: &StreamGap| format!("{}..{}", gap.gap.positions.start, gap.gap.positions.end);
    let word = |event: &Event| match event {
        Event::Began(info) => format!("began {} at {}", info.epoch.incarnation, info.first_index),
        Event::Block(block) => format!("block {}..{}", block.first_index, block.next_index()),
        Event::Gap(gap) if gap.gap.kind == GapKind::PublisherAbsent => "absent".to_owned(),
        Event::Gap(gap) => format!("gap {}", span(gap)),
        Event::Settled(gap) => format!("settled {}", span(gap)),
        Event::Statement(_) => "statement".to_owned(),
        Event::Ended(account) => format!("ended {} {}", account.epoch.incarnation, account.account.state),
    };
    events.iter().map(word).collect()
}

fn accounts(events: &[Event]) -> Vec<&Account> {
    let mut accounts = Vec::new();
    for event in events {
        if let Event::Ended(account) = event {
            assert_eq!(account.account.check(), Ok(()));
            accounts.push(&account.account);
        }
    }
    accounts
}

fn gaps(events: &[Event]) -> Vec<&StreamGap> {
    let mut gaps = Vec::new();
    for event in events {
        if let Event::Gap(gap) = event {
            gaps.push(gap);
        }
    }
    gaps
}

#[test]
fn the_hole_of_an_outage_is_dated_by_the_account_before() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..20);
    scene.ended(A, AccountState::Unconfirmed);
    scene.began(A, 20);
    scene.gap(A, unsettled(20..40));
    scene.settled(A, injected(20..40));
    let events = scene.read();
    let hole = gaps(&events)[0];
    assert_eq!((hole.t0, hole.t1), (time_in(A, 10), time_in(A, 20)));
    assert_eq!(words(&events)[3..], ["began 1 at 10", "gap 20..40", "settled 20..40"]);
}

#[test]
fn a_gap_lies_between_the_times_of_the_blocks_beside_it() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..20);
    scene.gap(A, unsettled(20..40));
    // The publisher was delayed meanwhile, and again later.
    scene.late_blocks(A, 40..60, 70);
    scene.late_blocks(A, 60..80, 500);
    scene.settled(A, injected(20..40));
    scene.blocks(A, 80..100);
    let events = scene.read();
    let told: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Gap(gap) | Event::Settled(gap) => Some((gap.t0, gap.t1, gap.gap.unsettled)),
            _ => None,
        })
        .collect();
    let (from, by_rate, behind) = (time_in(A, 10), time_in(A, 20), time_in(A, 90));
    assert_eq!(told, [(from, by_rate, 20), (from, behind, 20), (from, behind, 0)]);
}

/// Returns the accounts of one epoch as events number them.
fn joins(events: &[Event]) -> Vec<(String, u32)> {
    let join = |event: &Event| match event {
        Event::Began(info) => info.join,
        Event::Block(_) | Event::Statement(_) => 0,
        Event::Gap(gap) | Event::Settled(gap) => gap.join,
        Event::Ended(account) => account.join,
    };
    words(events).into_iter().zip(events.iter().map(join)).filter(|(_, join)| *join > 0).collect()
}

#[test]
fn accounts_of_one_epoch_are_told_apart() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..20);
    scene.ended(A, AccountState::Unconfirmed);
    scene.began(A, 20);
    scene.gap(A, unsettled(20..40));
    scene.settled(A, injected(20..40));
    scene.ended(A, AccountState::Unconfirmed);
    scene.began(A, 40);
    scene.began(B, 0);
    let events = scene.read();
    let told: Vec<_> = joins(&events).iter().map(|(word, join)| format!("{word}: {join}")).collect();
    let expected = [
        "began 1 at 0: 1",
        "ended 1 unconfirmed: 1",
        "began 1 at 10: 2",
        "gap 20..40: 2",
        "settled 20..40: 2",
        "ended 1 unconfirmed: 2",
        "began 1 at 20: 3",
        "began 2 at 0: 1",
    ];
    assert_eq!(told, expected);
    let ended = |event: &Event| match event {
        Event::Ended(account) => Some(account.follows),
        _ => None,
    };
    assert_eq!(events.iter().filter_map(ended).collect::<Vec<_>>(), [None, Some((A, 1))]);
    let follows: Vec<_> =
        scene.flow.accounts("desk", GapList::Empty).iter().map(|it| (it.join, it.follows)).collect();
    assert_eq!(follows, [(3, Some((A, 2))), (1, Some((A, 3)))]);
}

/// An earlier publisher of the name is current again when the later one has ended.
#[test]
fn what_lies_between_two_accounts_of_one_epoch_is_counted() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..20);
    scene.ended(A, AccountState::Unconfirmed);
    scene.began(B, 0);
    scene.blocks(B, 0..10);
    scene.ended(B, AccountState::Closed);
    scene.began(A, 60);
    scene.blocks(A, 60..70);
    let events = scene.read();
    let absences = gaps(&events).into_iter().filter(|gap| gap.gap.kind == GapKind::ReaderAbsent);
    let absences: Vec<_> = absences.map(|gap| (gap.epoch, gap.gap.positions.clone())).collect();
    assert_eq!(absences, [(A, 20..60)]);
}

#[test]
fn a_gap_before_the_first_block_waits_until_a_time_is_known() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.gap(A, unsettled(0..20));
    scene.settled(A, injected(0..20));
    assert_eq!(words(&scene.read()), ["began 1 at 0"]);
    scene.blocks(A, 20..30);
    let events = scene.read();
    assert_eq!(words(&events), ["gap 0..20", "block 10..15"]);
    let told = gaps(&events)[0];
    assert_eq!((told.t0, told.t1, told.gap.lost.total()), (time_in(A, 0), time_in(A, 10), 20));
}

#[test]
fn a_gap_whose_time_nobody_told_is_in_the_account_all_the_same() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.gap(A, injected(0..20));
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    assert_eq!(words(&events), ["began 1 at 0", "ended 1 closed"]);
    assert_eq!((accounts(&events)[0].gaps.len(), accounts(&events)[0].elements.lost.total()), (1, 20));
}

#[test]
fn a_lap_over_the_end_of_an_account_and_its_continuation_is_one_lag() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.read();
    scene.blocks(A, 10..20);
    scene.ended(A, AccountState::Unconfirmed);
    scene.began(A, 20);
    scene.blocks(A, 20..TOO_MANY);
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let account = accounts(&events)[0];
    assert!(account.explained());
    let rows = account.elements;
    assert_eq!((rows.first, rows.next), (0, TOO_MANY / E));
    assert_eq!(rows.delivered + rows.lost[Stage::ReaderLag], TOO_MANY);
    assert!(rows.lost[Stage::ReaderLag] > 10);
}

#[test]
fn what_was_missing_before_and_behind_a_silence_that_the_ring_took_is_explained_by_the_bridge() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.read();
    scene.gap(A, injected(10..30));
    scene.ended(A, AccountState::Unconfirmed);
    scene.began(A, 30);
    scene.gap(A, injected(30..34));
    scene.blocks(A, 34..TOO_MANY);
    scene.ended(A, AccountState::Closed);
    scene.bridge_knows(A, vec![injected(10..30), injected(30..34)]);
    let events = scene.read();
    let account = accounts(&events)[0];
    assert!(account.explained(), "{account:?}");
    assert_eq!(account.elements.lost[Stage::Injected], 24);
}

#[test]
fn what_was_missing_where_the_ring_lapped_is_explained_by_the_bridge() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.read();
    scene.gap(A, unsettled(10..30));
    scene.settled(A, injected(10..30));
    scene.gap(A, unsettled(30..34));
    scene.blocks(A, 34..TOO_MANY);
    scene.bridge_knows(A, vec![injected(10..30), unsettled(30..34)]);
    let events = scene.read();
    let lap = gaps(&events)[0].gap.clone();
    assert_eq!((lap.positions.start, lap.unsettled), (10, 24));
    assert!(words(&events).contains(&format!("settled 10..{}", lap.positions.end)));
    // Gaps that settle later are found in the same gap.
    scene.settled(A, injected(30..34));
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let account = accounts(&events)[0];
    assert!(account.explained());
    assert_eq!(account.elements.lost[Stage::Injected], 24);
    assert_eq!(account.gaps.len(), 1, "what lies inside is not told twice");
}

#[test]
fn what_settled_where_the_ring_lapped_is_asked_for_at_the_end() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.gap(A, unsettled(0..20));
    scene.blocks(A, 20..30);
    scene.read();
    scene.settled(A, injected(0..20));
    scene.blocks(A, 30..TOO_MANY);
    scene.ended(A, AccountState::Closed);
    scene.bridge_knows(A, vec![injected(0..20)]);
    let events = scene.read();
    assert!(accounts(&events)[0].explained());
}

#[test]
fn a_lapped_reader_counts_what_it_missed_at_any_record_of_the_epoch() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.read();
    scene.blocks(A, 10..20);
    scene.gap(A, unsettled(20..24));
    for _ in 0..60 {
        scene.settled(A, unsettled(20..24));
    }
    scene.settled(A, injected(20..24));
    scene.bridge_knows(A, Vec::new());
    let events = scene.read();
    assert_eq!(gaps(&events)[0].gap.positions, 10..24);
    let rows = scene.flow.accounts("desk", GapList::Full)[0].account.elements;
    assert_eq!((rows.lost[Stage::Injected], rows.lost[Stage::ReaderLag]), (4, 10));
}

#[test]
fn the_rest_of_a_replaced_epoch_is_counted_to_that_epoch_only() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..18);
    scene.blocks(A, 18..19);
    scene.began(B, 0);
    scene.blocks(B, 0..10);
    scene.gap(A, Gap { unsettled: 0, unexplained: 1, ..unsettled(19..20) });
    scene.ended(A, AccountState::Unconfirmed);
    scene.blocks(B, 10..12);
    let events = scene.read();
    let account = accounts(&events)[0];
    assert_eq!((account.elements.in_flight, account.elements.unexplained), (0, 1));
    assert!(account.closed());
    // Lapped now, the successor's account contains nothing of it.
    scene.blocks(B, 12..TOO_MANY);
    scene.ended(B, AccountState::Closed);
    let events = scene.read();
    assert!(accounts(&events)[0].explained());
    assert_eq!(accounts(&events)[0].elements.next, TOO_MANY / E);
}

#[test]
fn a_lap_from_one_epoch_into_the_next_is_in_both_accounts() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.read();
    scene.blocks(A, 10..60);
    scene.began(B, 0);
    scene.blocks(B, 0..TOO_MANY);
    scene.ended(A, AccountState::Unconfirmed);
    scene.bridge_knows(A, Vec::new());
    scene.bridge_knows(B, Vec::new());
    let events = scene.read();
    let account = accounts(&events)[0];
    assert_eq!((account.elements.next, account.elements.lost[Stage::ReaderLag]), (30, 50));
    assert!(account.explained());
    let open = scene.flow.accounts("desk", GapList::Full);
    assert_eq!((open[0].epoch, open[0].account.elements.first), (B, 0));
    assert!(open[0].account.elements.lost[Stage::ReaderLag] > 0);
    assert_eq!(open[0].account.elements.next, TOO_MANY / E);
    let lag = gaps(&events).into_iter().find(|gap| gap.epoch == B && !gap.gap.is_empty()).unwrap();
    assert_eq!(lag.t0, time_in(B, 0));
}

#[test]
fn an_account_whose_end_the_ring_took_too_is_cut_where_reading_stopped() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.read();
    scene.blocks(A, 10..60);
    scene.ended(A, AccountState::Unconfirmed);
    scene.began(B, 0);
    scene.blocks(B, 0..TOO_MANY);
    scene.bridge_knows(B, Vec::new());
    let events = scene.read();
    let account = accounts(&events)[0];
    assert_eq!((account.state, account.elements.next), (AccountState::Cut, 5));
    assert_eq!(scene.flow.accounts("desk", GapList::Full).len(), 1);
}

#[test]
fn an_epoch_that_the_bridge_still_settles_is_waited_for() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.read();
    scene.began(B, 0);
    scene.blocks(B, 0..TOO_MANY);
    scene.bridge_knows(A, Vec::new());
    scene.bridge_knows(B, Vec::new());
    assert!(accounts(&scene.read()).is_empty());
    scene.ended(A, AccountState::Unconfirmed);
    let events = scene.read();
    assert_eq!(words(&events), ["ended 1 unconfirmed"]);
}

#[test]
fn a_reader_that_comes_later_has_not_lost_what_was_before_it() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..TOO_MANY);
    scene.flow = Flow::new(scene.subscription.clone(), Arc::clone(&scene.bridge) as Arc<dyn Bridge>);
    scene.read();
    let rows = scene.flow.accounts("desk", GapList::Full)[0].account.elements;
    assert!(rows.first > 0);
    assert_eq!((rows.lost.total(), rows.next), (0, TOO_MANY / E));
}

#[test]
fn an_account_between_others_that_the_ring_took_is_followed_by_the_next() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.ended(A, AccountState::Unconfirmed);
    scene.read();
    scene.began(A, 10);
    scene.blocks(A, 10..TOO_MANY);
    let events = scene.read();
    assert_eq!(words(&events)[0], "began 1 at 5");
    assert_eq!(gaps(&events)[0].t0, time_in(A, 5));
    assert_eq!(scene.flow.accounts("desk", GapList::Full)[0].account.elements.next, TOO_MANY / E);
}

#[test]
fn the_time_between_two_epochs_is_told_once_and_outside_the_accounts() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..20);
    scene.ended(A, AccountState::Closed);
    scene.began(B, 6);
    scene.blocks(B, 6..8);
    scene.blocks(B, 8..10);
    scene.ended(B, AccountState::Closed);
    let events = scene.read();
    let expected = [
        "began 1 at 0",
        "block 0..10",
        "ended 1 closed",
        "began 2 at 3",
        "absent",
        "block 3..5",
        "ended 2 closed",
    ];
    assert_eq!(words(&events), expected);
    let absence = gaps(&events)[0];
    assert_eq!((absence.epoch, absence.t0, absence.t1), (B, time_in(A, 10), time_in(B, 0)));
    assert!(accounts(&events).iter().all(|account| account.gaps.is_empty()));
}

#[test]
fn epochs_without_an_end_do_not_accumulate() {
    let mut scene = Scene::new();
    for start_ns in 0..100 {
        let epoch = Epoch { start_ns, incarnation: start_ns };
        scene.began(epoch, 0);
        scene.blocks(epoch, 0..10);
        scene.ended(epoch, AccountState::Closed);
        scene.read();
    }
    assert!(scene.flow.epochs.len() <= MAX_EPOCHS);
}

#[test]
fn leaving_takes_what_the_ring_holds_and_cuts_the_account() {
    let mut scene = Scene::new();
    scene.began(A, 0);
    scene.blocks(A, 0..20);
    scene.flow.leave("desk", &mut scene.events);
    let events = std::mem::take(&mut scene.events);
    assert_eq!(words(&events), ["began 1 at 0", "block 0..10", "ended 1 cut"]);
    assert!(accounts(&events)[0].explained());
    assert!(scene.flow.closed);
}
