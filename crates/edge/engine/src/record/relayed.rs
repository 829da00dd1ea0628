//! Parts of records that only relayed streams have: origin, what gaps inherited, the hops before.
//!
//! Records of every kind may end with more than earlier readers read: so a gap and what it inherited are one record, and
//! no reader finds one without the other.

use std::num::NonZeroU8;

use ledger::{Cause, Evidence, EvidenceSource, Gap, HopCounts, HopShare, Outcome, Stage, Unit};
use units::Epoch;
use wire::{MAX_STATION_BYTES, Origin, UpstreamHop};

use super::{Fault, MAX_EVIDENCE, put_counts, put_gap, read_counts, read_gap};
use crate::bytes::{Cursor, Put};

/// Encodes a gap, and behind it what readers of before relays leave unread: what it inherited, and what was given up.
pub(super) fn put_gap_record(out: &mut Vec<u8>, epoch: Epoch, gap: &Gap) {
    put_gap(out, epoch, gap);
    let given_up: Vec<_> = gap.evidence.iter().filter_map(given_up).take(MAX_EVIDENCE).collect();
    if gap.inherited.hops().is_empty() && given_up.is_empty() {
        return;
    }
    put_inherited(out, &gap.inherited);
    out.push(u8::try_from(given_up.len()).expect("bounded just above"));
    for (line, cause) in given_up {
        out.push(line.stage.code());
        out.u64(line.count);
        out.push(u8::from(line.unit == Unit::Elements));
        out.push(cause);
    }
}

pub(super) fn read_gap_record(cursor: &mut Cursor<'_>) -> Option<Gap> {
    let mut gap = read_gap(cursor)?;
    if cursor.is_empty() {
        return Some(gap);
    }
    gap.inherited = read_inherited(cursor)?;
    for _ in 0..cursor.u8().filter(|lines| usize::from(*lines) <= MAX_EVIDENCE)? {
        let (stage, count) = (Stage::from_code(cursor.u8()?)?, cursor.u64()?);
        let unit = if cursor.u8()? == 0 { Unit::Datagrams } else { Unit::Elements };
        let source = EvidenceSource::GivenUp(Cause::from_code(cursor.u8()?)?);
        gap.evidence.push(Evidence { stage, count, unit, source });
    }
    Some(gap)
}

/// Returns the code of the cause, of evidence that names one.
fn given_up(line: &Evidence) -> Option<(&Evidence, u8)> {
    Some((line, line.source.cause()?.code()))
}

/// Encodes what a gap inherited, hop by hop.
fn put_inherited(out: &mut Vec<u8>, inherited: &HopCounts) {
    let hops = inherited.hops();
    out.push(u8::try_from(hops.len()).expect("a sound gap has at most eight hops"));
    for rows in hops {
        put_counts(out, &rows.lost);
        out.u64(rows.unexplained);
        out.u64(rows.unsettled);
    }
}

fn read_inherited(cursor: &mut Cursor<'_>) -> Option<HopCounts> {
    let mut inherited = HopCounts::default();
    let hops = cursor.u8().filter(|hops| usize::from(*hops) <= ledger::MAX_HOPS)?;
    for hop in 0..hops {
        let lost = read_counts(cursor)?;
        let lost = lost.nonzero().map(|(stage, count)| (Outcome::Lost(stage), count));
        let rest = [(Outcome::Unexplained, cursor.u64()?), (Outcome::Unsettled, cursor.u64()?)];
        for (outcome, count) in lost.chain(rest).filter(|(_, count)| *count > 0) {
            inherited.add(HopShare { hop, outcome, count });
        }
    }
    Some(inherited)
}

pub(super) fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    out.epoch(origin.epoch);
    out.push(origin.hop.get());
}

pub(super) fn read_origin(cursor: &mut Cursor<'_>) -> Option<Origin> {
    Some(Origin { epoch: cursor.epoch()?, hop: NonZeroU8::new(cursor.u8()?)? })
}

/// Checks that an origin has a hop within the protocol's limit, and another epoch than the hop.
pub(super) fn check_origin(origin: &Origin, hop_epoch: Epoch) -> Result<(), Fault> {
    let is_sound = usize::from(origin.hop.get()) <= wire::MAX_HOPS && origin.epoch != hop_epoch;
    if is_sound { Ok(()) } else { Err(Fault::Layout) }
}

pub(super) fn put_upstream(out: &mut Vec<u8>, hops: &[UpstreamHop]) {
    out.push(u8::try_from(hops.len()).expect("a stream passes at most eight hops"));
    for hop in hops {
        out.text(&hop.station);
        put_counts(out, &hop.lost);
        out.u64(hop.unexplained);
    }
}

pub(super) fn read_upstream(cursor: &mut Cursor<'_>) -> Option<Vec<UpstreamHop>> {
    let hops = cursor.u8().filter(|hops| usize::from(*hops) <= wire::MAX_HOPS)?;
    let read = |cursor: &mut Cursor<'_>| {
        let station = cursor.text()?.to_owned();
        Some(UpstreamHop { station, lost: read_counts(cursor)?, unexplained: cursor.u64()? })
    };
    (0..hops).map(|_| read(cursor)).collect()
}

/// Checks that the names can be shown and all losses be added up.
pub(super) fn check_upstream(hops: &[UpstreamHop]) -> Result<(), Fault> {
    let mut total = 0_u64;
    for hop in hops {
        if hop.station.len() > MAX_STATION_BYTES || hop.station.contains(char::is_control) {
            return Err(Fault::Layout);
        }
        for count in hop.lost.nonzero().map(|(_, count)| count).chain([hop.unexplained]) {
            total = total.checked_add(count).ok_or(Fault::Layout)?;
        }
    }
    Ok(())
}
