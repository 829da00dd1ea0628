//! One seed, one run; and no effect moves another.

use sim::{Bursts, Corruption, Host, Lineup, Link, LostBy, Network, NodeId, Order, Outcome};

use crate::part::{GROUP, Part, READER, at, micros};

fn everything_at_once() -> Link {
    Link::lan()
        .rate(20_000_000, 4_000)
        .jitter(micros(300), Order::Free)
        .reorder(0.02, micros(700))
        .loss(0.01)
        .bursts(Bursts::of(0.02, 5.0))
        .duplicate(0.01, micros(50))
        .corrupt(0.01, Corruption::Delivered)
}

fn run(seed: u64, link: Link) -> Network<Part> {
    let mut network = Lineup::new(seed)
        .publisher(Part::beacon(2_000, micros(50)))
        .group(GROUP)
        .link(link)
        .reverse_link(Link::lan().loss(0.1))
        .host(Host::ideal().receive_buffer(8_000).reads_every(micros(500), 8))
        .readers(3, |_| Part::answering_listener())
        .build();
    network.run_until(at(200_000));
    network
}

/// Ordinals of the datagrams that the reader's link lost for this cause.
fn lost(network: &Network<Part>, by: LostBy) -> Vec<u64> {
    let passes = network.log().passes(READER);
    passes.filter(|pass| pass.outcome == Outcome::Lost(by)).map(|pass| pass.ordinal).collect()
}

#[test]
fn two_runs_of_one_seed_share_their_trace_and_two_seeds_do_not() {
    let hash = |seed| run(seed, everything_at_once()).trace_hash();
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}

#[test]
fn readers_of_one_scene_have_chances_of_their_own() {
    let network = run(7, Link::lan().loss(0.05));
    assert_ne!(network.log().outcomes(NodeId(1)), network.log().outcomes(NodeId(2)));
}

#[test]
fn switching_effects_on_does_not_move_the_random_losses() {
    // The readers answer into the same log, so that ordinals shift with delay; the payload's number does not.
    let numbers = |link| -> Vec<[u8; 8]> {
        let network = run(7, link);
        let number = |ordinal| *network.log().sent(ordinal).bytes.first_chunk().unwrap();
        lost(&network, LostBy::Random).into_iter().map(number).collect()
    };
    let alone = numbers(Link::lan().loss(0.01));
    let among_others = Link::lan()
        .loss(0.01)
        .jitter(micros(20), Order::Kept)
        .corrupt(0.1, Corruption::Delivered)
        .duplicate(0.1, micros(20));
    assert!(!alone.is_empty());
    assert_eq!(alone, numbers(among_others));
}

#[test]
fn what_one_effect_takes_another_may_not_take_but_nothing_else_moves() {
    let numbers = |link| {
        let mut network = Lineup::new(3)
            .publisher(Part::beacon(2_000, micros(50)))
            .group(GROUP)
            .link(link)
            .reader(Part::listener())
            .build();
        network.run_until(at(200_000));
        (lost(&network, LostBy::Random), lost(&network, LostBy::Burst), lost(&network, LostBy::Queue))
    };
    let (random, _, _) = numbers(Link::lan().loss(0.05));
    let (_, bursts, _) = numbers(Link::lan().bursts(Bursts::of(0.05, 4.0)));
    let (_, _, queue) = numbers(Link::lan().rate(20_000_000, 4_000));
    assert!(!random.is_empty() && !bursts.is_empty() && !queue.is_empty());

    let all = Link::lan().loss(0.05).bursts(Bursts::of(0.05, 4.0)).rate(20_000_000, 4_000);
    let (random_of_all, bursts_of_all, queue_of_all) = numbers(all);
    assert_eq!(queue_of_all, queue, "the queue comes first");
    let without = |lost: &[u64], taken: &[&[u64]]| -> Vec<u64> {
        let free = |ordinal: &&u64| !taken.iter().any(|taken| taken.contains(ordinal));
        lost.iter().filter(free).copied().collect()
    };
    assert_eq!(random_of_all, without(&random, &[&queue]));
    assert_eq!(bursts_of_all, without(&bursts, &[&queue, &random]));
}
