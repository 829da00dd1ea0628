//! Taps beside publishers: records as the rings have them, and the same account as any reader's.

use std::time::Duration;

use support::Watchdog;
use tallycast::{AccountState, Bus, Dtype, Node, Publisher, Stage, Tap, TapRecord, Tapped};

use crate::scene::{bus, node};

const ELEMENTS: u64 = 3;

fn publisher(node: &Node) -> Publisher {
    let channels = [("a", "V"), ("b", "V"), ("c", "V")];
    node.publisher("lab/probe").dtype(Dtype::I32).rate("1k").channels(channels).open().unwrap()
}

/// Reads until this record has come.
fn read_until(tap: &mut Tap, is_last: impl Fn(&TapRecord) -> bool) -> Vec<Tapped> {
    let watchdog = Watchdog::new("a record");
    let mut records = Vec::new();
    loop {
        watchdog.check();
        let Some(tapped) = tap.next(Duration::from_secs(1)) else { continue };
        let is_last = is_last(&tapped.record);
        records.push(tapped);
        if is_last {
            return records;
        }
    }
}

/// The value of every element is its position.
fn values(positions: std::ops::Range<u64>) -> Vec<i32> {
    positions.map(|position| i32::try_from(position).unwrap()).collect()
}

/// Publishes a stream with a hole, and taps it.
fn publish_and_tap(bus: &Bus) {
    let mut tap = node(bus).tap("lab/**").unwrap();
    let mut publisher = publisher(&node(bus));
    let mut records = read_until(&mut tap, |record| matches!(record, TapRecord::Began(_)));
    publisher.send(&values(0..30)).unwrap();
    publisher.skip(5, Stage::Source).unwrap();
    publisher.send(&values(45..60)).unwrap();
    drop(publisher);
    records.extend(read_until(&mut tap, |record| matches!(record, TapRecord::Ended(_))));
    let TapRecord::Began(beginning) = &records[0].record else { panic!("{records:?}") };
    assert_eq!(beginning.description.name.as_str(), "lab/probe");
    assert_eq!((beginning.join, beginning.first_position), (1, 0));
    let (mut next, mut missing) = (0, Vec::new());
    for tapped in &records {
        match &tapped.record {
            TapRecord::Elements(elements) => {
                assert_eq!(elements.position, next);
                let read = elements.bytes.chunks_exact(4);
                let read: Vec<i32> =
                    read.map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap())).collect();
                next += read.len() as u64;
                assert_eq!(read, values(elements.position..next));
            }
            TapRecord::Gap(gap) => {
                assert_eq!(gap.positions.start, next);
                next = gap.positions.end;
                missing.push(gap.positions.clone());
            }
            _ => {}
        }
    }
    assert_eq!((next, missing), (60, std::iter::once(30..45).collect()));
    assert_eq!(records.last().unwrap().record, TapRecord::Ended(AccountState::Closed));
    let accounts = tap.close_into(|tapped| panic!("nothing is left: {tapped:?}"));
    let [account] = &accounts[..] else { panic!("{accounts:?}") };
    assert!(account.account.explained(), "{account:?}");
    let elements = account.account.elements;
    assert_eq!((elements.delivered, elements.next * ELEMENTS), (45, 60));
}

#[test]
fn a_tap_reads_a_publisher_of_its_host_record_by_record() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    publish_and_tap(&format!("shm://tapped?dir={}", directory.path().display()).parse().unwrap());
}

#[test]
fn a_tap_reads_a_publisher_over_the_network_record_by_record() {
    publish_and_tap(&bus());
}
