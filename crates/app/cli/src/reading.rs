//! When a reader of streams has read enough: at the wish to end, or once every stream has ended.

use std::time::Duration;

use tallycast::Subscriber;

use crate::stop::{Deadline, Stop};

/// How long a reader that is asked to end goes on, so that accounts can close first.
#[derive(Debug)]
pub(crate) struct Patience {
    stop: Stop,
    patience: Duration,
    until_end: bool,
    /// Set once the end is wished for.
    deadline: Option<Deadline>,
}

impl Patience {
    /// Ends at the wish, `patience` after it while streams are open; with `until_end` also once all streams have come to
    /// their end.
    pub(crate) const fn new(stop: Stop, patience: Duration, until_end: bool) -> Self {
        Self { stop, patience, until_end, deadline: None }
    }

    /// Tells whether the reader has read enough.
    pub(crate) fn is_over(&mut self, subscriber: &mut Subscriber) -> bool {
        self.is_over_by_wish(subscriber.has_open_accounts()) || self.until_end && subscriber.has_reached_end()
    }

    fn is_over_by_wish(&mut self, is_open: bool) -> bool {
        if !self.stop.is_wanted() {
            return false;
        }
        let patience = self.patience;
        let deadline = *self.deadline.get_or_insert_with(|| Deadline::after(Some(patience)));
        deadline.is_over() || !is_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patient_reader_goes_on_after_the_wish_while_streams_are_open() {
        let stop = Stop::default();
        let mut patient = Patience::new(stop.clone(), Duration::from_secs(600), false);
        let mut impatient = Patience::new(stop.clone(), Duration::ZERO, false);
        assert!(!patient.is_over_by_wish(true));
        assert!(!impatient.is_over_by_wish(false), "nobody has asked it to end");
        stop.want();
        assert!(!patient.is_over_by_wish(true));
        assert!(impatient.is_over_by_wish(true));
        assert!(patient.is_over_by_wish(false));
    }
}
