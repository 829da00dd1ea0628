//! Connection setup under losses.

use core::time::Duration;

use sim::{Link, Network, NodeId, Port};
use udt::{CloseReason, Event, SocketType};
use units::Instant;

use crate::line::{Host, MS, SECOND, Work, config};
use crate::pair::{CLIENT, Path, SERVER, pair, run};

fn connects(path: Path) -> Option<Instant> {
    let kind = SocketType::Stream;
    let mut network = pair(1, path, (config(kind), Work::default()), (config(kind), Work::default()));
    network.run_until(Instant::ORIGIN + SECOND * 4);
    assert!(network.node(SERVER).seen.len() <= 1, "one client, one connection");
    network.node(CLIENT).only().connected_at
}

#[test]
fn two_round_trips_make_a_connection() {
    assert_eq!(connects(Path::of(5 * MS)), Some(Instant::ORIGIN + 20 * MS));
}

#[test]
fn a_lost_handshake_costs_a_quarter_of_a_second() {
    for (forward, reverse) in [(vec![0], vec![]), (vec![], vec![0]), (vec![1], vec![]), (vec![], vec![1])] {
        let path = Path {
            forward: Link::ideal().delay(5 * MS).lose(forward),
            reverse: Link::ideal().delay(5 * MS).lose(reverse),
        };
        let at = connects(path).expect("it connects all the same");
        assert!((260..=280).contains(&(at.as_nanos() / 1_000_000)), "{at:?}");
    }
}

#[test]
fn handshakes_that_come_twice_make_one_connection() {
    let twice = || Link::ideal().delay(5 * MS).duplicate(1.0, 3 * MS);
    assert!(connects(Path { forward: twice(), reverse: twice() }).is_some());
}

#[test]
fn a_cookie_is_valid_over_the_full_minute() {
    let kind = SocketType::Stream;
    let path = Path::of(500 * MS);
    let mut network = pair(1, path, (config(kind), Work::default()), (config(kind), Work::default()));
    network.run_until(Instant::ORIGIN + Duration::from_millis(59_400));
    network.act(CLIENT, |host, now, _| host.connect(now, SERVER, config(kind)));
    network.run_until(Instant::ORIGIN + Duration::from_millis(61_500));
    assert_eq!(network.node(SERVER).endpoint.endpoint_stats().wrong_cookie, 0);
    assert!(network.node(CLIENT).seen.values().all(|seen| seen.connected_at.is_some()));
}

#[test]
fn nobody_there_is_said_after_three_seconds() {
    let kind = SocketType::Stream;
    let mut network: Network<Host> = Network::new(1);
    network.add("client", Host::new(1, Work::default()), Port::default());
    network.add("nobody", Host::new(2, Work::default()), Port::default());
    network.act(CLIENT, |host, now, _| host.connect(now, SERVER, config(kind)));
    network.run_until(Instant::ORIGIN + SECOND * 2);
    assert_eq!(network.node(CLIENT).only().closed, None);
    network.run_until(Instant::ORIGIN + SECOND * 4);
    assert_eq!(network.node(CLIENT).only().closed, Some(CloseReason::NoAnswer));
    assert!(network.node(SERVER).endpoint.endpoint_stats().unknown_socket > 10);
}

#[test]
fn a_socket_of_another_type_is_refused() {
    let (client, server) = (config(SocketType::Datagram), config(SocketType::Stream));
    let mut network = pair(1, Path::of(MS), (client, Work::default()), (server, Work::default()));
    network.run_until(Instant::ORIGIN + SECOND);
    assert_eq!(network.node(CLIENT).only().closed, Some(CloseReason::Refused));
    assert_eq!(network.node(SERVER).endpoint.endpoint_stats().refused, 1);
    assert!(network.node(SERVER).seen.is_empty());
}

#[test]
fn the_smaller_packet_size_holds() {
    for (ours, theirs) in [(1_400, 1_500), (9_000, 1_500), (1_500, 1_400)] {
        let kind = SocketType::Stream;
        let (mut client, mut server) = (config(kind), config(kind));
        (client.packet_bytes, server.packet_bytes) = (ours, theirs);
        let work = Work { send_bytes: 100_000, closes: true, ..Work::default() };
        let mut network = pair(1, Path::of(MS), (client, work), (server, Work::default()));
        run(&mut network, 10);
        assert_eq!(network.node(SERVER).only().received, 100_000);
        let largest = network.log().all_sent().map(|sent| sent.bytes.len()).max();
        assert_eq!(largest, Some(ours.min(theirs) as usize - 28));
    }
}

