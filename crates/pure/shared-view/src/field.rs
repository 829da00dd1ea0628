//! Fields of a document: which names there are, and which values fit.

use std::collections::BTreeSet;

use runs::{MAX_RUN_ID_BYTES, RunId};
use sample::Plane;
use serde_json::{Map, Value};

use crate::Refusal;

/// The longest title, in characters.
pub const MAX_TITLE_CHARACTERS: usize = 200;
/// The longest notes, in characters.
pub const MAX_NOTES_CHARACTERS: usize = 10_000;
/// The most plots in `order`.
pub const MAX_ORDER: usize = 24;
/// The longest id of a plot, in bytes.
pub const MAX_PLOT_ID_BYTES: usize = 16;
/// The most traces of a plot: those of a view on the live connection.
pub const MAX_TRACES: usize = 100;
/// The longest name of a kind of panel, in characters.
pub const MAX_PANEL_CHARACTERS: usize = 32;
/// The longest name of a stream or channel in a trace, in characters: more than either may have.
const MAX_SOURCE_CHARACTERS: usize = 512;
/// The most columns or rows that a plot spans.
const MAX_CELLS: u64 = 1_000;
/// Prefix of the fields that are plots.
const PLOT: &str = "plot/";
/// Name of the field that is the order of plots.
pub(crate) const ORDER: &str = "order";

/// What a field is, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Title,
    Notes,
    Window,
    Run,
    Cursors,
    Single,
    Order,
    Plot,
}

/// Checks that a document may have this field with this value; `null` deletes a plot.
pub(crate) fn check(name: &str, value: &Value) -> Result<(), Refusal> {
    let kind = kind_of(name).ok_or_else(|| Refusal::field(name))?;
    let checked = match kind {
        Kind::Title => text(value, MAX_TITLE_CHARACTERS),
        Kind::Notes => text(value, MAX_NOTES_CHARACTERS),
        Kind::Window => window(value),
        Kind::Run => run(value),
        Kind::Cursors => cursors(value),
        Kind::Single => single(value),
        Kind::Order => order(value),
        Kind::Plot => plot(value),
    };
    checked.map_err(|problem| Refusal::Value { field: name.to_owned(), problem })
}

/// Returns whether the field is a plot.
pub(crate) fn is_plot(name: &str) -> bool {
    name.starts_with(PLOT)
}

/// Returns the name of the field that is this plot.
pub(crate) fn plot_field(id: &str) -> String {
    format!("{PLOT}{id}")
}

fn kind_of(name: &str) -> Option<Kind> {
    Some(match name {
        "title" => Kind::Title,
        "notes" => Kind::Notes,
        "window" => Kind::Window,
        "run" => Kind::Run,
        "cursors" => Kind::Cursors,
        "single" => Kind::Single,
        ORDER => Kind::Order,
        _ => return name.strip_prefix(PLOT).filter(|id| is_plot_id(id)).map(|_| Kind::Plot),
    })
}

fn is_plot_id(id: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=MAX_PLOT_ID_BYTES).contains(&id.len()) && id.bytes().all(is_letter)
}

fn text(value: &Value, max_characters: usize) -> Result<(), String> {
    let text = value.as_str().ok_or("it is a text")?;
    let characters = text.chars().count();
    if characters > max_characters {
        return Err(format!("it has at most {max_characters} characters, not {characters}"));
    }
    Ok(())
}

fn window(value: &Value) -> Result<(), String> {
    let fields = object(value, &["span_ns", "end_ns"])?;
    let span = fields.get("span_ns").and_then(Value::as_i64);
    if span.is_none_or(|span| span <= 0) {
        return Err("`span_ns` is a whole number of nanoseconds above 0".to_owned());
    }
    match fields.get("end_ns") {
        Some(end) if end.is_null() || end.is_i64() => Ok(()),
        _ => Err("`end_ns` is nanoseconds since 1970 UTC, or null to follow the newest data".to_owned()),
    }
}

/// Checks a run. Whether the monitor knows it is not asked: it may be known later, or not any more.
fn run(value: &Value) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let fields = object(value, &["id", "at_ns", "relative", "whole"])?;
    let id = fields.get("id").and_then(Value::as_str).unwrap_or_default();
    if id.parse::<RunId>().is_err() {
        return Err(format!(
            "`id` is one word of letters, digits, `_`, `-` and `.`, {MAX_RUN_ID_BYTES} bytes at most"
        ));
    }
    if fields.get("at_ns").is_some_and(|at| !at.is_null() && !at.is_i64()) {
        return Err("`at_ns` is a moment of the run in nanoseconds since 1970 UTC, or null".to_owned());
    }
    let is_switch = |name: &str| fields.get(name).is_none_or(Value::is_boolean);
    if is_switch("relative") && is_switch("whole") {
        return Ok(());
    }
    Err("`relative` and `whole` are true or false".to_owned())
}

