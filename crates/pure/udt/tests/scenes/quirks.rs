//! Peculiarities of libudt that a peer shows, packet by packet: what is matched, tolerated or done better.
//!
//! `docs/protocol/udt.md` lists all of them with their tests; those with scenes of their own are in the neighbouring
//! files.

use core::net::SocketAddr;
use core::time::Duration;

use sim::{Link, NodeId, Passing};
use udt::{CloseReason, Endpoint, EndpointStats, Event, SocketConfig, SocketId, SocketType};
use units::Instant;
use wire::udt::{Ack, Body, Control, Data, Handshake, Packet, Progress, Request, Sequence};

use crate::line::{MS, SECOND, Work, address, config};
use crate::pair::{
    CLIENT, Path, SERVER, connected, connected_by, control, endpoint, hear, hear_at, pair, run, said,
    said_at, stats,
};

fn client_address() -> SocketAddr {
    address(NodeId(10))
}

/// Returns the handshakes that an endpoint sends now.
fn handshakes(now: Instant, endpoint: &mut Endpoint) -> Vec<Handshake> {
    let said = said_at(now, endpoint, &mut Vec::new());
    said.iter().filter_map(|bytes| handshake(bytes)).collect()
}

fn handshake(bytes: &[u8]) -> Option<Handshake> {
    match Packet::read(bytes) {
        Ok(Packet::Control(Control { body: Body::Handshake(handshake), .. })) => Some(handshake),
        _ => None,
    }
}

/// Returns the data packets among datagrams.
fn data(said: &[Vec<u8>]) -> Vec<Data<'_>> {
    let read = said.iter().map(|bytes| Packet::read(bytes).expect("it was just written"));
    read.filter_map(|packet| if let Packet::Data(data) = packet { Some(data) } else { None }).collect()
}

/// Returns the bodies of the control packets among datagrams.
fn told(said: &[Vec<u8>]) -> Vec<Body<'_>> {
    let read = said.iter().map(|bytes| Packet::read(bytes).expect("it was just written"));
    read.filter_map(|packet| if let Packet::Control(it) = packet { Some(it.body) } else { None }).collect()
}

fn ack(number: u32, next: Sequence, window_packets: u32) -> Body<'static> {
    let progress = Progress { round_trip_us: 500, variation_us: 100, window_packets, rates: None };
    Body::Ack(Ack { number, next, progress: Some(progress), seen: None })
}

/// Returns a client and a listener's conclusion for it, which has not reached it.
fn almost_connected(server: &mut Endpoint) -> (Endpoint, SocketId, Vec<u8>) {
    let mut client = endpoint(1);
    server.listen(config(SocketType::Stream), 8).expect("the only listener");
    let id = client.connect(Instant::ORIGIN, address(SERVER), config(SocketType::Stream));
    for _ in 0..2 {
        let asked = said(&mut client, &mut Vec::new());
        hear(server, client_address(), &asked);
        let answered = said(server, &mut Vec::new());
        if handshake(&answered[0]).is_some_and(|it| it.request == Request::Conclude) {
            return (client, id, answered[0].clone());
        }
        hear(&mut client, address(SERVER), &answered);
    }
    panic!("two handshakes of a client make a connection");
}

#[test]
fn both_directions_begin_with_the_clients_number() {
    let mut server = endpoint(2);
    let (mut client, id, conclusion) = almost_connected(&mut server);
    let answer = handshake(&conclusion).expect("a conclusion");
    let mut other = Vec::new();
    let body = Body::Handshake(Handshake { first_sequence: Sequence::of(7), ..answer });
    Control { timestamp_us: 0, destination: id, body }.write(&mut other);
    hear(&mut client, address(SERVER), &[other]);
    assert_eq!(client.endpoint_stats().strange_handshakes, 1, "another number is not taken");
    assert!(client.stats(id).is_none());
    hear(&mut client, address(SERVER), &[conclusion]);
    hear(&mut server, client_address(), &said(&mut client, &mut Vec::new()));
    client.send(id, b"there").expect("it is connected");
    let socket = server.accept().expect("a client waits");
    server.send(socket, b"back").expect("it is connected");
    for end in [&mut client, &mut server] {
        let said = said(end, &mut Vec::new());
        assert_eq!(data(&said)[0].sequence, answer.first_sequence);
    }
}

