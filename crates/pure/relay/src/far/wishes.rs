//! What the readers of a stream want, and the deadline that is kept for them.
//!
//! Kept is the longest deadline among the readers, so that the others have theirs, too: what is too old for one of them
//! it counts as lost by itself. A deadline below what the path takes is refused, and changes nothing for the others. One
//! that was accepted stays so when the path becomes longer: the near end warns, and forwarding resumes when it shortens.

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

/// Deadlines that the far end keeps to whatever its readers want.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Floor {
    /// The near end's deadline: for readers that state none.
    pub(super) near: Duration,
    /// True if the near end keeps to it whatever readers want.
    pub(super) is_least: bool,
    /// The least of this end, if it has one: for readers that state none, too.
    pub(super) far: Option<Duration>,
}

/// The readers of a stream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Wishes {
    stated: BTreeMap<u64, (WantedBy, Verdict)>,
    has_silent: bool,
}

/// What became of a reader's deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// The round trip is not known yet.
    Open,
    Kept,
    Refused,
}

impl Wishes {
    /// Takes what all readers of the stream want now: those that are not there any more are forgotten.
    pub(super) fn hear(&mut self, stated: Vec<WantedBy>, has_silent: bool) {
        self.has_silent = has_silent;
        let mut before = core::mem::take(&mut self.stated);
        for wanted in stated {
            let known = before.remove(&wanted.reader).filter(|(known, _)| known.deadline == wanted.deadline);
            let verdict = known.map_or(Verdict::Open, |(_, verdict)| verdict);
            self.stated.insert(wanted.reader, (wanted, verdict));
        }
    }

    /// Judges the deadlines by the least that the path can keep; returns those that are refused, each once.
    pub(super) fn judge(&mut self, least: Duration) -> Vec<WantedBy> {
        let mut refused = Vec::new();
        for (wanted, verdict) in self.stated.values_mut() {
            match verdict {
                Verdict::Open | Verdict::Refused if wanted.deadline >= least => *verdict = Verdict::Kept,
                // Its first report, which says its name, is still to come.
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
        let unasked = match far {
            Some(far) if is_least => far.max(near),
            Some(far) => far,
            None => near,
        };
        let has_floor = is_least || far.is_some() || self.has_silent;
        let wanted =
            longest.map_or(unasked, |longest| if has_floor { longest.max(unasked) } else { longest });
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
    fn kept(stated: Vec<WantedBy>, has_silent: bool, floor: Floor) -> Duration {
        let mut wishes = Wishes::default();
        wishes.hear(stated, has_silent);
        wishes.judge(52 * MS);
        wishes.deadline(floor)
    }

    #[test]
    fn the_longest_deadline_of_the_readers_is_kept() {
        assert_eq!(kept(vec![by(1, 300), by(2, 200)], false, OPEN), 300 * MS);
        assert_eq!(kept(vec![by(1, 300), by(2, 2_000)], true, OPEN), 2_000 * MS);
        assert_eq!(kept(vec![by(1, 300), by(2, 90_000)], false, OPEN), MAX_DEADLINE);
    }

    #[test]
    fn who_states_none_has_that_of_the_relay() {
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
    fn a_deadline_below_the_way_is_refused_once_and_the_others_are_kept() {
        let mut wishes = Wishes::default();
        wishes.hear(vec![by(1, 51), by(2, 52)], false);
        assert_eq!(wishes.deadline(OPEN), 1_000 * MS, "the round trip is not known");
        assert_eq!(wishes.judge(52 * MS), [by(1, 51)]);
        assert_eq!(wishes.deadline(OPEN), 52 * MS);
        wishes.hear(vec![by(1, 51), by(2, 52)], false);
        assert_eq!(wishes.judge(52 * MS), []);
        wishes.hear(vec![by(1, 50), by(2, 52)], false);
        assert_eq!(wishes.judge(52 * MS), [by(1, 50)], "it states another one");
        assert_eq!(wishes.judge(50 * MS), [], "the path has shortened");
        wishes.hear(vec![by(1, 50)], false);
        assert_eq!(wishes.deadline(OPEN), 50 * MS);
    }

    #[test]
    fn a_reader_is_refused_by_its_name() {
        let mut wishes = Wishes::default();
        wishes.hear(vec![WantedBy { name: String::new(), ..by(1, 40) }], false);
        assert_eq!(wishes.judge(52 * MS), []);
        assert_eq!(wishes.deadline(OPEN), 1_000 * MS);
        wishes.hear(vec![by(1, 40)], false);
        assert_eq!(wishes.judge(52 * MS), [by(1, 40)]);
    }

    #[test]
    fn a_way_that_grows_refuses_nothing_that_was_kept_and_readers_that_left_are_forgotten() {
        let mut wishes = Wishes::default();
        wishes.hear(vec![by(1, 60), by(2, 80)], false);
        assert_eq!(wishes.judge(52 * MS), []);
        assert_eq!(wishes.judge(100 * MS), []);
        assert_eq!(wishes.deadline(OPEN), 80 * MS);
        wishes.hear(vec![by(1, 60)], false);
        assert_eq!(wishes.deadline(OPEN), 60 * MS);
        wishes.hear(Vec::new(), false);
        assert_eq!(wishes.deadline(OPEN), 1_000 * MS);
    }
}
