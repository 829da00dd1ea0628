//! A far end whose messages are made by hand.

mod succession;

use ledger::{HopShare, Outcome, Stage};
use sample::{Channel, Dtype, Schema};
use units::SampleRate;
use wire::{Data, Description};

use super::*;
use crate::frame::{Control, Horizon, Numbered, Resume, Standing, Totals};

const ORIGIN: Epoch = Epoch { start_ns: 7, incarnation: 8 };
const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(10_000_000_000) + Duration::from_millis(ms)
}

/// Shows the near end's clock at an instant.
fn clock_us(ms: u64) -> u32 {
    u32::try_from(ms * 1_000).unwrap().wrapping_sub(50_000)
}

fn described(name: &str) -> Description {
    let schema =
        Schema::new(Dtype::U8, SampleRate::hz(1_000).unwrap(), vec![Channel::new("x", "V")]).unwrap();
    Description {
        name: name.parse().unwrap(),
        schema,
        report_port: 0,
        station: "daq".to_owned(),
        unknown: BTreeMap::new(),
    }
}

/// A far end whose round trip is 20 ms, and what it has said.
struct Bench {
    far: FarEnd,
    published: Vec<Publish>,
    events: Vec<FarEvent>,
    sent: Vec<Vec<u8>>,
    controls: u64,
}

impl Bench {
    fn new() -> Self {
        let config = FarConfig { station: "gate-b".to_owned(), incarnation: 3, deadline: None };
        let far = FarEnd::new(config, at(0));
        let mut bench =
            Self { far, published: Vec::new(), events: Vec::new(), sent: Vec::new(), controls: 0 };
        bench.connect(0, 5);
        bench
    }

    /// A bench with a stream that begins at position 0.
    fn open() -> Self {
        let mut bench = Self::new();
        bench.begin(0, 0, "lab/x", ORIGIN, &["daq", "gate-a"]);
        bench.control(0, 0, Control::Start { position: 0 });
        bench.published.clear();
        bench.events.clear();
        bench.sent.clear();
        bench
    }

    fn connect(&mut self, ms: u64, incarnation: u64) {
        self.connect_silently(ms);
        self.greet(ms, incarnation);
    }

    fn connect_silently(&mut self, ms: u64) {
        self.far.handle(at(ms), FarInput::Connected);
        let path = Path { round_trip: 20 * MS, clock_us: 0, room: 1_000, message_bytes: 1_400, is_up: true };
        self.far.handle(at(ms), FarInput::Path(path));
        self.controls = 0;
    }

    fn greet(&mut self, ms: u64, incarnation: u64) {
        let hello = Hello { version: VERSION, incarnation, station: "gate-a".to_owned() };
        self.hear(ms, ms - ms.min(10), &Message::plain(0, Content::Hello(hello)));
    }

    /// Takes a message that was sent at one time and arrives at another.
    fn hear(&mut self, ms: u64, sent_ms: u64, message: &Message<'_>) {
        let (bytes, sent_us) = (message.encode(), clock_us(sent_ms));
        self.far.handle(at(ms), FarInput::Message { bytes: &bytes, sent_us, arrived: at(ms) });
        self.poll(ms);
    }

    fn poll(&mut self, ms: u64) -> Option<Instant> {
        loop {
            match self.far.poll(at(ms)) {
                FarOutput::Publish { publish, .. } => self.published.push(publish),
                FarOutput::Send { bytes, .. } => self.sent.push(bytes),
                FarOutput::Event(event) => self.events.push(event),
                FarOutput::Idle { deadline } => return deadline,
            }
        }
    }

    fn advance(&mut self, ms: u64) {
        self.far.handle(at(ms), FarInput::Advance);
        self.poll(ms);
    }

    fn begin(&mut self, ms: u64, slot: u16, name: &str, origin: Epoch, stations: &[&str]) {
        self.offer(ms, slot, (name, origin), stations, false);
    }

    fn offer(&mut self, ms: u64, slot: u16, (name, origin): (&str, Epoch), stations: &[&str], goes_on: bool) {
        let description = described(name).encode().unwrap();
        let begin = Begin {
            origin,
            deadline: Duration::from_secs(1),
            is_least: false,
            goes_on,
            priority: 0,
            stations: stations.iter().map(|&station| station.to_owned()).collect(),
            description: &description,
        };
        self.hear(ms, ms, &Message::plain(slot, Content::Begin(begin)));
    }

