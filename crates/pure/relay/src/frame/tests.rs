//! Bytes of messages: golden, cut at every length, and random.

use ledger::{HopCounts, HopShare, Outcome, Stage};
use proptest::prelude::*;

use super::*;
use crate::Cause;

fn shares(counts: &[(u8, Outcome, u64)]) -> HopCounts {
    counts.iter().map(|&(hop, outcome, count)| HopShare { hop, outcome, count }).collect()
}

/// One message of each kind.
fn samples() -> Vec<Message<'static>> {
    let control = |number, control| Content::Control(Numbered { number, control });
    let missing = shares(&[(0, Outcome::Lost(Stage::ReaderLag), 4), (2, Outcome::Unsettled, 1)]);
    let settled = shares(&[(0, Outcome::Lost(Stage::ReaderLag), 4), (2, Outcome::Unexplained, 1)]);
    let origin = Epoch { start_ns: 0x0102_0304_0506_0708, incarnation: 0x1112_1314_1516_1718 };
    let contents = vec![
        Content::Hello(Hello { version: VERSION, incarnation: 9, station: "gate-a".to_owned() }),
        Content::Begin(Begin {
            origin,
            deadline: Duration::from_secs(1),
            is_least: true,
            goes_on: false,
            priority: 9,
            stations: vec!["daq".to_owned(), "gate-a".to_owned()],
            description: b"description",
        }),
        Content::Resume(Resume { standing: Standing::Other, position: 70, controls: 3 }),
        Content::Data(b"datagram"),
        Content::Horizon(Horizon { position: 90, first_control: 2 }),
        Content::Totals(Totals { position: 80, delivered: 60, missing: 8, given_up: 2, controls: 4 }),
        Content::Want(Want { deadline: Duration::from_millis(250), priority: 7 }),
        Content::Refuse(Refusal::Loop),
        control(0, Control::Start { position: 10 }),
        control(1, Control::Missing { positions: 20..25, shares: missing }),
        control(2, Control::Settled { positions: 20..25, shares: settled }),
        control(3, Control::GivenUp { positions: 30..40, cause: Cause::Bandwidth }),
        control(4, Control::Statement(b"signed".to_vec())),
        control(5, Control::End { position: 90 }),
    ];
    let message = |content| Message { slot: 5, born_us: 0x2122_2324, missing_before: 0x31, content };
    contents.into_iter().map(message).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn messages_keep_their_bytes() {
    let written: Vec<_> = samples().iter().map(|message| hex(&message.encode())).collect();
    let expected: Vec<_> = include_str!("golden.txt").lines().collect();
    assert_eq!(written, expected);
}

#[test]
fn messages_are_read_as_they_were_written() {
    for message in samples() {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}

#[test]
fn no_message_is_read_from_a_part_of_it() {
    for message in samples() {
        let bytes = message.encode();
        let whole_from = match message.content {
            Content::Data(_) => HEAD_BYTES,
            Content::Begin(_) => bytes.len() - b"description".len(),
            Content::Control(Numbered { control: Control::Statement(_), .. }) => HEAD_BYTES + 8,
            _ => bytes.len(),
        };
        for len in 0..whole_from {
            assert!(Message::decode(&bytes[..len]).is_err(), "{message:?} in {len} bytes");
        }
        for len in whole_from..bytes.len() {
            assert!(Message::decode(&bytes[..len]).is_ok(), "{message:?} in {len} bytes");
        }
    }
}

#[test]
fn what_follows_a_message_is_refused() {
    let mut bytes = Message::plain(0, Content::Refuse(Refusal::Deadline)).encode();
    bytes.push(0);
    assert_eq!(Message::decode(&bytes), Err(MalformedMessage::Long));
}

#[test]
fn shares_that_do_not_add_up_are_refused() {
    let of = |count| {
        let shares = shares(&[(0, Outcome::Unexplained, count)]);
        let control = Control::Missing { positions: 3..6, shares };
        let message = Message::plain(0, Content::Control(Numbered { number: 0, control }));
        Message::decode(&message.encode()).map(|_| ())
    };
    assert_eq!(of(3), Ok(()));
    assert_eq!(of(2), Err(MalformedMessage::Short), "one more share is expected");
    assert_eq!(of(4), Err(MalformedMessage::Field("list of shares")));
}

#[test]
fn kinds_of_later_versions_are_refused_by_their_number() {
    let mut bytes = Message::plain(0, Content::Refuse(Refusal::Loop)).encode();
    for code in [0, 15, 255] {
        bytes[0] = code;
        assert_eq!(Message::decode(&bytes), Err(MalformedMessage::Kind(code)));
    }
}

#[test]
fn all_kinds_and_reasons_have_codes_of_their_own() {
    let codes: Vec<_> = samples().iter().map(|message| message.content.kind()).collect();
    assert_eq!(codes, kind::ALL.map(|(code, _)| code));
    for refusal in Refusal::KNOWN {
        assert_eq!(Refusal::from_code(refusal.code()), refusal);
    }
    assert_eq!(Refusal::from_code(200), Refusal::Unknown);
}

#[test]
fn names_of_stations_are_cut_between_characters() {
    let long = "ä".repeat(40);
    assert_eq!(station_name(&long), "ä".repeat(31));
    assert_eq!(station_name("gate\u{1b}[2J"), "gate");
}

#[test]
fn births_wrap_with_the_clock() {
    let now = Instant::from_nanos(5_000_000_000);
    assert_eq!(born_us(100, now, now - Duration::from_micros(101)), u32::MAX);
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read_the_same_again(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = bytes;
        if let Some(kind) = bytes.first_mut() {
            *kind %= 16;
        }
        if let Ok(message) = Message::decode(&bytes) {
            let again = message.encode();
            prop_assert_eq!(Message::decode(&again), Ok(message));
        }
    }
}

#[test]
fn the_page_has_all_kinds_and_reasons() {
    let page = include_str!("../../../../../docs/protocol/relay.md");
    // Another connection, with messages of its own.
    let (page, _) = page.split_once("\n## Backfill\n").expect("it comes last");
    let rows: Vec<(u8, &str)> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            Some((cells.next()?.parse().ok()?, cells.next()?.trim_matches('`')))
        })
        .filter(|(_, name)| name.chars().all(|character| character.is_ascii_lowercase() || character == '_'))
        .collect();
    // Five fields of the head come before.
    assert_eq!(rows[5..], kind::ALL);
    let head: usize = page
        .lines()
        .filter_map(|line| {
            line.strip_prefix("| ")?.split(" | ").next()?.parse::<usize>().ok().map(|bytes| (bytes, line))
        })
        .filter(|(_, line)| {
            ["`kind`", "`flags`", "`slot`", "`born_us`", "`missing_before`"]
                .iter()
                .any(|field| line.contains(&format!("| {field} |")))
        })
        .map(|(bytes, _)| bytes)
        .sum();
    assert_eq!(head, HEAD_BYTES);
    for (code, cause) in Cause::ALL.iter().enumerate() {
        let name = cause.name().replace('_', " ");
        assert!(page.contains(&format!("{code} {name}")), "{code} {name}");
    }
    for (refusal, name) in [(Refusal::Claimed, "claimed"), (Refusal::Superseded, "superseded")] {
        assert!(page.contains(&format!("{} {name}", refusal.code())), "{name}");
    }
}
