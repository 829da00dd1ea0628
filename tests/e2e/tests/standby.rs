//! A publisher on a second host: held back while the first one lives, believed once that is gone, and nothing of it is lost.

use std::fs;

use e2e::{Command, Host, lan_or_skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;

fn publish(host: &Host) -> Command {
    let shape = ["--wave", "ramp", "--rate", "20", "--json"];
    Command::start(host, &[&["pub", "lab/wave"], &shape[..], &["--bus", &host.bus("")]].concat())
}

fn accounts(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["event"] == "account").collect()
}

#[test]
fn a_standby_takes_over_when_the_first_publisher_was_killed() {
    let Some(lan) = lan_or_skip(&["source", "standby", "desk"]) else { return };
    let [source, standby, desk] = lan.hosts() else { unreachable!("three hosts were asked for") };
    let said = tempfile::NamedTempFile::new().unwrap();
    let bus = desk.bus("");
    let reading = ["sub", "lab/*", "--json", "--bus", &bus];
    let reader = Command::start_saying_into(desk, &reading, said.reopen().unwrap());
    let first = publish(source);
    reader.wait_for_blocks(20);
    let second = publish(standby);
    let warned = || fs::read_to_string(said.path()).unwrap().contains(&standby.address());
    wait_until("the reader to hold the standby back", || warned().then_some(()));
    first.signal(Signal::KILL);
    reader.wait_for("the standby's account", |line| line["event"] == "began" && line["first_index"] == 0);
    reader.wait_for_blocks(20);
    let (lines, status) = second.interrupt();
    assert!(status.success(), "the standby ended with {status}");
    let offered = lines.last().unwrap()["samples"]["offered"].as_u64().unwrap();
    reader.wait_for("the end", |line| line["event"] == "ended" && line["state"] == "closed");
    let (lines, _) = reader.interrupt();
    let accounts = accounts(&lines);
    let [of_first, of_second] = accounts[..] else { panic!("two accounts: {accounts:?}") };
    assert_eq!((&of_first["state"], &of_first["balanced"]), (&"unconfirmed".into(), &true.into()));
    assert_eq!(
        (&of_second["state"], &of_second["explained"]),
        (&"closed".into(), &true.into()),
        "{of_second}"
    );
    let element = |row: &str| of_second["elements"][row].as_u64().unwrap();
    assert_eq!(
        (element("first"), element("next"), element("delivered")),
        (0, offered, offered),
        "{of_second}"
    );
    drop(first);
}
