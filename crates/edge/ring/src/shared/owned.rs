//! Creation of a ring's files by its writer: claimed, filled and published; and removal of those
//! that dead writers left.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, fallocate, fchown, linkat, openat};

use rustix::io::Errno;

use super::error::CreateError;
use super::file::{look, open};
use super::lock::{is_locked, try_lock};
use super::names::{RING_EXTENSION, WAIT_BYTES, wait_path};
use super::options::{Access, Options};
use crate::doorbell::Doorbell;
use crate::mapping::{MappedWord, Mapping, Rights};
use crate::owned_file::{OwnedFile, Page, is_named};
use crate::word::Word;

/// Maximum number of attempts to claim a name when its page was removed meanwhile, or is locked by
/// a process that has no ring: with the pause between them a quarter of a second, longer than a
/// sweeper is preempted.
const ATTEMPTS: usize = 250;
/// Pause between two attempts: a sweeper holds the lock for a few system calls.
const PAUSE: Duration = Duration::from_millis(1);

/// A name that this process may write under; dropping it releases the name.
pub(super) struct Claimed {
    path: PathBuf,
    access: Access,
    group: Option<u32>,
    page: Page,
    armed: Arc<Mapping>,
}

/// A ring's file that has no name yet.
pub(super) struct Image {
    file: File,
    pub(super) mapping: Arc<Mapping>,
}

impl Claimed {
    /// Claims the name, by the lock on the page next to the ring.
    pub(super) fn take(path: &Path, access: Access, group: Option<u32>) -> Result<Self, CreateError> {
        let wait_path = wait_path(path);
        for _ in 0..ATTEMPTS {
            let wait = open_wait(&wait_path).map_err(|source| refused(path, source))?;
            if !try_lock(&wait).map_err(|source| refused(path, source))? {
                if has_writer(path) {
                    break;
                }
                // The lock holder is removing a dead writer's ring or has just removed its own, and
                // will be gone in a moment; or it is another writer whose ring does not exist yet.
                std::thread::sleep(PAUSE);
                continue;
            }
            // The previous holder may have removed it between opening and locking.
            if is_named(&wait, &wait_path) {
                let page = Page::new(wait_path, wait);
                give(page.file(), path, group)?;
                let armed = map_wait(page.file(), access).map_err(|source| full(path, WAIT_BYTES, source))?;
                return Ok(Self { path: path.to_owned(), access, group, page, armed: Arc::new(armed) });
            }
        }
        let pid = look(path).ok().map(|found| found.writer_pid());
        Err(CreateError::InUse { path: path.to_owned(), pid })
    }

    /// Creates the ring's file and maps it; all of its memory is allocated.
    pub(super) fn make_image(&self, size_bytes: usize, options: &Options) -> Result<Image, CreateError> {
        let make = || -> io::Result<Image> {
            let directory = self.path.parent().unwrap_or(Path::new("."));
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            let file = File::from(openat(CWD, directory, flags, Mode::RUSR | Mode::WUSR)?);
            // Locked before the file can be found, so that it never seems to belong to a dead
            // writer.
            try_lock(&file)?;
            fallocate(&file, FallocateFlags::empty(), 0, size_bytes as u64)?;
            if let Some(group) = self.group {
                fchown(&file, None, Some(Gid::from_raw(group)))?;
            }
            file.set_permissions(Permissions::from_mode(self.access.modes().0))?;
            let mapping = Mapping::of(&file, size_bytes, Rights::ReadWrite)?;
            mapping.ask_for(options.pages);
            Ok(Image { file, mapping: Arc::new(mapping) })
        };
        make().map_err(|source| full(&self.path, size_bytes, source))
    }

    /// Gives the finished ring its name, replacing the file that a dead writer left there.
    pub(super) fn show(self, image: Image, rung: Word) -> Result<OwnedFile, CreateError> {
        let show = || -> io::Result<()> {
            match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            // The method that open(2) describes for files created without a name, which needs no
            // privilege.
            let unnamed = format!("/proc/self/fd/{}", image.file.as_raw_fd());
            Ok(linkat(CWD, unnamed, CWD, &self.path, AtFlags::SYMLINK_FOLLOW)?)
        };
        show().map_err(|source| refused(&self.path, source))?;
        let armed = Word::Mapped(MappedWord::new(self.armed, 0));
        let doorbell = Doorbell::shared(Some(armed), rung);
        Ok(OwnedFile::new(self.path, doorbell, image.file, self.page))
    }
}

