//! A reader behind a relay: hop and outcome of what was lost before, told by range and repaired by counts; where its
//! account begins; and two relays of one stream.
//!
//! The datagrams are written one by one; `relayed` plays whole relays.

use core::num::NonZeroU8;
use core::time::Duration;

use cast::receive::{Input, WaitsSince};
use ledger::{Account, AccountState, HopCounts, HopShare, Outcome, Stage, StageCounts};
use units::{Epoch, Instant, WallTime};
use wire::{
    Clock, DATAGRAM_BYTES_IPV4, Data, DataOrigin, DescriptorExtensions, DescriptorParts, Inherited, Numbered,
    Origin, Skipped, Tally, UpstreamHop,
};

use crate::line::scene::EPOCH;
use crate::victim::{MILLISECOND, Victim};

const ORIGIN_EPOCH: Epoch = Epoch { start_ns: 500, incarnation: 5 };
const NETWORK: Outcome = Outcome::Lost(Stage::Network);
const DEADLINE: Outcome = Outcome::Lost(Stage::Deadline);

fn origin() -> Origin {
    Origin { epoch: ORIGIN_EPOCH, hop: NonZeroU8::new(2).expect("not 0") }
}

fn counts(shares: &[(u8, Outcome, u64)]) -> HopCounts {
    shares.iter().map(|&(hop, outcome, count)| HopShare { hop, outcome, count }).collect()
}

fn skipped(positions: core::ops::Range<u64>, told: Option<(u8, Outcome)>) -> Skipped {
    let inherited = told.map(|(hop, outcome)| Inherited { hop, outcome, cause: None });
    Skipped { positions, stage: Stage::Source, inherited }
}

/// A relay on hop 2 and its reader; every datagram is heard unless a test loses it.
struct Relay {
    victim: Victim,
    number: u64,
    position: u64,
    /// All that it inherited and that is settled.
    told: HopCounts,
}

impl Relay {
    /// A relay that takes the stream up at a position, before its first datagram.
    fn new(first_position: u64) -> Self {
        let victim = Victim::ignorant();
        Self { victim, number: 0, position: first_position, told: HopCounts::default() }
    }

    /// A relay whose reader knows the description.
    fn described(first_position: u64) -> Self {
        let mut relay = Self::new(first_position);
        relay.descriptor();
        relay
    }

    fn waiting(mut self) -> Self {
        let since = WaitsSince { since: self.victim.now, wall: WallTime::from_nanos(0) };
        self.victim.receiver.handle(self.victim.now, Input::Waits(Some(since)));
        self
    }

    /// Returns the head of the next datagram.
    fn next(&mut self) -> Numbered {
        self.number += 1;
        Numbered { number: self.number - 1, first_index: self.position, ..self.victim.head }
    }

    fn descriptor(&mut self) {
        let head = self.next();
        let extensions = DescriptorExtensions { origin: Some(origin()), ..DescriptorExtensions::default() };
        let description = self.victim.description.clone();
        let parts = DescriptorParts::with_extensions(&description, &extensions, DATAGRAM_BYTES_IPV4);
        let part = parts.expect("a small description");
        let size = part.part(0, head).expect("one part").encode(&mut self.victim.buffer).expect("room");
        self.victim.input(size);
    }

    fn data_of(&mut self, origin: Option<Origin>) {
        let head = self.next();
        self.position += 10;
        let (t0, clock, payload) = (WallTime::from_nanos(0), Clock::System, [7; 40]);
        let dtype = self.victim.description.schema.dtype;
        let origin = origin.map(|origin| DataOrigin::new(origin, None));
        let origin = origin.as_ref();
        let data = Data { head, t0, clock, dtype, element_count: 10, origin, payload: &payload };
        let size = data.encode(&mut self.victim.buffer).expect("room");
        self.victim.input(size);
    }

    /// Ten elements.
    fn data(&mut self) {
        self.data_of(Some(origin()));
    }

    /// Loses a datagram of ten elements.
    fn lose(&mut self) {
        self.next();
        self.position += 10;
    }

    /// Inherits a hole.
    fn inherit(&mut self, elements: u64, hop: u8, outcome: Outcome) -> Skipped {
        self.position += elements;
        if outcome != Outcome::Unsettled {
            self.told.add(HopShare { hop, outcome, count: elements });
        }
        skipped(self.position - elements..self.position, Some((hop, outcome)))
    }

    fn tally(&mut self, skipped: &[Skipped]) {
        self.tally_with(skipped, |_| ());
    }

    fn last_tally(&mut self) {
        self.tally_with(&[], |tally| tally.last = true);
    }