    /// Takes a control of stream 0 as the next in order, sent 10 ms before.
    fn control(&mut self, ms: u64, missing_before: u64, control: Control) {
        let number = self.controls;
        self.controls += 1;
        self.control_of(0, ms, missing_before, Numbered { number, control });
    }

    fn control_of(&mut self, slot: u16, ms: u64, missing_before: u64, control: Numbered) {
        let content = Content::Control(control);
        let message = Message { slot, born_us: clock_us(ms - ms.min(10)), missing_before, content };
        self.hear(ms, ms - ms.min(10), &message);
    }

    /// Takes samples of stream 0 that were born at one time and arrive at another, sent 10 ms before.
    fn data(&mut self, born_ms: u64, ms: u64, positions: Range<u64>, missing_before: u64) {
        self.data_of(born_ms, ms, positions, missing_before, "lab/x");
    }

    fn data_of(&mut self, born_ms: u64, ms: u64, positions: Range<u64>, missing_before: u64, name: &str) {
        self.data_in((0, ORIGIN), (born_ms, ms), positions, missing_before, name);
    }

    fn data_in(
        &mut self,
        (slot, epoch): (u16, Epoch),
        (born_ms, ms): (u64, u64),
        positions: Range<u64>,
        missing_before: u64,
        name: &str,
    ) {
        let payload: Vec<u8> = positions.clone().map(|position| position.to_le_bytes()[0]).collect();
        let described = described(name);
        let head = wire::Numbered {
            stream: wire::stream_id(&described.name, &described.schema),
            epoch,
            number: 0,
            first_index: positions.start,
            element_offset: 0,
            elements_per_sample: 1,
        };
        let data = Data {
            head,
            t0: WallTime::from_nanos(i64::try_from(positions.start).unwrap() * 1_000_000),
            clock: Clock::Ptp,
            dtype: Dtype::U8,
            element_count: u32::try_from(payload.len()).unwrap(),
            origin: None,
            payload: &payload,
        };
        let mut datagram = vec![0; data.encoded_bytes()];
        data.encode(&mut datagram).unwrap();
        let content = Content::Data(&datagram);
        let message = Message { slot, born_us: clock_us(born_ms), missing_before, content };
        self.hear(ms, ms - 10, &message);
    }

    /// Returns the published positions since the last call, with a sign for those that are missing.
    fn positions(&mut self) -> Vec<(char, Range<u64>)> {
        let positions = |publish| match publish {
            Publish::Elements { positions, t0, bytes, .. } => {
                assert_eq!(t0.as_nanos(), i64::try_from(positions.start).unwrap() * 1_000_000);
                assert!(positions.clone().map(|position| position.to_le_bytes()[0]).eq(bytes));
                Some(('+', positions))
            }
            Publish::Inherited { positions, .. } => Some(('-', positions)),
            _ => None,
        };
        core::mem::take(&mut self.published).into_iter().filter_map(positions).collect()
    }

    fn contents(&self) -> Vec<Content<'_>> {
        self.sent.iter().map(|bytes| Message::decode(bytes).unwrap().content).collect()
    }
}

fn lag(count: u64) -> HopCounts {
    [HopShare { hop: 0, outcome: Outcome::Lost(Stage::ReaderLag), count }].into_iter().collect()
}

#[test]
fn a_stream_is_published_from_its_first_control_on() {
    let mut bench = Bench::new();
    bench.begin(0, 0, "lab/x", ORIGIN, &["daq", "gate-a"]);
    let resume = Resume { standing: Standing::Fresh, position: 0, controls: 0 };
    assert!(bench.contents().contains(&Content::Resume(resume)));
    bench.data(0, 10, 40..45, 0);
    assert_eq!(bench.published, [], "where it begins is not known");
    bench.control(11, 0, Control::Start { position: 40 });
    let Publish::Begin { origin, hop, first_position, .. } = &bench.published[0] else { panic!() };
    assert_eq!((*origin, hop.get(), *first_position), (ORIGIN, 2, 40));
    assert_eq!(bench.positions(), [('+', 40..45)]);
}

#[test]
fn samples_wait_behind_a_hole_until_it_is_filled() {
    let mut bench = Bench::open();
    bench.data(0, 10, 0..5, 0);
    bench.data(6, 16, 10..15, 0);
    assert_eq!(bench.positions(), [('+', 0..5)]);
    assert_eq!(bench.far.held_bytes(), 5);
    bench.data(3, 40, 5..10, 0);
    assert_eq!(bench.positions(), [('+', 5..10), ('+', 10..15)]);
}

