//! Flows of another process's ring, in shared memory, which the test writes as a publisher does.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use engine::{HostRings, RingName, RingWriter};
use ledger::MAX_POSITION;
use ring::shared::Access;
use tempfile::TempDir;

/// A scene whose ring is a file, and whose flow can only ask the ring's page.
pub(super) struct HostScene {
    rings: HostRings,
    name: RingName,
    pub(super) scene: Scene,
    _directory: TempDir,
}

impl HostScene {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let rings = HostRings::new(directory.path(), "test", Access::Owner);
        let description = description();
        let stream = wire::stream_id(&description.name, &description.schema);
        let writer = rings.create(stream, RingWriter::Publisher, &description, RING_BYTES).unwrap();
        let name = RingName { stream, writer: RingWriter::Publisher };
        let found = rings.open(&name).unwrap();
        let subscription = found.subscription.clone();
        let (bridge, totals) = (Arc::new(KnownAccounts::default()), BTreeMap::new());
        let scene =
            Scene { writer, subscription, totals, bridge, flow: Flow::on_host(found), events: Vec::new() };
        Self { rings, name, scene, _directory: directory }
    }

    /// Opens the ring once more, for a reader that joins now.
    fn comer(&self) -> Flow {
        Flow::on_host(self.rings.open(&self.name).unwrap())
    }
}

#[test]
fn a_lapped_reader_goes_on_where_the_page_was_never_written() {
    let mut host = HostScene::new();
    let scene = &mut host.scene;
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.read();
    // The gap to be explained makes the flow ask.
    scene.gap(A, unsettled(10..30));
    scene.blocks(A, 30..TOO_MANY);
    let events = scene.read();
    assert!(accounts(&events).is_empty(), "{:?}", words(&events));
    assert_eq!(scene.flow.accounts("desk", GapList::Full)[0].account.elements.next, TOO_MANY / E);
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let states: Vec<_> = accounts(&events).iter().map(|account| account.state).collect();
    assert_eq!(states, [AccountState::Closed]);
}

#[test]
fn a_reader_joins_where_the_writer_was_when_it_came() {
    let mut host = HostScene::new();
    host.scene.began(A, 0);
    host.scene.blocks(A, 0..10);
    let mut flow = host.comer();
    let head = flow.reader.position() + flow.reader.lag_bytes();
    host.scene.blocks(A, 10..20);
    let here = flow.read_until(head).unwrap();
    assert_eq!((here.position, here.totals), (10, [10, 0]));
    assert_eq!(flow.reader.position(), head, "what comes meanwhile is for the flow to tell");
}

