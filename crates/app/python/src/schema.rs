//! Schemas in Python, and the shapes of a stream's arrays.

use std::sync::Arc;

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::PyString;
use sample::{Dtype, Schema};

/// Schema data shared by all blocks of a stream.
pub(crate) struct Layout {
    pub(crate) schema: Arc<Schema>,
    /// `tallycast.Schema`.
    pub(crate) object: Py<PyAny>,
    pub(crate) descr: Py<PyArrayDescr>,
    /// The shape of one sample in the array of a block.
    pub(crate) sample_shape: Vec<usize>,
    pub(crate) elements_per_sample: usize,
}

impl Layout {
    pub(crate) fn new(py: Python<'_>, schema: Arc<Schema>) -> PyResult<Self> {
        let text = serde_json::json!(schema).to_string();
        let object = py.import("tallycast._schema")?.getattr("Schema")?.call_method1("_of_json", (text,))?;
        Ok(Self {
            object: object.unbind(),
            descr: descr(py, schema.dtype)?.unbind(),
            sample_shape: sample_shape(&schema),
            elements_per_sample: schema.elements_per_sample() as usize,
            schema,
        })
    }
}

/// Returns the shape of one sample: that of the only channel, or how many channels there are; of channels of several shapes
/// how many elements they have together.
fn sample_shape(schema: &Schema) -> Vec<usize> {
    match schema.channels.as_slice() {
        [only] if !only.shape.is_empty() => only.shape.iter().map(|extent| *extent as usize).collect(),
        channels if channels.iter().all(|channel| channel.shape.is_empty()) => vec![channels.len()],
        _ => vec![schema.elements_per_sample() as usize],
    }
}

/// Returns NumPy's dtype of a stream's elements.
pub(crate) fn descr(py: Python<'_>, dtype: Dtype) -> PyResult<Bound<'_, PyArrayDescr>> {
    PyArrayDescr::new(py, PyString::new(py, dtype.numpy_name()))
}
