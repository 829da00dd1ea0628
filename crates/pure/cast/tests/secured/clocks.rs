//! Clocks that differ or are set, and a publisher whose address changes.

use core::time::Duration;

use cast::secure::{GateEvent, UnauthenticCounts};
use keys::Suite;
use sim::{Link, Network};
use units::Instant;
use wire::Distrust;

use crate::group_level::{EPOCH, at, foreign, publisher, reader, scene};
use crate::laboratory::{Laboratory, wall};
use crate::nodes::{Attacker, BLOCK_SAMPLES, Change, Part, Publisher, Reader, config, with_interval};

/// Units: nanoseconds.
const MINUTE: i64 = 60_000_000_000;
const INTERVAL: Duration = Duration::from_millis(10);

/// Hosts whose clocks differ from the scene's. Units: nanoseconds.
#[derive(Clone, Copy, Default)]
struct Clocks {
    publisher: i64,
    reader: i64,
}

/// Makes a publisher that sends for `span` and a reader of one laboratory.
fn ends(clocks: Clocks, span: Duration) -> (Publisher, Reader) {
    let mut laboratory = Laboratory::new(21, Suite::Aes256Gcm);
    let secrets = [laboratory.secret(1, wall(at(0)))];
    let ours = laboratory.member(&secrets);
    let mut config = with_interval(config(&mut laboratory, &ours, EPOCH, at(0)), INTERVAL);
    config.security.as_mut().unwrap().wall = wall(at(0)).offset(clocks.publisher);
    let reader = Reader::with_clock(&mut laboratory, &ours, clocks.reader);
    (Publisher::new(&ours, config, Instant::ORIGIN + span), reader)
}

fn network((publisher, reader): (Publisher, Reader)) -> Network<Part> {
    scene(publisher, reader, Attacker::new(1, 0, &foreign(21, Suite::Aes256Gcm)), Link::lan())
}

/// Plays a scene to its end, which a stream of `span` reaches whole.
fn is_whole(network: &mut Network<Part>, span: Duration) {
    network.run_until(Instant::ORIGIN + span + Duration::from_secs(6));
    let (reader, publisher) = (reader(network), publisher(network));
    // A reader may miss what was sent before the first descriptor.
    let sent = BLOCK_SAMPLES * u64::try_from(span.as_nanos() / INTERVAL.as_nanos()).unwrap();
    assert!(reader.delivered + 2 * BLOCK_SAMPLES >= sent, "{} of {sent}", reader.delivered);
    assert_eq!((reader.missing, reader.ended, &reader.events), (0, 1, &Vec::new()));
    assert_eq!(reader.gate.stats().unauthentic, UnauthenticCounts::default());
    assert_eq!(publisher.unauthentic, UnauthenticCounts::default());
    assert!(publisher.reports > 0);
}

#[test]
fn clocks_ten_minutes_apart_change_nothing() {
    let span = Duration::from_secs(3);
    for ten in [10 * MINUTE, -10 * MINUTE] {
        for clocks in [Clocks { publisher: ten, reader: 0 }, Clocks { publisher: 0, reader: ten }] {
            is_whole(&mut network(ends(clocks, span)), span);
        }
    }
}

#[test]
fn clocks_sixteen_minutes_apart_keep_a_reader_out_and_it_is_told_which_is_ahead() {
    let span = Duration::from_secs(3);
    for (publisher_ns, is_ahead) in [(16 * MINUTE, true), (-16 * MINUTE, false)] {
        for (publisher_clock, reader_clock) in [(publisher_ns, 0), (0, -publisher_ns)] {
            let clocks = Clocks { publisher: publisher_clock, reader: reader_clock };
            let mut network = network(ends(clocks, span));
            network.run_until(at(9_000));
            let (reader, publisher) = (reader(&network), publisher(&network));
            assert_eq!((reader.delivered, reader.ended), (0, 0));
            let GateEvent::Distrusted { why, .. } = &reader.events[0] else { panic!("{:?}", reader.events) };
            let Distrust::Clock { station, difference, is_ahead: told } = why else { panic!("{why}") };
            assert_eq!((reader.events.len(), station.as_str(), *told), (1, "daq", is_ahead));
            assert!(difference.as_secs().abs_diff(16 * 60) < 10, "{difference:?}");
            let counts = reader.gate.stats().unauthentic;
            assert!(counts.wrong_sender > 1 && counts.total() == counts.wrong_sender, "{counts:?}");
            // To the publisher, requests of another time are recordings.
            let counts = publisher.unauthentic;
            assert!(counts.total() == counts.replayed && publisher.reports == 0, "{counts:?}");
        }
    }
}

/// The description is signed anew after a minute, by the clock that was set.
#[test]
fn a_publishers_clock_that_is_set_by_five_minutes_loses_nothing() {
    let span = Duration::from_secs(70);
    for set_ns in [-5 * MINUTE, 5 * MINUTE] {
        let (publisher, reader) = ends(Clocks::default(), span);
        let publisher = publisher.changes(at(1_500), Change::Clock(set_ns));
        is_whole(&mut network((publisher, reader)), span);
    }
}

/// Counters of reports follow UTC: by 5 minutes back they go on, by 10 a new salt begins, and none repeats.
#[test]
fn a_readers_clock_that_is_set_back_keeps_its_reports_coming() {
    let span = Duration::from_secs(20);
    for minutes in [5, 10] {
        let (publisher_part, reader_part) = ends(Clocks::default(), span);
        let reader_part = reader_part.changes(at(5_000), Change::Clock(-minutes * MINUTE));
        let mut network = network((publisher_part, reader_part));
        network.run_until(at(5_000));
        let before = publisher(&network).reports;
        is_whole(&mut network, span);
        let reports = publisher(&network).reports;
        assert!(reports > before + 5, "{before} of {reports} reports before the clock was set");
    }
}

#[test]
fn a_publisher_whose_address_changes_is_read_on_and_hears_reports_again() {
    let span = Duration::from_secs(20);
    let (publisher_part, reader_part) = ends(Clocks::default(), span);
    let mut network = network((publisher_part, reader_part.sees_a_move(at(5_000))));
    // Reports follow once nothing new has come from the first address for 3 s.
    network.run_until(at(7_900));
    let before = publisher(&network).reports;
    network.run_until(at(10_000));
    assert!(publisher(&network).reports > before, "{before}");
    is_whole(&mut network, span);
    let stats = reader(&network).receiver.stats();
    assert_eq!((stats.imposter, stats.suspicious), (0, 0));
}
