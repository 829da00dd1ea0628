//! The archive as the history behind live memory.

mod holes;
mod newest;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use archive::{
    Archive, ArchiveError, DiskAlarm, DiskLevel, ExperimentRuns, FileStore, Piece, RunName, StreamEntry,
    Unreadable,
};
use sample::{Block, ElementReader, Point, StreamName};
use tallycast::runs::{Runs, STREAM_PREFIX};
use units::{SampleRate, WallTime};

use holes::Holes;

use crate::gap_map::KnownGap;
use crate::memory::{element_of, unit_of};
use crate::stored::{DiskStatus, HistoryStore, StoreFailure, StoredRequest, StoredSamples, StoredSpan};

/// Maximum age of the list of recordings; reading it costs access to every segment's index.
const LIST_AGE: Duration = Duration::from_secs(2);
/// The most samples read for one picture: a second or two of work. More is for `tallycast query`.
const MAX_SAMPLES: u64 = 50_000_000;
/// Maximum number of files and folders reported as damaged.
const MAX_SAID: usize = 1_024;
/// A sample this many periods behind the one before it is not joined with it.
const BREAK_PERIODS: u64 = 2;

/// Reads an archive's folder, also while a recorder writes it, and also if it is created later.
pub(crate) struct ArchivedHistory {
    root: PathBuf,
    list: Mutex<Option<(Instant, Arc<Listed>)>>,
    /// Damage already reported, each once.
    said: Mutex<BTreeSet<String>>,
    alarm: Mutex<DiskAlarm>,
    /// Events of runs, and how much was recorded when they were read.
    runs: Mutex<Option<(Vec<RecordedEvents>, Arc<Runs>)>>,
}

struct Listed {
    archive: Archive,
    streams: Vec<StreamEntry>,
    unreadable: Vec<(RunName, Unreadable)>,
}

impl Listed {
    /// Returns the recordings of a stream, run by run, and its unreadable parts.
    fn of(&self, stream: &StreamName) -> (Vec<&StreamEntry>, Vec<&Unreadable>) {
        let unreadable = self.unreadable.iter().filter(|(run, it)| it.is_of(run, stream)).map(|(_, it)| it);
        (self.streams.iter().filter(|it| *it.name == *stream).collect(), unreadable.collect())
    }
}

impl ArchivedHistory {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            list: Mutex::default(),
            said: Mutex::default(),
            alarm: Mutex::default(),
            runs: Mutex::default(),
        }
    }

    fn listed(&self) -> Result<Arc<Listed>, ArchiveError> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, listed)) = list.as_ref().filter(|(read, _)| read.elapsed() < LIST_AGE) {
            return Ok(Arc::clone(listed));
        }
        let archive = Archive::open(&self.root)?;
        let (mut streams, mut unreadable) = (Vec::new(), Vec::new());
        for run in archive.runs()? {
            let (entries, unread) = archive.survey(&run)?;
            streams.extend(entries);
            unreadable.extend(unread.into_iter().map(|it| (run.clone(), it)));
        }
        let listed = Arc::new(Listed { archive, streams, unreadable });
        self.say_damage(&listed);
        *list = Some((Instant::now(), Arc::clone(&listed)));
        Ok(listed)
    }

    fn say_damage(&self, listed: &Listed) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let recordings = listed.streams.iter().flat_map(|entry| &entry.epochs);
        let damaged = recordings.flat_map(|recording| &recording.damaged).cloned();
        let unreadable = listed.unreadable.iter().map(|(_, it)| it.to_string());
        for cause in damaged.chain(unreadable) {
            if said.len() < MAX_SAID && said.insert(cause.clone()) {
                tracing::warn!(
                    "{cause}\nsee what is damaged and what that costs: tallycast archive verify ROOT"
                );
            }
        }
    }
}

impl HistoryStore for ArchivedHistory {
    fn disk(&self) -> Option<DiskStatus> {
        // The folder may be created later.
        let level = DiskLevel::of(&FileStore::open(&self.root).ok()?).ok()?;
        let mut alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        alarm.take(&level);
        Some(DiskStatus {
            free_bytes: level.free_bytes,
            size_bytes: level.size_bytes,
            is_alarm: alarm.is_on(),
        })
    }

