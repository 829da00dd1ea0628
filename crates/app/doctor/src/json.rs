//! JSON objects of findings and checks: `docs/guide/doctor.md`.
//!
//! The form of an audit is published as `docs/reference/formats/doctor-audit.schema.json`, which is made from
//! [`AuditLine`].

use diagnose::audit::{CHECK_NAMES, Check, Judgement};
use diagnose::{Datagrams, Finding, Place, Remedy, Unplaced};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Level of observation: counters and other processes' sockets, or single datagrams, too.
const BY_COUNTERS: &str = "T1";
const BY_EVENTS: &str = "T3";

/// Returns a finding as an object; `not_observed` is the count of its snapshot that belongs to no known socket, where
/// no events show more.
#[must_use]
pub fn finding_json(finding: &Finding, not_observed: u64) -> Value {
    let (mut port, mut reader, mut place) = (Value::Null, Value::Null, json!("namespace"));
    match &finding.place {
        Place::Socket { local, owner, .. } => {
            port = json!(local.port());
            reader = owner.as_ref().map_or(Value::Null, |(pid, name)| json!(format!("{name}[{pid}]")));
            place = json!(local.to_string());
        }
        Place::Device(name) => place = json!(name),
        Place::Namespace => {}
        Place::Host => place = json!("host"),
    }
    json!({
        "port": port,
        "reader": reader,
        "place": place,
        "stage": finding.stage.name(),
        "count": finding.count,
        "unit": finding.unit.in_words(),
        "apportioned": finding.is_apportioned,
        "not_observed": finding.not_observed.unwrap_or(not_observed),
        "evidence": finding.evidence,
        "levels": finding.levels,
        "datagrams": finding.datagrams.iter().map(datagrams_json).collect::<Vec<_>>(),
        "why": finding.why,
        "cure": remedy_texts(&finding.remedies),
        "undo": undo_texts(&finding.remedies),
        "tier": if finding.not_observed.is_some() { BY_EVENTS } else { BY_COUNTERS },
        "guide": guide(finding.stage.name()),
    })
}

/// Returns losses without a known stage as an object, like a finding.
#[must_use]
pub fn unplaced_json(unplaced: &Unplaced) -> Value {
    json!({
        "port": null,
        "reader": null,
        "place": "namespace",
        "stage": UNEXPLAINED,
        "count": unplaced.count,
        "unit": "datagrams",
        "apportioned": false,
        "not_observed": 0,
        "evidence": unplaced.evidence,
        "levels": [],
        "datagrams": unplaced.datagrams.iter().map(datagrams_json).collect::<Vec<_>>(),
        "why": UNKNOWN_REASON,
        "cure": [],
        "undo": [],
        "tier": BY_EVENTS,
        "guide": guide(UNEXPLAINED),
    })
}

/// Returns the place in the guide that describes a stage.
#[must_use]
pub fn guide(stage: &str) -> String {
    format!("docs/guide/losses.md#{stage}")
}

/// Line of `tallycast doctor audit --json`: a finding for each check and interface, then the counts.
#[derive(JsonSchema, Serialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum AuditLine<'a> {
    /// Result of a check.
    Finding {
        /// Name of the check, as in docs/guide/doctor.md.
        #[schemars(extend("enum" = CHECK_NAMES))]
        check: &'a str,
        /// Result.
        #[schemars(extend("enum" = Judgement::ALL.map(Judgement::name)))]
        judgement: &'a str,
        /// Current value; `?` where it cannot be seen.
        live: &'a str,
        /// Recommended value, where it differs.
        recommended: Option<&'a str>,
        /// Reason why it matters, or why it cannot be seen.
        why: &'a str,
        /// Remedies: commands where they have one, else words.
        #[serde(rename = "cure")]
        remedies: Vec<String>,
        /// Commands that restore the present state, for the remedies that have one.
        undo: Vec<String>,
    },
    /// Number of findings of each judgement: the last line.
    Ended {
        /// Nothing to do.
        ok: usize,
        /// Not visible here.
        not_seen: usize,
        /// Possible losses.
        warn: usize,
        /// Certain losses.
        fail: usize,
    },
}

impl<'a> AuditLine<'a> {
    /// Returns the line of a check.
    #[must_use]
    pub fn finding(check: &'a Check) -> Self {
        Self::Finding {
            check: check.name,
            judgement: check.judgement.name(),
            live: &check.live,
            recommended: check.recommended.as_deref(),
            why: &check.why,
            remedies: remedy_texts(&check.remedies),
            undo: undo_texts(&check.remedies),
        }
    }
}

fn remedy_texts(remedies: &[Remedy]) -> Vec<String> {
    remedies.iter().map(|remedy| remedy.command().unwrap_or_else(|| remedy.what.clone())).collect()
}

fn undo_texts(remedies: &[Remedy]) -> Vec<String> {
    remedies.iter().filter_map(Remedy::undo).collect()
}

/// Name of the stage, as in the account.
pub const UNEXPLAINED: &str = "unexplained";
/// Explanation of drops at a place that no table has.
pub const UNKNOWN_REASON: &str =
    "the kernel freed them for a reason that is not known here; please report its name";

/// Returns datagrams as objects. Streams and incarnations have 64 bits, more than a JSON number keeps: they are
/// written in hexadecimal.
fn datagrams_json(datagrams: &Datagrams) -> Value {
    let hex = |number: u64| format!("{number:016x}");
    let numbers: Vec<_> = datagrams.numbers.iter().map(|range| json!([range.start, range.end - 1])).collect();
    json!({
        "from": datagrams.source.to_string(),
        "to": datagrams.destination.to_string(),
        "stream": datagrams.stream.map(|(stream, _)| hex(stream)),
        "life": datagrams.stream.map(|(_, incarnation)| hex(incarnation)),
        "numbers": numbers,
        "count": datagrams.count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::Stage;

    #[test]
    fn the_guide_has_a_heading_for_every_stage_between_two_programs() {
        let text = include_str!("../../../../docs/guide/losses.md");
        let between = Stage::ALL
            .into_iter()
            .filter(|stage| (Stage::SenderSocket..=Stage::ReceiverUdpMemory).contains(stage));
        for name in between.map(Stage::name).chain([UNEXPLAINED]) {
            assert!(text.contains(&format!("\n## {name}\n")), "{name}");
        }
    }
}
