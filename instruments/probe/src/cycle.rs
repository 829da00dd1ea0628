//! One run of the cyclic exchange: a writer sends an array of `u32` every cycle, a reader receives it.
//!
//! Source: Scollo ("Performance comparison analysis of data-exchange efficiency in middleware systems with UDP and
//! shared memory"), algorithm 1 for the exchange, and §2.5 for when a run is good.
//!
//! - [`Schedule`]: start and deadline of each cycle, from one shared start;
//! - [`Cut`]: division of an array into pieces no larger than the transport takes, and their content;
//! - [`Sending`] and [`Assembly`]: counters of writer and reader;
//! - [`Account`]: both together, which must add up; [`Limits`] judge it.
//!
//! **A deviation and its reason.** Scollo compares each callback with the one before it (algorithm 3; the printed
//! comparison is inverted, the text is right). Applied literally, that fails half of all cycles however small the
//! array: of two intervals around a mean of one cycle time, one is longer. The rule here uses absolute time:
//! callback k, counted from 0, must not come after `start + (k + 1) · T`.

mod account;
mod assembly;
mod cut;
mod schedule;
mod sending;
mod verdict;

pub use account::{Account, Callbacks, Cycles, Imbalance, Pieces};
pub use assembly::{Accepted, Assembly};
pub use cut::{Content, Cut, CutError, HEADER_BYTES, Place};
pub use schedule::{Callback, Schedule};
pub use sending::{Sending, Sent};
pub use verdict::{Limits, Verdict};
