//! This host's own certificate authority, and the certificate that it issues to the server.
//!
//! Its key and certificate are made once and kept in one file that only their owner may read. The server's certificate
//! is kept in memory: it is made at the start, and again before it expires.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use ring::digest::{SHA256, digest};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;
use units::WallTime;
use zeroize::Zeroizing;

use super::provider;
use crate::clock::{self, Moment};

/// Name of the file with key and certificate of the authority.
const SECRET: &str = "authority.pem";
/// Name of the file with its certificate alone, for browsers.
const PUBLIC: &str = "authority.crt";
/// An authority's file has two blocks of text, under 1 kB together.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// First line of a private key in PEM. Source: RFC 7468 §10.
const KEY_BEGINS: &str = "-----BEGIN PRIVATE KEY-----";

const DAY: Duration = Duration::from_secs(86_400);
/// Validity of the authority: browsers that trust it are told once.
const AUTHORITY_VALIDITY: Duration = DAY.saturating_mul(3_650);
/// Validity of the server's certificate. Browsers accept at most 825 days of a private authority.
const CERTIFICATE_VALIDITY: Duration = DAY.saturating_mul(90);
/// Age at which it is renewed: whatever fails then has a month to be noticed.
const RENEWED_AFTER: Duration = DAY.saturating_mul(60);
/// Certificates are valid since this long before they are made: clients' clocks may be behind.
const CLOCKS_BEHIND: Duration = DAY;

/// This host's certificate authority.
#[derive(Clone, Debug)]
pub struct Authority {
    certificate: CertificateDer<'static>,
    key: Arc<KeyPair>,
    folder: PathBuf,
}

/// Reason why the local authority cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// Its file cannot be read or made.
    #[error(
        "cannot use {path}: {cause}\nmake its folder writable for this user, or name files with --tls CERTIFICATE,KEY"
    )]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        cause: io::Error,
    },
    /// Another user could have read the key.
    #[error(
        "{path} belongs to another user or may be read by others (mode {mode:03o})\nremove it, and a new authority is made; browsers must trust that one then"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file holds something else.
    #[error("{0} holds no certificate authority\nremove it, and a new authority is made")]
    Malformed(PathBuf),
    /// A name cannot stand in a certificate.
    #[error(
        "no certificate can be made for the names of this server: {0}\ngive names as in the address of the page: --allow-host NAME"
    )]
    Names(#[source] rcgen::Error),
}

impl Authority {
    /// Reads the authority in a folder; makes one if there is none.
    ///
    /// # Errors
    /// [`AuthorityError`] if its file is not private, not readable, or not an authority's.
    pub fn open(folder: &Path) -> Result<Self, AuthorityError> {
        let path = folder.join(SECRET);
        match File::open(&path) {
            Ok(file) => Self::read(file, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(folder),
            Err(cause) => Err(AuthorityError::File { path, cause }),
        }
    }

    /// Returns the SHA-256 of its certificate as browsers show it: `AB:CD:…`.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut text = String::new();
        for byte in digest(&SHA256, &self.certificate).as_ref() {
            let colon = if text.is_empty() { "" } else { ":" };
            write!(text, "{colon}{byte:02X}").expect("a string takes all text");
        }
        text
    }

    /// Returns the file with its certificate, which a browser imports once to trust it.
    #[must_use]
    pub fn certificate_file(&self) -> PathBuf {
        self.folder.join(PUBLIC)
    }

    fn read(mut file: File, path: &Path) -> Result<Self, AuthorityError> {
        let failed = |cause| AuthorityError::File { path: path.to_owned(), cause };
        let metadata = file.metadata().map_err(failed)?;
        let mode = metadata.mode() & 0o777;
        let is_own = [0, sys::process::user()].contains(&metadata.uid());
        if !is_own || mode & 0o077 != 0 {
            return Err(AuthorityError::Exposed { path: path.to_owned(), mode });
        }
        // Of its final size at once: a buffer that grows leaves copies of the key behind.
        let capacity = usize::try_from(metadata.len().min(MAX_FILE_BYTES)).unwrap_or_default() + 1;
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        Read::take(&mut file, MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        let malformed = || AuthorityError::Malformed(path.to_owned());
        let text = std::str::from_utf8(&bytes).map_err(|_| malformed())?;
        let certificate = CertificateDer::from_pem_slice(text.as_bytes()).map_err(|_| malformed())?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| malformed())?;
        let key = KeyPair::try_from(&key).map_err(|_| malformed())?;
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        let authority = Self { certificate, key: Arc::new(key), folder };
        // Certificate and key belong together, or clients would refuse every connection.
        authority.certified(vec![authority.certificate.clone()], &authority.key).map_err(|_| malformed())?;
        let public = text.split(KEY_BEGINS).next().unwrap_or_default();
        authority.publish(public).map_err(failed)?;
        Ok(authority)
    }

