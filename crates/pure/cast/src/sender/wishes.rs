//! What the readers of a stream say about the age up to which its samples are of use to them.
//!
//! A reader's reports say it, from about a second after it joined. Until the first of them its request counts, so that
//! a relay serves it from its first samples on.

use core::time::Duration;
use std::collections::BTreeMap;

use ledger::AccountState;
use units::{Instant, ReaderId};

use super::readers::Readers;

/// Time for which a request counts without a report: the first comes within 2.5 s, and one may be lost.
const ASKED_FOR: Duration = Duration::from_secs(6);
/// Maximum number of readers that are told of; of more, those with the longest deadlines.
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
pub struct Wishes {
    /// Readers that have stated one.
    pub stated: Vec<StatedDeadline>,
    /// Number of readers that state none.
    pub silent: u32,
}

/// Deadlines of readers that have not reported yet.
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

    /// Returns what the readers that are still there have said.
    pub(super) fn with_reports(&self, now: Instant, readers: &Readers) -> Wishes {
        let mut wishes = Wishes::default();
        // A reader that has left says so with its last report.
        let there = readers.iter().filter(|it| it.report.state == AccountState::Open);
        for report in there.map(|it| &it.report) {
            match report.waiting.and_then(|waiting| waiting.deadline) {
                Some(deadline) => wishes.stated.push(StatedDeadline {
                    reader: report.reader,
                    name: report.name.clone(),
                    deadline,
                }),
                None => wishes.silent += 1,
            }
        }
        let unreported =
            self.0.iter().filter(|(reader, (_, heard))| now < *heard + ASKED_FOR && !readers.knows(**reader));
        wishes.stated.extend(unreported.map(|(&reader, &(deadline, _))| StatedDeadline {
            reader,
            name: String::new(),
            deadline,
        }));
        if wishes.stated.len() > MAX_STATED {
            wishes.stated.sort_by_key(|it| core::cmp::Reverse(it.deadline));
            wishes.stated.truncate(MAX_STATED);
        }
        wishes
    }
}
