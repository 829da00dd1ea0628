//! Sending on demand between two hosts, by the bus option alone.

use e2e::{Command, Host, lan_or_skip, wait_until};
use serde_json::Value;

const PUBLISH: [&str; 6] = ["pub", "lab/wave", "--wave", "sine", "--rate", "20000"];

fn read(host: &Host) -> Command {
    let reader = Command::start(host, &["sub", "lab/*", "--json", "--bus", &host.bus("")]);
    reader.wait_for_event("began");
    reader.wait_for_event("block");
    reader
}

/// Ends a reader and returns its account, which must name every loss.
fn account(reader: Command) -> Value {
    let (lines, _) = reader.interrupt();
    let account = lines.into_iter().find(|line| line["event"] == "account").expect("an account at the end");
    assert_eq!((&account["balanced"], &account["explained"]), (&true.into(), &true.into()), "{account}");
    account
}

#[test]
fn readers_wake_a_publisher_that_sends_on_demand_and_every_account_is_explained() {
    let Some(lan) = lan_or_skip(&["source", "reader"]) else { return };
    let [source, host] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let bus = source.bus("&send=on_demand");
    let publisher = Command::start(source, &[&PUBLISH[..], &["--json", "--bus", &bus]].concat());
    // Whoever only lists streams does not listen to them.
    wait_until("the announcement", || {
        let (streams, _) = Command::start(host, &["ls", "--json", "--bus", &host.bus("")]).finish();
        (!streams.is_empty()).then_some(())
    });
    let first = account(read(host));
    assert_eq!(first["state"], "cut", "{first}");
    let second = read(host);
    let (lines, status) = publisher.interrupt();
    assert!(status.success(), "{status}");
    second.wait_for_event("ended");
    let second = account(second);
    assert_eq!(second["state"], "closed", "{second}");
    let samples = &lines.iter().find(|line| line["event"] == "totals").unwrap()["samples"];
    let count = |stage: &str| samples[stage].as_u64().unwrap();
    assert!(count("publisher_paused") > 0, "nobody listened at first: {samples}");
    assert_eq!(count("numbered") + count("publisher_paused"), count("offered"), "{samples}");
}
