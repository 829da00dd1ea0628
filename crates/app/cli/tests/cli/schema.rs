//! The published schemas, as the crate `jsonschema` reads them.

use serde_json::Value;

/// A schema.
pub(crate) struct Schema(jsonschema::Validator);

impl Schema {
    pub(crate) fn parse(text: &str) -> Self {
        let schema: Value = serde_json::from_str(text).unwrap();
        Self(jsonschema::validator_for(&schema).unwrap())
    }

    /// Checks a value; the error names each place and what is wrong there.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let errors = self.0.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path()));
        let errors: Vec<String> = errors.collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }
}
