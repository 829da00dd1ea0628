//! The queue between a publisher and the network when it is full: overwrite, wait or refuse, over real multicast.

use tallycast::{
    Account, AccountState, Channel, Dtype, Event, OnFull, PublishError, Publisher, SampleRate, Stage,
    Subscriber,
};

use crate::scene::{bus, node, wait_until_joined, watch_end};

/// Size of a queue that holds few of the blocks below.
const QUEUE_BYTES: usize = 8_192;
/// Size of the block in one `send` of these tests. Units: samples of four bytes.
const BLOCK: usize = 256;

struct Scene {
    publisher: Publisher,
    subscriber: Subscriber,
}

/// Results of a reader: number of samples, number of missing elements, and the account.
struct Seen {
    delivered: u64,
    missing: u64,
    account: Account,
}

/// Opens a publisher with a small queue, and a reader that has joined it.
fn scene(on_full: OnFull) -> Scene {
    let node = node(&bus());
    let mut subscriber = node.subscriber("**").open().unwrap();
    let publisher = node
        .publisher("lab/probe")
        .dtype(Dtype::I32)
        .rate(SampleRate::hz(100_000).unwrap())
        .channel(Channel::new("a", "V"))
        .on_full(on_full)
        .queue_bytes(QUEUE_BYTES)
        .open()
        .unwrap();
    wait_until_joined(&mut subscriber);
    Scene { publisher, subscriber }
}

fn read_to_the_end(subscriber: &mut Subscriber) -> Seen {
    let (mut delivered, mut missing) = (0, 0);
    let account = watch_end(subscriber, |event| match event {
        Event::Block(block) => delivered += block.samples,
        Event::Gap(gap) => missing += gap.gap.len(),
        Event::Began(_) | Event::Settled(_) | Event::Statement(_) | Event::Ended(_) => {}
    });
    Seen { delivered, missing, account }
}

#[test]
fn overwriting_takes_the_oldest_back_and_names_every_sample() {
    let Scene { mut publisher, mut subscriber } = scene(OnFull::Overwrite);
    // A hundred times the queue's size: it is lapped before the agent can read.
    publisher.send(&vec![1_i32; 200 * QUEUE_BYTES / 8]).unwrap();
    let totals = publisher.close().samples;
    assert!(totals.is_balanced() && totals.publisher_queue > 0, "{totals:?}");
    let seen = read_to_the_end(&mut subscriber);
    assert_eq!(seen.account.state, AccountState::Closed);
    assert!(seen.account.explained(), "{:?}", seen.account);
    assert_eq!(seen.account.elements.lost[Stage::PublisherQueue], totals.publisher_queue);
    assert_eq!((seen.delivered, seen.missing), (totals.numbered, totals.publisher_queue));
}

#[test]
fn blocking_waits_for_room_and_loses_nothing() {
    let Scene { mut publisher, mut subscriber } = scene(OnFull::Block);
    // First more than the queue holds in one call, and then block by block.
    publisher.send(&vec![1_i32; 2 * QUEUE_BYTES]).unwrap();
    for _ in 0..100 {
        publisher.send(&[2_i32; BLOCK]).unwrap();
    }
    let samples = (2 * QUEUE_BYTES + 100 * BLOCK) as u64;
    let totals = publisher.close().samples;
    assert_eq!((totals.numbered, totals.publisher_queue), (samples, 0));
    let seen = read_to_the_end(&mut subscriber);
    assert_eq!((seen.delivered, seen.missing), (samples, 0));
}

#[test]
fn refusing_takes_a_block_whole_or_not_at_all() {
    let Scene { mut publisher, mut subscriber } = scene(OnFull::Error);
    let (mut taken, mut refused) = (0, 0);
    // A megabyte, while a few kilobytes fit.
    for _ in 0..1_000 {
        match publisher.send(&[1_i32; BLOCK]) {
            Ok(()) => taken += BLOCK as u64,
            Err(PublishError::Full) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        assert_eq!(publisher.next_index(), taken, "what was refused has no index");
    }
    assert!(refused > 0 && taken > 0, "{refused} refused, {taken} taken");
    let totals = publisher.close().samples;
    assert_eq!((totals.numbered, totals.publisher_queue), (taken, 0));
    let seen = read_to_the_end(&mut subscriber);
    assert_eq!((seen.delivered, seen.missing), (taken, 0));
}

#[test]
fn a_block_that_never_fits_is_told_from_a_queue_that_is_full() {
    let Scene { mut publisher, .. } = scene(OnFull::Error);
    let error = publisher.send(&[0_i32; QUEUE_BYTES]).unwrap_err();
    let PublishError::BlockTooLarge { bytes, queue_bytes } = error else { panic!("{error}") };
    assert_eq!(bytes, 4 * QUEUE_BYTES);
    assert!(error.to_string().contains("queue_bytes"), "{error}");
    publisher.send(&vec![0_i32; queue_bytes / 4]).unwrap();
    assert_eq!(publisher.close().samples.numbered, (queue_bytes / 4) as u64);
}

#[test]
fn a_queue_that_holds_no_sample_is_refused_when_it_is_opened() {
    let image = Channel::new("image", "").with_shape([512, 512]);
    let publisher = node(&bus()).publisher("lab/camera").dtype(Dtype::U8).rate(SampleRate::hz(10).unwrap());
    let Err(error) = publisher.channel(image).queue_bytes(64 << 10).open() else {
        panic!("a queue of 64 KiB holds no image of 256 KiB")
    };
    assert!(error.to_string().contains("queue_bytes"), "{error}");
}
