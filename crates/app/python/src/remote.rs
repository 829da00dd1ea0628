//! The sender's end of steering: a connection to an app that sends commands, reads parameters, holds leases.
//!
//! Each call runs on a thread of its own, so that Ctrl-C ends a wait; the call then goes on without its caller, and its
//! outcome is in the app's log. Python's side is `python/tallycast/_remote.py`.

use std::mem;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use access::May;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use tallycast::StreamName;
use tallycast::steering::{
    Answer, Applied, Conclusion, Listed, MAX_VALIDITY, Needs, News, Remote as Connection, Scope, SetOptions,
    StationKeys, SteeringError, Switches, Totals, Value, find,
};

use crate::errors::{Kind, argument, config, error};
use crate::fork::Home;
use crate::node::node;
use crate::said;
use crate::steering::{Limit, failed};
use crate::waiting::{Patience, seconds};

/// A parameter as it stands.
#[derive(IntoPyObject)]
pub(crate) struct ParameterRow {
    name: String,
    dtype: &'static str,
    shape: Vec<u32>,
    unit: String,
    min: Option<Limit>,
    max: Option<Limit>,
    greatest_step: Option<Limit>,
    administered: bool,
    lease: Option<String>,
    value: Py<PyBytes>,
    known: bool,
    revision: u64,
    holder: Option<String>,
}

/// Totals as JSON, and the kill switches of the app and of all apps.
type State = (String, bool, bool);

/// Parameters and state of an app.
type Told = (Vec<ParameterRow>, State);

/// Epoch, index, revision, and the value that was read back.
type Effect = (String, u64, u64, Py<PyBytes>);

