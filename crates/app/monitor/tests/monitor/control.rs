//! What changes while a monitor runs: patterns, derived streams, injected loss.

use std::sync::{Arc, Mutex};

use monitor::{DerivedStream, InjectControl, MonitorConfig, MonitorError};
use serde_json::json;
use wire::TraceShape;

use crate::scene::{Feed, Page, ask, bus, get, has_data, listed, monitor, node, post, start, wait_for};

#[test]
fn streams_are_joined_and_left_while_the_monitor_runs() {
    let bus = bus();
    let mut config = MonitorConfig::new(node(&bus));
    config.patterns = Vec::new();
    let monitor = start(config);
    let address = monitor.address();
    let (_a, _b) = (
        Feed::start(&bus, "lab/a", 0.0, |index| index as f64),
        Feed::start(&bus, "hall/b", 0.0, |index| index as f64),
    );
    assert_eq!(get(address, "/api/patterns").json(), json!([]));
    assert_eq!(post(address, "/api/join", r#"{"pattern":"lab/*"}"#).json(), json!(["lab/*"]));
    listed(address, "lab/a", has_data);
    let streams = get(address, "/api/streams").json();
    assert_eq!(streams["streams"].as_array().unwrap().len(), 1, "the other was not asked for");
    assert_eq!(post(address, "/api/leave", r#"{"pattern":"lab/*"}"#).json(), json!([]));
    wait_for("empty catalogue", || {
        let streams = get(address, "/api/streams").json();
        streams["streams"].as_array().unwrap().is_empty().then_some(())
    });
    assert_eq!(post(address, "/api/leave", r#"{"pattern":"lab/*"}"#).status, 404);
    assert_eq!(post(address, "/api/join", r#"{"pattern":"a b"}"#).status, 400);
    assert_eq!(post(address, "/api/join", r#"{"patter"#).status, 400);
    assert_eq!(ask(address, "PUT /api/join HTTP/1.1", "").status, 405);
    let huge = format!(r#"{{"pattern":"{}"}}"#, "a".repeat(65_536));
    assert_eq!(post(address, "/api/join", &huge).status, 413);
}

#[test]
fn a_stream_less_itself_is_zero_and_inherits_every_hole() {
    let bus = bus();
    let monitor = monitor(&bus);
    let address = monitor.address();
    let _feed = Feed::start(&bus, "lab/x", 0.05, |index| (index as f64).sqrt());
    listed(address, "lab/x", has_data);
    let derive = json!({
        "name": "derived/zero", "expression": "a - b", "unit": "V",
        "inputs": {"a": "lab/x:x", "b": "lab/x:x"},
    });
    assert_eq!(post(address, "/api/derive", &derive.to_string()).status, 200);
    assert_eq!(post(address, "/api/derive", &derive.to_string()).status, 400, "not twice");
    let stream = listed(address, "derived/zero", has_data);
    assert_eq!((&stream["derived"], &stream["labels"]["expression"]), (&true.into(), &"a - b".into()));
    assert_eq!((&stream["channels"][0]["unit"], &stream["rate"]["numerator"]), (&"V".into(), &1_000.into()));
    let mut page = Page::open(address);
    page.say(
        r#"{"type":"view","view":1,"traces":[{"stream":"derived/zero","channel":"value"}],"width_px":100,"span_ns":3000000000,"end_ns":null}"#,
    );
    let frame = page.frame(|frame| !frame.traces[0].gaps.is_empty());
    let TraceShape::Columns { extremes, .. } = &frame.traces[0].shape else { panic!("columns") };
    assert!(extremes.iter().flatten().all(|value| value.is_nan() || *value == 0.0));
    wait_for("inherited holes", || {
        let account = get(address, "/api/account?stream=derived/zero").json();
        (account["elements"]["lost"]["source"].as_u64() > Some(0)).then_some(())
    });
    assert_eq!(get(address, "/api/derived").json()[0]["error"], json!(null));
    assert_eq!(ask(address, "DELETE /api/derived?name=derived/zero HTTP/1.1", "").json(), json!([]));
    listed(address, "derived/zero", |stream| stream["health"] == "ended");
    assert_eq!(ask(address, "DELETE /api/derived?name=derived/zero HTTP/1.1", "").status, 404);
}

#[test]
fn a_wrong_expression_is_refused_with_its_place() {
    let monitor = monitor(&bus());
    let wrong = json!({"name": "d/x", "expression": "a +", "inputs": {"a": "lab/x:x"}});
    let refused = post(monitor.address(), "/api/derive", &wrong.to_string());
    assert_eq!(refused.status, 400);
    assert!(refused.json()["error"].as_str().unwrap().contains("at 4"), "{}", refused.json());
}

#[test]
fn a_monitor_does_not_start_with_a_derived_stream_that_cannot_be() {
    let mut config = MonitorConfig::new(node(&bus()));
    config.listen = "127.0.0.1:0".parse().unwrap();
    let inputs = [("a".to_owned(), "lab/x".to_owned())].into();
    let (name, expression) = ("d/x".to_owned(), "a".to_owned());
    config.derived = vec![DerivedStream { name, expression, inputs, unit: String::new(), grid: None }];
    let error = monitor::start(config).err().unwrap();
    assert!(matches!(error, MonitorError::Derived { .. }), "{error}");
}

#[derive(Default)]
struct Switch(Mutex<f64>);

impl InjectControl for Switch {
    fn set(&self, probability: f64) -> Result<(), String> {
        *self.0.lock().unwrap() = probability;
        Ok(())
    }

    fn get(&self) -> f64 {
        *self.0.lock().unwrap()
    }
}

#[test]
fn the_switch_reaches_the_publishers_where_there_is_one() {
    let without = monitor(&bus());
    assert_eq!(get(without.address(), "/api/inject").json()["available"], false);
    assert_eq!(post(without.address(), "/api/inject", r#"{"probability":0.01}"#).status, 404);
    let switch = Arc::new(Switch::default());
    let mut config = MonitorConfig::new(node(&bus()));
    config.inject = Some(switch.clone());
    let with = start(config);
    let set = |body: &str| post(with.address(), "/api/inject", body);
    assert_eq!(set(r#"{"probability":0.01}"#).json(), json!({"available": true, "probability": 0.01}));
    assert_eq!(switch.get(), 0.01);
    for wrong in [r#"{"probability":1.01}"#, r#"{"probability":-0.1}"#, r#"{"probability":null}"#, "{}"] {
        assert_eq!(set(wrong).status, 400, "{wrong}");
    }
}

#[test]
fn a_taken_port_is_said_with_the_way_out() {
    let first = monitor(&bus());
    let mut config = MonitorConfig::new(node(&bus()));
    config.listen = first.address();
    let error = monitor::start(config).err().unwrap().to_string();
    assert!(error.contains("is taken") && error.contains("--listen 127.0.0.1:"), "{error}");
}
