//! Cyclic apps as pure machines: when the next cycle is due, what became of each, and who feeds whom.
//!
//! A cyclic app is a function called at a fixed period with its inputs and outputs. [`CycleMachine`] keeps the
//! time and the [counters](AppCounters) of one; [`Registration`] and [`StatusRow`] are how it tells others of itself, by
//! a stream like any other; [`Observer`] judges an app by that stream from outside, and [`picture`] draws who
//! feeds whom.
//!
//! Not here: clocks, threads, streams. Those belong to `tallycast`. Definitions: `docs/cyclic.md`.

mod app_counters;
mod histogram;
mod input_counters;
mod machine;
mod observer;
mod picture;
mod registration;
mod schedule;
mod status;
mod timer_rule;

pub use app_counters::AppCounters;
pub use histogram::Histogram;
pub use input_counters::{Freshness, InputCounters, News};
pub use machine::{CycleMachine, Ended, InputPlan};
pub use observer::{AppLook, AppState, Observer};
pub use picture::{Feeder, feeder_of, picture};
pub use registration::{MAX_WIRES, Registration, RegistrationError, STATUS_PREFIX, Take, Wire};
pub use schedule::{Beat, Due, PeriodError, Schedule};
pub use status::{InputStatus, NEVER, StatusRow};
pub use timer_rule::{AFTER_ALARM, ALARM_ABOVE, TimerRule};
