//! Sessions of signed-in users: in memory only, known by the digests of their secrets.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use access::{Kind, Principal, PrincipalName};
use units::Instant;

use crate::{Digest, Secret};

/// Time after which a session that nothing used ends: a working day.
pub const MAX_SESSION_IDLE: Duration = Duration::from_secs(8 * 3_600);
/// The most sessions of one user: browsers and devices; the one unused for the longest time goes.
const MAX_SESSIONS_PER_USER: usize = 16;
/// The most sessions of all users.
const MAX_SESSIONS: usize = 4_096;

/// Handle of a session, which opens nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SessionId(Digest);

/// Sessions by the digests of their secrets.
#[derive(Debug, Default)]
pub(crate) struct Sessions(HashMap<SessionId, Session>);

/// A session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The principal, as it signed in.
    pub(crate) principal: Principal,
    /// The mark of a local user's password at that time; a provider's user has none.
    pub(crate) mark: Option<Digest>,
    last_used: Instant,
}

/// The open sessions of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserSessions {
    /// Name of the user.
    pub user: PrincipalName,
    /// Number of the sessions.
    pub count: usize,
    /// Time since one of them was used.
    pub idle: Duration,
}

impl Sessions {
    /// Opens a session with a new secret, whatever the caller had before.
    pub(crate) fn open(&mut self, now: Instant, principal: Principal, mark: Option<Digest>) -> Secret {
        self.0.retain(|_, session| session.is_alive(now));
        let user = user_of(&principal).cloned();
        self.make_room(|session| user_of(&session.principal) == user.as_ref(), MAX_SESSIONS_PER_USER);
        self.make_room(|_| true, MAX_SESSIONS);
        let secret = Secret::random("");
        self.0.insert(SessionId(secret.digest()), Session { principal, mark, last_used: now });
        secret
    }

    /// Finds a session by its secret.
    pub(crate) fn find(&self, now: Instant, secret: &str) -> Option<(SessionId, &Session)> {
        let id = SessionId(Digest::of(secret));
        self.get(now, id).map(|session| (id, session))
    }

    /// Returns a session.
    pub(crate) fn get(&self, now: Instant, id: SessionId) -> Option<&Session> {
        self.0.get(&id).filter(|session| session.is_alive(now))
    }

    /// Notes that a session was used.
    pub(crate) fn touch(&mut self, now: Instant, id: SessionId) {
        if let Some(session) = self.0.get_mut(&id) {
            session.last_used = session.last_used.max(now);
        }
    }

    /// Ends a session, if it is open.
    pub(crate) fn close(&mut self, id: SessionId) {
        self.0.remove(&id);
    }

    /// Ends the sessions that do not stand any more; returns how many.
    pub(crate) fn retain(&mut self, stands: impl Fn(&Session) -> bool) -> usize {
        let before = self.0.len();
        self.0.retain(|_, session| stands(session));
        before - self.0.len()
    }

    /// Returns the users with sessions, by name.
    pub(crate) fn users(&self, now: Instant) -> Vec<UserSessions> {
        let mut users: BTreeMap<&PrincipalName, UserSessions> = BTreeMap::new();
        for session in self.0.values().filter(|session| session.is_alive(now)) {
            let Some(name) = user_of(&session.principal) else { continue };
            let idle = now.since(session.last_used);
            let of_user =
                users.entry(name).or_insert_with(|| UserSessions { user: name.clone(), count: 0, idle });
            of_user.count += 1;
            of_user.idle = of_user.idle.min(idle);
        }
        users.into_values().collect()
    }

    /// Ends the sessions of a user; returns how many.
    pub(crate) fn close_all(&mut self, now: Instant, user: &PrincipalName) -> usize {
        let before = self.len(now);
        self.0.retain(|_, session| session.is_alive(now) && user_of(&session.principal) != Some(user));
        before - self.0.len()
    }

    /// Returns the number of sessions.
    pub(crate) fn len(&self, now: Instant) -> usize {
        self.0.values().filter(|session| session.is_alive(now)).count()
    }

