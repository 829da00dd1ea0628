//! The account of a reader behind a ring: elements that the bridge delivered since the reader joined, less those that
//! the ring overwrote before the reader read them.

mod lap;
#[cfg(test)]
mod tests;

use core::ops::Range;
use std::collections::BTreeMap;

use crate::samples::{ElementOutcome, SampleCounter};
use crate::shares::Shares;
use crate::{
    AccountState, EvidenceSource, Gap, GapKind, HopCounts, MAX_POSITION, ReaderRows, SampleRows, Stage,
    UnsoundGap,
};
use lap::Lap;

/// Maximum number of gaps that a hop remembers singly; older ones are only in the totals, as in the socket's ledger.
const MAX_GAPS: usize = 8_192;

/// A reader's running account over the records of a ring.
///
/// Every record carries the elements that its epoch had delivered and missing before it, counted over all accounts of
/// the epoch. A reader that was lapped therefore takes differences: delivered elements become `reader_lag`, missing
/// ones are missing here too, in the stages that the bridge reports later.
///
/// Gaps are identified by their start: a position of an epoch is missing once. A gap's id is its start.
///
/// Records may come from another process, which may be faulty or malicious: for these use [`Hop::try_join`],
/// [`Hop::try_delivered`] and [`Hop::try_gap`]. All other methods accept any value, and no update of a gap or of
/// totals breaks the law.
///
/// Source: `docs/protocol/account.md`, rule 11.
#[derive(Clone, Debug)]
pub struct Hop {
    per_sample: u32,
    first_position: u64,
    next_position: u64,
    delivered: u64,
    /// Expected running totals of the bridge before the next record.
    totals: Totals,
    missing: Shares,
    samples: SampleCounter,
    /// The newest gaps by their start.
    gaps: BTreeMap<u64, Entry>,
    /// Number of these gaps, including those inside laps.
    remembered: usize,
    state: AccountState,
}

/// Cumulative elements before a record: delivered and missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Totals {
    delivered: u64,
    missing: u64,
}

/// A gap of the reader.
#[derive(Clone, Debug)]
enum Entry {
    /// Declared in a record.
    Declared(Gap),
    /// Caused by the ring overtaking the reader.
    Lapped(Lap),
}

/// Contradiction between a record and the account so far: its writer is faulty or malicious.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InconsistentRecord {
    /// The account would begin inside a sample.
    #[error("an account cannot begin at position {position}, inside a sample of {per_sample} elements")]
    InsideSample {
        /// Position of the record.
        position: u64,
        /// Elements per sample.
        per_sample: u32,
    },
    /// It lies beyond the largest position.
    #[error("position {0} is beyond {MAX_POSITION}")]
    Beyond(u64),
    /// It repeats or omits elements.
    #[error("a record over positions {start} to {end} does not begin at {next}, where the account ends")]
    Elsewhere {
        /// First position of the record.
        start: u64,
        /// Position after its last.
        end: u64,
        /// Expected first position.
        next: u64,
    },
    /// It carries an invalid gap.
    #[error(transparent)]
    Gap(#[from] UnsoundGap),
    /// It carries a gap that is part of no account.
    #[error("a gap outside accounts cannot be counted in an account")]
    OutsideAccounts,
}

impl Hop {
    /// Opens the account at a record that begins at `position` and carries these `[delivered, missing]`.
    ///
    /// # Panics
    /// If [`Hop::try_join`] fails.
    #[must_use]
    pub fn join(per_sample: u32, totals: [u64; 2], position: u64) -> Self {
        Self::try_join(per_sample, totals, position).expect("an account begins with a whole sample")
    }

    /// Opens the account at a record of another process.
    ///
    /// # Errors
    /// [`InconsistentRecord::InsideSample`] or [`InconsistentRecord::Beyond`].
    pub fn try_join(per_sample: u32, totals: [u64; 2], position: u64) -> Result<Self, InconsistentRecord> {
        // Only zero is a multiple of zero, and samples without elements cannot be counted.
        if per_sample == 0 || !position.is_multiple_of(u64::from(per_sample)) {
            return Err(InconsistentRecord::InsideSample { position, per_sample });
        }
        if position > MAX_POSITION {
            return Err(InconsistentRecord::Beyond(position));
        }
        let [delivered, missing] = totals;
        Ok(Self {
            per_sample,
            first_position: position,
            next_position: position,
            delivered: 0,
            totals: Totals { delivered, missing },
            missing: Shares::default(),
            samples: SampleCounter::new(per_sample),
            gaps: BTreeMap::new(),
            remembered: 0,
            state: AccountState::Open,
        })
    }

