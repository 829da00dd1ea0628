//! Every interleaving that the memory model allows, for few records in the smallest ring.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p tallycast-ring --test loom --target-dir target/loom`
#![cfg(loom)]

use std::time::Duration;

use loom::thread;
use ring::sync::{Arc, AtomicU64, Ordering};
use ring::{Doorbell, Read, Reader, Writer};

/// Interleavings with more involuntary switches than this are left out. With three the tests fail,
/// within seconds, if either fence is removed and for a relaxed store of head, resume or closed; a
/// relaxed store of intent only makes a lapped reader search for a resume position more often.
const PREEMPTIONS: usize = 3;

fn explore(test: impl Fn() + Sync + Send + 'static) {
    explore_with(PREEMPTIONS, test);
}

fn explore_with(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(test);
}

/// Follows one reader through records whose kind, totals and payload are their number.
#[derive(Default)]
struct Seen {
    next: u64,
    payload: Vec<u8>,
}

impl Seen {
    fn take(&mut self, reader: &mut Reader) -> Read {
        let outcome = reader.read(&mut self.payload);
        match outcome {
            Read::Record { kind, totals } => {
                assert_eq!((u64::from(kind), totals), (self.next, [self.next; 2]));
                assert_eq!(self.payload, self.next.to_le_bytes());
                self.next += 1;
            }
            Read::Lapped { totals: [resumed, _] } => {
                assert!(resumed > self.next);
                self.next = resumed;
            }
            Read::Empty | Read::Closed => {}
            Read::Broken => panic!("nobody scribbled here"),
        }
        outcome
    }
}

fn write_all(mut writer: Writer, count: u64) {
    for number in 0..count {
        writer.write(number as u16, [number; 2], &[&number.to_le_bytes()]).expect("it fits");
    }
}

#[test]
fn no_reader_sees_half_a_record_and_each_knows_what_it_missed() {
    explore(|| {
        // Two records of 32 bytes fill the ring, the third overwrites the first.
        let (writer, ring) = ring::ring(64);
        let mut reader = ring.reader_at_head();
        let writing = thread::spawn(move || write_all(writer, 3));
        let mut seen = Seen::default();
        seen.take(&mut reader);
        seen.take(&mut reader);
        writing.join().unwrap();
        while seen.take(&mut reader) != Read::Closed {}
        assert_eq!(seen.next, 3);
    });
}

#[test]
fn a_reader_that_begins_at_the_oldest_record_is_never_ahead_of_the_writer() {
    explore(|| {
        let (writer, ring) = ring::ring(64);
        let writing = thread::spawn(move || write_all(writer, 2));
        let mut reader = ring.reader_at_oldest();
        assert!(reader.lag_bytes() <= ring.capacity_bytes());
        let mut seen = Seen { next: reader.position() / 32, ..Seen::default() };
        seen.take(&mut reader);
        writing.join().unwrap();
    });
}

#[test]
fn closed_is_never_seen_before_the_last_record() {
    explore(|| {
        let (mut writer, ring) = ring::ring(64);
        let mut reader = ring.reader_at_head();
        let writing = thread::spawn(move || {
            writer.write(0, [0; 2], &[]).unwrap();
            writer.close();
        });
        let mut payload = Vec::new();
        if let Read::Closed = reader.read(&mut payload) {
            panic!("closed before its record was read");
        }
        writing.join().unwrap();
    });
}

#[test]
fn a_ledger_page_is_never_seen_half_written() {
    explore(|| {
        let (mut writer, ring) = ring::paged_ring(64, 16);
        let twice = |number: u64| [number.to_le_bytes(), number.to_le_bytes()].concat();
        writer.set_page(&twice(1)).unwrap();
        let writing = thread::spawn(move || {
            writer.set_page(&twice(2)).unwrap();
            writer
        });
        let mut page = Vec::new();
        if ring.page(&mut page) {
            assert_eq!(page[..8], page[8..]);
        }
        drop(writing.join().unwrap());
    });
}

#[test]
fn no_wake_up_is_lost_between_a_writer_and_a_sleeper() {
    explore(|| {
        let doorbell = Arc::new(Doorbell::new());
        let (mut writer, ring) = ring::ring(64);
        let mut reader = ring.reader_at_head();
        let ringing = {
            let doorbell = Arc::clone(&doorbell);
            thread::spawn(move || {
                for _ in 0..2 {
                    writer.write(0, [0; 2], &[]).unwrap();
                    doorbell.ring();
                }
                writer
            })
        };
        let mut payload = Vec::new();
        for _ in 0..2 {
            let look = || (reader.read(&mut payload) != Read::Empty).then_some(());
            // The model has no clock: a lost wake-up is a deadlock, which it reports.
            doorbell.wait_until(Duration::MAX, look);
        }
        drop(ringing.join().unwrap());
    });
}

#[test]
fn two_sleepers_at_one_doorbell_are_both_woken() {
    // Three threads: one switch fewer, to finish in seconds.
    explore_with(PREEMPTIONS - 1, || {
        let doorbell = Arc::new(Doorbell::new());
        let ready = Arc::new(AtomicU64::new(0));
        let sleepers: Vec<_> = (0..2)
            .map(|_| {
                let (doorbell, ready) = (Arc::clone(&doorbell), Arc::clone(&ready));
                thread::spawn(move || {
                    doorbell.wait_until(Duration::MAX, || (ready.load(Ordering::Relaxed) != 0).then_some(()))
                })
            })
            .collect();
        ready.store(1, Ordering::Relaxed);
        doorbell.ring();
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap(), Some(()));
        }
    });
}