    fn tally_with(&mut self, skipped: &[Skipped], change: impl FnOnce(&mut Tally)) {
        let head = self.next();
        let upstream = (0..2).map(|hop| {
            let rows = self.told.rows(hop);
            UpstreamHop { station: "gate".to_owned(), lost: rows.lost, unexplained: rows.unexplained }
        });
        let upstream = upstream.collect();
        let skipped = skipped.to_vec();
        self.victim.tally(head, |tally| {
            (tally.origin, tally.upstream, tally.skipped) = (Some(origin()), upstream, skipped);
            tally.next_tally = Duration::from_secs(1);
            change(tally);
        });
    }

    fn account(&self) -> Account {
        self.victim.account().account
    }

    fn hops(&self) -> HopCounts {
        let account = self.account();
        assert_eq!(account.hops.total(), account.elements.lost[Stage::Source]);
        account.hops
    }
}

#[test]
fn a_tally_tells_where_a_hole_was_lost_and_a_later_one_what_was_open() {
    let mut relay = Relay::described(40);
    relay.data();
    let hole = relay.inherit(6, 0, Outcome::Unsettled);
    let link = relay.inherit(4, 1, DEADLINE);
    relay.data();
    relay.tally(&[hole, link]);
    assert_eq!(relay.hops(), counts(&[(0, Outcome::Unsettled, 6), (1, DEADLINE, 4)]));
    relay.told.add(HopShare { hop: 0, outcome: NETWORK, count: 6 });
    relay.tally(&[skipped(50..56, Some((0, NETWORK)))]);
    relay.last_tally();
    let account = relay.victim.accounts.pop().expect("it has ended");
    assert_eq!((account.state, account.explained()), (AccountState::Closed, true));
    assert_eq!(account.hops, counts(&[(0, NETWORK, 6), (1, DEADLINE, 4)]));
    assert_eq!((account.elements.delivered, account.elements.first), (20, 40));
    assert_eq!(account.gaps.len(), 1);
    assert!(!account.gaps[0].apportioned);
}

#[test]
fn losses_of_the_relays_own_hop_stay_apart_from_those_before() {
    let mut relay = Relay::described(0);
    relay.data();
    relay.lose();
    let hole = relay.inherit(5, 1, DEADLINE);
    (0..4).for_each(|_| relay.data());
    relay.tally(&[hole]);
    relay.victim.pass(Duration::from_secs(2));
    let account = relay.account();
    assert_eq!(account.elements.unexplained, 10);
    assert_eq!(account.hops, counts(&[(1, DEADLINE, 5)]));
}

#[test]
fn what_a_lost_tally_would_have_told_is_in_the_counts_of_the_next() {
    let mut relay = Relay::described(0);
    relay.data();
    relay.tally(&[]);
    relay.inherit(6, 0, NETWORK);
    relay.data();
    let second = relay.inherit(3, 1, DEADLINE);
    relay.data();
    relay.next();
    let untold = Skipped { inherited: None, ..second };
    relay.tally(std::slice::from_ref(&untold));
    (0..3).for_each(|_| relay.data());
    relay.victim.pass(Duration::from_secs(2));
    relay.data();
    relay.tally(&[untold]);
    assert_eq!(relay.hops(), counts(&[(0, NETWORK, 6), (1, DEADLINE, 3)]));
    relay.last_tally();
    let account = relay.victim.accounts.pop().expect("it has ended");
    assert_eq!((account.state, account.elements.unexplained), (AccountState::Closed, 0));
    assert!(account.gaps.iter().any(|gap| gap.apportioned));
}

#[test]
fn at_the_end_what_nobody_told_of_is_unexplained_on_the_last_hop_before() {
    let mut relay = Relay::described(0);
    relay.data();
    let hole = Skipped { inherited: None, ..relay.inherit(6, 0, Outcome::Unsettled) };
    relay.data();
    relay.tally(&[hole]);
    relay.last_tally();
    let account = relay.victim.accounts.pop().expect("it has ended");
    assert_eq!((account.state, account.explained()), (AccountState::Closed, false));
    assert_eq!(account.hops, counts(&[(1, Outcome::Unexplained, 6)]));
}

#[test]
fn a_reader_that_waits_begins_where_the_relay_took_the_stream_up() {
    let mut relay = Relay::new(1_000_000).waiting();
    relay.descriptor();
    relay.data();
    assert_eq!(relay.account().elements.first, 1_000_000);
    assert_eq!((relay.account().elements.missing(), relay.victim.delivered), (0, 10));
}

