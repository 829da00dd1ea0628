//! Runs as JSON, the same on the command line, in Python and from the monitor.

use serde_json::{Value, json};

use super::{End, Run, Stranger};
use units::WallTime;

/// Returns a run as JSON: `docs/protocol/runs.md`, "JSON".
#[must_use]
pub fn run_json(run: &Run) -> Value {
    let (state, stopped_by) = match &run.end {
        End::Open => ("open", None),
        End::Stopped { by, .. } => ("stopped", Some(by)),
        End::Restarted { .. } => ("restarted", None),
    };
    json!({
        "id": run.id.as_str(),
        "state": state,
        "start_ns": run.start.as_nanos(),
        "end_ns": run.end_time().map(WallTime::as_nanos),
        "labels": run.labels,
        "started_by": run.started_by.as_ref().map(said_by),
        "stopped_by": stopped_by.map(said_by),
        "clock_behind_ns": run.clock_behind_ns,
    })
}

/// Returns a stop without a start as JSON.
#[must_use]
pub fn stranger_json(stranger: &Stranger) -> Value {
    json!({
        "id": stranger.id.as_str(),
        "state": "no_start",
        "start_ns": null,
        "end_ns": stranger.time.as_nanos(),
        "labels": {},
        "started_by": null,
        "stopped_by": said_by(&stranger.by),
        "clock_behind_ns": 0,
    })
}

fn said_by((host, principal): &(String, String)) -> Value {
    json!({ "host": host, "principal": principal })
}
