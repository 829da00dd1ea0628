//! Files that only their owner may read or write: read with their modes checked, written whole or not at all.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use crate::host::process;
use crate::trust::{self, Purpose, TrustError};

/// The most files of one name that are set aside.
const MAX_ASIDE: u32 = 1_000;
/// Room behind a file's size, so that its end is found without a larger buffer: that would leave a copy behind.
const ROOM_BEHIND_BYTES: usize = 64;

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
    #[error("{} exceeds {max_bytes} bytes\nremove what is not needed any more", .path.display())]
    Large {
        /// Path of the file.
        path: PathBuf,
        /// The largest size.
        max_bytes: usize,
    },
    /// There is such a file already.
    #[error("{} exists, and nothing is overwritten\nmove it away, or name another", .0.display())]
    Exists(PathBuf),
    /// The replaced file's owner or group cannot be given to the new one.
    #[error(
        "{path} belongs to user {owner} and group {group}, and this user may not make such a file\n\
         change it as that user, or as root", path = .path.display()
    )]
    Owner {
        /// Path of the file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its group.
        group: u32,
        /// Reason of the system.
        #[source]
        source: io::Error,
    },
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
pub enum Privacy {
    /// Others may read it.
    Open,
    /// It has secrets.
    Secret,
}

/// State of a file by which a change is noticed: device, inode, size, modification and change in nanoseconds.
pub type Stamp = Option<(u64, u64, u64, i128, i128)>;

/// The new content of a file, written but not yet under its name; without that it is removed.
#[derive(Debug)]
pub struct Staged {
    file: NamedTempFile,
    path: PathBuf,
}

/// Reads a file that no other user could have written, and with [`Privacy::Secret`] none may read; `None` if there is
/// none.
///
/// # Errors
/// [`FileError`], also for a file of more than `max_bytes`.
pub fn read(path: &Path, privacy: Privacy, max_bytes: usize) -> Result<Option<Zeroizing<String>>, FileError> {
    let file = match trust::open_trusted(path, Purpose::Read) {
        Ok(file) => file,
        Err(TrustError::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(FileError::Untrusted(error)),
    };
    let failed = |source| FileError::System { action: "read", path: path.to_owned(), source };
    let metadata = file.metadata().map_err(failed)?;
    let mode = metadata.mode() & 0o7777;
    if privacy == Privacy::Secret && mode & 0o077 != 0 {
        return Err(FileError::Readable { path: path.to_owned(), mode });
    }
    let size_bytes = usize::try_from(metadata.len()).unwrap_or(usize::MAX).min(max_bytes);
    let mut text = Zeroizing::new(String::with_capacity(size_bytes + ROOM_BEHIND_BYTES));
    file.take(max_bytes as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() > max_bytes {
        return Err(FileError::Large { path: path.to_owned(), max_bytes });
    }
    Ok(Some(text))
}

/// Replaces a file, for its owner alone: after a crash there is the old content or the new one.
///
/// # Errors
/// `Untrusted`, `Owner` and `System` of [`FileError`].
pub fn replace(path: &Path, content: &str) -> Result<(), FileError> {
    Staged::new(path, content)?.replace()
}

/// Makes a file, for its owner alone, whole or not at all.
///
/// # Errors
/// `Exists` and `System` of [`FileError`].
pub fn create(path: &Path, content: &str) -> Result<(), FileError> {
    Staged::write(path, content)?.create()
}

/// Renames a file that cannot be used to `NAME.aside-N`, the first that is free, so that no later content replaces it.
/// Returns its new path.
///
/// # Errors
/// `System` of [`FileError`], also when 1,000 files of this name were set aside.
pub fn set_aside(path: &Path) -> Result<PathBuf, FileError> {
    let failed = |source| FileError::System { action: "rename", path: path.to_owned(), source };
    let numbered = |number: u32| {
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".aside-{number}"));
        PathBuf::from(aside)
    };
    let free = (1..=MAX_ASIDE).map(numbered).find(|aside| std::fs::symlink_metadata(aside).is_err());
    let aside = free.ok_or_else(|| failed(io::ErrorKind::AlreadyExists.into()))?;
    std::fs::rename(path, &aside).map_err(failed)?;
    Ok(aside)
}

