//! The leash of a process that was started by another: it ends when its standard input closes.
//!
//! The system closes it whatever way the other end ends. A thread of the core watches it, so that a function that holds the
//! interpreter for ever ends too.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use rustix::process::{Signal, getpid, kill_process};

/// Tells whether the other end let go.
#[pyclass(module = "tallycast._core", frozen)]
pub(crate) struct Leash {
    loose: Arc<AtomicBool>,
}

#[pymethods]
impl Leash {
    /// Whether standard input has closed: the process is to end in order, and is killed if it does not in time.
    #[getter]
    fn loose(&self) -> bool {
        self.loose.load(Ordering::Relaxed)
    }
}

/// Begins to watch standard input; `patience_ns` after it has closed this process is killed.
#[pyfunction]
pub(crate) fn hold_leash(patience_ns: u64) -> PyResult<Leash> {
    let loose = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&loose);
    thread::Builder::new().name("tallycast-leash".to_owned()).spawn(move || {
        let mut word = [0; 64];
        while matches!(std::io::stdin().read(&mut word), Ok(read) if read > 0) {}
        // A flag that is looked at again and again; nothing is ordered by it.
        told.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_nanos(patience_ns));
        // Not an exit in order: whatever holds the interpreter holds that up too.
        let _ = kill_process(getpid(), Signal::KILL);
    })?;
    Ok(Leash { loose })
}
