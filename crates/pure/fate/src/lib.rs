//! What became of datagrams that did not arrive: the reasoning from what a host shows to a verdict with cure and undo.
//!
//! Nothing here looks at anything: whoever does hands one [`Look`] after the other to a [`Watch`], which says what was lost between
//! them, where, and why. A verdict never says more than was seen: what a counter cannot tell apart is said to be so.

mod cause;
mod drops;
mod fragments;
mod look;
mod losses;
mod naming;
mod profile;
mod reasons;
mod rules;
mod verdict;

pub use cause::Cause;
pub use drops::{DropEvent, Fragment, Numbers};
pub use look::{Look, Owner, Settings, Socket, Thread};
pub use losses::{Losses, Observed, Watch};
pub use naming::{Datagrams, Unplaced};
pub use profile::{Field, Named, NoProfile, Profile};
pub use verdict::{Cure, Evidence, Place, Unit, Verdict};
