//! An edit: fields with their new values, checked before anything changes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::Refusal;
use crate::field::{self, MAX_ORDER, ORDER};

/// The most fields of one edit.
pub const MAX_EDIT_FIELDS: usize = 64;

/// Fields with their new values, each of which fits its field. `null` deletes a plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Edit {
    fields: BTreeMap<String, Value>,
    order_revision: Option<u64>,
}

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
        Ok(Self { fields: fields.into_iter().collect(), order_revision: None })
    }

    /// Returns the edit of a writer who was told the order last at this revision: plots that others have placed since keep
    /// a place in its order.
    #[must_use]
    pub const fn knowing_order(mut self, revision: u64) -> Self {
        self.order_revision = Some(revision);
        self
    }

    /// Returns the fields with their new values.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    pub(crate) const fn order_revision(&self) -> Option<u64> {
        self.order_revision
    }

    /// Returns the edit with another order.
    pub(crate) fn with_order(mut self, order: Vec<String>) -> Result<Self, Refusal> {
        if order.len() > MAX_ORDER {
            return Err(Refusal::TooManyPlots(order.len()));
        }
        self.fields.insert(ORDER.to_owned(), order.into());
        Ok(self)
    }

    pub(crate) fn into_fields(self) -> impl Iterator<Item = (String, Value)> {
        self.fields.into_iter()
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
