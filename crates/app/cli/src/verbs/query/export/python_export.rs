//! Exports that Python's own packages write: NeXus/HDF5, NetCDF, MAT, MCAP.

use std::process::Stdio;

use anyhow::{Context, bail};
use archive::{Recording, StreamEntry};
use serde::Deserialize;
use serde_json::Value;

use super::{Order, report};
use crate::python::Python;

/// What `python/tallycast/_export.py` answers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Refused { error: String },
    Written { samples: u64, holes: Vec<Value>, damage: Vec<String> },
}

/// Writes a recording into a file; returns whether stored data could not be read.
pub(super) fn export(entry: &StreamEntry, recording: &Recording, order: &Order<'_>) -> anyhow::Result<bool> {
    let mut command = Python::find("the writers of such files")?.module("tallycast._export");
    command.args(order.force.then_some("--force")).arg("--").arg(order.root);
    command.args([entry.run.as_str(), entry.name.as_str(), &recording.description.epoch.to_string()]);
    command.args([order.range.start, order.range.end].map(|time| time.as_nanos().to_string()));
    command.arg(order.format).arg(order.path);
    // In this process's group: Ctrl-C ends both.
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.context("the writer of the file cannot be run")?;
    let answer: Answer = serde_json::from_slice(&output.stdout)
        .context("the writer of the file ended early\nits last message is above")?;
    match answer {
        Answer::Refused { error } => bail!(error),
        Answer::Written { samples, holes, damage } => {
            for cause in &damage {
                eprintln!("error: cannot read stored samples: {cause}");
            }
            report(order, samples, &holes)?;
            Ok(!damage.is_empty())
        }
    }
}