#[test]
fn the_age_is_that_at_the_near_end_half_the_round_trip_and_the_wait_here() {
    let mut bench = Bench::open();
    // Sent at 25 ms, 20 ms after its birth; it waits for 30 ms.
    bench.data(5, 35, 5..10, 0);
    bench.data(4, 65, 0..5, 0);
    let age_ms: Vec<_> = bench
        .published
        .iter()
        .filter_map(|publish| match publish {
            Publish::Elements { age, .. } => Some(age.as_millis()),
            _ => None,
        })
        .collect();
    assert_eq!(age_ms, [51 + 10, 20 + 10 + 30]);
    let ages = bench.far.take_ages(0).unwrap();
    assert!((60..=61).contains(&ages.median.as_millis()), "{ages:?}");
    assert_eq!(ages.largest.as_millis(), 61);
    assert_eq!((bench.far.take_ages(0), bench.far.take_ages(9)), (None, None));
}

#[test]
fn a_hole_is_given_up_two_milliseconds_before_its_deadline() {
    let mut bench = Bench::open();
    bench.data(0, 10, 0..5, 0);
    bench.data(10, 20, 10..15, 0);
    bench.positions();
    // Born at 10 ms by the near end's clock, which arrives as 10 ms; the sample before it a period earlier.
    bench.advance(1_006);
    assert_eq!(bench.positions(), []);
    bench.advance(1_007);
    assert_eq!(bench.positions(), [('-', 5..10), ('+', 10..15)]);
    let totals = bench.far.totals(0).unwrap();
    assert_eq!((totals.hops.rows(1).lost[Stage::Deadline], totals.causes), (5, [0, 0, 5, 0]));
    let lost = FarEvent::Lost { slot: 0, positions: 5..10, cause: Cause::Repair };
    assert_eq!(bench.events, [lost]);
    bench.data(5, 1_008, 5..10, 0);
    assert_eq!(bench.positions(), [], "what comes later is not published");
}

#[test]
fn samples_that_come_too_late_are_not_published() {
    let mut bench = Bench::open();
    bench.data(0, 1_000, 0..5, 0);
    bench.data(0, 1_001, 5..10, 0);
    assert_eq!(bench.positions(), [('+', 0..5), ('-', 5..10)]);
}

#[test]
fn what_the_near_end_gives_up_is_not_waited_for() {
    let mut bench = Bench::open();
    bench.data(6, 16, 10..15, 0);
    bench.control(20, 0, Control::GivenUp { positions: 0..12, cause: Cause::Bandwidth });
    assert_eq!(bench.positions(), [('-', 0..10), ('+', 10..15)]);
    assert_eq!(bench.far.totals(0).unwrap().causes, [0, 10, 0, 0]);
}

#[test]
fn what_was_missing_before_keeps_its_hop_and_is_no_loss_of_the_link() {
    let mut bench = Bench::open();
    bench.data(6, 16, 10..15, 6);
    bench.control(14, 2, Control::Missing { positions: 4..8, shares: lag(4) });
    bench.control(13, 0, Control::Missing { positions: 0..2, shares: lag(2) });
    bench.advance(1_003);
    assert_eq!(bench.positions(), [('-', 0..2), ('-', 2..4), ('-', 4..8), ('-', 8..10), ('+', 10..15)]);
    let totals = bench.far.totals(0).unwrap();
    assert_eq!(totals.hops.rows(0).lost[Stage::ReaderLag], 6);
    assert_eq!(totals.hops.rows(1).lost[Stage::Deadline], 4);
}

#[test]
fn what_was_missing_and_is_told_too_late_is_settled_later() {
    let mut bench = Bench::open();
    bench.data(6, 16, 10..15, 3);
    bench.advance(1_100);
    let Publish::Inherited { positions, shares, .. } = &bench.published[0] else { panic!() };
    assert_eq!((positions, shares.rows(0).unsettled), (&(0..10), 3));
    bench.published.clear();
    bench.control(1_110, 2, Control::Missing { positions: 2..5, shares: lag(3) });
    let Publish::Settled { positions, shares } = &bench.published[0] else { panic!() };
    assert_eq!((positions, shares.rows(0).unsettled), (&(0..10), 0));
    assert_eq!(shares.rows(0).lost[Stage::ReaderLag], 3);
}

