//! Directory for received files.
//!
//! No path can reach outside the directory: each part of it is opened within the one before, and symbolic links are
//! not followed. Incomplete files are in a folder of their own, locked by their writers.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Permissions, TryLockError};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::entry::{Entry, Kind};

/// Name of the folder for incomplete files, in the receiver's directory.
pub const PARTIAL_FOLDER: &str = ".tallycast-partial";
/// Interval at which a connection that waits for another one's file checks whether it should stop:
/// that request wakes no waiting thread.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Directory for received files, shared by all connections.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    root_folder: OwnedFd,
    may_replace: bool,
    /// Files being received in this process: key, and whether the connection must give it up.
    busy: Mutex<BTreeMap<String, Arc<AtomicBool>>>,
    freed: Condvar,
}

/// Content of an entry's place.
#[derive(Debug)]
pub(crate) enum InPlace {
    Nothing,
    Directory,
    File(File),
    /// Something else, which stays.
    Other(String),
}

/// Incomplete file, held by one connection.
pub(crate) struct Part<'a> {
    store: &'a Store,
    key: String,
    pub(crate) file: File,
    is_taken_over: Arc<AtomicBool>,
}

impl Store {
    /// Opens a directory, creating it if needed. Unless files `may_replace` others, existing ones stay.
    ///
    /// # Errors
    /// If it cannot be created or written.
    pub fn open(root: &Path, may_replace: bool) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root_folder = rustix::fs::open(root, flags, Mode::empty())?;
        let (busy, freed) = (Mutex::default(), Condvar::new());
        Ok(Self { root: root.to_owned(), root_folder, may_replace, busy, freed })
    }

    /// Returns the free space. Units: bytes.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.root_folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Returns its path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns whether files may replace others.
    pub(crate) const fn may_replace(&self) -> bool {
        self.may_replace
    }

    /// Examines an entry's place.
    pub(crate) fn in_place(&self, parts: &[&str]) -> io::Result<InPlace> {
        let folder = match self.folder_of(parts, false) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(InPlace::Nothing),
            // That says nothing about the place: the transfer ends, and continues when descriptors are available
            // again.
            Err(error) if is_out_of_descriptors(&error) => return Err(error),
            Err(error) => return Ok(InPlace::Other(error.to_string())),
        };
        let name = parts[parts.len() - 1];
        let stat = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(InPlace::Nothing),
            Err(error) => return Err(error.into()),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Ok(InPlace::Directory),
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                Ok(InPlace::File(File::from(rustix::fs::openat(&folder, name, flags, Mode::empty())?)))
            }
            _ => Ok(InPlace::Other(
                "the name is taken by something that is neither a file nor a directory".to_owned(),
            )),
        }
    }

    /// Opens the existing part of an incomplete file for reading.
    pub(crate) fn partial(&self, entry: &Entry) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(self.partial_folder()?, entry.key(), flags, Mode::empty()) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Claims an incomplete file. A connection of this process that holds it is considered dead.
    ///
    /// # Errors
    /// `ResourceBusy` if another process holds it, or if `should_stop` returns true while waiting.
    pub(crate) fn claim(&self, entry: &Entry, should_stop: &dyn Fn() -> bool) -> io::Result<Part<'_>> {
        let key = entry.key();
        let is_taken_over = Arc::new(AtomicBool::new(false));
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(older) = busy.get(&key) {
            older.store(true, Ordering::Relaxed);
            if should_stop() {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            (busy, _) = self.freed.wait_timeout(busy, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner);
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = File::from(rustix::fs::openat(self.partial_folder()?, &key, flags, mode)?);
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::ResourceBusy.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        busy.insert(key.clone(), Arc::clone(&is_taken_over));
        Ok(Part { store: self, key, file, is_taken_over })
    }

    /// Creates a directory with its parents.
    pub(crate) fn make_directory(&self, parts: &[&str]) -> io::Result<()> {
        let folder = self.folder_of(parts, true)?;
        open_folder(&folder, parts[parts.len() - 1], true).map(drop)
    }

    /// Syncs all received files to the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root_folder)?)
    }

    /// Opens the directory of an entry, each part within the one before.
    fn folder_of(&self, parts: &[&str], makes: bool) -> io::Result<OwnedFd> {
        let mut folder = self.root_folder.try_clone()?;
        for part in &parts[..parts.len() - 1] {
            folder = open_folder(&folder, part, makes)?;
        }
        Ok(folder)
    }

    fn partial_folder(&self) -> io::Result<OwnedFd> {
        open_folder(&self.root_folder, PARTIAL_FOLDER, true)
    }
}