/// Removes a ring of this user whose writer is gone; false if it is not such a ring.
pub(super) fn remove_if_stale(path: &Path) -> bool {
    // Checked before the page is locked: holding that lock keeps new writers out.
    if !is_stale(path) {
        return false;
    }
    let wait_path = wait_path(path);
    // The page's lock, held until the files are gone, keeps a new writer out meanwhile.
    let Ok(wait) = open_wait(&wait_path) else { return false };
    if !matches!(try_lock(&wait), Ok(true)) || !is_named(&wait, &wait_path) {
        return false;
    }
    // Checked again: before the lock was taken, another process may have removed it, and a
    // successor may have the name.
    let removed = is_stale(path) && fs::remove_file(path).is_ok();
    let _ = fs::remove_file(&wait_path);
    removed
}

/// Removes a page of this user without a ring, as a writer leaves it that is killed before it
/// publishes its ring; false if it is not such a page.
pub(super) fn remove_lone_page(wait_path: &Path) -> bool {
    let ring = wait_path.with_extension(RING_EXTENSION);
    let is_lone =
        || matches!(fs::symlink_metadata(&ring), Err(error) if error.kind() == io::ErrorKind::NotFound);
    if !is_lone() {
        return false;
    }
    let Ok(wait) = open(wait_path, OFlags::RDWR) else { return false };
    if !wait.metadata().is_ok_and(|it| it.is_file() && is_of_this_user(&it)) {
        return false;
    }
    // A writer that has just begun holds the lock until its ring is published, and longer.
    let is_left = matches!(try_lock(&wait), Ok(true)) && is_named(&wait, wait_path);
    // Checked again: before the lock was taken, a writer may have published its ring and been
    // killed. Then the ring is stale.
    is_left && is_lone() && fs::remove_file(wait_path).is_ok()
}

/// Returns whether the path has a ring of this user whose writer is gone.
fn is_stale(path: &Path) -> bool {
    let Ok(image) = open(path, OFlags::RDONLY) else { return false };
    let is_ours = image.metadata().is_ok_and(|it| is_of_this_user(&it));
    is_ours && !is_locked(&image).unwrap_or(true) && is_named(&image, path)
}

/// Returns whether a ring with a live writer has this path; assumed for a ring that cannot be examined.
fn has_writer(path: &Path) -> bool {
    match open(path, OFlags::RDONLY).and_then(|image| is_locked(&image)) {
        Ok(is_locked) => is_locked,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn open_wait(wait_path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(openat(CWD, wait_path, flags, Mode::RUSR | Mode::WUSR)?))
}

fn map_wait(wait: &File, access: Access) -> io::Result<Mapping> {
    fallocate(wait, FallocateFlags::empty(), 0, WAIT_BYTES as u64)?;
    if is_of_this_user(&wait.metadata()?) {
        wait.set_permissions(Permissions::from_mode(access.modes().1))?;
    }
    Mapping::of(wait, WAIT_BYTES, Rights::ReadWrite)
}

/// Gives a page of this user to a group.
fn give(page: &File, path: &Path, group: Option<u32>) -> Result<(), CreateError> {
    let Some(group) = group else { return Ok(()) };
    let metadata = page.metadata().map_err(|source| refused(path, source))?;
    if metadata.gid() == group || !is_of_this_user(&metadata) {
        return Ok(());
    }
    fchown(page, None, Some(Gid::from_raw(group))).map_err(|errno| match errno {
        Errno::PERM => CreateError::Group { path: path.to_owned(), group },
        errno => refused(path, errno.into()),
    })
}

fn is_of_this_user(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

fn full(path: &Path, size_bytes: usize, source: io::Error) -> CreateError {
    if source.kind() == io::ErrorKind::StorageFull {
        return CreateError::Full { directory: directory_of(path), size_bytes, source };
    }
    refused(path, source)
}

fn refused(path: &Path, source: io::Error) -> CreateError {
    // The page may exist alone, left by another user.
    let is_there = || [path, &wait_path(path)].iter().any(|path| fs::symlink_metadata(path).is_ok());
    match source.kind() {
        io::ErrorKind::PermissionDenied if is_there() => {
            CreateError::Foreign { path: path.to_owned(), source }
        }
        io::ErrorKind::PermissionDenied => CreateError::Unwritable { directory: directory_of(path), source },
        _ => CreateError::System { path: path.to_owned(), source },
    }
}

fn directory_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new(".")).to_owned()
}
