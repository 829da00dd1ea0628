//! A near end whose path and peer are played by hand.

use ledger::{HopShare, Outcome, Stage};
use sample::{Channel, Dtype, Schema};
use units::SampleRate;
use wire::{Data, Description};

use super::*;
use crate::frame::{Control, Numbered, Resume, Standing, Totals, Want};

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(1_000_000_000) + Duration::from_millis(ms)
}

fn description(name: &str) -> Vec<u8> {
    description_with(name, BTreeMap::new())
}

fn description_with(name: &str, labels: BTreeMap<String, String>) -> Vec<u8> {
    let channel = Channel::new("x", "V");
    let schema = Schema {
        dtype: Dtype::U8,
        rate: SampleRate::hz(1_000).unwrap(),
        channels: vec![channel],
        labels,
        unknown: BTreeMap::new(),
    };
    let description = Description {
        name: name.parse().unwrap(),
        schema,
        report_port: 0,
        station: "daq".to_owned(),
        unknown: BTreeMap::new(),
    };
    description.encode().unwrap()
}

fn began(slot: u16) -> Began {
    let origin = Epoch { start_ns: 7, incarnation: u64::from(slot) };
    Began { slot, description: description("lab/x"), origin, stations: Vec::new(), first_position: 0 }
}

fn config() -> NearConfig {
    NearConfig { station: "gate-a".to_owned(), incarnation: 5, ..NearConfig::default() }
}

fn path(room: u32, is_up: bool) -> NearInput<'static> {
    let round_trip = 20 * MS;
    NearInput::Path(Path { round_trip, clock_us: 1_000_000, room, message_bytes: 96 + 10, is_up })
}

/// A near end and what it has said.
struct Bench {
    near: NearEnd,
    events: Vec<NearEvent>,
}

impl Bench {
    fn new() -> Self {
        Self { near: NearEnd::new(config(), at(0)), events: Vec::new() }
    }

    /// A bench with streams that the far end has accepted.
    fn open(streams: u16) -> Self {
        Self::with(config(), (0..streams).map(began))
    }

    fn with(config: NearConfig, began: impl IntoIterator<Item = Began>) -> Self {
        let mut bench = Self { near: NearEnd::new(config, at(0)), events: Vec::new() };
        let mut streams = 0;
        for began in began {
            bench.near.handle(at(0), NearInput::Began(began));
            streams += 1;
        }
        bench.near.handle(at(0), NearInput::Connected);
        bench.send(0);
        for slot in 0..streams {
            bench.hear(
                0,
                slot,
                Content::Resume(Resume { standing: Standing::Fresh, position: 0, controls: 0 }),
            );
        }
        bench.send(0);
        bench.events.clear();
        bench
    }

    fn push(&mut self, ms: u64, slot: u16, positions: Range<u64>) {
        let bytes = vec![9; usize::try_from(positions.end - positions.start).unwrap()];
        let t0 = WallTime::from_nanos(i64::try_from(positions.start).unwrap() * 1_000_000);
        let elements = Elements { positions, t0, clock: Clock::System, bytes: &bytes, age: Duration::ZERO };
        self.near.handle(at(ms), NearInput::Elements { slot, elements });
    }

    fn hear(&mut self, ms: u64, slot: u16, content: Content<'_>) {
        let bytes = Message::plain(slot, content).encode();
        self.near.handle(at(ms), NearInput::Message(&bytes));
    }

    /// Returns all that it sends with plenty of room.
    fn send(&mut self, ms: u64) -> Vec<(u64, Vec<u8>)> {
        self.send_with(ms, 1_000, true)
    }

    fn send_with(&mut self, ms: u64, room: u32, is_up: bool) -> Vec<(u64, Vec<u8>)> {
        self.near.handle(at(ms), path(room, is_up));
        let mut sent = Vec::new();
        loop {
            match self.near.poll(at(ms)) {
                NearOutput::Send { tag, bytes, .. } => sent.push((tag, bytes)),
                NearOutput::Event(event) => self.events.push(event),
                NearOutput::Idle { .. } => return sent,
            }
        }
    }
}

