//! Acknowledged content of an epoch's folder.
//!
//! Reads only, never writes: a recorder may be writing here, a compactor replacing segments. Start with
//! [`EpochContents::read`].

use core::ops::Range;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use units::WallTime;

use crate::error::ArchiveError;
use crate::folders::{
    ACCOUNT, ClosedSegment, DESCRIPTION, GAPS, SegmentFile, epoch_folder, segment_of, segment_path,
};
use crate::gaps::{GapMap, GapMapError};
use crate::index::layout::HEADER_BYTES;
use crate::index::{Entry, Index};
use crate::parquet_file::{ParquetSegment, SegmentSpan};
use crate::refill::{self, Refill};
use crate::salvage::{Look, Tail};
use crate::segment::describing_schema;
use crate::store::{Store, StoreError, read_whole};
use crate::told::Told;
use crate::{Description, DescriptionError};

/// Acknowledged content of one epoch.
#[derive(Clone, Debug)]
pub(crate) struct EpochContents {
    pub(crate) folder: PathBuf,
    pub(crate) description: Arc<Description>,
    /// Readable segments in the order of the stream.
    pub(crate) segments: Vec<Segment>,
    /// Segments that were stored and can no longer be read.
    pub(crate) damaged: Vec<DamagedSegment>,
    /// Faults of the files as text, those of the damaged segments included.
    pub(crate) faults: Vec<String>,
    /// Content of the account.
    pub(crate) told: Told,
    /// First segment number that was never used.
    pub(crate) next_segment: u32,
    /// Samples that were fetched later from another station's archive, in the order in which they came.
    pub(crate) refills: Vec<Refill>,
}

/// Segment damaged by the disk or by a change to its files.
#[derive(Clone, Debug)]
pub(crate) struct DamagedSegment {
    pub(crate) number: u32,
    /// File name and its fault.
    pub(crate) cause: String,
    /// Samples it held, if its index still has them.
    pub(crate) span: Option<Range<u64>>,
    /// True if no file of it has samples. That may be correct: a number is used up when the disk refused its segment.
    pub(crate) is_missing: bool,
}

/// Segment with at least one sample.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) first_index: u64,
    pub(crate) next_index: u64,
    pub(crate) t0: WallTime,
    pub(crate) t1: WallTime,
    pub(crate) samples: u64,
    pub(crate) size_bytes: u64,
    pub(crate) content: SegmentContent,
}

/// Description of an epoch, and the fault of `stream.json` if it has one.
pub(crate) type Described = (Arc<Description>, Option<String>);

#[derive(Clone, Debug)]
pub(crate) enum SegmentContent {
    Arrow(Index),
    Parquet,
}

impl EpochContents {
    /// Reads `stream.json`, or else the description in a segment's metadata; `None` if there is neither: then nothing
    /// in this folder was acknowledged. Returns with it the fault of the file, if any.
    pub(crate) fn description(store: &dyn Store, folder: &Path) -> Result<Option<Described>, ArchiveError> {
        let fault = match Self::stored_description(store, folder) {
            Ok(Some(description)) => return Ok(Some((description, None))),
            Ok(None) => ArchiveError::Undescribed(folder.join(DESCRIPTION)),
            Err(error) if error.is_damage() => error,
            // From a later version: this version must not guess its content.
            Err(error) => return Err(error),
        };
        match described_by_segments(store, folder)? {
            Some(description) => {
                let said = match &fault {
                    ArchiveError::Undescribed(path) => format!("{} is missing", path.display()),
                    fault => fault.first_line(),
                };
                Ok(Some((Arc::new(description), Some(said))))
            }
            None if matches!(fault, ArchiveError::Undescribed(_)) => Ok(None),
            None => Err(fault),
        }
    }

