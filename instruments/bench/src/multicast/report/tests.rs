//! Reports of hand-made counts: the counts of both ends become medians and accounts.

use std::net::Ipv4Addr;

use probe::Percentiles;

use super::*;
use crate::report::{State, stored};
use crate::throughput::example_account;

fn member(sent: u64, received: u64, micros: u64) -> MemberResult {
    let latency = Percentiles::of(&mut [micros * 1_000; 3]).as_ref().map(Times::of);
    MemberResult { account: example_account(sent, received), reordered: 1, latency }
}

fn ended(members: Vec<MemberResult>) -> Ended {
    let used = Used { cpu_ns: 10, elapsed_ns: 100, elsewhere_cpus: Some(0.1) };
    Ended {
        members: (0..).zip(members).collect(),
        ours: used,
        theirs: used,
        skipped: 0,
        failures: Vec::new(),
        notes: Vec::new(),
        was_stopped: false,
    }
}

/// Begins the report of a measurement between the hosts of a stored one.
fn builder(hosts: &str) -> Builder {
    let options = Options { receivers: 2, repeats: 2, ..Options::default() };
    let Start { client, server, .. } = stored::<Report>(hosts).start;
    Builder::new(&options, (Ipv4Addr::LOCALHOST, 7).into(), client, server)
}

#[test]
fn every_receiver_has_its_own_latency_and_its_own_account() {
    let mut builder = builder("multicast");
    builder.add(0, ended(vec![member(100, 100, 20), member(100, 90, 40)]));
    builder.add(1, ended(vec![member(100, 100, 20), member(100, 80, 42)]));
    let report = builder.finish(false);
    let row = |receiver, metric| report.row(receiver, metric).unwrap();
    assert_eq!((row(0, "latency_p50").median, row(1, "latency_p50").median), (20.0, 41.0));
    assert_eq!((row(0, "lost_percent").median, row(1, "lost_percent").median), (0.0, 15.0));
    assert_eq!((report.end.state, report.noise.len()), (State::Complete, 0));
}

#[test]
fn between_two_hosts_there_is_no_latency_and_it_is_said() {
    let mut builder = builder("multicast-cut");
    builder.add(0, ended(vec![member(10, 10, 20), member(10, 9, 40)]));
    let report = builder.finish(false);
    assert!(report.runs[0].members.iter().all(|member| member.latency.is_none()));
    assert!(report.row(0, "latency_p50").is_none() && report.row(1, "lost_percent").is_some());
    assert!(report.end.notes[0].contains("no clock in common"), "{:?}", report.end.notes);
}

#[test]
fn an_account_that_does_not_add_up_and_stalls_are_said() {
    let mut builder = builder("multicast");
    let mut wrong = member(10, 10, 20);
    wrong.account.received = 9;
    builder.add(0, Ended { skipped: 3, ..ended(vec![wrong, member(10, 10, 20)]) });
    let report = builder.finish(false);
    assert_eq!(report.end.state, State::BrokenOff);
    assert!(report.runs[0].trouble.as_ref().unwrap().contains("does not add up"));
    assert!(report.noise.iter().any(|noise| noise.contains("kept 3 datagrams")), "{:?}", report.noise);
}

#[test]
fn a_run_in_which_a_member_failed_or_that_was_ended_early_enters_no_median() {
    let mut builder = builder("multicast");
    builder.add(0, ended(vec![member(100, 100, 20), member(100, 90, 40)]));
    let mut broken = ended(vec![member(100, 100, 900), member(100, 10, 900)]);
    // Of the two, the first failed: the other keeps its number.
    broken.members.remove(&0);
    broken.failures.push("receiver 0 failed: no memory".to_owned());
    builder.add(1, broken);
    builder.add(2, Ended { was_stopped: true, ..ended(vec![member(9, 0, 900), member(9, 0, 900)]) });
    let report = builder.finish(true);
    assert_eq!(report.runs[1].members[0].receiver, 1);
    assert!(report.runs[1].trouble.as_ref().unwrap().contains("receiver 0 failed"));
    for (receiver, latency, lost) in [(0, 20.0, 0.0), (1, 40.0, 10.0)] {
        let row = |metric| report.row(receiver, metric).unwrap();
        assert_eq!((row("latency_p50").median, row("latency_p50").runs), (latency, 1));
        assert_eq!((row("lost_percent").median, row("lost_percent").runs), (lost, 1));
    }
    assert_eq!(report.runs[2].trouble.as_deref(), Some("it was ended early"));
}
