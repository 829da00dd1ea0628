//! Trust in files: their owner, and which other users could have written them.
//!
//! A process trusts files of its own user and of root, which could do anything anyway. A file that
//! another user owns, may write, or may replace is under that user's control, and a process with
//! more rights must not act on it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::host::process;

/// Mode bits that let the group and others write. Source: inode(7).
const OTHERS_MAY_WRITE: u32 = 0o022;
/// Mode bit of directories in which users cannot rename or remove files of others. Source:
/// inode(7).
const STICKY: u32 = 0o1000;

/// Reason why a file is not trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A symbolic link: its creator chose the file.
    #[error("{0} is a symbolic link\nname the file itself")]
    Link(PathBuf),
    /// A directory, a pipe, a device.
    #[error("{0} is not an ordinary file\nname another one, or move it away")]
    Kind(PathBuf),
    /// A file with a second name, which may have another purpose.
    #[error("{0} has a second name (a hard link)\ninspect it, and copy what you trust to a new file")]
    HardLink(PathBuf),
    /// A file or directory of another user.
    #[error(
        "{path} belongs to user {owner}, who could have written anything there\ninspect it, and if you trust it: chown {user} {path}"
    )]
    Owner {
        /// Path of the file, or of its directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// User of this process.
        user: u32,
    },
    /// A file or directory that others may write.
    #[error(
        "{path} may be written by others (mode {mode:03o})\ninspect it, and if you trust it: chmod go-w {path}"
    )]
    Writable {
        /// Path of the file, or of its directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The system refused to open it.
    #[error("{path} cannot be opened")]
    System {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

/// Use of a trusted file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// It is read; it must exist.
    Read,
    /// It is read and appended to; if it does not exist, it is created, for this user alone.
    Append,
}

/// Opens a trusted file: an ordinary one of this user or of root, which no other user may write, in
/// a directory of the same kind.
///
/// The opened file is checked, not its name: it cannot be replaced in between. A directory in which
/// everybody may write is trusted if it is sticky, as `/tmp`. Directories above that one are not
/// checked.
///
/// # Errors
/// [`TrustError`], with the remedy.
pub fn open_trusted(path: &Path, purpose: Purpose) -> Result<File, TrustError> {
    let (folder_path, name) = (folder_of(path), path.file_name());
    let name = name.ok_or_else(|| TrustError::Kind(path.to_owned()))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = File::from(openat(CWD, &folder_path, flags, Mode::empty()).map_err(refusal(&folder_path))?);
    let user = process::user();
    check_folder(&folder_path, &folder.metadata().map_err(system(&folder_path))?, user)?;
    // Without waiting for the other end of a pipe, which is refused below.
    let flags = OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC
        | match purpose {
            Purpose::Read => OFlags::RDONLY,
            Purpose::Append => OFlags::RDWR | OFlags::APPEND | OFlags::CREATE,
        };
    let file = openat(&folder, name, flags, Mode::RUSR | Mode::WUSR).map_err(refusal(path))?;
    let file = File::from(file);
    check_file(path, &file.metadata().map_err(system(path))?, user)?;
    Ok(file)
}

/// Returns the folder of a file; that of this process for a bare name.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or_else(|| PathBuf::from("."), Path::to_owned)
}

fn system(path: &Path) -> impl FnOnce(io::Error) -> TrustError {
    let path = path.to_owned();
    move |source| TrustError::System { path, source }
}

fn refusal(path: &Path) -> impl FnOnce(Errno) -> TrustError {
    let path = path.to_owned();
    move |errno| match errno {
        Errno::LOOP => TrustError::Link(path),
        // A directory cannot be opened for writing, and a socket not at all.
        Errno::ISDIR | Errno::NXIO => TrustError::Kind(path),
        errno => TrustError::System { path, source: errno.into() },
    }
}

fn check_file(path: &Path, metadata: &Metadata, user: u32) -> Result<(), TrustError> {
    if !metadata.is_file() {
        return Err(TrustError::Kind(path.to_owned()));
    }
    check_owner(path, metadata.uid(), user)?;
    check_mode(path, metadata.mode(), OTHERS_MAY_WRITE)?;
    if metadata.nlink() > 1 {
        return Err(TrustError::HardLink(path.to_owned()));
    }
    Ok(())
}

fn check_folder(path: &Path, metadata: &Metadata, user: u32) -> Result<(), TrustError> {
    check_owner(path, metadata.uid(), user)?;
    let is_sticky = metadata.mode() & STICKY != 0;
    check_mode(path, metadata.mode(), if is_sticky { 0 } else { OTHERS_MAY_WRITE })
}

