//! End condition of a reader: on request, or once every stream has ended.

use std::time::Duration;

use sys::Cancellation;
use tallycast::Subscriber;

use crate::deadline::Deadline;

/// Time that a reader continues after the request to end, so that accounts can close.
#[derive(Debug)]
pub(crate) struct Patience {
    cancellation: Cancellation,
    patience: Duration,
    until_end: bool,
    /// Set once the end is requested.
    deadline: Option<Deadline>,
}

impl Patience {
    /// Ends on request, at the latest after `patience` while streams are open; with `until_end` also once all streams
    /// have ended.
    pub(crate) const fn new(cancellation: Cancellation, patience: Duration, until_end: bool) -> Self {
        Self { cancellation, patience, until_end, deadline: None }
    }

    /// Returns whether the reader is finished.
    pub(crate) fn is_over(&mut self, subscriber: &mut Subscriber) -> bool {
        self.is_over_by_wish(subscriber.has_open_accounts()) || self.until_end && subscriber.has_reached_end()
    }

    fn is_over_by_wish(&mut self, is_open: bool) -> bool {
        if !self.cancellation.is_cancelled() {
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
        let cancellation = Cancellation::new().unwrap();
        let mut patient = Patience::new(cancellation.clone(), Duration::from_secs(600), false);
        let mut impatient = Patience::new(cancellation.clone(), Duration::ZERO, false);
        assert!(!patient.is_over_by_wish(true));
        assert!(!impatient.is_over_by_wish(false), "no end was requested");
        cancellation.cancel();
        assert!(!patient.is_over_by_wish(true));
        assert!(impatient.is_over_by_wish(true));
        assert!(patient.is_over_by_wish(false));
    }
}
