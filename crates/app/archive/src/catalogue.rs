//! Catalogue of an archive: its runs, streams and epochs.
//!
//! Reads only, and may do so while a recorder writes: it then sees what was acknowledged at the time of reading.
//! Start with [`Archive::open`].

use core::ops::Range;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger::{GapKind, StageCounts};
use sample::StreamName;
use serde_json::{Value, json};
use units::{Epoch, WallTime};

use crate::Description;
use crate::contents::{EpochContents, Segment, has_samples};
use crate::damage::{self, Damage};
use crate::error::ArchiveError;
use crate::feed::{EpochFeed, Feed};
use crate::folders::{
    DESCRIPTION, LOCK, RunName, earlier_account, earlier_account_of, epoch_folders, run_folder, run_of,
    stream_folder,
};
use crate::gaps::{GapKey, GapRecord};
use crate::refill::Refilled;
use crate::salvage::Tail;
use crate::stamped;
use crate::store::{FileStore, Store, StoreError, draft_of, read_whole, replace_from};
use crate::told::read_account;

/// Name of the file that marks a folder as an archive and has its version.
pub(crate) const ROOT_MARK: &str = "tallycast-archive.json";
const FORMAT: &str = "tallycast-archive";
/// The only version so far.
const VERSION: u64 = 1;

/// An archive.
pub struct Archive {
    store: Arc<dyn Store>,
}

/// A stream in a run, with all its epochs.
#[derive(Clone, Debug)]
pub struct StreamEntry {
    /// Run that the stream was recorded in.
    pub run: RunName,
    /// Name of the stream.
    pub name: Arc<StreamName>,
    /// Recordings of the stream in the order of their epochs.
    pub epochs: Vec<Recording>,
}

/// One recorded epoch of a stream.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Name, epoch, schema and station.
    pub description: Arc<Description>,
    /// Index of the first sample of the first recorder's account.
    pub first_index: u64,
    /// Index one behind the last stored sample.
    pub stored_index: u64,
    /// Time of the first stored sample; if none is stored, of the first known one.
    pub t0: WallTime,
    /// End of the last stored sample; if none is stored, equal to `t0`.
    pub t1: WallTime,
    /// Number of stored samples.
    pub samples: u64,
    /// Size on disk, in bytes.
    pub size_bytes: u64,
    /// State in which the recording ended, or that it is still open.
    pub state: RecordingState,
    /// True while a recorder holds the run. An open recording without one belongs to a recorder that died.
    pub attended: bool,
    /// Known gaps in the order of the stream.
    pub gaps: Arc<[GapRecord]>,
    /// Refills: what came later from the archives of other stations, in the order in which it came.
    pub refills: Arc<[Refilled]>,
    /// Damaged files, each with its fault. Samples that cannot be read are in the gaps.
    pub damaged: Vec<String>,
    /// Account of the reader and of the archive, as last written by the last recorder.
    pub account: Value,
    /// Accounts of the earlier recorders, in their order.
    pub earlier_accounts: Vec<Value>,
    pub(crate) contents: Arc<EpochContents>,
}

/// One segment of a recording that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredSegment {
    /// Number in its epoch, from 1.
    pub number: u32,
    /// Index of its first sample.
    pub first_index: u64,
    /// Index one behind its last sample.
    pub next_index: u64,
    /// Time of its first sample.
    pub t0: WallTime,
    /// End of its last sample.
    pub t1: WallTime,
    /// Number of samples.
    pub samples: u64,
    /// Size on disk, in bytes.
    pub size_bytes: u64,
}

/// State of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordingState {
    /// The recording continues, or its recorder died and the run has not been recovered yet.
    Open,
    /// The epoch ended and everything was stored.
    Closed,
    /// The recorder left, or died, before the epoch ended.
    Cut,
}

impl RecordingState {
    /// Returns the name, as used in JSON and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Cut => "cut",
        }
    }
}

