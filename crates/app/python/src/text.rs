//! Quantities as text, in the notation of the command.

use pyo3::prelude::*;
use units::text;

use crate::errors;

/// Reads a duration such as `10ms`. Units: nanoseconds.
#[pyfunction]
pub(crate) fn duration_ns(py: Python<'_>, text: &str) -> PyResult<u128> {
    let duration = text::duration(text).map_err(|error| errors::config(py, &error))?;
    Ok(duration.as_nanos())
}

/// Writes a time such as `9.70 µs`.
#[pyfunction]
pub(crate) fn seconds_text(seconds: f64) -> String {
    text::seconds(seconds)
}
