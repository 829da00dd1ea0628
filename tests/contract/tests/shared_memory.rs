//! Properties of shared memory alone: slow readers, hosts without it, and addresses that override it.

use std::time::Duration;

use contract::{Place, Transport};
use support::wait_until;
use tallycast::{AccountState, Bus, Dtype, Event, Node, NodeError, Reach, Sending, Stage, Subscriber};

/// More than the ring holds.
const SAMPLES: u64 = 400_000;

#[test]
fn a_lapped_reader_counts_exactly_and_finds_the_stages_of_what_it_was_not_told() {
    let place = Place::new(Transport::Shm);
    let mut publisher = place.publisher("lab/lap").queue_bytes(1 << 16).open().expect("a publisher");
    let mut reader = place.joined("lab/lap");
    publisher.send(&[1_u32; 100]).expect("sent");
    reader.until(|seen| seen.samples() == 100);
    // Without a reader the ring wraps many times, also over holes of the source.
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
    assert_eq!(account.reach, Reach::Shm);
}

#[test]
fn a_stopped_reader_takes_nothing_from_another() {
    let place = Place::new(Transport::Shm);
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

/// Returns a node on a bus of its own port.
fn node(bus: impl Fn(u16) -> String) -> Node {
    let bus: Bus = bus(support::ports::free()).parse().expect("a bus");
    Node::builder().bus(bus).station("test").build().expect("a node")
}

/// Reads until the stream has been joined; returns its reach.
fn join(subscriber: &mut Subscriber) -> Reach {
    let id = wait_until("a stream", || match subscriber.next(Duration::from_secs(1)) {
        Some(Event::Began(info)) => Some(info.id),
        _ => None,
    });
    subscriber.reaches().iter().find(|(stream, _)| *stream == id).expect("it was joined").1
}

#[test]
fn a_host_without_room_for_rings_is_read_by_the_network_and_a_bus_of_rings_alone_refuses() {
    let node = node(|port| format!("udp://239.84.0.0:{port}?iface=lo&shm=/nonexistent"));
    let publisher =
        node.publisher("lab/without").dtype(Dtype::U8).rate(100).open().expect("the network is there");
    let mut subscriber = node.subscriber("lab/without").open().expect("a subscriber");
    assert_eq!(join(&mut subscriber), Reach::Udp);
    drop(publisher);

    let bus: Bus = "shm://lab?dir=/nonexistent".parse().expect("a bus");
    let node = Node::open(bus).expect("a node");
    let refused = node.publisher("lab/without").rate(100).open().err().expect("there is no way out");
    assert!(matches!(refused, NodeError::Send(_)), "{refused}");
    assert!(refused.to_string().contains("/dev/shm"), "{refused}");
}

#[test]
fn an_address_overrules_shared_memory_at_either_end() {
    let node = node(|port| format!("udp://239.84.0.0:{port}?iface=lo&shm=on&access=owner"));
    let group = format!("239.84.7.7:{}", support::ports::free()).parse().expect("an address");
    let publisher =
        node.publisher("lab/to").dtype(Dtype::U8).rate(100).to(group).open().expect("a publisher");
    let mut subscriber = node.subscriber("lab/to").open().expect("a subscriber");
    assert_eq!(join(&mut subscriber), Reach::Udp, "the publisher was told where to send");
    drop((publisher, subscriber));

    let _publisher = node.publisher("lab/both").dtype(Dtype::U8).rate(100).open().expect("a publisher");
    let on_host = node.streams_on_host();
    assert_eq!(on_host.iter().map(|it| it.reach).collect::<Vec<_>>(), [Reach::Shm]);
    let mut subscriber = node.subscriber("lab/both").open().expect("a subscriber");
    assert_eq!(join(&mut subscriber), Reach::Shm);
    let group = node.bus().group(on_host[0].stream);
    let mut subscriber = node.subscriber("lab/both").from(group).open().expect("a subscriber");
    assert_eq!(join(&mut subscriber), Reach::Udp, "the reader was told where to listen");
}

#[test]
fn planted_loss_is_seen_on_the_publishers_host_too_and_needs_a_network() {
    let node = node(|port| format!("udp://239.84.0.0:{port}?iface=lo&shm=on&access=owner"));
    let _publisher = node.publisher("lab/planted").rate(100).loss(0.5).open().expect("a publisher");
    assert!(node.streams_on_host().is_empty(), "datagrams are withheld, and a ring has none");
    let mut subscriber = node.subscriber("lab/planted").open().expect("a subscriber");
    assert_eq!(join(&mut subscriber), Reach::Udp);

    let within = Node::open("shm://planted".parse().expect("a bus")).expect("a node");
    let builders = [
        within.publisher("lab/planted").rate(100).loss(0.5),
        within.publisher("lab/planted").rate(100).sending(Sending::OnDemand),
    ];
    for builder in builders {
        let refused = builder.open().err().expect("there are no datagrams");
        assert!(matches!(refused, NodeError::NoDatagrams(_)), "{refused}");
    }
}
