//! Faults around a connection: peers killed in every phase, independent clocks, a PMTU black hole.

use core::time::Duration;

use sim::{Clock, Host as Machine, Link, Network, NodeId, Port};
use udt::{CloseReason, Event, Silence, SocketConfig, SocketType};
use units::Instant;
use wire::udt::{Body, Packet};

use crate::line::{Host, MS, SECOND, Work, address, config};
use crate::pair::{CLIENT, Path, SERVER, connected, control, hear_at, pair, run, said_at, stats};

/// A silent peer is given up in two to five seconds.
fn impatient() -> SocketConfig {
    let silence = Silence { attempts: 3, last_step: SECOND, ..Silence::UDT };
    SocketConfig { silence, linger: SECOND * 20, ..config(SocketType::Stream) }
}

/// A network of two ends 5 ms apart, of which one is killed at a time: it neither receives nor sends any more.
fn killed(who: NodeId, at: Duration, work: [Work; 2]) -> Network<Host> {
    let mut network = Network::new(1);
    for (node, work) in [CLIENT, SERVER].into_iter().zip(work) {
        let never = Instant::ORIGIN + at..Instant::ORIGIN + SECOND * 100_000;
        let host = if node == who { Machine::ideal().stalls(never) } else { Machine::ideal() };
        let up = Link::ideal().delay(5 * MS);
        network.add("end", Host::new(u64::from(node.0), work), Port { up, host, ..Port::default() });
    }
    network
}

/// Returns the reason and time of the end of an end's only connection, if there was one, within a minute.
fn end_of(network: &mut Network<Host>, node: NodeId) -> Option<(CloseReason, Duration)> {
    while network.now() < Instant::ORIGIN + SECOND * 60 {
        let closed = network.node(node).seen.values().next().and_then(|seen| seen.closed);
        if let Some(reason) = closed {
            return Some((reason, network.now().since(Instant::ORIGIN)));
        }
        if network.step().is_none() {
            break;
        }
    }
    None
}

/// Checks that both ends have closed their sockets, and nothing is left of them.
fn is_clean(network: &mut Network<Host>, node: NodeId) {
    let ids: Vec<_> = network.node(node).seen.keys().copied().collect();
    network.act(node, |host, now, _| ids.iter().for_each(|id| host.endpoint.close(now, *id)));
    network.run_for(SECOND);
    assert_eq!(network.node(node).endpoint.socket_count(), 0);
}

/// With 5 ms in each direction the request arrives at 5, the challenge at 10, the conclusion at 15, its answer at 20.
#[test]
fn a_server_that_is_killed_at_any_phase_is_noticed() {
    let sends = || Work { send_bytes: 500_000_000, ..Work::default() };
    let closes = || Work { send_bytes: 5_000_000, closes: true, ..Work::default() };
    let phases = [
        ("before the request comes", 4, Work::default(), CloseReason::NoAnswer, 3_000..3_001),
        ("before the conclusion comes", 14, Work::default(), CloseReason::NoAnswer, 3_000..3_001),
        ("when it has answered", 19, Work::default(), CloseReason::Silent, 2_000..6_000),
        ("when the client has begun to send", 22, sends(), CloseReason::Silent, 2_000..6_000),
        ("amid the data", 300, sends(), CloseReason::Silent, 2_000..7_000),
        ("while the client closes", 60, closes(), CloseReason::Silent, 2_000..7_000),
    ];
    for (phase, at_ms, work, reason, after_ms) in phases {
        let mut network = killed(SERVER, MS * at_ms, [work, Work::default()]);
        network.act(SERVER, |host, _, _| host.endpoint.listen(impatient(), 8).expect("the only listener"));
        network.act(CLIENT, |host, now, _| host.connect(now, SERVER, impatient()));
        let (closed, after) = end_of(&mut network, CLIENT).expect("it does not wait for ever");
        assert_eq!(closed, reason, "killed {phase}");
        assert!(after_ms.contains(&u32::try_from(after.as_millis()).unwrap()), "killed {phase}: {after:?}");
        is_clean(&mut network, CLIENT);
    }
}

