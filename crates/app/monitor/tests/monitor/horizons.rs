//! Alignment with a source that sends nothing: its horizon releases the rows, and its samples are waited for again.

use monitor::MonitorConfig;
use serde_json::{Value, json};
use support::wait_until;
use tallycast::{Bus, Channel, Dtype};

use crate::scene::{FEED_RATE, Feed, ask, bus, get, has_data, listed, node, start};

fn status(address: std::net::SocketAddr) -> Value {
    get(address, "/api/graph").json()["nodes"][0].clone()
}

/// Waits until this number of samples is in holes, and this number is not.
fn reached(address: std::net::SocketAddr, holes: u64, rows: u64) {
    wait_until("rows of the derived stream", || {
        let status = status(address);
        let count = |key: &str| status[key].as_u64().unwrap();
        let source = count("source_samples");
        (source >= holes && count("offered_samples") - source >= rows).then_some(())
    });
}

#[test]
fn a_source_that_pauses_is_a_hole_while_its_tallies_come_and_then_goes_on() {
    pauses_and_goes_on(&bus());
}

#[test]
fn a_source_that_pauses_on_this_host_is_a_hole_while_it_is_there_and_then_goes_on() {
    let rings = tempfile::tempdir_in("/dev/shm").unwrap();
    pauses_and_goes_on(
        &format!("{}&shm={}", support::ports::private_bus_from_now(), rings.path().display())
            .parse()
            .unwrap(),
    );
}

fn pauses_and_goes_on(bus: &Bus) {
    let monitor = start(MonitorConfig::new(node(bus)));
    let address = monitor.address();
    let derive = json!({
        "name": "lab/difference", "kind": "derive", "expression": "a - b",
        "inputs": {"a": "lab/a:x", "b": "lab/b:x"}
    });
    let graph = json!({"node": [derive]}).to_string();
    assert_eq!(ask(address, "PUT /api/graph HTTP/1.1\r\nIf-Match: 0", &graph).status, 200);
    let paused = node(bus);
    let builder = paused.publisher("lab/b").dtype(Dtype::F8).rate(FEED_RATE);
    let mut publisher = builder.channel(Channel::new("x", "V")).open().unwrap();
    // The first samples may be sent before the monitor hears the stream.
    wait_until("samples of lab/b", || {
        publisher.send(&[1.0_f64; 10]).unwrap();
        let streams = get(address, "/api/streams").json()["streams"].clone();
        let has_samples = |it: &Value| it["stream"] == "lab/b" && it["next_index"].as_u64() > Some(0);
        streams.as_array().unwrap().iter().any(has_samples).then_some(())
    });
    let grid = Feed::start(bus, "lab/a", 0.0, |index| index as f64);
    listed(address, "lab/a", has_data);
    // Its horizon alone releases the rows.
    reached(address, 500, 0);
    assert_eq!(status(address)["absent"], json!([]));
    drop(publisher);
    listed(address, "lab/b", |stream| stream["state"] == "closed");
    let back = Feed::start(bus, "lab/b", 0.0, |_| 1.0);
    reached(address, 500, 500);
    assert_eq!(status(address)["error"], json!(null));
    drop(grid);
    drop(back);
    listed(address, "lab/difference", |stream| {
        stream["next_index"].as_u64() == status(address)["offered_samples"].as_u64()
    });
    assert!(monitor.stop().iter().all(|account| account.account.check().is_ok()));
}
