//! One run of the cyclic exchange: a writer sends an array of `u32` every cycle, a reader takes it in.
//!
//! Source: Scollo ("Performance comparison analysis of data-exchange efficiency in middleware systems with
//! UDP and shared memory"), algorithm 1, which is the exchange, and §2.5, which says when a run is good.
//!
//! - [`Schedule`]: when each cycle begins and until when it must have been called back, from one shared start;
//! - [`Cut`]: how an array becomes pieces no larger than the transport takes, and what stands in them;
//! - [`Sending`] and [`Assembly`]: what writer and reader count;
//! - [`Account`]: both together, which must add up; [`Limits`] judge it.
//!
//! **A deviation and its reason.** Scollo compares each callback with the one before it (algorithm 3; as
//! printed the comparison is the wrong way round, the text is right). Taken at its word that fails half of
//! all cycles however small the array: of two intervals around a mean of one cycle time, one is longer. The
//! rule here is on absolute time: callback k, counted from 0, must not come after `start + (k + 1) · T`.

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