/// libudt's answer to a repeated conclusion promises another window than the first one.
#[test]
fn an_answer_that_comes_again_says_the_same_and_another_window_in_it_changes_nothing() {
    let mut server = endpoint(2);
    let (mut client, id, conclusion) = almost_connected(&mut server);
    // The answer was lost: the client asks again.
    let later = Instant::ORIGIN + 260 * MS;
    let again = said_at(later, &mut client, &mut Vec::new());
    hear_at(later, &mut server, client_address(), &again);
    let repeated = said_at(later, &mut server, &mut Vec::new());
    assert_eq!(repeated, std::slice::from_ref(&conclusion));
    assert_eq!(server.socket_count(), 1);
    hear(&mut client, address(SERVER), std::slice::from_ref(&conclusion));
    let before = client.stats(id).expect("it is connected");
    let answer = handshake(&conclusion).expect("a conclusion");
    let wider = Handshake { window_packets: 25_600, ..answer };
    hear(&mut client, address(SERVER), &[control(id, Body::Handshake(wider))]);
    assert_eq!(client.stats(id), Some(before));
    assert_eq!(client.socket_count(), 1);
}

#[test]
fn a_client_whose_cookie_has_died_asks_for_a_new_one() {
    let mut client = endpoint(1);
    let id = client.connect(Instant::ORIGIN, address(SERVER), config(SocketType::Stream));
    let request = handshakes(Instant::ORIGIN, &mut client)[0];
    let challenge = Handshake { cookie: 77, ..request };
    hear(&mut client, address(SERVER), &[control(id, Body::Handshake(challenge))]);
    let mut asked = Vec::new();
    for quarter in 0..8_u32 {
        let now = Instant::ORIGIN + 250 * MS * quarter;
        asked.extend(handshakes(now, &mut client).iter().map(|it| (it.request, it.cookie)));
    }
    let concluding = [(Request::Conclude, 77); 3];
    assert_eq!(asked[..3], concluding);
    assert!(asked[3..].iter().all(|it| *it == (Request::Connect, 0)), "{asked:?}");
    let fresh = Handshake { cookie: 78, ..request };
    let now = Instant::ORIGIN + 2_100 * MS;
    hear_at(now, &mut client, address(SERVER), &[control(id, Body::Handshake(fresh))]);
    assert_eq!(handshakes(now, &mut client)[0].cookie, 78);
}

/// A libudt peer knows its own connection some milliseconds late: earlier packets to it are lost.
#[test]
fn what_is_lost_right_after_the_handshake_is_asked_for_by_a_probe() {
    let deaf =
        |passing: &Passing<'_>| passing.at < Instant::ORIGIN + 29 * MS && handshake(passing.bytes).is_none();
    let link = || Link::ideal().delay(5 * MS).lose_when("all but handshakes, at first", deaf);
    let kind = SocketType::Stream;
    let work = Work { send_bytes: 3_000, ..Work::default() };
    let path = Path { forward: link(), reverse: link() };
    let mut network = pair(1, path, (config(kind), work.clone()), (config(kind), work));
    network.run_until(Instant::ORIGIN + 400 * MS);
    for node in [CLIENT, SERVER] {
        let seen = network.node(node).only();
        assert_eq!((seen.received, seen.wrong_bytes), (3_000, 0));
        assert_eq!(stats(&network, node).timeouts, 0);
    }
    assert!(stats(&network, CLIENT).retransmitted_packets > 0, "the scene is about packets that are lost");
    // A connection is accepted once its client was received, so a server sends nothing to a client that is not ready.
    assert_eq!(stats(&network, SERVER).retransmitted_packets, 0);
}

