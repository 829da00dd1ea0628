//! Live messages over lossy paths: how many are given up, when those that arrive do, and what repairing them costs.
//!
//! Each seed is one of 36 cells of loss, round trip and deadline; the counts of all seeds are compared with the bounds
//! in the end. Source of the bounds: `docs/protocol/udt.md`, "Live messages".

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use sim::{Bursts, Link, Network, Order, Port};
use udt::{Repair, SocketConfig, SocketType};
use units::{Instant, Random};

use super::line::live::{Feed, Live};
use super::{CLIENT, SERVER, number};

const LOSSES: [f64; 3] = [0.001, 0.01, 0.05];
const ROUND_TRIPS_MS: [u32; 3] = [20, 100, 200];
const DEADLINES: [f64; 4] = [0.75, 1.75, 2.75, 4.75];

const PERIOD: Duration = Duration::from_millis(1);
/// Messages of a scene, and how many of them are not counted: the round trip is not known yet.
const MESSAGES: u64 = 2_000;
const UNCOUNTED: u64 = 400;

/// Counts of one cell.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    offered: u64,
    lost: u64,
    late: u64,
    /// Packets sent, and of them again.
    sent: u64,
    again: u64,
    worst_median: Duration,
}

#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
struct Cell {
    loss: f64,
    round_trip: Duration,
    lifetime: Duration,
}

impl Cell {
    fn of(seed: u64) -> Self {
        let at = |seed: u64, count: usize| usize::try_from(seed % count as u64).expect("small");
        let round_trip = Duration::from_millis(ROUND_TRIPS_MS[at(seed / 3, 3)].into());
        let lifetime = round_trip.mul_f64(DEADLINES[at(seed / 9, 4)]);
        Self { loss: LOSSES[at(seed, 3)], round_trip, lifetime }
    }

    /// Returns the number of repairs that fit before the deadline: each takes a round trip and the margin of a report,
    /// and the loss shows with the next message.
    fn repairs(&self) -> i32 {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let (round_trip, lifetime) = (ms(self.round_trip), ms(self.lifetime));
        let fit = |repairs: f64| {
            let margin = (ms(PERIOD) + repairs * 0.25 + 2.0) / round_trip;
            repairs <= lifetime / round_trip - 0.5 - margin
        };
        (0..10).take_while(|repairs| *repairs == 0 || fit(f64::from(*repairs))).last().unwrap_or(0)
    }

    /// Returns the fraction of messages that may be given up: the first packet is lost, and of each repair the report or
    /// the packet.
    fn bound(&self) -> f64 {
        2.0 * self.loss * (2.0 * self.loss).powi(self.repairs())
    }
}

#[test]
fn live_messages_are_repaired_as_often_as_their_deadline_allows() {
    let seeds = sim::seeds::Seeds {
        first: number("TALLYCAST_FIRST_SEED", 0),
        count: number("TALLYCAST_SEEDS", 200),
        repeat: "cargo xtask sim --seeds 1 --first {seed}",
    };
    let mut cells: BTreeMap<u64, Counts> = BTreeMap::new();
    sim::seeds::each(&seeds, |seed| play(seed, cells.entry(seed % 36).or_default()));
    for (seed, counts) in cells {
        let cell = Cell::of(seed);
        let expected = cell.bound() * counts.offered as f64;
        println!("{cell:?}, {} repairs, at most {expected:.2} lost: {counts:?}", cell.repairs());
        assert!((counts.lost as f64) <= expected + 4.0 * expected.sqrt() + 3.0, "{cell:?}: {counts:?}");
        assert_eq!(counts.late, 0, "{cell:?}: {counts:?}");
        let most_median = cell.round_trip / 2 + Duration::from_millis(1);
        assert!(counts.worst_median <= most_median, "{cell:?}: {counts:?}");
        let overhead = counts.again as f64 / counts.offered as f64;
        assert!(overhead <= cell.loss / (1.0 - cell.loss) + 0.03, "{overhead}: {cell:?}: {counts:?}");
    }
}

