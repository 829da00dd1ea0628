//! What the archive asks of a disk, and nothing more.
//!
//! Everything the archive writes goes through [`Store`], so that tests can put a disk below it that forgets
//! what was not synced, runs full or loses power between any two calls. [`FileStore`] is the real one.
//! Paths are relative to the archive's root.

use std::path::{Path, PathBuf};

mod files;

pub use files::FileStore;

/// A disk with folders, as far as the archive needs one.
///
/// The contract on which crash safety rests:
/// - bytes are durable when a sync of their file returned;
/// - names (created, renamed, removed) are durable when [`Store::sync_folder`] of their folder returned;
/// - a rename replaces the target in one step;
/// - without a sync anything may be lost, torn or kept, in any order.
pub trait Store: Send + Sync {
    /// Makes a folder with all above it; one that is there stays.
    ///
    /// # Errors
    /// What the disk says.
    fn make_folder(&self, path: &Path) -> Result<(), StoreError>;

    /// Creates an empty file in a folder that is there: one that was taken away is not made again.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the name is taken.
    fn create(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError>;

    /// Opens a file for appending behind what it holds.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is none.
    fn append_to(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError>;

    /// Opens a file for reading, without waiting for anything. It stays readable when its name is removed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is none, [`StoreError::Misplaced`] if it is no file.
    fn open(&self, path: &Path) -> Result<Box<dyn Readable>, StoreError>;

    /// Syncs many files at once: one barrier, cheaper than each by itself.
    ///
    /// # Errors
    /// The first failure; then none of the files may be taken for durable.
    fn sync_all(&self, files: &mut [&mut dyn Appendable]) -> Result<(), StoreError> {
        files.iter_mut().try_for_each(|file| file.sync())
    }

    /// Makes the names in a folder durable, and the folder's own name with all above it.
    ///
    /// # Errors
    /// What the disk says.
    fn sync_folder(&self, path: &Path) -> Result<(), StoreError>;

    /// Gives a file another name in the same folder, replacing what had it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such file.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is none.
    fn remove(&self, path: &Path) -> Result<(), StoreError>;

    /// Returns the names in a folder, sorted; none if the folder does not exist.
    ///
    /// # Errors
    /// [`StoreError::Misplaced`] if it is no folder; what the disk says.
    fn list(&self, path: &Path) -> Result<Vec<String>, StoreError>;

    /// Checks that the disk is still where it was opened.
    ///
    /// # Errors
    /// [`StoreError::Gone`] if its folder was removed, moved or unmounted.
    fn check_place(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns how many bytes can still be written.
    ///
    /// # Errors
    /// What the disk says.
    fn space_bytes(&self) -> Result<u64, StoreError>;

    /// Returns how many bytes the whole disk holds, used or not.
    ///
    /// # Errors
    /// What the disk says.
    fn capacity_bytes(&self) -> Result<u64, StoreError>;

    /// Takes a lock that ends with the returned value, or with the process.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if somebody else holds it.
    fn lock(&self, path: &Path) -> Result<Lock, StoreError>;

    /// Tells whether somebody holds a lock, without taking it for longer than the look lasts.
    ///
    /// # Errors
    /// What the disk says.
    fn is_locked(&self, path: &Path) -> Result<bool, StoreError>;
}

/// A file that grows at its end.
pub trait Appendable: Send {
    /// Appends `parts` one behind the other.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`] or what the disk says; part of the bytes may have been written.
    fn append(&mut self, parts: &[&[u8]]) -> Result<(), StoreError>;

    /// Cuts the file to `size_bytes`; one that is shorter stays as it is.
    ///
    /// # Errors
    /// What the disk says.
    fn truncate(&mut self, size_bytes: u64) -> Result<(), StoreError>;

    /// Checks that the file is still under its name on the disk.
    ///
    /// # Errors
    /// [`StoreError::Gone`] if it, or a folder above it, was removed, moved or replaced.
    fn check_place(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Checks that the file is as long as what was written, and takes it as it is from then on.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if something else cut it, or added to it.
    fn check_size(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes the content durable.
    ///
    /// # Errors
    /// What the disk says; then nothing since the last sync may be taken for durable, now or later.
    fn sync(&mut self) -> Result<(), StoreError>;
}

/// A file that can be read anywhere.
pub trait Readable: Send + Sync {
    /// Returns the size now.
    ///
    /// # Errors
    /// What the disk says.
    fn size_bytes(&self) -> Result<u64, StoreError>;

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// [`StoreError::Short`] if the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError>;
}

/// Holds a lock until it is dropped.
#[must_use]
pub struct Lock {
    check: Box<dyn Fn() -> Result<(), StoreError> + Send + Sync>,
}

impl Lock {
    /// Wraps whatever gives the lock back when dropped.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self::in_place(move || {
            let _held = &held;
            Ok(())
        })
    }

    /// Wraps what holds the lock, and tells whether it still keeps others out.
    pub fn in_place(check: impl Fn() -> Result<(), StoreError> + Send + Sync + 'static) -> Self {
        Self { check: Box::new(check) }
    }

    /// Checks that the lock still keeps others out.
    ///
    /// # Errors
    /// [`StoreError::Gone`] if its file was taken away.
    pub fn check_place(&self) -> Result<(), StoreError> {
        (self.check)()
    }
}

/// Says what a disk refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk is full, or a quota is used up.
    #[error("no space left for {}\nfree some, or record to another disk with --root DIR", .0.display())]
    NoSpace(PathBuf),
    /// There is no such file.
    #[error("{} does not exist", .0.display())]
    NotFound(PathBuf),
    /// There is such a file already.
    #[error("{} already exists", .0.display())]
    Exists(PathBuf),
    /// Somebody else holds the lock.
    #[error("{} is locked by another recorder\nrecord under another name with --run NAME, or stop that recorder", .0.display())]
    Busy(PathBuf),
    /// Something else lies where a file or a folder should be.
    #[error("{} is a {found}, not a {wanted}\nput the {wanted} back from a copy, or move the {found} away", path.display())]
    Misplaced {
        /// Where.
        path: PathBuf,
        /// What lies there: a folder, a link, a pipe, a socket, a device.
        found: &'static str,
        /// What should.
        wanted: &'static str,
    },
    /// A file that is open, or a folder above it, is not in its place any more.
    #[error(
        "{} has disappeared: it, or a folder above it, was removed, moved, replaced or unmounted\n\
         put it back, or record into another folder with --root DIR",
        .0.display()
    )]
    Gone(PathBuf),
    /// A file that is being written is not as long as what was written.
    #[error(
        "{} was truncated or extended by another program while it was recorded\n\
         only its recorder may write into an archive",
        .0.display()
    )]
    Changed(PathBuf),
    /// A file ends before what should be read.
    #[error("{} ends before byte {needed}", path.display())]
    Short {
        /// Which file.
        path: PathBuf,
        /// How long it should be at least.
        needed: u64,
    },
    /// The disk cannot give back what it took.
    #[error(
        "the disk cannot read {}: {cause}\nsee the kernel's log (dmesg), and copy the archive to another disk",
        path.display()
    )]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system answered.
        #[source]
        cause: std::io::Error,
    },
    /// Anything else the system says.
    #[error("{} {}: {cause}", action, path.display())]
    System {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system answered.
        #[source]
        cause: std::io::Error,
    },
}

