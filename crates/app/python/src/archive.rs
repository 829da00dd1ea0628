//! Archives: what is stored, read into arrays of NumPy.
//!
//! `python/tallycast/archive.py` is built on this. Reading releases the interpreter and may be done by several threads.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::BufWriter;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use archive::{
    Archive, ArchiveError, CsvTimes, Export, Hole, Piece, PointsRequest, Recording, Samples, StreamEntry,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use serde_json::{Value, json};
use units::WallTime;

use crate::elements::array_over;
use crate::errors::{Kind, error};
use crate::schema::Layout;

/// An archive that is open for reading.
#[pyclass(frozen, module = "tallycast._core")]
pub(crate) struct StoredArchive(Arc<Archive>);

/// One recorded epoch of a stream, as of the reading of the archive's list.
#[pyclass(frozen, module = "tallycast._core")]
pub(crate) struct StoredRecording {
    archive: Arc<Archive>,
    run: String,
    entry: StreamEntry,
    recording: Recording,
    layout: Layout,
}

/// Samples of an array's rows, and the holes between them.
#[pyclass(frozen, module = "tallycast._core")]
pub(crate) struct StoredRows {
    /// Blocks without their data, which belong to the array.
    samples: Samples,
    elements_per_sample: u64,
}

fn failed(py: Python<'_>, why: &ArchiveError) -> PyErr {
    error(py, Kind::Archive, why)
}

const fn span(times: (i64, i64)) -> Range<WallTime> {
    WallTime::from_nanos(times.0)..WallTime::from_nanos(times.1)
}

fn holes_json<'a>(holes: impl IntoIterator<Item = &'a Hole>) -> String {
    holes.into_iter().map(Hole::to_json).collect::<Value>().to_string()
}

/// Number of samples, the holes as JSON, and the elements of a sample, from 0, that are missing in some samples.
type Looked = (u64, String, Vec<u64>);

/// Folders that cannot be read, each with the cause.
type Unreadable = Vec<(PathBuf, String)>;

#[pymethods]
impl StoredArchive {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let archive = py.detach(|| Archive::open(&path)).map_err(|why| failed(py, &why))?;
        Ok(Self(Arc::new(archive)))
    }

    /// Returns the names of the runs.
    fn runs(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let runs = py.detach(|| self.0.runs()).map_err(|why| failed(py, &why))?;
        Ok(runs.iter().map(|run| run.as_str().to_owned()).collect())
    }

    /// Returns the recordings of a run, stream by stream, and folder and cause of those that cannot be read.
    fn survey(&self, py: Python<'_>, run: &str) -> PyResult<(Vec<StoredRecording>, Unreadable)> {
        let unknown = |_| ArchiveError::Unknown(format!("run {run}"));
        let found = py.detach(|| self.0.survey(&run.parse().map_err(unknown)?));
        let (streams, unreadable) = found.map_err(|why| failed(py, &why))?;
        let mut recordings = Vec::new();
        for entry in streams {
            for recording in &entry.epochs {
                let recording = recording.clone();
                let layout = Layout::new(py, Arc::clone(&recording.description.schema))?;
                let (archive, run) = (Arc::clone(&self.0), run.to_owned());
                let entry = StreamEntry { epochs: vec![recording.clone()], ..entry.clone() };
                recordings.push(StoredRecording { archive, run, entry, recording, layout });
            }
        }
        let unreadable = unreadable.into_iter().map(|epoch| (epoch.folder, epoch.cause.to_string()));
        Ok((recordings, unreadable.collect()))
    }
}

#[pymethods]
impl StoredRecording {
    /// `tallycast.Schema`.
    #[getter]
    fn schema(&self, py: Python<'_>) -> Py<PyAny> {
        self.layout.object.clone_ref(py)
    }

