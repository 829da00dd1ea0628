//! Operations that the archive needs of a disk.
//!
//! Everything the archive writes goes through [`Store`], so that tests can replace the disk by one that loses
//! unsynced data, runs full or loses power between any two calls. [`FileStore`] is the real one. Paths are relative
//! to the archive's root.

use std::path::{Path, PathBuf};

mod files;

pub use files::FileStore;

/// Disk with folders, as far as the archive needs one.
///
/// The contract on which crash safety rests:
/// - bytes are durable when a sync of their file returned;
/// - names (created, renamed, removed) are durable when [`Store::sync_folder`] of their folder returned;
/// - a rename replaces the target in one step;
/// - without a sync anything may be lost, torn or kept, in any order.
pub trait Store: Send + Sync {
    /// Creates a folder with all its parents; an existing one stays.
    ///
    /// # Errors
    /// The error of the disk.
    fn make_folder(&self, path: &Path) -> Result<(), StoreError>;

    /// Creates an empty file in an existing folder: one that was removed is not created again.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the name is taken.
    fn create(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError>;

    /// Opens a file for appending behind its content.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist.
    fn append_to(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError>;

    /// Opens a file for reading, without blocking. It stays readable when its name is removed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist, [`StoreError::Misplaced`] if it is no file.
    fn open(&self, path: &Path) -> Result<Box<dyn Readable>, StoreError>;

    /// Syncs many files at once: one barrier, cheaper than a separate sync of each.
    ///
    /// # Errors
    /// The first failure; then none of the files counts as durable.
    fn sync_all(&self, files: &mut [&mut dyn Appendable]) -> Result<(), StoreError> {
        files.iter_mut().try_for_each(|file| file.sync())
    }

    /// Makes the names in a folder durable, and the folder's own name with those of its parents.
    ///
    /// # Errors
    /// The error of the disk.
    fn sync_folder(&self, path: &Path) -> Result<(), StoreError>;

    /// Renames a file within its folder, replacing an existing one.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such file.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist.
    fn remove(&self, path: &Path) -> Result<(), StoreError>;

    /// Returns the names in a folder, sorted; none if the folder does not exist.
    ///
    /// # Errors
    /// [`StoreError::Misplaced`] if it is no folder; the error of the disk.
    fn list(&self, path: &Path) -> Result<Vec<String>, StoreError>;

    /// Checks that the disk is still where it was opened.
    ///
    /// # Errors
    /// [`StoreError::Gone`] if its folder was removed, moved or unmounted.
    fn check_place(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the number of bytes that can still be written.
    ///
    /// # Errors
    /// The error of the disk.
    fn space_bytes(&self) -> Result<u64, StoreError>;

    /// Returns the size of the whole disk, used or not, in bytes.
    ///
    /// # Errors
    /// The error of the disk.
    fn capacity_bytes(&self) -> Result<u64, StoreError>;

    /// Takes a lock that ends when the returned value is dropped, or with the process.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if another process holds it.
    fn lock(&self, path: &Path) -> Result<Lock, StoreError>;

    /// Returns whether a process holds a lock, without taking it for longer than the check lasts.
    ///
    /// # Errors
    /// The error of the disk.
    fn is_locked(&self, path: &Path) -> Result<bool, StoreError>;
}

/// File open for appending.
pub trait Appendable: Send {
    /// Appends `parts` one behind the other.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`] or another error of the disk; part of the bytes may have been written.
    fn append(&mut self, parts: &[&[u8]]) -> Result<(), StoreError>;

    /// Cuts the file to `size_bytes`; a shorter one stays unchanged.
    ///
    /// # Errors
    /// The error of the disk.
    fn truncate(&mut self, size_bytes: u64) -> Result<(), StoreError>;

    /// Checks that the file is still under its name on the disk.
    ///
    /// # Errors
    /// [`StoreError::Gone`] if it, or a folder above it, was removed, moved or replaced.
    fn check_place(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Checks that the file has the written size, and continues with its actual size.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if another program cut it or added to it.
    fn check_size(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes the content durable.
    ///
    /// # Errors
    /// The error of the disk; then nothing since the last sync counts as durable, now or later.
    fn sync(&mut self) -> Result<(), StoreError>;
}

/// File open for reading at any offset.
pub trait Readable: Send + Sync {
    /// Returns the current size, in bytes.
    ///
    /// # Errors
    /// The error of the disk.
    fn size_bytes(&self) -> Result<u64, StoreError>;

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// [`StoreError::Short`] if the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError>;
}

/// Lock that is held until it is dropped.
#[must_use]
pub struct Lock {
    check: Box<dyn Fn() -> Result<(), StoreError> + Send + Sync>,
}

impl Lock {
    /// Wraps a value that releases the lock when dropped.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self::in_place(move || {
            let _held = &held;
            Ok(())
        })
    }

    /// Wraps a lock together with a check that it still keeps others out.
    pub fn in_place(check: impl Fn() -> Result<(), StoreError> + Send + Sync + 'static) -> Self {
        Self { check: Box::new(check) }
    }

    /// Checks that the lock still keeps others out.
    ///
    /// # Errors
    /// [`StoreError::Gone`] if its file was removed.
    pub fn check_place(&self) -> Result<(), StoreError> {
        (self.check)()
    }
}

/// Error of a disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk is full, or a quota is used up.
    #[error("no space left for {}\nfree some, or record to another disk with --archive DIR", .0.display())]
    NoSpace(PathBuf),
    /// The file does not exist.
    #[error("{} does not exist", .0.display())]
    NotFound(PathBuf),
    /// The file exists already.
    #[error("{} already exists", .0.display())]
    Exists(PathBuf),
    /// Another recorder holds the lock.
    #[error("{} is locked by another recorder\nrecord under another name with --run NAME, or stop that recorder", .0.display())]
    Busy(PathBuf),
    /// Something else is in the place of a file or a folder.
    #[error("{} is a {found}, not a {wanted}\nput the {wanted} back from a copy, or move the {found} away", path.display())]
    Misplaced {
        /// Path of the file or folder.
        path: PathBuf,
        /// Kind that was found: a folder, a link, a pipe, a socket, a device.
        found: &'static str,
        /// Kind that was expected.
        wanted: &'static str,
    },
    /// An open file, or a folder above it, is no longer in its place.
    #[error(
        "{} has disappeared: it, or a folder above it, was removed, moved, replaced or unmounted\n\
         put it back, or record into another folder with --archive DIR",
        .0.display()
    )]
    Gone(PathBuf),
    /// A file that is being written does not have the written size.
    #[error(
        "{} was truncated or extended by another program while it was recorded\n\
         only its recorder may write into an archive",
        .0.display()
    )]
    Changed(PathBuf),
    /// A file ends before the bytes to be read.
    #[error("{} ends before byte {needed}", path.display())]
    Short {
        /// Path of the file.
        path: PathBuf,
        /// Minimum size that was expected, in bytes.
        needed: u64,
    },
    /// The disk cannot read stored data.
    #[error(
        "the disk cannot read {}: {cause}\nsee the kernel's log (dmesg), and copy the archive to another disk",
        path.display()
    )]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        cause: std::io::Error,
    },
    /// Another error of the system.
    #[error("{} {}: {cause}", action, path.display())]
    System {
        /// Action that failed.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        cause: std::io::Error,
    },
}