    fn span(&self, asked: &StoredRequest<'_>) -> Result<Option<StoredSpan>, StoreFailure> {
        let failure = |error: ArchiveError| StoreFailure::Unreadable(error.to_string());
        let listed = match self.listed() {
            // A recorder that has not begun yet: there is nothing behind live memory.
            Err(ArchiveError::NoArchive(_)) => return Ok(None),
            listed => listed.map_err(failure)?,
        };
        let (mut entries, unreadable) = listed.of(asked.stream);
        if let (true, Some(unread)) = (entries.is_empty(), unreadable.first()) {
            return Err(StoreFailure::Unreadable(unread.to_string()));
        }
        entries.sort_by_key(|entry| entry.epochs.first().map(|recording| recording.t0));
        let newest = entries.iter().flat_map(|entry| &entry.epochs).max_by_key(|recording| recording.t0);
        let Some(schema) = newest.map(|recording| &recording.description.schema) else { return Ok(None) };
        let Some(element) = element_of(schema, asked.channel) else { return Ok(None) };
        let range = asked.grid.from..asked.grid.edge(asked.grid.count);
        let samples = entries.iter().map(|entry| samples_within(entry, &range)).sum();
        if samples > MAX_SAMPLES {
            return Err(StoreFailure::TooLong { samples, limit: MAX_SAMPLES });
        }
        let mut reading = Reading::new(asked, samples);
        let mut holes = Holes::new(range.clone(), recordings(&entries));
        for entry in &entries {
            let excerpt = Excerpt { archive: &listed.archive, entry, range: &range };
            excerpt.read(&mut holes, &mut |block| reading.take(block)).map_err(failure)?;
        }
        unreadable.into_iter().for_each(|unread| holes.unreadable(unread));
        let mut span = reading.finish(unit_of(schema, element).to_owned(), schema.rate);
        span.gaps = holes.finish();
        Ok(Some(span))
    }

    fn samples(&self, asked: &StoredSamples<'_>, take: &mut dyn FnMut(&Block)) -> Result<bool, StoreFailure> {
        let failure = |error: ArchiveError| StoreFailure::Unreadable(error.to_string());
        let listed = match self.listed() {
            Err(ArchiveError::NoArchive(_)) => return Ok(false),
            listed => listed.map_err(failure)?,
        };
        let (mut entries, _) = listed.of(asked.stream);
        entries.sort_by_key(|entry| entry.epochs.first().map(|recording| recording.t0));
        let samples = entries.iter().map(|entry| samples_within(entry, &asked.range)).sum();
        if samples > asked.limit {
            return Err(StoreFailure::TooLong { samples, limit: asked.limit });
        }
        let mut holes = Holes::new(asked.range.clone(), recordings(&entries));
        for entry in &entries {
            let excerpt = Excerpt { archive: &listed.archive, entry, range: &asked.range };
            excerpt.read(&mut holes, take).map_err(failure)?;
        }
        Ok(!entries.is_empty())
    }

    fn newest(
        &self,
        stream: &StreamName,
        channel: &str,
        end: WallTime,
    ) -> Result<Option<Block>, StoreFailure> {
        let failure = |error: ArchiveError| StoreFailure::Unreadable(error.to_string());
        let listed = match self.listed() {
            Err(ArchiveError::NoArchive(_)) => return Ok(None),
            listed => listed.map_err(failure)?,
        };
        let (entries, unreadable) = listed.of(stream);
        if let (true, Some(unread)) = (entries.is_empty(), unreadable.first()) {
            return Err(StoreFailure::Unreadable(unread.to_string()));
        }
        newest::newest(&listed.archive, &entries, channel, end).map_err(failure)
    }

    fn gaps(
        &self,
        stream: &StreamName,
        range: Range<WallTime>,
    ) -> Result<Option<Vec<KnownGap>>, StoreFailure> {
        let failure = |error: ArchiveError| StoreFailure::Unreadable(error.to_string());
        let listed = match self.listed() {
            Err(ArchiveError::NoArchive(_)) => return Ok(None),
            listed => listed.map_err(failure)?,
        };
        let (entries, unreadable) = listed.of(stream);
        if entries.is_empty() && unreadable.is_empty() {
            return Ok(None);
        }
        let samples: u64 = entries.iter().map(|entry| samples_within(entry, &range)).sum();
        let mut holes = Holes::new(range.clone(), recordings(&entries));
        for entry in &entries {
            if samples <= MAX_SAMPLES {
                let excerpt = Excerpt { archive: &listed.archive, entry, range: &range };
                excerpt.read(&mut holes, &mut |_| {}).map_err(failure)?;
                continue;
            }
            // Reading this many samples would take minutes: use the gap maps.
            for recording in &entry.epochs {
                holes.records(recording);
                holes.untold(recording);
            }
        }
        unreadable.into_iter().for_each(|unread| holes.unreadable(unread));
        Ok(Some(holes.finish()))
    }

