//! The processing graph: nodes that publish, changes as a whole, and what a change leaves alone.

use monitor::MonitorConfig;
use serde_json::{Value, json};
use support::http::Answer;
use support::wait_until;
use tallycast::AccountState;

use crate::accounts::sum;
use crate::scene::{Feed, ask, bus, get, has_data, listed, node, start};

fn thin(name: &str, input: &str, every: &str) -> Value {
    json!({"name": name, "kind": "thin", "input": input, "every": every})
}

fn send(address: std::net::SocketAddr, request: &str, of: &str, body: &Value) -> Answer {
    let head = format!("{request} HTTP/1.1\r\nIf-Match: {of}");
    ask(address, &head, &body.to_string())
}

#[test]
fn a_change_leaves_the_nodes_alone_that_it_does_not_mention() {
    let bus = bus();
    let monitor = start(MonitorConfig::new(node(&bus)));
    let address = monitor.address();
    let feed = Feed::start(&bus, "lab/x", 0.05, |index| index as f64);
    listed(address, "lab/x", has_data);
    let (kept, changed) = (thin("lab/kept", "lab/x", "10"), thin("lab/changed", "lab/x", "20ms"));
    let first = send(address, "PUT /api/graph", "0", &json!({"node": [kept, changed]}));
    assert_eq!(first.status, 200, "{}", first.json());
    assert_eq!(first.json()["added"], json!(["lab/changed", "lab/kept"]));
    assert_eq!(first.json()["values_per_s"], json!(2_000.0));
    let before = listed(address, "lab/kept", has_data);
    listed(address, "lab/changed", has_data);
    let changes: Vec<_> =
        (0..20).map(|number| thin("lab/changed", "lab/x", &format!("{}", 10 + number))).collect();
    for (number, changed) in changes.iter().enumerate() {
        let of = (number + 1).to_string();
        let good = send(address, "PUT /api/graph", &of, &json!({"node": [changed, kept]}));
        assert_eq!((good.status, &good.json()["kept"]), (200, &json!(["lab/kept"])), "{}", good.json());
        // Nothing of a graph with one wrong node is applied.
        let wrong = thin("lab/wrong", "lab/x", "1500us");
        let refused = send(address, "PUT /api/graph", "*", &json!({"node": [changed, wrong]}));
        assert_eq!(refused.status, 400);
        assert!(refused.json()["error"].as_str().unwrap().starts_with("node `lab/wrong`: 1500us is not"));
        listed(address, "lab/changed", has_data);
    }
    let back = send(address, "POST /api/graph/undo", "21", &json!({}));
    assert_eq!((&back.json()["revision"], &back.json()["changed"]), (&json!(22), &json!(["lab/changed"])));
    let graph = get(address, "/api/graph").json();
    assert_eq!(graph["nodes"][0]["every"], json!(28));
    let after = listed(address, "lab/kept", |stream| {
        stream["next_index"].as_u64() > before["next_index"].as_u64().map(|index| index + 50)
    });
    assert_eq!((&after["epoch"], &after["derived"]), (&before["epoch"], &true.into()));
    drop(feed);
    listed(address, "lab/x", |stream| stream["state"] == "closed");
    let offered = wait_until("the last windows", || {
        let node = get(address, "/api/graph").json()["nodes"][1].clone();
        let offered = node["offered_samples"].as_u64().unwrap();
        let listed = listed(address, "lab/kept", has_data)["next_index"].as_u64();
        (listed == Some(offered)).then_some(offered)
    });
    let removed = send(address, "PUT /api/graph", "22", &json!({"node": []}));
    assert_eq!(removed.json()["removed"], json!(["lab/changed", "lab/kept"]));
    listed(address, "lab/kept", |stream| stream["state"] == "closed");
    let accounts = monitor.stop();
    let kept: Vec<_> = accounts.into_iter().filter(|it| it.stream.as_str() == "lab/kept").collect();
    assert_eq!(kept.len(), 1, "one epoch over all changes");
    let whole = sum(&kept);
    assert_eq!((whole.state, whole.elements.unexplained), (AccountState::Closed, 0));
    assert!(tallycast::is_in_order(&whole));
    assert_eq!(whole.elements.next, offered);
}