impl Recording {
    /// Returns the elements known to be missing: by stage, and the sum of unexplained and unsettled ones.
    #[must_use]
    pub fn losses(&self) -> (StageCounts, u64) {
        let mut lost = StageCounts::default();
        self.gaps.iter().for_each(|gap| lost.add(&gap.lost));
        (lost, self.gaps.iter().map(|gap| gap.unexplained + gap.unsettled).sum())
    }

    /// Returns the times without a recorder or without a publisher: they are no losses, but missing all the same.
    ///
    /// An absence of no elements has an unknown extent, because no sample followed it.
    pub fn absences(&self) -> impl Iterator<Item = &GapRecord> {
        self.gaps.iter().filter(|gap| gap.kind != GapKind::Missing)
    }

    /// Returns the absences of unknown extent that began in a range of time, as JSON in the form of holes.
    ///
    /// No sample followed them, so no hole covers them.
    pub fn untold_absences(&self, range: Range<WallTime>) -> impl Iterator<Item = Value> {
        let per_sample = u64::from(self.description.schema.elements_per_sample());
        let untold = self.absences().filter(move |gap| gap.positions.is_empty() && range.contains(&gap.t0));
        untold.map(move |gap| {
            json!({
                "first_index": gap.positions.start / per_sample, "samples": 0, "from_ns": gap.t0,
                "to_ns": gap.t1, "lost": {}, "unexplained": 0, "unsettled": 0,
                "reader_absent": 0, "gaps": [gap],
            })
        })
    }

    /// Returns the segments that can be read, in the order of the stream.
    pub fn segments(&self) -> impl Iterator<Item = StoredSegment> {
        self.contents.segments.iter().map(|segment| {
            let &Segment { number, first_index, next_index, t0, t1, samples, size_bytes, .. } = segment;
            StoredSegment { number, first_index, next_index, t0, t1, samples, size_bytes }
        })
    }

    /// Returns the time span of everything known, stored or missing; `t0` and `t1` span the stored samples only.
    #[must_use]
    pub fn span(&self) -> Range<WallTime> {
        let known = || self.gaps.iter().filter(|gap| !gap.positions.is_empty());
        let start = known().map(|gap| gap.t0).fold(self.t0, WallTime::min);
        start..known().filter_map(|gap| gap.t1).fold(self.t1, WallTime::max)
    }
}

/// Epoch that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// Folder of the epoch, relative to the archive.
    pub folder: PathBuf,
    /// Cause why it cannot be read.
    pub cause: ArchiveError,
}

impl core::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} cannot be read: {}", self.folder.display(), self.cause.in_one_line())
    }
}

impl Unreadable {
    /// Returns whether it belongs to a stream in a run, judged by its folder.
    #[must_use]
    pub fn is_of(&self, run: &RunName, stream: &StreamName) -> bool {
        self.folder.starts_with(stream_folder(run, stream))
    }

    /// Returns the epoch that the folder is named after; `None` if the name is not that of an epoch.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.folder.file_name()?.to_str()?.strip_prefix("epoch=")?.parse().ok()
    }
}

/// State of the mark of an archive's root, as a recorder finds it.
pub(crate) enum Mark {
    Whole,
    /// The folder has no mark and no recordings.
    Absent,
    /// The folder has recordings, and the mark is missing or damaged: the cause.
    Damaged(String),
}

/// Reads the mark of a folder that is to be an archive; fails if the mark has a later version.
pub(crate) fn mark_of(store: &dyn Store) -> Result<Mark, ArchiveError> {
    let look = || match check_root(store) {
        Ok(()) => Ok(None),
        Err(error @ (ArchiveError::NoArchive(_) | ArchiveError::Unmarked(_))) => Ok(Some(error)),
        Err(error @ ArchiveError::Store(StoreError::Misplaced { .. })) => Ok(Some(error)),
        Err(error) => Err(error),
    };
    if look()?.is_none() {
        return Ok(Mark::Whole);
    }
    // A run is created before the mark, a stream after it. Another recorder may be creating the archive: read the
    // mark again.
    let mut has_streams = false;
    for run in store.list(Path::new(""))?.iter().filter_map(|name| run_of(name)) {
        has_streams |= !epoch_folders(store, &run_folder(&run))?.0.is_empty();
    }
    Ok(match look()? {
        None => Mark::Whole,
        Some(error) if has_streams => Mark::Damaged(error.first_line()),
        Some(_) => Mark::Absent,
    })
}

