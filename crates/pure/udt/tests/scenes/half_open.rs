//! Clients that send nothing after their handshake, or repeat it: each holds a bounded number of slots for a bounded
//! time.

use core::net::SocketAddr;
use core::time::Duration;

use udt::{CloseReason, Endpoint, Event, SocketId, SocketType};
use units::Instant;
use wire::udt::{Body, Control, Handshake, Packet, Request, Sequence};

use crate::line::{SECOND, config};
use crate::pair::{control, endpoint, hear_at, said_at};

const START: Instant = Instant::ORIGIN;
/// Time for which a listener keeps a connection without any packet after the handshake.
const HALF_OPEN: Duration = Duration::from_secs(5);

fn neighbour(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

/// A server with slots for this many clients that are not accepted yet.
fn server(backlog: usize) -> Endpoint {
    let mut server = endpoint(2);
    server.listen(config(SocketType::Stream), backlog).expect("the only listener");
    server
}

/// Returns the only handshake among the datagrams to a client.
fn answer(said: &[Vec<u8>]) -> Handshake {
    let handshakes: Vec<Handshake> = said
        .iter()
        .filter_map(|bytes| match Packet::read(bytes) {
            Ok(Packet::Control(Control { body: Body::Handshake(handshake), .. })) => Some(handshake),
            _ => None,
        })
        .collect();
    assert_eq!(handshakes.len(), 1, "{handshakes:?}");
    handshakes[0]
}

/// Returns a client's handshake with its cookie.
fn conclusion(now: Instant, server: &mut Endpoint, from: SocketAddr, socket: u32, first: u64) -> Handshake {
    let asking = Handshake {
        version: 4,
        socket_type: Some(SocketType::Stream),
        first_sequence: Sequence::of(first),
        packet_bytes: 1_500,
        window_packets: 8_192,
        request: Request::Connect,
        socket: SocketId(socket),
        cookie: 0,
        address: [0; 16],
    };
    hear_at(now, server, from, &[control(SocketId(0), Body::Handshake(asking))]);
    let challenge = answer(&said_at(now, server, &mut Vec::new()));
    Handshake { request: Request::Conclude, ..challenge }
}

/// Shakes hands as a client does; returns the server's socket unless it refuses.
fn shake(now: Instant, server: &mut Endpoint, from: SocketAddr, socket: u32, first: u64) -> Option<SocketId> {
    let concluding = conclusion(now, server, from, socket, first);
    hear_at(now, server, from, &[control(SocketId(0), Body::Handshake(concluding))]);
    // A slot may have been freed: another client then receives a shutdown.
    let answer = answer(&said_at(now, server, &mut Vec::new()));
    (answer.request == Request::Conclude).then_some(answer.socket)
}

/// Sends a packet of the client.
fn speak(now: Instant, server: &mut Endpoint, from: SocketAddr, to: SocketId) {
    hear_at(now, server, from, &[control(to, Body::KeepAlive)]);
}

#[test]
fn a_client_that_says_nothing_after_its_handshake_holds_a_place_for_five_seconds() {
    let mut server = server(1);
    let from = neighbour(1, 9_000);
    shake(START, &mut server, from, 77, 9).expect("there is a place");
    let mut events = Vec::new();
    let mut now = START;
    while now + Duration::from_millis(10) < START + HALF_OPEN {
        now += Duration::from_millis(10);
        said_at(now, &mut server, &mut events);
    }
    assert_eq!((server.socket_count(), server.accept()), (1, None), "nobody to be accepted");
    assert_eq!(shake(now, &mut server, neighbour(2, 9_000), 78, 9), None, "its place is taken");
    let farewell = said_at(START + HALF_OPEN, &mut server, &mut events);
    assert_eq!(farewell, [control(SocketId(77), Body::Shutdown)]);
    assert_eq!(events, [Event::Closed(CloseReason::Silent)]);
    assert_eq!((server.socket_count(), server.endpoint_stats().half_open), (0, 1));
    shake(START + HALF_OPEN, &mut server, neighbour(2, 9_000), 78, 9).expect("its place is free");
}

#[test]
fn a_client_is_accepted_when_it_says_its_first_word_however_late_in_time() {
    let from = neighbour(1, 9_000);
    for (word, asks_again) in
        [(HALF_OPEN - Duration::from_millis(1), None), (HALF_OPEN + SECOND, Some(SECOND * 3))]
    {
        let mut server = server(1);
        let concluding = conclusion(START, &mut server, from, 77, 9);
        let again = control(SocketId(0), Body::Handshake(concluding));
        hear_at(START, &mut server, from, std::slice::from_ref(&again));
        let socket = answer(&said_at(START, &mut server, &mut Vec::new())).socket;
        // A client whose answers were lost repeats its handshake, and its time restarts.
        if let Some(after) = asks_again {
            said_at(START + after, &mut server, &mut Vec::new());
            hear_at(START + after, &mut server, from, &[again]);
            assert_eq!(answer(&said_at(START + after, &mut server, &mut Vec::new())).socket, socket);
        }
        let mut events = Vec::new();
        said_at(START + word - Duration::from_millis(1), &mut server, &mut events);
        assert_eq!((&events[..], server.accept()), (&[][..], None));
        speak(START + word, &mut server, from, socket);
        said_at(START + word, &mut server, &mut events);
        assert_eq!((&events[..], server.accept()), (&[Event::Accepted { socket }][..], Some(socket)));
        assert_eq!(server.endpoint_stats().half_open, 0);
    }
}

#[test]
fn a_neighbour_with_many_half_open_connections_gives_way_to_one_with_fewer() {
    let mut server = server(4);
    let first: Vec<SocketId> = (1..=4)
        .map(|port| shake(START, &mut server, neighbour(1, port), u32::from(port), 9).expect("a place"))
        .collect();
    assert_eq!(shake(START, &mut server, neighbour(1, 5), 5, 9), None, "it has all of them already");
    for (host, displaced) in [(2, 1), (3, 2)] {
        let from = neighbour(host, 1);
        let socket = shake(START, &mut server, from, 50, 9).expect("a place is made");
        assert_eq!((server.endpoint_stats().displaced, server.socket_count()), (displaced, 4));
        speak(START, &mut server, from, socket);
    }
    // Two slots each for the first and the others together; a client with one has no claim to another's.
    assert_eq!(
        shake(START, &mut server, neighbour(2, 2), 51, 9),
        None,
        "two of one against two of the other"
    );
    shake(START, &mut server, neighbour(4, 1), 52, 9).expect("none against two");
    assert_eq!(shake(START, &mut server, neighbour(5, 1), 53, 9), None, "none against one");
    let stats = server.endpoint_stats();
    assert_eq!((stats.displaced, stats.refused, stats.half_open), (3, 3, 0));
    // Its oldest stays, and is served as soon as it sends.
    speak(START, &mut server, neighbour(1, 1), first[0]);
    assert!(core::iter::from_fn(|| server.accept()).any(|socket| socket == first[0]));
    said_at(START + HALF_OPEN, &mut server, &mut Vec::new());
    assert_eq!((server.socket_count(), server.endpoint_stats().half_open), (3, 1));
}

#[test]
fn a_peer_that_begins_anew_ends_its_old_connection_and_the_owner_learns_it() {
    let mut server = server(4);
    let from = neighbour(1, 9_000);
    let old_conclusion = conclusion(START, &mut server, from, 77, 1_000);
    let old = shake(START, &mut server, from, 77, 1_000).expect("a place");
    speak(START, &mut server, from, old);
    assert_eq!(server.accept(), Some(old));
    assert_eq!(server.send(old, &[1; 5_000]), Ok(5_000));
    said_at(START, &mut server, &mut Vec::new());
    let mut events = Vec::new();
    let concluding = conclusion(START + SECOND, &mut server, from, 77, 5_000);
    hear_at(START + SECOND, &mut server, from, &[control(SocketId(0), Body::Handshake(concluding))]);
    let said = said_at(START + SECOND, &mut server, &mut events);
    let new = answer(&said).socket;
    assert_eq!(said.len(), 1, "no farewell: it would end the new connection");
    assert_eq!(events, [Event::Closed(CloseReason::Replaced)]);
    assert_eq!((server.ended(old), server.ended(new)), (Some(CloseReason::Replaced), None));
    speak(START + SECOND, &mut server, from, new);
    assert_eq!(server.accept(), Some(new));
    // A copy of the old handshake that was delayed in the network, and a packet of the old connection, change
    // nothing.
    hear_at(START + SECOND * 2, &mut server, from, &[control(SocketId(0), Body::Handshake(old_conclusion))]);
    speak(START + SECOND * 2, &mut server, from, old);
    server.close(START + SECOND * 2, old);
    let said = said_at(START + SECOND * 2, &mut server, &mut Vec::new());
    assert!(
        said.iter().all(|bytes| !matches!(
            Packet::read(bytes),
            Ok(Packet::Control(Control { body: Body::Handshake(_) | Body::Shutdown, .. }))
        )),
        "{said:?}"
    );
    speak(START + SECOND * 2, &mut server, from, old);
    assert_eq!(said_at(START + SECOND * 2, &mut server, &mut Vec::new()), Vec::<Vec<u8>>::new());
    assert!(!server.contains(old) && server.contains(new));
    assert_eq!((server.ended(new), server.endpoint_stats().replaced), (None, 1));
}

#[test]
fn a_client_that_begins_anew_again_and_again_holds_one_place() {
    let mut server = server(2);
    let from = neighbour(1, 9_000);
    for first in 1..=100 {
        shake(START, &mut server, from, 77, first * 1_000).expect("its own place");
        said_at(START, &mut server, &mut Vec::new());
        assert_eq!(server.socket_count(), 1);
    }
    shake(START, &mut server, neighbour(1, 9_001), 78, 9).expect("the other place");
    let stats = server.endpoint_stats();
    assert_eq!((stats.replaced, stats.displaced, stats.refused), (99, 0, 0));
    said_at(START + HALF_OPEN, &mut server, &mut Vec::new());
    assert_eq!((server.socket_count(), server.endpoint_stats().half_open), (0, 2));
}

/// Data that arrived before the connection was accepted are not lost by its end.
#[test]
fn what_a_client_sent_before_it_was_accepted_can_be_read_after_its_end() {
    let mut server = server(2);
    let (mut client, from) = (endpoint(1), neighbour(1, 9_000));
    let id = client.connect(START, neighbour(9, 9), config(SocketType::Stream));
    let mut now = START;
    for turn in 0..200 {
        if turn == 5 {
            assert_eq!(client.send(id, &[3; 2_000]), Ok(2_000));
            client.close(now, id);
        }
        let said = said_at(now, &mut client, &mut Vec::new());
        hear_at(now, &mut server, from, &said);
        let said = said_at(now, &mut server, &mut Vec::new());
        hear_at(now, &mut client, neighbour(9, 9), &said);
        now += Duration::from_millis(5);
    }
    assert_eq!(client.socket_count(), 0, "it has gone, and believes that everything arrived");
    let socket = server.accept().expect("it waits");
    assert_eq!(
        (server.ended(socket), server.receive(socket, &mut [0; 9_000])),
        (Some(CloseReason::ByPeer), 2_000)
    );
    server.close(now, socket);
    said_at(now, &mut server, &mut Vec::new());
    assert_eq!(server.socket_count(), 0);
}
