//! Asking a monitor server, as any program may.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// Returns what a monitor server answers to a request for JSON.
///
/// # Panics
/// If it does not answer, or refuses.
#[must_use]
pub fn get_json(address: &str, path: &str) -> Value {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers in text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head and a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    serde_json::from_str(body).expect("an answer in JSON")
}
