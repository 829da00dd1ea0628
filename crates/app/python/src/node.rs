//! Nodes of the process: one per bus, shared by all objects opened on it, while any exists.
//!
//! Nodes have threads and sockets, so they are held weakly here: a node ends with its last publisher or subscriber. What it
//! remembers of its streams outlives it.

use std::collections::BTreeMap;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use pyo3::prelude::*;
use serde_json::{Value, json};
use tallycast::{Announced, Bus, LastEpochs, Node, OnHost};

use crate::errors::{argument, config};
use crate::fork::Home;
use crate::said;

/// Key of a node within a process.
type BusAndStation = (String, Option<String>);

/// Nodes of this process. A process receives once for all its readers.
static NODES: Mutex<Option<Nodes>> = Mutex::new(None);

/// The nodes of one process.
struct Nodes {
    home: Home,
    open: BTreeMap<BusAndStation, Weak<Node>>,
    last_epochs: LastEpochs,
}

/// An object opened on a node, which it keeps alive: dropped in its own process without the interpreter, leaked in a
/// forked child.
pub(crate) struct Opened<T: Send> {
    home: Home,
    /// `None` once closed.
    parts: Option<(T, Arc<Node>)>,
}

/// Returns the node on a bus; the default is the bus of the environment.
pub(crate) fn node(py: Python<'_>, bus: Option<&str>, station: Option<&str>) -> PyResult<Arc<Node>> {
    said::begin();
    let bus = bus.map_or_else(Bus::from_env, str::parse).map_err(|error| config(py, &error))?;
    let mut nodes = NODES.lock().unwrap_or_else(PoisonError::into_inner);
    // Nodes of a parent process belong to the parent: a forked child begins without any.
    let ours = nodes.take().filter(|nodes| nodes.home.is_here()).unwrap_or_else(Nodes::new);
    let nodes = nodes.insert(ours);
    let key = (bus.to_string(), station.map(str::to_owned));
    if let Some(node) = nodes.open.get(&key).and_then(Weak::upgrade) {
        return Ok(node);
    }
    let builder = Node::builder().bus(bus).last_epochs(nodes.last_epochs.clone());
    let builder = match station {
        Some(station) => builder.station(station),
        None => builder,
    };
    let node = Arc::new(builder.build().map_err(|error| config(py, &error))?);
    nodes.open.retain(|_, node| node.strong_count() > 0);
    nodes.open.insert(key, Arc::downgrade(&node));
    Ok(node)
}

impl Nodes {
    fn new() -> Self {
        Self { home: Home::here(), open: BTreeMap::new(), last_epochs: LastEpochs::default() }
    }
}

impl<T: Send> Opened<T> {
    pub(crate) fn new(what: T, node: Arc<Node>) -> Self {
        Self { home: Home::here(), parts: Some((what, node)) }
    }

    /// Closes it in order; its node ends with its last user. Call without the interpreter.
    pub(crate) fn close<R>(mut self, close: impl FnOnce(T) -> R) -> R {
        let (what, node) = self.parts.take().expect("only this takes the parts, and it takes all of it");
        let result = close(what);
        drop(node);
        result
    }
}

impl<T: Send> Deref for Opened<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.parts.as_ref().expect("the parts go with the whole").0
    }
}

impl<T: Send> DerefMut for Opened<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.parts.as_mut().expect("the parts go with the whole").0
    }
}

impl<T: Send> Drop for Opened<T> {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        if self.home.is_here() {
            // Python's collector blocks everything else: queued samples are sent meanwhile.
            Python::attach(|py| py.detach(|| drop(parts)));
        } else {
            // Their threads stayed with the parent: to end them would be to wait for them.
            mem::forget(parts);
        }
    }
}

/// Returns the address of the bus that is meant, with everything that it leaves open filled in.
#[pyfunction]
#[pyo3(signature = (bus=None))]
pub(crate) fn bus_of(
    py: Python<'_>,
    #[pyo3(from_py_with = argument)] bus: Option<String>,
) -> PyResult<String> {
    let bus = bus.map_or_else(Bus::from_env, |bus| bus.parse()).map_err(|error| config(py, &error))?;
    Ok(bus.to_string())
}

/// Returns the time as publishers write it. Units: nanoseconds since 1970 UTC.
#[pyfunction]
pub(crate) fn now_ns() -> i64 {
    tallycast::now().as_nanos()
}

/// Returns the streams that can be read, as JSON: those in this host's shared memory, and those announced on the network
/// while it listens for `timeout` seconds.
#[pyfunction]
#[pyo3(signature = (timeout, bus=None))]
pub(crate) fn streams(
    py: Python<'_>,
    #[pyo3(from_py_with = argument)] timeout: f64,
    #[pyo3(from_py_with = argument)] bus: Option<String>,
) -> PyResult<String> {
    let node = node(py, bus.as_deref(), None)?;
    let patience = Duration::try_from_secs_f64(timeout).map_err(|error| config(py, &error))?;
    let level = node.level().name();
    let (announced, on_host) = py.detach(move || (node.streams(patience), node.streams_on_host()));
    let announced = announced.map_err(|error| config(py, &error))?;
    let mut rows = BTreeMap::new();
    for Announced { announcement: it, .. } in announced {
        let row = json!({
            "name": it.name.as_str(), "station": it.station, "dtype": it.dtype.name(),
            "rate": it.rate,
            "channels": it.channels, "elements_per_sample": it.elements_per_sample, "reach": "udp", "level": level,
        });
        rows.insert(it.name.to_string(), row);
    }
    for OnHost { description, reach, .. } in on_host {
        let mut row = json!(description.schema);
        row["name"] = json!(description.name.as_str());
        row["station"] = json!(description.station);
        row["channels"] = json!(description.schema.channels.len());
        row["reach"] = json!(reach.hop());
        row["level"] = json!(level);
        rows.insert(description.name.to_string(), row);
    }
    said::tell(py)?;
    Ok(Value::from_iter(rows.into_values()).to_string())
}
