//! Retrieval: blocks and holes of a stream in a range of time, in their order.
//!
//! Nothing is left out silently: between two blocks that are not consecutive there is always a [`Hole`], even where
//! no gap record covers it or a stored batch is damaged. The same feed drives queries, exports and replay. Start with
//! [`Feed`].

use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use ledger::{GapKind, HopCounts, Stage, StageCounts};
use sample::Block;
use units::{RangeSet, WallTime};

use crate::catalogue::{Recording, StreamEntry};
use crate::columns::arrow_schema;
use crate::contents::{Segment, SegmentContent};
use crate::damage::{self, Damage};
use crate::error::ArchiveError;
use crate::folders::{SegmentFile, segment_path};
use crate::gaps::{GapKey, GapRecord, Origin};
use crate::index::Entry;
use crate::parquet_file::{Batches, ParquetSegment};
use crate::reasons::Reasons;
use crate::refilled_rows::{Part, RefilledRows};
use crate::rows::Rows;
use crate::segment::SegmentReader;
use crate::store::{Store, StoreError};
use crate::wanted::Wanted;

/// Item of a feed.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Start of another epoch.
    Epoch(Recording),
    /// Samples as recorded.
    Block(Block),
    /// Missing samples.
    Hole(Hole),
}

/// Missing whole samples between two blocks, before the first or behind the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hole {
    /// Index of the first missing sample.
    pub first_index: u64,
    /// Number of missing samples.
    pub samples: u64,
    /// Time of the first missing sample.
    pub t0: WallTime,
    /// Time of the first sample behind the hole.
    pub t1: WallTime,
    /// Missing elements by stage.
    pub lost: StageCounts,
    /// Missing elements without evidence or record.
    pub unexplained: u64,
    /// Missing elements that still wait for evidence.
    pub unsettled: u64,
    /// Elements of a time without a recorder.
    pub reader_absent: u64,
    /// Gap records that cover the hole.
    pub gaps: Vec<GapRecord>,
}

impl Hole {
    /// Returns the reasons why its elements are missing.
    #[must_use]
    pub const fn reasons(&self) -> Reasons {
        let Self { lost, unexplained, unsettled, reader_absent, .. } = *self;
        Reasons { lost, unexplained, unsettled, reader_absent }
    }

    /// Returns whether some of it was stored and can no longer be read.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        self.gaps.iter().any(GapRecord::is_damage)
    }

    /// Returns the stage with the largest share; `None` if most is unexplained or was not recorded.
    #[must_use]
    pub fn leading_stage(&self) -> Option<Stage> {
        let (stage, count) = self.lost.nonzero().max_by(|(a, x), (b, y)| x.cmp(y).then(b.cmp(a)))?;
        (count >= self.unexplained.max(self.unsettled).max(self.reader_absent)).then_some(stage)
    }
}

/// Content of a stream in a range of time, epoch by epoch.
pub struct Feed {
    store: Arc<dyn Store>,
    range: Range<WallTime>,
    epochs: VecDeque<Recording>,
    current: Option<EpochFeed>,
}

impl Feed {
    pub(crate) fn new(store: Arc<dyn Store>, stream: &StreamEntry, range: Range<WallTime>) -> Self {
        Self { store, range, epochs: stream.epochs.iter().cloned().collect(), current: None }
    }
}

impl Iterator for Feed {
    type Item = Result<Piece, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(piece) = self.current.as_mut().and_then(Iterator::next) {
                return Some(piece);
            }
            let recording = self.epochs.pop_front()?;
            let mut feed = EpochFeed::new(Arc::clone(&self.store), recording.clone(), self.range.clone());
            match feed.next() {
                // An epoch without samples in the range is not announced.
                None => continue,
                Some(Ok(first)) => feed.queue.push_front(Queued::Piece(Box::new(first))),
                Some(Err(error)) => return Some(Err(error)),
            }
            self.current = Some(feed);
            return Some(Ok(Piece::Epoch(recording)));
        }
    }
}

enum Source {
    Arrow { reader: SegmentReader, entries: VecDeque<Entry> },
    Parquet(RowGroups),
}

/// Row groups of a Parquet segment that are still to be read.
struct RowGroups {
    file: ParquetSegment,
    number: u32,
    groups: VecDeque<usize>,
    /// Current row group and its batches.
    current: Option<(usize, Batches)>,
}

impl RowGroups {
    /// Reads the next batch. A damaged group is skipped and returned as an error with the index one behind its last
    /// sample.
    fn next(&mut self, sample_bytes: usize) -> Option<Result<RecordBatch, (u64, ArchiveError)>> {
        loop {
            if let Some((group, batches)) = &mut self.current {
                let end = self.file.group_end(*group);
                match batches.next() {
                    Some(Ok(batch)) => return Some(Ok(batch)),
                    Some(Err(error)) => {
                        self.current = None;
                        return Some(Err((end, error)));
                    }
                    None => {}
                }
            }
            let group = self.groups.pop_front()?;
            match self.file.batches(group, sample_bytes) {
                Ok(batches) => self.current = Some((group, batches)),
                Err(error) => {
                    self.current = None;
                    return Some(Err((self.file.group_end(group), error)));
                }
            }
        }
    }
}

