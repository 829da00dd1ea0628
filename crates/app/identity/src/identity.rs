//! The identities of a service: its access files, sessions and attempts to sign in.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use access::{Kind, Policy, Principal, PrincipalName, Reach};
use sys::private_file::Stamp;
use units::{Instant, WallTime};

use crate::password::Verifier;
use crate::sessions::{Session, Sessions};
use crate::{Attempts, Busy, Content, Folder, FolderError, Secret, SessionId, Tokens, UserSessions, Users};

/// The identities that a service knows, and the policy for them. Threads share it.
#[derive(Debug)]
pub struct Identity {
    folder: Folder,
    reach: Reach,
    loaded: RwLock<Arc<Loaded>>,
    seen: Mutex<Seen>,
    sessions: Mutex<Sessions>,
    attempts: Mutex<Attempts>,
    verifier: Verifier,
    failed_reloads: AtomicU64,
}

#[derive(Debug)]
struct Loaded {
    policy: Arc<Policy>,
    has_rules: bool,
    users: Users,
    tokens: Tokens,
}

/// The last look at the access files.
#[derive(Debug)]
struct Seen {
    stamps: [Stamp; 3],
    /// True if they could not be read for a reason that may pass: they are read again though they do not change.
    again: bool,
}

/// Outcome of a look at the access files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refresh {
    /// They are as they were.
    Unchanged,
    /// They were read again; sessions of removed users and changed passwords have ended.
    Reloaded,
}

/// Reason why a user is not signed in.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignInError {
    /// There is no such user, or the password is another.
    #[error("the name or the password is wrong")]
    Wrong,
    /// Too many failures from this source.
    #[error("too many failed attempts\ntry again in {} s", .0.as_nanos().div_ceil(1_000_000_000))]
    TooMany(Duration),
    /// The host has no time to verify it.
    #[error(transparent)]
    Busy(#[from] Busy),
}

impl Identity {
    /// Reads the access files of a service that is reached as `reach` says.
    ///
    /// # Errors
    /// If a file is wrong: a service does not begin with rules that nobody wrote.
    pub fn open(folder: Folder, reach: Reach) -> Result<Self, FolderError> {
        let stamps = folder.stamps();
        let loaded = Loaded::new(folder.read()?, reach);
        Ok(Self {
            folder,
            reach,
            loaded: RwLock::new(Arc::new(loaded)),
            seen: Mutex::new(Seen { stamps, again: false }),
            sessions: Mutex::default(),
            attempts: Mutex::default(),
            verifier: Verifier::default(),
            failed_reloads: AtomicU64::new(0),
        })
    }

    /// Reads the access files again if they have changed; to be called about once a second.
    ///
    /// # Errors
    /// If a changed file is wrong: once per change. The content before stays in force, and the error is counted.
    pub fn refresh(&self) -> Result<Refresh, FolderError> {
        self.look(|| self.read_again())
    }

    fn look(&self, read: impl FnOnce() -> Result<Content, FolderError>) -> Result<Refresh, FolderError> {
        let mut seen = locked(&self.seen);
        let stamps = self.folder.stamps();
        let is_same = stamps == seen.stamps;
        if is_same && !seen.again {
            return Ok(Refresh::Unchanged);
        }
        let content = read();
        // A file that is being written is read at the next look: a part of the rules is not the rules.
        if self.folder.stamps() != stamps {
            return Ok(Refresh::Unchanged);
        }
        let again = content.as_ref().is_err_and(FolderError::may_pass);
        *seen = Seen { stamps, again };
        // What has been told is not told again.
        if is_same && again { Ok(Refresh::Unchanged) } else { self.take_up(content) }
    }