    fn runs(&self) -> Result<Option<Arc<Runs>>, StoreFailure> {
        let failure = |error: ArchiveError| StoreFailure::Unreadable(error.to_string());
        let listed = match self.listed() {
            Err(ArchiveError::NoArchive(_)) => return Ok(None),
            listed => listed.map_err(failure)?,
        };
        let entries = listed.streams.iter().filter(|entry| entry.name.as_str().starts_with(STREAM_PREFIX));
        let entries: Vec<_> = entries.collect();
        let sizes: Vec<_> = entries.iter().map(|entry| RecordedEvents::of(entry)).collect();
        // Held while they are read: others wait for the same answer.
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, runs)) = runs.as_ref().filter(|(read, _)| *read == sizes) {
            return Ok(Some(Arc::clone(runs)));
        }
        let mut found = ExperimentRuns::default();
        entries.iter().try_for_each(|entry| found.read(&listed.archive, entry)).map_err(failure)?;
        let found = Arc::new(found.runs);
        *runs = Some((sizes, Arc::clone(&found)));
        Ok(Some(found))
    }
}

/// How much of a stream of events is recorded: events only come.
#[derive(PartialEq, Eq)]
struct RecordedEvents {
    run: RunName,
    name: Arc<StreamName>,
    /// Samples and bytes of each epoch.
    epochs: Vec<(u64, u64)>,
}

impl RecordedEvents {
    fn of(entry: &StreamEntry) -> Self {
        let epochs = entry.epochs.iter().map(|recording| (recording.samples, recording.size_bytes)).collect();
        Self { run: entry.run.clone(), name: Arc::clone(&entry.name), epochs }
    }
}

fn recordings<'a>(entries: &[&'a StreamEntry]) -> impl Iterator<Item = &'a archive::Recording> {
    entries.iter().flat_map(|entry| &entry.epochs)
}

/// A recorded stream in a range of time.
struct Excerpt<'a> {
    archive: &'a Archive,
    entry: &'a StreamEntry,
    range: &'a Range<WallTime>,
}

impl Excerpt<'_> {
    /// Reads it: its blocks go to `take`, and what is missing to `holes`.
    fn read(&self, holes: &mut Holes<'_>, take: &mut dyn FnMut(&Block)) -> Result<(), ArchiveError> {
        let mut current = None;
        for piece in self.archive.range(self.entry, self.range.clone()) {
            match piece? {
                Piece::Epoch(recording) => current = Some(recording),
                Piece::Block(block) => take(&block),
                Piece::Hole(hole) => {
                    let recording = current.as_ref().expect("an epoch begins before its holes");
                    holes.hole(recording, &hole);
                }
            }
        }
        self.entry.epochs.iter().for_each(|recording| holes.untold(recording));
        Ok(())
    }
}

/// Returns the approximate number of stored samples in the requested span.
fn samples_within(entry: &StreamEntry, range: &Range<WallTime>) -> u64 {
    let within = entry.epochs.iter().map(|recording| {
        let overlap = recording.t1.min(range.end).nanos_since(recording.t0.max(range.start));
        let overlap = Duration::from_nanos(u64::try_from(overlap).unwrap_or(0));
        recording.description.schema.rate.samples_in(overlap).min(recording.samples)
    });
    within.sum()
}

/// A span assembled from pieces.
struct Reading<'a> {
    asked: &'a StoredRequest<'a>,
    with_points: bool,
    columns: Vec<sample::Column>,
    points: Vec<Point>,
    /// Time at which the sample behind the last one is due.
    due: Option<WallTime>,
}

impl<'a> Reading<'a> {
    fn new(asked: &'a StoredRequest<'a>, samples: u64) -> Self {
        Self {
            asked,
            with_points: samples < u64::from(asked.grid.count),
            columns: asked.grid.empty_columns(),
            points: Vec::new(),
            due: None,
        }
    }

    fn take(&mut self, block: &Block) {
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

    /// Returns what is stored; what is missing is another's to add.
    fn finish(self, unit: String, rate: SampleRate) -> StoredSpan {
        let points = self.with_points.then_some(self.points);
        StoredSpan { unit, rate, columns: self.columns, points, gaps: Vec::new() }
    }
}
