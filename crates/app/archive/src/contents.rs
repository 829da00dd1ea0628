//! What an epoch's folder holds, as far as it is acknowledged.
//!
//! Only looked at, never changed: a recorder may be writing here, a compactor replacing segments. Start with
//! [`EpochContents::read`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use units::WallTime;

use crate::Description;
use crate::error::ArchiveError;
use crate::folders::{DESCRIPTION, GAPS, SegmentFile, segment_of, segment_path};
use crate::gaps::GapMap;
use crate::index::{Entry, Index, IndexError};
use crate::parquet_file::ParquetSegment;
use crate::store::{Store, StoreError, read_whole};

/// The acknowledged content of one epoch.
#[derive(Clone, Debug)]
pub(crate) struct EpochContents {
    pub(crate) folder: PathBuf,
    pub(crate) description: Arc<Description>,
    /// In the order of the stream.
    pub(crate) segments: Vec<Segment>,
    /// The first segment number that was never used.
    pub(crate) next_segment: u32,
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
    /// Reads `stream.json`; `None` if it is not there: then nothing in this folder was acknowledged.
    pub(crate) fn description(
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
        let mut segments = Vec::new();
        for number in numbers {
            segments.extend(Segment::read(store, folder, number)?);
        }
        segments.sort_by_key(|segment| segment.first_index);
        Ok(Self { folder: folder.to_owned(), description, segments, next_segment })
    }
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
