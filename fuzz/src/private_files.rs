//! A folder of private files of this process, as the program itself would have written them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A folder that ends with the process.
#[derive(Debug)]
pub struct PrivateFolder(tempfile::TempDir);

impl Default for PrivateFolder {
    fn default() -> Self {
        Self::new()
    }
}

impl PrivateFolder {
    /// Makes an empty folder.
    ///
    /// # Panics
    /// If the system has no room for it.
    pub fn new() -> Self {
        // In memory, where there is: what is written is waited for.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self(folder.expect("room for a folder"))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Removes all files.
    ///
    /// # Panics
    /// If the folder is gone.
    pub fn clear(&self) {
        for entry in fs::read_dir(self.path()).expect("a folder of our own") {
            fs::remove_file(entry.expect("an entry").path()).expect("a file of our own");
        }
    }

    /// Writes a file that only its owner may read.
    ///
    /// # Panics
    /// If the system has no room for it.
    pub fn put(&self, name: &str, content: &[u8]) {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(self.path().join(name));
        file.and_then(|mut file| file.write_all(content)).expect("room for a file");
    }
}
