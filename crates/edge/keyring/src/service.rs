//! A running key service: it answers the members of its file, and changes the secrets in that file in time.
//!
//! The file is the whole state. It is written, and lasts, before a member gets what it says; other commands change it
//! too, and it is read again when it has changed. So a restart loses nothing, and no two secrets have one token.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use keys::service::{Content, Question, ServiceFile};
use keys::{MAX_KEY_FILE_BYTES, PublicKey, Suite, Token};
use noise::Config;
use sys::private_file::{self, FileError, Privacy, Staged, Stamp};
use sys::{Cancellation, Interest, Poller, clock};
use units::{Instant, WallTime};

use crate::port::Port;
use crate::{KeyringError, random_secret, random_token};

/// Interval at which the file is looked at: a removal is to be known at once.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Pause after the file could not be written.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

const PORT: u64 = 0;
const END: u64 = 1;

/// Reads the file of a key service.
///
/// # Errors
/// [`KeyringError`]
pub fn read_service(path: &Path) -> Result<ServiceFile, KeyringError> {
    let text = private_file::read(path, Privacy::Secret, MAX_KEY_FILE_BYTES)?;
    let text = text.ok_or_else(|| KeyringError::NoService(path.to_owned()))?;
    ServiceFile::parse(&text).map_err(|error| KeyringError::Content { path: path.to_owned(), error })
}

/// Makes the file of a key service, which must not exist.
///
/// # Errors
/// `Exists` and `System` of [`FileError`].
pub fn create_service(path: &Path, file: &ServiceFile) -> Result<(), FileError> {
    private_file::create(path, &file.to_text())
}

/// Changes the file of a key service, alone: it is read with its folder locked, and lasts when this returns.
///
/// # Errors
/// [`KeyringError`], or that of `change`; the file is then as it was.
pub fn change_service<T, E: From<KeyringError>>(
    path: &Path,
    change: impl FnOnce(&mut ServiceFile) -> Result<T, E>,
) -> Result<T, E> {
    let _alone = private_file::lock_folders([path]).map_err(KeyringError::from)?;
    let mut file = read_service(path)?;
    let done = change(&mut file)?;
    let staged = Staged::new(path, &file.to_text()).map_err(KeyringError::from)?;
    staged.replace().map_err(KeyringError::from)?;
    Ok(done)
}

/// Draws a secret and its token.
#[must_use]
pub fn draw() -> (Token, keys::Secret) {
    (random_token(), random_secret())
}

/// A running key service.
pub struct KeyService {
    path: PathBuf,
    file: ServiceFile,
    stamp: Stamp,
    port: Port,
    poller: Poller,
    stop: Cancellation,
    next_look: Instant,
    /// Reason for which the file was last refused, told once.
    told: Option<String>,
    /// The secret that members send with, as told.
    in_use: Option<Token>,
    /// The address from which each station asked last, and whether it was refused.
    asked: BTreeMap<PublicKey, (SocketAddr, bool)>,
}

/// Progress of a key service, to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServiceEvent {
    /// A member asks for the first time, or from another address.
    Asks {
        /// Its name.
        member: String,
        /// Its address.
        from: SocketAddr,
    },
    /// A station that was removed asks, and is refused.
    Refused {
        /// Its name.
        station: String,
        /// Its address.
        from: SocketAddr,
    },
    /// A member was added.
    Added(String),
    /// A member was removed: others send with another secret from then on.
    Removed {
        /// Its name.
        member: String,
        /// Token of the new secret.
        token: Token,
        /// Time from which it is sent with.
        from: WallTime,
    },
    /// Members send with another secret.
    InUse(Token),
    /// The file cannot be used or written; what it said before is still answered.
    Trouble(String),
}

