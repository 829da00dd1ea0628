//! `tallycast run` from end to end: said on a bus, recorded, and selected by `query --during` and `replay --during`.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use support::ports::private_bus;
use support::wait_until;
use tempfile::tempdir;

use crate::program::{Running, run};

/// Longer than any wait for a reader that is there.
const PATIENCE: &str = "60s";

fn lines(arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let output = run(arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn recorder(bus: &str, root: &Path) -> Running {
    let root = root.to_str().unwrap();
    let recorder =
        Running::start(&["record", "lab/*", "--run", "r", "--archive", root, "--json", "--bus", bus]);
    recorder.wait_for("the recorder", |line| line["event"] == "recording");
    recorder
}

/// Returns the run of an id that an archive has, once it has one that is in this state.
fn recorded(root: &Path, id: &str, state: &str) -> Value {
    let root = root.to_str().unwrap();
    let look = || {
        let (_, runs) = lines(&["run", "list", "--archive", root, "--json"]);
        runs.into_iter().find(|run| run["id"] == id && run["state"] == state)
    };
    wait_until(format!("{id} in {root}"), look)
}

#[test]
fn a_run_selects_what_its_times_select_and_a_later_recorder_learns_of_it() {
    let (bus, first, second, out) =
        (private_bus(), tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    let wave = ["pub", "lab/wave", "--wave", "ramp", "--rate", "1k", "--loss", "5%", "--json", "--bus", &bus];
    let (publisher, early) = (Running::start(&wave), recorder(&bus, first.path()));
    let say =
        |words: &[&str]| lines(&[&["run"], words, &["--json", "--wait", PATIENCE, "--bus", &bus]].concat());
    let (code, said) = say(&["start", "shot-17", "--label", "program=ohmic", "--label", "gas=D2"]);
    assert_eq!((code, &said[0]["event"]), (Some(0), &"run_started".into()), "{said:?}");
    recorded(first.path(), "shot-17", "open");
    // The command that started it has ended: it is the first recorder that tells the second.
    let late = recorder(&bus, second.path());
    recorded(second.path(), "shot-17", "open");
    let (_, stopped) = say(&["stop", "shot-17"]);
    assert_eq!(say(&["stop", "shot-18"]).0, Some(1), "a stop without a start");
    for root in [first.path(), second.path()] {
        let run = recorded(root, "shot-17", "stopped");
        let times = (&run["start_ns"], &run["end_ns"]);
        assert_eq!(times, (&said[0]["time_ns"], &stopped[0]["time_ns"]));
        assert_eq!((&run["labels"]["program"], &run["labels"]["gas"]), (&"ohmic".into(), &"D2".into()));
        recorded(root, "shot-18", "no_start");
    }
    for running in [late, early, publisher] {
        running.signal(Signal::INT);
        running.wait();
    }
    let root = first.path().to_str().unwrap();
    let start_ns = said[0]["time_ns"].as_i64().unwrap();
    let [start, end] = [&said[0], &stopped[0]].map(|event| event["time_ns"].to_string());
    let later = (start_ns + 20_000_000).to_string();
    let during = ["--during", "shot-17"];
    for (number, (by_run, by_times)) in [
        (during.to_vec(), vec!["--from", &start, "--to", &end]),
        ([&during[..], &["--from", "+20ms"]].concat(), vec!["--from", &later, "--to", &end]),
    ]
    .into_iter()
    .enumerate()
    {
        let query = |range: &[&str], name: &str| {
            let gaps = lines(&[&["query", root, "lab/wave", "--gaps", "--json"], range].concat());
            let file = out.path().join(format!("{name}-{number}.csv"));
            let export = ["query", root, "lab/wave", "--export", "csv", file.to_str().unwrap(), "--json"];
            let mut told = lines(&[&export[..], range].concat());
            told.1.iter_mut().for_each(|it| it["file"] = Value::Null);
            (gaps, told, std::fs::read_to_string(file).unwrap())
        };
        let (one, other) = (query(&by_run, "run"), query(&by_times, "times"));
        assert_eq!((&one.0, &one.2), (&other.0, &other.2));
        assert!(one.0.1.iter().any(|gap| gap["samples"].as_u64() > Some(0)), "losses were planted");
        assert!(one.2.lines().count() > 100, "{}", one.2);
        assert_eq!(one.1.0, other.1.0);
        let replay =
            ["replay", root, "--stream", "lab/*", "--speed", "100", "--prefix", "again", "--wait", "0s"];
        let (code, totals) = lines(&[&replay[..], &by_run[..], &["--json", "--bus", &bus]].concat());
        let rows = one.2.lines().filter(|line| !line.starts_with('#')).count() as u64 - 1;
        let holes: u64 = one.0.1.iter().map(|gap| gap["samples"].as_u64().unwrap()).sum();
        let samples = &totals[0]["samples"];
        assert_eq!((code, &totals[0]["inherited"]["run"]), (Some(0), &"r".into()), "{totals:?}");
        assert_eq!(samples["source"].as_u64(), Some(holes), "{totals:?}");
        assert_eq!(samples["offered"].as_u64(), Some(rows + holes), "{totals:?}");
    }
    for verb in [&["query", root, "lab/wave", "--gaps"][..], &["replay", root]] {
        let refused = run(&[verb, &["--during", "shot-19"]].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("no run `shot-19` is known"));
    }
}

#[test]
fn an_event_that_no_reader_hears_is_told_and_bad_labels_are_refused() {
    let bus = private_bus();
    let output = run(&["run", "start", "shot-1", "--wait", "0s", "--bus", &bus]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no reader heard it"));
    for (label, told) in [("program", "is not a label"), ("a b=c", "invalid key"), ("a=1", "given twice")] {
        let output = run(&["run", "start", "shot-1", "--label", label, "--label", "a=1", "--bus", &bus]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.contains(told)), (Some(2), true), "{said}");
    }
    let output = run(&["run", "start", "shot 1", "--bus", &bus]);
    assert_eq!(output.status.code(), Some(2));
}
