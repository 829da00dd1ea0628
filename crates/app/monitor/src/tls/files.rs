//! A certificate and its key in files of the user, read again when they change.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::provider;
use crate::clock::Moment;

/// Files are looked at when a connection begins, at most this often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A chain has a handful of certificates of a few kilobytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Rights on a key that are refused: writing for the group, everything for others. Distributions let a group read keys.
const EXPOSED: u32 = 0o027;

/// Reason why a certificate in files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}: {cause}\nname a certificate and its key in PEM: --tls CERTIFICATE,KEY")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        cause: io::Error,
    },
    /// Others could have read the key.
    #[error(
        "the key {path} may be read by every user, or changed by its group (mode {mode:03o})\nchmod 0600 {path}, and replace a key that was seen"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file has no certificate, or no key.
    #[error("{path} holds no {what} in PEM\nname a certificate and its key in PEM: --tls CERTIFICATE,KEY")]
    Missing {
        /// The file.
        path: PathBuf,
        /// Its missing part.
        what: &'static str,
    },
    /// Certificate and key do not belong together, or are of an unknown kind.
    #[error(
        "the certificate {certificate} and the key {key} cannot be used: {cause}\nname a certificate and its own key"
    )]
    Unusable {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
        /// Error of TLS.
        #[source]
        cause: rustls::Error,
    },
}

/// Files of a certificate and its key, and what was read of them last.
#[derive(Debug)]
pub(super) struct Watched {
    paths: [PathBuf; 2],
    stamps: [Option<Stamp>; 2],
    /// True if they could not be read: they are read again though they do not change.
    again: bool,
    looked: Instant,
    key: Arc<CertifiedKey>,
    refused: u64,
}

/// Marks of a file that change with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    inode: u64,
    changed: (i64, i64),
    size: u64,
}

impl Watched {
    pub(super) fn open(certificate: PathBuf, key: PathBuf, now: Moment) -> Result<Self, CertificateError> {
        let paths = [certificate, key];
        // Before they are read: a change in between is noticed later.
        let stamps = stamps(&paths);
        let key = Arc::new(read(&paths)?);
        Ok(Self { paths, stamps, again: false, looked: now.steady, key, refused: 0 })
    }

    /// Returns the certificate, read again if a file has changed; files that cannot be used change nothing.
    pub(super) fn at(&mut self, now: Moment) -> Arc<CertifiedKey> {
        if now.steady.saturating_duration_since(self.looked) >= LOOK_INTERVAL {
            self.looked = now.steady;
            self.look(read);
        }
        Arc::clone(&self.key)
    }

    /// Returns how often changed files could not be used.
    pub(super) const fn refused(&self) -> u64 {
        self.refused
    }

    fn look(&mut self, read: impl FnOnce(&[PathBuf; 2]) -> Result<CertifiedKey, CertificateError>) {
        let stamps = stamps(&self.paths);
        let is_same = stamps == self.stamps;
        if is_same && !self.again {
            return;
        }
        let content = read(&self.paths);
        self.stamps = stamps;
        self.again = matches!(content, Err(CertificateError::Unreadable { .. }));
        match content {
            Ok(key) => self.key = Arc::new(key),
            // What has been told is not told again.
            Err(_) if is_same && self.again => {}
            Err(error) => {
                self.refused += 1;
                tracing::warn!("the previous certificate stays in use: {error}");
            }
        }
    }
}

fn stamps(paths: &[PathBuf; 2]) -> [Option<Stamp>; 2] {
    paths.each_ref().map(|path| {
        let data = fs::metadata(path).ok()?;
        Some(Stamp { inode: data.ino(), changed: (data.ctime(), data.ctime_nsec()), size: data.len() })
    })
}

fn read(paths: &[PathBuf; 2]) -> Result<CertifiedKey, CertificateError> {
    let [certificate, key] = paths;
    let missing = |path: &Path, what| CertificateError::Missing { path: path.to_owned(), what };
    let (text, _) = contents(certificate)?;
    let chain = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let chain =
        chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| missing(certificate, "certificate"))?;
    let (text, mode) = contents(key)?;
    if mode & EXPOSED != 0 {
        return Err(CertificateError::Exposed { path: key.clone(), mode });
    }
    let private = PrivateKeyDer::from_pem_slice(&text).map_err(|_| missing(key, "private key"))?;
    CertifiedKey::from_der(chain, private, &provider()).map_err(|cause| CertificateError::Unusable {
        certificate: certificate.clone(),
        key: key.clone(),
        cause,
    })
}

