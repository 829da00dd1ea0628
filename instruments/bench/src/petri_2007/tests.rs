//! Conclusions from measurements with known answers.

use super::*;
use crate::report::{State, check_against_schema, check_printed};

/// A path with these round-trip times for a message of one byte and for the largest, over TCP and over UDT alike, and with
/// these rates in one stream and in several. Units: microseconds, bits per second.
fn found(mtu: Option<u32>, small: u64, large: u64, rates: (f64, f64)) -> Found {
    let row = |rate: f64| Some(Row { median: rate, min: rate, max: rate, ..Row::example() });
    let options = pingpong_options(Grid::Short, &controls());
    let systems = options.systems.into_iter().filter(|system| *system != System::Udp).collect();
    let mut pingpong = pingpong::report_of(systems, &[(1, small), (LARGEST, large)]);
    // Three repeats with equal figures.
    pingpong.end.rows.iter_mut().for_each(|row| (row.min, row.max, row.runs) = (row.median, row.median, 3));
    Found {
        mtu,
        pingpong: Some(pingpong),
        one_stream: row(rates.0),
        streams: row(rates.1),
        ..Found::default()
    }
}

/// Sets the figures of our UDT alone to this multiple.
fn slow_udt(found: &mut Found, times: f64) {
    let rows = found.pingpong.iter_mut().flat_map(|it| &mut it.end.rows).filter(|row| row.system == UDT);
    for row in rows {
        let times = if row.metric == RATE { 1.0 / times } else { times };
        (row.min, row.median, row.max) = (row.min * times, row.median * times, row.max * times);
    }
}

fn agreements(found: &[Found]) -> Vec<Agreement> {
    conclusions(found, None).into_iter().map(|it| it.agreement).collect()
}

const CONTROLS: [&str; 2] = ["reno", "cubic"];

fn controls() -> Vec<String> {
    CONTROLS.map(str::to_owned).to_vec()
}

#[test]
fn what_was_not_measured_is_not_concluded() {
    assert_eq!(agreements(&[]), [Agreement::NotMeasured; 8]);
    assert_eq!(agreements(&[Found::default()]), [Agreement::NotMeasured; 8]);
}

#[test]
fn our_transport_answers_the_reports_question_where_the_path_carries_a_gigabit() {
    // 9.3 MB in 33 ms are 2.3 Gbit/s, in 55 ms 1.4 Gbit/s.
    let fast =
        [found(Some(1_500), 20_000, 55_000, (1e9, 3e9)), found(Some(9_000), 20_000, 33_000, (2e9, 4e9))];
    assert_eq!(agreements(&fast)[3..6], [Agreement::Agrees, Agreement::Differs, Agreement::Differs]);
    let mut slow = fast.clone();
    slow.iter_mut().for_each(|it| slow_udt(it, 4.0));
    assert_eq!(agreements(&slow)[3..6], [Agreement::Differs, Agreement::Agrees, Agreement::Differs]);
    // A path that carries less to TCP as well tells nothing of UDT.
    let narrow = [found(Some(1_500), 20_000, 90_000, (5e8, 5e8))];
    let it = &conclusions(&narrow, None)[4];
    assert!(it.here.contains("carries no more to TCP, either"), "{}", it.here);
    // Nor does a short one of its latency.
    let short = [found(Some(1_500), 20, 55_000, (1e9, 3e9))];
    assert!(conclusions(&short, None)[3].here.contains("no path here is long"));
}

#[test]
fn a_lost_packet_is_judged_where_the_link_carries_a_gigabit_without_it() {
    let rows = |without: f64, with: f64| {
        let row = |rate| Some(Row { median: rate, min: rate, max: rate, ..Row::example() });
        WithLoss { without: row(without), with: row(with), noise: Vec::new() }
    };
    let agreement = |it: &WithLoss| one_loss(Some(it)).agreement;
    assert_eq!(agreement(&rows(2e9, 5e8)), Agreement::Agrees);
    assert_eq!(agreement(&rows(2e9, 1.9e9)), Agreement::Differs);
    assert_eq!(agreement(&rows(9e8, 1e8)), Agreement::NotMeasured);
    assert_eq!(one_loss(None).agreement, Agreement::NotMeasured);
}

#[test]
fn no_verdict_stands_over_a_disturbed_measurement() {
    let mut all =
        [found(Some(1_500), 20_000, 55_000, (1e9, 3e9)), found(Some(9_000), 20_100, 33_000, (2e9, 4e9))];
    all[0].disturbances = vec!["the emulated link: late".to_owned()];
    all[1].noise_of_streams = vec!["other work".to_owned()];
    let with_loss = WithLoss {
        without: all[0].streams.clone(),
        with: all[0].one_stream.clone(),
        noise: vec!["other work".to_owned()],
    };
    for it in conclusions(&all, Some(&with_loss)) {
        assert_eq!(it.agreement, Agreement::NotMeasured, "{it:?}");
    }
}

#[test]
fn a_path_like_the_documents_agrees_with_it() {
    let all =
        [found(Some(1_500), 20_000, 55_000, (1e9, 3e9)), found(Some(9_000), 20_100, 33_000, (2e9, 4e9))];
    assert_eq!(agreements(&all)[..3], [Agreement::Agrees; 3]);
    let here = &conclusions(&all, None)[0].here;
    assert!(here.starts_with("with MTU 9000 reno 1.67 times the rate, cubic 1.67 times the rate"), "{here}");
}

#[test]
fn a_path_on_which_nothing_helps_differs() {
    let all = [found(Some(1_500), 20, 40_000, (1e9, 1e9)), found(Some(9_000), 90, 41_000, (1e9, 0.9e9))];
    assert_eq!(agreements(&all)[..3], [Agreement::Differs; 3]);
}

