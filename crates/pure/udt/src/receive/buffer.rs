//! Received packets that the application has not taken.
//!
//! Packets are in slots of one size by their number, so that full packets of a stream are contiguous and a read is
//! one copy. Two slots more than the advertised window take the packets with which the peer probes for room.

use core::ops::Range;
use std::collections::BTreeMap;

use units::{Instant, RangeSet};
use wire::udt::{Data, Message, MessageNumber, Piece, SocketType};

use crate::Arrival;

/// Number of slots beyond the advertised window.
pub(crate) const SPARE_PACKETS: u64 = 2;
/// Minimum window of a peer: two probe packets, as in libudt.
pub(crate) const LEAST_WINDOW: u64 = 2;

/// Result of placing a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    /// It is new.
    New,
    /// It was received before, or given up.
    Duplicate,
    /// There is no slot for it.
    NoRoom,
}

/// The packets from the oldest that the application has not taken to the newest received.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    capacity: u64,
    payload_bytes: usize,
    origin: u64,
    /// First packet that is not taken.
    read: u64,
    /// Number of bytes of that packet that a stream's reader has taken.
    read_bytes: usize,
    /// First packet that has neither arrived nor been given up.
    next: u64,
    /// One more than the newest.
    received_end: u64,
    /// Packets neither received nor given up, between `next` and `received_end`.
    missing: RangeSet,
    messages: Option<Messages>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    payload_bytes: usize,
    message: Message,
    arrival: Arrival,
}

/// State of whole messages.
#[derive(Debug, Default)]
struct Messages {
    /// Complete messages that are not taken: first packet to last.
    complete: BTreeMap<u64, u64>,
    /// Packets beyond `read` that are no longer needed: taken, or of messages that were given up.
    done: RangeSet,
    /// Messages that were given up, with the last packet named of each: later packets of them are discarded.
    given_up: BTreeMap<u32, u64>,
    /// Number of messages given up.
    given_up_count: u64,
}

impl ReceiveBuffer {
    pub(crate) fn new(kind: SocketType, capacity: u32, payload_bytes: usize, origin: u64) -> Self {
        let capacity = u64::from(capacity.max(32)) + SPARE_PACKETS;
        Self {
            bytes: vec![0; usize::try_from(capacity).expect("a buffer fits into memory") * payload_bytes],
            slots: Vec::new(),
            capacity,
            payload_bytes,
            origin,
            read: origin,
            read_bytes: 0,
            next: origin,
            received_end: origin,
            missing: RangeSet::new(),
            messages: (kind == SocketType::Datagram).then(Messages::default),
        }
    }

    /// Returns the next packet in order.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Returns one more than the newest packet.
    pub(crate) const fn received_end(&self) -> u64 {
        self.received_end
    }

    /// Returns the maximum size of a payload.
    pub(crate) const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    pub(crate) const fn missing(&self) -> &RangeSet {
        &self.missing
    }

    pub(crate) fn messages_given_up(&self) -> u64 {
        self.messages.as_ref().map_or(0, |messages| messages.given_up_count)
    }

    /// Returns the number of packets with which the peer may fill it.
    pub(crate) fn packets(&self) -> u32 {
        u32::try_from(self.capacity - SPARE_PACKETS).unwrap_or(u32::MAX)
    }

    /// Returns the window advertised to the peer, in packets from `next` on.
    pub(crate) fn window(&self) -> u64 {
        let held = self.next - self.read;
        (self.capacity - SPARE_PACKETS).saturating_sub(held).max(LEAST_WINDOW)
    }

    /// Returns the number of further packets it takes, without slots for probes.
    pub(crate) fn room(&self) -> u32 {
        let held = self.next - self.read;
        u32::try_from((self.capacity - SPARE_PACKETS).saturating_sub(held)).unwrap_or(u32::MAX)
    }

    /// Returns whether there is room only for packets that probe for room.
    pub(crate) fn is_full(&self) -> bool {
        self.window() <= LEAST_WINDOW
    }

