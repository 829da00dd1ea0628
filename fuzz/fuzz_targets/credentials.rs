//! Any cookies and any `Authorization` headers: nobody becomes somebody by them but by the whole token, and no answer
//! repeats them.
#![no_main]

use fuzz::monitored::{ask_with, token};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// Status codes listed in docs/protocol/page.md, and those of the HTTP library for a head that is none.
const STATUS: [u16; 4] = [200, 400, 401, 431];

#[derive(Debug, Arbitrary)]
enum Piece<'a> {
    Bytes(&'a [u8]),
    /// The token, up to a part of it.
    Token {
        of_255: u8,
    },
    Known(u8),
}

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    cookies: Vec<Vec<Piece<'a>>>,
    authorization: Vec<Vec<Piece<'a>>>,
}

const KNOWN: [&str; 8] = ["Bearer ", "bearer", " ", "=", "; ", "Basic ", "tallycast-", "__Host-tallycast-"];

fuzz_target!(|input: Input<'_>| {
    let mut headers = Vec::new();
    for (name, lines) in [("Cookie", &input.cookies), ("Authorization", &input.authorization)] {
        for line in lines.iter().take(4) {
            headers.extend_from_slice(&[name.as_bytes(), b": ", &line_of(line), b"\r\n"].concat());
        }
    }
    let answer = ask_with("GET", b"/api/session", &headers, b"");
    assert!(STATUS.contains(&answer.status), "{}", answer.head);
    let said = String::from_utf8_lossy(&answer.body);
    assert!(!said.contains(token()), "the token is repeated");
    let principal =
        serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap_or_default()["principal"].clone();
    let has_token = input.authorization.iter().take(4).any(|line| {
        let line = line_of(line);
        line.windows(token().len()).any(|window| window == token().as_bytes())
    });
    assert!(principal.is_null() || principal == "anyone" || has_token && principal == "token:fuzz", "{said}");
});

/// Returns a line without what would end it.
fn line_of(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut line = Vec::new();
    for piece in pieces.iter().take(8) {
        match piece {
            Piece::Bytes(bytes) => line.extend(bytes.iter().filter(|byte| !matches!(byte, b'\r' | b'\n'))),
            Piece::Token { of_255 } => {
                line.extend_from_slice(&token().as_bytes()[..token().len() * usize::from(*of_255) / 255])
            }
            Piece::Known(known) => {
                line.extend_from_slice(KNOWN[usize::from(*known) % KNOWN.len()].as_bytes())
            }
        }
    }
    line
}
