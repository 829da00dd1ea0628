//! The archive as what lies behind live memory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use archive::{Archive, ArchiveError, Piece, StreamEntry};
use sample::{Block, ElementReader, Point};
use units::{SampleRate, WallTime};

use crate::gap_map::KnownGap;
use crate::memory::{element_of, unit_of};
use crate::stored::{HistoryStore, StoreFailure, StoredRequest, StoredSpan};

/// How old the list of what is recorded may be; reading it costs a look at every segment's index.
const LIST_AGE: Duration = Duration::from_secs(2);
/// The most samples read for one picture: a second or two of work. More is for `tallycast query`.
const MAX_SAMPLES: u64 = 50_000_000;
/// A sample this many periods behind the one before it is not joined with it.
const BREAK_PERIODS: u64 = 2;

/// Reads an archive's folder, also while a recorder writes it, also if it comes to be only later.
pub(crate) struct ArchivedHistory {
    root: PathBuf,
    list: Mutex<Option<(Instant, Arc<Listed>)>>,
}

struct Listed {
    archive: Archive,
    streams: Vec<StreamEntry>,
}

impl ArchivedHistory {
    pub(crate) const fn new(root: PathBuf) -> Self {
        Self { root, list: Mutex::new(None) }
    }

    fn listed(&self) -> Result<Arc<Listed>, ArchiveError> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, listed)) = list.as_ref().filter(|(read, _)| read.elapsed() < LIST_AGE) {
            return Ok(Arc::clone(listed));
        }
        let archive = Archive::open(&self.root)?;
        let mut streams = Vec::new();
        for run in archive.runs()? {
            streams.extend(archive.streams(&run)?);
        }
        let listed = Arc::new(Listed { archive, streams });
        *list = Some((Instant::now(), Arc::clone(&listed)));
        Ok(listed)
    }
}

impl HistoryStore for ArchivedHistory {
    fn span(&self, asked: &StoredRequest<'_>) -> Result<Option<StoredSpan>, StoreFailure> {
        let failure = |error: ArchiveError| StoreFailure::Unreadable(error.to_string());
        let listed = match self.listed() {
            // A recorder that has not begun yet: there is nothing behind live memory.
            Err(ArchiveError::NoArchive(_)) => return Ok(None),
            listed => listed.map_err(failure)?,
        };
        let mut entries: Vec<_> = listed.streams.iter().filter(|it| *it.name == *asked.stream).collect();
        entries.sort_by_key(|entry| entry.epochs.first().map(|recording| recording.t0));
        let newest = entries.iter().flat_map(|entry| &entry.epochs).max_by_key(|recording| recording.t0);
        let Some(schema) = newest.map(|recording| &recording.description.schema) else { return Ok(None) };
        let Some(element) = element_of(schema, asked.channel) else { return Ok(None) };
        let samples = entries.iter().map(|entry| samples_within(entry, asked)).sum();
        if samples > MAX_SAMPLES {
            return Err(StoreFailure::TooLong { samples, limit: MAX_SAMPLES });
        }
        let mut reading = Reading::new(asked, samples);
        for entry in entries {
            let range = asked.grid.from..asked.grid.edge(asked.grid.count);
            for piece in listed.archive.range(entry, range) {
                reading.take(piece.map_err(failure)?);
            }
        }
        Ok(Some(reading.finish(unit_of(schema, element).to_owned(), schema.rate)))
    }
}

/// Returns about how many stored samples lie in the span asked for.
fn samples_within(entry: &StreamEntry, asked: &StoredRequest<'_>) -> u64 {
    let (from, to) = (asked.grid.from, asked.grid.edge(asked.grid.count));
    let within = entry.epochs.iter().map(|recording| {
        let overlap = recording.t1.min(to).nanos_since(recording.t0.max(from));
        let overlap = Duration::from_nanos(u64::try_from(overlap).unwrap_or(0));
        recording.description.schema.rate.samples_in(overlap).min(recording.samples)
    });
    within.sum()
}

/// A span as it is put together from pieces.
struct Reading<'a> {
    asked: &'a StoredRequest<'a>,
    with_points: bool,
    columns: Vec<sample::Column>,
    points: Vec<Point>,
    gaps: Vec<KnownGap>,
    /// When the sample behind the last one is due.
    due: Option<WallTime>,
}

impl<'a> Reading<'a> {
    fn new(asked: &'a StoredRequest<'a>, samples: u64) -> Self {
        Self {
            asked,
            with_points: samples < u64::from(asked.grid.count),
            columns: asked.grid.empty_columns(),
            points: Vec::new(),
            gaps: Vec::new(),
            due: None,
        }
    }

    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Epoch(_) => {}
            Piece::Block(block) => self.take_block(&block),
            // A time in which nobody recorded is no loss of the stream.
            Piece::Hole(hole) if hole.lost.total() + hole.unexplained + hole.unsettled == 0 => {}
            Piece::Hole(hole) => self.gaps.push(KnownGap {
                id: hole.gaps.first().map_or(hole.first_index, |gap| gap.key.id),
                epoch: units::Epoch { start_ns: 0, life: 0 },
                from: hole.t0,
                to: hole.t1,
                first_index: hole.first_index,
                samples: hole.samples,
                first_element: hole.gaps.first().map_or(0, |gap| gap.positions.start),
                numbers: hole.gaps.first().map_or(0..0, |gap| gap.numbers.clone()),
                lost: hole.lost,
                unexplained: hole.unexplained,
                unsettled: hole.unsettled,
                apportioned: hole.gaps.iter().any(|gap| gap.apportioned),
                evidence: hole.gaps.iter().flat_map(|gap| gap.evidence.iter().cloned()).collect(),
            }),
        }
    }

    fn take_block(&mut self, block: &Block) {
        let schema = &block.schema;
        let Some(element) = element_of(schema, self.asked.channel) else { return };
        let Some(reader) = ElementReader::new(schema, element) else { return };
        self.asked.grid.add_block(&mut self.columns, block, reader);
        if self.with_points {
            self.take_points(block, reader);
        }
    }

    fn take_points(&mut self, block: &Block, reader: ElementReader) {
        let mut values = Vec::new();
        reader.read(block, &mut values);
        for run in reader.present(block) {
            for sample in run {
                let index = block.first_index + sample as u64;
                let time = block.time_of(index);
                // Two runs may have recorded the same time.
                if self.points.last().is_some_and(|last| time <= last.time) {
                    continue;
                }
                if self.due.is_some_and(|due| time > due) {
                    self.points.push(Point { time, value: None });
                }
                self.points.push(Point { time, value: Some(values[sample]) });
                self.due = Some(block.time_of(index + BREAK_PERIODS));
            }
        }
    }

    fn finish(mut self, unit: String, rate: SampleRate) -> StoredSpan {
        self.gaps.sort_by_key(|gap| gap.from);
        let points = self.with_points.then_some(self.points);
        StoredSpan { unit, rate, columns: self.columns, points, gaps: self.gaps }
    }
}