#[test]
fn the_tail_of_a_stream_is_given_up_by_the_horizon() {
    let mut bench = Bench::open();
    let content = Content::Horizon(Horizon { position: 5, first_control: 0 });
    bench.hear(10, 0, &Message { slot: 0, born_us: clock_us(0), missing_before: 0, content });
    bench.advance(997);
    assert_eq!(bench.positions(), []);
    bench.control(998, 0, Control::End { position: 5 });
    bench.advance(998);
    assert!(matches!(bench.published.last(), Some(Publish::End)) || bench.positions().is_empty());
    bench.advance(2_000);
    let is_end = bench.published.contains(&Publish::End);
    assert!(is_end, "{:?}", bench.published);
    assert_eq!(bench.positions(), [('-', 0..5)]);
}

#[test]
fn the_near_end_is_told_of_the_outcome_ten_times_a_second() {
    let mut bench = Bench::open();
    bench.data(0, 10, 0..5, 0);
    bench.advance(200);
    let totals = Totals { position: 5, delivered: 5, missing: 0, given_up: 0, controls: 1 };
    assert_eq!(bench.contents().last(), Some(&Content::Totals(totals)));
}

#[test]
fn controls_behind_the_end_of_a_stream_are_answered_for() {
    let mut bench = Bench::open();
    bench.data(0, 10, 0..5, 0);
    bench.control(11, 0, Control::End { position: 5 });
    assert!(bench.published.contains(&Publish::End));
    bench.control(12, 0, Control::GivenUp { positions: 0..5, cause: Cause::Bandwidth });
    bench.advance(200);
    let totals = Totals { position: 5, delivered: 5, missing: 0, given_up: 0, controls: 3 };
    assert_eq!(bench.contents().last(), Some(&Content::Totals(totals)));
}

/// A bench with a stream that has ended, the near end of which has lost its connection and comes back.
fn ended_unheard(back_ms: u64, incarnation: u64) -> Bench {
    let mut bench = Bench::open();
    bench.data(0, 10, 0..5, 0);
    bench.control(11, 0, Control::End { position: 5 });
    bench.far.handle(at(20), FarInput::Disconnected);
    bench.advance(back_ms);
    bench.connect(back_ms, incarnation);
    bench.published.clear();
    bench.sent.clear();
    bench
}

const PASSED: [&str; 2] = ["daq", "gate-a"];

#[test]
fn a_stream_that_ended_while_the_near_end_was_away_is_answered_for_and_not_begun_again() {
    let mut bench = ended_unheard(59_000, 5);
    bench.offer(59_000, 0, ("lab/x", ORIGIN), &PASSED, true);
    let resume = Resume { standing: Standing::Same, position: 5, controls: 2 };
    assert_eq!(bench.contents()[0], Content::Resume(resume));
    bench.advance(59_200);
    let totals = Totals { position: 5, delivered: 5, missing: 0, given_up: 0, controls: 2 };
    assert_eq!(bench.contents().last(), Some(&Content::Totals(totals)));
    assert_eq!(bench.published, []);
    assert_eq!(bench.poll(59_200), Some(at(59_300)), "it is told for a while");
    bench.advance(69_000);
    assert_eq!((bench.poll(69_000), bench.far.is_idle()), (None, true));
}

#[test]
fn a_stream_that_ended_is_begun_again_by_another_beginning_or_another_near_end_or_after_a_minute() {
    for (back_ms, incarnation, goes_on) in [(59_000, 5, false), (59_000, 6, true), (60_011, 5, true)] {
        let mut bench = ended_unheard(back_ms, incarnation);
        assert_eq!(bench.far.is_idle(), back_ms > 60_000);
        bench.offer(back_ms, 0, ("lab/x", ORIGIN), &PASSED, goes_on);
        let fresh = Resume { standing: Standing::Fresh, position: 0, controls: 0 };
        assert_eq!(bench.contents()[0], Content::Resume(fresh), "{back_ms} {incarnation} {goes_on}");
    }
}

