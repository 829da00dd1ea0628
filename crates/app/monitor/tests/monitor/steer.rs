//! Steering of a real cyclic app over the API. Nothing here measures time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use keys::exchange_public;
use monitor::MonitorConfig;
use serde_json::{Value, json};
use support::http::Answer;
use support::wait_until;
use tallycast::cyclic::{AppReport, CycleResult};
use tallycast::steering::{Log, Parameter, Policy, Record, read_log};
use tallycast::udt::{Keys, Secret, Suite};
use tallycast::{Bus, StreamName};

use crate::roles::{Access, as_page, sign_in};
use crate::scene::{ask, bus, get, monitor, node, start};

const APP: &str = "test/rod";
/// The app trusts the monitor's connection with everything but the limit.
const RULES: &str = "deny anyone steer test/rod/limit\nallow anyone steer,administer test/rod\nallow anyone steer,administer test/rod/*\n";

/// An app in a thread.
struct Rod {
    stop: Sender<()>,
    thread: Option<JoinHandle<AppReport>>,
    folder: tempfile::TempDir,
}

impl Rod {
    fn start(bus: &Bus) -> Self {
        Self::with(bus, RULES, None)
    }

    /// Starts it with other rules, and keys under which the first listed peer is `desk`.
    fn with(bus: &Bus, rules: &str, keys: Option<Keys>) -> Self {
        // In memory: an answer waits until its record is on disk, however busy that is.
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let (stop, stopped) = channel();
        let mut app = node(bus).app(APP);
        app.steering()
            .listen("127.0.0.1".parse().unwrap(), Some(0))
            .log(folder.path().join("log"))
            .policy(Policy::parse(rules).unwrap());
        if let Some(keys) = keys {
            let desk = keys.responder.map(|key| (key, "desk".parse().unwrap()));
            app.steering().keys(keys, desk.into_iter().collect());
        }
        let gain = app.parameter(Parameter::new("gain", 1.0).unit("V").range(0.0, 10.0).greatest_step(4.0));
        app.parameter(Parameter::switch("heater", false).lease("heating"));
        app.parameter(Parameter::array("limit", &[2], &[3_i32, 4]));
        app.parameter(Parameter::new("mode", 0_u8).administered());
        let output = app.output::<f64>("test/temperature", [("gain", "V")]);
        let run = move || {
            app.run(move |cycle| -> CycleResult {
                let sample = [cycle.parameter(gain)[0]];
                cycle.write(output, &sample)?;
                if stopped.try_recv().is_ok() {
                    cycle.stop();
                }
                Ok(())
            })
        };
        let thread = Some(std::thread::spawn(|| run().unwrap()));
        Self { stop, thread, folder }
    }

    /// Ends the app; returns the records of its log and the totals of its commands.
    fn end(mut self) -> (Vec<Record>, tallycast::steering::Totals) {
        self.stop.send(()).unwrap();
        let report = self.thread.take().unwrap().join().unwrap();
        let path: PathBuf = self.folder.path().join("log");
        let app: StreamName = APP.parse().unwrap();
        let log = Log::verify(&app, &read_log(&path).unwrap(), None, |_, _| true).unwrap();
        let totals = report.commands.unwrap();
        assert!(totals.holds() && totals.pending == 0, "{totals:?}");
        (log.entries.into_iter().map(|entry| entry.record).collect(), totals)
    }
}

