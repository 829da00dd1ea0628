//! Conclusions from points with known answers.

use super::*;
use crate::capacity::{example, example_point as point};
use crate::report::{check_against_schema, check_printed};
use ThreadingModel::{OwnProcesses, SharedThreads};

fn agreements(points: &[Point]) -> Vec<Agreement> {
    conclude(points, true).into_iter().map(|it| it.agreement).collect()
}

/// The notes' own points, with loss at all of them.
fn sources() -> Vec<Point> {
    vec![
        point(OwnProcesses, 1, 1, 791_676, 400_000),
        point(OwnProcesses, 2, 1, 1_016_197, 300_000),
        point(OwnProcesses, 8, 1, 1_491_744, 100_000),
        point(SharedThreads, 1, 1, 791_676, 400_000),
        point(SharedThreads, 2, 1, 509_868, 700_000),
    ]
}

#[test]
fn the_sources_own_figures_agree_with_its_conclusions() {
    use Agreement::{Agrees, NotMeasured};
    assert_eq!(agreements(&sources()), [Agrees, Agrees, Agrees, NotMeasured, Agrees, NotMeasured]);
    assert_eq!(agreements(&[]), [NotMeasured; 6]);
}

#[test]
fn what_more_processes_gain_is_judged_for_each_size_as_the_source_states_it() {
    let mut points = sources();
    let (one, eight) =
        (point(OwnProcesses, 1, 100, 571_433, 180_000), |rate| point(OwnProcesses, 8, 100, rate, 1_000));
    points.extend([one, eight(600_000)]);
    let of = |points: &[Point], same_host| {
        let [_, _, gain, little, ..] = &conclude(points, same_host)[..] else { panic!() };
        (gain.agreement, little.agreement)
    };
    assert_eq!(of(&points, false), (Agreement::Agrees, Agreement::Agrees), "no tenth more");
    *points.last_mut().unwrap() = eight(1_200_000);
    assert_eq!(of(&points, false), (Agreement::Agrees, Agreement::Differs));
    assert_eq!(of(&points, true).1, Agreement::NotMeasured, "the card that limited the source is not here");
    let here = &conclude(&points, true)[3].here;
    assert!(here.contains("/s by 8 processes, ") && here.contains("/s by one"), "{here}");
    // A size that is not in the notes says nothing about their statement.
    let other = [point(OwnProcesses, 1, 1_472, 100, 50), point(OwnProcesses, 8, 1_472, 900, 50)];
    assert_eq!(of(&other, false), (Agreement::NotMeasured, Agreement::NotMeasured));
}

#[test]
fn repeats_that_are_all_over_the_place_are_no_verdict() {
    let mut points = sources();
    for (run, rate) in points[4].runs.iter_mut().zip([100.0, 700_000.0, 2_000_000.0]) {
        run.packets_per_second = rate;
    }
    let conclusion = &conclude(&points, true)[1];
    assert_eq!(conclusion.agreement, Agreement::NotMeasured);
    assert!(
        conclusion.here.contains("cannot be judged here: repeats spread over more"),
        "{}",
        conclusion.here
    );
}

#[test]
fn without_a_network_card_it_is_said_why_it_is_not_the_limit() {
    let here = &conclude(&sources(), true)[5].here;
    assert!(here.starts_with("cannot be judged here: both ends are on one host"), "{here}");
    let mut points = sources();
    assert_eq!(conclude(&points, false)[5].agreement, Agreement::Differs, "nothing was idle");
    points[2].runs[2].processors.as_mut().unwrap().idle = 50.0;
    // A run that was cut short says nothing about the peak.
    let cut = capacity::Run { trouble: Some("it was cut".to_owned()), ..points[0].runs[0].clone() };
    points[2].runs.push(cut);
    let between_hosts = &conclude(&points, false)[5];
    assert_eq!(between_hosts.agreement, Agreement::NotMeasured, "idle processors say nothing of the card");
    assert!(
        between_hosts.here.contains("how busy the network card was is not read"),
        "{}",
        between_hosts.here
    );
}

#[test]
fn threads_ahead_are_a_difference_and_alike_is_not_more() {
    let mut points = sources();
    points[4] = point(SharedThreads, 2, 1, 1_500_000, 100_000);
    assert_eq!(agreements(&points)[..2], [Agreement::Differs; 2]);
    points[4] = point(SharedThreads, 2, 1, 1_000_000, 100_000);
    let conclusion = &conclude(&points, true)[0];
    assert_eq!(conclusion.agreement, Agreement::Differs);
    assert!(
        conclusion.here.contains("at 0 of 1 points, less at 0; 1.02 to 1.02 times"),
        "{}",
        conclusion.here
    );
}