/// libudt checks an idle connection every 100 ms, and acknowledges the end of a flight that late.
#[test]
fn a_late_acknowledgement_is_not_taken_for_a_long_way() {
    let (mut client, _, id, _, _) = connected();
    client.send(id, &[7; 1_456]).expect("it is connected");
    let sent = said(&mut client, &mut Vec::new());
    let next = Sequence::of(u64::from(data(&sent)[0].sequence.word()) + 1);
    let now = Instant::ORIGIN + 105 * MS;
    hear_at(now, &mut client, address(SERVER), &[control(id, ack(1, next, 100))]);
    let stats = client.stats(id).expect("it is connected");
    assert_eq!((stats.round_trip, stats.queued_bytes), (Duration::from_micros(500), 0));
}

#[test]
fn any_packet_shows_that_the_peer_is_alive() {
    for body in [Body::KeepAlive, Body::CongestionWarning, Body::Unknown { kind: 9 }] {
        let (mut client, _, id, _, _) = connected();
        // Without the four bytes behind the header, and with a timestamp that libudt never sends.
        let mut bytes = control(id, body);
        bytes.truncate(16);
        bytes[8..12].copy_from_slice(&[1, 2, 3, 4]);
        let mut events = Vec::new();
        for second in 1..=90_u32 {
            let now = Instant::ORIGIN + SECOND * second;
            said_at(now, &mut client, &mut events);
            hear_at(now, &mut client, address(SERVER), std::slice::from_ref(&bytes));
        }
        assert_eq!(events, [], "{body:?}");
        for tenth in 900..1_500_u32 {
            said_at(Instant::ORIGIN + 100 * MS * tenth, &mut client, &mut events);
        }
        assert_eq!(events, [Event::Closed(CloseReason::Silent)], "and its silence that it does not");
        assert_eq!(client.endpoint_stats(), EndpointStats::default());
    }
}

#[test]
fn every_full_acknowledgement_is_answered_and_no_light_one() {
    let (mut client, _, id, _, _) = connected();
    client.send(id, &[7; 5_000]).expect("it is connected");
    let sent = said(&mut client, &mut Vec::new());
    let first = data(&sent)[0].sequence;
    let next = Sequence::of(u64::from(first.word()) + 1);
    let light = Body::Ack(Ack { number: 0, next, progress: None, seen: None });
    // The same one repeated, and all at one time.
    let heard = [ack(1, next, 100), light, ack(2, next, 100), ack(2, next, 100)];
    hear(&mut client, address(SERVER), &heard.map(|body| control(id, body)));
    let said = said(&mut client, &mut Vec::new());
    let expected = [1, 2, 2].map(|number| Body::AckOfAck { number });
    assert_eq!(told(&said), expected);
}

/// A libudt peer makes readable what it acknowledges in full; on a shutdown it discards the other packets that
/// arrived.
#[test]
fn a_light_acknowledgement_is_no_reason_to_say_farewell() {
    let (mut client, _, id, _, _) = connected();
    client.send(id, &[7; 5_000]).expect("it is connected");
    let sent = said(&mut client, &mut Vec::new());
    let next = Sequence::of(u64::from(data(&sent)[0].sequence.word()) + 4);
    client.close(Instant::ORIGIN, id);
    hear(
        &mut client,
        address(SERVER),
        &[control(id, Body::Ack(Ack { number: 0, next, progress: None, seen: None }))],
    );
    let later = Instant::ORIGIN + 200 * MS;
    assert_eq!(said_at(later, &mut client, &mut Vec::new()), Vec::<Vec<u8>>::new());
    assert!(!client.is_flushed(id));
    hear_at(later, &mut client, address(SERVER), &[control(id, ack(1, next, 100))]);
    let mut events = Vec::new();
    let said = said_at(later, &mut client, &mut events);
    assert_eq!(told(&said), [Body::AckOfAck { number: 1 }, Body::Shutdown]);
    assert_eq!(events, [Event::Closed(CloseReason::Local)]);
}