#[test]
fn a_stream_goes_on_over_another_connection() {
    let mut bench = Bench::open();
    bench.data(0, 10, 0..5, 0);
    bench.far.handle(at(20), FarInput::Disconnected);
    bench.connect(500, 5);
    bench.begin(500, 9, "lab/x", ORIGIN, &["daq", "gate-a"]);
    let resume = Resume { standing: Standing::Same, position: 5, controls: 1 };
    assert!(bench.contents().contains(&Content::Resume(resume)));
    assert!(bench.events.contains(&FarEvent::Resumed { slot: 0 }));
}

#[test]
fn a_beginning_that_overtakes_the_greeting_waits_for_it() {
    let mut bench = Bench::open();
    bench.data(0, 10, 0..5, 0);
    bench.connect_silently(500);
    bench.begin(500, 0, "lab/x", ORIGIN, &["daq", "gate-a"]);
    let is_resume = |content: &Content<'_>| matches!(content, Content::Resume(_));
    assert!(!bench.contents().iter().any(is_resume), "it is not known whose it is");
    bench.greet(501, 6);
    let resume = Resume { standing: Standing::Other, position: 5, controls: 0 };
    assert!(bench.contents().contains(&Content::Resume(resume)), "not of the incarnation before");
    bench.connect_silently(600);
    bench.begin(600, 0, "lab/x", ORIGIN, &["daq", "gate-a"]);
    bench.hear(601, 601, &Message::plain(0, Content::Refuse(Refusal::Description)));
    bench.sent.clear();
    bench.greet(602, 6);
    assert!(!bench.contents().iter().any(is_resume), "the near end has taken it back");
    assert_eq!(bench.events.iter().filter(|event| matches!(event, FarEvent::Ignored(_))).count(), 0);
}

#[test]
fn messages_that_left_before_the_end_of_a_stream_are_no_fault() {
    let mut bench = Bench::open();
    bench.data(0, 10, 0..5, 0);
    bench.control(11, 0, Control::End { position: 5 });
    bench.advance(20_000);
    bench.data(0, 20_001, 0..5, 0);
    assert_eq!(bench.events, []);
}

#[test]
fn after_a_restart_of_the_near_end_what_it_did_not_read_is_its_lag() {
    let mut bench = Bench::open();
    bench.data(0, 10, 0..5, 0);
    bench.data(0, 10, 8..9, 0);
    bench.connect(500, 6);
    bench.begin(500, 0, "lab/x", ORIGIN, &["daq", "gate-a"]);
    let resume = Resume { standing: Standing::Other, position: 5, controls: 0 };
    assert!(bench.contents().contains(&Content::Resume(resume)));
    bench.positions();
    bench.control(520, 0, Control::Start { position: 20 });
    bench.data(510, 520, 20..25, 0);
    assert_eq!(bench.positions(), [('-', 5..20), ('+', 20..25)]);
    let totals = bench.far.totals(0).unwrap();
    assert_eq!(totals.hops.rows(0).lost[Stage::ReaderLag], 15);
    bench.advance(700);
    let totals = Totals { position: 25, delivered: 5, missing: 0, given_up: 0, controls: 1 };
    assert_eq!(bench.contents().last(), Some(&Content::Totals(totals)), "counted from there");
}

#[test]
fn a_near_end_that_does_not_come_back_ends_its_streams() {
    let mut bench = Bench::open();
    bench.far.handle(at(20), FarInput::Disconnected);
    bench.advance(60_019);
    assert!(!bench.published.contains(&Publish::End));
    bench.advance(60_020);
    assert!(bench.published.contains(&Publish::End));
    assert_eq!(bench.far.totals(0), None);
}

#[test]
fn a_stream_that_waits_ends_when_a_later_epoch_of_its_publisher_begins() {
    let later = Epoch { start_ns: ORIGIN.start_ns + 1, incarnation: 1 };
    let mut bench = Bench::open();
    bench.far.handle(at(20), FarInput::Disconnected);
    bench.connect(500, 6);
    bench.begin(510, 0, "lab/y", Epoch { incarnation: 2, ..later }, &["daq", "gate-a"]);
    assert!(!bench.published.contains(&Publish::End), "that is another stream");
    bench.begin(510, 1, "lab/x", later, &["daq", "gate-a"]);
    assert_eq!(bench.published.last(), Some(&Publish::End));
    assert_eq!(bench.events.iter().filter(|event| matches!(event, FarEvent::Refused { .. })).count(), 0);
    let mut both = Bench::open();
    both.begin(510, 1, "lab/x", later, &["daq", "gate-a"]);
    assert!(!both.published.contains(&Publish::End), "its near end is there, and says itself when it ends");
    // The relay dies before it has said so, and the next one goes on with the later epoch alone.
    both.far.handle(at(520), FarInput::Disconnected);
    both.connect(600, 6);
    both.begin(610, 0, "lab/x", later, &["daq", "gate-a"]);
    assert_eq!(both.published.iter().filter(|it| **it == Publish::End).count(), 1);
}