    fn stored_description(
        store: &dyn Store,
        folder: &Path,
    ) -> Result<Option<Arc<Description>>, ArchiveError> {
        let path = folder.join(DESCRIPTION);
        let bytes = match read_whole(store, &path) {
            Ok(bytes) => bytes,
            Err(StoreError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let failed = |cause| ArchiveError::Description { path: path.clone(), cause };
        let description = Description::decode(&bytes).map_err(failed)?;
        match is_folder_of(folder, &description) {
            true => Ok(Some(Arc::new(description))),
            false => Err(failed(DescriptionError::Stranger(description.name.to_string(), description.epoch))),
        }
    }

    /// Reads the gap map; an absent one is empty. Returns with it the fault of the file, if any.
    pub(crate) fn gap_map(
        store: &dyn Store,
        folder: &Path,
        description: &Description,
        told: &Told,
    ) -> Result<(GapMap, Option<String>), ArchiveError> {
        let path = folder.join(GAPS);
        let fault = |what: String| Some(format!("{}: {what}", path.display()));
        let bytes = match read_whole(store, &path) {
            Ok(bytes) => bytes,
            // The gap map is durable before anything is stored.
            Err(StoreError::NotFound(_)) => {
                return Ok((GapMap::default(), Some(format!("{} is missing", path.display()))));
            }
            Err(error) if error.is_damage() => {
                return Ok((GapMap::default(), Some(ArchiveError::from(error).first_line())));
            }
            Err(error) => return Err(error.into()),
        };
        let map = match GapMap::decode(&bytes) {
            Ok(map) => map,
            Err(cause @ GapMapError::Version(_)) => return Err(ArchiveError::Gaps { path, cause }),
            Err(cause) => return Ok((GapMap::default(), fault(cause.to_string()))),
        };
        if let Some(stranger) = map.stranger(description) {
            return Ok((GapMap::default(), fault(format!("it belongs to {stranger}"))));
        }
        let reached = told.gap_bytes.unwrap_or(0);
        let found = match () {
            // A crash leaves pages of zeros only where nothing was acknowledged yet.
            () if map.spoiled > 0 || map.damaged_at.is_some_and(|at| at < reached) => {
                fault(format!("{} of its lines are damaged", map.spoiled.max(map.damaged)))
            }
            () if map.intact_bytes < reached => {
                fault(format!("it ends at byte {}, the account reaches {reached}", map.intact_bytes))
            }
            () => None,
        };
        Ok((map, found))
    }

    /// Lists the segments of a folder. Those that were never acknowledged are left out.
    pub(crate) fn read(
        store: &dyn Store,
        folder: &Path,
        description: Arc<Description>,
        tail: Tail,
    ) -> Result<Self, ArchiveError> {
        let told = Told::of(store, folder, &description)?;
        let files: Vec<_> = store.list(folder)?.iter().filter_map(|name| segment_of(name)).collect();
        let numbers: BTreeSet<u32> = files.iter().map(|(number, _)| *number).collect();
        let last = numbers.iter().copied().chain(told.last_segment).max().unwrap_or(0);
        let told_index = told.stored_index.unwrap_or(0);
        let told_segment = told.last_segment;
        let look = Look { store, folder, description: &description, told_index, told_segment, tail };
        let (mut segments, mut damaged) = (Vec::new(), Vec::new());
        let mut faults: Vec<String> = told.fault.iter().cloned().collect();
        for &number in &numbers {
            match Segment::read(&look, number, number < last) {
                Ok(found) => {
                    if let Some((segment, found)) = found {
                        segments.push(segment);
                        faults.extend(found);
                    }
                }
                Err(Unread::Damaged(segment)) => {
                    faults.extend((!segment.is_missing).then(|| segment.cause.clone()));
                    damaged.push(segment);
                }
                Err(Unread::Failed(error)) => return Err(error),
            }
        }
        // A number without any file is a loss only if nothing else explains why its samples are missing.
        for number in (1..=last.min(MAX_SEGMENTS)).filter(|number| !numbers.contains(number)) {
            let path = segment_path(folder, number, SegmentFile::Arrow);
            let cause = format!("{} and its index are missing", path.display());
            damaged.push(DamagedSegment { number, cause, span: None, is_missing: true });
        }
        // The account is written with the first batch of every segment; a recorder at work may be about to write it.
        if tail == Tail::Take && told.account.is_null() && told.fault.is_none() && !segments.is_empty() {
            faults.push(format!("{} is missing", folder.join(ACCOUNT).display()));
        }
        let (refills, refill_faults) = refill::read(&look)?;
        faults.extend(refill_faults);
        damaged.sort_by_key(|segment| segment.number);
        segments.sort_by_key(|segment| segment.first_index);
        let folder = folder.to_owned();
        Ok(Self { folder, description, segments, damaged, faults, told, next_segment: last + 1, refills })
    }

    /// Returns the closed segments that are not Parquet yet.
    pub(crate) fn uncompacted(&self) -> impl Iterator<Item = ClosedSegment> + '_ {
        let closed = |segment: &&Segment| matches!(&segment.content, SegmentContent::Arrow(it) if it.ended);
        let folder = &self.folder;
        let refills = self.refills.iter().filter_map(|refill| refill.segment.as_ref());
        let segments = self.segments.iter().chain(refills).filter(closed);
        segments.map(|segment| ClosedSegment { folder: folder.clone(), number: segment.number })
    }

    /// Returns the samples that each damaged segment may have held: those in its index, or those between its
    /// neighbours. For the last segment only the account, which has the stored index, can give the end.
    pub(crate) fn damaged_spans(&self, first: u64) -> Vec<(Range<u64>, &DamagedSegment)> {
        let told = self.told.stored_index.unwrap_or(first);
        let span = |damaged: &'_ DamagedSegment| {
            let before = self.segments.iter().filter(|it| it.number < damaged.number);
            let behind = self.segments.iter().filter(|it| it.number > damaged.number);
            let start = before.map(|it| it.next_index).max().unwrap_or(first);
            let end = behind.map(|it| it.first_index).min().unwrap_or(told);
            damaged.span.clone().unwrap_or(start..end.max(start))
        };
        let mut spans: Vec<_> = self.damaged.iter().map(|damaged| (span(damaged), damaged)).collect();
        // Spans that are known exactly come first: a span between neighbours then gets the rest.
        spans.sort_by_key(|(_, damaged)| (damaged.span.is_none(), damaged.is_missing, damaged.number));
        spans
    }
}

