//! Recovery of a run whose recorder died, before a new recorder writes into it.
//!
//! Everything that an index entry acknowledges is kept, and every later batch that is intact by its own checksum;
//! only other bytes that were never acknowledged are cut, and the cut is recorded. A damaged file is set aside under
//! another name and rebuilt from the others; one that cannot be rebuilt stays where it is. Gaps that the dead
//! recorder could not settle become `unexplained`, holes that it had not declared become gaps, and the time until the
//! next recorder is a gap of kind `reader_absent`. Every step may itself be interrupted: repeating all of them has
//! the same result.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger::{GapKind, HopCounts, StageCounts};
use serde_json::json;
use units::{RangeSet, WallTime};

use crate::Description;
use crate::catalogue::{Attended, recording_in};
use crate::checksum::crc32c;
use crate::columns::arrow_schema;
use crate::compact::read_back;
use crate::contents::{EpochContents, SegmentContent, has_samples};
use crate::error::ArchiveError;
use crate::folders::{
    ACCOUNT, ClosedSegment, DESCRIPTION, GAPS, RunName, SegmentFile, arrow_paths, earlier_account_of,
    epoch_folders, run_folder, segment_of, segment_path,
};
use crate::gaps::{GapKey, GapMap, GapRecord, Line, Mended, Origin, Trim};
use crate::index::layout::HEADER_BYTES;
use crate::index::{Entry, Index};
use crate::later_versions;
use crate::parquet_file::ParquetSegment;
use crate::recorder::accounts::make_room;
use crate::recorder::gap_file::{GapFile, NO_EVIDENCE};
use crate::salvage::{Look, Tail, ends_there};
use crate::segment::{END_OF_STREAM, SegmentReader};
use crate::stamped::stamp;
use crate::store::{
    Readable, Store, StoreError, copy_aside, read_whole, remove_if_there, replace, set_aside,
};
use crate::told::{Files, Told};
use crate::version::VERSION;

/// Epoch that a new recorder can continue.
#[derive(Debug)]
pub(crate) struct Resumable {
    pub(crate) description: Arc<Description>,
    /// Number of the last recorder's session.
    pub(crate) session: u32,
    pub(crate) next_segment: u32,
    /// Number of the last segment with stored samples.
    pub(crate) last_segment: u32,
    pub(crate) next_gap: u64,
    /// Index one behind the last stored sample, and its time.
    pub(crate) stored_index: u64,
    pub(crate) stored_until: WallTime,
    /// Positions behind that which were declared missing.
    pub(crate) declared: RangeSet,
    /// Absence that began when the last recorder died.
    pub(crate) open_absence: Option<GapKey>,
    /// Size of the intact lines of the gap map, in bytes.
    pub(crate) gap_bytes: u64,
    /// Number of bytes that were cut.
    pub(crate) cut_bytes: u64,
    /// Files that were set aside or rebuilt.
    pub(crate) mended: Vec<Mended>,
    /// Damaged files that were left unchanged, because they may be restored from a copy.
    pub(crate) left: Vec<String>,
    /// Segments that are not compacted yet.
    pub(crate) closed: Vec<ClosedSegment>,
}

/// Result of recovering a run.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) epochs: Vec<Resumable>,
    /// Files and folders that were left unchanged because they cannot be identified: path and cause.
    pub(crate) left_alone: Vec<(PathBuf, String)>,
}

/// Recovers every epoch of a run.
///
/// # Errors
/// [`ArchiveError::Later`] and the like if a file has a later version: the epoch is then left unchanged. The error of
/// the disk.
pub(crate) fn recover_run(store: &dyn Store, run: &RunName) -> Result<Recovered, ArchiveError> {
    let mut recovered = Recovered::default();
    let (folders, misplaced) = epoch_folders(store, &run_folder(run))?;
    recovered
        .left_alone
        .extend(misplaced.into_iter().map(|(path, error)| (path, ArchiveError::from(error).first_line())));
    for folder in folders {
        match recover_epoch(store, &folder) {
            Ok(found) => {
                if let Some(mut found) = found {
                    // The state that any reader finds now.
                    found.left = match recording_in(store, &folder, Attended::No) {
                        Ok(recording) => recording.map(|recording| recording.damaged).unwrap_or_default(),
                        Err(error) if error.is_damage() => vec![error.first_line()],
                        Err(error) => return Err(error),
                    };
                    recovered.epochs.push(found);
                }
            }
            Err(error) if error.is_damage() => recovered.left_alone.push((folder, error.first_line())),
            Err(error) => return Err(error),
        }
    }
    Ok(recovered)
}

