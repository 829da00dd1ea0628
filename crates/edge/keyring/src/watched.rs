//! A station's membership, which follows its file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use keys::{CertificateError, KeyFile, KeySet, Membership};
use sys::private_file::{self, FileError, Stamp};
use units::WallTime;

use crate::asking::Asking;
use crate::news::Subject;
use crate::{KeyringError, News, ServiceState, load, read_station};

const DAY_NS: i64 = 24 * 3_600 * 1_000_000_000;
/// Notice of the end of a certificate: time to make another and bring it to its station.
const NOTICE_DAYS: i64 = 14;

/// Time that a program waits at its start for the first answer of a key service: then it begins without secrets.
const FIRST_ANSWER: Duration = Duration::from_secs(3);
/// Difference of the times of a secret that is none: each answer tells the service's clock anew.
const CLOCKS_APART_NS: i64 = 20_000_000;

/// A station's membership and the file that it comes from. Threads share it.
#[derive(Debug)]
pub struct Keyring {
    path: PathBuf,
    membership: RwLock<Arc<Membership>>,
    seen: Mutex<Seen>,
    failed_reloads: AtomicU64,
    /// Where the secrets come from, unless they are in the file.
    asking: Option<Asking>,
    told_of_service: Mutex<Option<Subject>>,
    /// The end of a certificate that was told last, and how far off it was.
    told_end: Mutex<Option<(WallTime, Near)>>,
}

/// The end of the station's certificate, to be told: nothing that the station publishes is believed after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    station: String,
    near: Near,
}

/// Nearness of the end of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Near {
    /// Within the time of notice, in whole days.
    Days(i64),
    Over,
}

/// The last look at the file.
#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    /// What was told of it, if it was refused for a reason that may pass: it is read again though it does not change.
    again: Option<String>,
}

/// Outcome of a look at the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refresh {
    /// It is as it was.
    Unchanged,
    /// It was read again.
    Reloaded,
}

impl Keyring {
    /// Reads a station's file; it is found again though the process changes its working directory.
    ///
    /// # Errors
    /// [`KeyringError`]
    pub fn open(path: impl Into<PathBuf>, wall: WallTime) -> Result<Self, KeyringError> {
        let path: PathBuf = path.into();
        let absolute = std::path::absolute(&path);
        let path = absolute.map_err(|source| FileError::System { action: "find", path, source })?;
        let stamp = private_file::stamp(&path);
        let (membership, service) = (load(&path, wall)?, read_station(&path)?.service().cloned());
        let asking = service.map(|service| Asking::begin(service, membership.exchange.clone()));
        let asking = asking.transpose().map_err(KeyringError::Ask)?;
        let keyring = Self {
            path,
            membership: RwLock::new(membership),
            seen: Mutex::new(Seen { stamp, again: None }),
            failed_reloads: AtomicU64::new(0),
            asking,
            told_of_service: Mutex::new(None),
            told_end: Mutex::new(None),
        };
        if let Some(asking) = &keyring.asking {
            asking.wait_for_answer(FIRST_ANSWER);
            if let Some(reason) = asking.refused() {
                return Err(KeyringError::Refused { address: asking.service.address.to_string(), reason });
            }
            keyring.adopt_held(wall);
        }
        Ok(keyring)
    }

    /// Tells that a datagram came with a secret that is not held: a key service is asked soon.
    pub fn hurry(&self) {
        if let Some(asking) = &self.asking {
            asking.hurry();
        }
    }

    /// Returns the address of the key service, as in the file; `None` if the secrets are in the file.
    #[must_use]
    pub fn service_address(&self) -> Option<String> {
        self.asking.as_ref().map(|asking| asking.service.address.to_string())
    }

    /// Returns what is known of the key service; `None` if the secrets are in the file.
    #[must_use]
    pub fn service(&self, wall: WallTime) -> Option<ServiceState> {
        self.asking.as_ref().map(|asking| asking.state(wall))
    }