    /// Opens the next account of the same epoch where this one ends, `None` if that is inside a sample.
    #[must_use]
    pub fn continued(&self) -> Option<Self> {
        let Totals { delivered, missing } = self.totals;
        Self::try_join(self.per_sample, [delivered, missing], self.next_position).ok()
    }

    /// Returns whether a record at `position` that carries these `[delivered, missing]` follows from here with only
    /// elements in between that the totals count.
    #[must_use]
    pub fn leads_to(&self, totals: [u64; 2], position: u64) -> bool {
        self.behind(totals).is_some_and(|(_, end)| end == position)
    }

    /// Counts a record of elements that were delivered to the reader.
    ///
    /// # Panics
    /// If [`Hop::try_delivered`] fails.
    pub fn delivered(&mut self, positions: Range<u64>) {
        self.try_delivered(positions).expect("the caller hands over what follows");
    }

    /// Counts a record of another process whose elements are about to be delivered to the reader.
    ///
    /// # Errors
    /// [`InconsistentRecord::Elsewhere`] or [`InconsistentRecord::Beyond`]; the account is then unchanged.
    pub fn try_delivered(&mut self, positions: Range<u64>) -> Result<(), InconsistentRecord> {
        self.check_follows(&positions)?;
        let elements = positions.end - positions.start;
        self.delivered += elements;
        // Another process may claim any totals; those near the limit of 64 bits are saturated.
        self.totals.delivered = self.totals.delivered.saturating_add(elements);
        self.next_position = positions.end;
        self.samples.record(positions, ElementOutcome::Delivered);
        Ok(())
    }

    /// Counts a gap that was declared in a record; returns it as this reader reports it.
    ///
    /// # Panics
    /// If [`Hop::try_gap`] fails.
    pub fn gap(&mut self, gap: Gap) -> &Gap {
        self.try_gap(gap).expect("the caller passes what follows, and gaps that add up")
    }

    /// Counts a gap that another process declared in a record; returns it as this reader reports it.
    ///
    /// # Errors
    /// [`InconsistentRecord::Elsewhere`], [`InconsistentRecord::OutsideAccounts`] or [`InconsistentRecord::Gap`]; the
    /// account is then unchanged.
    pub fn try_gap(&mut self, gap: Gap) -> Result<&Gap, InconsistentRecord> {
        gap.check()?;
        if gap.kind != GapKind::Missing {
            return Err(InconsistentRecord::OutsideAccounts);
        }
        self.check_follows(&gap.positions)?;
        self.totals.missing = self.totals.missing.saturating_add(gap.len());
        Ok(self.append(Entry::Declared(Gap { id: gap.positions.start, ..gap })))
    }

    /// Applies an update of a gap whose stages changed. Returns the reader's gap that is or holds it, if that has
    /// changed.
    ///
    /// A gap from before this reader joined is not its loss; invalid gaps and those outside accounts are ignored.
    pub fn settled(&mut self, gap: &Gap) -> Option<&Gap> {
        if gap.kind != GapKind::Missing || gap.check().is_err() {
            return None;
        }
        let mut news = gap.clone();
        if self.state != AccountState::Open {
            news.give_up();
        }
        let (_, entry) = self.gaps.range_mut(..=gap.positions.start).next_back()?;
        let before = Shares::of(entry.gap());
        let remembered = entry.remembered();
        let changed = entry.learn(&news);
        self.remembered += entry.remembered() - remembered;
        self.missing.subtract(&before);
        self.missing.add(&Shares::of(entry.gap()));
        changed.then_some(entry.gap())
    }

    /// Counts a lap: the ring overtook the reader, which continues at a record with these `[delivered, missing]`.
    ///
    /// Returns the resulting gap, `None` if nothing was lost (or the totals are of another epoch).
    pub fn lapped(&mut self, totals: [u64; 2]) -> Option<&Gap> {
        self.lapped_as(totals, Stage::ReaderLag, EvidenceSource::RingTotals)
    }

    /// Counts elements that were not handed on, up to a record with these `[delivered, missing]`: those that the writer
    /// had delivered were lost at this stage, by this evidence.
    ///
    /// Returns the resulting gap, `None` if nothing was lost (or the totals are of another epoch).
    pub fn lapped_as(&mut self, totals: [u64; 2], stage: Stage, source: EvidenceSource) -> Option<&Gap> {
        let (lapped, end) = self.behind(totals)?;
        if (lapped.delivered, lapped.missing) == (0, 0) {
            return None;
        }
        let [delivered, missing] = totals;
        self.totals = Totals { delivered, missing };
        let lap = Lap::new(self.next_position..end, lapped.delivered, (stage, source));
        Some(self.append(Entry::Lapped(lap)))
    }

