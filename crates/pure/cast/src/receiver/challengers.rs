//! Addresses that send in a stream's name while another address is believed: held back, challenged, and believed once
//! the other is gone. An epoch at the believed address itself that began earlier by its clock and was never current
//! is treated alike.
//!
//! A challenger is asked at once, three times at most, to repeat a nonce, which proves that it receives at its source
//! address. The believed address is gone when its epoch has ended, or when it misses three challenges in a row:
//! requests that every publisher answers, even one without data. Then the first challenger with a proof takes over;
//! one without a proof only if there is no other.
//!
//! Source: `docs/protocol/stream.md`, "Believed sources".

use core::cmp::Ordering;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use units::{Epoch, Instant, Random, RangeSet};
use wire::{Datagram, DescriptorAssembler, Nonce, Numbered};

use super::stream::at_port;
use super::waiting::MAX_EARLY_RUNS;
use crate::sender::MAX_INTERVAL;

/// Missed challenges in a row after which an address is no longer believed, or has had its time for a proof.
const CHALLENGES: u32 = 3;
/// Minimum time between two challenges. Each reader draws its own interval, so that many readers do not ask at once;
/// the last of three is missed after 3 s at most.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum difference between the readers' intervals.
const SPREAD: Duration = Duration::from_millis(250);
/// Maximum number of addresses that are held back at a time.
const MAX_CHALLENGERS: usize = 4;
/// Maximum number of remembered addresses that brought no proof in time: they give way to others, but not to each
/// other.
const MAX_USELESS: usize = 16;
/// Silence after which a challenger gives its slot to another; one that brought no proof in time does so, too.
const MAX_SILENCE: Duration = Duration::from_secs(10);
/// Maximum number of held datagrams, and their bytes: about a second of a thousand small ones.
pub(super) const MAX_HELD: usize = 1_024;
pub(super) const MAX_HELD_BYTES: usize = 1 << 20;

/// Maximum number of epochs of an address whose displaced numbers are remembered.
const MAX_DISPLACED_EPOCHS: usize = 4;

/// Addresses other than the believed one that send in the stream's name.
#[derive(Debug)]
pub(super) struct Challengers {
    random: Random,
    interval: Duration,
    list: Vec<Challenger>,
    /// Addresses that lost their slot because they brought no proof in time.
    useless: VecDeque<IpAddr>,
    /// Their datagrams, the oldest first.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Challenges sent to the believed address in a row, and the time of the latest.
    row: u32,
    last: Option<Instant>,
}

/// An address that is not believed.
#[derive(Debug)]
pub(super) struct Challenger {
    pub(super) ip: IpAddr,
    /// Its newest epoch.
    pub(super) epoch: Epoch,
    /// Address at which it receives requests, if known.
    pub(super) report_to: Option<SocketAddr>,
    pub(super) nonce: Nonce,
    /// True once it has repeated the nonce.
    is_proven: bool,
    /// Number of requests for its proof, and the earliest time of the next.
    asked: u32,
    ask_at: Instant,
    assembler: DescriptorAssembler,
    /// Times of its first and its latest datagram.
    since: Instant,
    heard: Instant,
    /// Sum of its held datagrams, by [`weight`].
    held_weight: usize,
    /// Numbers of its newest epochs whose datagrams were displaced by others.
    displaced: BTreeMap<Epoch, RangeSet>,
}

/// A datagram that is held back.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) from: SocketAddr,
    pub(super) bytes: Vec<u8>,
    pub(super) epoch: Epoch,
    pub(super) number: u64,
}

/// An epoch that has ended or fallen silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over {
    pub(super) epoch: Epoch,
    /// True if its final tally was received, so that it cannot continue.
    pub(super) ended: bool,
    pub(super) last_heard: Instant,
}

/// The address that takes over.
#[derive(Debug)]
pub(super) struct Successor {
    /// Its newest epoch.
    pub(super) epoch: Epoch,
    /// Its datagrams received meanwhile, the oldest first.
    pub(super) held: Vec<Held>,
    /// Numbers of its datagrams that are no longer held.
    pub(super) displaced: BTreeMap<Epoch, RangeSet>,
    /// Datagrams of the others, which are discarded.
    pub(super) dropped: Vec<Held>,
}

