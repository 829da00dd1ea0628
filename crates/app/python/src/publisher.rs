//! Publishing from Python: an array is read in place and copied once, into the ring.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use numpy::{PyArrayDescrMethods, PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use serde_json::{Value, json};
use tallycast::{Channel, Clock, Dtype, Epoch, OnFull, PublishError, Sending, WallTime, publisher_json};

use crate::elements::with_bytes;
use crate::errors::{Kind, argument, config, error, publish};
use crate::fork::Home;
use crate::node::{Opened, node};
use crate::said;
use crate::schema::Layout;
use crate::waiting::{Patience, seconds};

/// Size up to which a copy takes less time than releasing the interpreter. Units: bytes.
const QUICK_BYTES: usize = 1 << 14;

/// Interval at which a publisher that waits for readers checks for them: their arrival wakes no publisher.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A channel as Python gives it: name, unit, shape, scale, offset.
type ChannelParts = (String, String, Vec<u32>, f64, f64);

/// A stream being published; the base of `tallycast.Publisher`.
#[pyclass(subclass, frozen, weakref, module = "tallycast._core")]
pub(crate) struct Publisher {
    home: Home,
    inner: Mutex<Option<Opened<tallycast::Publisher>>>,
    layout: Layout,
    /// True if it waits when the queue is full, so that the interpreter must be released.
    waits: bool,
    #[pyo3(get)]
    name: String,
    /// Newest known epoch.
    epoch: Mutex<Epoch>,
}

/// Samples as `tallycast._samples` makes them.
#[derive(FromPyObject)]
struct Samples<'py> {
    array: Bound<'py, PyUntypedArray>,
    runs: Vec<Run>,
}

/// Consecutive samples: the first, one behind the last, and whether the source has them.
type Run = (usize, usize, bool);

/// Reason why samples were not taken.
enum Refusal {
    Closed,
    Publish(PublishError),
}

impl From<PublishError> for Refusal {
    fn from(why: PublishError) -> Self {
        Self::Publish(why)
    }
}

