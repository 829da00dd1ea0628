//! Datagrams on their way to the socket: the current train, those of it that wait for room in a
//! full send buffer, and those that were refused.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use sys::{Outcome, Refusal};
use units::Instant;

use super::egress::Egress;
use crate::send::publication_shared::PublicationShared;

/// Maximum time that datagrams wait for a send buffer that does not drain: then the device is
/// stuck, and not merely slow.
const MAX_HELD: Duration = Duration::from_secs(5);

/// The train that the machine has filled, until all of it was sent or refused.
pub(super) struct Outgoing {
    train: Vec<u8>,
    /// Parts of the train that found the send buffer full and wait, and since when.
    held: Vec<Part>,
    held_since: Instant,
    /// True if held datagrams were given up, and nothing has been sent since.
    gave_up: bool,
    /// Datagrams that were not sent, until they are counted.
    refused: Vec<Refused>,
    publisher: Arc<PublicationShared>,
}

/// Datagrams of the current train, one behind the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) destination: usize,
    /// The number of the first.
    pub(super) first: u64,
    /// Range of their bytes in the train.
    pub(super) bytes: Range<usize>,
    pub(super) segment_bytes: usize,
}

/// A datagram that was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refused {
    pub(super) destination: usize,
    pub(super) number: u64,
    pub(super) size_bytes: usize,
    pub(super) why: Refusal,
}

impl Outgoing {
    pub(super) fn new(train_bytes: usize, publisher: Arc<PublicationShared>, now: Instant) -> Self {
        Self {
            train: vec![0; train_bytes],
            held: Vec::new(),
            held_since: now,
            gave_up: false,
            refused: Vec::new(),
            publisher,
        }
    }

    /// Returns the buffer for the next train. None may be written while datagrams
    /// [wait](Self::waits).
    pub(super) fn buffer(&mut self) -> &mut [u8] {
        &mut self.train
    }

    /// Returns whether datagrams wait for room in the socket's send buffer.
    pub(super) const fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns when datagrams that wait are given up.
    pub(super) fn gives_up_at(&self) -> Instant {
        self.held_since + MAX_HELD
    }

    /// Returns the datagrams that were refused, for the caller to empty.
    pub(super) const fn refused_mut(&mut self) -> &mut Vec<Refused> {
        &mut self.refused
    }

    /// Sends a new train, whole, to each of its destinations.
    pub(super) fn send(&mut self, now: Instant, egress: &mut Egress, copies: impl Iterator<Item = Part>) {
        copies.for_each(|part| self.send_part(egress, &part));
        self.held_since = now;
    }

    /// Sends datagrams that waited for room in the send buffer, or gives them up.
    pub(super) fn send_held(&mut self, now: Instant, egress: &mut Egress) {
        let waited = std::mem::take(&mut self.held);
        waited.iter().for_each(|part| self.send_part(egress, part));
        if self.held != waited {
            self.held_since = now;
        } else if now >= self.gives_up_at() {
            self.give_up();
        }
    }

    /// Refuses datagrams that waited too long.
    fn give_up(&mut self) {
        self.gave_up = true;
        for Part { destination, first, bytes, segment_bytes } in std::mem::take(&mut self.held) {
            let sizes = self.train[bytes].chunks(segment_bytes).map(<[u8]>::len);
            let why = Refusal::SocketFull;
            let refused = (first..).zip(sizes).map(|(number, size_bytes)| Refused {
                destination,
                number,
                size_bytes,
                why,
            });
            self.refused.extend(refused);
        }
    }

    /// Sends a part of the train to its destination.
    fn send_part(&mut self, egress: &mut Egress, part: &Part) {
        let Part { destination, first, segment_bytes, .. } = *part;
        let bytes = &self.train[part.bytes.clone()];
        // A publisher that ends over a stuck device does not wait again for every train.
        let waits = egress.waits_when_full() && !(self.gave_up && self.publisher.is_closed());
        let outcomes = egress.send_train(bytes, segment_bytes, destination);
        let starts = (part.bytes.start..).step_by(segment_bytes);
        for (((number, datagram), start), outcome) in
            (first..).zip(bytes.chunks(segment_bytes)).zip(starts).zip(outcomes)
        {
            let Outcome::Refused(why) = *outcome else {
                self.gave_up = false;
                continue;
            };
            if why == Refusal::SocketFull && waits {
                hold(&mut self.held, Part { first: number, bytes: start..start + datagram.len(), ..*part });
            } else {
                self.refused.push(Refused { destination, number, size_bytes: datagram.len(), why });
            }
        }
        egress.log_end_of_trains();
    }
}

/// Adds a datagram to those that wait: to the last part, if it continues there.
fn hold(held: &mut Vec<Part>, datagram: Part) {
    match held.last_mut() {
        Some(before)
            if before.destination == datagram.destination && before.bytes.end == datagram.bytes.start =>
        {
            before.bytes.end = datagram.bytes.end;
        }
        _ => held.push(datagram),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(destination: usize, first: u64, bytes: Range<usize>) -> Part {
        Part { destination, first, bytes, segment_bytes: 100 }
    }

    #[test]
    fn datagrams_that_wait_one_behind_the_other_are_sent_as_one_train() {
        let mut held = Vec::new();
        for (destination, number) in [(0, 2), (0, 3), (0, 5), (1, 0), (1, 1)] {
            let start = 100 * usize::try_from(number).unwrap();
            hold(&mut held, part(destination, number, start..start + 100));
        }
        assert_eq!(held, [part(0, 2, 200..400), part(0, 5, 500..600), part(1, 0, 0..200)]);
    }

    #[test]
    fn datagrams_that_are_given_up_are_refused_one_by_one() {
        let publisher = Arc::new(PublicationShared::new());
        let mut outgoing = Outgoing::new(1_000, publisher, Instant::ORIGIN);
        outgoing.held = vec![part(1, 7, 200..450)];
        outgoing.give_up();
        assert!(!outgoing.waits());
        let refused: Vec<_> =
            outgoing.refused.iter().map(|it| (it.destination, it.number, it.size_bytes)).collect();
        assert_eq!(refused, [(1, 7, 100), (1, 8, 100), (1, 9, 50)]);
    }
}