    /// Places a packet; the packets newly missing are those from the former `received_end` to its number.
    pub(crate) fn place(&mut self, number: u64, arrived: Instant, data: &Data<'_>) -> Placed {
        let is_known = number < self.next || number < self.received_end && !self.missing.contains(number);
        if is_known || data.payload.len() > self.payload_bytes {
            return if is_known { Placed::Duplicate } else { Placed::NoRoom };
        }
        if number >= self.read + self.capacity {
            return Placed::NoRoom;
        }
        let index = self.index(number);
        if index >= self.slots.len() {
            let message = Message { piece: Piece::Middle, is_ordered: true, number: MessageNumber::FIRST };
            let arrival = Arrival { sent_us: 0, arrived };
            self.slots.resize(index + 1, Slot { payload_bytes: 0, message, arrival });
        }
        let arrival = Arrival { sent_us: data.timestamp_us, arrived };
        self.slots[index] = Slot { payload_bytes: data.payload.len(), message: data.message, arrival };
        let start = index * self.payload_bytes;
        self.bytes[start..start + data.payload.len()].copy_from_slice(data.payload);
        if number >= self.received_end {
            self.missing.insert(self.received_end..number);
            self.received_end = number + 1;
        } else {
            self.missing.remove(number..number + 1);
        }
        self.move_next();
        let message = data.message.number;
        if let Some(messages) = &self.messages {
            if messages.given_up.contains_key(&message.word()) {
                self.let_go_of_pieces(message, number..number + 1);
                self.move_read();
            } else {
                self.complete_around(number);
            }
        }
        Placed::New
    }

    /// Records that the peer gave up packets of a message; returns whether that changed anything.
    ///
    /// Received packets of another message, or of a message that is complete here, are delivered regardless.
    pub(crate) fn give_up(&mut self, number: MessageNumber, numbers: Range<u64>) -> bool {
        // Beyond the window it waits like all other packets, or probes for room would find none.
        let end_of_window = self.read + self.capacity - SPARE_PACKETS;
        let says_nothing_new = numbers.is_empty() || numbers.end <= self.next || numbers.end > end_of_window;
        let (Some(messages), false) = (&mut self.messages, says_nothing_new) else { return false };
        if numbers.end > self.received_end {
            self.missing.insert(self.received_end..numbers.end);
            self.received_end = numbers.end;
        }
        let holes: Vec<Range<u64>> = self.missing.intersection(numbers.clone()).collect();
        if holes.is_empty() {
            return false;
        }
        for hole in holes {
            self.missing.remove(hole.clone());
            messages.done.insert(hole);
        }
        let is_news = messages.given_up.insert(number.word(), numbers.end).is_none();
        messages.given_up_count += u64::from(is_news);
        self.let_go_of_pieces(number, numbers);
        self.move_next();
        self.move_read();
        true
    }

    /// Returns whether bytes of a stream can be read now.
    pub(crate) fn has_stream(&self) -> bool {
        self.read < self.next
    }

    /// Copies available bytes of a stream; returns their number.
    pub(crate) fn read_stream(&mut self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < out.len() && self.read < self.next {
            let (start, end, packets) = self.run();
            let count = (end - start).min(out.len() - filled);
            out[filled..filled + count].copy_from_slice(&self.bytes[start..start + count]);
            filled += count;
            if count == end - start {
                self.read += packets;
                self.read_bytes = 0;
            } else {
                // Only the last packet of a run may be short, so the position within is found by the full size.
                let taken = self.read_bytes + count;
                self.read += (taken / self.payload_bytes) as u64;
                self.read_bytes = taken % self.payload_bytes;
            }
        }
        filled
    }

    /// Returns the first and the last packet of the next message that can be delivered.
    pub(crate) fn next_message(&self) -> Option<(u64, u64)> {
        let complete = &self.messages.as_ref()?.complete;
        // An unordered message is delivered as soon as it is complete.
        let may_go = |first: u64| first == self.read || !self.slots[self.index(first)].message.is_ordered;
        complete.iter().find(|(first, _)| may_go(**first)).map(|(first, last)| (*first, *last))
    }

