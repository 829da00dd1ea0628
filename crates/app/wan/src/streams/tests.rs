//! Records of taps become inputs of a near end.

use std::time::Duration;

use ledger::StageCounts;
use tallycast::{Channel, Clock, Dtype, SampleRate, Schema, WallTime};

use super::*;

const STREAM: StreamId = StreamId(1);
const FIRST: Epoch = Epoch { start_ns: 1, incarnation: 1 };
const SECOND: Epoch = Epoch { start_ns: 2, incarnation: 2 };

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN + Duration::from_secs(seconds)
}

fn description() -> Arc<Description> {
    let rate = SampleRate::hz(1_000).unwrap();
    let schema = Schema::new(Dtype::F4, rate, vec![Channel::new("a", "V")]).unwrap();
    let name = "lab/probe".parse().unwrap();
    let station = "rig".to_owned();
    Arc::new(Description { name, schema, report_port: 0, station, unknown: Default::default() })
}

fn began(epoch: Epoch, first_position: u64) -> Tapped {
    let beginning = TapBeginning { description: description(), origin: None, join: 1, first_position };
    Tapped { stream: STREAM, epoch, record: TapRecord::Began(beginning) }
}

fn elements(epoch: Epoch, position: u64, count: usize) -> Tapped {
    let elements = tallycast::Elements {
        position,
        t0: WallTime::from_nanos(5),
        clock: Clock::default(),
        born: None,
        bytes: vec![7; 4 * count],
        residence: Duration::from_millis(3),
    };
    Tapped { stream: STREAM, epoch, record: TapRecord::Elements(elements) }
}

fn gap(positions: std::ops::Range<u64>) -> Gap {
    Gap {
        id: 1,
        kind: GapKind::Missing,
        numbers: 0..0,
        lost: StageCounts::default(),
        inherited: HopCounts::default(),
        unexplained: 0,
        unsettled: positions.end - positions.start,
        apportioned: false,
        evidence: Vec::new(),
        positions,
    }
}

fn ended(epoch: Epoch, state: AccountState) -> Tapped {
    Tapped { stream: STREAM, epoch, record: TapRecord::Ended(state) }
}

/// Returns the inputs that a record gives the near end, in short.
fn said(streams: &mut Streams, tapped: &Tapped) -> Vec<String> {
    let mut said = Vec::new();
    streams.take(at(1), tapped.clone(), |input| said.push(short(&input)));
    said
}

fn short(input: &NearInput<'_>) -> String {
    let list = |shares: &HopCounts| {
        let all: Vec<String> =
            shares.shares().map(|it| format!("{}:{:?}={}", it.hop, it.outcome, it.count)).collect();
        all.join(",")
    };
    match input {
        NearInput::Began(began) => format!("{} began at {}", began.slot, began.first_position),
        NearInput::Elements { slot, elements } => {
            format!("{slot} has {:?} of age {:?}", elements.positions, elements.age)
        }
        NearInput::Missing { slot, positions, shares } => {
            format!("{slot} misses {positions:?} {}", list(shares))
        }
        NearInput::Settled { slot, positions, shares } => {
            format!("{slot} settled {positions:?} {}", list(shares))
        }
        NearInput::Estimated { slot, positions, shares } => {
            format!("{slot} estimated {positions:?} {}", list(shares))
        }
        NearInput::Statement { slot, bytes } => format!("{slot} states {bytes:?}"),
        NearInput::Ended { slot } => format!("{slot} ended"),
        other => format!("{other:?}"),
    }
}