/// Recovers an epoch of an earlier recorder; `None` if nothing was acknowledged.
pub(crate) fn recover_epoch(store: &dyn Store, folder: &Path) -> Result<Option<Resumable>, ArchiveError> {
    // A description is durable before the first acknowledgement: without one nothing here was acknowledged.
    let Some((description, fault)) = EpochContents::description(store, folder)? else { return Ok(None) };
    later_versions::check_folder(store, folder, &description)?;
    let mut mended = Vec::new();
    if let Some(cause) = fault {
        let text = stamp(&description.to_json());
        mended.push(make_again(store, folder, DESCRIPTION, text.as_bytes(), cause)?);
    }
    let told = Told::of(store, folder, &description)?;
    let (map, mut gaps) = mend_gap_map(store, folder, &description, &told, &mut mended)?;
    if let Some(cause) = &told.fault {
        let kept_as = set_aside(store, &folder.join(ACCOUNT))?;
        let cause = cause.clone();
        mended.push(Mended { file: ACCOUNT.to_owned(), kept_as: Some(kept_as), cause });
    }
    let trims = trim_segments(store, folder, &description, &told, (&mut gaps, &mut mended))?;
    let contents = EpochContents::read(store, folder, description, Tail::Take)?;
    if told.account.is_null() && told.fault.is_none() && !contents.segments.is_empty() {
        let cause = format!("{} is missing", folder.join(ACCOUNT).display());
        mended.push(Mended { file: ACCOUNT.to_owned(), kept_as: None, cause });
    }
    let mut recovery = Recovery::new(store, contents, map)?;
    let was_closed = recovery.was_closed();
    if !was_closed {
        recovery.settle(&mut gaps);
    }
    // Declared holes may have been lost with a damaged gap map.
    if !was_closed || mended.iter().any(|it| it.file == GAPS) {
        let why = if was_closed { NOT_IN_MAP } else { NOT_DECLARED };
        recovery.declare_holes(&mut gaps, why)?;
    }
    if !was_closed {
        recovery.open_absence(&mut gaps);
    }
    gaps.write()?;
    let lines: Vec<Line> = mended.iter().cloned().map(Line::Mended).collect();
    if !lines.is_empty() {
        gaps.write_lines(&lines)?;
    }
    gaps.sync()?;
    if !was_closed || !mended.is_empty() {
        recovery.rewrite_account(was_closed, gaps.synced_bytes())?;
    }
    store.sync_folder(folder)?;
    let mut found = recovery.finish();
    found.cut_bytes = trims.iter().map(|trim| trim.cut_bytes).sum();
    found.gap_bytes = gaps.synced_bytes();
    found.mended = mended;
    Ok(Some(found))
}

/// Reason given for a hole that the recovery declares.
const NOT_DECLARED: &str = "the recorder ended before it was declared";
const NOT_IN_MAP: &str = "its declaration was lost with the gap map";

/// Rewrites a file; an existing one is kept under another name.
fn make_again(
    store: &dyn Store,
    folder: &Path,
    name: &str,
    content: &[u8],
    cause: String,
) -> Result<Mended, StoreError> {
    let path = folder.join(name);
    let kept_as = match read_whole(store, &path) {
        // By a copy: an interruption leaves the file in its place, and never removes it.
        Ok(bytes) => Some(copy_aside(store, &path, &bytes)?),
        Err(StoreError::NotFound(_)) => None,
        Err(_) => Some(set_aside(store, &path)?),
    };
    replace(store, &path, content)?;
    Ok(Mended { file: name.to_owned(), kept_as, cause })
}

