//! `tallycast bench`: real runs between real processes. The quality of a run depends on the machine, so the tests check
//! only that the account adds up and that the verdict follows from it.

use std::cell::RefCell;
use std::process::Stdio;
use std::time::Duration;

use bench::cycle::{Found, Limits, Outcome, Report, Run, State, Transport, Verdict};
use bench::{CpuGroup, Quota};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{or_skip, wait_until};

use crate::measured::{Files, check_refusals, check_schema, complete, interrupted, read, report};
use crate::program::{Running, command, run, run_with};

/// A minimal bench.
const SMALL: [&str; 11] = [
    "bench",
    "cycle",
    "--cycles",
    "20",
    "--repeat",
    "2",
    "--cycle-times",
    "2ms",
    "--limit",
    "40000",
    "--json",
];

fn has_pair(bench: &Running) -> bool {
    bench.children().len() == 2
}

fn runs(report: &Report) -> impl Iterator<Item = (Transport, &Run)> {
    let searches =
        report.points.iter().flat_map(|point| point.searches().iter().map(|it| (point.transport, it)));
    searches.flat_map(|(transport, search)| search.runs.iter().map(move |run| (transport, run)))
}

#[test]
fn every_run_between_two_processes_adds_up_and_its_verdict_follows() {
    let report: Report = complete(&SMALL);
    assert_eq!((report.end.state, report.points.len()), (State::Complete, 2));
    for (transport, run) in runs(&report) {
        let account = &run.account;
        assert_eq!(account.check(), Ok(()), "{transport}: {run:?}");
        assert_eq!(run.verdict, Limits::SCOLLO.judge(account), "{transport}");
        assert_eq!((account.pieces.wrong, account.pieces.foreign), (0, 0), "{transport}");
        assert!(run.verdict != Verdict::Good || account.cycles.sent == 20, "{transport}: {run:?}");
        let pieces = match transport {
            // Of 16,372 elements each, behind a header of 16 bytes.
            Transport::Udp => run.elements.div_ceil(16_372),
            Transport::Shm => 1,
        };
        assert_eq!(account.pieces.handed, pieces * account.cycles.sent, "{transport}: {run:?}");
    }
    for search in report.points.iter().flat_map(|point| point.searches()) {
        let good = search.runs.iter().filter(|run| run.verdict == Verdict::Good);
        assert_eq!(search.elements, good.map(|run| run.elements).max().unwrap_or(0));
        assert_eq!(search.found == Found::Limit, search.elements == 40_000);
    }
}

#[test]
fn whole_runs_send_every_cycle_and_small_datagrams_make_many_pieces() {
    let more =
        ["--whole-runs", "--datagram", "1472", "--transports", "udp", "--max-late", "5", "--repeat", "1"];
    let arguments: Vec<&str> =
        SMALL.into_iter().filter(|it| !["--repeat", "2"].contains(it)).chain(more).collect();
    let (report, _) = report::<Report>(&arguments);
    for (_, run) in runs(&report) {
        assert_eq!(run.account.check(), Ok(()));
        assert_eq!(run.account.cycles.sent, 20);
        assert_eq!(run.account.pieces.handed, 20 * run.elements.div_ceil(364));
        let limits = Limits { late_allowed: 5, ..Limits::SCOLLO };
        assert_eq!(run.verdict, limits.judge(&run.account));
    }
}

#[test]
fn a_quota_is_enforced_or_the_point_is_skipped_with_its_reason() {
    let quotas = ["--cpus", "max,0.2,4096", "--transports", "shm"];
    let (report, code) = report::<Report>(&[&SMALL[..], &quotas].concat());
    assert_eq!(code, Some(1), "the last quota is more than any host has");
    let [free, limited, beyond] = &report.points[..] else { panic!("{:?}", report.points) };
    assert!(runs(&report).all(|(_, run)| run.account.check() == Ok(())));
    assert!(free.searches().iter().flat_map(|it| &it.runs).all(|run| run.throttled_periods.is_none()));
    match &limited.outcome {
        Outcome::Measured { searches, .. } => {
            let runs = searches.iter().flat_map(|search| &search.runs);
            assert!(runs.clone().count() > 0 && runs.into_iter().all(|run| run.throttled_periods.is_some()));
        }
        Outcome::Skipped { reason } => println!("SKIPPED: {reason}"),
        Outcome::Failed { reason } => panic!("{reason}"),
    }
    assert!(matches!(&beyond.outcome, Outcome::Skipped { reason } if reason.contains("CPUs limits nothing")));
}

/// Period at which the kernel renews a quota.
const QUOTA_PERIOD: Duration = Duration::from_millis(100);

