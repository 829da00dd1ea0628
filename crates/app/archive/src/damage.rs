//! What a damaged file costs: gaps that nobody recorded, made while reading.
//!
//! They are never written: the file may come back from a copy, and then nothing is missing. Start with
//! [`records`].

use core::ops::Range;

use ledger::{GapKind, Stage, StageCounts};
use units::{RangeSet, WallTime};

use crate::Description;
use crate::gaps::{GapKey, GapRecord, Origin};

/// The samples that a damaged file held, and what is known of it.
pub(crate) struct Damage<'a> {
    pub(crate) description: &'a Description,
    pub(crate) samples: Range<u64>,
    /// A known time: of which sample, and when.
    pub(crate) anchor: (u64, WallTime),
    /// Tells the gaps of this damage apart from those of others.
    pub(crate) id: u64,
    /// Which file, and what is wrong with it.
    pub(crate) cause: &'a str,
}

/// Returns the gaps of stage `archive_write` that a damage makes: everything in it that was not missing before.
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
        apportioned: false,
        evidence: vec![damage.cause.to_owned()],
    };
    (0..).zip(lost.iter()).map(record).collect()
}
