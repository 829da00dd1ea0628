//! What became of what was offered.

/// What became of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It came, and is what was sent.
    Delivered,
    /// It was there before, and is what would have been sent.
    AlreadyThere,
    /// It was not taken, or did not come.
    Refused(String),
}

/// The account of a transfer: offered = delivered + already there + refused + missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Files and directories that were offered.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Those that came.
    pub delivered: u64,
    /// Their bytes, of which some may have come over an earlier connection.
    pub delivered_bytes: u64,
    /// Those that were there before.
    pub already_there: u64,
    /// Their bytes.
    pub already_there_bytes: u64,
    /// Those that were not taken, or did not come.
    pub refused: u64,
    /// Their bytes.
    pub refused_bytes: u64,
}

impl Tally {
    /// Returns what has not come to an end yet.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.offered - self.delivered - self.already_there - self.refused
    }

    /// Returns the bytes of what has not come to an end yet.
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

/// What happens while a transfer goes on.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// The list is known.
    Listed {
        /// Files and directories in it.
        entries: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// What is there already is read again, to know that it is right.
    Checking {
        /// Which file.
        path: &'a str,
    },
    /// A file begins, or goes on.
    Began {
        /// Which.
        path: &'a str,
        /// From which byte on.
        from: u64,
        /// Its size. Units: bytes.
        bytes: u64,
    },
    /// Data moved.
    Moved {
        /// How many bytes.
        bytes: u64,
    },
    /// An entry came to its end.
    Ended {
        /// Which.
        path: &'a str,
        /// Its size. Units: bytes.
        bytes: u64,
        /// How.
        outcome: &'a Outcome,
    },
}
