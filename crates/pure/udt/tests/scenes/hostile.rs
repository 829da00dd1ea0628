//! What strangers send changes nothing, is counted, and gets no more out than they put in.

use core::time::Duration;

use sim::NodeId;
use udt::{SocketId, SocketType};
use units::{Instant, Random};
use wire::udt::{Ack, Body, Data, Handshake, Message, MessageNumber, Piece, Progress, Request, Sequence};

use crate::line::{address, config};
use crate::pair::{SERVER, connected, connected_by, control, endpoint, hear, hear_at, said, said_at};

const STRANGER: NodeId = NodeId(66);
/// Marks the first word of a range in a list of losses.
const RANGE: u32 = 1 << 31;

#[test]
fn a_stranger_cannot_end_or_disturb_a_connection_of_others() {
    let (mut client, mut server, id, socket, from) = connected();
    for body in [Body::Shutdown, Body::KeepAlive, Body::PeerError { code: 4_000 }] {
        hear(&mut server, address(STRANGER), &[control(socket, body)]);
    }
    assert_eq!(server.endpoint_stats().foreign, 3);
    assert_eq!(said(&mut server, &mut Vec::new()), Vec::<Vec<u8>>::new());
    assert_eq!(client.send(id, b"still here"), Ok(10));
    let mut out = [0; 20];
    let packets = said(&mut client, &mut Vec::new());
    hear(&mut server, from, &packets);
    assert_eq!(server.receive(socket, &mut out), 10);
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
    let request = Handshake {
        version: 4,
        socket_type: Some(SocketType::Stream),
        first_sequence: Sequence::of(5),
        packet_bytes: 1_500,
        window_packets: 8_192,
        request: Request::Connect,
        socket: SocketId(77),
        cookie: 0,
        address: [0; 16],
    };
    for (kind, answers) in [(Request::Connect, 1), (Request::Conclude, 0), (Request::Reject, 0)] {
        let bytes = control(SocketId(0), Body::Handshake(Handshake { request: kind, ..request }));
        hear(&mut server, address(STRANGER), core::slice::from_ref(&bytes));
        let answered = said(&mut server, &mut Vec::new());
        assert_eq!(answered.len(), answers, "{kind:?}");
        assert!(answered.iter().map(Vec::len).sum::<usize>() <= bytes.len());
    }
    assert_eq!(server.socket_count(), 0);
}

/// A conclusion that was held back, or is replayed, within the time of its cookie.
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

/// Whole machines fed with anything: bytes by chance, and real packets with bits turned, at any time.
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
            // The destination stays right, or hardly anything would get further.
            if bytes.len() >= 16 {
                bytes[12..16].copy_from_slice(&socket.0.to_be_bytes());
            }
            hear(&mut server, from, &[bytes]);
            said(&mut server, &mut Vec::new());
        }
        server.receive(socket, &mut [0; 100_000]);
    }
}

/// Both ends of connections, between them somebody who turns bits, repeats, holds back, drops, and lets time pass.
#[test]
fn whatever_happens_between_them_breaks_neither_end() {
    let mut random = Random::new(12);
    for scene in 0..300 {
        let kind = if scene % 2 == 0 { SocketType::Stream } else { SocketType::Datagram };
        let (client, server, id, socket, from) = connected_by(&config(kind));
        let mut ends = [(client, id), (server, socket)];
        let addresses = [from, address(SERVER)];
        let mut way: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut now = Instant::ORIGIN;
        for _ in 0..60 {
            now += Duration::from_micros(1 << random.below(25));
            for (end, (endpoint, socket)) in ends.iter_mut().enumerate() {
                let bytes = vec![9; usize::try_from(random.below(9_000)).expect("it is small")];
                // What is not queued is no matter here: ends may be closed already.
                let lifetime = (random.below(2) == 0).then(|| now + Duration::from_millis(random.below(500)));
                let _ = endpoint.send(*socket, &bytes);
                let _ = endpoint.send_message(*socket, &bytes, random.below(2) == 0, lifetime);
                let said = said_at(now, endpoint, &mut Vec::new());
                way.extend(said.into_iter().map(|bytes| (1 - end, bytes)));
                endpoint.receive(*socket, &mut [0; 5_000]);
                endpoint.receive_message(*socket, &mut Vec::new());
            }
            for _ in 0..random.below(30) {
                if way.is_empty() {
                    break;
                }
                let at = usize::try_from(random.below(way.len() as u64)).expect("it is an index");
                let (to, mut bytes) = way[at].clone();
                if random.below(4) > 0 {
                    way.swap_remove(at);
                }
                // Where it is for stays right, or hardly anything would get further; so does a shutdown's type.
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
        // Everything ends, whatever was told: the silent peer after its time, the closed socket after it lingered.
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
    // The first message had the packets 100 and 101, of which none came; the second is packet 102.
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
        assert!(server.receive_message(socket, &mut message), "{comes_first}");
        assert_eq!(message, b"the second");
    }
}
