//! The real disk: a folder of the file system.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{IoSlice, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Appendable, Lock, Readable, Store, StoreError};

/// From how many files on one `syncfs` is taken for cheaper than a `fdatasync` each: two hundred slow
/// streams would otherwise ask a disk for two hundred barriers where one does.
const FILES_WORTH_A_WHOLE_SYNC: usize = 8;
/// The most parts given to one `writev`; the system's own limit (`IOV_MAX`) is 1,024.
const PARTS_PER_WRITE: usize = 512;
/// How often a held lock is tried again: somebody who only looks whether it is held lets it go at once.
const LOCK_TRIES: u32 = 10;
/// The pause between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A folder of the file system.
#[derive(Debug)]
pub struct FileStore {
    root: PathBuf,
    folder: File,
    /// Set once a file turned out to lie on another device, by a mount or a link: then one `syncfs` of the
    /// root does not reach it, and every file is synced by itself.
    spans_devices: AtomicBool,
}

impl FileStore {
    /// Opens the folder, making it if needed.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(root: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(root)
            .map_err(|cause| StoreError::from_system("make the folder", root, cause))?;
        Self::open(root)
    }

    /// Opens a folder that exists.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is none.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let folder = File::open(root).map_err(|cause| StoreError::from_system("open", root, cause))?;
        Ok(Self { root: root.to_owned(), folder, spans_devices: AtomicBool::new(false) })
    }

    /// Returns the folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn full(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    fn appendable(&self, path: PathBuf, file: File) -> Result<Box<dyn Appendable>, StoreError> {
        let device = |file: &File| file.metadata().map(|metadata| metadata.dev());
        match (device(&file), device(&self.folder)) {
            (Ok(own), Ok(roots)) if own == roots => {}
            // Relaxed: a hint that only ever goes one way, read by the thread that set it.
            _ => self.spans_devices.store(true, Ordering::Relaxed),
        }
        Ok(Box::new(OpenFile { path, file }))
    }
}

impl Store for FileStore {
    fn create(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError> {
        let path = self.full(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|cause| StoreError::from_system("make the folder", parent, cause))?;
        }
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(|cause| StoreError::from_system("create", &path, cause))?;
        self.appendable(path, file)
    }

