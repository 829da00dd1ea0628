//! Packets sent by libudt 4.11, byte by byte, and their meaning.
//!
//! Taken from captures of Debian's library (4.11+dfsg1-1) on the loopback interface.

use core::net::{IpAddr, Ipv4Addr};

use super::*;

const CLIENT: SocketId = SocketId(0x1a36_8454);
const SERVER: SocketId = SocketId(0x2f39_d0eb);

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Reads bytes and writes the result: both must agree with the library.
fn is_control(hex: &str, destination: SocketId, body: Body<'_>) {
    let bytes = bytes(hex);
    let control = Control { timestamp_us: 0, destination, body };
    assert_eq!(Packet::read(&bytes), Ok(Packet::Control(control)), "{hex}");
    let mut written = Vec::new();
    control.write(&mut written);
    assert_eq!(written, bytes, "{hex}");
}

#[test]
fn four_handshakes_make_a_connection() {
    let request = Handshake {
        version: VERSION,
        socket_type: Some(SocketType::Stream),
        first_sequence: Sequence::from_word(0x45e1_dfab),
        packet_bytes: 1_500,
        window_packets: 8_192,
        request: Request::Connect,
        socket: CLIENT,
        cookie: 0,
        address: address_words(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    };
    is_control(
        "80000000 00000000 00000000 00000000 00000004 00000001 45e1dfab 000005dc 00002000 00000001 1a368454
         00000000 0100007f 00000000 00000000 00000000",
        SocketId(0),
        Body::Handshake(request),
    );
    let challenge = Handshake { cookie: 0x81a5_c38f, ..request };
    is_control(
        "80000000 00000000 00000000 1a368454 00000004 00000001 45e1dfab 000005dc 00002000 00000001 1a368454
         81a5c38f 0100007f 00000000 00000000 00000000",
        CLIENT,
        Body::Handshake(challenge),
    );
    let conclusion = Handshake { request: Request::Conclude, ..challenge };
    is_control(
        "80000000 00000000 00000000 00000000 00000004 00000001 45e1dfab 000005dc 00002000 ffffffff 1a368454
         81a5c38f 0100007f 00000000 00000000 00000000",
        SocketId(0),
        Body::Handshake(conclusion),
    );
    is_control(
        "80000000 00000000 00000000 1a368454 00000004 00000001 45e1dfab 000005dc 00002000 ffffffff 2f39d0eb
         81a5c38f 0100007f 00000000 00000000 00000000",
        CLIENT,
        Body::Handshake(Handshake { socket: SERVER, ..conclusion }),
    );
}

#[test]
fn a_data_packet_begins_a_message() {
    let bytes = bytes("0fc0d4a2 80000001 00004b44 3b9dcc4a 00010203");
    let data = Data {
        sequence: Sequence::from_word(0x0fc0_d4a2),
        message: Message { piece: Piece::First, is_ordered: false, number: MessageNumber::FIRST },
        timestamp_us: 19_268,
        destination: SocketId(0x3b9d_cc4a),
        payload: &[0, 1, 2, 3],
    };
    assert_eq!(Packet::read(&bytes), Ok(Packet::Data(data)));
    let mut header = [0xff; HEADER_BYTES];
    Data::write_header(&mut header, data.sequence, data.message, data.timestamp_us, data.destination);
    assert_eq!(header, bytes[..HEADER_BYTES]);
    assert_eq!(Packet::destination(&bytes), Some(data.destination));
}

#[test]
fn acknowledgements_have_three_forms() {
    let to = SocketId(0x0fc9_c2b8);
    let progress = |window_packets, rates| {
        Some(Progress { round_trip_us: 100_000, variation_us: 50_000, window_packets, rates })
    };
    let ack = |number, next, progress| {
        Body::Ack(Ack { number, next: Sequence::from_word(next), progress, seen: None })
    };
    is_control(
        "80020000 00000001 00000000 0fc9c2b8 336fdf6d 000186a0 0000c350 00001ffe 00000001 000003e8",
        to,
        ack(1, 0x336f_df6d, progress(8_190, Some((1, 1_000)))),
    );
    is_control(
        "80020000 00000002 00000000 0fc9c2b8 336fdf6f 000186a0 0000c350 00001fff",
        to,
        ack(2, 0x336f_df6f, progress(8_191, None)),
    );
    is_control(
        "80020000 00000000 00000000 3062044e 0fc0d51d",
        SocketId(0x3062_044e),
        ack(0, 0x0fc0_d51d, None),
    );
}

#[test]
fn a_light_acknowledgement_of_ours_says_what_arrived_behind_a_hole() {
    let (next, seen) = (Sequence::from_word(0x0fc0_d51d), Some(Sequence::from_word(0x0fc0_d5ff)));
    let light = Ack { number: 0, next, progress: None, seen };
    is_control("80020000 8fc0d5ff 00000000 3062044e 0fc0d51d", SocketId(0x3062_044e), Body::Ack(light));
    // A body with a number of its own has no additional information, and libudt's bit is ignored.
    let bytes = bytes("80020000 8fc0d5ff 00000000 3062044e 0fc0d51d 00000001 00000001 00000002");
    let Ok(Packet::Control(Control { body: Body::Ack(ack), .. })) = Packet::read(&bytes) else { panic!() };
    assert_eq!((ack.number, ack.seen), (0x8fc0_d5ff, None));
}

#[test]
fn what_is_lost_is_a_word_or_two() {
    for (words, lost) in [
        ("36a91f13", vec![(0x36a9_1f13, 0x36a9_1f13)]),
        ("b36fdf6f 336fdf71", vec![(0x336f_df6f, 0x336f_df71)]),
        ("3fc0a340 bfc0a345 3fc0a347", vec![(0x3fc0_a340, 0x3fc0_a340), (0x3fc0_a345, 0x3fc0_a347)]),
    ] {
        let bytes = bytes(&format!("80030000 00000000 00000000 0fc9c2b8 {words}"));
        let Ok(Packet::Control(Control { body: Body::Nak(list), .. })) = Packet::read(&bytes) else {
            panic!("{words} was not read");
        };
        let ranges: Vec<(u32, u32)> =
            list.ranges().map(|(first, last)| (first.word(), last.word())).collect();
        assert_eq!(ranges, lost);
        let mut writer = LossListWriter::new(1_500);
        for (first, last) in list.ranges() {
            assert!(writer.push(first, last));
        }
        let mut written = Vec::new();
        let body = Body::NakWords(writer.words());
        Control { timestamp_us: 0, destination: SocketId(0x0fc9_c2b8), body }.write(&mut written);
        assert_eq!(written, bytes);
    }
}

#[test]
fn a_list_of_losses_ends_where_its_packet_does() {
    let mut writer = LossListWriter::new(OVERHEAD_BYTES + 12);
    let at = Sequence::from_word;
    assert!(writer.push(at(1), at(4)));
    assert!(!writer.push(at(7), at(9)));
    assert!(writer.push(at(7), at(7)));
    assert!(!writer.push(at(10), at(10)));
    assert_eq!(writer.words(), [0x8000_0001, 4, 7]);
}

#[test]
fn the_small_ones_are_filled_up() {
    is_control("80010000 00000000 00000000 1a368454 00000000", CLIENT, Body::KeepAlive);
    is_control("80050000 00000000 00000000 1a368454 00000000", CLIENT, Body::Shutdown);
    is_control("80060000 00000001 00000000 1a368454 00000000", CLIENT, Body::AckOfAck { number: 1 });
    is_control("80090000 00000000 00000000 1a368454 00000000", CLIENT, Body::Unknown { kind: 9 });
    is_control("80080000 00000fa0 00000000 1a368454 00000000", CLIENT, Body::PeerError { code: 4_000 });
    is_control(
        "80070000 00000002 00000000 1a368454 336fdf6f 336fdf72",
        CLIENT,
        Body::DropMessage {
            message: MessageNumber::from_word(2),
            first: Sequence::from_word(0x336f_df6f),
            last: Sequence::from_word(0x336f_df72),
        },
    );
    let bytes = bytes("ffff1234 00000000 00000000 1a368454 00000001 00000002 00000003");
    let mut written = Vec::new();
    let body = Body::CustomWords { kind: 0x1234, words: &[1, 2, 3] };
    Control { timestamp_us: 0, destination: CLIENT, body }.write(&mut written);
    assert_eq!(written, bytes);
    let Ok(Packet::Control(Control { body: Body::Custom { kind, words }, .. })) = Packet::read(&bytes) else {
        panic!("it was not read");
    };
    assert_eq!((kind, words.iter().collect::<Vec<_>>()), (0x1234, vec![1, 2, 3]));
}

#[test]
fn what_is_no_packet_is_refused() {
    let refused = |hex: &str| Packet::read(&bytes(hex)).unwrap_err();
    assert_eq!(refused("80010000 00000000 00000000"), Malformed::TooShort(12));
    assert_eq!(refused("80020000 00000000 00000000 00000001"), Malformed::TooShort(0));
    assert_eq!(refused("80000000 00000000 00000000 00000001 00000004"), Malformed::TooShort(4));
    assert_eq!(refused("80070000 00000000 00000000 00000001 00000004"), Malformed::TooShort(4));
    for list in ["", "80000001", "80000001 80000002", "00000007 80000001"] {
        assert_eq!(refused(&format!("80030000 00000000 00000000 00000001 {list}")), Malformed::LossList);
    }
    // Without padding, as implementations other than libudt send it.
    assert!(Packet::read(&bytes("80010000 00000000 00000000 00000001")).is_ok());
}

#[test]
fn addresses_are_reversed_word_by_word() {
    let address = "fd00::1234:5678".parse().unwrap();
    assert_eq!(address_words(address)[..], bytes("000000fd 00000000 00000000 78563412"));
    let address = "127.0.0.2".parse().unwrap();
    assert_eq!(address_words(address)[..4], bytes("0200007f"));
}