#[test]
fn what_repeats_spread_over_is_neither_agreement_nor_difference() {
    let mut all =
        [found(Some(1_500), 20_000, 55_000, (1e9, 3e9)), found(Some(9_000), 20_100, 33_000, (2e9, 4e9))];
    for it in &mut all {
        let rows = it.pingpong.iter_mut().flat_map(|it| &mut it.end.rows).chain(&mut it.streams);
        rows.for_each(|row| (row.min, row.max) = (row.median / 4.0, row.median * 4.0));
    }
    let conclusions = conclusions(&all, None);
    for conclusion in &conclusions[..3] {
        assert_eq!(conclusion.agreement, Agreement::NotMeasured, "{conclusion:?}");
        assert!(conclusion.here.contains("spread over more"), "{}", conclusion.here);
    }
}

#[test]
fn one_path_tells_nothing_of_jumbo_frames_and_says_what_it_takes() {
    let all = [found(None, 20, 40_000, (1e9, 2e9))];
    let it = &conclusions(&all, None)[0];
    assert_eq!(it.agreement, Agreement::NotMeasured);
    assert!(it.here.contains("cannot be judged here") && it.here.contains("--netns"), "{}", it.here);
    assert_eq!(conclusions(&all, None)[1].agreement, Agreement::Agrees);
}

#[test]
fn every_line_of_the_documents_table_has_our_figure_or_the_reason_why_not() {
    let all = [found(Some(1_500), 20, 40_000, (1e9, 1e9))];
    let table = table(&all, &controls());
    let line = |what: &str| table.iter().find(|line| line.what == what).unwrap();
    assert_eq!(line("tcppp, mtu1500, reno").here.as_ref().unwrap().median, 10.0);
    assert_eq!(line("tcppp, mtu1500, reno").source, Some(9_697.0));
    assert!(line("tcppp, mtu1500, bic").remark.contains("sudo modprobe tcp_bic"));
    assert!(line("tcppp, mtu9000, reno").remark.contains("no path with MTU 9000"));
    for what in
        ["udtpp, mtu1500, default", "vtspp, mtu1500, udt", "vtspp, mtu1500, reno", "visitpp, mtu1500, udt"]
    {
        assert!(line(what).here.is_some(), "{what}");
    }
    assert!(line("visitpp, mtu9000, reno").remark.contains("no path with MTU 9000"));
    assert_eq!(line("path, mtu1500").here.as_ref().unwrap().median, 0.02);
    // Figures that the report does not have come last, without one of its own.
    let ours = line("pingpong, MTU 1500, tcp cubic");
    assert_eq!((ours.source, ours.here.is_some()), (None, true));
    assert_eq!(table.len(), 2 * TABLE.len() + MTUS.len() + 2);
}

#[test]
fn every_number_of_the_report_stands_beside_ours_or_a_reason() {
    let list = include_str!("../../tests/printed/003.tsv");
    let row = |rate: f64| Some(Row { median: rate, min: rate, max: rate, ..Row::example() });
    let with_loss = WithLoss { without: row(2e9), with: row(5e8), noise: Vec::new() };
    let both = MTUS.map(|mtu| found(Some(mtu), 20_000, 55_000, (1e9, 3e9)));
    let of = |found: &[Found], with_loss| {
        let tables = [table(found, &controls()), limits(found, with_loss), settings(Grid::Short)];
        tables.concat()
    };
    let all = of(&both, Some(&with_loss));
    check_printed(list, &all);
    check_printed(list, &of(&[], None));
    let line = |what: &str| all.iter().find(|line| line.what == what).unwrap();
    let lost = line("one TCP stream, a packet lost");
    assert_eq!((lost.source, lost.here.as_ref().map(|row| row.median)), (Some(1e9), Some(5e8)));
    for mtu in MTUS {
        let here = line(&format!("tcppp, mtu{mtu}, reno")).here.as_ref();
        assert_eq!(here.map(|row| row.median), Some(10_000.0));
    }
}

#[test]
fn both_grids_are_in_order_and_the_full_one_is_as_long_as_the_documents() {
    for grid in [Grid::Short, Grid::Full] {
        let options = pingpong_options(grid, &controls());
        assert_eq!(options.check(), Ok(()));
        assert_eq!((options.sizes[0], options.sizes.last()), (1, Some(&LARGEST)));
        assert_eq!(throughput_options(grid, STREAMS, &controls()).check(), Ok(()));
    }
    assert_eq!(throughput_options(Grid::Full, 1, &[]).duration, Duration::from_secs(60));
}

#[test]
fn the_report_has_its_published_form() {
    let controls = controls();
    let mut it = Measuring {
        grid: Grid::Short,
        congestion_controls: &controls,
        found: vec![found(Some(1_500), 20, 40_000, (1e9, 1e9))],
        with_loss: None,
        report: Reproduction::begin("003", Grid::Short),
    };
    let pingpong = it.found[0].pingpong.clone().unwrap();
    it.report.measured("ping-pong", &pingpong, &pingpong.end.rows, &pingpong.end.noise);
    it.report.disturb(&["the emulated link: late".to_owned()]);
    let (refused, _) = it.over(Err("no way there".to_owned()), |_| Ok(()));
    assert_eq!(it.report.take("one TCP stream", refused, |()| (&[], Vec::new(), State::Complete)), None);
    let it = it.end(false);
    check_against_schema(&it, "bench-pingpong");
    assert_eq!((it.state, it.parts.len(), it.counts()), (State::BrokenOff, 2, (1, 1)));
}
