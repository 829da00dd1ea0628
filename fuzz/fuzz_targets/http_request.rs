//! Any query and any body at a monitor's API: an answer of a documented status; an error names the remedy.
//!
//! Requests go over HTTP to a monitor that has a stream: the actions of the handlers on valid input are tested,
//! too. After any request, the next one is answered.
#![no_main]

use fuzz::monitored::{Answer, STREAM, ask};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

#[derive(Debug, Arbitrary)]
enum Input<'a> {
    /// A target as raw bytes.
    Raw(&'a [u8]),
    Get { path: u8, fields: Vec<(u8, Field<'a>)> },
    Post { path: u8, body: &'a [u8] },
    Derive { name: &'a str, expression: &'a str, input: Option<&'a str>, unit: &'a str },
    Forget { name: &'a str },
}

#[derive(Debug, Arbitrary)]
enum Field<'a> {
    Number(i64),
    Text(&'a str),
    Known(u8),
}

const GET: [&str; 9] = [
    "/api/streams",
    "/api/account",
    "/api/range",
    "/api/gaps",
    "/api/preview.png",
    "/api/patterns",
    "/api/derived",
    "/api/inject",
    "/metrics",
];
const POST: [&str; 4] = ["/api/join", "/api/leave", "/api/derive", "/api/inject"];
const FIELDS: [&str; 10] =
    ["stream", "channel", "from", "to", "points", "format", "limit", "span", "width", "height"];
const KNOWN: [&str; 8] = [STREAM, "x", "x[0]", "arrow", "json", "500ms", "10m", "1"];
/// Status codes listed in docs/protocol/page.md.
const STATUS: [u16; 8] = [200, 400, 403, 404, 405, 413, 502, 503];

fuzz_target!(|input: Input<'_>| {
    match input {
        Input::Raw(bytes) => {
            // A line end would begin another request, and the HTTP library refuses invalid targets.
            let target: Vec<u8> = bytes.iter().copied().filter(|byte| byte.is_ascii_graphic()).collect();
            let answer = ask("GET", &[b"/", &target[..]].concat(), b"");
            assert!(STATUS.contains(&answer.status) || answer.status == 414, "{}", answer.head);
        }
        Input::Get { path, fields } => {
            let path = GET[usize::from(path) % GET.len()];
            let query: Vec<String> = fields.iter().take(12).map(|(name, field)| field.text(*name)).collect();
            judge(&ask("GET", format!("{path}?{}", query.join("&")).as_bytes(), b""));
        }
        Input::Post { path, body } => {
            judge(&ask("POST", POST[usize::from(path) % POST.len()].as_bytes(), body));
        }
        Input::Derive { name, expression, input, unit } => {
            let name = format!("derived/{name}");
            let input = input.map_or_else(|| format!("{STREAM}:x"), str::to_owned);
            let inputs = serde_json::json!({"a": input, "b": format!("{STREAM}:x")});
            let body = serde_json::json!({"name": name, "expression": expression, "inputs": inputs, "unit": unit});
            let answer = ask("POST", b"/api/derive", body.to_string().as_bytes());
            judge(&answer);
            if answer.status == 200 {
                // It is listed, and removed on request.
                let gone = ask("DELETE", format!("/api/derived?name={}", encoded(&name)).as_bytes(), b"");
                assert_eq!(gone.status, 200, "{name} was derived");
            }
        }
        Input::Forget { name } => {
            judge(&ask("DELETE", format!("/api/derived?name={}", encoded(name)).as_bytes(), b""));
        }
    }
});

fn judge(answer: &Answer) {
    assert!(STATUS.contains(&answer.status), "{}", answer.head);
    let json = answer.head.contains("content-type: application/json");
    let value: Option<Value> = json.then(|| serde_json::from_slice(&answer.body).expect("what calls itself JSON"));
    if answer.status != 200 {
        let said = value.expect("errors are JSON");
        let is_text = |name: &str| said[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(is_text("error") && is_text("help"), "{said}");
    }
}

impl Field<'_> {
    fn text(&self, name: u8) -> String {
        let value = match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => encoded(text),
            Self::Known(known) => encoded(KNOWN[usize::from(*known) % KNOWN.len()]),
        };
        format!("{}={value}", FIELDS[usize::from(name) % FIELDS.len()])
    }
}

/// Encodes text for a query.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
