//! Heads of an app's log that an archive has, from the recorded stream `steer/APP`.

use std::path::Path;

use archive::{Archive, Piece};
use sample::{Block, ElementReader};
use tallycast::StreamName;
use tallycast::steering::{MARK_CHANNELS, Mark, STREAM_PREFIX};
use units::WallTime;

/// Returns the marks of all runs of an archive.
pub(super) fn of_archive(root: &Path, app: &StreamName) -> anyhow::Result<Vec<Mark>> {
    let archive = Archive::open(root)?;
    let name = format!("{STREAM_PREFIX}{app}");
    let all = WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX);
    let mut marks = Vec::new();
    for run in archive.runs()? {
        let streams = archive.streams(&run)?;
        for entry in streams.iter().filter(|entry| entry.name.as_str() == name) {
            for piece in archive.range(entry, all.clone()) {
                if let Piece::Block(block) = piece? {
                    marks.extend(of_block(&block));
                }
            }
        }
    }
    Ok(marks)
}

/// Returns the marks of a block; none of one that an earlier version recorded, whose rows have no part of the log.
fn of_block(block: &Block) -> Vec<Mark> {
    let column = |name: &str| {
        let place = block.schema.channels.iter().position(|channel| channel.name == name)?;
        let mut values = Vec::new();
        ElementReader::new(&block.schema, place)?.read(block, &mut values);
        Some(values)
    };
    let [Some(counts), Some(digests)] = MARK_CHANNELS.map(column) else { return Vec::new() };
    // Whole numbers below 2^53.
    let mark = |(count, digest): (f64, f64)| Mark { count: count as u64, digest: digest as u64 };
    counts.into_iter().zip(digests).map(mark).collect()
}
