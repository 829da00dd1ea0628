//! What an epoch's folder holds, as far as it is acknowledged.
//!
//! Only looked at, never changed: a recorder may be writing here, a compactor replacing segments. Start with
//! [`EpochContents::read`].

use core::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use units::WallTime;

use crate::compact::ClosedSegment;
use crate::error::ArchiveError;
use crate::folders::{DESCRIPTION, GAPS, SegmentFile, segment_of, segment_path};
use crate::gaps::GapMap;
use crate::index::{Entry, Index, IndexError};
use crate::parquet_file::ParquetSegment;
use crate::segment::describing_schema;
use crate::store::{Store, StoreError, read_whole};
use crate::{Description, DescriptionError};

/// The acknowledged content of one epoch.
#[derive(Clone, Debug)]
pub(crate) struct EpochContents {
    pub(crate) folder: PathBuf,
    pub(crate) description: Arc<Description>,
    /// In the order of the stream.
    pub(crate) segments: Vec<Segment>,
    /// What was stored and cannot be read any more.
    pub(crate) damaged: Vec<DamagedSegment>,
    /// The first segment number that was never used.
    pub(crate) next_segment: u32,
}

/// A segment that the disk, or somebody, has damaged.
#[derive(Clone, Debug)]
pub(crate) struct DamagedSegment {
    pub(crate) number: u32,
    /// Which file, and what is wrong with it.
    pub(crate) cause: String,
}

/// One segment with something in it.
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

#[derive(Clone, Debug)]
pub(crate) enum SegmentContent {
    Arrow(Index),
    Parquet,
}

