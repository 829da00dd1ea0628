//! Epochs of one stream, one behind the other.

use super::*;

/// Returns a later epoch of the publisher.
const fn later(by: u64) -> Epoch {
    Epoch { start_ns: ORIGIN.start_ns + by, incarnation: by }
}

impl Bench {
    /// A bench with a stream that has a hole at 5, and its next epoch in slot 1, which has begun at 30 ms.
    fn overtaken() -> Self {
        let mut bench = Self::open();
        bench.data(0, 10, 0..5, 0);
        bench.data(6, 16, 10..15, 0);
        bench.next_epoch(1, 30);
        bench
    }

    /// Begins a later epoch in a slot of the same number.
    fn next_epoch(&mut self, slot: u16, ms: u64) {
        self.begin(ms, slot, "lab/x", later(slot.into()), &["daq", "gate-a"]);
        self.start(slot, ms);
    }

    fn start(&mut self, slot: u16, ms: u64) {
        self.control_of(slot, ms, 0, Numbered { number: 0, control: Control::Start { position: 0 } });
    }

    fn end(&mut self, slot: u16, number: u64, ms: u64, position: u64) {
        self.control_of(slot, ms, 0, Numbered { number, control: Control::End { position } });
    }

    fn data_at(&mut self, slot: u16, born_ms: u64, ms: u64, positions: Range<u64>) {
        self.data_in((slot, later(slot.into())), (born_ms, ms), positions, 0, "lab/x");
    }

    /// Returns what was published since the last call: beginnings, ends and positions in their order.
    fn log(&mut self) -> Vec<String> {
        let line = |publish| match publish {
            Publish::Begin { origin, .. } => Some(format!("begin {}", origin.start_ns - ORIGIN.start_ns)),
            Publish::Elements { positions, .. } => Some(format!("+{positions:?}")),
            Publish::Inherited { positions, .. } => Some(format!("-{positions:?}")),
            Publish::End => Some("end".to_owned()),
            Publish::Settled { .. } | Publish::Statement(_) | Publish::Upstream(_) => None,
        };
        core::mem::take(&mut self.published).into_iter().filter_map(line).collect()
    }
}

#[test]
fn the_next_epoch_begins_on_the_bus_when_the_one_before_is_out() {
    let mut bench = Bench::overtaken();
    bench.data_at(1, 40, 50, 0..5);
    assert_eq!(bench.log(), ["+0..5"]);
    bench.end(0, 1, 60, 15);
    assert_eq!(bench.log(), [""; 0], "the hole waits for its repair");
    assert_eq!(bench.far.held_bytes(), 10, "of either epoch");
    bench.data(5, 70, 5..10, 0);
    let Some(Publish::Elements { age, .. }) = bench.published.last() else { panic!() };
    assert_eq!(*age, 30 * MS, "the wait counts");
    assert_eq!(bench.log(), ["+5..10", "+10..15", "end", "begin 1", "+0..5"]);
    assert_eq!((bench.far.held_bytes(), bench.far.ignored()), (0, 0));
}

#[test]
fn a_hole_of_the_epoch_before_is_waited_for_until_its_deadline() {
    let mut bench = Bench::overtaken();
    bench.end(0, 1, 60, 15);
    bench.data_at(1, 40, 50, 0..5);
    bench.log();
    bench.advance(1_002);
    assert_eq!(bench.log(), [""; 0]);
    bench.advance(1_003);
    assert_eq!(bench.log(), ["-5..10", "+10..15", "end", "begin 1", "+0..5"]);
}

#[test]
fn what_waits_for_the_end_of_the_epoch_before_is_given_up_at_its_own_deadline() {
    let mut bench = Bench::overtaken();
    bench.data(5, 20, 5..10, 0);
    bench.data_at(1, 100, 110, 0..5);
    bench.data_at(1, 1_400, 1_410, 5..10);
    assert_eq!(bench.far.held_bytes(), 5, "what is too old is not kept");
    assert_eq!(bench.log(), ["+0..5", "+5..10", "+10..15"]);
    bench.end(0, 1, 1_500, 15);
    assert_eq!(bench.log(), ["end", "begin 1", "-0..5", "+5..10"]);
    let totals = bench.far.totals(1).unwrap();
    assert_eq!((totals.delivered, totals.causes), (5, [0, 0, 5, 0]));
}

#[test]
fn what_waits_for_the_epoch_before_is_bounded() {
    let mut bench = Bench::overtaken();
    let messages = 3_000;
    for message in 0..messages {
        bench.data_at(1, 40, 50, message * 1_000..(message + 1) * 1_000);
    }
    let held = bench.far.held_bytes();
    assert!(held <= (2 << 20) + 1_000 + 5, "{held}");
    bench.log();
    bench.data(5, 60, 5..10, 0);
    bench.end(0, 1, 60, 15);
    let log = bench.log();
    assert!(log[4].starts_with("-0.."), "{:?}", &log[..6]);
    let totals = bench.far.totals(1).unwrap();
    assert_eq!(totals.delivered + totals.causes[Cause::Memory as usize], messages * 1_000);
}

