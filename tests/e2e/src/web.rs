//! Requests to a monitor server, as from any program.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::lan::Host;

/// Returns a monitor server's answer to a request for JSON.
///
/// # Panics
/// If it does not answer, or answers with an error.
#[must_use]
pub fn get_json(address: &str, path: &str) -> Value {
    serde_json::from_str(&get(address, path)).expect("an answer in JSON")
}

/// Returns the answer of a host's monitor server to a request.
///
/// # Panics
/// If it does not answer, or answers with an error.
#[must_use]
pub fn get_on(host: &Host, address: &str, path: &str) -> String {
    host.inside(|| get(address, path))
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers in text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head and a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    body.to_owned()
}
