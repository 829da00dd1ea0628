//! Opening of files below a folder that is held open: nothing blocks, and no path leads out of it.
//!
//! Every step down is one `openat` that follows no link, so that a link in the archive leads nowhere. A file is
//! opened without blocking, and its type is checked before it is read: an error names a pipe, a folder or a device in
//! its place. Start with [`Place`].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

use crate::store::StoreError;

/// Flags for opening a folder: never through a link.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags for opening a file in any mode: without waiting for the other end of a pipe, never through a link.
const FILE: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// Permissions of a new file, before the user's mask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
/// Permissions of a new folder, before the user's mask.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

/// Folder of an archive, held open.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    folder: File,
    identity: (u64, u64),
}

impl Place {
    /// Opens the folder. Its own path may have links; below it none is followed.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |cause: io::Error| StoreError::from_system("open", path, cause);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let stat = rustix::fs::fstat(&folder).map_err(|error| failed(error.into()))?;
        Ok(Self { path: path.to_owned(), identity: identity(&stat), folder: folder.into() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn folder(&self) -> &File {
        &self.folder
    }

    pub(super) fn full(&self, path: &Path) -> PathBuf {
        self.path.join(path)
    }

    /// Opens a folder below this one.
    pub(super) fn open_folder(&self, path: &Path) -> Result<OwnedFd, StoreError> {
        self.walk(path, Missing::IsAnError)
    }

    /// Creates a folder below this one, with all its parents.
    pub(super) fn make_folder(&self, path: &Path) -> Result<OwnedFd, StoreError> {
        self.walk(path, Missing::IsMade)
    }

    fn walk(&self, path: &Path, missing: Missing) -> Result<OwnedFd, StoreError> {
        let mut at = self.path.clone();
        let mut folder = self.step(self.folder.as_fd(), Path::new("."), &at)?;
        for part in path.components() {
            let Component::Normal(name) = part else {
                let cause = io::Error::from(io::ErrorKind::InvalidInput);
                return Err(StoreError::from_system("open", &self.full(path), cause));
            };
            at.push(name);
            if matches!(missing, Missing::IsMade) {
                match rustix::fs::mkdirat(&folder, name, FOLDER_MODE) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(StoreError::from_system("make the folder", &at, error.into())),
                }
            }
            folder = self.step(folder.as_fd(), Path::new(name), &at)?;
        }
        Ok(folder)
    }

    fn step(
        &self,
        folder: std::os::fd::BorrowedFd<'_>,
        name: &Path,
        at: &Path,
    ) -> Result<OwnedFd, StoreError> {
        rustix::fs::openat(folder, name, FOLDER, Mode::empty()).map_err(|error| match kind_at(folder, name) {
            Some(kind) if kind != "folder" => {
                StoreError::Misplaced { path: at.to_owned(), found: kind, wanted: "folder" }
            }
            _ => StoreError::from_system("open", at, error.into()),
        })
    }

    /// Opens a file below this folder; anything else in its place is an error that names it.
    pub(super) fn open_file(&self, path: &Path, how: OFlags) -> Result<File, StoreError> {
        let (folder, name) = self.parent(path)?;
        let full = self.full(path);
        let file = rustix::fs::openat(&folder, &name, FILE | how, FILE_MODE)
            .map_err(|error| refusal(folder.as_fd(), &name, &full, error))?;
        let stat =
            rustix::fs::fstat(&file).map_err(|error| StoreError::from_system("open", &full, error.into()))?;
        match kind_of(&stat) {
            None => Ok(file.into()),
            Some(found) => Err(StoreError::Misplaced { path: full, found, wanted: "file" }),
        }
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let ((old, old_name), (new, new_name)) = (self.parent(from)?, self.parent(to)?);
        rustix::fs::renameat(&old, &old_name, &new, &new_name).map_err(|error| match error {
            rustix::io::Errno::ISDIR => {
                StoreError::Misplaced { path: self.full(to), found: "folder", wanted: "file" }
            }
            error => StoreError::from_system("rename", &self.full(from), error.into()),
        })
    }

    pub(super) fn remove(&self, path: &Path) -> Result<(), StoreError> {
        let (folder, name) = self.parent(path)?;
        rustix::fs::unlinkat(&folder, &name, AtFlags::empty()).map_err(|error| match error {
            rustix::io::Errno::ISDIR => {
                StoreError::Misplaced { path: self.full(path), found: "folder", wanted: "file" }
            }
            error => StoreError::from_system("remove", &self.full(path), error.into()),
        })
    }

    fn parent(&self, path: &Path) -> Result<(OwnedFd, PathBuf), StoreError> {
        let folder = self.open_folder(path.parent().unwrap_or(Path::new("")))?;
        let name = path.file_name().ok_or_else(|| {
            let cause = io::Error::from(io::ErrorKind::InvalidInput);
            StoreError::from_system("open", &self.full(path), cause)
        })?;
        Ok((folder, name.into()))
    }

    /// Checks that the path still leads to the folder.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match rustix::fs::stat(&self.path) {
            Ok(stat) if identity(&stat) == self.identity => Ok(()),
            _ => Err(StoreError::Gone(self.path.clone())),
        }
    }

    /// Checks that a path below still leads to an open file.
    pub(super) fn check_file(&self, path: &Path, known: (u64, u64)) -> Result<(), StoreError> {
        match rustix::fs::statat(&self.folder, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if identity(&stat) == known => Ok(()),
            _ => Err(StoreError::Gone(self.full(path))),
        }
    }
}

#[derive(Clone, Copy)]
enum Missing {
    IsAnError,
    IsMade,
}

/// Returns the identity of a file: its device and its inode number.
pub(super) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Returns the error for a file that could not be opened: what is in its place, if that is the reason.
fn refusal(
    folder: std::os::fd::BorrowedFd<'_>,
    name: &Path,
    full: &Path,
    error: rustix::io::Errno,
) -> StoreError {
    match kind_at(folder, name) {
        Some(found) if error != rustix::io::Errno::EXIST => {
            StoreError::Misplaced { path: full.to_owned(), found, wanted: "file" }
        }
        _ => StoreError::from_system("open", full, error.into()),
    }
}

/// Returns the kind of what has a name if it is no file.
fn kind_at(folder: std::os::fd::BorrowedFd<'_>, name: &Path) -> Option<&'static str> {
    kind_of(&rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?)
}

fn kind_of(stat: &Stat) -> Option<&'static str> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => None,
        FileType::Directory => Some("folder"),
        FileType::Symlink => Some("link"),
        FileType::Fifo => Some("pipe"),
        FileType::Socket => Some("socket"),
        _ => Some("device"),
    }
}
