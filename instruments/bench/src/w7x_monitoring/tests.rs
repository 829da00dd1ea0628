//! Conclusions from points with known answers.

use super::*;
use crate::control::scene::Unwatched;
use crate::report::{State, check_against_schema, check_printed};
use crate::sweep::{Run, example as example_report, example_point as point, example_run as run};

const LARGE: Option<u64> = Some(LARGE_BUFFER_BYTES as u64);

/// A point at a rate, at which `lost` of `sent` datagrams were lost.
fn at(rate: Rate, buffer: Option<u64>, sent: u64, lost: u64) -> Point {
    let granted = buffer.or(Some(106_496));
    let run = Run { receive_buffer_bytes: granted, ..run(sent, lost) };
    Point { rate, runs: vec![run; 3], granted_receive_buffer_bytes: granted, ..point(64, buffer, 50.0, 0) }
}

fn agreement(conclusion: Conclusion) -> Agreement {
    conclusion.agreement
}

#[test]
fn small_ones_lose_most_is_judged_with_and_without_load() {
    // Losses of 100,000 each.
    let mut points = vec![point(64, None, 0.0, 40_000), point(1_472, None, 0.0, 10)];
    assert_eq!(agreement(small_lose_most(&points)), Agreement::Agrees);
    points.extend([point(64, None, 50.0, 5_000), point(1_472, None, 50.0, 9_000)]);
    assert_eq!(agreement(small_lose_most(&points)), Agreement::Partly);
    // The remedied ones belong to another question.
    points.extend([point(64, LARGE, 0.0, 0), point(1_472, LARGE, 0.0, 90_000)]);
    assert_eq!(agreement(small_lose_most(&points)), Agreement::Partly);
    assert_eq!(agreement(small_lose_most(&points[..1])), Agreement::NotMeasured, "one size has no other");
}

#[test]
fn where_next_to_nothing_is_lost_nothing_is_concluded_of_loss() {
    let quiet = vec![point(64, None, 0.0, 0), point(64, None, 50.0, 10)];
    let conclusion = load_loses(&quiet);
    assert_eq!(conclusion.agreement, Agreement::NotMeasured);
    assert_eq!(conclusion.here, "cannot be judged here: 1 pair at which next to nothing was lost");
    let mut loaded = vec![point(64, None, 0.0, 0), point(64, None, 50.0, 11)];
    assert_eq!(agreement(load_loses(&loaded)), Agreement::Agrees);
    loaded[0].runs.iter_mut().for_each(|run| run.trouble = Some("it was cut".to_owned()));
    let cut = load_loses(&loaded);
    assert_eq!(cut.agreement, Agreement::NotMeasured);
    assert!(cut.here.contains("1 pair at which no run is whole, or nothing was sent"), "{}", cut.here);
}

#[test]
fn a_larger_buffer_is_judged_where_the_small_one_lost_and_the_rate_was_kept() {
    let (slow, fast) = (Rate::Units(1_000), Rate::Units(0));
    let mut points = vec![at(slow, None, 1_000, 100), at(slow, LARGE, 1_000, 0)];
    assert_eq!(agreement(buffer_remedies(&points)), Agreement::Agrees);
    // At full speed no buffer is large enough.
    points.extend([at(fast, None, 9_000, 5_000), at(fast, LARGE, 9_000, 5_000)]);
    assert_eq!(agreement(buffer_remedies(&points)), Agreement::Agrees);
    points.truncate(2);
    points[0] = at(slow, None, 1_000, 0);
    assert_eq!(agreement(buffer_remedies(&points)), Agreement::NotMeasured);
}

#[test]
fn fewer_arrive_past_a_critical_rate_or_they_do_not() {
    let rate = Rate::Units;
    let falling =
        [at(rate(1), None, 1_000, 0), at(rate(2), None, 2_000, 300), at(rate(0), None, 4_000, 3_000)];
    let conclusion = fewer_arrive(&falling);
    assert_eq!(conclusion.agreement, Agreement::Agrees);
    assert_eq!(
        conclusion.here,
        "buffer of the system: most, 1.7 Mbit/s, arrived at 2/s, and 1.0 Mbit/s at full speed"
    );
    let level = [at(rate(1), None, 1_000, 0), at(rate(2), None, 2_000, 0), at(rate(0), None, 4_000, 2_010)];
    assert_eq!(agreement(fewer_arrive(&level)), Agreement::Differs);
    assert_eq!(agreement(fewer_arrive(&level[..1])), Agreement::NotMeasured);
}