fn config() -> SocketConfig {
    let control = congestion::named("fixed", "rate=100m").expect("it is built in");
    let mut config = SocketConfig::with(SocketType::Datagram, Arc::from(control));
    config.repair = Repair::Timely;
    config.connect_timeout = Duration::from_secs(100);
    config
}

fn play(seed: u64, counts: &mut Counts) {
    let cell = Cell::of(seed);
    let feed =
        Feed { period: PERIOD, count: MESSAGES, bytes: 1_000, lifetime: cell.lifetime, is_varied: false };
    let way = Link::ideal().delay(cell.round_trip / 2).loss(cell.loss);
    let mut network = Network::new(seed);
    let port = Port { up: way.clone(), down: way, ..Port::default() };
    network.add("client", Live::new(seed, Some(feed)), port);
    let server = Live::new(seed ^ 1 << 40, None).listening(config());
    let ideal = Link::ideal();
    network.add("server", server, Port { up: ideal.clone(), down: ideal, ..Port::default() });
    network.act(CLIENT, |live, now, _| live.connect(now, SERVER, config()));
    let end = Instant::ORIGIN + Duration::from_secs(60);
    while network.now() < end && !network.node(CLIENT).is_done() {
        network.step();
    }
    let scenario = network.scenario().to_string();
    let (client, server) = (network.node(CLIENT), network.node(SERVER));
    assert!(client.is_done(), "{scenario}");
    assert_eq!(server.twice, 0, "one came twice: {scenario}");
    for index in 0..MESSAGES {
        let (arrived, given_up) = (server.got.contains_key(&index), client.given_up.get(&index));
        assert!(arrived || given_up.is_some(), "message {index} is nowhere: {scenario}");
        assert!(!arrived || given_up != Some(&false), "message {index} was not sent: {scenario}");
    }
    let counted: Vec<_> = server.got.range(UNCOUNTED..).map(|(_, got)| *got).collect();
    let late = |got: &&super::line::live::Got| !got.is_in_time || got.age > cell.lifetime;
    let mut ages: Vec<Duration> = counted.iter().map(|got| got.age).collect();
    ages.sort_unstable();
    let stats = client.endpoint.stats(client.socket.expect("it is connected")).expect("it is connected");
    counts.offered += MESSAGES - UNCOUNTED;
    counts.lost += MESSAGES - UNCOUNTED - counted.len() as u64;
    counts.late += counted.iter().filter(late).count() as u64;
    counts.sent += stats.sent_packets;
    counts.again += stats.retransmitted_packets;
    counts.worst_median = counts.worst_median.max(ages[ages.len() / 2]);
}

/// Effects of a scene of live messages, each drawn independently.
const EFFECTS: [&str; 10] = [
    "loss",
    "bursts",
    "jitter",
    "reordering",
    "duplicates",
    "bottleneck",
    "outage",
    "wrap",
    "small buffers",
    "varied messages",
];

#[test]
fn whatever_the_way_does_a_live_message_arrives_once_or_is_given_up() {
    let seeds = sim::seeds::Seeds {
        first: number("TALLYCAST_FIRST_SEED", 0),
        count: number("TALLYCAST_SEEDS", 200),
        repeat: "cargo xtask sim --seeds 1 --first {seed}",
    };
    let mut seen = [0_u64; EFFECTS.len()];
    let mut given_up = 0;
    sim::seeds::each(&seeds, |seed| given_up += play_anything(seed, &mut seen));
    let effects: Vec<String> =
        EFFECTS.iter().zip(seen).map(|(name, count)| format!("{name} {count}")).collect();
    println!("{} seeds: {}; {given_up} messages given up", seeds.count, effects.join(", "));
    if seeds.count >= 200 {
        assert!(seen.iter().all(|count| *count > 0) && given_up > 0);
    }
}

