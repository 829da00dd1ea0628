//! A cyclic app with a Python function: called when due, with its inputs and outputs as bytes plus their schema.
//!
//! The interpreter is held while the function runs, and released while the app waits. The wait of each cycle for it has
//! its own statistic, and is part of the cycle's run time, so delays by other threads that hold it are visible.
//! Names, arrays and the decorator are in `python/tallycast/_app.py`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};
use serde_json::{Value, json};
use tallycast::cyclic::{
    App, AppError, AppReport, Cycle, Freshness, Histogram, Take, UntypedInput, UntypedOutput,
};
use tallycast::{Channel, Dtype, PublishError, Schema, account_json};

use crate::errors::{self, Kind, config, error};
use crate::node::node;
use crate::said;
use crate::schema::Layout;
use crate::steering::{self, Outcome, SteeringPlan, changes_of, conclude};

/// Interval at which the main thread checks for Ctrl-C while an app runs: Python runs signal handlers only there.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Quantiles that summarise a histogram.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

/// An input as Python describes it.
#[derive(FromPyObject)]
pub(crate) struct InputPlan {
    #[pyo3(item)]
    stream: String,
    /// All samples of a cycle, not only the newest.
    #[pyo3(item)]
    all: bool,
}

/// An output as Python describes it.
#[derive(FromPyObject)]
pub(crate) struct OutputPlan {
    #[pyo3(item)]
    stream: String,
    #[pyo3(item)]
    dtype: String,
    #[pyo3(item)]
    channels: Vec<ChannelPlan>,
}

/// Name, unit, shape of one sample, scale and offset.
type ChannelPlan = (String, String, Vec<u32>, f64, f64);

/// An app as Python describes it.
#[derive(FromPyObject)]
pub(crate) struct AppPlan {
    #[pyo3(item)]
    name: String,
    #[pyo3(item)]
    period_ns: u64,
    #[pyo3(item)]
    phase_ns: u64,
    #[pyo3(item)]
    pin_to: Option<usize>,
    #[pyo3(item)]
    fifo: Option<u8>,
    #[pyo3(item)]
    inputs: Vec<InputPlan>,
    #[pyo3(item)]
    outputs: Vec<OutputPlan>,
    #[pyo3(item)]
    steering: SteeringPlan,
    /// Number of cycles after which it ends.
    #[pyo3(item)]
    cycles: Option<u64>,
    /// It ends with the last cycle that is due within so long.
    #[pyo3(item)]
    duration_ns: Option<u64>,
}

/// State of the app's own thread.
struct Turns {
    inputs: Vec<UntypedInput>,
    outputs: Vec<UntypedOutput>,
    /// Schemas already passed to Python, by input.
    schemas: Vec<Option<Arc<Schema>>>,
    step: Py<PyAny>,
    cycles: Option<u64>,
    ran: u64,
    /// First cycle after its last one.
    end: Option<u64>,
    shared: Arc<Shared>,
}

/// State shared by the app's thread and the one that called `run`.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Python's number of the app's thread; nothing is ordered by it.
    thread: AtomicU64,
    raised: Mutex<Option<PyErr>>,
    waits: Mutex<Histogram>,
}

