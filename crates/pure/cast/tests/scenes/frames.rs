//! Samples larger than a datagram, and samples much smaller.

use core::time::Duration;

use cast::send::DEFAULT_LINGER;
use ledger::AccountState;
use sample::Dtype;
use sim::{Link, NodeId, Port};
use units::Instant;
use wire::Kind;

use crate::line::at;
use crate::line::feed::Holes;
use crate::line::scene::{LIFE, StreamShape, accounts, publisher, watched};

#[test]
fn an_image_stream_loses_only_the_elements_lost() {
    const IMAGE: u64 = 8 * 1024 * 1024;
    let shape = StreamShape {
        dtype: Dtype::U8,
        hz: 10,
        elements: IMAGE as u32,
        block_samples: 1,
        ..StreamShape::PLAIN
    };
    let publisher = publisher(&shape, LIFE, Instant::ORIGIN..at(400), Holes::NONE);
    let down = Link::lan().loss(0.01);
    let (mut network, reader) = watched(1, publisher, Port { down, ..Port::default() });
    let (truth, account) = accounts(&mut network, reader, at(6_000)).remove(0);
    assert_eq!(account.state, AccountState::Closed);
    assert_eq!(account.elements.next, 4);
    let lost = 4 * IMAGE - account.elements.delivered;
    assert_eq!(account.elements.unexplained, lost);
    let share = lost as f64 / (4 * IMAGE) as f64;
    assert!((0.008..0.012).contains(&share), "1 % of the datagrams lost {share} of the elements");
    assert!(truth.network * 1_392 >= lost, "no more than the datagrams held");
}

#[test]
fn an_image_leaves_evenly_and_not_as_a_burst() {
    let shape =
        StreamShape { dtype: Dtype::U8, hz: 10, elements: 1 << 20, block_samples: 1, ..StreamShape::PLAIN };
    let publisher = publisher(&shape, LIFE, Instant::ORIGIN..at(400), Holes::NONE);
    let (mut network, _) = watched(1, publisher, Port::default());
    network.run_until(at(2_000));
    let sent: Vec<_> = network.log().all_sent().filter(|sent| sent.bytes[3] == Kind::Data.code()).collect();
    let longest = sent.windows(32).map(|train| train[31].at.since(train[0].at)).min();
    assert!(longest >= Some(Duration::from_micros(500)), "32 datagrams left within {longest:?}");
}

#[test]
fn small_blocks_are_joined() {
    let joined = |linger| {
        let shape = StreamShape { hz: 1_000, block_samples: 1, linger, ..StreamShape::PLAIN };
        let publisher = publisher(&shape, LIFE, Instant::ORIGIN..at(5_000), Holes::NONE);
        let (mut network, reader) = watched(1, publisher, Port::default());
        let (_, account) = accounts(&mut network, reader, at(10_000)).remove(0);
        assert_eq!(account.elements.delivered, 5_000);
        let data = |sent: &sim::Sent<'_>| sent.from == NodeId(0) && sent.bytes[3] == Kind::Data.code();
        network.log().all_sent().filter(data).count() / 5
    };
    assert_eq!(joined(Duration::ZERO), 1_000, "datagrams per second without joining");
    let per_second = joined(DEFAULT_LINGER);
    assert!((160..=200).contains(&per_second), "{per_second} datagrams per second");
}
