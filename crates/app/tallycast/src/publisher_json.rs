//! A publisher's totals as JSON, as `docs/reference/cli.md` describes them.

use serde_json::{Value, json};

use crate::publisher::Publisher;

/// Returns a publisher's totals as one JSON object: those of its current epoch, and in addition, as
/// `earlier`, the number and totals of the epochs that have ended, and as `reports` the counts of its
/// readers' reports, and as `statements` those of its signed statements.
#[must_use]
pub fn publisher_json(publisher: &Publisher) -> Value {
    let earlier = publisher.earlier_epochs();
    let mut object = json!(publisher.totals());
    object["earlier"] = json!(earlier.totals);
    object["earlier"]["epochs"] = json!(earlier.epochs);
    let status = publisher.status();
    object["reports"] = json!(status.reports);
    object["statements"] = json!(status.statements);
    object
}
