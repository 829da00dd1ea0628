//! Streams that are computed from each other in a circle: none of them would ever begin.

use std::collections::{BTreeMap, BTreeSet};

/// Streams that are computed from each other in a circle, from one of them back to it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{}` is computed from itself: {}\ntake one of these inputs out", .0[0], .0.join(" from "))]
pub struct Circle(pub Vec<String>);

/// By output, the streams that it is computed from.
pub type Edges<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Returns the outputs in an order in which each follows those it is computed from.
///
/// # Errors
/// The first circle.
pub fn in_order<'a>(edges: &Edges<'a>) -> Result<Vec<&'a str>, Circle> {
    let mut walk = Walk { edges, path: Vec::new(), done: BTreeSet::new(), order: Vec::new() };
    edges.keys().try_for_each(|stream| walk.follow(stream))?;
    Ok(walk.order)
}

struct Walk<'e, 'a> {
    edges: &'e Edges<'a>,
    path: Vec<&'a str>,
    done: BTreeSet<&'a str>,
    order: Vec<&'a str>,
}

impl<'a> Walk<'_, 'a> {
    /// Goes upstream, but not again through streams that are done.
    fn follow(&mut self, stream: &'a str) -> Result<(), Circle> {
        let Some(inputs) = self.edges.get(stream) else { return Ok(()) };
        if self.done.contains(stream) {
            return Ok(());
        }
        if let Some(place) = self.path.iter().position(|it| *it == stream) {
            let circle = self.path[place..].iter().chain([&stream]).map(|it| (*it).to_owned());
            return Err(Circle(circle.collect()));
        }
        self.path.push(stream);
        inputs.iter().try_for_each(|input| self.follow(input))?;
        self.path.pop();
        self.done.insert(stream);
        self.order.push(stream);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_however_long_and_told_in_its_order() {
        let mut edges: Edges<'_> =
            [("b", vec!["a"]), ("c", vec!["b"]), ("d", vec!["b"]), ("e", vec!["d"])].into();
        assert_eq!(in_order(&edges), Ok(vec!["b", "c", "d", "e"]));
        let itself = in_order(&[("a", vec!["a"])].into()).unwrap_err();
        assert_eq!(itself.to_string(), "`a` is computed from itself: a from a\ntake one of these inputs out");
        edges.insert("a", vec!["x", "d"]);
        assert_eq!(in_order(&edges).unwrap_err().0, ["a", "d", "b", "a"]);
    }
}