/// What is to be handed out next.
enum Queued {
    Piece(Box<Piece>),
    /// Samples that no segment has, with the time of the first and of the next one behind them: refills may have some.
    Missing(Range<u64>, WallTime, WallTime),
}

/// Content of one epoch in a range of time and of indices.
pub struct EpochFeed {
    store: Arc<dyn Store>,
    recording: Recording,
    wanted: Wanted,
    segments: VecDeque<Segment>,
    source: Option<Source>,
    gaps: VecDeque<GapRecord>,
    queue: VecDeque<Queued>,
    /// Samples that came later, put where there are holes.
    refills: RefilledRows,
    /// Expected index and time of the next sample.
    expected: (u64, Option<WallTime>),
    /// Index one behind the last sample acknowledged when the catalogue was read. Samples that a recorder has added
    /// since are not read: the gap map of that moment cannot explain holes among them.
    known_end: u64,
    finished: bool,
}

impl EpochFeed {
    pub(crate) fn new(store: Arc<dyn Store>, recording: Recording, times: Range<WallTime>) -> Self {
        let segments = recording.contents.segments.iter().cloned().collect();
        let gaps = recording.gaps.iter().cloned().collect();
        let expected = (recording.first_index, None);
        let (source, queue, finished) = (None, VecDeque::new(), false);
        let wanted = Wanted { times, ..Wanted::ALL };
        let known_end = recording.contents.segments.last().map_or(0, |segment| segment.next_index);
        let refills = RefilledRows::new(Arc::clone(&store), &recording);
        Self {
            known_end,
            store,
            recording,
            wanted,
            segments,
            source,
            gaps,
            queue,
            refills,
            expected,
            finished,
        }
    }

    /// Returns the positions of elements that were handed out so far and came later, from another station's archive.
    #[must_use]
    pub fn refilled(&self) -> RangeSet {
        self.refills.given().clone()
    }

    /// Restricts the feed to a range of indices. As with times, a hole that reaches into the range is reported whole.
    #[must_use]
    pub fn within(mut self, indices: Range<u64>) -> Self {
        self.wanted.indices = indices;
        self
    }

    /// Reads one more batch into the queue. Returns whether there may be more.
    fn advance(&mut self) -> Result<bool, ArchiveError> {
        let description = Arc::clone(&self.recording.description);
        match &mut self.source {
            None => return self.open_next(),
            Some(Source::Parquet(groups)) => match groups.next(description.schema.sample_bytes()) {
                Some(Ok(batch)) => match Rows::new(&batch, &description, &arrow_schema(&description)) {
                    Some(rows) => return self.take(&rows),
                    None => {
                        let (number, end) = (groups.number, groups.file.span().next_index);
                        self.source = None;
                        self.note_foreign(number, end);
                    }
                },
                Some(Err((end, error))) if error.is_damage() => {
                    let number = groups.number;
                    self.note_lost(number, end, &error.first_line());
                }
                Some(Err((_, error))) => return Err(error),
                None => self.source = None,
            },
            Some(Source::Arrow { reader, entries }) => match entries.pop_front() {
                Some(entry) if self.wanted.ends_before(entry.next_index, entry.t1) => {
                    self.expected = (entry.next_index, Some(entry.t1));
                }
                Some(entry) if self.wanted.begins_behind(entry.first_index, entry.t0) => {
                    return Ok(self.reach(entry.first_index, entry.t0));
                }
                Some(entry) => match reader.rows(&entry) {
                    Ok(rows) => return self.take(&rows),
                    Err(error) => self.note_damage(&entry, &error),
                },
                None => self.source = None,
            },
        }
        Ok(true)
    }

