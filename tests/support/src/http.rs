//! Requests over HTTP to a server under test, one per connection.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

use serde_json::Value;

use crate::WATCHDOG;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the body as text.
    ///
    /// # Panics
    /// If it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("an answer of text")
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }
}

/// Asks with exactly this request line and these headers.
///
/// # Panics
/// If the server does not listen, or does not answer.
pub fn ask(address: impl ToSocketAddrs, head: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(WATCHDOG)).expect("it is no zero time");
    let length = body.len();
    write!(stream, "{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .expect("it reads");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the server answers");
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer has a head");
    let body = bytes.split_off(end + 4);
    let head = String::from_utf8(bytes).expect("a head of text");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    Answer { status, head, body }
}

/// Asks for a path.
///
/// # Panics
/// If the server does not listen, or answers with an error.
pub fn get(address: &str, path: &str) -> Answer {
    let answer = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}"), "");
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer
}