/// Returns the positions of the samples among messages.
fn samples(sent: &[(u64, Vec<u8>)]) -> Vec<Range<u64>> {
    let positions = |(_, bytes): &(u64, Vec<u8>)| match Message::decode(bytes).unwrap().content {
        Content::Data(datagram) => Some(Data::decode(datagram).unwrap().positions()),
        _ => None,
    };
    sent.iter().filter_map(positions).collect()
}

fn controls(sent: &[(u64, Vec<u8>)]) -> Vec<Control> {
    let control = |(_, bytes): &(u64, Vec<u8>)| match Message::decode(bytes).unwrap().content {
        Content::Control(Numbered { control, .. }) => Some(control),
        _ => None,
    };
    sent.iter().filter_map(control).collect()
}

fn lag(count: u64) -> HopCounts {
    [HopShare { hop: 0, outcome: Outcome::Lost(Stage::ReaderLag), count }].into_iter().collect()
}

#[test]
fn nothing_but_the_beginning_is_sent_before_the_far_end_answers() {
    let mut bench = Bench::new();
    bench.near.handle(at(0), NearInput::Began(began(3)));
    bench.push(0, 3, 0..5);
    assert_eq!(bench.send(0), [], "there is no connection");
    bench.near.handle(at(1), NearInput::Connected);
    let sent = bench.send(1);
    let kinds: Vec<_> = sent.iter().map(|(_, bytes)| Message::decode(bytes).unwrap().content).collect();
    assert!(
        matches!(&kinds[..], [Content::Hello(_), Content::Begin(begin)] if begin.stations == ["daq", "gate-a"])
    );
    bench.hear(2, 0, Content::Resume(Resume { standing: Standing::Fresh, position: 0, controls: 0 }));
    let sent = bench.send(2);
    assert_eq!(controls(&sent), [Control::Start { position: 0 }]);
    assert_eq!(samples(&sent), [0..5]);
    assert_eq!(bench.events, [NearEvent::Opened { slot: 3, position: 0 }]);
}

#[test]
fn messages_are_cut_to_what_the_path_carries_and_leave_while_there_is_room() {
    let mut bench = Bench::open(1);
    bench.push(1, 0, 0..35);
    let sent = bench.send_with(1, 2, true);
    assert_eq!(samples(&sent), [0..10, 10..20]);
    let sent = bench.send_with(2, 9, true);
    assert_eq!(samples(&sent), [20..30, 30..35]);
    let message = Message::decode(&sent[0].1).unwrap();
    assert_eq!(message.born_us, 1_000_000 - 1_000, "it is a millisecond old");
}

#[test]
fn missing_elements_are_told_before_the_samples_behind_them() {
    let mut bench = Bench::open(1);
    bench.push(1, 0, 0..5);
    bench.near.handle(at(1), NearInput::Missing { slot: 0, positions: 5..8, shares: lag(3) });
    bench.push(1, 0, 8..10);
    let sent = bench.send(1);
    assert_eq!(controls(&sent), [Control::Missing { positions: 5..8, shares: lag(3) }]);
    assert_eq!(samples(&sent), [0..5, 8..10]);
    let last = Message::decode(&sent.last().unwrap().1).unwrap();
    assert_eq!(last.missing_before, 3);
    let totals = Totals { position: 10, delivered: 6, missing: 3, given_up: 1, controls: 2 };
    bench.hear(40, 0, Content::Totals(totals));
    let account = bench.near.account(0).unwrap();
    assert_eq!((account.delivered, account.given_up, account.in_flight), (6, 1, 0));
}

#[test]
fn a_position_that_is_left_out_is_missing_and_one_that_comes_twice_is_refused() {
    let mut bench = Bench::open(1);
    bench.push(1, 0, 4..6);
    let sent = bench.send(1);
    let unexplained = [HopShare { hop: 0, outcome: Outcome::Unexplained, count: 4 }].into_iter().collect();
    assert_eq!(controls(&sent), [Control::Missing { positions: 0..4, shares: unexplained }]);
    bench.push(2, 0, 5..7);
    bench.send(2);
    assert_eq!(bench.events, [NearEvent::Ignored(Fault::Position { start: 5, next: 6 })]);
    assert_eq!(bench.near.ignored(), 1);
}

