//! Streams and addresses: several streams at one, one stream at several, and a static list without
//! announcements.

use std::net::{SocketAddr, UdpSocket};

use tallycast::{AccountState, Channel, Dtype, Event, Node, NodeError, Publisher};

use crate::scene::{bus, free_address, node, sum, wait_until_joined, watch_end};

fn publisher(node: &Node, name: &str, to: SocketAddr) -> Publisher {
    let stream = node.publisher(name).dtype(Dtype::I32).rate(1_000).to(to);
    stream.channel(Channel::new("a", "V")).open().unwrap()
}

#[test]
fn a_stream_nobody_asked_for_at_first_can_be_read_later() {
    let bus = bus();
    let shared = free_address();
    let sending = node(&bus);
    let _a = publisher(&sending, "lab/a", shared);
    let _b = publisher(&sending, "lab/b", shared);
    let reading = node(&bus);
    let mut first = reading.subscriber("lab/a").from(shared).open().unwrap();
    assert_eq!(wait_until_joined(&mut first), "lab/a");
    // The socket has long received the other stream when a subscriber asks for it.
    let mut second = reading.subscriber("lab/b").from(shared).open().unwrap();
    assert_eq!(wait_until_joined(&mut second), "lab/b");
}

#[test]
fn an_address_that_was_left_can_be_read_again() {
    let bus = bus();
    let shared = free_address();
    let sending = node(&bus);
    let _a = publisher(&sending, "lab/a", shared);
    let reading = node(&bus);
    for _ in 0..2 {
        let mut subscriber = reading.subscriber("lab/a").from(shared).open().unwrap();
        assert_eq!(wait_until_joined(&mut subscriber), "lab/a");
        let accounts = subscriber.close();
        assert!(accounts.iter().all(|account| account.account.check() == Ok(())), "{accounts:?}");
        assert_eq!(accounts.len(), 1);
    }
}

#[test]
fn a_stream_that_comes_in_at_two_addresses_is_delivered_once() {
    let bus = bus();
    let addresses = [free_address(), free_address()];
    let sending = node(&bus);
    let builder = sending.publisher("lab/a").dtype(Dtype::I32).rate(10_000).channel(Channel::new("a", "V"));
    let builder = addresses.iter().fold(builder, |builder, address| builder.to(*address));
    let mut publisher = builder.open().unwrap();
    let mut subscriber = node(&bus).subscriber("lab/*").from(addresses[0]).from(addresses[1]).open().unwrap();
    wait_until_joined(&mut subscriber);
    for value in 0..200 {
        publisher.send_when_due(&[value; 100]).unwrap();
    }
    drop(publisher);
    let mut delivered = 0;
    let account = watch_end(&mut subscriber, |event| {
        delivered += if let Event::Block(block) = event { block.samples } else { 0 };
    });
    assert_eq!(account.state, AccountState::Closed);
    let rows = account.elements;
    assert_eq!((delivered, rows.delivered), (rows.next - rows.first, rows.next - rows.first));
    assert_eq!(sum(&subscriber.close()), account, "one account of it, at one of the sockets");
}

#[test]
fn a_list_of_addresses_serves_where_announcements_cannot_be_heard() {
    let bus = bus();
    // Held by a socket that shares it with no other.
    let _held = UdpSocket::bind(bus.announcements()).unwrap();
    let reading = node(&bus);
    assert!(matches!(reading.subscriber("lab/*").open(), Err(NodeError::Receive(_))));
    let address = free_address();
    let mut subscriber = reading.subscriber("lab/*").from(address).open().unwrap();
    let sending = node(&bus);
    let _publisher = publisher(&sending, "lab/a", address);
    assert_eq!(wait_until_joined(&mut subscriber), "lab/a");
}

#[test]
fn an_address_is_given_back_with_the_subscriber() {
    let reading = node(&bus());
    let address = free_address();
    let [first, second] = [0, 1].map(|_| reading.subscriber("lab/*").from(address).open().unwrap());
    drop(first);
    let closed = second.close();
    assert!(closed.is_empty());
    // The next command is handled after the ones before it.
    drop(reading.subscriber("lab/*").open().unwrap().close());
    assert!(reading.ports().is_empty(), "{:?}", reading.ports());
    UdpSocket::bind(address).unwrap();
}
