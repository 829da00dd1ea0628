//! Refilling of an archive's holes from another archive of the same stream.
//!
//! One archive tells which samples it misses ([`Refiller::wants`]), the other what it has of them
//! ([`Archive::supply`]), and [`Refiller::store`] stores that. A recorder may write into both meanwhile: a refill has
//! files of its own, and a lock of its own keeps a second refiller out. How the samples travel is not decided here.

mod looks;

use core::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sample::{Block, StreamName};
use units::{Epoch, RangeSet, WallTime};

use crate::Description;
use crate::catalogue::{Archive, Attended, Recording, RecordingState, recording_in};
use crate::columns::Columns;
use crate::error::ArchiveError;
use crate::feed::Piece;
use crate::folders::{
    LOCK, REFILL_LOCK, REFILLS, SegmentFile, epoch_folder, epoch_folders, refill_note, refill_of, run_folder,
    segment_path,
};
use crate::missing::{doubtful_samples, missing_within};
use crate::refill::Refilled;
use crate::segment::{Birth, SegmentWriter};
use crate::stamped::stamp;
use crate::store::{Lock, Store, StoreError, remove_if_there, replace};
use crate::wanted::Wanted;
use looks::{FolderLook, Looks};

/// Size at which the samples of a refill are written as a batch.
const BATCH_BYTES: usize = 1 << 20;
/// Maximum number of separate ranges in one want: the others follow with the next.
const MAX_RANGES: usize = 512;

/// The only writer of refills into an archive.
pub struct Refiller {
    archive: Archive,
    store: Arc<dyn Store>,
    lock: Lock,
    looks: Looks,
    epochs_read: u64,
}

/// Samples that an archive misses of one epoch.
#[derive(Clone, Debug)]
pub struct Want {
    /// Name, epoch and schema of the stream.
    pub description: Arc<Description>,
    /// Missing samples, by index; those of which some elements are there included.
    pub missing: RangeSet,
    /// Samples between the first recorder's first and the last one's last.
    pub recorded: Range<u64>,
    /// Whether a recorder is at work on it: then more samples are to come by themselves.
    pub is_open: bool,
    folder: PathBuf,
}

/// What an archive has of samples that another one misses.
#[derive(Clone, Debug)]
pub struct Supply {
    /// Name, epoch and schema of the stream.
    pub description: Arc<Description>,
    /// Station whose archive it is.
    pub station: String,
    /// Samples that the archive has, from its first to its last.
    pub reaches: Range<u64>,
    /// Samples to which this is the answer: those it leaves out may be asked for again.
    pub answered: RangeSet,
    /// The samples, in the order of their indices.
    pub blocks: Vec<Block>,
    /// Positions of what is answered that are missing in this archive, too.
    pub lacking: RangeSet,
}

impl Want {
    /// Returns the folder of the epoch, relative to the archive.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Refiller {
    /// Opens an archive for refilling.
    ///
    /// # Errors
    /// [`ArchiveError::NoArchive`]; [`ArchiveError::Refilled`] if another process refills it; the error of the disk.
    pub fn open(store: Arc<dyn Store>) -> Result<Self, ArchiveError> {
        let archive = Archive::on(Arc::clone(&store))?;
        let lock = match store.lock(Path::new(REFILL_LOCK)) {
            Err(StoreError::Busy(path)) => return Err(ArchiveError::Refilled(path)),
            locked => locked?,
        };
        Ok(Self { archive, store, lock, looks: Looks::default(), epochs_read: 0 })
    }

    /// Returns what every epoch misses that anybody could have recorded.
    ///
    /// Cost: lists the folders, and reads those that have changed since the last call: their part of the catalogue, and
    /// the batches next to holes. Damage since then is found behind [`look_again`](Self::look_again).
    ///
    /// # Errors
    /// The error of the disk. An epoch that cannot be read misses nothing that could be named.
    pub fn wants(&mut self) -> Result<Vec<Want>, ArchiveError> {
        let (mut wants, mut before) = (Vec::new(), core::mem::take(&mut self.looks));
        for run in self.archive.runs()? {
            let run = run_folder(&run);
            let attended = match self.store.is_locked(&run.join(LOCK)) {
                Ok(true) => Attended::Yes,
                Ok(false) | Err(_) => Attended::No,
            };
            for folder in epoch_folders(&*self.store, &run)?.0 {
                // Before the content: what comes in between is found with the next call.
                let look = FolderLook::of(&*self.store, &folder, attended)?;
                if let Some(want) = before.take(&folder, &look) {
                    self.looks.keep(look, want.clone());
                    wants.push(want);
                    continue;
                }
                self.epochs_read += 1;
                let Ok(Some(recording)) = recording_in(&*self.store, &folder, attended) else { continue };
                let want = self.want_of(&recording)?;
                if !is_about_to_miss_more(&recording) {
                    self.looks.keep(look, want.clone());
                }
                wants.push(want);
            }
        }
        Ok(wants)
    }

