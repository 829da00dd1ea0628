//! `tests/nightly.json`: the latest results of the suites of `cargo xtask test --nightly`, written by that command
//! and committed.
//!
//! A row belongs to one suite and names its commit: a night with selected suites replaces their rows only. Rows are
//! written as suites end, so that an interrupted night keeps its results.

use crate::report::Outcome;
use crate::workspace::{root, said};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::Command;

/// File of the results.
const RESULTS: &str = "tests/nightly.json";
/// Marks the commit of a tree with uncommitted changes.
const CHANGED: &str = "+changes";

/// The results so far, and the common fields of this night's rows.
pub(crate) struct Nightly {
    results: Results,
    commit: String,
}

/// Content of the file.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Results {
    suites: BTreeMap<String, Row>,
}

/// Result of one suite.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Row {
    /// End of the suite, in UTC.
    date: String,
    /// Commit that was tested.
    commit: String,
    runs: u64,
    passed: u64,
    failed: u64,
    skipped: u64,
    seconds: u64,
    /// Reasons for skips, and names of failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl Nightly {
    /// Reads the file and asks git for the commit first, because the file itself becomes a change.
    pub(crate) fn begin() -> anyhow::Result<Self> {
        Ok(Self { results: read()?, commit: commit()? })
    }

    /// Records the result of a suite.
    pub(crate) fn record(&mut self, outcome: &Outcome) -> anyhow::Result<()> {
        let date = said(Command::new("date").args(["--utc", "+%FT%TZ"]))?;
        self.results.suites.insert(outcome.name.clone(), row(outcome, date, self.commit.clone()));
        let text =
            serde_json::to_string_pretty(&self.results).context("results are plain numbers and words")?;
        std::fs::write(root().join(RESULTS), text + "\n").with_context(|| format!("cannot write {RESULTS}"))
    }
}

fn row(outcome: &Outcome, date: String, commit: String) -> Row {
    let counts = &outcome.counts;
    let notes = counts.reasons.keys().map(|reason| format!("skipped: {reason}"));
    let notes = notes.chain(counts.failures.keys().map(|failure| format!("failed: {failure}")));
    Row {
        date,
        commit,
        runs: counts.run(),
        passed: counts.passed,
        failed: counts.failed,
        skipped: counts.skipped,
        seconds: outcome.elapsed.as_secs(),
        notes: notes.collect(),
    }
}

fn read() -> anyhow::Result<Results> {
    let path = root().join(RESULTS);
    if !path.is_file() {
        return Ok(Results::default());
    }
    let text = std::fs::read(&path).with_context(|| format!("cannot read {RESULTS}"))?;
    serde_json::from_slice(&text).with_context(|| format!("{RESULTS} is malformed"))
}

/// Returns the commit that is checked out, with a mark if anything but the results differs from it.
fn commit() -> anyhow::Result<String> {
    let head = said(Command::new("git").args(["rev-parse", "HEAD"]))?;
    let others = ["status", "--porcelain", "--", ".", ":(exclude)tests/nightly.json"];
    let changes = said(Command::new("git").args(others))?;
    Ok(if changes.is_empty() { head } else { head + CHANGED })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;
    use crate::suites::{Lane, planned};
    use std::time::Duration;

    #[test]
    fn the_committed_results_are_of_suites_that_exist() {
        let names: Vec<&str> = planned(Lane::Nightly, &[]).iter().map(|suite| suite.name).collect();
        for (name, row) in read().unwrap().suites {
            assert!(names.contains(&name.as_str()), "{name} is no suite of a night: remove its row");
            assert_eq!(row.runs, row.passed + row.failed, "{name}");
        }
    }

    #[test]
    fn a_row_says_what_was_counted_and_why_something_is_missing() {
        let counts = Counts {
            passed: 3,
            failed: 1,
            skipped: 2,
            reasons: [("no clang".to_owned(), 2)].into(),
            failures: [("a::b".to_owned(), 1)].into(),
        };
        let outcome =
            Outcome { name: "seeds".to_owned(), elapsed: Duration::from_millis(61_900), counts, log: None };
        let row = row(&outcome, "2026-01-01T00:00:00Z".to_owned(), "abc".to_owned());
        assert_eq!((row.runs, row.passed, row.failed, row.skipped, row.seconds), (4, 3, 1, 2, 61));
        assert_eq!(row.notes, ["skipped: no clang", "failed: a::b"]);
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }
}