impl KeyService {
    /// Opens the service of this file at its port, or at another address.
    ///
    /// # Errors
    /// [`KeyringError`]
    pub fn open(path: &Path, listen: Option<SocketAddr>, stop: Cancellation) -> Result<Self, KeyringError> {
        let absolute = std::path::absolute(path);
        let path =
            absolute.map_err(|source| FileError::System { action: "find", path: path.into(), source })?;
        let stamp = private_file::stamp(&path);
        let file = read_service(&path)?;
        let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), file.address().port());
        let address = listen.unwrap_or(any);
        let listening = |source| KeyringError::Listen { address, source };
        let config = || Config {
            key: file.exchange().clone(),
            peers: known(&file).collect(),
            responder: None,
            suite: Suite::default(),
            seed: random_secret(),
            started: clock::pair(),
        };
        let port = Port::open(address, config()).or_else(|error| match listen {
            // Without IPv6 on this host.
            None if error.kind() != io::ErrorKind::AddrInUse => {
                Port::open(SocketAddr::new(IpAddr::from([0; 4]), address.port()), config())
            }
            _ => Err(error),
        });
        let port = port.map_err(listening)?;
        let poller = Poller::new().map_err(listening)?;
        port.watch(&poller, PORT).and_then(|()| poller.add(&stop, END, Interest::Read)).map_err(listening)?;
        let next_look = clock::monotonic();
        let (in_use, asked) = (None, BTreeMap::new());
        let mut service =
            Self { path, file, stamp, port, poller, stop, next_look, told: None, in_use, asked };
        service.rotate(clock::wall())?;
        Ok(service)
    }

    /// Returns the address at which it listens.
    ///
    /// # Errors
    /// That of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.port.address()
    }

    /// Returns its state.
    #[must_use]
    pub const fn file(&self) -> &ServiceFile {
        &self.file
    }

    /// Answers until it is stopped, and tells its progress.
    ///
    /// # Errors
    /// If the system cannot wait for the port.
    pub fn run(&mut self, mut tell: impl FnMut(ServiceEvent)) -> io::Result<()> {
        while !self.stop.is_cancelled() {
            let now = clock::monotonic();
            if now >= self.next_look {
                self.next_look = now + LOOK_INTERVAL;
                self.look(clock::wall(), &mut tell);
            }
            let due = self.answer(&mut tell);
            self.poller.wait(Instant::earlier(due, Some(self.next_look)))?;
        }
        Ok(())
    }

    /// Takes up a changed file, and changes it if a secret is due.
    fn look(&mut self, wall: WallTime, tell: &mut impl FnMut(ServiceEvent)) {
        let before = self.file.clone();
        if let Err(error) = self.follow().and_then(|()| self.rotate(wall)) {
            self.next_look += RETRY_INTERVAL;
            let error = error.to_string();
            if self.told.as_ref() != Some(&error) {
                self.told = Some(error.clone());
                tell(ServiceEvent::Trouble(error));
            }
            return;
        }
        self.told = None;
        self.tell_members(&before, tell);
        if let Some(token) = self.file.schedule().in_use(wall).map(|secret| secret.token)
            && self.in_use != Some(token)
        {
            self.in_use = Some(token);
            tell(ServiceEvent::InUse(token));
        }
    }

    fn follow(&mut self) -> Result<(), KeyringError> {
        let stamp = private_file::stamp(&self.path);
        if stamp == self.stamp {
            return Ok(());
        }
        let file = read_service(&self.path)?;
        self.take_up(file, stamp)
    }

    /// Makes the secrets that are due, and answers with them once the file lasts.
    fn rotate(&mut self, wall: WallTime) -> Result<(), KeyringError> {
        if !self.file.clone().advance(wall, draw) {
            return Ok(());
        }
        let changed = change_service(&self.path, |file| {
            file.advance(wall, draw);
            Ok::<_, KeyringError>(file.clone())
        })?;
        let stamp = private_file::stamp(&self.path);
        self.take_up(changed, stamp)
    }

    fn take_up(&mut self, file: ServiceFile, stamp: Stamp) -> Result<(), KeyringError> {
        if file.exchange() != self.file.exchange() || file.authority() != self.file.authority() {
            let (path, laboratory) = (self.path.clone(), file.laboratory().to_owned());
            return Err(KeyringError::OtherLaboratory { path, laboratory });
        }
        known(&file).for_each(|key| self.port.sessions.list(key));
        (self.file, self.stamp) = (file, stamp);
        Ok(())
    }

    fn tell_members(&self, before: &ServiceFile, tell: &mut impl FnMut(ServiceEvent)) {
        for member in self.file.members().iter().filter(|member| !before.members().contains(member)) {
            tell(ServiceEvent::Added(member.name.clone()));
        }
        let newest = self.file.schedule().secrets().iter().rev();
        let is_new = |token| !before.schedule().secrets().iter().any(|known| known.token == token);
        let first = newest.rev().find(|secret| is_new(secret.token));
        for removed in self.file.removed().iter().filter(|removed| !before.removed().contains(removed)) {
            if let Some(secret) = first {
                let member = removed.member.name.clone();
                tell(ServiceEvent::Removed { member, token: secret.token, from: secret.from });
            }
        }
    }

    /// Answers all questions that have arrived.
    fn answer(&mut self, tell: &mut impl FnMut(ServiceEvent)) -> Option<Instant> {
        let Self { port, file, asked, .. } = self;
        port.take(|port, from, message| {
            let (Some(station), Ok(question)) = (port.sessions.peer(from), Question::from_bytes(message))
            else {
                return;
            };
            let (now, wall) = clock::pair();
            let answer = file.answer(question, &station, wall);
            port.send(now, from, &answer.to_bytes());
            let is_refused = matches!(answer.content, Content::Refused(_));
            if asked.insert(station, (from, is_refused)) != Some((from, is_refused)) {
                let removed = file.removed().iter().map(|removed| &removed.member);
                let mut stations = file.members().iter().chain(removed);
                let name = stations.find(|it| it.exchange == station).map(|it| it.name.clone());
                let name = name.unwrap_or_else(|| station.fingerprint());
                tell(match is_refused {
                    true => ServiceEvent::Refused { station: name, from },
                    false => ServiceEvent::Asks { member: name, from },
                });
            }
        })
    }
}