    fn append_to(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError> {
        let path = self.full(path);
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.map_err(|cause| StoreError::from_system("open", &path, cause))?;
        self.appendable(path, file)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Readable>, StoreError> {
        let path = self.full(path);
        let file = File::open(&path).map_err(|cause| StoreError::from_system("open", &path, cause))?;
        Ok(Box::new(OpenFile { path, file }))
    }

    fn sync_all(&self, files: &mut [&mut dyn Appendable]) -> Result<(), StoreError> {
        if files.len() < FILES_WORTH_A_WHOLE_SYNC || self.spans_devices.load(Ordering::Relaxed) {
            return files.iter_mut().try_for_each(|file| file.sync());
        }
        rustix::fs::syncfs(&self.folder)
            .map_err(|error| StoreError::from_system("sync", &self.root, error.into()))
    }

    fn sync_folder(&self, path: &Path) -> Result<(), StoreError> {
        for folder in path.ancestors().map(|ancestor| self.full(ancestor)) {
            let synced = File::open(&folder).and_then(|open| open.sync_all());
            synced.map_err(|cause| StoreError::from_system("sync", &folder, cause))?;
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let from = self.full(from);
        std::fs::rename(&from, self.full(to)).map_err(|cause| StoreError::from_system("rename", &from, cause))
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        let path = self.full(path);
        std::fs::remove_file(&path).map_err(|cause| StoreError::from_system("remove", &path, cause))
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, StoreError> {
        let path = self.full(path);
        let failed = |cause| StoreError::from_system("list", &path, cause);
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            // A file where a folder was expected holds no names.
            Err(cause) if cause.kind() == std::io::ErrorKind::NotADirectory => return Ok(Vec::new()),
            Err(cause) => return Err(failed(cause)),
        };
        let mut names = Vec::new();
        for entry in entries {
            // Names that are not text are not ours.
            names.extend(entry.map_err(failed)?.file_name().into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    fn space_bytes(&self) -> Result<u64, StoreError> {
        let space = rustix::fs::fstatvfs(&self.folder);
        let space = space.map_err(|error| StoreError::from_system("measure", &self.root, error.into()))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn capacity_bytes(&self) -> Result<u64, StoreError> {
        let space = rustix::fs::fstatvfs(&self.folder);
        let space = space.map_err(|error| StoreError::from_system("measure", &self.root, error.into()))?;
        Ok(space.f_blocks.saturating_mul(space.f_frsize))
    }

    fn lock(&self, path: &Path) -> Result<Lock, StoreError> {
        let path = self.full(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|cause| StoreError::from_system("make the folder", parent, cause))?;
        }
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let file = file.map_err(|cause| StoreError::from_system("open", &path, cause))?;
        for _ in 1..LOCK_TRIES {
            if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                break;
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        match file.try_lock() {
            Ok(()) => Ok(Lock::new(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::Busy(path)),
            Err(TryLockError::Error(cause)) => Err(StoreError::from_system("lock", &path, cause)),
        }
    }

    fn is_locked(&self, path: &Path) -> Result<bool, StoreError> {
        let path = self.full(path);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(cause) => return Err(StoreError::from_system("open", &path, cause)),
        };
        // Shared, so that two who look do not take each other for a recorder; given back with the file.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(cause)) => Err(StoreError::from_system("look at", &path, cause)),
        }
    }
}

struct OpenFile {
    path: PathBuf,
    file: File,
}

impl Appendable for OpenFile {
    fn append(&mut self, parts: &[&[u8]]) -> Result<(), StoreError> {
        for group in parts.chunks(PARTS_PER_WRITE) {
            let mut slices: Vec<IoSlice<'_>> = group.iter().map(|part| IoSlice::new(part)).collect();
            write_all(&mut self.file, &mut slices)
                .map_err(|cause| StoreError::from_system("write", &self.path, cause))?;
        }
        Ok(())
    }

    fn truncate(&mut self, size_bytes: u64) -> Result<(), StoreError> {
        self.file.set_len(size_bytes).map_err(|cause| StoreError::from_system("cut", &self.path, cause))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|cause| StoreError::from_system("sync", &self.path, cause))
    }
}

fn write_all(file: &mut File, mut slices: &mut [IoSlice<'_>]) -> std::io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Readable for OpenFile {
    fn size_bytes(&self) -> Result<u64, StoreError> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|cause| StoreError::from_system("measure", &self.path, cause))?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.file.read_exact_at(buffer, offset).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                StoreError::Short { path: self.path.clone(), needed: offset + buffer.len() as u64 }
            }
            _ => StoreError::from_system("read", &self.path, cause),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{read_whole, replace};

    #[test]
    fn parts_are_written_one_behind_the_other_however_many() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path()).unwrap();
        let part = [7_u8; 3];
        let parts = vec![&part[..]; PARTS_PER_WRITE * 2 + 1];
        let mut file = store.create(Path::new("a/b/file")).unwrap();
        file.append(&parts).unwrap();
        file.sync().unwrap();
        assert_eq!(read_whole(&store, Path::new("a/b/file")).unwrap(), vec![7; parts.len() * 3]);
        assert!(matches!(store.create(Path::new("a/b/file")), Err(StoreError::Exists(_))));
        assert!(matches!(store.open(Path::new("a/c")), Err(StoreError::NotFound(_))));
    }

    #[test]
    fn a_replaced_file_has_the_new_content_and_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path()).unwrap();
        for content in [&b"old"[..], b"new content"] {
            replace(&store, Path::new("x/account.json"), content).unwrap();
            assert_eq!(read_whole(&store, Path::new("x/account.json")).unwrap(), content);
        }
        assert_eq!(store.list(Path::new("x")).unwrap(), ["account.json"]);
    }

    #[test]
    fn a_lock_is_held_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path()).unwrap();
        let held = store.lock(Path::new("run=a/recorder.lock")).unwrap();
        assert!(matches!(store.lock(Path::new("run=a/recorder.lock")), Err(StoreError::Busy(_))));
        assert!(store.is_locked(Path::new("run=a/recorder.lock")).unwrap());
        drop(held);
        assert!(!store.is_locked(Path::new("run=a/recorder.lock")).unwrap());
        assert!(!store.is_locked(Path::new("run=b/recorder.lock")).unwrap());
        assert!(store.lock(Path::new("run=a/recorder.lock")).is_ok());
    }
}
