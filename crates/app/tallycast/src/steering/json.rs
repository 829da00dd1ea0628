//! Parameters, commands and records of the log as JSON objects.

use ::steer::{
    Answer, CommandId, Conclusion, LeaseChange, Listed, Needs, Number, Record, Rule, Scope, Totals, Value,
};
use sample::Dtype;
use serde_json::{Map, Value as Json, json};

/// Returns a value as JSON: a number or boolean, or an array of them, row-major; of a complex element its two parts.
fn value_json(value: &Value) -> Json {
    let is_boolean = value.dtype() == Dtype::Bool;
    let element = |number: Number| match number {
        Number::Integer(integer) if is_boolean => json!(integer != 0),
        Number::Integer(integer) => i64::try_from(integer).map_or_else(
            |_| u64::try_from(integer).map_or(Json::Null, |integer| json!(integer)),
            |integer| json!(integer),
        ),
        Number::Real(real) => json!(real),
    };
    let elements: Vec<Json> = value.numbers().map(element).collect();
    match &elements[..] {
        [one] if value.shape().is_empty() => one.clone(),
        _ => json!(elements),
    }
}

fn limit_json(limit: Option<Number>) -> Json {
    match limit {
        None => Json::Null,
        Some(Number::Integer(integer)) => json!(i64::try_from(integer).ok()),
        Some(Number::Real(real)) => json!(real),
    }
}

/// Returns a parameter as it stands.
#[must_use]
pub fn listed_json(listed: &Listed) -> Json {
    let it = &listed.parameter;
    json!({
        "event": "parameter",
        "parameter": it.name,
        "value": value_json(&listed.value),
        "is_known": listed.is_read,
        "revision": listed.revision,
        "dtype": it.dtype.to_string(),
        "shape": it.shape,
        "unit": it.unit,
        "min": limit_json(it.min),
        "max": limit_json(it.max),
        "greatest_step": limit_json(it.greatest_step),
        "may": it.who.to_string(),
        "lease": match &it.needs { Needs::Nothing => None, Needs::Lease { group } => Some(group) },
        "holder": listed.holder,
    })
}

/// Returns the account of an app's commands.
#[must_use]
pub fn totals_json(totals: &Totals) -> Json {
    let by_rule = Rule::ALL.into_iter().map(|rule| (rule.name().to_owned(), json!(totals.refused_by(rule))));
    let by_rule: Map<String, Json> = by_rule.filter(|(_, count)| *count != 0).collect();
    json!({
        "event": "commands",
        "received": totals.received,
        "applied": totals.applied,
        "refused": totals.refused,
        "refused_by": by_rule,
        "expired": totals.expired,
        "superseded": totals.superseded,
        "failed": totals.failed,
        "uncertain": totals.uncertain,
        "pending": totals.pending,
        "repeated": totals.repeated,
        "holds": totals.holds(),
    })
}

/// Returns what became of a command, as its sender knows it.
#[must_use]
pub fn conclusion_json(id: CommandId, parameter: &str, conclusion: &Conclusion) -> Json {
    let mut object = match conclusion {
        Conclusion::Answered(answer) => answer_json(answer),
        Conclusion::NeverArrived => {
            let mut object = answer_json(&Answer::Uncertain);
            object["outcome"] = json!("never_arrived");
            object
        }
        Conclusion::Uncertain => answer_json(&Answer::Uncertain),
    };
    object["event"] = json!("command");
    object["id"] = json!(id.to_string());
    object["parameter"] = json!(parameter);
    object
}

/// Returns an answer; what another answer has is null.
fn answer_json(answer: &Answer) -> Json {
    let rule = match answer {
        Answer::Refused { rule } => Some(*rule),
        _ => None,
    };
    let applied = match answer {
        Answer::Applied(applied) => Some(applied),
        _ => None,
    };
    let failure = match answer {
        Answer::Failed { reason } => Some(reason),
        _ => None,
    };
    json!({
        "outcome": answer.name(),
        "rule": rule.map(Rule::name),
        "help": rule.map(Rule::advice),
        "epoch": applied.map(|it| it.epoch.to_string()),
        "index": applied.map(|it| it.index),
        "revision": applied.map(|it| it.revision),
        "readback": applied.map(|it| value_json(&it.readback)),
        "failure": failure,
    })
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
    let with = |object: Json, answer: &Answer| {
        let mut whole = answer_json(answer);
        if let (Json::Object(whole), Json::Object(object)) = (&mut whole, object) {
            whole.extend(object);
        }
        whole
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
            json!({ "event": "omitted", "refused_by": refused.collect::<Map<_, _>>() })
        }
        _ => json!({ "event": "unknown" }),
    }
}
