//! Outcomes of the offered entries.

use serde::{Deserialize, Serialize};

/// Outcome of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It arrived, and equals what was sent.
    Delivered,
    /// It was there before, and equals what would have been sent.
    AlreadyThere,
    /// It was refused, or did not arrive: the reason.
    Refused(String),
}

/// The account of a transfer: offered = delivered + already there + refused + missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Number of files and directories offered.
    pub offered: u64,
    /// Size of the offered entries, in bytes.
    pub offered_bytes: u64,
    /// Number of entries that arrived.
    pub delivered: u64,
    /// Size of the delivered entries, in bytes, of which some may have come over an earlier connection.
    pub delivered_bytes: u64,
    /// Number of entries that were there before.
    pub already_there: u64,
    /// Size of the entries that were there before, in bytes.
    pub already_there_bytes: u64,
    /// Number of entries that were refused, or did not arrive.
    pub refused: u64,
    /// Size of the refused entries, in bytes.
    pub refused_bytes: u64,
}

impl Tally {
    /// Returns whether no more entries have an outcome than were offered: an account of another host may say anything.
    #[must_use]
    pub fn closes(&self) -> bool {
        let within = |parts: [u64; 3], whole: u64| {
            let sum = parts.into_iter().try_fold(0_u64, u64::checked_add);
            sum.is_some_and(|sum| sum <= whole)
        };
        within([self.delivered, self.already_there, self.refused], self.offered)
            && within(
                [self.delivered_bytes, self.already_there_bytes, self.refused_bytes],
                self.offered_bytes,
            )
    }

    /// Returns the number of entries without an outcome yet.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.offered - self.delivered - self.already_there - self.refused
    }

    /// Returns the size of the entries without an outcome yet, in bytes.
    #[must_use]
    pub const fn missing_bytes(&self) -> u64 {
        self.offered_bytes - self.delivered_bytes - self.already_there_bytes - self.refused_bytes
    }

    pub(crate) fn offer(&mut self, bytes: u64) {
        self.offered += 1;
        self.offered_bytes += bytes;
    }

    pub(crate) fn count(&mut self, outcome: &Outcome, bytes: u64) {
        let (count, sum) = match outcome {
            Outcome::Delivered => (&mut self.delivered, &mut self.delivered_bytes),
            Outcome::AlreadyThere => (&mut self.already_there, &mut self.already_there_bytes),
            Outcome::Refused(_) => (&mut self.refused, &mut self.refused_bytes),
        };
        *count += 1;
        *sum += bytes;
    }
}

/// Event of a running transfer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// The list is known.
    Listed {
        /// Number of files and directories in it.
        entries: u64,
        /// Size of the entries, in bytes.
        bytes: u64,
    },
    /// An existing file is read to verify it.
    Checking {
        /// Path of the file.
        path: &'a str,
    },
    /// A file begins, or continues.
    Began {
        /// Path of the file.
        path: &'a str,
        /// First byte that is sent.
        from: u64,
        /// Size of the file. Units: bytes.
        bytes: u64,
    },
    /// Data were transferred.
    Moved {
        /// Number of bytes.
        bytes: u64,
    },
    /// An entry has its outcome.
    Ended {
        /// Path of the entry.
        path: &'a str,
        /// Size of the entry. Units: bytes.
        bytes: u64,
        /// Outcome of the entry.
        outcome: &'a Outcome,
    },
}