#[test]
fn what_cannot_arrive_in_time_is_given_up_and_the_far_end_told() {
    let mut bench = Bench::open(1);
    bench.push(1, 0, 0..5);
    bench.send_with(1, 0, true);
    // 1 s less half a round trip of 20 ms, 2 ms for the hand-over and 2 ms for saying so.
    assert_eq!(samples(&bench.send_with(986, 0, true)), []);
    bench.push(986, 0, 5..7);
    let sent = bench.send_with(987, 9, true);
    let cause = Cause::Bandwidth;
    assert_eq!(controls(&sent), [Control::GivenUp { positions: 0..5, cause }]);
    assert_eq!(samples(&sent), [5..7]);
    assert_eq!(bench.events, [NearEvent::GaveUp { slot: 0, positions: 0..5, cause }]);
}

#[test]
fn while_the_link_is_down_the_newest_samples_try_it_and_the_rest_is_given_up() {
    let mut bench = Bench::open(1);
    bench.push(0, 0, 0..5);
    bench.push(100, 0, 5..10);
    assert_eq!(samples(&bench.send_with(100, 1, false)), [5..10]);
    bench.push(990, 0, 10..15);
    assert_eq!(samples(&bench.send_with(990, 1, false)), [10..15]);
    assert_eq!(bench.events, [], "nothing is told while nobody listens");
    bench.push(1_000, 0, 15..20);
    let sent = bench.send(1_001);
    let cause = Cause::LinkDown;
    assert_eq!(controls(&sent), [Control::GivenUp { positions: 0..5, cause }]);
    assert_eq!(samples(&sent), [15..20]);
}

#[test]
fn the_newest_samples_go_first_while_not_all_arrive_in_time() {
    let mut bench = Bench::open(1);
    bench.push(0, 0, 0..10);
    bench.push(10, 0, 10..20);
    bench.push(760, 0, 20..30);
    // One of the messages is a horizon.
    assert_eq!(samples(&bench.send_with(760, 3, true)), [20..30, 10..20]);
    assert_eq!(bench.near.degraded(0), Some(Degraded::Bandwidth));
    assert_eq!(samples(&bench.send_with(761, 2, true)), [0..10]);
    bench.push(800, 0, 30..40);
    bench.push(801, 0, 40..50);
    assert_eq!(samples(&bench.send_with(801, 9, true)), [30..40, 40..50], "all arrive in time again");
    assert_eq!(bench.near.degraded(0), None);
}

#[test]
fn the_ages_are_those_with_which_samples_were_sent_since_they_were_asked_for() {
    let mut bench = Bench::open(1);
    assert_eq!(bench.near.take_ages(0), None);
    bench.push(1, 0, 0..5);
    bench.push(31, 0, 5..10);
    bench.send_with(41, 0, true);
    assert_eq!(bench.near.take_ages(0), None, "what waits was not sent");
    assert_eq!(samples(&bench.send(51)), [0..5, 5..10]);
    let ages = bench.near.take_ages(0).unwrap();
    assert_eq!((ages.median.as_millis(), ages.largest), (20, 50 * MS));
    assert_eq!((bench.near.take_ages(0), bench.near.take_ages(9)), (None, None));
}

#[test]
fn the_stream_of_the_highest_priority_goes_first() {
    let mut bench = Bench::open(2);
    let want = Want { deadline: Duration::from_secs(2), priority: 3 };
    bench.hear(1, 1, Content::Want(want));
    bench.push(1, 0, 0..10);
    bench.push(2, 1, 0..10);
    let sent = bench.send(2);
    let slots: Vec<_> = sent.iter().map(|(_, bytes)| Message::decode(bytes).unwrap().slot).collect();
    assert_eq!(slots, [1, 0]);
    let deadline = Duration::from_secs(2);
    let ask = NearEvent::Ask { stream: "lab/x".parse().unwrap(), deadline: Some(deadline) };
    assert_eq!(bench.events, [ask, NearEvent::Wanted { slot: 1, deadline, priority: 3 }]);
}