#[test]
fn records_of_a_stream_are_told_in_order_with_stages_of_their_hop() {
    let mut streams = Streams::default();
    assert_eq!(said(&mut streams, &began(FIRST, 4)), ["0 began at 4"]);
    assert_eq!(said(&mut streams, &elements(FIRST, 4, 6)), ["0 has 4..10 of age 3ms"]);
    let missing = Tapped { stream: STREAM, epoch: FIRST, record: TapRecord::Gap(gap(10..13)) };
    assert_eq!(said(&mut streams, &missing), ["0 misses 10..13 0:Unsettled=3"]);
    let mut settled = gap(10..13);
    (settled.unsettled, settled.unexplained) = (0, 1);
    settled.lost[Stage::Network] = 2;
    let settled = Tapped { stream: STREAM, epoch: FIRST, record: TapRecord::Settled(settled) };
    assert_eq!(said(&mut streams, &settled), ["0 settled 10..13 0:Lost(Network)=2,0:Unexplained=1"]);
    let statement = Tapped { stream: STREAM, epoch: FIRST, record: TapRecord::Statement(vec![9]) };
    assert_eq!(said(&mut streams, &statement), ["0 states [9]"]);
    assert_eq!(said(&mut streams, &ended(FIRST, AccountState::Closed)), ["0 ended"]);
    assert!(said(&mut streams, &elements(FIRST, 13, 1)).is_empty(), "nothing follows the end");
    assert_eq!(streams.name(0), Some("lab/probe"), "the near end has not closed it");
    streams.release(0);
    assert_eq!(streams.name(0), None);
}

#[test]
fn outcomes_of_earlier_hops_by_counts_are_estimates_and_those_of_the_own_bus_are_not() {
    let mut streams = Streams::default();
    said(&mut streams, &began(FIRST, 0));
    said(&mut streams, &Tapped { stream: STREAM, epoch: FIRST, record: TapRecord::Gap(gap(0..3)) });
    let mut own = Gap { apportioned: true, unsettled: 0, ..gap(0..3) };
    own.lost[Stage::Network] = 3;
    let mut earlier = Gap { lost: StageCounts::of(Stage::Source, 3), ..own.clone() };
    earlier.inherited.add(HopShare { hop: 0, outcome: Outcome::Lost(Stage::Deadline), count: 3 });
    for (gap, expected) in
        [(own, "0 settled 0..3 0:Lost(Network)=3"), (earlier, "0 estimated 0..3 0:Lost(Deadline)=3")]
    {
        let record = TapRecord::Settled(gap);
        assert_eq!(said(&mut streams, &Tapped { stream: STREAM, epoch: FIRST, record }), [expected]);
    }
}

#[test]
fn what_was_lost_before_keeps_its_hop_beside_what_this_one_lost() {
    let mut inherited = gap(0..5);
    inherited.unsettled = 0;
    inherited.inherited.add(HopShare { hop: 0, outcome: Outcome::Lost(Stage::ReaderLag), count: 2 });
    inherited.lost[Stage::Source] = 2;
    inherited.lost[Stage::Network] = 3;
    let all: Vec<_> = shares(&inherited, 2).shares().map(|it| (it.hop, it.outcome, it.count)).collect();
    assert_eq!(all, [(0, Outcome::Lost(Stage::ReaderLag), 2), (2, Outcome::Lost(Stage::Network), 3)]);
    let mut skipped = gap(0..5);
    (skipped.unsettled, skipped.lost[Stage::Source]) = (0, 5);
    let all: Vec<_> = shares(&skipped, 0).shares().map(|it| (it.hop, it.outcome, it.count)).collect();
    assert_eq!(all, [(0, Outcome::Lost(Stage::Source), 5)], "the publisher itself skipped these");
}

#[test]
fn an_account_that_was_cut_goes_on_and_what_lies_between_is_unexplained() {
    let mut streams = Streams::default();
    said(&mut streams, &began(FIRST, 0));
    said(&mut streams, &elements(FIRST, 0, 5));
    for state in [AccountState::Cut, AccountState::Unconfirmed] {
        assert!(said(&mut streams, &ended(FIRST, state)).is_empty());
    }
    assert!(said(&mut streams, &began(FIRST, 8)).is_empty());
    let next = said(&mut streams, &elements(FIRST, 8, 2));
    assert_eq!(next, ["0 misses 5..8 0:Unexplained=3", "0 has 8..10 of age 3ms"]);
}