impl FileError {
    /// Returns whether the file may be readable a moment later without another [`Stamp`]: after too many open files,
    /// or if its folder gets another mode or owner.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Untrusted(TrustError::Owner { .. } | TrustError::Writable { .. }) => true,
            Self::System { source, .. } | Self::Untrusted(TrustError::System { source, .. }) => {
                !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::PermissionDenied)
            }
            Self::Untrusted(_)
            | Self::Readable { .. }
            | Self::Large { .. }
            | Self::Exists(_)
            | Self::Owner { .. } => false,
        }
    }
}

impl Staged {
    /// Writes the content beside the file, with the owner and the group of the one that it is to replace.
    ///
    /// # Errors
    /// `Untrusted`, `Owner` and `System` of [`FileError`].
    pub fn new(path: &Path, content: &str) -> Result<Self, FileError> {
        let staged = Self::write(path, content)?;
        staged.keep_owner()?;
        Ok(staged)
    }

    fn write(path: &Path, content: &str) -> Result<Self, FileError> {
        let failed = |source| FileError::System { action: "write", path: path.to_owned(), source };
        // Mode 0600 from the start: the content is at no moment readable by others.
        let mut file = tempfile::Builder::new()
            .prefix(".new-")
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(trust::folder_of(path))
            .map_err(failed)?;
        file.write_all(content.as_bytes()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        Ok(Self { file, path: path.to_owned() })
    }

    fn keep_owner(&self) -> Result<(), FileError> {
        let path = &self.path;
        let failed = |source| FileError::System { action: "write", path: path.clone(), source };
        let old = match std::fs::symlink_metadata(path) {
            Ok(old) if old.is_file() => old,
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        // Another user could have put a file there to be given the content.
        trust::check_owner(path, old.uid(), process::user()).map_err(FileError::Untrusted)?;
        let new = self.file.as_file().metadata().map_err(failed)?;
        let (owner, group) = (old.uid(), old.gid());
        if (owner, group) == (new.uid(), new.gid()) {
            return Ok(());
        }
        let given = std::os::unix::fs::fchown(self.file.as_file(), Some(owner), Some(group));
        given.map_err(|source| FileError::Owner { path: path.clone(), owner, group, source })
    }

    /// Gives the content its name, whose old content is gone.
    ///
    /// # Errors
    /// `System` of [`FileError`].
    pub fn replace(self) -> Result<(), FileError> {
        let Self { file, path } = self;
        let failed = |source| FileError::System { action: "write", path: path.clone(), source };
        file.persist(&path).map_err(|error| failed(error.error))?;
        sync_folder(&path)
    }

    /// Gives the content its name, which must be free.
    ///
    /// # Errors
    /// `Exists` and `System` of [`FileError`].
    pub fn create(self) -> Result<(), FileError> {
        let Self { file, path } = self;
        file.persist_noclobber(&path).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists(path.clone()),
            _ => FileError::System { action: "write", path: path.clone(), source: error.error },
        })?;
        sync_folder(&path)
    }
}

/// Folders of files that one process at a time may change, until this is dropped. Programs that only read do not wait.
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "open files hold the locks")] Vec<File>);

/// Waits until no other process has [locked](FolderLock) the folders of these files.
///
/// # Errors
/// `System` of [`FileError`].
pub fn lock_folders<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<FolderLock, FileError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| FileError::System { action: "lock the folder", path, source }
    };
    // Each folder once, or this process would wait for itself; in one order, or two would wait for each other.
    let mut folders = BTreeMap::new();
    for file in files {
        let path = trust::folder_of(file.as_ref());
        let folder = File::open(&path).map_err(failed(&path))?;
        let metadata = folder.metadata().map_err(failed(&path))?;
        folders.insert((metadata.dev(), metadata.ino()), (path, folder));
    }
    let locked = folders.into_values().map(|(path, folder)| {
        flock(&folder, FlockOperation::LockExclusive).map_err(|errno| failed(&path)(errno.into()))?;
        Ok(folder)
    });
    Ok(FolderLock(locked.collect::<Result<_, _>>()?))
}