#[test]
fn an_epoch_is_refused_once_a_later_one_of_its_publisher_is_published() {
    let earlier = Epoch { start_ns: ORIGIN.start_ns - 1, incarnation: 1 };
    let mut bench = Bench::open();
    bench.data(0, 10, 0..5, 0);
    bench.begin(20, 1, "lab/y", Epoch { incarnation: 2, ..earlier }, &["daq", "gate-a"]);
    assert_eq!(bench.events, [], "that is another stream");
    bench.begin(20, 2, "lab/x", earlier, &["daq", "gate-a"]);
    bench.far.handle(at(30), FarInput::Advance);
    let refusal = Refusal::Superseded;
    assert_eq!(bench.events, [FarEvent::Refused { origin: earlier, refusal }]);
    assert_eq!((bench.far.ignored(), bench.positions()), (1, vec![('+', 0..5)]));
}

#[test]
fn streams_that_cannot_be_published_are_refused_in_words() {
    let mut bench = Bench::open();
    bench.begin(1, 1, "lab/y", ORIGIN, &["daq", "gate-a"]);
    bench.begin(1, 2, "lab/x", ORIGIN, &["daq", "gate-a"]);
    let other = Epoch { incarnation: 9, ..ORIGIN };
    bench.begin(1, 3, "lab/x", other, &["daq", "gate-b", "gate-c", "gate-c", "gate-a"]);
    bench.begin(1, 4, "lab/x", other, &["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
    let description = described("lab/z").encode().unwrap();
    let stations = vec!["daq".to_owned(), "gate-a".to_owned()];
    let begin = Begin {
        origin: other,
        deadline: Duration::ZERO,
        is_least: false,
        goes_on: false,
        priority: 0,
        stations,
        description: &description,
    };
    bench.hear(1, 1, &Message::plain(5, Content::Begin(begin.clone())));
    let begin = Begin { deadline: Duration::from_secs(1), description: b"?", ..begin };
    bench.hear(1, 1, &Message::plain(6, Content::Begin(begin)));
    let refused = |origin, refusal| FarEvent::Refused { origin, refusal };
    assert_eq!(
        bench.events,
        [
            refused(ORIGIN, Refusal::AnotherDescription),
            refused(ORIGIN, Refusal::Claimed),
            refused(other, Refusal::Loop),
            refused(other, Refusal::TooManyHops),
            refused(other, Refusal::Deadline),
            refused(other, Refusal::Description),
        ]
    );
    assert_eq!(bench.contents().len(), 6);
    assert_eq!(bench.far.ignored(), 6);
    bench.data(0, 10, 0..5, 0);
    assert_eq!(bench.positions(), [('+', 0..5)], "the first goes on");
}

#[test]
fn messages_that_cannot_be_are_ignored_and_counted() {
    let mut bench = Bench::open();
    bench.data(5, 15, 5..10, 0);
    bench.data(4, 16, 10..12, 0);
    bench.data(6, 17, 8..12, 0);
    bench.data_of(6, 18, 10..12, 0, "lab/y");
    bench.control(19, 9, Control::Missing { positions: 0..4, shares: lag(4) });
    bench.hear(20, 20, &Message::plain(9, Content::Data(b"")));
    bench.hear(20, 20, &Message::plain(0, Content::Data(b"")));
    bench.hear(20, 20, &Message::plain(0, Content::Totals(Totals::default())));
    let content = Content::Horizon(Horizon { position: 5, first_control: 0 });
    bench.hear(20, 20, &Message { slot: 0, born_us: clock_us(21), missing_before: 0, content });
    bench.far.handle(at(20), FarInput::Wanted { slot: 7, stated: Vec::new(), has_unstated: true });
    bench.poll(20);
    let faults = [
        FarFault::Age(10),
        FarFault::Contradiction { start: 8, end: 12 },
        FarFault::Data,
        FarFault::Contradiction { start: 0, end: 4 },
        FarFault::UnknownStream(9),
        FarFault::Data,
        FarFault::Direction,
        FarFault::Age(5),
        FarFault::NoStream(7),
    ];
    assert_eq!(bench.events, faults.map(FarEvent::Ignored));
    bench.data(4, 20, 0..5, 0);
    assert_eq!(bench.positions(), [('+', 0..5), ('+', 5..10)], "it goes on");
}

fn by(reader: u64, millis: u32) -> WantedBy {
    WantedBy { reader, name: format!("reader {reader}"), deadline: millis * MS }
}

impl Bench {
    fn wanted(&mut self, ms: u64, stated: &[(u64, u32)], has_unstated: bool) {
        let stated = stated.iter().map(|&(reader, millis)| by(reader, millis)).collect();
        self.far.handle(at(ms), FarInput::Wanted { slot: 0, stated, has_unstated });
        self.poll(ms);
    }

    /// Returns the deadlines that the near end was asked for since the last call.
    fn asked(&mut self) -> Vec<Duration> {
        let asked = self.contents().into_iter().filter_map(|content| match content {
            Content::Want(want) => Some(want.deadline),
            _ => None,
        });
        let asked = asked.collect();
        self.sent.clear();
        asked
    }
}

#[test]
fn the_deadline_of_readers_is_sent_to_the_near_end_and_kept() {
    let mut bench = Bench::open();
    bench.wanted(1, &[(1, 2_000), (2, 300)], false);
    assert_eq!(bench.asked(), [2_000 * MS]);
    bench.data(0, 10, 5..10, 0);
    bench.advance(1_900);
    assert_eq!(bench.positions(), []);
    bench.advance(1_998);
    assert_eq!(bench.positions(), [('-', 0..5), ('+', 5..10)]);
}

#[test]
fn a_shorter_deadline_of_all_readers_is_kept_and_forgotten_when_they_leave() {
    let mut bench = Bench::open();
    bench.wanted(1, &[(1, 200)], false);
    bench.data(0, 10, 5..10, 0);
    bench.advance(196);
    assert_eq!(bench.positions(), []);
    bench.advance(197);
    assert_eq!(bench.positions(), [('-', 0..5), ('+', 5..10)], "it waits no longer than the readers");
    assert_eq!(bench.asked(), [200 * MS]);
    bench.wanted(200, &[(1, 200)], true);
    assert_eq!(bench.asked(), [1_000 * MS], "a reader came that states none");
    bench.wanted(210, &[(1, 200)], false);
    bench.wanted(220, &[], false);
    assert_eq!(bench.asked(), [200 * MS, 1_000 * MS]);
    let totals = bench.far.totals(0).unwrap();
    assert_eq!((totals.delivered, totals.hops.total()), (5, 5));
}

#[test]
fn a_deadline_that_the_path_cannot_keep_is_refused_to_its_reader_and_the_others_go_on() {
    let mut bench = Bench::open();
    bench.wanted(1, &[(1, 11), (2, 12)], false);
    let (wanted, round_trip) = (by(1, 11), 20 * MS);
    let refused = FarEvent::DeadlineRefused { slot: 0, wanted, round_trip };
    assert_eq!(bench.events, [refused, FarEvent::Deadline { slot: 0, deadline: 12 * MS }]);
    assert_eq!((bench.asked(), bench.far.ignored()), (vec![12 * MS], 1));
    // The path becomes longer than the accepted deadline, and shorter again.
    for round_trip in [200, 18] {
        let round_trip = round_trip * MS;
        let path = Path { round_trip, clock_us: 0, room: 1_000, message_bytes: 1_400, is_up: true };
        bench.far.handle(at(300), FarInput::Path(path));
        bench.wanted(300, &[(1, 11), (2, 12)], false);
    }
    assert_eq!((bench.asked(), bench.far.ignored()), (Vec::new(), 1));
    bench.wanted(301, &[(1, 11)], false);
    assert_eq!(bench.asked(), [11 * MS], "the path can keep it now");
}

#[test]
fn a_near_end_that_comes_back_gets_the_deadline_of_readers_again() {
    let mut bench = Bench::open();
    bench.wanted(1, &[(1, 3_000)], false);
    bench.far.handle(at(2), FarInput::Disconnected);
    bench.poll(2);
    bench.sent.clear();
    bench.connect(10, 5);
    bench.begin(10, 0, "lab/x", ORIGIN, &["daq", "gate-a"]);
    assert_eq!(bench.asked(), [3_000 * MS]);
}