/// libudt's senders continue only when an acknowledgement advances.
#[test]
fn a_window_that_opens_is_taken_at_once_also_by_an_acknowledgement_that_does_not_advance() {
    let (mut client, _, id, _, _) = connected();
    client.send(id, &[7; 100_000]).expect("it is connected");
    let first = u64::from(data(&said(&mut client, &mut Vec::new()))[0].sequence.word());
    // Two packets may probe for room, and the peer drops them silently.
    let sent = client.stats(id).expect("it is connected").sent_packets;
    let next = Sequence::of(first + sent);
    let now = Instant::ORIGIN + MS;
    hear_at(now, &mut client, address(SERVER), &[control(id, ack(1, next, 2))]);
    assert_eq!(data(&said_at(now, &mut client, &mut Vec::new())).len(), 2);
    let mut asked = 0;
    for tenth in 1..=30_u32 {
        let now = Instant::ORIGIN + 100 * MS * tenth;
        asked += data(&said_at(now, &mut client, &mut Vec::new())).len();
        hear_at(now, &mut client, address(SERVER), &[control(id, Body::KeepAlive)]);
    }
    let stats = client.stats(id).expect("it is connected");
    assert!((2..=30).contains(&asked), "{asked} packets ask for room in three seconds");
    assert_eq!((stats.timeouts, stats.lost_packets), (0, 0), "no room is no loss");
    let now = Instant::ORIGIN + 3_001 * MS;
    hear_at(now, &mut client, address(SERVER), &[control(id, ack(2, next, 20))]);
    let said = said_at(now, &mut client, &mut Vec::new());
    assert!(told(&said).contains(&Body::AckOfAck { number: 2 }));
    assert!(data(&said).len() > 2, "{} packets", data(&said).len());
}

#[test]
fn who_gives_up_a_peer_says_farewell_all_the_same() {
    let (mut client, _, _, _, _) = connected();
    let (mut events, mut last) = (Vec::new(), Vec::new());
    for tenth in 0..600_u32 {
        let now = Instant::ORIGIN + 100 * MS * tenth;
        let said = said_at(now, &mut client, &mut events);
        if !said.is_empty() {
            last = said;
        }
    }
    assert_eq!(events, [Event::Closed(CloseReason::Silent)]);
    assert_eq!(told(&last), [Body::Shutdown]);
}

/// UDT counts 28 bytes of headers for both IP versions; packets over IPv6 would become 20 larger than the path
/// carries.
#[test]
fn packets_over_ipv6_are_no_larger_than_was_said() {
    let (there, here): (SocketAddr, SocketAddr) =
        ("[fd00::2]:9000".parse().expect("one"), "[fd00::1]:9000".parse().expect("one"));
    for (ours, theirs, largest) in [(1_500, 1_500, 1_500), (9_000, 1_500, 1_500), (1_400, 1_500, 1_400)] {
        let (mut client, mut server) = (endpoint(1), endpoint(2));
        let of = |packet_bytes| SocketConfig { packet_bytes, ..config(SocketType::Stream) };
        server.listen(of(theirs), 8).expect("the only listener");
        let id = client.connect(Instant::ORIGIN, there, of(ours));
        let mut seen = Vec::new();
        for _ in 0..4 {
            let _ = client.send(id, &[7; 30_000]);
            let of_client = said(&mut client, &mut Vec::new());
            hear(&mut server, here, &of_client);
            let of_server = said(&mut server, &mut Vec::new());
            hear(&mut client, there, &of_server);
            seen.extend(of_client.iter().chain(&of_server).map(Vec::len));
        }
        assert_eq!(seen.into_iter().max(), Some(largest as usize - 48), "{ours} {theirs}");
    }
}

