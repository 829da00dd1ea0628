//! Diagnosis of lost datagrams: from snapshots of a host and drop events to findings with cause, remedy and undo.
//!
//! The crate reads nothing itself. The caller passes consecutive [`Snapshot`]s to a [`Watch`], which reports losses
//! between them with place and cause. A finding never claims more than was seen: if a counter has several
//! explanations, the finding has them all.

pub mod audit;
mod buffer;
mod cause;
mod checkpoints;
mod driver;
mod drops;
mod event_matching;
mod finding;
mod fragments;
mod losses;
mod notices;
mod plan;
pub mod preflight;
mod profile;
mod proof;
mod reasons;
mod remedy;
mod rules;
mod snapshot;
mod softirq;
mod stall;
pub mod tunables;

pub use cause::Cause;
pub use checkpoints::{Checkpoint, Jump, Passage, Passed, Trail, Way};
pub use driver::driver_counts_losses;
pub use drops::{DropEvent, Fragment, Numbers};
pub use event_matching::{Datagrams, Unplaced};
pub use finding::{Evidence, Finding, Level, Place, Unit};
pub use losses::{Losses, Observed, Watch};
pub use notices::Notices;
pub use plan::{Plan, Plans, passed};
pub use profile::{Field, Named, NoProfile, Profile};
pub use proof::{Proof, Window};
pub use remedy::{ByCommand, Change, Remedy, Subject, ThreadNice, numbers_text};
pub use snapshot::{Owner, Settings, Snapshot, Socket, Thread};
pub use stall::disk_levels;
pub use tunables::Tunables;
