//! Messages arrive complete, in order if requested, and are given up after their deadline.

use core::time::Duration;

use sim::Link;
use udt::SocketType;
use units::Instant;

use crate::line::{MS, Work, config, message};
use crate::pair::{CLIENT, Path, SERVER, pair, stats};

fn messages(count: usize, size: usize, lifetime: Option<Duration>, is_ordered: bool) -> Work {
    Work { messages: vec![(size, lifetime, is_ordered); count], ..Work::default() }
}

fn play(seed: u64, path: Path, work: Work) -> sim::Network<crate::line::Host> {
    let kind = SocketType::Datagram;
    let mut network = pair(seed, path, (config(kind), work), (config(kind), Work::default()));
    network.run_until(Instant::ORIGIN + Duration::from_secs(30));
    network
}

#[test]
fn ordered_messages_arrive_in_order() {
    let link = Link::ideal().delay(5 * MS).loss(0.05);
    let network = play(3, Path { forward: link.clone(), reverse: link }, messages(200, 4_000, None, true));
    let got = &network.node(SERVER).only().messages;
    let expected: Vec<Vec<u8>> = (0..200).map(|index| message(index, 4_000)).collect();
    assert!(*got == expected, "{} of 200 arrived", got.len());
}

#[test]
fn messages_without_order_all_arrive_once() {
    let link = Link::ideal().delay(5 * MS).loss(0.1);
    let network = play(4, Path { forward: link.clone(), reverse: link }, messages(200, 4_000, None, false));
    let mut got = network.node(SERVER).only().messages.clone();
    let mut expected: Vec<Vec<u8>> = (0..200).map(|index| message(index, 4_000)).collect();
    assert!(got != expected, "with one packet in ten lost, one message should have overtaken another");
    got.sort();
    expected.sort();
    assert!(got == expected, "{} of 200 arrived", got.len());
}

#[test]
fn sizes_at_the_edges_arrive() {
    let sizes = [0, 1, 1_455, 1_456, 1_457, 100_000];
    let work = Work { messages: sizes.map(|size| (size, None, true)).to_vec(), ..Work::default() };
    let network = play(5, Path::of(MS), work);
    let got = &network.node(SERVER).only().messages;
    assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
    assert!(got.iter().enumerate().all(|(index, got)| *got == message(index, sizes[index])));
}

#[test]
fn what_is_late_is_given_up_and_both_ends_say_so() {
    // A path of 10 Mbit/s for messages of 8 Mbit, each with a lifetime of 300 ms: three in eight could arrive.
    let forward = Link::ideal().delay(20 * MS).rate(10_000_000, 50_000).loss(0.02);
    let path = Path { forward, reverse: Link::ideal().delay(20 * MS) };
    let network = play(6, path, messages(250, 4_000, Some(300 * MS), false));
    let (client, server) = (network.node(CLIENT).only(), network.node(SERVER).only());
    let (sent, expired, arrived) = (250, client.expired.len(), server.messages.len());
    assert!(expired > 0, "the scene is about messages that are late");
    assert!(arrived > 40, "{arrived} arrived");
    // A message may arrive completely although its sender, which learned of that too late, gave it up.
    let given_up = stats(&network, SERVER).given_up_messages as usize;
    assert_eq!(arrived + given_up, sent, "{expired} expired");
    assert!(given_up <= expired, "{given_up} of {expired}");
    for got in &server.messages {
        assert!((0..250).any(|index| *got == message(index, 4_000)), "a message that nobody sent");
    }
}