#[test]
fn a_new_epoch_ends_the_one_before_and_has_another_number() {
    let mut streams = Streams::default();
    said(&mut streams, &began(FIRST, 0));
    assert_eq!(said(&mut streams, &began(SECOND, 0)), ["0 ended", "1 began at 0"]);
    assert!(said(&mut streams, &elements(FIRST, 0, 5)).is_empty());
    assert_eq!(said(&mut streams, &elements(SECOND, 0, 5)), ["1 has 0..5 of age 3ms"]);
    assert_eq!(streams.name(1), Some("lab/probe"));
}

#[test]
fn elements_of_an_epoch_that_did_not_begin_and_time_without_publisher_say_nothing() {
    let mut streams = Streams::default();
    assert!(said(&mut streams, &elements(FIRST, 0, 5)).is_empty());
    said(&mut streams, &began(FIRST, 0));
    let absent = Gap { kind: GapKind::PublisherAbsent, ..gap(0..5) };
    for record in [TapRecord::Gap(absent.clone()), TapRecord::Settled(absent)] {
        assert!(said(&mut streams, &Tapped { stream: STREAM, epoch: FIRST, record }).is_empty());
    }
}

#[test]
fn no_record_is_older_than_those_before_it() {
    let mut streams = Streams::default();
    said(&mut streams, &began(FIRST, 0));
    said(&mut streams, &elements(FIRST, 0, 5));
    let mut next = elements(FIRST, 5, 5);
    let TapRecord::Elements(late) = &mut next.record else { unreachable!("elements") };
    late.residence = Duration::from_millis(9);
    assert_eq!(said(&mut streams, &next), ["0 has 5..10 of age 3ms"]);
}

#[test]
fn a_relayed_stream_waits_for_the_list_of_its_stations_and_keeps_its_origin() {
    let mut streams = Streams::default();
    let origin = wire::Origin { epoch: FIRST, hop: 2.try_into().unwrap() };
    let beginning =
        TapBeginning { description: description(), origin: Some(origin), join: 1, first_position: 3 };
    let began = Tapped { stream: STREAM, epoch: SECOND, record: TapRecord::Began(beginning) };
    assert!(said(&mut streams, &began).is_empty());
    assert!(said(&mut streams, &elements(SECOND, 3, 2)).is_empty());
    let hop = |station: &str| wire::UpstreamHop {
        station: station.to_owned(),
        lost: StageCounts::default(),
        unexplained: 0,
    };
    let hops = TapRecord::Upstream(vec![hop("daq"), hop("home")]);
    let mut said = Vec::new();
    let upstream = Tapped { stream: STREAM, epoch: SECOND, record: hops };
    streams.take(at(1), upstream, |input| match input {
        NearInput::Began(began) => {
            assert_eq!(
                (began.origin, &began.stations[..]),
                (FIRST, &["daq", "home", "rig"].map(String::from)[..])
            );
        }
        other => said.push(short(&other)),
    });
    assert_eq!(said, ["0 has 3..5 of age 3ms"]);
}

#[test]
fn elements_of_an_earlier_relay_have_their_age_since_the_origin_published_them() {
    let mut streams = Streams::default();
    said(&mut streams, &began(FIRST, 0));
    let with_age = |position, age_ms: u64| {
        let mut tapped = elements(FIRST, position, 2);
        if let TapRecord::Elements(elements) = &mut tapped.record {
            elements.born = Some(at(1) - Duration::from_millis(age_ms));
        }
        tapped
    };
    assert_eq!(said(&mut streams, &with_age(0, 40)), ["0 has 0..2 of age 40ms"]);
    // Behind a younger one nothing is older, and nothing is born after now.
    assert_eq!(said(&mut streams, &with_age(2, 30)), ["0 has 2..4 of age 30ms"]);
    assert_eq!(said(&mut streams, &with_age(4, 35)), ["0 has 4..6 of age 30ms"]);
    assert_eq!(
        said(&mut streams, &elements(FIRST, 6, 2)),
        ["0 has 6..8 of age 3ms"],
        "unknown: since this bus"
    );
}
