//! Cyclic apps: a function called at a fixed period, with the streams it reads and writes.
//!
//! [`Node::app`](crate::Node::app) begins to describe an [`App`]; [`App::run`] calls its function at absolute
//! due times, keeps its counters and reports every cycle in a status stream, `apps/NAME`. [`AppsWatch`] reads
//! those of all apps and returns the state of each. Definitions and units: `docs/guide/cyclic.md`.
//!
//! ```no_run
//! use tallycast::Node;
//! use tallycast::cyclic::Take;
//!
//! let mut app = Node::from_env()?.app("vehicle/engine");
//! let pedal = app.input::<f64>("driver/pedal", Take::Newest);
//! let torque = app.output::<f64>("engine/torque", [("torque", "Nm")]);
//! let report = app.run(|cycle| {
//!     if let Some([position]) = cycle.input(pedal).newest() {
//!         cycle.write(torque, &[400.0 * position])?;
//!     }
//!     Ok(())
//! })?;
//! println!("{} cycles, {} overran", report.counters.cycles, report.counters.overruns);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod app;
mod cycle;
mod input;
mod outcome;
mod output;
mod plan;
mod ports;
mod run;
mod watch;

pub use app::{App, DEFAULT_PERIOD};
pub use cycle::{Cycle, Received, Sample, UntypedReceived};
pub use cyclic::{
    AppCounters, AppLook, AppState, Beat, Feeder, Freshness, InputCounters, PeriodError, Registration,
    RegistrationError, StatusRow, Take, TimerRule, Wire, picture,
};
pub use outcome::{AppError, AppReport, CycleResult, OutputReport};
pub use ports::{Input, Output, UntypedInput, UntypedOutput};
pub use units::Histogram;
pub use watch::{AppsWatch, app_json};
