//! Runs of the experiment over the API: heard on the bus, told to later readers, and selected by.

use std::time::Duration;

use serde_json::Value;
use support::wait_until;
use tallycast::Node;
use tallycast::runs::{self, Event, Labels, What};

use crate::scene::{Feed, Page, bus, get, listed, monitor, node};

/// Longer than any wait for a reader that is there.
const PATIENCE: Duration = Duration::from_secs(60);

fn say(node: &Node, id: &str, what: What) -> Event {
    let labels = Labels::from([("program".to_owned(), "ohmic".to_owned())]);
    let event = Event { labels, ..runs::event(node, id.parse().unwrap(), what).unwrap() };
    assert!(runs::say(node, &event, PATIENCE).unwrap() > 0);
    event
}

#[test]
fn a_run_selects_what_its_times_select_and_later_readers_hear_of_it() {
    let bus = bus();
    let monitor = monitor(&bus);
    let address = monitor.address();
    let _feed = Feed::start(&bus, "lab/x", 0.05, |index| index as f64);
    listed(address, "lab/x", |stream| stream["next_index"].as_u64() > Some(100));
    let node = node(&bus);
    let started = say(&node, "shot-1", What::Start);
    let told = |state: &str| {
        let runs = get(address, "/api/runs").json();
        runs.as_array().unwrap().iter().find(|run| run["state"] == state).cloned()
    };
    let open = wait_until("the open run", || told("open"));
    assert_eq!((&open["id"], &open["labels"]["program"]), (&"shot-1".into(), &"ohmic".into()));
    // Its command has ended: the monitor tells it to this reader.
    let heard = runs::hear(&node, PATIENCE, |runs| !runs.list().is_empty()).unwrap();
    assert_eq!(heard.runs.list()[0].start, started.time);
    let stopped = say(&node, "shot-1", What::Stop);
    let run = wait_until("the end of the run", || told("stopped"));
    let [start, end] = [started.time.as_nanos(), stopped.time.as_nanos()];
    assert_eq!((run["start_ns"].as_i64(), run["end_ns"].as_i64()), (Some(start), Some(end)));
    listed(address, "lab/x", |stream| stream["newest_ns"].as_i64() > Some(end));
    let later = start + 10_000_000;
    let by_run = ["during=shot-1".to_owned(), "during=shot-1&from=%2B10ms&to=-1ms".to_owned()];
    let by_times = [format!("from={start}&to={end}"), format!("from={later}&to={}", end - 1_000_000)];
    for (run, times) in by_run.iter().zip(&by_times) {
        for request in ["/api/range?stream=lab/x&channel=x&points=40", "/api/gaps?stream=lab/x&limit=1000"] {
            let ask = |range: &str| get(address, &format!("{request}&{range}")).json();
            // Gaps may still be settled between two requests.
            let found: Value = wait_until(run, || {
                let found = ask(run);
                (found == ask(times)).then_some(found)
            });
            assert!(found["columns"].is_array() || found.is_array(), "{found}");
        }
    }
    for (range, status) in
        [("during=shot-2", 400), ("during=shot-1&from=-1ms&to=%2B1ms", 400), ("during=a%20b", 400)]
    {
        assert_eq!(get(address, &format!("/api/gaps?stream=lab/x&{range}")).status, status, "{range}");
    }
}

#[test]
fn a_page_is_told_of_each_change_and_asks_for_the_runs_of_its_window() {
    let bus = bus();
    let monitor = monitor(&bus);
    let (address, node) = (monitor.address(), node(&bus));
    let mut page = Page::open(address);
    let first = page.text("runs", |_| true);
    assert_eq!(first["change"], 0, "every page is told once, as it may have missed changes before");
    page.say(r#"{"type":"visible","visible":false}"#);
    let events =
        [("a", What::Start), ("a", What::Stop), ("b", What::Start)].map(|(id, what)| say(&node, id, what));
    let [a, end, b] = events.map(|event| event.time.as_nanos());
    wait_until("all events", || (get(address, "/api/runs").json()[1]["id"] == "b").then_some(()));
    page.say(r#"{"type":"visible","visible":true}"#);
    let told = page.text("runs", |told| told["change"].as_u64() > Some(0));
    assert!(told["change"].as_u64() <= Some(3), "{told}");
    let found = |query: &str| {
        let runs = get(address, &format!("/api/runs?{query}")).json();
        let ids = runs.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>().join(" ")
    };
    for (query, runs) in [
        (String::new(), "a b"),
        ("limit=1".to_owned(), "b"),
        ("id=a".to_owned(), "a"),
        ("id=c".to_owned(), ""),
        (format!("to={a}"), ""),
        (format!("to={}", a + 1), "a"),
        (format!("from={end}&to={b}"), "a"),
        (format!("from={}&to={b}", end + 1), ""),
        (format!("from={}", b + 1), "b"),
    ] {
        assert_eq!(found(&query), runs, "{query}");
    }
    for query in ["limit=0", "limit=100001", "from=x", "from=5&to=5", "id=two%20words", "id="] {
        let refused = get(address, &format!("/api/runs?{query}"));
        assert_eq!(refused.status, 400, "{query}");
        assert!(refused.json()["help"].as_str().is_some_and(|help| !help.is_empty()), "{query}");
    }
}
