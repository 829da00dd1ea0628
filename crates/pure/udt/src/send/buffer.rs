//! Data of the application that the peer has not acknowledged, in wire layout.
//!
//! Every packet has a slot of the same size: room for its header, followed by its payload. Slots are contiguous, so
//! that a train of full packets is one range of memory and is handed to the kernel without another copy. While the path
//! is not known to carry packets of that size, smaller ones leave one by one.

use core::ops::Range;

use wire::udt::{Data, HEADER_BYTES, Message, MessageNumber, Piece, Sequence, SocketId};

use super::rate::SentMark;
use crate::Terms;

/// A packet's slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) message: Message,
    pub(crate) payload_bytes: usize,
    /// First packet of its message.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) terms: Terms,
    pub(crate) mark: SentMark,
    /// Number of transmissions.
    pub(crate) times: u32,
    /// True if its message was given up: the peer is sent a notice instead.
    pub(crate) is_given_up: bool,
}

/// The packets from the oldest unacknowledged to the newest queued.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    capacity: u64,
    /// Room for payload in a slot.
    slot_payload_bytes: usize,
    /// Payload of a full packet now.
    payload_bytes: usize,
    /// Number of the connection's first packet; slots are found by the distance from it.
    origin: u64,
    first: u64,
    next: u64,
    end: u64,
    next_message: MessageNumber,
    /// Total payload held. Units: bytes.
    held_bytes: u64,
}

impl SendBuffer {
    pub(crate) fn new(capacity: u32, payload_bytes: usize, origin: u64) -> Self {
        let capacity = capacity.max(2);
        Self {
            // Zeroed memory costs nothing until it is touched.
            bytes: vec![0; capacity as usize * (HEADER_BYTES + payload_bytes)],
            slots: Vec::new(),
            capacity: u64::from(capacity),
            slot_payload_bytes: payload_bytes,
            payload_bytes,
            origin,
            first: origin,
            next: origin,
            end: origin,
            next_message: MessageNumber::FIRST,
            held_bytes: 0,
        }
    }

    /// Sets the number of the next message.
    pub(crate) const fn number_from(&mut self, message: MessageNumber) {
        self.next_message = message;
    }

    /// Returns the oldest unacknowledged packet, or `next` if there is none.
    pub(crate) const fn first(&self) -> u64 {
        self.first
    }

    /// Returns the next packet that was never sent.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Returns the next packet to be queued.
    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    /// Returns the number of packets that it holds at most.
    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Changes the payload of full packets, as far as slots have room for it; queued packets stay as they are.
    pub(crate) fn set_payload_bytes(&mut self, payload_bytes: usize) {
        self.payload_bytes = payload_bytes.clamp(1, self.slot_payload_bytes);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first == self.end
    }

    pub(crate) const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Returns the number of packets for which there is room.
    pub(crate) const fn free(&self) -> u64 {
        self.capacity - (self.end - self.first)
    }

    /// Returns whether enough room is free to wake waiting writers: a quarter of the buffer.
    pub(crate) const fn is_worth_filling(&self) -> bool {
        self.free() * 4 >= self.capacity
    }

    /// Queues as many bytes of a stream as fit; returns their number.
    ///
    /// Bytes that fit behind the newest packet are added to it if it was not sent yet.
    pub(crate) fn push_stream(&mut self, mut bytes: &[u8]) -> usize {
        let offered = bytes.len();
        if self.end > self.next {
            bytes = self.fill_newest(bytes);
        }
        let free = usize::try_from(self.free()).unwrap_or(usize::MAX);
        let (taken, rest) = bytes.split_at(bytes.len().min(free.saturating_mul(self.payload_bytes)));
        if !taken.is_empty() {
            self.push(taken, Terms::default());
        }
        offered - rest.len()
    }

    /// Returns whether a message of this size fits now, and whether it can ever fit.
    pub(crate) fn fits(&self, size_bytes: usize) -> (bool, bool) {
        let packets = size_bytes.div_ceil(self.payload_bytes).max(1) as u64;
        (packets <= self.free(), packets <= self.capacity)
    }

