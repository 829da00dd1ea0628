//! The policy: rules in their order, of which the first that applies decides.
//!
//! ```text
//! group operators = ada, grace
//! allow group:operators  read,steer,derive  lab/**   # a comment
//! allow signed-in        read               **
//! ```
//!
//! Without an access file the address and the principal's role decide: [`Reach`].

mod parse;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sample::{StreamName, StreamPattern};
use serde::Serialize;

pub use parse::{MAX_POLICY_BYTES, MAX_RULES, PolicyError, Problem};

use crate::{Kind, May, MaySet, Principal, PrincipalName, Role};

/// Rules that say which principal may do what with which streams.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy(Basis);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Basis {
    File { rules: Vec<Rule>, groups: Groups },
    NoFile(Reach),
}

/// The members of the groups that an access file defines.
type Groups = BTreeMap<PrincipalName, BTreeSet<PrincipalName>>;

/// Reach of the address at which a service listens, which decides where there is no access file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Its own host alone: anyone may do anything, as with the host's own command.
    Loopback,
    /// Other hosts too: a user may do what its role allows, a token what its scopes allow, and nobody else anything.
    Elsewhere,
}

/// One rule of an access file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    line: u32,
    text: Arc<str>,
    allows: bool,
    who: Who,
    may: MaySet,
    streams: StreamPattern,
}

/// Principals that a rule is about.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Who {
    /// Every caller, also one without credentials.
    Anyone,
    /// Every caller that proved its credentials.
    SignedIn,
    /// A user.
    User(PrincipalName),
    /// The users of a group: of the access file, or of a provider.
    Group(PrincipalName),
    /// The users with a role, or a higher one.
    Role(Role),
    /// The bearer of a token.
    Token(PrincipalName),
    /// The holder of a key, by its digits or the name in its certificate.
    Key(PrincipalName),
}

/// Answer to a question, and its ground.
///
/// JSON: `allowed`, `may`, `line` and `rule` (null if no line decided), `reason` in words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(into = "Told")]
pub struct Decision {
    /// Whether it is allowed.
    pub is_allowed: bool,
    /// What was asked for.
    pub may: May,
    /// What decided.
    pub ground: Ground,
}

/// A decision in JSON.
#[derive(Serialize)]
struct Told {
    allowed: bool,
    may: May,
    line: Option<u32>,
    rule: Option<String>,
    reason: String,
}

/// What decided a question.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Ground {
    /// A line of the access file.
    Line {
        /// Its number, from 1.
        number: u32,
        /// The rule, without comment and with single blanks.
        text: Arc<str>,
    },
    /// No line of the access file applies: denied.
    NoLine,
    /// There is no access file.
    NoFile(Reach),
    /// The token was made for less: denied before any rule.
    Scope,
    /// The token has expired: its bearer is refused whatever the rules allow.
    Expired,
}

impl Policy {
    /// Parses an access file.
    ///
    /// # Errors
    /// [`PolicyError`] with the first line that is wrong; there is no policy of the lines before it.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let (rules, groups) = parse::read(text)?;
        Ok(Self(Basis::File { rules, groups }))
    }

    /// Returns the policy of a service that has no access file.
    #[must_use]
    pub const fn without_file(reach: Reach) -> Self {
        Self(Basis::NoFile(reach))
    }

    /// Returns the rules in their order; there are none without a file.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        match &self.0 {
            Basis::File { rules, .. } => rules,
            Basis::NoFile(_) => &[],
        }
    }

    /// Decides whether a principal may do something with one stream: by the first rule that applies.
    ///
    /// Cost: linear in the rules. Keep the answer where a question repeats with every frame.
    #[must_use]
    pub fn decide(&self, principal: &Principal, may: May, stream: &StreamName) -> Decision {
        self.first(principal, may, |rule| rule.streams.matches(stream))
    }

    /// Decides whether a principal may do something with all streams: what concerns no single one, such as settings.
    ///
    /// A denial of some streams is one of the whole.
    #[must_use]
    pub fn decide_everywhere(&self, principal: &Principal, may: May) -> Decision {
        self.first(principal, may, |rule| !rule.allows || rule.is_for_all_streams())
    }

    /// Decides whether a principal may do something with any stream at all: whether to open the door, behind which
    /// each stream is asked for by [`decide`](Self::decide).
    #[must_use]
    pub fn decide_somewhere(&self, principal: &Principal, may: May) -> Decision {
        self.first(principal, may, |rule| rule.allows || rule.is_for_all_streams())
    }

    /// Decides by the first rule for the principal and the use that `applies`.
    fn first(&self, principal: &Principal, may: May, applies: impl Fn(&Rule) -> bool) -> Decision {
        if let Kind::Token { scopes, .. } = principal.kind()
            && !scopes.contains(may)
        {
            return Decision { is_allowed: false, may, ground: Ground::Scope };
        }
        match &self.0 {
            Basis::NoFile(reach) => {
                let is_allowed = *reach == Reach::Loopback || granted(principal).contains(may);
                Decision { is_allowed, may, ground: Ground::NoFile(*reach) }
            }
            Basis::File { rules, groups } => {
                let about = |rule: &&Rule| rule.may.contains(may) && rule.who.includes(principal, groups);
                let rule = rules.iter().filter(about).find(|rule| applies(rule));
                let ground = rule.map_or(Ground::NoLine, Rule::ground);
                Decision { is_allowed: rule.is_some_and(|rule| rule.allows), may, ground }
            }
        }
    }
}

