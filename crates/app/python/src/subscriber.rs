//! Reading streams from Python: blocks in the reader's own memory, passed to NumPy without another copy.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use sample::{Schema, StreamName};
use serde_json::Value;
use tallycast::{Delivery, Start, StreamAccount, StreamPattern, account_json};
use units::Epoch;

use crate::block::Block;
use crate::errors::{Kind, argument, config, error};
use crate::fork::Home;
use crate::node::{Opened, node};
use crate::said;
use crate::schema::Layout;
use crate::waiting::{Patience, seconds};

/// The subscriber behind a Python object, with its received blocks.
pub(crate) struct Shared {
    home: Home,
    inner: Mutex<Option<Opened<tallycast::Subscriber>>>,
    /// Asks a waiting call to release the subscriber to a closing one.
    closing: AtomicBool,
}

/// A reader of streams; the base of `tallycast.Subscriber`.
#[pyclass(subclass, frozen, weakref, module = "tallycast._core")]
pub(crate) struct Subscriber {
    shared: Arc<Shared>,
    newest: bool,
    until_end: bool,
    timeout: Option<f64>,
    layouts: Mutex<BTreeMap<usize, Arc<Layout>>>,
}

/// Maximum number of cached schemas: those of concurrent streams, and some earlier ones.
const MAX_LAYOUTS: usize = 256;

/// Result of waiting.
enum Came {
    Block(Delivery),
    /// Every stream has ended.
    End,
    Closed,
}

#[pymethods]
impl Subscriber {
    #[new]
    #[pyo3(signature = (patterns, *, timeout, newest, until_end, reader, deadline, sources, max_sample_bytes, views,
                        spin, start, bus))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        patterns: Vec<String>,
        timeout: Option<f64>,
        newest: bool,
        until_end: bool,
        reader: Option<String>,
        deadline: Option<f64>,
        sources: Vec<String>,
        max_sample_bytes: Option<usize>,
        views: bool,
        spin: f64,
        start: Option<&str>,
        bus: Option<&str>,
    ) -> PyResult<Self> {
        Patience::of(py, timeout)?;
        let node = node(py, bus, None)?;
        let (first, more) = patterns
            .split_first()
            .ok_or_else(|| config(py, &"a subscriber needs a pattern\nset one such as \"lab/*\""))?;
        let mut builder = node.subscriber(first.as_str());
        builder = more.iter().fold(builder, |builder, pattern| builder.pattern(pattern.as_str()));
        if let Some(reader) = reader {
            builder = builder.reader(reader);
        }
        if let Some(deadline) = deadline {
            builder = builder.deadline(seconds(py, "deadline", deadline)?);
        }
        if let Some(bytes) = max_sample_bytes {
            builder = builder.max_sample_bytes(bytes);
        }
        if views {
            builder = builder.leave_blocks_in_ring();
        }
        builder = builder.spin(seconds(py, "spin", spin)?);
        if let Some(start) = start {
            builder = builder.start(start_of(py, start)?);
        }
        for address in sources {
            let address = address.parse().map_err(|_| {
                config(py, &format!("invalid address `{address}`\nwrite one such as 239.1.2.3:7400"))
            })?;
            builder = builder.from(address);
        }
        let subscriber = py.detach(|| builder.open()).map_err(|why| config(py, &why))?;
        said::tell(py)?;
        let shared = Shared {
            home: Home::here(),
            inner: Mutex::new(Some(Opened::new(subscriber, node))),
            closing: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared), newest, until_end, timeout, layouts: Mutex::default() })
    }

    /// Returns the next block, `None` if none arrived within `timeout` seconds, or if all requested streams have ended.
    #[pyo3(signature = (timeout=None))]
    fn read(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument)] timeout: Option<f64>,
    ) -> PyResult<Option<Py<Block>>> {
        self.shared.home.check(py, "subscriber")?;
        let patience = Patience::of(py, timeout)?;
        if !self.newest
            && let Some(delivery) = self.shared.at_hand()
        {
            return self.block(py, delivery).map(Some);
        }
        let came = patience.wait(py, |slice| self.shared.attempt(slice, self.newest, self.until_end))?;
        match came {
            Some(Came::Block(delivery)) => self.block(py, delivery).map(Some),
            Some(Came::Closed) => Err(closed(py)),
            Some(Came::End) | None => Ok(None),
        }
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<Block>>> {
        self.read(py, self.timeout)
    }

    /// Joins more streams.
    fn add(&self, py: Python<'_>, #[pyo3(from_py_with = argument)] pattern: String) -> PyResult<()> {
        let pattern: StreamPattern = pattern.parse().map_err(|why| config(py, &why))?;
        self.shared.with(py, |subscriber| subscriber.add_pattern(pattern))
    }

    /// Leaves the streams that no other pattern matches.
    fn remove(&self, py: Python<'_>, #[pyo3(from_py_with = argument)] pattern: String) -> PyResult<()> {
        let pattern: StreamPattern = pattern.parse().map_err(|why| config(py, &why))?;
        self.shared.with(py, |subscriber| subscriber.remove_pattern(&pattern))
    }

    /// Patterns of the reader.
    #[getter]
    fn patterns(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.shared.with(py, |subscriber| subscriber.patterns().iter().map(ToString::to_string).collect())
    }

    /// The accounts of all epochs, those that have ended and those that are open, as JSON.
    fn _accounts(&self, py: Python<'_>) -> PyResult<String> {
        self.shared.with(py, |subscriber| accounts_text(&all_accounts(subscriber)))
    }

    /// Leaves all streams; returns every account as JSON, `None` if it was closed before.
    fn _close(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.shared.home.check(py, "subscriber")?;
        // SeqCst: next to the lock that follows, the ordering costs nothing here.
        self.shared.closing.store(true, Ordering::SeqCst);
        let text = py.detach(|| {
            let subscriber = self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
            subscriber.map(|subscriber| accounts_text(&subscriber.close(tallycast::Subscriber::close)))
        });
        said::tell(py)?;
        Ok(text)
    }

    /// True once it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.closing.load(Ordering::SeqCst)
    }
}