fn contents(path: &Path) -> Result<(Vec<u8>, u32), CertificateError> {
    let read = || {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        Read::take(&mut file, MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok((bytes, file.metadata()?.mode() & 0o777))
    };
    read().map_err(|cause| CertificateError::Unreadable { path: path.to_owned(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use std::os::unix::fs::PermissionsExt;

    /// Replaces a certificate and its key by other files, as their tools do.
    fn make(folder: &Path) -> [PathBuf; 2] {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let paths = ["host.crt", "host.key"].map(|name| folder.join(name));
        let draft = folder.join("draft");
        let files = [(made.cert.pem(), 0o644), (made.signing_key.serialize_pem(), 0o600)];
        for (path, (text, mode)) in paths.iter().zip(files) {
            fs::write(&draft, text).unwrap();
            fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).unwrap();
            fs::rename(&draft, path).unwrap();
        }
        paths
    }

    fn later(now: Moment, time: Duration) -> Moment {
        Moment { steady: now.steady + time, ..now }
    }

    #[test]
    fn changed_files_are_taken_and_bad_ones_leave_the_old_certificate_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = make(folder.path());
        let now = clock::now();
        let mut watched = Watched::open(certificate.clone(), key.clone(), now).unwrap();
        let first = watched.at(now).cert[0].clone();
        let kept = fs::read(&certificate).unwrap();
        fs::write(&certificate, "no certificate").unwrap();
        assert_eq!(watched.at(later(now, LOOK_INTERVAL)).cert[0], first);
        assert_eq!(watched.at(later(now, 2 * LOOK_INTERVAL)).cert[0], first);
        assert_eq!(watched.refused(), 1, "it is counted once");
        fs::write(&certificate, kept).unwrap();
        watched.at(later(now, 3 * LOOK_INTERVAL));
        make(folder.path());
        assert_eq!(watched.at(later(now, 3 * LOOK_INTERVAL)).cert[0], first, "looked at a moment ago");
        assert_ne!(watched.at(later(now, 4 * LOOK_INTERVAL)).cert[0], first);
        assert_eq!(watched.refused(), 1);
    }

    #[test]
    fn a_failure_that_passes_is_told_once_and_the_new_certificate_is_taken_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = make(folder.path());
        let now = clock::now();
        let mut watched = Watched::open(certificate, key, now).unwrap();
        let first = watched.at(now).cert[0].clone();
        make(folder.path());
        // Too many open files: EMFILE.
        let failing = |[path, _]: &[PathBuf; 2]| {
            let cause = io::Error::from_raw_os_error(24);
            Err(CertificateError::Unreadable { path: path.clone(), cause })
        };
        watched.look(failing);
        watched.look(failing);
        assert_eq!((watched.refused(), &watched.at(now).cert[0]), (1, &first));
        assert_ne!(watched.at(later(now, LOOK_INTERVAL)).cert[0], first);
        assert_eq!(watched.refused(), 1);
    }

    #[test]
    fn a_key_of_another_certificate_and_one_that_everybody_may_read_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let others = tempfile::tempdir().unwrap();
        let [certificate, key] = make(folder.path());
        let open = |key: &Path| Watched::open(certificate.clone(), key.to_owned(), clock::now()).map(drop);
        for (mode, accepted) in [(0o600, true), (0o640, true), (0o644, false), (0o660, false), (0o601, false)]
        {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(open(&key).is_ok(), accepted, "{mode:o}");
        }
        let [_, other] = make(others.path());
        assert!(matches!(open(&other), Err(CertificateError::Unusable { .. })));
        assert!(matches!(open(&certificate), Err(CertificateError::Exposed { .. })));
        assert!(matches!(open(&folder.path().join("none")), Err(CertificateError::Unreadable { .. })));
    }
}
