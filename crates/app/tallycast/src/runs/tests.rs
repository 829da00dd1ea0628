//! Events in blocks, and keepers on a bus of shared memory.

use std::sync::Arc;

use sample::{Block, SampleBuffer};
use units::{Epoch, RangeSet};

use super::*;

fn node() -> Node {
    let bus = format!("shm://runs-{}-{:?}", std::process::id(), std::thread::current().id());
    let plain = |letter: char| if letter.is_alphanumeric() { letter } else { '-' };
    let name: String = bus.trim_start_matches("shm://").chars().map(plain).collect();
    Node::builder().bus(format!("shm://{name}").parse().unwrap()).station("daq-3").build().unwrap()
}

fn block(stream: &str, events: &[Event]) -> Block {
    let bytes: Vec<u8> = events.iter().flat_map(|event| event.to_bytes().unwrap()).collect();
    Block {
        stream: Arc::new(stream.parse().unwrap()),
        schema: Arc::new(schema()),
        epoch: Epoch { start_ns: 1, incarnation: 1 },
        first_index: 0,
        t0: WallTime::from_nanos(1),
        samples: events.len() as u64,
        data: SampleBuffer::from_bytes(&bytes),
        missing: RangeSet::new(),
    }
}

#[test]
fn a_sample_of_which_a_part_is_missing_is_left_out() {
    let node = node();
    let events: Vec<Event> =
        ["a", "b", "c"].map(|id| event(&node, id.parse().unwrap(), What::Start).unwrap()).into();
    let mut block = block("run/daq-3", &events);
    assert_eq!(events_in(&block).map(Result::unwrap).collect::<Vec<_>>(), events);
    let second = EVENT_BYTES as u64..2 * EVENT_BYTES as u64;
    for missing in [second.start..second.start + 1, second.end - 1..second.end] {
        block.missing = RangeSet::new();
        block.missing.insert(missing);
        let found: Vec<Event> = events_in(&block).map(Result::unwrap).collect();
        assert_eq!(found, [events[0].clone(), events[2].clone()]);
    }
}

#[test]
fn other_streams_have_no_events() {
    let node = node();
    let start = event(&node, "a".parse().unwrap(), What::Start).unwrap();
    assert_eq!(events_in(&block("lab/probe", std::slice::from_ref(&start))).count(), 0);
    let mut unlabelled = block("run/daq-3", &[start]);
    Arc::make_mut(&mut unlabelled.schema).labels.remove(FORMAT_LABEL);
    assert_eq!(events_in(&unlabelled).count(), 0);
}

#[test]
fn what_is_no_event_is_counted() {
    let mut heard = Heard::default();
    let mut block = block("run/daq-3", &[event(&node(), "a".parse().unwrap(), What::Start).unwrap()]);
    assert_eq!((heard.take(&block).len(), heard.take(&block).len(), heard.malformed), (1, 0, 0));
    block.data = SampleBuffer::from_bytes(&[0xff; EVENT_BYTES]);
    assert_eq!((heard.take(&block).len(), heard.malformed), (0, 1));
}

#[test]
fn a_keeper_tells_a_reader_that_comes_after_the_command() {
    let node = node();
    let start = event(&node, "shot-1".parse().unwrap(), What::Start).unwrap();
    assert_eq!(say(&node, &start, Duration::ZERO).unwrap(), 0, "no reader is there");
    let mut keeper = Keeper::new(&node, "recorder");
    assert!(keeper.take(&block("run/daq-3", std::slice::from_ref(&start))).unwrap());
    let reader = std::thread::spawn({
        let node = node.clone();
        move || hear(&node, Duration::from_secs(60), |runs| !runs.is_empty()).unwrap()
    });
    support::wait_until("the reader", || {
        keeper.tend().unwrap();
        std::thread::sleep(POLL_INTERVAL);
        reader.is_finished().then_some(())
    });
    let heard = reader.join().unwrap();
    assert_eq!(heard.runs.list()[0].start, start.time);
}
