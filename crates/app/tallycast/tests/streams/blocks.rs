//! Blocks one by one, the newest of them, and samples with times of their own.

use std::time::Duration;

use support::{WATCHDOG, Watchdog};
use tallycast::{Bus, Node, Publisher, Subscriber, WallTime};

use crate::scene::wait_until_joined;

/// Opens a node in shared memory of this test alone.
fn node(directory: &tempfile::TempDir) -> Node {
    let bus: Bus = format!("shm://blocks?dir={}", directory.path().display()).parse().unwrap();
    Node::open(bus).unwrap()
}

fn publisher(node: &Node, name: &str) -> Publisher {
    node.publisher(name).rate(1_000).linger(Duration::ZERO).queue_bytes(1 << 22).open().unwrap()
}

/// Returns a subscriber that has joined `streams` streams.
fn joined(node: &Node, streams: usize) -> Subscriber {
    let mut subscriber = node.subscriber("**").open().unwrap();
    (0..streams).for_each(|_| drop(wait_until_joined(&mut subscriber)));
    subscriber
}

#[test]
fn whoever_does_not_wait_gets_what_has_come_in_many_small_pieces_too() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(&directory);
    let mut publisher = publisher(&node, "lab/small");
    let mut subscriber = joined(&node, 1);
    for value in 0..2_000 {
        publisher.send(&[f64::from(value)]).unwrap();
    }
    let mut values = 0;
    while let Some(block) = subscriber.next_block(Duration::ZERO) {
        values += block.samples;
    }
    assert_eq!(values, 2_000);
}

#[test]
fn what_was_read_with_a_block_is_at_hand_and_what_came_later_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(&directory);
    let mut publisher = publisher(&node, "lab/hand");
    let mut subscriber = joined(&node, 1);
    // A gap keeps the two apart.
    publisher.send(&[1.0]).unwrap();
    publisher.skip(1, tallycast::Stage::Source).unwrap();
    publisher.send(&[2.0]).unwrap();
    assert!(subscriber.block_at_hand().is_none(), "nothing was read");
    assert_eq!(subscriber.next_block(WATCHDOG).unwrap().first_index, 0);
    publisher.send(&[3.0]).unwrap();
    let at_hand = subscriber.block_at_hand().unwrap();
    assert_eq!((at_hand.first_index, at_hand.block.samples, at_hand.gaps.len()), (2, 1, 1));
    assert!(subscriber.block_at_hand().is_none());
    assert_eq!(subscriber.next_block(WATCHDOG).unwrap().first_index, 3);
}

#[test]
fn a_reader_that_spins_before_it_sleeps_gets_every_block_it_waits_for() {
    const BLOCKS: u64 = 500;
    for spin in [Duration::from_micros(1), Duration::from_micros(50), WATCHDOG] {
        let directory = tempfile::tempdir().unwrap();
        let node = node(&directory);
        let mut publisher = publisher(&node, "lab/spin");
        let mut subscriber = node.subscriber("lab/spin").spin(spin).open().unwrap();
        wait_until_joined(&mut subscriber);
        let (wanted, requests) = std::sync::mpsc::channel();
        let sending = std::thread::spawn(move || {
            // Each is sent when the reader is about to wait for it.
            while let Ok(value) = requests.recv() {
                publisher.send(&[value]).unwrap();
            }
        });
        for index in 0..BLOCKS {
            wanted.send(f64::from(u32::try_from(index).unwrap())).unwrap();
            assert_eq!(subscriber.next_block(WATCHDOG).unwrap().first_index, index, "{spin:?}");
        }
        drop(wanted);
        sending.join().unwrap();
        let account = &subscriber.close()[0].account;
        assert!(account.explained(), "{account:?}");
        assert_eq!(account.elements.delivered, BLOCKS);
    }
}

