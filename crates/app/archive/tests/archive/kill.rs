//! Kill of a real process that records on a real disk, once unless `TALLYCAST_KILLS` asks for more.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use archive::{FileStore, Store};
use tallycast::Event;

use crate::scene::{account, amount, at_ms, began, block, open, read_back};

/// Environment variable with the child's folder; without it the child's test does nothing.
const FOLDER: &str = "TALLYCAST_KILL_TEST_FOLDER";
/// Number of samples stored before the first child is killed; each later one is killed a step earlier or later.
const ENOUGH: u64 = 700;
/// Prime to the length of a block and of a segment, so that kills meet every state between two of them.
const STEP: u64 = 13;

#[test]
fn what_a_killed_process_had_stored_is_read_and_the_rest_is_a_recorded_gap() {
    for kill in 0..amount("TALLYCAST_KILLS", 1) {
        kill_and_record_on(ENOUGH + kill * STEP % ENOUGH);
    }
}

/// Kills a child that has stored `enough` samples, and continues its recording.
fn kill_and_record_on(enough: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::records_until_it_is_killed", "--ignored", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let stored = lines.filter_map(|line| line.strip_prefix("stored ")?.parse::<u64>().ok());
    let promised = stored.into_iter().find(|stored| *stored >= enough);
    child.kill().unwrap();
    child.wait().unwrap();
    let promised = promised.expect("the child records until it is killed");

    let store: Arc<dyn Store> = Arc::new(FileStore::open(folder.path()).unwrap());
    assert!(read_back(&store).samples.count_in(0..promised) == promised, "readable as it lies");
    let mut recorder = open(&store, at_ms(0)).unwrap();
    let again = 1 << 40;
    recorder.handle(at_ms(0), &Event::Began(began(again))).unwrap();
    recorder.handle(at_ms(0), &Event::Block(block(again, 10))).unwrap();
    recorder.handle(at_ms(1), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(2)).unwrap();
    let read = read_back(&store);
    assert_eq!(read.samples.count_in(0..promised), promised);
    assert!(read.samples.contains(again));
    let [hole] = &read.holes[..] else { panic!("one absence: {:?}", read.holes) };
    assert_eq!((hole.unexplained, hole.reader_absent), (0, hole.samples * 3));
}

#[test]
#[ignore = "the child of the test above"]
fn records_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store: Arc<dyn Store> = Arc::new(FileStore::create(folder.as_ref()).unwrap());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    // If the parent dies, printing fails and the child ends too.
    for step in 0_u64.. {
        recorder.handle(at_ms(step * 4), &Event::Block(block(step * 10, 10))).unwrap();
        println!("stored {}", recorder.progress().next().unwrap().stored_index);
    }
}
