//! Controls of a stream in their order, until the far end has taken them.

use core::ops::Range;
use std::collections::VecDeque;

use ledger::{HopCounts, HopShare};
use units::Instant;

use super::Fault;
use crate::frame::Control;

/// Maximum number of controls that the far end has not taken. Older ones are forgotten, and the elements that they were
/// about stay unsettled at the far end.
const MAX_CONTROLS: usize = 8_192;

/// A control, with the fields of its message's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) control: Control,
    /// Elements missing before its positions, since the driver began.
    pub(super) missing_before: u64,
    /// Birth of the newest samples before it.
    pub(super) born: Instant,
}

/// Controls of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    /// Number of the oldest entry.
    first: u64,
    /// Number of the next to be sent.
    unsent: u64,
    /// One behind the highest number that was sent on any connection, or forgotten.
    sent: u64,
    entries: VecDeque<Entry>,
}

impl Journal {
    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
        if self.entries.len() > MAX_CONTROLS {
            self.entries.pop_front();
            self.first += 1;
            self.unsent = self.unsent.max(self.first);
            self.sent = self.sent.max(self.first);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of the oldest control that can still be sent.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent < self.end()
    }

    /// Returns the next control to be sent, and its number.
    pub(super) fn send(&mut self) -> Option<(u64, &Entry)> {
        let place = usize::try_from(self.unsent - self.first).expect("a place in memory");
        let entry = self.entries.get(place)?;
        self.unsent += 1;
        self.sent = self.sent.max(self.unsent);
        Some((self.unsent - 1, entry))
    }

    /// Forgets the controls that the far end has taken.
    pub(super) fn taken(&mut self, count: u64) -> Result<(), Fault> {
        // Controls that came over an earlier connection may have waited at the far end for those before them.
        if count > self.sent {
            return Err(Fault::NotSent(count));
        }
        while self.first < count {
            self.entries.pop_front();
            self.first += 1;
        }
        self.unsent = self.unsent.max(self.first);
        Ok(())
    }

    /// Sends the controls that the far end has not taken again, over another connection.
    pub(super) fn resend(&mut self, taken: u64) -> Result<(), Fault> {
        self.taken(taken)?;
        self.unsent = self.first;
        Ok(())
    }

    /// Begins anew at a position: forgets everything below, and the stream's end, which is sent again.
    pub(super) fn begin_at(&mut self, position: u64, born: Instant) {
        let old = core::mem::take(self);
        let start = Entry { control: Control::Start { position }, missing_before: 0, born };
        self.entries.push_back(start);
        self.entries.extend(old.entries.into_iter().filter_map(|entry| entry.from(position)));
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }
}

impl Entry {
    /// Returns the control for the positions from here on.
    fn from(self, position: u64) -> Option<Self> {
        let cut = |positions: &Range<u64>| positions.start.max(position)..positions.end;
        let skipped = |positions: &Range<u64>| position.saturating_sub(positions.start);
        let mut missing_before = self.missing_before;
        let control = match self.control {
            // The stream begins anew, and tells its end again.
            Control::Start { .. } | Control::End { .. } => return None,
            Control::Missing { positions, shares } if positions.end > position => {
                // The elements before the cut are missing before the rest.
                missing_before += skipped(&positions);
                let shares = without_first(&shares, skipped(&positions));
                Control::Missing { positions: cut(&positions), shares }
            }
            Control::Settled { positions, shares } if positions.end > position => {
                let shares = without_first(&shares, skipped(&positions));
                Control::Settled { positions: cut(&positions), shares }
            }
            Control::GivenUp { positions, cause } if positions.end > position => {
                Control::GivenUp { positions: cut(&positions), cause }
            }
            Control::Missing { .. } | Control::Settled { .. } | Control::GivenUp { .. } => return None,
            statement @ Control::Statement(_) => statement,
        };
        Some(Self { control, missing_before, born: self.born })
    }
}

/// Returns shares without the first so many elements.
pub(super) fn without_first(shares: &HopCounts, elements: u64) -> HopCounts {
    let mut left = elements;
    let rest = shares.shares().map(|share| {
        let skipped = share.count.min(left);
        left -= skipped;
        HopShare { count: share.count - skipped, ..share }
    });
    rest.filter(|share| share.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use ledger::{Outcome, Stage};

    use super::*;
    use crate::Cause;

    fn entry(control: Control) -> Entry {
        Entry { control, missing_before: 0, born: Instant::ORIGIN }
    }

    fn given_up(positions: Range<u64>) -> Control {
        Control::GivenUp { positions, cause: Cause::LinkDown }
    }

    #[test]
    fn controls_stay_until_the_far_end_has_taken_them() {
        let mut journal = Journal::default();
        for start in 0..3 {
            journal.push(entry(given_up(start..start + 1)));
        }
        assert_eq!(journal.send().unwrap().0, 0);
        assert_eq!(journal.send().unwrap().0, 1);
        assert_eq!(journal.taken(3), Err(Fault::NotSent(3)), "it was not sent");
        assert_eq!(journal.taken(1), Ok(()));
        assert_eq!(journal.resend(1), Ok(()));
        assert_eq!(journal.send().unwrap().0, 1, "over another connection again");
        assert_eq!(journal.send().unwrap().0, 2);
        assert!(journal.send().is_none() && !journal.has_unsent());
        assert_eq!(journal.taken(3), Ok(()));
        assert!(journal.is_empty());
    }

    #[test]
    fn controls_that_waited_for_one_before_them_are_taken_with_it_on_the_next_connection() {
        let mut journal = Journal::default();
        for start in 0..3 {
            journal.push(entry(given_up(start..start + 1)));
            journal.send();
        }
        assert_eq!(journal.resend(0), Ok(()));
        assert_eq!(journal.send().unwrap().0, 0);
        assert_eq!(journal.taken(3), Ok(()), "the others came over the connection before");
        assert!(journal.is_empty() && !journal.has_unsent());
    }

    #[test]
    fn the_oldest_of_too_many_are_forgotten() {
        let mut journal = Journal::default();
        for start in 0..MAX_CONTROLS as u64 + 2 {
            journal.push(entry(given_up(start..start + 1)));
        }
        assert_eq!(journal.first(), 2);
        assert_eq!(journal.send().unwrap().0, 2);
    }

    #[test]
    fn a_journal_that_begins_anew_tells_only_of_what_follows() {
        let mut journal = Journal::default();
        journal.push(entry(given_up(0..10)));
        let shares: HopCounts = [
            HopShare { hop: 0, outcome: Outcome::Lost(Stage::Network), count: 4 },
            HopShare { hop: 0, outcome: Outcome::Unsettled, count: 6 },
        ]
        .into_iter()
        .collect();
        journal.push(entry(Control::Missing { positions: 10..20, shares }));
        journal.push(entry(Control::End { position: 20 }));
        journal.begin_at(15, Instant::ORIGIN);
        let told: Vec<_> =
            core::iter::from_fn(|| journal.send().map(|(_, entry)| entry.control.clone())).collect();
        let shares = [HopShare { hop: 0, outcome: Outcome::Unsettled, count: 5 }].into_iter().collect();
        assert_eq!(told, [Control::Start { position: 15 }, Control::Missing { positions: 15..20, shares },]);
    }
}
