//! Export of a span of a stream's channels: every sample, or columns with their extremes, as CSV or Parquet.
//!
//! Samples come from the store, and behind them from what live memory still keeps one by one; a time of which neither has
//! them is refused rather than left out. Start with [`export`].

mod csv;
mod parquet;
mod samples;
mod table;

use std::sync::Arc;

use units::WallTime;

use crate::gap_map::KnownGap;
use crate::range::{self, RangeRequest};
use crate::refused::Refused;
use crate::shared::Shared;
use samples::samples;
use table::{Cells, Column, Table};

/// The most values of an export of samples, samples times channels: 55 MB of CSV.
pub(crate) const MAX_VALUES: u64 = 1_000_000;
/// The most channels of an export: the traces of a plot.
pub(crate) const MAX_CHANNELS: usize = crate::view::MAX_TRACES;
/// Scale of all times, as told in every file.
const TIME_SCALE: &str = "UTC, nanoseconds since 1970-01-01T00:00:00Z without leap seconds";

/// Span and channels to be exported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExportRequest {
    pub(crate) stream: String,
    pub(crate) channels: Vec<String>,
    pub(crate) from: WallTime,
    /// End of the span, exclusive.
    pub(crate) to: WallTime,
    pub(crate) values: Values,
}

/// Content of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Values {
    Samples,
    /// Extremes of at most this number of columns.
    Columns(u32),
}

/// Form of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Csv,
    Parquet,
}

impl Form {
    /// Source: RFC 4180; the registration of Apache Parquet at IANA.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Parquet => "application/vnd.apache.parquet",
        }
    }
}

/// Makes the file. Waits for the store.
pub(crate) fn export(shared: &Shared, request: &ExportRequest, form: Form) -> Result<Vec<u8>, Refused> {
    let table = match request.values {
        Values::Samples => samples(shared, request)?,
        Values::Columns(points) => columns(shared, request, points)?,
    };
    match form {
        Form::Csv => Ok(csv::write(&table)),
        Form::Parquet => parquet::write(&table).map_err(|error| Refused::because(&error)),
    }
}

/// Reads the columns of each channel.
fn columns(shared: &Shared, request: &ExportRequest, points: u32) -> Result<Table, Refused> {
    let mut columns = Vec::new();
    let mut gaps: Vec<Arc<KnownGap>> = Vec::new();
    for channel in &request.channels {
        let (stream, channel) = (request.stream.clone(), channel.clone());
        let (from, to) = (Some(request.from), Some(request.to));
        let asked = RangeRequest { stream, channel, from, to, span_ns: 0, points };
        let span = range::read(shared, &asked)?;
        if columns.is_empty() {
            let edges = |behind: u32| {
                let edges = (0..span.grid.count).map(|column| span.grid.edge(column + behind));
                Cells::Times(edges.collect())
            };
            columns.push(Column::new("from_ns", "ns", edges(0)));
            columns.push(Column::new("to_ns", "ns", edges(1)));
            gaps.clone_from(&span.gaps);
        }
        let values = |pick: fn(&sample::Column) -> f64| {
            let values = span.columns.iter().map(|column| Some(pick(column)).filter(|value| !value.is_nan()));
            Cells::Values(values.collect())
        };
        let counts = |pick: fn(&sample::Column) -> u64| {
            Cells::Counts(span.columns.iter().map(|column| Some(pick(column))).collect())
        };
        let name = |what: &str| format!("{} {what}", asked.channel);
        columns.push(Column::new(name("min"), &span.unit, values(|column| column.min)));
        columns.push(Column::new(name("max"), &span.unit, values(|column| column.max)));
        columns.push(Column::new(name("samples"), "", counts(|column| column.present)));
        let missing = counts(|column| column.expected.saturating_sub(column.present));
        columns.push(Column::new(name("missing_samples"), "", missing));
    }
    let facts = facts(request, "least and greatest value of each column, and its samples");
    Ok(Table { facts, columns, gaps, epochs: Vec::new() })
}

/// Returns what a file tells of itself, in order.
fn facts(request: &ExportRequest, values: &str) -> Vec<(&'static str, String)> {
    vec![
        ("stream", request.stream.clone()),
        ("values", values.to_owned()),
        ("time_scale", TIME_SCALE.to_owned()),
        ("from_ns", request.from.as_nanos().to_string()),
        ("to_ns", request.to.as_nanos().to_string()),
    ]
}

#[cfg(test)]
mod tests;
