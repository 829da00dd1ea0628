//! When a reader of streams has read enough: at the wish to end, or once every stream has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use tallycast::{Epoch, Event, StreamId};

use crate::stop::{Deadline, Stop};

/// Which epochs a reader has seen begin and end.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamsSeen {
    open: BTreeSet<(StreamId, Epoch)>,
    ended: BTreeSet<(StreamId, Epoch)>,
}

/// How long a reader that is asked to end goes on, so that accounts can close first.
#[derive(Debug)]
pub(crate) struct Patience {
    stop: Stop,
    patience: Duration,
    until_end: bool,
    /// How long it must be quiet once all streams have ended: a publisher that is started again comes back.
    quiet: Duration,
    /// Set while all streams have ended.
    quiet_until: Option<Deadline>,
    /// Set once the end is wished for.
    deadline: Option<Deadline>,
}

/// Longer than a publisher needs to be started again and announced.
const QUIET: Duration = Duration::from_secs(2);

impl StreamsSeen {
    /// Notes beginnings and ends.
    pub(crate) fn take(&mut self, event: &Event) {
        match event {
            Event::Began(info) => {
                self.ended.remove(&(info.id, info.epoch));
                self.open.insert((info.id, info.epoch));
            }
            Event::Ended(account) => {
                self.open.remove(&(account.id, account.epoch));
                self.ended.insert((account.id, account.epoch));
            }
            Event::Block(_) | Event::Gap(_) | Event::Settled(_) => {}
        }
    }

    fn all_ended(&self) -> bool {
        self.open.is_empty() && !self.ended.is_empty()
    }
}

impl Patience {
    /// Ends at the wish or, with `until_end`, once all streams have ended and none has come for a while; `patience`
    /// after the wish at the latest.
    pub(crate) fn new(stop: Stop, patience: Duration, until_end: bool) -> Self {
        Self { stop, patience, until_end, quiet: QUIET, quiet_until: None, deadline: None }
    }

    /// Tells whether the reader has read enough.
    pub(crate) fn is_over(&mut self, seen: &StreamsSeen) -> bool {
        if self.stop.is_wanted() {
            let patience = self.patience;
            let deadline = *self.deadline.get_or_insert_with(|| Deadline::after(Some(patience)));
            return deadline.is_over() || seen.open.is_empty();
        }
        if !(self.until_end && seen.all_ended()) {
            self.quiet_until = None;
            return false;
        }
        let quiet = self.quiet;
        self.quiet_until.get_or_insert_with(|| Deadline::after(Some(quiet))).is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(open: usize, ended: usize) -> StreamsSeen {
        let epochs = |count: usize, life: u64| {
            (0..count as u64).map(|id| (StreamId(id), Epoch { start_ns: 0, life })).collect()
        };
        StreamsSeen { open: epochs(open, 1), ended: epochs(ended, 2) }
    }

    #[test]
    fn a_reader_until_the_end_waits_for_the_last_stream() {
        let patience = Patience::new(Stop::default(), Duration::ZERO, true);
        let mut patience = Patience { quiet: Duration::ZERO, ..patience };
        assert!(!patience.is_over(&seen(0, 0)), "nothing has begun");
        assert!(!patience.is_over(&seen(1, 3)));
        assert!(patience.is_over(&seen(0, 4)));
    }

    #[test]
    fn a_stream_that_comes_back_at_once_is_waited_for() {
        let patience = Patience::new(Stop::default(), Duration::ZERO, true);
        let mut patience = Patience { quiet: Duration::from_secs(600), ..patience };
        assert!(!patience.is_over(&seen(0, 1)), "the quiet begins");
        assert!(patience.quiet_until.is_some());
        assert!(!patience.is_over(&seen(1, 1)));
        assert!(patience.quiet_until.is_none(), "and is over: the next one begins anew");
    }

    #[test]
    fn a_patient_reader_goes_on_after_the_wish_while_streams_are_open() {
        let stop = Stop::default();
        let mut patient = Patience::new(stop.clone(), Duration::from_secs(600), false);
        let mut impatient = Patience::new(stop.clone(), Duration::ZERO, false);
        assert!(!patient.is_over(&seen(1, 0)));
        stop.want();
        assert!(!patient.is_over(&seen(1, 0)));
        assert!(impatient.is_over(&seen(1, 0)));
        assert!(patient.is_over(&seen(0, 1)));
    }
}
