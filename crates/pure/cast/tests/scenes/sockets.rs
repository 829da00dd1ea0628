//! Losses at a reader's own socket.

use core::time::Duration;

use ledger::{AccountState, EvidenceSource, Stage};
use sample::Dtype;
use sim::{Host, Link, LostBy, Network, NodeId, Port};
use units::{Epoch, Instant};

use crate::line::feed::Holes;
use crate::line::scene::{EPOCH, Scene, StreamShape, accounts, publisher, reader, watched, watched_by};
use crate::line::truth::verify;
use crate::line::{GROUP, Part, at};

fn stalled() -> Port {
    // A process that is stopped for half a second before a buffer for 40 datagrams.
    let host = Host::ideal().receive_buffer(40 * 900).stalls(at(700)..at(1_200));
    Port { host, down: Link::lan(), ..Port::default() }
}

#[test]
fn a_full_receive_buffer_is_named_to_the_last_datagram() {
    let publisher = publisher(&StreamShape::PLAIN, EPOCH, Instant::ORIGIN..at(2_000), Holes::NONE);
    let (mut network, reader) = watched(1, publisher, stalled());
    let (truth, account) = accounts(&mut network, reader, at(15_000)).remove(0);
    assert!(truth.buffer > 300);
    let rows = account.datagrams.expect("a socket");
    assert_eq!(rows.lost[Stage::ReceiverSocketBuffer], truth.buffer);
    assert_eq!(account.elements.lost[Stage::ReceiverSocketBuffer], account.elements.missing());
    assert!(account.explained());
}

#[test]
fn drops_behind_the_last_datagram_show_in_the_counter_itself() {
    // The process is stopped until everything has been sent: the last drops are stamped on no datagram.
    let host = Host::ideal().receive_buffer(40 * 900).stalls(at(1_900)..at(3_000));
    let publisher = publisher(&StreamShape::PLAIN, EPOCH, Instant::ORIGIN..at(2_000), Holes::NONE);
    let (mut network, reader) = watched(1, publisher, Port { host, ..Port::default() });
    let (truth, account) = accounts(&mut network, reader, at(15_000)).remove(0);
    // All datagrams that gave the end of the epoch were dropped too: numbers behind the horizon are not known.
    assert_eq!(account.state, AccountState::Unconfirmed);
    assert_eq!(account.datagrams.expect("a socket").unexplained, truth.network);
    assert!(network.socket_drops(reader) > 50);
}

#[test]
fn a_counter_without_stamps_explains_what_was_lost_before_the_next_datagram() {
    let host = Host::ideal().receive_buffer(20 * 900).reads_every(Duration::from_millis(30), 64);
    let publisher = publisher(&StreamShape::PLAIN, EPOCH, Instant::ORIGIN..at(2_000), Holes::NONE);
    let (mut network, reader) = watched(1, publisher, Port { host, ..Port::default() });
    let (truth, account) = accounts(&mut network, reader, at(15_000)).remove(0);
    assert!(truth.buffer > 300);
    assert_eq!(account.datagrams.expect("a socket").lost[Stage::ReceiverSocketBuffer], truth.buffer);
    assert!(account.explained());
}

#[test]
fn what_somebody_saw_the_buffer_refuse_is_put_down_to_it_and_to_nothing_else() {
    let publisher = publisher(&StreamShape::PLAIN, EPOCH, Instant::ORIGIN..at(2_000), Holes::NONE);
    let port = Port { down: Link::lan().loss(0.05), ..stalled() };
    let reader = reader(1).with_drop_reporter(1, 1.0, 500);
    let (mut network, reader) = watched_by(1, publisher, reader, port);
    let (truth, account) = accounts(&mut network, reader, at(15_000)).remove(0);
    assert!(truth.buffer > 300 && truth.network > 50);
    let rows = account.datagrams.expect("a socket");
    assert_eq!((rows.lost[Stage::ReceiverSocketBuffer], rows.unexplained), (truth.buffer, truth.network));
    let evidence: Vec<_> = account.gaps.iter().flat_map(|gap| &gap.evidence).collect();
    assert!(evidence.iter().all(|it| matches!(it.source, EvidenceSource::DropEvent(_))), "{evidence:?}");
    assert_eq!(evidence.iter().map(|it| it.count).sum::<u64>(), truth.buffer);
}

/// Many streams, each with an epoch of its own, before one reader.
fn streams(count: u64, shape: impl Fn(u64) -> StreamShape, port: Port) -> (Scene, NodeId) {
    let mut network = Network::new(1);
    for index in 0..count {
        let epoch = Epoch { start_ns: 1_000 + index, incarnation: 100 + index };
        // They do not all begin in one nanosecond.
        let begin = Instant::from_nanos(index * 777_777);
        let publisher = publisher(&shape(index), epoch, begin..at(2_000), Holes::NONE);
        network.add("publisher", Part::Publisher(Box::new(publisher)), Port::default());
    }
    let node = network.add("reader", Part::Reader(Box::new(reader(1))), port);
    network.join(node, GROUP);
    (network, node)
}

#[test]
fn two_streams_on_one_socket_share_its_drops() {
    let shapes = [StreamShape::PLAIN, StreamShape { hz: 500, name: "lab/other", ..StreamShape::PLAIN }];
    let (mut network, reader) = streams(2, |index| shapes[index as usize], stalled());
    let accounts = accounts(&mut network, reader, at(15_000));
    let named = |(_, account): &(_, ledger::Account)| {
        account.datagrams.expect("a socket").lost[Stage::ReceiverSocketBuffer]
    };
    assert!(accounts.iter().all(|account| named(account) > 0), "both lost some");
    let drops = network.log().counts(reader).lost(LostBy::Buffer);
    assert_eq!(accounts.iter().map(named).sum::<u64>(), drops);
    assert!(accounts.iter().all(|(_, account)| account.explained()));
}

#[test]
fn two_hundred_streams_arrive_at_one_reader() {
    let dtypes = [Dtype::I16, Dtype::F4, Dtype::F8];
    let shape = |index: u64| StreamShape {
        name: Box::leak(format!("lab/{index}").into_boxed_str()),
        dtype: dtypes[index as usize % 3],
        hz: 100,
        block_samples: 10,
        ..StreamShape::PLAIN
    };
    let (mut network, reader) = streams(200, shape, Port::default());
    network.run_until(at(5_000));
    let accounts = verify(&network, reader);
    assert_eq!(accounts.len(), 200);
    for (_, account) in accounts {
        assert_eq!(account.state, AccountState::Closed);
        assert!(account.explained());
        assert_eq!(account.elements.missing(), 0);
    }
}
