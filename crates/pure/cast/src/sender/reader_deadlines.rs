//! Deadlines that the readers of a stream state: the ages from which samples are of no use to them.
//!
//! A reader states its deadline in its reports, of which the first comes about a second after it joined. Until then the
//! deadline in its request counts, so that a relay keeps it from the reader's first sample on.

use core::time::Duration;
use std::collections::BTreeMap;

use ledger::AccountState;
use units::{Instant, ReaderId};

use super::readers::Readers;

/// Time for which a request counts without a report: the first report comes within 2.5 s, and one may be lost.
const ASKED_FOR: Duration = Duration::from_secs(6);
/// Maximum number of readers kept; of more, those with the longest deadlines.
const MAX_STATED: usize = 256;

/// A reader that has stated a deadline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatedDeadline {
    /// The reader.
    pub reader: ReaderId,
    /// Its name; empty until its first report.
    pub name: String,
    /// Age from which samples are of no use to it.
    pub deadline: Duration,
}

/// The deadlines of a stream's readers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReaderDeadlines {
    /// Readers that state a deadline.
    pub stated: Vec<StatedDeadline>,
    /// Number of readers that report and state no deadline.
    pub unstated: u32,
}

/// Deadlines in the requests of readers that have not reported yet.
#[derive(Debug, Default)]
pub(super) struct Asked(BTreeMap<ReaderId, (Duration, Instant)>);

impl Asked {
    pub(super) fn heard(&mut self, now: Instant, reader: ReaderId, deadline: Duration) {
        if self.0.len() >= MAX_STATED && !self.0.contains_key(&reader) {
            self.0.retain(|_, (_, heard)| now < *heard + ASKED_FOR);
        }
        if self.0.len() < MAX_STATED || self.0.contains_key(&reader) {
            self.0.insert(reader, (deadline, now));
        }
    }

    /// Returns the deadlines of the readers that have not left, by their reports and requests.
    pub(super) fn with_reports(&self, now: Instant, readers: &Readers) -> ReaderDeadlines {
        let mut deadlines = ReaderDeadlines::default();
        // The last report of a reader that leaves says so.
        let present = readers.iter().filter(|it| it.report.state == AccountState::Open);
        for report in present.map(|it| &it.report) {
            match report.waiting.and_then(|waiting| waiting.deadline) {
                Some(deadline) => deadlines.stated.push(StatedDeadline {
                    reader: report.reader,
                    name: report.name.clone(),
                    deadline,
                }),
                None => deadlines.unstated += 1,
            }
        }
        let unreported =
            self.0.iter().filter(|(reader, (_, heard))| now < *heard + ASKED_FOR && !readers.knows(**reader));
        deadlines.stated.extend(unreported.map(|(&reader, &(deadline, _))| StatedDeadline {
            reader,
            name: String::new(),
            deadline,
        }));
        if deadlines.stated.len() > MAX_STATED {
            deadlines.stated.sort_by_key(|it| core::cmp::Reverse(it.deadline));
            deadlines.stated.truncate(MAX_STATED);
        }
        deadlines
    }
}
