//! Results of the calls of an app's function, and of the app itself.

use std::error::Error;
use std::io;

use cyclic::{AppCounters, PeriodError, RegistrationError};
use sample::StreamName;
use units::Epoch;
use wire::Totals;

use crate::event::StreamAccount;
use crate::node::NodeError;
use crate::steering::{SteeringError, Totals as Commands};

/// Result of an app's function: an error ends the app in order, and is returned by [`App::run`](super::App::run).
pub type CycleResult = Result<(), Box<dyn Error + Send + Sync>>;

/// Report of an app that has ended.
#[derive(Clone, Debug)]
pub struct AppReport {
    /// Counters of its cycles and inputs.
    pub counters: AppCounters,
    /// Totals of each output at this end.
    pub outputs: Vec<OutputReport>,
    /// The accounts of its inputs.
    pub accounts: Vec<StreamAccount>,
    /// Account of the commands to its parameters; none if it has no parameter.
    pub commands: Option<Commands>,
}

/// Totals of an output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputReport {
    /// The stream.
    pub stream: StreamName,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its totals.
    pub totals: Totals,
}

/// Reason why an app could not run, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// A stream could not be opened.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The app cannot be steered.
    #[error(transparent)]
    Steering(#[from] SteeringError),
    /// The period is too short to be kept.
    #[error(transparent)]
    Period(#[from] PeriodError),
    /// The registration is not valid.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The priority is not valid.
    #[error("{0} is not a priority of SCHED_FIFO\nuse 1 to 99; 50 is usual, kernel threads have 50 too")]
    Priority(u8),
    /// The thread could not be created.
    #[error("the app's thread cannot be started")]
    Thread(#[source] io::Error),
    /// The function returned an error.
    #[error("the app `{app}` ended in cycle {cycle}: its function failed")]
    Failed {
        /// Name of the app.
        app: String,
        /// Index of the cycle.
        cycle: u64,
        /// Error of the function.
        source: Box<dyn Error + Send + Sync>,
        /// Report of the app until then.
        report: Box<AppReport>,
    },
    /// The function panicked.
    #[error("the app `{app}` ended in cycle {cycle}: its function panicked: {message}")]
    Panicked {
        /// Name of the app.
        app: String,
        /// Index of the cycle.
        cycle: u64,
        /// Message of the panic.
        message: String,
        /// Report of the app until then.
        report: Box<AppReport>,
    },
}
