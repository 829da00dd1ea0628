//! An edit: fields with their new values, checked before anything changes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{Refusal, field};

/// The most fields of one edit.
pub const MAX_EDIT_FIELDS: usize = 64;

/// Fields with their new values, each of which fits its field. `null` deletes a plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Edit(BTreeMap<String, Value>);

impl Edit {
    /// Checks the fields of an edit.
    ///
    /// # Errors
    /// `NoFields`, `TooManyFields`, `Field` and `Value` of [`Refusal`].
    pub fn new(fields: Map<String, Value>) -> Result<Self, Refusal> {
        if fields.is_empty() {
            return Err(Refusal::NoFields);
        }
        Self::whole(fields)
    }

    /// Checks all fields of a document, which may have none.
    ///
    /// # Errors
    /// `TooManyFields`, `Field` and `Value` of [`Refusal`].
    pub fn whole(fields: Map<String, Value>) -> Result<Self, Refusal> {
        if fields.len() > MAX_EDIT_FIELDS {
            return Err(Refusal::TooManyFields(fields.len()));
        }
        fields.iter().try_for_each(|(name, value)| field::check(name, value))?;
        Ok(Self(fields.into_iter().collect()))
    }

    /// Returns the fields with their new values.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn into_fields(self) -> impl Iterator<Item = (String, Value)> {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plots(count: usize) -> Map<String, Value> {
        (0..count).map(|number| (format!("plot/p{number}"), json!({"panel": "trend"}))).collect()
    }

    #[test]
    fn an_edit_has_one_to_64_fields() {
        assert_eq!(Edit::new(Map::new()), Err(Refusal::NoFields));
        assert!(Edit::whole(Map::new()).is_ok());
        assert!(Edit::new(plots(MAX_EDIT_FIELDS)).is_ok());
        assert_eq!(Edit::new(plots(MAX_EDIT_FIELDS + 1)), Err(Refusal::TooManyFields(MAX_EDIT_FIELDS + 1)));
    }
}
