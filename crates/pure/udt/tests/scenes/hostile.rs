//! Datagrams of strangers change nothing, are counted, and get no larger answers than they sent.

use core::net::SocketAddr;
use core::time::Duration;

use sim::NodeId;
use udt::{Event, Repair, SocketConfig, SocketId, SocketType, Terms};
use units::{Instant, Random};
use wire::udt::{
    Ack, Body, Control, Data, Handshake, Message, MessageNumber, Packet, Piece, Progress, Request, Sequence,
};

use crate::controls::built_in;
use crate::line::{MS, address, config};
use crate::pair::{SERVER, connected, connected_by, control, endpoint, hear, hear_at, said, said_at};

const STRANGER: NodeId = NodeId(66);
/// Marks the first word of a range in a loss list.
const RANGE: u32 = 1 << 31;

/// All packets that could end, stall or mislead a connection, from an address that is not its peer's.
#[test]
fn a_stranger_cannot_end_or_disturb_a_connection_of_others() {
    let (mut client, mut server, id, socket, from) = connected();
    assert_eq!(client.send(id, &[5; 5_000]), Ok(5_000));
    let packets = said(&mut client, &mut Vec::new());
    let before = (client.stats(id), server.stats(socket));
    let first = Sequence::from_word(u32::from_be_bytes(packets[0][..4].try_into().unwrap()));
    let next = Sequence::of(u64::from(first.word()) + 4);
    let progress = Progress { round_trip_us: 9, variation_us: 9, window_packets: 2, rates: None };
    let handshake = handshake(Request::Conclude, 5);
    let forged = |to| {
        let mut data = [9; 500].to_vec();
        let message = Message { piece: Piece::Only, is_ordered: false, number: MessageNumber::FIRST };
        Data::write_header(data.first_chunk_mut().expect("long enough"), first, message, 0, to);
        let bodies = [
            Body::Shutdown,
            Body::KeepAlive,
            Body::PeerError { code: 4_000 },
            Body::Ack(Ack { number: 1, next, progress: Some(progress), seen: None }),
            Body::Ack(Ack { number: 0, next, progress: None, seen: None }),
            Body::NakWords(&[first.word() | RANGE, first.word() + 3]),
            Body::AckOfAck { number: 1 },
            Body::DropMessage { message: MessageNumber::FIRST, first, last: next },
            Body::CustomWords { kind: 1, words: &[1] },
            Body::Handshake(handshake),
        ];
        let controls = bodies.into_iter().map(|body| control(to, body));
        controls.chain([data]).collect::<Vec<_>>()
    };
    for (end, to) in [(&mut client, id), (&mut server, socket)] {
        let forged = forged(to);
        hear(end, address(STRANGER), &forged);
        assert_eq!(end.endpoint_stats().foreign, forged.len() as u64);
        let mut events = Vec::new();
        assert_eq!(said(end, &mut events), Vec::<Vec<u8>>::new());
        assert_eq!(events.iter().filter(|event| matches!(event, Event::Closed(_))).count(), 0);
    }
    assert_eq!((client.stats(id), server.stats(socket)), before);
    let mut out = [0; 9_000];
    hear(&mut server, from, &packets);
    assert_eq!(server.receive(socket, &mut out), 5_000);
    assert!(out[..5_000].iter().all(|byte| *byte == 5));
}

/// A client is refused, and a rendezvous met, only by the intended peer.
#[test]
fn a_stranger_answers_nobody_who_looks_for_another() {
    for is_rendezvous in [false, true] {
        let (mut seeker, to) = (endpoint(1), address(SERVER));
        let socket = config(SocketType::Stream);
        let id = if is_rendezvous {
            seeker.rendezvous(Instant::ORIGIN, to, socket)
        } else {
            seeker.connect(Instant::ORIGIN, to, socket)
        };
        let mut events = Vec::new();
        let before = said(&mut seeker, &mut events);
        assert_eq!(before.len(), 1);
        for request in [Request::Connect, Request::Conclude, Request::Rendezvous, Request::Reject] {
            for to in [SocketId(0), id] {
                let bytes = control(to, Body::Handshake(handshake(request, 5)));
                hear(&mut seeker, address(STRANGER), &[bytes]);
            }
        }
        assert_eq!(said(&mut seeker, &mut events), Vec::<Vec<u8>>::new());
        assert_eq!((events, seeker.stats(id)), (Vec::new(), None));
        let stats = seeker.endpoint_stats();
        assert_eq!(stats.foreign + stats.unknown_socket, 8);
    }
}

