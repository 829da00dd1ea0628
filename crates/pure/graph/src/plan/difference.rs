//! What a new plan changes in the one that runs.

use std::collections::BTreeMap;

use sample::StreamName;
use serde::{Deserialize, Serialize};

use super::Node;

/// Names of the nodes of two plans by what happens to them, each in alphabetical order.
///
/// A node that is described by the same words in both is kept: it continues with its epoch and account, also where the
/// nodes that it reads are changed. For it that is a restart of its input's publisher.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Difference {
    /// Nodes of both plans, equal in both.
    pub kept: Vec<StreamName>,
    /// Nodes of both plans that differ: they end and begin anew, with another epoch.
    pub changed: Vec<StreamName>,
    /// Nodes of the new plan alone.
    pub added: Vec<StreamName>,
    /// Nodes of the old plan alone.
    pub removed: Vec<StreamName>,
}

impl Difference {
    /// Compares the nodes of two plans.
    #[must_use]
    pub fn between(before: &[Node], after: &[Node]) -> Self {
        let by_name = |nodes: &'_ [Node]| -> BTreeMap<StreamName, Node> {
            nodes.iter().map(|node| (node.name.clone(), node.clone())).collect()
        };
        let (before, after) = (by_name(before), by_name(after));
        let mut difference = Self::default();
        for (name, node) in &after {
            let place = match before.get(name) {
                Some(old) if old == node => &mut difference.kept,
                Some(_) => &mut difference.changed,
                None => &mut difference.added,
            };
            place.push(name.clone());
        }
        difference.removed.extend(before.into_keys().filter(|name| !after.contains_key(name)));
        difference
    }

    /// Returns whether the new plan is the old one.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty() && self.removed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::scene::thin;
    use super::*;

    #[test]
    fn equal_nodes_are_kept_whatever_becomes_of_the_others() {
        let other = thin("lab/other", "lab/y", "10");
        let before = [thin("lab/thin", "lab/x", "10"), other.clone(), thin("lab/old", "lab/x", "2")];
        let after = [other, thin("lab/new", "lab/x", "2"), thin("lab/thin", "lab/x", "20")];
        let difference = Difference::between(&before, &after);
        let names = |list: &[StreamName]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&difference.kept), "lab/other");
        assert_eq!(names(&difference.changed), "lab/thin");
        assert_eq!(names(&difference.added), "lab/new");
        assert_eq!(names(&difference.removed), "lab/old");
        assert!(!difference.is_empty() && Difference::between(&before, &before).is_empty());
    }
}
