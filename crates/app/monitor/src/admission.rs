//! Admission: which principal a request comes from, and what it may do.
//!
//! The crate `access` decides by rules, the crate `identity` by passwords, tokens and sessions; a [`Gatekeeper`] holds
//! both. Every request has a [`Visitor`], whose questions are answered with `Ok` or with a refusal that names the rule.
//! Start with [`Visitor::of`].

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use access::{Decision, Ground, Kind, May, Policy, Principal, PrincipalName, Reach};
use axum::http::{HeaderMap, Method, header};
use identity::{Folder, FolderError, Identity, Refresh, Secret, SessionId, SignInError, UserSessions};
use sample::{StreamName, StreamPattern};
use serde_json::{Value, json};

use crate::clock;
use crate::host_gate::Protection;
use crate::refused::{Reason, Refused};

/// Users, sessions, tokens and rules of a monitor; without a folder of them, its address decides.
#[derive(Debug)]
pub(crate) struct Gatekeeper {
    identity: Option<Identity>,
    without: Arc<Policy>,
}

impl Gatekeeper {
    /// Makes the gatekeeper of a server bound to `address`.
    ///
    /// # Errors
    /// If a file in the folder is wrong.
    pub(crate) fn open(folder: Option<&Path>, address: SocketAddr) -> Result<Self, FolderError> {
        let reach = if address.ip().is_loopback() { Reach::Loopback } else { Reach::Elsewhere };
        let identity = folder.map(|folder| Identity::open(Folder::new(folder), reach)).transpose()?;
        Ok(Self { identity, without: Arc::new(Policy::without_file(reach)) })
    }

    /// Takes up changed files; what cannot be used is said, counted, and changes nothing.
    pub(crate) fn refresh(&self) {
        match self.identity.as_ref().map(Identity::refresh) {
            Some(Err(error)) => {
                tracing::warn!("the previous users, access tokens and rules stay in force: {error}")
            }
            Some(Ok(Refresh::Reloaded)) => tracing::info!("users, access tokens and rules were read again"),
            Some(Ok(Refresh::Unchanged)) | None => {}
        }
    }

    /// Returns how often changed files could not be used.
    pub(crate) fn refused_files(&self) -> u64 {
        self.identity.as_ref().map_or(0, Identity::failed_reloads)
    }

    /// Opens a session. It takes a tenth of a second.
    pub(crate) fn sign_in(&self, source: IpAddr, user: &str, password: &Secret) -> Result<Secret, Refused> {
        let identity = self.identity.as_ref().filter(|it| it.has_users()).ok_or_else(Refused::no_users)?;
        identity.sign_in(sys::clock::monotonic(), source, user, password).map_err(|error| match error {
            SignInError::TooMany(wait) => Refused::attempts(wait),
            SignInError::Busy(_) => Refused::attempts(Duration::from_secs(1)),
            _ => Refused::password(),
        })
    }

    /// Ends a session.
    pub(crate) fn sign_out(&self, session: SessionId) {
        if let Some(identity) = &self.identity {
            identity.sign_out(session);
        }
    }

    /// Returns the users with open sessions, by name.
    pub(crate) fn sessions(&self) -> Vec<UserSessions> {
        self.identity.as_ref().map_or_else(Vec::new, |it| it.sessions(sys::clock::monotonic()))
    }

    /// Ends all sessions of a user; returns how many there were.
    pub(crate) fn end_sessions(&self, user: &PrincipalName) -> usize {
        self.identity.as_ref().map_or(0, |it| it.end_sessions(sys::clock::monotonic(), user))
    }

    fn policy(&self) -> Arc<Policy> {
        self.identity.as_ref().map_or_else(|| Arc::clone(&self.without), Identity::policy)
    }

    /// Returns whether there is a user that can sign in.
    pub(crate) fn has_users(&self) -> bool {
        self.identity.as_ref().is_some_and(Identity::has_users)
    }

    fn session(&self, secret: &str) -> Option<(SessionId, Principal)> {
        self.identity.as_ref()?.session(sys::clock::monotonic(), secret)
    }

    fn principal(&self, session: SessionId) -> Option<Principal> {
        self.identity.as_ref()?.principal(sys::clock::monotonic(), session)
    }

    fn bearer(&self, token: &str) -> Option<Principal> {
        self.identity.as_ref()?.bearer(clock::wall(), token)
    }
}

/// Returns the token of an `Authorization` header of the scheme `Bearer`, in any case (RFC 9110 §11.1). Other schemes are
/// for a proxy in front, and prove nothing here.
fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ').unwrap_or((header, ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Name and attributes of the session cookie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SessionCookie {
    name: String,
    secure: bool,
}

