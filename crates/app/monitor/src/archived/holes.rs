//! Holes in the recordings of a stream: losses, and times without a recorder.
//!
//! Gives the result of `tallycast query --gaps`. The absence of one recorder counts as missing only where no other
//! recording covers it.

use std::ops::Range;

use archive::{GapRecord, Hole, Recording, Unreadable};
use ledger::{HopCounts, Stage, StageCounts};
use tallycast::GapKind;
use units::{Epoch, WallTime};

use crate::gap_map::KnownGap;

/// Holes within a span of time.
pub(super) struct Holes<'a> {
    range: Range<WallTime>,
    recordings: Vec<&'a Recording>,
    gaps: Vec<KnownGap>,
}

impl<'a> Holes<'a> {
    pub(super) fn new(range: Range<WallTime>, recordings: impl Iterator<Item = &'a Recording>) -> Self {
        Self { range, recordings: recordings.collect(), gaps: Vec::new() }
    }

    /// Adds a hole of a recording, as found by reading.
    pub(super) fn hole(&mut self, recording: &Recording, hole: &Hole) {
        let first = hole.gaps.first();
        let kind = first.map_or(GapKind::Missing, |gap| gap.kind);
        let is_absence = hole.lost.total() + hole.unexplained + hole.unsettled == 0;
        self.take(
            recording,
            KnownGap {
                id: first.map_or(hole.first_index, |gap| gap.key.id),
                join: 0,
                kind: if is_absence { kind } else { GapKind::Missing },
                epoch: recording.description.epoch,
                from: hole.t0,
                to: hole.t1,
                first_index: hole.first_index,
                samples: hole.samples,
                first_element: first.map_or(0, |gap| gap.positions.start),
                numbers: first.map_or(0..0, |gap| gap.numbers.clone()),
                lost: hole.lost,
                hops: inherited(hole),
                unexplained: hole.unexplained,
                unsettled: hole.unsettled,
                absent: hole.reader_absent,
                open_ended: false,
                apportioned: hole.gaps.iter().any(|gap| gap.apportioned),
                evidence: hole.gaps.iter().flat_map(|gap| gap.evidence.iter().cloned()).collect(),
            },
        );
    }

    /// Adds the gap map of a recording that is not read sample by sample.
    pub(super) fn records(&mut self, recording: &Recording) {
        for gap in recording.gaps.iter().filter(|gap| !gap.positions.is_empty()) {
            self.take(recording, known(recording, gap, gap.t1.unwrap_or(self.range.end)));
        }
    }

    /// Adds the absences of a recording with unknown extent: nothing was recorded behind them.
    pub(super) fn untold(&mut self, recording: &Recording) {
        for gap in recording.absences().filter(|gap| gap.positions.is_empty()) {
            let to = gap.t1.unwrap_or(self.range.end);
            self.take(recording, KnownGap { open_ended: gap.t1.is_none(), ..known(recording, gap, to) });
        }
    }

    /// Adds an epoch that cannot be read: the number of missing elements is unknown, and it may last until the next
    /// epoch.
    pub(super) fn unreadable(&mut self, unread: &Unreadable) {
        let epoch = unread.epoch();
        let start = |start_ns| WallTime::from_nanos(i64::try_from(start_ns).unwrap_or(i64::MAX));
        let from = epoch.map_or(self.range.start, |epoch| start(epoch.start_ns));
        let later = self.recordings.iter().map(|recording| recording.t0).filter(|time| *time > from);
        let to = later.min().unwrap_or(self.range.end).max(from.offset(1));
        if from < self.range.end && to > self.range.start {
            self.gaps.push(KnownGap {
                id: 0,
                join: 0,
                kind: GapKind::Missing,
                epoch: epoch.unwrap_or(Epoch { start_ns: 0, incarnation: 0 }),
                from,
                to,
                first_index: 0,
                samples: 0,
                first_element: 0,
                numbers: 0..0,
                lost: StageCounts::default(),
                hops: HopCounts::default(),
                unexplained: 0,
                unsettled: 0,
                absent: 0,
                open_ended: true,
                apportioned: false,
                evidence: vec![unread.to_string()],
            });
        }
    }