/// Without its own bound a reader would read until the writer pauses; and a position remembered over a lap
/// would open an account that the next record ends.
#[test]
fn a_reader_joins_where_the_writer_is_however_fast_it_writes() {
    let mut host = HostScene::new();
    let (rings, name, stop) = (host.rings.clone(), host.name.clone(), AtomicBool::new(false));
    host.scene.began(A, 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut at = 0;
            while !stop.load(Ordering::Relaxed) {
                host.scene.blocks(A, at..at + 1_000);
                at += 1_000;
            }
        });
        for comer in 0..5_000 {
            let (mut flow, mut events) = (Flow::on_host(rings.open(&name).unwrap()), Vec::new());
            flow.join(&mut events);
            flow.pump("desk", &mut events);
            let ended = accounts(&events);
            if !ended.is_empty() || writer.is_finished() {
                stop.store(true, Ordering::Relaxed);
                panic!("reader {comer}: {:?}", words(&events));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_reader_that_comes_back_and_is_not_told_where_it_is_begins_with_the_next_record() {
    let mut host = HostScene::new();
    host.scene.began(A, 0);
    host.scene.blocks(A, 0..10);
    host.scene.ended(A, AccountState::Closed);
    host.scene.read();
    host.scene.began(B, 0);
    host.scene.blocks(B, 0..20);
    host.scene.settled(B, unsettled(0..2));
    let comer = host.comer();
    let before = std::mem::replace(&mut host.scene.flow, comer);
    host.scene.flow.resume(before.into_rest());
    host.scene.flow.join(&mut host.scene.events);
    host.scene.blocks(B, 20..30);
    host.scene.read();
    let rows = host.scene.flow.accounts("desk", GapList::Full)[0].account.elements;
    assert_eq!((rows.first, rows.next, rows.lost.total()), (10, 15, 0));
}

#[test]
fn a_reader_that_waited_has_lost_what_the_ring_took_before_it_looked() {
    for takes_beginning in [false, true] {
        let mut host = HostScene::new();
        let end = if takes_beginning { TOO_MANY } else { 100 };
        host.scene.began(A, 0);
        host.scene.blocks(A, 0..end);
        host.scene.flow = host.comer();
        host.scene.flow.wait_for_beginning();
        host.scene.ended(A, AccountState::Closed);
        let events = host.scene.read();
        let rows = accounts(&events)[0].elements;
        assert_eq!((rows.first, rows.next, rows.unexplained), (0, end / E, 0));
        assert_eq!(rows.delivered + rows.lost[Stage::ReaderLag], end);
        assert_eq!(rows.lost.total() > 0, takes_beginning, "{:?}", words(&events));
    }
}

#[test]
fn an_epoch_after_a_clock_step_back_is_read_after_its_predecessor() {
    for (waits, holds_beginning) in [(true, true), (true, false), (false, true)] {
        let mut host = HostScene::new();
        host.scene.began(B, 0);
        host.scene.blocks(B, 0..10);
        host.scene.ended(B, AccountState::Closed);
        host.scene.read();
        // The next epoch claims an earlier start.
        let comer = host.comer();
        let before = std::mem::replace(&mut host.scene.flow, comer);
        host.scene.flow.read_until(u64::MAX);
        host.scene.flow.resume(before.into_rest());
        if waits {
            host.scene.flow.wait_for_beginning();
        } else {
            host.scene.flow.join(&mut host.scene.events);
        }
        host.scene.began(A, 0);
        host.scene.gap(A, unsettled(0..4));
        host.scene.blocks(A, 4..if holds_beginning { 10 } else { TOO_MANY });
        host.scene.read();
        let rows = host.scene.flow.accounts("desk", GapList::Full)[0].account.elements;
        assert_eq!(rows.first, 0, "{waits} {holds_beginning}");
        assert_eq!(rows.delivered + rows.lost.total() + rows.unsettled, rows.next * E);
        assert!(rows.delivered > 0);
    }
}

/// A generator of numbers that look random: the same for the same seed (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    fn roll<T: Copy>(&mut self, faces: &[T]) -> T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        faces[usize::try_from(self.0 >> 33).unwrap() % faces.len()]
    }

    fn number(&mut self) -> u64 {
        self.roll(&[0, 0, 1, 2, 3, 4, 10, 20, 21, 1 << 32, MAX_POSITION - 1, MAX_POSITION, 1 << 63, u64::MAX])
    }

    fn gap(&mut self) -> Gap {
        let start = self.number();
        let positions = start..start.saturating_add(self.roll(&[0, 1, 2, 10, 1 << 40]));
        let len = positions.end - positions.start;
        let kind = self.roll(&[GapKind::Missing, GapKind::Missing, GapKind::ReaderAbsent]);
        Gap { kind, ..self.roll(&[unsettled, injected, inherited])(positions.start..positions.start + len) }
    }

    fn record<'a>(&mut self, payload: &'a [u8]) -> Record<'a> {
        let epoch = self.roll(&[A, A, A, B, Epoch { start_ns: u64::MAX, incarnation: 0 }]);
        match self.roll(&[0, 1, 1, 1, 2, 2, 3, 4, 5, 6]) {
            0 => {
                Record::Began { epoch, first_index: self.number(), origin: self.roll(&[None, Some(ORIGIN)]) }
            }
            1 => {
                let (position, t0) = (self.number(), time_in(A, self.roll(&[0, 1, 1 << 40])));
                let payload = &payload[..self.roll(&[0, 1, 2, 10, 20])];
                Record::Block(BlockRecord { epoch, position, t0, clock: Clock::System, born: None, payload })
            }
            2 => Record::Gap(epoch, self.gap()),
            3 => Record::Settled(epoch, self.gap()),
            4 => {
                let state = self.roll(&[AccountState::Closed, AccountState::Unconfirmed, AccountState::Cut]);
                Record::Ended { epoch, state, datagrams: None }
            }
            5 => Record::TwoPublishers { winner: epoch, other: A },
            _ => Record::Upstream(epoch, Vec::new()),
        }
    }
}

#[test]
fn no_sequence_of_records_brings_a_reader_down_or_breaks_the_law() {
    for seed in 0..3_000 {
        let (mut host, mut dice) = (HostScene::new(), Dice(seed));
        let scene = &mut host.scene;
        for _ in 0..dice.roll(&[10, 40, 200]) {
            let record = dice.record(&[7; 20]);
            let mut bytes = Vec::new();
            let kind = record.encode(&mut bytes);
            let totals = [dice.number(), dice.number()];
            scene.writer.write(kind, dice.roll(&[[0, 0], totals]), &[&bytes]).unwrap();
            if dice.roll(&[true, false]) {
                let events = scene.read();
                accounts(&events);
            }
        }
        let events = scene.read();
        accounts(&events);
    }
}

#[test]
fn records_of_a_later_version_are_passed_over_and_cost_nothing() {
    let mut host = HostScene::new();
    let scene = &mut host.scene;
    let later = |scene: &mut Scene, kind: u16| {
        scene.writer.write(kind, [9, 9], &[b"as its version has it"]).unwrap();
    };
    scene.began(A, 0);
    later(scene, kind::HORIZON + 1);
    scene.blocks(A, 0..200);
    later(scene, u16::MAX - 1);
    scene.blocks(A, 200..300);
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let [account] = accounts(&events)[..] else { panic!("one account: {events:?}") };
    assert_eq!((account.elements.delivered, account.state), (300, AccountState::Closed));
    assert!(!scene.flow.is_broken);
    // A kind of this version that cannot be read is no later one.
    scene.began(B, 0);
    later(scene, kind::BLOCK);
    scene.read();
    assert!(scene.flow.is_broken);
}