/// Executes one run over each transport under a quota, with an array so large that no processor fills, copies twice
/// and compares it within a fifth of a cycle; `None`, with a note, if no quota can be enforced.
fn limited_runs(cpus: &str, cycles: &str) -> Option<Vec<(Transport, Run)>> {
    let size = ["--limit", "4000000", "--step", "4000000", "--repeat", "1", "--whole-runs", "--json"];
    let load = ["bench", "cycle", "--cycle-times", "1ms", "--cycles", cycles, "--cpus", cpus];
    let (report, _) = report::<Report>(&[&load[..], &size].concat());
    for point in &report.points {
        match &point.outcome {
            Outcome::Measured { .. } => {}
            Outcome::Skipped { reason } => {
                println!("SKIPPED: {reason}");
                return None;
            }
            Outcome::Failed { reason } => panic!("{reason}"),
        }
    }
    Some(runs(&report).map(|(transport, run)| (transport, run.clone())).collect())
}

/// Returns how many periods of its quota a run touches at most, judged by its latest callback.
fn periods(run: &Run) -> u64 {
    let callbacks = &run.account.callbacks;
    let slacks = [callbacks.writer.least_slack_ns, callbacks.reader.least_slack_ns];
    let latest = slacks.into_iter().flatten().min().unwrap_or(0).min(0);
    let planned = Duration::from_millis(run.account.cycles.planned);
    let length = planned + Duration::from_nanos(latest.unsigned_abs());
    // One that began before the first cycle, and one in which the last is put away.
    u64::try_from(length.as_nanos().div_ceil(QUOTA_PERIOD.as_nanos())).unwrap() + 2
}

#[test]
fn a_pair_takes_no_more_processor_time_than_its_quota() {
    let Some(runs) = limited_runs("0.2", "40") else { return };
    assert_eq!(runs.len(), 2);
    for (transport, run) in runs {
        let allowed = QUOTA_PERIOD.as_nanos() / 5 * u128::from(periods(&run));
        let taken = u128::from(run.writer_cpu_ns + run.reader_cpu_ns);
        assert!(taken <= allowed, "{transport}: {taken} of {allowed} ns, {run:?}");
        assert!(run.throttled_periods > Some(0), "{transport}: {run:?}");
    }
}

#[test]
fn what_a_quota_stopped_before_a_run_is_not_counted_with_it() {
    // A single cycle: making its ring of 64 MB takes several times as many periods of this quota. Over UDP the reader has
    // no last callback to judge the run's length by.
    let Some(runs) = limited_runs("0.05", "1") else { return };
    let (_, run) = runs.iter().find(|(transport, _)| *transport == Transport::Shm).unwrap();
    let throttled = run.throttled_periods.expect("a group counts its throttled periods");
    assert!(throttled <= periods(run), "{} periods, {run:?}", periods(run));
}

#[test]
fn both_processes_of_a_run_are_in_the_group_of_their_bench() {
    let quota = Quota { millicpus: 200, period: Duration::from_millis(100) };
    let Some(_) = or_skip(CpuGroup::create(&quota, &[])) else { return };
    let endless = ["bench", "cycle", "--cycle-times", "1s", "--cycles", "100", "--cpus", "0.2", "--json"];
    let (_, code) = interrupted::<Report>(&endless, |bench| {
        let group = format!("/tallycast-bench-{}-", bench.id());
        let groups = |process| std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
        let children = bench.children();
        children.len() == 2 && children.into_iter().all(|process| groups(process).contains(&group))
    });
    assert_eq!(code, Some(1));
}

#[test]
fn what_a_killed_bench_left_is_removed_by_the_next_one_whatever_it_measures() {
    let quota = Quota { millicpus: 200, period: Duration::from_millis(100) };
    let Some(group) = or_skip(CpuGroup::create(&quota, &[])) else { return };
    let parent = group.folder().parent().unwrap().to_owned();
    drop(group);
    // No process has so large an id (`/proc/sys/kernel/pid_max` is at most 2²²).
    let forsaken = parent.join("tallycast-bench-4194305-0");
    std::fs::create_dir(&forsaken).unwrap();
    let (report, _) = report::<Report>(&[&SMALL[..], &["--transports", "udp"]].concat());
    assert_eq!(report.start.options.cpus, [None]);
    assert!(!forsaken.exists(), "{} is still there", forsaken.display());
}

#[test]
fn a_bench_that_is_ended_early_reports_so_and_leaves_no_process_behind() {
    let endless = ["--repeat", "10000", "--transports", "shm"];
    let arguments: Vec<&str> =
        SMALL.into_iter().filter(|it| !["--repeat", "2"].contains(it)).chain(endless).collect();
    let children = RefCell::default();
    let (report, code) = interrupted::<Report>(&arguments, |bench| {
        let found = bench.children();
        let is_pair = found.len() == 2;
        children.replace(found);
        is_pair
    });
    assert_eq!((code, report.end.state), (Some(1), State::Interrupted));
    wait_until("the end of both", || {
        let is_alive = |id: &String| std::path::Path::new("/proc").join(id).exists();
        (!children.borrow().iter().any(is_alive)).then_some(())
    });
}