#[test]
fn a_client_that_is_killed_at_any_phase_is_noticed_and_others_are_served() {
    let sends = || Work { send_bytes: 5_000_000, ..Work::default() };
    let closes = || Work { send_bytes: 5_000_000, closes: true, ..Work::default() };
    let phases = [
        ("before the challenge comes", 9, Work::default(), Work::default(), None),
        ("before the answer comes", 19, Work::default(), Work::default(), Some(CloseReason::Silent)),
        ("amid its data", 60, sends(), Work::default(), Some(CloseReason::Silent)),
        ("amid the server's data", 60, Work::default(), sends(), Some(CloseReason::Silent)),
        ("while the server closes", 60, Work::default(), closes(), Some(CloseReason::Silent)),
        ("while it closes itself", 60, closes(), Work::default(), Some(CloseReason::Silent)),
    ];
    for (phase, at_ms, of_client, of_server, reason) in phases {
        let mut network = killed(CLIENT, MS * at_ms, [of_client, of_server]);
        let port = Port { up: Link::ideal().delay(5 * MS), ..Port::default() };
        let other = network.add("another", Host::new(9, Work::default()), port);
        network.act(SERVER, |host, _, _| host.endpoint.listen(impatient(), 1).expect("the only listener"));
        network.act(CLIENT, |host, now, _| host.connect(now, SERVER, impatient()));
        let ended = end_of(&mut network, SERVER);
        assert_eq!(ended.map(|(reason, _)| reason), reason, "killed {phase}");
        let received = network.node(SERVER).seen.values().next().map_or(0, |seen| seen.received);
        let wrong = network.node(SERVER).seen.values().next().map_or(0, |seen| seen.wrong_bytes);
        assert_eq!(
            (received > 100_000, wrong),
            (at_ms == 60 && !phase.contains("server"), 0),
            "killed {phase}"
        );
        is_clean(&mut network, SERVER);
        network.act(other, |host, now, _| host.connect(now, SERVER, impatient()));
        network.run_for(SECOND);
        assert!(network.node(other).only().connected_at.is_some(), "killed {phase}");
    }
}

/// Both send at 0, both receive at 5, both receive the other's conclusion at 10.
#[test]
fn an_end_of_a_rendezvous_that_is_killed_at_any_phase_is_noticed() {
    let sends = || Work { send_bytes: 50_000_000, ..Work::default() };
    let phases = [
        ("before it began", 0, Work::default(), CloseReason::NoAnswer),
        ("before it heard of the other", 4, Work::default(), CloseReason::NoAnswer),
        ("before it heard the conclusion", 9, Work::default(), CloseReason::Silent),
        ("when both stand", 12, Work::default(), CloseReason::Silent),
        ("amid the data", 100, sends(), CloseReason::Silent),
    ];
    for (phase, at_ms, work, reason) in phases {
        for (dies, survivor) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
            let mut network = killed(dies, MS * at_ms, [work.clone(), work.clone()]);
            network.act(dies, |host, now, _| host.rendezvous(now, survivor, impatient()));
            network.act(survivor, |host, now, _| host.rendezvous(now, dies, impatient()));
            let (closed, _) = end_of(&mut network, survivor).expect("it does not wait for ever");
            assert_eq!(closed, reason, "killed {phase}");
            is_clean(&mut network, survivor);
        }
    }
}

/// A killed end returns as a new one: its old connection neither takes its packets nor stops them.
#[test]
fn a_client_that_comes_back_from_its_old_port_is_served_beside_what_is_left_of_it() {
    let mut network =
        pair(1, Path::of(5 * MS), (impatient(), Work::default()), (impatient(), Work::default()));
    network.run_until(Instant::ORIGIN + 100 * MS);
    let work = Work { send_bytes: 100_000, ..Work::default() };
    network.act(CLIENT, |host, now, _| {
        *host = Host::new(77, work);
        host.connect(now, SERVER, impatient())
    });
    network.run_until(Instant::ORIGIN + SECOND * 20);
    let seen: Vec<_> = network.node(SERVER).seen.values().map(|seen| (seen.received, seen.closed)).collect();
    assert_eq!(seen.len(), 2);
    assert!(seen.contains(&(100_000, None)) && seen.contains(&(0, Some(CloseReason::Silent))), "{seen:?}");
}

#[test]
fn clocks_that_show_different_times_at_different_speeds_change_nothing() {
    let year = Duration::from_secs(365 * 86_400);
    for (offset, skew_ppb) in [(year * 30, 0), (Duration::ZERO, 200_000), (year, -200_000)] {
        let mut network: Network<Host> = Network::new(1);
        let link = || Link::ideal().delay(5 * MS).loss(0.02);
        let work = Work { send_bytes: 1_000_000, closes: true, ..Work::default() };
        let clock = Machine::ideal().clock(Clock { offset, skew_ppb });
        network.add("client", Host::new(1, work), Port { up: link(), host: clock, ..Port::default() });
        let server = Host::new(2, Work::default()).listening(config(SocketType::Stream));
        network.add("server", server, Port { up: link(), ..Port::default() });
        network.act(CLIENT, |host, now, _| host.connect(now, SERVER, config(SocketType::Stream)));
        run(&mut network, 30);
        let (client, server) = (network.node(CLIENT).only(), network.node(SERVER).only());
        assert_eq!((server.received, server.wrong_bytes), (1_000_000, 0), "{offset:?} {skew_ppb}");
        assert_eq!((client.closed, server.closed), (Some(CloseReason::Local), Some(CloseReason::ByPeer)));
        let round_trip = stats(&network, SERVER).round_trip;
        assert!((10 * MS..30 * MS).contains(&round_trip), "{round_trip:?}");
    }
}