/// Returns whether this process or this host has reached its limit of open files.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

impl Part<'_> {
    /// Returns whether a newer connection claims it.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.is_taken_over.load(Ordering::Relaxed)
    }

    /// Moves the complete file to its place.
    ///
    /// # Errors
    /// `AlreadyExists` if something is there that may not be replaced.
    pub(crate) fn put(self, entry: &Entry, parts: &[&str]) -> io::Result<()> {
        let modified = UNIX_EPOCH + Duration::from_nanos(entry.modified_ns);
        self.file.set_times(FileTimes::new().set_modified(modified))?;
        self.file.set_permissions(Permissions::from_mode(entry.mode & 0o777))?;
        let (partial, folder) = (self.store.partial_folder()?, self.store.folder_of(parts, true)?);
        let name = parts[parts.len() - 1];
        if self.store.may_replace {
            return Ok(rustix::fs::renameat(&partial, self.key.as_str(), &folder, name)?);
        }
        match rustix::fs::renameat_with(&partial, self.key.as_str(), &folder, name, RenameFlags::NOREPLACE) {
            // Not every file system supports it.
            Err(Errno::INVAL) if rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_err() => {
                Ok(rustix::fs::renameat(&partial, self.key.as_str(), &folder, name)?)
            }
            Err(Errno::INVAL) => Err(io::ErrorKind::AlreadyExists.into()),
            renamed => Ok(renamed?),
        }
    }

    /// Removes the file.
    pub(crate) fn discard(self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.store.partial_folder()?, self.key.as_str(), AtFlags::empty())?)
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        // Closing the file would unlock it too, a little later.
        drop(self.file.unlock());
        let mut busy = self.store.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.remove(&self.key);
        // The folder is removed when it is empty; no file in it can be claimed meanwhile.
        let _ = rustix::fs::unlinkat(&self.store.root_folder, PARTIAL_FOLDER, AtFlags::REMOVEDIR);
        self.store.freed.notify_all();
    }
}

impl Kind {
    /// Returns the hash of an empty file.
    pub(crate) fn empty_hash() -> String {
        blake3::hash(&[]).to_hex().to_string()
    }
}

/// Opens a directory within another, never through a symbolic link.
fn open_folder(within: impl AsFd, name: &str, makes: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    if makes {
        match rustix::fs::mkdirat(&within, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(rustix::fs::openat(&within, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), true).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        assert!(store.make_directory(&["link", "within"]).is_err());
        assert!(matches!(store.in_place(&["link", "file"]), Ok(InPlace::Other(_))));
        assert!(matches!(store.in_place(&["link"]), Ok(InPlace::Other(_))));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_newer_connection_takes_over_and_another_process_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), true).unwrap();
        let entry = Entry { path: "a".into(), kind: Kind::File, bytes: 1, modified_ns: 0, mode: 0o600 };
        let older = store.claim(&entry, &|| false).unwrap();
        std::thread::scope(|scope| {
            let newer = scope.spawn(|| store.claim(&entry, &|| false).map(drop));
            while !older.is_taken_over() {
                std::thread::yield_now();
            }
            drop(older);
            newer.join().unwrap().unwrap();
        });
        // Another process is represented by a store that opened the directory separately.
        let other = Store::open(folder.path(), true).unwrap();
        let held = store.claim(&entry, &|| false).unwrap();
        let error = other.claim(&entry, &|| false).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        held.discard().unwrap();
        assert!(!folder.path().join(PARTIAL_FOLDER).exists(), "nothing is left behind");
    }
}
