//! Samples of refills, put where a recording has holes.
//!
//! A refill is read as a whole when a hole or an incomplete sample needs it: it is bounded in bytes. Start with
//! [`RefilledRows`].

use core::ops::Range;
use std::sync::Arc;

use ledger::{GapKind, HopCounts, StageCounts};
use sample::Block;
use units::{RangeSet, WallTime};

use crate::catalogue::Recording;
use crate::columns::arrow_schema;
use crate::contents::{EpochContents, Segment, SegmentContent};
use crate::error::ArchiveError;
use crate::folders::{SegmentFile, segment_path};
use crate::gaps::{GapKey, GapRecord, Origin};
use crate::parquet_file::ParquetSegment;
use crate::rows::Rows;
use crate::segment::SegmentReader;
use crate::store::{Store, StoreError};
use crate::wanted::Wanted;

/// Refills of one epoch.
pub(crate) struct RefilledRows {
    store: Arc<dyn Store>,
    contents: Arc<EpochContents>,
    /// Samples that each refill can still give.
    samples: Vec<RangeSet>,
    /// The refill that was read last.
    loaded: Option<(usize, Vec<Rows>)>,
    /// Positions that were given so far.
    given: RangeSet,
    /// Refills that cannot be read, as gaps of nothing: what was missing before has its own.
    damaged: Vec<GapRecord>,
}

/// A consecutive part of a refill.
pub(crate) struct Part {
    /// Index one behind its last sample, and its time.
    pub(crate) next_index: u64,
    pub(crate) t1: WallTime,
    /// The wanted samples of it.
    pub(crate) block: Option<Block>,
}

impl RefilledRows {
    pub(crate) fn new(store: Arc<dyn Store>, recording: &Recording) -> Self {
        let contents = Arc::clone(&recording.contents);
        let samples = contents.refills.iter().map(|refill| match refill.segment {
            Some(_) => refill.note.samples.clone(),
            None => RangeSet::new(),
        });
        let samples = samples.collect();
        Self { store, contents, samples, loaded: None, given: RangeSet::new(), damaged: Vec::new() }
    }

    /// Returns the positions that were given so far.
    pub(crate) const fn given(&self) -> &RangeSet {
        &self.given
    }

    /// Returns the refills that could not be read and had samples in a range of positions.
    pub(crate) fn damaged_in(&self, positions: &Range<u64>) -> impl Iterator<Item = &GapRecord> {
        let touches =
            |gap: &&GapRecord| gap.positions.start < positions.end && positions.start < gap.positions.end;
        self.damaged.iter().filter(touches)
    }

    /// Returns index and time of the first sample of all.
    pub(crate) fn first(&self) -> Option<(u64, WallTime)> {
        self.segments().map(|segment| (segment.first_index, segment.t0)).min()
    }

