//! `tallycast bench cost`: real runs of every transport, small ones. The cost of a bit depends on the machine, so the
//! tests check only that the costs follow from the counts, and that every account closes.

use std::collections::BTreeSet;

use bench::cost::{Metric, Report, Run};
use bench::report::{Reproduction, State};
use bench::throughput::AccountState;
use rustix::process::Signal;
use serde_json::Value;
use support::wait_until;

use crate::program::{Running, run};

/// Two runs of each transport. What comes before each end has begun to measure has no cost, and one may be stopped for a
/// moment when the other begins: a run lasts longer than that, and sends little.
const SHORT: [&str; 8] = ["bench", "cost", "--runs", "2", "-t", "3s", "-b", "8M"];

/// Reads a report that the schema accepts.
fn read(value: &Value) -> Report {
    assert_eq!(published::check("bench-cost", value), Ok(()));
    serde_json::from_value(value.clone()).unwrap()
}

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
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (csv, html, png) = (path("a.csv"), path("a.html"), path("a.png"));
    let output = run(&[&SHORT[..], &["-J", "--csv", &csv, "--html", &html, "--png", &png]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = read(&serde_json::from_slice(&output.stdout).unwrap());
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
    let text = |path: &str| std::fs::read_to_string(path).unwrap();
    assert_eq!(text(&csv).lines().count(), 1 + 3 * 2);
    assert!(text(&html).contains("sara77") && !text(&html).contains("NaN"));
    assert_eq!(&std::fs::read(&png).unwrap()[1..4], b"PNG");
}

#[test]
fn a_measurement_that_is_ended_early_prints_what_it_has() {
    let bench = Running::start(&["bench", "cost", "-t", "600", "-b", "1M", "-J"]);
    // Its server is started after it has begun to listen for signals.
    wait_until("its server", || (!bench.children().is_empty()).then_some(()));
    bench.signal(Signal::INT);
    let (status, lines) = bench.wait();
    assert_eq!(read(lines.last().unwrap()).end.state, State::Interrupted);
    assert!(matches!(status.code(), Some(1 | 2)), "2 if nothing had arrived yet: {status}");
}

#[test]
fn a_reproduction_that_is_ended_early_prints_what_it_has() {
    let bench = Running::start(&["bench", "reproduce", "gu-grossman-2005", "--full", "-J"]);
    wait_until("its server", || (!bench.children().is_empty()).then_some(()));
    bench.signal(Signal::INT);
    let (_, lines) = bench.wait();
    let line = lines.last().unwrap();
    assert_eq!(published::check("bench-reproduce", line), Ok(()));
    let it: Reproduction = serde_json::from_value(line.clone()).unwrap();
    assert_eq!((it.document.as_str(), it.state), ("001", State::Interrupted));
    assert!(it.conclusions.iter().any(|it| it.source.contains("as large as the MTU")));
}

#[test]
fn what_cannot_be_is_refused_with_the_way_out() {
    let refusal = |arguments: &[&str]| {
        let output = run(&[&["bench", "cost"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(
        refusal(&["-l", "99"]).contains("-l in bytes must be from 20"),
        "less than a stream's header leaves"
    );
    assert!(refusal(&["-b", "0"]).contains("-b in bits a second must be from 1"));
    assert!(refusal(&["--transports", "sctp"]).contains("udp, tcp, stream"));
    let output = run(&["bench", "reproduce", "petri-2007", "--netns", "--mtu", "9000"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("fixed MTUs"), "{output:?}");
}
