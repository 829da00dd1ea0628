//! The graph that was applied last, after a restart of the monitor.

use std::net::SocketAddr;
use std::path::Path;

use monitor::{GraphFile, MonitorConfig};
use serde_json::{Value, json};

use crate::scene::{Feed, ask, bus, get, has_data, listed, node, start};

fn thin(name: &str, every: u64) -> Value {
    json!({"name": name, "kind": "thin", "input": "lab/x", "every": every})
}

fn config(bus: &tallycast::Bus, kept: &Path) -> MonitorConfig {
    let mut config = MonitorConfig::new(node(bus));
    config.state = kept.parent().map(Path::to_owned);
    config
}

fn put(address: SocketAddr, of: &str, nodes: &[Value]) -> Value {
    let head = format!("PUT /api/graph HTTP/1.1\r\nIf-Match: {of}");
    let answer = ask(address, &head, &json!({ "node": nodes }).to_string());
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()
}

fn graph(address: SocketAddr) -> (Value, Vec<String>, Value) {
    let graph = get(address, "/api/graph").json();
    let names = graph["nodes"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned());
    (graph["revision"].clone(), names.collect(), graph["origin"]["from"].clone())
}

#[test]
fn a_monitor_that_restarts_runs_the_graph_that_was_applied_last() {
    let (bus, folder) = (bus(), tempfile::tempdir().unwrap());
    let kept = folder.path().join("state/graph.json");
    let feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    let monitor = start(config(&bus, &kept));
    assert_eq!(graph(monitor.address()), (json!(0), vec![], json!("settings")));
    assert_eq!(put(monitor.address(), "0", &[thin("lab/a", 10)])["lasting"], true);
    assert_eq!(put(monitor.address(), "1", &[thin("lab/b", 20)])["lasting"], true);
    assert_eq!(graph(monitor.address()).2, json!("applied"));
    let _ = monitor.stop();

    let mut again = config(&bus, &kept);
    again.nodes = vec![serde_json::from_value(thin("lab/settings", 10)).unwrap()];
    let monitor = start(again.clone());
    assert_eq!(graph(monitor.address()), (json!(2), vec!["lab/b".to_owned()], json!("kept")));
    listed(monitor.address(), "lab/b", has_data);
    let _ = monitor.stop();

    again.graph_file = Some(GraphFile { path: "given.toml".into(), nodes: again.nodes.clone() });
    let monitor = start(again);
    assert_eq!(graph(monitor.address()), (json!(3), vec!["lab/settings".to_owned()], json!("file")));
    let _ = monitor.stop();
    let monitor = start(config(&bus, &kept));
    assert_eq!(graph(monitor.address()).1, ["lab/b"], "what a file began with is not kept");
    drop(feed);
}

#[test]
fn a_damaged_file_is_told_and_everything_else_runs() {
    let (bus, folder) = (bus(), tempfile::tempdir().unwrap());
    let kept = folder.path().join("graph.json");
    std::fs::write(&kept, "{\"revision\": 4, \"node\": [{").unwrap();
    let mut config = config(&bus, &kept);
    config.nodes = vec![serde_json::from_value(thin("lab/a", 10)).unwrap()];
    let feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    let monitor = start(config);
    listed(monitor.address(), "lab/a", has_data);
    let origin = get(monitor.address(), "/api/graph").json()["origin"].clone();
    assert_eq!(origin["from"], "settings");
    assert!(origin["problem"].as_str().unwrap().contains("repair the file"), "{origin}");
    drop(feed);
}

#[test]
fn without_a_file_a_change_says_that_it_does_not_last() {
    let monitor = start(MonitorConfig::new(node(&bus())));
    assert_eq!(put(monitor.address(), "0", &[thin("lab/a", 10)])["lasting"], false);
}