/// Maximum number of segments that can be reported missing by number: a year of them, one every ten minutes, and
/// reserve.
const MAX_SEGMENTS: u32 = 100_000;

/// Returns whether a folder has the name of a description's epoch.
fn is_folder_of(folder: &Path, description: &Description) -> bool {
    let Ok(run) = "any".parse() else { return false };
    let own = epoch_folder(&run, &description.name, description.epoch);
    let ends = |path: &Path| {
        path.components().rev().take(2).map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>()
    };
    ends(&own) == ends(folder)
}

/// Returns whether a folder holds acknowledged samples, as far as that can be seen without knowing the stream.
pub(crate) fn has_samples(store: &dyn Store, folder: &Path) -> Result<bool, ArchiveError> {
    let holds = |(number, file): (u32, SegmentFile)| match file {
        SegmentFile::Parquet => true,
        SegmentFile::Index => {
            let index = read_whole(store, &segment_path(folder, number, file));
            index.map_or_else(
                |error| !matches!(error, StoreError::NotFound(_)),
                |bytes| bytes.len() > HEADER_BYTES && bytes.iter().any(|byte| *byte != 0),
            )
        }
        SegmentFile::Arrow => false,
    };
    Ok(store.list(folder)?.iter().filter_map(|name| segment_of(name)).any(holds))
}

