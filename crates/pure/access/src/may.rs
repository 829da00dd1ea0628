//! Kinds of use: reading, publishing, steering, deriving, administering; and the roles that stand for sets of them.

use core::fmt;
use core::str::FromStr;

use units::serde_as_text;

use crate::spelling::Known;

/// A kind of use that is allowed or denied.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum May {
    /// See a stream: its samples, account, history and recordings.
    Read,
    /// Write a stream.
    Publish,
    /// Change what the product does with a stream: join, leave, inject losses.
    Steer,
    /// Define a stream that is computed from others.
    Derive,
    /// Act on other users: see and end their sessions. It concerns no single stream.
    Administer,
}

/// A set of kinds of use.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct MaySet(u8);

/// A usual set of kinds of use; each role includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, steers and derives.
    Operator,
    /// Does everything.
    Administrator,
}

/// Error for a word that is neither a kind of use nor a role.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown word `{word}`\n{known}")]
pub struct UnknownWord {
    word: String,
    known: Known,
}

impl May {
    /// Every kind of use.
    pub const ALL: [Self; 5] = [Self::Read, Self::Publish, Self::Steer, Self::Derive, Self::Administer];

    const WORDS: [&str; 5] = ["read", "publish", "steer", "derive", "administer"];

    /// Returns the word for it in access files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Administrator];

    const WORDS: [&str; 3] = ["viewer", "operator", "administrator"];

    /// Returns the word for it in access files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Returns the kinds of use that the role stands for.
    #[must_use]
    pub fn may(self) -> MaySet {
        match self {
            Self::Viewer => MaySet::from_iter([May::Read]),
            Self::Operator => MaySet::from_iter([May::Read, May::Steer, May::Derive]),
            Self::Administrator => MaySet::ALL,
        }
    }
}

impl MaySet {
    /// All kinds of use.
    pub const ALL: Self = Self((1 << May::ALL.len()) - 1);

    /// Returns whether a kind of use is in the set.
    #[must_use]
    pub const fn contains(self, may: May) -> bool {
        self.0 & (1 << may as u8) != 0
    }

    /// Returns whether the set has no kind of use.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the kinds of use in the set.
    pub fn iter(self) -> impl Iterator<Item = May> {
        May::ALL.into_iter().filter(move |may| self.contains(*may))
    }

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<May> for MaySet {
    fn from_iter<T: IntoIterator<Item = May>>(all: T) -> Self {
        Self(all.into_iter().fold(0, |set, may| set | 1 << may as u8))
    }
}

impl FromStr for MaySet {
    type Err = UnknownWord;

    /// Reads kinds of use and roles with commas between them, or `*` for all.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        text.split(',').map(str::trim).try_fold(Self::default(), |set, word| Ok(set.with(words(word)?)))
    }
}

/// Returns the set that one word stands for.
fn words(word: &str) -> Result<MaySet, UnknownWord> {
    if word == "*" {
        return Ok(MaySet::ALL);
    }
    let may = May::ALL.into_iter().find(|may| may.as_str() == word).map(|may| MaySet::from_iter([may]));
    let role = || Role::ALL.into_iter().find(|role| role.as_str() == word).map(Role::may);
    may.or_else(role).ok_or_else(|| {
        let known: Vec<&str> = May::WORDS.into_iter().chain(["*"]).chain(Role::WORDS).collect();
        UnknownWord::new(word, &known)
    })
}

impl UnknownWord {
    pub(crate) fn new(word: &str, known: &[&'static str]) -> Self {
        Self { word: word.escape_debug().to_string(), known: Known::near(word, known) }
    }
}

impl FromStr for May {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.into_iter().find(|may| may.as_str() == word);
        found.ok_or_else(|| UnknownWord::new(word, &Self::WORDS))
    }
}

impl FromStr for Role {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == word);
        found.ok_or_else(|| UnknownWord::new(word, &Self::WORDS))
    }
}

impl fmt::Display for May {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl fmt::Display for MaySet {
    /// Writes `*` for all, otherwise the words with commas.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return formatter.pad("*");
        }
        formatter.pad(&self.iter().map(May::as_str).collect::<Vec<_>>().join(","))
    }
}

impl fmt::Debug for MaySet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

serde_as_text!(May, Role, MaySet);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_includes_the_ones_before_it() {
        let sets = Role::ALL.map(|role| role.may().to_string());
        assert_eq!(sets, ["read", "read,steer,derive", "*"]);
    }

    #[test]
    fn a_set_reads_what_it_writes() {
        for bits in 1..=MaySet::ALL.0 {
            let set = MaySet(bits);
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        assert_eq!("viewer, publish".parse(), Ok(MaySet::from_iter([May::Read, May::Publish])));
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        let error = "read,stear".parse::<MaySet>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown word `stear`\ndid you mean `steer`? \
             known: read, publish, steer, derive, administer, *, viewer, operator, administrator"
        );
        assert!("".parse::<MaySet>().is_err() && "read,".parse::<MaySet>().is_err());
        assert!("operater".parse::<Role>().unwrap_err().to_string().contains("`operator`"));
    }
}
