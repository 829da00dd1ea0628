//! Diagnosis of lost datagrams: from snapshots of a host and drop events to findings with cause, remedy and undo.
//!
//! The crate reads nothing itself. The caller passes consecutive [`Snapshot`]s to a [`Watch`], which reports losses
//! between them with place and cause. A finding never claims more than was seen: if a counter has several
//! explanations, the finding has them all. All known causes are in one table, [`CAUSES`].

pub mod audit;
mod causes;
mod events;
mod fix;
pub mod preflight;
mod remedy;
mod watch;

pub use causes::{CAUSES, Cause, DriverCount};
pub use events::checkpoints::{Checkpoint, Jump, Passage, Passed, Trail, Way};
pub use events::matching::{Datagrams, Unplaced};
pub use events::notices::Notices;
pub use events::profile::{Field, Named, NoProfile, Profile};
pub use events::{DropEvent, Fragment, Numbers};
pub use fix::proof::{Proof, Window};
pub use fix::tunables::{self, Tunables};
pub use fix::{Plan, Plans, passed};
pub use remedy::{ByCommand, Change, Remedy, Subject, ThreadNice};
pub use watch::buffer_cause::BufferCause;
pub use watch::driver::driver_counts_losses;
pub use watch::finding::{Evidence, Finding, Level, Place, Unit};
pub use watch::snapshot::{Owner, Settings, Snapshot, Socket, Thread};
pub use watch::stall::disk_levels;
pub use watch::{Losses, Observed, Watch};