/// Error for an exception of the app's function; the exception itself is kept separately.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// Runs an app until its function stops it, raises, or Ctrl-C.
///
/// Calls `step(index, time_ns, inputs, changes)` on a thread of the app: for each input `(freshness, age_ns, lost_elements,
/// schema, newest, indices, times, elements)`, where `schema` is given if it has changed since the last cycle, and the
/// changes of parameters as `steering::changes_of` tells them. It returns `(outputs, stop, outcomes)`: for each output the
/// bytes of one sample, or `None`; what became of the changes. `interrupt(thread)` is called at a
/// second Ctrl-C. Returns `(report, exception, interrupted)`, the report as JSON.
#[pyfunction]
#[pyo3(signature = (bus, station, plan, step, interrupt))]
pub(crate) fn run_app(
    py: Python<'_>,
    bus: Option<&str>,
    station: Option<&str>,
    plan: AppPlan,
    step: Py<PyAny>,
    interrupt: Py<PyAny>,
) -> PyResult<(String, Option<Py<PyAny>>, bool)> {
    let node = node(py, bus, station)?;
    let mut app = node.app(plan.name.as_str());
    app.period(Duration::from_nanos(plan.period_ns)).phase(Duration::from_nanos(plan.phase_ns));
    plan.steering.apply(py, app.steering())?;
    plan.pin_to.map(|cpu| app.pin_to(cpu));
    plan.fifo.map(|priority| app.fifo(priority));
    let take = |all| if all { Take::All } else { Take::Newest };
    let inputs: Vec<_> = plan.inputs.iter().map(|it| app.untyped_input(&*it.stream, take(it.all))).collect();
    let outputs = plan.outputs.iter().map(|it| output(py, &mut app, it)).collect::<PyResult<Vec<_>>>()?;
    let shared = Arc::new(Shared::default());
    let turns = Turns {
        schemas: vec![None; inputs.len()],
        inputs,
        outputs,
        step,
        cycles: plan.cycles,
        ran: 0,
        end: plan.duration_ns.map(|duration| duration.div_ceil(plan.period_ns.max(1)).max(1)),
        shared: Arc::clone(&shared),
    };
    let (result, interrupted) = run_and_listen(py, app, turns, &shared, &interrupt)?;
    py.detach(move || drop(node));
    said::tell(py)?;
    let waits = shared.waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match result {
        Ok(report) => Ok((report_json(&plan, &report, &waits).to_string(), None, interrupted)),
        Err(AppError::Failed { report, source, app, cycle }) => {
            let raised = shared.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
            let error = raised.unwrap_or_else(|| match source.downcast_ref::<PublishError>() {
                Some(why) => errors::publish(py, why),
                None => error(py, Kind::Publish, format!("the app `{app}` ended in cycle {cycle}: {source}")),
            });
            let error = error.into_value(py).into_any();
            Ok((report_json(&plan, &report, &waits).to_string(), Some(error), interrupted))
        }
        Err(AppError::Steering(why)) => Err(steering::failed(py, &why)),
        Err(error) => Err(config(py, &error)),
    }
}

/// Runs the app on a thread while this one handles signals; returns its result, and whether there was a signal.
fn run_and_listen(
    py: Python<'_>,
    app: App,
    mut turns: Turns,
    shared: &Shared,
    interrupt: &Py<PyAny>,
) -> PyResult<(Result<AppReport, AppError>, bool)> {
    let (ended, end) = mpsc::channel();
    // A receiver used by one thread only is not `Sync`.
    let end = Mutex::new(end);
    let thread = thread::Builder::new().name("tallycast-app-run".to_owned()).spawn(move || {
        let result = app.run(|cycle| turns.turn(cycle));
        // The waiting thread exists for the lifetime of this one.
        let _ = ended.send(());
        result
    })?;
    let mut interruptions = 0;
    let mut other = None;
    loop {
        let waited = py.detach(|| {
            let end = end.lock().unwrap_or_else(PoisonError::into_inner);
            end.recv_timeout(POLL_INTERVAL)
        });
        if !matches!(waited, Err(mpsc::RecvTimeoutError::Timeout)) {
            break;
        }
        if let Err(error) = said::tell(py).and_then(|()| py.check_signals()) {
            shared.stop.store(true, Ordering::Relaxed);
            interruptions += 1;
            if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
                other.get_or_insert(error);
            }
            // The first one lets the function finish; if it does not, the second ends it.
            if interruptions > 1
                && let Err(error) = interrupt.call1(py, (shared.thread.load(Ordering::Relaxed),))
            {
                other.get_or_insert(error);
            }
        }
    }
    let result = py.detach(|| thread.join());
    let result = result.map_err(|_| PyRuntimeError::new_err("the app's thread panicked"))?;
    match other {
        Some(error) => Err(error),
        None => Ok((result, interruptions > 0)),
    }
}

impl Turns {
    /// One cycle.
    fn turn(&mut self, cycle: &mut Cycle<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.ran += 1;
        let is_last = self.cycles.is_some_and(|cycles| self.ran >= cycles)
            || self.end.is_some_and(|end| cycle.index() + 1 >= end)
            || self.shared.stop.load(Ordering::Relaxed);
        let asked = Instant::now();
        let done = Python::try_attach(|py| {
            self.shared.waits.lock().unwrap_or_else(PoisonError::into_inner).record(asked.elapsed());
            self.call(py, cycle).map_err(|error| {
                let told = Raised(error.to_string());
                *self.shared.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                told
            })
        });
        let Some(done) = done else { return Err("the interpreter is ending".into()) };
        if done? || is_last {
            cycle.stop();
        }
        Ok(())
    }