#[test]
fn a_stream_with_many_controls_does_not_hold_up_those_of_the_others() {
    let mut bench = Bench::open(3);
    let missing = |slot, start| NearInput::Missing { slot, positions: start..start + 1, shares: lag(1) };
    (0..50).for_each(|start| bench.near.handle(at(1), missing(0, start)));
    (1..3).for_each(|slot| bench.near.handle(at(1), missing(slot, 0)));
    let sent = bench.send_with(1, 4, true);
    let mut slots: Vec<u16> = sent.iter().map(|(_, bytes)| Message::decode(bytes).unwrap().slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 0, 1, 2]);
}

#[test]
fn samples_of_a_stream_take_turns_with_its_controls_and_all_have_its_priority() {
    let priorities = vec![("lab/*".parse().unwrap(), 5)];
    let named = Began { description: description("lab/x"), ..began(0) };
    let mut bench = Bench::with(NearConfig { priorities, ..config() }, [named]);
    for round in 0..6 {
        bench.push(1, 0, 10 * round..10 * round + 9);
        let positions = 10 * round + 9..10 * round + 10;
        bench.near.handle(at(1), NearInput::Missing { slot: 0, positions, shares: lag(1) });
    }
    bench.near.handle(at(1), path(8, true));
    let mut kinds = Vec::new();
    while let NearOutput::Send { bytes, priority, .. } = bench.near.poll(at(1)) {
        assert_eq!(priority, 5);
        match Message::decode(&bytes).unwrap().content {
            Content::Control(_) => kinds.push("control"),
            Content::Data(_) => kinds.push("samples"),
            other => assert!(matches!(other, Content::Horizon(_)), "{other:?}"),
        }
    }
    let is_alternating = kinds.len() >= 6 && kinds.windows(2).all(|pair| pair[0] != pair[1]);
    assert!(is_alternating, "{kinds:?}");
}

#[test]
fn a_streams_label_is_its_priority_unless_the_settings_name_it() {
    let priorities = vec![("lab/*".parse().unwrap(), 2)];
    let labelled = |slot, name, priority: &str| {
        let labels = BTreeMap::from([(sample::PRIORITY_LABEL.to_owned(), priority.to_owned())]);
        Began { description: description_with(name, labels), ..began(slot) }
    };
    let streams = [labelled(0, "lab/x", "9"), labelled(1, "out/x", "9"), labelled(2, "out/y", "256")];
    let bench = Bench::with(NearConfig { priorities, ..config() }, streams);
    let priorities: Vec<_> = (0..3).map(|slot| bench.near.terms(slot).unwrap().1).collect();
    assert_eq!(priorities, [2, 9, 0]);
}

#[test]
fn under_too_little_bandwidth_the_stream_of_the_higher_priority_loses_nothing() {
    let priorities = vec![("lab/*".parse().unwrap(), 2), ("lab/fast".parse().unwrap(), 7)];
    let named = |slot, name| Began { description: description(name), ..began(slot) };
    let streams = [named(0, "lab/x"), named(1, "lab/fast"), named(2, "other/y")];
    let mut bench = Bench::with(NearConfig { priorities, ..config() }, streams);
    let priorities: Vec<_> = (0..3).map(|slot| bench.near.terms(slot).unwrap().1).collect();
    assert_eq!(priorities, [2, 7, 0], "the last pattern that matches counts");
    // Each stream needs one message in ten milliseconds, and there is room for two, of which some are horizons.
    let mut sent = [0; 3];
    for round in 0..400 {
        let ms = 10 * round + 10;
        (0..3).for_each(|slot| bench.push(ms, slot, 10 * round..10 * round + 10));
        for (_, bytes) in bench.send_with(ms, 2, true) {
            let message = Message::decode(&bytes).unwrap();
            if let Content::Data(datagram) = message.content {
                let positions = Data::decode(datagram).unwrap().positions();
                sent[usize::from(message.slot)] += positions.end - positions.start;
            }
        }
    }
    let lost = |slot| bench.near.account(slot).unwrap().causes;
    assert_eq!(lost(1), [0; 4], "the highest priority goes first");
    assert!(sent[1] > 3_900 && sent[0] > 500 && sent[2] * 10 < sent[0], "{sent:?}");
    for slot in [0, 2] {
        let [link_down, bandwidth, repair, memory] = lost(slot);
        assert_eq!((link_down, repair, memory), (0, 0, 0), "stream {slot}");
        let account = bench.near.account(slot).unwrap();
        let waits = account.in_flight - bandwidth - sent[usize::from(slot)];
        assert!(bandwidth > 0 && waits <= 1_000, "stream {slot}: {account:?}, {waits} wait");
    }
}