/// Opens the gap map for appending; a damaged one is set aside, and its intact lines are copied to a new one.
fn mend_gap_map(
    store: &dyn Store,
    folder: &Path,
    description: &Description,
    told: &Told,
    mended: &mut Vec<Mended>,
) -> Result<(GapMap, GapFile), ArchiveError> {
    let (map, fault) = EpochContents::gap_map(store, folder, description, told)?;
    let bytes = match read_whole(store, &folder.join(GAPS)) {
        Ok(bytes) => Some(bytes),
        Err(StoreError::NotFound(_)) => None,
        Err(error) if error.is_damage() => Some(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let Some(bytes) = bytes else {
        let gaps = GapFile::create(store, folder, description)?;
        // Nothing was acknowledged before there was a gap map.
        let promised = told.stored_index.is_some() || has_samples(store, folder)?;
        let lost = fault.filter(|_| promised);
        mended.extend(lost.map(|cause| Mended { file: GAPS.to_owned(), kept_as: None, cause }));
        return Ok((map, gaps));
    };
    let Some(cause) = fault else {
        let gaps = GapFile::resume(store, folder, description, map.intact_bytes)?;
        return Ok((map, gaps));
    };
    let is_ours = map.intact_bytes > 0;
    if is_ours && map.spoiled == 0 && map.damaged == 0 {
        // The file is only shorter than it was: its content is continued.
        let gaps = GapFile::resume(store, folder, description, map.intact_bytes)?;
        mended.push(Mended { file: GAPS.to_owned(), kept_as: None, cause });
        return Ok((map, gaps));
    }
    let lines = match is_ours {
        true => GapMap::whole_lines(&bytes, description),
        false => Line::head_of(description).encode(),
    };
    mended.push(make_again(store, folder, GAPS, lines.as_bytes(), cause)?);
    let gaps = GapFile::resume(store, folder, description, lines.len() as u64)?;
    Ok((map, gaps))
}

/// Cuts from every segment the bytes that were never acknowledged and are no batch, and closes it.
fn trim_segments(
    store: &dyn Store,
    folder: &Path,
    description: &Arc<Description>,
    told: &Told,
    (gaps, mended): (&mut GapFile, &mut Vec<Mended>),
) -> Result<Vec<Trim>, ArchiveError> {
    let names = store.list(folder)?;
    for draft in names.iter().filter(|name| name.ends_with(".draft")) {
        remove_if_there(store, [folder.join(draft).as_path()])?;
    }
    let files: Vec<_> = names.iter().filter_map(|name| segment_of(name)).collect();
    let mut numbers: Vec<u32> = files.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    let told_index = told.stored_index.unwrap_or(0);
    let told_segment = told.last_segment;
    let look = Look { store, folder, description, told_index, told_segment, tail: Tail::Take };
    let last = numbers.last().copied();
    let mut trimming = Trimming { look, gaps, mended, trims: Vec::new() };
    for number in numbers {
        let has = |file| files.contains(&(number, file));
        if !has(SegmentFile::Parquet) || trimming.sets_parquet_aside(number, has(SegmentFile::Arrow))? {
            trimming.segment(number, last == Some(number))?;
            continue;
        }
        // If it is intact, the rest of its original only takes space. If not, the index has the range it held.
        let is_whole =
            has(SegmentFile::Arrow) || has(SegmentFile::Index) && trimming.opens_parquet(number)?;
        if is_whole {
            let [data, sidecar] = arrow_paths(folder, number);
            remove_if_there(store, [&*data, &*sidecar])?;
        }
    }
    Ok(trimming.trims)
}

struct Trimming<'a> {
    look: Look<'a>,
    gaps: &'a mut GapFile,
    mended: &'a mut Vec<Mended>,
    trims: Vec<Trim>,
}

impl Trimming<'_> {
    /// Sets a damaged Parquet segment aside while its original still exists. Returns whether it did.
    fn sets_parquet_aside(&mut self, number: u32, has_origin: bool) -> Result<bool, ArchiveError> {
        if !has_origin {
            return Ok(false);
        }
        let Look { store, folder, description, .. } = self.look;
        let path = segment_path(folder, number, SegmentFile::Parquet);
        let arrow = arrow_schema(description);
        let whole = ParquetSegment::open_as(store, &path, description, number)
            .and_then(|_| read_back(store, &path, description, &arrow));
        match whole {
            Ok(_) => Ok(false),
            Err(error) if error.is_damage() => {
                let kept_as = Some(set_aside(store, &path)?);
                self.mended.push(Mended { file: name_of(&path), kept_as, cause: error.first_line() });
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn opens_parquet(&self, number: u32) -> Result<bool, ArchiveError> {
        let Look { store, folder, description, .. } = self.look;
        let path = segment_path(folder, number, SegmentFile::Parquet);
        match ParquetSegment::open_as(store, &path, description, number) {
            Ok(_) => Ok(true),
            Err(error) if error.is_damage() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn segment(&mut self, number: u32, is_last: bool) -> Result<(), ArchiveError> {
        let Look { store, folder, told_index, .. } = self.look;
        let [data, sidecar] = arrow_paths(folder, number);
        let found = match self.look.at(number) {
            Ok(found) => found,
            Err(error) if error.is_not_found() => {
                // An index alone: if it has samples, they are missing, and it is kept as their record.
                if !has_entries(store, &sidecar)? {
                    self.remove([&data, &sidecar])?;
                }
                return Ok(());
            }
            // It stays where it is: it may be put back, and no other file needs its name.
            Err(error) if error.is_damage() => return Ok(()),
            Err(error) => return Err(error),
        };
        let behind = found.index.entries.last().map(|entry| entry.next_index);
        let end = found.index.acknowledged_bytes();
        let ended = found.index.ended;
        let has_end = ends_there(&*store.open(&data)?, end, found.data_bytes)?;
        let kept_data = if ended || has_end { end + END_OF_STREAM.len() as u64 } else { end };
        let has_more = found.data_bytes > kept_data;
        let mut lacks = found.incomplete
            || match is_last {
                true => behind.unwrap_or(0) < told_index,
                // Remains of a crash are in the last segment only: here they are damage, or another segment's.
                false => found.rebuilt && !found.faults.is_empty() && has_more,
            };
        let Some(last) = found.index.entries.last() else {
            return if lacks { Ok(()) } else { self.remove([&data, &sidecar]) };
        };
        // A segment that the index does not describe is not cut by it.
        lacks |= has_more && !is_stored(&*store.open(&data)?, last)?;
        let mut cuts = Vec::new();
        if !lacks && has_more {
            cuts.push((&data, trim_of(&data, kept_data, found.data_bytes)));
        }
        if !found.rebuilt && found.index_bytes > found.index.intact_bytes {
            cuts.push((&sidecar, trim_of(&sidecar, found.index.intact_bytes, found.index_bytes)));
        }
        self.note(cuts.iter().map(|(_, trim)| trim))?;
        if found.rebuilt || found.unacknowledged > 0 {
            // The batch is made durable before an entry says so.
            store.append_to(&data)?.sync()?;
        }
        for (path, trim) in &cuts {
            let mut file = store.append_to(path)?;
            file.truncate(trim.kept_bytes)?;
            file.sync()?;
        }
        if found.rebuilt {
            let cause = found.faults.join("; ");
            let mut content = found.index.encode();
            if ended {
                content.extend(end_of(&found.index));
            }
            // Without a fault it is as a crash left it, before its first entry.
            match found.faults.is_empty() {
                true => replace(store, &sidecar, &content)?,
                false => {
                    self.mended.push(make_again(store, folder, &name_of(&sidecar), &content, cause)?);
                }
            }
        } else if found.unacknowledged > 0 {
            let known = found.index.entries.len() - found.unacknowledged;
            let entries = found.index.entries[known..].iter().map(Entry::encode).collect::<Vec<_>>();
            let mut file = store.append_to(&sidecar)?;
            file.append(&entries.iter().map(<[u8; 64]>::as_slice).collect::<Vec<_>>())?;
            file.sync()?;
        }
        if !ended && !lacks {
            close_segment(store, [&data, &sidecar], &found.index, has_end)?;
        }
        Ok(())
    }

    /// Removes a segment that has no samples and never had acknowledged ones.
    fn remove(&mut self, paths: [&Path; 2]) -> Result<(), ArchiveError> {
        let store = self.look.store;
        let mut trims = Vec::new();
        for path in paths {
            match store.open(path) {
                Ok(file) => trims.extend(
                    Some(file.size_bytes()?).filter(|size| *size > 0).map(|size| trim_of(path, 0, size)),
                ),
                Err(StoreError::NotFound(_) | StoreError::Misplaced { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.note(trims.iter())?;
        Ok(remove_if_there(store, paths)?)
    }

    /// Records cuts before they are made: an interrupted recovery then reports them twice, never not at all.
    fn note<'b>(&mut self, trims: impl Iterator<Item = &'b Trim>) -> Result<(), ArchiveError> {
        let trims: Vec<Trim> = trims.cloned().collect();
        if trims.is_empty() {
            return Ok(());
        }
        let lines: Vec<Line> = trims.iter().cloned().map(Line::Trim).collect();
        self.gaps.write_lines(&lines)?;
        self.gaps.sync()?;
        self.trims.extend(trims);
        Ok(())
    }
}

/// Returns whether the batch of an entry is at its offset, byte for byte.
fn is_stored(data: &dyn Readable, entry: &Entry) -> Result<bool, StoreError> {
    let Ok(length) = usize::try_from(entry.length) else { return Ok(false) };
    if entry.end() > data.size_bytes()? {
        return Ok(false);
    }
    let mut batch = vec![0; length];
    data.read_at(entry.offset, &mut batch)?;
    Ok(crc32c([&batch[..]]) == entry.data_crc)
}

fn name_of(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned()
}

fn trim_of(path: &Path, kept_bytes: u64, size_bytes: u64) -> Trim {
    Trim { file: name_of(path), kept_bytes, cut_bytes: size_bytes - kept_bytes }
}

/// Returns whether an index may have acknowledged something.
fn has_entries(store: &dyn Store, path: &Path) -> Result<bool, StoreError> {
    match read_whole(store, path) {
        Ok(bytes) => Ok(bytes.iter().skip(HEADER_BYTES).any(|byte| *byte != 0)),
        Err(StoreError::NotFound(_)) => Ok(false),
        Err(error) if error.is_damage() => Ok(true),
        Err(error) => Err(error),
    }
}

fn end_of(index: &Index) -> [u8; 64] {
    let next_index = index.entries.last().map_or(0, |entry| entry.next_index);
    Entry::encode_end(index.acknowledged_bytes(), END_OF_STREAM.len() as u64, next_index)
}

fn close_segment(
    store: &dyn Store,
    [data, sidecar]: [&Path; 2],
    index: &Index,
    has_end: bool,
) -> Result<(), ArchiveError> {
    let mut file = store.append_to(data)?;
    if !has_end {
        file.append(&[&END_OF_STREAM])?;
    }
    file.sync()?;
    let mut file = store.append_to(sidecar)?;
    file.append(&[&end_of(index)])?;
    Ok(file.sync()?)
}

struct Recovery<'a> {
    store: &'a dyn Store,
    contents: EpochContents,
    map: GapMap,
    session: u32,
    next_gap: u64,
    open_absence: Option<GapKey>,
}

impl<'a> Recovery<'a> {
    fn new(store: &'a dyn Store, contents: EpochContents, map: GapMap) -> Result<Self, StoreError> {
        // The gap map may be lost, but a number must never be used twice: every file that has one is read.
        let joined = map.sessions.iter().map(|session| session.number);
        let of_gaps = map.gaps.keys().map(|key| key.session);
        let told = contents.told.account["session"].as_u64().and_then(|number| u32::try_from(number).ok());
        let names = store.list(&contents.folder)?;
        // An account has such a name because another session continued the epoch.
        let earlier = names.iter().filter_map(|name| earlier_account_of(name)?.checked_add(1));
        let session = joined.chain(of_gaps).chain(told).chain(earlier).max().unwrap_or(0).max(1);
        let own = map.gaps.keys().filter(|key| key.origin == Origin::Archive);
        let next_gap = own.map(|key| key.id + 1).max().unwrap_or(0);
        // Without an end, but in the map already: an earlier recovery was interrupted after this step.
        let open_absence = map.gaps.values().find(|gap| gap.t1.is_none()).map(|gap| gap.key);
        Ok(Self { store, contents, map, session, next_gap, open_absence })
    }

    /// Returns whether the last recorder ended normally: then it left nothing open.
    fn was_closed(&self) -> bool {
        let account = &self.contents.told.account;
        account["session"] == self.session && matches!(account["state"].as_str(), Some("closed" | "cut"))
    }

    /// Turns unsettled elements into unexplained ones: no more evidence will come (rule 13, state `cut`).
    fn settle(&mut self, gaps: &mut GapFile) {
        for gap in self.map.gaps.values_mut().filter(|gap| !gap.settled()) {
            gap.unexplained += core::mem::take(&mut gap.unsettled);
            gap.evidence.push(NO_EVIDENCE.to_owned());
            gaps.note(gap.clone());
        }
    }

    /// Declares the holes between stored samples that are not in the gap map.
    fn declare_holes(&mut self, gaps: &mut GapFile, why: &str) -> Result<(), ArchiveError> {
        let per_sample = self.per_sample();
        let joined = self.map.sessions.iter().map(|session| session.first_index);
        let found = self.contents.segments.first().map(|segment| segment.first_index);
        let stored_index = self.stored_index();
        let first = joined.chain(found).min().unwrap_or(stored_index).min(stored_index);
        let mut undeclared: RangeSet =
            core::iter::once(first * per_sample..stored_index * per_sample).collect();
        for gap in self.map.gaps.values() {
            undeclared.remove(gap.positions.clone());
        }
        for stored in self.stored_samples()?.into_iter().chain(self.damaged_samples(first)) {
            undeclared.remove(stored.start * per_sample..stored.end * per_sample);
        }
        for positions in undeclared.iter().collect::<Vec<_>>() {
            let mut gap = self.gap(GapKind::Missing, positions, why);
            gap.evidence.extend(self.contents.faults.iter().cloned());
            self.map.gaps.insert(gap.key, gap.clone());
            gaps.note(gap);
        }
        Ok(())
    }

    /// Returns the samples that were stored and cannot be read: no hole is recorded for them, because their file may
    /// be restored from a copy. Readers see the damage.
    fn damaged_samples(&self, first: u64) -> Vec<core::ops::Range<u64>> {
        let found = self.contents.segments.iter().map(|segment| segment.next_index).max().unwrap_or(first);
        let told = self.contents.told.stored_index.unwrap_or(first);
        let spans = self.contents.damaged_spans(first).into_iter().map(|(span, _)| span);
        spans.chain((told > found).then_some(found..told)).collect()
    }

    fn stored_samples(&self) -> Result<Vec<core::ops::Range<u64>>, ArchiveError> {
        let EpochContents { folder, description, segments, .. } = &self.contents;
        let mut stored = Vec::new();
        for segment in segments {
            let SegmentContent::Arrow(index) = &segment.content else {
                stored.push(segment.first_index..segment.next_index);
                continue;
            };
            let holey = |entry: &Entry| entry.next_index - entry.first_index > u64::from(entry.samples);
            let mut reader = None;
            for entry in &index.entries {
                if !holey(entry) {
                    stored.push(entry.first_index..entry.next_index);
                    continue;
                }
                let reader = match &mut reader {
                    Some(reader) => reader,
                    none => none.insert(SegmentReader::open(self.store, folder, description, index.clone())?),
                };
                // A damaged batch is a hole that is not recorded: it may be restored from a copy.
                let runs = match reader.rows(entry) {
                    Ok(rows) => rows.runs(),
                    Err(error) if error.is_damage() => {
                        stored.push(entry.first_index..entry.next_index);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                stored
                    .extend(runs.iter().map(|run| run.first_index..run.first_index + run.rows.len() as u64));
            }
        }
        Ok(stored)
    }

    fn open_absence(&mut self, gaps: &mut GapFile) {
        if self.open_absence.is_some() {
            return;
        }
        let at = self.stored_index() * self.per_sample();
        let mut gap = self.gap(GapKind::ReaderAbsent, at..at, "the recorder was killed or lost its power");
        gap.t1 = None;
        self.open_absence = Some(gap.key);
        gaps.note(gap);
    }

    fn gap(&mut self, kind: GapKind, positions: core::ops::Range<u64>, why: &str) -> GapRecord {
        let (stored_index, until) = (self.stored_index(), self.stored_until());
        let rate = self.contents.description.schema.rate;
        let per_sample = self.per_sample();
        let id = self.next_gap;
        self.next_gap += 1;
        GapRecord {
            key: GapKey { session: self.session, origin: Origin::Archive, id },
            kind,
            t0: rate.time_of(positions.start / per_sample, stored_index, until),
            t1: Some(rate.time_of(positions.end.div_ceil(per_sample), stored_index, until)),
            unexplained: if kind == GapKind::Missing { positions.end - positions.start } else { 0 },
            positions,
            numbers: 0..0,
            lost: StageCounts::default(),
            unsettled: 0,
            inherited: HopCounts::default(),
            apportioned: false,
            evidence: vec![why.to_owned()],
        }
    }

    /// Rewrites the account, because the recorder that kept it has ended.
    fn rewrite_account(&self, was_closed: bool, gap_bytes: u64) -> Result<(), ArchiveError> {
        let EpochContents { folder, description, told, .. } = &self.contents;
        make_room(self.store, folder, self.session)?;
        // The account of an earlier session was renamed.
        let found = &told.account;
        let is_own = found["session"] == self.session;
        let mut account = if is_own { found.clone() } else { json!({}) };
        account["format"] = "tallycast-archive-account".into();
        account["version"] = VERSION.into();
        account["stream"] = description.name.as_str().into();
        account["epoch"] = description.epoch.to_string().into();
        account["session"] = self.session.into();
        if !was_closed {
            account["state"] = "cut".into();
            account["recovered"] = true.into();
        }
        account["stored_index"] = self.stored_index().into();
        account["files"] = json!(Files { last_segment: self.last_segment(), gap_bytes });
        Ok(replace(self.store, &folder.join(ACCOUNT), stamp(&account).as_bytes())?)
    }

    fn last_segment(&self) -> u32 {
        let found = self.contents.segments.iter().map(|segment| segment.number).max();
        found.max(self.contents.told.last_segment).unwrap_or(0)
    }

    fn finish(self) -> Resumable {
        let per_sample = self.per_sample();
        let (stored_index, stored_until) = (self.stored_index(), self.stored_until());
        let behind = stored_index * per_sample;
        let beyond = |gap: &GapRecord| gap.positions.start.max(behind)..gap.positions.end.max(behind);
        Resumable {
            session: self.session,
            next_segment: self.contents.next_segment,
            last_segment: self.last_segment(),
            mended: Vec::new(),
            left: Vec::new(),
            next_gap: self.next_gap,
            stored_index,
            stored_until,
            declared: self.map.gaps.values().map(beyond).collect(),
            open_absence: self.open_absence,
            gap_bytes: 0,
            cut_bytes: 0,
            closed: self.contents.uncompacted().collect(),
            description: self.contents.description,
        }
    }

    fn stored_index(&self) -> u64 {
        let joined = self.map.sessions.iter().map(|session| session.first_index).min();
        let found = self.contents.segments.iter().map(|segment| segment.next_index).max();
        // Samples that were stored and are missing now are damage: the recorder was not absent then.
        let damaged =
            self.contents.damaged.iter().filter_map(|it| it.span.as_ref()).map(|span| span.end).max();
        found.max(damaged).max(self.contents.told.stored_index).or(joined).unwrap_or(0)
    }

    fn stored_until(&self) -> WallTime {
        let rate = self.contents.description.schema.rate;
        let last = self.contents.segments.last();
        last.map_or_else(WallTime::default, |it| rate.time_of(self.stored_index(), it.next_index, it.t1))
    }

    fn per_sample(&self) -> u64 {
        u64::from(self.contents.description.schema.elements_per_sample())
    }
}
