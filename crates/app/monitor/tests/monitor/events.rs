//! Nodes whose streams are events.

use std::collections::BTreeSet;

use monitor::MonitorConfig;
use serde_json::json;
use support::{WATCHDOG, Watchdog, wait_until};
use tallycast::Subscriber;

use crate::scene::{Feed, Page, ask, bus, get, has_data, listed, monitor, node, start};

/// Nanoseconds from one sample of a feed to the next.
const PERIOD_NS: f64 = 1e6;

/// Rises over 100 samples, and falls at once.
fn ramp(index: u64) -> f64 {
    (index % 100) as f64
}

/// Returns the time at which sample 0 of the input was taken, and the values, of `count` events.
fn events(mut subscriber: Subscriber, count: usize, place: impl Fn(&[f64]) -> f64) -> Vec<(i64, Vec<f64>)> {
    let (mut events, watchdog) = (Vec::new(), Watchdog::new("events"));
    while events.len() < count {
        watchdog.check();
        let block = subscriber.next_block(WATCHDOG).unwrap();
        assert!(block.schema.has_own_times());
        let rows = block.elements::<f64>().unwrap().chunks(block.schema.elements_per_sample() as usize);
        for (index, row) in (block.first_index..).zip(rows) {
            let since_start = (place(row) * PERIOD_NS).round() as i64;
            events.push((block.time_of(index).as_nanos() - since_start, row.to_vec()));
        }
    }
    events
}

#[test]
fn events_arrive_with_their_own_times_and_the_samples_that_they_name() {
    let bus = bus();
    let monitor = start(MonitorConfig::new(node(&bus)));
    let readers = node(&bus);
    let subscriber = |name: &str| readers.subscriber(name).reader("test").open().unwrap();
    let [alarms, triggers] = ["lab/alarm", "lab/trigger"].map(subscriber);
    let alarm = json!({"name": "lab/alarm", "kind": "alarm", "input": ["lab/x:x"], "high_warning": 40,
        "high_alarm": 80.0, "hysteresis": 2, "hold": "3ms", "silence": "5s"});
    let trigger = json!({"name": "lab/trigger", "kind": "trigger", "input": "lab/x:x", "level": 49.25,
        "edge": "rising", "channels": ["x"], "before": "5ms", "after": 10});
    let graph = json!({"node": [alarm, trigger]}).to_string();
    let applied = ask(monitor.address(), "PUT /api/graph HTTP/1.1\r\nIf-Match: 0", &graph);
    assert_eq!(applied.status, 200, "{}", applied.json());
    let feed = Feed::start(&bus, "lab/x", 0.0, ramp);

    let alarms = events(alarms, 9, |row| row[5]);
    let start = alarms[0].0;
    let states: BTreeSet<u64> = alarms.iter().map(|(_, row)| row[1] as u64).collect();
    assert!(states.is_superset(&[0, 1, 2].into()), "{alarms:?}");
    for (began, row) in &alarms {
        let [_, state, _, _, value, index, since, ..] = row[..] else { panic!("nine channels") };
        assert_eq!(*began, start, "{row:?}");
        // A hole of the path is unknown, and nothing else is.
        let last = (state != 3.0).then(|| ramp(index as u64));
        assert!(last == Some(value) || (state == 3.0 && value.is_nan()), "{row:?}");
        assert_eq!(index - since, if state == 3.0 { 0.0 } else { 2.0 }, "{row:?}");
    }
    for (began, row) in events(triggers, 3, |row| row[16] + row[17]) {
        assert_eq!(began, start, "{row:?}");
        let index = row[16] as u64;
        assert_eq!((index % 100, row[17], row[18]), (50, -0.75, 50.0));
        assert!(row[..15].iter().copied().eq((index - 5..index + 10).map(ramp)), "{row:?}");
    }
    let listed = listed(monitor.address(), "lab/trigger", has_data);
    let labels = ["node", "input.0", "times", "stretch_rate"].map(|label| listed["labels"][label].as_str());
    assert_eq!(labels, [Some("trigger"), Some("lab/x:x"), Some("own"), Some("1000")]);
    drop(feed);
}

