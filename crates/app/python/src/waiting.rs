//! Waiting with the interpreter released, signals handled, and `close` obeyed.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::errors::config;
use crate::said;

/// Interval at which a waiting call checks for Ctrl-C.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Reads a number of seconds; `what` has it.
pub(crate) fn seconds(py: Python<'_>, what: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| config(py, &format!("{what} is a number of seconds of 0 or more, not {value}")))
}

/// Maximum wait of a call.
#[derive(Clone, Copy)]
pub(crate) struct Patience(Option<Duration>);

impl Patience {
    /// Reads a time-out in seconds; `None` is unlimited.
    pub(crate) fn of(py: Python<'_>, timeout: Option<f64>) -> PyResult<Self> {
        timeout.map(|timeout| seconds(py, "a time-out", timeout)).transpose().map(Self)
    }

    /// Calls `attempt` with how long it may wait until it returns something, or the patience is over.
    ///
    /// `attempt` runs while other Python threads do.
    pub(crate) fn wait<T: Send>(
        self,
        py: Python<'_>,
        mut attempt: impl FnMut(Duration) -> Option<T> + Send,
    ) -> PyResult<Option<T>> {
        let deadline = self.0.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            let left = deadline.map_or(Duration::MAX, |it| it.saturating_duration_since(Instant::now()));
            let found = py.detach(|| attempt(left.min(SLICE)));
            said::tell(py)?;
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
            py.check_signals()?;
        }
    }
}
