//! A relay under random scenes: after every input the law holds at both ends and at the reader, and in the end the
//! account of each publisher is its diary's.
//!
//! A scene depends on its seed only. `TALLYCAST_SEEDS` is the number of scenes (200 by default),
//! `TALLYCAST_FIRST_SEED` the first seed; a failure prints the command that repeats its seed, and the run ends with a
//! line that counts the scenes with each effect. `TALLYCAST_WITHOUT` leaves effects out, by the bits of their places, to
//! find out which of them a failure needs.

use core::time::Duration;

use chain::{MS, Plan, Shape, at};
use sim::{Bursts, Link, Order, Port};
use units::{Instant, Random};

/// Effects of a scene, each drawn independently.
const EFFECTS: [&str; 23] = [
    "loss forward",
    "loss in reverse",
    "bursts",
    "jitter",
    "reordering",
    "duplicates",
    "corruption",
    "short outage",
    "long outage",
    "near restart",
    "far restart",
    "publisher restart",
    "missing before",
    "large samples",
    "lossy far bus",
    "near bus",
    "killed publisher",
    "second stream",
    "second pair",
    "deadlines of readers",
    "priorities",
    "hostile messages",
    "deaf near end",
];

/// What scenes have shown, and in how many.
const SHOWN: [&str; 13] = [
    "given up: link down",
    "bandwidth",
    "repair",
    "resumed",
    "held behind holes",
    "elements lost by the link",
    "elements lost by a far bus",
    "messages that a far end had to ignore",
    "messages that a near end had to ignore",
    "deadlines wanted at a near end",
    "deadlines asked for on the bus between two links",
    "connections replaced",
    "second connections given up",
];

#[derive(Default)]
struct Seen {
    effects: [u64; EFFECTS.len()],
    shown: [u64; SHOWN.len()],
}

#[test]
fn whatever_happens_every_element_has_its_outcome() {
    let seeds = sim::seeds::Seeds {
        first: number("TALLYCAST_FIRST_SEED", 0),
        count: number("TALLYCAST_SEEDS", 200),
        repeat: "TALLYCAST_FIRST_SEED={seed} TALLYCAST_SEEDS=1 cargo test -p chain --test seeds",
    };
    let mut seen = Seen::default();
    sim::seeds::each(&seeds, |seed| play(seed, &mut seen));
    let counts = |names: &[&str], counts: &[u64]| {
        let pairs = names.iter().zip(counts).map(|(name, count)| format!("{name} {count}"));
        pairs.collect::<Vec<_>>().join(", ")
    };
    println!(
        "{} seeds: {}; shown: {}",
        seeds.count,
        counts(&EFFECTS, &seen.effects),
        counts(&SHOWN, &seen.shown)
    );
    if seeds.count >= 200 {
        assert!(seen.effects.iter().chain(&seen.shown).all(|count| *count > 0));
    }
}

#[test]
fn two_runs_of_a_seed_are_one() {
    let deliveries = |seed| {
        let scene = plan(seed, &mut Seen::default()).play();
        scene.far().published.iter().flat_map(|it| it.times.clone()).collect::<Vec<Instant>>()
    };
    for seed in [3, 4] {
        assert_eq!(deliveries(seed), deliveries(seed));
    }
}

fn play(seed: u64, seen: &mut Seen) {
    let plan = plan(seed, seen);
    let scene = plan.play();
    let [_, lost] = scene.verify();
    let [link_down, bandwidth, repair, _] = scene.near().given_up;
    let held = scene.far().most_held as u64;
    let lost_behind = scene.readers().iter().map(|reader| reader.own_losses()).sum();
    let (near, far) = (scene.near(), scene.far());
    let asked = scene.near_of(scene.pairs() - 1).asked.len() as u64;
    let asked = if scene.pairs() > 1 { asked } else { 0 };
    let [hostile_far, hostile_near, wanted] = [far.hostile, near.hostile, near.wanted.len() as u64];
    let shown = [
        link_down,
        bandwidth,
        repair,
        far.resumed,
        held,
        lost,
        lost_behind,
        hostile_far,
        hostile_near,
        wanted,
        asked,
        near.replaced,
        near.given_up_beside,
    ];
    for (count, amount) in seen.shown.iter_mut().zip(shown) {
        *count += u64::from(amount > 0);
    }
    // What waits is bounded by the deadline, whatever happens.
    let bound_bytes = (8_000 * 2 + (1 << 21)) + 2 * 2_000_000;
    assert!(scene.near().most_queued < bound_bytes && scene.far().most_held < bound_bytes);
}

