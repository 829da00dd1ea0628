//! Records of the log: what an app notes before and after everything it decides.

mod bytes;

use sample::StreamName;
use units::Epoch;

use crate::command::{MAX_NAME_BYTES, MAX_REASON_BYTES};
use crate::{Answer, Command, CommandId, Head, Rule, Scope, Switches, Totals};

/// One record of an app's log.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Record {
    /// The app started.
    Began {
        /// Name of the app.
        app: StreamName,
        /// Epoch of its stream.
        epoch: Epoch,
    },
    /// A command waits for its decision: on disk before it can take effect.
    Intent {
        /// The command.
        command: Command,
        /// Its sender, as the access file names it.
        by: String,
    },
    /// A command was decided when it arrived.
    Attempt {
        /// The command; texts that are too long are cut.
        command: Command,
        /// Its sender, as the access file names it.
        by: String,
        /// Refused or expired.
        answer: Answer,
    },
    /// A command that waited was decided.
    Outcome {
        /// The command.
        id: CommandId,
        /// Name of its parameter.
        parameter: String,
        /// Revision of the parameter since then.
        revision: u64,
        /// What became of it.
        answer: Answer,
    },
    /// The lease of a group changed hands; renewals and leases that ran out are not told.
    Lease {
        /// Name of the group.
        group: String,
        /// The session's principal, as the access file names it.
        by: String,
        /// The change.
        change: LeaseChange,
    },
    /// A kill switch was turned.
    Switch {
        /// What it stops.
        scope: Scope,
        /// Whether it was turned on.
        is_on: bool,
        /// The session's principal, or `host`.
        by: String,
        /// Reason in its words.
        reason: String,
    },
    /// Commands were refused while too many records waited for the disk: their number by rule.
    Omitted {
        /// Rules, and how many commands each refused.
        refused: Vec<(Rule, u64)>,
    },
    /// A segment of the log begins: what the records before it come to, so that a restart need not read them.
    Checkpoint {
        /// Name of the app.
        app: StreamName,
        /// Head of the log before this record.
        before: Head,
        /// Totals of its commands.
        totals: Totals,
        /// Its kill switches.
        switches: Switches,
    },
    /// Behind a checkpoint: a parameter that commands have changed.
    Standing {
        /// Its name.
        parameter: String,
        /// Its revision.
        revision: u64,
        /// The last commands that took effect, or may have.
        last: Vec<CommandId>,
    },
    /// Behind a checkpoint: a command without an outcome.
    Open {
        /// The command.
        id: CommandId,
        /// Name of its parameter.
        parameter: String,
        /// First half of its digest.
        fingerprint: u128,
    },
}

/// Change of a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseChange {
    /// It was free and is held now.
    Granted,
    /// Its holder released it, or the holder's session ended.
    Released,
    /// An administrator took it over.
    TakenOver {
        /// The former holder; empty if there was none.
        from: String,
        /// Reason in the administrator's words.
        reason: String,
    },
}

/// Returns a command whose texts have at most the size that a record may have.
pub(crate) fn shortened(mut command: Command) -> Command {
    shorten(&mut command.parameter, MAX_NAME_BYTES);
    shorten(&mut command.reason, MAX_REASON_BYTES);
    command
}

/// Cuts a text at the end of a character.
pub(crate) fn shorten(text: &mut String, max_bytes: usize) {
    let ends = text.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = ends.take_while(|end| *end <= max_bytes).last().unwrap_or(0);
    text.truncate(end);
}
