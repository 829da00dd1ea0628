//! Published schemas: the pages `docs/reference/formats/NAME.schema.json`, which are made from the types of reports.

use std::{env, fs};

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// Compares the page `name` with the schema of what is written of `T`; `INSTA_UPDATE=always` rewrites the page.
///
/// # Panics
/// If they differ.
pub fn check_page<T: JsonSchema>(name: &str, title: &str) {
    let text = serde_json::to_string_pretty(&schema::<T>(title)).expect("a schema is JSON") + "\n";
    if env::var("INSTA_UPDATE").is_ok_and(|it| it == "always") {
        fs::write(path(name), &text).expect("the page can be written");
    }
    assert!(
        page(name) == text,
        "{} is not what the types say\nrewrite it with INSTA_UPDATE=always",
        path(name)
    );
}

/// Checks a value by the page `name`.
///
/// # Errors
/// Names each place where the value differs, and what is wrong there.
///
/// # Panics
/// If there is no such page.
pub fn check(name: &str, value: &Value) -> Result<(), String> {
    let page = serde_json::from_str(&page(name)).expect("a page is JSON");
    let validator = jsonschema::validator_for(&page).expect("a page is a schema");
    let errors = validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path()));
    let errors: Vec<String> = errors.collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

fn page(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_default()
}

fn path(name: &str) -> String {
    format!("{}/../../docs/reference/formats/{name}.schema.json", env!("CARGO_MANIFEST_DIR"))
}

fn schema<T: JsonSchema>(title: &str) -> Schema {
    let mut schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    RecursiveTransform(refine).transform(&mut schema);
    schema.insert("title".to_owned(), title.into());
    schema
}

/// States what the types do not: a quantity is not negative (a field that can be is described as a JSON `Number`), and
/// a field that may be left out is never null. A paragraph of a comment becomes one line.
fn refine(schema: &mut Schema) {
    if schema.get("format") == Some(&json!("double")) {
        schema.insert("minimum".to_owned(), json!(0));
    }
    let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
    let is_optional = |name: &String| !required.as_array().is_some_and(|it| it.contains(&json!(name)));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties
            .iter_mut()
            .filter(|(name, _)| is_optional(name))
            .for_each(|(_, field)| without_null(field));
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let paragraphs: Vec<String> =
            text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
        *text = paragraphs.join("\n");
    }
}

/// Removes null from the types or alternatives of a field.
fn without_null(field: &mut Value) {
    for choices in ["type", "anyOf"] {
        if let Some(Value::Array(choices)) = field.get_mut(choices) {
            choices.retain(|it| it != "null" && it["type"] != "null");
        }
    }
}
