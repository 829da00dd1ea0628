//! CSV files that grow, for the bridge of files.

use std::path::PathBuf;

use numpy::PyArray1;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use source::{Begin, FollowError, FollowOptions, Followed, Mark, NanPolicy, Rows, TimeColumn, TimeUnit};

use crate::errors::{self, Kind};

/// News of a file: their kind, and what belongs to it.
type News = (&'static str, Py<PyAny>);

/// Follower of one file.
#[pyclass]
pub(crate) struct CsvFollower(source::CsvFollower);

#[pymethods]
impl CsvFollower {
    #[new]
    #[pyo3(signature = (path, *, dtype, time, time_unit, time_zone, skip, columns, unit, allow_nan, begin))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        dtype: &str,
        time: Option<String>,
        time_unit: Option<&str>,
        time_zone: Option<String>,
        skip: u64,
        columns: Vec<String>,
        unit: String,
        allow_nan: bool,
        begin: BeginAt,
    ) -> PyResult<Self> {
        let options = FollowOptions {
            dtype: dtype.parse().map_err(|error| errors::config(py, &error))?,
            time: time.map_or(TimeColumn::Auto, |it| {
                if it == "none" { TimeColumn::None } else { TimeColumn::Named(it) }
            }),
            time_unit: time_unit.and_then(TimeUnit::named),
            time_zone,
            skip,
            columns,
            unit,
            nan: if allow_nan { NanPolicy::Allow } else { NanPolicy::Refuse },
        };
        let begin = match begin {
            BeginAt::Mark(position, trace, header) => Begin::Mark(Mark { position, trace, header }),
            BeginAt::Named(name) if name == "now" => Begin::Now,
            BeginAt::Named(_) => Begin::Beginning,
        };
        Ok(Self(source::CsvFollower::new(&path, options, begin)))
    }

    /// Reads the next part; returns whether there was any, and the news.
    fn read(&mut self, py: Python<'_>) -> PyResult<(bool, Vec<News>)> {
        let mut news = Vec::new();
        let moved = py.detach(|| self.0.read(&mut news)).map_err(|error| failed(py, &error))?;
        Ok((moved, told(py, news)?))
    }

    /// Reads the next part of the open file; returns whether there was any, and the news.
    fn read_rest(&mut self, py: Python<'_>) -> PyResult<(bool, Vec<News>)> {
        let mut news = Vec::new();
        let moved = py.detach(|| self.0.read_rest(&mut news)).map_err(|error| failed(py, &error))?;
        Ok((moved, told(py, news)?))
    }

    /// Returns position, the bytes before it, and the lines that told the layout.
    fn mark<'py>(&self, py: Python<'py>) -> PyResult<Option<Marked<'py>>> {
        let mark = self.0.mark().map_err(|error| failed(py, &error))?;
        Ok(mark.map(|it| (it.position, PyBytes::new(py, &it.trace), it.header)))
    }

    #[getter]
    fn position(&self) -> u64 {
        self.0.position()
    }

    #[getter]
    fn partial_bytes(&self) -> usize {
        self.0.partial_bytes()
    }

    #[getter]
    fn rotations(&self) -> u64 {
        self.0.rotations()
    }

    #[getter]
    fn truncations(&self) -> u64 {
        self.0.truncations()
    }
}

/// Position, the bytes before it, and the lines that told the layout.
type Marked<'py> = (u64, Bound<'py, PyBytes>, Option<String>);

/// `beginning`, `now`, or the mark of an earlier follower.
#[derive(FromPyObject)]
enum BeginAt {
    #[pyo3(transparent)]
    Named(String),
    Mark(u64, Vec<u8>, Option<String>),
}

fn failed(py: Python<'_>, error: &FollowError) -> PyErr {
    errors::error(py, Kind::Bridge, error)
}

fn told(py: Python<'_>, news: Vec<Followed>) -> PyResult<Vec<News>> {
    let one = |it| match it {
        Followed::Decided(said) => Ok(("decided", said.into_py_any(py)?)),
        Followed::Rows(rows) => Ok(("rows", rows_of(py, rows)?)),
        Followed::Refused(why) => Ok(("refused", why.into_py_any(py)?)),
        Followed::Away(why) => Ok(("away", why.into_py_any(py)?)),
        Followed::Back => Ok(("back", py.None())),
    };
    news.into_iter().map(one).collect()
}

/// Returns the names and units of the channels, the bytes of the elements, and the times.
fn rows_of(py: Python<'_>, rows: Rows) -> PyResult<Py<PyAny>> {
    let channels: Vec<_> = rows.channels.iter().map(|it| (it.name.clone(), it.unit.clone())).collect();
    let times = (!rows.times_ns.is_empty()).then(|| PyArray1::from_vec(py, rows.times_ns));
    (channels, PyArray1::from_vec(py, rows.elements), times).into_py_any(py)
}