fn handshake(request: Request, first: u64) -> Handshake {
    Handshake {
        version: 4,
        socket_type: Some(SocketType::Stream),
        first_sequence: Sequence::of(first),
        packet_bytes: 1_500,
        window_packets: 8_192,
        request,
        socket: SocketId(77),
        cookie: 0,
        address: [0; 16],
    }
}

#[test]
fn impossible_acknowledgements_and_reports_break_nothing() {
    let (mut client, mut server, id, _, _) = connected();
    assert_eq!(client.send(id, &[7; 5_000]), Ok(5_000));
    let sent = said(&mut client, &mut Vec::new());
    let first = Sequence::from_word(u32::from_be_bytes(sent[0][..4].try_into().unwrap()));
    let far = Sequence::of(u64::from(first.word()) + 100_000);
    let progress = Progress { round_trip_us: 9, variation_us: 9, window_packets: 9, rates: None };
    let forged = [
        control(id, Body::Ack(Ack { number: 1, next: far, progress: Some(progress), seen: None })),
        control(id, Body::Ack(Ack { number: 0, next: far, progress: None, seen: Some(far) })),
        control(id, Body::NakWords(&[far.word()])),
        // Backwards, and far beyond.
        control(id, Body::NakWords(&[(first.word() + 2) | RANGE, first.word()])),
        control(id, Body::NakWords(&[first.word() | RANGE, far.word()])),
    ];
    hear(&mut client, address(SERVER), &forged);
    assert_eq!(client.stats(id).unwrap().impossible_packets, 5);
    assert_eq!(client.stats(id).unwrap().lost_packets, 0);
    hear(&mut server, address(NodeId(10)), &sent);
    let socket = SocketId(u32::from_be_bytes(sent[0][12..16].try_into().unwrap()));
    assert_eq!(server.receive(socket, &mut [0; 9_000]), 5_000);
}

#[test]
fn strangers_get_no_more_than_they_gave_and_nothing_is_kept_of_them() {
    let mut server = endpoint(2);
    server.listen(config(SocketType::Stream), 8).unwrap();
    for (kind, answers) in [(Request::Connect, 1), (Request::Conclude, 0), (Request::Reject, 0)] {
        let bytes = control(SocketId(0), Body::Handshake(handshake(kind, 5)));
        hear(&mut server, address(STRANGER), core::slice::from_ref(&bytes));
        let answered = said(&mut server, &mut Vec::new());
        assert_eq!(answered.len(), answers, "{kind:?}");
        assert!(answered.iter().map(Vec::len).sum::<usize>() <= bytes.len());
    }
    assert_eq!(server.socket_count(), 0);
}