#[pymethods]
impl Publisher {
    #[new]
    #[pyo3(signature = (name, dtype, rate, channels, *, labels, own_times, on_full, patience, linger, to, loss,
                        queue_bytes, clock, on_demand, proof, bus, station))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        name: &str,
        dtype: &str,
        rate: &str,
        channels: Vec<ChannelParts>,
        labels: Vec<(String, String)>,
        own_times: bool,
        on_full: &str,
        patience: Option<f64>,
        linger: f64,
        to: Vec<String>,
        loss: f64,
        queue_bytes: Option<usize>,
        clock: &str,
        on_demand: bool,
        proof: bool,
        bus: Option<&str>,
        station: Option<&str>,
    ) -> PyResult<Self> {
        let node = node(py, bus, station)?;
        let dtype: Dtype = dtype.parse().map_err(|why| config(py, &why))?;
        let on_full = on_full_of(py, on_full)?;
        let mut builder = node.publisher(name).dtype(dtype).rate(rate).on_full(on_full).loss(loss);
        builder = builder.channels(channels.into_iter().map(|(name, unit, shape, scale, offset)| {
            Channel::new(name, unit).with_shape(shape).with_scale(scale, offset)
        }));
        builder = builder.clock(clock_of(py, clock)?).linger(seconds(py, "linger", linger)?);
        if let Some(patience) = patience {
            builder = builder.patience(seconds(py, "patience", patience)?);
        }
        if let Some(bytes) = queue_bytes {
            builder = builder.queue_bytes(bytes);
        }
        if on_demand {
            builder = builder.sending(Sending::OnDemand);
        }
        if own_times {
            builder = builder.own_times();
        }
        if proof {
            builder = builder.proof();
        }
        for (key, value) in labels {
            builder = builder.label(key, value);
        }
        for address in to {
            let address: SocketAddr = address.parse().map_err(|_| {
                config(py, &format!("invalid address `{address}`\nwrite one such as 239.1.2.3:7400"))
            })?;
            builder = builder.to(address);
        }
        let publisher = py.detach(|| builder.open()).map_err(|why| config(py, &why))?;
        said::tell(py)?;
        Ok(Self {
            home: Home::here(),
            layout: Layout::new(py, Arc::new(publisher.schema().clone()))?,
            waits: on_full == OnFull::Block,
            name: publisher.name().to_string(),
            epoch: Mutex::new(publisher.epoch()),
            inner: Mutex::new(Some(Opened::new(publisher, node))),
        })
    }

    /// Schema of the samples: a `tallycast.Schema`.
    #[getter]
    fn schema(&self, py: Python<'_>) -> Py<PyAny> {
        self.layout.object.clone_ref(py)
    }

    /// Current epoch; another one begins with `begin_anew`, or when the host's clock was set back.
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<String> {
        self.home.check(py, "publisher")?;
        Ok(py.detach(|| self.known_epoch()).to_string())
    }

    /// The index of the next sample.
    #[getter]
    fn next_index(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, true, |publisher| Ok(publisher.next_index()))
    }

    /// Publishes samples, the last of which is taken now; their times follow from count and rate.
    ///
    /// Shape: `[samples, channels]`, or `[samples, *shape]` of the only channel; `[samples]` if a sample is one
    /// number; a mapping from channel to array; a structured array; a table of pandas, Polars or Arrow with a column
    /// for each channel. Copied once, before this returns. A sample that is masked, or null in a table, is a hole.
    ///
    /// `t0_ns` is the time of the first, `times` that of each: int64 or datetime64. Units: nanoseconds since 1970 UTC.
    #[pyo3(signature = (block, t0_ns=None, times=None))]
    fn send(
        &self,
        py: Python<'_>,
        block: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument)] t0_ns: Option<i64>,
        times: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let Samples { array, runs } = self.samples(block)?;
        let times = times.map(|times| times_of(times, t0_ns)).transpose()?;
        let t0 = t0_ns.map(WallTime::from_nanos);
        with_bytes(&array, |bytes| {
            self.with(py, bytes.len() <= QUICK_BYTES, |publisher| match (&times, t0) {
                (Some(times), _) if runs.is_empty() => publisher.send_bytes_timed(times, bytes),
                (Some(times), _) => send_timed(publisher, times, &runs, bytes),
                (None, Some(t0)) => send_from(publisher, t0, &runs, bytes),
                (None, None) if runs.is_empty() => publisher.send_bytes(bytes),
                (None, None) => {
                    let samples = bytes.len() / publisher.schema().sample_bytes();
                    let t0 = publisher.time_of_taken(samples as u64)?;
                    send_from(publisher, t0, &runs, bytes)
                }
            })
        })
    }

    /// Waits until the samples are due by count and rate, then publishes them.
    fn send_when_due(&self, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<()> {
        let Samples { array, runs } = self.samples(block)?;
        with_bytes(&array, |bytes| {
            self.with(py, false, |publisher| {
                with_holes(publisher, &runs, bytes, |publisher, _, part| publisher.send_bytes_when_due(part))
            })
        })
    }

    /// Marks the next samples as missing at the source.
    fn skip(&self, py: Python<'_>, #[pyo3(from_py_with = argument)] samples: u64) -> PyResult<()> {
        self.with(py, true, |publisher| publisher.skip(samples, tallycast::Stage::Source))
    }

    /// Withholds datagrams with this probability from now on.
    fn set_loss(&self, py: Python<'_>, #[pyo3(from_py_with = argument)] probability: f64) -> PyResult<()> {
        self.with(py, true, |publisher| {
            publisher.set_injection(probability);
            Ok(())
        })
    }

    /// Totals as JSON: those of ended epochs and of the current one.
    fn _totals(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, false, |publisher| Ok(publisher_json(publisher).to_string()))
    }

    /// The readers that report, as JSON.
    fn _readers(&self, py: Python<'_>) -> PyResult<String> {
        let readers = self.with(py, false, |publisher| Ok(publisher.readers()))?;
        let row = |it: &tallycast::ReaderReport| {
            let rows = &it.report.elements;
            json!({
                "reader": it.report.name, "delivered": rows.delivered, "unexplained": rows.unexplained,
                "unsettled": rows.unsettled, "lost": rows.lost.nonzero().map(|(_, count)| count).sum::<u64>(),
            })
        };
        Ok(readers.iter().map(row).collect::<Value>().to_string())
    }

    /// Waits until there are `count` readers, at most `timeout` seconds; returns how many there are then.
    ///
    /// Counted are those of this host's memory and those that report from beyond it.
    #[pyo3(signature = (count=1, timeout=None))]
    fn wait_for_readers(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument)] count: usize,
        #[pyo3(from_py_with = argument)] timeout: Option<f64>,
    ) -> PyResult<usize> {
        let patience = Patience::of(py, timeout)?;
        let mut there = self.with(py, false, |publisher| Ok(publisher.reader_count()))?;
        let enough = patience.wait(py, |slice| {
            // One check at a time: other threads may publish meanwhile, or close.
            std::thread::sleep(if there >= count { Duration::ZERO } else { slice.min(POLL_INTERVAL) });
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            // A publisher closed meanwhile has no readers to wait for.
            there = inner.as_ref().map_or(there, |publisher| publisher.reader_count());
            (there >= count || inner.is_none()).then_some(())
        });
        enough.map(|_| there)
    }

    /// True if samples with this time would begin a new epoch.
    fn _would_begin_anew(&self, py: Python<'_>, t0_ns: i64) -> PyResult<bool> {
        self.with(py, true, |publisher| Ok(publisher.would_begin_anew(WallTime::from_nanos(t0_ns))))
    }

    /// Ends the epoch and begins another; returns what became of everything in the one that ended, as JSON.
    fn _begin_anew(&self, py: Python<'_>) -> PyResult<String> {
        let ended = self.with(py, false, tallycast::Publisher::begin_anew)?;
        Ok(json!(ended.totals).to_string())
    }

    /// Ends the epoch; returns what became of everything, as JSON, `None` if it was closed before.
    fn _close(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.home.check(py, "publisher")?;
        let totals = py.detach(|| {
            self.known_epoch();
            let publisher = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
            publisher.map(|publisher| publisher.close(tallycast::Publisher::close))
        });
        said::tell(py)?;
        Ok(totals.map(|totals| json!(totals).to_string()))
    }

    /// True once it is closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }
}

