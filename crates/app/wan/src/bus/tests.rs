//! Publications of streams that several links bring.

use std::sync::Arc;

use engine::News;
use support::wait_until;
use tallycast::{Bus, Channel, Clock, Dtype, SampleRate, Schema, TapRecord, WallTime};

use super::*;

const ORIGIN: Epoch = Epoch { start_ns: 7, incarnation: 7 };

fn begin(unit: &str) -> Publish {
    let rate = SampleRate::hz(1_000).unwrap();
    let schema = Schema::new(Dtype::U8, rate, vec![Channel::new("a", unit)]).unwrap();
    let (name, station) = ("lab/probe".parse().unwrap(), "rig".to_owned());
    let description = Description { name, schema, report_port: 0, station, unknown: Default::default() };
    Publish::Begin {
        description: description.encode().unwrap(),
        origin: ORIGIN,
        hop: NonZeroU8::new(2).unwrap(),
        stations: vec!["rig".to_owned(), "gate".to_owned()],
        first_position: 0,
        deadline: Duration::from_secs(60),
        priority: 0,
    }
}

#[test]
fn samples_keep_the_clock_by_which_their_publisher_took_their_times() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let bus: Bus = format!("shm://relayed?dir={}", directory.path().display()).parse().unwrap();
    let node = |station| Node::builder().bus(bus.clone()).station(station).build().unwrap();
    let (mut tap, news) = (node("reader").tap("lab/**").unwrap(), Arc::new(News::default()));
    let mut publication = BusPublication::new(node("far"));
    assert_eq!(publication.publish((0, 0), begin("V")), None);
    wait_until("the beginning", || tap.next_or_news(Duration::ZERO, &news).map(drop));
    for (start, clock) in (0..).zip([Clock::Ptp, Clock::Recorded]) {
        let (t0, age) = (WallTime::from_nanos(0), Duration::ZERO);
        let elements = Publish::Elements { positions: start..start + 1, t0, clock, bytes: vec![7], age };
        assert_eq!(publication.publish((0, 0), elements), None);
    }
    let mut clocks = Vec::new();
    wait_until("both samples", || {
        while let Some(tapped) = tap.next_or_news(Duration::ZERO, &news) {
            if let TapRecord::Elements(elements) = tapped.record {
                clocks.push(elements.clock);
            }
        }
        (clocks.len() >= 2).then_some(())
    });
    assert_eq!(clocks, [Clock::Ptp, Clock::Recorded]);
}

#[test]
fn one_origin_has_one_schema_and_the_second_link_that_says_otherwise_is_refused() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let bus: Bus = format!("shm://relayed?dir={}", directory.path().display()).parse().unwrap();
    let mut publication = BusPublication::new(Node::builder().bus(bus).station("far").build().unwrap());
    assert_eq!(publication.publish((0, 0), begin("V")), None);
    let reason = publication.publish((1, 0), begin("mV")).expect("it is refused");
    assert!(reason.contains("same publisher") && reason.contains("schema"), "{reason}");
    // The first goes on, and so does a second link that says the same: it stands by.
    assert_eq!(publication.publish((2, 0), begin("V")), None);
    let elements = |start| Publish::Elements {
        positions: start..start + 1,
        t0: WallTime::from_nanos(0),
        clock: Clock::System,
        bytes: vec![7],
        age: Duration::ZERO,
    };
    for start in 0..3 {
        for key in [(0, 0), (1, 0), (2, 0)] {
            assert_eq!(publication.publish(key, elements(start)), None, "{key:?}");
        }
    }
    let notices = publication.look(clock::monotonic());
    assert!(matches!(&notices[..], [Notice::StandingBy { station, .. }] if station == "far"), "{notices:?}");
    assert_eq!(publication.publish((0, 0), Publish::End), None);
    let notices = publication.look(clock::monotonic() + LOOK);
    assert!(matches!(notices[..], [Notice::TookOver { position: 0, .. }]), "{notices:?}");
}
