//! Reports of hand-made counts: the counts of both ends become intervals, sums, accounts and medians.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::*;
use crate::report::Used;
use crate::throughput::message::{AccountState, Unit};

const SENDER: FlowKey = FlowKey::sender(Way::Forward, 0);
const RECEIVER: FlowKey = FlowKey { receiver: Some(0), ..SENDER };

fn builder(options: &Options) -> Builder {
    let host = HostState::look(Ipv4Addr::LOCALHOST.into());
    let peer = (Ipv4Addr::LOCALHOST, 7).into();
    Builder::new(options, Begun { peer, client: host.clone(), server: host, unit_bytes: 100 })
}

/// Options with runs of 200 ms after 100 ms that are omitted.
fn options() -> Options {
    Options {
        protocol: Protocol::Udp,
        duration: Duration::from_millis(200),
        omit: Duration::from_millis(100),
        interval: Duration::from_millis(100),
        rate: Some(Rate::Bits(80_000)),
        ..Options::default()
    }
}

fn sent(units: u64) -> Count {
    Count { units, bytes: units * 100, ..Count::default() }
}

fn received(units: u64, lost: u64) -> Count {
    Count { lost: Some(lost), jitter_ns: Some(2e6), ..sent(units) }
}

fn live(mark: usize, key: FlowKey, count: Count) -> Option<Live> {
    Some(Live { mark, at_ns: (mark as u64 + 1) * 100_000_000, flows: vec![(key, count)] })
}

fn side(key: FlowKey, total: Count, omitted: Count, account: Option<Account>) -> SideResult {
    let flow = FlowResult {
        key,
        local: (Ipv4Addr::LOCALHOST, 1).into(),
        remote: None,
        total,
        omitted,
        measured_ns: Some(200_000_000),
        skipped: 0,
        congestion_control: None,
        buffer_bytes: Some(106_496),
        account,
        delays: None,
    };
    let used = Used { cpu_ns: 30_000_000, elapsed_ns: 300_000_000, elsewhere_cpus: Some(0.15) };
    let processor = Processor::default();
    SideResult {
        flows: vec![flow],
        used,
        processor,
        applied_load: None,
        failures: Vec::new(),
        notes: Vec::new(),
    }
}

/// Returns an account of `sent` datagrams, of which all but `received` found the buffer full.
pub(crate) fn account(sent: u64, received: u64) -> Account {
    let lost = BTreeMap::from([("receiver_socket_buffer".to_owned(), sent - received)]);
    Account {
        unit: Unit::Datagrams,
        state: AccountState::Closed,
        sent,
        received,
        lost,
        unexplained: 0,
        duplicates: 0,
        unmatched: 0,
    }
}

/// Adds a run whose measured part sent 20 datagrams, of which `arrived` arrived.
fn add_run(builder: &mut Builder, rate: u64, arrived: u64, ending: Ending) {
    let run = builder.runs.len() as u32;
    builder.begin_run(run, Rate::Bits(rate));
    let ours = side(SENDER, sent(30), sent(10), None);
    let theirs = side(RECEIVER, received(10 + arrived, 0), received(10, 0), Some(account(30, 10 + arrived)));
    builder.end_run(ours, Some(theirs), ending);
}

#[test]
fn an_interval_is_what_happened_since_the_last_one_and_loss_may_fall() {
    let mut builder = builder(&options());
    builder.begin_run(0, Rate::Bits(80_000));
    let at = |builder: &mut Builder, mark, taken, arrived, lost| {
        let (ours, theirs) = (live(mark, SENDER, sent(taken)), live(mark, RECEIVER, received(arrived, lost)));
        let interval = builder.interval(mark, ours, theirs).clone();
        (interval.sums.sum_sent.unwrap(), interval.sums.sum_received.unwrap())
    };
    let (first, received) = at(&mut builder, 0, 10, 6, 4);
    assert!(first.omitted && received.omitted);
    assert_eq!(
        (received.packets, received.lost_packets, received.lost_percent),
        (Some(10), Some(4), Some(40.0))
    );
    let (second, received) = at(&mut builder, 1, 20, 19, 1);
    assert_eq!((second.start, second.end, second.omitted), (0.0, 0.1, false));
    assert_eq!((second.packets, second.bits_per_second), (Some(10), 80_000.0));
    // Three of the four arrived late.
    assert_eq!((received.packets, received.lost_packets), (Some(10), Some(-3)));
    assert_eq!((received.bytes, received.jitter_ms), (1_300, Some(2.0)));
}

