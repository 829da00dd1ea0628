//! A publisher on a second host: held back while the first one is alive, believed once the first has ended, without
//! a loss.

use std::fs;

use e2e::{Accounts, Command, Host, lan_or_skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;

fn publish(host: &Host) -> Command {
    let shape = ["--wave", "ramp", "--rate", "20", "--json"];
    Command::start(host, &[&["pub", "lab/wave"], &shape[..], &["--bus", &host.bus("")]].concat())
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
    let last = lines.iter().rfind(|line| line["event"] == "account").expect("an account");
    let (of_second, of_first): (Vec<Value>, Vec<Value>) =
        lines.iter().cloned().partition(|line| line["epoch"] == last["epoch"]);
    let (of_first, of_second) = (Accounts::of(&of_first), Accounts::of(&of_second));
    assert_eq!(of_first.last()["state"], "unconfirmed", "{of_first}");
    assert!(of_second.last()["state"] == "closed" && of_second.is_explained(), "{of_second}");
    let whole =
        (of_second.first("elements"), of_second.next("elements"), of_second.sum("elements", "delivered"));
    assert_eq!(whole, (0, offered, offered), "{of_second}");
    drop(first);
}