    fn open_next(&mut self) -> Result<bool, ArchiveError> {
        let Some(segment) = self.segments.pop_front() else {
            self.reach_end();
            return Ok(false);
        };
        if self.wanted.ends_before(segment.next_index, segment.t1) {
            self.expected = (segment.next_index, Some(segment.t1));
            return Ok(true);
        }
        if self.wanted.begins_behind(segment.first_index, segment.t0) {
            return Ok(self.reach(segment.first_index, segment.t0));
        }
        let contents = Arc::clone(&self.recording.contents);
        let description = &contents.description;
        if let SegmentContent::Arrow(index) = segment.content {
            match SegmentReader::open(&*self.store, &contents.folder, description, index) {
                Ok(reader) => {
                    let known = |entry: &&Entry| entry.next_index <= self.known_end;
                    let entries = reader.index.entries.iter().filter(known).copied().collect();
                    self.source = Some(Source::Arrow { reader, entries });
                    return Ok(true);
                }
                // The segment was compacted since the catalogue was read.
                Err(ArchiveError::Store(StoreError::NotFound(_))) => {}
                Err(error) if error.is_damage() => {
                    self.note_lost(segment.number, segment.next_index, &error.first_line());
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        let path = segment_path(&contents.folder, segment.number, SegmentFile::Parquet);
        match ParquetSegment::open_as(&*self.store, &path, description, segment.number) {
            Ok(file) => self.enter(file, segment.number),
            // The segment was removed since the catalogue was read, and no Parquet replaced it.
            Err(error) if error.is_damage() || error.is_not_found() => {
                self.note_lost(segment.number, segment.next_index, &error.first_line());
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Opens a Parquet segment at the first row group in the range.
    fn enter(&mut self, file: ParquetSegment, number: u32) {
        let groups = file.groups(&self.wanted);
        // Row groups that are skipped are before the range, and are no hole.
        let before = groups.front().and_then(|first| first.checked_sub(1));
        if let Some((last, time)) = before.and_then(|group| file.group_last(group)) {
            let rate = self.recording.description.schema.rate;
            self.expected = (last + 1, Some(rate.time_of(last + 1, last, time)));
        }
        self.source = Some(Source::Parquet(RowGroups { file, number, groups, current: None }));
    }

    /// Queues the samples of a batch and the holes before them. Returns whether more may be in the range.
    fn take(&mut self, rows: &Rows) -> Result<bool, ArchiveError> {
        let indices = self.wanted.indices.start..self.wanted.indices.end.min(self.known_end);
        let wanted = Wanted { indices, ..self.wanted.clone() };
        for run in rows.runs() {
            if run.first_index >= self.known_end {
                break;
            }
            if !self.reach(run.first_index, run.t0) {
                return Ok(false);
            }
            let end = (run.first_index + run.rows.len() as u64).min(self.known_end);
            if let Some(run) = rows.clip(&run, &wanted) {
                let mut block = rows.block(&run);
                self.refills.heal(&mut block)?;
                self.queue.push_back(Queued::Piece(Box::new(Piece::Block(block))));
            }
            let rate = self.recording.description.schema.rate;
            self.expected = (end, Some(rate.time_of(end, run.first_index, run.t0)));
        }
        Ok(true)
    }

    /// Advances to the next samples; everything up to them is a hole. Returns whether they are in the range.
    fn reach(&mut self, first_index: u64, t0: WallTime) -> bool {
        let (expected, since) = self.expected;
        if first_index > expected {
            let rate = self.recording.description.schema.rate;
            let since = since.unwrap_or_else(|| rate.time_of(expected, first_index, t0));
            if !self.wanted.begins_behind(expected, since) && !self.wanted.ends_before(first_index, t0) {
                self.queue.push_back(Queued::Missing(expected..first_index, since, t0));
            }
            self.expected = (first_index, Some(t0));
        }
        !self.wanted.begins_behind(first_index, t0)
    }

    /// Queues the holes that the gap map has behind the last sample.
    fn reach_end(&mut self) {
        let per_sample = self.per_sample();
        let end = self.gaps.iter().map(|gap| gap.positions.end / per_sample).max().unwrap_or(0);
        let end = end.max(self.refills.end());
        let (expected, since) = self.expected;
        // With nothing recorded only refills and gaps have a time.
        let refilled = || {
            let (index, time) = self.refills.first()?;
            Some(self.recording.description.schema.rate.time_of(expected, index, time))
        };
        let since = since.or_else(refilled).or_else(|| {
            let gap = self.gaps.front()?;
            let rate = self.recording.description.schema.rate;
            Some(rate.time_of(expected, gap.positions.start / per_sample, gap.t0))
        });
        if let Some(since) = since
            && end > expected
        {
            let t1 = self.recording.description.schema.rate.time_of(end, expected, since);
            self.reach(end, t1);
        }
    }

    /// Puts the samples of refills in the place of missing ones; the rest are holes. Returns the first piece of them, if
    /// any is wanted, and queues the rest.
    fn refill(
        &mut self,
        missing: Range<u64>,
        since: WallTime,
        until: WallTime,
    ) -> Result<Option<Piece>, ArchiveError> {
        let is_wanted = |wanted: &Wanted, samples: &Range<u64>, t0, t1| {
            !wanted.begins_behind(samples.start, t0) && !wanted.ends_before(samples.end, t1)
        };
        let rest = |feed: &mut Self, samples: Range<u64>, since| {
            if !samples.is_empty() && is_wanted(&feed.wanted, &samples, since, until) {
                feed.queue.push_front(Queued::Missing(samples, since, until));
            }
        };
        match self.refills.first_within(&missing) {
            None => Ok(Some(Piece::Hole(self.hole(missing, since, until)))),
            Some(first) if first > missing.start => {
                let rate = self.recording.description.schema.rate;
                let time = rate.time_of(first, missing.start, since);
                rest(self, first..missing.end, time);
                let before = missing.start..first;
                let is_wanted = is_wanted(&self.wanted, &before, since, time);
                Ok(is_wanted.then(|| Piece::Hole(self.hole(before, since, time))))
            }
            Some(_) => {
                let Some(part) = self.refills.part(&missing, &self.wanted)? else {
                    // That refill is damaged: another may have some of it.
                    rest(self, missing, since);
                    return Ok(None);
                };
                let Part { next_index, t1, block } = part;
                rest(self, next_index..missing.end, t1);
                Ok(block.map(Piece::Block))
            }
        }
    }

    fn hole(&mut self, samples: Range<u64>, t0: WallTime, t1: WallTime) -> Hole {
        let per_sample = self.per_sample();
        let positions = samples.start * per_sample..samples.end * per_sample;
        while self.gaps.front().is_some_and(|gap| gap.positions.end <= positions.start) {
            self.gaps.pop_front();
        }
        let begins_before = |gap: &&GapRecord| gap.positions.start < positions.end;
        let touching: Vec<GapRecord> = self
            .gaps
            .iter()
            .take_while(begins_before)
            .filter(|gap| gap.positions.end > positions.start)
            .cloned()
            .collect();
        let Reasons { lost, unexplained, unsettled, reader_absent } = Reasons::of(&positions, &touching);
        let touching = touching.into_iter().chain(self.refills.damaged_in(&positions).cloned()).collect();
        Hole {
            first_index: samples.start,
            samples: samples.end - samples.start,
            t0,
            t1,
            lost,
            unexplained,
            unsettled,
            reader_absent,
            gaps: touching,
        }
    }

    fn note_damage(&mut self, entry: &Entry, error: &ArchiveError) {
        let per_sample = self.per_sample();
        let positions = entry.first_index * per_sample..entry.next_index * per_sample;
        let gap = GapRecord {
            key: GapKey { session: 0, origin: Origin::Archive, id: entry.offset },
            kind: GapKind::Missing,
            lost: StageCounts::of(Stage::ArchiveWrite, u64::from(entry.samples) * per_sample),
            positions,
            numbers: 0..0,
            unexplained: 0,
            unsettled: 0,
            inherited: HopCounts::default(),
            apportioned: entry.next_index - entry.first_index > u64::from(entry.samples),
            t0: entry.t0,
            t1: Some(entry.t1),
            evidence: vec![error.to_string()],
        };
        let place = self.gaps.partition_point(|other| other.positions.start <= gap.positions.start);
        self.gaps.insert(place, gap);
    }

    /// Notes that the samples up to an index are in a segment that cannot be read.
    fn note_lost(&mut self, number: u32, end: u64, cause: &str) {
        let description = Arc::clone(&self.recording.description);
        let (expected, since) = self.expected;
        let samples = expected..end.min(self.known_end).max(expected);
        let anchor = (expected, since.unwrap_or(self.recording.t0));
        // Distinct from the gaps of whole segments, which begin at the same number.
        let id = u64::from(number) << 32 | (expected & 0x7fff_ffff) << 1 | 1;
        let damage = Damage { description: &description, samples, anchor, id, cause };
        let found = damage::records(&damage, &self.gaps);
        self.gaps.extend(found);
        self.gaps.make_contiguous().sort_by_key(|gap| (gap.positions.start, gap.key));
    }

    fn note_foreign(&mut self, number: u32, end: u64) {
        let path = segment_path(&self.recording.contents.folder, number, SegmentFile::Parquet);
        let foreign = ArchiveError::segment(&path, "its columns are not those of stream.json");
        self.note_lost(number, end, &foreign.first_line());
    }

    fn per_sample(&self) -> u64 {
        u64::from(self.recording.description.schema.elements_per_sample())
    }
}

impl Iterator for EpochFeed {
    type Item = Result<Piece, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.queue.pop_front() {
                Some(Queued::Piece(piece)) => return Some(Ok(*piece)),
                Some(Queued::Missing(samples, since, until)) => match self.refill(samples, since, until) {
                    Ok(Some(piece)) => return Some(Ok(piece)),
                    Ok(None) => continue,
                    Err(error) => {
                        (self.finished, self.queue) = (true, VecDeque::new());
                        return Some(Err(error));
                    }
                },
                None => {}
            }
            if self.finished {
                return None;
            }
            match self.advance() {
                Ok(more) => self.finished = !more,
                Err(error) => {
                    self.finished = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
