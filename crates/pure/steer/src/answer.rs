//! Answers: what became of a command, and what an app says of an id that it is asked for.

use units::Epoch;

use crate::{Rule, Value};

/// What became of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// The command waits for a step boundary; another answer follows.
    Accepted,
    /// A rule refused it; it had no effect.
    Refused {
        /// The rule.
        rule: Rule,
    },
    /// Its deadline passed before a step boundary; it had no effect.
    Expired,
    /// A later command for the same parameter took its place; it had no effect.
    Superseded,
    /// It took effect.
    Applied(Applied),
    /// The app could not apply it; it had no effect.
    Failed {
        /// Reason in the app's words.
        reason: String,
    },
    /// The app cannot tell whether it took effect. It is never tried again.
    Uncertain,
}

/// Where and how a command took effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    /// Epoch of the app's stream.
    pub epoch: Epoch,
    /// Index of the first sample in which the change is.
    pub index: u64,
    /// Revision of the parameter since then.
    pub revision: u64,
    /// The value as the app read it back.
    pub readback: Value,
}

/// What an app says of an id that it is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// The command is known.
    Known(Answer),
    /// The command never arrived and will have no effect: it is refused if it still arrives.
    NeverSeen,
    /// The app may have known the command and forgotten it: the log tells.
    Forgotten,
}

impl Answer {
    /// Returns whether no other answer follows.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Accepted)
    }

    /// Returns the code, the same in messages, logs and streams.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Refused { .. } => 1,
            Self::Expired => 2,
            Self::Superseded => 3,
            Self::Applied(_) => 4,
            Self::Failed { .. } => 5,
            Self::Uncertain => 6,
        }
    }

    /// Returns the name, the same in counters and logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused { .. } => "refused",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Applied(_) => "applied",
            Self::Failed { .. } => "failed",
            Self::Uncertain => "uncertain",
        }
    }
}