/// Makes the folder an archive by a draft in a run folder that the caller holds: recorders of other runs may do so at
/// the same time.
pub(crate) fn mark_root(store: &dyn Store, run_folder: &Path) -> Result<(), ArchiveError> {
    let mark = stamped::stamp(&json!({"format": FORMAT, "version": VERSION}));
    let draft = run_folder.join(draft_of(Path::new(ROOT_MARK)));
    replace_from(store, &draft, Path::new(ROOT_MARK), mark.as_bytes())?;
    Ok(store.sync_folder(Path::new(""))?)
}

fn check_root(store: &dyn Store) -> Result<(), ArchiveError> {
    let no_archive = || ArchiveError::NoArchive(Path::new(ROOT_MARK).to_owned());
    // A folder with runs in it was an archive.
    let has_runs = || -> Result<bool, StoreError> {
        Ok(store.list(Path::new(""))?.iter().any(|name| run_of(name).is_some()))
    };
    let unmarked = || -> Result<ArchiveError, ArchiveError> {
        Ok(if has_runs()? { ArchiveError::Unmarked(ROOT_MARK.into()) } else { no_archive() })
    };
    let bytes = match read_whole(store, Path::new(ROOT_MARK)) {
        Ok(bytes) => bytes,
        Err(StoreError::NotFound(_)) => return Err(unmarked()?),
        Err(error) => return Err(error.into()),
    };
    let Ok(value) = stamped::read(&bytes) else { return Err(unmarked()?) };
    match value["version"].as_u64() {
        _ if value["format"] != FORMAT => Err(unmarked()?),
        Some(VERSION) => Ok(()),
        other => Err(ArchiveError::Version(other.unwrap_or(0))),
    }
}

impl Archive {
    /// Opens the archive in a folder.
    ///
    /// # Errors
    /// [`ArchiveError::NoArchive`] if the folder is no archive, [`ArchiveError::Version`] if it has a later version.
    pub fn open(root: &Path) -> Result<Self, ArchiveError> {
        let no_archive = |_| ArchiveError::NoArchive(root.to_owned());
        let store = FileStore::open(root).map_err(no_archive)?;
        Self::on(Arc::new(store)).map_err(|error| match error {
            ArchiveError::NoArchive(_) => ArchiveError::NoArchive(root.to_owned()),
            ArchiveError::Unmarked(mark) => ArchiveError::Unmarked(root.join(mark)),
            other => other,
        })
    }

