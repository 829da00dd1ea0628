//! Errors as the exceptions of `tallycast._errors`.

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
}

/// Makes an exception with a text that includes the remedy.
pub(crate) fn error(py: Python<'_>, kind: Kind, text: impl ToString) -> PyErr {
    static CLASSES: [PyOnceLock<Py<PyType>>; 8] = [const { PyOnceLock::new() }; 8];
    let name = match kind {
        Kind::Config => "ConfigError",
        Kind::Publish => "PublishError",
        Kind::Full => "Full",
        Kind::Closed => "Closed",
        Kind::Fork => "ForkError",
        Kind::Archive => "ArchiveError",
        Kind::Doctor => "DoctorError",
        Kind::Bridge => "BridgeError",
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
        PublishError::Dtype { .. }
        | PublishError::Ragged { .. }
        | PublishError::Times { .. }
        | PublishError::BlockTooLarge { .. }
        | PublishError::TooLarge(_) => Kind::Config,
        _ => Kind::Publish,
    };
    error(py, kind, why)
}
