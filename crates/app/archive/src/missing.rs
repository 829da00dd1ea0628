//! Samples that a recording misses: known from gap map and segments, and not refilled since.
//!
//! The catalogue names the samples in question, and only these are read. Start with [`Archive::is_complete`].

use core::ops::Range;

use units::RangeSet;

use crate::catalogue::{Archive, Recording, RecordingState};
use crate::error::ArchiveError;
use crate::feed::Piece;
use crate::wanted::Wanted;

impl Archive {
    /// Returns whether the epoch has ended and nothing of it is missing from its first recorded sample to its end: every
    /// hole was refilled, and no file is known to be damaged. [`Archive::verify`] also reads all that is stored.
    ///
    /// Cost: reads what is next to holes that were not refilled, up to the first missing element.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn is_complete(&self, recording: &Recording) -> Result<bool, ArchiveError> {
        if recording.state != RecordingState::Closed || !recording.damaged.is_empty() {
            return Ok(false);
        }
        let (told, untold) = (told_of(recording), untold_of(recording));
        let mut doubtful: RangeSet = told.iter().chain(untold.iter()).collect();
        remove_refilled(recording, &mut doubtful);
        Ok(missing_within(self, recording, &doubtful).next().transpose()?.is_none())
    }
}

/// Returns the samples that the gap map tells of and no refill has brought as a whole; some of them may be there.
pub(crate) fn doubtful_samples(recording: &Recording) -> RangeSet {
    let mut doubtful = told_of(recording);
    remove_refilled(recording, &mut doubtful);
    doubtful
}

/// Returns the samples in some ranges of which elements are missing, range by range.
///
/// Cost: reads these ranges, each when it is asked for.
pub(crate) fn missing_within<'a>(
    archive: &'a Archive,
    recording: &'a Recording,
    ranges: &RangeSet,
) -> impl Iterator<Item = Result<Range<u64>, ArchiveError>> + use<'a> {
    let known = known(recording);
    let per_sample = per_sample(recording);
    let ranges: Vec<Range<u64>> = ranges.iter().collect();
    let pieces =
        ranges.into_iter().flat_map(move |range| archive.epoch(recording, Wanted::ALL.times).within(range));
    let missing = move |piece: Piece| match piece {
        Piece::Hole(hole) => {
            let end = hole.first_index + hole.samples;
            vec![hole.first_index.max(known.start)..end.min(known.end)]
        }
        Piece::Block(block) => {
            let samples = |it: Range<u64>| {
                block.first_index + it.start / per_sample..block.first_index + it.end.div_ceil(per_sample)
            };
            block.missing.iter().map(samples).collect()
        }
        Piece::Epoch(_) => Vec::new(),
    };
    pieces.flat_map(move |piece| match piece {
        Ok(piece) => missing(piece).into_iter().filter(|it| !it.is_empty()).map(Ok).collect(),
        Err(error) => vec![Err(error)],
    })
}

/// Returns the samples that the gap map tells of.
fn told_of(recording: &Recording) -> RangeSet {
    let (known, per_sample) = (known(recording), per_sample(recording));
    recording
        .gaps
        .iter()
        .filter(|gap| !gap.positions.is_empty())
        .map(|gap| gap.positions.start / per_sample..gap.positions.end.div_ceil(per_sample))
        .map(|it| it.start.max(known.start)..it.end.min(known.end))
        .filter(|it| !it.is_empty())
        .collect()
}

/// Returns samples of which some are missing and no gap tells of it: those between segments, and those of segments that
/// lack more than gaps tell of.
fn untold_of(recording: &Recording) -> RangeSet {
    let told = told_of(recording);
    let mut untold = RangeSet::new();
    let mut reached = recording.first_index;
    for segment in &recording.contents.segments {
        let span = segment.first_index..segment.next_index;
        let lacks_more = segment.samples + told.count_in(span.clone()) < span.end - span.start;
        for range in [Some(reached..span.start), lacks_more.then_some(span)].into_iter().flatten() {
            if !range.is_empty() {
                untold.insert(range);
            }
        }
        reached = reached.max(segment.next_index);
    }
    untold.remove_all(told.iter());
    untold
}

/// Removes the samples that a refill has brought with all their elements. One that cannot be read has brought none.
fn remove_refilled(recording: &Recording, samples: &mut RangeSet) {
    let per_sample = per_sample(recording);
    for refill in recording.contents.refills.iter().filter(|it| it.segment.is_some()) {
        let mut whole = refill.note.samples.clone();
        for range in refill.note.lacking.iter() {
            whole.remove(range.start / per_sample..range.end.div_ceil(per_sample));
        }
        samples.remove_all(whole.iter());
    }
}

const fn known(recording: &Recording) -> Range<u64> {
    recording.first_index..recording.stored_index
}

fn per_sample(recording: &Recording) -> u64 {
    u64::from(recording.description.schema.elements_per_sample())
}
