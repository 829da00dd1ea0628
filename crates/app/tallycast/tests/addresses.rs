//! Streams that share an address: what one subscriber does not ask for is there for the next.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use tallycast::{Bus, Channel, Dtype, Event, Node, Publisher, Subscriber};

/// How long a test waits for something that must come before it gives up.
const WATCHDOG: Duration = Duration::from_secs(30);

/// An address of this host at which nobody receives.
fn free_address() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn node(bus: &Bus) -> Node {
    Node::builder().bus(bus.clone()).station("test").build().unwrap()
}

fn publisher(node: &Node, name: &str, to: SocketAddr) -> Publisher {
    let stream = node.publisher(name).dtype(Dtype::I32).rate(1_000).to(to);
    stream.channel(Channel::new("a", "V")).open().unwrap()
}

/// Returns the name of the first stream that begins.
fn first_that_begins(subscriber: &mut Subscriber) -> String {
    let deadline = Instant::now() + WATCHDOG;
    loop {
        assert!(Instant::now() < deadline, "no stream began within {WATCHDOG:?}");
        if let Some(Event::Began(epoch)) = subscriber.next(Duration::from_secs(1)) {
            return epoch.name.to_string();
        }
    }
}

#[test]
fn a_stream_nobody_asked_for_at_first_can_be_read_later() {
    let bus: Bus = format!("udp://239.84.0.0:{}?iface=lo", free_address().port()).parse().unwrap();
    let shared = free_address();
    let sending = node(&bus);
    let _a = publisher(&sending, "lab/a", shared);
    let _b = publisher(&sending, "lab/b", shared);
    let reading = node(&bus);
    let mut first = reading.subscriber("lab/a").from(shared).open().unwrap();
    assert_eq!(first_that_begins(&mut first), "lab/a");
    // The socket has long heard of the other stream when somebody asks for it.
    let mut second = reading.subscriber("lab/b").from(shared).open().unwrap();
    assert_eq!(first_that_begins(&mut second), "lab/b");
}

#[test]
fn an_address_that_was_left_can_be_read_again() {
    let bus: Bus = format!("udp://239.84.0.0:{}?iface=lo", free_address().port()).parse().unwrap();
    let shared = free_address();
    let sending = node(&bus);
    let _a = publisher(&sending, "lab/a", shared);
    let reading = node(&bus);
    for _ in 0..2 {
        let mut subscriber = reading.subscriber("lab/a").from(shared).open().unwrap();
        assert_eq!(first_that_begins(&mut subscriber), "lab/a");
        let accounts = subscriber.close();
        assert!(accounts.iter().all(|account| account.account.check() == Ok(())), "{accounts:?}");
        assert_eq!(accounts.len(), 1);
    }
}
