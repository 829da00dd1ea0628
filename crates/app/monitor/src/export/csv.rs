//! A table as CSV (RFC 4180), with lines that begin with `#` for what the file tells of itself, and for each hole where it
//! is.

use std::fmt::Write as _;

use units::WallTime;

use super::table::{Cells, Table};
use crate::gap_map::KnownGap;

/// Returns the file.
pub(super) fn write(table: &Table) -> Vec<u8> {
    let mut text = String::new();
    for (name, value) in &table.facts {
        // A line break would end the comment.
        writeln!(text, "# {name}: {}", value.replace(['\n', '\r'], " ")).expect(INFALLIBLE);
    }
    writeln!(text, "# holes: {}", table.gaps.len()).expect(INFALLIBLE);
    let heads: Vec<_> = table.columns.iter().map(|column| head(&column.name, &column.unit)).collect();
    text.push_str(&heads.join(","));
    text.push('\n');
    let (mut gaps, mut epochs) = (table.gaps.iter().peekable(), table.epochs.iter().peekable());
    for (row, time) in table.times().iter().enumerate() {
        while let Some(gap) = gaps.next_if(|gap| gap.from <= *time) {
            hole(&mut text, gap);
        }
        if let Some(start) = epochs.next_if(|start| start.row == row) {
            let epoch = start.epoch.map_or_else(|| "not known".to_owned(), |epoch| epoch.to_string());
            writeln!(text, "# epoch: {epoch}").expect(INFALLIBLE);
        }
        for (place, column) in table.columns.iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            cell(&mut text, &column.cells, row);
        }
        text.push('\n');
    }
    gaps.for_each(|gap| hole(&mut text, gap));
    text.into_bytes()
}

const INFALLIBLE: &str = "writing to a string never fails";

fn head(name: &str, unit: &str) -> String {
    let head = match (unit, name.ends_with("_ns")) {
        ("", _) | (_, true) => name.to_owned(),
        (unit, false) => format!("{name} [{unit}]"),
    };
    if head.contains([',', '"', '\n', '\r']) || head.starts_with('#') {
        format!("\"{}\"", head.replace('"', "\"\""))
    } else {
        head
    }
}

fn cell(text: &mut String, cells: &Cells, row: usize) {
    let written = match cells {
        Cells::Times(times) => write!(text, "{}", WallTime::as_nanos(times[row])),
        Cells::Counts(counts) => counts[row].map_or(Ok(()), |count| write!(text, "{count}")),
        Cells::Values(values) => values[row].map_or(Ok(()), |value| write!(text, "{value}")),
    };
    written.expect(INFALLIBLE);
}

/// Writes `# hole: 40 samples from index 12, 1700000000000000000 to 1700000000040000000 ns, injected 40 elements`, as
/// `tallycast query --export csv` does.
fn hole(text: &mut String, gap: &KnownGap) {
    let (from, to) = (gap.from.as_nanos(), gap.to.as_nanos());
    write!(text, "# hole: {} samples from index {}, {from} to {to} ns", gap.samples, gap.first_index)
        .expect(INFALLIBLE);
    let stages = gap.lost.nonzero().map(|(stage, count)| (stage.name(), count));
    let rest =
        [("unexplained", gap.unexplained), ("unsettled", gap.unsettled), ("reader_absent", gap.absent)];
    for (name, count) in stages.chain(rest.into_iter().filter(|(_, count)| *count > 0)) {
        write!(text, ", {name} {count}").expect(INFALLIBLE);
    }
    text.push_str(" elements\n");
}
