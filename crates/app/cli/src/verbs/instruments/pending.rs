//! A file that appears once it is complete.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use drawing::FigureError;
use tempfile::NamedTempFile;

/// A file that is being written; dropped before it is finished it leaves nothing.
pub(crate) struct Pending {
    path: PathBuf,
    file: NamedTempFile,
}

impl Pending {
    /// Creates the temporary file, in the folder of the final one.
    pub(crate) fn new(path: &Path) -> anyhow::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
        let file = file
            .with_context(|| format!("cannot write {}\nname a file in a writable folder", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes the content, and renames the file to its final name.
    pub(crate) fn write(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.append(bytes).with_context(|| self.cannot_be_written())?;
        self.finish()
    }

    /// Writes a picture; omits the file with a note if there was nothing to draw.
    pub(crate) fn write_picture(self, picture: Result<Vec<u8>, FigureError>) -> anyhow::Result<()> {
        match picture {
            Ok(picture) => self.write(&picture),
            Err(FigureError::Empty) => {
                eprintln!("warning: {} is not written: {}", self.path.display(), FigureError::Empty);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Appends bytes.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Lets it appear.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        // A temporary file is its owner's alone; a report is for others too.
        let permissions = std::fs::Permissions::from_mode(0o644);
        self.file.as_file().set_permissions(permissions).with_context(|| self.cannot_be_written())?;
        let said = self.cannot_be_written();
        self.file.persist(&self.path).context(said)?;
        Ok(())
    }

    fn cannot_be_written(&self) -> String {
        format!("cannot write {}", self.path.display())
    }
}