    /// Opens the archive on a store.
    ///
    /// # Errors
    /// [`ArchiveError::NoArchive`] if the folder is no archive, [`ArchiveError::Version`] if it has a later version.
    pub fn on(store: Arc<dyn Store>) -> Result<Self, ArchiveError> {
        check_root(&*store)?;
        Ok(Self { store })
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Returns the runs by name.
    ///
    /// # Errors
    /// [`ArchiveError::Store`] if the disk fails.
    pub fn runs(&self) -> Result<Vec<RunName>, ArchiveError> {
        Ok(self.store.list(Path::new(""))?.iter().filter_map(|name| run_of(name)).collect())
    }

    /// Returns the streams of a run by name, as far as they can be read: [`Self::survey`] also returns the rest.
    ///
    /// # Errors
    /// [`ArchiveError::Unknown`] if there is no such run; [`ArchiveError::Store`] if the disk fails.
    pub fn streams(&self, run: &RunName) -> Result<Vec<StreamEntry>, ArchiveError> {
        Ok(self.survey(run)?.0)
    }

    /// Returns the streams of a run by name, and the epochs that cannot be read: one of them does not hide the
    /// others.
    ///
    /// # Errors
    /// [`ArchiveError::Unknown`] if there is no such run; [`ArchiveError::Store`] if the disk fails.
    pub fn survey(&self, run: &RunName) -> Result<(Vec<StreamEntry>, Vec<Unreadable>), ArchiveError> {
        if !self.runs()?.contains(run) {
            return Err(ArchiveError::Unknown(format!("run {run}")));
        }
        let mut unreadable = Vec::new();
        let lock = run_folder(run).join(LOCK);
        let attended = self.store.is_locked(&lock).map_err(ArchiveError::from).unwrap_or_else(|cause| {
            unreadable.push(Unreadable { folder: lock, cause });
            false
        });
        let attended = if attended { Attended::Yes } else { Attended::No };
        let mut streams: BTreeMap<StreamName, Vec<Recording>> = BTreeMap::new();
        let (folders, misplaced) = epoch_folders(&*self.store, &run_folder(run))?;
        unreadable
            .extend(misplaced.into_iter().map(|(folder, cause)| Unreadable { folder, cause: cause.into() }));
        for folder in folders {
            match recording_in(&*self.store, &folder, attended) {
                Ok(Some(recording)) => {
                    streams.entry((*recording.description.name).clone()).or_default().push(recording);
                }
                Ok(None) => {}
                Err(cause) => unreadable.push(Unreadable { folder, cause }),
            }
        }
        let entry = |(name, mut epochs): (StreamName, Vec<Recording>)| {
            epochs.sort_by_key(|recording| recording.description.epoch);
            StreamEntry { run: run.clone(), name: Arc::new(name), epochs }
        };
        Ok((streams.into_iter().map(entry).collect(), unreadable))
    }

    /// Returns one stream of a run.
    ///
    /// # Errors
    /// [`ArchiveError::Unknown`] if there is no such stream; the error of an unreadable epoch that may belong to it.
    pub fn stream(&self, run: &RunName, name: &StreamName) -> Result<StreamEntry, ArchiveError> {
        let (streams, unreadable) = self.survey(run)?;
        let found = streams.into_iter().find(|entry| *entry.name == *name);
        let cause = || unreadable.into_iter().next().map(|epoch| epoch.cause);
        found.ok_or_else(|| {
            cause().unwrap_or_else(|| ArchiveError::Unknown(format!("stream {name} in run {run}")))
        })
    }

    /// Returns the content of a stream in a range of time, epoch by epoch: blocks and holes in their order.
    pub fn range(&self, stream: &StreamEntry, range: Range<WallTime>) -> Feed {
        Feed::new(Arc::clone(&self.store), stream, range)
    }

    /// Returns the blocks and holes of one epoch in a range of time.
    pub fn epoch(&self, recording: &Recording, range: Range<WallTime>) -> EpochFeed {
        EpochFeed::new(Arc::clone(&self.store), recording.clone(), range)
    }
}

/// State of a run: held by a recorder, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attended {
    Yes,
    No,
}

