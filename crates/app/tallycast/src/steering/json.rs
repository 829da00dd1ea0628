//! Parameters, commands and records of the log as JSON objects, for the command and the page alike.

use ::steer::{
    Answer, CommandId, Conclusion, LeaseChange, Listed, Needs, Number, Record, Rule, Scope, Switches, Totals,
    Value,
};
use access::May;
use sample::Dtype;
use serde_json::{Map, Value as Json, json};

/// Returns a parameter as it stands.
#[must_use]
pub fn parameter_json(listed: &Listed) -> Json {
    let it = &listed.parameter;
    let limit = |limit: Option<Number>| limit.map_or(Json::Null, number_json);
    let group = match &it.needs {
        Needs::Nothing => None,
        Needs::Lease { group } => Some(group.as_str()),
    };
    json!({
        "name": it.name,
        "dtype": it.dtype.name(),
        "shape": it.shape,
        "unit": it.unit,
        "min": limit(it.min),
        "max": limit(it.max),
        "greatest_step": limit(it.greatest_step),
        "administered": it.who == May::Administer,
        "group": group,
        "value": value_json(&listed.value),
        "known": listed.is_read,
        "revision": listed.revision,
        "holder": listed.holder,
    })
}

/// Returns the account of an app's commands.
#[must_use]
pub fn totals_json(totals: &Totals) -> Json {
    let by_rule = Rule::ALL.iter().map(|rule| (rule.name(), totals.refused_by(*rule)));
    let by_rule: Map<String, Json> = by_rule
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect();
    json!({
        "received": totals.received,
        "applied": totals.applied,
        "refused": totals.refused,
        "refused_by_rule": by_rule,
        "expired": totals.expired,
        "superseded": totals.superseded,
        "failed": totals.failed,
        "uncertain": totals.uncertain,
        "pending": totals.pending,
        "repeated": totals.repeated,
    })
}

/// Returns the kill switches.
#[must_use]
pub fn stopped_json(switches: Switches) -> Json {
    json!({"app": switches.app, "all": switches.all})
}

/// Returns what became of a command.
#[must_use]
pub fn conclusion_json(id: CommandId, conclusion: &Conclusion) -> Json {
    let mut answer = match conclusion {
        Conclusion::NeverArrived => json!({
            "outcome": "never_arrived",
            "advice": "the command did not reach the app and has no effect: send a new one",
        }),
        Conclusion::Uncertain | Conclusion::Answered(Answer::Uncertain | Answer::Accepted) => json!({
            "outcome": "uncertain",
            "advice": "the command may have taken effect: read the parameter before sending another one",
        }),
        Conclusion::Answered(answer) => answered_json(answer),
    };
    answer["id"] = id.to_string().into();
    answer
}

fn answered_json(answer: &Answer) -> Json {
    let outcome = answer.name();
    match answer {
        Answer::Applied(applied) => json!({
            "outcome": outcome,
            "epoch": applied.epoch.to_string(),
            "index": applied.index,
            "revision": applied.revision,
            "value": value_json(&applied.readback),
        }),
        Answer::Refused { rule } => json!({"outcome": outcome, "rule": rule.name(), "advice": rule.advice()}),
        Answer::Failed { reason } => json!({"outcome": outcome, "reason": reason}),
        Answer::Expired => json!({
            "outcome": outcome,
            "advice": "the app took no step within two seconds: the command has no effect",
        }),
        Answer::Superseded => json!({
            "outcome": outcome,
            "advice": "a later command for the same parameter took its place",
        }),
        _ => json!({"outcome": outcome}),
    }
}

/// Returns a value: an element for a scalar, else a list of elements, row by row. Complex elements are pairs.
#[must_use]
pub fn value_json(value: &Value) -> Json {
    let is_bool = value.dtype() == Dtype::Bool;
    let numbers: Vec<Json> = value
        .numbers()
        .map(|number| if is_bool { (number != Number::Integer(0)).into() } else { number_json(number) })
        .collect();
    let mut elements = match value.dtype() {
        Dtype::C8 | Dtype::C16 => numbers.chunks_exact(2).map(|pair| pair.to_vec().into()).collect(),
        _ => numbers,
    };
    if value.shape().is_empty() { elements.pop().unwrap_or(Json::Null) } else { elements.into() }
}

fn number_json(number: Number) -> Json {
    match number {
        Number::Integer(integer) => i64::try_from(integer)
            .map(Json::from)
            .or_else(|_| u64::try_from(integer).map(Json::from))
            .unwrap_or(Json::Null),
        Number::Real(real) => real.into(),
    }
}

/// Returns a record of the log.
#[must_use]
pub fn record_json(record: &Record) -> Json {
    let command = |kind: &str, command: &::steer::Command, by: &str| {
        json!({
            "event": kind,
            "id": command.id.to_string(),
            "by": by,
            "session": command.session.to_string(),
            "parameter": command.parameter,
            "if_revision": command.if_revision,
            "value": value_json(&command.value),
            "reason": command.reason,
        })
    };
    let with = |mut object: Json, answer: &Answer| {
        if let (Json::Object(object), Json::Object(answer)) = (&mut object, answered_json(answer)) {
            // Beside what was asked for.
            object.extend(answer.into_iter().map(|(key, value)| match key.as_str() {
                "value" => ("readback".to_owned(), value),
                "reason" => ("failure".to_owned(), value),
                _ => (key, value),
            }));
        }
        object
    };
    match record {
        Record::Began { app, epoch } => {
            json!({ "event": "began", "app": app.as_str(), "epoch": epoch.to_string() })
        }
        Record::Intent { command: it, by } => command("intent", it, by),
        Record::Attempt { command: it, by, answer } => with(command("attempt", it, by), answer),
        Record::Outcome { id, parameter, revision, answer } => with(
            json!({ "event": "outcome", "id": id.to_string(), "parameter": parameter, "revision": revision }),
            answer,
        ),
        Record::Lease { group, by, change } => {
            let (change, from, reason) = match change {
                LeaseChange::Granted => ("granted", None, None),
                LeaseChange::Released => ("released", None, None),
                LeaseChange::TakenOver { from, reason } => ("taken_over", Some(from), Some(reason)),
            };
            json!({ "event": "lease", "group": group, "by": by, "change": change, "from": from, "reason": reason })
        }
        Record::Switch { scope, is_on, by, reason } => json!({
            "event": "switch",
            "scope": if *scope == Scope::All { "all" } else { "app" },
            "is_on": is_on,
            "by": by,
            "reason": reason,
        }),
        Record::Omitted { refused } => {
            let refused = refused.iter().map(|(rule, count)| (rule.name().to_owned(), json!(count)));
            json!({ "event": "omitted", "refused_by_rule": refused.collect::<Map<_, _>>() })
        }
        Record::Checkpoint { app, before, totals, switches } => json!({
            "event": "checkpoint",
            "app": app.as_str(),
            "records": before.count,
            "totals": totals_json(totals),
            "stopped": stopped_json(*switches),
        }),
        Record::Standing { parameter, revision, last } => {
            let last: Vec<_> = last.iter().map(CommandId::to_string).collect();
            json!({ "event": "standing", "parameter": parameter, "revision": revision, "last": last })
        }
        Record::Open { id, parameter, .. } => {
            json!({ "event": "open", "id": id.to_string(), "parameter": parameter })
        }
        _ => json!({ "event": "unknown" }),
    }
}
