//! Principals: users, tokens, keys, and callers that proved nothing.

use std::collections::BTreeSet;

use crate::{MaySet, PrincipalName, Role};

/// The party that asks for something, as its credentials prove it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal {
    kind: Kind,
    groups: BTreeSet<PrincipalName>,
    role: Option<Role>,
}

/// Kind of a principal, and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A caller without credentials.
    Anonymous,
    /// A person: a local user, or one that a provider vouches for.
    User(PrincipalName),
    /// A machine with a token; it never exceeds the token's scopes, whatever the rules allow.
    Token {
        /// The token's name.
        name: PrincipalName,
        /// What the token was made for.
        scopes: MaySet,
    },
    /// A station with a key.
    Key {
        /// The public key in lower-case hexadecimal digits.
        hex: String,
        /// The name in the key's certificate, if it has one that this site trusts.
        name: Option<PrincipalName>,
    },
}

impl Principal {
    /// Returns the caller without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::of(Kind::Anonymous)
    }

    /// Returns a user, without groups and role.
    #[must_use]
    pub fn user(name: PrincipalName) -> Self {
        Self::of(Kind::User(name))
    }

    /// Returns the bearer of a token.
    #[must_use]
    pub fn token(name: PrincipalName, scopes: MaySet) -> Self {
        Self::of(Kind::Token { name, scopes })
    }

    /// Returns the holder of a key.
    #[must_use]
    pub fn key(hex: &str, name: Option<PrincipalName>) -> Self {
        Self::of(Kind::Key { hex: hex.to_ascii_lowercase(), name })
    }

    /// Adds groups, such as a provider's.
    ///
    /// A name that an access file cannot hold is left out: no rule could mean it.
    #[must_use]
    pub fn in_groups<T: AsRef<str>>(mut self, groups: impl IntoIterator<Item = T>) -> Self {
        self.groups.extend(groups.into_iter().filter_map(|name| name.as_ref().parse().ok()));
        self
    }

    /// Gives a role.
    #[must_use]
    pub fn with_role(mut self, role: Option<Role>) -> Self {
        self.role = role;
        self
    }

    /// Returns the kind and name.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns the groups that came with the credentials; the access file may add some.
    #[must_use]
    pub fn groups(&self) -> &BTreeSet<PrincipalName> {
        &self.groups
    }

    /// Returns the role.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        self.role
    }

    /// Returns whether credentials were proved.
    #[must_use]
    pub fn is_signed_in(&self) -> bool {
        self.kind != Kind::Anonymous
    }

    fn of(kind: Kind) -> Self {
        Self { kind, groups: BTreeSet::new(), role: None }
    }
}

impl std::fmt::Display for Principal {
    /// Writes the principal as the access file names it.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            Kind::Anonymous => formatter.write_str("anyone"),
            Kind::User(name) => write!(formatter, "user:{name}"),
            Kind::Token { name, .. } => write!(formatter, "token:{name}"),
            Kind::Key { name: Some(name), .. } => write!(formatter, "key:{name}"),
            Kind::Key { hex, name: None } => write!(formatter, "key:{hex}"),
        }
    }
}
