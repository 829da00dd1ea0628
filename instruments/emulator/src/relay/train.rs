//! A train: datagrams of one size (the last may be shorter) that are due together and leave in one piece.

use std::net::SocketAddr;

use sys::{MAX_SEGMENTS, MAX_TRAIN_BYTES, Outcome, Refusal, SendSocket};
use units::Instant;

use crate::account::Account;

/// Datagrams stored one after the other.
pub(crate) struct Train {
    bytes: Vec<u8>,
    /// Size of all but the last. Units: bytes.
    segment_bytes: usize,
    last_bytes: usize,
    /// Due time of each datagram.
    pub(crate) dues: Vec<Instant>,
    most: usize,
}

impl Train {
    /// Makes an empty train for at most `most` datagrams.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(MAX_TRAIN_BYTES),
            segment_bytes: 0,
            last_bytes: 0,
            dues: Vec::with_capacity(MAX_SEGMENTS),
            most: most.min(MAX_SEGMENTS),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.dues.clear();
    }

    /// Returns whether a datagram of that size may follow.
    pub(crate) fn takes(&self, size_bytes: usize) -> bool {
        // A train cannot hold an empty datagram.
        self.dues.is_empty()
            || self.dues.len() < self.most
                && size_bytes > 0
                && size_bytes <= self.segment_bytes
                && self.last_bytes == self.segment_bytes
                && self.bytes.len() + size_bytes <= MAX_TRAIN_BYTES
    }

    pub(crate) fn push(&mut self, due: Instant, bytes: &[u8]) {
        if self.dues.is_empty() {
            self.segment_bytes = bytes.len();
        }
        self.last_bytes = bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.dues.push(due);
    }

    /// Sends the train, and counts the outcome of each datagram.
    pub(crate) fn leave(&self, by: &mut SendSocket, to: SocketAddr, account: &mut Account) {
        let outcomes = if self.dues.len() > 1 {
            by.send_train(&self.bytes, self.segment_bytes, to)
        } else {
            by.send_batch(&[&self.bytes], to)
        };
        for (index, outcome) in outcomes.iter().enumerate() {
            match outcome {
                Outcome::Sent => {
                    account.passed += 1;
                    let is_last = index + 1 == self.dues.len();
                    account.passed_bytes += if is_last { self.last_bytes } else { self.segment_bytes } as u64;
                }
                Outcome::Refused(Refusal::Peer) => account.no_listener += 1,
                Outcome::Refused(_) => account.refused += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(most: usize, sizes: &[usize]) -> Train {
        let mut train = Train::new(most);
        for size in sizes {
            assert!(train.takes(*size), "{size} of {sizes:?}");
            train.push(Instant::ORIGIN, &vec![1; *size]);
        }
        train
    }

    #[test]
    fn a_train_is_of_one_size_and_ends_with_a_shorter_datagram() {
        assert!(train(64, &[100, 100]).takes(100));
        assert!(train(64, &[100, 100]).takes(1));
        assert!(!train(64, &[100, 100]).takes(101));
        assert!(!train(64, &[100, 99]).takes(99));
        assert!(!train(64, &[100]).takes(0));
        assert!(!train(64, &[0]).takes(0));
        assert!(!train(1, &[100]).takes(100));
        assert!(!train(64, &[9; 64]).takes(9));
        assert!(train(64, &[32_000, 32_000]).takes(1_507));
        assert!(!train(64, &[32_000, 32_000]).takes(1_508));
    }
}
