//! The table against the parser, the guide and the golden file of the page.

use std::collections::BTreeSet;

use sample::Dtype;
use serde_json::{Map, Value, json};

use super::*;
use crate::plan::Node;

const GOLDEN: &str = include_str!("../../../../../../docs/protocol/golden/graph-kinds.json");
const GUIDE: &str = include_str!("../../../../../../docs/guide/graph.md");

/// Returns a node with every setting of the table but `without`.
fn node_of(kind: &KindDescription, without: &str) -> Map<String, Value> {
    let settings = kind.settings.iter().filter(|setting| setting.name != without);
    let settings = settings.map(|setting| (setting.name.to_owned(), parsed(setting.example)));
    let named = [("name".to_owned(), json!("lab/made")), ("kind".to_owned(), json!(kind.kind))];
    named.into_iter().chain(settings).collect()
}

fn read(node: &Map<String, Value>) -> Result<Node, String> {
    serde_json::from_value(Value::Object(node.clone())).map_err(|error| error.to_string())
}

/// Returns the words that an error of the parser says it expected.
fn expected(error: &str) -> BTreeSet<String> {
    let (_, expected) = error.split_once("expected ").unwrap_or_else(|| panic!("{error}"));
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_table_has_the_kinds_that_are_read() {
    let error = read(&json!({"name": "lab/made", "kind": "none"}).as_object().unwrap().clone()).unwrap_err();
    let described: Vec<_> = KINDS.iter().map(|kind| kind.kind.to_owned()).collect();
    assert_eq!(described.iter().cloned().collect::<BTreeSet<_>>(), expected(&error));
    for kind in KINDS {
        let node = read(&node_of(kind, "")).unwrap_or_else(|error| panic!("{}: {error}", kind.kind));
        assert_eq!(node.kind.name(), kind.kind);
    }
}

#[test]
fn each_kind_has_the_settings_that_are_read() {
    for kind in KINDS {
        let mut node = node_of(kind, "");
        node.insert("of no kind".to_owned(), json!(1));
        let described: BTreeSet<_> = kind.settings.iter().map(|setting| setting.name.to_owned()).collect();
        assert_eq!(described, expected(&read(&node).unwrap_err()), "{}", kind.kind);
        assert_eq!(described.len(), kind.settings.len(), "{} has a setting twice", kind.kind);
    }
}

#[test]
fn a_setting_is_needed_or_has_the_default_of_the_table() {
    for kind in KINDS {
        for setting in kind.settings {
            let place = format!("{} {}", kind.kind, setting.name);
            match read(&node_of(kind, setting.name)) {
                Err(error) => {
                    assert!(
                        setting.needed && error.contains(&format!("missing field `{}`", setting.name)),
                        "{place}"
                    );
                }
                Ok(node) => {
                    assert!(!setting.needed, "{place}");
                    let default = json!(node).get(setting.name).cloned();
                    assert_eq!(
                        default,
                        (!setting.default.is_empty()).then(|| parsed(setting.default)),
                        "{place}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_choice_has_the_words_that_are_read() {
    for (kind, setting, of) in KINDS.iter().flat_map(|kind| {
        kind.settings.iter().filter_map(move |setting| match setting.form {
            Form::Choice { of } => Some((kind, setting, of)),
            _ => None,
        })
    }) {
        let with = |value: Value| {
            let mut node = node_of(kind, "");
            node.insert(setting.name.to_owned(), value);
            read(&node)
        };
        let place = format!("{} {}", kind.kind, setting.name);
        for word in of {
            let value = serde_json::from_str(word).unwrap_or_else(|_| json!(word));
            let node = with(value).unwrap_or_else(|error| panic!("{place}: {error}"));
            node.operator(None).unwrap_or_else(|error| panic!("{place}: {error}"));
        }
        if let Some(error) = with(json!("of no kind")).err().filter(|error| error.contains("unknown variant"))
        {
            assert_eq!(
                of.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>(),
                expected(&error),
                "{place}"
            );
        }
        if setting.name == "dtype" {
            assert_eq!(of, Dtype::ALL.map(Dtype::name), "{place}");
        }
    }
}

#[test]
fn a_whole_number_has_the_bounds_of_the_table() {
    for (kind, setting, least, most) in KINDS.iter().flat_map(|kind| {
        kind.settings.iter().filter_map(move |setting| match setting.form {
            Form::Whole { least, most } => Some((kind, setting, least, most)),
            _ => None,
        })
    }) {
        let fits = |value: i128| {
            let mut node = node_of(kind, "");
            let value: Value = serde_json::from_str(&value.to_string()).unwrap();
            node.insert(setting.name.to_owned(), value);
            read(&node).is_ok_and(|node| node.operator(None).is_ok())
        };
        let (least, most) = (i128::from(least), i128::from(most));
        let fitting = [least - 1, least, most, most + 1].map(fits);
        assert_eq!(fitting, [false, true, true, false], "{} {}", kind.kind, setting.name);
    }
}

#[test]
fn the_page_is_tested_with_the_table() {
    let table = serde_json::to_string_pretty(&json!(KINDS)).unwrap() + "\n";
    assert!(GOLDEN == table, "docs/protocol/golden/graph-kinds.json is to be\n{table}");
}

#[test]
fn the_guide_has_the_table() {
    let (_, table) = GUIDE.split_once("| kind | settings | output |\n|---|---|---|\n").unwrap();
    let rows: Vec<_> = table.lines().take_while(|line| line.starts_with("| `")).collect();
    let written: Vec<_> = KINDS.iter().map(KindDescription::row).collect();
    let agree = rows.len() == written.len() && rows.iter().zip(&written).all(|(row, it)| row.starts_with(it));
    assert!(agree, "the first two columns of docs/guide/graph.md are to be\n{}", written.join("\n"));
}
