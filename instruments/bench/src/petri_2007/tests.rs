//! Conclusions from measurements with known answers.

use super::*;
use crate::report::{State, check_against_schema};

/// A path with these round-trip times for a message of one byte and for the largest, and with these rates in
/// one stream and in several. Units: microseconds, bits per second.
fn found(mtu: Option<u32>, small: u64, large: u64, rates: (f64, f64)) -> Found {
    let row = |rate: f64| Some(Row { median: rate, min: rate, max: rate, ..Row::example() });
    let mut pingpong = pingpong::report_of(&["reno", "cubic"], &[(1, small), (LARGEST, large)]);
    // Three repeats with equal figures.
    pingpong.end.rows.iter_mut().for_each(|row| (row.min, row.max, row.runs) = (row.median, row.median, 3));
    Found { mtu, pingpong: Some(pingpong), one_stream: row(rates.0), streams: row(rates.1) }
}

fn agreements(found: &[Found]) -> Vec<Agreement> {
    conclusions(found).into_iter().map(|it| it.agreement).collect()
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
fn a_path_like_the_documents_agrees_with_it() {
    let all =
        [found(Some(1_500), 20_000, 55_000, (1e9, 3e9)), found(Some(9_000), 20_100, 33_000, (2e9, 4e9))];
    assert_eq!(agreements(&all)[..3], [Agreement::Agrees; 3]);
    let here = &conclusions(&all)[0].here;
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
    let conclusions = conclusions(&all);
    for conclusion in &conclusions[..3] {
        assert_eq!(conclusion.agreement, Agreement::NotMeasured, "{conclusion:?}");
        assert!(conclusion.here.contains("spread over more"), "{}", conclusion.here);
    }
}

#[test]
fn one_path_tells_nothing_of_jumbo_frames_and_says_what_it_takes() {
    let all = [found(None, 20, 40_000, (1e9, 2e9))];
    let it = &conclusions(&all)[0];
    assert_eq!(it.agreement, Agreement::NotMeasured);
    assert!(it.here.contains("cannot be judged here") && it.here.contains("--netns"), "{}", it.here);
    assert_eq!(conclusions(&all)[1].agreement, Agreement::Agrees);
}

#[test]
fn every_line_of_the_documents_table_has_our_figure_or_the_reason_why_not() {
    let all = [found(Some(1_500), 20, 40_000, (1e9, 1e9))];
    let table = table(&all, &controls());
    assert!(table.iter().all(|line| line.here.is_some() == line.remark.is_empty()), "{table:#?}");
    let line = |what: &str| table.iter().find(|line| line.what == what).unwrap();
    assert_eq!(line("tcppp, mtu1500, reno").here.as_ref().unwrap().median, 10.0);
    assert_eq!(line("tcppp, mtu1500, reno").source, Some(9_697.0));
    assert!(line("tcppp, mtu1500, bic").remark.contains("sudo modprobe tcp_bic"));
    assert!(line("tcppp, mtu9000, reno").remark.contains("no path with MTU 9000"));
    assert!(line("udtpp, mtu1500, default").remark.contains("not yet here"));
    assert!(line("vtspp, mtu1500, udt").remark.contains("not yet here"));
    assert!(line("visitpp, mtu9000, reno").remark.contains("not reproduced"));
    // Figures that the report does not have come last, without one of its own.
    let ours = line("pingpong, MTU 1500, tcp cubic");
    assert_eq!((ours.source, ours.here.is_some()), (None, true));
    assert_eq!(table.len(), 2 * TABLE.len() + 2);
}

#[test]
fn both_grids_are_in_order_and_the_full_one_is_as_long_as_the_documents() {
    for grid in [Grid::Short, Grid::Full] {
        let options = pingpong_options(grid, &controls());
        assert_eq!(options.check(), Ok(()));
        assert_eq!((options.sizes[0], options.sizes.last()), (1, Some(&LARGEST)));
        assert_eq!(throughput_options(grid, STREAMS).check(), Ok(()));
    }
    assert_eq!(throughput_options(Grid::Full, 1).duration, Duration::from_secs(60));
}

#[test]
fn the_report_has_its_published_form() {
    let controls = controls();
    let mut it = Measuring {
        grid: Grid::Short,
        congestion_controls: &controls,
        found: vec![found(Some(1_500), 20, 40_000, (1e9, 1e9))],
        report: Reproduction::begin("003", Grid::Short),
    };
    let pingpong = it.found[0].pingpong.clone().unwrap();
    it.report.measured("ping-pong", &pingpong, &pingpong.end.rows, &pingpong.end.noise);
    let refused = it.over(Err("no way there".to_owned()), |_| Ok(()));
    assert_eq!(it.report.take("one TCP stream", refused, |()| (&[], Vec::new(), State::Complete)), None);
    let it = it.end(false);
    check_against_schema(&it, "bench-pingpong");
    assert_eq!((it.state, it.parts.len(), it.counts().0), (State::BrokenOff, 2, 1));
}
