//! End condition of a reader: on request, or once every stream has ended.

use std::time::Duration;

use tallycast::Subscriber;

use crate::stop::{Deadline, Stop};

/// Time that a reader continues after the request to end, so that accounts can close.
#[derive(Debug)]
pub(crate) struct Patience {
    stop: Stop,
    patience: Duration,
    until_end: bool,
    /// Set once the end is requested.
    deadline: Option<Deadline>,
}

impl Patience {
    /// Ends on request, at the latest after `patience` while streams are open; with `until_end` also once all streams
    /// have ended.
    pub(crate) const fn new(stop: Stop, patience: Duration, until_end: bool) -> Self {
        Self { stop, patience, until_end, deadline: None }
    }

    /// Returns whether the reader is finished.
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
        assert!(!impatient.is_over_by_wish(false), "no end was requested");
        stop.want();
        assert!(!patient.is_over_by_wish(true));
        assert!(impatient.is_over_by_wish(true));
        assert!(patient.is_over_by_wish(false));
    }
}
