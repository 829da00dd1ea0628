//! Objects opened before a fork: unusable in the child, with a clear error.
//!
//! The threads that send and receive do not exist in the child. Waiting for them there would never end.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::errors::{Kind, error};

/// Number of forks that led to this process.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Records that this is a forked child; called by Python right after the fork.
#[pyfunction]
pub(crate) fn forked() {
    // Relaxed: a forked child has one thread.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The process that opened something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home(u64);

impl Home {
    pub(crate) fn here() -> Self {
        Self(GENERATION.load(Ordering::Relaxed))
    }

    pub(crate) fn is_here(self) -> bool {
        self == Self::here()
    }

    /// Refuses what was opened before a fork.
    pub(crate) fn check(self, py: Python<'_>, what: &str) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        let text = format!(
            "this {what} was opened before the process was forked, and its threads are not in the child\n\
             open it in the child, or start processes by multiprocessing.get_context(\"spawn\")"
        );
        Err(error(py, Kind::Fork, text))
    }
}