fn plan(seed: u64, seen: &mut Seen) -> Plan {
    let without = number("TALLYCAST_WITHOUT", 0);
    let mut random = Random::for_purpose(seed, "plan");
    let mut has = |place: usize, probability: f64| {
        let drawn = random.chance(probability);
        seen.effects[place] += u64::from(drawn);
        drawn
    };
    let drawn: [bool; EFFECTS.len()] = core::array::from_fn(|place| {
        let probability = match place {
            0 | 1 | 12 => 0.5,
            8..=11 | 18 | 22 => 0.15,
            _ => 0.25,
        };
        has(place, probability) && without >> place & 1 == 0
    });
    let mut random = Random::for_purpose(seed, "amounts");
    let mut between = |least: u64, most: u64| least + random.next_u64() % (most - least + 1);
    let mut plan = Plan::new(seed);
    let one_way = Duration::from_millis(between(2, 60));
    let mut ways = [Link::ideal().delay(one_way), Link::ideal().delay(one_way)];
    if drawn[0] {
        ways[0] = ways[0].clone().loss(between(1, 50) as f64 / 1_000.0);
    }
    if drawn[1] {
        ways[1] = ways[1].clone().loss(between(1, 50) as f64 / 1_000.0);
    }
    if drawn[2] {
        ways[0] = ways[0].clone().bursts(Bursts::of(0.01, 5.0));
    }
    if drawn[3] {
        ways = ways.map(|way| way.jitter(3 * MS, Order::Kept));
    }
    if drawn[4] {
        ways = ways.map(|way| way.reorder(0.02, 8 * MS));
    }
    if drawn[5] {
        ways = ways.map(|way| way.duplicate(0.02, MS));
    }
    if drawn[6] {
        ways[0] = ways[0].clone().corrupt(0.005, sim::Corruption::Dropped);
    }
    if drawn[7] {
        let from = between(500, 2_000);
        let length = between(50, 800);
        ways = ways.map(|way| way.outage(at(from)..at(from + length)));
    }
    if drawn[8] {
        let from = between(500, 1_500);
        ways = ways.map(|way| way.outage(at(from)..at(from + 4_000)));
        plan.publishers = vec![at(0)..at(8_000)];
        plan.silence = seed.is_multiple_of(2).then(|| Duration::from_secs(1));
    }
    plan.ways = ways;
    plan.deadline = Duration::from_millis(between(250, 1_000));
    if drawn[9] {
        let from = between(500, 2_000);
        plan.near_deaths.push(at(from)..at(from + between(0, 200) + 1));
        plan.silence = Some(Duration::from_secs(1));
        plan.shape.kept = Duration::from_millis(between(100, 2_000));
    }
    if drawn[10] {
        let from = between(500, 2_000);
        plan.far_deaths.push(at(from)..at(from + between(0, 200) + 1));
        // Found by a second connection, or by the end of the first.
        plan.silence = plan.silence.or(seed.is_multiple_of(3).then(|| Duration::from_secs(1)));
    }
    if drawn[11] {
        let span = plan.publishers.pop().expect("a publisher");
        let gap = Duration::from_millis(between(10, 300));
        plan.publishers = vec![span.start..at(1_200), at(1_200) + gap..span.end];
    }
    if drawn[12] {
        plan.shape.missing = between(1, 200) as f64 / 1_000.0;
    }
    if drawn[13] {
        plan.shape.elements = 20_000;
        plan.shape.hz = 2;
        plan.shape.record = 1_000;
    } else if between(0, 9) == 0 {
        // Less than is offered: 200 messages of about 250 bytes a second.
        plan.rate = "300k".to_owned();
    }
    widen(&mut plan, &drawn, &mut Random::for_purpose(seed, "wider"));
    plan
}

/// Adds what is beside one stream over one link.
fn widen(plan: &mut Plan, drawn: &[bool; EFFECTS.len()], random: &mut Random) {
    let mut between = |least: u64, most: u64| least + random.below(most - least + 1);
    if drawn[14] {
        let down = Link::lan().loss(between(1, 50) as f64 / 1_000.0);
        plan.lossy_readers.push(Port { down, ..Port::default() });
    }
    if drawn[15] {
        plan.near_bus = Some(Link::lan().loss(between(0, 30) as f64 / 1_000.0));
        plan.are_killed = drawn[16];
        // A publisher has whole samples.
        plan.shape.record = plan.shape.record.max(plan.shape.elements.into());
    }
    if drawn[17] {
        // Whole nanoseconds: times within a datagram are not rounded.
        let hz = [100, 125, 200, 250, 500, 1_000][usize::try_from(between(0, 5)).expect("few")];
        let shape = Shape { name: "lab/y".to_owned(), elements: 4, hz, record: 40, ..plan.shape.clone() };
        plan.others.push(shape);
    }
    // Not beside a long outage: a near end that has barely measured its round trip is silent for up to 10 s before it takes the
    // connection for lost, which its far end has closed long before, and the scene is over (seed 1682).
    if drawn[18] && !drawn[8] {
        plan.pairs.push(["gate-c", "gate-d"]);
        plan.middle_bus = Link::lan().loss(between(0, 20) as f64 / 1_000.0);
    }
    if drawn[19] {
        let readers = plan.readers.len() + plan.lossy_readers.len();
        plan.deadlines = (0..readers).map(|_| Some(Duration::from_millis(between(1, 1_500)))).collect();
    }
    if drawn[20] {
        plan.priorities =
            [("lab/x".to_owned(), 1), ("lab/y".to_owned(), u8::from(between(0, 1) == 0) * 2)].into();
    }
    if drawn[21] {
        plan.hostile = 0.02;
    }
    if drawn[22] {
        let from = between(500, 2_000);
        plan.near_deafness.push(at(from)..at(from + between(1_500, 2_500)));
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
        Err(_) => otherwise,
    }
}