    /// Writes the certificate for browsers, unless it is there: the making of an authority may have been cut short.
    fn publish(&self, certificate: &str) -> io::Result<()> {
        let path = self.certificate_file();
        if fs::read(&path).is_ok_and(|present| present == certificate.as_bytes()) {
            return Ok(());
        }
        let draft = draft_of(&path);
        write(&draft, 0o644, certificate)?;
        fs::rename(&draft, &path)
    }

    /// Makes an authority; one that another process made meanwhile is taken instead.
    fn make(folder: &Path) -> Result<Self, AuthorityError> {
        let path = folder.join(SECRET);
        let failed = |cause| AuthorityError::File { path: path.clone(), cause };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let key = KeyPair::generate().map_err(AuthorityError::Names)?;
        let mut params = authority_params(&key);
        let now = date_time(clock::wall());
        (params.not_before, params.not_after) = (now - CLOCKS_BEHIND, now + AUTHORITY_VALIDITY);
        let certificate = params.self_signed(&key).map_err(AuthorityError::Names)?;
        let draft = draft_of(&path);
        let key_text = Zeroizing::new(key.serialize_pem());
        let text = Zeroizing::new([certificate.pem().as_str(), &key_text].concat());
        write(&draft, 0o600, &text).map_err(failed)?;
        // A link, unlike a renaming, replaces nothing.
        let linked = fs::hard_link(&draft, &path);
        fs::remove_file(&draft).map_err(failed)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            Err(_) | Ok(()) => {}
        }
        Self::read(File::open(&path).map_err(failed)?, &path)
    }

    /// Issues a certificate for these names, valid around `now`.
    fn issue(&self, names: &[String], now: WallTime) -> Result<CertifiedKey, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Names)?;
        let mut params = CertificateParams::new(names).map_err(AuthorityError::Names)?;
        let now = date_time(now);
        (params.not_before, params.not_after) = (now - CLOCKS_BEHIND, now + CERTIFICATE_VALIDITY);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Tallycast monitor");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::new(authority_params(&self.key), &*self.key);
        let certificate = params.signed_by(&key, &issuer).map_err(AuthorityError::Names)?;
        let chain = vec![certificate.der().clone(), self.certificate.clone()];
        self.certified(chain, &key).map_err(|_| AuthorityError::Malformed(self.folder.join(SECRET)))
    }

    fn certified(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: &KeyPair,
    ) -> Result<CertifiedKey, rustls::Error> {
        let key = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|text| rustls::Error::General(text.to_owned()))?;
        CertifiedKey::from_der(chain, key, &provider())
    }
}

/// Returns what an authority of this key is called and may do. Its name follows from the key: a browser that trusts the
/// authorities of several hosts tells them apart.
fn authority_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mark: String = params.key_identifier(key).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Tallycast local authority {mark}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

/// Returns the name under which this process writes a file before it has its own.
fn draft_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.{}", std::process::id()))
}

/// Writes a new file and waits for the disk. One that an earlier process left there is removed: it has its own mode, and
/// others may have it open.
fn write(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) | Ok(()) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn date_time(time: WallTime) -> OffsetDateTime {
    let seconds = time.as_nanos().div_euclid(1_000_000_000);
    OffsetDateTime::from_unix_timestamp(seconds).expect("64 bits of nanoseconds end in the year 2262")
}

/// The certificate issued to the server.
#[derive(Debug)]
pub(super) struct Issued {
    authority: Authority,
    names: Vec<String>,
    key: Arc<CertifiedKey>,
    made: WallTime,
}

