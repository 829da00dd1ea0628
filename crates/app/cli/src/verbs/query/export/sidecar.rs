//! Description file of an exported array, so that it can be published again: the format is in `data/README.md`.

use anyhow::Context;
use archive::Recording;
use serde_json::Value;
use tallycast::{Channel, Schema, WallTime};
use toml::{Table, Value as Toml};

use crate::wholeness::parts;

/// Consecutive rows without a hole, all complete or all incomplete.
struct Run {
    rows: u64,
    first_index: u64,
    start_ns: i64,
    /// True if elements of each of them are missing.
    partial: bool,
}

/// Describes an array; `beside` maps rows to samples.
pub(super) fn toml(recording: &Recording, beside: &Value) -> anyhow::Result<String> {
    let schema = &recording.description.schema;
    let mut table = Table::new();
    let rate = format!("{}/{}", schema.rate.numerator(), schema.rate.denominator());
    table.insert("rate".into(), rate.into());
    if !schema.labels.is_empty() {
        let labels = schema.labels.iter().map(|(key, label)| (key.clone(), label.as_str().into()));
        table.insert("labels".into(), Toml::Table(labels.collect()));
    }
    let channels = schema.channels.iter().map(channel).collect::<anyhow::Result<_>>()?;
    table.insert("channels".into(), Toml::Array(channels));
    let runs = runs(beside, schema).context("the rows of the array")?;
    let runs = runs.iter().map(Run::to_toml).collect::<anyhow::Result<_>>()?;
    table.insert("runs".into(), Toml::Array(runs));
    Ok(toml::to_string(&table)?)
}

fn channel(channel: &Channel) -> anyhow::Result<Toml> {
    let mut table = Table::new();
    table.insert("name".into(), channel.name.as_str().into());
    table.insert("unit".into(), channel.unit.as_str().into());
    table.insert("scale".into(), channel.scale.into());
    table.insert("offset".into(), channel.offset.into());
    if !channel.shape.is_empty() {
        table.insert("shape".into(), Toml::try_from(&channel.shape)?);
    }
    Ok(Toml::Table(table))
}

/// Joins consecutive rows, complete or not.
fn runs(beside: &Value, schema: &Schema) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for block in beside["rows"].as_array()? {
        let (samples, first_index) = (block["samples"].as_u64()?, block["first_index"].as_u64()?);
        let t0 = WallTime::from_nanos(block["t0_ns"].as_i64()?);
        let range = |range: &Value| Some(range[0].as_u64()?..range[1].as_u64()?);
        let missing: Vec<_> =
            block["missing_elements"].as_array()?.iter().map(range).collect::<Option<_>>()?;
        for part in parts(samples, missing, schema.elements_per_sample()) {
            let (first, count) = (first_index + part.samples.start, part.samples.end - part.samples.start);
            let partial = !part.whole;
            let follows = |run: &&mut Run| run.partial == partial && run.first_index + run.rows == first;
            match runs.last_mut().filter(follows) {
                Some(run) => run.rows += count,
                None => {
                    let start_ns = schema.rate.time_of(first, first_index, t0).as_nanos();
                    runs.push(Run { rows: count, first_index: first, start_ns, partial });
                }
            }
        }
    }
    Some(runs)
}

impl Run {
    fn to_toml(&self) -> anyhow::Result<Toml> {
        let mut run = Table::new();
        run.insert("rows".into(), i64::try_from(self.rows)?.into());
        run.insert("start_ns".into(), self.start_ns.into());
        run.insert("first_index".into(), i64::try_from(self.first_index)?.into());
        if self.partial {
            run.insert("partial".into(), true.into());
        }
        Ok(Toml::Table(run))
    }
}
