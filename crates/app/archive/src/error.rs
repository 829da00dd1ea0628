//! What can go wrong with an archive, and the way out.

use std::path::{Path, PathBuf};

use crate::description::DescriptionError;
use crate::gaps::GapMapError;
use crate::index::IndexError;
use crate::store::StoreError;

/// Says what is wrong with an archive or its disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The disk refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder is no archive.
    #[error("{} is not a tallycast archive\nrecord one with: tallycast record --run NAME PATTERN", .0.display())]
    NoArchive(PathBuf),
    /// The archive is of a later version.
    #[error("the archive has format version {0}, this program reads up to 1\nread it with a newer tallycast")]
    Version(u64),
    /// There is no such run or stream.
    #[error("the archive has no {0}\nsee what it has with: tallycast query")]
    Unknown(String),
    /// A stream of one epoch came with another schema than recorded.
    #[error(
        "stream {0} came with another schema in the same epoch\n\
         restart its publisher, which begins a new epoch"
    )]
    SchemaChanged(String),
    /// A sidecar index cannot be used.
    #[error("{}: {cause}", path.display())]
    Index {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: IndexError,
    },
    /// A description cannot be used.
    #[error("{}: {cause}", path.display())]
    Description {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: DescriptionError,
    },
    /// A gap map cannot be used.
    #[error("{}: {cause}", path.display())]
    Gaps {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: GapMapError,
    },
    /// A segment is not what it should be.
    #[error("{}: {what}\nthe samples of the other segments can still be read", path.display())]
    Segment {
        /// Which file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// Arrow could not make or read a batch.
    #[error("the arrow library says: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// Parquet could not be made or read.
    #[error("the parquet library says: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// An export could not be written.
    #[error("the export could not be written: {0}\nchoose another file, or free some space")]
    Export(#[from] std::io::Error),
    /// An export asks for more than its format can hold.
    #[error("{0}")]
    Unsuited(String),
}

impl ArchiveError {
    pub(crate) fn segment(path: &Path, what: &str) -> Self {
        Self::Segment { path: path.to_owned(), what: what.to_owned() }
    }

    /// Tells whether the disk is full: then it is worth trying again later.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Store(StoreError::NoSpace(_)))
    }
}