#[test]
fn an_interval_of_one_end_alone_is_told_as_such() {
    let mut builder = builder(&options());
    builder.begin_run(0, Rate::Bits(80_000));
    let sums = builder.interval(0, live(0, SENDER, sent(10)), None).sums;
    assert!(sums.sum_sent.is_some() && sums.sum_received.is_none());
}

#[test]
fn the_end_of_a_run_leaves_out_what_was_omitted_and_counts_the_tail() {
    let mut builder = builder(&options());
    builder.begin_run(0, Rate::Bits(80_000));
    let ours = side(SENDER, sent(30), sent(10), None);
    // One more is missing than the receiver could know: the last.
    let theirs = side(RECEIVER, received(25, 4), received(8, 2), Some(account(30, 25)));
    builder.end_run(ours, Some(theirs), Ending::Whole);
    assert!(!builder.last_run_holds(0));
    let report = builder.finish(false);
    let sums = report.end.sums;
    assert_eq!(sums.sum_sent.unwrap().packets, Some(20));
    let received = sums.sum_received.unwrap();
    assert_eq!((received.packets, received.lost_packets), (Some(20), Some(3)));
    assert_eq!((received.bytes, received.bits_per_second), (1_700, 68_000.0));
    assert_eq!(report.end.state, State::Complete);
    let metrics: Vec<&str> = report.end.rows.iter().map(|row| row.metric.as_str()).collect();
    assert_eq!(metrics, ["bits_per_second", "lost_percent", "jitter_ms"]);
}

#[test]
fn on_one_host_each_end_is_not_taken_for_somebody_elses_work() {
    let mut builder = builder(&options());
    add_run(&mut builder, 80_000, 20, Ending::Whole);
    assert!(builder.last_run_holds(0));
    let run = builder.last_run().unwrap();
    // Of the 0.15 processors of other work the server used 0.1.
    let elsewhere = run.client_elsewhere_cpus.unwrap();
    assert!((elsewhere - 0.05).abs() < 1e-9, "{elsewhere}");
    assert_eq!(run.noise, Vec::<String>::new());
}

#[test]
fn a_sender_that_was_too_slow_has_not_shown_that_its_rate_holds() {
    let mut builder = builder(&options());
    add_run(&mut builder, 160_000, 20, Ending::Whole);
    assert!(!builder.last_run_holds(0));
    assert_eq!(builder.last_run().unwrap().noise, ["senders reached only 50 % of their rate"]);
}

#[test]
fn what_the_host_refused_is_loss_and_not_slowness() {
    let mut builder = builder(&options());
    builder.begin_run(0, Rate::Bits(80_000));
    let ours = side(SENDER, sent(15), sent(5), None);
    let theirs = side(RECEIVER, received(15, 14), received(5, 5), Some(account(30, 15)));
    builder.end_run(ours, Some(theirs), Ending::Whole);
    assert!(!builder.last_run_holds(0));
    assert_eq!(builder.last_run().unwrap().noise, Vec::<String>::new());
}

#[test]
fn a_run_whose_server_vanished_keeps_what_the_client_saw() {
    let mut builder = builder(&options());
    builder.begin_run(0, Rate::Bits(80_000));
    let ours = side(SENDER, sent(30), sent(10), None);
    builder.end_run(ours, None, Ending::Trouble("the other end is gone".to_owned()));
    assert!(!builder.last_run_holds(0));
    let report = builder.finish(false);
    assert_eq!(report.end.state, State::BrokenOff);
    assert!(report.end.streams[0].account.is_none() && report.end.streams[0].sender.is_some());
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}

fn rates(report: &Report) -> Option<(f64, u64)> {
    let row = report.end.rows.iter().find(|row| row.metric == "bits_per_second")?;
    Some((row.median, row.runs))
}