/// Timestamps of packets are 32 bits of microseconds, which wrap after 71 minutes and 35 seconds.
#[test]
fn the_wires_clock_wraps_and_nothing_depends_on_it() {
    let (mut client, _, id, _, _) = connected();
    let mut told = Vec::new();
    for second in [4_294_u64, 4_295] {
        let now = Instant::ORIGIN + Duration::from_secs(second);
        hear_at(now, &mut client, address(SERVER), &[control(id, Body::KeepAlive)]);
        client.send(id, b"late").expect("it is connected");
        for bytes in said_at(now, &mut client, &mut Vec::new()) {
            if let Ok(Packet::Data(data)) = Packet::read(&bytes) {
                told.push(data.timestamp_us);
            }
        }
    }
    assert_eq!(told[0], 4_294_000_000);
    assert_eq!(told.last(), Some(&32_704));
    // A connection that begins to send after that time works like any other.
    let kind = SocketType::Stream;
    let mut network =
        pair(1, Path::of(5 * MS), (config(kind), Work::default()), (config(kind), Work::default()));
    network.run_until(Instant::ORIGIN + Duration::from_millis(4_294_960));
    let ids = [CLIENT, SERVER].map(|node| network.node(node).only_id());
    let bytes = crate::line::bytes_from(0, 90_000);
    for (node, id) in [CLIENT, SERVER].into_iter().zip(ids) {
        network.act(node, |host, _, _| assert_eq!(host.endpoint.send(id, bytes), Ok(90_000)));
    }
    network.run_for(SECOND);
    for node in [CLIENT, SERVER] {
        assert_eq!((network.node(node).only().received, network.node(node).only().wrong_bytes), (90_000, 0));
    }
}

/// Packets of more than 1,028 bytes vanish from the first half second on, without an ICMP message.
fn black_hole() -> Link {
    Link::ideal().delay(5 * MS).mtu_from(Instant::ORIGIN + SECOND / 2, 1_000).rate(20_000_000, 200_000)
}

#[test]
fn a_black_hole_is_named_and_ends_the_connection() {
    let kind = SocketType::Stream;
    let path = Path { forward: black_hole(), reverse: Link::ideal().delay(5 * MS) };
    let work = Work { send_bytes: 50_000_000, ..Work::default() };
    let mut network = pair(1, path, (config(kind), work), (config(kind), Work::default()));
    let (reason, after) = end_of(&mut network, CLIENT).expect("it does not hang for ever");
    assert_eq!(reason, CloseReason::PmtuBlackHole { packet_bytes: 1_500 });
    assert!((8..20).contains(&after.as_secs()), "{after:?}");
    assert!(reason.to_string().starts_with("packets of 1500 bytes no longer arrive, smaller ones do"));
    let events = &network.node(CLIENT).only().events;
    assert!(events.contains(&Event::PmtuBlackHole { packet_bytes: 1_500 }), "{events:?}");
    network.run_for(SECOND);
    assert_eq!(network.node(SERVER).only().closed, Some(CloseReason::ByPeer));
    // Smaller packets get through.
    let small = SocketConfig { packet_bytes: 1_000, ..config(kind) };
    let again = network.act(CLIENT, |host, now, _| {
        host.work = Work { send_bytes: 1_000_000, ..Work::default() };
        host.connect(now, SERVER, small)
    });
    network.run_for(SECOND * 5);
    assert!(network.node(CLIENT).seen[&again].connected_at.is_some());
    assert!(network.node(SERVER).seen.values().any(|seen| seen.received == 1_000_000));
}

#[test]
fn a_way_that_widens_again_or_whose_owner_lets_packets_be_cut_goes_on() {
    let kind = SocketType::Stream;
    let wide_again = Instant::ORIGIN + SECOND * 6;
    let path =
        Path { forward: black_hole().mtu_from(wide_again, 1_500), reverse: Link::ideal().delay(5 * MS) };
    let work = Work { send_bytes: 10_000_000, closes: true, ..Work::default() };
    let mut network = pair(1, path, (config(kind), work), (config(kind), Work::default()));
    run(&mut network, 60);
    let (client, server) = (network.node(CLIENT).only(), network.node(SERVER).only());
    assert_eq!((client.closed, server.received), (Some(CloseReason::Local), 10_000_000));
    assert!(client.events.contains(&Event::PmtuBlackHole { packet_bytes: 1_500 }), "it was said in time");
}

/// A path that loses everything in one direction for long, and nothing in the other, is no black hole.
#[test]
fn an_outage_is_not_taken_for_a_black_hole() {
    let kind = SocketType::Stream;
    let out = Instant::ORIGIN + SECOND / 2..Instant::ORIGIN + SECOND * 25;
    let forward = Link::ideal().delay(5 * MS).rate(20_000_000, 200_000).outage(out);
    let path = Path { forward, reverse: Link::ideal().delay(5 * MS) };
    let work = Work { send_bytes: 10_000_000, closes: true, ..Work::default() };
    let mut network = pair(1, path, (config(kind), work), (config(kind), Work::default()));
    run(&mut network, 120);
    let client = network.node(CLIENT).only();
    assert_eq!((client.closed, network.node(SERVER).only().received), (Some(CloseReason::Local), 10_000_000));
    assert!(!client.events.iter().any(|event| matches!(event, Event::PmtuBlackHole { .. })));
}