    /// Calls the function and writes its outputs; returns whether this is the last cycle.
    fn call(&mut self, py: Python<'_>, cycle: &mut Cycle<'_>) -> PyResult<bool> {
        if self.ran == 1 {
            let ident: u64 = py.import("threading")?.call_method0("get_ident")?.extract()?;
            self.shared.thread.store(ident, Ordering::Relaxed);
        }
        let inputs = PyList::empty(py);
        for (input, known) in self.inputs.iter().zip(&mut self.schemas) {
            inputs.append(received(py, cycle, *input, known)?)?;
        }
        let time_ns = cycle.time().as_nanos();
        let changes = changes_of(py, cycle.changes())?;
        let made = self.step.call1(py, (cycle.index(), time_ns, inputs, changes))?;
        let (samples, stop, outcomes): (Vec<Option<PyBackedBytes>>, bool, Vec<Outcome>) = made.extract(py)?;
        conclude(py, cycle.changes(), &outcomes)?;
        for (output, sample) in self.outputs.iter().zip(&samples) {
            if let Some(sample) = sample {
                cycle.write_bytes(*output, sample).map_err(|why| errors::publish(py, &why))?;
            }
        }
        Ok(stop)
    }
}

/// Returns the data of an input, as arguments of Python's `step`.
fn received<'py>(
    py: Python<'py>,
    cycle: &Cycle<'_>,
    input: UntypedInput,
    known: &mut Option<Arc<Schema>>,
) -> PyResult<Bound<'py, PyAny>> {
    let came = cycle.untyped_input(input);
    let freshness = match came.freshness {
        Freshness::New => "new",
        Freshness::Late => "late",
        Freshness::Held => "held",
        Freshness::Missed => "missed",
    };
    let age_ns = came.age.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    let schema = match came.schema {
        Some(schema) if known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, schema)) => {
            *known = Some(Arc::clone(schema));
            Some(Layout::new(py, Arc::clone(schema))?.object)
        }
        _ => None,
    };
    let newest = came.newest.map(|(index, time, bytes)| (index, time.as_nanos(), PyBytes::new(py, bytes)));
    let indices: Vec<u8> = came.marks.iter().flat_map(|(index, _)| index.to_ne_bytes()).collect();
    let times: Vec<u8> = came.marks.iter().flat_map(|(_, time)| time.as_nanos().to_ne_bytes()).collect();
    let (indices, times) = (PyBytes::new(py, &indices), PyBytes::new(py, &times));
    let elements = PyBytes::new(py, came.bytes);
    let told = (freshness, age_ns, came.lost_elements, schema, newest, indices, times, elements);
    Ok(told.into_pyobject(py)?.into_any())
}

fn output(py: Python<'_>, app: &mut App, plan: &OutputPlan) -> PyResult<UntypedOutput> {
    let dtype: Dtype = plan.dtype.parse().map_err(|error| config(py, &error))?;
    let channels = plan.channels.iter().map(|(name, unit, shape, scale, offset)| {
        Channel::new(&**name, &**unit).with_shape(shape.clone()).with_scale(*scale, *offset)
    });
    Ok(app.untyped_output(&*plan.stream, dtype, channels))
}

/// Returns the counters of an app as JSON; inputs and outputs in the order of the plan.
fn report_json(plan: &AppPlan, report: &AppReport, waits: &Histogram) -> Value {
    let counters = &report.counters;
    let inputs = plan.inputs.iter().zip(&counters.inputs).map(|(input, counters)| {
        json!({
            "stream": input.stream,
            "samples": counters.samples,
            "lost_elements": counters.lost_elements,
            "missed": counters.missed,
            "late": counters.late,
            "age_ns": histogram_json(&counters.ages),
        })
    });
    let outputs = report.outputs.iter().map(|output| {
        json!({
            "stream": output.stream.as_str(),
            "offered": output.totals.samples.offered,
            "source": output.totals.samples.source,
            "numbered": output.totals.samples.numbered,
            "publisher_queue": output.totals.samples.publisher_queue,
            "publisher_paused": output.totals.samples.publisher_paused,
        })
    });
    json!({
        "app": plan.name,
        "period_ns": plan.period_ns,
        "cycles": counters.cycles,
        "overruns": counters.overruns,
        "skipped": counters.skipped,
        "alarms": counters.timer.alarms(),
        "lateness_ns": histogram_json(&counters.lateness),
        "run_time_ns": histogram_json(&counters.run_time),
        "interpreter_wait_ns": histogram_json(waits),
        "inputs": inputs.collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(),
        "commands": report.commands.as_ref().map(tallycast::steering::totals_json),
        "accounts": report.accounts.iter().map(account_json).collect::<Vec<_>>(),
    })
}

fn histogram_json(histogram: &Histogram) -> Value {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let mut told = json!({"count": histogram.count(), "max": nanos(histogram.max())});
    for (name, share) in QUANTILES {
        told[name] = json!(nanos(histogram.quantile(share)));
    }
    told
}