    /// Appends a message of [`next_message`](Self::next_message) to `out`; returns the times of its packet that arrived
    /// last.
    pub(crate) fn take_message(&mut self, first: u64, last: u64, out: &mut Vec<u8>) -> Arrival {
        let mut arrival = self.slots[self.index(first)].arrival;
        for number in first..=last {
            let index = self.index(number);
            if self.slots[index].arrival.arrived > arrival.arrived {
                arrival = self.slots[index].arrival;
            }
            let start = index * self.payload_bytes;
            out.extend_from_slice(&self.bytes[start..start + self.slots[index].payload_bytes]);
        }
        if let Some(messages) = &mut self.messages {
            messages.complete.remove(&first);
            messages.done.insert(first..last + 1);
        }
        self.move_read();
        arrival
    }

    /// Returns the range of the longest contiguous readable memory, and its number of packets.
    fn run(&self) -> (usize, usize, u64) {
        let index = self.index(self.read);
        let start = index * self.payload_bytes;
        let most = (self.next - self.read).min(self.capacity - index as u64);
        let mut end = start;
        for packets in 1..=most {
            let slot = self.slots[self.index(self.read + packets - 1)];
            end += slot.payload_bytes;
            if slot.payload_bytes < self.payload_bytes || packets == most {
                return (start + self.read_bytes, end, packets);
            }
        }
        (start, start, 0)
    }

    fn move_next(&mut self) {
        self.next = self.missing.first().map_or(self.received_end, |range| range.start);
    }

    /// Frees packets at the beginning that are no longer needed.
    fn move_read(&mut self) {
        let Some(messages) = &mut self.messages else { return };
        let first = messages.done.first();
        if let Some(done) = first.filter(|done| done.start <= self.read) {
            self.read = done.end;
            messages.done.remove(done);
            // The packet after those named may still arrive.
            messages.given_up.retain(|_, end| *end >= self.read);
        }
    }

    /// Checks whether the packet completes its message. Forward first: arrivals in order then cost one check.
    fn complete_around(&mut self, number: u64) {
        // A discarded packet is not here: its slot is empty, or holds an older packet.
        let is_done = |number| self.messages.as_ref().is_some_and(|messages| messages.done.contains(number));
        let is_here = |number| {
            number < self.received_end
                && (number < self.next || !self.missing.contains(number))
                && !is_done(number)
        };
        let mut last = number;
        while !self.slots[self.index(last)].message.piece.ends() {
            if !is_here(last + 1) {
                return;
            }
            last += 1;
        }
        let mut first = number;
        while !self.slots[self.index(first)].message.piece.begins() {
            if first == self.read || !is_here(first - 1) {
                return;
            }
            first -= 1;
        }
        if let Some(messages) = &mut self.messages {
            messages.complete.insert(first, last);
        }
    }

    /// Discards the received packets of a message that is given up, within the packets named and next to them.
    fn let_go_of_pieces(&mut self, message: MessageNumber, named: Range<u64>) {
        let Some(messages) = &self.messages else { return };
        let is_piece = |number: &u64| {
            let is_here = *number < self.received_end && !self.missing.contains(*number);
            let whole = messages.complete.range(..=*number).next_back();
            let is_whole = whole.is_some_and(|(_, last)| last >= number);
            let slot = self.slots.get(self.index(*number));
            is_here && !is_whole && slot.is_some_and(|slot| slot.message.number == message)
        };
        let before = (self.read..named.start).rev().take_while(is_piece);
        let within = (named.start.max(self.read)..named.end).filter(is_piece);
        let behind = (named.end.max(self.read)..self.received_end).take_while(is_piece);
        let pieces: Vec<u64> = before.chain(within).chain(behind).collect();
        if let Some(messages) = &mut self.messages {
            pieces.into_iter().for_each(|number| _ = messages.done.insert(number..number + 1));
        }
    }

    fn index(&self, number: u64) -> usize {
        usize::try_from((number - self.origin) % self.capacity).expect("a buffer fits into memory")
    }
}

#[cfg(test)]
mod tests;