/// Returns what a principal may do by its own nature, where no file says more.
fn granted(principal: &Principal) -> MaySet {
    match principal.kind() {
        Kind::User(_) => principal.role().map(Role::may).unwrap_or_default(),
        Kind::Token { scopes, .. } => *scopes,
        Kind::Key { .. } | Kind::Anonymous => MaySet::default(),
    }
}

impl Rule {
    /// Returns the number of its line, from 1.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Returns the rule without comment and with single blanks.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the principals it is about.
    #[must_use]
    pub fn who(&self) -> &Who {
        &self.who
    }

    /// Returns the streams it is about.
    #[must_use]
    pub fn streams(&self) -> &StreamPattern {
        &self.streams
    }

    fn is_for_all_streams(&self) -> bool {
        self.streams == StreamPattern::all()
    }

    fn ground(&self) -> Ground {
        Ground::Line { number: self.line, text: Arc::clone(&self.text) }
    }
}

impl Who {
    fn includes(&self, principal: &Principal, groups: &Groups) -> bool {
        match self {
            Self::Anyone => true,
            Self::SignedIn => principal.is_signed_in(),
            Self::User(name) => matches!(principal.kind(), Kind::User(user) if user == name),
            Self::Group(name) => {
                let lists_user = |members: &BTreeSet<_>| matches!(principal.kind(), Kind::User(user) if members.contains(user));
                principal.groups().contains(name) || groups.get(name).is_some_and(lists_user)
            }
            Self::Role(role) => principal.role() >= Some(*role),
            Self::Token(name) => matches!(principal.kind(), Kind::Token { name: own, .. } if own == name),
            Self::Key(name) => match principal.kind() {
                Kind::Key { hex, name: own } => {
                    own.as_ref() == Some(name) || name.as_str().eq_ignore_ascii_case(hex)
                }
                _ => false,
            },
        }
    }
}

impl Decision {
    /// Returns the answer to every question of a token's bearer once it has expired.
    #[must_use]
    pub const fn expired(may: May) -> Self {
        Self { is_allowed: false, may, ground: Ground::Expired }
    }
}

impl Ground {
    /// Returns it as a label of counters: `line 4`, `no line`, `no file`, `scope`, `expired`.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Line { number, .. } => format!("line {number}"),
            Self::NoLine => "no line".to_owned(),
            Self::NoFile(_) => "no file".to_owned(),
            Self::Scope => "scope".to_owned(),
            Self::Expired => "expired".to_owned(),
        }
    }
}

impl From<Decision> for Told {
    fn from(decision: Decision) -> Self {
        let (line, rule) = match &decision.ground {
            Ground::Line { number, text } => (Some(*number), Some(text.to_string())),
            Ground::NoLine | Ground::NoFile(_) | Ground::Scope | Ground::Expired => (None, None),
        };
        Self { allowed: decision.is_allowed, may: decision.may, line, rule, reason: decision.to_string() }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = if self.is_allowed { "allowed" } else { "denied" };
        let may = self.may;
        match &self.ground {
            Ground::Line { number, text } => write!(formatter, "{answer} by line {number}: {text}"),
            Ground::NoLine => write!(formatter, "{answer}: no line of the access file applies"),
            Ground::NoFile(Reach::Loopback) => {
                write!(formatter, "{answer}: without an access file, anyone may {may} on a loopback address")
            }
            Ground::NoFile(Reach::Elsewhere) => {
                write!(
                    formatter,
                    "{answer}: without an access file, a role or a token's scope must include {may}"
                )
            }
            Ground::Scope => write!(formatter, "{answer}: the token's scopes do not include {may}"),
            Ground::Expired => write!(formatter, "{answer}: the token has expired"),
        }
    }
}

#[cfg(test)]
mod tests;
