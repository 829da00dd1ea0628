//! The part of JSON Schema (draft 2020-12) that the published schemas use; an unknown keyword is an error, so that
//! nothing in a schema goes unchecked.

use serde_json::{Map, Value};

/// A schema.
pub(crate) struct Schema {
    root: Value,
}

impl Schema {
    pub(crate) fn parse(text: &str) -> Self {
        Self { root: serde_json::from_str(text).unwrap() }
    }

    /// Checks a value; the error names the place and what is wrong there.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        self.check_by(&self.root, value, "$")
    }

    fn check_by(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        let schema = schema.as_object().unwrap();
        for (word, argument) in schema {
            let holds = match word.as_str() {
                "$schema" | "title" | "description" | "$defs" => true,
                // Looked at by "properties".
                "additionalProperties" => argument == &Value::Bool(false),
                "type" => is_of(value, argument),
                "const" => value == argument,
                "enum" => argument.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_none_or(|value| value >= argument.as_f64().unwrap()),
                "required" => {
                    let missing = argument
                        .as_array()
                        .unwrap()
                        .iter()
                        .find(|name| value.get(name.as_str().unwrap()).is_none());
                    match missing {
                        Some(name) => return Err(format!("{place} lacks {name}")),
                        None => true,
                    }
                }
                "properties" => {
                    let object = value.as_object();
                    object.map_or(Ok(()), |object| self.check_properties(schema, object, place))?;
                    true
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check_by(argument, item, &format!("{place}[{index}]"))?;
                    }
                    true
                }
                "oneOf" => {
                    let choices = argument.as_array().unwrap();
                    choices.iter().filter(|choice| self.check_by(choice, value, place).is_ok()).count() == 1
                }
                "$ref" => {
                    let name = argument.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                    self.check_by(&self.root["$defs"][name], value, place)?;
                    true
                }
                other => panic!("the schema uses `{other}`, which this check does not know"),
            };
            if !holds {
                return Err(format!("{place} is {value}, against `{word}`: {argument}"));
            }
        }
        Ok(())
    }

    fn check_properties(
        &self,
        schema: &Map<String, Value>,
        value: &Map<String, Value>,
        place: &str,
    ) -> Result<(), String> {
        for (name, item) in value {
            match schema["properties"].get(name) {
                Some(schema) => self.check_by(schema, item, &format!("{place}.{name}"))?,
                None if schema.get("additionalProperties").is_some() => {
                    return Err(format!("{place} has {name}, which the schema does not know"));
                }
                None => {}
            }
        }
        Ok(())
    }
}

fn is_of(value: &Value, kinds: &Value) -> bool {
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        other => panic!("the schema uses the type `{other}`, which this check does not know"),
    };
    match kinds {
        Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
        kind => is(kind.as_str().unwrap()),
    }
}