impl SessionCookie {
    /// Makes the cookie of a server. Cookies do not know ports, so its name does: two monitors of one host have their own.
    pub(crate) fn new(address: SocketAddr, protection: Protection) -> Self {
        let secure = protection == Protection::Tls;
        // Browsers take a `__Host-` cookie from an encrypted connection only, and for this host alone: RFC 6265bis §4.1.3.2.
        let prefix = if secure { "__Host-" } else { "" };
        Self { name: format!("{prefix}tallycast-{}", address.port()), secure }
    }

    /// Returns the header that sets it.
    pub(crate) fn set(&self, session: &Secret) -> String {
        format!("{}={}; {}", self.name, session.reveal(), self.attributes())
    }

    /// Returns the header that removes it.
    pub(crate) fn remove(&self) -> String {
        format!("{}=; Max-Age=0; {}", self.name, self.attributes())
    }

    const fn attributes(&self) -> &'static str {
        if self.secure {
            "Path=/; HttpOnly; SameSite=Strict; Secure"
        } else {
            "Path=/; HttpOnly; SameSite=Strict"
        }
    }

    fn read<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.name).map(|(_, value)| value)
    }
}

/// Proof that came with a request.
#[derive(Clone)]
enum Proof {
    None,
    Session(SessionId),
    Token(Arc<Secret>),
}

/// The party that a request comes from.
#[derive(Clone)]
pub(crate) struct Visitor {
    principal: Principal,
    proof: Proof,
    policy: Arc<Policy>,
}

impl Visitor {
    /// Returns the party that a request with these headers comes from.
    ///
    /// # Errors
    /// A token that is not valid; a session without proof that its own page asks.
    pub(crate) fn of(
        gatekeeper: &Gatekeeper,
        cookie: &SessionCookie,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Self, Refused> {
        let policy = gatekeeper.policy();
        let lines = headers.get_all(header::AUTHORIZATION).iter();
        let mut lines = lines.map(|line| String::from_utf8_lossy(line.as_bytes()));
        if let Some(token) = lines.find_map(|line| bearer_token(&line).map(str::to_owned)) {
            let principal = gatekeeper.bearer(&token).ok_or_else(Refused::token)?;
            let proof = Proof::Token(Arc::new(Secret::new(token)));
            return Ok(Self { principal, proof, policy });
        }
        let known = cookie.read(headers).and_then(|secret| gatekeeper.session(secret));
        let Some((session, principal)) = known else {
            return Ok(Self { principal: Principal::anonymous(), proof: Proof::None, policy });
        };
        // A browser adds the cookie by itself; only the page that asks adds its origin, which the host gate has checked.
        let changes = !method.is_safe() || headers.contains_key(header::UPGRADE);
        if changes && !headers.contains_key(header::ORIGIN) {
            return Err(Refused::no_origin());
        }
        Ok(Self { principal, proof: Proof::Session(session), policy })
    }

    /// Returns the principal as the access file names it.
    pub(crate) fn name(&self) -> String {
        self.principal.to_string()
    }

    /// Returns the name by which others know it; `None` without proof.
    pub(crate) fn user(&self) -> Option<String> {
        match self.principal.kind() {
            Kind::Anonymous => None,
            Kind::User(name) => Some(name.to_string()),
            _ => Some(self.name()),
        }
    }

    /// Returns whether what it proved itself with is still valid.
    pub(crate) fn is_known(&self, gatekeeper: &Gatekeeper) -> bool {
        self.principal_now(gatekeeper).is_some()
    }

    /// Returns the session that it proved, if it did by one.
    pub(crate) const fn session(&self) -> Option<SessionId> {
        match self.proof {
            Proof::Session(session) => Some(session),
            Proof::None | Proof::Token(_) => None,
        }
    }

    /// Returns whether it would be admitted again as it was: by the same rules, as the same principal.
    pub(crate) fn is_still_admitted(&self, gatekeeper: &Gatekeeper) -> bool {
        self.policy == gatekeeper.policy() && self.principal_now(gatekeeper).as_ref() == Some(&self.principal)
    }

    fn principal_now(&self, gatekeeper: &Gatekeeper) -> Option<Principal> {
        match &self.proof {
            Proof::None => Some(Principal::anonymous()),
            Proof::Session(session) => gatekeeper.principal(*session),
            Proof::Token(token) => gatekeeper.bearer(token.reveal()),
        }
    }

    /// Returns why it is not admitted as it was any more: what ended, or the rule that denies it from now on, first for
    /// the streams that it `reads`.
    pub(crate) fn ended<'a>(
        &self,
        gatekeeper: &Gatekeeper,
        reads: impl IntoIterator<Item = &'a str>,
    ) -> Option<Reason> {
        let because =
            |label: &str, rule: &str| Some(Reason { label: label.to_owned(), rule: rule.to_owned() });
        let Some(principal) = self.principal_now(gatekeeper) else {
            return match self.proof {
                Proof::Token(_) => because("token", "the token has expired or was revoked"),
                Proof::Session(_) | Proof::None => because("session", "the session has ended"),
            };
        };
        let now = Self { principal, proof: self.proof.clone(), policy: gatekeeper.policy() };
        let lost = reads.into_iter().filter(|stream| self.reads(stream)).find_map(|stream| {
            let decision = now.policy.decide(&now.principal, May::Read, &stream.parse().ok()?);
            (!decision.is_allowed).then_some((decision, stream))
        });
        let all = || (now.policy.decide_somewhere(&now.principal, May::Read), "");
        let (decision, stream) = lost.unwrap_or_else(all);
        if !decision.is_allowed {
            let label = decision.ground.label();
            return Some(Reason { label, rule: now.words(&decision, stream) });
        }
        if now.principal != self.principal {
            return because("role", "role, groups or scopes have changed");
        }
        (now.policy != self.policy).then(Reason::rules_changed)
    }