#[test]
fn an_epoch_whose_end_does_not_come_is_ended_ten_seconds_behind_its_deadline() {
    let mut bench = Bench::overtaken();
    bench.data(5, 20, 5..10, 0);
    bench.log();
    bench.advance(11_029);
    assert_eq!(bench.poll(11_029), Some(at(11_030)));
    assert_eq!(bench.log(), [""; 0]);
    bench.advance(11_030);
    assert_eq!(bench.log(), ["end", "begin 1"]);
    bench.data_at(1, 11_030, 11_040, 0..5);
    assert_eq!(bench.log(), ["+0..5"]);
}

#[test]
fn an_epoch_is_not_ended_while_its_near_end_tells_of_it() {
    let mut bench = Bench::overtaken();
    bench.data(5, 20, 5..10, 0);
    let given_up = |positions| Control::GivenUp { positions, cause: Cause::Bandwidth };
    bench.control_of(0, 6_000, 0, Numbered { number: 1, control: given_up(15..20) });
    bench.control_of(0, 15_000, 0, Numbered { number: 2, control: given_up(20..25) });
    bench.advance(24_999);
    assert_eq!(bench.poll(24_999), Some(at(25_000)));
    assert_eq!(bench.log(), ["+0..5", "+5..10", "+10..15", "-15..20", "-20..25"]);
    bench.end(0, 3, 24_999, 25);
    assert_eq!(bench.log(), ["end", "begin 1"]);
}

#[test]
fn an_epoch_of_which_nothing_is_told_any_more_is_ended() {
    let mut bench = Bench::overtaken();
    bench.data(5, 20, 5..10, 0);
    bench.control_of(
        0,
        15_000,
        0,
        Numbered { number: 1, control: Control::GivenUp { positions: 15..20, cause: Cause::Bandwidth } },
    );
    bench.log();
    bench.advance(24_999);
    assert_eq!(bench.log(), [""; 0]);
    bench.advance(25_000);
    assert_eq!(bench.log(), ["end", "begin 1"]);
}

#[test]
fn epochs_that_follow_each_other_quickly_are_published_in_their_order() {
    let mut bench = Bench::overtaken();
    bench.next_epoch(2, 40);
    bench.data_at(2, 40, 50, 0..3);
    bench.end(2, 1, 50, 3);
    bench.data_at(1, 35, 50, 0..5);
    bench.next_epoch(3, 60);
    bench.log();
    bench.data(5, 70, 5..10, 0);
    bench.end(0, 1, 80, 15);
    assert_eq!(bench.log(), ["+5..10", "+10..15", "end", "begin 1", "+0..5"]);
    bench.end(1, 1, 90, 5);
    assert_eq!(bench.log(), ["end", "begin 2", "+0..3", "end", "begin 3"]);
}

#[test]
fn an_epoch_that_its_near_end_left_is_published_as_far_as_it_is_here() {
    let mut bench = Bench::overtaken();
    bench.data_at(1, 40, 50, 0..5);
    bench.log();
    bench.connect(100, 6);
    bench.begin(110, 0, "lab/x", later(2), &["daq", "gate-a"]);
    assert_eq!(bench.log(), ["-5..10", "+10..15", "end", "begin 1", "+0..5", "end"]);
    bench.start(0, 120);
    assert_eq!(bench.log(), ["begin 2"]);
}

#[test]
fn an_epoch_waits_over_another_connection_too() {
    let mut bench = Bench::overtaken();
    bench.data_at(1, 40, 50, 0..5);
    bench.log();
    bench.far.handle(at(60), FarInput::Disconnected);
    assert!(bench.poll(60).is_some_and(|deadline| deadline > at(60)));
    bench.connect(100, 5);
    bench.events.clear();
    bench.begin(110, 0, "lab/x", ORIGIN, &["daq", "gate-a"]);
    bench.begin(110, 1, "lab/x", later(1), &["daq", "gate-a"]);
    assert_eq!(bench.events, [FarEvent::Resumed { slot: 0 }], "nothing of the other was published");
    bench.control_of(1, 115, 0, Numbered { number: 1, control: Control::End { position: 5 } });
    bench.control_of(
        0,
        120,
        0,
        Numbered { number: 1, control: Control::GivenUp { positions: 5..10, cause: Cause::LinkDown } },
    );
    bench.end(0, 2, 130, 15);
    assert_eq!(bench.log(), ["-5..10", "+10..15", "end", "begin 1", "+0..5", "end"]);
}

#[test]
fn an_epoch_that_waits_ends_unpublished_if_its_near_end_does_not_come_back() {
    let mut bench = Bench::overtaken();
    bench.far.handle(at(60), FarInput::Disconnected);
    bench.connect(50_000, 5);
    bench.begin(50_000, 0, "lab/x", ORIGIN, &["daq", "gate-a"]);
    bench.log();
    bench.advance(60_060);
    assert!(bench.poll(60_060).is_some_and(|deadline| deadline > at(60_060)));
    bench.end(0, 1, 60_070, 15);
    assert_eq!(bench.log(), ["end"]);
}

#[test]
fn the_next_epoch_has_the_deadline_of_the_readers_until_they_speak() {
    let mut bench = Bench::open();
    bench.wanted(1, &[(1, 3_000), (2, 5)], false);
    bench.asked();
    bench.next_epoch(1, 30);
    assert_eq!(bench.asked(), [3_000 * MS]);
    assert_eq!(bench.far.terms(1), Some((3_000 * MS, 0)));
}