    /// Ends the session unused for the longest time, if there are `limit` among those that `counts`.
    fn make_room(&mut self, counts: impl Fn(&Session) -> bool, limit: usize) {
        let counted = || self.0.iter().filter(|(_, session)| counts(session));
        if counted().count() >= limit
            && let Some(id) = counted().min_by_key(|(_, session)| session.last_used).map(|(id, _)| *id)
        {
            self.0.remove(&id);
        }
    }
}

impl Session {
    fn is_alive(&self, now: Instant) -> bool {
        now.since(self.last_used) < MAX_SESSION_IDLE
    }
}

fn user_of(principal: &Principal) -> Option<&PrincipalName> {
    match principal.kind() {
        Kind::User(name) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Principal {
        Principal::user(name.parse().unwrap())
    }

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn a_session_lasts_while_it_is_used() {
        let mut sessions = Sessions::default();
        let idle = MAX_SESSION_IDLE.as_secs();
        let secret = sessions.open(at(0), user("ada"), None);
        let (id, session) = sessions.find(at(idle - 1), secret.reveal()).unwrap();
        assert_eq!(session.principal, user("ada"));
        assert!(sessions.find(at(idle), secret.reveal()).is_none());
        sessions.touch(at(idle - 1), id);
        assert!(sessions.get(at(2 * idle - 2), id).is_some() && sessions.get(at(2 * idle - 1), id).is_none());
        assert_eq!(sessions.len(at(2 * idle)), 0);
    }

    #[test]
    fn each_sign_in_has_another_secret_and_a_closed_session_is_gone() {
        let mut sessions = Sessions::default();
        let [one, other] = [0, 0].map(|now| sessions.open(at(now), user("ada"), None));
        let (id, _) = sessions.find(at(0), one.reveal()).unwrap();
        assert_ne!(one, other);
        // A second time it changes nothing.
        for _ in 0..2 {
            sessions.close(id);
        }
        assert!(
            sessions.find(at(0), one.reveal()).is_none() && sessions.find(at(0), other.reveal()).is_some()
        );
    }

    #[test]
    fn the_sessions_of_a_user_are_listed_and_ended_and_nobody_elses() {
        let mut sessions = Sessions::default();
        for (seconds, name) in [(1, "ada"), (3, "ada"), (2, "bob")] {
            sessions.open(at(seconds), user(name), None);
        }
        let row = |name: &str, count, idle_s| UserSessions {
            user: name.parse().unwrap(),
            count,
            idle: Duration::from_secs(idle_s),
        };
        assert_eq!(sessions.users(at(9)), [row("ada", 2, 6), row("bob", 1, 7)]);
        assert_eq!(sessions.close_all(at(9), &"ada".parse().unwrap()), 2);
        assert_eq!(sessions.close_all(at(9), &"ada".parse().unwrap()), 0);
        assert_eq!(sessions.users(at(9)), [row("bob", 1, 7)]);
        // One that ended by itself is neither listed nor counted.
        let late = at(2 + MAX_SESSION_IDLE.as_secs());
        assert!(sessions.users(late).is_empty() && sessions.close_all(late, &"bob".parse().unwrap()) == 0);
    }

    #[test]
    fn one_session_too_many_ends_the_users_oldest_and_nobody_elses() {
        let mut sessions = Sessions::default();
        let other = sessions.open(at(0), user("grace"), None);
        let of_ada: Vec<Secret> =
            (0..=MAX_SESSIONS_PER_USER as u64).map(|now| sessions.open(at(now), user("ada"), None)).collect();
        let alive: Vec<bool> =
            of_ada.iter().map(|secret| sessions.find(at(99), secret.reveal()).is_some()).collect();
        assert!(!alive[0] && alive[1..].iter().all(|alive| *alive));
        assert!(sessions.find(at(99), other.reveal()).is_some());
    }

    #[test]
    fn the_number_of_all_sessions_is_bounded() {
        let mut sessions = Sessions::default();
        for number in 0..MAX_SESSIONS + 2 {
            sessions.open(at(number as u64), user(&format!("user{number}")), None);
        }
        assert_eq!(sessions.len(at(MAX_SESSIONS as u64)), MAX_SESSIONS);
    }
}
