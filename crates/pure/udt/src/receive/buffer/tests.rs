//! Streams and messages assembled from packets in any order.

use wire::udt::{Sequence, SocketId};

use super::*;

const ORIGIN: u64 = 5_000;

fn data(payload: &[u8], message: Message) -> Data<'_> {
    let sequence = Sequence::of(0);
    Data { sequence, message, timestamp_us: 0, destination: SocketId(1), payload }
}

fn piece(piece: Piece, number: u32, is_ordered: bool) -> Message {
    Message { piece, is_ordered, number: MessageNumber::from_word(number) }
}

/// Places packet `offset` of a stream, whose bytes are its number.
fn place(buffer: &mut ReceiveBuffer, offset: u64, size: usize) -> Placed {
    let payload = vec![u8::try_from(offset).unwrap(); size];
    buffer.place(ORIGIN + offset, Instant::ORIGIN, &data(&payload, piece(Piece::Only, 1, false)))
}

fn stream() -> ReceiveBuffer {
    ReceiveBuffer::new(SocketType::Stream, 32, 10, ORIGIN)
}

fn messages() -> ReceiveBuffer {
    ReceiveBuffer::new(SocketType::Datagram, 32, 10, ORIGIN)
}

#[test]
fn a_stream_is_read_in_order_whatever_the_order_of_arrival() {
    let mut buffer = stream();
    for (offset, size) in [(2, 10), (0, 10), (4, 3), (3, 10)] {
        assert_eq!(place(&mut buffer, offset, size), Placed::New);
    }
    assert_eq!((buffer.next(), buffer.received_end()), (ORIGIN + 1, ORIGIN + 5));
    assert_eq!(buffer.missing().iter().collect::<Vec<_>>(), [ORIGIN + 1..ORIGIN + 2]);
    assert_eq!(place(&mut buffer, 2, 10), Placed::Duplicate);
    assert_eq!(place(&mut buffer, 1, 4), Placed::New);
    assert_eq!(place(&mut buffer, 0, 10), Placed::Duplicate);
    let mut out = [9; 64];
    assert_eq!(buffer.read_stream(&mut out[..12]), 12);
    assert_eq!(buffer.read_stream(&mut out[12..]), 25);
    let expected: Vec<u8> = [(0, 10), (1, 4), (2, 10), (3, 10), (4, 3)]
        .iter()
        .flat_map(|(byte, size)| std::iter::repeat_n(*byte, *size))
        .collect();
    assert_eq!(out[..37], expected);
    assert!(!buffer.has_stream());
}

#[test]
fn a_full_buffer_takes_two_packets_more_and_tells_two() {
    let mut buffer = stream();
    assert_eq!(buffer.window(), 32);
    for offset in 0..34 {
        assert_eq!(place(&mut buffer, offset, 10), Placed::New, "{offset}");
    }
    assert_eq!(place(&mut buffer, 34, 10), Placed::NoRoom);
    assert_eq!(buffer.window(), 2);
    let mut out = [0; 100];
    assert_eq!(buffer.read_stream(&mut out), 100);
    assert_eq!(buffer.window(), 8);
    // Across the ring's end.
    assert_eq!(place(&mut buffer, 34, 10), Placed::New);
    assert_eq!(place(&mut buffer, 35, 7), Placed::New);
    let mut out = [0; 300];
    assert_eq!(buffer.read_stream(&mut out), 257);
    assert_eq!((out[249], out[250], out[256]), (34, 35, 35));
}

#[test]
fn a_packet_that_is_too_large_has_no_room() {
    let mut buffer = stream();
    assert_eq!(place(&mut buffer, 0, 11), Placed::NoRoom);
    assert_eq!(buffer.received_end(), ORIGIN);
}

fn take(buffer: &mut ReceiveBuffer) -> Option<Vec<u8>> {
    let (first, last) = buffer.next_message()?;
    let mut out = Vec::new();
    buffer.take_message(first, last, &mut out);
    Some(out)
}

#[test]
fn an_ordered_message_waits_for_those_before_it_and_another_does_not() {
    let mut buffer = messages();
    let mut put = |offset: u64, byte: u8, message| {
        assert_eq!(buffer.place(ORIGIN + offset, Instant::ORIGIN, &data(&[byte; 4], message)), Placed::New);
    };
    put(1, 1, piece(Piece::Last, 1, true));
    put(2, 2, piece(Piece::Only, 2, true));
    put(3, 3, piece(Piece::First, 3, false));
    put(5, 5, piece(Piece::Last, 3, false));
    assert_eq!(buffer.next_message(), None);
    let middle = data(&[4; 4], piece(Piece::Middle, 3, false));
    buffer.place(ORIGIN + 4, Instant::ORIGIN, &middle);
    assert_eq!(take(&mut buffer).unwrap(), [3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]);
    assert_eq!(take(&mut buffer), None);
    buffer.place(ORIGIN, Instant::ORIGIN, &data(&[0; 4], piece(Piece::First, 1, true)));
    assert_eq!(take(&mut buffer).unwrap(), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(take(&mut buffer).unwrap(), [2; 4]);
    assert_eq!(take(&mut buffer), None);
    assert_eq!((buffer.next(), buffer.window()), (ORIGIN + 6, 32));
}

#[test]
fn a_message_that_is_given_up_leaves_nothing_behind() {
    let mut buffer = messages();
    buffer.place(ORIGIN, Instant::ORIGIN, &data(&[0; 4], piece(Piece::First, 1, true)));
    buffer.place(ORIGIN + 3, Instant::ORIGIN, &data(&[3; 4], piece(Piece::Only, 2, true)));
    // Two of its packets are missing; the first one is here.
    assert!(buffer.give_up(MessageNumber::from_word(1), ORIGIN + 1..ORIGIN + 3));
    assert_eq!(take(&mut buffer).unwrap(), [3; 4]);
    assert_eq!((buffer.next(), buffer.window(), buffer.messages_given_up()), (ORIGIN + 4, 32, 1));
    assert!(!buffer.give_up(MessageNumber::from_word(1), ORIGIN + 1..ORIGIN + 3));
    // A message of which no packet arrived.
    assert!(buffer.give_up(MessageNumber::from_word(3), ORIGIN + 6..ORIGIN + 8));
    assert_eq!(buffer.missing().iter().collect::<Vec<_>>(), [ORIGIN + 4..ORIGIN + 6]);
    assert_eq!(
        buffer.place(ORIGIN + 6, Instant::ORIGIN, &data(&[6; 4], piece(Piece::First, 3, true))),
        Placed::Duplicate
    );
}

#[test]
fn a_message_that_is_here_is_not_given_up() {
    let mut buffer = messages();
    buffer.place(ORIGIN + 1, Instant::ORIGIN, &data(&[1; 4], piece(Piece::First, 2, true)));
    buffer.place(ORIGIN + 2, Instant::ORIGIN, &data(&[2; 4], piece(Piece::Last, 2, true)));
    assert!(!buffer.give_up(MessageNumber::from_word(2), ORIGIN + 1..ORIGIN + 3));
    buffer.place(ORIGIN, Instant::ORIGIN, &data(&[0; 4], piece(Piece::Only, 1, true)));
    assert_eq!(take(&mut buffer).unwrap(), [0; 4]);
    assert_eq!(take(&mut buffer).unwrap(), [1, 1, 1, 1, 2, 2, 2, 2]);
}