#[test]
fn readers_may_want_less_than_a_deadline_that_nobody_gave_and_only_more_than_a_given_one() {
    for (is_least, served) in [(false, 300), (true, 1_000)] {
        let mut bench = Bench::with(NearConfig { is_least, ..config() }, [began(0)]);
        bench.hear(1, 0, Content::Want(Want { deadline: 300 * MS, priority: 0 }));
        assert_eq!(bench.near.terms(0), Some((served * MS, 0)));
        bench.hear(2, 0, Content::Want(Want { deadline: 3_000 * MS, priority: 0 }));
        assert_eq!(bench.near.terms(0), Some((3_000 * MS, 0)));
    }
}

#[test]
fn more_than_the_bound_is_given_up_for_want_of_memory() {
    let mut bench = Bench::open(1);
    let half = 1 << 19;
    bench.push(1, 0, 0..half);
    bench.push(1, 0, half..2 * half);
    bench.push(2, 0, 2 * half..2 * half + 1_000);
    assert_eq!(bench.near.queued_bytes(), 2 * (1 << 19) + 1_000, "a deadline of samples and 1 MiB");
    bench.push(3, 0, 2 * half + 1_000..2 * half + 1_001);
    assert_eq!(bench.near.queued_bytes(), (1 << 19) + 1_001);
    assert_eq!(bench.near.account(0).unwrap().causes, [0, 0, 0, half]);
}

#[test]
fn after_a_reconnection_it_goes_on_where_the_far_end_is() {
    let mut bench = Bench::open(1);
    bench.push(1, 0, 0..10);
    assert_eq!(samples(&bench.send_with(1, 9, true)), [0..10]);
    bench.near.handle(at(2), NearInput::Disconnected);
    bench.push(3, 0, 10..20);
    bench.near.handle(at(4), NearInput::Connected);
    bench.send(4);
    bench.hear(5, 0, Content::Resume(Resume { standing: Standing::Same, position: 0, controls: 1 }));
    let sent = bench.send(5);
    let cause = Cause::LinkDown;
    assert_eq!(controls(&sent), [Control::GivenUp { positions: 0..10, cause }]);
    assert_eq!(samples(&sent), [10..20]);
}

#[test]
fn what_the_far_end_has_of_an_earlier_incarnation_is_not_sent_again() {
    let mut bench = Bench::new();
    bench.near.handle(at(0), NearInput::Began(began(0)));
    bench.push(0, 0, 0..10);
    bench.near.handle(at(0), NearInput::Connected);
    bench.send(0);
    bench.hear(1, 0, Content::Resume(Resume { standing: Standing::Other, position: 14, controls: 0 }));
    assert_eq!(samples(&bench.send(1)), []);
    bench.push(2, 0, 10..20);
    assert_eq!(samples(&bench.send(2)), [14..20]);
}