/// Id, outcome, the rule or the app's reason, the rule's advice, and the effect if it was applied.
type Outcome = (String, &'static str, String, String, Option<Effect>);

/// A connection to an app; the base of `tallycast.Remote`.
#[pyclass(subclass, frozen, weakref, module = "tallycast._core")]
pub(crate) struct Remote {
    home: Home,
    inner: Arc<Mutex<Option<Connection>>>,
    /// Name of the app.
    #[pyo3(get)]
    app: String,
    /// The sender of this connection's commands, as the rules of access name it.
    #[pyo3(get)]
    principal: String,
    /// Epoch of the app's stream.
    #[pyo3(get)]
    epoch: String,
    #[pyo3(get)]
    address: String,
    /// Public key of the app, of a secured connection.
    #[pyo3(get, name = "_peer")]
    peer: Option<String>,
}

/// Reason why a call has no result.
enum Refusal {
    Closed,
    /// In words, with what helps.
    Text(String),
    Steering(SteeringError),
}

impl From<SteeringError> for Refusal {
    fn from(why: SteeringError) -> Self {
        Self::Steering(why)
    }
}

#[pymethods]
impl Remote {
    #[new]
    #[pyo3(signature = (app, *, address, key, peer, timeout, bus, station))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        app: &str,
        address: Option<&str>,
        key: Option<PathBuf>,
        peer: Option<String>,
        timeout: f64,
        bus: Option<&str>,
        station: Option<&str>,
    ) -> PyResult<Self> {
        let name: StreamName = app.parse().map_err(|why| config(py, &why))?;
        let patience = seconds(py, "a time-out", timeout)?;
        let address: Option<SocketAddr> = match address {
            Some(text) => Some(text.parse().map_err(|_| {
                config(py, &format!("invalid address `{text}` of an app\nwrite one such as 127.0.0.1:7410"))
            })?),
            None => None,
        };
        let keys = key.map(|path| StationKeys::read(&path)).transpose().map_err(|why| failed(py, &why))?;
        let node = node(py, bus, station)?;
        let opened = wait(py, move || {
            let (connection, address, peer) = match address {
                Some(address) => {
                    let of_peer = keys.map(|it| match &peer {
                        Some(peer) => it.to(peer),
                        None => Ok(it.keys),
                    });
                    (Connection::connect(address, of_peer.transpose()?)?, address, peer)
                }
                None => {
                    let found = find(&node, &name, patience)?;
                    let address = found.address();
                    let peer = address.peer().map(str::to_owned);
                    let keys = match (&peer, keys) {
                        (Some(peer), Some(keys)) => Some(keys.to(peer)?),
                        (Some(_), None) => return Err(SteeringError::Secured(name.to_string()).into()),
                        (None, _) => None,
                    };
                    let socket = address.resolve().map_err(|why| Refusal::Text(why.to_string()))?;
                    (found.connect(keys)?, socket, peer)
                }
            };
            let found = &connection.welcome().app;
            if *found != name {
                let text = format!(
                    "the app at {address} is `{found}`, not `{name}`\nomit the address to find the app"
                );
                return Err(Refusal::Text(text));
            }
            Ok((connection, address, peer))
        })?;
        let (connection, address, peer) = opened.map_err(|why| told(py, app, why))?;
        let welcome = connection.welcome();
        Ok(Self {
            home: Home::here(),
            app: welcome.app.to_string(),
            principal: welcome.principal.clone(),
            epoch: welcome.epoch.to_string(),
            address: address.to_string(),
            peer,
            inner: Arc::new(Mutex::new(Some(connection))),
        })
    }

    /// Returns parameters, totals and kill switches.
    fn _list(&self, py: Python<'_>) -> PyResult<Told> {
        let (parameters, totals, switches) = self.with(py, Connection::list)?;
        let rows = parameters.into_iter().map(|listed| row(py, listed)).collect();
        Ok((rows, state(&totals, switches)))
    }

    /// Sends a command and waits for its conclusion.
    #[pyo3(signature = (parameter, dtype, shape, value, *, if_revision, valid, reason))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn _set(
        &self,
        py: Python<'_>,
        parameter: String,
        dtype: &str,
        shape: Vec<u32>,
        value: PyBackedBytes,
        #[pyo3(from_py_with = argument)] if_revision: Option<u64>,
        valid: f64,
        #[pyo3(from_py_with = argument)] reason: String,
    ) -> PyResult<Outcome> {
        let dtype = dtype.parse().map_err(|why| config(py, &why))?;
        let value = Value::from_bytes(dtype, &shape, &value).map_err(|why| config(py, &why))?;
        let valid = seconds(py, "the validity", valid)?;
        if valid > MAX_VALIDITY {
            // The app would take it for a sender whose clock is wrong, and refuse all further commands of the session.
            let text = format!(
                "a command is valid for at most {MAX_VALIDITY:?}, not {valid:?}\ngive a shorter time, and send it again if it has expired"
            );
            return Err(config(py, &text));
        }
        let options = SetOptions { if_revision, valid, reason };
        let (id, conclusion) =
            self.with(py, move |connection| connection.set(&parameter, value, &options))?;
        Ok(outcome(py, format!("{:032x}", id.0), conclusion))
    }

    /// Takes or renews a lease; with a reason takes it over.
    #[pyo3(signature = (group, take_over=None))]
    fn _lease(&self, py: Python<'_>, group: String, take_over: Option<String>) -> PyResult<()> {
        let granted = self.with(py, move |connection| match take_over {
            None => connection.lease(&group),
            Some(reason) => connection.take_over(&group, &reason),
        });
        granted.map(drop)
    }

    /// Releases a lease.
    fn _release(&self, py: Python<'_>, group: String) -> PyResult<()> {
        self.with(py, move |connection| connection.release(&group))
    }

    /// Turns the kill switch of the app, or of all apps; returns both as they are then.
    fn _switch(&self, py: Python<'_>, all: bool, on: bool, reason: String) -> PyResult<(bool, bool)> {
        let scope = if all { Scope::All } else { Scope::App };
        let switches = self.with(py, move |connection| connection.switch(scope, on, &reason))?;
        Ok((switches.app, switches.all))
    }

    /// Asks to be told of changes.
    fn _watch(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Connection::watch)
    }

    /// Waits for news: a parameter, or the state; nothing if none came in time.
    fn _next(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
    ) -> PyResult<Option<(Option<ParameterRow>, Option<State>)>> {
        self.home.check(py, "connection")?;
        let news = Patience::of(py, timeout)?.wait(py, |slice| {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(connection) = inner.as_mut() else { return Some(Err(Refusal::Closed)) };
            connection.next(slice).map_err(Refusal::from).transpose()
        })?;
        let news = news.transpose().map_err(|why| told(py, &self.app, why))?;
        Ok(news.map(|news| match news {
            News::Parameter(listed) => (Some(row(py, listed)), None),
            News::State { totals, switches } => (None, Some(state(&totals, switches))),
        }))
    }

    /// True once it is closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }

    /// Ends the connection, and with it the session and its leases.
    fn _close(&self, py: Python<'_>) -> PyResult<()> {
        self.home.check(py, "connection")?;
        py.detach(|| drop(self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()));
        said::tell(py)
    }
}

