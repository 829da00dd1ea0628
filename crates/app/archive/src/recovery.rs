//! What is done with the remains of a recorder that died, before a new one writes beside them.
//!
//! Only what an index entry acknowledges is kept; everything behind it is cut and the cut written down. What
//! the dead recorder could not settle any more becomes `unexplained`, holes it had not declared become gaps,
//! and the time until somebody records again is a gap of kind `reader_absent`. Every step may itself be cut:
//! doing it all again comes to the same result.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger::{GapKind, StageCounts};
use serde_json::Value;
use units::{RangeSet, WallTime};

use crate::Description;
use crate::compact::ClosedSegment;
use crate::contents::{EpochContents, SegmentContent};
use crate::error::ArchiveError;
use crate::folders::{
    ACCOUNT, DESCRIPTION, GAPS, RunName, SegmentFile, run_folder, segment_of, segment_path,
};
use crate::gaps::{GapKey, GapMap, GapRecord, Line, Origin, Trim};
use crate::index::{Entry, Index, IndexError};
use crate::recorder::accounts::make_room;
use crate::recorder::gap_file::{GapFile, NO_EVIDENCE};
use crate::segment::SegmentReader;
use crate::store::{Store, StoreError, read_whole, replace};

/// An epoch that a new recorder can continue.
#[derive(Debug)]
pub(crate) struct Resumable {
    pub(crate) description: Arc<Description>,
    /// The last recorder's number.
    pub(crate) session: u32,
    pub(crate) next_segment: u32,
    pub(crate) next_gap: u64,
    /// Index behind the last stored sample, and its time.
    pub(crate) stored_index: u64,
    pub(crate) stored_until: WallTime,
    /// Positions behind that which were declared missing.
    pub(crate) declared: RangeSet,
    /// The absence that began when the last recorder died.
    pub(crate) open_absence: Option<GapKey>,
    /// Size of the gap map in whole lines.
    pub(crate) gap_bytes: u64,
    /// How much had to be cut.
    pub(crate) cut_bytes: u64,
    /// What is not compacted yet.
    pub(crate) closed: Vec<ClosedSegment>,
}

/// Recovers every epoch of a run.
///
/// # Errors
/// If something is there that is not ours or of a later version: it is then left as it is.
pub(crate) fn recover_run(store: &dyn Store, run: &RunName) -> Result<Vec<Resumable>, ArchiveError> {
    let mut recovered = Vec::new();
    for folder in epoch_folders(store, &run_folder(run))? {
        recovered.extend(recover_epoch(store, &folder)?);
    }
    Ok(recovered)
}

/// Returns the epoch folders of a run.
pub(crate) fn epoch_folders(store: &dyn Store, run: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut folders = Vec::new();
    for stream in store.list(run)?.into_iter().filter(|name| name.starts_with("stream=")) {
        let stream = run.join(stream);
        let epochs = store.list(&stream)?.into_iter().filter(|name| name.starts_with("epoch="));
        folders.extend(epochs.map(|epoch| stream.join(epoch)));
    }
    Ok(folders)
}

fn recover_epoch(store: &dyn Store, folder: &Path) -> Result<Option<Resumable>, ArchiveError> {
    // A description is durable before the first acknowledgement: without one nothing here was promised.
    let Some(description) = EpochContents::description(store, folder)? else { return Ok(None) };
    restore_description(store, folder, &description)?;
    let map = EpochContents::gap_map(store, folder)?;
    let mut gaps = match store.open(&folder.join(GAPS)) {
        Ok(_) => GapFile::resume(store, folder, map.intact_bytes)?,
        Err(StoreError::NotFound(_)) => GapFile::create(store, folder)?,
        Err(error) => return Err(error.into()),
    };
    let trims = trim_segments(store, folder, &mut gaps)?;
    let contents = EpochContents::read(store, folder, description)?;
    let mut recovery = Recovery::new(store, contents, map);
    if !recovery.was_closed() {
        recovery.settle(&mut gaps);
        recovery.declare_holes(&mut gaps)?;
        recovery.open_absence(&mut gaps);
        gaps.write()?;
        gaps.sync()?;
        recovery.mark_cut()?;
    }
    store.sync_folder(folder)?;
    let mut found = recovery.finish();
    found.cut_bytes = trims.iter().map(|trim| trim.cut_bytes).sum();
    found.gap_bytes = EpochContents::gap_map(store, folder)?.intact_bytes;
    Ok(Some(found))
}

