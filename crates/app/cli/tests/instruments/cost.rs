//! `tallycast bench cost`: real runs of every transport, small ones. The cost of a bit depends on the machine, so the
//! tests check only that the costs follow from the counts, and that every account closes.

use std::collections::BTreeSet;

use bench::cost::{Metric, Report, Run};
use bench::report::{Reproduction, State};
use bench::throughput::AccountState;

use crate::measured::{Files, check_refusals, complete, has_server, interrupted};

/// Two runs of each transport. What comes before each end has begun to measure has no cost, and one may be stopped for a
/// moment when the other begins: a run lasts longer than that, and sends little.
const SHORT: [&str; 8] = ["bench", "cost", "--runs", "2", "-t", "3s", "-b", "8M"];

fn check_run(run: &Run) {
    assert!(!run.accounts.is_empty() && run.bytes_received > 0, "{run:?}");
    for account in &run.accounts {
        assert!(account.adds_up() && account.state == AccountState::Closed, "{account:?}");
    }
    assert!(run.delay_ms.is_some_and(|delay| delay > 0.0), "both ends are one host: {run:?}");
    let sides = [
        (Some(run.sender), run.bytes_sent, run.send_mhz_per_mbit),
        (run.receiver, run.bytes_received, run.receive_mhz_per_mbit),
    ];
    for (taken, bytes, cost) in sides {
        let taken = taken.unwrap();
        let Some(mhz) = taken.mhz else {
            assert_eq!(cost, None, "without a frequency there is no cost");
            continue;
        };
        let cycles = taken.cpu_seconds * mhz * 1e6;
        assert!((cost.unwrap() * bytes as f64 * 8.0 - cycles).abs() <= cycles * 1e-6, "{run:?}");
    }
}

#[test]
fn costs_follow_from_processor_time_frequency_and_what_went_through() {
    let files = Files::new();
    let report: Report = complete(&[&SHORT[..], &["-J"], &files.options()].concat());
    let names: Vec<&str> = report.transports.iter().map(|it| it.transport.as_str()).collect();
    assert_eq!((names, report.end.state), (vec!["UDP", "TCP", "stream"], State::Complete));
    for measured in &report.transports {
        assert_eq!((measured.runs.len(), &measured.trouble), (2, &None), "{measured:?}");
        measured.runs.iter().for_each(check_run);
        let delay = measured.figure(Metric::DelayMs).unwrap();
        let values = measured.values(Metric::DelayMs);
        assert!((delay.mean - values.iter().sum::<f64>() / 2.0).abs() < 1e-9);
        assert!(delay.min <= delay.median && delay.median <= delay.max && delay.standard_deviation.is_some());
    }
    let systems: BTreeSet<&str> = report.rows.iter().map(|row| row.system.as_str()).collect();
    assert_eq!(systems, BTreeSet::from(["stream", "tcp", "udp"]));
    assert!(files.check(1 + 3 * 2).contains("sara77"));
}

#[test]
fn a_measurement_that_is_ended_early_prints_what_it_has() {
    let (report, code) = interrupted::<Report>(&["bench", "cost", "-t", "600", "-b", "1M", "-J"], has_server);
    assert_eq!(report.end.state, State::Interrupted);
    assert!(matches!(code, Some(1 | 2)), "2 if nothing had arrived yet: {code:?}");
}

#[test]
fn a_reproduction_that_is_ended_early_prints_what_it_has() {
    let endless = ["bench", "reproduce", "gu-grossman-2005", "--full", "-J"];
    let (it, _) = interrupted::<Reproduction>(&endless, has_server);
    assert_eq!((it.document.as_str(), it.state), ("001", State::Interrupted));
    assert!(it.conclusions.iter().any(|it| it.source.contains("as large as the MTU")));
}

#[test]
fn what_cannot_be_is_refused_with_the_way_out() {
    let refusals = [
        // Less than a stream's header leaves.
        ("cost -l 99", "-l in bytes must be from 20"),
        ("cost -b 0", "-b in bits a second must be from 1"),
        ("cost --transports sctp", "udp, tcp, stream"),
        ("reproduce petri-2007 --netns --mtu 9000", "fixed MTUs"),
    ];
    check_refusals("bench", &refusals);
}
