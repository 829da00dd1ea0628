//! Store on the real disk: a folder of the file system.

use std::fs::{File, TryLockError};
use std::io::{IoSlice, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

mod place;

use place::{Place, identity};

use super::{Appendable, Lock, Readable, Store, StoreError};

/// Number of files from which one `syncfs` is considered cheaper than a `fdatasync` each: two hundred slow streams
/// would otherwise need two hundred barriers where one suffices.
const FILES_WORTH_A_WHOLE_SYNC: usize = 8;
/// Maximum number of parts given to one `writev`; the system's own limit (`IOV_MAX`) is 1,024.
const PARTS_PER_WRITE: usize = 512;
/// Maximum number of attempts to check a lock: another process that checks it releases it at once, unless it is
/// starved.
const LOCK_TRIES: u32 = 1_000;
/// Pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Folder of the file system, held open: operations stay in it even if its path leads elsewhere meanwhile.
#[derive(Debug)]
pub struct FileStore {
    place: Arc<Place>,
    /// Set once a file is found on another device, by a mount: then one `syncfs` of the root does not reach it, and
    /// every file is synced separately.
    spans_devices: AtomicBool,
}

impl FileStore {
    /// Opens the folder, and creates it if needed.
    ///
    /// # Errors
    /// The error of the system.
    pub fn create(root: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(root)
            .map_err(|cause| StoreError::from_system("make the folder", root, cause))?;
        Self::open(root)
    }

    /// Opens a folder that exists.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        Ok(Self { place: Arc::new(Place::open(root)?), spans_devices: AtomicBool::new(false) })
    }

    /// Returns the folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.place.path()
    }

    fn full(&self, path: &Path) -> PathBuf {
        self.place.full(path)
    }

    fn opened(&self, path: &Path, how: OFlags) -> Result<OpenFile, StoreError> {
        let file = self.place.open_file(path, how)?;
        let stat = rustix::fs::fstat(&file);
        let stat = stat.map_err(|error| StoreError::from_system("open", &self.full(path), error.into()))?;
        let place = Arc::clone(&self.place);
        Ok(OpenFile {
            path: self.full(path),
            within: path.to_owned(),
            place,
            identity: identity(&stat),
            size_bytes: stat.st_size.cast_unsigned(),
            file,
        })
    }

    fn appendable(&self, path: &Path, how: OFlags) -> Result<Box<dyn Appendable>, StoreError> {
        let open = self.opened(path, how | OFlags::WRONLY | OFlags::APPEND)?;
        match self.place.folder().metadata() {
            Ok(root) if root.dev() == open.identity.0 => {}
            // Relaxed: a hint that only changes once, read by the thread that set it.
            _ => self.spans_devices.store(true, Ordering::Relaxed),
        }
        Ok(Box::new(open))
    }
}

impl Store for FileStore {
    fn make_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.place.make_folder(path).map(drop)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError> {
        self.appendable(path, OFlags::CREATE | OFlags::EXCL)
    }