impl Issued {
    pub(super) fn new(authority: Authority, names: Vec<String>, now: Moment) -> Result<Self, AuthorityError> {
        let key = Arc::new(authority.issue(&names, now.wall)?);
        Ok(Self { authority, names, key, made: now.wall })
    }

    /// Returns the certificate, renewed if it is old, or if the clock was set back.
    pub(super) fn at(&mut self, now: Moment) -> Arc<CertifiedKey> {
        let age = now.wall.nanos_since(self.made);
        let fresh = -nanos(CLOCKS_BEHIND)..nanos(RENEWED_AFTER);
        if !fresh.contains(&age) {
            match self.authority.issue(&self.names, now.wall) {
                Ok(key) => (self.key, self.made) = (Arc::new(key), now.wall),
                Err(error) => tracing::warn!("the certificate of the page was not renewed: {error}"),
            }
        }
        Arc::clone(&self.key)
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).expect("days, not centuries")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn an_authority_is_made_once_and_its_key_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new/tls");
        let first = Authority::open(&folder).unwrap();
        assert_eq!(Authority::open(&folder).unwrap().fingerprint(), first.fingerprint());
        assert_eq!((mode(&folder.join(SECRET)), mode(&folder)), (0o600, 0o700));
        let public = fs::read_to_string(first.certificate_file()).unwrap();
        assert!(public.contains("CERTIFICATE") && !public.contains("PRIVATE"), "{public}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "no draft is left");
        assert_eq!(first.fingerprint().len(), 32 * 3 - 1);
    }

    #[test]
    fn a_key_that_others_may_read_is_refused_and_so_is_a_file_without_one() {
        let folder = tempfile::tempdir().unwrap();
        Authority::open(folder.path()).unwrap();
        let path = folder.path().join(SECRET);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Authority::open(folder.path()), Err(AuthorityError::Exposed { mode: 0o640, .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let other = format!(
            "{}{}",
            text.split_once(KEY_BEGINS).unwrap().0,
            KeyPair::generate().unwrap().serialize_pem()
        );
        for text in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &other] {
            fs::write(&path, text).unwrap();
            assert!(matches!(Authority::open(folder.path()), Err(AuthorityError::Malformed(_))), "{text}");
        }
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(matches!(Authority::open(folder.path()), Err(AuthorityError::Malformed(_))), "no text");
    }

    #[test]
    fn a_key_of_another_user_is_refused() {
        if sys::process::user() != 0 {
            println!("SKIPPED: only root can give a file to another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        Authority::open(folder.path()).unwrap();
        std::os::unix::fs::chown(folder.path().join(SECRET), Some(65_534), None).unwrap();
        let error = Authority::open(folder.path()).unwrap_err();
        assert!(error.to_string().contains("belongs to another user"), "{error}");
    }

    #[test]
    fn a_draft_that_others_may_read_gets_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let draft = draft_of(&folder.path().join(SECRET));
        fs::write(&draft, "old").unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o644)).unwrap();
        let mut open = File::open(&draft).unwrap();
        Authority::open(folder.path()).unwrap();
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), mode(&folder.path().join(SECRET))), ("old", 0o600));
    }

    #[test]
    fn the_certificate_for_browsers_is_written_again_if_it_is_missing_or_another_s() {
        let folder = tempfile::tempdir().unwrap();
        let path = Authority::open(folder.path()).unwrap().certificate_file();
        let public = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        Authority::open(folder.path()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), public);
        fs::write(&path, "another's").unwrap();
        Authority::open(folder.path()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), public);
    }

    #[test]
    fn the_certificate_is_renewed_after_sixty_days_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::open(folder.path()).unwrap();
        let start = clock::now();
        let later = |time: Duration, nanos: i64| Moment {
            wall: start.wall.offset(super::nanos(time) + nanos),
            ..start
        };
        let mut issued = Issued::new(authority, vec!["localhost".to_owned()], start).unwrap();
        let first = issued.at(start);
        assert!(Arc::ptr_eq(&first, &issued.at(later(RENEWED_AFTER, -1))));
        let second = issued.at(later(RENEWED_AFTER, 0));
        assert!(!Arc::ptr_eq(&first, &second) && second.cert[1] == first.cert[1], "by the same authority");
        assert!(!Arc::ptr_eq(&second, &issued.at(start)), "a clock that was set back");
    }
}
