//! Golden files of the keys of published JSON: a key that changes its name or its type fails a test.
//!
//! `tests/golden/keys/NAME.txt` lists every path that an object of that name may have, with the type of its value,
//! one per line: `accounts[].datagrams.received: number`. Every test that reads such an object [checks](check) it.
//! To add a new key to the file, run the tests with `INSTA_UPDATE=always`, as for snapshots, or edit the file if
//! the key is rare: a path with `null` alone is one whose value no test has seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use serde_json::Value;

/// Objects whose keys are data, not published names: their keys are written as `*`.
const MAPS: &[&str] = &[
    "field_revisions",
    "fields",
    "inputs",
    "labels",
    "lost",
    "lost_elements",
    "refused_by_rule",
    "unknown_extensions",
    "unmatched",
    "unused",
];

/// Checks that every key of `value` is published under `name`, with the type that its value has.
///
/// # Panics
/// If a key is not listed.
pub fn check(name: &str, value: &Value) {
    /// Lines of each file: a stream of objects is checked without reading its file again.
    static FILES: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());
    let mut seen = BTreeSet::new();
    collect("", value, &mut seen);
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let path = file(name);
    let published = files.entry(name.to_owned()).or_insert_with(|| read(&path));
    seen.retain(|line| !published.contains(line) && !is_null_of(line, published));
    if seen.is_empty() {
        return;
    }
    assert!(
        env::var("INSTA_UPDATE").is_ok_and(|it| it == "always"),
        "{} does not list {seen:#?}\npublished keys do not change; add new ones with INSTA_UPDATE=always",
        path.display()
    );
    published.append(&mut seen);
    let text: String = published.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    fs::create_dir_all(path.parent().expect("a folder")).expect("the folder of golden files can be made");
    fs::write(&path, text).expect("a golden file can be written");
}

/// Returns whether a line is the `null` of a path that is published with another type, or with a path below it.
fn is_null_of(line: &str, published: &BTreeSet<String>) -> bool {
    let is_of = |path: &str| {
        let mut below = published.iter().filter_map(|other| other.strip_prefix(path));
        below.any(|rest| rest.starts_with([':', '.', '[']))
    };
    line.strip_suffix(": null").is_some_and(is_of)
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/keys")).join(format!("{name}.txt"))
}

fn read(path: &PathBuf) -> BTreeSet<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Adds the path and the type of every value that is neither an object nor an array.
fn collect(path: &str, value: &Value, seen: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let is_map = MAPS.iter().any(|map| path.rsplit('.').next() == Some(map));
            for (key, value) in fields {
                let key = if is_map { "*" } else { key };
                let separator = if path.is_empty() { "" } else { "." };
                collect(&format!("{path}{separator}{key}"), value, seen);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect(&format!("{path}[]"), item, seen);
            }
        }
        Value::Null => {
            seen.insert(format!("{path}: null"));
        }
        Value::Bool(_) => {
            seen.insert(format!("{path}: boolean"));
        }
        Value::Number(_) => {
            seen.insert(format!("{path}: number"));
        }
        Value::String(_) => {
            seen.insert(format!("{path}: string"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_may_stand_where_something_is_published() {
        let published =
            ["socket.drops: number", "spark[][]: number", "why: string"].map(str::to_owned).into();
        for known in ["socket: null", "spark[]: null", "why: null"] {
            assert!(is_null_of(known, &published), "{known}");
        }
        for unknown in ["sock: null", "why: number", "whys: null"] {
            assert!(!is_null_of(unknown, &published), "{unknown}");
        }
    }

    #[test]
    fn every_value_has_a_path_and_a_type() {
        let mut seen = BTreeSet::new();
        let value = json!({ "rows": [{ "a": 1 }, { "a": null, "b": [[true]] }], "labels": { "shot": "7" } });
        collect("", &value, &mut seen);
        let expected = ["labels.*: string", "rows[].a: null", "rows[].a: number", "rows[].b[][]: boolean"];
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected);
    }
}
