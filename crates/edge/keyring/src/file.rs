//! Files of keys: read with their modes checked, and made or replaced whole, for their owner alone.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use keys::service::RefusedFor;
use keys::{AuthorityFile, CertificateError, KeyFile, KeyFileError, MAX_KEY_FILE_BYTES, Membership};
use sys::private_file::{self, FileError, FolderLock, Privacy, Staged};
use units::WallTime;
use zeroize::Zeroizing;

/// Reason why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// There is no such file.
    #[error(
        "there is no file of keys {}\n\
         copy the station's file there, or make the first one: tallycast keys new",
        .0.display()
    )]
    Missing(PathBuf),
    /// It cannot be read or written, or must not be trusted.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its content is wrong.
    #[error("{}, {error}", .path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// The line, and what is wrong.
        error: KeyFileError,
    },
    /// Its certificate is not valid now.
    #[error("{}: {error}", .path.display())]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong.
        error: CertificateError,
    },
    /// There is no file of a key service.
    #[error(
        "there is no file of a key service {}\n\
         name the one that `tallycast keys new --service` made",
        .0.display()
    )]
    NoService(PathBuf),
    /// The key service cannot listen, or its thread cannot begin.
    #[error(
        "the key service cannot listen at {address}: {source}\nname a free port with --listen, or end what uses it"
    )]
    Listen {
        /// Address.
        address: SocketAddr,
        /// Reason of the system.
        source: io::Error,
    },
    /// The system has no thread or descriptor for asking the key service.
    #[error(
        "the key service cannot be asked: {0}\nraise the limits of open files and threads, or end other programs"
    )]
    Ask(io::Error),
    /// The key service refuses this station.
    #[error(
        "the key service {address} gives this station no keys: {reason}\n\
         ask whoever runs it to add the station again: tallycast keys add"
    )]
    Refused {
        /// Address of the service.
        address: String,
        /// Reason.
        reason: RefusedFor,
    },
    /// A changed file names another key service, or none.
    #[error(
        "{} names another key service than before\n\
         restart the programs that are to change over, or restore the file",
        .0.display()
    )]
    OtherService(PathBuf),
    /// A changed file belongs to another laboratory.
    #[error(
        "{} belongs to another laboratory than before, `{laboratory}`\n\
         restart the programs that are to change over, or restore the file",
        .path.display()
    )]
    OtherLaboratory {
        /// Path of the file.
        path: PathBuf,
        /// Name of the new laboratory.
        laboratory: String,
    },
}

/// Changed files of keys that are written, but not yet under their names.
///
/// No file changes before all are written. If the system then refuses a name, the files before that one have changed
/// and the others not: the same change again mends that. Meanwhile no other change of files in these folders begins.
#[derive(Debug)]
pub struct Change {
    staged: Vec<Staged>,
    _folders: FolderLock,
}

/// Reads a station's file and returns the membership that it gives at `wall`.
///
/// # Errors
/// [`KeyringError`]
pub fn load(path: &Path, wall: WallTime) -> Result<Arc<Membership>, KeyringError> {
    let membership = read_station(path)?.membership(wall);
    membership.map(Arc::new).map_err(|error| KeyringError::Certificate { path: path.to_owned(), error })
}

/// Reads a station's file, whose certificate may have expired.
///
/// # Errors
/// [`KeyringError`]
pub fn read_station(path: &Path) -> Result<KeyFile, KeyringError> {
    let content = |error| KeyringError::Content { path: path.to_owned(), error };
    KeyFile::parse(&read(path)?).map_err(content)
}

/// Reads the file of a laboratory's authority.
///
/// # Errors
/// [`KeyringError`]
pub fn read_authority(path: &Path) -> Result<AuthorityFile, KeyringError> {
    let content = |error| KeyringError::Content { path: path.to_owned(), error };
    AuthorityFile::parse(&read(path)?).map_err(content)
}

/// Makes a station's file, which must not exist.
///
/// # Errors
/// `Exists` and `System` of [`FileError`].
pub fn create_station(path: &Path, file: &KeyFile) -> Result<(), FileError> {
    private_file::create(path, &file.to_text())
}

/// Makes the file of a laboratory's authority, which must not exist.
///
/// # Errors
/// `Exists` and `System` of [`FileError`].
pub fn create_authority(path: &Path, file: &AuthorityFile) -> Result<(), FileError> {
    private_file::create(path, &file.to_text())
}

fn read(path: &Path) -> Result<Zeroizing<String>, KeyringError> {
    let text = private_file::read(path, Privacy::Secret, MAX_KEY_FILE_BYTES)?;
    text.ok_or_else(|| KeyringError::Missing(path.to_owned()))
}

impl Change {
    /// Waits for other changes in the folders of these files, which are to be read only then.
    ///
    /// # Errors
    /// `System` of [`FileError`].
    pub fn begin<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<Self, FileError> {
        Ok(Self { staged: Vec::new(), _folders: private_file::lock_folders(files)? })
    }

    /// Writes the new content of one more file beside it.
    ///
    /// # Errors
    /// `Untrusted`, `Owner` and `System` of [`FileError`].
    pub fn stage(&mut self, path: &Path, file: &KeyFile) -> Result<(), FileError> {
        self.staged.push(Staged::new(path, &file.to_text())?);
        Ok(())
    }

