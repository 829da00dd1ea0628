//! Heads of an app's log that an archive has, from the recorded stream `steer/APP`.

use std::path::Path;

use archive::Archive;
use tallycast::StreamName;
use tallycast::steering::{MARK_CHANNELS, Mark};

use crate::verbs::steered;

/// Returns the marks of all runs of an archive; none of what an earlier version recorded, whose rows have no part of the log.
pub(super) fn of_archive(root: &Path, app: &StreamName) -> anyhow::Result<Vec<Mark>> {
    let archive = Archive::open(root)?;
    // Whole numbers below 2^53.
    let mark = |[count, digest]: [f64; 2]| Mark { count: count as u64, digest: digest as u64 };
    let mut marks = Vec::new();
    for run in archive.runs()? {
        for entry in archive.streams(&run)?.iter().filter(|entry| steered::is_of(entry, app)) {
            marks.extend(steered::rows(&archive, entry, MARK_CHANNELS)?.into_iter().map(mark));
        }
    }
    Ok(marks)
}