    /// NumPy's dtype of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<numpy::PyArrayDescr> {
        self.layout.descr.clone_ref(py)
    }

    /// The shape of one sample in arrays.
    #[getter]
    fn sample_shape(&self) -> Vec<usize> {
        self.layout.sample_shape.clone()
    }

    /// Returns everything known without reading samples, as JSON.
    fn tell(&self) -> String {
        let it = &self.recording;
        let known = it.span();
        json!({
            "run": self.run,
            "stream": it.description.name.as_str(),
            "epoch": it.description.epoch.to_string(),
            "description": it.description.to_json(),
            "state": it.state.name(),
            "attended": it.attended,
            "damaged": it.damaged,
            "first_index": it.first_index,
            "stored_index": it.stored_index,
            "t0_ns": it.t0.as_nanos(),
            "t1_ns": it.t1.as_nanos(),
            "known_ns": [known.start.as_nanos(), known.end.as_nanos()],
            "samples": it.samples,
            "size_bytes": it.size_bytes,
            "account": it.account,
            "earlier_accounts": it.earlier_accounts,
        })
        .to_string()
    }

    /// Returns whether the epoch has ended and nothing is missing. Reads what is next to holes that were not refilled.
    fn is_complete(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.archive.is_complete(&self.recording)).map_err(|why| failed(py, &why))
    }

    /// Returns the segments: number, first and next index, times of the first sample and behind the last, samples, bytes.
    fn segments(&self) -> Vec<(u32, u64, u64, i64, i64, u64, u64)> {
        let row = |it: archive::StoredSegment| {
            let times = (it.t0.as_nanos(), it.t1.as_nanos());
            (it.number, it.first_index, it.next_index, times.0, times.1, it.samples, it.size_bytes)
        };
        self.recording.segments().map(row).collect()
    }

    /// Reads a range of time and of indices: an array with its own memory, and the samples of its rows.
    fn read<'py>(
        &self,
        py: Python<'py>,
        times: (i64, i64),
        indices: (u64, u64),
    ) -> PyResult<(Bound<'py, PyAny>, StoredRows)> {
        let read = py.detach(|| self.archive.samples(&self.recording, span(times), indices.0..indices.1));
        let mut samples = read.map_err(|why| failed(py, &why))?;
        let data = std::mem::take(&mut samples.data);
        let schema = &self.recording.description.schema;
        let rows = usize::try_from(samples.rows()).expect("they fit in memory");
        let shape: Vec<usize> =
            std::iter::once(rows).chain(self.layout.sample_shape.iter().copied()).collect();
        let array = array_over(py, data, self.layout.descr.bind(py), schema.dtype.size_bytes(), &shape)?;
        let elements_per_sample = u64::from(schema.elements_per_sample());
        Ok((array, StoredRows { samples, elements_per_sample }))
    }

    /// Counts the samples of a range of time and of indices; keeps none.
    fn look(&self, py: Python<'_>, times: (i64, i64), indices: (u64, u64)) -> PyResult<Looked> {
        let per_sample = u64::from(self.recording.description.schema.elements_per_sample());
        let looked = py.detach(|| -> Result<_, ArchiveError> {
            let (mut samples, mut holes, mut partial) = (0, Vec::new(), BTreeSet::new());
            for piece in self.archive.epoch(&self.recording, span(times)).within(indices.0..indices.1) {
                match piece? {
                    Piece::Block(block) => {
                        samples += block.samples;
                        let missing = block.missing.iter();
                        partial.extend(
                            missing
                                .flat_map(|range| range.start..range.end.min(range.start + per_sample))
                                .map(|it| it % per_sample),
                        );
                    }
                    Piece::Hole(hole) => holes.push(hole),
                    Piece::Epoch(_) => {}
                }
            }
            Ok((samples, holes_json(&holes), partial.into_iter().collect()))
        });
        looked.map_err(|why| failed(py, &why))
    }

    /// Returns every record of the gap map, as JSON.
    fn gap_records(&self) -> String {
        json!(self.recording.gaps).to_string()
    }

    /// Returns the metadata that a segment's Arrow schema has, and those of its channels' fields.
    fn arrow_metadata(&self) -> (HashMap<String, String>, Vec<HashMap<String, String>>) {
        let schema = archive::arrow_schema(&self.recording.description);
        let fields = schema.fields().iter().skip(2).map(|field| field.metadata().clone().into());
        (schema.metadata().clone().into(), fields.collect())
    }

    /// Returns the absences of unknown extent that began in a range of time, as JSON.
    fn untold_absences(&self, times: (i64, i64)) -> String {
        self.recording.untold_absences(span(times)).collect::<Value>().to_string()
    }

    /// Writes a range of time and of indices into a file as `parquet`, `csv` or `csv-iso`; returns how many samples, and the holes as JSON.
    fn export(
        &self,
        py: Python<'_>,
        format: &str,
        path: PathBuf,
        times: (i64, i64),
        indices: (u64, u64),
    ) -> PyResult<(u64, String)> {
        let exported = py.detach(|| {
            let export = Export::new(&self.archive, &self.recording, span(times));
            let export = export.within(indices.0..indices.1);
            let target = BufWriter::new(File::create(&path)?);
            match format {
                "parquet" => export.parquet(target),
                "csv" => export.csv(target, CsvTimes::Nanoseconds),
                "csv-iso" => export.csv(target, CsvTimes::Iso),
                other => Err(ArchiveError::Unsuited(format!("unknown export format {other}"))),
            }
        });
        let exported = exported.map_err(|why| failed(py, &why))?;
        Ok((exported.samples, holes_json(&exported.holes)))
    }
}