    /// Returns what is to be told of the key service, each change once.
    #[must_use]
    pub fn news(&self, wall: WallTime) -> Option<News> {
        let state = self.service(wall)?;
        News::of(&state, &mut self.told_of_service.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adopts the secrets of the key service's latest answer, without those that have ended.
    fn adopt_held(&self, wall: WallTime) {
        let Some(asking) = &self.asking else { return };
        let held = asking.held(wall).keys;
        let mut membership = self.membership.write().unwrap_or_else(PoisonError::into_inner);
        if !is_alike(&membership.keys, &held) {
            *membership = Arc::new(Membership { keys: held, ..Membership::clone(&membership) });
        }
    }

    /// Returns the membership in force.
    #[must_use]
    pub fn membership(&self) -> Arc<Membership> {
        Arc::clone(&self.membership.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns how many changed files were refused.
    #[must_use]
    pub fn failed_reloads(&self) -> u64 {
        self.failed_reloads.load(Ordering::Relaxed)
    }

    /// Returns the end of the station's certificate when it has to be told: once 14 days ahead, and once when it has
    /// come.
    #[must_use]
    pub fn ending(&self, wall: WallTime) -> Option<Ending> {
        let membership = self.membership();
        let certificate = membership.station.certificate();
        let end = certificate.not_after;
        let near = match end.nanos_since(wall) {
            ..=0 => Near::Over,
            left if left <= NOTICE_DAYS * DAY_NS => Near::Days(left / DAY_NS),
            _ => return None,
        };
        let mut told = self.told_end.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told =
            told.is_some_and(|(of, before)| of == end && (before == Near::Over || near != Near::Over));
        if is_told {
            return None;
        }
        *told = Some((end, near));
        Some(Ending { station: certificate.name.clone(), near })
    }

    /// Takes up what a key service has answered, and reads the file again if it has changed, or was refused for a reason that may pass; to be called several
    /// times a second.
    ///
    /// Of a file whose certificate is not valid at `wall` the secrets are taken up: without them the station would
    /// become blind, and would send with secrets that others no longer accept.
    ///
    /// # Errors
    /// If a changed file is wrong or gone: once per change and reason. The rest of the membership before stays in
    /// force, and the error is counted.
    pub fn refresh(&self, wall: WallTime) -> Result<Refresh, KeyringError> {
        self.adopt_held(wall);
        self.look(|| read_station(&self.path), wall)
    }

    fn look(
        &self,
        read: impl FnOnce() -> Result<KeyFile, KeyringError>,
        wall: WallTime,
    ) -> Result<Refresh, KeyringError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = private_file::stamp(&self.path);
        let is_same = stamp == seen.stamp;
        if is_same && seen.again.is_none() {
            return Ok(Refresh::Unchanged);
        }
        let file = read();
        // A file that is being written is read at the next look.
        if private_file::stamp(&self.path) != stamp {
            return Ok(Refresh::Unchanged);
        }
        let taken = file.and_then(|file| self.take_up(&file, wall));
        let again = taken.as_ref().err().filter(|error| error.may_pass()).map(KeyringError::to_string);
        let is_told = is_same && again.is_some() && again == seen.again;
        *seen = Seen { stamp, again };
        if is_told {
            return Ok(Refresh::Unchanged);
        }
        taken.map(|()| Refresh::Reloaded).inspect_err(|_| {
            self.failed_reloads.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Takes up the file, or only its secrets if its certificate is not valid.
    fn take_up(&self, file: &KeyFile, wall: WallTime) -> Result<(), KeyringError> {
        let before = self.membership();
        if file.authority() != before.authority {
            let (path, laboratory) = (self.path.clone(), file.laboratory().to_owned());
            return Err(KeyringError::OtherLaboratory { path, laboratory });
        }
        if file.service() != self.asking.as_ref().map(|asking| &asking.service) {
            return Err(KeyringError::OtherService(self.path.clone()));
        }
        let keys = if self.asking.is_some() { before.keys.clone() } else { file.key_set() };
        let (new, outcome) = match file.membership(wall) {
            Ok(new) => (Membership { keys, ..new }, Ok(())),
            Err(error) => (Membership { keys, ..Membership::clone(&before) }, Err(self.not_valid(error))),
        };
        *self.membership.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        outcome
    }

    fn not_valid(&self, error: CertificateError) -> KeyringError {
        KeyringError::Certificate { path: self.path.clone(), error }
    }
}

/// Returns whether two sets have the same secrets, at times that differ by no more than two clocks that are read at once.
fn is_alike(one: &KeySet, other: &KeySet) -> bool {
    let is_near = |one: WallTime, other: WallTime| one.nanos_since(other).abs() <= CLOCKS_APART_NS;
    one.iter().count() == other.iter().count()
        && one.iter().zip(other.iter()).all(|(one, other)| {
            let ends_near = match (one.until, other.until) {
                (Some(one), Some(other)) => is_near(one, other),
                (one, other) => one == other,
            };
            one.token == other.token
                && one.secret == other.secret
                && is_near(one.from, other.from)
                && ends_near
        })
}

impl fmt::Display for Ending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the certificate of station `{}` ", self.station)?;
        match self.near {
            Near::Days(0) => formatter.write_str("ends within a day")?,
            Near::Days(1) => formatter.write_str("ends in a day")?,
            Near::Days(days) => write!(formatter, "ends in {days} days")?,
            Near::Over => formatter.write_str("has ended: readers do not believe what it publishes")?,
        }
        formatter.write_str("\nrenew it: tallycast keys renew FILE --authority AUTHORITY")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use keys::{GroupSecret, Suite};
    use sys::private_file::{FileError, replace};

    use super::*;
    use crate::file::tests::{NOW, authority, station};
    use crate::{create_station, random_secret, random_token};

    fn count(keyring: &Keyring) -> usize {
        keyring.membership().keys.iter().count()
    }

    #[test]
    fn a_changed_file_is_followed_and_a_bad_one_keeps_the_old_and_is_told_and_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daq-1.keys");
        let authority = authority();
        let mut file = station(&authority);
        create_station(&path, &file).unwrap();
        let keyring = Keyring::open(&path, NOW).unwrap();
        assert_eq!(keyring.refresh(NOW).unwrap(), Refresh::Unchanged);
        let secret = GroupSecret::new(random_token(), Suite::default(), random_secret(), NOW);
        file.add_secret(secret).unwrap();
        replace(&path, &file.to_text()).unwrap();
        assert_eq!((keyring.refresh(NOW).unwrap(), count(&keyring)), (Refresh::Reloaded, 2));
        replace(&path, "format = 1\n").unwrap();
        assert!(matches!(keyring.refresh(NOW), Err(KeyringError::Content { .. })));
        assert_eq!(keyring.refresh(NOW).unwrap(), Refresh::Unchanged);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(keyring.refresh(NOW), Err(KeyringError::Missing(_))));
        replace(&path, &station(&crate::file::tests::authority()).to_text()).unwrap();
        assert!(matches!(keyring.refresh(NOW), Err(KeyringError::OtherLaboratory { .. })));
        assert_eq!((count(&keyring), keyring.failed_reloads()), (2, 3));
        replace(&path, &station(&authority).to_text()).unwrap();
        assert_eq!((keyring.refresh(NOW).unwrap(), count(&keyring)), (Refresh::Reloaded, 1));
        replace(&path, &file.to_text()).unwrap();
        let expired = keyring.refresh(WallTime::from_nanos(2_000));
        assert!(matches!(expired, Err(KeyringError::Certificate { .. })));
    }

    #[test]
    fn the_end_of_a_certificate_is_told_once_ahead_and_once_when_it_has_come() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daq-1.keys");
        create_station(&path, &station(&authority())).unwrap();
        let keyring = Keyring::open(&path, NOW).unwrap();
        let end = keyring.membership().station.certificate().not_after;
        let told = |ns_before: i64| keyring.ending(end.offset(-ns_before)).map(|told| told.to_string());
        assert_eq!(told(NOTICE_DAYS * DAY_NS + 1), None);
        let ahead = told(NOTICE_DAYS * DAY_NS).unwrap();
        assert!(ahead.starts_with("the certificate of station `daq-1` ends in 14 days\n"), "{ahead}");
        assert_eq!((told(DAY_NS), told(1)), (None, None));
        let over = told(0).unwrap();
        assert!(over.contains("has ended"), "{over}");
        assert_eq!((told(-1), told(1)), (None, None));
    }

    #[test]
    fn a_certificate_refused_by_a_wrong_clock_is_taken_once_the_clock_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daq-1.keys");
        let authority = authority();
        create_station(&path, &station(&authority)).unwrap();
        let keyring = Keyring::open(&path, NOW).unwrap();
        let mut told = 0;
        for wrong in [-1, 2_000].map(WallTime::from_nanos) {
            let file = station(&authority);
            replace(&path, &file.to_text()).unwrap();
            assert!(matches!(keyring.refresh(wrong), Err(KeyringError::Certificate { .. })));
            told += 1;
            assert_eq!(keyring.refresh(wrong).unwrap(), Refresh::Unchanged, "told once");
            assert_eq!(keyring.failed_reloads(), told);
            assert_ne!(keyring.membership().station.certificate(), file.station().certificate());
            assert_eq!(keyring.refresh(NOW).unwrap(), Refresh::Reloaded);
            assert_eq!(keyring.membership().station.certificate(), file.station().certificate());
            assert_eq!(keyring.refresh(NOW).unwrap(), Refresh::Unchanged);
        }
    }

    #[test]
    fn an_expired_certificate_does_not_keep_a_station_behind_with_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daq-1.keys");
        let (authority, expired) = (authority(), WallTime::from_nanos(2_000));
        let mut file = station(&authority);
        create_station(&path, &file).unwrap();
        let keyring = Keyring::open(&path, NOW).unwrap();
        let (old, next) = (file.secrets()[0].token, random_token());
        file.add_secret(GroupSecret::new(next, Suite::default(), random_secret(), NOW)).unwrap();
        file.retire_secret(old, expired).unwrap();
        replace(&path, &file.to_text()).unwrap();
        let told = keyring.refresh(expired).unwrap_err().to_string();
        assert!(told.contains("has expired") && told.contains("tallycast keys renew"), "{told}");
        let held: Vec<_> = keyring.membership().keys.iter().map(|secret| secret.token).collect();
        assert_eq!(held, [next], "the retired one is not accepted, the new one is");
        // Secrets of another laboratory are not taken, whatever its certificate.
        replace(&path, &station(&crate::file::tests::authority()).to_text()).unwrap();
        assert!(matches!(keyring.refresh(expired), Err(KeyringError::OtherLaboratory { .. })));
        assert_eq!(keyring.membership().keys.iter().map(|secret| secret.token).collect::<Vec<_>>(), [next]);
    }

