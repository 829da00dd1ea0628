//! Gaps of a recording, as text and as lines of JSON.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::Range;

use archive::{Archive, GapRecord, Hole, Piece, Recording, StreamEntry, moment_text as utc};
use serde_json::{Value, json};
use tallycast::{GapKind, WallTime};

use crate::layout;
use crate::messages::print_line;

/// Reports the holes whose samples were stored and cannot be read; returns whether there are any.
pub(in crate::verbs) fn says_damage(holes: &[Hole]) -> bool {
    let records = holes.iter().flat_map(|hole| &hole.gaps).filter(|gap| gap.is_damage());
    let causes: BTreeSet<&str> = records.filter_map(|gap| gap.evidence.first()?.lines().next()).collect();
    for cause in &causes {
        eprintln!("error: cannot read stored samples: {cause}");
    }
    holes.iter().any(Hole::is_damage)
}

/// Prints every hole in a range of time, and every absence of unknown extent; returns whether stored data cannot be
/// read.
pub(super) fn show(
    archive: &Archive,
    entry: &StreamEntry,
    range: Range<WallTime>,
    as_json: bool,
) -> anyhow::Result<bool> {
    let mut output = std::io::stdout();
    let (mut count, mut damaged) = (0_usize, false);
    for piece in archive.range(entry, range.clone()) {
        let Piece::Hole(hole) = piece? else { continue };
        count += 1;
        damaged |= says_damage(std::slice::from_ref(&hole));
        if as_json {
            print_line(&hole.to_json())?;
        } else {
            writeln!(output, "{}", line(&hole, layout::width()))?;
        }
    }
    for recording in &entry.epochs {
        refills(recording, range.clone(), as_json)?;
        if as_json {
            recording.untold_absences(range.clone()).try_for_each(|absence| print_line(&absence))?;
            continue;
        }
        for gap in recording.absences().filter(|gap| gap.positions.is_empty() && range.contains(&gap.t0)) {
            count += 1;
            let head = format!("{}  ", utc(gap.t0));
            writeln!(
                output,
                "{}",
                layout::hanging(&head, &of_unknown_extent(recording, gap), layout::width())
            )?;
        }
    }
    if count == 0 && !as_json {
        eprintln!("nothing is missing");
    }
    Ok(damaged)
}

/// Prints what was missing and has come later from the archive of another station.
fn refills(recording: &Recording, range: Range<WallTime>, as_json: bool) -> anyhow::Result<()> {
    for refill in recording.refills.iter().filter(|refill| !refill.samples.is_empty()) {
        let (Some(first), samples) = (refill.samples.first(), refill.samples.len()) else { continue };
        let rate = recording.description.schema.rate;
        let time = rate.time_of(first.start, recording.first_index, recording.t0);
        if !range.contains(&time) {
            continue;
        }
        if as_json {
            print_line(&json!({"refilled": refill.to_json(&recording.description)}))?;
            continue;
        }
        let text = format!(
            "{samples} samples from {} on were missing, and came at {} from {}",
            first.start,
            utc(refill.at),
            refill.station
        );
        let mut output = std::io::stdout();
        writeln!(output, "{}", layout::hanging(&format!("{}  ", utc(time)), &text, layout::width()))?;
    }
    Ok(())
}

fn line(hole: &Hole, width: usize) -> String {
    let parts: Vec<String> = hole.reasons().named().map(|(name, count)| format!("{name} {count}")).collect();
    let last = hole.first_index + hole.samples - 1;
    let text = format!("samples {} to {last}: {}", hole.first_index, parts.join(", "));
    layout::hanging(&format!("{}  ", utc(hole.t0)), &text, width)
}

fn first_index(recording: &Recording, gap: &GapRecord) -> u64 {
    gap.positions.start / u64::from(recording.description.schema.elements_per_sample())
}

/// Returns lines about the times without a recorder or publisher.
pub(super) fn absences(recording: &Recording) -> Vec<String> {
    let known = elements(recording).into_iter().filter(|(_, count)| *count > 0);
    let known = known.map(|(kind, count)| format!("{count} elements from a time in which {}", what(kind)));
    let empty = recording.absences().filter(|gap| gap.positions.is_empty());
    let empty = empty.map(|gap| format!("{}: {}", utc(gap.t0), of_unknown_extent(recording, gap)));
    known.chain(empty).collect()
}

/// Returns the elements of such times by kind, and how many times are of unknown extent.
pub(super) fn absent_json(recording: &Recording) -> Value {
    let [(_, reader_absent), (_, publisher_absent)] = elements(recording);
    let unknown = recording.absences().filter(|gap| gap.positions.is_empty()).count();
    json!({
        "reader_absent": reader_absent, "publisher_absent": publisher_absent, "of_unknown_extent": unknown,
    })
}

fn elements(recording: &Recording) -> [(GapKind, u64); 2] {
    [GapKind::ReaderAbsent, GapKind::PublisherAbsent].map(|kind| {
        let gaps = recording.absences().filter(|gap| gap.kind == kind);
        (kind, gaps.map(|gap| gap.positions.end - gap.positions.start).sum())
    })
}

fn of_unknown_extent(recording: &Recording, gap: &GapRecord) -> String {
    let end = gap.t1.map_or_else(|| "an unknown time".to_owned(), utc);
    let index = first_index(recording, gap);
    format!("after sample {index} {}, until {end}: {}", what(gap.kind), gap.evidence.join("; "))
}

const fn what(kind: GapKind) -> &'static str {
    match kind {
        GapKind::ReaderAbsent => "no recorder was running",
        GapKind::PublisherAbsent => "no publisher was running",
        GapKind::Missing => "something was lost",
    }
}