    /// Returns all of them in time order.
    pub(super) fn finish(mut self) -> Vec<KnownGap> {
        self.gaps.sort_by_key(|gap| gap.from);
        self.gaps
    }

    fn take(&mut self, recording: &Recording, gap: KnownGap) {
        let overlaps = gap.from < self.range.end && gap.to > self.range.start;
        if !overlaps {
            return;
        }
        if !gap.is_absence() {
            self.gaps.push(gap);
            return;
        }
        let schema = &recording.description.schema;
        let others = self.recordings.iter().filter(|other| !is_same(other, recording));
        let recorded = others.flat_map(|other| other.segments()).map(|segment| segment.t0..segment.t1);
        let left = without(gap.from..gap.to, recorded);
        let parts = left.into_iter().map(|part| gap.within(part, schema));
        self.gaps.extend(parts.filter(|part| part.from < self.range.end && part.to > self.range.start));
    }
}

/// Returns whether two recordings are the same one: of one epoch, in one run.
fn is_same(one: &Recording, other: &Recording) -> bool {
    std::sync::Arc::ptr_eq(&one.gaps, &other.gaps) && one.description.epoch == other.description.epoch
}

fn known(recording: &Recording, gap: &GapRecord, to: WallTime) -> KnownGap {
    let per_sample = u64::from(recording.description.schema.elements_per_sample()).max(1);
    let samples = gap.positions.start / per_sample..gap.positions.end.div_ceil(per_sample);
    let is_absence = gap.kind != GapKind::Missing;
    KnownGap {
        id: gap.key.id,
        join: 0,
        kind: gap.kind,
        epoch: recording.description.epoch,
        from: gap.t0,
        to,
        first_index: samples.start,
        samples: samples.end - samples.start,
        first_element: gap.positions.start,
        numbers: gap.numbers.clone(),
        lost: gap.lost,
        hops: gap.inherited.clone(),
        unexplained: gap.unexplained,
        unsettled: gap.unsettled,
        absent: if is_absence { gap.positions.end - gap.positions.start } else { 0 },
        open_ended: false,
        apportioned: gap.apportioned,
        evidence: gap.evidence.clone(),
    }
}

/// Returns the hops of a hole's losses, if its records cover it exactly: the share of a part is not known.
fn inherited(hole: &Hole) -> HopCounts {
    let mut hops = HopCounts::default();
    hole.gaps.iter().for_each(|gap| hops.add_all(&gap.inherited));
    if hops.total() == hole.lost[Stage::Source] { hops } else { HopCounts::default() }
}

/// Returns what is left of a span without others.
fn without(span: Range<WallTime>, others: impl Iterator<Item = Range<WallTime>>) -> Vec<Range<WallTime>> {
    let mut left = vec![span];
    for other in others {
        let cut = |part: Range<WallTime>| {
            let before = part.start..part.end.min(other.start);
            let behind = part.start.max(other.end)..part.end;
            if other.start >= part.end || other.end <= part.start {
                return vec![part];
            }
            [before, behind].into_iter().filter(|it| it.start < it.end).collect()
        };
        left = left.into_iter().flat_map(cut).collect();
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: i64, to: i64) -> Range<WallTime> {
        WallTime::from_nanos(from)..WallTime::from_nanos(to)
    }

    #[test]
    fn what_others_recorded_is_taken_out_of_an_absence() {
        let left = |others: &[(i64, i64)]| {
            without(span(10, 20), others.iter().map(|(from, to)| span(*from, *to)))
                .iter()
                .map(|part| (part.start.as_nanos(), part.end.as_nanos()))
                .collect::<Vec<_>>()
        };
        assert_eq!(left(&[]), [(10, 20)]);
        assert_eq!(left(&[(0, 10), (20, 30)]), [(10, 20)]);
        assert_eq!(left(&[(0, 12), (18, 30)]), [(12, 18)]);
        assert_eq!(left(&[(12, 14), (16, 17)]), [(10, 12), (14, 16), (17, 20)]);
        assert_eq!(left(&[(5, 25)]), []);
        assert_eq!(left(&[(10, 15), (15, 20)]), []);
    }
}
