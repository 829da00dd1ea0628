//! The newest stored sample of a channel at or before a time, however long before.
//!
//! What recordings say of themselves tells where to look: times in which nothing was stored are not searched. Start with
//! [`newest`].

use std::cmp::Reverse;

use archive::{Archive, ArchiveError, Piece, Recording, StreamEntry};
use sample::Block;
use units::WallTime;

use crate::memory::element_of;

/// Periods that are looked at first.
const FIRST_LOOK: u64 = 16;
/// Each further look goes back so many times as far.
const FURTHER: i64 = 16;

/// Returns a block whose last sample is the newest one of the channel at or before `end`.
///
/// Cost: as a rule the read of a few samples.
pub(super) fn newest(
    archive: &Archive,
    entries: &[&StreamEntry],
    channel: &str,
    end: WallTime,
) -> Result<Option<Block>, ArchiveError> {
    let behind = end.offset(1);
    let may_have = |recording: &&Recording| {
        recording.t0 < behind && element_of(&recording.description.schema, channel).is_some()
    };
    let mut recordings: Vec<_> = entries.iter().flat_map(|entry| &entry.epochs).filter(may_have).collect();
    recordings.sort_by_key(|recording| Reverse(recording.t1.min(behind)));
    let mut newest: Option<Block> = None;
    for recording in recordings {
        let known = newest.as_ref().map(last_time);
        if known.is_some_and(|known| recording.t1 <= known) {
            break;
        }
        let found = newest_of(archive, recording, behind)?;
        newest = found.filter(|found| known.is_none_or(|known| last_time(found) > known)).or(newest);
    }
    Ok(newest)
}

fn newest_of(
    archive: &Archive,
    recording: &Recording,
    behind: WallTime,
) -> Result<Option<Block>, ArchiveError> {
    let period = recording.description.schema.rate.duration_of(FIRST_LOOK);
    let mut look_ns = i64::try_from(period.as_nanos()).unwrap_or(i64::MAX).max(1);
    let mut to = behind.min(recording.t1);
    while to > recording.t0 {
        let from = before_gaps(recording, to, look_ns).max(recording.t0);
        let mut newest = None;
        for piece in archive.epoch(recording, from..to) {
            if let Piece::Block(block) = piece?
                && block.samples > 0
            {
                newest = Some(block);
            }
        }
        if newest.is_some() {
            return Ok(newest);
        }
        (to, look_ns) = (from, look_ns.saturating_mul(FURTHER));
    }
    Ok(None)
}

/// Returns the beginning of a look of this length before `to`: before the gaps that it would begin in.
fn before_gaps(recording: &Recording, to: WallTime, look_ns: i64) -> WallTime {
    let before = |time: WallTime| WallTime::from_nanos(time.as_nanos().saturating_sub(look_ns));
    recording.gaps.iter().rev().fold(before(to), |from, gap| {
        let covers = gap.t0 <= from && gap.t1.is_none_or(|t1| from < t1);
        if covers { before(gap.t0) } else { from }
    })
}

fn last_time(block: &Block) -> WallTime {
    block.time_of(block.next_index() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use archive::{FileStore, Options, Recorder};
    use ledger::{Stage, StageCounts};
    use tallycast::Event;
    use units::{Epoch, Instant, Random};

    use crate::archived::ArchivedHistory;
    use crate::scene;
    use crate::stored::HistoryStore;

    /// Records two epochs of a stream in runs of random lengths, with holes as long as seconds between them, of which
    /// gaps tell or not; returns the times of what is stored.
    fn record(random: &mut Random, root: &std::path::Path) -> Vec<WallTime> {
        let store = Arc::new(FileStore::create(root).unwrap());
        let options = Options { batch_bytes: 400, segment_bytes: 4_000, ..Options::default() };
        let run = "test".parse().unwrap();
        let mut recorder = Recorder::open(store, run, options, Instant::ORIGIN).unwrap();
        let (mut stored, mut next, mut gaps) = (Vec::new(), random.below(100), 0);
        for start_ns in [1, 2] {
            let epoch = Epoch { start_ns, incarnation: 1 };
            let info =
                Arc::new(tallycast::StreamInfo { epoch, first_index: next, ..scene::info("lab/x", 100) });
            recorder.handle(Instant::ORIGIN, &Event::Began(Arc::clone(&info))).unwrap();
            for _ in 0..20 {
                let values = vec![1.0; 1 + random.below(40) as usize];
                let block = scene::block(&info, next, &values);
                recorder.handle(Instant::ORIGIN, &Event::Block(block.clone())).unwrap();
                stored.extend((next..block.next_index()).map(|index| block.time_of(index)));
                next = block.next_index();
                let lost = if random.chance(0.5) { random.below(2_000) } else { 0 };
                if lost > 0 && random.chance(0.7) {
                    gaps += 1;
                    let counts = StageCounts::of(Stage::Network, lost);
                    let gap = scene::gap(&info, gaps, next..next + lost, counts);
                    recorder.handle(Instant::ORIGIN, &Event::Gap(gap)).unwrap();
                }
                next += lost;
            }
        }
        recorder.close(Instant::ORIGIN).unwrap();
        stored
    }

    #[test]
    fn the_newest_stored_sample_is_found_behind_holes_of_any_length() {
        for seed in 0..12 {
            let (mut random, root) = (Random::new(seed), tempfile::tempdir().unwrap());
            let stored = record(&mut random, root.path());
            let history = ArchivedHistory::new(root.path().to_owned());
            let name = "lab/x".parse().unwrap();
            let newest = |end| {
                let block = history.newest(&name, "x", end).unwrap();
                block.as_ref().map(last_time)
            };
            let (first, last) = (stored[0], stored[stored.len() - 1]);
            for _ in 0..40 {
                let end = first.offset(random.below(last.nanos_since(first).unsigned_abs() + 1) as i64);
                let wanted = stored.iter().copied().filter(|time| *time <= end).max();
                assert_eq!(newest(end), wanted, "seed {seed}, {end:?}");
            }
            assert_eq!((newest(first.offset(-1)), newest(first)), (None, Some(first)));
            // Days later it is still the newest.
            assert_eq!(newest(last.offset(1_000_000 * scene::SECOND)), Some(last));
            assert!(history.newest(&name, "y", last).unwrap().is_none());
        }
    }
}
