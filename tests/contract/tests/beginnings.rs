//! Streams that begin while their reader waits: on the same host it receives their first samples, or a counted gap.

use std::path::Path;
use std::time::Duration;

use contract::Watched;
use tallycast::{AccountState, Dtype, GapKind, Node, Publisher, Reach, Stage, Start};

/// Returns a node on a separate bus within this host, or also over the loopback interface.
fn node(with_network: bool) -> Node {
    let port = support::ports::free();
    let bus = if with_network {
        format!("udp://239.84.0.0:{port}?iface=lo&ttl=0&shm=on&access=owner")
    } else {
        format!("shm://begin-{port}-{}?access=owner", std::process::id())
    };
    Node::builder().bus(bus.parse().expect("a bus")).station("test").build().expect("a node")
}

fn publisher(node: &Node) -> Publisher {
    node.publisher("lab/begin").dtype(Dtype::U32).rate(1_000).open().expect("a publisher")
}

/// Reads until `epochs` accounts have ended, and closes; returns the events.
fn read_ended(mut reader: Watched, epochs: usize) -> contract::Seen {
    reader.until(|seen| seen.ended.len() == epochs);
    let ended = std::mem::take(&mut reader.seen.ended);
    let mut seen = reader.leave();
    seen.ended = ended;
    seen
}

/// Publishers start, send and exit before their reader checks again.
fn short_epochs(with_network: bool) {
    let node = node(with_network);
    let reader = Watched::open(node.subscriber("lab/begin"));
    for epoch in 0..3_u32 {
        let mut publisher = publisher(&node);
        (0..4).for_each(|sample| publisher.send(&[10 * epoch + sample]).expect("sent"));
        assert_eq!(publisher.close().samples.numbered, 4);
    }
    let seen = read_ended(reader, 3);
    assert_eq!(seen.values(), [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]);
    assert_eq!(seen.began, 3);
    for account in &seen.ended {
        let rows = &account.account.elements;
        assert_eq!((account.account.check(), account.account.state), (Ok(()), AccountState::Closed));
        assert_eq!((rows.first, rows.next, rows.delivered, account.reach), (0, 4, 4, Reach::Shm));
    }
    let epochs: Vec<_> = seen.ended.iter().map(|account| Some((account.epoch, account.join))).collect();
    let follows: Vec<_> = seen.ended.iter().map(|account| account.follows).collect();
    assert_eq!(follows, [None, epochs[0], epochs[1]]);
    assert!(seen.gaps.iter().all(|gap| gap.gap.kind == GapKind::PublisherAbsent), "{:?}", seen.gaps);
}

#[test]
fn a_waiting_reader_gets_every_sample_of_epochs_that_ended_before_it_looked() {
    short_epochs(false);
}

#[test]
fn a_reader_that_waited_gets_every_sample_where_there_is_a_network_too() {
    short_epochs(true);
}

#[test]
fn a_reader_that_waited_reads_a_stream_that_goes_on_from_its_first_sample() {
    let node = node(false);
    let mut reader = Watched::open(node.subscriber("lab/*"));
    let mut publisher = publisher(&node);
    publisher.send(&[1_u32, 2, 3]).expect("sent");
    publisher.skip(2, Stage::Source).expect("skipped");
    publisher.send(&[4_u32]).expect("sent");
    reader.until(|seen| seen.samples() == 4);
    assert_eq!((reader.seen.values(), reader.seen.blocks[0].first_index), (vec![1, 2, 3, 4], 0));
    assert_eq!(publisher.wait_for_readers(1, support::WATCHDOG), 1);
    drop(publisher);
    let seen = read_ended(reader, 1);
    let rows = &seen.ended[0].account.elements;
    assert_eq!((rows.first, rows.delivered, rows.lost[Stage::Source]), (0, 4, 2));
}

#[test]
fn what_the_ring_does_not_hold_any_more_is_a_counted_gap_from_the_first_sample_on() {
    let node = node(false);
    let reader = Watched::open(node.subscriber("lab/begin"));
    let builder = node.publisher("lab/begin").dtype(Dtype::U32).rate(1_000).queue_bytes(1 << 16);
    let mut publisher = builder.open().expect("a publisher");
    publisher.skip(5, Stage::Source).expect("skipped");
    // More than the ring holds, before the reader checks.
    let blocks = 100_u64;
    (0..blocks).for_each(|_| publisher.send(&[7_u32; 1_000]).expect("sent"));
    let offered = publisher.next_index();
    drop(publisher);
    let seen = read_ended(reader, 1);
    let account = &seen.ended[0].account;
    let rows = &account.elements;
    assert_eq!((account.check(), rows.first, rows.next), (Ok(()), 0, offered));
    assert_eq!((rows.delivered, rows.lost[Stage::Source], rows.unexplained), (seen.samples(), 5, 0));
    assert_eq!(rows.lost[Stage::ReaderLag], blocks * 1_000 - seen.samples());
    assert!(rows.lost[Stage::ReaderLag] > 0 && seen.samples() > 0);
    let gap = &seen.gaps[0].gap;
    assert_eq!(gap.positions, 0..seen.blocks[0].first_index, "{gap:?}");
}

