//! Steering as an app in Python sees it: declared parameters, the changes of a step, what became of each.
//!
//! Values cross as little-endian bytes; `python/tallycast/_parameters.py` makes NumPy's numbers of them. The other end
//! is `remote.rs`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use access::May;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};
use tallycast::steering::{
    Change, Needs, Number, StationKeys, SteeringBuilder, SteeringError, Value, totals_json,
};
use tallycast::{Epoch, WallTime};

use crate::errors::{Kind, argument, config, error};
use crate::fork::Home;
use crate::node::{Opened, node};
use crate::said;

/// A parameter as Python declares it.
#[derive(FromPyObject)]
pub(crate) struct ParameterPlan {
    #[pyo3(item)]
    name: String,
    #[pyo3(item)]
    dtype: String,
    #[pyo3(item)]
    shape: Vec<u32>,
    #[pyo3(item)]
    value: PyBackedBytes,
    #[pyo3(item)]
    unit: String,
    #[pyo3(item)]
    min: Option<Limit>,
    #[pyo3(item)]
    max: Option<Limit>,
    #[pyo3(item)]
    greatest_step: Option<Limit>,
    #[pyo3(item)]
    lease: Option<String>,
    #[pyo3(item)]
    administered: bool,
    /// What was kept with the value.
    #[pyo3(item)]
    kept: Option<String>,
}

/// A limit: an integer stays exact.
#[derive(Clone, Copy, FromPyObject, IntoPyObject)]
pub(crate) enum Limit {
    #[pyo3(transparent)]
    Integer(i128),
    #[pyo3(transparent)]
    Real(f64),
}

/// Steering of an app as Python describes it.
#[derive(FromPyObject)]
pub(crate) struct SteeringPlan {
    #[pyo3(item)]
    parameters: Vec<ParameterPlan>,
    /// File of the log of commands.
    #[pyo3(item)]
    log: Option<PathBuf>,
    /// Address at which commands are taken, with or without a port.
    #[pyo3(item)]
    listen: Option<String>,
    /// The station's file of keys: commands are taken over secured connections of its peers.
    #[pyo3(item)]
    key: Option<PathBuf>,
}

/// What became of a change: its place among those of the step, `failed`, `read` or `uncertain`, the reason, and the
/// value that was read back. Changes that are not named are applied.
pub(crate) type Outcome = (usize, String, String, Option<PyBackedBytes>);

impl From<Number> for Limit {
    fn from(number: Number) -> Self {
        match number {
            Number::Integer(integer) => Self::Integer(integer),
            Number::Real(real) => Self::Real(real),
        }
    }
}

impl From<Limit> for Number {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Integer(integer) => Self::Integer(integer),
            Limit::Real(real) => Self::Real(real),
        }
    }
}

impl SteeringPlan {
    /// Describes the steering.
    pub(crate) fn apply(&self, py: Python<'_>, builder: &mut SteeringBuilder) -> PyResult<()> {
        for plan in &self.parameters {
            let (parameter, value) = plan.declared(py)?;
            let place = builder.declared(parameter, value);
            if let Some(kept) = &plan.kept {
                builder.kept_at(place, kept.parse().map_err(|why| config(py, &why))?);
            }
        }
        if let Some(log) = &self.log {
            builder.log(log);
        }
        if let Some(listen) = &self.listen {
            let (ip, port) = address_of(py, listen)?;
            builder.listen(ip, port);
        }
        if let Some(key) = &self.key {
            let StationKeys { keys, names } = StationKeys::read(key).map_err(|why| failed(py, &why))?;
            builder.keys(keys, names);
        }
        Ok(())
    }
}

impl ParameterPlan {
    fn declared(&self, py: Python<'_>) -> PyResult<(steer::Parameter, Value)> {
        let dtype = self.dtype.parse().map_err(|why| config(py, &why))?;
        let value = Value::from_bytes(dtype, &self.shape, &self.value).map_err(|why| config(py, &why))?;
        let number = |limit: Option<Limit>| limit.map(Number::from);
        let parameter = steer::Parameter {
            shape: self.shape.clone(),
            unit: self.unit.clone(),
            min: number(self.min),
            max: number(self.max),
            greatest_step: number(self.greatest_step),
            who: if self.administered { May::Administer } else { May::Steer },
            needs: self.lease.as_ref().map_or(Needs::Nothing, |group| Needs::Lease { group: group.clone() }),
            ..steer::Parameter::new(&self.name, dtype)
        };
        Ok((parameter, value))
    }
}

/// Reads `127.0.0.1` or `127.0.0.1:7410`.
fn address_of(py: Python<'_>, text: &str) -> PyResult<(IpAddr, Option<u16>)> {
    let alone = text.parse::<IpAddr>().map(|ip| (ip, None));
    let with_port = || text.parse::<SocketAddr>().map(|it| (it.ip(), Some(it.port())));
    alone.or_else(|_| with_port()).map_err(|_| {
        config(
            py,
            &format!("invalid address `{text}` to listen at\nwrite 127.0.0.1, or 127.0.0.1:7410 with a port"),
        )
    })
}