/// The action that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Round {
    /// None yet.
    Wait,
    /// Challenge the believed address and all challengers without proof.
    Challenge,
    /// This address takes over, because the believed one has missed its challenges.
    TakeOver(IpAddr),
}

impl Challengers {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::for_purpose(seed, "challenges");
        let interval = MIN_INTERVAL + SPREAD.mul_f64(random.unit());
        let (list, useless, held) = (Vec::new(), VecDeque::new(), VecDeque::new());
        Self { random, interval, list, useless, held, held_bytes: 0, row: 0, last: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Holds a datagram if its address gets a slot. Beyond the maximum, the oldest of the address with most held
    /// bytes are displaced. Returns the datagrams held of an address that lost its slot.
    pub(super) fn hold(
        &mut self,
        now: Instant,
        from: SocketAddr,
        head: &Numbered,
        bytes: &[u8],
    ) -> Vec<Held> {
        let Some(dropped) = self.free_slot(now, from.ip(), head.epoch) else { return Vec::new() };
        let Some(challenger) = self.list.iter_mut().find(|it| it.ip == from.ip()) else { return dropped };
        challenger.heard = now;
        challenger.epoch = challenger.epoch.max(head.epoch);
        challenger.read(from, bytes);
        challenger.held_weight += weight(bytes);
        let (epoch, number) = (head.epoch, head.number);
        self.held.push_back(Held { from, bytes: bytes.to_vec(), epoch, number });
        self.held_bytes += bytes.len();
        while self.held.len() > MAX_HELD || self.held_bytes > MAX_HELD_BYTES {
            let Some(most) = self.list.iter_mut().max_by_key(|it| it.held_weight) else { break };
            let oldest = self.held.iter().position(|held| held.from.ip() == most.ip);
            let Some(oldest) = oldest.and_then(|index| self.held.remove(index)) else { break };
            self.held_bytes -= oldest.bytes.len();
            most.held_weight -= weight(&oldest.bytes);
            most.displaced(&oldest);
        }
        dropped
    }

    /// Records the address at which a challenger receives requests.
    pub(super) fn reports_to(&mut self, epoch: Epoch, address: SocketAddr) {
        let of = |it: &&mut Challenger| it.ip == address.ip() && it.epoch == epoch;
        if let Some(challenger) = self.list.iter_mut().find(of) {
            challenger.report_to = Some(address);
        }
    }

    /// Returns the address at which a challenger receives requests, if known.
    pub(super) fn report_address(&self, ip: IpAddr) -> Option<SocketAddr> {
        self.list.iter().find(|challenger| challenger.ip == ip)?.report_to
    }

    /// Returns when the next round is due; the believed address was last received at `last_heard`.
    pub(super) fn next_round(&self, last_heard: Instant) -> Option<Instant> {
        let last = self.last.filter(|last| *last > last_heard).unwrap_or(last_heard);
        (!self.list.is_empty()).then_some(last + self.interval)
    }

    /// Begins a round if it is due.
    pub(super) fn round(&mut self, now: Instant, last_heard: Instant) -> Round {
        if self.next_round(last_heard).is_none_or(|due| now < due) {
            return Round::Wait;
        }
        if self.last.is_none_or(|last| last <= last_heard) {
            self.row = 0;
        }
        let proven = self.list.iter().find(|challenger| challenger.is_proven);
        match proven {
            Some(challenger) if self.row >= CHALLENGES => Round::TakeOver(challenger.ip),
            _ => {
                (self.row, self.last) = (self.row + 1, Some(now));
                Round::Challenge
            }
        }
    }

    /// Returns when the next request for a proof is due; each challenger is asked three times at most.
    pub(super) fn next_ask(&self) -> Option<Instant> {
        let to_ask = self.list.iter().filter(|it| it.is_to_be_asked());
        to_ask.map(|challenger| challenger.ask_at).min()
    }

    /// Records requests to the challengers whose turn it is, or with `all` to every one without proof; returns them.
    pub(super) fn ask(&mut self, now: Instant, all: bool) -> impl Iterator<Item = (&Challenger, SocketAddr)> {
        let interval = self.interval;
        let is_due = move |it: &&mut Challenger| {
            let has_turn = it.is_to_be_asked() && it.ask_at <= now;
            has_turn || all && !it.is_proven
        };
        self.list.iter_mut().filter(is_due).filter_map(move |challenger| {
            let report_to = challenger.report_to?;
            challenger.asked += 1;
            challenger.ask_at = now + interval;
            Some((&*challenger, report_to))
        })
    }

    /// Draws a nonce for the believed address, which need not repeat it: any datagram from there proves that it is
    /// alive.
    pub(super) fn nonce(&mut self) -> Nonce {
        Nonce::new(self.random.next_u64())
    }

    /// Returns the address that takes over from an epoch that is over, if any. A proven address precedes the others;
    /// among equals the later start wins.
    pub(super) fn heir(&self, over: &Over) -> Option<IpAddr> {
        let rank = |it: &&Challenger| (!it.is_proven, it.epoch < over.epoch);
        self.heirs(over).min_by_key(rank).map(|challenger| challenger.ip)
    }

    /// Returns the time from which the successor is known: several without proof have all had their time by then.
    pub(super) fn heir_known(&self, over: &Over) -> Instant {
        let had_time = |it: &Challenger| it.since + self.interval * CHALLENGES;
        if self.heirs(over).count() < 2 || self.heirs(over).any(|it| it.is_proven) {
            return over.last_heard;
        }
        self.heirs(over).map(had_time).max().unwrap_or(over.last_heard)
    }

    /// Returns the challengers that may take over.
    fn heirs<'a>(&'a self, over: &'a Over) -> impl Iterator<Item = &'a Challenger> {
        self.list.iter().filter(|it| match it.epoch.cmp(&over.epoch) {
            Ordering::Greater => true,
            Ordering::Equal => !over.ended,
            Ordering::Less => it.outlived(over.last_heard),
        })
    }

    /// Returns an address from which an earlier epoch was still received after this one, last received at
    /// `last_heard`.
    pub(super) fn survivor(
        &self,
        epoch: Epoch,
        last_heard: Instant,
        is_believed: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let can = |it: &&Challenger| it.epoch < epoch && it.outlived(last_heard) && is_believed(it.ip);
        self.list.iter().find(can).map(|challenger| challenger.ip)
    }

    /// Takes an address out with all its datagrams, and forgets the others.
    pub(super) fn take(&mut self, ip: IpAddr) -> Option<Successor> {
        let index = self.list.iter().position(|challenger| challenger.ip == ip)?;
        let Challenger { epoch, displaced, .. } = self.list.swap_remove(index);
        let (held, dropped) = self.clear().into_iter().partition(|held| held.from.ip() == ip);
        Some(Successor { epoch, held, displaced, dropped })
    }

    /// Forgets challengers without a later epoch than this; returns their held datagrams.
    pub(super) fn forget_up_to(&mut self, epoch: Epoch) -> Vec<Held> {
        self.list.retain(|challenger| challenger.epoch > epoch);
        self.keep_held_of_the_listed()
    }

    /// Drops and returns the held datagrams of addresses that are no longer listed.
    fn keep_held_of_the_listed(&mut self) -> Vec<Held> {
        let Self { list, held, .. } = self;
        let is_listed = |held: &Held| list.iter().any(|challenger| challenger.ip == held.from.ip());
        let (kept, dropped): (Vec<_>, Vec<_>) = core::mem::take(held).into_iter().partition(is_listed);
        self.held = kept.into();
        self.held_bytes = self.held.iter().map(|held| held.bytes.len()).sum();
        dropped
    }

    /// Forgets all challengers and returns their held datagrams.
    pub(super) fn clear(&mut self) -> Vec<Held> {
        self.list.clear();
        self.useless.clear();
        (self.held_bytes, self.row, self.last) = (0, 0, None);
        core::mem::take(&mut self.held).into()
    }

    /// Gives an address a slot if it has none; returns the datagrams held of the address that had it, or `None` if no
    /// slot can be freed.
    fn free_slot(&mut self, now: Instant, ip: IpAddr, epoch: Epoch) -> Option<Vec<Held>> {
        if self.list.iter().any(|challenger| challenger.ip == ip) {
            return Some(Vec::new());
        }
        let mut dropped = Vec::new();
        if self.list.len() == MAX_CHALLENGERS {
            let time = self.interval * CHALLENGES;
            let is_useless = |it: &Challenger| !it.is_proven && now.since(it.since) > time;
            let gives_way = |it: &Challenger| now.since(it.heard) > MAX_SILENCE || is_useless(it);
            let index = self.list.iter().position(gives_way).filter(|_| !self.useless.contains(&ip))?;
            let gone = self.list.remove(index);
            if !gone.is_proven {
                self.useless.push_back(gone.ip);
            }
            if self.useless.len() > MAX_USELESS {
                self.useless.pop_front();
            }
            dropped = self.keep_held_of_the_listed();
        }
        let nonce = self.nonce();
        self.list.push(Challenger {
            ip,
            epoch,
            report_to: None,
            nonce,
            is_proven: false,
            asked: 0,
            ask_at: now,
            assembler: DescriptorAssembler::new(),
            since: now,
            heard: now,
            held_weight: 0,
            displaced: BTreeMap::new(),
        });
        Some(dropped)
    }
}

/// Returns the weight of a datagram against the limit of held data: 1 KiB datagrams reach both limits together.
const fn weight(bytes: &[u8]) -> usize {
    bytes.len() + MAX_HELD_BYTES / MAX_HELD
}

impl Challenger {
    fn is_to_be_asked(&self) -> bool {
        !self.is_proven && self.asked < CHALLENGES && self.report_to.is_some()
    }