#[test]
fn a_far_end_that_acknowledges_what_was_not_sent_is_not_believed() {
    let mut bench = Bench::open(1);
    bench.push(1, 0, 0..10);
    bench.send(1);
    let totals = Totals { position: 11, delivered: 11, missing: 0, given_up: 0, controls: 1 };
    bench.hear(2, 0, Content::Totals(totals));
    bench.hear(2, 0, Content::Totals(Totals { position: 10, delivered: 10, controls: 9, ..totals }));
    bench.hear(2, 7, Content::Totals(totals));
    bench.hear(2, 0, Content::Want(Want { deadline: Duration::ZERO, priority: 0 }));
    bench.hear(2, 0, Content::Horizon(frame::Horizon { position: 0, first_control: 0 }));
    bench.near.handle(at(2), NearInput::Message(b"?"));
    bench.send(2);
    let faults = [
        Fault::NotSent(11),
        Fault::NotSent(9),
        Fault::UnknownStream(7),
        Fault::Deadline,
        Fault::Direction,
        Fault::Malformed(MalformedMessage::Short),
    ];
    assert_eq!(bench.events, faults.map(NearEvent::Ignored));
    bench.push(3, 0, 10..20);
    assert_eq!(samples(&bench.send(3)), [10..20], "it goes on");
}

#[test]
fn streams_that_have_passed_here_or_too_many_hops_are_refused() {
    let mut bench = Bench::new();
    let chain = |stations: &[&str]| stations.iter().map(|&station| station.to_owned()).collect();
    let loops = chain(&["daq", "gate-a", "gate-b", "gate-b"]);
    bench.near.handle(at(0), NearInput::Began(Began { stations: loops, ..began(0) }));
    let long = chain(&["0", "1", "2", "3", "4", "5", "6", "7"]);
    bench.near.handle(at(0), NearInput::Began(Began { stations: long, ..began(1) }));
    bench.near.handle(at(0), NearInput::Began(Began { description: b"?".to_vec(), ..began(2) }));
    let allowed = chain(&["gate-a", "0", "1", "2", "3", "4", "gate-a"]);
    bench.near.handle(at(0), NearInput::Began(Began { stations: allowed, ..began(3) }));
    bench.send(0);
    let refused = |slot, refusal| NearEvent::Refused { slot, refusal };
    assert_eq!(
        bench.events,
        [refused(0, Refusal::Loop), refused(1, Refusal::TooManyHops), refused(2, Refusal::Description)]
    );
}

#[test]
fn a_deadline_that_the_path_cannot_keep_is_said_once_and_so_is_that_it_is_kept_again() {
    let mut bench = Bench::open(1);
    let slow = |round_trip| {
        NearInput::Path(Path { round_trip, clock_us: 0, room: 9, message_bytes: 100, is_up: true })
    };
    for round_trip in [1_996, 1_997, 1_998, 1_996, 1_997] {
        bench.near.handle(at(1), slow(round_trip * MS));
    }
    assert_eq!(bench.near.degraded(0), Some(Degraded::TooFar));
    bench.near.handle(at(1), slow(1_996 * MS));
    assert_eq!((bench.near.degraded(0), bench.near.degraded(1)), (None, None));
    bench.send(1);
    let said = |micros| NearEvent::DeadlineTooShort {
        slot: 0,
        deadline: Duration::from_secs(1),
        least: Duration::from_micros(micros),
    };
    let kept = || NearEvent::DeadlineKept { slot: 0 };
    assert_eq!(bench.events, [said(1_000_500), kept(), said(1_000_500), kept()]);
}

#[test]
fn an_ended_stream_is_closed_once_the_far_end_has_answered_for_all() {
    let mut bench = Bench::open(1);
    bench.push(1, 0, 0..10);
    bench.near.handle(at(1), NearInput::Ended { slot: 0 });
    let sent = bench.send(1);
    assert_eq!(controls(&sent), [Control::End { position: 10 }]);
    assert_eq!(samples(&sent), [0..10]);
    let totals = Totals { position: 5, delivered: 5, missing: 0, given_up: 0, controls: 2 };
    bench.hear(2, 0, Content::Totals(totals));
    bench.send(2);
    assert_eq!(bench.events, []);
    bench.hear(3, 0, Content::Totals(Totals { position: 10, delivered: 10, ..totals }));
    bench.send(3);
    assert_eq!(bench.events, [NearEvent::Closed { slot: 0 }]);
}

