//! A station's membership, which follows its file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use keys::Membership;
use sys::private_file::{self, Stamp};
use units::WallTime;

use crate::{KeyringError, load};

const DAY_NS: i64 = 24 * 3_600 * 1_000_000_000;
/// Notice of the end of a certificate: time to make another and bring it to its station.
const NOTICE_DAYS: i64 = 14;

/// A station's membership and the file that it comes from. Threads share it.
#[derive(Debug)]
pub struct Keyring {
    path: PathBuf,
    membership: RwLock<Arc<Membership>>,
    seen: Mutex<Seen>,
    failed_reloads: AtomicU64,
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
    /// True if it could not be read for a reason that may pass: it is read again though it does not change.
    again: bool,
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
    /// Reads a station's file.
    ///
    /// # Errors
    /// [`KeyringError`]
    pub fn open(path: impl Into<PathBuf>, wall: WallTime) -> Result<Self, KeyringError> {
        let path = path.into();
        let stamp = private_file::stamp(&path);
        let membership = RwLock::new(load(&path, wall)?);
        let seen = Mutex::new(Seen { stamp, again: false });
        let told_end = Mutex::new(None);
        Ok(Self { path, membership, seen, failed_reloads: AtomicU64::new(0), told_end })
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

    /// Reads the file again if it has changed; to be called several times a second.
    ///
    /// # Errors
    /// If a changed file is wrong or gone: once per change. The membership before stays in force, and the error is
    /// counted.
    pub fn refresh(&self, wall: WallTime) -> Result<Refresh, KeyringError> {
        self.look(|| load(&self.path, wall))
    }

    fn look(
        &self,
        load: impl FnOnce() -> Result<Arc<Membership>, KeyringError>,
    ) -> Result<Refresh, KeyringError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = private_file::stamp(&self.path);
        let is_same = stamp == seen.stamp;
        if is_same && !seen.again {
            return Ok(Refresh::Unchanged);
        }
        let loaded = load();
        // A file that is being written is read at the next look.
        if private_file::stamp(&self.path) != stamp {
            return Ok(Refresh::Unchanged);
        }
        let again = loaded.as_ref().is_err_and(KeyringError::may_pass);
        *seen = Seen { stamp, again };
        // What has been told is not told again.
        if is_same && again { Ok(Refresh::Unchanged) } else { self.take_up(loaded) }
    }

    fn take_up(&self, loaded: Result<Arc<Membership>, KeyringError>) -> Result<Refresh, KeyringError> {
        let of_this_laboratory = loaded.and_then(|new| {
            if new.authority == self.membership().authority {
                return Ok(new);
            }
            Err(KeyringError::OtherLaboratory { path: self.path.clone(), laboratory: new.laboratory.clone() })
        });
        let new = of_this_laboratory.inspect_err(|_| {
            self.failed_reloads.fetch_add(1, Ordering::Relaxed);
        })?;
        *self.membership.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(Refresh::Reloaded)
    }
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
        assert!(keyring.look(failing).is_err());
        assert_eq!(keyring.look(failing).unwrap(), Refresh::Unchanged, "told once");
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
