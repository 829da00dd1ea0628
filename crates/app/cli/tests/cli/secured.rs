//! Streams of a bus with keys from the command line: what is refused is told once, with the remedy; levels are listed.

use std::process::Output;

use serde_json::Value;
use support::ports::private_bus;
use support::wait_until;

use crate::program::{Running, run};

/// A bus, and the same with the keys of a laboratory.
struct Scene {
    clear: String,
    secured: String,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let (folder, clear) = (tempfile::tempdir().unwrap(), private_bus());
        let keys = folder.path().join("keys");
        let made = run(&["keys", "new", keys.to_str().unwrap(), "--station", "daq-1"]);
        assert!(made.status.success(), "{made:?}");
        let secured = format!("{clear}&keys={}", keys.join("daq-1.keys").display());
        Self { clear, secured, _folder: folder }
    }
}

/// Publishes one signal on a bus.
fn publish(bus: &str, duration: &str) -> Running {
    let wave = ["pub", "lab/probe", "--wave", "sine", "--rate", "1k", "--json"];
    Running::start(&[&wave[..], &["--duration", duration, "--bus", bus]].concat())
}

fn streams(bus: &str) -> Vec<Value> {
    let listed = run(&["ls", "--json", "--bus", bus]);
    String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn told(output: &Output, words: &str) -> usize {
    String::from_utf8_lossy(&output.stderr).matches(words).count()
}

#[test]
fn a_reader_with_keys_refuses_a_clear_stream_of_the_same_name_and_says_so() {
    let scene = Scene::new();
    let _clear = publish(&scene.clear, "1h");
    let secured = publish(&scene.secured, "1h");
    wait_until("both announcements", || {
        let listed = [&scene.clear, &scene.secured].map(|bus| streams(bus).len());
        (listed == [1, 1]).then_some(())
    });
    let read = ["sub", "lab/probe", "--json", "--start", "now", "--count", "3000", "--bus", &scene.secured];
    let output = run(&read);
    secured.signal(rustix::process::Signal::INT);
    // Datagrams that come before the stream's description are told by its number, further ones by its name.
    let refused = told(&output, "clear datagrams of stream ");
    assert!((1..=2).contains(&refused), "{output:?}");
    assert_eq!(
        told(&output, "give its publisher the keys too (bus option keys=FILE)"),
        refused,
        "{output:?}"
    );
    let lines = String::from_utf8(output.stdout).unwrap();
    let account: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert!(account["unauthentic"]["clear"].as_u64() > Some(0), "{account}");
    assert_eq!(account["balanced"], true);
}

#[test]
fn a_reader_with_keys_says_why_it_does_not_read_a_clear_stream() {
    let scene = Scene::new();
    let _clear = publish(&scene.clear, "1h");
    wait_until("the announcement", || (!streams(&scene.clear).is_empty()).then_some(()));
    let output = run(&["sub", "lab/probe", "--json", "--duration", "3s", "--bus", &scene.secured]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    assert_eq!(
        told(&output, "announcements from 127.0.0.1 are refused (clear): this bus is secured"),
        1,
        "{output:?}"
    );
    assert_eq!(told(&output, "give the process that sends them the keys too (bus option keys=FILE)"), 1);
}

#[test]
fn a_reader_without_keys_says_why_it_does_not_read_a_secured_stream() {
    let scene = Scene::new();
    let _secured = publish(&scene.secured, "1h");
    wait_until("the announcement", || (!streams(&scene.secured).is_empty()).then_some(()));
    let output = run(&["sub", "lab/probe", "--json", "--duration", "3s", "--bus", &scene.clear]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    assert_eq!(told(&output, "are secured, and this process has no keys"), 1, "{output:?}");
    assert_eq!(told(&output, "(bus option keys=FILE)"), 1, "{output:?}");
}

#[test]
fn streams_are_listed_with_their_level() {
    let scene = Scene::new();
    let [_clear, _secured] = [&scene.clear, &scene.secured].map(|bus| publish(bus, "1h"));
    for (bus, level) in [(&scene.clear, "clear"), (&scene.secured, "group")] {
        let listed = wait_until("the stream", || streams(bus).pop());
        assert_eq!(listed["level"], level);
        let table = run(&["ls", "--bus", bus]);
        let table = String::from_utf8(table.stdout).unwrap();
        assert!(table.contains("LEVEL") && table.contains(level), "{table}");
        let top = Running::start(&[
            "top",
            "lab/probe",
            "--json",
            "--duration",
            "1h",
            "--interval",
            "200ms",
            "--bus",
            bus,
        ]);
        assert_eq!(top.wait_for("a snapshot", |line| line["event"] == "look")["level"], level);
    }
}