    /// Returns the number of bytes that can still be written.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn space_bytes(&self) -> Result<u64, ArchiveError> {
        Ok(self.store.space_bytes()?)
    }

    /// Reads everything with the next call of [`wants`](Self::wants).
    pub fn look_again(&mut self) {
        self.looks = Looks::default();
    }

    /// Returns the number of epochs that were read so far.
    #[must_use]
    pub const fn epochs_read(&self) -> u64 {
        self.epochs_read
    }

    fn want_of(&self, recording: &Recording) -> Result<Want, ArchiveError> {
        let description = Arc::clone(&recording.description);
        let mut missing = RangeSet::new();
        for range in missing_within(&self.archive, recording, &doubtful_samples(recording)) {
            missing.insert(range?);
            if missing.range_count() >= MAX_RANGES {
                break;
            }
        }
        let known = recording.first_index..recording.stored_index;
        let folder = recording.contents.folder.clone();
        let is_open = recording.attended && recording.state == RecordingState::Open;
        Ok(Want { description, missing, recorded: known, is_open, folder })
    }

    /// Stores samples that came from another archive. Once it returns they are there, also after a power cut.
    ///
    /// # Errors
    /// [`ArchiveError::SchemaChanged`] if they are of another schema; the error of the disk: then nothing of it counts.
    pub fn store(&self, want: &Want, supply: &Supply, at: WallTime) -> Result<(), ArchiveError> {
        let (ours, theirs) = (&want.description, &supply.description);
        if ours.schema != theirs.schema || ours.name != theirs.name || ours.epoch != theirs.epoch {
            return Err(ArchiveError::SchemaChanged(ours.name.to_string()));
        }
        self.store.check_place()?;
        self.lock.check_place()?;
        let (number, left) = self.next_number(&want.folder)?;
        remove_if_there(&*self.store, left.iter().map(PathBuf::as_path))?;
        let samples: RangeSet =
            supply.blocks.iter().map(|block| block.first_index..block.next_index()).collect();
        if !samples.is_empty()
            && let Err(error) = self.write(want, number, &supply.blocks)
        {
            let files =
                [SegmentFile::Arrow, SegmentFile::Index].map(|it| segment_path(&want.folder, number, it));
            // Best effort: without a note they count for nothing, and the next refill removes them.
            drop(remove_if_there(&*self.store, files.iter().map(PathBuf::as_path)));
            return Err(error);
        }
        let note = Refilled {
            number: number - REFILLS,
            at,
            station: supply.station.clone(),
            reaches: supply.reaches.clone(),
            samples,
            lacking: supply.lacking.clone(),
        };
        // The names of the samples are durable before the note can be.
        self.store.sync_folder(&want.folder)?;
        let path = want.folder.join(refill_note(number));
        replace(&*self.store, &path, stamp(&note.to_json(ours)).as_bytes())?;
        Ok(self.store.sync_folder(&want.folder)?)
    }

    /// Returns a number that no refill has, and the files of refills that were never finished.
    fn next_number(&self, folder: &Path) -> Result<(u32, Vec<PathBuf>), ArchiveError> {
        let names = self.store.list(folder)?;
        let found: Vec<_> = names.iter().filter_map(|name| Some((name, refill_of(name)?))).collect();
        let is_noted = |number| found.iter().any(|(_, it)| *it == (number, None));
        let left = found.iter().filter(|(_, (number, _))| !is_noted(*number));
        let left = left.map(|(name, _)| folder.join(name)).collect();
        let last = found.iter().map(|(_, (number, _))| *number).max().unwrap_or(REFILLS);
        let next = last.checked_add(1).ok_or(StoreError::Exists(folder.join(refill_note(last))))?;
        Ok((next, left))
    }

    fn write(&self, want: &Want, number: u32, blocks: &[Block]) -> Result<(), ArchiveError> {
        let (folder, description) = (&*want.folder, &*want.description);
        let birth = Birth { folder, description, number, session: 1 };
        let mut columns = Columns::new(Arc::clone(&want.description));
        let mut writer: Option<SegmentWriter> = None;
        for (place, block) in (1..).zip(blocks) {
            columns.append(block, 0);
            if columns.size_bytes() < BATCH_BYTES && place < blocks.len() {
                continue;
            }
            let Some((batch, span)) = columns.finish()? else { continue };
            match &mut writer {
                Some(writer) => writer.write(&batch, span)?,
                None => writer = Some(SegmentWriter::create(&*self.store, &birth, &batch, span)?),
            }
        }
        let Some(mut writer) = writer else { return Ok(()) };
        writer.data().sync()?;
        writer.acknowledge()?;
        writer.index().sync()?;
        writer.acknowledged();
        writer.close()?;
        Ok(())
    }
}