/// Any datagram of a stranger, forged or copied with flipped bits, to any socket of a port: it gets no more bytes
/// back than it sent, and no other address gets any.
#[test]
fn nobody_is_answered_with_more_than_was_sent_before_a_cookie_came_back() {
    let mut random = Random::new(13);
    let (mut client, mut server, id, socket, _) = connected();
    client.rendezvous(Instant::ORIGIN, address(NodeId(5)), config(SocketType::Stream));
    let gone = server.connect(Instant::ORIGIN, address(NodeId(6)), config(SocketType::Stream));
    client.send(id, &[1; 5_000]).expect("it is connected");
    let mut copied = said(&mut client, &mut Vec::new());
    said(&mut server, &mut Vec::new());
    for request in
        [Request::Connect, Request::Conclude, Request::Rendezvous, Request::RendezvousDone, Request::Reject]
    {
        copied.push(control(SocketId(0), Body::Handshake(handshake(request, 9))));
    }
    for body in [Body::KeepAlive, Body::Shutdown, Body::AckOfAck { number: 1 }, Body::Unknown { kind: 9 }] {
        copied.push(control(socket, body));
    }
    let mut answers = 0;
    for _ in 0..20_000 {
        let mut bytes = copied[usize::try_from(random.below(copied.len() as u64)).expect("small")].clone();
        for _ in 0..random.below(3) {
            let bit = usize::try_from(random.below(bytes.len().min(64) as u64 * 8)).expect("small");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let to = [SocketId(0), id, socket, gone][usize::try_from(random.below(4)).expect("small")];
        if random.below(2) == 0 && bytes.len() >= 16 {
            bytes[12..16].copy_from_slice(&to.0.to_be_bytes());
        }
        bytes.truncate(usize::try_from(random.below(4) * 64).expect("small").max(20));
        for end in [&mut client, &mut server] {
            hear(end, address(STRANGER), std::slice::from_ref(&bytes));
            let mut sent = 0;
            while let udt::Output::Transmit(transmit) = end.poll(Instant::ORIGIN) {
                assert_eq!(transmit.to, address(STRANGER), "nobody else asked");
                sent += transmit.bytes.len();
                answers += 1;
            }
            assert!(sent <= bytes.len(), "{sent} bytes for {}", bytes.len());
        }
    }
    assert!(answers > 100, "some are answered: {answers}");
    assert!(client.socket_count() <= 2 && server.socket_count() <= 2);
}

/// A flood of clients that ask and never conclude, and one of clients that conclude and are never accepted.
#[test]
fn what_is_kept_of_strangers_is_bounded_however_many_there_are() {
    let mut server = endpoint(2);
    server.listen(config(SocketType::Stream), 8).expect("the only listener");
    let from =
        |client: u16| SocketAddr::from(([10, 1, client.to_be_bytes()[0], client.to_be_bytes()[1]], 9_000));
    let asked = control(SocketId(0), Body::Handshake(handshake(Request::Connect, 9)));
    // The application does not accept: most get no answer.
    for client in 0..5_000 {
        hear(&mut server, from(client), std::slice::from_ref(&asked));
    }
    assert_eq!(server.endpoint_stats().unanswered, 5_000 - 1_024);
    assert_eq!((said(&mut server, &mut Vec::new()).len(), server.socket_count()), (1_024, 0));
    // Each with its own cookie.
    for client in 0..1_000 {
        hear(&mut server, from(client), std::slice::from_ref(&asked));
        let challenge = said(&mut server, &mut Vec::new()).pop().expect("a challenge");
        let Ok(Packet::Control(Control { body: Body::Handshake(challenge), .. })) = Packet::read(&challenge)
        else {
            panic!("no challenge")
        };
        let concluding = Handshake { request: Request::Conclude, ..challenge };
        hear(&mut server, from(client), &[control(SocketId(0), Body::Handshake(concluding))]);
        assert_eq!(said(&mut server, &mut Vec::new()).len(), 1, "accepted or refused");
    }
    assert_eq!((server.socket_count(), server.endpoint_stats().refused), (8, 992));
    // The half-open ones stay silent, and are given up: their slots are free again at the next check.
    let later = Instant::ORIGIN + Duration::from_secs(60);
    for second in 0..=60 {
        said_at(Instant::ORIGIN + Duration::from_secs(second), &mut server, &mut Vec::new());
    }
    while let Some(socket) = server.accept() {
        server.close(later, socket);
    }
    said_at(later, &mut server, &mut Vec::new());
    assert_eq!(server.socket_count(), 0);
}

/// A conclusion that was delayed, or is replayed, within the lifetime of its cookie.
#[test]
fn a_copy_of_an_old_handshake_makes_no_second_connection() {
    let (mut client, mut server) = (endpoint(1), endpoint(2));
    server.listen(config(SocketType::Stream), 8).expect("the only listener");
    let from = address(NodeId(10));
    let id = client.connect(Instant::ORIGIN, address(SERVER), config(SocketType::Stream));
    let mut conclusion = Vec::new();
    for _ in 0..2 {
        conclusion = said(&mut client, &mut Vec::new());
        hear(&mut server, from, &conclusion);
        hear(&mut client, address(SERVER), &said(&mut server, &mut Vec::new()));
    }
    hear(&mut server, from, &said(&mut client, &mut Vec::new()));
    let socket = server.accept().expect("a client waits");
    server.close(Instant::ORIGIN, socket);
    client.close(Instant::ORIGIN, id);
    said(&mut server, &mut Vec::new());
    assert_eq!(server.socket_count(), 0);
    let soon = Instant::ORIGIN + Duration::from_secs(50);
    hear_at(soon, &mut server, from, &conclusion);
    assert_eq!(said_at(soon, &mut server, &mut Vec::new()), Vec::<Vec<u8>>::new());
    assert_eq!((server.socket_count(), server.accept()), (0, None));
}

/// Whole machines fed with arbitrary input: random bytes, and real packets with flipped bits, at any time.
#[test]
fn nothing_that_arrives_breaks_an_endpoint() {
    let mut random = Random::new(11);
    for _ in 0..200 {
        let (mut client, mut server, id, socket, from) = connected();
        client.send(id, &[1; 20_000]).unwrap();
        let mut packets = said(&mut client, &mut Vec::new());
        let progress = Progress { round_trip_us: 1, variation_us: 1, window_packets: 0, rates: Some((0, 0)) };
        packets.push(control(
            socket,
            Body::Ack(Ack { number: 3, next: Sequence::of(9), progress: Some(progress), seen: None }),
        ));
        packets.push(control(socket, Body::NakWords(&[3, 1 << 31, 9])));
        packets.push(control(socket, Body::CustomWords { kind: 3, words: &[1, 2, 3] }));
        let message = MessageNumber::FIRST;
        let (first, last) = (Sequence::of(0), Sequence::of(0x7fff_ffff));
        packets.push(control(socket, Body::DropMessage { message, first, last }));
        for _ in 0..40 {
            let at = usize::try_from(random.below(packets.len() as u64)).unwrap();
            let mut bytes = packets[at].clone();
            for _ in 0..random.below(4) {
                let bit = usize::try_from(random.below(bytes.len().min(64) as u64 * 8)).unwrap();
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            bytes.truncate(usize::try_from(random.below(bytes.len() as u64 + 1)).unwrap().max(12));
            // The destination stays valid, or hardly any packet would be processed further.
            if bytes.len() >= 16 {
                bytes[12..16].copy_from_slice(&socket.0.to_be_bytes());
            }
            hear(&mut server, from, &[bytes]);
            said(&mut server, &mut Vec::new());
        }
        server.receive(socket, &mut [0; 100_000]);
    }
}

/// Both ends of connections, with a node between them that flips bits, repeats, delays, drops, and lets time pass.
#[test]
fn whatever_happens_between_them_breaks_neither_end() {
    let mut random = Random::new(12);
    for scene in 0..300 {
        let kind = if scene % 2 == 0 { SocketType::Stream } else { SocketType::Datagram };
        let repair = if scene % 4 < 2 { Repair::Patient } else { Repair::Timely };
        let (client, server, id, socket, from) = connected_by(&SocketConfig { repair, ..config(kind) });
        let mut ends = [(client, id), (server, socket)];
        let addresses = [from, address(SERVER)];
        let mut in_transit: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut now = Instant::ORIGIN;
        for _ in 0..60 {
            now += Duration::from_micros(1 << random.below(25));
            for (end, (endpoint, socket)) in ends.iter_mut().enumerate() {
                let bytes = vec![9; usize::try_from(random.below(9_000)).expect("it is small")];
                // Refused calls do not matter here: ends may be closed already.
                let lifetime = (random.below(2) == 0).then(|| now + Duration::from_millis(random.below(500)));
                let terms =
                    Terms { is_ordered: random.below(2) == 0, deadline: lifetime, ..Terms::default() };
                let _ = endpoint.send(*socket, &bytes);
                let _ = endpoint.send_message(now, *socket, &bytes, terms);
                let said = said_at(now, endpoint, &mut Vec::new());
                in_transit.extend(said.into_iter().map(|bytes| (1 - end, bytes)));
                endpoint.receive(*socket, &mut [0; 5_000]);
                endpoint.receive_message(*socket, &mut Vec::new());
            }
            for _ in 0..random.below(30) {
                if in_transit.is_empty() {
                    break;
                }
                let at = usize::try_from(random.below(in_transit.len() as u64)).expect("it is an index");
                let (to, mut bytes) = in_transit[at].clone();
                if random.below(4) > 0 {
                    in_transit.swap_remove(at);
                }
                // The destination stays valid, or hardly any packet would be processed further; so does a shutdown's
                // type.
                let places = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 28, 29, 30, 31];
                let place = places[usize::try_from(random.below(20)).expect("it is small")];
                if let Some(byte) = bytes.get_mut(place).filter(|_| random.below(2) == 0) {
                    *byte ^= 1 << random.below(8);
                }
                hear_at(now, &mut ends[to].0, addresses[1 - to], &[bytes]);
            }
        }
        for (endpoint, socket) in &mut ends {
            let stats = endpoint.stats(*socket);
            assert!(stats.is_none_or(|stats| stats.received_packets + stats.sent_packets > 0));
            endpoint.close(now, *socket);
        }
        // Everything ends in any case: the silent peer after its timeout, the closed socket after its linger time.
        for end in [now + Duration::from_secs(200), now + Duration::from_secs(400)] {
            for (endpoint, _) in &mut ends {
                said_at(end, endpoint, &mut Vec::new());
            }
        }
        assert_eq!(ends.map(|(endpoint, _)| endpoint.socket_count()), [0, 0], "scene {scene}");
    }
}

/// libudt gives up a message by naming one packet too many: the first of the next message.
#[test]
fn a_message_that_is_given_up_takes_nothing_of_the_next() {
    let mut messages = config(SocketType::Datagram);
    messages.first_sequence = Some(100);
    // The first message had the packets 100 and 101, neither of which arrived; the second is packet 102.
    let body = Body::DropMessage {
        message: MessageNumber::FIRST,
        first: Sequence::of(100),
        last: Sequence::of(102),
    };
    for comes_first in [true, false] {
        let (_, mut server, _, socket, from) = connected_by(&messages);
        let mut second = [0; 16].to_vec();
        let message = Message { piece: Piece::Only, is_ordered: true, number: MessageNumber::FIRST.next() };
        let header = second.first_chunk_mut().expect("sixteen bytes");
        Data::write_header(header, Sequence::of(102), message, 0, socket);
        second.extend_from_slice(b"the second");
        let dropped = control(socket, body);
        let packets = if comes_first { [second, dropped] } else { [dropped, second] };
        hear(&mut server, from, &packets);
        let mut message = Vec::new();
        assert!(server.receive_message(socket, &mut message).is_some(), "{comes_first}");
        assert_eq!(message, b"the second");
    }
}

/// A peer may send anything in the name of its control: valid kinds of messages with invalid contents, and other
/// kinds.
#[test]
fn whatever_a_peers_control_says_breaks_no_end() {
    let options =
        |name| if ["fixed", "rbudp", "fobs", "tsunami", "gtp"].contains(&name) { "rate=100m" } else { "" };
    for (seed, choice) in (1..).zip(congestion::BUILT_IN) {
        let mut random = Random::new(seed);
        let config = built_in(choice.name, options(choice.name));
        let (mut client, mut server, id, socket, from) = connected_by(&config);
        client.send(id, &[1; 40_000]).expect("it is connected");
        for turn in 0..400_u32 {
            let now = Instant::ORIGIN + MS * 7 * turn;
            let count = random.below(365);
            let words: Vec<u32> =
                (0..count)
                    .map(|_| {
                        if random.chance(0.5) {
                            random.below(300) as u32
                        } else {
                            random.below(1 << 32) as u32
                        }
                    })
                    .collect();
            let kind = [0x5244, 0x5242, 0x5341, 0x4754, 0x5453, 0x7777][random.below(6) as usize];
            let body = Body::CustomWords { kind, words: &words };
            let to_client = random.chance(0.5);
            let (end, target, source) =
                if to_client { (&mut client, id, address(SERVER)) } else { (&mut server, socket, from) };
            hear_at(now, end, source, &[control(target, body)]);
            // Datagrams of both ends get through, except for one in ten.
            for bytes in said_at(now, &mut client, &mut Vec::new()) {
                if random.chance(0.9) {
                    hear_at(now, &mut server, from, &[bytes]);
                }
            }
            for bytes in said_at(now, &mut server, &mut Vec::new()) {
                if random.chance(0.9) {
                    hear_at(now, &mut client, address(SERVER), &[bytes]);
                }
            }
        }
        let stats = client.stats(id).unwrap_or_else(|| panic!("{} has ended", choice.name));
        assert!(stats.received_acks > 0, "{}: {stats:?}", choice.name);
    }
}