#[test]
fn the_newest_block_of_each_stream_passes_over_those_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(&directory);
    let mut publishers = [publisher(&node, "lab/a"), publisher(&node, "lab/b")];
    let mut subscriber = joined(&node, 2);
    for publisher in &mut publishers {
        for k in 0..20 {
            publisher.send(&[f64::from(k); 4_000]).unwrap();
            if k == 9 {
                publisher.skip(5, tallycast::Stage::Source).unwrap();
            }
        }
    }
    let mut names = Vec::new();
    for _ in 0..2 {
        let block = subscriber.newest_block(WATCHDOG).unwrap();
        let last = *block.elements::<f64>().unwrap().last().unwrap();
        assert_eq!((last, block.next_index(), block.gaps.len()), (19.0, 80_005, 1));
        assert_eq!(block.passed_over + block.block.samples, 80_000);
        names.push(block.stream.to_string());
    }
    assert_eq!(names, ["lab/a", "lab/b"]);
    // A stream that continues does not block the other.
    for publisher in &mut publishers {
        publisher.send(&[0.0]).unwrap();
    }
    assert_eq!(subscriber.newest_block(WATCHDOG).unwrap().stream.as_str(), "lab/a");
    publishers[0].send(&[0.0]).unwrap();
    assert_eq!(subscriber.newest_block(WATCHDOG).unwrap().stream.as_str(), "lab/b");
    assert_eq!(subscriber.newest_block(WATCHDOG).unwrap().stream.as_str(), "lab/a");
    publishers.into_iter().for_each(drop);
    assert!(!subscriber.has_reached_end(), "nobody has looked yet");
    let watchdog = Watchdog::new("the ends");
    while !subscriber.has_reached_end() {
        watchdog.check();
        assert!(subscriber.newest_block(Duration::from_millis(20)).is_none());
    }
    let mut accounts: Vec<_> = subscriber.ended_accounts().cloned().collect();
    accounts.sort_by(|a, b| a.stream.cmp(&b.stream));
    assert!(accounts.iter().all(|it| it.account.explained() && it.account.elements.delivered > 80_000));
    let mut closed = subscriber.close();
    closed.sort_by(|a, b| a.stream.cmp(&b.stream));
    assert_eq!(closed, accounts);
}

#[test]
fn samples_with_times_of_their_own_keep_them_to_the_nanosecond() {
    for bus in ["shm", "udp"] {
        let directory = tempfile::tempdir().unwrap();
        let node = if bus == "shm" { node(&directory) } else { crate::scene::node(&crate::scene::bus()) };
        let mut publisher = node.publisher("lab/own").rate(10).own_times().open().unwrap();
        let mut subscriber = joined(&node, 1);
        // At the rate, slightly off it, long after, and at the same time.
        let times = [0, 100_000_000, 200_000_000, 300_000_007, 2_000_000_000, 2_000_000_000, 2_100_000_000];
        let times = times.map(|ns| WallTime::from_nanos(1_800_000_000_000_000_000 + ns));
        let bytes: Vec<u8> = (0..7).flat_map(|k| f64::from(k).to_le_bytes()).collect();
        publisher.send_bytes_timed(&times, &bytes).unwrap();
        let refused = publisher.send_bytes_timed(&times[..6], &bytes).unwrap_err();
        assert_eq!(refused.to_string(), "7 samples have 6 times\ngive one time for each sample");
        drop(publisher);
        let (mut told, mut values) = (Vec::new(), Vec::new());
        while told.len() < 7 {
            let block = subscriber.next_block(WATCHDOG).unwrap();
            told.extend((block.first_index..block.next_index()).map(|index| block.time_of(index)));
            values.extend_from_slice(block.elements::<f64>().unwrap());
        }
        assert_eq!(told, times, "{bus}");
        assert_eq!(values, (0..7).map(f64::from).collect::<Vec<_>>());
        assert!(subscriber.close().iter().all(|it| it.account.explained()), "{bus}");
    }
}

#[test]
fn large_blocks_can_be_left_in_the_ring_which_says_when_they_are_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(&directory);
    let mut publisher = publisher(&node, "lab/left");
    let mut subscriber = node.subscriber("lab/left").leave_blocks_in_ring().open().unwrap();
    wait_until_joined(&mut subscriber);
    publisher.send(&[1.0; 4_000]).unwrap();
    publisher.send(&[2.0; 10]).unwrap();
    publisher.skip(5, tallycast::Stage::Source).unwrap();
    publisher.send(&[3.0; 4_000]).unwrap();

    let left = subscriber.next_block(WATCHDOG).unwrap();
    let foreign = left.data.foreign().unwrap().clone();
    assert_eq!((left.first_index, left.block.samples, left.data.as_bytes().len()), (0, 4_000, 0));
    assert!(foreign.is_valid() && !foreign.address().is_null());
    let small = subscriber.next_block(WATCHDOG).unwrap();
    assert_eq!((small.first_index, small.elements::<f64>().unwrap()), (4_000, &[2.0; 10][..]));
    let behind = subscriber.next_block(WATCHDOG).unwrap();
    assert_eq!((behind.first_index, behind.gaps.len(), behind.data.foreign().is_some()), (4_015, 1, true));

    // The ring of 4 MiB wraps round: the viewed block is overwritten, which the check reports.
    let mut samples = 8_010;
    for _ in 0..200 {
        publisher.send(&[4.0; 4_000]).unwrap();
    }
    assert!(!foreign.is_valid());
    drop(publisher);
    while let Some(block) = subscriber.next_block(Duration::ZERO) {
        samples += block.block.samples;
    }
    let account = &subscriber.close()[0].account;
    assert!(account.explained(), "{account:?}");
    assert_eq!(account.elements.delivered, samples);
    assert!(account.elements.lost.nonzero().any(|(stage, _)| stage == tallycast::Stage::ReaderLag));
}
