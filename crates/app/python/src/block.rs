//! A block in Python: an array over its memory, its position in its stream, and the gaps before it.

use std::sync::{Arc, Weak};

use numpy::PyArray1;
use pyo3::intern;
use pyo3::prelude::*;
use sample::StreamName;
use serde_json::Value;
use tallycast::{Delivery, Foreign, StreamGap, stream_gap_json};
use units::{Epoch, RangeSet};

use crate::elements::{array_over, view_of};
use crate::schema::Layout;
use crate::subscriber::Shared;

/// A run of consecutive samples.
#[pyclass(frozen, module = "tallycast")]
pub(crate) struct Block {
    /// The samples: `[samples, channels]`, or `[samples, *shape]` of the only channel. The reader's own memory.
    #[pyo3(get)]
    array: Py<PyAny>,
    stream: Arc<StreamName>,
    epoch: Epoch,
    /// Index of the first sample since the epoch began.
    #[pyo3(get)]
    first_index: u64,
    /// Time of the first sample. Units: nanoseconds since 1970 UTC.
    #[pyo3(get)]
    t0_ns: i64,
    /// Number of samples skipped for this one, if only the newest is requested.
    #[pyo3(get)]
    skipped: u64,
    samples: u64,
    missing: RangeSet,
    /// The array is a view of the ring.
    foreign: Option<Arc<dyn Foreign>>,
    gaps: Vec<StreamGap>,
    layout: Arc<Layout>,
    reader: Weak<Shared>,
}

impl Block {
    pub(crate) fn new(
        py: Python<'_>,
        delivery: Delivery,
        layout: Arc<Layout>,
        reader: Weak<Shared>,
    ) -> PyResult<Py<Self>> {
        let Delivery { block, gaps, passed_over } = delivery;
        let samples = usize::try_from(block.samples).expect("a block's samples fit in memory");
        let shape: Vec<usize> = std::iter::once(samples).chain(layout.sample_shape.iter().copied()).collect();
        let element_bytes = block.schema.dtype.size_bytes();
        let foreign = block.data.foreign().cloned();
        let descr = layout.descr.bind(py);
        let array = match &foreign {
            Some(foreign) => view_of(py, Arc::clone(foreign), descr, &shape)?,
            None => array_over(py, block.data, descr, element_bytes, &shape)?,
        };
        let made = Self {
            array: array.unbind(),
            stream: block.stream,
            epoch: block.epoch,
            first_index: block.first_index,
            t0_ns: block.t0.as_nanos(),
            skipped: passed_over,
            samples: block.samples,
            missing: block.missing,
            foreign,
            gaps,
            layout,
            reader,
        };
        Py::new(py, made)
    }
}

#[pymethods]
impl Block {
    fn __len__(&self) -> usize {
        usize::try_from(self.samples).expect("a block's samples fit in memory")
    }

    /// The stream's name.
    #[getter]
    fn stream(&self) -> &str {
        self.stream.as_str()
    }

    /// The publisher's epoch.
    #[getter]
    fn epoch(&self) -> String {
        self.epoch.to_string()
    }

    /// Index of the sample behind the last.
    #[getter]
    const fn next_index(&self) -> u64 {
        self.first_index + self.samples
    }

    /// Schema of the samples: a `tallycast.Schema`.
    #[getter]
    fn schema(&self, py: Python<'_>) -> Py<PyAny> {
        self.layout.object.clone_ref(py)
    }

    /// Samples per second, a `fractions.Fraction`.
    #[getter]
    fn rate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.layout.object.bind(py).getattr(intern!(py, "rate"))
    }

    /// Time of each sample. Shape: `[samples]`, int64. Units: nanoseconds since 1970 UTC.
    #[getter]
    fn times<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let rate = self.layout.schema.rate;
        let t0 = tallycast::WallTime::from_nanos(self.t0_ns);
        PyArray1::from_iter(py, (0..self.samples).map(|index| rate.time_of(index, 0, t0).as_nanos()))
    }

    /// Gaps before this block, as JSON.
    fn _gaps(&self) -> String {
        self.gaps.iter().map(stream_gap_json).collect::<Value>().to_string()
    }

    /// True if anything is missing before this block: faster than making the gaps.
    #[getter]
    fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Mask of the elements that never arrived, `None` if all did. Shape: that of `array`, bool.
    #[getter]
    fn missing<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.missing.is_empty() {
            return Ok(None);
        }
        let elements = self.__len__() * self.layout.elements_per_sample;
        let mut mask = vec![false; elements];
        for range in self.missing.iter() {
            let place = |position: u64| usize::try_from(position).expect("a block's elements fit in memory");
            mask[place(range.start)..place(range.end)].fill(true);
        }
        let shape = self.array.bind(py).getattr(intern!(py, "shape"))?;
        let mask = PyArray1::from_vec(py, mask);
        Ok(Some(mask.call_method1(intern!(py, "reshape"), (shape,))?))
    }

    /// The reader's account of this block's epoch, as JSON.
    fn _account(&self, py: Python<'_>) -> PyResult<String> {
        match self.reader.upgrade() {
            Some(reader) => reader.account(py, &self.stream, self.epoch),
            None => Ok("null".to_owned()),
        }
    }

    /// Gaps between the stream's previous block and this one: a list of `tallycast.Gap`, oldest first.
    #[getter]
    fn gaps<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf.py(), "gaps", (slf,))
    }

    /// Current account of this block's epoch by this reader: a `tallycast.Account`; `None` if it is no longer kept.
    #[getter]
    fn account<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf.py(), "account", (slf,))
    }

    /// The elements of one channel. Shape: `[samples, *shape]`; a view of `array`.
    fn __getitem__<'py>(slf: &Bound<'py, Self>, channel: &str) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf.py(), "channel", (slf, channel))
    }

    /// The samples as numbers in the channels' units: element × scale + offset. Shape: that of `array`.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf.py(), "values", (slf,))
    }

    /// The samples as a structured array with a field for each channel. Shape: `[samples]`.
    fn records<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf.py(), "records", (slf,))
    }

    /// True if the data read from the array are those sent: check after the last access.
    ///
    /// Always true if the array is the reader's own memory; a view of the ring may have been overwritten.
    fn valid(&self) -> bool {
        self.foreign.as_ref().is_none_or(|foreign| foreign.is_valid())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        in_python(slf.py(), "text", (slf,))?.extract()
    }
}

/// Calls one of the functions for blocks that are written in Python.
fn in_python<'py>(
    py: Python<'py>,
    function: &str,
    arguments: impl pyo3::call::PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import(intern!(py, "tallycast._block"))?.getattr(function)?.call1(arguments)
}