/// Returns the keys that get a session: those of members, and of stations that are to be told that they were removed.
fn known(file: &ServiceFile) -> impl Iterator<Item = PublicKey> {
    let removed = file.removed().iter().map(|removed| removed.member.exchange);
    file.members().iter().map(|member| member.exchange).chain(removed)
}

impl fmt::Debug for KeyService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyService").field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use keys::service::Member;
    use keys::{AuthorityFile, MAX_SECRETS};

    use super::*;

    const HOUR_NS: i64 = 3_600_000_000_000;

    fn laboratory() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.service");
        create_service(&path, &service_file()).unwrap();
        (folder, path)
    }

    fn service_file() -> ServiceFile {
        let authority = AuthorityFile::new("lab", random_secret()).unwrap();
        let address = "localhost:7409".parse().unwrap();
        ServiceFile::new(&authority, address, random_secret(), Default::default())
    }

    fn service(path: &Path) -> KeyService {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        KeyService::open(path, Some(anywhere), Cancellation::new().unwrap()).unwrap()
    }

    fn member(name: &str, first: u8) -> Member {
        Member { name: name.to_owned(), exchange: PublicKey([first; 32]) }
    }

    #[test]
    fn what_members_get_is_in_the_file_before() {
        let (folder, path) = laboratory();
        let mut running = service(&path);
        assert_eq!(read_service(&path).unwrap(), running.file);
        let later = clock::wall().offset(HOUR_NS);
        running.rotate(later).unwrap();
        assert_eq!(read_service(&path).unwrap(), running.file);
        // Another service of the same file gives the same answers.
        assert_eq!(service(&path).file.schedule(), running.file.schedule());
        // What cannot be written is not handed out.
        let before = running.file.clone();
        folder.close().unwrap();
        assert!(running.rotate(later.offset(HOUR_NS)).is_err());
        assert_eq!(running.file, before);
    }

    #[test]
    fn a_removal_by_another_process_is_followed_and_told() {
        let (_folder, path) = laboratory();
        let mut running = service(&path);
        let mut told = Vec::new();
        change_service(&path, |file| {
            file.add(member("daq-2", 2)).map_err(|_| KeyringError::NoService(path.clone()))
        })
        .unwrap();
        running.look(clock::wall(), &mut |event| told.push(event));
        assert!(told.contains(&ServiceEvent::Added("daq-2".to_owned())), "{told:?}");
        change_service(&path, |file| {
            let removed = file.remove(&["daq-2".to_owned()], clock::wall(), draw);
            removed.map_err(|_| KeyringError::NoService(path.clone()))
        })
        .unwrap();
        running.look(clock::wall(), &mut |event| told.push(event));
        assert!(running.file.members().is_empty() && running.file.schedule().secrets().len() <= MAX_SECRETS);
        assert!(told.iter().any(|event| matches!(event, ServiceEvent::Removed { .. })), "{told:?}");
        // The state of another laboratory is not taken up.
        let before = running.file.clone();
        private_file::replace(&path, &service_file().to_text()).unwrap();
        running.look(clock::wall(), &mut |event| told.push(event));
        assert!(matches!(told.last(), Some(ServiceEvent::Trouble(_))), "{told:?}");
        assert_eq!(running.file, before);
    }

    #[test]
    fn changes_at_once_by_several_processes_are_all_kept() {
        const EACH: u8 = 20;
        let (_folder, path) = laboratory();
        let add = |first: u8| {
            for number in first..first + EACH {
                change_service(&path, |file| {
                    let added = file.add(member(&format!("daq-{number}"), number));
                    added.map_err(|_| KeyringError::NoService(path.clone()))
                })
                .unwrap();
            }
        };
        std::thread::scope(|scope| {
            for first in [0, EACH] {
                scope.spawn(move || add(first));
            }
        });
        assert_eq!(read_service(&path).unwrap().members().len(), 2 * usize::from(EACH));
    }
}