/// Returns whether a recorder at work knows of a gap that its samples have not reached yet.
fn is_about_to_miss_more(recording: &Recording) -> bool {
    let per_sample = u64::from(recording.description.schema.elements_per_sample());
    let stored = recording.stored_index.saturating_mul(per_sample);
    recording.attended && recording.gaps.iter().any(|gap| gap.positions.end > stored)
}

impl Archive {
    /// Returns what all runs have of some samples of an epoch; `None` if no run has the epoch. Answers at most
    /// `limit_bytes` of them, and at least one. Samples that a recorder at work has not stored yet are no answer.
    ///
    /// Cost: reads the epoch's part of the catalogue, and the samples.
    ///
    /// # Errors
    /// The error of reading; damage is no error, and its samples are lacking.
    pub fn supply(
        &self,
        (name, epoch): (&StreamName, Epoch),
        samples: &RangeSet,
        limit_bytes: usize,
    ) -> Result<Option<Supply>, ArchiveError> {
        let recordings = self.recordings_of(name, epoch)?;
        let Some(first) = recordings.first() else { return Ok(None) };
        let description = Arc::clone(&first.description);
        if let Some(other) = recordings.iter().find(|it| it.description.schema != description.schema) {
            return Err(ArchiveError::SchemaChanged(other.description.name.to_string()));
        }
        let start = recordings.iter().map(|it| it.first_index).min().unwrap_or(0);
        let end = recordings.iter().map(|it| it.stored_index).max().unwrap_or(0);
        let is_open = recordings.iter().any(|it| it.attended && it.state == RecordingState::Open);
        let known_end = if is_open { end } else { u64::MAX };
        let most = (limit_bytes / description.schema.sample_bytes().max(1)).max(1) as u64;
        let mut answered = RangeSet::new();
        for range in samples.iter() {
            let range =
                range.start..range.end.min(known_end).min(range.start.saturating_add(most - answered.len()));
            if range.is_empty() || answered.len() >= most {
                break;
            }
            answered.insert(range);
        }
        let mut remaining = answered.clone();
        let (mut blocks, mut incomplete) = (Vec::new(), Vec::new());
        for recording in &recordings {
            for range in remaining.clone().iter() {
                for piece in self.epoch(recording, Wanted::ALL.times).within(range) {
                    if let Piece::Block(block) = piece? {
                        remaining.remove(block.first_index..block.next_index());
                        incomplete.extend((!block.missing.is_empty()).then(|| block.clone()));
                        blocks.push(block);
                    }
                }
            }
        }
        blocks.sort_by_key(|block| block.first_index);
        let per_sample = u64::from(description.schema.elements_per_sample());
        let mut lacking: RangeSet = remaining
            .iter()
            .map(|it| it.start.saturating_mul(per_sample)..it.end.saturating_mul(per_sample))
            .collect();
        for block in incomplete {
            let base = block.first_index * per_sample;
            for missing in block.missing.iter() {
                lacking.insert(base + missing.start..base + missing.end);
            }
        }
        let station = description.station.clone();
        Ok(Some(Supply { description, station, reaches: start..end.max(start), answered, blocks, lacking }))
    }

    /// Returns the recordings of an epoch in all runs.
    fn recordings_of(&self, name: &StreamName, epoch: Epoch) -> Result<Vec<Recording>, ArchiveError> {
        let mut found = Vec::new();
        for run in self.runs()? {
            let folder = epoch_folder(&run, name, epoch);
            if !epoch_folders(self.store(), &run_folder(&run))?.0.contains(&folder) {
                continue;
            }
            let is_attended = self.store().is_locked(&run_folder(&run).join(LOCK))?;
            let attended = if is_attended { Attended::Yes } else { Attended::No };
            match recording_in(self.store(), &folder, attended) {
                Ok(recording) => found.extend(recording),
                // Another run may have it.
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
