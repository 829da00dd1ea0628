//! Points with known answers, for tests of conclusions, and tests of what is computed in them.

use super::*;
use crate::report::stored;
use crate::throughput::example_account;

/// Returns a report of two sizes and two buffers, with and without load.
pub(crate) fn example() -> Report {
    stored("sweep-load")
}

/// Returns a run of a second that sent `sent` of 1,000 bits and lost `lost` of them.
pub(crate) fn run(sent: u64, lost: u64) -> Run {
    let received = sent - lost;
    Run {
        sent_bits_per_second: Some(sent as f64 * 1_000.0),
        received_bits_per_second: Some(received as f64 * 1_000.0),
        account: Some(example_account(sent, received)),
        ..example().points[0].runs.remove(0)
    }
}

/// Returns a point of three equal runs.
pub(crate) fn point(
    payload_bytes: u64,
    receive_buffer_bytes: Option<u64>,
    cpu_load_percent: f64,
    lost: u64,
) -> Point {
    let point = example().points.remove(usize::from(cpu_load_percent > 0.0));
    let granted = receive_buffer_bytes.or(point.granted_receive_buffer_bytes);
    let applied_load = point.runs[0].applied_load;
    Point {
        receive_buffer_bytes,
        payload_bytes,
        cpu_load_percent,
        runs: vec![Run { applied_load, receive_buffer_bytes: granted, ..run(100_000, lost) }; 3],
        granted_receive_buffer_bytes: granted,
        ..point
    }
}

#[test]
fn every_point_has_a_row_for_each_figure_and_one_for_the_load_where_there_was_some() {
    let report = example();
    assert_eq!(report.points.iter().flat_map(|point| point.rows("udp")).collect::<Vec<_>>(), report.rows);
    let row = report.rows.iter().find(|row| row.metric == "lost_percent").unwrap();
    assert_eq!((row.case.as_str(), row.median), ("64B/max/send system/receive system/burn 0%", 50.0));
    let applied_load = report.rows.iter().find(|row| row.metric == "burned_cpu_percent").unwrap();
    assert_eq!((applied_load.median, applied_load.runs), (98.0, 3));
}

#[test]
fn with_trains_it_is_another_system() {
    let of = |gso, gro| Settings::of(&Options { gso, gro, ..Options::default() }).system();
    assert_eq!([of(false, false), of(true, false), of(true, true)], ["udp", "udp+gso", "udp+gso+gro"]);
    let mut builder = Builder::new(&Options { gro: true, ..Options::default() });
    builder.points.push(point(64, None, 0.0, 0));
    assert!(builder.finish(false).rows.iter().all(|row| row.system == "udp+gro"));
}

#[test]
fn the_least_that_was_granted_in_any_run_is_what_a_point_had() {
    let mut runs = point(64, Some(1 << 20), 0.0, 0).runs;
    let granted = |runs: &[Run]| Granted::of(runs.iter());
    assert_eq!(granted(&runs), Granted { send: Some(106_496), receive: Some(1 << 20) });
    runs[2].receive_buffer_bytes = Some(212_992);
    assert_eq!(granted(&runs).receive, Some(212_992));
    runs.iter_mut().for_each(|run| run.receive_buffer_bytes = None);
    assert_eq!(granted(&runs), Granted { send: Some(106_496), receive: None });
}

#[test]
fn a_run_that_is_not_whole_is_in_no_median_and_is_said() {
    let mut point = point(64, None, 0.0, 10);
    point.runs[0] = Run { trouble: Some("the server was ended".to_owned()), ..run(1, 1) };
    assert_eq!(point.lost_percent().unwrap().count, 2);
    assert_eq!(point.judge_noise(true), ["a run is not whole: the server was ended"]);
}

#[test]
fn the_load_that_was_put_on_is_no_disturbance_and_other_work_is() {
    let mut point = point(64, None, 50.0, 10);
    assert_eq!(point.judge_noise(true), Vec::<String>::new());
    point.runs[1].client_elsewhere_cpus = Some(0.5);
    assert_eq!(point.judge_noise(true), ["other work kept 0.5 CPUs of this host busy"]);
}

#[test]
fn nothing_sent_has_no_loss() {
    assert_eq!(run(0, 0).lost_percent(), None);
    assert_eq!(run(1_000, 1).lost_percent(), Some(0.1));
}

#[test]
fn a_search_that_was_cut_has_no_runs_at_a_rate_and_its_notes_are_those_of_the_sweep() {
    const NOTE: &str = "datagrams left one by one although --gso was asked for";
    let add = |loss_below_ppm| {
        let options = Options { rates: vec![Rate::Bits(80_000)], loss_below_ppm, ..Options::default() };
        let mut builder = Builder::new(&options);
        builder.add(&options.places()[0], throughput::cut_search(NOTE));
        builder.finish(true)
    };
    let report = add(Some(1_000));
    let point = &report.points[0];
    assert_eq!((point.runs.len(), point.highest, report.rows.len()), (0, None, 0));
    assert!(point.noise.iter().any(|noise| noise.contains("did not come to its end")), "{:?}", point.noise);
    assert_eq!(point.granted_receive_buffer_bytes, Some(106_496), "what was tried is known");
    assert!(report.end.notes.iter().any(|note| note == NOTE), "{:?}", report.end.notes);
    assert_eq!(add(None).points[0].runs.len(), 2, "runs at a rate are those of the point");
}
