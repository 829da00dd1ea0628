//! What a sender offers: files and directories, walked once.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::entry::{Entry, Kind, UnsafeName};

/// The most that is offered at once: lists are held in memory at both ends.
pub(crate) const MAX_ENTRIES: usize = 1_000_000;

/// What is offered, and where it is read from.
#[derive(Debug, Default)]
pub struct Listing {
    pub(crate) entries: Vec<Entry>,
    contents: Vec<Content>,
    /// What was found and is not offered.
    pub left_out: Vec<LeftOut>,
}

/// Where an entry's bytes come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A file or directory.
    Path(PathBuf),
    /// Memory: bytes that mean nothing, for measuring.
    Memory,
}

/// What was found and is not offered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Where.
    pub path: PathBuf,
    /// Why.
    pub reason: &'static str,
}

/// Why nothing is offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListingError {
    /// A path cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A path has no name at the other end.
    #[error("{} has no name of its own\ngive the directory's full name, or its contents", .0.display())]
    Nameless(PathBuf),
    /// A name is none that every host can have.
    #[error("{}: the name is not UTF-8 and may not exist at the other end\nrename it", .0.display())]
    NotText(PathBuf),
    /// A name cannot be offered.
    #[error(transparent)]
    Name(#[from] UnsafeName),
    /// Two of them would be in one place.
    #[error("two of the given paths have the name `{0}`\nsend them one after the other, to two directories")]
    Twice(String),
    /// There are too many.
    #[error(
        "there are more than {MAX_ENTRIES} files and directories\npack them into archives first, or send them in parts"
    )]
    TooMany,
}

impl Listing {
    /// Lists paths, directories with everything in them, each under its last name.
    ///
    /// Symbolic links within directories, and what is neither file nor directory, are left out, and named.
    ///
    /// # Errors
    /// [`ListingError`] if something cannot be read, or not be offered.
    pub fn of(paths: &[PathBuf]) -> Result<Self, ListingError> {
        let mut listing = Self::default();
        for path in paths {
            let name = path.file_name().ok_or_else(|| ListingError::Nameless(path.clone()))?;
            let name = name.to_str().ok_or_else(|| ListingError::NotText(path.clone()))?;
            let metadata = fs::metadata(path).map_err(|error| unreadable(path, error))?;
            listing.add(path, name.to_owned(), &metadata)?;
        }
        let mut names = BTreeSet::new();
        let twice = listing.entries.iter().find(|entry| !names.insert(entry.path.as_str()));
        match twice {
            Some(entry) => Err(ListingError::Twice(entry.path.clone())),
            None => Ok(listing),
        }
    }

    /// Lists bytes out of memory, for measuring.
    #[must_use]
    pub fn of_memory(bytes: u64) -> Self {
        let entry = Entry { path: "memory".to_owned(), kind: Kind::File, bytes, modified_ns: 0, mode: 0o600 };
        Self { entries: vec![entry], contents: vec![Content::Memory], left_out: Vec::new() }
    }

    /// Returns what is offered.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn add(&mut self, path: &Path, name: String, metadata: &fs::Metadata) -> Result<(), ListingError> {
        let kind = if metadata.is_dir() {
            Kind::Directory
        } else if metadata.is_file() {
            Kind::File
        } else {
            self.left_out.push(LeftOut { path: path.to_owned(), reason: "neither a file nor a directory" });
            return Ok(());
        };
        if self.entries.len() == MAX_ENTRIES {
            return Err(ListingError::TooMany);
        }
        let bytes = if kind == Kind::File { metadata.len() } else { 0 };
        let mode = metadata.permissions().mode() & 0o777;
        let entry = Entry { path: name.clone(), kind, bytes, modified_ns: modified_ns(metadata), mode };
        entry.parts()?;
        self.entries.push(entry);
        self.contents.push(Content::Path(path.to_owned()));
        if kind == Kind::Directory { self.add_directory(path, &name) } else { Ok(()) }
    }

    fn add_directory(&mut self, path: &Path, name: &str) -> Result<(), ListingError> {
        let inside = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut inside = inside.map_err(|error| unreadable(path, error))?;
        // The same order at every try and on every host.
        inside.sort_by_key(fs::DirEntry::file_name);
        for entry in inside {
            let path = entry.path();
            let own_name =
                entry.file_name().into_string().map_err(|_| ListingError::NotText(path.clone()))?;
            let metadata = entry.metadata().map_err(|error| unreadable(&path, error))?;
            if metadata.is_symlink() {
                self.left_out.push(LeftOut { path, reason: "a symbolic link" });
            } else {
                self.add(&path, format!("{name}/{own_name}"), &metadata)?;
            }
        }
        Ok(())
    }

    /// Opens an entry's bytes.
    pub(crate) fn open(&self, index: usize) -> io::Result<Reading> {
        match &self.contents[index] {
            Content::Path(path) => File::open(path).map(Reading::File),
            Content::Memory => Ok(Reading::Memory { place: 0 }),
        }
    }

    /// Tells whether an entry is no longer what was listed.
    pub(crate) fn has_changed(&self, index: usize) -> bool {
        let entry = &self.entries[index];
        match &self.contents[index] {
            Content::Path(path) => fs::metadata(path).map_or(true, |metadata| {
                (metadata.len(), modified_ns(&metadata)) != (entry.bytes, entry.modified_ns)
            }),
            Content::Memory => false,
        }
    }
}

/// An entry's bytes as they are read.
pub(crate) enum Reading {
    File(File),
    Memory { place: u64 },
}

impl Reading {
    pub(crate) fn go_to(&mut self, from: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.seek(SeekFrom::Start(from)).map(drop),
            Self::Memory { place } => {
                *place = from;
                Ok(())
            }
        }
    }
}

impl Read for Reading {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(out),
            Self::Memory { place } => {
                // Each eight bytes say where they are: what is moved or repeated does not stay unseen.
                let mut filled = 0;
                while filled < out.len() {
                    let within = usize::try_from(*place % 8).unwrap_or(0);
                    let word = (*place / 8).to_le_bytes();
                    let count = (8 - within).min(out.len() - filled);
                    out[filled..filled + count].copy_from_slice(&word[within..within + count]);
                    filled += count;
                    *place += count as u64;
                }
                Ok(filled)
            }
        }
    }
}

/// Returns when something was last changed. Units: nanoseconds since 1970, 0 for what is older.
pub(crate) fn modified_ns(metadata: &fs::Metadata) -> u64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn unreadable(path: &Path, error: io::Error) -> ListingError {
    ListingError::Unreadable { path: path.to_owned(), error }
}
