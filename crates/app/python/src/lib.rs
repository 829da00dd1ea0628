//! The Python module `tallycast._core`: NumPy arrays in and out, no logic of its own.

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
