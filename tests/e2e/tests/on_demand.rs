//! Sending on demand between two hosts, by the bus option alone.

use e2e::{Accounts, Command, Host, lan_or_skip, wait_until};

const PUBLISH: [&str; 6] = ["pub", "lab/wave", "--wave", "sine", "--rate", "20000"];

fn read(host: &Host) -> Command {
    let reader = Command::start(host, &["sub", "lab/*", "--json", "--bus", &host.bus_from_now("")]);
    reader.wait_for_event("began");
    reader.wait_for_event("block");
    reader
}

#[test]
fn readers_wake_a_publisher_that_sends_on_demand_and_every_account_is_explained() {
    let Some(lan) = lan_or_skip(&["source", "reader"]) else { return };
    let [source, host] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let bus = source.bus("&send=on_demand");
    let publisher = Command::start(source, &[&PUBLISH[..], &["--json", "--bus", &bus]].concat());
    // A program that only lists streams does not receive them.
    wait_until("the announcement", || {
        let (streams, _) = Command::start(host, &["ls", "--json", "--bus", &host.bus("")]).finish();
        (!streams.is_empty()).then_some(())
    });
    let first = Accounts::of(&read(host).interrupt().0);
    assert!(first.last()["state"] == "cut" && first.is_explained(), "{first}");
    let second = read(host);
    let (lines, status) = publisher.interrupt();
    assert!(status.success(), "{status}");
    let second = Accounts::once_closed(second);
    assert!(second.is_explained(), "{second}");
    let samples = &lines.iter().find(|line| line["event"] == "totals").unwrap()["samples"];
    let count = |stage: &str| samples[stage].as_u64().unwrap();
    assert!(count("publisher_paused") > 0, "nobody listened at first: {samples}");
    assert_eq!(count("numbered") + count("publisher_paused"), count("offered"), "{samples}");
}