/// Reads the content of an epoch's folder; `None` if nothing in it was acknowledged.
///
/// # Errors
/// The error that makes the epoch unreadable.
pub(crate) fn recording_in(
    store: &dyn Store,
    folder: &Path,
    attended: Attended,
) -> Result<Option<Recording>, ArchiveError> {
    let attended = attended == Attended::Yes;
    let Some((description, fault)) = EpochContents::description(store, folder)? else {
        return match has_samples(store, folder)? {
            true => Err(ArchiveError::Undescribed(folder.join(DESCRIPTION))),
            false => Ok(None),
        };
    };
    // A recorder at work is about to acknowledge what it has written.
    let tail = if attended { Tail::Leave } else { Tail::Take };
    let contents = EpochContents::read(store, folder, Arc::clone(&description), tail)?;
    let told = &contents.told;
    let (map, gaps_fault) = EpochContents::gap_map(store, folder, &description, told)?;
    let mut damaged: Vec<String> = fault.into_iter().chain(contents.faults.iter().cloned()).collect();
    damaged.extend(gaps_fault);
    let account = told.account.clone();
    let state = match account["state"].as_str() {
        Some("closed") => RecordingState::Closed,
        Some("cut") => RecordingState::Cut,
        _ => RecordingState::Open,
    };
    let segments = &contents.segments;
    let joined = map.sessions.iter().map(|session| session.first_index).min();
    let first_stored = segments.first().map(|segment| segment.first_index);
    let (earlier_accounts, account_faults) = earlier_accounts(store, folder, &contents)?;
    // The line of a session may be damaged: its account has the same.
    let accounts = core::iter::once(&account).chain(&earlier_accounts);
    let counted = accounts.filter_map(|account| account["first_index"].as_u64());
    let joined = joined.into_iter().chain(first_stored).chain(counted).min();
    let reaches =
        contents.refills.iter().map(|refill| refill.note.reaches.clone()).filter(|it| !it.is_empty());
    let begun = reaches.clone().map(|reach| reach.start).chain(joined).min();
    let first_index = joined.or(begun).unwrap_or(0);
    let mut gaps: Vec<GapRecord> = map.gaps.into_values().collect();
    gaps.sort_by_key(|gap| (gap.positions.start, gap.key));
    let begin = begin_of(&description, segments, &gaps);
    for (span, segment) in contents.damaged_spans(first_index) {
        let anchor = anchor_at(&contents, span.start).unwrap_or((first_index, begin));
        let (id, cause) = (u64::from(segment.number) << 32, segment.cause.as_str());
        let damage = Damage { description: &description, samples: span, anchor, id, cause };
        let lost = damage::records(&damage, &gaps);
        if segment.is_missing && !lost.is_empty() {
            damaged.push(segment.cause.clone());
        }
        gaps.extend(lost);
    }
    let found = segments.last().map_or(first_index, |segment| segment.next_index);
    let told_index = told.stored_index.unwrap_or(first_index);
    if told_index > found {
        // The name of a lost file is unknown, but the number of samples is missed.
        let cause = format!(
            "{}: the account tells of samples up to {told_index}, the segments of those up to {found}",
            folder.display()
        );
        let anchor = anchor_at(&contents, found).unwrap_or((first_index, begin));
        let (samples, id) = (found..told_index, u64::from(u32::MAX) << 32);
        let damage = Damage { description: &description, samples, anchor, id, cause: &cause };
        let lost = damage::records(&damage, &gaps);
        if !lost.is_empty() {
            damaged.push(cause.clone());
        }
        gaps.extend(lost);
    }
    let stored_index = found.max(told_index);
    // Another station has samples of before the first recorder, or of behind the last.
    let end = reaches.map(|reach| reach.end).max().filter(|_| !attended || state != RecordingState::Open);
    let anchor = anchor_at(&contents, stored_index).unwrap_or((first_index, begin));
    let beyond =
        Beyond { before: begun.unwrap_or(first_index)..first_index, behind: stored_index..end.unwrap_or(0) };
    gaps.extend(beyond.gaps(&description, anchor, &gaps));
    gaps.sort_by_key(|gap| (gap.positions.start, gap.key));
    damaged.extend(account_faults);
    let refills = contents.refills.iter().map(|refill| refill.note.clone()).collect();
    let refilled = || contents.refills.iter().filter_map(|refill| refill.segment.as_ref());
    let stored = || segments.iter().chain(refilled());
    Ok(Some(Recording {
        description,
        first_index: begun.unwrap_or(first_index),
        stored_index: stored_index.max(end.unwrap_or(0)),
        t0: stored().map(|segment| segment.t0).min().unwrap_or(begin),
        t1: stored().map(|segment| segment.t1).max().unwrap_or(begin),
        samples: stored().map(|segment| segment.samples).sum(),
        size_bytes: stored().map(|segment| segment.size_bytes).sum(),
        refills,
        state,
        attended,
        gaps: gaps.into(),
        damaged,
        account,
        earlier_accounts,
        contents: Arc::new(contents),
    }))
}