impl Publisher {
    /// Returns the present epoch, the last one of a publisher that was closed.
    fn known_epoch(&self) -> Epoch {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
        *known = inner.as_ref().map_or(*known, |publisher| publisher.epoch());
        *known
    }

    /// Runs an operation on the publisher; if that takes long, the interpreter is released.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        is_quick: bool,
        what: impl FnOnce(&mut tallycast::Publisher) -> Result<T, PublishError> + Send,
    ) -> PyResult<T> {
        self.home.check(py, "publisher")?;
        let run = || {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let publisher = inner.as_mut().ok_or(Refusal::Closed)?;
            Ok(what(publisher)?)
        };
        // A holder of the publisher never waits for Python, so it may be awaited with or without the interpreter.
        let done: Result<T, Refusal> = if is_quick && !self.waits { run() } else { py.detach(run) };
        said::tell(py)?;
        done.map_err(|refusal| match refusal {
            Refusal::Closed => error(
                py,
                Kind::Closed,
                format!("the publisher of `{}` is closed\nopen another one", self.name),
            ),
            Refusal::Publish(why) => publish(py, &why),
        })
    }

    /// Returns samples as an array of the stream's dtype and shape: as given, or converted by Python.
    fn samples<'py>(&self, block: &Bound<'py, PyAny>) -> PyResult<Samples<'py>> {
        let py = block.py();
        // Not of a class derived from it: that may carry a mask.
        if let Ok(array) = block.cast_exact::<PyUntypedArray>()
            && array.is_c_contiguous()
            && self.fits(array.shape())
            && array.dtype().is_equiv_to(self.layout.descr.bind(py))
        {
            return Ok(Samples { array: array.clone(), runs: Vec::new() });
        }
        py.import(intern!(py, "tallycast._samples"))?
            .call_method1(intern!(py, "as_samples"), (&self.layout.object, block))?
            .extract()
    }

    fn fits(&self, shape: &[usize]) -> bool {
        match shape.split_first() {
            Some((_, [])) => self.layout.elements_per_sample == 1,
            Some((_, sample)) => sample == self.layout.sample_shape,
            None => false,
        }
    }
}