/// Finds the description that a segment carries, in either form; it must belong to this folder. A description of a
/// later version is skipped, and reported if no other segment has one.
fn described_by_segments(store: &dyn Store, folder: &Path) -> Result<Option<Description>, ArchiveError> {
    let mut later = None;
    for (number, file) in store.list(folder)?.iter().filter_map(|name| segment_of(name)) {
        let path = segment_path(folder, number, file);
        let described = match file {
            SegmentFile::Parquet => ParquetSegment::open(store, &path).map(|found| found.description()),
            SegmentFile::Arrow => describing_schema(store, folder, number),
            SegmentFile::Index => continue,
        };
        let decoded = |text: String| {
            let decoded = Description::decode(text.as_bytes());
            decoded.map_err(|cause| ArchiveError::Description { path: path.clone(), cause })
        };
        // A damaged segment is no reason to give up: every segment has the description.
        match described.and_then(|text| text.map(decoded).transpose()) {
            Ok(Some(description)) if is_folder_of(folder, &description) => return Ok(Some(description)),
            Err(error) if error.is_later_version() => later = later.or(Some(error)),
            _ => {}
        }
    }
    later.map_or(Ok(None), Err)
}

/// Reason why a segment is not among the readable ones.
pub(crate) enum Unread {
    Damaged(DamagedSegment),
    Failed(ArchiveError),
}

impl Segment {
    /// Reads the content of a segment, in either form, and the faults of its files; `None` if nothing of it was
    /// acknowledged. The remains of a crash are expected only in a segment that no other follows (`is_followed` is
    /// false).
    pub(crate) fn read(
        look: &Look<'_>,
        number: u32,
        is_followed: bool,
    ) -> Result<Option<(Self, Vec<String>)>, Unread> {
        let damaged = |error: &ArchiveError, span| {
            Unread::Damaged(DamagedSegment { number, cause: error.first_line(), span, is_missing: false })
        };
        let path = segment_path(look.folder, number, SegmentFile::Parquet);
        let parquet = || ParquetSegment::open_as(look.store, &path, look.description, number);
        // A compactor may be at work: Parquet first, then Arrow, and Parquet again if Arrow has just been removed.
        let first = match parquet() {
            Ok(found) => return Ok(Some((Self::from_parquet(&found, number), Vec::new()))),
            Err(error) if error.is_not_found() || error.is_damage() => error,
            Err(error) => return Err(Unread::Failed(error)),
        };
        let second = match look.at(number) {
            Ok(found) => {
                let mut faults = found.faults.clone();
                // The original still exists: then nothing is lost.
                faults.extend((!first.is_not_found()).then(|| first.first_line()));
                return match Self::from_index(found.index, number) {
                    Some(segment) => Ok(Some((segment, faults))),
                    None => {
                        let is_missing = !found.incomplete && first.is_not_found();
                        match faults.first().cloned() {
                            Some(cause) if is_followed || !is_missing => {
                                Err(Unread::Damaged(DamagedSegment { number, cause, span: None, is_missing }))
                            }
                            _ => Ok(None),
                        }
                    }
                };
            }
            Err(error) if error.is_not_found() || error.is_damage() => error,
            Err(error) => return Err(Unread::Failed(error)),
        };
        match parquet() {
            Ok(found) => Ok(Some((Self::from_parquet(&found, number), Vec::new()))),
            Err(error) if error.is_damage() => Err(damaged(&error, None)),
            Err(error) if error.is_not_found() => {
                let span = look.told_by_index(number).map_err(Unread::Failed)?;
                match (span, second.is_not_found()) {
                    // An index without an entry acknowledges nothing.
                    (None, true) => Ok(None),
                    (span, _) => Err(damaged(&second, span)),
                }
            }
            Err(error) => Err(Unread::Failed(error)),
        }
    }

    fn from_parquet(file: &ParquetSegment, number: u32) -> Self {
        let SegmentSpan { first_index, next_index, t0, t1, samples } = file.span();
        let (size_bytes, content) = (file.size_bytes(), SegmentContent::Parquet);
        Self { number, first_index, next_index, t0, t1, samples, size_bytes, content }
    }

    fn from_index(index: Index, number: u32) -> Option<Self> {
        let (first, last) = (index.entries.first()?, index.entries.last()?);
        Some(Self {
            number,
            first_index: first.first_index,
            next_index: last.next_index,
            t0: first.t0,
            t1: last.t1,
            samples: index.entries.iter().map(|entry: &Entry| u64::from(entry.samples)).sum(),
            size_bytes: index.acknowledged_bytes(),
            content: SegmentContent::Arrow(index),
        })
    }
}
