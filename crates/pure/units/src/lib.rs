//! Basic types of the other crates: instants, rates, identities, ranges, random numbers, a histogram of durations.
//!
//! Values in, values out. Nothing here reads a clock or a random source of the operating system: a machine receives
//! its `Instant` and its seed. Start with [`Instant`] and [`RangeSet`].

mod as_text;
mod histogram;
mod identity;
mod random;
mod range_set;
mod rate;
pub mod text;
mod time;

pub use histogram::Histogram;
pub use identity::{Epoch, NotAnEpoch, ReaderId, StreamId};
pub use random::Random;
pub use range_set::RangeSet;
pub use rate::{RateError, SampleRate};
pub use time::{Instant, WallTime};
