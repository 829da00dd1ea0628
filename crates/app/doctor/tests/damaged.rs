//! Damaged foreign files, in some thousand ways: event files are evaluated or refused, texts are parsed or ignored,
//! and nothing panics.
//!
//! Seeds are fixed: a failure can be repeated.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::io::{Cursor, Read};

use doctor::{Losses, Replay, ReplayError, finding_json, fuzz, unplaced_json};
use units::Random;

/// Two sockets, one of which drops in each snapshot; datagrams named by events, whole and in fragments; counters that
/// disappear. The last two snapshots are of a doctor that also reads counters which explain losses: the others lack
/// them.
const EVENTS: &str = include_str!("events.jsonl");

/// Returns a line of it, counted from 0.
fn line(index: usize) -> &'static str {
    EVENTS.lines().nth(index).unwrap()
}

/// Replays to the end or to the first refused line; returns the losses, as they are reported.
fn replayed(file: Vec<u8>) -> Result<Vec<serde_json::Value>, ReplayError> {
    let mut replay = Replay::read(Cursor::new(file))?;
    let mut reported = Vec::new();
    let mut report = |losses: &Losses| {
        assert!(losses.findings.iter().all(|finding| finding.count > 0), "a loss of nothing is none");
        reported.extend(losses.findings.iter().map(|finding| finding_json(finding, losses.not_observed)));
        reported.extend(losses.unplaced.iter().map(unplaced_json));
    };
    while let Some(seen) = replay.next_snapshot()? {
        report(&seen.losses);
    }
    report(&replay.finish());
    Ok(reported)
}

