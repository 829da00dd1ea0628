//! The doctor's loop of remedies, with its steps as JSON.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use doctor::{Change, FixError, FixOptions, FixOutcome, FixStep, FixUser, Journal, Wanted};
use pyo3::prelude::*;

use crate::errors::{self, Kind};
use crate::waiting::SLICE;

/// Fixes losses of sockets; returns whether none remain.
///
/// `told` takes each step as JSON; `consents` returns whether the change of the last one may be made.
#[pyfunction]
pub(crate) fn fix(
    py: Python<'_>,
    ports: Vec<u16>,
    pids: Vec<u32>,
    window_ns: u64,
    journal: Option<PathBuf>,
    told: Py<PyAny>,
    consents: Py<PyAny>,
) -> PyResult<bool> {
    let options = FixOptions {
        wanted: Wanted { ports: ports.into_iter().collect(), pids: pids.into_iter().collect() },
        window: Duration::from_nanos(window_ns),
        journal: journal.unwrap_or_else(Journal::default_path),
    };
    let mut caller = Caller { told, consents, interrupt: None };
    let outcome = py.detach(|| doctor::fix(options, &mut caller));
    caller.interrupt.map_or(Ok(()), Err)?;
    match outcome {
        Ok(outcome) => Ok(outcome == FixOutcome::Fixed),
        Err(Failure::Python(error)) => Err(error),
        Err(Failure::Fix(error)) => Err(errors::error(py, Kind::Doctor, errors::chain(&error))),
    }
}

/// The Python program that called.
struct Caller {
    told: Py<PyAny>,
    consents: Py<PyAny>,
    /// Exception of a signal during a measurement, which ends it.
    interrupt: Option<PyErr>,
}

enum Failure {
    Python(PyErr),
    Fix(FixError),
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<FixError> for Failure {
    fn from(error: FixError) -> Self {
        Self::Fix(error)
    }
}

impl FixUser for Caller {
    type Error = Failure;

    fn step(&mut self, step: &FixStep<'_>) -> Result<(), Failure> {
        Python::attach(|py| self.told.call1(py, (step.to_json().to_string(),)))?;
        Ok(())
    }

    fn consents(&mut self, _change: &Change) -> Result<bool, Failure> {
        Ok(Python::attach(|py| self.consents.call0(py)?.is_truthy(py))?)
    }

    fn wait(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while self.interrupt.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(SLICE));
            self.interrupt = Python::attach(|py| py.check_signals()).err();
        }
        self.interrupt.is_none()
    }
}
