//! Errors of an archive, each with its remedy.

use std::path::{Path, PathBuf};

use crate::description::DescriptionError;
use crate::gaps::GapMapError;
use crate::index::IndexError;
use crate::store::StoreError;
use crate::version::VERSION;

/// Error of an archive or its disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The store reported an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder is no archive.
    #[error("{} is not a tallycast archive\nrecord one with: tallycast record --run NAME PATTERN", .0.display())]
    NoArchive(PathBuf),
    /// The folder has runs, and its mark is missing or damaged.
    #[error("{} is missing or damaged, although its folder has recorded runs\nrestore it from a copy, or record into this archive again, which rewrites it", .0.display())]
    Unmarked(PathBuf),
    /// The archive is of a later version.
    #[error("the archive has format version {0}, this program reads up to 1\nuse a newer tallycast")]
    Version(u64),
    /// A file is of a later version.
    #[error(
        "{}: this file has format version {version}, this program reads up to {VERSION}\n\
         use a newer tallycast",
        path.display()
    )]
    Later {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        version: u64,
    },
    /// The run or stream does not exist.
    #[error("the archive has no {0}\nlist its contents with: tallycast query")]
    Unknown(String),
    /// A stream came with another schema than recorded in the same epoch.
    #[error(
        "the schema of stream {0} changed within an epoch\n\
         restart its publisher, which begins a new epoch"
    )]
    SchemaChanged(String),
    /// Another process refills the archive.
    #[error("{} is locked: another relay refills this archive\nstop that relay, or give this one another folder with --archive DIR", .0.display())]
    Refilled(PathBuf),
    /// Too many streams that began while the disk refused writes are waiting for it.
    #[error(
        "{0} new streams already wait for the archive\n\
         put its folder back, or free some space; streams that begin after that are recorded"
    )]
    Waiting(usize),
    /// A sidecar index cannot be used.
    #[error("{}: {cause}", path.display())]
    Index {
        /// Path of the index.
        path: PathBuf,
        /// Cause why it cannot be used.
        #[source]
        cause: IndexError,
    },
    /// A description cannot be used.
    #[error("{}: {cause}", path.display())]
    Description {
        /// Path of the description.
        path: PathBuf,
        /// Cause why it cannot be used.
        #[source]
        cause: DescriptionError,
    },
    /// A folder has samples and no description of them.
    #[error("{} is missing, and no segment in its folder can be read\nrestore either from a copy", .0.display())]
    Undescribed(PathBuf),
    /// A gap map cannot be used.
    #[error("{}: {cause}", path.display())]
    Gaps {
        /// Path of the gap map.
        path: PathBuf,
        /// Cause why it cannot be used.
        #[source]
        cause: GapMapError,
    },
    /// A segment is damaged or foreign.
    #[error("{}: {what}\nthe samples of the other segments can still be read", path.display())]
    Segment {
        /// Path of the file.
        path: PathBuf,
        /// Fault that was found.
        what: String,
    },
    /// Arrow could not make or read a batch.
    #[error("error of the arrow library: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// Parquet could not be made or read.
    #[error("error of the parquet library: {0}")]
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

    /// Rejects a file of a later version; an invalid version is left to the reader of the file.
    pub(crate) fn reject_later(path: &Path, version: Option<u64>) -> Result<(), Self> {
        match version {
            Some(version) if version > VERSION => Err(Self::Later { path: path.to_owned(), version }),
            _ => Ok(()),
        }
    }

    /// Returns whether stored data were changed, by a fault of the disk or by a program: no reason to leave the rest
    /// unread.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Segment { .. } | Self::Arrow(_) => true,
            Self::Store(error) => error.is_damage(),
            Self::Index { .. } | Self::Gaps { .. } | Self::Description { .. } => !self.is_later_version(),
            // An error of the system is passed through by the library.
            Self::Parquet(error) => !matches!(error, parquet::errors::ParquetError::External(_)),
            _ => false,
        }
    }

    /// Returns whether the format has a version that this program does not read.
    pub(crate) fn is_later_version(&self) -> bool {
        match self {
            Self::Version(_) | Self::Later { .. } => true,
            Self::Index { cause, .. } => matches!(cause, IndexError::Version(_)),
            Self::Gaps { cause, .. } => matches!(cause, GapMapError::Version(_)),
            Self::Description { cause, .. } => matches!(cause, DescriptionError::Version(_)),
            _ => false,
        }
    }

    /// Returns whether the file does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Store(StoreError::NotFound(_)))
    }

    /// Returns the error without its remedy.
    pub(crate) fn first_line(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }

    /// Returns the error and its remedy in one line.
    pub(crate) fn in_one_line(&self) -> String {
        self.to_string().replace('\n', "; ")
    }

    /// Returns whether the disk is full: then it is worth trying again later.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Store(StoreError::NoSpace(_)))
    }
}
