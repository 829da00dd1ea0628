//! Ends of connections: in order, by a dead peer, by a lost shutdown.

use core::time::Duration;

use sim::{Host as Machine, Link, Network, Port};
use udt::{CloseReason, Silence, SocketType};
use units::Instant;

use crate::line::{Host, MS, SECOND, Work, config};
use crate::pair::{CLIENT, Path, SERVER, pair, run};

#[test]
fn a_lost_farewell_is_said_again_when_the_peer_asks() {
    let kind = SocketType::Stream;
    // Every packet of the client once it is connected, at 20 ms, for a fifth of a second.
    let silent = Instant::ORIGIN + 19 * MS..Instant::ORIGIN + 200 * MS;
    let path =
        Path { forward: Link::ideal().delay(5 * MS).outage(silent), reverse: Link::ideal().delay(5 * MS) };
    let client = Work { closes: true, ..Work::default() };
    let mut network = pair(1, path, (config(kind), client), (config(kind), Work::default()));
    run(&mut network, 60);
    assert_eq!(network.node(SERVER).only().closed, Some(CloseReason::ByPeer));
    let told_at = network.now();
    assert!((Instant::ORIGIN + 300 * MS..Instant::ORIGIN + SECOND).contains(&told_at), "{told_at:?}");
}

#[test]
fn a_peer_that_dies_is_given_up_in_the_time_that_is_set() {
    let kind = SocketType::Stream;
    let short = Silence { attempts: 3, last_step: SECOND, ..Silence::UDT };
    for (silence, expected) in [(Silence::UDT, 45..48), (short, 2..5)] {
        let mut client = config(kind);
        client.silence = silence;
        let mut network: Network<Host> = Network::new(1);
        network.add(
            "client",
            Host::new(1, Work { send_bytes: 100_000_000, ..Work::default() }),
            Port::default(),
        );
        let dead = Instant::ORIGIN + SECOND..Instant::ORIGIN + SECOND * 1_000;
        let port = Port { host: Machine::ideal().stalls(dead), ..Port::default() };
        network.add("server", Host::new(2, Work::default()).listening(config(kind)), port);
        network.act(CLIENT, |host, now, _| host.connect(now, SERVER, client));
        while network.node(CLIENT).only().closed.is_none() {
            network.step();
        }
        assert_eq!(network.node(CLIENT).only().closed, Some(CloseReason::Silent));
        let after = network.now().since(Instant::ORIGIN + SECOND);
        assert!(expected.contains(&after.as_secs()), "{after:?} with {silence:?}");
    }
}

#[test]
fn what_could_not_be_sent_in_the_time_to_linger_is_said() {
    let kind = SocketType::Stream;
    let mut hurried = config(kind);
    hurried.linger = SECOND;
    let client = Work { send_bytes: 10_000_000, closes: true, ..Work::default() };
    // Ten megabytes need ten seconds on this path.
    let slow = Link::ideal().rate(8_000_000, 100_000).delay(5 * MS);
    let path = Path { forward: slow.clone(), reverse: slow };
    let mut network = pair(1, path, (hurried, client), (config(kind), Work::default()));
    run(&mut network, 60);
    assert_eq!(network.node(CLIENT).only().closed, Some(CloseReason::Unsent));
    assert_eq!(network.node(SERVER).only().closed, Some(CloseReason::ByPeer));
    assert!(network.node(SERVER).only().received < 2_000_000);
}

#[test]
fn an_idle_connection_stays_open() {
    let kind = SocketType::Stream;
    let mut network =
        pair(1, Path::of(5 * MS), (config(kind), Work::default()), (config(kind), Work::default()));
    network.run_until(Instant::ORIGIN + Duration::from_secs(300));
    for node in [CLIENT, SERVER] {
        assert_eq!(network.node(node).only().closed, None);
    }
    // At most one keep-alive of each end in 300 ms, and at least one of either.
    let sent = network.log().all_sent().count();
    assert!((900..2_000).contains(&sent), "{sent}");
}

#[test]
fn nothing_is_left_of_a_connection_that_both_ends_closed() {
    let kind = SocketType::Stream;
    let client = Work { send_bytes: 10_000, closes: true, ..Work::default() };
    let mut network = pair(1, Path::of(5 * MS), (config(kind), client), (config(kind), Work::default()));
    run(&mut network, 10);
    let id = network.node(SERVER).only_id();
    network.act(SERVER, |host, now, _| host.endpoint.close(now, id));
    network.run_for(SECOND);
    for node in [CLIENT, SERVER] {
        assert_eq!(network.node(node).endpoint.socket_count(), 0);
    }
}
