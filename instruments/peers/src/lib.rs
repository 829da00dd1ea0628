//! Frame of the benchmarks: options, cases whose systems take turns, rows of medians and spread for people or, with
//! `--json`, one object per line; places with processes on two sides, and other programs beside them.
//!
//! A program plays a role if it was started again for one ([`process::plays`]); otherwise it begins a [`Bench`], and
//! measures every [`Case`] that the command line does not leave out.
#![cfg(feature = "frame")]

mod bench;
mod figures;
#[cfg(feature = "monitor")]
mod monitor;
pub mod place;
pub mod process;
mod server;
mod standing;

pub use bench::{Bench, Case, Extent, Taken};
pub use figures::{Whose, cpu_seconds, quantiles, ratios};
#[cfg(feature = "monitor")]
pub use monitor::{Monitor, connect_page};
pub use server::Server;
pub use standing::Standing;