#[test]
fn two_ends_meet_whoever_begins() {
    for head_start in [Duration::ZERO, 600 * MS] {
        let kind = SocketType::Stream;
        let work = Work { send_bytes: 50_000, ..Work::default() };
        let mut network = Network::new(3);
        let link = Link::ideal().delay(5 * MS).loss(0.1);
        for seed in [1, 2] {
            let port = Port { up: link.clone(), ..Port::default() };
            network.add("end", Host::new(seed, work.clone()), port);
        }
        let mut long = config(kind);
        long.connect_timeout = SECOND * 30;
        network.act(CLIENT, |host, now, _| host.rendezvous(now, NodeId(1), long.clone()));
        network.run_for(head_start);
        network.act(SERVER, |host, now, _| host.rendezvous(now, NodeId(0), long.clone()));
        network.run_until(Instant::ORIGIN + SECOND * 10);
        for node in [CLIENT, SERVER] {
            let seen = network.node(node).only();
            assert_eq!((seen.received, seen.wrong_bytes), (50_000, 0), "{head_start:?}");
            assert_eq!(seen.events.iter().filter(|event| **event == Event::Connected).count(), 1);
        }
    }
}

/// One end is connected, the other missed its conclusion and asks again: the answer has the number of the next
/// packet.
#[test]
fn a_rendezvous_whose_conclusion_is_lost_stands_on_the_right_numbers() {
    let mut network = Network::new(3);
    let link = Link::ideal().delay(5 * MS);
    for (seed, up) in [(1, link.clone().lose([1])), (2, link)] {
        network.add("end", Host::new(seed, Work::default()), Port { up, ..Port::default() });
    }
    let kind = SocketType::Stream;
    network.act(CLIENT, |host, now, _| host.rendezvous(now, SERVER, config(kind)));
    network.act(SERVER, |host, now, _| host.rendezvous(now, CLIENT, config(kind)));
    network.run_until(Instant::ORIGIN + SECOND);
    let connected = |node| network.node(node).only().connected_at.expect("they meet");
    assert!(connected(SERVER).since(connected(CLIENT)) > 200 * MS, "only by asking again");
    for node in [CLIENT, SERVER] {
        let bytes = crate::line::bytes_from(0, 5_000);
        network.act(node, |host, _, _| assert_eq!(host.endpoint.send(host.only_id(), bytes), Ok(5_000)));
    }
    network.run_until(Instant::ORIGIN + SECOND * 2);
    for node in [CLIENT, SERVER] {
        let seen = network.node(node).only();
        assert_eq!((seen.received, seen.wrong_bytes), (5_000, 0));
    }
}

#[test]
fn a_rendezvous_stands_at_a_port_with_a_listener() {
    let kind = SocketType::Stream;
    let mut network = Network::new(3);
    let port = || Port { up: Link::ideal().delay(5 * MS), ..Port::default() };
    for seed in [1, 2] {
        network.add("listens, too", Host::new(seed, Work::default()).listening(config(kind)), port());
    }
    network.act(CLIENT, |host, now, _| host.rendezvous(now, SERVER, config(kind)));
    network.act(SERVER, |host, now, _| host.rendezvous(now, CLIENT, config(kind)));
    network.run_until(Instant::ORIGIN + SECOND);
    // And the listeners continue to listen.
    network.act(SERVER, |host, now, _| host.connect(now, CLIENT, config(kind)));
    network.run_until(Instant::ORIGIN + SECOND * 2);
    for node in [CLIENT, SERVER] {
        let seen = &network.node(node).seen;
        assert_eq!(seen.values().filter(|seen| seen.connected_at.is_some()).count(), 2);
    }
}

#[test]
fn clients_beyond_the_backlog_are_refused_and_the_oldest_is_accepted_first() {
    let kind = SocketType::Stream;
    let mut endpoint = udt::Endpoint::new(&udt::EndpointConfig { seed: 1, secret: [3; 16] });
    endpoint.listen(config(kind), 2).unwrap();
    assert!(endpoint.listen(config(kind), 2).is_none(), "one listener at a port");
    let mut accepted = Vec::new();
    let mut refused = 0;
    for client in 0..4 {
        let mut other = udt::Endpoint::new(&udt::EndpointConfig { seed: 10 + client, secret: [3; 16] });
        let from = crate::line::address(NodeId(10 + u32::try_from(client).unwrap()));
        let id = other.connect(Instant::ORIGIN, crate::line::address(SERVER), config(kind));
        for event in crate::pair::shake_hands(&mut other, &mut endpoint, from) {
            match event {
                Event::Connected => accepted.push(from),
                Event::Closed(CloseReason::Refused) => refused += 1,
                other => panic!("{other:?} of {id:?}"),
            }
        }
    }
    assert_eq!((accepted.len(), refused), (2, 2));
    for from in accepted {
        let socket = endpoint.accept().unwrap();
        assert_eq!(endpoint.peer(socket), Some(from));
    }
    assert_eq!(endpoint.accept(), None);
}
