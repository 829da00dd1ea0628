//! The published schemas: `docs/reference/formats/NAME.schema.json` is what the types of a report say, and accepts the reports
//! that are stored next to this file. `INSTA_UPDATE=always` rewrites the pages.

use std::{env, fs};

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// Compares the schema of `T` with its page, and tries it on reports.
fn check<T: JsonSchema>(name: &str, reports: &[&str]) {
    let path = format!("{}/../../docs/reference/formats/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema = schema::<T>();
    let text = format!("{:#}\n", schema.as_value());
    if env::var("INSTA_UPDATE").is_ok_and(|it| it == "always") {
        fs::write(&path, &text).expect("the page can be written");
    }
    let published = fs::read_to_string(&path).unwrap_or_default();
    assert!(published == text, "{path} is not what the types say\nrewrite it with INSTA_UPDATE=always");

    let validator = jsonschema::validator_for(schema.as_value()).expect("a valid schema");
    for report in reports {
        let report = serde_json::from_str(report).expect("JSON");
        let errors: Vec<String> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0], "{name}");
    }
}

/// Returns the schema of what is written of `T`.
fn schema<T: JsonSchema>() -> Schema {
    let mut schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    RecursiveTransform(refine).transform(&mut schema);
    let (format, version) =
        (&schema.as_value()["properties"]["format"], &schema.as_value()["properties"]["version"]);
    let title = format!("{}, version {}", format["const"].as_str().expect("a name"), version["const"]);
    schema.insert("title".to_owned(), title.into());
    schema
}

/// States what the types do not: a quantity is not negative (a field that can be is described as a JSON `Number`).
/// A paragraph of a comment becomes one line.
fn refine(schema: &mut Schema) {
    if schema.get("format") == Some(&json!("double")) {
        schema.insert("minimum".to_owned(), json!(0));
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let paragraphs: Vec<String> =
            text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
        *text = paragraphs.join("\n");
    }
}

macro_rules! schemas {
    ($($test:ident: $report:ty, $name:literal, [$($stored:literal),*];)*) => {
        $(#[test]
        fn $test() {
            check::<$report>($name, &[$(include_str!(concat!("forms/", $stored, ".json"))),*]);
        })*
    };
}

schemas! {
    cost: bench::cost::Report, "bench-cost", ["cost"];
}
