//! Course of a measurement, from its beginning to the end of its report.

use sys::clock;

use super::envelope::{End, State};
use crate::day_clock::Moment;
use crate::host;

/// A measurement under way: its notes, and whether part of it is missing.
#[derive(Debug, Default)]
pub(crate) struct Course {
    /// Beginning; `None` if the parts of the measurement themselves report that the time of day was set.
    began: Option<Moment>,
    notes: Vec<String>,
    /// True if part of it could not be measured.
    pub(crate) has_broken_off: bool,
}

impl Course {
    pub(crate) fn begin() -> Self {
        Self { began: Some(Moment::now()), ..Self::default() }
    }

    /// Adds a note, once.
    pub(crate) fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    /// Adds the notes of a part, each once.
    pub(crate) fn note_all(&mut self, notes: &[String]) {
        notes.iter().for_each(|note| self.note(note));
    }

    /// Records that part of the measurement is missing, and why.
    pub(crate) fn break_off(&mut self, why: &str) {
        self.has_broken_off = true;
        self.note(why);
    }

    /// Ends now.
    pub(crate) fn end(mut self, was_interrupted: bool) -> End {
        let step = self.began.and_then(|began| began.step_in_words(&Moment::now()));
        self.note_all(step.as_slice());
        End {
            time_ns: clock::wall().as_nanos(),
            state: State::of(self.has_broken_off, was_interrupted),
            notes: self.notes,
            load_1min: host::load(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_that_was_set_meanwhile_is_a_note() {
        let began = Some(Moment::now().before_a_step_of(5));
        let notes = Course { began, ..Course::default() }.end(false).notes.join("\n");
        assert!(notes.contains("set forward by 5.0"), "{notes}");
    }

    #[test]
    fn a_note_is_made_once_and_what_broke_off_was_not_ended_early() {
        let mut course = Course::begin();
        course.note_all(&["a clamped buffer".to_owned(), "a clamped buffer".to_owned()]);
        course.break_off("the server is gone");
        let End { state, notes, .. } = course.end(true);
        assert_eq!(
            (state, notes.join(", ").as_str()),
            (State::BrokenOff, "a clamped buffer, the server is gone")
        );
    }
}
