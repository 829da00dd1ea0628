//! Author: the publisher's side, which digests what is numbered and signs statements about it.
//!
//! A statement repeats the newest intervals of the one before where there is room, so that the loss of one tally
//! costs no digests; beyond that the chain bridges what is lost. Start with [`Author::take`].

use std::collections::VecDeque;
use std::sync::Arc;

use keys::Station;
use sample::{Dtype, Schema, StreamName};
use units::{Epoch, WallTime};

use crate::digest::DigestError;
use crate::statement::FIXED_BYTES;
use crate::{Digest, Digester, Entry, Grid, Interval, MAX_ENTRIES, Statement, Subject};

/// Maximum number of intervals kept for statements: 64 MiB of a stream. Older ones are left to the chain.
const MAX_KEPT: usize = MAX_ENTRIES;

/// Author of the statements about one epoch.
pub struct Author {
    station: Arc<Station>,
    subject: Subject,
    epoch: Epoch,
    grid: Grid,
    digester: Digester,
    list: List,
    /// Position before which everything is digested.
    passed: u64,
    end: Option<u64>,
    /// Position up to which statements spoke, and whether the last one was final.
    stated: (u64, bool),
}

/// The newest intervals, oldest first.
struct List {
    subject: Subject,
    kept: VecDeque<Kept>,
    head: Digest,
    /// First interval of which the next entry speaks.
    since: u64,
    /// Number of the newest entries that no statement had yet.
    fresh: usize,
}

/// Interval of the list.
#[derive(Clone, Copy)]
struct Kept {
    interval: Interval,
    since: u64,
    before: Digest,
}

impl List {
    fn add(&mut self, interval: &Interval) {
        if self.kept.len() == MAX_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(Kept { interval: *interval, since: self.since, before: self.head });
        self.fresh = (self.fresh + 1).min(MAX_KEPT);
        self.head = self.subject.head(self.head, interval.number, interval.leaves());
        self.since = interval.number + 1;
    }
}

impl Author {
    /// Begins the statements about an epoch of a stream.
    ///
    /// # Errors
    /// [`DigestError`] if a text of the schema is too long for a description.
    pub fn new(
        station: impl Into<Arc<Station>>,
        (name, schema, epoch): (&StreamName, &Schema, Epoch),
        grid: Grid,
    ) -> Result<Self, DigestError> {
        let subject = Subject::new(name, schema, epoch, grid)?;
        let dtype: Dtype = schema.dtype;
        let (kept, head) = (VecDeque::with_capacity(MAX_KEPT), subject.beginning());
        Ok(Self {
            station: station.into(),
            digester: Digester::new(&subject, grid, dtype),
            list: List { subject, kept, head, since: 0, fresh: 0 },
            subject,
            epoch,
            grid,
            passed: 0,
            end: None,
            stated: (0, false),
        })
    }

    /// Signs as this station from now on: it has another certificate.
    pub fn renew(&mut self, station: Arc<Station>) {
        self.station = station;
    }

    /// Takes elements as they are numbered; see [`Digester::take`].
    pub fn take(&mut self, position: u64, bytes: &[u8]) {
        self.digester.take(position, bytes, &mut |interval| self.list.add(interval));
        self.pass(self.digester.next());
    }

    /// Records that no element before `position` will be numbered.
    pub fn pass(&mut self, position: u64) {
        self.digester.pass(position, &mut |interval| self.list.add(interval));
        self.passed = self.passed.max(position);
    }

    /// Ends the epoch at `position`.
    pub fn finish(&mut self, position: u64) {
        self.digester.finish(&mut |interval| self.list.add(interval));
        self.passed = self.passed.max(position);
        self.end = Some(self.passed);
    }

