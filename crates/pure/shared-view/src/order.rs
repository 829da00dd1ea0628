//! The order of plots, which several pages change at one time: none of them takes a plot's place away that it did not know.
//!
//! An edit says at which revision its page was told the order. Plots that others have placed since stay in the order, behind
//! the plot that they follow; otherwise the last writer wins, as with any other field.

use std::collections::BTreeMap;

use serde_json::Value;

/// Revision at which each plot of an order was put into it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(BTreeMap<String, u64>);

impl Places {
    /// Takes an order that was written at a revision; a plot that had a place before keeps its revision.
    pub(crate) fn write(&mut self, order: &Value, revision: u64) {
        let placed = ids_of(order).map(|id| (id.to_owned(), self.0.get(id).copied().unwrap_or(revision)));
        self.0 = placed.collect();
    }

    /// Returns the order that follows if `mine` is written by one who knows the order `theirs` as of a revision.
    ///
    /// `exists` tells which plots there are after the edit: one that others have deleted has no place any more.
    pub(crate) fn merged(
        &self,
        theirs: &Value,
        mine: &Value,
        known: u64,
        exists: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let mut merged: Vec<&str> = ids_of(mine).filter(|id| exists(id)).collect();
        let is_news = |id: &str| self.0.get(id).is_some_and(|placed| *placed > known) && exists(id);
        let mut behind = 0;
        for id in ids_of(theirs) {
            match merged.iter().position(|other| *other == id) {
                Some(place) => behind = place + 1,
                None if is_news(id) => {
                    merged.insert(behind, id);
                    behind += 1;
                }
                None => {}
            }
        }
        merged.into_iter().map(str::to_owned).collect()
    }
}

fn ids_of(order: &Value) -> impl Iterator<Item = &str> {
    order.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Merges over `theirs`, of which the plots of `news` were placed at revision 8; the writer knows revision 7.
    fn merged(theirs: &Value, news: &Value, mine: &Value, deleted: &[&str]) -> Vec<String> {
        let known: Vec<_> = ids_of(theirs).filter(|id| !ids_of(news).any(|other| other == *id)).collect();
        let mut places = Places::default();
        places.write(&json!(known), 7);
        places.write(theirs, 8);
        places.merged(theirs, mine, 7, |id| !deleted.contains(&id))
    }

    #[test]
    fn a_plot_that_the_writer_did_not_know_stays_behind_the_one_it_follows() {
        let theirs = json!(["a", "y", "b", "z"]);
        let news = json!(["y", "z"]);
        assert_eq!(merged(&theirs, &news, &json!(["a", "b", "x"]), &[]), ["a", "y", "b", "z", "x"]);
        assert_eq!(merged(&theirs, &news, &json!(["b", "a"]), &[]), ["b", "z", "a", "y"]);
        assert_eq!(merged(&json!(["y", "a"]), &json!(["y"]), &json!(["x", "a"]), &[]), ["y", "x", "a"]);
    }

    #[test]
    fn a_plot_that_the_writer_knew_has_the_place_that_it_gives_or_none() {
        assert_eq!(merged(&json!(["a", "b", "c"]), &json!([]), &json!(["c", "a"]), &[]), ["c", "a"]);
        assert_eq!(merged(&json!(["a", "y"]), &json!(["y"]), &json!(["y", "a"]), &[]), ["y", "a"]);
    }

    #[test]
    fn a_plot_that_was_deleted_has_no_place() {
        assert_eq!(merged(&json!(["a", "y"]), &json!(["y"]), &json!(["b", "a"]), &["b", "y"]), ["a"]);
    }
}
