//! Refused requests: other names, other pages, too much at once.

use std::net::TcpStream;

use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;

use crate::scene::{Page, ask_as, bus, get, monitor};

#[test]
fn a_request_under_another_name_is_refused_everywhere() {
    let monitor = monitor(&bus());
    let address = monitor.address();
    for path in ["/", "/api/streams", "/metrics", "/healthz", "/assets/x.js", "/api/live"] {
        let answer = ask_as(address, &format!("GET {path} HTTP/1.1\r\nHost: evil.example"), "");
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.json()["error"].as_str().unwrap().contains("evil.example"));
        let local =
            ask_as(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost:{}", address.port()), "");
        assert_ne!(local.status, 403, "{path}");
    }
    let origin = format!("POST /api/join HTTP/1.1\r\nHost: {address}\r\nOrigin: http://evil.example");
    assert_eq!(ask_as(address, &origin, r#"{"pattern":"**"}"#).status, 403);
    let own = format!("POST /api/join HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}");
    assert_eq!(ask_as(address, &own, r#"{"pattern":"**"}"#).status, 200);
}

#[test]
fn a_web_socket_of_another_page_is_refused() {
    let monitor = monitor(&bus());
    let address = monitor.address();
    for (header, value) in [("Origin", "http://evil.example"), ("Origin", "null"), ("Host", "evil.example")] {
        let mut request = format!("ws://{address}/api/live").into_client_request().unwrap();
        request.headers_mut().insert(header, HeaderValue::from_static(value));
        let refused = tungstenite::client(request, TcpStream::connect(address).unwrap());
        assert!(refused.is_err(), "{header}: {value}");
    }
    Page::open(address).text("hello", |_| true);
}

/// A view of this number of traces.
fn wide(traces: usize) -> String {
    let trace = r#"{"stream":"lab/x","channel":"x"}"#;
    let traces = vec![trace; traces].join(",");
    format!(r#"{{"type":"view","view":1,"traces":[{traces}],"width_px":9,"span_ns":9,"end_ns":null}}"#)
}

#[test]
fn what_was_refused_is_counted() {
    let monitor = monitor(&bus());
    let address = monitor.address();
    assert_eq!(get(address, "/api/nothing").status, 404);
    assert_eq!(get(address, "/api/account?stream=no").status, 404);
    assert_eq!(ask_as(address, "GET / HTTP/1.1\r\nHost: evil.example", "").status, 403);
    let mut page = Page::open(address);
    page.say("[]");
    page.text("note", |_| true);
    page.say(&format!("[{}]", " ".repeat(65_536)));
    let note = page.text("note", |_| true);
    assert!(note["text"].as_str().unwrap().contains("at most 65536 bytes, not 65538"), "{note}");
    let metrics = String::from_utf8(get(address, "/metrics").body).unwrap();
    for line in [
        r#"tallycast_monitor_requests_refused_total{status="404"} 2"#,
        r#"tallycast_monitor_requests_refused_total{status="403"} 1"#,
        "tallycast_monitor_messages_refused_total{} 2",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[test]
fn what_a_page_says_wrongly_is_told_and_ends_nothing() {
    let monitor = monitor(&bus());
    let mut page = Page::open(monitor.address());
    for (message, told) in [
        ("[]", "cannot be read"),
        (r#"{"type":"dance"}"#, "unknown variant"),
        (
            r#"{"type":"view","view":1,"traces":[],"width_px":16385,"span_ns":1,"end_ns":null}"#,
            "16384 columns",
        ),
        (r#"{"type":"view","view":1,"traces":[],"width_px":9,"span_ns":0,"end_ns":null}"#, "spans"),
        (&wide(101), "at most 100 traces, not 101"),
        (&" ".repeat(65_537), "at most 65536 bytes"),
    ] {
        page.say(message);
        let note = page.text("note", |_| true);
        assert!(note["text"].as_str().unwrap().contains(told), "{note}");
    }
    for view in 0..=64 {
        page.say(&format!(
            r#"{{"type":"view","view":{view},"traces":[],"width_px":9,"span_ns":9,"end_ns":null}}"#
        ));
    }
    let note = page.text("note", |_| true);
    assert!(note["text"].as_str().unwrap().contains("at most 64 views"), "{note}");
    // A view at the end of time is one too.
    page.say(&format!(
        r#"{{"type":"view","view":1,"traces":[],"width_px":9,"span_ns":9,"end_ns":{}}}"#,
        i64::MAX
    ));
    page.frame(|frame| frame.view == 1);
}