impl Remote {
    /// Runs an operation while other Python threads run; Ctrl-C ends the wait for it.
    fn with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut Connection) -> Result<T, SteeringError> + Send + 'static,
    ) -> PyResult<T> {
        self.home.check(py, "connection")?;
        let inner = Arc::clone(&self.inner);
        let done = wait(py, move || {
            let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(what(inner.as_mut().ok_or(Refusal::Closed)?)?)
        })?;
        done.map_err(|why| told(py, &self.app, why))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let inner = mem::take(&mut self.inner);
        if self.home.is_here() {
            Python::attach(|py| py.detach(|| drop(inner)));
        } else {
            // Its threads stayed with the parent: to end them would be to wait for them.
            mem::forget(inner);
        }
    }
}

/// Calls `what` on a thread, and returns its result.
fn wait<T: Send + 'static>(py: Python<'_>, what: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (ended, end) = mpsc::channel();
    let run = move || drop(ended.send(what()));
    thread::Builder::new().name("tallycast-remote".to_owned()).spawn(run)?;
    let result = Patience::of(py, None)?.wait(py, move |slice| match end.recv_timeout(slice) {
        Ok(result) => Some(Some(result)),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(None),
    })?;
    result.flatten().ok_or_else(|| PyRuntimeError::new_err("the thread of the connection panicked"))
}

fn told(py: Python<'_>, app: &str, why: Refusal) -> PyErr {
    match why {
        Refusal::Closed => {
            error(py, Kind::Closed, format!("the connection to `{app}` is closed\nopen another one"))
        }
        Refusal::Text(text) => error(py, Kind::Steering, text),
        Refusal::Steering(why) => failed(py, &why),
    }
}

fn row(py: Python<'_>, listed: Listed) -> ParameterRow {
    let Listed { parameter, value, is_read, revision, holder } = listed;
    ParameterRow {
        name: parameter.name,
        dtype: parameter.dtype.name(),
        shape: parameter.shape,
        unit: parameter.unit,
        min: parameter.min.map(Limit::from),
        max: parameter.max.map(Limit::from),
        greatest_step: parameter.greatest_step.map(Limit::from),
        administered: parameter.who == May::Administer,
        lease: match parameter.needs {
            Needs::Nothing => None,
            Needs::Lease { group } => Some(group),
        },
        value: PyBytes::new(py, value.bytes()).unbind(),
        known: is_read,
        revision,
        holder,
    }
}

fn state(totals: &Totals, switches: Switches) -> State {
    (tallycast::steering::totals_json(totals).to_string(), switches.app, switches.all)
}

fn outcome(py: Python<'_>, id: String, conclusion: Conclusion) -> Outcome {
    let without = |kind, text: &str| (id.clone(), kind, text.to_owned(), String::new(), None);
    match conclusion {
        Conclusion::Answered(Answer::Applied(Applied { epoch, index, revision, readback })) => {
            let applied = (epoch.to_string(), index, revision, PyBytes::new(py, readback.bytes()).unbind());
            (id, "applied", String::new(), String::new(), Some(applied))
        }
        Conclusion::Answered(Answer::Refused { rule }) => {
            (id, "refused", rule.name().to_owned(), rule.advice().to_owned(), None)
        }
        Conclusion::Answered(Answer::Failed { reason }) => without("failed", &reason),
        Conclusion::Answered(Answer::Expired) => without("expired", ""),
        Conclusion::Answered(Answer::Superseded) => without("superseded", ""),
        Conclusion::NeverArrived => without("never_arrived", ""),
        Conclusion::Answered(_) | Conclusion::Uncertain => without("uncertain", ""),
    }
}
