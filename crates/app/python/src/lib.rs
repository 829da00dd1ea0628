//! The Python module `tallycast._core`: NumPy arrays in and out, no logic of its own.
//!
//! The Python API is in `python/tallycast`; its classes are built on those here. Calls that wait or copy much release
//! the interpreter.

mod app;
mod archive;
mod block;
mod doctor;
mod elements;
mod errors;
mod follow;
mod fork;
mod leash;
mod node;
mod publisher;
mod remote;
mod said;
mod schema;
mod steering;
mod subscriber;
mod text;
mod waiting;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use crate::app::run_app;
    #[pymodule_export]
    use crate::archive::{StoredArchive, StoredRecording, StoredRows, thin};
    #[pymodule_export]
    use crate::block::Block;
    #[pymodule_export]
    use crate::doctor::fix;
    #[pymodule_export]
    use crate::follow::CsvFollower;
    #[pymodule_export]
    use crate::fork::forked;
    #[pymodule_export]
    use crate::leash::{Leash, hold_leash};
    #[pymodule_export]
    use crate::node::{bus_of, now_ns, streams};
    #[pymodule_export]
    use crate::publisher::Publisher;
    #[pymodule_export]
    use crate::remote::Remote;
    #[pymodule_export]
    use crate::steering::Steering;
    #[pymodule_export]
    use crate::subscriber::Subscriber;
    #[pymodule_export]
    use crate::text::{check_stream_name, duration_ns, moment_ns, seconds_text};
}