    fn append_to(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError> {
        self.appendable(path, OFlags::empty())
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Readable>, StoreError> {
        Ok(Box::new(self.opened(path, OFlags::RDONLY)?))
    }

    fn sync_all(&self, files: &mut [&mut dyn Appendable]) -> Result<(), StoreError> {
        if files.len() < FILES_WORTH_A_WHOLE_SYNC || self.spans_devices.load(Ordering::Relaxed) {
            return files.iter_mut().try_for_each(|file| file.sync());
        }
        rustix::fs::syncfs(self.place.folder())
            .map_err(|error| StoreError::from_system("sync", self.root(), error.into()))
    }

    fn sync_folder(&self, path: &Path) -> Result<(), StoreError> {
        for ancestor in path.ancestors() {
            let folder = self.place.open_folder(ancestor)?;
            rustix::fs::fsync(&folder)
                .map_err(|error| StoreError::from_system("sync", &self.full(ancestor), error.into()))?;
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.place.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        self.place.remove(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, StoreError> {
        let failed = |error: Errno| StoreError::from_system("list", &self.full(path), error.into());
        let folder = match self.place.open_folder(path) {
            Ok(folder) => folder,
            Err(StoreError::NotFound(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(folder).map_err(failed)? {
            // Names that are not UTF-8 are not ours.
            names.extend(entry.map_err(failed)?.file_name().to_str().ok().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        names.sort();
        Ok(names)
    }

    fn check_place(&self) -> Result<(), StoreError> {
        self.place.check()
    }

    fn space_bytes(&self) -> Result<u64, StoreError> {
        let space = self.measured()?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn capacity_bytes(&self) -> Result<u64, StoreError> {
        let space = self.measured()?;
        Ok(space.f_blocks.saturating_mul(space.f_frsize))
    }

    fn lock(&self, path: &Path) -> Result<Lock, StoreError> {
        let open = self.opened(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
        match open.lock(|| std::thread::sleep(LOCK_PAUSE)) {
            // If the file was removed meanwhile, a second recorder could lock a new one.
            Ok(()) => open.check_place().map(|()| Lock::in_place(move || open.check_place())),
            Err(TryLockError::WouldBlock) => Err(StoreError::Busy(open.path)),
            Err(TryLockError::Error(cause)) => Err(StoreError::from_system("lock", &open.path, cause)),
        }
    }

    fn is_locked(&self, path: &Path) -> Result<bool, StoreError> {
        match self.opened(path, OFlags::RDONLY) {
            Ok(open) => {
                let looked = open.is_locked();
                looked.map_err(|cause| StoreError::from_system("look at", &open.path, cause))
            }
            Err(StoreError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl FileStore {
    fn measured(&self) -> Result<rustix::fs::StatVfs, StoreError> {
        rustix::fs::fstatvfs(self.place.folder())
            .map_err(|error| StoreError::from_system("measure", self.root(), error.into()))
    }
}

struct OpenFile {
    /// Path with the root, for messages.
    path: PathBuf,
    /// Path relative to the root.
    within: PathBuf,
    place: Arc<Place>,
    identity: (u64, u64),
    /// Size written so far, in bytes.
    size_bytes: u64,
    file: File,
}

impl OpenFile {
    fn check_place(&self) -> Result<(), StoreError> {
        self.place.check_file(&self.within, self.identity)
    }

    /// Takes the lock. Fails at once if a recorder holds it, and retries if a process only checks it.
    fn lock(&self, mut pause: impl FnMut()) -> Result<(), TryLockError> {
        for _ in 1..LOCK_TRIES {
            match self.file.try_lock() {
                Err(TryLockError::WouldBlock) if !self.is_locked().map_err(TryLockError::Error)? => {
                    pause();
                }
                locked => return locked,
            }
        }
        self.file.try_lock()
    }

    /// Returns whether a recorder holds the lock.
    ///
    /// The check takes the lock shared, so that two checks do not take each other for a recorder.
    fn is_locked(&self) -> std::io::Result<bool> {
        match self.file.try_lock_shared() {
            Ok(()) => self.file.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }

    fn measured(&self) -> Result<u64, StoreError> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|cause| StoreError::from_system("measure", &self.path, cause))?.len())
    }
}

impl Appendable for OpenFile {
    fn append(&mut self, parts: &[&[u8]]) -> Result<(), StoreError> {
        for group in parts.chunks(PARTS_PER_WRITE) {
            let mut slices: Vec<IoSlice<'_>> = group.iter().map(|part| IoSlice::new(part)).collect();
            write_all(&mut self.file, &mut slices)
                .map_err(|cause| StoreError::from_system("write", &self.path, cause))?;
            self.size_bytes += group.iter().map(|part| part.len() as u64).sum::<u64>();
        }
        Ok(())
    }

    fn truncate(&mut self, size_bytes: u64) -> Result<(), StoreError> {
        if self.measured()? > size_bytes {
            let cut = self.file.set_len(size_bytes);
            cut.map_err(|cause| StoreError::from_system("cut", &self.path, cause))?;
        }
        self.size_bytes = self.size_bytes.min(size_bytes);
        Ok(())
    }

    fn check_place(&self) -> Result<(), StoreError> {
        Self::check_place(self)
    }

    fn check_size(&mut self) -> Result<(), StoreError> {
        let found = self.measured()?;
        let is_as_written = core::mem::replace(&mut self.size_bytes, found) == found;
        is_as_written.then_some(()).ok_or_else(|| StoreError::Changed(self.path.clone()))
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
        self.measured()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.file.read_exact_at(buffer, offset).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                StoreError::Short { path: self.path.clone(), needed: offset + buffer.len() as u64 }
            }
            _ if is_of_the_disk(&cause) => StoreError::Unreadable { path: self.path.clone(), cause },
            _ => StoreError::from_system("read", &self.path, cause),
        })
    }
}

/// Returns whether a disk, or damage found by a file system, is why a file cannot be read.
fn is_of_the_disk(cause: &std::io::Error) -> bool {
    let code = cause.raw_os_error().map(Errno::from_raw_os_error);
    // Input/output error, bad checksum, and "structure needs cleaning".
    matches!(code, Some(Errno::IO | Errno::BADMSG | Errno::UCLEAN))
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
        store.make_folder(Path::new("a/b")).unwrap();
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
        store.make_folder(Path::new("x")).unwrap();
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
        store.make_folder(Path::new("run=a")).unwrap();
        let held = store.lock(Path::new("run=a/recorder.lock")).unwrap();
        assert!(matches!(store.lock(Path::new("run=a/recorder.lock")), Err(StoreError::Busy(_))));
        assert!(store.is_locked(Path::new("run=a/recorder.lock")).unwrap());
        drop(held);
        assert!(!store.is_locked(Path::new("run=a/recorder.lock")).unwrap());
        assert!(!store.is_locked(Path::new("run=b/recorder.lock")).unwrap());
        assert!(store.lock(Path::new("run=a/recorder.lock")).is_ok());
    }

    #[test]
    fn a_lock_that_is_only_looked_at_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path()).unwrap();
        let opened = || store.opened(Path::new("recorder.lock"), OFlags::WRONLY | OFlags::CREATE).unwrap();
        let mut looking = Some(opened());
        looking.as_ref().unwrap().file.lock_shared().unwrap();
        let mut pauses = 0;
        let recorder = opened();
        let locked = recorder.lock(|| {
            pauses += 1;
            if pauses == 100 {
                looking = None;
            }
        });
        assert!(locked.is_ok(), "{locked:?}");
        assert_eq!(pauses, 100);
        assert!(matches!(
            opened().lock(|| panic!("a recorder is waited for")),
            Err(TryLockError::WouldBlock)
        ));
    }
}