/// Makes the names in a file's folder last: a new name lasts when its folder does.
fn sync_folder(path: &Path) -> Result<(), FileError> {
    let failed = |source| FileError::System { action: "write", path: path.to_owned(), source };
    File::open(trust::folder_of(path)).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Returns the state by which a later change is noticed; `None` if there is no such file.
#[must_use]
pub fn stamp(path: &Path) -> Stamp {
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

    const MAX_FILE_BYTES: usize = 4_096;

    fn read(path: &Path, privacy: Privacy) -> Result<Option<String>, FileError> {
        let text = super::read(path, privacy, MAX_FILE_BYTES)?;
        Ok(text.map(|text| text.to_string()))
    }

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
    fn a_replaced_file_keeps_its_owner_and_group() {
        use std::os::unix::fs::chown;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        create(&path, "one").unwrap();
        let owner = |path: &Path| std::fs::metadata(path).map(|it| (it.uid(), it.gid())).unwrap();
        let before = owner(&path);
        replace(&path, "two").unwrap();
        assert_eq!(owner(&path), before);
        if process::user() != 0 {
            println!("SKIPPED: only root can give files away");
            return;
        }
        chown(&path, None, Some(7)).unwrap();
        replace(&path, "three").unwrap();
        assert_eq!((owner(&path), std::fs::metadata(&path).unwrap().mode() & 0o7777), ((0, 7), 0o600));
        // Nobody is given the content because a file of his lies there.
        chown(&path, Some(65_534), None).unwrap();
        let told = replace(&path, "four").unwrap_err().to_string();
        assert!(told.contains("belongs to user 65534"), "{told}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
        assert!(matches!(create(&path, "four"), Err(FileError::Exists(_))));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_is_locked_once_however_many_of_its_files_are_named_and_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let is_free = |folder: &tempfile::TempDir| {
            let folder = File::open(folder).unwrap();
            flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
        };
        let files = [folder.path().join("a"), folder.path().join(".").join("b"), folder.path().join("c")];
        let lock = lock_folders(&files[..]).unwrap();
        assert!(!is_free(&folder) && is_free(&other));
        drop(lock);
        assert!(is_free(&folder));
        let _lock = lock_folders([folder.path().join("a"), other.path().join("a")]).unwrap();
        assert!(!is_free(&folder) && !is_free(&other));
        assert!(lock_folders([folder.path().join("none/a")]).is_err());
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
    fn a_new_file_overwrites_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.keys");
        create(&path, "one").unwrap();
        assert!(matches!(create(&path, "another"), Err(FileError::Exists(_))));
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        assert!(matches!(create(&folder.path().join("link"), "one"), Err(FileError::Exists(_))));
        assert_eq!(read(&path, Privacy::Secret).unwrap().as_deref(), Some("one"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn content_that_gets_no_name_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let staged = Staged::new(&folder.path().join("lab.keys"), "one").unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(staged);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_read_into_a_buffer_that_does_not_grow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.keys");
        for size_bytes in [0, 1, 31, 32, 33, 1_000, MAX_FILE_BYTES] {
            replace(&path, &"x".repeat(size_bytes)).unwrap();
            let text = super::read(&path, Privacy::Secret, MAX_FILE_BYTES).unwrap().unwrap();
            assert_eq!((text.len(), text.capacity()), (size_bytes, size_bytes + ROOM_BEHIND_BYTES));
        }
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
        replace(&path, &"x".repeat(MAX_FILE_BYTES)).unwrap();
        assert!(read(&path, Privacy::Secret).is_ok());
        replace(&path, &"x".repeat(MAX_FILE_BYTES + 1)).unwrap();
        assert!(matches!(read(&path, Privacy::Secret), Err(FileError::Large { .. })));
    }
}