/// The point with other runs, given as sent and lost datagrams of each.
fn with_runs(point: Point, runs: &[(u64, u64)]) -> Point {
    let buffer = point.granted_receive_buffer_bytes;
    let run = |(sent, lost): &(u64, u64)| Run { receive_buffer_bytes: buffer, ..run(*sent, *lost) };
    Point { runs: runs.iter().map(run).collect(), ..point }
}

#[test]
fn no_critical_rate_is_concluded_where_nothing_was_lost_sent_or_was_whole() {
    let rate = Rate::Units;
    let lossless = [at(rate(1), None, 1_000, 0), at(rate(2), None, 2_000, 0)];
    let conclusion = fewer_arrive(&lossless);
    assert_eq!(conclusion.agreement, Agreement::NotMeasured);
    assert_eq!(
        conclusion.here,
        "cannot be judged here: buffer of the system: next to nothing was lost at any rate"
    );
    let silent = [at(rate(1), None, 1_000, 300), at(rate(2), None, 0, 0)];
    assert_eq!(agreement(fewer_arrive(&silent)), Agreement::NotMeasured, "nothing was sent beyond");
    let mut cut = [at(rate(1), None, 1_000, 0), at(rate(2), None, 2_000, 1_900)];
    assert_eq!(agreement(fewer_arrive(&cut)), Agreement::Agrees);
    cut[1].runs.iter_mut().for_each(|run| run.trouble = Some("it was cut".to_owned()));
    assert_eq!(agreement(fewer_arrive(&cut)), Agreement::NotMeasured);
}

#[test]
fn a_rate_at_which_no_more_was_sent_lies_not_beyond_and_spread_is_no_verdict() {
    let rate = Rate::Units;
    // Less of the same amount arrived: that is loss, not a critical rate.
    let alike = [at(rate(1), None, 1_000, 0), at(rate(0), None, 1_010, 400)];
    assert_eq!(agreement(fewer_arrive(&alike)), Agreement::Differs);
    let peak = at(rate(1), None, 1_000, 0);
    let wide = with_runs(at(rate(2), None, 0, 0), &[(2_000, 1_900), (2_000, 1_100), (2_000, 500)]);
    assert_eq!(agreement(fewer_arrive(&[peak, wide])), Agreement::NotMeasured);
}

#[test]
fn remedied_is_less_than_one_in_ten_thousand_in_every_run() {
    let of = |lost| vec![at(NORMAL_RATE, None, 100_000, 900), at(NORMAL_RATE, LARGE, 100_000, lost)];
    assert_eq!(agreement(remedied(&of(0))), Agreement::Agrees);
    assert_eq!(agreement(remedied(&of(9))), Agreement::Agrees);
    assert_eq!(agreement(remedied(&of(10))), Agreement::Differs);
    let once = |lost| {
        let mut points = of(0);
        points[1] = with_runs(points[1].clone(), &[(100_000, 0), (100_000, lost), (100_000, 0)]);
        remedied(&points)
    };
    assert_eq!(agreement(once(9)), Agreement::Agrees);
    assert!(once(10).here.contains("repeats spread over more"), "{}", once(10).here);
    assert_eq!(agreement(remedied(&[])), Agreement::NotMeasured);
}

#[test]
fn what_lost_nothing_before_or_was_cut_is_not_remedied() {
    let of =
        |before, after| vec![at(NORMAL_RATE, None, 100_000, before), at(NORMAL_RATE, LARGE, 100_000, after)];
    assert!(remedied(&of(0, 0)).here.contains("nothing was lost without the remedy, either"));
    assert_eq!(agreement(remedied(&of(0, 0))), Agreement::NotMeasured);
    assert_eq!(agreement(remedied(&of(0, 900))), Agreement::Differs, "a remedy that loses is none");
    let mut cut = of(900, 0);
    cut[1].runs.iter_mut().for_each(|run| run.trouble = Some("it was cut".to_owned()));
    let conclusion = remedied(&cut);
    assert_eq!(conclusion.agreement, Agreement::NotMeasured);
    assert!(conclusion.here.contains("no run is whole"), "{}", conclusion.here);
    assert_eq!(agreement(remedied(&[cut[0].clone(), at(NORMAL_RATE, LARGE, 0, 0)])), Agreement::NotMeasured);
}

