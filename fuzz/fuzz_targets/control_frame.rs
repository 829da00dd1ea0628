//! Any bytes at the control connection of a bench, in pieces: parsed as messages, or refused with a reason, in
//! bounded memory.
//!
//! Messages are also validated as an end does: the parameters of a test are checked by the test's own rules.
#![no_main]

use bench::control::Message;
use bench::control::frame::{Frames, LONGEST, encode};
use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum number of bytes an end reads at a time.
const MOST_AT_ONCE: usize = 1 << 14;

fuzz_target!(|pieces: Vec<&[u8]>| {
    judge(pieces.iter().copied());
    // A fuzzer cannot guess lengths: each piece is also tried as the text of a separate message.
    let framed: Vec<Vec<u8>> = pieces
        .iter()
        .map(|text| [&u32::try_from(text.len()).expect("a short piece").to_be_bytes()[..], text].concat())
        .collect();
    judge(framed.iter().map(Vec::as_slice));
});

fn judge<'a>(pieces: impl Iterator<Item = &'a [u8]>) {
    let mut frames = Frames::default();
    for piece in pieces.flat_map(|piece| piece.chunks(MOST_AT_ONCE)) {
        frames.push(piece);
        while let Some(message) = frames.next() {
            let Ok(message) = message else { return };
            believe(message);
        }
        assert!(frames.held_bytes() <= LONGEST + 4, "{} bytes are held", frames.held_bytes());
    }
}

/// Encodes the message again, and validates it as the beginning of every test.
fn believe(message: Message) {
    let mut again = Frames::default();
    again.push(&encode(&message));
    assert!(matches!(again.next(), Some(Ok(_))), "{message:?}");
    if let Message::Begin { parameters, .. } = message {
        parameters_of(&parameters, |it: bench::throughput::Options| drop(it.check()));
        parameters_of(&parameters, |it: bench::pingpong::Options| drop(it.check()));
        parameters_of(&parameters, |it: bench::capacity::Options| drop(it.check()));
    }
}

fn parameters_of<T: DeserializeOwned>(parameters: &Value, check: impl FnOnce(T)) {
    if let Ok(options) = serde_json::from_value(parameters.clone()) {
        check(options);
    }
}
