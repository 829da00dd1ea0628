//! Liveness of writers by file locks: the kernel releases a lock with the open file of the process that holds it.
//!
//! Open file description locks (fcntl(2), Linux 3.15): unlike a process's own locks they hold
//! between two openings in one process, and closing another descriptor of the same file does not
//! release them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// Takes a file's lock; false if another process or opening holds it.
pub(super) fn try_lock(file: impl AsFd) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file())) {
        Ok(_) => Ok(true),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a file's lock is held as [`try_lock`] takes it; needs only read access.
///
/// A read lock does not count: any process that may read the file could take one, and only after
/// its writer is gone.
pub(super) fn is_locked(file: impl AsFd) -> io::Result<bool> {
    let mut lock = whole_file();
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(i32::from(lock.l_type) == libc::F_WRLCK)
}

const fn whole_file() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Liveness of a ring's writer, and whether the ring still has its name.
pub struct Liveness {
    file: File,
    path: PathBuf,
}

impl Liveness {
    pub(super) const fn new(file: File, path: PathBuf) -> Self {
        Self { file, path }
    }

    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the writer holds its lock; one that was killed does not. If the kernel
    /// cannot determine it, the writer counts as alive.
    ///
    /// Cost: one system call.
    #[must_use]
    pub fn writer_is_alive(&self) -> bool {
        is_locked(&self.file).unwrap_or(true)
    }

    /// Returns the number that distinguishes the ring's file from every other, also from one that
    /// has its name later.
    ///
    /// # Errors
    /// If the system does not return it.
    pub fn file_number(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }

    /// Returns whether another ring, or none, has the name under which this one was opened.
    ///
    /// Cost: two system calls.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        let (Ok(ours), Ok(named)) = (self.file.metadata(), std::fs::symlink_metadata(&self.path)) else {
            return true;
        };
        (ours.dev(), ours.ino()) != (named.dev(), named.ino())
    }
}