impl Drop for Rod {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until the monitor sees the app and reaches it.
fn reached(address: SocketAddr) -> Value {
    wait_until("the app", || {
        let answer = get(address, "/api/steer/test/rod");
        (answer.status == 200).then(|| answer.json())
    })
}

/// Asks as a page without a session.
fn from_page(address: SocketAddr, page: &str, method: &str, body: &Value) -> Answer {
    let head = format!("{method} /api/steer/test/rod HTTP/1.1\r\nTallycast-Page: {page}");
    ask(address, &head, &body.to_string())
}

fn parameter(app: &Value, name: &str) -> Value {
    let parameters = app["parameters"].as_array().unwrap();
    parameters.iter().find(|it| it["name"] == name).unwrap().clone()
}

/// Returns the keys of station number `own`, which lists others.
fn keys(own: u8, peers: &[u8]) -> Keys {
    let secret = |number: u8| Secret::new(zeroize::Zeroizing::new([number; 32]));
    let peers: Vec<_> = peers.iter().map(|peer| exchange_public(&secret(*peer))).collect();
    let responder = peers.first().copied();
    Keys { key: secret(own), peers: peers.into_iter().collect(), responder, suite: Suite::default() }
}

#[test]
fn an_app_with_keys_is_steered_by_a_monitor_whose_key_it_lists_and_by_no_other() {
    let bus = bus();
    let with = |keys| start(MonitorConfig { steering_keys: keys, ..MonitorConfig::new(node(&bus)) });
    let (monitor, without) = (with(Some(keys(2, &[9, 1]))), with(None));
    let rules = "allow key:desk steer test/rod/gain";
    let rod = Rod::with(&bus, rules, Some(keys(1, &[2])));
    let app = reached(monitor.address());
    assert_eq!(parameter(&app, "gain")["value"], json!(1.0));
    let body = json!({"parameter": "gain", "value": 2.0});
    let answer = from_page(monitor.address(), "desk", "PUT", &body);
    assert_eq!(answer.json()["outcome"], "applied", "{:?}", answer.json());
    let refused = wait_until("an answer about the app", || {
        let answer = get(without.address(), "/api/steer/test/rod");
        (answer.status != 404).then_some(answer)
    });
    assert!(refused.status >= 400, "{}", refused.status);
    let (records, totals) = rod.end();
    assert_eq!((totals.received, totals.applied), (1, 1));
    assert!(records.iter().any(|it| matches!(it, Record::Intent { by, .. } if by == "key:desk")));
}

#[test]
fn a_command_is_answered_with_the_sample_in_which_it_took_effect_or_the_rule_that_refused_it() {
    let bus = bus();
    let monitor = monitor(&bus);
    let address = monitor.address();
    let rod = Rod::start(&bus);
    let app = reached(address);
    assert_eq!(
        parameter(&app, "gain"),
        json!({
            "name": "gain", "dtype": "f8", "shape": [], "unit": "V", "min": 0.0, "max": 10.0, "greatest_step": 4.0,
            "administered": false, "group": null, "value": 1.0, "known": true, "revision": 0, "holder": null,
            "yours": false, "may": true
        })
    );
    assert_eq!(parameter(&app, "limit")["value"], json!([3, 4]));
    let listed = get(address, "/api/steer").json();
    assert_eq!(
        listed,
        json!([{"app": APP, "state": listed[0]["state"], "parameters": ["gain", "heater", "limit", "mode"]}])
    );
    let put = |body: Value| {
        let answer = from_page(address, "p", "PUT", &body);
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()
    };
    let applied = put(json!({"parameter": "gain", "value": 2.5, "if_revision": 0, "reason": "test"}));
    assert_eq!(
        (&applied["outcome"], &applied["revision"], &applied["value"]),
        (&json!("applied"), &json!(1), &json!(2.5))
    );
    assert_eq!(applied["epoch"], app["epoch"]);
    assert!(applied["index"].is_u64());
    // What was changed is seen at once, whoever asks.
    let gain = parameter(&get(address, "/api/steer/test/rod").json(), "gain");
    assert_eq!((&gain["value"], &gain["revision"]), (&json!(2.5), &json!(1)));
    let rule = |body: Value| {
        let answer = put(body);
        assert_eq!(answer["outcome"], "refused", "{answer}");
        assert!(answer["advice"].is_string());
        answer["rule"].as_str().unwrap().to_owned()
    };
    let refusals = [
        (json!({"parameter": "gain", "value": 11}), "range"),
        (json!({"parameter": "gain", "value": 9.0}), "step"),
        (json!({"parameter": "gain", "value": [2.0]}), "shape"),
        (json!({"parameter": "gain", "value": true}), "dtype"),
        (json!({"parameter": "gain", "value": 2, "if_revision": 0}), "revision"),
        (json!({"parameter": "gain", "value": 2, "reason": "x".repeat(300)}), "text"),
        (json!({"parameter": "limit", "value": [1, 2]}), "read_only"),
        (json!({"parameter": "heater", "value": true}), "lease"),
    ];
    for (body, name) in refusals.clone() {
        assert_eq!(rule(body), name);
    }
    for (body, status) in [
        (json!({"parameter": "gian", "value": 1}), 404),
        (json!({"parameter": "gain", "value": null}), 400),
        (json!({"parameter": "gain", "value": "2"}), 400),
        (json!({"parameter": "gain"}), 400),
        (json!({"parameter": "gain", "value": 2, "revision": 1}), 400),
    ] {
        let answer = from_page(address, "p", "PUT", &body);
        assert_eq!(answer.status, status, "{body}");
        assert!(answer.json()["help"].is_string());
    }
    let totals = get(address, "/api/steer/test/rod").json()["totals"].clone();
    assert_eq!(
        (&totals["received"], &totals["applied"], &totals["refused"]),
        (&json!(9), &json!(1), &json!(8))
    );
    assert_eq!(totals["refused_by_rule"]["range"], 1);
    let (records, totals) = rod.end();
    assert_eq!((totals.received, totals.applied, totals.refused), (9, 1, 8));
    let reasons = records.iter().filter_map(|record| match record {
        Record::Intent { command, .. } | Record::Attempt { command, .. } => Some(command.reason.as_str()),
        _ => None,
    });
    let reasons: Vec<_> = reasons.collect();
    assert_eq!((reasons[0], reasons[1]), ("anyone: test", "anyone"));
    assert_eq!(get(address, "/api/steer/test/nothing").status, 404);
}

#[test]
fn a_lease_is_the_pages_own_and_a_stop_needs_a_reason() {
    let bus = bus();
    let monitor = monitor(&bus);
    let address = monitor.address();
    let rod = Rod::start(&bus);
    reached(address);
    let heat = json!({"parameter": "heater", "value": true});
    let lease = json!({"action": "lease", "group": "heating"});
    let taken = from_page(address, "one", "POST", &lease);
    assert_eq!((taken.status, &taken.json()["valid_ns"]), (200, &json!(10_000_000_000_u64)));
    let refused = from_page(address, "two", "POST", &lease);
    assert_eq!(refused.status, 409, "{}", refused.json());
    assert_eq!(from_page(address, "two", "PUT", &heat).json()["rule"], "lease");
    let seen = |page: &str| {
        let heater = parameter(&from_page(address, page, "GET", &json!({})).json(), "heater");
        (heater["holder"].clone(), heater["yours"].clone())
    };
    assert_eq!(seen("one"), (json!("anyone"), json!(true)));
    assert_eq!(seen("two"), (json!("anyone"), json!(false)));
    assert_eq!(from_page(address, "one", "PUT", &heat).json()["outcome"], "applied");
    let over = |reason: &str| {
        from_page(
            address,
            "two",
            "POST",
            &json!({"action": "take_over", "group": "heating", "reason": reason}),
        )
    };
    assert_eq!((over(" ").status, over("shift").status), (400, 200));
    assert_eq!((seen("one").1, seen("two").1), (json!(false), json!(true)));
    assert_eq!(
        from_page(address, "one", "POST", &json!({"action": "release", "group": "heating"})).status,
        409
    );
    assert_eq!(
        from_page(address, "two", "POST", &json!({"action": "release", "group": "heating"})).status,
        200
    );
    assert_eq!(seen("two"), (Value::Null, json!(false)));
    assert_eq!(from_page(address, "two", "POST", &json!({"action": "lease", "group": "none"})).status, 404);
    let stop = |reason: &str| from_page(address, "two", "POST", &json!({"action": "stop", "reason": reason}));
    assert_eq!(stop("").status, 400);
    assert_eq!(stop("smoke").json(), json!({"stopped": {"app": true, "all": false}}));
    let gain = json!({"parameter": "gain", "value": 2});
    assert_eq!(from_page(address, "one", "PUT", &gain).json()["rule"], "stopped");
    let resume = json!({"action": "resume", "reason": "it was steam"});
    assert_eq!(from_page(address, "two", "POST", &resume).json()["stopped"]["app"], false);
    assert_eq!(from_page(address, "one", "PUT", &gain).json()["outcome"], "applied");
    let (records, _) = rod.end();
    let switched = records.iter().find_map(|record| match record {
        Record::Switch { is_on: true, reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(switched.as_deref(), Some("anyone: smoke"));
}

#[test]
fn rights_come_first_and_a_lease_ends_with_the_session() {
    let rules = "allow role:operator read **\nallow role:operator steer test/rod/*\nallow role:operator steer test/rod\nallow user:bob read test/**\n";
    let access = Access::new(Some(rules));
    let bus = bus();
    let monitor = access.monitor(|config: &mut MonitorConfig| config.node = node(&bus));
    let address = monitor.address();
    let rod = Rod::start(&bus);
    let (ada, bob) = (sign_in(address, "", "ada"), sign_in(address, "", "bob"));
    let path = "/api/steer/test/rod";
    let ask = |cookie: &str, method: &str, body: &Value| {
        as_page(address, &format!("{method} {path}"), cookie, &body.to_string())
    };
    let lease = json!({"action": "lease", "group": "heating"});
    // To a stranger an app that exists is like one that does not.
    for app in ["test/rod", "test/nothing"] {
        let body = json!({"parameter": "gain", "value": 2});
        for (method, body) in [("GET", json!({})), ("PUT", body), ("POST", lease.clone())] {
            let refused = as_page(address, &format!("{method} /api/steer/{app}"), "", &body.to_string());
            assert_eq!(refused.status, 401, "{method} {app}");
            let refused = as_page(address, &format!("{method} /api/steer/{app}"), &bob, &body.to_string());
            assert_eq!(refused.status, 403, "{method} {app}");
        }
    }
    assert_eq!(as_page(address, "GET /api/steer", &bob, "").json(), json!([]));
    let seen = wait_until("the app", || {
        let answer = ask(&ada, "GET", &json!({}));
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(seen["may"], json!({"steer": true, "administer": false}));
    assert_eq!(
        (&parameter(&seen, "gain")["may"], &parameter(&seen, "mode")["may"]),
        (&json!(true), &json!(false))
    );
    let mode = ask(&ada, "PUT", &json!({"parameter": "mode", "value": 1}));
    assert_eq!(mode.status, 403, "the app lets the monitor, the monitor does not let ada");
    for action in ["take_over", "resume"] {
        let body = match action {
            "resume" => json!({"action": action, "reason": "r"}),
            _ => json!({"action": action, "group": "heating", "reason": "r"}),
        };
        assert_eq!(ask(&ada, "POST", &body).status, 403, "{action}");
    }
    assert_eq!(ask(&ada, "POST", &lease).status, 200);
    let holder = |cookie: &str| parameter(&ask(cookie, "GET", &json!({})).json(), "heater")["holder"].clone();
    assert_eq!(holder(&ada), "user:ada");
    let other = sign_in(address, "", "ada");
    assert_eq!(ask(&other, "POST", &lease).status, 409, "another session is another holder");
    assert_eq!(as_page(address, "POST /api/sign-out", &ada, "").status, 204);
    let mut asked = 0;
    wait_until("the end of the lease", || {
        asked += 1;
        holder(&other).is_null().then_some(())
    });
    let (records, totals) = rod.end();
    assert_eq!(totals.received, 0, "nothing that the monitor refused reached the app");
    // It ended with its session, before the ten seconds after which the app would have forgotten it without a record.
    let leases = records.iter().filter(|record| matches!(record, Record::Lease { .. })).count();
    assert_eq!(leases, 2, "granted, released: {asked} looks");
}

#[test]
fn an_app_that_was_started_again_is_steered_over_a_new_connection() {
    let bus = bus();
    let monitor = start(MonitorConfig::new(node(&bus)));
    let address = monitor.address();
    let gain = json!({"parameter": "gain", "value": 2});
    let mut epochs = Vec::new();
    for _ in 0..2 {
        let rod = Rod::start(&bus);
        let epoch = wait_until("this run of the app", || {
            let answer = get(address, "/api/steer/test/rod");
            let epoch = (answer.status == 200).then(|| answer.json()["epoch"].clone())?;
            (!epochs.contains(&epoch)).then_some(epoch)
        });
        let applied = from_page(address, "p", "PUT", &gain).json();
        assert_eq!((&applied["outcome"], &applied["epoch"]), (&json!("applied"), &epoch));
        epochs.push(epoch);
        rod.end();
    }
}