#[test]
fn a_late_page_gets_the_state_of_an_alarm_and_its_acknowledgement_survives_a_restart() {
    let (bus, folder) = (bus(), tempfile::tempdir().unwrap());
    let feed = Feed::start(&bus, "lab/x", 0.0, |_| 90.0);
    let begin = || {
        let mut config = MonitorConfig::new(node(&bus));
        (config.state, config.keeps_graph) = (Some(folder.path().to_owned()), false);
        let monitor = start(config);
        let alarm = json!({"name": "lab/alarm", "kind": "alarm", "input": ["lab/x:x"], "high_alarm": 80.0});
        let graph = json!({"node": [alarm]}).to_string();
        assert_eq!(ask(monitor.address(), "PUT /api/graph HTTP/1.1\r\nIf-Match: 0", &graph).status, 200);
        let alarms = || get(monitor.address(), "/api/alarms").json();
        let alarm = wait_until("the alarm", || Some(alarms()[0].clone()).filter(|alarm| alarm["state"] == 2));
        (monitor, alarm)
    };
    let (monitor, alarm) = begin();
    assert_eq!(
        (&alarm["input"], &alarm["value"], &alarm["limit"]),
        (&json!("lab/x:x"), &json!(90.0), &json!(80.0))
    );
    assert_eq!(alarm["acknowledged"], serde_json::Value::Null);
    let mut page = Page::open(monitor.address());
    let first = page.text("alarms", |_| true);
    assert_eq!((&first["whole"], &first["gone"]), (&json!(true), &json!([])));
    assert_eq!(first["alarms"][0]["input"], "lab/x:x");
    let acknowledge = |change: u64| {
        let body =
            json!({"stream": "lab/alarm", "channel": 0, "change": change, "reason": "valve"}).to_string();
        ask(monitor.address(), "POST /api/alarms HTTP/1.1\r\nContent-Type: application/json", &body)
    };
    let change = alarm["change"].as_u64().unwrap();
    assert_eq!(acknowledge(change + 1_000).status, 409);
    // A hole of the path would make it another state.
    let told = wait_until("the acknowledgement", || {
        let seen = get(monitor.address(), "/api/alarms").json()[0].clone();
        let answer = acknowledge(seen["change"].as_u64().filter(|_| seen["state"] == 2)?);
        (answer.status == 200).then(|| answer.json()[0]["acknowledged"].clone())
    });
    assert_eq!((&told["by"], &told["reason"]), (&json!("anyone"), &json!("valve")));
    let pushed = page.text("alarms", |said| said["alarms"][0]["acknowledged"] == told);
    assert_eq!(pushed["whole"], false);
    let late = Page::open(monitor.address()).text("alarms", |_| true);
    assert_eq!((&late["whole"], &late["alarms"][0]["acknowledged"]), (&json!(true), &told));
    let metrics = String::from_utf8(get(monitor.address(), "/metrics").body).unwrap();
    let mut counts =
        metrics.lines().filter(|line| line.starts_with("tallycast_alarm_acknowledgements_total"));
    assert!(counts.next().is_some_and(|line| line.ends_with(" 1.0")), "{metrics}");
    drop(monitor);
    let (monitor, alarm) = begin();
    assert_eq!(alarm["acknowledged"], told);
    drop((monitor, feed));
}

#[test]
fn a_page_is_told_when_an_alarm_begins_and_when_its_node_has_ended() {
    let bus = bus();
    let monitor = monitor(&bus);
    let mut page = Page::open(monitor.address());
    let none = page.text("alarms", |_| true);
    assert_eq!((&none["whole"], &none["alarms"]), (&json!(true), &json!([])));
    let feed = Feed::start(&bus, "lab/x", 0.0, |_| 90.0);
    let alarm = json!({"name": "lab/alarm", "kind": "alarm", "input": ["lab/x:x"], "high_alarm": 80.0});
    let put = |nodes: &[&serde_json::Value], revision: u64| {
        let request = format!("PUT /api/graph HTTP/1.1\r\nIf-Match: {revision}");
        assert_eq!(ask(monitor.address(), &request, &json!({"node": nodes}).to_string()).status, 200);
    };
    put(&[&alarm], 0);
    let begun = page.text("alarms", |said| said["alarms"][0]["state"] == 2);
    assert_eq!((&begun["whole"], &begun["alarms"][0]["limit"]), (&json!(false), &json!(80.0)));
    put(&[], 1);
    let ended = page.text("alarms", |said| said["gone"] != json!([]));
    assert_eq!(ended["gone"], json!([{"stream": "lab/alarm", "channel": 0}]));
    drop(feed);
}

#[test]
fn settings_of_events_that_do_not_fit_are_refused_with_what_does() {
    let monitor = start(MonitorConfig::new(node(&bus())));
    let refusal = |settings: serde_json::Value| {
        let graph = json!({"node": [settings]}).to_string();
        let refused = ask(monitor.address(), "PUT /api/graph HTTP/1.1\r\nIf-Match: 0", &graph);
        assert_eq!(refused.status, 400);
        refused.json()["error"].as_str().unwrap().to_owned()
    };
    let alarm = |more: serde_json::Value| {
        let mut settings = json!({"name": "a", "kind": "alarm", "input": "lab/x:x", "low_alarm": 1});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refusal(settings)
    };
    let no_channel = alarm(json!({"input": "lab/x"}));
    assert!(no_channel.starts_with("node `a`: ") && no_channel.contains("stream:channel"), "{no_channel}");
    assert!(alarm(json!({"limit": 2})).contains("unknown field `limit`"));
    assert!(alarm(json!({"high_alarm": 1})).contains("`low_alarm` is not below `high_alarm`"));
    let trigger = json!({"name": "t", "kind": "trigger", "input": "lab/x:x", "level": 0, "after": 0});
    assert!(refusal(trigger).contains("`after` is at least one sample"));
}
