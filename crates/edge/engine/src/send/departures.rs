//! Intervals between trains as they left, which show whether the actual pacing is as intended.

use std::time::Duration;

use units::Instant;

/// Number of classes. Intervals double from class to class; the last takes all of 17 s (2³⁴ ns) and
/// more.
const CLASSES: usize = 36;

/// The intervals between the trains of a publisher, by powers of two of a nanosecond.
///
/// Recorded when each train was first offered to the kernel, for one destination or for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departures {
    classes: [u64; CLASSES],
    datagrams: u64,
    last: Option<Instant>,
}

impl Default for Departures {
    fn default() -> Self {
        Self { classes: [0; CLASSES], datagrams: 0, last: None }
    }
}

impl Departures {
    /// Notes that a train of `datagrams` datagrams has left.
    pub(super) fn left(&mut self, now: Instant, datagrams: u64) {
        self.datagrams += datagrams;
        if let Some(last) = self.last.replace(now) {
            let nanos = now.as_nanos().saturating_sub(last.as_nanos());
            let class = nanos.checked_ilog2().map_or(0, |exponent| exponent as usize + 1);
            self.classes[class.min(CLASSES - 1)] += 1;
        }
    }

    /// Returns the number of trains that have left; a single datagram is a train too.
    #[must_use]
    pub fn trains(&self) -> u64 {
        self.intervals().map(|(_, count)| count).sum::<u64>() + u64::from(self.last.is_some())
    }

    /// Returns the number of datagrams in these trains.
    #[must_use]
    pub const fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// Returns the classes that are not empty: the upper limit of their intervals (the last class
    /// has none), and their number.
    pub fn intervals(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let below = |class: usize| Duration::from_nanos(1 << class);
        let classes = self.classes.iter().enumerate().filter(|(_, count)| **count > 0);
        classes.map(move |(class, count)| (below(class), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_counted_by_powers_of_two() {
        let mut departures = Departures::default();
        for at in [1_000, 1_000, 1_001, 1_003, 2_027, 2_027 + 1_023, u64::MAX] {
            departures.left(Instant::from_nanos(at), 16);
        }
        let counted: Vec<_> =
            departures.intervals().map(|(below, count)| (below.as_nanos(), count)).collect();
        let longest = 1 << (CLASSES - 1);
        assert_eq!(counted, [(1, 1), (2, 1), (4, 1), (1_024, 1), (2_048, 1), (longest, 1)]);
        assert_eq!((departures.trains(), departures.datagrams()), (7, 112));
    }

    #[test]
    fn one_train_has_no_interval() {
        let mut departures = Departures::default();
        assert_eq!(departures.trains(), 0);
        departures.left(Instant::from_nanos(5), 3);
        assert_eq!((departures.trains(), departures.intervals().count()), (1, 0));
    }
}
