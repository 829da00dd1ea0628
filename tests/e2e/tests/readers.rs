//! A host's view of the readers of its streams on other hosts.

use e2e::{Command, lan_or_skip};
use serde_json::Value;

#[test]
fn top_shows_who_reads_a_stream_of_its_host_elsewhere_and_what_was_lost_there() {
    let Some(lan) = lan_or_skip(&["source", "desk"]) else { return };
    let [source, desk] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let bus = source.bus("");
    let publish =
        ["pub", "lab/wave", "--wave", "sine", "--rate", "20000", "--loss", "5%", "--json", "--bus", &bus];
    let publisher = Command::start(source, &publish);
    let reader =
        Command::start(desk, &["sub", "lab/*", "--json", "--reader", "desk", "--bus", &desk.bus("")]);
    let top = Command::start(source, &["top", "--json", "--interval", "200ms", "--bus", &bus]);
    let of_desk = |line: &Value| {
        let mut readers = line["readers"].as_array()?.iter();
        let moves = |it: &Value| it["samples_per_s"].as_f64().is_some_and(|rate| rate > 0.0);
        readers.find(|it| it["reader"] == "desk" && it["state"] == "open" && moves(it)).cloned()
    };
    let mut seen = None;
    top.wait_for("a reader with a rate", |line| {
        seen = of_desk(line);
        seen.as_ref().is_some_and(|it| !it["lost"]["injected"].is_null())
    });
    let seen = seen.expect("just waited for");
    let from = seen["from"].as_str().expect("an address");
    assert!(from.starts_with(&format!("{}:", desk.address())), "{seen}");
    drop((publisher, reader, top));
}
