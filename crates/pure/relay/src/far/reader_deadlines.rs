//! Deadlines that the readers of a stream state, and the one deadline that the relay keeps for all of them.
//!
//! The relay keeps the longest. A reader with a shorter one counts samples that are too old for it as lost on its own
//! hop. A deadline shorter than the path takes is refused, and changes nothing for the others. An accepted one stays
//! accepted when the path becomes longer: the near end warns, and forwarding resumes when the path shortens.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::MAX_DEADLINE;

/// A reader that states a deadline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedBy {
    /// A number that no other reader has.
    pub reader: u64,
    /// Its name; empty until it is known.
    pub name: String,
    /// Age from which samples are of no use to it.
    pub deadline: Duration,
}

/// Deadlines of the two relays, which hold beside those of the readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Floor {
    /// The near end's, for readers that state none.
    pub(super) near: Duration,
    /// True if the near end keeps its deadline even when all readers state shorter ones.
    pub(super) is_least: bool,
    /// The least that this end keeps, if it was given one; it replaces the near end's for readers that state none.
    pub(super) far: Option<Duration>,
}

/// Deadlines of the readers of a stream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct ReaderDeadlines {
    stated: BTreeMap<u64, (WantedBy, Verdict)>,
    has_unstated: bool,
}

/// Whether a reader's deadline is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// The round trip is not known yet.
    Open,
    Kept,
    Refused,
}

impl ReaderDeadlines {
    /// Takes the deadlines that the readers of the stream state now; readers not among them are forgotten.
    pub(super) fn update(&mut self, stated: Vec<WantedBy>, has_unstated: bool) {
        self.has_unstated = has_unstated;
        let mut before = core::mem::take(&mut self.stated);
        for wanted in stated {
            let known = before.remove(&wanted.reader).filter(|(known, _)| known.deadline == wanted.deadline);
            let verdict = known.map_or(Verdict::Open, |(_, verdict)| verdict);
            self.stated.insert(wanted.reader, (wanted, verdict));
        }
    }

    /// Returns the deadlines that are kept: they hold for the next epoch until its readers have stated theirs.
    pub(super) fn inherited(&self) -> Self {
        let kept = self.stated.iter().filter(|(_, (_, verdict))| *verdict == Verdict::Kept);
        let stated = kept.map(|(reader, wanted)| (*reader, wanted.clone())).collect();
        Self { stated, has_unstated: self.has_unstated }
    }

    /// Compares the deadlines with the least that the path allows; returns those that are refused, each once.
    pub(super) fn judge(&mut self, least: Duration) -> Vec<WantedBy> {
        let mut refused = Vec::new();
        for (wanted, verdict) in self.stated.values_mut() {
            match verdict {
                Verdict::Open | Verdict::Refused if wanted.deadline >= least => *verdict = Verdict::Kept,
                // The reader's first report, which has its name, is still to come.
                Verdict::Open if wanted.name.is_empty() => {}
                Verdict::Open => {
                    *verdict = Verdict::Refused;
                    refused.push(wanted.clone());
                }
                Verdict::Kept | Verdict::Refused => {}
            }
        }
        refused
    }