impl StoreError {
    /// Tells whether a file is not what was stored: a fault of the disk or of whoever changed it, and no reason to leave the
    /// rest unread.
    pub(crate) const fn is_damage(&self) -> bool {
        matches!(self, Self::Misplaced { .. } | Self::Short { .. } | Self::Unreadable { .. })
    }

    /// Sorts what the system says about `path` while doing `action`.
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

/// Reads a whole small file.
///
/// # Errors
/// [`StoreError::NotFound`] if there is none; what the disk says.
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
/// What the disk says; the old content then stays.
pub fn replace(store: &dyn Store, path: &Path, content: &[u8]) -> Result<(), StoreError> {
    replace_from(store, &draft_of(path), path, content)
}

/// The same by a draft of the caller's own, where others may replace the file at the same time: the last one's content stays.
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
        // A folder gives way to no file by itself.
        Err(StoreError::Misplaced { .. }) => {
            set_aside(store, path)?;
            store.rename(draft, path)
        }
        renamed => renamed,
    }
}

/// The most things set aside of one name; more than a person leaves lying about.
const MAX_SET_ASIDE: u32 = 1_000;

/// Writes a copy beside a file under another name, and makes it durable. Returns that name.
///
/// # Errors
/// What the disk says.
pub(crate) fn copy_aside(store: &dyn Store, path: &Path, content: &[u8]) -> Result<String, StoreError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let free = free_aside(store, path)?;
    let mut file = store.create(&folder.join(&free))?;
    file.append(&[content])?;
    file.sync()?;
    store.sync_folder(folder)?;
    Ok(free)
}

/// Gives what cannot be read another name beside its own, so that it is kept and in nobody's way. Returns that name.
///
/// # Errors
/// What the disk says.
pub(crate) fn set_aside(store: &dyn Store, path: &Path) -> Result<String, StoreError> {
    let free = free_aside(store, path)?;
    store.rename(path, &path.with_file_name(&free))?;
    Ok(free)
}

/// Returns the first name beside a file that is free for what is set aside.
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

/// What is behind the name of what was set aside.
pub(crate) const ASIDE: &str = ".damaged";

/// Returns the name a file has until it is whole.
#[must_use]
pub fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".draft");
    PathBuf::from(name)
}