/// Writes a description that had to be taken from a segment's metadata back to its place.
fn restore_description(
    store: &dyn Store,
    folder: &Path,
    description: &Description,
) -> Result<(), ArchiveError> {
    let path = folder.join(DESCRIPTION);
    let stored = read_whole(store, &path).ok();
    if stored.is_some_and(|bytes| Description::decode(&bytes).is_ok()) {
        return Ok(());
    }
    let text = format!("{:#}\n", description.to_json());
    Ok(replace(store, &path, text.as_bytes())?)
}

/// Cuts every segment to what its index acknowledges, and closes it.
fn trim_segments(store: &dyn Store, folder: &Path, gaps: &mut GapFile) -> Result<Vec<Trim>, ArchiveError> {
    let names = store.list(folder)?;
    for draft in names.iter().filter(|name| name.ends_with(".draft")) {
        store.remove(&folder.join(draft))?;
    }
    let mut trims = Vec::new();
    let files: Vec<_> = names.iter().filter_map(|name| segment_of(name)).collect();
    let mut numbers: Vec<u32> = files.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    for number in numbers {
        let has = |file| files.contains(&(number, file));
        if has(SegmentFile::Parquet) {
            // It was verified before it got its name; what is left of its origin only takes space.
            for file in [SegmentFile::Arrow, SegmentFile::Index].into_iter().filter(|&file| has(file)) {
                store.remove(&segment_path(folder, number, file))?;
            }
        } else {
            trim_segment(store, folder, number, gaps, &mut trims)?;
        }
    }
    Ok(trims)
}