/// Returns the changes of a step: the place of each parameter, the value before, the new one, and what is kept with it.
pub(crate) fn changes_of<'py>(py: Python<'py>, changes: &[Change]) -> PyResult<Bound<'py, PyList>> {
    let bytes = |value: &Value| PyBytes::new(py, value.bytes());
    PyList::new(
        py,
        changes.iter().map(|it| (it.place, bytes(&it.before), bytes(&it.value), it.kept.to_string())),
    )
}

/// Says what became of the changes of a step.
pub(crate) fn conclude(py: Python<'_>, changes: &mut [Change], outcomes: &[Outcome]) -> PyResult<()> {
    for (place, kind, reason, value) in outcomes {
        let Some(change) = changes.get_mut(*place) else { continue };
        match (kind.as_str(), value) {
            ("failed", _) => change.failed(reason),
            ("read", Some(bytes)) => {
                let value = Value::from_bytes(change.value.dtype(), change.value.shape(), bytes);
                change.read_back(value.map_err(|why| config(py, &why))?);
            }
            _ => change.uncertain(),
        }
    }
    Ok(())
}

/// Makes the exception for steering that is not possible.
pub(crate) fn failed(py: Python<'_>, why: &SteeringError) -> PyErr {
    let kind = match why {
        SteeringError::Name(_)
        | SteeringError::Parameter(_)
        | SteeringError::Value(_)
        | SteeringError::Clear
        | SteeringError::Keys { .. }
        | SteeringError::NoParameter(_) => Kind::Config,
        SteeringError::Refused(_) => Kind::SteeringDenied,
        _ => Kind::Steering,
    };
    error(py, kind, why)
}

/// Parameters of a program with a loop of its own; the base of `tallycast.Steering`.
#[pyclass(subclass, frozen, weakref, module = "tallycast._core")]
pub(crate) struct Steering {
    home: Home,
    inner: Mutex<Option<Opened<tallycast::steering::Steering>>>,
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    address: String,
}

#[pymethods]
impl Steering {
    #[new]
    #[pyo3(signature = (name, plan, epoch, *, bus, station))]
    fn new(
        py: Python<'_>,
        name: &str,
        plan: SteeringPlan,
        epoch: &str,
        bus: Option<&str>,
        station: Option<&str>,
    ) -> PyResult<Self> {
        let node = node(py, bus, station)?;
        let epoch: Epoch = epoch.parse().map_err(|why| config(py, &why))?;
        let mut builder = node.steering(name);
        plan.apply(py, &mut builder)?;
        let steering = py.detach(|| builder.open(epoch)).map_err(|why| failed(py, &why))?;
        said::tell(py)?;
        Ok(Self {
            home: Home::here(),
            name: name.to_owned(),
            address: steering.address().to_string(),
            inner: Mutex::new(Some(Opened::new(steering, node))),
        })
    }

    /// Takes the changes of a step boundary: for each the place of its parameter, the value before, and the new one.
    fn _step<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = argument)] index: u64,
        #[pyo3(from_py_with = argument)] time_ns: i64,
    ) -> PyResult<Bound<'py, PyList>> {
        // It waits for nothing, so it need not release the interpreter.
        self.with(py, |steering| changes_of(py, steering.step(index, WallTime::from_nanos(time_ns))))?
    }

    /// Says that the sample of the last step has left, and what became of its changes.
    fn _done(&self, py: Python<'_>, outcomes: Vec<Outcome>) -> PyResult<()> {
        self.with(py, |steering| {
            conclude(py, steering.changes(), &outcomes)?;
            steering.done();
            Ok(())
        })?
    }

    /// Says which elements a parameter has at its device; little-endian.
    fn _read_back(&self, py: Python<'_>, place: usize, elements: PyBackedBytes) -> PyResult<()> {
        self.with(py, |steering| steering.read_back_at(place, &elements))?.map_err(|why| failed(py, &why))
    }

    /// Turns the app's kill switch on.
    fn stop(&self, py: Python<'_>, #[pyo3(from_py_with = argument)] reason: String) -> PyResult<()> {
        self.with(py, |steering| steering.stop(&reason))?.map_err(|why| failed(py, &why))
    }

    /// Releases the app's kill switch.
    fn resume(&self, py: Python<'_>, #[pyo3(from_py_with = argument)] reason: String) -> PyResult<()> {
        self.with(py, |steering| steering.resume(&reason))?.map_err(|why| failed(py, &why))
    }

    /// Totals of the commands, as JSON.
    fn _totals(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |steering| totals_json(&steering.totals()).to_string())
    }

    /// Ends steering; returns the account of all commands as JSON, `None` if it was closed before.
    fn _close(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.home.check(py, "steering")?;
        let totals = py.detach(|| {
            let steering = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
            steering.map(|steering| steering.close(tallycast::steering::Steering::close))
        });
        said::tell(py)?;
        Ok(totals.map(|totals| totals_json(&totals).to_string()))
    }
}

impl Steering {
    /// Runs an operation that takes microseconds.
    fn with<T>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut tallycast::steering::Steering) -> T,
    ) -> PyResult<T> {
        self.home.check(py, "steering")?;
        said::tell(py)?;
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || {
            error(py, Kind::Closed, format!("the steering of `{}` is closed\nopen another one", self.name))
        };
        Ok(what(inner.as_mut().ok_or_else(closed)?))
    }
}