#[test]
fn an_ended_stream_says_on_the_next_connection_that_it_goes_on_and_is_closed_by_the_last_totals() {
    let mut bench = Bench::open(1);
    bench.push(1, 0, 0..10);
    bench.near.handle(at(1), NearInput::Ended { slot: 0 });
    bench.send(1);
    bench.near.handle(at(2), NearInput::Disconnected);
    bench.near.handle(at(3), NearInput::Began(Began { slot: 1, ..began(1) }));
    bench.near.handle(at(3), NearInput::Connected);
    let goes_on = |sent: &[(u64, Vec<u8>)]| {
        let begin = |(_, bytes): &(u64, Vec<u8>)| match Message::decode(bytes).unwrap().content {
            Content::Begin(begin) => Some(begin.goes_on),
            _ => None,
        };
        sent.iter().filter_map(begin).collect::<Vec<_>>()
    };
    assert_eq!(goes_on(&bench.send(3)), [true]);
    bench.hear(4, 0, Content::Resume(Resume { standing: Standing::Same, position: 10, controls: 2 }));
    let sent = bench.send(4);
    assert_eq!((goes_on(&sent), samples(&sent)), (vec![false], vec![]));
    let totals = Totals { position: 10, delivered: 10, missing: 0, given_up: 0, controls: 2 };
    bench.events.clear();
    bench.hear(5, 0, Content::Totals(totals));
    bench.send(5);
    assert_eq!(bench.events, []);
    // What the connection had was lost with it.
    assert_eq!(controls(&sent), [Control::GivenUp { positions: 0..10, cause: Cause::LinkDown }]);
    bench.hear(6, 0, Content::Totals(Totals { controls: 3, ..totals }));
    bench.send(6);
    assert_eq!(bench.events, [NearEvent::Closed { slot: 0 }]);
}

/// Returns the epochs of the streams that are offered.
fn offered(sent: &[(u64, Vec<u8>)]) -> Vec<Epoch> {
    let origin = |(_, bytes): &(u64, Vec<u8>)| match Message::decode(bytes).unwrap().content {
        Content::Begin(begin) => Some(begin.origin),
        _ => None,
    };
    sent.iter().filter_map(origin).collect()
}

const FRESH: Content<'static> =
    Content::Resume(Resume { standing: Standing::Fresh, position: 0, controls: 0 });

#[test]
fn the_next_epoch_is_offered_once_the_far_end_has_answered_for_the_one_before() {
    let mut bench = Bench::new();
    let other = Began { description: description("lab/y"), ..began(2) };
    let all = [began(0), began(1), other];
    let origins = all.clone().map(|began| began.origin);
    all.into_iter().for_each(|began| bench.near.handle(at(0), NearInput::Began(began)));
    bench.near.handle(at(0), NearInput::Connected);
    assert_eq!(offered(&bench.send(0)), [origins[0], origins[2]]);
    bench.hear(5, 0, FRESH);
    assert_eq!(offered(&bench.send(5)), [origins[1]]);
    // Over another connection the far end may be another one.
    bench.near.handle(at(6), NearInput::Disconnected);
    bench.near.handle(at(7), NearInput::Connected);
    assert_eq!(offered(&bench.send(7)), [origins[0], origins[2]]);
    bench.hear(8, 0, Content::Refuse(Refusal::Superseded));
    assert_eq!(offered(&bench.send(8)), [origins[1]]);
}

#[test]
fn another_beginning_of_an_epoch_is_offered_once_the_first_is_closed() {
    let mut bench = Bench::open(1);
    bench.push(0, 0, 0..10);
    assert_eq!(samples(&bench.send(0)), [0..10]);
    // The relay before has started again, and publishes the stream under an epoch of its own.
    bench.near.handle(at(1), NearInput::Ended { slot: 0 });
    bench.near.handle(at(1), NearInput::Began(Began { slot: 1, ..began(0) }));
    assert_eq!(offered(&bench.send(1)), []);
    let totals = Totals { position: 10, delivered: 10, missing: 0, given_up: 0, controls: 2 };
    bench.hear(20, 0, Content::Totals(totals));
    assert_eq!(offered(&bench.send(20)), [began(0).origin]);
}

