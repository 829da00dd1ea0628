//! Recordings of `steer/APP`, the stream of an app's log (`docs/protocol/steering.md`, "The stream").

use archive::{Archive, Piece, StreamEntry};
use sample::{Block, ElementReader};
use tallycast::StreamName;
use tallycast::steering::STREAM_PREFIX;

use super::during::ALWAYS;

/// Returns whether a recorded stream is that of an app's log.
pub(super) fn is_of(entry: &StreamEntry, app: &StreamName) -> bool {
    entry.name.as_str().strip_prefix(STREAM_PREFIX) == Some(app.as_str())
}

/// Reads these channels of all samples of a recording. Blocks that lack one of them, as earlier versions recorded them, are
/// left out.
pub(super) fn rows<const COUNT: usize>(
    archive: &Archive,
    entry: &StreamEntry,
    channels: [&str; COUNT],
) -> anyhow::Result<Vec<[f64; COUNT]>> {
    let mut rows = Vec::new();
    for piece in archive.range(entry, ALWAYS) {
        if let Piece::Block(block) = piece? {
            rows.extend(rows_of(&block, channels));
        }
    }
    Ok(rows)
}

fn rows_of<const COUNT: usize>(block: &Block, channels: [&str; COUNT]) -> Vec<[f64; COUNT]> {
    let column = |name: &str| {
        let place = block.schema.channel_index(name)?;
        let mut values = Vec::new();
        ElementReader::new(&block.schema, place)?.read(block, &mut values);
        Some(values)
    };
    let columns: Vec<Vec<f64>> = channels.into_iter().map_while(column).collect();
    let count = columns.iter().map(Vec::len).min().filter(|_| columns.len() == COUNT);
    (0..count.unwrap_or(0)).map(|row| std::array::from_fn(|place| columns[place][row])).collect()
}