/// Damages a text in one of several ways: a byte, a number, a part removed, doubled or moved.
fn damage(text: &mut Vec<u8>, random: &mut Random) {
    const NUMBERS: [&str; 8] = [
        "0",
        "1",
        "18446744073709551615",
        "9223372036854775808",
        "72057594037927935",
        "4294967296",
        "-1",
        "1e308",
    ];
    if text.is_empty() {
        return;
    }
    let at = random.below(text.len() as u64) as usize;
    let end = text.len().min(at + 1 + random.below(40) as usize);
    match random.below(6) {
        0 => text[at] = random.below(256) as u8,
        1 => text[at] = b"0123456789,:{}[]\"nul -tf\n"[random.below(25) as usize],
        2 => drop(text.drain(at..end)),
        3 => {
            let piece = text[at..end].to_vec();
            let place = random.below(text.len() as u64) as usize;
            drop(text.splice(place..place, piece));
        }
        _ => {
            let Some(first) = text[at..].iter().position(u8::is_ascii_digit).map(|offset| at + offset) else {
                return;
            };
            let len = text[first..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = NUMBERS[random.below(8) as usize].bytes();
            drop(text.splice(first..first + len, number));
        }
    }
}

#[test]
fn a_damaged_event_file_is_judged_or_refused() {
    let reported = replayed(EVENTS.into()).unwrap();
    let stages: Vec<_> =
        reported.iter().map(|it| (it["stage"].as_str().unwrap(), it["count"].as_u64())).collect();
    let expected = [
        ("receiver_socket_buffer", Some(9)),
        ("receiver_socket_buffer", Some(2)),
        ("receiver_reassembly", Some(1)),
        ("receiver_socket_buffer", Some(3)),
        ("receiver_socket_buffer", Some(8)),
        ("receiver_nic", Some(3)),
        ("receiver_hook", Some(5)),
        ("receiver_reassembly", Some(2)),
    ];
    assert_eq!(stages, expected);
    let levels = |at: usize| reported[at]["levels"].as_array().map_or(0, Vec::len);
    assert_eq!((levels(0), levels(7)), (0, 1), "{reported:?}");
    let why = |at: usize| reported[at]["why"].as_str().unwrap();
    assert!(why(4).contains("swap") && why(5).contains("softirq of processor 0 ran 98 %"), "{reported:?}");
    let mut random = Random::new(29);
    let (mut judged, mut refused) = (0, 0);
    for _ in 0..10_000 {
        let mut file: Vec<u8> = EVENTS.into();
        for _ in 0..=random.below(4) {
            damage(&mut file, &mut random);
        }
        match replayed(file) {
            Ok(_) => judged += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(judged > 1_000 && refused > 1_000, "{judged} judged, {refused} refused");
}

#[test]
fn sums_of_the_largest_counts_have_an_end() {
    const LARGEST: u64 = (1 << 56) - 1;
    let processors = |count: u64| {
        let all: Vec<String> = (0..600).map(|cpu| format!("\"softnet_dropped/cpu{cpu}\":{count}")).collect();
        all.join(",")
    };
    let event = line(2)
        .split_once("\"events\":[")
        .unwrap()
        .1
        .split_once("},{")
        .unwrap()
        .0
        .replace("\"count\":9", "\"count\":4294967295");
    let events = vec![format!("{event}}}"); 600].join(",");
    let snapshot = |at: u64, count: u64, drops: &str| {
        format!(
            r#"{{"look":{{"at_ns":{at},"counters":{{{},"UdpNoPorts":{count}}},"gone":[],"sockets":[],"early_drops":[],"devices":[],"rmem_max_bytes":null,"rmem_default_bytes":null,"netdev_max_backlog":null}},"drops":{drops}}}"#,
            processors(count)
        )
    };
    let drops = format!(r#"{{"is_of_ports":true,"events":[{events}]}}"#);
    let mut lines = vec![line(0).to_owned(), snapshot(0, 0, "null")];
    for at in 1..300 {
        lines.push(snapshot(at, LARGEST * (at % 2), if at == 1 { &drops } else { "null" }));
    }
    assert!(!replayed(lines.join("\n").into_bytes()).unwrap().is_empty());
}

#[test]
fn a_line_without_an_end_is_refused_in_bounded_memory() {
    let endless =
        Cursor::new(format!("{}\n{}\n", line(0), line(1)).into_bytes()).chain(std::io::repeat(b'['));
    let mut replay = Replay::read(std::io::BufReader::new(endless)).unwrap();
    assert!(matches!(replay.next_snapshot(), Err(ReplayError::TooLong(3))));
    let endless = std::io::BufReader::new(std::io::repeat(b'\0'));
    assert!(matches!(Replay::read(endless), Err(ReplayError::NotOne)));
}

#[test]
fn counters_that_never_end_are_refused_in_bounded_memory() {
    let snapshot = |at: u64| {
        let name = format!("{}{at}", "x".repeat(1 << 20));
        format!(
            r#"{{"look":{{"at_ns":{at},"counters":{{"{name}":1}},"gone":[],"sockets":[],"early_drops":[],"devices":[],"rmem_max_bytes":null,"rmem_default_bytes":null,"netdev_max_backlog":null}},"drops":null}}"#
        )
    };
    let lines = (0_u64..).map(move |at| if at == 0 { line(0).to_owned() } else { snapshot(at) });
    let mut replay = Replay::read(Lines { lines: Box::new(lines), line: Cursor::default() }).unwrap();
    let refused = loop {
        match replay.next_snapshot() {
            Ok(seen) => assert!(seen.is_some()),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, ReplayError::TooLong(33..=34)), "{refused:?}");
}

/// File that is generated while it is read.
struct Lines {
    lines: Box<dyn Iterator<Item = String>>,
    line: Cursor<Vec<u8>>,
}

impl Read for Lines {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let count = std::io::BufRead::fill_buf(self)?.read(bytes)?;
        std::io::BufRead::consume(self, count);
        Ok(count)
    }
}

impl std::io::BufRead for Lines {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if std::io::BufRead::fill_buf(&mut self.line)?.is_empty() {
            self.line =
                Cursor::new(self.lines.next().map(|line| line + "\n").unwrap_or_default().into_bytes());
        }
        std::io::BufRead::fill_buf(&mut self.line)
    }

    fn consume(&mut self, count: usize) {
        std::io::BufRead::consume(&mut self.line, count);
    }
}

#[test]
fn a_damaged_text_of_the_kernel_says_something_or_nothing() {
    const TEXT: &str = "1000\n1\t2\t3\nsockets: used 10\nUDP: inuse 3 mem 12\n12.5 3.0\nIface\tDestination\n\
        eth0\t000000E0\t00000000\t0001\t0\t0\t0\t000000F0\t0\nSwapTotal:  10 kB\nSwapFree:  4 kB\n\
        some avg10=0.02 avg60=0.37 avg300=0.35 total=1\n";
    let mut random = Random::new(31);
    for _ in 0..10_000 {
        let mut text = TEXT.as_bytes().to_vec();
        for _ in 0..random.below(8) {
            damage(&mut text, &mut random);
        }
        let text = String::from_utf8_lossy(&text);
        fuzz::read_text(&text);
        text.lines().for_each(fuzz::read_text);
        let _ = fuzz::read_rules(text.as_bytes());
    }
}
