//! Conclusions from reports with known answers: the example, and variants of it.

use super::*;
use crate::cycle::{self, Outcome};
use crate::report::check_printed;

/// The example, undisturbed.
fn example_report() -> Report {
    let mut report = cycle::example_report();
    for point in &mut report.points {
        let Outcome::Measured { noise, .. } = &mut point.outcome else { continue };
        noise.clear();
    }
    report
}

/// Compares a report of one quota with given sizes: shared memory, UDP, for two cycle times.
fn agreements(change: impl FnOnce(&mut Report)) -> Vec<Agreement> {
    let mut report = example_report();
    change(&mut report);
    compare(&report, Grid::Short).conclusions.into_iter().map(|it| it.agreement).collect()
}

#[test]
fn what_was_not_measured_is_not_concluded() {
    let all = agreements(|report| report.points.clear());
    assert_eq!(all, [Agreement::NotMeasured; 6]);
}

#[test]
fn the_example_agrees_where_it_does() {
    use Agreement::{Agrees, Differs, NotMeasured};
    // 12,000 and 60,000 by UDP, 210,000 and 1,000,000 by shared memory, at 0.3 CPUs alone.
    assert_eq!(agreements(|_| {}), [Agrees, Differs, Differs, Agrees, NotMeasured, NotMeasured]);
}

#[test]
fn udp_ahead_is_a_break_even() {
    let all = agreements(|report| {
        let transports = report.points.iter_mut().map(|point| &mut point.transport);
        transports.for_each(|it| {
            *it = if *it == Transport::Udp { Transport::Shm } else { Transport::Udp };
        });
    });
    assert_eq!(all[..3], [Agreement::Differs, Agreement::Differs, Agreement::Agrees]);
}

#[test]
fn a_point_that_carried_nothing_has_no_ratio() {
    let mut report = example_report();
    let Outcome::Measured { elements, .. } = &mut report.points[0].outcome else { panic!() };
    elements.median = 0.0;
    let comparison = compare(&report, Grid::Short);
    let here = &comparison.conclusions[0].here;
    assert_eq!(
        here,
        "more by shared memory at 2 of 2 points, 16.7 to 16.7 times as much; at 1 of them one of the two carried nothing"
    );
    assert_eq!(comparison.conclusions[1].agreement, Agreement::NotMeasured);
    assert_eq!((comparison.points, comparison.noisy_points), (4, 0));
}

/// Sets the medians of the points of each of these transports, in the order of their cycle times.
fn set_medians(report: &mut Report, transports: &[Transport], medians: &[f64]) {
    for transport in transports {
        let points = report.points.iter_mut().filter(|point| point.transport == *transport);
        for (point, median) in points.zip(medians) {
            let Outcome::Measured { elements, .. } = &mut point.outcome else { panic!() };
            elements.median = *median;
        }
    }
}

#[test]
fn where_neither_transport_carried_anything_nothing_is_concluded() {
    let mut report = example_report();
    set_medians(&mut report, &Transport::ALL, &[0.0, 0.0]);
    for conclusion in &compare(&report, Grid::Short).conclusions[..4] {
        assert_eq!(conclusion.agreement, Agreement::NotMeasured, "{}", conclusion.source);
        assert_eq!(conclusion.here, "not measured; left out: 2 at which neither carried anything");
    }
    // At one of two cycle times: the other is judged alone.
    let mut report = example_report();
    set_medians(&mut report, &Transport::ALL, &[0.0]);
    let conclusions = compare(&report, Grid::Short).conclusions;
    assert_eq!((conclusions[0].agreement, conclusions[2].agreement), (Agreement::Agrees, Agreement::Differs));
    assert_eq!(
        conclusions[2].here,
        "UDP carried as much as shared memory at no point; left out: 1 at which neither carried anything"
    );
    assert!(conclusions[0].here.starts_with("more by shared memory at 1 of 1 points"));
}

