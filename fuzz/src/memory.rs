//! A disk in memory: names and bytes; nothing is ever lost, and locks have no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archive::{Appendable, Lock, Readable, Store, StoreError};

type File = Arc<Mutex<Vec<u8>>>;

/// A disk.
#[derive(Clone, Default)]
pub struct Memory {
    files: Arc<Mutex<BTreeMap<PathBuf, File>>>,
}

struct Handle {
    path: PathBuf,
    file: File,
}

impl Memory {
    /// Returns an independent copy of the disk.
    #[must_use]
    pub fn copy(&self) -> Self {
        let copy = |(path, file): (&PathBuf, &File)| (path.clone(), Arc::new(Mutex::new(locked(file).clone())));
        Self { files: Arc::new(Mutex::new(locked(&self.files).iter().map(copy).collect())) }
    }

    /// Returns the names, in order.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        locked(&self.files).keys().cloned().collect()
    }

    /// Returns every file with its content.
    #[must_use]
    pub fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let content = |(path, file): (&PathBuf, &File)| (path.clone(), locked(file).clone());
        locked(&self.files).iter().map(content).collect()
    }

    /// Changes a file's content; nothing if there is no such file.
    pub fn change(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        if let Ok(file) = self.file(path) {
            change(&mut locked(&file));
        }
    }

    fn file(&self, path: &Path) -> Result<File, StoreError> {
        let found = locked(&self.files).get(path).map(Arc::clone);
        found.ok_or_else(|| StoreError::NotFound(path.to_owned()))
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Memory {
    fn make_folder(&self, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError> {
        let mut files = locked(&self.files);
        if files.contains_key(path) {
            return Err(StoreError::Exists(path.to_owned()));
        }
        let file = File::default();
        files.insert(path.to_owned(), Arc::clone(&file));
        Ok(Box::new(Handle { path: path.to_owned(), file }))
    }

    fn append_to(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError> {
        Ok(Box::new(Handle { path: path.to_owned(), file: self.file(path)? }))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Readable>, StoreError> {
        Ok(Box::new(Handle { path: path.to_owned(), file: self.file(path)? }))
    }

    fn sync_folder(&self, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let mut files = locked(&self.files);
        let file = files.remove(from).ok_or_else(|| StoreError::NotFound(from.to_owned()))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        let removed = locked(&self.files).remove(path);
        removed.map(drop).ok_or_else(|| StoreError::NotFound(path.to_owned()))
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, StoreError> {
        let files = locked(&self.files);
        let inside = files.keys().filter_map(|name| name.strip_prefix(path).ok());
        let first = inside.filter_map(|rest| rest.components().next());
        let names: BTreeSet<String> =
            first.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        Ok(names.into_iter().collect())
    }

    fn space_bytes(&self) -> Result<u64, StoreError> {
        Ok(u64::MAX)
    }

    fn capacity_bytes(&self) -> Result<u64, StoreError> {
        Ok(u64::MAX)
    }

    fn lock(&self, _: &Path) -> Result<Lock, StoreError> {
        Ok(Lock::new(()))
    }

    fn is_locked(&self, _: &Path) -> Result<bool, StoreError> {
        Ok(false)
    }
}

impl Appendable for Handle {
    fn append(&mut self, parts: &[&[u8]]) -> Result<(), StoreError> {
        locked(&self.file).extend(parts.concat());
        Ok(())
    }

    fn truncate(&mut self, size_bytes: u64) -> Result<(), StoreError> {
        let mut file = locked(&self.file);
        let size = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        assert!(size <= file.len(), "{} is cut to more than it has", self.path.display());
        file.truncate(size);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Readable for Handle {
    fn size_bytes(&self) -> Result<u64, StoreError> {
        Ok(locked(&self.file).len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        let needed = offset.saturating_add(buffer.len() as u64);
        let short = || StoreError::Short { path: self.path.clone(), needed };
        let file = locked(&self.file);
        let start = usize::try_from(offset).map_err(|_| short())?;
        let end = start.checked_add(buffer.len()).ok_or_else(short)?;
        buffer.copy_from_slice(file.get(start..end).ok_or_else(short)?);
        Ok(())
    }
}
