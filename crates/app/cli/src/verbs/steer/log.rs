//! `tallycast steer log` and `verify`: every command to an app, in its own log on this host.

mod seen;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use archive::moment_text as utc;
use clap::Args;
use serde_json::json;
use tallycast::StreamName;
use tallycast::steering::{
    Log, LogError, Record, SteeringError, VerifiedLog, default_log, read_log, record_json, verify_log,
};

use crate::Outcome;
use crate::layout;
use crate::messages::print_line;
use crate::verbs::query::public_key;

/// A log: of an app with its usual place, or a file.
#[derive(Args, Debug)]
pub(super) struct File {
    /// Name of the app
    app: String,
    /// File of its log [default: $XDG_STATE_HOME/tallycast/steer/APP.log]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl File {
    fn place(&self) -> anyhow::Result<(StreamName, PathBuf)> {
        let app: StreamName = self.app.parse()?;
        let path = self.file.clone().unwrap_or_else(|| default_log(&app));
        Ok((app, path))
    }

    fn read(&self) -> anyhow::Result<(StreamName, Vec<Vec<u8>>, PathBuf)> {
        let (app, path) = self.place()?;
        let segments = read_log(&path).with_context(|| {
            format!(
                "no log of `{app}`: {}\nname its file with --file, on the host where the app runs",
                path.display()
            )
        })?;
        Ok((app, segments, path))
    }
}

/// Prints the records of a log.
pub(super) fn print(file: &File, json: bool) -> anyhow::Result<Outcome> {
    let (app, segments, path) = file.read()?;
    let log = Log::recover(&app, &segments).map_err(|error| damaged(&error, &path))?;
    for (number, entry) in (log.head.count - log.entries.len() as u64..).zip(&log.entries) {
        if json {
            let mut object = record_json(&entry.record);
            object["record"] = json!(number);
            object["time_ns"] = json!(entry.time.as_nanos());
            print_line(&object)?;
        } else {
            let head = format!("{}  ", utc(entry.time));
            let text = layout::hanging(&head, &record_text(&entry.record), layout::width());
            writeln!(std::io::stdout().lock(), "{text}")?;
        }
    }
    Ok(Outcome::Fine)
}

/// Verifies a log, with an authority also its signed head, and against an archive that recorded its stream.
pub(super) fn verify(
    file: &File,
    authority: Option<&str>,
    against: Option<&Path>,
) -> anyhow::Result<Outcome> {
    let (app, path) = file.place()?;
    let authority = authority.map(public_key).transpose()?;
    let seen = against.map(|archive| seen::of_archive(archive, &app)).transpose()?;
    let mut output = std::io::stdout().lock();
    match verify_log(&app, &path, authority.as_ref()) {
        Ok(VerifiedLog { log, signed }) => {
            let digest: String = log.head.digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            let count = log.head.count;
            writeln!(output, "{count} records, each follows from those before it; head {digest}")?;
            match signed {
                Some((count, station)) => writeln!(output, "station {station} signed the first {count}")?,
                None if seen.is_none() => writeln!(
                    output,
                    "no signature was checked: a cut-off end shows only with --authority or --against, or against a head kept elsewhere"
                )?,
                None => {}
            }
            match seen.map(|seen| log.compare(seen)).transpose() {
                Ok(None) => {}
                Ok(Some(0)) => bail!(
                    "the archive has no record of `{app}`\nname one that recorded its stream, steer/{app}"
                ),
                Ok(Some(compared)) => {
                    writeln!(output, "the {compared} records that the archive has of it are in the log")?;
                }
                Err(error) => {
                    writeln!(output, "{error}: {}", path.display())?;
                    return Ok(Outcome::Found);
                }
            }
            Ok(Outcome::Fine)
        }
        Err(error @ (SteeringError::Log { .. } | SteeringError::Head { .. })) => {
            writeln!(output, "{error}")?;
            Ok(Outcome::Found)
        }
        Err(error) => Err(error.into()),
    }
}

fn damaged(error: &LogError, path: &Path) -> anyhow::Error {
    anyhow!("{error}: {}\ncheck it with `tallycast steer verify`", path.display())
}

/// Returns a record as a sentence.
fn record_text(record: &Record) -> String {
    let object = record_json(record);
    let text = |key: &str| match &object[key] {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    };
    let because = match text("reason") {
        reason if reason.is_empty() => reason,
        reason => format!(" ({reason})"),
    };
    let outcome = || {
        let detail = match &object["outcome"] {
            it if it == "applied" => {
                format!(
                    " {} from sample {} on, revision {}",
                    text("readback"),
                    text("index"),
                    text("revision")
                )
            }
            it if it == "refused" => format!(" by rule {}", text("rule")),
            it if it == "failed" => format!(": {}", text("failure")),
            _ => String::new(),
        };
        format!("{}{detail}", text("outcome"))
    };
    match record {
        Record::Began { .. } => format!("the app began, epoch {}", text("epoch")),
        Record::Intent { .. } => {
            format!(
                "{}: {} = {}{because}, {}",
                short(&text("id")),
                text("parameter"),
                text("value"),
                text("by")
            )
        }
        Record::Attempt { .. } => format!(
            "{}: {} = {}{because}, {}: {}",
            short(&text("id")),
            text("parameter"),
            text("value"),
            text("by"),
            outcome()
        ),
        Record::Outcome { .. } => format!("{}: {} {}", short(&text("id")), text("parameter"), outcome()),
        Record::Lease { .. } => {
            format!(
                "lease of {}: {}{because}, {}",
                text("group"),
                text("change").replace('_', " "),
                text("by")
            )
        }
        Record::Switch { is_on, .. } => {
            format!("kill switch {}{because}, {}", if *is_on { "on" } else { "off" }, text("by"))
        }
        Record::Checkpoint { .. } => format!("checkpoint of the {} records before", text("records")),
        Record::Standing { .. } => {
            format!("checkpoint: {}, revision {}", text("parameter"), text("revision"))
        }
        Record::Open { .. } => {
            format!("checkpoint: {}: {} without an outcome", short(&text("id")), text("parameter"))
        }
        _ => format!("refused while the log was behind: {}", text("refused_by_rule")),
    }
}

/// Returns the beginning of an id, by which a reader finds its other records.
fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}
