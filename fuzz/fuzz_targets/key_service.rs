//! Any bytes as a question or an answer of the key service, and as its file: refused, or written as they were read; a
//! member that is given any answers holds only secrets that are accepted or come later.
#![no_main]

use keys::service::{Answer, Client, Question, ServiceFile};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use units::{Instant, WallTime};

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    messages: Vec<(u32, &'a [u8])>,
    wall: i64,
    file: &'a str,
}

fuzz_target!(|input: Input<'_>| {
    let mut now = Instant::from_nanos(0);
    let mut client = Client::new(now);
    for (pause, bytes) in input.messages {
        now = Instant::from_nanos(now.as_nanos() + u64::from(pause));
        let _ = client.poll(now);
        if let Ok(question) = Question::from_bytes(bytes) {
            assert_eq!(question.to_bytes(), bytes);
        }
        if let Ok(answer) = Answer::from_bytes(bytes) {
            assert_eq!(&answer.to_bytes()[..], bytes);
        }
        let _ = client.handle(now, bytes);
        let held = client.held(now, WallTime::from_nanos(input.wall));
        assert_eq!(held.left.is_some() && held.keys.is_empty(), false);
    }
    if let Ok(file) = ServiceFile::parse(input.file) {
        assert_eq!(ServiceFile::parse(&file.to_text()), Ok(file));
    }
});