#[test]
fn a_change_of_another_revision_is_refused_and_one_without_any_too() {
    let monitor = start(MonitorConfig::new(node(&bus())));
    let address = monitor.address();
    let graph = json!({"node": [thin("lab/a", "lab/x", "10")]});
    assert_eq!(ask(address, "PUT /api/graph HTTP/1.1", &graph.to_string()).status, 428);
    assert_eq!(send(address, "PUT /api/graph", "soon", &graph).status, 400);
    let stale = send(address, "PUT /api/graph", "7", &graph);
    assert_eq!((stale.status, &stale.json()["error"]), (412, &json!("the graph is at revision 0, not 7")));
    assert_eq!(send(address, "POST /api/graph/undo", "0", &json!({})).status, 400, "there is none before");
    assert_eq!(send(address, "PUT /api/graph", "\"0\"", &graph).status, 200);
    // The same again changes nothing, and is no revision.
    assert_eq!(send(address, "PUT /api/graph", "1", &graph).json()["revision"], json!(1));
    let checked = ask(address, "POST /api/graph/check HTTP/1.1", &json!({"node": []}).to_string()).json();
    assert_eq!((&checked["revision"], &checked["removed"]), (&json!(2), &json!(["lab/a"])));
    assert_eq!(get(address, "/api/graph").json()["revision"], json!(1));
}

#[test]
fn a_malformed_graph_names_the_node_and_what_is_wrong() {
    let monitor = start(MonitorConfig::new(node(&bus())));
    let address = monitor.address();
    let refusal = |node: Value| {
        let refused = send(address, "PUT /api/graph", "0", &json!({"node": [node]}));
        assert_eq!(refused.status, 400);
        refused.json()["error"].as_str().unwrap().to_owned()
    };
    assert!(
        refusal(json!({"name": "a", "kind": "thinner"})).starts_with("node `a`: unknown variant `thinner`")
    );
    assert!(refusal(json!({"kind": "thin"})).starts_with("node `without a name`: "));
    let unknown = refusal(json!({"name": "a", "kind": "thin", "input": "x", "evry": 1, "every": 10}));
    assert!(unknown.starts_with("node `a`: unknown field `evry`"), "{unknown}");
    assert!(refusal(thin("a", "x", "soon")).contains("neither a number of samples nor a duration"));
    let many: Vec<_> = (0..257).map(|number| thin(&format!("n/{number}"), "lab/x", "10")).collect();
    let refused = send(address, "PUT /api/graph", "0", &json!({"node": many}));
    assert!(refused.json()["error"].as_str().unwrap().starts_with("a graph has at most 256 nodes, not 257"));
}

#[test]
fn every_problem_of_a_graph_is_told_with_its_node() {
    let bus = bus();
    let monitor = start(MonitorConfig::new(node(&bus)));
    let address = monitor.address();
    let _feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    let good = thin("lab/good", "lab/x", "10");
    assert_eq!(send(address, "PUT /api/graph", "0", &json!({"node": [good]})).status, 200);
    listed(address, "lab/x", has_data);
    let check =
        |nodes: &[Value]| ask(address, "POST /api/graph/check HTTP/1.1", &json!({"node": nodes}).to_string());
    let told = |answer: &Answer| -> Vec<(Value, String)> {
        assert_eq!(answer.status, 400, "{}", answer.json());
        let problems = answer.json()["problems"].as_array().unwrap().clone();
        problems.iter().map(|it| (it["node"].clone(), it["error"].as_str().unwrap().to_owned())).collect()
    };
    let uneven = thin("lab/uneven", "lab/x", "1500us");
    let channel = json!({"name": "lab/sum", "kind": "derive", "expression": "a", "inputs": {"a": "lab/x:y"}});
    let problems = told(&check(&[uneven.clone(), good.clone(), channel]));
    assert_eq!(problems.len(), 2);
    assert!(problems[0].0 == "lab/uneven" && problems[0].1.starts_with("1500us is not a whole number"));
    assert!(problems[1].0 == "lab/sum" && problems[1].1.contains("has no channel `y`"));
    // What cannot be read is told beside what does not fit.
    let unread = [
        json!({"name": "lab/*", "kind": "thin"}),
        json!({"kind": "thin"}),
        thin("lab/good", "lab/good", "10"),
    ];
    let problems = told(&check(&unread));
    let nodes: Vec<_> = problems.iter().map(|(node, _)| node.clone()).collect();
    assert_eq!(nodes, [json!("lab/*"), Value::Null, json!("lab/good")]);
    let checked = check(&[good, thin("lab/slow", "lab/good", "10")]).json();
    let slow = &checked["streams"][1];
    assert_eq!(
        (&slow["name"], &slow["rate"]),
        (&json!("lab/slow"), &json!({"numerator": 10, "denominator": 1}))
    );
    assert_eq!(slow["channels"][0], json!({"name": "x.min.min", "unit": "V"}));
}

