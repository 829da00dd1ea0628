//! Who is not let in: other names, other pages, too much at once.

use std::net::TcpStream;

use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;

use crate::scene::{Page, ask_as, bus, monitor};

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
    ] {
        page.say(message);
        let note = page.text("note", |_| true);
        assert!(note["text"].as_str().unwrap().contains(told), "{note}");
    }
    // A view at the end of time is one too.
    page.say(&format!(
        r#"{{"type":"view","view":1,"traces":[],"width_px":9,"span_ns":9,"end_ns":{}}}"#,
        i64::MAX
    ));
    page.frame(|frame| frame.view == 1);
}