impl EpochContents {
    /// Reads `stream.json`, or what every segment's metadata has of it; `None` if there is neither: then nothing in
    /// this folder was acknowledged.
    pub(crate) fn description(
        store: &dyn Store,
        folder: &Path,
    ) -> Result<Option<Arc<Description>>, ArchiveError> {
        match Self::stored_description(store, folder) {
            Ok(Some(description)) => Ok(Some(description)),
            // From a later version: no reader of this one may guess.
            Err(error @ ArchiveError::Description { cause: DescriptionError::Version(_), .. }) => Err(error),
            found => match described_by_segments(store, folder)? {
                Some(description) => Ok(Some(Arc::new(description))),
                None => found,
            },
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
        let description =
            Description::decode(&bytes).map_err(|cause| ArchiveError::Description { path, cause })?;
        Ok(Some(Arc::new(description)))
    }

    /// Reads the gap map; an absent one is empty.
    pub(crate) fn gap_map(store: &dyn Store, folder: &Path) -> Result<GapMap, ArchiveError> {
        let path = folder.join(GAPS);
        match read_whole(store, &path) {
            Ok(bytes) => GapMap::decode(&bytes).map_err(|cause| ArchiveError::Gaps { path, cause }),
            Err(StoreError::NotFound(_)) => Ok(GapMap::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the segments of a folder. Those that nobody acknowledged are left out.
    pub(crate) fn read(
        store: &dyn Store,
        folder: &Path,
        description: Arc<Description>,
    ) -> Result<Self, ArchiveError> {
        let files: Vec<_> = store.list(folder)?.iter().filter_map(|name| segment_of(name)).collect();
        let next_segment = files.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
        let mut numbers: Vec<u32> = files.iter().map(|(number, _)| *number).collect();
        numbers.dedup();
        let (mut segments, mut damaged) = (Vec::new(), Vec::new());
        for number in numbers {
            match Segment::read(store, folder, number) {
                Ok(found) => segments.extend(found),
                Err(error) if error.is_damage() => {
                    damaged.push(DamagedSegment { number, cause: error.first_line() });
                }
                Err(error) => return Err(error),
            }
        }
        segments.sort_by_key(|segment| segment.first_index);
        Ok(Self { folder: folder.to_owned(), description, segments, damaged, next_segment })
    }

    /// Returns the closed segments that are not Parquet yet.
    pub(crate) fn uncompacted(&self) -> impl Iterator<Item = ClosedSegment> + '_ {
        let closed = |segment: &&Segment| matches!(&segment.content, SegmentContent::Arrow(it) if it.ended);
        let folder = &self.folder;
        let segments = self.segments.iter().filter(closed);
        segments.map(|segment| ClosedSegment { folder: folder.clone(), number: segment.number })
    }

    /// Returns the samples that each damaged segment may have held: those between its neighbours. Behind the last
    /// one only `told`, how far the account says that samples were stored, knows how far it reached.
    pub(crate) fn damaged_spans(&self, first: u64, told: u64) -> Vec<(Range<u64>, &DamagedSegment)> {
        let span = |damaged: &'_ DamagedSegment| {
            let before = self.segments.iter().filter(|it| it.number < damaged.number);
            let behind = self.segments.iter().filter(|it| it.number > damaged.number);
            let start = before.map(|it| it.next_index).max().unwrap_or(first);
            let end = behind.map(|it| it.first_index).min().unwrap_or(told);
            start..end.max(start)
        };
        self.damaged.iter().map(|damaged| (span(damaged), damaged)).collect()
    }
}

/// Tells whether a folder holds samples that were acknowledged.
pub(crate) fn has_samples(store: &dyn Store, folder: &Path) -> Result<bool, ArchiveError> {
    let holds = |(number, file): (u32, SegmentFile)| match file {
        SegmentFile::Parquet => true,
        SegmentFile::Index => {
            let index = read_whole(store, &segment_path(folder, number, file));
            index.is_ok_and(|bytes| Index::has_entry(&bytes))
        }
        SegmentFile::Arrow => false,
    };
    Ok(store.list(folder)?.iter().filter_map(|name| segment_of(name)).any(holds))
}

/// Finds the description that a segment carries, in whichever form it is.
fn described_by_segments(store: &dyn Store, folder: &Path) -> Result<Option<Description>, ArchiveError> {
    for (number, file) in store.list(folder)?.iter().filter_map(|name| segment_of(name)) {
        let path = segment_path(folder, number, file);
        let described = match file {
            SegmentFile::Parquet => ParquetSegment::open(store, &path).map(|found| found.description()),
            SegmentFile::Index => describing_schema(store, folder, number),
            SegmentFile::Arrow => continue,
        };
        // A damaged segment is no reason to give up: any other will do.
        if let Ok(Some(text)) = described
            && let Ok(description) = Description::decode(text.as_bytes())
        {
            return Ok(Some(description));
        }
    }
    Ok(None)
}

impl Segment {
    /// Reads what a segment holds, in whichever form it is; `None` if nothing of it was acknowledged.
    pub(crate) fn read(store: &dyn Store, folder: &Path, number: u32) -> Result<Option<Self>, ArchiveError> {
        // A compactor may be at work: Parquet first, Arrow next, and Parquet again if Arrow just went.
        for file in [SegmentFile::Parquet, SegmentFile::Index, SegmentFile::Parquet] {
            let path = segment_path(folder, number, file);
            let found = match file {
                SegmentFile::Parquet => {
                    ParquetSegment::open(store, &path).map(|found| Some(found.summary(number)))
                }
                SegmentFile::Arrow | SegmentFile::Index => Self::from_index(store, &path, number),
            };
            match found {
                Err(ArchiveError::Store(StoreError::NotFound(_))) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    fn from_index(store: &dyn Store, path: &Path, number: u32) -> Result<Option<Self>, ArchiveError> {
        let bytes = read_whole(store, path)?;
        let index = match Index::decode(&bytes) {
            Ok(index) => index,
            // Nothing was acknowledged, or nothing can be found: the feed shows a hole.
            Err(IndexError::NoHeader(_) | IndexError::Damaged) => return Ok(None),
            Err(cause) => return Err(ArchiveError::Index { path: path.to_owned(), cause }),
        };
        let (Some(first), Some(last)) = (index.entries.first(), index.entries.last()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            number,
            first_index: first.first_index,
            next_index: last.next_index,
            t0: first.t0,
            t1: last.t1,
            samples: index.entries.iter().map(|entry: &Entry| u64::from(entry.samples)).sum(),
            size_bytes: index.acknowledged_bytes(),
            content: SegmentContent::Arrow(index),
        }))
    }
}
