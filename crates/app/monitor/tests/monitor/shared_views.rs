//! Shared views over real connections: edits, presenters, read-only links, rights, files.

use std::net::SocketAddr;
use std::path::Path;

use monitor::{MonitorConfig, MonitorHandle};
use serde_json::{Value, json};
use support::http::Answer;
use support::wait_until;

use crate::roles::{Access, as_page, sign_in};
use crate::scene::{Feed, Page, Said, ask, bus, get, has_data, listed, monitor, node, start};

/// Operators may derive in `lab`; a stream there is hidden from all.
const RULES: &str = "allow token:all read,derive **\ndeny anyone read lab/secret\nallow anyone read lab/**\n\
    allow role:operator derive lab/**\n";

fn put(address: SocketAddr, name: &str, fields: &Value) -> Answer {
    ask(address, &format!("PUT /api/views/{name} HTTP/1.1"), &json!({"fields": fields}).to_string())
}

fn stored(state: &Path) -> MonitorHandle {
    let mut config = MonitorConfig::new(node(&bus()));
    config.state = Some(state.to_owned());
    start(config)
}

fn follow(page: &mut Page, name: &str) -> Value {
    page.say(&json!({"type": "follow", "name": name}).to_string());
    page.text("shared_view", |_| true)
}

fn edit(page: &mut Page, fields: &Value) {
    page.say(&json!({"type": "edit", "fields": fields}).to_string());
}

fn metric(address: SocketAddr, name: &str) -> f64 {
    let metrics = get(address, "/metrics");
    let name = format!("tallycast_monitor_{name}");
    let mut lines = metrics.text().lines();
    lines.find_map(|line| line.strip_prefix(&name)).map_or(0.0, |value| value.trim().parse().unwrap())
}

fn layout() -> Value {
    json!({
        "title": "Heated rod", "notes": "", "window": {"span_ns": 60_000_000_000_i64, "end_ns": null},
        "cursors": {"a_ns": 1, "b_ns": 2}, "single": null, "order": ["a"],
        "plot/a": {"panel": "trend", "traces": [{"stream": "lab/x", "channel": "x"}], "columns": 2, "rows": 1,
            "axis": {"kind": "fixed", "low": 0, "high": 1.5}},
    })
}

