//! Readers of shared memory that are too slow: they know exactly what they missed, and cost nobody anything.

use contract::{Place, Way};
use tallycast::{AccountState, Reach, Stage};

/// More than the ring holds.
const SAMPLES: u64 = 400_000;

#[test]
fn a_lapped_reader_counts_exactly_and_finds_the_stages_of_what_it_was_not_told() {
    let place = Place::new(Way::Shm);
    let mut publisher = place.publisher("lab/lap").queue_bytes(1 << 16).open().expect("a publisher");
    let mut reader = place.joined("lab/lap");
    publisher.send(&[1_u32; 100]).expect("sent");
    reader.until(|seen| seen.samples() == 100);
    // Nobody reads: the ring goes round many times, over holes of the source too.
    let mut holes = 0;
    for block in 0..SAMPLES / 1000 {
        publisher.send(&[2_u32; 1000]).expect("sent");
        if block % 100 == 99 {
            publisher.skip(7, Stage::Source).expect("skipped");
            holes += 7;
        }
    }
    let offered = publisher.next_index();
    drop(publisher);
    reader.until(|seen| !seen.ended.is_empty());
    let seen = reader.leave();
    let [account] = &seen.ended[..] else { panic!("one account") };
    let rows = &account.account.elements;
    assert_eq!(account.account.check(), Ok(()));
    assert_eq!((account.account.state, rows.unexplained), (AccountState::Closed, 0), "{account:?}");
    assert_eq!(rows.lost[Stage::Source], holes, "the ledger page knows of the holes that were overwritten");
    assert_eq!(rows.delivered, seen.samples());
    assert_eq!(rows.lost[Stage::ReaderLag], offered - holes - seen.samples());
    assert!(rows.lost[Stage::ReaderLag] > 0 && seen.samples() > 100);
    assert_eq!(account.leg, Reach::Shm.leg());
}

#[test]
fn a_stopped_reader_takes_nothing_from_another() {
    let place = Place::new(Way::Shm);
    let mut publisher = place.publisher("lab/stopped").queue_bytes(1 << 16).open().expect("a publisher");
    let [stopped, mut reader] = [place.joined("lab/stopped"), place.joined("lab/stopped")];
    for block in 1..=200_u64 {
        publisher.send(&[5_u32; 1000]).expect("sent");
        reader.until(|seen| seen.samples() == block * 1000);
    }
    drop(publisher);
    reader.until(|seen| !seen.ended.is_empty());
    let rows = &reader.seen.ended[0].account.elements;
    assert_eq!((rows.delivered, rows.lost.total()), (200_000, 0));
    let seen = stopped.leave();
    let rows = &seen.ended[0].account.elements;
    assert_eq!(rows.delivered + rows.lost[Stage::ReaderLag], 200_000);
    assert!(rows.lost[Stage::ReaderLag] > 0);
}
