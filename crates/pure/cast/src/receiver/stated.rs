//! The ages up to which samples are of use to this reader, as it states them to publishers.
//!
//! Readers of one process share a receiver, and a publisher takes it for one reader: of several deadlines for a stream
//! the longest is told. What is too old for one of them, each finds out for itself.

use core::time::Duration;

use sample::{StreamName, StreamPattern};

/// Deadlines by the pattern of their streams.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StatedDeadlines(Vec<(StreamPattern, Duration)>);

impl StatedDeadlines {
    /// States nothing.
    pub(super) const NONE: Self = Self(Vec::new());

    /// Returns the deadline for a stream, `None` if none was stated.
    #[must_use]
    pub fn of(&self, name: &StreamName) -> Option<Duration> {
        self.0.iter().filter(|(pattern, _)| pattern.matches(name)).map(|(_, deadline)| *deadline).max()
    }
}

impl FromIterator<(StreamPattern, Duration)> for StatedDeadlines {
    fn from_iter<T: IntoIterator<Item = (StreamPattern, Duration)>>(stated: T) -> Self {
        Self(stated.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_deadline_of_the_patterns_that_match_is_stated() {
        let ms = Duration::from_millis;
        let stated = [("lab/*", 300), ("lab/probe", 900), ("other/**", 5_000)];
        let stated: StatedDeadlines =
            stated.into_iter().map(|(pattern, millis)| (pattern.parse().unwrap(), ms(millis))).collect();
        assert_eq!(stated.of(&"lab/probe".parse().unwrap()), Some(ms(900)));
        assert_eq!(stated.of(&"lab/field".parse().unwrap()), Some(ms(300)));
        assert_eq!(stated.of(&"desk/probe".parse().unwrap()), None);
    }
}