    fn take_up(&self, content: Result<Content, FolderError>) -> Result<Refresh, FolderError> {
        let content = content.inspect_err(|_| {
            self.failed_reloads.fetch_add(1, Ordering::Relaxed);
        })?;
        let loaded = Arc::new(Loaded::new(content, self.reach));
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&loaded);
        locked(&self.sessions).retain(|session| loaded.stands(session));
        Ok(Refresh::Reloaded)
    }

    /// Returns the policy in force.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.loaded().policy)
    }

    /// Returns whether there are local users, and so a reason to show a form to sign in.
    #[must_use]
    pub fn has_users(&self) -> bool {
        self.loaded().users.iter().len() > 0
    }

    /// Returns how many changed files were refused.
    #[must_use]
    pub fn failed_reloads(&self) -> u64 {
        self.failed_reloads.load(Ordering::Relaxed)
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn session_count(&self, now: Instant) -> usize {
        locked(&self.sessions).len(now)
    }

    /// Returns the users with open sessions, by name.
    #[must_use]
    pub fn sessions(&self, now: Instant) -> Vec<UserSessions> {
        locked(&self.sessions).users(now)
    }

    /// Ends all sessions of a user; returns how many there were.
    pub fn end_sessions(&self, now: Instant, user: &PrincipalName) -> usize {
        locked(&self.sessions).close_all(now, user)
    }

    /// Signs a local user in, and returns the secret of the new session.
    ///
    /// Cost: about a tenth of a second; call it where waiting is allowed.
    ///
    /// # Errors
    /// [`SignInError`]: for an unknown user the same, after the same time, as for a wrong password.
    pub fn sign_in(
        &self,
        now: Instant,
        source: IpAddr,
        name: &str,
        password: &Secret,
    ) -> Result<Secret, SignInError> {
        locked(&self.attempts).take(now, source, name).map_err(SignInError::TooMany)?;
        let loaded = self.loaded();
        let known = name.parse::<PrincipalName>().ok().filter(|name| loaded.users.get(name).is_some());
        let hash = known.as_ref().and_then(|name| loaded.users.get(name)).map(|user| &user.password);
        let is_right = self.verifier.verify(password, hash).inspect_err(|Busy| {
            locked(&self.attempts).give_back(source, name);
        })?;
        let Some(name) = known.filter(|_| is_right) else { return Err(SignInError::Wrong) };
        locked(&self.attempts).succeed(now, source, name.as_str());
        let (principal, mark) = (Principal::user(name.clone()), loaded.users.mark(&name));
        // If the password changed meanwhile, the mark is the old one, and the session opens nothing.
        Ok(locked(&self.sessions).open(now, principal, mark))
    }

    /// Opens a session for a principal that a provider vouches for, and returns its secret.
    ///
    /// The name of such a user has an `@` or a `/`: local users have none, and rules tell them apart.
    pub fn admit(&self, now: Instant, principal: Principal) -> Secret {
        locked(&self.sessions).open(now, principal, None)
    }

    /// Returns the session with a secret, and its principal; this is a use of the session.
    pub fn session(&self, now: Instant, secret: &str) -> Option<(SessionId, Principal)> {
        let loaded = self.loaded();
        let mut sessions = locked(&self.sessions);
        let (id, session) = sessions.find(now, secret)?;
        let principal = loaded.principal(session)?;
        sessions.touch(now, id);
        Some((id, principal))
    }

    /// Returns the principal of a session that is still open, as when a connection has outlasted a reload; this is no
    /// use of the session.
    #[must_use]
    pub fn principal(&self, now: Instant, id: SessionId) -> Option<Principal> {
        let loaded = self.loaded();
        locked(&self.sessions).get(now, id).and_then(|session| loaded.principal(session))
    }

    /// Returns the principal that a token proves.
    #[must_use]
    pub fn bearer(&self, now: WallTime, token: &str) -> Option<Principal> {
        self.loaded().tokens.principal(now, token)
    }

    /// Ends a session.
    pub fn sign_out(&self, id: SessionId) {
        locked(&self.sessions).close(id);
    }

    fn read_again(&self) -> Result<Content, FolderError> {
        let content = self.folder.read()?;
        // Without rules more may be allowed: a removal is never taken for a wish.
        if self.loaded().has_rules && content.rules.is_none() {
            return Err(FolderError::Removed(self.folder.rules_path()));
        }
        Ok(content)
    }

    fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Loaded {
    fn new(content: Content, reach: Reach) -> Self {
        let (policy, has_rules) = (Arc::new(content.policy(reach)), content.rules.is_some());
        Self { policy, has_rules, users: content.users, tokens: content.tokens }
    }

    /// Returns whether a session's user still exists, with the same password.
    fn stands(&self, session: &Session) -> bool {
        match (session.principal.kind(), session.mark) {
            (Kind::User(name), Some(mark)) => self.users.mark(name) == Some(mark),
            _ => true,
        }
    }

    /// Returns a session's principal with its role of today.
    fn principal(&self, session: &Session) -> Option<Principal> {
        match (session.principal.kind(), session.mark) {
            (Kind::User(name), Some(_)) => self.users.principal(name).filter(|_| self.stands(session)),
            _ => Some(session.principal.clone()),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use access::{May, Role};

    use super::*;
    use crate::User;
    use crate::users::tests::user;
    use sys::private_file::replace;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    const NOW: Instant = Instant::from_nanos(1);
    const PASSWORD: &str = "the first password";

    struct Scene {
        folder: Folder,
        identity: Identity,
        _files: tempfile::TempDir,
    }

    /// Makes a service with the user ada, an operator, and these rules.
    fn scene(rules: Option<&str>) -> Scene {
        let files = tempfile::tempdir().unwrap();
        let folder = Folder::new(files.path());
        folder.change_users(|users| users.add(name("ada"), user(Role::Operator, PASSWORD))).unwrap();
        if let Some(rules) = rules {
            replace(&folder.rules_path(), rules).unwrap();
        }
        let identity = Identity::open(folder.clone(), Reach::Elsewhere).unwrap();
        Scene { folder, identity, _files: files }
    }

    impl Scene {
        fn sign_in(&self, name: &str, password: &str) -> Result<Secret, SignInError> {
            self.identity.sign_in(NOW, HERE, name, &Secret::new(password.to_owned()))
        }

        fn is_open(&self, secret: &Secret) -> bool {
            self.identity.session(NOW, secret.reveal()).is_some()
        }
    }

    fn name(text: &str) -> PrincipalName {
        text.parse().unwrap()
    }

    #[test]
    fn a_user_signs_in_with_the_password_and_signs_out() {
        let scene = scene(None);
        assert_eq!(scene.sign_in("ada", "another password"), Err(SignInError::Wrong));
        assert_eq!(scene.sign_in("grace", PASSWORD), Err(SignInError::Wrong));
        assert_eq!(scene.sign_in("no name", PASSWORD), Err(SignInError::Wrong));
        let secret = scene.sign_in("ada", PASSWORD).unwrap();
        let (id, ada) = scene.identity.session(NOW, secret.reveal()).unwrap();
        assert_eq!(ada, Principal::user(name("ada")).with_role(Some(Role::Operator)));
        assert!(scene.identity.policy().decide_everywhere(&ada, May::Steer).is_allowed);
        scene.identity.sign_out(id);
        assert!(!scene.is_open(&secret));
        assert_eq!(scene.identity.principal(NOW, id), None);
    }

    #[test]
    fn guesses_are_bounded_also_with_the_right_password() {
        let scene = scene(None);
        for _ in 0..5 {
            assert_eq!(scene.sign_in("ada", "another password"), Err(SignInError::Wrong));
        }
        assert_eq!(scene.sign_in("ada", PASSWORD), Err(SignInError::TooMany(Duration::from_secs(60))));
    }

    #[test]
    fn a_user_that_is_signed_out_everywhere_signs_in_again_with_the_same_password() {
        let scene = scene(None);
        let sign_out = |users: &mut Users| users.change(&name("ada")).map(User::sign_out);
        for _ in 0..2 {
            let secret = scene.sign_in("ada", PASSWORD).unwrap();
            scene.folder.change_users(sign_out).unwrap();
            assert!(scene.is_open(&secret));
            scene.identity.refresh().unwrap();
            assert!(!scene.is_open(&secret));
        }
    }

    #[test]
    fn a_changed_password_or_a_removed_user_ends_the_sessions_and_a_new_role_does_not() {
        let scene = scene(None);
        let secret = scene.sign_in("ada", PASSWORD).unwrap();
        assert_eq!(scene.identity.refresh().unwrap(), Refresh::Unchanged);
        let role = |users: &mut Users| users.change(&name("ada")).map(|user| user.role = Role::Viewer);
        scene.folder.change_users(role).unwrap();
        assert_eq!(scene.identity.refresh().unwrap(), Refresh::Reloaded);
        assert_eq!(scene.identity.session(NOW, secret.reveal()).unwrap().1.role(), Some(Role::Viewer));
        // The same password again is a change too: it has another salt.
        scene
            .folder
            .change_users(|users| users.change(&name("ada")).map(|ada| *ada = user(Role::Viewer, PASSWORD)))
            .unwrap();
        scene.identity.refresh().unwrap();
        assert!(!scene.is_open(&secret));
        let secret = scene.sign_in("ada", PASSWORD).unwrap();
        scene.folder.change_users(|users| users.remove(&name("ada"))).unwrap();
        scene.identity.refresh().unwrap();
        assert!(!scene.is_open(&secret) && scene.identity.session_count(NOW) == 0);
    }

    #[test]
    fn a_bad_file_keeps_the_old_one_and_is_told_and_counted_once() {
        let scene = scene(Some("allow anyone read **"));
        let may_read =
            || scene.identity.policy().decide_everywhere(&Principal::anonymous(), May::Read).is_allowed;
        replace(&scene.folder.rules_path(), "alow anyone read **").unwrap();
        assert!(matches!(scene.identity.refresh(), Err(FolderError::Rules { .. })));
        assert_eq!(scene.identity.refresh().unwrap(), Refresh::Unchanged);
        assert!(may_read() && scene.identity.failed_reloads() == 1);
        std::fs::remove_file(scene.folder.rules_path()).unwrap();
        assert!(matches!(scene.identity.refresh(), Err(FolderError::Removed(_))));
        assert!(may_read() && scene.identity.failed_reloads() == 2);
        replace(&scene.folder.rules_path(), "").unwrap();
        assert_eq!(scene.identity.refresh().unwrap(), Refresh::Reloaded);
        assert!(!may_read());
    }

    #[test]
    fn a_revocation_outlasts_a_failure_that_passes() {
        let scene = scene(None);
        let secret = scene.sign_in("ada", PASSWORD).unwrap();
        scene.folder.change_users(|users| users.remove(&name("ada"))).unwrap();
        // Too many open files: EMFILE.
        let failing = || {
            let source = std::io::Error::from_raw_os_error(24);
            Err(crate::FileError::System { action: "read", path: scene.folder.rules_path(), source }.into())
        };
        assert!(scene.identity.look(failing).is_err() && scene.is_open(&secret));
        assert_eq!(scene.identity.look(failing).unwrap(), Refresh::Unchanged, "told once");
        assert_eq!(scene.identity.failed_reloads(), 1);
        assert_eq!(scene.identity.refresh().unwrap(), Refresh::Reloaded);
        assert!(!scene.is_open(&secret));
    }

    #[test]
    fn files_that_change_while_they_are_read_are_read_at_the_next_look() {
        let scene = scene(Some("deny anyone read **"));
        let may_read =
            || scene.identity.policy().decide_everywhere(&Principal::anonymous(), May::Read).is_allowed;
        replace(&scene.folder.rules_path(), "allow anyone read **").unwrap();
        let changing = || {
            let content = scene.folder.read();
            replace(&scene.folder.rules_path(), "allow anyone read **\nallow signed-in steer **").unwrap();
            content
        };
        assert_eq!(scene.identity.look(changing).unwrap(), Refresh::Unchanged);
        assert!(!may_read());
        assert_eq!(scene.identity.refresh().unwrap(), Refresh::Reloaded);
        assert!(may_read());
    }

    #[test]
    fn a_service_does_not_begin_with_a_bad_file() {
        let scene = scene(Some("allow anyone read **"));
        replace(&scene.folder.rules_path(), "alow anyone read **").unwrap();
        assert!(Identity::open(scene.folder.clone(), Reach::Loopback).is_err());
    }

    #[test]
    fn a_removed_token_is_refused_at_the_next_look() {
        let scene = scene(None);
        let now = WallTime::from_nanos(0);
        let secret = scene
            .folder
            .change_tokens(|tokens| tokens.issue(name("scraper"), "read".parse().unwrap(), None))
            .unwrap();
        assert_eq!(scene.identity.bearer(now, secret.reveal()), None);
        scene.identity.refresh().unwrap();
        let scraper = scene.identity.bearer(now, secret.reveal()).unwrap();
        assert!(scene.identity.policy().decide_everywhere(&scraper, May::Read).is_allowed);
        scene.folder.change_tokens(|tokens| tokens.remove(&name("scraper"))).unwrap();
        scene.identity.refresh().unwrap();
        assert_eq!(scene.identity.bearer(now, secret.reveal()), None);
    }

    #[test]
    fn a_providers_user_has_a_session_without_being_a_local_user() {
        let scene = scene(None);
        let alan = Principal::user(name("alan@example.org")).in_groups(["operators"]);
        let secret = scene.identity.admit(NOW, alan.clone());
        scene.folder.change_users(|users| users.remove(&name("ada"))).unwrap();
        scene.identity.refresh().unwrap();
        assert_eq!(scene.identity.session(NOW, secret.reveal()).map(|(_, principal)| principal), Some(alan));
    }

    #[test]
    fn nothing_that_is_secret_is_shown() {
        let scene = scene(None);
        let secret = scene.sign_in("ada", PASSWORD).unwrap();
        let shown = format!("{:?} {secret:?}", scene.identity);
        assert!(!shown.contains("argon2id") && !shown.contains(secret.reveal()), "{shown}");
        assert!(!shown.contains(&secret.digest().to_string()), "{shown}");
    }
}