pub(crate) fn check_owner(path: &Path, owner: u32, user: u32) -> Result<(), TrustError> {
    if owner == user || owner == 0 {
        return Ok(());
    }
    Err(TrustError::Owner { path: path.to_owned(), owner, user })
}

fn check_mode(path: &Path, mode: u32, forbidden: u32) -> Result<(), TrustError> {
    if mode & forbidden == 0 {
        return Ok(());
    }
    Err(TrustError::Writable { path: path.to_owned(), mode: mode & 0o7777 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::io::{Read, Write};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn scene() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        fs::write(&path, "one\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        (folder, path)
    }

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn refused(path: &Path) -> TrustError {
        let [read, append] = [Purpose::Read, Purpose::Append].map(|it| open_trusted(path, it).unwrap_err());
        assert_eq!(read.to_string(), append.to_string());
        append
    }

    #[test]
    fn an_own_file_is_opened_and_one_that_is_made_is_for_this_user_alone() {
        let (folder, path) = scene();
        let mut file = open_trusted(&path, Purpose::Append).unwrap();
        file.write_all(b"two\n").unwrap();
        let mut text = String::new();
        open_trusted(&path, Purpose::Read).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
        let new = folder.path().join("new");
        assert!(matches!(open_trusted(&new, Purpose::Read), Err(TrustError::System { .. })));
        open_trusted(&new, Purpose::Append).unwrap();
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn files_that_others_may_write_are_not_trusted() {
        let (folder, path) = scene();
        for mode in [0o664, 0o646, 0o666] {
            allow(&path, mode);
            assert!(matches!(refused(&path), TrustError::Writable { .. }), "{mode:o}");
        }
        allow(&path, 0o644);
        for mode in [0o770, 0o707, 0o777] {
            allow(folder.path(), mode);
            let error = refused(&path);
            assert!(matches!(&error, TrustError::Writable { path, .. } if path == folder.path()), "{error}");
            assert!(error.to_string().contains("chmod go-w"), "{error}");
        }
        // As /tmp: others may create files there, but not replace this user's.
        allow(folder.path(), 0o1777);
        open_trusted(&path, Purpose::Append).unwrap();
    }

    #[test]
    fn links_and_special_files_are_not_trusted_and_nothing_is_made_through_them() {
        let (folder, path) = scene();
        let (link, elsewhere) = (folder.path().join("link"), folder.path().join("elsewhere"));
        for target in [&path, &elsewhere] {
            let _ = fs::remove_file(&link);
            symlink(target, &link).unwrap();
            assert!(matches!(refused(&link), TrustError::Link(_)));
        }
        assert!(!elsewhere.exists());
        fs::hard_link(&path, &elsewhere).unwrap();
        assert!(matches!(refused(&path), TrustError::HardLink(_)));
        let folder_of_that_name = folder.path().join("folder");
        fs::create_dir(&folder_of_that_name).unwrap();
        assert!(matches!(refused(&folder_of_that_name), TrustError::Kind(_)));
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(matches!(refused(&pipe), TrustError::Kind(_)));
        let through = folder.path().join("through");
        symlink(folder.path(), &through).unwrap();
        open_trusted(&through.join("journal2"), Purpose::Append).unwrap();
    }

    #[test]
    fn root_trusts_root_alone_and_others_trust_themselves_and_root() {
        let path = Path::new("/x");
        assert!(check_owner(path, 0, 0).is_ok() && check_owner(path, 7, 7).is_ok());
        assert!(check_owner(path, 0, 7).is_ok());
        assert!(matches!(check_owner(path, 7, 0), Err(TrustError::Owner { owner: 7, user: 0, .. })));
        assert!(matches!(check_owner(path, 8, 7), Err(TrustError::Owner { owner: 8, user: 7, .. })));
        if process::user() != 0 {
            println!("SKIPPED: only root can give files away");
            return;
        }
        let (folder, path) = scene();
        chown(&path, Some(65_534), None).unwrap();
        assert!(matches!(refused(&path), TrustError::Owner { owner: 65_534, .. }));
        chown(&path, Some(0), None).unwrap();
        chown(folder.path(), Some(65_534), None).unwrap();
        assert!(matches!(refused(&path), TrustError::Owner { owner: 65_534, .. }));
        chown(folder.path(), Some(0), None).unwrap();
    }
}