fn cursors(value: &Value) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let fields = object(value, &["a_ns", "b_ns"])?;
    let is_time = |name: &str| fields.get(name).is_some_and(Value::is_i64);
    if is_time("a_ns") && is_time("b_ns") {
        return Ok(());
    }
    Err("`a_ns` and `b_ns` are nanoseconds since 1970 UTC".to_owned())
}

fn single(value: &Value) -> Result<(), String> {
    let is_id = value.as_str().is_some_and(is_plot_id);
    if value.is_null() || is_id { Ok(()) } else { Err("it is the id of a plot, or null".to_owned()) }
}

fn order(value: &Value) -> Result<(), String> {
    let ids = value.as_array().ok_or("it is a list of the ids of plots")?;
    if ids.len() > MAX_ORDER {
        return Err(format!("it has at most {MAX_ORDER} plots, not {}", ids.len()));
    }
    let mut seen = BTreeSet::new();
    for id in ids {
        let id = id.as_str().filter(|id| is_plot_id(id));
        let id = id.ok_or("the id of a plot is 1 to 16 of a-z 0-9")?;
        if !seen.insert(id) {
            return Err(format!("plot `{id}` is in it twice"));
        }
    }
    Ok(())
}

/// Checks a plot. Keys other than these are the page's own, and kept as they are.
fn plot(value: &Value) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let fields = value.as_object().ok_or("it is an object, or null, which deletes the plot")?;
    let panel = fields.get("panel").and_then(Value::as_str).unwrap_or_default();
    if !(1..=MAX_PANEL_CHARACTERS).contains(&panel.chars().count()) {
        return Err(format!("`panel` is a text of 1 to {MAX_PANEL_CHARACTERS} characters"));
    }
    match fields.get("traces") {
        None => {}
        Some(traces) => check_traces(traces)?,
    }
    cells(fields, "columns")?;
    cells(fields, "rows")?;
    fields.get("plane").map_or(Ok(()), plane)?;
    fields.get("axis").map_or(Ok(()), axis)
}

fn check_traces(traces: &Value) -> Result<(), String> {
    let traces = traces.as_array().ok_or("`traces` is a list")?;
    if traces.len() > MAX_TRACES {
        return Err(format!("a plot has at most {MAX_TRACES} traces, not {}", traces.len()));
    }
    let is_source = |trace: &Value, key: &str| {
        let source = trace.get(key).and_then(Value::as_str);
        source.is_some_and(|text| text.chars().count() <= MAX_SOURCE_CHARACTERS)
    };
    if traces.iter().all(|trace| is_source(trace, "stream") && is_source(trace, "channel")) {
        return Ok(());
    }
    Err("a trace has the texts `stream` and `channel`".to_owned())
}

fn cells(fields: &Map<String, Value>, key: &str) -> Result<(), String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(()),
        Some(count) if count.as_u64().is_some_and(|count| (1..=MAX_CELLS).contains(&count)) => Ok(()),
        Some(_) => Err(format!("`{key}` is a whole number from 1 to {MAX_CELLS}, or null")),
    }
}

fn plane(value: &Value) -> Result<(), String> {
    let is_index = |index: &Value| index.as_u64().is_some_and(|index| u32::try_from(index).is_ok());
    let indices = value.as_array().filter(|indices| indices.iter().all(is_index));
    let most = Plane::MAX_INDICES;
    if indices.is_some_and(|indices| indices.len() <= most) {
        return Ok(());
    }
    Err(format!("`plane` is a list of at most {most} indices, such as [1, 0]"))
}

fn axis(value: &Value) -> Result<(), String> {
    let fields = value.as_object().ok_or("`axis` is an object")?;
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !(1..=MAX_PANEL_CHARACTERS).contains(&kind.chars().count()) {
        return Err("`axis.kind` is a text such as `auto` or `fixed`".to_owned());
    }
    let is_limit = |key: &str| fields.get(key).is_none_or(|limit| limit.is_number() || limit.is_null());
    if is_limit("low") && is_limit("high") {
        return Ok(());
    }
    Err("`axis.low` and `axis.high` are numbers".to_owned())
}

