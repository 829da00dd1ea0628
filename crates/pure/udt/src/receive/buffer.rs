//! What arrived and the application has not taken.
//!
//! Packets lie in slots of one size by their number, so that full packets of a stream are one piece of memory and a
//! read is one copy. Two slots more than the peer is told of take the packets with which it asks whether there is room.

use core::ops::Range;
use std::collections::BTreeMap;

use units::RangeSet;
use wire::udt::{Data, Message, MessageNumber, Piece, SocketType};

/// Slots that the peer is not told of.
pub(crate) const SPARE_PACKETS: u64 = 2;
/// The least window a peer is told: as libudt does, two packets that ask.
pub(crate) const LEAST_WINDOW: u64 = 2;

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    /// It is new.
    New,
    /// It was here already, or given up.
    Duplicate,
    /// There is no slot for it.
    NoRoom,
}

/// The packets from the oldest that the application has not taken to the newest that arrived.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    capacity: u64,
    payload_bytes: usize,
    origin: u64,
    /// Every packet before it is taken.
    read: u64,
    /// How much of that packet a stream's reader has taken already.
    read_bytes: usize,
    /// Every packet before it has arrived or is given up.
    next: u64,
    /// One behind the newest.
    received_end: u64,
    /// Neither arrived nor given up, between `next` and `received_end`.
    missing: RangeSet,
    messages: Option<Messages>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    payload_bytes: usize,
    message: Message,
}

/// What is known of whole messages.
#[derive(Debug, Default)]
struct Messages {
    /// Those that are complete and not taken: first packet to last.
    complete: BTreeMap<u64, u64>,
    /// Packets beyond `read` that nobody waits for: taken, or of messages that were given up.
    done: RangeSet,
    /// Those that were given up, to the last packet named of each: what still comes of them is nobody's.
    given_up: BTreeMap<u32, u64>,
    /// How many were given up.
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

    /// Returns the packet that must come next.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Returns one behind the newest packet.
    pub(crate) const fn received_end(&self) -> u64 {
        self.received_end
    }

    /// Returns the largest payload that it takes.
    pub(crate) const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    pub(crate) const fn missing(&self) -> &RangeSet {
        &self.missing
    }

    pub(crate) fn messages_given_up(&self) -> u64 {
        self.messages.as_ref().map_or(0, |messages| messages.given_up_count)
    }

    /// Returns how many packets the peer may fill it with.
    pub(crate) fn packets(&self) -> u32 {
        u32::try_from(self.capacity - SPARE_PACKETS).unwrap_or(u32::MAX)
    }

    /// Returns for how many packets from `next` on the peer is told that there is room.
    pub(crate) fn window(&self) -> u64 {
        let held = self.next - self.read;
        (self.capacity - SPARE_PACKETS).saturating_sub(held).max(LEAST_WINDOW)
    }

    /// Returns how many more packets it takes, those not counted with which a peer asks.
    pub(crate) fn room(&self) -> u32 {
        let held = self.next - self.read;
        u32::try_from((self.capacity - SPARE_PACKETS).saturating_sub(held)).unwrap_or(u32::MAX)
    }

    /// Tells whether there is room only for packets that ask for room.
    pub(crate) fn is_full(&self) -> bool {
        self.window() <= LEAST_WINDOW
    }

    /// Takes a packet; the packets it newly shows to be missing are those from the former `received_end` to its number.
    pub(crate) fn place(&mut self, number: u64, data: &Data<'_>) -> Placed {
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
            self.slots.resize(index + 1, Slot { payload_bytes: 0, message });
        }
        self.slots[index] = Slot { payload_bytes: data.payload.len(), message: data.message };
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

    /// Takes note that the peer gave up packets of a message; returns whether that changed anything.
    ///
    /// What of them is here and belongs to another message, or to one that is here as a whole, is delivered all the
    /// same, whatever the peer believes.
    pub(crate) fn give_up(&mut self, number: MessageNumber, numbers: Range<u64>) -> bool {
        // Beyond the window it waits like everything else, or packets that ask for room would find none.
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

    /// Returns how many bytes of a stream can be read now.
    pub(crate) fn has_stream(&self) -> bool {
        self.read < self.next
    }

    /// Copies what is there of a stream; returns how many bytes.
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
                // Only the last packet of a run may be short, so the place within is found by the full size.
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
        // One that need not wait for those before it goes as soon as it is here.
        let may_go = |first: u64| first == self.read || !self.slots[self.index(first)].message.is_ordered;
        complete.iter().find(|(first, _)| may_go(**first)).map(|(first, last)| (*first, *last))
    }

    /// Copies a message of [`next_message`](Self::next_message) to the end of `out`.
    pub(crate) fn take_message(&mut self, first: u64, last: u64, out: &mut Vec<u8>) {
        for number in first..=last {
            let index = self.index(number);
            let start = index * self.payload_bytes;
            out.extend_from_slice(&self.bytes[start..start + self.slots[index].payload_bytes]);
        }
        if let Some(messages) = &mut self.messages {
            messages.complete.remove(&first);
            messages.done.insert(first..last + 1);
        }
        self.move_read();
    }

    /// Returns where the longest readable piece of memory begins and ends, and how many packets it has.
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

    /// Frees what nobody waits for any more at the beginning.
    fn move_read(&mut self) {
        let Some(messages) = &mut self.messages else { return };
        let first = messages.done.first();
        if let Some(done) = first.filter(|done| done.start <= self.read) {
            self.read = done.end;
            messages.done.remove(done);
            // The one behind those that were named may be still to come.
            messages.given_up.retain(|_, end| *end >= self.read);
        }
    }

    /// Looks whether the packet completes its message. Forward first: what arrives in order then costs one look.
    fn complete_around(&mut self, number: u64) {
        // What was let go of is not here: its slot is empty, or an older packet's.
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

    /// Lets go of what is here of a message that is given up, within the packets named and beside them.
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