impl Subscriber {
    fn block(&self, py: Python<'_>, delivery: Delivery) -> PyResult<Py<Block>> {
        let layout = self.layout(py, &delivery.block.schema)?;
        Block::new(py, delivery, layout, Arc::downgrade(&self.shared))
    }

    /// Returns the layout of a schema, made once per schema.
    fn layout(&self, py: Python<'_>, schema: &Arc<Schema>) -> PyResult<Arc<Layout>> {
        // The layout holds the schema, so that no other schema gets its address.
        let key = Arc::as_ptr(schema).addr();
        let mut layouts = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layout) = layouts.get(&key) {
            return Ok(Arc::clone(layout));
        }
        let layout = Arc::new(Layout::new(py, Arc::clone(schema))?);
        if layouts.len() >= MAX_LAYOUTS {
            layouts.clear();
        }
        layouts.insert(key, Arc::clone(&layout));
        Ok(layout)
    }
}

impl Shared {
    /// Returns a block that was read together with earlier ones. That is faster than releasing the interpreter, which
    /// other threads can have between any two calls anyway.
    fn at_hand(&self) -> Option<Delivery> {
        // A waiting call may hold it now, perhaps for long, with the interpreter released.
        self.inner.try_lock().ok()?.as_mut()?.block_at_hand()
    }

    fn attempt(&self, slice: Duration, newest: bool, until_end: bool) -> Option<Came> {
        if self.closing.load(Ordering::SeqCst) {
            return Some(Came::Closed);
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(subscriber) = inner.as_mut() else { return Some(Came::Closed) };
        let delivery = if newest { subscriber.newest_block(slice) } else { subscriber.next_block(slice) };
        match delivery {
            Some(delivery) => Some(Came::Block(delivery)),
            None if until_end && subscriber.has_reached_end() => Some(Came::End),
            None => None,
        }
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut tallycast::Subscriber) -> T + Send,
    ) -> PyResult<T> {
        self.home.check(py, "subscriber")?;
        let done = py.detach(|| {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.as_mut().map(|subscriber| what(subscriber))
        });
        said::tell(py)?;
        done.ok_or_else(|| closed(py))
    }

    /// Returns the account of one epoch as JSON, `null` if it is no longer kept.
    pub(crate) fn account(&self, py: Python<'_>, stream: &StreamName, epoch: Epoch) -> PyResult<String> {
        self.with(py, |subscriber| {
            let accounts = all_accounts(subscriber);
            let found = accounts.iter().rfind(|it| *it.stream == *stream && it.epoch == epoch);
            found.map_or(Value::Null, account_json).to_string()
        })
    }
}

fn closed(py: Python<'_>) -> PyErr {
    error(py, Kind::Closed, "the subscriber is closed\nopen another one")
}

fn all_accounts(subscriber: &tallycast::Subscriber) -> Vec<StreamAccount> {
    subscriber.ended_accounts().cloned().chain(subscriber.accounts()).collect()
}

fn accounts_text(accounts: &[StreamAccount]) -> String {
    accounts.iter().map(account_json).collect::<Value>().to_string()
}

fn start_of(py: Python<'_>, word: &str) -> PyResult<Start> {
    match word {
        "beginning" => Ok(Start::Beginning),
        "now" => Ok(Start::Now),
        _ => Err(config(py, &format!("invalid start `{word}`: use beginning or now"))),
    }
}