/// Returns an object that has no other keys than these.
fn object<'v>(value: &'v Value, keys: &[&str]) -> Result<&'v Map<String, Value>, String> {
    let fields = value.as_object().ok_or_else(|| format!("it is an object of {}", keys.join(" and ")))?;
    match fields.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(unknown) => Err(format!("it has no key `{}`", unknown.escape_default())),
        None => Ok(fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn many(count: usize) -> Value {
        (0..count).map(|number| format!("p{number}")).collect::<Vec<_>>().into()
    }

    fn traces(count: usize) -> Value {
        let trace = json!({"stream": "lab/x", "channel": "x"});
        json!({"panel": "trend", "traces": vec![trace; count]})
    }

    fn planes(count: usize) -> Value {
        json!({"panel": "image", "plane": vec![1; count]})
    }

    #[test]
    fn both_sides_of_every_limit_of_a_value() {
        let text = |characters: usize| Value::from("ü".repeat(characters));
        let panel = |characters: usize| json!({"panel": "p".repeat(characters)});
        let run = |bytes: usize| json!({"id": "r".repeat(bytes)});
        for (name, last, first) in [
            ("title", text(MAX_TITLE_CHARACTERS), text(MAX_TITLE_CHARACTERS + 1)),
            ("notes", text(MAX_NOTES_CHARACTERS), text(MAX_NOTES_CHARACTERS + 1)),
            ("order", many(MAX_ORDER), many(MAX_ORDER + 1)),
            ("plot/a", traces(MAX_TRACES), traces(MAX_TRACES + 1)),
            ("plot/a", panel(MAX_PANEL_CHARACTERS), panel(MAX_PANEL_CHARACTERS + 1)),
            ("plot/0123456789abcdef", panel(1), panel(0)),
            ("plot/a", json!({"panel": "trend", "rows": 1}), json!({"panel": "trend", "rows": 0})),
            ("plot/a", planes(Plane::MAX_INDICES), planes(Plane::MAX_INDICES + 1)),
            (
                "plot/a",
                json!({"panel": "image", "plane": [u32::MAX]}),
                json!({"panel": "image", "plane": [1_u64 << 32]}),
            ),
            ("window", json!({"span_ns": 1, "end_ns": null}), json!({"span_ns": 0, "end_ns": null})),
            ("run", run(MAX_RUN_ID_BYTES), run(MAX_RUN_ID_BYTES + 1)),
            ("run", run(1), run(0)),
        ] {
            assert_eq!(check(name, &last), Ok(()), "{name}");
            assert!(matches!(check(name, &first), Err(Refusal::Value { .. })), "{name}");
        }
    }

    #[test]
    fn a_field_that_does_not_exist_is_refused_by_its_name() {
        for name in ["", "Title", "plot", "plot/", "plot/A", "plot/a/b", "plot/0123456789abcdefg", "a\nb"] {
            let refused = check(name, &Value::Null).unwrap_err();
            assert!(matches!(refused, Refusal::Field(_)), "{name:?}");
            assert_eq!(refused.to_string().lines().count(), 2, "{refused}");
        }
    }

    #[test]
    fn values_of_other_types_are_refused_and_a_plots_own_keys_are_kept() {
        for (name, value) in [
            ("title", json!(7)),
            ("notes", Value::Null),
            ("window", json!({"span_ns": 1})),
            ("window", json!({"span_ns": 1.5, "end_ns": null})),
            ("window", json!({"span_ns": 1, "end_ns": null, "more": 1})),
            ("run", json!("shot-17")),
            ("run", json!({})),
            ("run", json!({"id": "two words"})),
            ("run", json!({"id": "-17"})),
            ("run", json!({"id": "a\nb"})),
            ("run", json!({"id": "shot-17", "at_ns": 1.5})),
            ("run", json!({"id": "shot-17", "relative": 1})),
            ("run", json!({"id": "shot-17", "whole": null})),
            ("run", json!({"id": "shot-17", "labels": {}})),
            ("cursors", json!({"a_ns": 1})),
            ("single", json!("P")),
            ("order", json!(["a", "a"])),
            ("order", json!("a")),
            ("plot/a", json!([])),
            ("plot/a", json!({"panel": "trend", "traces": [{"stream": "lab/x"}]})),
            ("plot/a", json!({"panel": "trend", "axis": {"kind": "fixed", "low": "1"}})),
            ("plot/a", json!({"panel": "image", "plane": 1})),
            ("plot/a", json!({"panel": "image", "plane": [-1]})),
            ("plot/a", json!({"panel": "image", "plane": ["1"]})),
            ("plot/a", json!({"panel": "image", "plane": null})),
        ] {
            assert!(matches!(check(name, &value), Err(Refusal::Value { .. })), "{name} {value}");
        }
        let image = json!({"panel": "image", "colours": ["x", {"deep": [1]}], "columns": null});
        assert_eq!(check("plot/img", &image), Ok(()));
        for (name, value) in [
            ("plot/a", Value::Null),
            ("run", Value::Null),
            ("run", json!({"id": "Schuß_1.b"})),
            ("run", json!({"id": "shot-17", "at_ns": null, "relative": true, "whole": false})),
            ("run", json!({"id": "shot-17", "at_ns": -5})),
            ("cursors", Value::Null),
            ("cursors", json!({"a_ns": -1, "b_ns": 2})),
            ("single", json!("p1")),
            ("window", json!({"span_ns": 1, "end_ns": -5})),
        ] {
            assert_eq!(check(name, &value), Ok(()), "{name}");
        }
    }
}
