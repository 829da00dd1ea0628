//! The description beside an exported array, so that it can be published again: `data/README.md` draws the format.
//!
//! Samples of which only some elements are stored count as whole here; the JSON beside it tells them.

use anyhow::Context;
use archive::Recording;
use serde_json::Value;
use toml::{Table, Value as Toml};

/// The labels that such a description has places for.
const LABELS: [&str; 3] = ["title", "origin", "licence"];

/// A piece without a hole.
struct Run {
    rows: i64,
    start_ns: i64,
    next_index: i64,
}

/// Describes an array of which `beside` tells which row is which sample.
pub(super) fn toml(recording: &Recording, beside: &Value) -> anyhow::Result<String> {
    let schema = &recording.description.schema;
    let mut table = Table::new();
    let rate = format!("{}/{}", schema.rate.numerator(), schema.rate.denominator());
    table.insert("rate".into(), rate.into());
    for key in LABELS {
        if let Some(label) = schema.labels.get(key) {
            table.insert(key.into(), label.as_str().into());
        }
    }
    table.insert("channels".into(), Toml::Array(channels(recording)));
    let runs = runs(beside).context("the rows of the array")?;
    match &runs[..] {
        [] => {}
        [only] => drop(table.insert("start_ns".into(), only.start_ns.into())),
        _ => drop(table.insert("runs".into(), Toml::Array(runs.iter().map(Run::to_toml).collect()))),
    }
    Ok(toml::to_string(&table)?)
}

/// A channel for each column of the array: arrays within a sample are taken apart.
fn channels(recording: &Recording) -> Vec<Toml> {
    let mut columns = Vec::new();
    for channel in &recording.description.schema.channels {
        for element in 0..channel.elements().expect("a recorded schema is sound") {
            let place = if channel.shape.is_empty() { String::new() } else { format!("[{element}]") };
            let mut column = Table::new();
            column.insert("name".into(), format!("{}{place}", channel.name).into());
            column.insert("unit".into(), channel.unit.as_str().into());
            column.insert("scale".into(), channel.scale.into());
            column.insert("offset".into(), channel.offset.into());
            columns.push(Toml::Table(column));
        }
    }
    columns
}

/// Joins the rows that follow each other without a hole.
fn runs(beside: &Value) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for block in beside["rows"].as_array()? {
        let [rows, first_index, start_ns] =
            ["samples", "first_index", "t0_ns"].map(|name| block[name].as_i64());
        let (rows, first_index, start_ns) = (rows?, first_index?, start_ns?);
        match runs.last_mut().filter(|run| run.next_index == first_index) {
            Some(run) => {
                run.rows += rows;
                run.next_index += rows;
            }
            None => runs.push(Run { rows, start_ns, next_index: first_index + rows }),
        }
    }
    Some(runs)
}

impl Run {
    fn to_toml(&self) -> Toml {
        let mut run = Table::new();
        run.insert("rows".into(), self.rows.into());
        run.insert("start_ns".into(), self.start_ns.into());
        Toml::Table(run)
    }
}