    /// Queues a message, for which there must be room.
    pub(crate) fn push(&mut self, bytes: &[u8], terms: Terms) {
        let count = bytes.len().div_ceil(self.payload_bytes).max(1);
        let (first, last) = (self.end, self.end + count as u64 - 1);
        let mut rest = bytes;
        for index in 0..count {
            let (payload, behind) = rest.split_at(rest.len().min(self.payload_bytes));
            rest = behind;
            let Terms { is_ordered, .. } = terms;
            let message = Message { piece: Piece::of(index, count), is_ordered, number: self.next_message };
            let slot = Slot {
                message,
                payload_bytes: payload.len(),
                first,
                last,
                terms,
                mark: SentMark::default(),
                times: 0,
                is_given_up: false,
            };
            self.place(slot, payload);
        }
        self.next_message = self.next_message.next();
        self.held_bytes += bytes.len() as u64;
    }

    pub(crate) fn slot(&self, number: u64) -> &Slot {
        &self.slots[self.index(number)]
    }

    pub(crate) fn slot_mut(&mut self, number: u64) -> &mut Slot {
        let index = self.index(number);
        &mut self.slots[index]
    }

    /// Records that packets never sent before are sent, or given up.
    pub(crate) const fn advance(&mut self, packets: u64) {
        self.next += packets;
    }

    /// Frees every packet before `to`.
    pub(crate) fn release(&mut self, to: u64) {
        let to = to.clamp(self.first, self.next);
        for number in self.first..to {
            self.held_bytes -= self.slots[self.index(number)].payload_bytes as u64;
        }
        self.first = to;
    }

    /// Returns the number of packets from `from` on, at most `most`, that can leave as one train: they are contiguous
    /// and all but the last are full. None of them may be given up.
    pub(crate) fn train(&self, from: u64, most: u32) -> u32 {
        let until_wrap = self.capacity - (from - self.origin) % self.capacity;
        let most = u64::from(most).min(until_wrap).min(self.end - from);
        let mut count = 0;
        for number in from..from + most {
            let slot = self.slot(number);
            if slot.is_given_up {
                break;
            }
            count += 1;
            if slot.payload_bytes < self.slot_payload_bytes {
                break;
            }
        }
        count
    }

    /// Writes the headers of a train and returns its range in [`bytes`](Self::bytes).
    pub(crate) fn prepare(&mut self, from: u64, count: u32, timestamp_us: u32, to: SocketId) -> Range<usize> {
        let first = self.index(from);
        let slot_bytes = self.slot_bytes();
        let mut end = first * slot_bytes;
        for (number, index) in (from..).zip(first..first + count as usize) {
            let slot = &self.slots[index];
            let start = index * slot_bytes;
            let header = self.bytes[start..].first_chunk_mut::<HEADER_BYTES>();
            let header = header.expect("every slot has room for a header");
            Data::write_header(header, Sequence::of(number), slot.message, timestamp_us, to);
            end = start + HEADER_BYTES + slot.payload_bytes;
        }
        first * slot_bytes..end
    }

    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Returns the size of a full packet without IP and UDP headers: that of a train's segments.
    pub(crate) const fn slot_bytes(&self) -> usize {
        HEADER_BYTES + self.slot_payload_bytes
    }