    /// Replaces all files.
    ///
    /// # Errors
    /// `System` of [`FileError`]: the files before that one are replaced.
    pub fn commit(self) -> Result<(), FileError> {
        self.staged.into_iter().try_for_each(Staged::replace)
    }
}

impl KeyringError {
    /// Returns whether the same file may be usable a moment later: the clock is set, a folder's mode is corrected, too
    /// many files were open.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::File(error) => error.may_pass(),
            Self::Certificate { .. } => true,
            Self::Missing(_)
            | Self::NoService(_)
            | Self::Listen { .. }
            | Self::Ask(_)
            | Self::Refused { .. }
            | Self::Content { .. }
            | Self::OtherService(_)
            | Self::OtherLaboratory { .. } => false,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use keys::{GroupSecret, StationKeys, Suite};
    use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};

    use super::*;
    use crate::{random_secret, random_token};

    pub(crate) const NOW: WallTime = WallTime::from_nanos(1_000);

    pub(crate) fn authority() -> AuthorityFile {
        AuthorityFile::new("lab", random_secret()).unwrap()
    }

    pub(crate) fn station(authority: &AuthorityFile) -> KeyFile {
        let validity = WallTime::from_nanos(0)..WallTime::from_nanos(2_000);
        let keys =
            StationKeys::new(authority, "daq-1", [random_secret(), random_secret()], validity).unwrap();
        let secret = GroupSecret::new(random_token(), Suite::default(), random_secret(), WallTime::default());
        KeyFile::new(authority, keys, secret).unwrap()
    }

    #[test]
    fn a_file_is_made_read_and_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let (authority, paths) =
            (authority(), ["lab.authority", "daq-1.keys"].map(|it| folder.path().join(it)));
        let station = station(&authority);
        create_authority(&paths[0], &authority).unwrap();
        create_station(&paths[1], &station).unwrap();
        assert_eq!(read_authority(&paths[0]).unwrap(), authority);
        assert_eq!(read_station(&paths[1]).unwrap(), station);
        assert!(matches!(create_station(&paths[1], &station), Err(FileError::Exists(_))));
        assert_eq!(load(&paths[1], NOW).unwrap().keys.iter().count(), 1);
        let told = load(&paths[1], WallTime::from_nanos(2_000)).unwrap_err().to_string();
        assert!(told.contains("has expired") && told.contains("tallycast keys renew"), "{told}");
        let told = read_station(&paths[0]).unwrap_err().to_string();
        assert!(told.contains("lab.authority, this is the file of a laboratory's authority"), "{told}");
    }

    #[test]
    fn what_is_no_private_file_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daq-1.keys");
        let told = |name: &str| load(&folder.path().join(name), NOW).unwrap_err().to_string();
        assert!(told("daq-1.keys").contains("tallycast keys new"));
        create_station(&path, &station(&authority())).unwrap();
        for mode in [0o640, 0o604, 0o660, 0o644] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(told("daq-1.keys").contains("chmod"), "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(load(&path, NOW).is_ok());
        symlink(&path, folder.path().join("link")).unwrap();
        assert!(told("link").contains("is a symbolic link\nname the file itself"));
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert!(told("folder").contains("is not an ordinary file"));
        mknodat(CWD, folder.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(told("pipe").contains("is not an ordinary file"));
        private_file::create(&folder.path().join("huge"), &"#".repeat(MAX_KEY_FILE_BYTES + 1)).unwrap();
        assert!(told("huge").contains("exceeds 65536 bytes"));
        private_file::create(&folder.path().join("text"), "a text\n").unwrap();
        assert!(told("text").contains("text, line 1: "));
        private_file::create(&folder.path().join("empty"), "").unwrap();
        assert!(told("empty").contains("empty, line 1: `format` is missing"));
        fs::write(folder.path().join("binary"), [0xff, 0xfe]).unwrap();
        fs::set_permissions(folder.path().join("binary"), Permissions::from_mode(0o600)).unwrap();
        assert!(told("binary").contains("cannot read"));
    }

    #[test]
    fn no_file_changes_before_all_are_written_and_one_change_waits_for_another() {
        let folder = tempfile::tempdir().unwrap();
        let authority = authority();
        let paths = ["a.keys", "b.keys"].map(|name| folder.path().join(name));
        let (old, new) = (station(&authority), station(&authority));
        paths.iter().for_each(|path| create_station(path, &old).unwrap());
        let mut change = Change::begin(&paths).unwrap();
        let is_free = || {
            let folder = fs::File::open(folder.path()).unwrap();
            flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
        };
        assert!(!is_free());
        change.stage(&paths[0], &new).unwrap();
        assert!(change.stage(&folder.path().join("none/c.keys"), &new).is_err());
        drop(change);
        assert!(is_free());
        assert_eq!(read_station(&paths[0]).unwrap(), old);
        let mut change = Change::begin(&paths).unwrap();
        paths.iter().for_each(|path| change.stage(path, &new).unwrap());
        change.commit().unwrap();
        paths.iter().for_each(|path| assert_eq!(read_station(path).unwrap(), new));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