impl StoreError {
    /// Returns whether stored data were changed, by a fault of the disk or by a program: no reason to leave the rest
    /// unread.
    pub(crate) const fn is_damage(&self) -> bool {
        matches!(self, Self::Misplaced { .. } | Self::Short { .. } | Self::Unreadable { .. })
    }

    /// Converts an error of the system about `path` while doing `action`.
    #[must_use]
    pub fn from_system(action: &'static str, path: &Path, cause: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let path = path.to_owned();
        match cause.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::NoSpace(path)
            }
            ErrorKind::NotFound => Self::NotFound(path),
            ErrorKind::AlreadyExists => Self::Exists(path),
            _ => Self::System { action, path, cause },
        }
    }
}

/// Removes files of ours; a missing one, or something that is no file, is left.
pub(crate) fn remove_if_there<'a>(
    store: &dyn Store,
    paths: impl IntoIterator<Item = &'a Path>,
) -> Result<(), StoreError> {
    for path in paths {
        match store.remove(path) {
            Ok(()) | Err(StoreError::NotFound(_) | StoreError::Misplaced { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a whole small file.
///
/// # Errors
/// [`StoreError::NotFound`] if it does not exist; the error of the disk.
pub fn read_whole(store: &dyn Store, path: &Path) -> Result<Vec<u8>, StoreError> {
    let file = store.open(path)?;
    let size_bytes = file.size_bytes()?;
    let mut content = vec![0; usize::try_from(size_bytes).unwrap_or(usize::MAX)];
    file.read_at(0, &mut content)?;
    Ok(content)
}

/// Replaces a small file in one step: a reader and a power cut see the old content or the new, never a mix.
///
/// The new name is durable once the folder is synced.
///
/// # Errors
/// The error of the disk; the old content then stays.
pub fn replace(store: &dyn Store, path: &Path, content: &[u8]) -> Result<(), StoreError> {
    replace_from(store, &draft_of(path), path, content)
}

/// Replaces a small file by a draft of the caller's own, for files that several may replace at the same time: the
/// last content stays.
pub(crate) fn replace_from(
    store: &dyn Store,
    draft: &Path,
    path: &Path,
    content: &[u8],
) -> Result<(), StoreError> {
    match store.remove(draft) {
        Ok(()) | Err(StoreError::NotFound(_)) => {}
        Err(StoreError::Misplaced { .. }) => drop(set_aside(store, draft)?),
        Err(error) => return Err(error),
    }
    let mut file = store.create(draft)?;
    file.append(&[content])?;
    file.sync()?;
    match store.rename(draft, path) {
        // A folder is not replaced by a file on its own.
        Err(StoreError::Misplaced { .. }) => {
            set_aside(store, path)?;
            store.rename(draft, path)
        }
        renamed => renamed,
    }
}

/// Maximum number of files set aside under one name; more than a person keeps.
const MAX_SET_ASIDE: u32 = 1_000;

/// Writes a durable copy of a file under another name in its folder. Returns that name.
///
/// # Errors
/// The error of the disk.
pub(crate) fn copy_aside(store: &dyn Store, path: &Path, content: &[u8]) -> Result<String, StoreError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let free = free_aside(store, path)?;
    let mut file = store.create(&folder.join(&free))?;
    file.append(&[content])?;
    file.sync()?;
    store.sync_folder(folder)?;
    Ok(free)
}

/// Renames an unreadable file within its folder, so that it is kept and does not block its name. Returns the new
/// name.
///
/// # Errors
/// The error of the disk.
pub(crate) fn set_aside(store: &dyn Store, path: &Path) -> Result<String, StoreError> {
    let free = free_aside(store, path)?;
    store.rename(path, &path.with_file_name(&free))?;
    Ok(free)
}

/// Returns the first free name for a file to be set aside.
fn free_aside(store: &dyn Store, path: &Path) -> Result<String, StoreError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let taken = store.list(folder)?;
    let aside = |number: u32| match number {
        1 => format!("{name}{ASIDE}"),
        number => format!("{name}{ASIDE}-{number}"),
    };
    let free = (1..=MAX_SET_ASIDE).map(aside).find(|name| !taken.contains(name));
    free.ok_or_else(|| StoreError::Exists(folder.join(aside(MAX_SET_ASIDE))))
}

/// Suffix of the name of a file that was set aside.
pub(crate) const ASIDE: &str = ".damaged";

/// Returns the name of a file until it is complete.
#[must_use]
pub fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".draft");
    PathBuf::from(name)
}