/// Samples that another station has, before the first recorder's and behind the last's.
struct Beyond {
    before: Range<u64>,
    behind: Range<u64>,
}

impl Beyond {
    /// Returns them as gaps, as far as none tells of them.
    fn gaps(
        &self,
        description: &Description,
        anchor: (u64, WallTime),
        known: &[GapRecord],
    ) -> Vec<GapRecord> {
        let mut gaps = Vec::new();
        for (id, samples) in [self.before.clone(), self.behind.clone()].into_iter().enumerate() {
            let cause = "another station has recorded it, this one has not";
            let id = u64::from(u32::MAX) << 32 | 1 << 31 | id as u64;
            let damage = Damage { description, samples, anchor, id, cause };
            gaps.extend(damage::records(&damage, known).into_iter().map(|gap| GapRecord {
                // Not of session 0: it is no damage.
                key: GapKey { session: u32::MAX, ..gap.key },
                kind: GapKind::ReaderAbsent,
                lost: StageCounts::default(),
                ..gap
            }));
        }
        gaps
    }
}

/// Returns the accounts of the recorders before the last, and their faults.
fn earlier_accounts(
    store: &dyn Store,
    folder: &Path,
    contents: &EpochContents,
) -> Result<(Vec<Value>, Vec<String>), ArchiveError> {
    let names = store.list(folder)?;
    let found: Vec<u32> = names.iter().filter_map(|name| earlier_account_of(name)).collect();
    let (mut accounts, mut faults) = (Vec::new(), Vec::new());
    for &number in &found {
        let path = folder.join(earlier_account(number));
        let (mut account, mut fault) = read_account(store, &path, &contents.description)?;
        if fault.is_none() && account["session"] != number {
            fault = Some(format!("{}: the account belongs to another session", path.display()));
            account = Value::Null;
        }
        accounts.push(account);
        faults.extend(fault);
    }
    // Every recorder leaves an account, or the recovery after it does.
    let last = contents.told.account["session"].as_u64().unwrap_or(0).min(MAX_SESSIONS);
    let missing = (1..last).filter_map(|number| u32::try_from(number).ok()).filter(|it| !found.contains(it));
    let said = |number| format!("{} is missing", folder.join(earlier_account(number)).display());
    faults.extend(missing.map(said));
    Ok((accounts, faults))
}

/// Maximum number of recorders of an epoch whose missing accounts are reported by number.
const MAX_SESSIONS: u64 = 10_000;

/// Returns the time at which a recording began, as far as any is known.
fn begin_of(description: &Description, segments: &[Segment], gaps: &[GapRecord]) -> WallTime {
    let first = segments.first().map(|segment| segment.t0).or_else(|| gaps.first().map(|gap| gap.t0));
    // An outage that begins with the very first sample has no known time either.
    first.filter(|time| *time != WallTime::default()).unwrap_or_else(|| {
        WallTime::from_nanos(i64::try_from(description.epoch.start_ns).unwrap_or(i64::MAX))
    })
}

/// Returns the index and time of a known sample near a given one.
fn anchor_at(contents: &EpochContents, index: u64) -> Option<(u64, WallTime)> {
    let before = contents.segments.iter().rev().find(|segment| segment.next_index <= index);
    before.map(|segment| (segment.next_index, segment.t1)).or_else(|| {
        let behind = contents.segments.first();
        behind.map(|segment| (segment.first_index, segment.t0))
    })
}