    /// Returns the index behind the last sample of all; 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        self.segments().map(|segment| segment.next_index).max().unwrap_or(0)
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.contents.refills.iter().filter_map(|refill| refill.segment.as_ref())
    }

    /// Returns the index of the first sample that a refill has within a range of missing ones.
    pub(crate) fn first_within(&self, missing: &Range<u64>) -> Option<u64> {
        let first = |samples: &RangeSet| samples.intersection(missing.clone()).next().map(|it| it.start);
        self.samples.iter().filter_map(first).min()
    }

    /// Reads samples from `missing.start` on, which a refill has; `None` if it cannot be read, which is remembered.
    ///
    /// # Errors
    /// The error of the disk.
    pub(crate) fn part(
        &mut self,
        missing: &Range<u64>,
        wanted: &Wanted,
    ) -> Result<Option<Part>, ArchiveError> {
        let Some(at) = self.samples.iter().position(|samples| samples.contains(missing.start)) else {
            return Ok(None);
        };
        let rate = self.contents.description.schema.rate;
        let Some(rows) = self.load(at)? else { return Ok(None) };
        let asked = Wanted { indices: missing.clone(), ..Wanted::ALL };
        let found = rows.iter().flat_map(|rows| rows.runs().into_iter().map(move |run| (rows, run)));
        let mut found = found.filter_map(|(rows, run)| Some((rows, rows.clip(&run, &asked)?)));
        let Some((rows, run)) = found.find(|(_, run)| run.first_index == missing.start) else {
            // The note names a sample that is not there.
            self.give_up(at, "its samples are not those of its note");
            return Ok(None);
        };
        let next_index = run.first_index + run.rows.len() as u64;
        let t1 = rate.time_of(next_index, run.first_index, run.t0);
        let mut block = rows.clip(&run, wanted).map(|run| rows.block(&run));
        if let Some(block) = &mut block {
            self.note_given(block);
            self.heal(block)?;
        }
        Ok(Some(Part { next_index, t1, block }))
    }

    /// Fills in the missing elements of a block, as far as refills have them.
    ///
    /// # Errors
    /// The error of the disk.
    pub(crate) fn heal(&mut self, block: &mut Block) -> Result<(), ArchiveError> {
        if block.missing.is_empty() {
            return Ok(());
        }
        let per_sample = u64::from(block.schema.elements_per_sample());
        let (first, size) = (block.first_index, block.schema.dtype.size_bytes());
        for at in 0..self.samples.len() {
            let incomplete: RangeSet = block
                .missing
                .iter()
                .map(|it| first + it.start / per_sample..first + it.end.div_ceil(per_sample))
                .collect();
            let there: Vec<Range<u64>> =
                incomplete.iter().flat_map(|it| self.samples[at].intersection(it)).collect();
            for indices in there {
                let Some(rows) = self.load(at)? else { break };
                let asked = Wanted { indices, ..Wanted::ALL };
                let mut filled = RangeSet::new();
                for (rows, run) in
                    rows.iter().flat_map(|rows| rows.runs().into_iter().map(move |run| (rows, run)))
                {
                    let Some(run) = rows.clip(&run, &asked) else { continue };
                    let own = rows.block(&run);
                    let base = (own.first_index - first) * per_sample;
                    let positions = base..base + own.samples * per_sample;
                    let mut able: RangeSet = block.missing.intersection(positions).collect();
                    able.remove_all(own.missing.iter().map(|it| base + it.start..base + it.end));
                    for range in able.iter() {
                        let bytes = |at: u64| usize::try_from(at).expect("in memory") * size;
                        let source = &own.data.as_bytes()[bytes(range.start - base)..bytes(range.end - base)];
                        block.data.as_bytes_mut()[bytes(range.start)..bytes(range.end)]
                            .copy_from_slice(source);
                        filled.insert(range);
                    }
                }
                for range in filled.iter() {
                    block.missing.remove(range.clone());
                    self.given.insert(first * per_sample + range.start..first * per_sample + range.end);
                }
            }
        }
        Ok(())
    }

    fn note_given(&mut self, block: &Block) {
        let per_sample = u64::from(block.schema.elements_per_sample());
        let base = block.first_index * per_sample;
        self.given.insert(base..base + block.samples * per_sample);
        for missing in block.missing.iter() {
            self.given.remove(base + missing.start..base + missing.end);
        }
    }

    /// Reads a refill; `None` if it is damaged.
    fn load(&mut self, at: usize) -> Result<Option<&[Rows]>, ArchiveError> {
        if self.loaded.as_ref().is_none_or(|(loaded, _)| *loaded != at) {
            let Some(segment) = self.contents.refills[at].segment.clone() else { return Ok(None) };
            match rows_of(&*self.store, &self.contents, segment) {
                Ok(rows) => self.loaded = Some((at, rows)),
                Err(error) if error.is_damage() || error.is_not_found() => {
                    self.give_up(at, &error.first_line());
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.loaded.as_ref().map(|(_, rows)| &rows[..]))
    }

    fn give_up(&mut self, at: usize, cause: &str) {
        let lost = core::mem::take(&mut self.samples[at]);
        let Some(segment) = &self.contents.refills[at].segment else { return };
        let per_sample = u64::from(self.contents.description.schema.elements_per_sample());
        let gaps = (0..).zip(lost.iter()).map(|(id, samples)| GapRecord {
            key: GapKey { session: 0, origin: Origin::Archive, id: u64::from(segment.number) << 32 | id },
            kind: GapKind::Missing,
            positions: samples.start * per_sample..samples.end * per_sample,
            numbers: 0..0,
            lost: StageCounts::default(),
            inherited: HopCounts::default(),
            unexplained: 0,
            unsettled: 0,
            apportioned: true,
            t0: segment.t0,
            t1: Some(segment.t1),
            evidence: vec![cause.to_owned()],
        });
        self.damaged.extend(gaps);
    }
}

fn rows_of(store: &dyn Store, contents: &EpochContents, segment: Segment) -> Result<Vec<Rows>, ArchiveError> {
    let description = &contents.description;
    if let SegmentContent::Arrow(index) = segment.content {
        match SegmentReader::open(store, &contents.folder, description, index) {
            Ok(mut reader) => {
                let entries = reader.index.entries.clone();
                return entries.iter().map(|entry| reader.rows(entry)).collect();
            }
            // It was compacted since the catalogue was read.
            Err(ArchiveError::Store(StoreError::NotFound(_))) => {}
            Err(error) => return Err(error),
        }
    }
    let path = segment_path(&contents.folder, segment.number, SegmentFile::Parquet);
    let file = ParquetSegment::open_as(store, &path, description, segment.number)?;
    let arrow = arrow_schema(description);
    let mut rows = Vec::new();
    for group in file.groups(&Wanted::ALL) {
        for batch in file.batches(group, description.schema.sample_bytes())? {
            let foreign = || ArchiveError::segment(&path, "its columns are not those of stream.json");
            rows.push(Rows::new(&batch?, description, &arrow).ok_or_else(foreign)?);
        }
    }
    Ok(rows)
}
