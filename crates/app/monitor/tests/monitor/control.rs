//! Changes while a monitor runs: patterns, derived streams, injected loss.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use monitor::plan::Node;
use monitor::{InjectControl, MonitorConfig, MonitorError};
use serde_json::{Value, json};
use support::{WATCHDOG, wait_until};
use tallycast::{AccountState, Event, Reach, Stage, StreamAccount};
use wire::TraceShape;

use crate::accounts::sum;
use crate::scene::{Feed, POLL_INTERVAL, Page, ask, bus, get, has_data, listed, monitor, node, post, start};

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
    wait_until("empty catalogue", || {
        let streams = get(address, "/api/streams").json();
        streams["streams"].as_array().unwrap().is_empty().then_some(())
    });
    assert_eq!(post(address, "/api/leave", r#"{"pattern":"lab/*"}"#).status, 404);
    assert_eq!(post(address, "/api/join", r#"{"pattern":"a b"}"#).status, 400);
    assert_eq!(post(address, "/api/join", r#"{"patter"#).status, 400);
    assert_eq!(ask(address, "PUT /api/join HTTP/1.1", "").status, 405);
    let huge = format!(r#"{{"pattern":"{}"}}"#, "a".repeat(65_536));
    let refused = post(address, "/api/join", &huge);
    assert_eq!(refused.status, 413);
    assert!(refused.json()["help"].as_str().unwrap().contains("at most 65536 bytes"), "{}", refused.json());
}

/// Their accounts have ended already, so that no account is cut.
#[test]
fn a_pattern_that_is_left_takes_streams_along_that_are_over() {
    let bus = bus();
    let monitor = monitor(&bus);
    let address = monitor.address();
    let feed = Feed::start(&bus, "lab/over", 0.0, |index| index as f64);
    listed(address, "lab/over", has_data);
    drop(feed);
    listed(address, "lab/over", |stream| stream["health"] == "ended");
    let patterns = get(address, "/api/patterns").json();
    for pattern in patterns.as_array().unwrap() {
        post(address, "/api/leave", &json!({ "pattern": pattern }).to_string());
    }
    wait_until("empty catalogue", || {
        let streams = get(address, "/api/streams").json();
        streams["streams"].as_array().unwrap().is_empty().then_some(())
    });
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
    assert!(extremes.to_vec().iter().flatten().all(|value| value.is_nan() || *value == 0.0));
    wait_until("inherited holes", || {
        let account = get(address, "/api/account?stream=derived/zero").json();
        (account["elements"]["lost"]["source"].as_u64() > Some(0)).then_some(())
    });
    assert_eq!(get(address, "/api/derived").json()[0]["error"], json!(null));
    assert_eq!(ask(address, "DELETE /api/derived?name=derived/zero HTTP/1.1", "").json(), json!([]));
    listed(address, "derived/zero", |stream| stream["health"] == "ended");
    assert_eq!(ask(address, "DELETE /api/derived?name=derived/zero HTTP/1.1", "").status, 404);
}

#[test]
fn a_derived_account_balances_and_closes_whatever_its_input_lost() {
    let bus = bus();
    let monitor = monitor(&bus);
    let address = monitor.address();
    let derive = json!({"name": "derived/same", "expression": "a", "inputs": {"a": "lab/x:x"}});
    assert_eq!(post(address, "/api/derive", &derive.to_string()).status, 200);
    let feed = Feed::start(&bus, "lab/x", 0.2, |index| index as f64);
    let loses = |stream: &Value| stream["lost_elements"].as_u64() > Some(100);
    listed(address, "derived/same", loses);
    drop(feed);
    listed(address, "lab/x", |stream| stream["state"] == "closed");
    // Before the end: what became samples of the derived stream is what arrived of its input.
    let delivered = sum(&by_stream(monitor.accounts())["lab/x"]).elements.delivered;
    let derived = wait_until("the last derived samples", || {
        let derived = get(address, "/api/derived").json()[0].clone();
        let count = |field: &str| derived[field].as_u64().unwrap();
        (count("offered_samples") - count("source_samples") == delivered).then_some(derived)
    });
    let gaps = get(address, "/api/gaps?stream=derived/same&limit=4096").json();
    let settled = |gap: &&Value| gap["settled"] == true;
    let holes: Vec<_> = gaps.as_array().unwrap().iter().filter(settled).collect();
    assert!(!holes.is_empty());
    for hole in holes {
        let inherited = &hole["inherited"][0];
        assert_eq!((&hole["lost"]["source"], &inherited["stream"]), (&hole["elements"], &json!("lab/x")));
        assert_eq!(
            (&inherited["lost"]["injected"], &inherited["unexplained"]),
            (&hole["elements"], &json!(0))
        );
        assert!(hole["evidence"].to_string().contains("inherited from lab/x: injected"), "{hole}");
    }
    assert_eq!(ask(address, "DELETE /api/derived?name=derived/same HTTP/1.1", "").json(), json!([]));
    listed(address, "derived/same", |stream| stream["state"] == "closed");
    let accounts = monitor.stop();
    for account in &accounts {
        // Both arrive over the bus, each through a socket of its own group.
        assert!(
            account.reach == Reach::Udp && account.port.unwrap().address.ip().is_multicast(),
            "{account:?}"
        );
    }
    let whole: BTreeMap<_, _> =
        by_stream(accounts).into_iter().map(|(name, accounts)| (name, sum(&accounts))).collect();
    assert!(whole.keys().eq(["derived/same", "lab/x"]), "{whole:?}");
    for account in whole.values() {
        assert_eq!(account.state, AccountState::Closed, "{whole:?}");
        assert!(tallycast::is_in_order(account), "{whole:?}");
    }
    let rows = whole["derived/same"].elements;
    assert_eq!(rows.next, derived["offered_samples"].as_u64().unwrap());
    assert_eq!(rows.delivered + rows.lost[Stage::Source], rows.next - rows.first);
}

fn by_stream(accounts: Vec<StreamAccount>) -> BTreeMap<String, Vec<StreamAccount>> {
    let mut by_stream: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for account in accounts {
        by_stream.entry(account.stream.to_string()).or_default().push(account);
    }
    by_stream
}

/// Within one host, where a publisher that is kept from its processor has not fallen silent: to a monitor that is about to finish,
/// an input that has is one that has ended.
#[test]
fn a_derived_stream_ends_with_its_inputs_when_the_monitor_finishes() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let bus = format!("shm://finish?dir={}&access=owner", directory.path().display()).parse().unwrap();
    let mut config = MonitorConfig::new(node(&bus));
    let derived = |name: &str, expression: &str, input: &str| -> Node {
        let node = json!({"name": name, "kind": "derive", "expression": expression, "inputs": {"a": input}});
        serde_json::from_value(node).unwrap()
    };
    config.nodes = vec![derived("d/twice", "2 * a", "d/once:value"), derived("d/once", "a", "lab/x:x")];
    let monitor = start(config);
    let address = monitor.address();
    // Another reader, as the recorder of a demo is one.
    let mut other = node(&bus).subscriber("d/*").reader("other").open().unwrap();
    let feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    listed(address, "d/twice", has_data);
    wait_until("the other reader's share", || {
        let _ = other.next(POLL_INTERVAL);
        (other.accounts_without_gaps().len() == 2).then_some(())
    });
    let finishing = std::thread::spawn(move || monitor.finish(WATCHDOG));
    // While the input continues, so does the derived stream.
    let going_on = listed(address, "d/twice", |_| true)["next_index"].as_u64();
    listed(address, "d/twice", |stream| stream["next_index"].as_u64() > going_on.map(|index| index + 200));
    drop(feed);
    let accounts = finishing.join().unwrap();
    let mut ended = BTreeMap::new();
    wait_until("the other reader's last accounts", || {
        if let Some(Event::Ended(account)) = other.next(POLL_INTERVAL) {
            ended.insert(account.stream.as_str().to_owned(), account);
        }
        (ended.len() == 2).then_some(())
    });
    assert_eq!(accounts.len(), 3);
    for account in accounts.iter().chain(ended.values()) {
        let what = format!("{} of {}: {:?}", account.stream, account.reader, account.account.state);
        assert_eq!(account.account.state, AccountState::Closed, "{what}");
        assert!(tallycast::is_in_order(&account.account), "{what}");
    }
    // The end of the chain is complete: every sample of the input went through both.
    let rows = |name: &str| {
        accounts.iter().find(|account| account.stream.as_str() == name).unwrap().account.elements
    };
    for (input, derived) in [("lab/x", "d/once"), ("d/once", "d/twice")] {
        assert_eq!(rows(derived).next, rows(input).next - rows(input).first, "{derived}");
    }
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
    let node = json!({"name": "d/x", "kind": "derive", "expression": "a + ", "inputs": {"a": "lab/x:x"}});
    config.nodes = vec![serde_json::from_value(node).unwrap()];
    let error = monitor::start(config).err().unwrap();
    assert!(matches!(error, MonitorError::Graph(_)), "{error}");
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
    assert!(error.contains("is in use") && error.contains("--listen 127.0.0.1:"), "{error}");
}
