//! Gaps that a damaged file causes, made while reading.
//!
//! They are never written: the file may be restored from a copy, and then nothing is missing. Start with [`records`].

use core::ops::Range;

use ledger::{GapKind, HopCounts, Stage, StageCounts};
use units::{RangeSet, WallTime};

use crate::Description;
use crate::gaps::{GapKey, GapRecord, Origin};

/// Samples that a damaged file held, and what is known about them.
pub(crate) struct Damage<'a> {
    pub(crate) description: &'a Description,
    pub(crate) samples: Range<u64>,
    /// Index and time of a known sample.
    pub(crate) anchor: (u64, WallTime),
    /// Number that distinguishes the gaps of this damage from those of others.
    pub(crate) id: u64,
    /// File name and its fault.
    pub(crate) cause: &'a str,
}

/// Returns the gaps of stage `archive_write` that the damage causes: everything in it that was not missing before.
pub(crate) fn records<'a>(
    damage: &Damage<'_>,
    known: impl IntoIterator<Item = &'a GapRecord>,
) -> Vec<GapRecord> {
    let schema = &damage.description.schema;
    let per_sample = u64::from(schema.elements_per_sample());
    let positions = damage.samples.start * per_sample..damage.samples.end * per_sample;
    if positions.is_empty() {
        return Vec::new();
    }
    let mut lost: RangeSet = core::iter::once(positions).collect();
    for gap in known {
        lost.remove(gap.positions.clone());
    }
    let (index, time) = damage.anchor;
    let at = |position: u64| schema.rate.time_of(position, index, time);
    let record = |(number, positions): (u64, Range<u64>)| GapRecord {
        key: GapKey { session: 0, origin: Origin::Archive, id: damage.id + number },
        kind: GapKind::Missing,
        lost: StageCounts::of(Stage::ArchiveWrite, positions.end - positions.start),
        t0: at(positions.start / per_sample),
        t1: Some(at(positions.end.div_ceil(per_sample))),
        positions,
        numbers: 0..0,
        unexplained: 0,
        unsettled: 0,
        inherited: HopCounts::default(),
        apportioned: false,
        evidence: vec![damage.cause.to_owned()],
    };
    (0..).zip(lost.iter()).map(record).collect()
}
