//! Files of a ring as its writer holds them, removed with it.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::doorbell::Doorbell;

/// Files of a ring while its writer is alive. Dropping it removes them; processes that have them
/// open continue to read.
pub(crate) struct OwnedFile {
    path: PathBuf,
    doorbell: Doorbell,
    /// The kernel releases its locks with these two files.
    image: File,
    /// Dropped after the ring: a process that finds neither may write.
    _page: Page,
}

/// The page next to a ring under its writer's lock. Dropping it removes it while the lock is held.
pub(crate) struct Page {
    path: PathBuf,
    file: File,
}

impl Page {
    pub(crate) const fn new(path: PathBuf, file: File) -> Self {
        Self { path, file }
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }
}

impl OwnedFile {
    pub(crate) const fn new(path: PathBuf, doorbell: Doorbell, image: File, page: Page) -> Self {
        Self { path, doorbell, image, _page: page }
    }

    pub(crate) const fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        // Only this writer's file: another process may have removed it, and a successor may have
        // the name. Files that cannot be removed are swept later, when their lock is free.
        if is_named(&self.image, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Only this writer's file, as with the ring. A process that waits for the lock finds that
        // its file has no name any more.
        if is_named(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns whether this path names the file.
pub(crate) fn is_named(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (ours.dev(), ours.ino()) == (named.dev(), named.ino())
}