#[test]
fn where_the_senders_were_the_limit_nothing_is_concluded() {
    let points: Vec<Point> = sources()
        .into_iter()
        .map(|it| point(it.threading_model, it.workers, it.payload_bytes, 700_000, 0))
        .collect();
    let conclusions = conclude(&points, true);
    assert!(conclusions.iter().all(|it| it.agreement == Agreement::NotMeasured), "{conclusions:?}");
    assert_eq!(
        conclusions[0].here,
        "cannot be judged here: next to nothing was lost, the senders were the limit"
    );
    assert!(conclusions[4].here.contains("one process lost next to nothing"));
}

#[test]
fn of_loss_nothing_is_concluded_where_a_run_was_cut_or_nothing_was_sent() {
    let of = |points: &[Point]| conclude(points, true).remove(4);
    assert_eq!(of(&sources()).agreement, Agreement::Agrees);
    let mut silent = sources();
    silent[2] = point(OwnProcesses, 8, 1, 0, 0);
    silent[2].runs.iter_mut().for_each(|run| (run.account.sent, run.account.received) = (0, 0));
    assert_eq!(of(&silent).agreement, Agreement::NotMeasured, "nothing sent is not nothing lost");
    assert!(of(&silent).here.contains("1 B, since no run is whole in which anything was sent"));
    let mut cut = sources();
    cut[2].runs.iter_mut().for_each(|run| run.trouble = Some("it was cut".to_owned()));
    assert_eq!(of(&cut).agreement, Agreement::NotMeasured);
    // Another size is judged, and the one left out is named.
    cut.extend([point(OwnProcesses, 1, 100, 500_000, 400_000), point(OwnProcesses, 8, 100, 900_000, 1_000)]);
    assert_eq!(of(&cut).agreement, Agreement::Agrees);
    assert!(of(&cut).here.contains("; left out: 1 B, since no run is whole"), "{}", of(&cut).here);
    let mut wide = sources();
    for (run, lost) in wide[2].runs.iter_mut().zip([0, 400_000, 1_400_000]) {
        run.account =
            crate::throughput::Account { sent: 1_500_000, received: 1_500_000 - lost, ..run.account.clone() };
        run.account.lost.insert("receiver_socket_buffer".to_owned(), lost);
    }
    assert_eq!(of(&wide).agreement, Agreement::NotMeasured, "{}", of(&wide).here);
}

#[test]
fn the_sources_figures_are_found_by_their_point() {
    assert_eq!(figure(OwnProcesses, 8, 1).unwrap().packets_per_second, 1_491_744.0);
    assert_eq!(figure(SharedThreads, 2, 1).unwrap().cpu_percent, Some(150.0));
    assert_eq!(figure(OwnProcesses, 8, 100).unwrap().cpu_percent, None);
    assert_eq!(figure(SharedThreads, 4, 1), None);
}

#[test]
fn the_report_has_its_published_form() {
    let facts = vec![Conclusion::not_judged("a fact", "it was not tried")];
    let it = assemble(Reproduction::begin("002", Grid::Short), &example(), facts);
    check_against_schema(&it, "bench-capacity");
    assert_eq!(it.conclusions.len(), 6 + 1);
    let list = include_str!("../../tests/printed/002.tsv");
    check_printed(list, &it.table);
    let nothing = Report { points: Vec::new(), rows: Vec::new(), ..example() };
    check_printed(list, &assemble(Reproduction::begin("002", Grid::Short), &nothing, Vec::new()).table);
    let of_points = &it.table[..3 * FIGURES.len()];
    let measured = of_points.iter().filter(|line| line.here.is_some()).count();
    assert_eq!(measured, 3 * 4, "four of the source's points, three figures each");
}

#[test]
fn traffic_is_that_of_frames_of_which_the_smallest_has_60_bytes() {
    // The notes' own: 714.036 Mbit/s of the smallest frames are 1,487,575 datagrams a second, 855.549 of 142 bytes 753,124.
    for (payload, datagrams, bits) in
        [(1, 1_487_575, 714_036_000.0), (18, 1, 480.0), (100, 753_124, 855_548_864.0)]
    {
        let mut at = point(OwnProcesses, 8, payload, datagrams, 0);
        at.runs.iter_mut().for_each(|run| (run.seconds, run.account.sent) = (1.0, datagrams));
        assert_eq!(traffic(&at).unwrap().median, bits);
    }
}

#[test]
fn noisy_points_judge_nothing_and_are_named() {
    let mut points = sources();
    points.iter_mut().for_each(|point| point.noise = vec!["other work".to_owned()]);
    for it in conclude(&points, false) {
        assert_eq!(it.agreement, Agreement::NotMeasured, "{it:?}");
        assert!(it.here.contains("5 noisy points"), "{}", it.here);
    }
}

#[test]
fn sizes_of_the_notes_stand_beside_ours() {
    let sizes = facts::table().into_iter().filter(|line| line.metric == "size" && line.here.is_some());
    for line in sizes {
        assert_eq!(line.here.as_ref().map(|row| row.median), line.source, "{line:?}");
    }
}