#[test]
fn figures_are_whole_files_and_the_table_names_the_host() {
    let files = Files::new();
    let small: Vec<&str> = SMALL.into_iter().filter(|it| *it != "--json").collect();
    let output = run(&[&small[..], &files.options()].concat());
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(table.starts_with("Linux ") && table.contains("load") && table.contains("MEDIAN"), "{table}");
    assert_eq!(files.check(1 + 2 * 2).matches("<svg").count(), 3);
}

#[test]
fn files_are_written_though_nobody_reads_the_report() {
    let files = Files::new();
    // The reader of the output may close it, as `head` does.
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let mut bench = command(&[&SMALL[..], &["--transports", "shm"], &files.options()].concat());
    let status = bench.stdin(Stdio::null()).stdout(closed).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    files.check(1 + 2);
}

#[test]
fn a_report_of_skipped_points_is_written_and_a_picture_of_nothing_is_not() {
    let files = Files::new();
    let output = run(&[&SMALL[..], &["--cpus", "4096"], &files.options()].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is not written: there is nothing to draw"), "{said}");
    assert!(said.contains("no point could be measured"), "{said}");
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report.points.len(), 2);
    assert!(files.page().contains("CPUs limits nothing") && !files.has_picture());
}

#[test]
fn a_repeat_whose_process_dies_leaves_the_repeats_before_it() {
    // Searches of a few runs of half a second.
    let few = ["bench", "cycle", "--cycle-times", "10ms", "--cycles", "50", "--limit", "8", "--step", "2"];
    let bench = Running::start(&[&few[..], &["--repeat", "2", "--transports", "shm", "--json"]].concat());
    let pair = || Some(bench.children()).filter(|children| children.len() == 2);
    let first = wait_until("both processes of the first repeat", pair);
    let second = wait_until("both processes of the second repeat", || {
        pair().filter(|children| !children.iter().any(|child| first.contains(child)))
    });
    let id = Pid::from_raw(second[0].parse().unwrap()).unwrap();
    kill_process(id, Signal::KILL).unwrap();
    let (status, lines) = bench.wait();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let report: Report = read(line);
    assert_eq!((status.code(), report.end.state, report.rows[0].runs), (Some(1), State::Complete, 1));
    let reason = report.points[0].broken_off().unwrap();
    // Whichever of the two is detected first.
    assert!(reason.contains("ended unexpectedly") || reason.contains("cannot be reached"), "{reason}");
}

#[test]
fn a_bench_that_is_ended_before_its_first_search_reports_so_with_a_picture_too() {
    let files = Files::new();
    // A run of these takes a hundred seconds.
    let endless = ["bench", "cycle", "--cycle-times", "1s", "--cycles", "100", "--json"];
    let (report, code) = interrupted::<Report>(&[&endless[..], &files.options()].concat(), has_pair);
    assert_eq!((code, report.end.state), (Some(1), State::Interrupted));
    assert_eq!((report.points.len(), files.has_picture()), (0, false));
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is() {
    let refusals = [
        ("cycle --datagram 65508", "--datagram must be from 20 to 65507"),
        ("cycle --datagram 1472 --transports shm", "add udp to --transports"),
        ("cycle --quota-period 50ms", "give one with --cpus"),
        ("cycle --cpus lots", "write one such as 0.3"),
        ("cycle --cycle-times 1..14", "write 1..14ms"),
        ("cycle --transports tcp", "udp, shm"),
        ("cycle --png /nonexistent/x.png", "name a file in a writable folder"),
        ("reproduce 005", "scollo"),
    ];
    check_refusals("bench", &refusals);
}

#[test]
fn a_process_of_a_run_says_what_it_did_not_expect() {
    let output = run_with(&["bench", "cycle-worker"], &[], "\"Stop\"\n{\"Start\":{\"start_ns\":1}}\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stdout).unwrap().contains("Failed"));
    assert!(String::from_utf8(output.stderr).unwrap().contains("run `tallycast bench cycle`"));
}

#[test]
fn the_schema_knows_every_outcome_and_nothing_else() {
    let (mut report, _) = report::<Report>(&[&SMALL[..], &["--transports", "shm"]].concat());
    let grid = bench::scollo::Grid::Short;
    report.source = Some(bench::scollo::compare(&report, grid));
    report.end.notes.push("a note".to_owned());
    let mut failed = report.points[0].clone();
    failed.outcome = Outcome::Failed { reason: "why".to_owned() };
    report.points.push(failed);
    let changes: [fn(&mut Value); 6] = [
        |it| it["version"] = 2.into(),
        |it| it["more"] = 1.into(),
        |it| it["end"]["state"] = "unknown".into(),
        |it| it["start"]["host"]["cpus"] = (-1).into(),
        |it| it["points"][0]["outcome"]["state"] = "skipped".into(),
        |it| drop(it["rows"][0].as_object_mut().unwrap().remove("median")),
    ];
    check_schema("bench-cycle", &report, &changes);
}
