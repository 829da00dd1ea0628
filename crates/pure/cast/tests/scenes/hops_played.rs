//! Whole relays and their readers in random scenes: the law over hops after every input, and every loss before the
//! relay on the hop where it was, as far as tallies arrive.
//!
//! The truth is what was passed to the relay's sender; `hops` has the single behaviours.

use core::ops::Range;

use ledger::{Account, AccountState, HopCounts, HopShare, Outcome, Stage};
use sim::{Link, Port};
use units::{Instant, Random};
use wire::Kind;

use crate::line::at;
use crate::line::publisher::{Command, Publisher};
use crate::line::relay::{ElementOutcome, Passed, RelayFeed, relaying};
use crate::line::scene::{EPOCH, StreamShape, reader, watched_by};
use crate::line::truth::verify;

const SHAPE: StreamShape = StreamShape { hz: 1_000, elements: 3, ..StreamShape::PLAIN };
const FED_UNTIL: u64 = 2_000;
const SEEDS: u64 = 100;

/// What occurred in scenes, and in how many.
#[derive(Default, Debug)]
struct Seen {
    exact: u64,
    own_losses: u64,
    lost_tallies: u64,
    by_counts: u64,
    given_up: u64,
    settled_later: u64,
    waited: u64,
    placed_by_a_tally: u64,
    several_hops: u64,
}

/// The draw of a seed.
struct Plan {
    hops: u8,
    first_position: u64,
    loss: f64,
    /// One of so many tallies arrives.
    tallies_kept: u64,
    first_lost: bool,
    waits: bool,
}

impl Plan {
    fn draw(seed: u64) -> Self {
        let mut random = Random::for_purpose(seed, "hops");
        Self {
            hops: [2, 2, 4, 8][random.below(4) as usize],
            first_position: 3 * random.below(3) * 1_000,
            loss: if random.chance(0.5) { random.unit() * 0.05 } else { 0.0 },
            tallies_kept: if random.chance(0.4) { 2 + random.below(4) } else { 1 },
            first_lost: random.chance(0.3),
            waits: random.chance(0.5),
        }
    }

    fn is_clear(&self) -> bool {
        self.loss == 0.0 && self.tallies_kept == 1 && !self.first_lost
    }
}

/// Returns the losses before the relay at these positions; what is unsettled at the end nobody explains.
fn truth(passed: &Passed, positions: Range<u64>) -> HopCounts {
    let place = |position: u64| position.saturating_sub(passed.first_position) as usize;
    let outcomes = &passed.outcomes[place(positions.start)..place(positions.end)];
    let share = |outcome: &ElementOutcome| match *outcome {
        ElementOutcome::Missing(Stage::Source, Some(it)) => {
            Some(HopShare { hop: it.hop, outcome: it.outcome, count: 1 })
        }
        ElementOutcome::Came | ElementOutcome::Missing(..) => None,
    };
    let mut counts: HopCounts = outcomes.iter().filter_map(share).collect();
    counts.give_up();
    counts
}

fn play(seed: u64, seen: &mut Seen) {
    let plan = Plan::draw(seed);
    let config = relaying(SHAPE.config(EPOCH), plan.hops, plan.first_position);
    let feed = RelayFeed::new(&config, seed, at(FED_UNTIL), 40, 0.3);
    let passed = feed.passed();
    let publisher = Publisher::new(config, feed, seed, Instant::ORIGIN);
    let publisher = publisher.told(at(FED_UNTIL + 100), Command::Finish);
    let mut down = Link::lan().loss(plan.loss);
    if plan.tallies_kept > 1 {
        let kept = plan.tallies_kept;
        down = down.lose_when("most tallies", move |passing| {
            passing.bytes[3] == Kind::Tally.code() && !passing.ordinal.is_multiple_of(kept)
        });
    }
    if plan.first_lost {
        down = down.lose_when("the first datagrams", |passing| passing.ordinal < 3);
    }
    let reader = if plan.waits { reader(seed).waiting() } else { reader(seed) };
    let (mut network, node) = watched_by(seed, publisher, reader, Port { down, ..Port::default() });
    network.run_until(at(20_000));
    let passed = passed.borrow().clone();
    let reader = network.node(node).reader();
    let [following] = &reader.watch.followed[..] else { panic!("seed {seed}: one account") };
    let (_, account) = following.ended.as_ref().expect("it has ended");
    // The log's truth does not know readers that wait and begin late, because no tally told in time where the relay
    // took the stream up.
    let is_late = plan.waits && account.datagrams.is_some_and(|rows| rows.first > 0);
    if !is_late {
        let _ = verify(&network, node);
    }
    check(seed, &plan, &passed, account);
    observe(&plan, &passed, account, seen);
}

fn check(seed: u64, plan: &Plan, passed: &Passed, account: &Account) {
    let Account { elements, hops, .. } = account;
    assert_eq!(hops.total(), elements.lost[Stage::Source], "seed {seed}: the law over hops");
    assert_eq!(hops.unsettled(), 0, "seed {seed}");
    let range = elements.first * 3..elements.next * 3;
    assert!(range.start >= plan.first_position, "seed {seed}: what was never offered is no loss");
    if plan.waits && account.datagrams.is_some_and(|rows| rows.first == 0) {
        assert_eq!(range.start, plan.first_position, "seed {seed}: a reader that waits misses nothing");
    }
    let happened = truth(passed, range);
    assert!(elements.lost[Stage::Source] <= happened.total(), "seed {seed}");
    if plan.is_clear() {
        assert_eq!((hops, account.state), (&happened, AccountState::Closed), "seed {seed}");
    }
    // Counts may be of losses before the reader came, but of none that did not happen.
    let all = truth(passed, plan.first_position..passed.next_position());
    for HopShare { hop, outcome, count } in hops.shares() {
        let is_told = matches!(outcome, Outcome::Lost(_));
        assert!(!is_told || count <= all.rows(hop).count(outcome), "seed {seed}: {hops:?} of {all:?}");
    }
}

fn observe(plan: &Plan, passed: &Passed, account: &Account, seen: &mut Seen) {
    let settled = |outcome: &ElementOutcome| matches!(outcome, ElementOutcome::Missing(_, Some(it)) if it.outcome == Outcome::Lost(Stage::Deadline));
    let unexplained = account.hops.rows(plan.hops - 1).unexplained;
    seen.exact += u64::from(plan.is_clear());
    seen.own_losses += u64::from(account.elements.missing() > account.elements.lost[Stage::Source]);
    seen.lost_tallies += u64::from(plan.tallies_kept > 1);
    seen.by_counts += u64::from(account.gaps.iter().any(|gap| gap.apportioned && !gap.inherited.is_empty()));
    seen.given_up += u64::from(unexplained > 0);
    seen.settled_later += u64::from(passed.outcomes.iter().any(settled));
    seen.waited += u64::from(plan.waits);
    seen.placed_by_a_tally += u64::from(plan.waits && plan.first_lost);
    seen.several_hops += u64::from(account.hops.hops().len() > 2);
}

#[test]
fn losses_before_a_relay_are_on_their_hops_under_random_scenes() {
    let mut seen = Seen::default();
    (0..SEEDS).for_each(|seed| play(seed, &mut seen));
    println!("{seen:?}");
    let counts = [
        seen.exact,
        seen.own_losses,
        seen.lost_tallies,
        seen.by_counts,
        seen.given_up,
        seen.settled_later,
        seen.waited,
        seen.placed_by_a_tally,
        seen.several_hops,
    ];
    assert!(counts.iter().all(|count| *count > 0), "{seen:?}");
}
