//! The process on its buses: one node for each, shared by all that is opened there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use serde_json::{Value, json};
use tallycast::{Announced, Bus, Node, OnHost, schema_json};

use crate::errors::config;
use crate::fork::Home;
use crate::said;

/// What tells the nodes of a process apart.
type BusAndStation = (String, Option<String>);

/// The nodes of this process. A process receives once for all its readers.
static NODES: Mutex<BTreeMap<BusAndStation, (Home, Node)>> = Mutex::new(BTreeMap::new());

/// Returns the node on a bus, that of the environment if none is named.
pub(crate) fn node(py: Python<'_>, bus: Option<&str>, station: Option<&str>) -> PyResult<Node> {
    said::begin();
    let bus = bus.map_or_else(Bus::from_env, str::parse).map_err(|error| config(py, &error))?;
    let mut nodes = NODES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (bus.to_string(), station.map(str::to_owned));
    if let Some((home, node)) = nodes.remove(&key) {
        if home.is_here() {
            nodes.insert(key, (home, node.clone()));
            return Ok(node);
        }
        // Its threads stayed with the parent: to end it would be to wait for them.
        std::mem::forget(node);
    }
    let builder = Node::builder().bus(bus);
    let builder = match station {
        Some(station) => builder.station(station),
        None => builder,
    };
    let node = builder.build().map_err(|error| config(py, &error))?;
    nodes.insert(key, (Home::here(), node.clone()));
    Ok(node)
}

/// Returns the address of the bus that is meant, with everything that it leaves open filled in.
#[pyfunction]
#[pyo3(signature = (bus=None))]
pub(crate) fn bus_of(py: Python<'_>, bus: Option<&str>) -> PyResult<String> {
    let bus = bus.map_or_else(Bus::from_env, str::parse).map_err(|error| config(py, &error))?;
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
pub(crate) fn streams(py: Python<'_>, timeout: f64, bus: Option<&str>) -> PyResult<String> {
    let node = node(py, bus, None)?;
    let patience = Duration::try_from_secs_f64(timeout).map_err(|error| config(py, &error))?;
    let announced = py.detach(|| node.streams(patience)).map_err(|error| config(py, &error))?;
    let mut rows = BTreeMap::new();
    for Announced { announcement: it, .. } in announced {
        let row = json!({
            "name": it.name.as_str(), "station": it.station, "dtype": it.dtype.name(),
            "rate": {"numerator": it.rate.numerator(), "denominator": it.rate.denominator()},
            "channels": it.channels, "elements_per_sample": it.elements_per_sample, "reach": "udp",
        });
        rows.insert(it.name.to_string(), row);
    }
    for OnHost { description, reach, .. } in node.streams_on_host() {
        let mut row = schema_json(&description.schema);
        row["name"] = json!(description.name.as_str());
        row["station"] = json!(description.station);
        row["channels"] = json!(description.schema.channels.len());
        row["reach"] = json!(reach.leg());
        rows.insert(description.name.to_string(), row);
    }
    said::tell(py)?;
    Ok(Value::from_iter(rows.into_values()).to_string())
}