#[test]
fn a_deadline_of_far_readers_is_asked_for_on_the_own_bus_until_they_have_left() {
    let asks = |bench: &mut Bench, ms| {
        bench.send(ms);
        let ask = |event| match event {
            NearEvent::Ask { stream, deadline } => Some((stream.to_string(), deadline)),
            _ => None,
        };
        core::mem::take(&mut bench.events).into_iter().filter_map(ask).collect::<Vec<_>>()
    };
    let want = |deadline| Content::Want(Want { deadline, priority: 0 });
    let mut bench = Bench::open(1);
    bench.hear(1, 0, want(1_000 * MS));
    assert_eq!(asks(&mut bench, 1), [], "it is this end's own");
    bench.hear(2, 0, want(3_000 * MS));
    assert_eq!(asks(&mut bench, 2), [("lab/x".to_owned(), Some(3_000 * MS))]);
    bench.hear(10, 0, want(1_000 * MS));
    assert_eq!(asks(&mut bench, 10), []);
    bench.near.handle(at(20), NearInput::Disconnected);
    let NearOutput::Idle { deadline } = bench.near.poll(at(20)) else { panic!("nothing is to be done") };
    assert_eq!(deadline, Some(at(3_010)));
    bench.near.handle(at(3_010), NearInput::Advance);
    assert_eq!(asks(&mut bench, 3_010), [("lab/x".to_owned(), None)]);
}

#[test]
fn estimates_are_told_when_the_stream_ends_unless_better_outcomes_came() {
    let mut bench = Bench::open(1);
    let unsettled = |count| {
        let share = HopShare { hop: 0, outcome: Outcome::Unsettled, count };
        [share].into_iter().collect::<HopCounts>()
    };
    for start in [0, 10] {
        let positions = start..start + 10;
        bench.near.handle(at(1), NearInput::Missing { slot: 0, positions, shares: unsettled(10) });
    }
    assert_eq!(controls(&bench.send(1)).len(), 2);
    for start in [0, 10] {
        let positions = start..start + 10;
        bench.near.handle(at(2), NearInput::Estimated { slot: 0, positions, shares: lag(10) });
    }
    assert_eq!(controls(&bench.send(2)), [], "they may be taken back");
    let shares: HopCounts =
        [HopShare { hop: 0, outcome: Outcome::Lost(Stage::Network), count: 10 }].into_iter().collect();
    bench.near.handle(at(3), NearInput::Settled { slot: 0, positions: 0..10, shares: shares.clone() });
    assert_eq!(controls(&bench.send(3)), [Control::Settled { positions: 0..10, shares }]);
    bench.near.handle(at(4), NearInput::Ended { slot: 0 });
    let settled = Control::Settled { positions: 10..20, shares: lag(10) };
    assert_eq!(controls(&bench.send(4)), [settled, Control::End { position: 20 }]);
}

#[test]
fn an_estimate_that_has_not_changed_for_a_minute_is_told() {
    let mut bench = Bench::open(1);
    bench.near.handle(at(1), NearInput::Missing { slot: 0, positions: 0..10, shares: lag(10) });
    bench.send(1);
    let estimated = |shares| NearInput::Estimated { slot: 0, positions: 0..10, shares };
    bench.near.handle(at(2), estimated(lag(10)));
    let other: HopCounts =
        [HopShare { hop: 0, outcome: Outcome::Unexplained, count: 10 }].into_iter().collect();
    bench.near.handle(at(30_000), estimated(other.clone()));
    bench.near.handle(at(50_000), estimated(other.clone()));
    assert_eq!(controls(&bench.send(89_999)), []);
    let settled = Control::Settled { positions: 0..10, shares: other };
    assert_eq!(controls(&bench.send(90_000)), [settled]);
}