#[test]
fn a_remedy_that_the_kernel_did_not_grant_is_not_judged_and_the_way_out_is_said() {
    let slow = Rate::Units(1_000);
    let mut points = vec![at(slow, None, 1_000, 100), at(slow, LARGE, 1_000, 0)];
    // One byte less than requested.
    points[1].granted_receive_buffer_bytes = LARGE.map(|bytes| bytes - 1);
    for conclusion in [buffer_remedies(&points), remedied(&points)] {
        assert_eq!(conclusion.agreement, Agreement::NotMeasured, "{conclusion:?}");
        assert!(conclusion.here.contains("sysctl -w net.core.rmem_max=8388608"), "{}", conclusion.here);
    }
    assert!(
        !fewer_arrive(&points).here.contains("8 MiB"),
        "a curve is not that of a buffer which it had not"
    );
    points[1].granted_receive_buffer_bytes = None;
    assert!(remedied(&points).here.contains("no run reported"), "{}", remedied(&points).here);
}

#[test]
fn what_fails_leaves_what_was_measured_before_and_is_said() {
    let mut it = Reproduction::begin("000", Grid::Short);
    let outcomes = [Ok(example_report()), Err("the server is busy"), Ok(example_report())];
    let parts = outcomes
        .map(|outcome| it.take("rates", outcome, |report| (&report.rows, report.noise(), report.end.state)));
    let it = assemble(it, parts, false);
    check_against_schema(&it, "bench-sweep");
    assert_eq!((it.state, it.counts().0, it.parts.len()), (State::BrokenOff, 2, 3));
    assert!(!it.table.is_empty() && !it.charts.is_empty());
    assert_ne!(it.conclusions[0].agreement, Agreement::NotMeasured, "the first part is judged");
    assert!(it.to_string().contains("rates was not measured: the server is busy"), "{it}");
    let it = assemble(Reproduction::begin("000", Grid::Short), [Some(example_report()), None, None], true);
    assert!(it.state == State::Interrupted && !it.table.is_empty());
    let mut cancelled = Unwatched::default();
    cancelled.cancellation().cancel();
    let ends = Ends { server: std::net::SocketAddr::from(([192, 0, 2, 7], 7430)).into(), from: None };
    let it = reproduce(Grid::Short, ends, &mut cancelled);
    assert_eq!((it.state, it.counts().0, it.parts.len()), (State::Interrupted, 0, 3));
}

#[test]
fn who_lost_is_read_from_the_accounts() {
    let mut points = vec![point(64, None, 0.0, 10)];
    let all = |points: &[Point]| {
        let conclusions = conclude(Found { sizes: points, ..Found::default() });
        (conclusions[5].agreement, conclusions[6].agreement)
    };
    assert_eq!(all(&points), (Agreement::Agrees, Agreement::Agrees));
    let Run { account: Some(account), .. } = &mut points[0].runs[0] else { panic!() };
    account.lost.insert("sender_qdisc".to_owned(), 1);
    account.received -= 1;
    assert_eq!(all(&points), (Agreement::Differs, Agreement::Partly));
    points[0].runs[0].trouble = Some("it was cut".to_owned());
    assert_eq!(all(&points), (Agreement::Agrees, Agreement::Agrees), "a run that was cut is left out");
    assert_eq!(all(&[]), (Agreement::NotMeasured, Agreement::NotMeasured));
}

#[test]
fn without_a_card_and_a_link_it_is_said_what_cannot_be_judged() {
    assert!(without_a_network().iter().all(|it| it.here.starts_with("cannot be judged here: ")));
    let noisy = |mut report: Report| {
        report.points.iter_mut().for_each(|point| point.noise = vec!["other work".to_owned()]);
        report
    };
    let parts = [Some(noisy(example_report())), None, None];
    let it = assemble(Reproduction::begin("000", Grid::Short), parts, false);
    assert_eq!(it.conclusions[7..], without_a_network(), "no quiet point could judge them, either");
}

#[test]
fn every_number_of_the_paper_stands_beside_ours_or_a_reason() {
    let list = include_str!("../../tests/printed/000.tsv");
    let of = |parts| assemble(Reproduction::begin("000", Grid::Short), parts, false).table;
    check_printed(list, &of([Some(example_report()), None, Some(example_report())]));
    check_printed(list, &of([None, None, None]));
}

#[test]
fn both_plans_are_in_order_and_the_short_one_is_short() {
    for grid in [Grid::Short, Grid::Full] {
        let Plan { sizes, rates, normal } = Plan::of(grid);
        assert_eq!([sizes.check(), rates.check(), normal.check()], [Ok(()), Ok(()), Ok(())]);
    }
    assert!(Plan::of(Grid::Short).about() < Duration::from_secs(150));
    assert!(Plan::of(Grid::Full).about() > Duration::from_secs(3_000));
}
