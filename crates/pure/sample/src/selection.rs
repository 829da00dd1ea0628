//! A set of requests for streams: the patterns that one or several readers asked for.

use crate::{StreamName, StreamPattern};

/// Chooses the streams that any of its patterns names.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Selection {
    /// Patterns, each as often as it was requested.
    patterns: Vec<StreamPattern>,
}

impl Selection {
    /// Chooses nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self { patterns: Vec::new() }
    }

    /// Chooses every stream.
    #[must_use]
    pub fn all() -> Self {
        Self { patterns: vec![StreamPattern::all()] }
    }

    /// Adds a request.
    pub fn add(&mut self, pattern: StreamPattern) {
        self.patterns.push(pattern);
    }

    /// Removes one request; others for the same pattern stay.
    pub fn remove(&mut self, pattern: &StreamPattern) {
        if let Some(index) = self.patterns.iter().position(|known| known == pattern) {
            self.patterns.remove(index);
        }
    }

    /// Returns whether any pattern matches this stream.
    #[must_use]
    pub fn wants(&self, name: &StreamName) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_that_two_have_stays_when_one_takes_it_back() {
        let (name, pattern) = ("lab/a".parse().unwrap(), "lab/*".parse().unwrap());
        let mut selection = Selection::none();
        assert!(!selection.wants(&name));
        selection.add(StreamPattern::clone(&pattern));
        selection.add(StreamPattern::clone(&pattern));
        selection.remove(&pattern);
        assert!(selection.wants(&name));
        selection.remove(&pattern);
        assert!(!selection.wants(&name));
    }
}