    /// Returns whether it was still received when another publisher fell silent; if its latest datagram is much
    /// older, it is gone, too.
    fn outlived(&self, last_heard: Instant) -> bool {
        last_heard.since(self.heard) <= MAX_INTERVAL
    }

    /// Reads what a datagram says about its sender: its address for requests, and the nonce that it repeats.
    fn read(&mut self, from: SocketAddr, bytes: &[u8]) {
        match Datagram::decode(bytes) {
            Ok(Datagram::Tally(tally)) => self.is_proven |= tally.nonces.contains(&self.nonce),
            Ok(Datagram::Descriptor(part)) => {
                if let Ok(Some(description)) = self.assembler.accept(&part) {
                    self.report_to = Some(at_port(from, description.report_port));
                }
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn displaced(&mut self, held: &Held) {
        let numbers = self.displaced.entry(held.epoch).or_default();
        if numbers.range_count() < MAX_EARLY_RUNS {
            numbers.insert(held.number..held.number.saturating_add(1));
        }
        if self.displaced.len() > MAX_DISPLACED_EPOCHS {
            self.displaced.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use units::StreamId;
    use wire::{Tally, Totals};

    use super::*;

    const HEAD: Numbered = Numbered {
        stream: StreamId(1),
        epoch: Epoch { start_ns: 2, incarnation: 2 },
        number: 0,
        first_index: 0,
        element_offset: 0,
        elements_per_sample: 1,
    };
    const BEFORE: Epoch = Epoch { start_ns: 1, incarnation: 1 };

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn host(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 7_400))
    }

    fn challengers() -> Challengers {
        Challengers::new(7)
    }

    /// Sends a tally that repeats a nonce.
    fn repeat(challengers: &mut Challengers, now: Instant, from: SocketAddr, nonce: Nonce) {
        let tally = Tally {
            head: HEAD,
            last: false,
            paused: false,
            watched: false,
            next_tally: Duration::from_secs(1),
            readers: 1,
            report_interval: Duration::from_secs(1),
            totals: Totals::default(),
            withheld: Vec::new(),
            skipped: Vec::new(),
            nonces: vec![nonce],
            statement: Vec::new(),
            origin: None,
            upstream: Vec::new(),
        };
        let mut bytes = [0; 500];
        let size = tally.encode(&mut bytes).unwrap();
        challengers.hold(now, from, &HEAD, &bytes[..size]);
    }

    /// Advances time until a round is due, a second at most; returns its time and action.
    fn next_round(challengers: &mut Challengers, last_heard: Instant) -> (Instant, Round) {
        let due = challengers.next_round(last_heard).expect("a challenger waits");
        assert_eq!(challengers.round(due - Duration::from_nanos(1), last_heard), Round::Wait);
        (due, challengers.round(due, last_heard))
    }

    #[test]
    fn an_address_that_misses_three_challenges_within_three_seconds_gives_way_to_one_with_a_proof() {
        for seed in 0..100 {
            let mut challengers = Challengers::new(seed);
            assert_eq!(challengers.next_round(at(0)), None);
            challengers.hold(at(5), host(2), &HEAD, &[1]);
            challengers.reports_to(HEAD.epoch, host(2));
            for _ in 0..3 {
                assert_eq!(next_round(&mut challengers, at(0)).1, Round::Challenge);
            }
            let asked: Vec<_> = challengers.ask(at(5), false).map(|(it, to)| (it.nonce, to)).collect();
            let [(nonce, to)] = asked[..] else { panic!("{asked:?}") };
            assert_eq!(to, host(2));
            repeat(&mut challengers, at(2_000), host(2), nonce);
            let (due, round) = next_round(&mut challengers, at(0));
            assert_eq!(round, Round::TakeOver(host(2).ip()));
            assert!(due <= at(3_000), "{due:?}");
            let successor = challengers.take(host(2).ip()).unwrap();
            assert_eq!((successor.epoch, successor.held.len()), (HEAD.epoch, 2));
            assert!(challengers.is_empty());
        }
    }

    #[test]
    fn any_datagram_resets_the_count_of_missed_challenges() {
        let mut challengers = challengers();
        challengers.hold(at(0), host(2), &HEAD, &[1]);
        let nonce = challengers.list[0].nonce;
        repeat(&mut challengers, at(1), host(2), nonce);
        let mut heard = at(0);
        for _ in 0..10 {
            for _ in 0..3 {
                let (now, round) = next_round(&mut challengers, heard);
                assert_eq!(round, Round::Challenge);
                assert!(now > heard);
            }
            heard = challengers.last.unwrap() + Duration::from_millis(1);
        }
    }

    #[test]
    fn without_its_own_nonce_no_challenger_takes_over() {
        let mut challengers = challengers();
        challengers.hold(at(0), host(2), &HEAD, &[1]);
        challengers.hold(at(0), host(3), &HEAD, &[1]);
        let [two, _] = &challengers.list[..] else { panic!("two of them") };
        let nonce = two.nonce;
        // The other address overheard or guessed the nonce.
        repeat(&mut challengers, at(1), host(3), nonce);
        repeat(&mut challengers, at(1), host(3), Nonce::new(0));
        for _ in 0..20 {
            assert_eq!(next_round(&mut challengers, at(0)).1, Round::Challenge);
        }
    }

    const fn over(epoch: Epoch, ended: bool) -> Over {
        Over { epoch, ended, last_heard: Instant::ORIGIN }
    }

    #[test]
    fn a_challenger_is_asked_at_once_and_three_times_at_most() {
        let mut challengers = challengers();
        let interval = challengers.interval;
        challengers.hold(at(0), host(2), &HEAD, &[1]);
        assert_eq!(challengers.next_ask(), None, "nobody knows where");
        challengers.reports_to(HEAD.epoch, host(2));
        for count in 0..CHALLENGES {
            let due = at(0) + interval * count;
            assert_eq!(challengers.next_ask(), Some(due));
            assert_eq!(challengers.ask(due, false).count(), 1);
            assert_eq!(challengers.ask(due, false).count(), 0);
        }
        assert_eq!((challengers.next_ask(), challengers.ask(at(9_000), false).count()), (None, 0));
        assert_eq!(challengers.ask(at(9_000), true).count(), 1, "the believed address is silent");
        let nonce = challengers.list[0].nonce;
        repeat(&mut challengers, at(9_001), host(2), nonce);
        assert_eq!(challengers.ask(at(99_000), true).count(), 0);
    }

    #[test]
    fn an_epoch_that_is_over_gives_way_to_a_later_one_and_a_silent_one_to_its_own() {
        let mut challengers = challengers();
        let same = Numbered { epoch: BEFORE, ..HEAD };
        challengers.hold(at(0), host(2), &same, &[1]);
        assert_eq!(challengers.heir(&over(BEFORE, false)), Some(host(2).ip()));
        assert_eq!(challengers.heir(&over(BEFORE, true)), None, "nothing comes behind its final tally");
        challengers.hold(at(0), host(3), &HEAD, &[1]);
        assert_eq!(challengers.heir(&over(BEFORE, true)), Some(host(3).ip()));
        let nonce = challengers.list[1].nonce;
        repeat(&mut challengers, at(1), host(3), nonce);
        assert_eq!(challengers.heir(&over(BEFORE, false)), Some(host(3).ip()), "a proof goes before age");
    }

    #[test]
    fn of_several_without_a_proof_none_takes_over_before_all_had_their_time() {
        let mut challengers = challengers();
        let time = challengers.interval * CHALLENGES;
        challengers.hold(at(10), host(2), &HEAD, &[1]);
        assert_eq!(challengers.heir_known(&over(BEFORE, true)), at(0), "there is no choice");
        challengers.hold(at(20), host(3), &HEAD, &[1]);
        assert_eq!(challengers.heir_known(&over(BEFORE, true)), at(20) + time);
        let nonce = challengers.list[1].nonce;
        repeat(&mut challengers, at(30), host(3), nonce);
        assert_eq!(challengers.heir_known(&over(BEFORE, true)), at(0));
        assert_eq!(challengers.heir(&over(BEFORE, true)), Some(host(3).ip()), "who came second has a proof");
    }

    #[test]
    fn what_is_held_is_bounded_and_who_holds_most_gives_way_and_is_remembered() {
        let mut challengers = challengers();
        challengers.hold(at(0), host(2), &HEAD, &[2; 100]);
        for number in (0..6_000).step_by(2) {
            challengers.hold(at(0), host(1), &Numbered { number, ..HEAD }, &[1; 8]);
        }
        assert_eq!((challengers.held.len(), challengers.held_bytes), (MAX_HELD, 100 + 8 * (MAX_HELD - 1)));
        challengers.hold(at(0), host(1), &Numbered { number: 6_000, ..HEAD }, &[0; MAX_HELD_BYTES - 100]);
        assert_eq!(challengers.held.len(), 2, "the size counts as well");
        let successor = challengers.take(host(1).ip()).unwrap();
        assert_eq!(successor.held[0].number, 6_000);
        let displaced = successor.displaced[&HEAD.epoch].range_count();
        assert_eq!(displaced, MAX_EARLY_RUNS, "every other number is a run");
    }

    #[test]
    fn a_flood_of_addresses_takes_four_places_until_they_fall_silent() {
        let mut challengers = challengers();
        for last in 1..=250 {
            challengers.hold(at(u64::from(last)), host(last), &HEAD, &[last]);
        }
        let places: Vec<_> = challengers.list.iter().map(|it| it.ip).collect();
        assert_eq!(places, [1, 2, 3, 4].map(|last| host(last).ip()));
        assert_eq!(challengers.held.len(), 4);
        challengers.hold(at(10_002), host(9), &HEAD, &[9]);
        assert!(challengers.list.iter().any(|it| it.ip == host(9).ip()));
        assert_eq!((challengers.list.len(), challengers.held.len(), challengers.held_bytes), (4, 4, 4));
    }

    #[test]
    fn who_speaks_on_without_a_proof_makes_room_for_another_and_who_has_one_stays() {
        let mut challengers = challengers();
        let time = challengers.interval * CHALLENGES;
        (1..=4).for_each(|last| drop(challengers.hold(at(0), host(last), &HEAD, &[last])));
        let nonce = challengers.list[0].nonce;
        repeat(&mut challengers, at(1), host(1), nonce);
        challengers.hold(at(0) + time, host(9), &HEAD, &[9]);
        assert!(challengers.list.iter().all(|it| it.ip != host(9).ip()), "they have their time");
        let dropped = challengers.hold(at(1) + time, host(9), &HEAD, &[9]);
        assert_eq!(dropped.iter().map(|held| held.from).collect::<Vec<_>>(), [host(2)], "it is told of");
        let places: Vec<_> = challengers.list.iter().map(|it| it.ip).collect();
        assert_eq!(places, [1, 3, 4, 9].map(|last| host(last).ip()));
        challengers.hold(at(2) + time, host(2), &HEAD, &[2]);
        assert!(challengers.list.iter().all(|it| it.ip != host(2).ip()), "it had its time");
    }
}