/// Plays a scene; returns the number of messages given up.
fn play_anything(seed: u64, seen: &mut [u64; EFFECTS.len()]) -> u64 {
    let mut random = Random::for_purpose(seed, "live");
    let has: [bool; EFFECTS.len()] = core::array::from_fn(|_| random.chance(0.25));
    for (count, has) in seen.iter_mut().zip(has) {
        *count += u64::from(has);
    }
    let micros = |random: &mut Random, most: u64| Duration::from_micros(random.below(most));
    let delay = Duration::from_micros(100) + micros(&mut random, 100_000);
    let mut ways = [0, 1].map(|_| Link::ideal().delay(delay));
    let outage = Instant::ORIGIN + Duration::from_millis(500) + micros(&mut random, 1_000_000);
    let outage = outage..outage + micros(&mut random, 3_000_000);
    for way in &mut ways {
        let mut link = way.clone();
        if has[0] {
            link = link.loss(random.unit() * 0.2);
        }
        if has[1] {
            link = link.bursts(Bursts::of(random.unit() * 0.1, 1.0 + random.unit() * 20.0));
        }
        if has[2] {
            link = link.jitter(micros(&mut random, 20_000), Order::Free);
        }
        if has[3] {
            link = link.reorder(random.unit() * 0.2, micros(&mut random, 50_000));
        }
        if has[4] {
            link = link.duplicate(random.unit() * 0.3, micros(&mut random, 50_000));
        }
        if has[5] {
            link = link.rate(1_000_000 + random.below(20_000_000), 20_000 + random.below(100_000));
        }
        if has[6] {
            link = link.outage(outage.clone());
        }
        *way = link;
    }
    let feed = Feed {
        period: Duration::from_micros(200) + micros(&mut random, 5_000),
        count: 400,
        bytes: 100 + usize::try_from(random.below(1_300)).expect("small"),
        lifetime: delay + micros(&mut random, 1_000_000),
        is_varied: has[9],
    };
    let mut config = config();
    config.congestion = Arc::from(congestion::named("live", "").expect("it is built in"));
    if has[7] {
        config.first_sequence = Some(0x7fff_ffff - u32::try_from(random.below(300)).expect("small"));
        config.first_message = Some(0x1fff_fffe - u32::try_from(random.below(300)).expect("small"));
    }
    if has[8] {
        config.receive_buffer_packets = 32 + u32::try_from(random.below(64)).expect("small");
        config.send_buffer_packets = 40 + u32::try_from(random.below(64)).expect("small");
    }
    let mut network = Network::new(seed);
    let [up, down] = ways;
    network.add("client", Live::new(seed, Some(feed)), Port { up, down, ..Port::default() });
    let server = Live::new(seed ^ 1 << 40, None).listening(config.clone());
    let ideal = Link::ideal();
    network.add("server", server, Port { up: ideal.clone(), down: ideal, ..Port::default() });
    network.act(CLIENT, |live, now, _| live.connect(now, SERVER, config));
    let end = Instant::ORIGIN + Duration::from_secs(300);
    while network.now() < end && !network.node(CLIENT).is_done() {
        network.step();
    }
    let scenario = network.scenario().to_string();
    let (client, server) = (network.node(CLIENT), network.node(SERVER));
    assert!(client.is_done(), "it goes on for ever: {scenario}");
    assert_eq!(server.twice, 0, "one came twice: {scenario}");
    for index in 0..feed.count {
        let (arrived, given_up) = (server.got.contains_key(&index), client.given_up.get(&index));
        assert!(arrived || given_up.is_some(), "message {index} is nowhere: {scenario}");
        assert!(!arrived || given_up != Some(&false), "message {index} was not sent: {scenario}");
        assert!(
            feed.has_deadline(index) || given_up.is_none(),
            "message {index} has no deadline: {scenario}"
        );
    }
    client.given_up.len() as u64
}
