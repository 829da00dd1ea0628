//! Which part of a shared view a visitor may see and change: plots name streams, and a stream is shown only to those
//! who may read it.

use access::May;
use serde_json::{Map, Value};
use shared_view::{Document, Write};

use crate::admission::Visitor;
use crate::refused::Refused;

/// Returns whether the visitor may edit shared views at all: with the right to derive any stream.
pub(crate) fn write_of(visitor: &Visitor) -> Write {
    match visitor.may_somewhere(May::Derive) {
        Ok(()) => Write::Allowed,
        Err(refused) => Write::Denied(refused.line()),
    }
}

/// Leaves out the traces of streams that the visitor may not read.
pub(crate) fn hide(visitor: &Visitor, fields: &mut Map<String, Value>) {
    if visitor.reads_all() {
        return;
    }
    for traces in fields.values_mut().filter_map(|plot| plot.get_mut("traces")?.as_array_mut()) {
        traces.retain(|trace| stream_of(trace).is_none_or(|stream| visitor.reads(stream)));
    }
}

/// Checks that the visitor may read the streams that it writes into a document.
///
/// # Errors
/// The rule that denies one.
pub(crate) fn may_name(visitor: &Visitor, fields: &Map<String, Value>) -> Result<(), Refused> {
    if visitor.reads_all() {
        return Ok(());
    }
    fields.values().flat_map(streams_of).try_for_each(|stream| visitor.may(May::Read, stream))
}

/// Checks that the visitor sees the plots that it is about to overwrite or delete as they are.
///
/// # Errors
/// A plot has a trace that the visitor may not see, which is not named.
pub(crate) fn may_replace<'n>(
    visitor: &Visitor,
    document: &Document,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<(), Refused> {
    if visitor.reads_all() {
        return Ok(());
    }
    let is_hidden = |name: &&str| {
        let mut streams = document.field(name).into_iter().flat_map(streams_of);
        streams.any(|stream| !visitor.reads(stream))
    };
    match names.into_iter().find(is_hidden) {
        None => Ok(()),
        Some(name) => Err(Refused::hidden_trace(name)),
    }
}

fn streams_of(value: &Value) -> impl Iterator<Item = &str> {
    let traces = value.get("traces").and_then(Value::as_array);
    traces.into_iter().flatten().filter_map(stream_of)
}

fn stream_of(trace: &Value) -> Option<&str> {
    trace.get("stream").and_then(Value::as_str)
}