#[test]
fn the_kinds_are_served_as_the_table_has_them() {
    let monitor = start(MonitorConfig::new(node(&bus())));
    // Keys of the examples are no published names: the table has a golden file of its own.
    let address = monitor.address();
    let request = format!("GET /api/graph/kinds HTTP/1.1\r\nHost: {address}");
    let kinds = support::http::ask(address, &request, "").json();
    assert_eq!(kinds, json!(monitor::plan::KINDS));
    let filter = kinds.as_array().unwrap().iter().find(|kind| kind["kind"] == "filter").unwrap();
    let order = json!({
        "name": "order", "form": "choice", "of": ["2", "4", "6", "8"], "needed": false, "example": 4, "default": 4,
        "words": "steepness: 6 dB per octave and order",
    });
    assert_eq!(filter["settings"][2], order);
}

#[test]
fn a_hundred_changes_and_a_hundred_refusals_cost_a_running_stream_nothing() {
    let bus = bus();
    let monitor = start(MonitorConfig::new(node(&bus)));
    let address = monitor.address();
    let feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    listed(address, "lab/x", has_data);
    let kept = json!({"name": "lab/kept", "kind": "publish", "input": "lab/x"});
    assert_eq!(send(address, "PUT /api/graph", "0", &json!({"node": [kept]})).status, 200);
    let before = listed(address, "lab/kept", has_data);
    for number in 0..100 {
        let of = (number + 1).to_string();
        let edit = thin(&format!("lab/edit/{}", number % 3), "lab/kept", &(2 + number).to_string());
        let changed = send(address, "PUT /api/graph", &of, &json!({"node": [edit, kept]})).json();
        assert_eq!(changed["kept"], json!(["lab/kept"]), "{changed}");
        let wrong = match number % 4 {
            0 => thin("lab/wrong", "lab/wrong", "10"),
            1 => thin("lab/kept", "lab/x", "10"),
            2 => thin("lab/wrong", "lab/x", "1500us"),
            _ => json!({"name": "lab/wrong", "kind": "thinner", "input": "lab/x"}),
        };
        let refused = send(address, "PUT /api/graph", "*", &json!({"node": [kept, wrong]}));
        assert_eq!(refused.status, 400, "{}", refused.json());
    }
    assert_eq!(get(address, "/api/graph").json()["revision"], json!(101));
    drop(feed);
    listed(address, "lab/x", |stream| stream["state"] == "closed");
    let read = wait_until("all samples", || {
        let (of, kept) = (listed(address, "lab/x", |_| true), listed(address, "lab/kept", |_| true));
        let (first, next) = (of["first_index"].as_u64()?, of["next_index"].as_u64()?);
        let read = kept["next_index"].as_u64()?;
        // The node began with a later sample than the monitor.
        (read > before["next_index"].as_u64()? && read <= next - first).then_some(read)
    });
    assert_eq!(listed(address, "lab/kept", |_| true)["epoch"], before["epoch"]);
    let accounts = monitor.finish(support::WATCHDOG);
    let kept: Vec<_> = accounts.into_iter().filter(|it| it.stream.as_str() == "lab/kept").collect();
    let [kept] = &kept[..] else { panic!("one epoch over all changes: {kept:?}") };
    let elements = &kept.account.elements;
    assert!(elements.next >= read && elements.unexplained == 0 && tallycast::is_in_order(&kept.account));
    assert_eq!(elements.delivered, elements.next - elements.first, "none was lost at any stage");
}