#[test]
fn where_both_reached_the_limit_it_is_not_known_which_carries_more() {
    let mut report = example_report();
    set_medians(&mut report, &Transport::ALL, &[1_000_000.0, 1_000_000.0]);
    let conclusions = compare(&report, Grid::Short).conclusions;
    for index in [0, 1, 2] {
        assert_eq!(conclusions[index].agreement, Agreement::NotMeasured);
        assert_eq!(conclusions[index].here, "not measured; left out: 2 at which both reached the limit");
    }
    // One element below the limit UDP is behind, and the point counts.
    let mut report = example_report();
    set_medians(&mut report, &[Transport::Udp], &[999_999.0, 999_999.0]);
    set_medians(&mut report, &[Transport::Shm], &[1_000_000.0, 1_000_000.0]);
    let conclusions = compare(&report, Grid::Short).conclusions;
    assert_eq!((conclusions[0].agreement, conclusions[2].agreement), (Agreement::Agrees, Agreement::Differs));
    assert!(!conclusions[0].here.contains("left out"), "{}", conclusions[0].here);
}

#[test]
fn more_cpu_and_the_limit_are_compared_where_they_were_measured() {
    let all = agreements(|report| {
        let mut more = report.points.clone();
        more.iter_mut().for_each(|point| point.cpus = Some(1.5));
        report.points.append(&mut more);
    });
    // Nothing changed with more, which is half of that conclusion; every search at 10 ms reached the limit.
    assert_eq!(all[4..], [Agreement::Partly, Agreement::Agrees]);
}

#[test]
fn noisy_points_judge_nothing_and_stand_in_the_table() {
    let comparison = compare(&cycle::example_report(), Grid::Short);
    assert_eq!((comparison.points, comparison.noisy_points), (4, 4));
    for it in &comparison.conclusions {
        assert_eq!(it.agreement, Agreement::NotMeasured, "{it:?}");
        assert!(it.here.contains("4 noisy points"), "{}", it.here);
    }
    let line = |what: &str| comparison.table.iter().find(|line| line.what == what).unwrap();
    let above = line("0.3 CPUs, shared memory: all above");
    assert_eq!((above.source, above.here.as_ref().map(|row| row.min)), (Some(200_000.0), Some(210_000.0)));
    assert!(line("1.5 CPUs, UDP: range of the repeats").remark.ends_with("it was not measured"));
    assert_eq!(line("limit of the search").source, Some(1_000_000.0));
}

#[test]
fn every_number_of_the_source_stands_beside_ours_or_a_reason() {
    let list = include_str!("../../tests/printed/004.tsv");
    let mut report = example_report();
    let mut more = report.points.clone();
    more.iter_mut().for_each(|point| point.cpus = Some(1.5));
    report.points.append(&mut more);
    let table = table(&report);
    check_printed(list, &table);
    let line = |what: &str| table.iter().find(|line| line.what == what).unwrap();
    let always = line("1.5 CPUs, shared memory: always at the limit above").here.as_ref();
    assert_eq!(always.map(|row| row.median), Some(10.0), "every search at 10 ms, and not at 2 ms");
    report.points.clear();
    check_printed(list, &super::table(&report));
}

#[test]
fn both_grids_are_in_order_and_the_short_one_is_short() {
    let (short, full) = (options(Grid::Short), options(Grid::Full));
    assert_eq!((short.check(), full.check()), (Ok(()), Ok(())));
    assert!(short.longest() < Duration::from_secs(450), "{:?}", short.longest());
    assert!(full.longest() > Duration::from_secs(10 * 3_600), "{:?}", full.longest());
}

#[test]
fn every_quota_of_the_source_names_its_figures() {
    for cpus in options(Grid::Full).cpus {
        assert!(figures(cpus.cpus()).contains("Scollo"), "{cpus}");
    }
    assert_eq!(figures(None), "");
}
