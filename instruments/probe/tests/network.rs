//! The cyclic run over the virtual network: its account and its judge against the simulator's own log.
//!
//! A scene is fully determined by its seed; a failure prints the command that repeats it.

use std::time::Duration;

use probe::cycle::{Account, Assembly, Cut, Limits, Schedule, Sending, Verdict};
use sim::{Address, Arrival, Bursts, Group, Lineup, Link, Node, NodeId, Order, Outcome, Socket};
use units::{Instant, Random};

const GROUP: Group = Group(1);
const CYCLE_TIME: Duration = Duration::from_millis(1);
const SCENES: u64 = 300;

struct Scene {
    cut: Cut,
    schedule: Schedule,
    link: Link,
}

enum Part {
    Writer {
        cut: Cut,
        schedule: Schedule,
        sending: Sending,
    },
    Reader {
        assembly: Assembly,
        /// True if the machine ever reported that the run can no longer be good.
        settled: bool,
    },
}

impl Node for Part {
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        if let Self::Reader { assembly, settled } = self {
            let _ = assembly.accept(now, assembly.cut().read(arrival.bytes));
            *settled |= assembly.is_settled(&Limits::SCOLLO);
        }
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        let Self::Writer { cut, schedule, sending } = self else { return None };
        while let Some(cycle) = sending.next_cycle() {
            if schedule.begin(cycle) > now {
                return Some(schedule.begin(cycle));
            }
            for piece in cut.write(cycle, &mut Vec::new()) {
                socket.send(Address::Group(GROUP), piece);
            }
            sending.count(u64::from(cut.pieces()), 0, now);
        }
        None
    }
}

/// A scene of random size on a link with one or several of all possible impairments, sometimes too slow for the
/// cycle.
fn scene(random: &mut Random) -> Scene {
    let below = |random: &mut Random, bound: u64| u32::try_from(random.below(bound)).expect("small");
    let cut =
        Cut::new(7, 1 + below(random, 2_000), 20 + below(random, 1_400) as usize).expect("room for one");
    let start = Instant::from_nanos(1_000_000);
    let schedule = Schedule { start, cycle_time: CYCLE_TIME, cycles: 1 + below(random, 40) };
    let mut link = Link::ideal().delay(Duration::from_micros(random.below(1_100)));
    if random.chance(0.3) {
        link = link.loss(0.02);
    }
    if random.chance(0.3) {
        link = link.bursts(Bursts::of(0.02, 5.0));
    }
    if random.chance(0.3) {
        link = link.jitter(Duration::from_micros(700), Order::Free);
    }
    if random.chance(0.3) {
        link = link.duplicate(0.05, Duration::from_micros(300));
    }
    if random.chance(0.3) {
        link = link.rate(50_000_000, 20_000);
    }
    Scene { cut, schedule, link }
}

/// Plays a scene; returns the account, the expected account by the log, and whether the run was settled early.
fn play(seed: u64) -> (Account, Told, bool) {
    let Scene { cut, schedule, link } = scene(&mut Random::new(seed));
    let mut network = Lineup::new(seed)
        .publisher(Part::Writer { cut, schedule, sending: Sending::new(schedule) })
        .group(GROUP)
        .link(link)
        .reader(Part::Reader { assembly: Assembly::new(cut, schedule), settled: false })
        .build();
    network.run_for(Duration::from_secs(1));
    let (Part::Writer { sending, .. }, Part::Reader { assembly, settled }) =
        (network.node(NodeId(0)), network.node(NodeId(1)))
    else {
        unreachable!("the writer comes first in the line-up")
    };
    (assembly.clone().close(sending.sent()), told(&network, cut, schedule), *settled)
}

/// Outcome by the simulator's log.
#[derive(PartialEq, Eq, Debug)]
struct Told {
    received: u64,
    absent: u64,
    complete: u64,
    missing: u64,
    late: u64,
}

fn told(network: &sim::Network<Part>, cut: Cut, schedule: Schedule) -> Told {
    let outcomes = network.log().outcomes(NodeId(1));
    // There is no other sender: the log's ordinals are the numbers of the pieces.
    let arrival = |ordinal: u64| match outcomes.get(&ordinal) {
        Some(Outcome::Delivered { at }) => Some(*at),
        _ => None,
    };
    let pieces = u64::from(cut.pieces());
    let mut told = Told { received: 0, absent: 0, complete: 0, missing: 0, late: 0 };
    for cycle in 0..schedule.cycles {
        let first = u64::from(cycle) * pieces;
        let arrivals: Vec<Instant> = (first..first + pieces).filter_map(arrival).collect();
        let count = arrivals.len() as u64;
        let complete = count == pieces;
        told.received += count;
        told.absent += pieces - count;
        told.complete += u64::from(complete);
        told.missing += u64::from(count == 0);
        told.late += u64::from(complete && arrivals.into_iter().max() > Some(schedule.deadline(cycle)));
    }
    told
}

#[test]
fn the_account_of_every_scene_adds_up_and_is_what_the_log_says() {
    let (mut good, mut late, mut incomplete, mut early) = (0, 0, 0, 0);
    let seeds =
        sim::seeds::Seeds { first: 0, count: SCENES, repeat: "cargo test -p tallycast-probe --test network" };
    sim::seeds::each(&seeds, |seed| {
        let (account, told, settled) = play(seed);
        assert_eq!(account.check(), Ok(()));
        let found = Told {
            received: account.pieces.received,
            absent: account.pieces.absent,
            complete: account.cycles.complete,
            missing: account.cycles.missing,
            late: account.callbacks.reader.late,
        };
        assert_eq!(found, told);
        let verdict = Limits::SCOLLO.judge(&account);
        assert!(!settled || verdict != Verdict::Good, "it was settled, and yet {account:?} is good");
        early += u32::from(settled);
        match verdict {
            Verdict::Good => good += 1,
            Verdict::Late => late += 1,
            Verdict::Incomplete => incomplete += 1,
            Verdict::LateAndIncomplete => (late, incomplete) = (late + 1, incomplete + 1),
            Verdict::Undecided => panic!("every cycle was sent"),
        }
    });
    // Every verdict must occur, or the test proves nothing about it.
    let all_happened = good > 0 && late > 0 && incomplete > 0 && early > 0;
    assert!(all_happened, "{good} good, {late} late, {incomplete} incomplete, {early} settled early");
}
