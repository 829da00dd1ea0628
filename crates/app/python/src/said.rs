//! Log messages of the library, passed on to Python's `logging` under the name `tallycast`.
//!
//! They come from threads unknown to Python, for some of which a thread that holds the interpreter may be waiting. So
//! messages are kept, and delivered by the next call from Python.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Maximum number of kept messages; beyond it the oldest is dropped.
const MAX_KEPT: usize = 256;

static KEPT: Mutex<VecDeque<(Level, String)>> = Mutex::new(VecDeque::new());
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Starts collecting, unless a subscriber is already set in this process.
pub(crate) fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(tracing::subscriber::set_global_default(Keeper)));
}

/// Delivers the kept messages to Python.
#[inline]
pub(crate) fn tell(py: Python<'_>) -> PyResult<()> {
    if IS_ANY.load(Ordering::Relaxed) { tell_all(py) } else { Ok(()) }
}

fn tell_all(py: Python<'_>) -> PyResult<()> {
    IS_ANY.store(false, Ordering::Relaxed);
    let said = std::mem::take(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner));
    let logger = py.import("logging")?.call_method1("getLogger", ("tallycast",))?;
    for (level, text) in said {
        let level = if level == Level::ERROR { "error" } else { "warning" };
        logger.call_method1(level, ("%s", text))?;
    }
    Ok(())
}

/// Keeps warnings and errors.
struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back((*event.metadata().level(), text.0));
        IS_ANY.store(true, Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Text of an event.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = if field.name() == "message" {
            write!(self.0, "{value:?}")
        } else {
            write!(self.0, " {}={value:?}", field.name())
        };
    }
}