    #[test]
    fn a_folder_that_others_could_write_is_mended_without_another_change_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daq-1.keys");
        let authority = authority();
        create_station(&path, &station(&authority)).unwrap();
        let keyring = Keyring::open(&path, NOW).unwrap();
        let allow = |mode| std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        allow(0o777);
        replace(&path, &station(&authority).to_text()).unwrap();
        assert!(keyring.refresh(NOW).unwrap_err().to_string().contains("chmod go-w"));
        assert_eq!(keyring.refresh(NOW).unwrap(), Refresh::Unchanged, "told once");
        allow(0o700);
        assert_eq!(keyring.refresh(NOW).unwrap(), Refresh::Reloaded);
        assert_eq!(keyring.failed_reloads(), 1);
    }

    #[test]
    fn the_path_is_absolute() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = Path::new(folder.path().file_name().unwrap()).join("daq-1.keys");
        create_station(&path, &station(&authority())).unwrap();
        let keyring = Keyring::open(&path, NOW).unwrap();
        assert_eq!(keyring.path(), std::env::current_dir().unwrap().join(&path));
        assert!(Keyring::open("", NOW).is_err());
    }

    #[test]
    fn a_change_outlasts_a_failure_that_passes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daq-1.keys");
        let authority = authority();
        create_station(&path, &station(&authority)).unwrap();
        let keyring = Keyring::open(&path, NOW).unwrap();
        let before = keyring.membership();
        replace(&path, &station(&authority).to_text()).unwrap();
        // Too many open files: EMFILE.
        let failing = || {
            let source = std::io::Error::from_raw_os_error(24);
            Err(FileError::System { action: "read", path: path.clone(), source }.into())
        };
        assert!(keyring.look(failing, NOW).is_err());
        assert_eq!(keyring.look(failing, NOW).unwrap(), Refresh::Unchanged, "told once");
        assert_eq!((keyring.failed_reloads(), keyring.membership().keys == before.keys), (1, true));
        assert_eq!(keyring.refresh(NOW).unwrap(), Refresh::Reloaded);
        assert!(keyring.membership().keys != before.keys);
    }

    #[test]
    fn nothing_secret_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daq-1.keys");
        let file = station(&authority());
        create_station(&path, &file).unwrap();
        let shown = format!("{:?}", Keyring::open(&path, NOW).unwrap());
        for line in file.to_text().lines().filter(|line| line.contains("signing") || line.contains("value")) {
            let secret = line.split('"').nth(1).unwrap();
            assert!(!shown.contains(&secret[..12]), "{shown}");
        }
        assert!(shown.contains("Secret(…)"), "{shown}");
    }
}
