//! Operators' processes: started, reported, restarted, and ended with the monitor. A script replaces the interpreter;
//! operators in Python are in `python/tests/test_operator_process.py`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use monitor::{MonitorConfig, MonitorError, OperatorConfig};
use serde_json::{Value, json};
use support::wait_until;

use crate::scene::{ask, bus, get, node, post, start};

fn operator(function: &str) -> OperatorConfig {
    let text = format!(
        r#"{{"name": "{function}", "python": "ops:{function}", "inputs": ["lab/x"], "output": "made/{function}"}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn config(functions: &[&str]) -> MonitorConfig {
    let mut config = MonitorConfig::new(node(&bus()));
    config.operators = functions.iter().map(|function| operator(function)).collect();
    config.python = format!("{}/tests/monitor/operator.sh", env!("CARGO_MANIFEST_DIR"));
    config
}

/// Waits until the operator's state satisfies `is`.
fn told(address: SocketAddr, name: &str, is: impl Fn(&Value) -> bool) -> Value {
    wait_until(name, || {
        let all = get(address, "/api/derived").json();
        all.as_array().unwrap().iter().find(|it| it["operator"] == name && is(it)).cloned()
    })
}

fn is_alive(pid: &Value) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn an_operator_that_is_killed_is_told_of_and_started_again() {
    let monitor = start(config(&["steady"]));
    let address = monitor.address();
    let first = told(address, "steady", |it| it["offered_samples"] == 10);
    assert_eq!(
        (&first["state"], &first["starts"], &first["error"]),
        (&"running".into(), &1.into(), &Value::Null)
    );
    assert_eq!((&first["name"], &first["python"]), (&"made/steady".into(), &"ops:steady".into()));
    assert!(Command::new("kill").args(["-9", &first["pid"].to_string()]).status().unwrap().success());
    let second = told(address, "steady", |it| it["starts"] == 2 && it["offered_samples"] == 20);
    assert_eq!((&second["state"], &second["lost_elements"]["injected"]), (&"running".into(), &8.into()));
    let end = second["last_end"].as_str().unwrap();
    assert!(end.starts_with(&format!("its process {} ended with signal: 9", first["pid"])), "{end}");
    let metrics = String::from_utf8(get(address, "/metrics").body).unwrap();
    for line in [
        r#"tallycast_monitor_operator_up{operator="steady"} 1"#,
        r#"tallycast_monitor_operator_starts_total{operator="steady"} 2"#,
        r#"tallycast_monitor_operator_samples_offered_total{operator="steady"} 20"#,
        r#"tallycast_monitor_operator_samples_source_total{operator="steady"} 8"#,
        r#"tallycast_monitor_operator_elements_lost_total{operator="steady",stage="injected"} 8"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert!(is_alive(&second["pid"]));
    drop(monitor);
    assert!(!is_alive(&second["pid"]), "it ended with the monitor");
}

#[test]
fn an_operator_that_fails_is_told_with_its_last_line_and_hinders_nobody() {
    let monitor = start(config(&["failing", "steady"]));
    let address = monitor.address();
    let failing = told(address, "failing", |it| it["starts"].as_u64() > Some(1));
    let end = failing["last_end"].as_str().unwrap();
    assert!(end.ends_with("ended with exit status: 1: ValueError: no such filter"), "{end}");
    assert_eq!(told(address, "steady", |it| it["state"] == "running")["starts"], 1);
}

#[test]
fn an_operator_that_lags_says_so_and_one_that_no_interpreter_runs_too() {
    let monitor = start(config(&["lagging"]));
    let lagging = told(monitor.address(), "lagging", |it| it["state"] == "lagging");
    assert!(lagging["error"].as_str().unwrap().contains("2.0 s behind"), "{lagging}");
    let mut without = config(&["steady"]);
    without.python = "/no/such/python".to_owned();
    let monitor = start(without);
    let waiting = told(monitor.address(), "steady", |it| !it["error"].is_null());
    assert!(waiting["error"].as_str().unwrap().contains("/no/such/python: No such file"), "{waiting}");
    assert_eq!((&waiting["state"], &waiting["starts"]), (&"waiting".into(), &0.into()));
}

#[test]
fn an_operator_that_does_not_end_is_killed() {
    let monitor = start(config(&["deaf"]));
    let pid = told(monitor.address(), "deaf", |it| it["state"] == "running")["pid"].clone();
    assert!(is_alive(&pid));
    let _ = monitor.stop();
    assert!(!is_alive(&pid));
}

#[test]
fn no_page_ends_an_operator_and_what_cannot_be_keeps_the_monitor_from_starting() {
    let monitor = start(config(&["steady"]));
    let refused = ask(monitor.address(), "DELETE /api/derived?name=made/steady HTTP/1.1", "");
    assert_eq!(refused.status, 400);
    assert!(refused.json()["help"].as_str().unwrap().contains("[[monitor.operator]]"));
    let mut twice = config(&["steady", "steady"]);
    twice.listen = "127.0.0.1:0".parse().unwrap();
    let error = monitor::start(twice).err().unwrap();
    assert!(matches!(&error, MonitorError::Operator { name, .. } if name == "steady"), "{error}");
}

#[test]
fn a_stream_derived_from_an_operator_that_reads_it_is_refused_at_the_start_and_later() {
    let mut circular = config(&["steady"]);
    circular.operators[0].inputs = vec!["d/x".to_owned()];
    let derive = |name: &str| json!({"name": name, "kind": "derive", "expression": "a", "inputs": {"a": "made/steady:value"}});
    let monitor = start(circular.clone());
    let refused = post(monitor.address(), "/api/derive", &derive("d/x").to_string());
    assert_eq!((refused.status, &refused.json()["help"]), (400, &"take one of these inputs out".into()));
    assert_eq!(
        refused.json()["error"],
        "node `d/x`: `d/x` is computed from itself: d/x from made/steady from d/x"
    );
    assert_eq!(post(monitor.address(), "/api/derive", &derive("made/steady").to_string()).status, 400);
    assert_eq!(post(monitor.address(), "/api/derive", &derive("d/y").to_string()).status, 200);
    circular.nodes = vec![serde_json::from_value(derive("d/x")).unwrap()];
    circular.listen = "127.0.0.1:0".parse().unwrap();
    let error = monitor::start(circular).err().unwrap();
    assert!(matches!(&error, MonitorError::Graph(_)), "{error}");
}

/// Makes a node that runs a function of the folder of programs.
fn node_of(name: &str, function: &str, every: u64) -> Value {
    json!({"name": name, "kind": "operator", "python": function, "inputs": ["lab/x"], "every": every})
}

fn put(address: SocketAddr, nodes: &[Value]) -> crate::scene::Answer {
    let body = json!({ "node": nodes }).to_string();
    ask(address, "PUT /api/graph HTTP/1.1\r\nIf-Match: *", &body)
}

#[test]
fn an_operator_of_a_graph_is_started_changed_and_ended_with_its_node_and_others_stay() {
    let programs = tempfile::tempdir().unwrap();
    let mut config = config(&[]);
    config.programs = Some(programs.path().to_owned());
    let monitor = start(config);
    let address = monitor.address();
    let (kept, first) = (node_of("made/kept", "ops.py:steady", 1), node_of("made/x", "ops.py:steady", 2));
    let applied = put(address, &[kept.clone(), first]);
    assert_eq!(applied.status, 200, "{}", applied.json());
    let running = |name: &str| told(address, name, |it| it["state"] == "running")["pid"].clone();
    let (of_kept, of_first) = (running("made/kept"), running("made/x"));
    let shown = wait_until("the process in the graph", || {
        let nodes = get(address, "/api/graph").json()["nodes"].clone();
        (nodes[1]["process"]["state"] == "running").then(|| nodes[1].clone())
    });
    assert_eq!((&shown["process"]["pid"], &shown["kind"]), (&of_first, &"operator".into()));
    let changed = put(address, &[kept.clone(), node_of("made/x", "ops.py:steady", 3)]);
    assert_eq!(
        (&changed.json()["changed"], &changed.json()["kept"]),
        (&json!(["made/x"]), &json!(["made/kept"]))
    );
    let second = told(address, "made/x", |it| it["state"] == "running" && it["pid"] != of_first);
    assert!(!is_alive(&of_first), "two processes never publish one stream");
    assert_eq!(put(address, &[kept]).json()["removed"], json!(["made/x"]));
    wait_until("the end of the process", || (!is_alive(&second["pid"])).then_some(()));
    let listed = get(address, "/api/derived").json();
    assert_eq!(listed.as_array().unwrap().iter().map(|it| &it["name"]).collect::<Vec<_>>(), ["made/kept"]);
    assert_eq!(running("made/kept"), of_kept);
    let ended = ask(address, "DELETE /api/derived?name=made/kept HTTP/1.1", "");
    assert_eq!((ended.status, ended.json()), (200, json!([])));
    drop(monitor);
    assert!(!is_alive(&of_kept));
}

#[test]
fn a_graph_that_is_sent_runs_only_functions_that_the_servers_owner_laid_out() {
    let refused = |config: MonitorConfig, python: &str| {
        let monitor = start(config);
        let answer = put(monitor.address(), &[node_of("made/x", python, 1)]);
        (answer.status, format!("{}", answer.json()))
    };
    let (status, why) = refused(config(&[]), "ops.py:steady");
    assert!(status == 403 && why.contains("monitor.programs"), "{status} {why}");
    let programs = tempfile::tempdir().unwrap();
    for python in ["os:system", "/tmp/ops.py:steady", "../ops.py:steady", "ops.py:os.system"] {
        let mut config = config(&[]);
        config.programs = Some(programs.path().to_owned());
        let (status, why) = refused(config, python);
        assert!(status == 400 && why.contains("FILE.py:FUNCTION"), "{status} {why}");
    }
}

#[test]
fn a_process_that_is_stopped_holds_up_no_node_beside_it() {
    let bus = bus();
    let mut config = MonitorConfig::new(node(&bus));
    config.python = format!("{}/tests/monitor/operator.sh", env!("CARGO_MANIFEST_DIR"));
    let thin = json!({"name": "lab/slow", "kind": "thin", "input": "lab/x", "every": 10});
    let operator = node_of("made/x", "ops:steady", 1);
    config.nodes = [thin, operator].map(|node| serde_json::from_value(node).unwrap()).to_vec();
    let monitor = start(config);
    let address = monitor.address();
    let pid = told(address, "made/x", |it| it["state"] == "running")["pid"].to_string();
    assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
    let feed = crate::scene::Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    crate::scene::listed(address, "lab/slow", |it| it["next_index"].as_u64() > Some(50));
    drop(feed);
    let accounts = monitor.stop();
    let slow = accounts.iter().find(|it| it.stream.as_str() == "lab/slow").unwrap();
    assert_eq!(slow.account.elements.unexplained, 0);
    assert!(tallycast::is_in_order(&slow.account));
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it was killed");
}