    /// Returns whether another visitor has the same rights: the same principal under the same rules.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.principal == other.principal && Arc::ptr_eq(&self.policy, &other.policy)
    }

    /// Checks that it may do something with one stream. A text that is no name passes: there is no such stream.
    pub(crate) fn may(&self, may: May, stream: &str) -> Result<(), Refused> {
        let Ok(name) = stream.parse::<StreamName>() else { return Ok(()) };
        let decision = self.policy.decide(&self.principal, may, &name);
        self.judge(&decision, &format!("`{stream}`"), stream)
    }

    /// Checks that it may do something with all streams of a pattern: by the stream's rule if it names one, else only
    /// if it may with all streams.
    pub(crate) fn may_with(&self, may: May, pattern: &StreamPattern) -> Result<(), Refused> {
        match pattern.as_str().parse::<StreamName>() {
            Ok(_) => self.may(may, pattern.as_str()),
            Err(_) => self.may_everywhere(may),
        }
    }

    /// Checks that it may do something with every stream.
    pub(crate) fn may_everywhere(&self, may: May) -> Result<(), Refused> {
        self.judge(&self.policy.decide_everywhere(&self.principal, may), "all streams", "")
    }

    /// Checks that it may do something with any stream.
    pub(crate) fn may_somewhere(&self, may: May) -> Result<(), Refused> {
        self.judge(&self.policy.decide_somewhere(&self.principal, may), "any stream", "")
    }

    /// Returns whether it may read a stream.
    pub(crate) fn reads(&self, stream: &str) -> bool {
        stream.parse().is_ok_and(|name| self.policy.decide(&self.principal, May::Read, &name).is_allowed)
    }

    /// Returns whether it may read every stream.
    pub(crate) fn reads_all(&self) -> bool {
        self.policy.decide_everywhere(&self.principal, May::Read).is_allowed
    }

    /// Returns what a page shows of it: its name, and what it may do.
    pub(crate) fn to_json(&self, gatekeeper: &Gatekeeper) -> Value {
        let right = |may: May| {
            let all = self.policy.decide_everywhere(&self.principal, may);
            let some = self.policy.decide_somewhere(&self.principal, may).is_allowed;
            let why = self.words(&all, "");
            (may.as_str().to_owned(), json!({"some": some, "all": all.is_allowed, "why": why}))
        };
        json!({
            "principal": self.principal.to_string(),
            "signed_in": self.principal.is_signed_in(),
            "can_sign_in": gatekeeper.has_users(),
            "may": Value::Object(May::ALL.map(right).into_iter().collect()),
        })
    }

    /// Returns a decision in words. A stranger is told no text of a rule about streams that it may neither read nor has
    /// `asked` for.
    fn words(&self, decision: &Decision, asked: &str) -> String {
        match decision.ground {
            Ground::Line { number, .. } if !self.knows(number, asked) => format!("denied by line {number}"),
            _ => decision.to_string(),
        }
    }

    fn knows(&self, line: u32, asked: &str) -> bool {
        let mut rules = self.policy.rules().iter().filter(|rule| rule.line() == line);
        self.principal.is_signed_in()
            || self.reads_all()
            || rules.all(|rule| {
                let streams = rule.streams();
                *streams == StreamPattern::all() || streams.as_str() == asked || self.reads(streams.as_str())
            })
    }

    fn judge(&self, decision: &Decision, streams: &str, asked: &str) -> Result<(), Refused> {
        if decision.is_allowed {
            return Ok(());
        }
        let error = format!("{} may not {} {streams}", self.principal, decision.may);
        let help = if self.principal.is_signed_in() {
            "ask an administrator: `tallycast access explain` prints the rule that decides"
        } else {
            "sign in on the page, or send a token: Authorization: Bearer TOKEN"
        };
        let reason = Reason { label: decision.ground.label(), rule: self.words(decision, asked) };
        Err(Refused::denied(self.principal.is_signed_in(), error, help, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn cookie(tls: bool) -> SessionCookie {
        let address = "127.0.0.1:7480".parse().unwrap();
        SessionCookie::new(address, Protection::of(address, tls))
    }

    #[test]
    fn the_cookie_is_the_hosts_alone_where_it_can_be_and_no_script_reads_it() {
        assert_eq!(
            cookie(true).set(&Secret::new("s3cret".to_owned())),
            "__Host-tallycast-7480=s3cret; Path=/; HttpOnly; SameSite=Strict; Secure"
        );
        let clear = cookie(false).set(&Secret::new("s".to_owned()));
        assert_eq!(clear, "tallycast-7480=s; Path=/; HttpOnly; SameSite=Strict");
        assert!(cookie(true).remove().starts_with("__Host-tallycast-7480=; Max-Age=0; Path=/"));
    }

    #[test]
    fn a_token_is_found_whatever_the_case_of_its_scheme() {
        for header in ["Bearer tct_1", "bearer tct_1", "BEARER  tct_1 "] {
            assert_eq!(bearer_token(header), Some("tct_1"), "{header}");
        }
        assert_eq!((bearer_token("Basic tct_1"), bearer_token("Bearer")), (None, Some("")));
    }

    #[test]
    fn credentials_for_a_proxy_in_front_prove_nothing_and_a_wrong_token_is_refused() {
        let gatekeeper = Gatekeeper::open(None, "127.0.0.1:0".parse().unwrap()).unwrap();
        for (lines, is_refused) in [
            (&["Basic YWRhOjE="] as &[&'static str], false),
            (&["Negotiate YII="], false),
            (&["Bearer tct_1"], true),
            (&["Bearer"], true),
            (&["Basic YWRhOjE=", "Bearer tct_1"], true),
        ] {
            let line = |text: &&'static str| (header::AUTHORIZATION, HeaderValue::from_static(text));
            let headers = lines.iter().map(line).collect();
            let visitor = Visitor::of(&gatekeeper, &cookie(false), &Method::POST, &headers);
            assert_eq!(visitor.is_err(), is_refused, "{lines:?}");
            assert!(visitor.is_ok_and(|it| it.principal == Principal::anonymous()) != is_refused);
        }
    }

    #[test]
    fn the_cookie_is_found_among_others_and_not_under_another_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; xtallycast-7480=2"));
        headers.append(header::COOKIE, HeaderValue::from_static("tallycast-7481=3; tallycast-7480=4=5"));
        assert_eq!(cookie(false).read(&headers), Some("4=5"));
        assert_eq!(cookie(true).read(&headers), None);
    }

    #[test]
    fn a_sign_in_without_any_user_is_refused_with_the_way_to_the_first() {
        let empty = tempfile::tempdir().unwrap();
        for folder in [None, Some(empty.path())] {
            let gatekeeper = Gatekeeper::open(folder, "192.0.2.7:0".parse().unwrap()).unwrap();
            let asked = gatekeeper.sign_in("192.0.2.8".parse().unwrap(), "ada", &Secret::new("s".to_owned()));
            assert_eq!((asked.err(), gatekeeper.has_users()), (Some(Refused::no_users()), false));
        }
    }

    #[test]
    fn without_users_anyone_may_do_anything_on_loopback_and_nobody_anything_elsewhere() {
        for (address, allowed) in
            [("127.0.0.1:0", true), ("[::1]:0", true), ("192.0.2.7:0", false), ("0.0.0.0:0", false)]
        {
            let gatekeeper = Gatekeeper::open(None, address.parse().unwrap()).unwrap();
            let visitor =
                Visitor::of(&gatekeeper, &cookie(false), &Method::GET, &HeaderMap::new()).ok().unwrap();
            for may in May::ALL {
                assert_eq!(visitor.may(may, "lab/x").is_ok(), allowed, "{address} {may}");
                assert_eq!(visitor.may_everywhere(may).is_ok(), allowed, "{address} {may}");
            }
            assert_eq!((visitor.reads("lab/x"), visitor.reads_all()), (allowed, allowed));
            assert!(visitor.is_still_admitted(&gatekeeper));
        }
    }
}