/// More epochs than rings are kept for an inactive reader: its unavailable samples are counted per epoch.
#[test]
fn epochs_without_a_ring_left_are_counted_sample_by_sample() {
    let node = node(false);
    let reader = Watched::open(node.subscriber("lab/begin"));
    let epochs = 80_u64;
    for _ in 0..epochs {
        let mut publisher = publisher(&node);
        publisher.send(&[1_u32, 2, 3]).expect("sent");
        publisher.skip(2, Stage::Source).expect("skipped");
    }
    let seen = read_ended(reader, 80);
    let mut lost = 0;
    for account in &seen.ended {
        let rows = &account.account.elements;
        assert_eq!((account.account.check(), account.account.state), (Ok(()), AccountState::Closed));
        assert_eq!((rows.first, rows.next, rows.lost[Stage::Source], rows.unexplained), (0, 5, 2, 0));
        assert_eq!(rows.delivered + rows.lost[Stage::ReaderLag], 3);
        lost += rows.lost[Stage::ReaderLag];
    }
    assert_eq!((seen.samples() + lost, seen.began), (3 * epochs, 80));
    assert!(lost > 0);
}

#[test]
fn a_reader_that_starts_now_takes_what_comes_once_it_has_found_the_stream() {
    let node = node(false);
    let mut reader = Watched::open(node.subscriber("lab/begin").start(Start::Now));
    // Ended before the reader checked: not for this reader.
    let mut short = publisher(&node);
    short.send(&[1_u32]).expect("sent");
    drop(short);
    let mut publisher = publisher(&node);
    publisher.send(&[2_u32, 3]).expect("sent");
    assert_eq!(publisher.wait_for_readers(1, Duration::ZERO), 0);
    reader.until(|seen| seen.began == 1);
    assert_eq!(publisher.wait_for_readers(1, Duration::ZERO), 1);
    publisher.send(&[4_u32]).expect("sent");
    drop(publisher);
    let seen = read_ended(reader, 1);
    assert_eq!((seen.values(), seen.blocks[0].first_index), (vec![4], 2));
    assert_eq!(seen.ended[0].account.elements.first, 2);
}

#[test]
fn a_pattern_that_comes_later_waits_from_then_on() {
    let node = node(false);
    let mut subscriber = node.subscriber("lab/other").open().expect("a subscriber");
    let mut there = publisher(&node);
    there.send(&[1_u32]).expect("sent");
    // Noticed, but not selected.
    assert!(subscriber.next(Duration::from_millis(120)).is_none());
    subscriber.add_pattern("lab/**".parse().expect("a pattern"));
    there.send(&[2_u32]).expect("sent");
    drop(there);
    let mut next = node.publisher("lab/next").dtype(Dtype::U32).rate(1_000).open().expect("a publisher");
    next.send(&[3_u32]).expect("sent");
    drop(next);
    let mut got = Vec::new();
    while got.len() < 2 {
        let event = subscriber.next(support::WATCHDOG).expect("both streams come");
        if let tallycast::Event::Block(block) = event {
            got.push((block.stream.to_string(), block.first_index));
        }
    }
    got.sort();
    assert_eq!(got, [("lab/begin".to_owned(), 1), ("lab/next".to_owned(), 0)]);
}

#[test]
fn a_reader_that_leaves_takes_what_began_until_then() {
    let node = node(false);
    let reader = Watched::open(node.subscriber("lab/begin"));
    for epoch in 0..3_u32 {
        let mut publisher = publisher(&node);
        publisher.send(&[2 * epoch, 2 * epoch + 1]).expect("sent");
    }
    let seen = reader.leave();
    assert_eq!(seen.values(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(seen.ended.len(), 3);
    assert!(seen.ended.iter().all(|account| account.account.state == AccountState::Closed));
}

/// A copy of a ring's file is a ring whose writer holds no lock on it: one that was killed.
#[test]
fn what_a_killed_publisher_wrote_before_its_reader_looked_is_read_once() {
    let [alive, dead] = ["alive", "dead"].map(|what| {
        let port = support::ports::free();
        let directory = format!("/dev/shm/tallycast-begin-{what}-{}-{port}", std::process::id());
        std::fs::create_dir(&directory).expect("a directory");
        Directory(directory)
    });
    let node = |directory: &Directory| {
        Node::open(format!("shm://killed?dir={}", directory.0).parse().expect("a bus")).expect("a node")
    };
    let reading = node(&dead);
    let mut reader = Watched::open(reading.subscriber("lab/begin"));
    let mut publisher = publisher(&node(&alive));
    publisher.send(&[1_u32, 2, 3]).expect("sent");
    for file in std::fs::read_dir(&alive.0).expect("it is there") {
        let from = file.expect("a file").path();
        let to = Path::new(&dead.0).join(from.file_name().expect("a name"));
        if from.extension().is_some_and(|it| it == "ring") {
            std::fs::copy(&from, &to).expect("room for a copy");
        }
    }
    reader.until(|seen| seen.ended.len() == 1);
    let looks_more = Duration::from_millis(200);
    reader.wait(looks_more);
    assert_eq!((reader.seen.values(), reader.seen.began), (vec![1, 2, 3], 1));
    let account = &reader.seen.ended[0].account;
    assert_eq!((account.check(), account.state), (Ok(()), AccountState::Unconfirmed));
    // A reader that joins now did not wait for the stream.
    let mut comer = Watched::open(reading.subscriber("lab/begin"));
    comer.wait(looks_more);
    assert_eq!(comer.seen.began, 0);
    drop(publisher);
}

/// A directory that is removed with the test.
struct Directory(String);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