fn trim_segment(
    store: &dyn Store,
    folder: &Path,
    number: u32,
    gaps: &mut GapFile,
    trims: &mut Vec<Trim>,
) -> Result<(), ArchiveError> {
    let data = segment_path(folder, number, SegmentFile::Arrow);
    let sidecar = segment_path(folder, number, SegmentFile::Index);
    let bytes = match read_whole(store, &sidecar) {
        Ok(bytes) => bytes,
        Err(StoreError::NotFound(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let index = match Index::decode(&bytes) {
        Ok(index) if index.entries.is_empty() => None,
        Ok(index) => Some(index),
        // Perhaps torn, perhaps rotten: what may have been acknowledged is left to be looked at.
        Err(IndexError::Damaged) if Index::has_entry(&bytes) => return Ok(()),
        Err(IndexError::NoHeader(_) | IndexError::Damaged) => None,
        Err(cause) => return Err(ArchiveError::Index { path: sidecar, cause }),
    };
    let (kept_data, kept_index) = match &index {
        Some(index) => (index.acknowledged_bytes() + if index.ended { 8 } else { 0 }, index.intact_bytes),
        None => (0, 0),
    };
    let mut cuts = Vec::new();
    for (path, kept_bytes) in [(&data, kept_data), (&sidecar, kept_index)] {
        let size_bytes = match store.open(path) {
            Ok(file) => file.size_bytes()?,
            Err(StoreError::NotFound(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        if size_bytes > kept_bytes {
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            cuts.push((path, Trim { file, kept_bytes, cut_bytes: size_bytes - kept_bytes }));
        }
    }
    // First write down what will be cut: a recovery that is itself cut then tells it twice, not never.
    let lines: Vec<Line> = cuts.iter().map(|(_, trim)| Line::Trim(trim.clone())).collect();
    if !lines.is_empty() {
        gaps.write_lines(&lines)?;
        gaps.sync()?;
    }
    match index {
        Some(index) => {
            for (path, trim) in &cuts {
                let mut file = store.append_to(path)?;
                file.truncate(trim.kept_bytes)?;
                file.sync()?;
            }
            if !index.ended {
                close_segment(store, [&data, &sidecar], &index)?;
            }
        }
        None => remove_if_there(store, [&data, &sidecar])?,
    }
    trims.extend(cuts.into_iter().map(|(_, trim)| trim));
    Ok(())
}

fn close_segment(store: &dyn Store, [data, sidecar]: [&Path; 2], index: &Index) -> Result<(), ArchiveError> {
    let mut file = store.append_to(data)?;
    file.append(&[&crate::segment::END_OF_STREAM])?;
    file.sync()?;
    let next_index = index.entries.last().map_or(0, |entry| entry.next_index);
    let length = crate::segment::END_OF_STREAM.len() as u64;
    let mut file = store.append_to(sidecar)?;
    file.append(&[&Entry::encode_end(index.acknowledged_bytes(), length, next_index)])?;
    Ok(file.sync()?)
}

fn remove_if_there(store: &dyn Store, paths: [&Path; 2]) -> Result<(), StoreError> {
    for path in paths {
        match store.remove(path) {
            Ok(()) | Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
    fn new(store: &'a dyn Store, contents: EpochContents, map: GapMap) -> Self {
        let session = map.sessions.iter().map(|session| session.number).max().unwrap_or(0);
        let own = map.gaps.keys().filter(|key| key.origin == Origin::Archive);
        let next_gap = own.map(|key| key.id + 1).max().unwrap_or(0);
        // Without an end, but in the map already: an earlier recovery got this far.
        let open_absence = map.gaps.values().find(|gap| gap.t1.is_none()).map(|gap| gap.key);
        Self { store, contents, map, session, next_gap, open_absence }
    }

    /// Tells whether the last recorder ended by itself: then it left nothing open.
    fn was_closed(&self) -> bool {
        let account = read_whole(self.store, &self.contents.folder.join(ACCOUNT)).ok();
        let account: Option<Value> = account.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        account.is_some_and(|account| {
            account["session"] == self.session && matches!(account["state"].as_str(), Some("closed" | "cut"))
        })
    }

    /// Nobody will bring evidence any more: what is unsettled is unexplained (rule 13, state `cut`).
    fn settle(&mut self, gaps: &mut GapFile) {
        for gap in self.map.gaps.values_mut().filter(|gap| !gap.settled()) {
            gap.unexplained += core::mem::take(&mut gap.unsettled);
            gap.evidence.push(NO_EVIDENCE.to_owned());
            gaps.note(gap.clone());
        }
    }

    /// Declares the holes between stored samples that the dead recorder had not yet declared.
    fn declare_holes(&mut self, gaps: &mut GapFile) -> Result<(), ArchiveError> {
        let per_sample = self.per_sample();
        let first = self.map.sessions.iter().map(|session| session.first_index).min();
        let stored_index = self.stored_index();
        let first = first.unwrap_or(stored_index).min(stored_index);
        let mut undeclared: RangeSet =
            core::iter::once(first * per_sample..stored_index * per_sample).collect();
        for gap in self.map.gaps.values() {
            undeclared.remove(gap.positions.clone());
        }
        for stored in self.stored_samples()? {
            undeclared.remove(stored.start * per_sample..stored.end * per_sample);
        }
        for positions in undeclared.iter().collect::<Vec<_>>() {
            let mut gap = self.gap(GapKind::Missing, positions, "the recorder ended before it was declared");
            gap.evidence.extend(self.contents.damaged.iter().map(|damaged| damaged.cause.clone()));
            self.map.gaps.insert(gap.key, gap.clone());
            gaps.note(gap);
        }
        Ok(())
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
                    none => {
                        none.insert(SegmentReader::open(self.store, folder, segment.number, description)?)
                    }
                };
                let runs = reader.rows(entry)?.runs();
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
            apportioned: false,
            evidence: vec![why.to_owned()],
        }
    }

    /// Rewrites the account: the recorder that kept it is gone.
    fn mark_cut(&self) -> Result<(), ArchiveError> {
        let path = self.contents.folder.join(ACCOUNT);
        make_room(self.store, &self.contents.folder, self.session)?;
        let found = read_whole(self.store, &path).ok();
        let found: Option<Value> = found.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let mut account = found.unwrap_or_else(|| serde_json::json!({}));
        let description = &self.contents.description;
        account["format"] = "tallycast-archive-account".into();
        account["version"] = 1.into();
        account["stream"] = description.name.as_str().into();
        account["epoch"] = description.epoch.to_string().into();
        account["session"] = self.session.into();
        account["state"] = "cut".into();
        account["stored_index"] = self.stored_index().into();
        Ok(replace(self.store, &path, format!("{account:#}\n").as_bytes())?)
    }

    fn finish(self) -> Resumable {
        let per_sample = self.per_sample();
        let (stored_index, stored_until) = (self.stored_index(), self.stored_until());
        let behind = stored_index * per_sample;
        let beyond = |gap: &GapRecord| gap.positions.start.max(behind)..gap.positions.end.max(behind);
        Resumable {
            session: self.session,
            next_segment: self.contents.next_segment,
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
        // A damaged segment was stored all the same: nobody was absent meanwhile.
        let damaged = (!self.contents.damaged.is_empty()).then(|| self.told_index()).flatten();
        found.max(damaged).or(joined).unwrap_or(0)
    }

    /// How far the last account says that samples were stored.
    fn told_index(&self) -> Option<u64> {
        let account = read_whole(self.store, &self.contents.folder.join(ACCOUNT)).ok()?;
        serde_json::from_slice::<Value>(&account).ok()?["stored_index"].as_u64()
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
