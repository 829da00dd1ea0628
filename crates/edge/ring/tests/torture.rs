//! Many threads, a ring far too small, and self-checking records.
//!
//! Bounded by a number of records, not by time. `lapped_readers_lose_only_what_they_say` is the one
//! to run for long after a change of a memory ordering: `TORTURE_RECORDS=100000000 cargo test -p
//! ring --test torture`.
#![cfg(not(loom))]

use std::thread;

use ring::{Doorbell, Read, Reader, Writer};
use support::WATCHDOG;
use units::Random;

/// Number of records: enough for some thousand laps, few enough for seconds on a small machine.
const RECORDS: u64 = 300_000;

fn records() -> u64 {
    std::env::var("TORTURE_RECORDS")
        .map_or(RECORDS, |text| text.parse().expect("TORTURE_RECORDS is a number"))
}

/// Fills `payload` with the content of record `number`: another length and other bytes each time.
fn fill(number: u64, payload: &mut Vec<u8>) {
    let mut random = Random::new(number);
    let len = random.below(300) as usize;
    payload.clear();
    while payload.len() < len {
        payload.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    payload.truncate(len);
}

fn write(writer: &mut Writer, number: u64, payload: &mut Vec<u8>) {
    fill(number, payload);
    let middle = payload.len() / 3;
    writer
        .write((number % 65_535) as u16, [number, !number], &[&payload[..middle], &payload[middle..]])
        .expect("the record fits");
}

/// Records that one reader saw from the first to the last.
#[derive(Default, Debug)]
struct Seen {
    read: u64,
    missed: u64,
    laps: u64,
    next: u64,
}

impl Seen {
    /// Takes the result of one read; false once the ring is closed.
    fn take(&mut self, outcome: Read, payload: &[u8], expected: &mut Vec<u8>) -> bool {
        match outcome {
            Read::Record { kind, totals } => {
                assert_eq!(totals, [self.next, !self.next], "a record was skipped or torn");
                assert_eq!(kind, (self.next % 65_535) as u16);
                fill(self.next, expected);
                assert_eq!(payload, expected, "record {} is torn", self.next);
                self.read += 1;
                self.next += 1;
            }
            Read::Lapped { totals: [resumed, check] } => {
                assert_eq!(check, !resumed);
                assert!(resumed > self.next, "lapped without a loss");
                self.missed += resumed - self.next;
                self.next = resumed;
                self.laps += 1;
            }
            Read::Empty => thread::yield_now(),
            Read::Closed => return false,
            Read::Broken => panic!("nobody scribbled here"),
        }
        true
    }

    fn all(mut reader: Reader) -> Self {
        let (mut seen, mut payload, mut expected) = (Self::default(), Vec::new(), Vec::new());
        while seen.take(reader.read(&mut payload), &payload, &mut expected) {}
        seen
    }
}

#[test]
fn lapped_readers_lose_only_what_they_say() {
    let count = records();
    let (mut writer, ring) = ring::ring(2048);
    let readers: Vec<_> = (0..3).map(|_| ring.reader_at_head()).collect();
    thread::scope(|scope| {
        let readers: Vec<_> = readers.into_iter().map(|reader| scope.spawn(|| Seen::all(reader))).collect();
        let mut payload = Vec::new();
        (0..count).for_each(|number| write(&mut writer, number, &mut payload));
        writer.close();
        for reader in readers {
            let seen = reader.join().unwrap();
            println!("{seen:?}");
            // The records in the ring when it closed are read, so that none is missed at the end.
            assert_eq!(seen.read + seen.missed, count);
        }
    });
}

#[test]
fn a_writer_that_asks_its_guard_loses_nothing() {
    let count = records() / 3;
    let (mut writer, ring) = ring::ring(2048);
    let (reader, guard) = ring.guarded_reader();
    thread::scope(|scope| {
        let reader = scope.spawn(|| Seen::all(reader));
        let mut payload = Vec::new();
        for number in 0..count {
            fill(number, &mut payload);
            while writer.would_overwrite(&guard, payload.len()) {
                thread::yield_now();
            }
            write(&mut writer, number, &mut payload);
        }
        writer.close();
        let seen = reader.join().unwrap();
        assert_eq!((seen.read, seen.missed, seen.laps), (count, 0, 0));
    });
}

#[test]
fn no_wake_up_is_lost_over_many_rings_with_one_doorbell() {
    const RINGS: usize = 4;
    let count = records() / 30;
    let doorbell = &Doorbell::new();
    let (writers, mut readers): (Vec<_>, Vec<_>) = (0..RINGS)
        .map(|_| {
            let (writer, ring) = ring::ring(1 << 12);
            let (reader, guard) = ring.guarded_reader();
            ((writer, guard), reader)
        })
        .unzip();
    thread::scope(|scope| {
        for (mut writer, guard) in writers {
            scope.spawn(move || {
                for number in 0..count {
                    while writer.would_overwrite(&guard, 8) {
                        thread::yield_now();
                    }
                    writer.write(0, [number, 0], &[&number.to_le_bytes()]).unwrap();
                    doorbell.ring();
                }
                writer.close();
                doorbell.ring();
            });
        }
        let (mut payload, mut read, mut open) = (Vec::new(), 0, [true; RINGS]);
        while open.contains(&true) {
            let look = || {
                readers.iter_mut().enumerate().filter(|(index, _)| open[*index]).find_map(
                    |(index, reader)| {
                        let outcome = reader.read(&mut payload);
                        (outcome != Read::Empty).then_some((index, outcome))
                    },
                )
            };
            match doorbell.wait_until(WATCHDOG, look).expect("a wake-up was lost") {
                (_, Read::Record { .. }) => read += 1,
                (index, Read::Closed) => open[index] = false,
                other => panic!("a guarded reader got {other:?}"),
            }
        }
        assert_eq!(read, count * RINGS as u64);
    });
}
