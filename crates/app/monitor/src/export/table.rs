//! Content of an exported file, before it has a form.

use std::sync::Arc;

use serde_json::{Value, json};
use units::{Epoch, WallTime};

use crate::gap_map::KnownGap;

/// A table whose first column, or the one named `time_ns`, ascends.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// What the file tells of itself.
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) columns: Vec<Column>,
    /// Holes that overlap the span, whole, in order of time.
    pub(crate) gaps: Vec<Arc<KnownGap>>,
    /// Epochs of the rows, in their order.
    pub(crate) epochs: Vec<EpochStart>,
}

/// Start of an epoch in a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EpochStart {
    /// Row of its first sample.
    pub(crate) row: usize,
    /// `None`: it ended before live memory, and no archive has it.
    pub(crate) epoch: Option<Epoch>,
}

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) cells: Cells,
}

/// Cells of a column; `None` is a missing value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cells {
    Times(Vec<WallTime>),
    Counts(Vec<Option<u64>>),
    Values(Vec<Option<f64>>),
}

impl Column {
    pub(crate) fn new(name: impl Into<String>, unit: &str, cells: Cells) -> Self {
        Self { name: name.into(), unit: unit.to_owned(), cells }
    }
}

impl Table {
    /// Returns the times of the rows.
    pub(crate) fn times(&self) -> &[WallTime] {
        let times = self.columns.iter().find_map(|column| match &column.cells {
            Cells::Times(times) => Some(times.as_slice()),
            Cells::Counts(_) | Cells::Values(_) => None,
        });
        times.unwrap_or_default()
    }

    /// Returns the epochs as JSON: `[{"epoch": "…", "from_ns": …}]`, with the time of the first row of each.
    pub(crate) fn epochs_json(&self) -> Value {
        let times = self.times();
        let epoch = |start: &EpochStart| {
            let epoch = start.epoch.map(|epoch| epoch.to_string());
            json!({"epoch": epoch, "from_ns": times.get(start.row).map(|time| time.as_nanos())})
        };
        self.epochs.iter().map(epoch).collect()
    }
}
