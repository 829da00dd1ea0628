//! A publisher whose process is stopped, and a graph that reads its ring on the same host.

use rustix::process::Signal;
use serde_json::{Value, json};
use support::http::get;
use support::ports::private_bus;
use support::wait_until;

use crate::program::Running;
use crate::reaches::{host_bus, memory};

const SUM: &str = "[[node]]\nname = 'lab/sum'\nkind = 'derive'\nexpression = 'a + b'\n\
                   inputs = { a = 'lab/a:ch0', b = 'lab/b:ch0' }\n";

#[test]
fn a_publisher_within_one_host_that_is_stopped_is_absent_until_it_continues() {
    let memory = memory();
    is_absent_while_stopped(&host_bus(&memory));
}

#[test]
fn a_publisher_of_a_network_that_is_stopped_is_absent_to_the_readers_of_its_ring_too() {
    let memory = memory();
    is_absent_while_stopped(&format!("{}&shm={}&access=owner", private_bus(), memory.path().display()));
}

fn is_absent_while_stopped(bus: &str) {
    let files = tempfile::tempdir().unwrap();
    let graph = files.path().join("graph.toml");
    std::fs::write(&graph, SUM).unwrap();
    let graph = graph.to_str().unwrap();
    let monitor = ["monitor", "--json", "--listen", "127.0.0.1:0", "--graph", graph, "--bus", bus];
    let monitor = Running::start(&monitor);
    let address = monitor.wait_for("its address", |line| line["event"] == "listening")["address"].clone();
    let address = address.as_str().unwrap();
    let publish =
        |name| Running::start(&["pub", name, "--wave", "ramp", "--rate", "1k", "--json", "--bus", bus]);
    let (grid, other) = (publish("lab/a"), publish("lab/b"));
    let node = || get(address, "/api/graph").json()["nodes"][0].clone();
    let count = |node: &Value, key: &str| node[key].as_u64().unwrap();
    // Rows with a value, and rows in holes.
    let reached = |what: &str, rows: u64, holes: u64| {
        wait_until(what, || {
            let node = node();
            let source = count(&node, "source_samples");
            (source >= holes && count(&node, "offered_samples") - source >= rows).then_some(node)
        })
    };
    let before = reached("sums", 500, 0);
    assert_eq!((&before["absent"], &before["error"]), (&json!([]), &json!(null)));

    other.signal(Signal::STOP);
    wait_until("the input to be absent", || (node()["absent"] == json!(["lab/b"])).then_some(()));
    let holes = count(&node(), "source_samples");
    // The other input alone gives the rows now.
    reached("holes", 500, holes + 1_000);
    let gap = wait_until("the hole with its input", || {
        let gaps = get(address, "/api/gaps?stream=lab/sum").json();
        let is_named = |gap: &&Value| {
            let evidence = gap["evidence"].as_array().unwrap();
            evidence.iter().any(|line| line == "nothing of lab/b has come since this began")
        };
        gaps.as_array().unwrap().iter().find(is_named).cloned()
    });
    assert_eq!(gap["lost"].as_object().unwrap().keys().collect::<Vec<_>>(), ["source"], "{gap}");

    other.signal(Signal::CONT);
    wait_until("the input to be back", || (node()["absent"] == json!([])).then_some(()));
    let now = node();
    let (holes, offered) = (count(&now, "source_samples"), count(&now, "offered_samples"));
    reached("sums behind it", offered - holes + 500, holes);
    for publisher in [grid, other] {
        publisher.signal(Signal::INT);
        assert!(publisher.wait().0.success());
    }
    monitor.signal(Signal::INT);
    let (_, lines) = monitor.wait();
    let accounts: Vec<_> = lines.iter().filter(|line| line["event"] == "account").collect();
    assert!(accounts.iter().all(|account| account["balanced"] == json!(true)), "{lines:?}");
    let is_by_ring = |name| accounts.iter().any(|it| it["stream"] == name && it["leg"] == "shm");
    assert!(is_by_ring("lab/a") && is_by_ring("lab/b"), "{lines:?}");
}