/// Its first datagrams were lost: they wait until a tally tells where the relay began.
#[test]
fn a_reader_that_waits_and_missed_the_first_datagrams_misses_their_samples() {
    for (first_position, never_offered) in [(1_000_000, Some(skipped(0..1_000_000, None))), (0, None)] {
        let mut relay = Relay::new(first_position).waiting();
        relay.next();
        relay.lose();
        relay.descriptor();
        relay.data();
        assert_eq!((relay.victim.began, relay.victim.delivered), (0, 0), "held");
        relay.tally(&Vec::from_iter(never_offered));
        assert_eq!(relay.victim.began, 1);
        (0..3).for_each(|_| relay.data());
        relay.victim.pass(Duration::from_secs(3));
        let account = relay.account();
        let rows = account.datagrams.expect("a socket");
        assert_eq!((account.elements.first, account.elements.unexplained), (first_position, 10));
        assert_eq!((rows.first, rows.unexplained, relay.victim.delivered), (0, 2, 40));
    }
}

#[test]
fn without_a_tally_the_account_begins_with_what_arrived() {
    let mut relay = Relay::new(1_000_000).waiting();
    relay.next();
    relay.lose();
    relay.descriptor();
    relay.data();
    relay.victim.pass(Duration::from_millis(1_200));
    assert_eq!((relay.victim.began, relay.victim.delivered), (1, 10));
    assert_eq!(relay.account().elements.first, 1_000_010);
}

#[test]
fn the_first_datagram_may_be_the_last_to_arrive() {
    let mut relay = Relay::new(70).waiting();
    let first = relay.next();
    relay.descriptor();
    relay.data();
    assert_eq!(relay.victim.began, 0);
    (relay.number, relay.position) = (first.number, first.first_index);
    relay.descriptor();
    let account = relay.account();
    assert_eq!((relay.victim.began, relay.victim.delivered, account.elements.first), (1, 10, 70));
    assert_eq!(account.datagrams.map(|rows| (rows.first, rows.received, rows.in_flight)), Some((1, 2, 0)));
}

#[test]
fn what_contradicts_the_origin_is_malformed() {
    let mut relay = Relay::described(0);
    relay.data();
    relay.data_of(None);
    relay.data_of(Some(Origin { hop: NonZeroU8::new(4).unwrap(), ..origin() }));
    (0..3).for_each(|_| relay.data());
    assert_eq!(relay.victim.receiver.stats().malformed, 2);
    assert_eq!(relay.account().elements.lost, StageCounts::of(Stage::Decode, 20));
    assert_eq!(relay.victim.delivered, 40);
}

#[test]
fn relays_of_one_stream_are_no_two_publishers() {
    for (kin, expected) in [(true, 0), (false, 1)] {
        let mut relay = Relay::described(0);
        relay.victim.head.epoch = Epoch { start_ns: EPOCH.start_ns + 1, ..EPOCH };
        relay.descriptor();
        for old_number in 2..32 {
            relay.data();
            // The epoch before goes on.
            let (new, number, position) = (relay.victim.head.epoch, relay.number, relay.position);
            relay.victim.head.epoch = EPOCH;
            (relay.number, relay.position) = (old_number, position - 10);
            let other = Origin { epoch: Epoch { start_ns: 7, incarnation: 7 }, ..origin() };
            relay.data_of(Some(if kin { origin() } else { other }));
            (relay.victim.head.epoch, relay.number, relay.position) = (new, number, position);
            relay.victim.pass(MILLISECOND * 100);
        }
        assert_eq!(relay.victim.two_publishers, expected);
        assert!(relay.victim.receiver.stats().replaced > 20);
        assert_eq!(relay.victim.delivered, 300);
    }
}

#[test]
fn forged_outcomes_keep_the_law() {
    let mut relay = Relay::described(0);
    for round in 0..40_u64 {
        relay.data();
        relay.position += round % 7;
        relay.data();
        relay.data();
        let forged = |at: u64, hop, outcome| skipped(at..at + 9, Some((hop, outcome)));
        let at = relay.position - (round * 5 % 40 + 14).min(relay.position);
        let list =
            [forged(at, 0, Outcome::Unsettled), forged(at + 3, 1, DEADLINE), forged(at + 5, 0, NETWORK)];
        relay.told =
            counts(&[(1, Outcome::Unexplained, u64::MAX >> (1 + round)), (0, NETWORK, round * round)]);
        let now = relay.victim.now + MILLISECOND * 300;
        relay.tally(&list);
        relay.victim.pass(now.since(relay.victim.now));
        relay.hops();
    }
    relay.last_tally();
    relay.victim.pass(Duration::from_secs(3));
    let account = relay.victim.accounts.pop().expect("it has ended");
    assert_eq!(account.hops.unsettled(), 0);
    assert!(relay.victim.now > Instant::ORIGIN);
}
