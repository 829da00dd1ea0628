//! Streams that change their reach: one reception per host, no duplicates, and samples in between are reported.

use std::time::Duration;

use contract::{Place, Seen, Transport, Watched, close, sum};
use support::Watchdog;
use tallycast::{AccountState, Bus, Dtype, GapKind, HostAgent, Node, NodeError, OnFull, Publisher, Reach};

/// A bus of one test as two hosts know it: one with the network alone, and one with shared memory.
struct Buses {
    beyond: Node,
    here: Bus,
}

impl Buses {
    fn new() -> Self {
        let network = support::ports::private_bus();
        let bus = |text: &str| text.parse::<Bus>().expect("a bus");
        Self { here: bus(&format!("{network}&shm=on&access=owner")), beyond: node(bus(&network)) }
    }

    /// A process of this host.
    fn here(&self) -> Node {
        node(self.here.clone())
    }

    fn reader(&self) -> Watched {
        Watched::open(self.here().subscriber("lab/**"))
    }
}

fn node(bus: Bus) -> Node {
    Node::builder().bus(bus).station("test").build().expect("a node")
}

fn publisher(node: &Node, rate: u32) -> Publisher {
    let publisher = node.publisher("lab/moving").dtype(Dtype::U32).rate(rate).on_full(OnFull::Block);
    publisher.open().expect("a publisher")
}

/// Checks that no sample was delivered twice, and that the accounts of each epoch do not overlap.
fn check_order(seen: &Seen) {
    for pair in seen.blocks.windows(2) {
        let follows = pair[0].epoch < pair[1].epoch || pair[0].next_index() <= pair[1].first_index;
        assert!(follows, "{}..{} behind {}", pair[1].first_index, pair[1].next_index(), pair[0].next_index());
    }
    for account in &seen.ended {
        assert_eq!(account.account.check(), Ok(()));
    }
}

#[test]
fn a_stream_that_starts_after_the_agent_is_received_once() {
    let buses = Buses::new();
    let agent = HostAgent::open(buses.here.clone(), &["lab/**".to_owned()]).expect("an agent");
    let mut readers = [buses.reader(), buses.reader(), buses.reader()];
    let mut publisher = publisher(&buses.beyond, 10_000);
    while readers.iter().any(|reader| reader.seen.began == 0) {
        publisher.send_when_due(&[1_u32; 100]).expect("sent");
        readers.iter_mut().for_each(Watched::glance);
    }
    for reader in &readers {
        assert_eq!(reader.reaches(), [Reach::ShmAgent]);
        assert!(reader.subscriber().ports().is_empty(), "only the agent has joined the group");
    }
    drop(agent);
}

#[test]
fn a_second_agent_is_refused_with_the_first_ones_process() {
    let buses = Buses::new();
    let open = || HostAgent::open(buses.here.clone(), &["**".to_owned()]);
    let first = open().expect("an agent");
    let refused = open().err().expect("there is one already");
    assert!(matches!(refused, NodeError::AgentRuns { pid: Some(pid) } if pid == std::process::id()));
    drop(first);
    assert!(open().is_ok());
}

#[test]
fn a_stream_that_comes_back_by_a_ring_is_read_from_there() {
    let buses = Buses::new();
    let mut reader = buses.reader();
    let mut first = publisher(&buses.beyond, 10_000);
    reader.until(|seen| seen.began == 1);
    assert_eq!(reader.reaches(), [Reach::Udp]);
    first.send(&[1_u32; 1000]).expect("sent");
    close(first);
    reader.until(|seen| seen.closed() == 1);
    // A stream that returns at once continues over the network, since its group was not left yet.
    while !reader.subscriber().ports().is_empty() {
        reader.wait(Duration::from_millis(100));
    }
    let began = reader.seen.began;
    let mut second = publisher(&buses.here(), 10_000);
    reader.until(|seen| seen.began > began);
    assert_eq!(reader.reaches(), [Reach::Shm]);
    second.send(&[2_u32; 1000]).expect("sent");
    close(second);
    reader.until(|seen| seen.closed() == 2);
    assert_eq!(reader.seen.values(), [[1_u32; 1000], [2; 1000]].concat());
    check_order(&reader.seen);
}

#[test]
fn a_stream_that_was_read_to_its_end_from_a_ring_is_not_read_again_from_the_network() {
    let buses = Buses::new();
    let mut reader = buses.reader();
    let here = buses.here();
    let mut publisher =
        here.publisher("lab/moving").dtype(Dtype::U32).rate(1_000).open().expect("a publisher");
    reader.until(|seen| seen.began == 1);
    // The ring has the samples at once; the network gets them at the pace of the stream, which stays announced.
    publisher.send(&[1_u32; 2_000]).expect("sent");
    let closing = std::thread::spawn(move || close(publisher));
    reader.until(|seen| seen.ended.len() == 1);
    while !closing.is_finished() {
        reader.wait(Duration::from_millis(50));
    }
    closing.join().expect("closed");
    let seen = reader.leave();
    assert_eq!((seen.began, seen.ended.len(), seen.samples()), (1, 1, 2_000));
    assert_eq!(seen.ended[0].account.state, AccountState::Closed);
}

#[test]
fn when_the_agent_ends_its_readers_go_on_and_nothing_comes_twice() {
    let mut place = Place::new(Transport::Agent);
    let mut publisher = place.publisher("lab/moving").open().expect("a publisher");
    let mut reader = place.joined("lab/moving");
    let send = |publisher: &mut Publisher| publisher.send_when_due(&[7_u32; 500]).map(drop).expect("sent");
    for _ in 0..20 {
        send(&mut publisher);
    }
    reader.until(|seen| seen.samples() > 0);
    place.end_agent();
    let watchdog = Watchdog::new("the reader to receive by itself");
    let began = reader.seen.began;
    while reader.reaches() != [Reach::Udp] || reader.seen.began == began {
        watchdog.check();
        send(&mut publisher);
        reader.glance();
    }
    send(&mut publisher);
    let offered = publisher.next_index();
    close(publisher);
    reader.until(|seen| seen.closed() == 1);
    let seen = reader.leave();
    check_order(&seen);
    let (of_agent, own) =
        seen.ended.split_at(seen.ended.iter().take_while(|it| it.reach == Reach::ShmAgent).count());
    assert!(own.iter().all(|it| it.reach == Reach::Udp), "{own:?}");
    let absent: u64 =
        seen.gaps.iter().filter(|gap| gap.gap.kind == GapKind::ReaderAbsent).map(|gap| gap.gap.len()).sum();
    let [first, second] = [of_agent, own].map(|accounts| sum(accounts).elements);
    assert_eq!(second.first, first.next + absent, "what lies between is this reader's absence");
    assert_eq!(second.next, offered);
}
