//! Errors as the exceptions of `tallycast._errors`.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use tallycast::PublishError;

/// The exceptions that are raised from here.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Config,
    Publish,
    Full,
    Closed,
    Fork,
    Archive,
    Doctor,
    Bridge,
    Moment,
    Argument,
    Steering,
    SteeringDenied,
}

/// Makes an exception with a text that includes the remedy.
pub(crate) fn error(py: Python<'_>, kind: Kind, text: impl ToString) -> PyErr {
    static CLASSES: [PyOnceLock<Py<PyType>>; 12] = [const { PyOnceLock::new() }; 12];
    let name = match kind {
        Kind::Config => "ConfigError",
        Kind::Publish => "PublishError",
        Kind::Full => "Full",
        Kind::Closed => "Closed",
        Kind::Fork => "ForkError",
        Kind::Archive => "ArchiveError",
        Kind::Doctor => "DoctorError",
        Kind::Bridge => "BridgeError",
        Kind::Moment => "MomentError",
        Kind::Argument => "ArgumentError",
        Kind::Steering => "SteeringError",
        Kind::SteeringDenied => "SteeringDenied",
    };
    match CLASSES[kind as usize].import(py, "tallycast._errors", name) {
        Ok(class) => PyErr::from_type(class.clone(), (text.to_string(),)),
        Err(missing) => missing,
    }
}

/// Returns an error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Makes the exception for an invalid argument or setting.
pub(crate) fn config(py: Python<'_>, why: &dyn std::fmt::Display) -> PyErr {
    error(py, Kind::Config, why)
}

/// Makes the exception for samples that could not be published.
pub(crate) fn publish(py: Python<'_>, why: &PublishError) -> PyErr {
    let kind = match why {
        PublishError::Full | PublishError::StillFull { .. } => Kind::Full,
        PublishError::Forked => Kind::Fork,
        PublishError::Dtype { .. }
        | PublishError::Ragged { .. }
        | PublishError::Times { .. }
        | PublishError::BlockTooLarge { .. }
        | PublishError::HoleTooLong(_)
        | PublishError::TooLarge(_) => Kind::Config,
        _ => Kind::Publish,
    };
    error(py, kind, why)
}

/// Reads an argument of Python; one of a type or size that means nothing is an `ArgumentError`.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py>>(value: &Bound<'py, PyAny>) -> PyResult<T> {
    let found: PyResult<T> = value.extract().map_err(Into::into);
    found.map_err(|why| {
        let py = value.py();
        let is_of_type = why.is_instance_of::<PyTypeError>(py) || why.is_instance_of::<PyOverflowError>(py);
        if !is_of_type {
            return why;
        }
        let given = value.repr().map_or_else(|_| String::from("the argument"), |it| it.to_string());
        error(py, Kind::Argument, format!("{given} is not what this argument takes: {}", why.value(py)))
    })
}
