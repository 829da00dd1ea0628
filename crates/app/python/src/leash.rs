//! The leash of a process that was started by another: it ends when its standard input closes.
//!
//! The system closes it however the other end ends. A thread of the core watches it, so that a function that holds the
//! interpreter forever is ended too.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use rustix::process::{Signal, getpid, kill_process};

/// Watches whether the other end closed the leash.
#[pyclass(module = "tallycast._core", frozen)]
pub(crate) struct Leash {
    loose: Arc<AtomicBool>,
}

#[pymethods]
impl Leash {
    /// True once standard input has closed: the process must end in order, and is killed if it does not in time.
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
        // A polled flag that orders no other memory.
        told.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_nanos(patience_ns));
        // Not an orderly exit: a function that holds the interpreter would block that, too.
        let _ = kill_process(getpid(), Signal::KILL);
    })?;
    Ok(Leash { loose })
}
