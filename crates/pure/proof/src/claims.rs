//! Claims: what all valid statements about one epoch say together.
//!
//! Their order does not matter, repeated ones are the same claim, and every refused one is kept with its reason.
//! Statements of one station count: the named one, or else that of the first valid statement. Start with
//! [`Claims::add`].

use std::collections::BTreeMap;

use keys::PublicKey;
use sample::{Schema, StreamName};
use units::{Epoch, RangeSet};

use crate::{Digest, Grid, Statement, StatementError, Subject};

/// Maximum number of refused statements that are kept; the others are only counted.
const MAX_REFUSED: usize = 1_000;

/// A refused statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Its number among all statements, from 1.
    pub number: u64,
    /// Why it does not count.
    pub cause: StatementError,
}

/// All that was stated about one epoch.
#[derive(Debug)]
pub struct Claims {
    name: StreamName,
    schema: Schema,
    epoch: Epoch,
    authority: PublicKey,
    /// Station whose statements count.
    station: Option<String>,
    grid: Option<(Grid, Subject)>,
    entries: BTreeMap<u64, Vec<Digest>>,
    /// Intervals of which statements speak.
    covered: RangeSet,
    /// Heads of the chain, each before an interval.
    heads: BTreeMap<u64, Digest>,
    end: Option<u64>,
    seen: u64,
    accepted: u64,
    refused: Vec<Refused>,
}

impl Claims {
    /// Begins the claims about a stream's epoch; `station` is the one whose statements count, if known.
    #[must_use]
    pub fn new(
        name: &StreamName,
        schema: &Schema,
        epoch: Epoch,
        authority: PublicKey,
        station: Option<String>,
    ) -> Self {
        Self {
            name: name.clone(),
            schema: schema.clone(),
            epoch,
            authority,
            station,
            grid: None,
            entries: BTreeMap::new(),
            covered: RangeSet::new(),
            heads: BTreeMap::new(),
            end: None,
            seen: 0,
            accepted: 0,
            refused: Vec::new(),
        }
    }

    /// Adds a statement, or keeps the reason to refuse it.
    ///
    /// Cost: two signatures are verified, about 80 µs.
    pub fn add(&mut self, bytes: &[u8]) {
        self.seen += 1;
        match Statement::decode(bytes).and_then(|statement| self.accept(&statement)) {
            Ok(()) => self.accepted += 1,
            Err(cause) if self.refused.len() < MAX_REFUSED => {
                self.refused.push(Refused { number: self.seen, cause });
            }
            Err(_) => {}
        }
    }

    /// Returns the station whose statements count.
    #[must_use]
    pub fn station(&self) -> Option<&str> {
        self.station.as_deref()
    }

    /// Returns the number of statements that count.
    #[must_use]
    pub const fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the number of statements that do not count.
    #[must_use]
    pub const fn refused_count(&self) -> u64 {
        self.seen - self.accepted
    }

    /// Returns the refused statements with their reasons, as far as kept.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Returns the position at which the epoch ended, if that is stated.
    #[must_use]
    pub const fn end(&self) -> Option<u64> {
        self.end
    }

    /// Returns the grid and what the digests cover; `None` before the first valid statement.
    #[must_use]
    pub const fn grid(&self) -> Option<(Grid, Subject)> {
        self.grid
    }