    /// Ends the account: unsettled elements become unexplained.
    pub fn end(&mut self, state: AccountState) {
        self.state = state;
        let unsettled = core::mem::take(&mut self.missing.unsettled);
        self.missing.unexplained += unsettled;
        self.missing.inherited.give_up();
        self.gaps.values_mut().for_each(Entry::end);
    }

    /// Returns one behind the last position accounted for.
    #[must_use]
    pub const fn next_position(&self) -> u64 {
        self.next_position
    }

    /// Returns whether elements are missing whose stages are not known yet.
    #[must_use]
    pub const fn is_unsettled(&self) -> bool {
        self.missing.unsettled > 0
    }

    /// Returns the reader's rows.
    #[must_use]
    pub fn rows(&self) -> ReaderRows {
        let per_sample = u64::from(self.per_sample);
        let next = self.next_position.div_ceil(per_sample);
        ReaderRows {
            first: self.first_position / per_sample,
            next,
            per_sample: self.per_sample,
            delivered: self.delivered,
            lost: self.missing.lost,
            unexplained: self.missing.unexplained,
            unsettled: self.missing.unsettled,
            in_flight: next * per_sample - self.next_position,
        }
    }

    /// Returns, of the elements lost at stage `source` of a relayed stream, the hop and stage at which they were lost;
    /// empty for a stream that was not relayed.
    #[must_use]
    pub fn inherited(&self) -> HopCounts {
        self.missing.inherited.completed(self.missing.lost[Stage::Source])
    }

    /// Returns the samples by outcome.
    #[must_use]
    pub fn samples(&self) -> SampleRows {
        self.samples.rows()
    }

    /// Returns the newest gaps in the order of the stream.
    pub fn gaps(&self) -> impl DoubleEndedIterator<Item = &Gap> {
        self.gaps.values().map(Entry::gap)
    }

    /// Returns the state of the account.
    #[must_use]
    pub const fn state(&self) -> AccountState {
        self.state
    }

    /// Returns the elements between here and a record with these totals, and their end; `None` if the totals belong
    /// to another epoch.
    fn behind(&self, [delivered, missing]: [u64; 2]) -> Option<(Totals, u64)> {
        let lapped = Totals {
            delivered: delivered.checked_sub(self.totals.delivered)?,
            missing: missing.checked_sub(self.totals.missing)?,
        };
        let end = self.next_position.checked_add(lapped.delivered)?.checked_add(lapped.missing)?;
        (end <= MAX_POSITION).then_some((lapped, end))
    }

    /// Checks that these positions begin where the account ends, and stay below the largest position.
    const fn check_follows(&self, positions: &Range<u64>) -> Result<(), InconsistentRecord> {
        let Range { start, end } = *positions;
        if start != self.next_position || end < start {
            return Err(InconsistentRecord::Elsewhere { start, end, next: self.next_position });
        }
        if end > MAX_POSITION { Err(InconsistentRecord::Beyond(end)) } else { Ok(()) }
    }

    /// Appends a gap.
    fn append(&mut self, entry: Entry) -> &Gap {
        let positions = entry.gap().positions.clone();
        self.missing.add(&Shares::of(entry.gap()));
        self.samples.record(positions.clone(), ElementOutcome::Missing);
        self.next_position = positions.end;
        self.remembered += entry.remembered();
        let replaced = self.gaps.insert(positions.start, entry);
        assert!(replaced.is_none(), "a gap holds elements, and lies behind all that was accounted for");
        while self.remembered > MAX_GAPS && self.gaps.len() > 1 {
            let (_, oldest) = self.gaps.pop_first().expect("more than one");
            self.remembered -= oldest.remembered();
        }
        self.gaps[&positions.start].gap()
    }
}

impl Entry {
    const fn gap(&self) -> &Gap {
        match self {
            Self::Declared(gap) => gap,
            Self::Lapped(lap) => lap.gap(),
        }
    }

    /// Ends the wait for evidence.
    fn end(&mut self) {
        match self {
            Self::Declared(gap) => gap.give_up(),
            Self::Lapped(lap) => lap.end(),
        }
    }

    /// Returns the number of gaps for which it counts.
    fn remembered(&self) -> usize {
        match self {
            Self::Declared(_) => 1,
            Self::Lapped(lap) => 1 + lap.known(),
        }
    }

    /// Applies an update of a gap; returns whether it changed this entry.
    fn learn(&mut self, news: &Gap) -> bool {
        match self {
            Self::Declared(gap) if gap.positions == news.positions => {
                let news = Gap { id: gap.id, ..news.clone() };
                let changed = *gap != news;
                *gap = news;
                changed
            }
            Self::Declared(_) => false,
            Self::Lapped(lap) => lap.learn(news),
        }
    }
}
