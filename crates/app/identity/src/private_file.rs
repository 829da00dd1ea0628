//! Files that only their owner may read or write: read with their modes checked, written whole or not at all.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sys::trust::{self, Purpose, TrustError};

/// The largest file: ten thousand users.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Others could have written it.
    #[error(transparent)]
    Untrusted(TrustError),
    /// Others may read its secrets.
    #[error("{path} holds secrets, and others may read it (mode {mode:03o})\nchmod 600 {path}", path = .path.display())]
    Readable {
        /// Path of the file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Larger than any file that this program writes.
    #[error("{} exceeds {MAX_FILE_BYTES} bytes\nremove what is not needed any more", .0.display())]
    Large(PathBuf),
    /// The system refuses.
    #[error("cannot {action} {}", .path.display())]
    System {
        /// What was to be done.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Reason of the system.
        #[source]
        source: io::Error,
    },
}

/// Privacy of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Privacy {
    /// Others may read it.
    Open,
    /// It has secrets.
    Secret,
}

/// State of a file by which a change is noticed: device, inode, size, modification and change in nanoseconds.
pub(crate) type Stamp = Option<(u64, u64, u64, i128, i128)>;

/// Reads a file that no other user could have written, and with [`Privacy::Secret`] none may read; `None` if there is
/// none.
pub(crate) fn read(path: &Path, privacy: Privacy) -> Result<Option<String>, FileError> {
    let file = match trust::open_trusted(path, Purpose::Read) {
        Ok(file) => file,
        Err(TrustError::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(FileError::Untrusted(error)),
    };
    let failed = |source| FileError::System { action: "read", path: path.to_owned(), source };
    let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
    if privacy == Privacy::Secret && mode & 0o077 != 0 {
        return Err(FileError::Readable { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(FileError::Large(path.to_owned()));
    }
    Ok(Some(text))
}

/// Replaces a file, for its owner alone: after a crash there is the old content or the new one.
pub(crate) fn replace(path: &Path, content: &str) -> Result<(), FileError> {
    let failed = |source| FileError::System { action: "write", path: path.to_owned(), source };
    let folder = path.parent().expect("a file of a folder");
    // Mode 0600 from the start: the content is at no moment readable by others.
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    // The new name lasts when its folder does.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Returns the state by which a later change is noticed; `None` if there is no such file.
pub(crate) fn stamp(path: &Path) -> Stamp {
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let of = |it: Metadata| {
        (
            it.dev(),
            it.ino(),
            it.size(),
            nanos(it.mtime(), it.mtime_nsec()),
            nanos(it.ctime(), it.ctime_nsec()),
        )
    };
    std::fs::symlink_metadata(path).ok().map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_is_for_its_owner_alone_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        assert_eq!(read(&path, Privacy::Secret).unwrap(), None);
        for content in ["one", "another"] {
            replace(&path, content).unwrap();
            assert_eq!(read(&path, Privacy::Secret).unwrap().as_deref(), Some(content));
        }
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_secret_file_that_others_may_read_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        replace(&path, "one").unwrap();
        for mode in [0o640, 0o604, 0o610] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = read(&path, Privacy::Secret).unwrap_err().to_string();
            assert!(error.ends_with(&format!("chmod 600 {}", path.display())), "{error}");
            assert!(read(&path, Privacy::Open).is_ok());
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
        assert!(matches!(read(&path, Privacy::Open), Err(FileError::Untrusted(_))));
    }

    #[test]
    fn each_replacement_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        assert_eq!(stamp(&path), None);
        replace(&path, "same").unwrap();
        let first = stamp(&path);
        assert_eq!(stamp(&path), first);
        replace(&path, "same").unwrap();
        assert_ne!(stamp(&path), first);
    }

    #[test]
    fn the_last_size_is_read_and_the_next_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        replace(&path, &"x".repeat(MAX_FILE_BYTES as usize)).unwrap();
        assert!(read(&path, Privacy::Secret).is_ok());
        replace(&path, &"x".repeat(MAX_FILE_BYTES as usize + 1)).unwrap();
        assert!(matches!(read(&path, Privacy::Secret), Err(FileError::Large(_))));
    }
}