    fn fill_newest<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let index = self.index(self.end - 1);
        let held = self.slots[index].payload_bytes;
        let (taken, rest) = bytes.split_at(bytes.len().min(self.payload_bytes.saturating_sub(held)));
        let start = index * self.slot_bytes() + HEADER_BYTES + held;
        self.bytes[start..start + taken.len()].copy_from_slice(taken);
        self.slots[index].payload_bytes += taken.len();
        self.held_bytes += taken.len() as u64;
        rest
    }

    fn place(&mut self, slot: Slot, payload: &[u8]) {
        debug_assert!(self.free() > 0, "whoever queues has asked whether there is room");
        let index = self.index(self.end);
        if index == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[index] = slot;
        }
        let start = index * self.slot_bytes() + HEADER_BYTES;
        self.bytes[start..start + payload.len()].copy_from_slice(payload);
        self.end += 1;
    }

    fn index(&self, number: u64) -> usize {
        usize::try_from((number - self.origin) % self.capacity).expect("a buffer fits into memory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer() -> SendBuffer {
        SendBuffer::new(4, 10, 1_000)
    }

    #[test]
    fn a_stream_fills_its_packets_until_there_is_no_room() {
        let mut buffer = buffer();
        assert_eq!(buffer.push_stream(&[1; 25]), 25);
        // The third packet has room for five, and there is one packet more.
        assert_eq!(buffer.push_stream(&[2; 100]), 15);
        assert_eq!(buffer.push_stream(&[3; 1]), 0);
        assert_eq!((buffer.end(), buffer.held_bytes(), buffer.free()), (1_004, 40, 0));
        assert_eq!(buffer.slot(1_002).payload_bytes, 10);
    }

    #[test]
    fn what_was_sent_is_not_filled_up() {
        let mut buffer = buffer();
        assert_eq!(buffer.push_stream(&[1; 5]), 5);
        buffer.advance(1);
        assert_eq!(buffer.push_stream(&[2; 5]), 5);
        assert_eq!(buffer.slot(1_000).payload_bytes, 5);
        assert_eq!(buffer.slot(1_001).payload_bytes, 5);
    }

    #[test]
    fn packets_smaller_than_their_slots_are_no_train_and_full_ones_are_again() {
        let mut buffer = buffer();
        buffer.set_payload_bytes(6);
        assert_eq!(buffer.push_stream(&[1; 12]), 12);
        assert_eq!((buffer.train(1_000, 9), buffer.fits(25).1), (1, false));
        buffer.set_payload_bytes(99);
        assert_eq!(buffer.push_stream(&[2; 24]), 24, "the newest was not sent yet, and is filled");
        assert_eq!(
            [1_000, 1_001, 1_002, 1_003].map(|number| buffer.slot(number).payload_bytes),
            [6, 10, 10, 10]
        );
        assert_eq!((buffer.train(1_000, 9), buffer.train(1_001, 9)), (1, 3));
        assert_eq!(buffer.prepare(1_001, 2, 9, SocketId(5)), 26..26 * 3);
    }

    #[test]
    fn messages_have_numbers_and_pieces() {
        let mut buffer = buffer();
        buffer.push(&[1; 21], Terms { is_ordered: true, ..Terms::default() });
        buffer.push(&[], Terms::default());
        let pieces: Vec<(Piece, u32)> = (1_000..1_004)
            .map(|number| (buffer.slot(number).message.piece, buffer.slot(number).message.number.word()))
            .collect();
        assert_eq!(pieces, [(Piece::First, 1), (Piece::Middle, 1), (Piece::Last, 1), (Piece::Only, 2)]);
        assert_eq!((buffer.slot(1_001).first, buffer.slot(1_001).last), (1_000, 1_002));
        assert_eq!(buffer.fits(1), (false, true));
        assert_eq!(buffer.fits(41), (false, false));
    }

    #[test]
    fn a_train_is_one_piece_of_memory_and_ends_at_the_rings_end() {
        let mut buffer = buffer();
        buffer.push_stream(&[7; 40]);
        buffer.advance(4);
        buffer.release(1_002);
        assert_eq!(buffer.held_bytes(), 20);
        buffer.push_stream(&[8; 15]);
        // 1002 and 1003 are at the ring's end, 1004 and half of 1005 at its beginning.
        assert_eq!(buffer.train(1_002, 9), 2);
        assert_eq!(buffer.train(1_004, 9), 2);
        let range = buffer.prepare(1_004, 2, 9, SocketId(5));
        assert_eq!(range, 0..26 + 16 + 5);
        let bytes = buffer.bytes(range);
        let wire::udt::Packet::Data(data) = wire::udt::Packet::read(&bytes[26..]).unwrap() else { panic!() };
        assert_eq!((data.sequence, data.payload), (Sequence::of(1_005), &[8; 5][..]));
        assert_eq!((data.destination, data.timestamp_us), (SocketId(5), 9));
    }
}