    /// Returns whether intervals are over that no statement lists, or the end is not stated.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let until = self.until();
        self.list.fresh > 0 || self.stated.0 < until || self.end.is_some() && !self.stated.1
    }

    /// Signs the next statement of at most `max_bytes`; `None` if nothing is new or nothing fits.
    ///
    /// Cost: one signature, about 20 µs; allocates the statement.
    pub fn statement(&mut self, issued: WallTime, max_bytes: usize) -> Option<Vec<u8>> {
        if !self.is_due() {
            return None;
        }
        let around = FIXED_BYTES + self.station.certificate().to_bytes().len() + keys::SIGNATURE_BYTES;
        let room = max_bytes.checked_sub(around)? / (8 + 32 * self.grid.leaves());
        let (kept, fresh) = (self.list.kept.len(), self.list.fresh);
        if room == 0 && fresh > 0 {
            return None;
        }
        // The oldest that are fresh; where there is more room, also the newest of those before.
        let begin = (kept - fresh).saturating_sub(room.saturating_sub(fresh));
        let end = (begin + room.min(MAX_ENTRIES)).min(kept);
        let listed: Vec<Kept> = self.list.kept.range(begin..end).copied().collect();
        let behind = self.list.kept.get(end);
        let until = match behind {
            Some(_) => self.grid.positions(&(0..listed.last()?.interval.number + 1)).end,
            None => self.until(),
        };
        let (first, before) = match listed.first() {
            Some(first) => (first.since, first.before),
            None => (self.list.since, self.list.head),
        };
        let is_final = behind.is_none() && self.end.is_some();
        let entry = |it: &Kept| Entry { interval: it.interval.number, leaves: it.interval.leaves().to_vec() };
        let statement = Statement {
            subject: self.subject,
            epoch: self.epoch,
            grid: self.grid,
            issued,
            first,
            until,
            is_final,
            before,
            entries: listed.iter().map(entry).collect(),
            certificate: self.station.certificate().clone(),
            signature: keys::Signature([0; keys::SIGNATURE_BYTES]),
        };
        self.list.fresh = kept - end;
        self.stated = (until, is_final);
        Some(statement.signed_by(&self.station).encode())
    }

    /// Returns the position up to which a statement can speak now.
    fn until(&self) -> u64 {
        self.end.unwrap_or_else(|| self.passed - self.passed % self.grid.interval_elements())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{NOW, author, bytes};

    fn intervals(statement: &[u8]) -> (u64, Vec<u64>, u64) {
        let statement = Statement::decode(statement).unwrap();
        (statement.first, statement.entries.iter().map(|it| it.interval).collect(), statement.until)
    }

    #[test]
    fn a_statement_repeats_the_newest_intervals_of_the_one_before() {
        let mut author = author("daq-1", 2);
        assert_eq!(author.statement(NOW, 700), None, "nothing is over");
        author.take(0, &bytes(0..65));
        assert_eq!(intervals(&author.statement(NOW, 700).unwrap()), (0, vec![0, 1], 60));
        assert_eq!(author.statement(NOW, 700), None, "nothing is new");
        author.take(65, &bytes(65..91));
        assert_eq!(intervals(&author.statement(NOW, 700).unwrap()), (0, vec![0, 1, 2], 90));
        author.take(91, &bytes(91..125));
        assert_eq!(intervals(&author.statement(NOW, 700).unwrap()), (1, vec![1, 2, 3], 120));
    }

    #[test]
    fn more_than_a_statement_holds_needs_several() {
        let mut author = author("daq-1", 2);
        author.take(0, &bytes(0..150));
        assert_eq!(intervals(&author.statement(NOW, 700).unwrap()), (0, vec![0, 1, 2], 90));
        assert_eq!(intervals(&author.statement(NOW, 700).unwrap()), (2, vec![2, 3, 4], 150));
        assert_eq!(author.statement(NOW, 700), None);
        author.take(150, &bytes(150..180));
        assert_eq!(author.statement(NOW, 400), None, "an entry does not fit");
        assert!(author.is_due());
    }

    #[test]
    fn a_pause_and_the_end_are_stated_without_digests() {
        let mut author = author("daq-1", 2);
        author.take(0, &bytes(0..30));
        author.statement(NOW, 700).unwrap();
        author.pass(95);
        assert_eq!(intervals(&author.statement(NOW, 450).unwrap()), (0, vec![0], 90));
        author.finish(95);
        let last = author.statement(NOW, 450).unwrap();
        assert!(Statement::decode(&last).unwrap().is_final);
        assert_eq!(intervals(&last), (0, vec![0], 95));
        assert_eq!(author.statement(NOW, 450), None);
    }
}
