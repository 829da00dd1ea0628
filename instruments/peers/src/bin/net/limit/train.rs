//! Content of the bare sockets: datagrams that carry their numbers, in trains or alone, and the end marker of a
//! run.

use std::ops::Range;

/// Maximum number of bytes of a datagram's number.
const NUMBER_BYTES: usize = 8;
/// Length of the datagram that ends a run. No message of datagrams has it: it is a multiple of no size but 1, and
/// trains of that size have 16 or 64.
pub(super) const END_BYTES: usize = 11;

/// Position of the time stamp in a datagram that has one.
const STAMP: Range<usize> = NUMBER_BYTES..NUMBER_BYTES + 8;

/// Returns how many numbers a datagram of this size can distinguish; `None` if all are different.
pub(super) const fn number_range(datagram_bytes: usize) -> Option<u64> {
    if datagram_bytes >= NUMBER_BYTES { None } else { Some(1 << (8 * datagram_bytes)) }
}

/// Writes consecutive numbers into the datagrams of a message.
pub(super) fn write_numbers(message: &mut [u8], datagram_bytes: usize, first: u64) {
    let width = datagram_bytes.min(NUMBER_BYTES);
    for (datagram, number) in message.chunks_exact_mut(datagram_bytes).zip(first..) {
        datagram[..width].copy_from_slice(&number.to_le_bytes()[..width]);
    }
}

/// Writes the time into a message that is one datagram.
pub(super) fn write_stamp(datagram: &mut [u8]) {
    datagram[STAMP].copy_from_slice(&sys::clock::monotonic().as_nanos().to_le_bytes());
}

/// Returns the time since the stamp of a datagram of this host. Units: microseconds.
pub(super) fn delay_us(datagram: &[u8]) -> f64 {
    sys::clock::monotonic().as_nanos().saturating_sub(read_number(&datagram[STAMP])) as f64 / 1e3
}

/// Creates the end marker of a run of `sent` datagrams, for the `turn`-th time, from 1.
pub(super) fn end(sent: u64, turn: u16) -> [u8; END_BYTES] {
    let mut bytes = [0; END_BYTES];
    bytes[..NUMBER_BYTES].copy_from_slice(&sent.to_le_bytes());
    bytes[NUMBER_BYTES..NUMBER_BYTES + 2].copy_from_slice(&turn.to_le_bytes());
    bytes
}

/// Returns the turn of an end marker.
pub(super) fn turn_of(end: &[u8; END_BYTES]) -> u64 {
    u64::from(u16::from_le_bytes([end[NUMBER_BYTES], end[NUMBER_BYTES + 1]]))
}

/// A reader's counts by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tally {
    datagram_bytes: usize,
    /// Next number if nothing is lost.
    next: u64,
    pub(super) received: u64,
    /// Numbers that were skipped.
    pub(super) missing: u64,
    /// Late or duplicate datagrams, which do not occur on one socket over the paths measured here.
    pub(super) out_of_turn: u64,
}

/// Kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Datagrams,
    End,
}

impl Tally {
    pub(super) const fn new(datagram_bytes: usize) -> Self {
        Self { datagram_bytes, next: 0, received: 0, missing: 0, out_of_turn: 0 }
    }

    /// Counts the datagrams of a message, or those missing before the end.
    pub(super) fn take(&mut self, message: &[u8]) -> Message {
        if message.len() == END_BYTES {
            self.pass_over(read_number(&message[..NUMBER_BYTES]));
            return Message::End;
        }
        let width = self.datagram_bytes.min(NUMBER_BYTES);
        for datagram in message.chunks(self.datagram_bytes) {
            let in_turn = self.pass_over(read_number(&datagram[..width]));
            self.next += u64::from(in_turn);
            self.received += 1;
        }
        Message::Datagrams
    }

    /// Counts the numbers missing before `number`; returns whether it is in order. If numbers are narrow, a number
    /// that is too low looks like one far ahead.
    fn pass_over(&mut self, number: u64) -> bool {
        let ahead = number.wrapping_sub(self.next);
        let ahead = number_range(self.datagram_bytes).map_or(ahead, |range| ahead % range);
        if ahead > u64::MAX / 2 {
            self.out_of_turn += 1;
            return false;
        }
        self.missing += ahead;
        self.next += ahead;
        true
    }
}

/// Reads a little-endian number of at most eight bytes.
fn read_number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or_else(
        |_| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        u64::from_le_bytes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends messages of several datagrams except for the named ones, and the end marker.
    fn tally(datagram_bytes: usize, datagrams: usize, messages: u64, lost: &[u64]) -> Tally {
        let mut tally = Tally::new(datagram_bytes);
        for index in (0..messages).filter(|index| !lost.contains(index)) {
            let mut message = vec![0; datagram_bytes * datagrams];
            write_numbers(&mut message, datagram_bytes, index * datagrams as u64);
            assert_eq!(tally.take(&message), Message::Datagrams);
        }
        assert_eq!(tally.take(&end(messages * datagrams as u64, 1)), Message::End);
        tally
    }

    #[test]
    fn what_is_missing_is_counted_at_the_beginning_in_between_and_at_the_end() {
        for lost in [&[][..], &[0], &[3, 4], &[9], &[0, 5, 8, 9]] {
            let found = tally(100, 16, 10, lost);
            let lost = lost.len() as u64 * 16;
            assert_eq!((found.received, found.missing), (160 - lost, lost));
        }
    }

    #[test]
    fn narrow_numbers_count_modulo_their_range() {
        let found = tally(1, 64, 100, &[7, 50, 51, 52, 53]);
        assert_eq!((found.received, found.missing), (95 * 64, 64));
    }

    #[test]
    fn what_comes_late_or_twice_is_seen() {
        let mut tally = Tally::new(8);
        for number in [0_u64, 2, 1] {
            tally.take(&number.to_le_bytes());
        }
        tally.take(&end(3, 1));
        assert_eq!((tally.received, tally.missing, tally.out_of_turn), (3, 1, 1));
    }

    #[test]
    fn the_end_is_no_message_of_datagrams() {
        for (datagram_bytes, datagrams) in [1, 100, 548, 1472, 8972].into_iter().zip([1, 16, 44, 64, 7]) {
            assert_ne!(datagram_bytes * datagrams, END_BYTES);
        }
    }
}
