//! The demo: separate processes over real multicast, and every account in order at the end.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Running, private_bus, run, wait_for};

/// Returns the accounts among lines, each as reader and stream.
fn accounts(lines: &[Value]) -> BTreeSet<(&str, &str)> {
    assert!(lines.iter().all(|line| line["event"] == "account"), "{lines:?}");
    lines.iter().filter_map(|line| Some((line["reader"].as_str()?, line["stream"].as_str()?))).collect()
}

#[test]
fn a_short_demo_ends_with_every_account_in_order() {
    let (status, lines) =
        Running::start(&["demo", "--headless", "--duration", "4s", "--json", "--loss", "1%"]).wait();
    assert!(status.success(), "{status}: {lines:?}");
    let accounts = accounts(&lines);
    for reader in ["monitor", "recorder"] {
        for stream in ["signal/ecg", "signal/chime", "test/sine", "test/chirp", "host/cpu"] {
            assert!(accounts.contains(&(reader, stream)), "{reader} {stream}: {accounts:?}");
        }
    }
    let injected = lines.iter().filter(|line| line["elements"]["lost"]["injected"].as_u64() > Some(0));
    assert!(injected.count() > 0, "one percent of a stream of 200 kHz is some");
}

#[test]
fn a_demo_that_is_killed_leaves_no_process_behind() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus());
    let place = ["--listen", "127.0.0.1:0", "--dir", folder.path().to_str().unwrap(), "--bus", &bus];
    let demo = Running::start(&[&["demo", "--headless", "--duration", "1h"], &place[..]].concat());
    // The demo itself, two readers, and at least the two waveforms.
    wait_for("the demo's processes", || (processes_with(&bus) >= 5).then_some(()));
    demo.signal(Signal::KILL);
    drop(demo);
    wait_for("the orphans' end", || (processes_with(&bus) == 0).then_some(()));
}

/// Counts the processes of this machine that have `word` among their arguments.
fn processes_with(word: &str) -> usize {
    let folders = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())).count()
}

#[test]
fn an_address_that_is_taken_is_said_with_the_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&["demo", "--headless", "--duration", "1s", "--listen", &address]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&address) && said.contains("--listen"), "{said}");
}