/// In a rendezvous libudt sends packets as large as its peer announced, regardless of its own size.
#[test]
fn who_meets_takes_packets_of_the_size_it_announced_and_sends_none_larger_than_either() {
    let of = |packet_bytes| SocketConfig { packet_bytes, ..config(SocketType::Stream) };
    let (mut one, mut other) = (endpoint(1), endpoint(2));
    let (at_one, at_other) = (address(NodeId(10)), address(NodeId(11)));
    let id = one.rendezvous(Instant::ORIGIN, at_other, of(1_500));
    let peer = other.rendezvous(Instant::ORIGIN, at_one, of(1_000));
    for quarter in 0..3_u32 {
        let now = Instant::ORIGIN + 251 * MS * quarter;
        let said_by_one = said_at(now, &mut one, &mut Vec::new());
        hear_at(now, &mut other, at_one, &said_by_one);
        let said_by_other = said_at(now, &mut other, &mut Vec::new());
        hear_at(now, &mut one, at_other, &said_by_other);
    }
    let now = Instant::ORIGIN + SECOND;
    one.send(id, &[7; 5_000]).expect("they have met");
    let sent = said_at(now, &mut one, &mut Vec::new());
    assert_eq!(sent.iter().map(Vec::len).max(), Some(1_000 - 28));
    hear_at(now, &mut other, at_one, &sent);
    assert_eq!(other.receive(peer, &mut [0; 9_000]), 5_000);
    other.send(peer, &[7; 5_000]).expect("they have met");
    let sent = said_at(now, &mut other, &mut Vec::new());
    assert_eq!(sent.iter().map(Vec::len).max(), Some(1_000 - 28));
    hear_at(now, &mut one, at_other, &sent);
    assert_eq!(one.receive(id, &mut [0; 9_000]), 5_000);
    // A packet as a libudt peer would send it.
    other.send(peer, &[9; 100]).expect("they have met");
    let small = said_at(now, &mut other, &mut Vec::new());
    let first =
        small.iter().find(|bytes| matches!(Packet::read(bytes), Ok(Packet::Data(_)))).expect("a packet");
    let mut large = first[..16].to_vec();
    large.resize(1_500 - 28, 8);
    hear_at(now, &mut one, at_other, &[large]);
    assert_eq!(one.receive(id, &mut [0; 9_000]), 1_456);
}

/// No packet sent here makes libudt end a connection: acknowledgements and reports of packets that were never sent.
#[test]
fn nothing_is_said_that_a_libudt_peer_would_break_on() {
    for (seed, kind) in [(3, SocketType::Stream), (4, SocketType::Datagram)] {
        let link = || Link::ideal().delay(5 * MS).loss(0.1).duplicate(0.1, 9 * MS).reorder(0.1, 20 * MS);
        let of = SocketConfig { first_sequence: Some(0x7fff_ff00), ..config(kind) };
        let client = Work {
            send_bytes: if kind == SocketType::Stream { 600_000 } else { 0 },
            messages: if kind == SocketType::Datagram {
                vec![(4_000, Some(200 * MS), false); 150]
            } else {
                Vec::new()
            },
            ..Work::default()
        };
        let path = Path { forward: link(), reverse: link() };
        let mut network = pair(seed, path, (of, client), (config(kind), Work::default()));
        run(&mut network, 30);
        for node in [CLIENT, SERVER] {
            assert_eq!(stats(&network, node).impossible_packets, 0, "{node:?} {kind:?}");
        }
        assert!(stats(&network, CLIENT).received_naks > 20);
    }
}

#[test]
fn payloads_fill_packets_as_libudts_do() {
    let (mut client, _, id, _, _) = connected_by(&config(SocketType::Stream));
    client.send(id, &[7; 3_000]).expect("it is connected");
    let said = said(&mut client, &mut Vec::new());
    let sizes: Vec<_> = data(&said).iter().map(|data| data.payload.len()).collect();
    assert_eq!(sizes, [1_456, 1_456, 88]);
    assert_eq!(said[0].len(), 1_472);
}
