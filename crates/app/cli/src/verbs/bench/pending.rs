//! A file that appears once it is whole.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::NamedTempFile;

/// A file that is being written; dropped before it is finished it leaves nothing.
pub(super) struct Pending {
    path: PathBuf,
    file: NamedTempFile,
}

impl Pending {
    /// Begins it, in the folder where it is to appear.
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
        let file = file.with_context(|| {
            format!("{} cannot be written\nname a file in a folder that can", path.display())
        })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Returns where it is to appear.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of it, and lets it appear.
    pub(super) fn write(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.append(bytes).with_context(|| self.cannot_be_written())?;
        self.finish()
    }

    /// Writes more of it.
    pub(super) fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Lets it appear.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        // A temporary file is its owner's alone; a report is for others too.
        let permissions = std::fs::Permissions::from_mode(0o644);
        self.file.as_file().set_permissions(permissions).with_context(|| self.cannot_be_written())?;
        let said = self.cannot_be_written();
        self.file.persist(&self.path).context(said)?;
        Ok(())
    }

    fn cannot_be_written(&self) -> String {
        format!("{} cannot be written", self.path.display())
    }
}