    /// Returns the deadline to keep.
    pub(super) fn deadline(&self, floor: Floor) -> Duration {
        let kept = self.stated.values().filter(|(_, verdict)| *verdict == Verdict::Kept);
        let longest = kept.map(|(wanted, _)| wanted.deadline).max();
        let Floor { near, is_least, far } = floor;
        let default = match far {
            Some(far) if is_least => far.max(near),
            Some(far) => far,
            None => near,
        };
        let has_floor = is_least || far.is_some() || self.has_unstated;
        let wanted =
            longest.map_or(default, |longest| if has_floor { longest.max(default) } else { longest });
        wanted.min(MAX_DEADLINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn by(reader: u64, millis: u32) -> WantedBy {
        WantedBy { reader, name: format!("reader {reader}"), deadline: millis * MS }
    }

    const OPEN: Floor = Floor { near: Duration::from_secs(1), is_least: false, far: None };
    const LEAST: Floor = Floor { is_least: true, ..OPEN };

    /// Returns the deadline for readers on a path that needs 52 ms.
    fn kept(stated: Vec<WantedBy>, has_unstated: bool, floor: Floor) -> Duration {
        let mut deadlines = ReaderDeadlines::default();
        deadlines.update(stated, has_unstated);
        deadlines.judge(52 * MS);
        deadlines.deadline(floor)
    }

    #[test]
    fn the_longest_deadline_of_the_readers_is_kept() {
        assert_eq!(kept(vec![by(1, 300), by(2, 200)], false, OPEN), 300 * MS);
        assert_eq!(kept(vec![by(1, 300), by(2, 2_000)], true, OPEN), 2_000 * MS);
        assert_eq!(kept(vec![by(1, 300), by(2, 90_000)], false, OPEN), MAX_DEADLINE);
    }

    #[test]
    fn a_reader_without_a_deadline_has_that_of_the_relay() {
        assert_eq!(kept(Vec::new(), false, OPEN), 1_000 * MS);
        assert_eq!(kept(vec![by(1, 300)], true, OPEN), 1_000 * MS);
    }

    #[test]
    fn a_deadline_that_either_relay_was_given_is_the_least() {
        assert_eq!(kept(vec![by(1, 300)], false, LEAST), 1_000 * MS);
        assert_eq!(kept(vec![by(1, 3_000)], false, LEAST), 3_000 * MS);
        let far = Some(500 * MS);
        assert_eq!(kept(vec![by(1, 300)], false, Floor { far, ..OPEN }), 500 * MS);
        assert_eq!(kept(Vec::new(), true, Floor { far, ..OPEN }), 500 * MS, "in place of the near end's");
        assert_eq!(kept(Vec::new(), true, Floor { far, ..LEAST }), 1_000 * MS);
    }

    #[test]
    fn a_deadline_shorter_than_the_path_is_refused_once_and_the_others_are_kept() {
        let mut deadlines = ReaderDeadlines::default();
        deadlines.update(vec![by(1, 51), by(2, 52)], false);
        assert_eq!(deadlines.deadline(OPEN), 1_000 * MS, "the round trip is not known");
        assert_eq!(deadlines.judge(52 * MS), [by(1, 51)]);
        assert_eq!(deadlines.deadline(OPEN), 52 * MS);
        deadlines.update(vec![by(1, 51), by(2, 52)], false);
        assert_eq!(deadlines.judge(52 * MS), []);
        deadlines.update(vec![by(1, 50), by(2, 52)], false);
        assert_eq!(deadlines.judge(52 * MS), [by(1, 50)], "the reader states another deadline");
        assert_eq!(deadlines.judge(50 * MS), [], "the path has shortened");
        deadlines.update(vec![by(1, 50)], false);
        assert_eq!(deadlines.deadline(OPEN), 50 * MS);
    }

    #[test]
    fn a_reader_is_refused_once_its_name_is_known() {
        let mut deadlines = ReaderDeadlines::default();
        deadlines.update(vec![WantedBy { name: String::new(), ..by(1, 40) }], false);
        assert_eq!(deadlines.judge(52 * MS), []);
        assert_eq!(deadlines.deadline(OPEN), 1_000 * MS);
        deadlines.update(vec![by(1, 40)], false);
        assert_eq!(deadlines.judge(52 * MS), [by(1, 40)]);
    }

    #[test]
    fn a_path_that_becomes_longer_refuses_no_kept_deadline_and_readers_that_left_are_forgotten() {
        let mut deadlines = ReaderDeadlines::default();
        deadlines.update(vec![by(1, 60), by(2, 80)], false);
        assert_eq!(deadlines.judge(52 * MS), []);
        assert_eq!(deadlines.judge(100 * MS), []);
        assert_eq!(deadlines.deadline(OPEN), 80 * MS);
        deadlines.update(vec![by(1, 60)], false);
        assert_eq!(deadlines.deadline(OPEN), 60 * MS);
        deadlines.update(Vec::new(), false);
        assert_eq!(deadlines.deadline(OPEN), 1_000 * MS);
    }
}