    pub(crate) const fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) const fn covered(&self) -> &RangeSet {
        &self.covered
    }

    pub(crate) fn next_interval(&self) -> u64 {
        self.covered.iter().next_back().map_or(0, |range| range.end)
    }

    pub(crate) const fn entries(&self) -> &BTreeMap<u64, Vec<Digest>> {
        &self.entries
    }

    /// Returns the head of the chain before an interval, if a statement has it.
    pub(crate) fn head_before(&self, interval: u64) -> Option<Digest> {
        self.heads.get(&interval).copied()
    }

    /// Returns whether a head is known behind an interval.
    pub(crate) fn has_head_behind(&self, interval: u64) -> bool {
        self.heads.range(interval.saturating_add(1)..).next().is_some()
    }

    fn accept(&mut self, statement: &Statement) -> Result<(), StatementError> {
        // The subject first: a statement about something else is no forgery.
        let subject = self.subject_of(statement)?;
        statement.check(&self.authority)?;
        let found = &statement.certificate.name;
        match &self.station {
            Some(expected) if expected != found => {
                let (found, expected) = (found.clone(), expected.clone());
                return Err(StatementError::Station { found, expected });
            }
            _ => {}
        }
        if self.grid.is_some_and(|(grid, _)| grid != statement.grid) {
            return Err(StatementError::Disagrees(statement.first));
        }
        let heads = self.heads_of(statement, &subject)?;
        self.compare_entries(statement)?;
        self.station = Some(found.clone());
        self.grid = Some((statement.grid, subject));
        self.heads.insert(0, subject.beginning());
        self.heads.extend(heads);
        self.covered.insert(statement.first..statement.next_interval());
        let entries = statement.entries.iter().map(|entry| (entry.interval, entry.leaves.clone()));
        self.entries.extend(entries);
        if statement.is_final {
            self.end = Some(statement.until);
        }
        Ok(())
    }

    fn subject_of(&self, statement: &Statement) -> Result<Subject, StatementError> {
        let subject = match self.grid {
            Some((grid, subject)) if grid == statement.grid => Some(subject),
            _ => Subject::new(&self.name, &self.schema, self.epoch, statement.grid).ok(),
        };
        let is_ours = statement.epoch == self.epoch;
        subject.filter(|subject| is_ours && *subject == statement.subject).ok_or(StatementError::Subject)
    }

    /// Returns the heads of a statement by the interval that follows each, compared with those known.
    fn heads_of(
        &self,
        statement: &Statement,
        subject: &Subject,
    ) -> Result<BTreeMap<u64, Digest>, StatementError> {
        let behind = statement.entries.iter().map(|entry| entry.interval.saturating_add(1));
        let boundaries = core::iter::once(statement.first).chain(behind);
        let mut heads: BTreeMap<u64, Digest> = boundaries.zip(statement.heads()).collect();
        let last = statement.heads().last().expect("the head before the first entry");
        heads.insert(statement.next_interval(), last);
        let known = |at: u64| if at == 0 { Some(subject.beginning()) } else { self.head_before(at) };
        match heads.iter().find(|(at, head)| known(**at).is_some_and(|known| known != **head)) {
            Some((at, _)) => Err(StatementError::Disagrees(*at)),
            None => Ok(heads),
        }
    }

    fn compare_entries(&self, statement: &Statement) -> Result<(), StatementError> {
        let disagrees = |interval| Err(StatementError::Disagrees(interval));
        for entry in &statement.entries {
            let known = self.entries.get(&entry.interval);
            if self.covered.contains(entry.interval) && known != Some(&entry.leaves) {
                return disagrees(entry.interval);
            }
        }
        for interval in self.entries.range(statement.first..statement.next_interval()).map(|(at, _)| *at) {
            if !statement.entries.iter().any(|entry| entry.interval == interval) {
                return disagrees(interval);
            }
        }
        match self.end {
            Some(end) if statement.until > end || statement.is_final && statement.until != end => {
                disagrees(self.next_interval())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{EPOCH, NOW, author, authority, bytes, claims, name, schema, statements};

    #[test]
    fn the_order_of_statements_does_not_matter_and_repeated_ones_are_the_same() {
        let mut list = statements(&[0..40, 40..80, 80..130], 130);
        list.extend(list.clone());
        list.reverse();
        let claims = claims(&list);
        assert_eq!((claims.refused_count(), claims.next_interval(), claims.end()), (0, 5, Some(130)));
        assert_eq!(claims.entries().keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(claims.station(), Some("daq-1"));
    }

    #[test]
    fn statements_of_others_and_forged_ones_are_refused_with_their_reason() {
        let [genuine] = &statements(&[0..60], 60)[..1] else { unreachable!() };
        let said = |bytes: &[u8]| {
            let claims = claims(&[genuine.clone(), bytes.to_vec()]);
            assert_eq!(claims.accepted(), 1);
            claims.refused()[0].cause.clone()
        };
        let mut other = author("daq-2", 4);
        other.take(0, &bytes(0..60));
        let by_another = said(&other.statement(NOW, 700).unwrap());
        assert!(matches!(by_another, StatementError::Station { .. }), "{by_another}");

        let mut changed = genuine.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(matches!(said(&changed), StatementError::Signature(_)));

        let elsewhere = crate::scene::station("daq-1", 2, &authority(8));
        let grid = crate::scene::GRID;
        let mut foreign = crate::Author::new(elsewhere, (&name(), &schema(), EPOCH), grid).unwrap();
        foreign.take(0, &bytes(0..60));
        assert!(matches!(said(&foreign.statement(NOW, 700).unwrap()), StatementError::Certificate(_)));

        let epoch = Epoch { start_ns: 8, ..EPOCH };
        let station = crate::scene::station("daq-1", 2, &authority(1));
        let mut later = crate::Author::new(station, (&name(), &schema(), epoch), grid).unwrap();
        later.take(0, &bytes(0..60));
        assert_eq!(said(&later.statement(NOW, 700).unwrap()), StatementError::Subject);
        assert_eq!(said(&genuine[..100]), StatementError::Malformed);
    }

    #[test]
    fn a_named_station_counts_even_if_another_one_came_first() {
        let mut other = author("daq-2", 4);
        other.take(0, &bytes(0..60));
        let mut claims =
            Claims::new(&name(), &schema(), EPOCH, authority(1).public(), Some("daq-1".to_owned()));
        claims.add(&other.statement(NOW, 700).unwrap());
        statements(&[0..60], 60).iter().for_each(|it| claims.add(it));
        assert_eq!((claims.accepted(), claims.refused_count()), (2, 1));
    }

    #[test]
    fn a_station_that_states_two_things_about_an_interval_is_told() {
        let mut two_faced = author("daq-1", 2);
        two_faced.take(0, &bytes(1..61));
        let list = [statements(&[0..60], 60).remove(0), two_faced.statement(NOW, 700).unwrap()];
        let claims = claims(&list);
        assert!(matches!(claims.refused()[0].cause, StatementError::Disagrees(_)));
    }

    #[test]
    fn a_station_whose_statements_belong_to_two_chains_is_told() {
        let mut two_faced = author("daq-1", 2);
        two_faced.take(0, &bytes(1..61));
        two_faced.statement(NOW, 700).unwrap();
        // Of its later samples it says the same as the other chain; the head before them differs.
        two_faced.take(60, &bytes(60..90));
        // Without room to repeat the others.
        let list = [statements(&[0..60], 60).remove(0), two_faced.statement(NOW, 500).unwrap()];
        let claims = claims(&list);
        assert_eq!((claims.accepted(), &claims.refused()[0].cause), (1, &StatementError::Disagrees(2)));
    }
}
