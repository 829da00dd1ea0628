//! Cyclic apps as pure machines: due times of cycles, their counters, and the data flow between
//! apps.
//!
//! A cyclic app is a function called at a fixed period with its inputs and outputs.
//! [`CycleMachine`] keeps the schedule and the [counters](AppCounters) of one app. [`Registration`]
//! and [`StatusRow`] describe the app to others, in a stream like any other. [`Observer`] judges an
//! app from that stream, and [`picture`] draws which app feeds which.
//!
//! Not here: clocks, threads, streams. Those are in `tallycast`. Definitions: `docs/guide/cyclic.md`.

mod app_counters;
mod input_counters;
mod machine;
mod observer;
mod picture;
mod registration;
mod schedule;
mod status;
mod timer_rule;

pub use app_counters::AppCounters;
pub use input_counters::{Freshness, InputCounters, News};
pub use machine::{CycleMachine, Ended, InputPlan};
pub use observer::{AppLook, AppState, Observer};
pub use picture::{Feeder, feeder_of, picture};
pub use registration::{MAX_WIRES, Registration, RegistrationError, STATUS_PREFIX, Take, Wire};
pub use schedule::{Beat, Due, PeriodError, Schedule};
pub use status::{InputStatus, NEVER, StatusRow};
pub use timer_rule::{AFTER_ALARM, ALARM_ABOVE, TimerRule};
