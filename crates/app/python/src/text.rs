//! Quantities as text, in the notation of the command.

use archive::Moment;
use pyo3::prelude::*;
use sample::StreamName;
use units::{WallTime, text};

use crate::errors::{self, Kind, argument};

/// Reads a duration such as `10ms`. Units: nanoseconds.
#[pyfunction]
pub(crate) fn duration_ns(py: Python<'_>, #[pyo3(from_py_with = argument)] text: String) -> PyResult<u128> {
    let duration = text::duration(&text).map_err(|error| errors::config(py, &error))?;
    Ok(duration.as_nanos())
}

/// Writes a time such as `9.70 µs`.
#[pyfunction]
pub(crate) fn seconds_text(seconds: f64) -> String {
    text::seconds(seconds)
}

/// Reads a time; one relative to a recording only if its beginning and end are `known`. Units: nanoseconds since 1970 UTC.
#[pyfunction]
#[pyo3(signature = (text, known=None))]
pub(crate) fn moment_ns(py: Python<'_>, text: &str, known: Option<(i64, i64)>) -> PyResult<i64> {
    let moment: Moment = text.parse().map_err(|error| errors::error(py, Kind::Moment, error))?;
    match (moment, known) {
        (Moment::At(time), _) => Ok(time.as_nanos()),
        (relative, Some((start, end))) => {
            let (start, end) = (WallTime::from_nanos(start), WallTime::from_nanos(end));
            Ok(relative.in_recording(start, end).as_nanos())
        }
        (_, None) => {
            let why = format!(
                "invalid time `{text}`: nothing here has a beginning or an end\nwrite 2026-11-21T20:15:00Z"
            );
            Err(errors::error(py, Kind::Moment, why))
        }
    }
}

/// Refuses what cannot be the name of a stream.
#[pyfunction]
pub(crate) fn check_stream_name(
    py: Python<'_>,
    #[pyo3(from_py_with = argument)] name: String,
) -> PyResult<()> {
    name.parse::<StreamName>().map(drop).map_err(|error| errors::config(py, &error))
}
