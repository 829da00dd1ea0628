//! A span as an Arrow IPC stream, which pandas, polars and DuckDB read directly.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, TimestampNanosecondArray, UInt64Array};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use sample::Column;
use serde_json::Value;

use super::{RangeRequest, Span};

/// The media type of an Arrow IPC stream.
pub(crate) const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";

/// Returns the span as an Arrow IPC stream of one batch; the gaps are JSON in the schema's metadata.
pub(crate) fn to_arrow(span: &Span, request: &RangeRequest) -> Result<Vec<u8>, ArrowError> {
    let utc = || DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let fields = vec![
        Field::new("from", utc(), false),
        Field::new("to", utc(), false),
        Field::new("min", DataType::Float64, true),
        Field::new("max", DataType::Float64, true),
        Field::new("samples", DataType::UInt64, false),
        Field::new("missing_samples", DataType::UInt64, false),
    ];
    let gaps: Value = span.gaps.iter().map(|gap| gap.to_json()).collect();
    let metadata: HashMap<String, String> = [
        ("stream", request.stream.clone()),
        ("channel", request.channel.clone()),
        ("unit", span.unit.clone()),
        ("origin", span.origin.to_owned()),
        ("gaps", gaps.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let edges = |behind: u32| {
        let edges = (0..span.grid.count).map(|column| span.grid.edge(column + behind).as_nanos());
        let edges = edges.collect::<Vec<_>>();
        Arc::new(TimestampNanosecondArray::from(edges).with_timezone("UTC")) as ArrayRef
    };
    let extremes = |pick: fn(&Column) -> f64| {
        let values = span.columns.iter().map(|column| Some(pick(column)).filter(|value| !value.is_nan()));
        Arc::new(values.collect::<Float64Array>()) as ArrayRef
    };
    let counts = |pick: fn(&Column) -> u64| {
        Arc::new(span.columns.iter().map(pick).collect::<UInt64Array>()) as ArrayRef
    };
    let arrays = vec![
        edges(0),
        edges(1),
        extremes(|column| column.min),
        extremes(|column| column.max),
        counts(|column| column.present),
        counts(|column| column.expected.saturating_sub(column.present)),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.write(&batch)?;
    writer.into_inner()
}