#[pymethods]
impl StoredRows {
    /// Returns the index of each row: `uint64`.
    fn indices<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        PyArray1::from_vec(py, py.detach(|| self.samples.indices()))
    }

    /// Returns the time of each row: `int64`, nanoseconds since 1970 UTC.
    fn times_ns<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_vec(py, py.detach(|| self.samples.times_ns()))
    }

    /// Returns which elements never arrived, `[samples, elements per sample]`; `None` if all did.
    fn missing<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<bool>>>> {
        if self.samples.missing.is_empty() {
            return Ok(None);
        }
        let size = |count: u64| usize::try_from(count).expect("they fit in memory");
        let (rows, width) = (size(self.samples.rows()), size(self.elements_per_sample));
        let mut missing = vec![false; rows * width];
        for range in self.samples.missing.iter() {
            missing[size(range.start)..size(range.end)].fill(true);
        }
        PyArray1::from_vec(py, missing).reshape([rows, width]).map(Some)
    }

    /// Returns the holes as JSON.
    fn holes(&self) -> String {
        holes_json(&self.samples.holes)
    }
}

/// One downsampled element: start of its first column, width of a column, minima, maxima, sample counts, and the
/// holes as JSON.
type Thinned<'py> =
    (i64, u64, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<u64>>, String);

/// Downsamples elements of a stream, each given by channel and element of that channel's sample, to columns of
/// minimum and maximum; NaN where there is no sample.
#[pyfunction]
pub(crate) fn thin<'py>(
    py: Python<'py>,
    recordings: Vec<PyRef<'py, StoredRecording>>,
    times: (i64, i64),
    points: usize,
    elements: Vec<(usize, usize)>,
) -> PyResult<Vec<Thinned<'py>>> {
    let Some(first) = recordings.first() else { return Ok(Vec::new()) };
    let epochs = recordings.iter().map(|it| it.recording.clone()).collect();
    let entry = StreamEntry { epochs, ..first.entry.clone() };
    let request = |(channel, element)| PointsRequest { channel, element, range: span(times), points };
    let requests: Vec<PointsRequest> = elements.into_iter().map(request).collect();
    let archive = Arc::clone(&first.archive);
    let thinned = py.detach(|| archive.points_of_each(&entry, &requests)).map_err(|why| failed(py, &why))?;
    let arrays = |points: archive::Points| {
        let of = |value: fn(&archive::Extremes) -> f64| {
            let values = points.columns.iter().map(|column| column.as_ref().map_or(f64::NAN, value));
            PyArray1::from_iter(py, values)
        };
        let samples = points.columns.iter().map(|column| column.as_ref().map_or(0, |it| it.samples));
        let (least, greatest) = (of(|it| it.min), of(|it| it.max));
        let samples = PyArray1::from_iter(py, samples);
        (points.from.as_nanos(), points.column_ns, least, greatest, samples, holes_json(&points.holes))
    };
    Ok(thinned.into_iter().map(arrays).collect())
}
