//! Doctor: places where a host loses datagrams, by the kernel's own evidence, and remedies.
//!
//! It reads the host by `sys`, and judges by `diagnose`. A [`Watcher`] takes snapshots of the host and reports losses
//! between them; it needs no privilege, sees the sockets of every program, and changes nothing. [`fix`] tries remedies,
//! with consent.

mod bus;
mod change;
mod checkpoints;
mod drops;
mod facts;
mod fix;
mod journal;
mod json;
mod preflight;
mod record;
mod reporting;
mod seen;
mod tunables;
mod wanted;
mod watcher;

pub use self::bus::BusOptions;
pub use bpf::{HookError, Unseen};
pub use change::ChangeError;
pub use checkpoints::Checkpoints;
pub use diagnose::audit::{CHECK_NAMES, Check, Judgement};
pub use diagnose::{
    BufferCause, Change, Checkpoint, Datagrams, Evidence, Finding, Level, Losses, Owner, Passage, Passed,
    Place, Plan, Plans, Profile, Proof, Remedy, Socket, Subject, Tunables, Unplaced, Window, passed,
};
pub use drops::Drops;
pub use facts::Wishes;
pub use fix::{FixError, FixOptions, FixOutcome, FixStep, FixUser, Undone, fix, undo};
pub use journal::{Entry, Journal, JournalError};
pub use json::{AuditLine, UNEXPLAINED, UNKNOWN_REASON, finding_json, guide, unplaced_json};
pub use ledger::Stage;
pub use preflight::{Newcomer, Preflight, PreflightError, PreflightOptions};
pub use record::{About, Replay, ReplayError};
pub use reporting::ReportError;
pub use seen::Seen;
pub use tunables::tunables;
pub use wanted::Wanted;
pub use watcher::Watcher;

#[doc(hidden)]
pub mod fuzz {
    //! Parsers of foreign texts, for the fuzzers.
    pub use crate::facts::{read_rules, read_text};
}

use std::collections::BTreeSet;

/// Audits the security of a bus: reads this station's file of keys, and listens to announcements meanwhile.
#[must_use]
pub fn audit_bus(options: &BusOptions) -> Vec<Check> {
    diagnose::audit::bus::audit(&bus::facts(options))
}

/// Audits this host; with `interfaces`, only these of its interfaces.
#[must_use]
pub fn audit(wishes: &Wishes, interfaces: &BTreeSet<String>) -> Vec<Check> {
    diagnose::audit::audit(&facts::facts(wishes, interfaces))
}