#[test]
fn a_run_that_is_not_whole_enters_no_median_unless_there_is_no_other() {
    let mut mixed = builder(&options());
    add_run(&mut mixed, 80_000, 20, Ending::Whole);
    add_run(&mut mixed, 80_000, 2, Ending::Stopped);
    let report = mixed.finish(true);
    assert_eq!(rates(&report), Some((80_000.0, 1)));
    assert_eq!(report.end.state, State::Interrupted);
    let mut alone = builder(&options());
    add_run(&mut alone, 80_000, 2, Ending::Stopped);
    let report = alone.finish(true);
    assert_eq!(rates(&report), Some((8_000.0, 1)));
    assert!(report.end.noise.iter().any(|noise| noise.contains("no run is whole")), "{:?}", report.end.noise);
}

/// Returns the report of a search that was ended after two runs, at two rates, with a note.
pub(crate) fn cut_search(note: &str) -> Report {
    let mut builder = builder(&options());
    add_run(&mut builder, 80_000, 20, Ending::Whole);
    add_run(&mut builder, 40_000, 20, Ending::Whole);
    builder.course.note(note);
    builder.finish(true)
}

#[test]
fn a_search_that_was_ended_early_has_no_median_over_its_rates() {
    let report = cut_search("it was cut");
    assert_eq!(report.end.rows, []);
    assert!(report.end.sums.sum_received.is_some(), "what was counted is still told");
}

#[test]
fn a_run_that_ended_before_its_measured_part_has_no_figures_and_keeps_its_account() {
    let mut builder = builder(&options());
    builder.begin_run(0, Rate::Bits(80_000));
    let unmeasured = |mut side: SideResult| {
        side.flows[0].measured_ns = None;
        side
    };
    let ours = unmeasured(side(SENDER, sent(5), Count::default(), None));
    let theirs = unmeasured(side(RECEIVER, received(5, 0), Count::default(), Some(account(5, 5))));
    builder.end_run(ours, Some(theirs), Ending::Stopped);
    let report = builder.finish(true);
    assert_eq!((report.end.sums, report.end.rows), (Sums::default(), Vec::new()));
    assert!(report.end.streams[0].account.as_ref().unwrap().is_loss_free());
}

#[test]
fn an_interval_of_a_run_that_ended_early_does_not_begin_behind_its_end() {
    let mut builder = builder(&options());
    builder.begin_run(0, Rate::Bits(80_000));
    let ended = |mark| Some(Live { at_ns: 130_000_000, ..live(mark, SENDER, sent(13)).unwrap() });
    for (mark, span) in [(1, (0.0, 0.03)), (2, (0.03, 0.03))] {
        let interval = builder.interval(mark, ended(mark), None).sums.sum_sent.unwrap();
        assert_eq!((interval.start, interval.end), span, "mark {mark}");
    }
}

#[test]
fn receivers_of_a_group_do_not_multiply_the_rate() {
    let options = Options { protocol: Protocol::Multicast, receivers: 2, ..options() };
    let mut builder = builder(&options);
    builder.begin_run(0, Rate::Bits(80_000));
    let ours = side(SENDER, sent(30), sent(10), None);
    let member = |number| {
        let key = FlowKey { receiver: Some(number), ..SENDER };
        side(key, received(30, 0), received(10, 0), Some(account(30, 30))).flows
    };
    let both = [member(0), member(1)].concat();
    let theirs = SideResult { flows: both, ..side(RECEIVER, sent(0), sent(0), None) };
    builder.end_run(ours, Some(theirs), Ending::Whole);
    let report = builder.finish(false);
    let sums = report.end.sums;
    assert_eq!(sums.sum_received.unwrap().bits_per_second, sums.sum_sent.unwrap().bits_per_second);
    assert_eq!(sums.sum_received.unwrap().packets, Some(40), "both are counted");
    assert_eq!(rates(&report), Some((80_000.0, 1)));
    assert!(report.end.rows[0].case.ends_with("/2receivers"), "{}", report.end.rows[0].case);
}