/// Publishes samples and holes, the first of which was taken at `t0`.
fn send_from(
    publisher: &mut tallycast::Publisher,
    t0: WallTime,
    runs: &[Run],
    bytes: &[u8],
) -> Result<(), PublishError> {
    let rate = publisher.schema().rate;
    with_holes(publisher, runs, bytes, |publisher, run, part| {
        publisher.send_bytes_at(rate.time_of(run.start as u64, 0, t0), part)
    })
}

/// Publishes samples and holes, each with its own time.
fn send_timed(
    publisher: &mut tallycast::Publisher,
    times: &[WallTime],
    runs: &[Run],
    bytes: &[u8],
) -> Result<(), PublishError> {
    let samples = bytes.len() / publisher.schema().sample_bytes();
    if times.len() != samples {
        return Err(PublishError::Times { samples, times: times.len() });
    }
    with_holes(publisher, runs, bytes, |publisher, run, part| publisher.send_bytes_timed(&times[run], part))
}

/// Publishes the runs of samples that are there with `send`, and those that are missing as holes; without runs all are there.
fn with_holes(
    publisher: &mut tallycast::Publisher,
    runs: &[Run],
    bytes: &[u8],
    mut send: impl FnMut(&mut tallycast::Publisher, Range<usize>, &[u8]) -> Result<(), PublishError>,
) -> Result<(), PublishError> {
    let sample_bytes = publisher.schema().sample_bytes();
    let whole = [(0, bytes.len() / sample_bytes, true)];
    for &(first, end, is_there) in if runs.is_empty() { whole.as_slice() } else { runs } {
        if is_there {
            send(publisher, first..end, &bytes[first * sample_bytes..end * sample_bytes])?;
        } else {
            publisher.skip((end - first) as u64, tallycast::Stage::Source)?;
        }
    }
    Ok(())
}

/// Returns the time of each sample as Python can read them.
fn times_of(times: &Bound<'_, PyAny>, t0_ns: Option<i64>) -> PyResult<Vec<WallTime>> {
    let py = times.py();
    let made = py
        .import(intern!(py, "tallycast._samples"))?
        .call_method1(intern!(py, "as_times"), (times, t0_ns))?;
    let array: PyReadonlyArray1<'_, i64> = made.extract()?;
    Ok(array.as_array().iter().copied().map(WallTime::from_nanos).collect())
}

fn on_full_of(py: Python<'_>, word: &str) -> PyResult<OnFull> {
    match word {
        "overwrite" => Ok(OnFull::Overwrite),
        "block" => Ok(OnFull::Block),
        "error" => Ok(OnFull::Error),
        _ => Err(config(py, &format!("invalid on_full `{word}`: use overwrite, block or error"))),
    }
}

fn clock_of(py: Python<'_>, word: &str) -> PyResult<Clock> {
    match word {
        "unknown" => Ok(Clock::Unknown),
        "system" => Ok(Clock::System),
        "ntp" => Ok(Clock::Ntp),
        "ptp" => Ok(Clock::Ptp),
        "recorded" => Ok(Clock::Recorded),
        _ => Err(config(py, &format!("invalid clock `{word}`: use system, ntp, ptp, recorded or unknown"))),
    }
}
