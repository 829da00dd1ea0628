//! A relay whose socket refuses datagrams, before a bus that loses tallies too: at no time does an account name more
//! losses of a stage before numbering than there are.
//!
//! The truth is what was passed to the relay's sender. How elements of one hole are divided among its numbers is an
//! estimate, so that the sender's own stages are compared in datagrams, with the log; its truth does not know readers that
//! wait, miss the description, and begin late.

use ledger::{Account, HopShare, Outcome, Stage, StageCounts};
use sim::{Link, NodeId, Port};
use units::{Instant, Random};
use wire::Kind;

use crate::line::at;
use crate::line::publisher::{Command, Publisher, Refusal};
use crate::line::relay::{ElementOutcome, Passed, RelayFeed, relaying};
use crate::line::scene::{EPOCH, Scene, StreamShape, reader, watched_by};
use crate::line::truth::verify;

const FED_UNTIL: u64 = 2_000;
/// Interval at which the account is compared with the truth. Units: milliseconds.
const COMPARED_EVERY: u64 = 50;
const SEEDS: u64 = 40;

/// The draw of a seed.
#[derive(Debug)]
struct Plan {
    shape: StreamShape,
    hops: u8,
    first_position: u64,
    holes: f64,
    refusal: Refusal,
    loss: f64,
    /// One of so many tallies arrives.
    tallies_kept: u64,
    waits: bool,
}

impl Plan {
    fn draw(seed: u64) -> Self {
        let mut random = Random::for_purpose(seed, "refusals before a reader");
        let elements = [1, 3, 3, 50][random.below(4) as usize];
        Self {
            shape: StreamShape { hz: 1_000, elements, ..StreamShape::PLAIN },
            hops: [2, 2, 4, 8][random.below(4) as usize],
            first_position: u64::from(elements) * random.below(3) * 1_000,
            holes: 0.1 + random.unit() * 0.3,
            refusal: Refusal { socket: random.unit() * 0.2, qdisc: random.unit() * 0.1 },
            loss: if random.chance(0.5) { random.unit() * 0.05 } else { 0.0 },
            tallies_kept: if random.chance(0.5) { 2 + random.below(4) } else { 1 },
            waits: random.chance(0.5),
        }
    }
}

/// Losses before numbering among the elements of an account.
fn missing(plan: &Plan, passed: &Passed, account: &Account) -> StageCounts {
    let per_sample = u64::from(plan.shape.elements);
    let place = |index: u64| {
        let place = (index * per_sample).saturating_sub(passed.first_position) as usize;
        place.min(passed.outcomes.len())
    };
    let range = place(account.elements.first)..place(account.elements.next);
    let mut counts = StageCounts::default();
    for outcome in &passed.outcomes[range] {
        if let ElementOutcome::Missing(stage, _) = outcome {
            counts[*stage] += 1;
        }
    }
    counts[Stage::Source] += passed.first_position.saturating_sub(account.elements.first * per_sample);
    counts
}

fn check(seed: u64, plan: &Plan, passed: &Passed, account: &Account) {
    let missing = missing(plan, passed, account);
    let lost = &account.elements.lost;
    for stage in [Stage::Source, Stage::PublisherQueue, Stage::PublisherPaused] {
        assert!(
            lost[stage] <= missing[stage],
            "seed {seed}: {} named {stage}, {} missing; {plan:?}",
            lost[stage],
            missing[stage]
        );
    }
    assert_eq!(account.hops.total(), lost[Stage::Source], "seed {seed}: the law over hops");
    let before = passed.inherited_from(0);
    for HopShare { hop, outcome, count } in account.hops.shares() {
        let happened = before.rows(hop).count(outcome);
        let is_told = matches!(outcome, Outcome::Lost(_));
        assert!(!is_told || count <= happened, "seed {seed}: {count} of {happened} {outcome:?} on hop {hop}");
    }
}

fn open_account(network: &Scene, node: NodeId) -> Option<Account> {
    let mut views = network.node(node).reader().receiver.accounts();
    views.next().map(|view| view.account)
}

fn play(seed: u64) {
    let plan = Plan::draw(seed);
    let config = relaying(plan.shape.config(EPOCH), plan.hops, plan.first_position);
    let feed = RelayFeed::new(&config, seed, at(FED_UNTIL), 40, plan.holes);
    let passed = feed.passed();
    let publisher = Publisher::new(config, feed, seed, Instant::ORIGIN).refusing(plan.refusal);
    let publisher = publisher.told(at(FED_UNTIL + 100), Command::Finish);
    let mut down = Link::lan().loss(plan.loss);
    if plan.tallies_kept > 1 {
        let kept = plan.tallies_kept;
        down = down.lose_when("most tallies", move |passing| {
            passing.bytes[3] == Kind::Tally.code() && !passing.ordinal.is_multiple_of(kept)
        });
    }
    let reader = if plan.waits { reader(seed).waiting() } else { reader(seed) };
    let (mut network, node) = watched_by(seed, publisher, reader, Port { down, ..Port::default() });
    for step in 1..=6_000 / COMPARED_EVERY {
        network.run_until(at(step * COMPARED_EVERY));
        if let Some(account) = open_account(&network, node) {
            check(seed, &plan, &passed.borrow(), &account);
        }
    }
    network.run_until(at(20_000));
    if !plan.waits {
        let _ = verify(&network, node);
    }
    let accounts = network.node(node).reader().watch.followed.iter().filter_map(|it| it.ended.as_ref());
    for (_, account) in accounts {
        check(seed, &plan, &passed.borrow(), account);
    }
}

#[test]
fn no_stage_names_more_than_is_missing_where_sockets_refuse_and_tallies_are_lost() {
    (0..SEEDS).for_each(play);
}
