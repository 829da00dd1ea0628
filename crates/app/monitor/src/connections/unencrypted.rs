//! Requests in clear at an encrypted port: one is read within bounds, and answered with the way to the encrypted page.
//!
//! Nothing of it reaches the server. A browser is sent on, but only to a name of this server, as the host gate has it; a
//! request that brings a token is not, since that must not go unnoticed. Start with [`answer`].

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::host_gate::HostGate;

/// The largest head that is read: a browser's first request has a few hundred bytes.
const MAX_HEAD_BYTES: usize = 4_096;
/// The most headers that are looked at; a browser sends about fifteen.
const MAX_HEADERS: usize = 64;
/// The most bytes that are read and ignored after the answer, so that the client reads it before the connection ends.
const MAX_IGNORED_BYTES: u64 = 64 * 1024;
/// Error and remedy where nothing better is known.
const ERROR: &str = "this port is encrypted, and the request was not";

/// Returns whether a connection begins as a request in clear does: with a method, where TLS has a record's type.
///
/// Source: RFC 9110 §9.1 (methods are in capitals), RFC 8446 §5.1 (a hello's record begins with 22).
pub(super) const fn begins_in_clear(first: u8) -> bool {
    first.is_ascii_uppercase()
}

/// Reads the head of a request, answers it, and waits until the client has ended or sent enough.
pub(super) async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    gate: &HostGate,
) -> io::Result<()> {
    let mut head = Vec::with_capacity(MAX_HEAD_BYTES);
    while !is_complete(&head) && head.len() < MAX_HEAD_BYTES {
        let room = (MAX_HEAD_BYTES - head.len()) as u64;
        if (&mut *stream).take(room).read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(answer_to(&head, gate).as_bytes()).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(MAX_IGNORED_BYTES), &mut tokio::io::sink()).await.map(drop)
}

fn is_complete(head: &[u8]) -> bool {
    head.windows(4).any(|window| window == b"\r\n\r\n")
}

/// Returns the answer to a head: to go on to the encrypted page, or what to do.
fn answer_to(head: &[u8], gate: &HostGate) -> String {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if !matches!(request.parse(head), Ok(httparse::Status::Complete(_))) {
        return refusal("ask by https://");
    }
    let values = |name| request.headers.iter().filter(move |it| it.name.eq_ignore_ascii_case(name));
    if values("authorization").next().is_some() {
        return refusal("ask by https://, with another token or password: this one was sent in clear");
    }
    let mut hosts = values("host").map(|it| std::str::from_utf8(it.value).unwrap_or_default());
    let host = hosts.next().filter(|host| hosts.next().is_none() && gate.check(Some(host), None).is_ok());
    let Some(host) = host else { return refusal("ask by https:// and a name of this server") };
    // A target in the form of RFC 9112 §3.2.1: what follows the host cannot name another one.
    let target = request
        .path
        .filter(|target| target.starts_with('/') && target.bytes().all(|it| it.is_ascii_graphic()));
    match (request.method, target) {
        (Some("GET" | "HEAD"), Some(target)) => format!(
            "HTTP/1.1 308 Permanent Redirect\r\nLocation: https://{host}{target}\r\nCache-Control: no-store\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        ),
        _ => refusal(&format!("ask https://{host}")),
    }
}

fn refusal(help: &str) -> String {
    let body = serde_json::json!({"error": ERROR, "help": help}).to_string();
    format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_gate::Protection;

    fn gate() -> HostGate {
        let bound = "192.0.2.7:7480".parse().unwrap();
        HostGate::new(bound, Protection::of(bound, true), ["daq-3".to_owned()])
    }

    fn answered(head: &str) -> String {
        answer_to(head.as_bytes(), &gate())
    }

    #[test]
    fn a_browser_is_sent_on_to_the_same_page_of_this_server() {
        for host in ["daq-3:7480", "192.0.2.7:7480", "localhost"] {
            let answer =
                answered(&format!("GET /guide?a=1#b HTTP/1.1\r\nhost: {host}\r\nCookie: a=b\r\n\r\n"));
            assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
            assert!(answer.contains(&format!("\r\nLocation: https://{host}/guide?a=1#b\r\n")), "{answer}");
        }
    }

    #[test]
    fn nobody_is_sent_to_another_host() {
        for head in [
            "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: daq-3\r\nHost: evil.example\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: evil.example\r\nHost: daq-3\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: daq-3@evil.example\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: daq-3\u{e9}\r\n\r\n",
            "GET http://evil.example/ HTTP/1.1\r\nHost: daq-3\r\n\r\n",
            "GET @evil.example/ HTTP/1.1\r\nHost: daq-3\r\n\r\n",
            "GET /\u{e9} HTTP/1.1\r\nHost: daq-3\r\n\r\n",
            "POST /api/join HTTP/1.1\r\nHost: daq-3\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: daq-3\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: daq-3\r\nX: 1",
            "USER ada\r\n\r\n",
            "",
        ] {
            let answer = answered(head);
            assert!(answer.starts_with("HTTP/1.1 400 ") && !answer.contains("evil"), "{head}: {answer}");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}", body.len())));
            let said: serde_json::Value = serde_json::from_str(body).unwrap();
            assert!(
                said["error"].as_str() == Some(ERROR) && said["help"].as_str().unwrap().contains("https://")
            );
        }
    }

    #[test]
    fn a_token_in_clear_is_told_and_not_repeated() {
        let answer = answered("GET /metrics HTTP/1.1\r\nHost: daq-3\r\nauthorization: Bearer tct_1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("sent in clear"), "{answer}");
        assert!(!answer.contains("tct_1"));
    }
}