#[test]
fn a_document_is_created_read_changed_and_deleted_with_its_revision() {
    let monitor = monitor(&bus());
    let address = monitor.address();
    let create = "PUT /api/views/rod HTTP/1.1\r\nIf-None-Match: *";
    let body = json!({"fields": layout()}).to_string();
    assert_eq!(ask(address, create, &body).json(), json!({"revision": 1}));
    assert_eq!(ask(address, create, &body).status, 412);
    let read = get(address, "/api/views/rod");
    assert!(read.head.contains("etag: \"1\""), "{}", read.head);
    let document = read.json();
    assert_eq!((&document["fields"], &document["title"]), (&layout(), &json!("Heated rod")));
    assert_eq!(document["read_only_id"].as_str().unwrap().len(), 32);
    let patch = |of: &str, fields: Value| {
        let head = format!("PATCH /api/views/rod HTTP/1.1\r\nIf-Match: {of}");
        ask(address, &head, &json!({"fields": fields}).to_string())
    };
    assert_eq!(patch("\"1\"", json!({"title": "Rod", "plot/a": null})).json(), json!({"revision": 2}));
    assert_eq!(patch("\"1\"", json!({"title": "late"})).status, 412);
    assert_eq!(patch("*", json!({"notes": "n"})).json(), json!({"revision": 3}));
    let document = get(address, "/api/views/rod").json();
    assert_eq!(document["field_revisions"]["title"], json!(2));
    assert_eq!(document["fields"].get("plot/a"), None);
    let listed = get(address, "/api/views").json();
    let first = &listed["views"][0];
    assert_eq!(
        (&first["name"], &first["watchers"], &first["presenter"]),
        (&json!("rod"), &json!(0), &Value::Null)
    );
    for (line, body, status, error) in [
        ("GET /api/views/none", "", 404, "there is no shared view `none`"),
        ("PUT /api/views/.x", "{}", 400, "`.x` is not a name of a shared view"),
        ("PUT /api/views/x", r#"{"fields":{"colour":1}}"#, 400, "a shared view has no field `colour`"),
        ("PUT /api/views/x", r#"{"fields":{"title":1}}"#, 400, "field `title`: it is a text"),
        ("PATCH /api/views/rod", r#"{"fields":{}}"#, 400, "the edit has no fields"),
        ("PATCH /api/views/rod", r#"{"feilds":{}}"#, 400, "malformed body: unknown field `feilds`"),
        ("POST /api/views/rod", "{}", 405, "/api/views/rod does not take POST"),
    ] {
        let refused = ask(address, &format!("{line} HTTP/1.1"), body);
        assert_eq!(refused.status, status, "{line}");
        assert!(refused.json()["error"].as_str().unwrap().starts_with(error), "{}", refused.json());
    }
    assert_eq!(ask(address, "DELETE /api/views/rod HTTP/1.1\r\nIf-Match: 3", "").status, 204);
    assert_eq!(get(address, "/api/views").json(), json!({"views": []}));
    let offered = metric(address, "shared_view_edits_offered_total{} ");
    assert_eq!(offered, 9.0, "a body or a name that cannot be read is no edit");
    assert_eq!(metric(address, "shared_view_edits_applied_total{} "), 4.0);
    assert_eq!(metric(address, "shared_view_edits_refused_total{reason=\"stale\"} "), 1.0);
}

#[test]
fn what_one_page_edits_all_pages_are_told_and_the_presenter_alone_edits() {
    let monitor = monitor(&bus());
    let address = monitor.address();
    put(address, "rod", &layout());
    let (mut first, mut second) = (Page::open(address), Page::open(address));
    let told = follow(&mut first, "rod");
    assert_eq!((&told["document"]["fields"], &told["may_write"]), (&layout(), &json!(true)));
    follow(&mut second, "rod");
    let both = first.text("watchers", |said| said["watchers"].as_array().unwrap().len() == 2);
    assert_eq!(both["watchers"][0]["id"], told["you"]);
    edit(&mut second, &json!({"title": "Rod", "plot/b": {"panel": "table", "level": [1]}}));
    for page in [&mut first, &mut second] {
        let changed = page.text("shared_view_changed", |_| true);
        let fields = json!({"title": "Rod", "plot/b": {"panel": "table", "level": [1]}});
        assert_eq!((&changed["fields"], &changed["revision"]), (&fields, &json!(2)));
        assert_ne!(changed["by"], told["you"]);
    }
    first.say(r#"{"type":"present","take":true}"#);
    let presents = |said: &Value| said["watchers"][0]["presenter"] == true;
    second.text("watchers", presents);
    edit(&mut second, &json!({"title": "mine"}));
    let refused = second.text("shared_view_refused", |_| true);
    assert_eq!((&refused["name"], &refused["fields"]), (&json!("rod"), &json!(["title"])));
    assert!(refused["text"].as_str().unwrap().contains(" presents this view: "), "{refused}");
    second.text("note", |said| said["text"] == refused["text"]);
    assert_eq!(put(address, "rod", &layout()).status, 409);
    // The other page takes it over, all are told, and it ends with its connection.
    second.say(r#"{"type":"present","take":true}"#);
    first.text("note", |said| said["text"].as_str().unwrap().contains(" presents this view now instead of "));
    edit(&mut second, &json!({"title": "mine"}));
    first.text("shared_view_changed", |said| said["fields"]["title"] == "mine");
    drop(second);
    first.text("watchers", |said| said["watchers"].as_array().unwrap().len() == 1);
    edit(&mut first, &json!({"title": "free again"}));
    first.text("shared_view_changed", |said| said["fields"]["title"] == "free again");
    first.say(r#"{"type":"unfollow"}"#);
    wait_until("the last page to leave", || {
        (get(address, "/api/views").json()["views"][0]["watchers"] == 0).then_some(())
    });
    assert_eq!(get(address, "/api/views/rod").json()["title"], json!("free again"), "the document stays");
}

#[test]
fn a_read_only_link_shows_everything_and_changes_nothing() {
    let monitor = monitor(&bus());
    let address = monitor.address();
    put(address, "rod", &layout());
    let link = get(address, "/api/views/rod").json()["read_only_id"].clone();
    let mut page = Page::open(address);
    page.say(&json!({"type": "follow", "read_only_id": link}).to_string());
    let told = page.text("shared_view", |_| true);
    assert_eq!((&told["may_write"], &told["document"]["fields"]), (&json!(false), &layout()));
    assert!(told["why_not"].as_str().unwrap().starts_with("this link is read-only"), "{told}");
    assert_eq!(told["document"].get("read_only_id"), None);
    edit(&mut page, &json!({"title": "forged"}));
    page.text("shared_view_refused", |said| said["text"].as_str().unwrap().contains("read-only"));
    // A name in the message changes nothing about the document that is followed.
    page.say(r#"{"type":"edit","name":"rod","by":"w0","fields":{"title":"forged"}}"#);
    page.text("shared_view_refused", |_| true);
    page.say(r#"{"type":"present","take":true}"#);
    edit(&mut page, &json!({"title": "forged"}));
    page.text("shared_view_refused", |_| true);
    let listed = get(address, "/api/views").json();
    assert_eq!(
        (&listed["views"][0]["presenter"], &listed["views"][0]["revision"]),
        (&Value::Null, &json!(1))
    );
    page.say(&json!({"type": "follow", "read_only_id": "0".repeat(32)}).to_string());
    let gone = page.text("shared_view_gone", |_| true);
    assert_eq!(gone["name"], Value::Null);
    edit(&mut page, &json!({"title": "x"}));
    page.text("shared_view_refused", |said| {
        said["text"].as_str().unwrap().starts_with("this page follows no")
    });
    assert_eq!(metric(address, "shared_view_edits_refused_total{reason=\"read_only\"} "), 3.0);
    assert_eq!(metric(address, "shared_view_edits_refused_total{reason=\"not_following\"} "), 1.0);
}

#[test]
fn edits_that_are_forged_or_too_large_change_nothing_and_the_page_goes_on() {
    let monitor = monitor(&bus());
    let address = monitor.address();
    put(address, "rod", &layout());
    let mut page = Page::open(address);
    page.say(r#"{"type":"follow","name":"none"}"#);
    page.text("shared_view_gone", |said| said["name"] == "none");
    follow(&mut page, "rod");
    let many: serde_json::Map<_, _> =
        (0..65).map(|number| (format!("plot/p{number}"), json!({"panel": "x"}))).collect();
    // Each fits into a message; together they are too large for a document.
    let large =
        |number: u32| json!({(format!("plot/l{number}")): {"panel": "x", "level": "y".repeat(40_000)}});
    edit(&mut page, &large(1));
    page.text("shared_view_changed", |said| said["revision"] == 2);
    for (fields, text) in [
        (large(2), "a shared view has at most 65536 bytes, not 8"),
        (Value::Object(many), "an edit has at most 64 fields, not 65; "),
        (json!({}), "the edit has no fields; "),
        (json!({"revision": 7}), "a shared view has no field `revision`; "),
        (json!({"order": ["a", "a"]}), "field `order`: plot `a` is in it twice; "),
    ] {
        edit(&mut page, &fields);
        let refused = page.text("shared_view_refused", |_| true);
        assert!(refused["text"].as_str().unwrap().starts_with(text), "{refused}");
    }
    for message in [
        r#"{"type":"edit"}"#,
        r#"{"type":"edit","fields":[1]}"#,
        r#"{"type":"follow","name":7}"#,
        r#"{"type":"present"}"#,
    ] {
        page.say(message);
        page.text("note", |said| {
            said["text"].as_str().unwrap().starts_with("a message of the page cannot be read: ")
        });
        // Notes that repeat the last one are left out.
        page.say("other");
        page.text("note", |said| said["text"].as_str().unwrap().contains("expected value"));
    }
    page.say(&json!({"type": "edit", "fields": {"notes": "x".repeat(70_000)}}).to_string());
    page.text("note", |said| said["text"].as_str().unwrap().starts_with("a message has at most 65536 bytes"));
    assert_eq!(get(address, "/api/views/rod").json()["revision"], json!(2));
    assert_eq!(ask(address, "DELETE /api/views/rod HTTP/1.1", "").status, 204);
    page.text("shared_view_gone", |said| said["name"] == "rod");
}

#[test]
fn a_hidden_page_is_told_of_changes_and_is_sent_no_frames() {
    let monitor = monitor(&bus());
    let address = monitor.address();
    put(address, "rod", &layout());
    let mut page = Page::open(address);
    page.say(r#"{"type":"visible","visible":false}"#);
    follow(&mut page, "rod");
    let patch = json!({"fields": {"title": "t"}}).to_string();
    ask(address, "PATCH /api/views/rod HTTP/1.1", &patch);
    let changed = page.text("shared_view_changed", |_| true);
    assert_eq!((&changed["by"], &changed["changed_by"]), (&Value::Null, &Value::Null));
    // A replacement is told as a whole: what it leaves out is gone.
    put(address, "rod", &json!({"title": "new"}));
    let whole = page.text("shared_view", |_| true);
    assert_eq!(whole["document"]["fields"], json!({"title": "new"}));
}

#[test]
fn every_frame_is_encoded_for_a_page_or_had_been_for_another() {
    let bus = bus();
    let monitor = monitor(&bus);
    let address = monitor.address();
    let _feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    listed(address, "lab/x", has_data);
    let mut pages: Vec<Page> = (0..4).map(|_| Page::open(address)).collect();
    for page in &mut pages {
        page.follow(1, "lab/x", 1_000);
    }
    for _ in 0..10 {
        for page in &mut pages {
            page.frame(|_| true);
        }
    }
    for page in &mut pages {
        page.say(r#"{"type":"close","view":1}"#);
    }
    wait_until("the last frames to be counted", || {
        let [drawn, encoded, reused, sent] = ["drawn", "encoded", "reused", "sent"]
            .map(|count| metric(address, &format!("frames_{count}_total{{}} ")));
        (sent >= 40.0 && encoded + reused == sent && drawn <= encoded).then_some(())
    });
}

#[test]
fn documents_outlast_the_monitor_and_damaged_files_are_kept_aside() {
    let files = tempfile::tempdir().unwrap();
    let folder = files.path().join("views");
    let first = stored(files.path());
    assert_eq!(put(first.address(), "rod", &layout()).status, 200);
    put(first.address(), "gone", &json!({}));
    ask(first.address(), "DELETE /api/views/gone HTTP/1.1", "");
    assert!(
        folder.join("rod.json").exists() && !folder.join("gone.json").exists(),
        "written before the answer"
    );
    let mut page = Page::open(first.address());
    follow(&mut page, "rod");
    edit(&mut page, &json!({"title": "by a page"}));
    page.text("shared_view_changed", |_| true);
    let before = get(first.address(), "/api/views/rod").json();
    drop(first.stop());
    let second = stored(files.path());
    assert_eq!(get(second.address(), "/api/views/rod").json(), before);
    drop(second.stop());
    let text = std::fs::read(folder.join("rod.json")).unwrap();
    std::fs::write(folder.join("rod.json"), &text[..text.len() / 2]).unwrap();
    let third = stored(files.path());
    assert_eq!(get(third.address(), "/api/views").json(), json!({"views": []}));
    assert_eq!(metric(third.address(), "shared_view_files_left_out_total{} "), 1.0);
    put(third.address(), "rod", &layout());
    assert_eq!(std::fs::read(folder.join("rod.json.aside-1")).unwrap(), text[..text.len() / 2]);
}

#[test]
fn a_disk_that_takes_nothing_is_said_and_the_document_stays_in_memory() {
    let files = tempfile::tempdir().unwrap();
    let folder = files.path().join("views");
    let monitor = stored(files.path());
    let address = monitor.address();
    // A file where the folder is to be: no write can succeed, not even the superuser's.
    std::fs::write(&folder, "").unwrap();
    let refused = put(address, "rod", &layout());
    assert_eq!(refused.status, 507);
    assert!(refused.json()["error"].as_str().unwrap().starts_with("the change is in memory, "));
    assert_eq!(get(address, "/api/views/rod").json()["revision"], json!(1));
    wait_until("an attempt between two others", || {
        (metric(address, "shared_views_unsaved{} ") == 1.0).then_some(())
    });
    std::fs::remove_file(&folder).unwrap();
    // The next change writes everything.
    assert_eq!(put(address, "heat", &json!({})).status, 200);
    assert!(folder.join("rod.json").exists() && folder.join("heat.json").exists());
}

#[test]
fn who_may_derive_may_edit_and_a_stream_is_shown_to_those_who_may_read_it() {
    let access = Access::new(Some(RULES));
    let monitor = access.monitor(|_| ());
    let address = monitor.address();
    let (ada, bob) = (sign_in(address, "", "ada"), sign_in(address, "", "bob"));
    let body = json!({"fields": layout()}).to_string();
    assert_eq!(as_page(address, "PUT /api/views/rod", "", &body).status, 401);
    assert_eq!(as_page(address, "PUT /api/views/rod", &bob, &body).status, 403);
    assert_eq!(as_page(address, "PUT /api/views/rod", &ada, &body).status, 200);
    let secret = json!({"panel": "trend", "traces": [{"stream": "lab/secret", "channel": "x"}]});
    let forged = json!({"fields": {"plot/s": secret}}).to_string();
    assert_eq!(as_page(address, "PATCH /api/views/rod", &ada, &forged).status, 403);
    let all = access.token("all", "read,derive");
    let head = |line: &str| format!("{line} HTTP/1.1\r\nAuthorization: Bearer {}", all.reveal());
    wait_until("the token", || {
        (ask(address, &head("PATCH /api/views/rod"), &forged).status == 200).then_some(())
    });
    let by = get(address, "/api/views/rod").json();
    assert_eq!((&by["changed_by"], &by["fields"]["plot/s"]["traces"]), (&json!("token:all"), &json!([])));
    let mut viewer = Page::open_as(address, &bob);
    let told = follow(&mut viewer, "rod");
    assert_eq!(
        (&told["may_write"], &told["document"]["fields"]["plot/s"]["traces"]),
        (&json!(false), &json!([]))
    );
    edit(&mut viewer, &json!({"title": "x"}));
    viewer.text("shared_view_refused", |said| {
        said["text"].as_str().unwrap().starts_with("user:bob may not derive any stream")
    });
    let mut operator = Page::open_as(address, &ada);
    follow(&mut operator, "rod");
    let who = viewer.text("watchers", |said| said["watchers"].as_array().unwrap().len() == 2);
    assert_eq!((&who["watchers"][0]["user"], &who["watchers"][1]["user"]), (&json!("bob"), &json!("ada")));
    for fields in [json!({"plot/s": {"panel": "trend"}}), json!({"plot/s": null}), json!({"plot/t": secret})]
    {
        edit(&mut operator, &fields);
        operator.text("shared_view_refused", |said| {
            let text = said["text"].as_str().unwrap();
            text.contains("may not read")
        });
    }
    assert_eq!(as_page(address, "DELETE /api/views/rod", &ada, "").status, 403);
    edit(&mut operator, &json!({"title": "ada's"}));
    let changed = viewer.text("shared_view_changed", |_| true);
    assert_eq!((&changed["changed_by"], &changed["fields"]), (&json!("ada"), &json!({"title": "ada's"})));
    assert_eq!(metric(address, "access_refused_total{reason=\"line 2\"} "), 2.0);
    assert_eq!(metric(address, "access_refused_total{reason=\"hidden_trace\"} "), 3.0);
}

#[test]
fn a_page_that_follows_another_view_leaves_the_first() {
    let monitor = monitor(&bus());
    let address = monitor.address();
    put(address, "rod", &layout());
    put(address, "heat", &json!({}));
    let mut page = Page::open(address);
    follow(&mut page, "rod");
    page.say(r#"{"type":"present","take":true}"#);
    follow(&mut page, "heat");
    let listed = get(address, "/api/views").json();
    let watchers = [0, 1].map(|place| listed["views"][place]["watchers"].clone());
    assert_eq!((watchers, &listed["views"][1]["presenter"]), ([json!(1), json!(0)], &Value::Null));
    put(address, "rod", &json!({}));
    put(address, "heat", &json!({"title": "h"}));
    let next = loop {
        match page.hear() {
            Said::Json(said) if said["type"] == "shared_view" => break said,
            Said::Json(_) | Said::Frame(_) | Said::Picture(_) | Said::Values(_) | Said::Waterfall(_) => {}
        }
    };
    assert_eq!(next["document"]["name"], "heat");
}
