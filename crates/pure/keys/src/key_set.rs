//! The group secrets that a member holds: one that it sends with, and others that it accepts.
//!
//! Secrets rotate by overlap: the next one is distributed ahead of its time, every member sends with the latest whose
//! time has come, and an old one is accepted until it is removed. Members need not switch at the same instant.

use units::WallTime;

use crate::derive;
use crate::{Secret, Suite, Token};

/// Maximum number of secrets in a set: the present one, two future ones and old ones that still end.
pub const MAX_SECRETS: usize = 8;

/// A secret that a group shares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSecret {
    /// Its public name.
    pub token: Token,
    /// The encryption of datagrams with it.
    pub suite: Suite,
    /// The secret.
    pub secret: Secret,
    /// Time from which members send with it.
    pub from: WallTime,
    /// Time from which no member sends with it any more; `None`: until another takes its place.
    pub until: Option<WallTime>,
    key_check: u32,
}

/// The secrets that a member holds.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KeySet {
    /// Sorted by `from`, at most [`MAX_SECRETS`].
    secrets: Vec<GroupSecret>,
}

impl GroupSecret {
    /// Takes a secret and computes its check.
    #[must_use]
    pub fn new(token: Token, suite: Suite, secret: Secret, from: WallTime) -> Self {
        let key_check = derive::key_check(&secret);
        Self { token, suite, secret, from, until: None, key_check }
    }

    /// Returns the same secret with an end.
    #[must_use]
    pub const fn ending(mut self, until: WallTime) -> Self {
        self.until = Some(until);
        self
    }

    /// Returns the same secret by a clock that is so much ahead.
    pub(crate) fn shifted(&self, ahead_ns: i64) -> Self {
        let until = self.until.map(|until| until.offset(ahead_ns));
        Self { from: self.from.offset(ahead_ns), until, ..self.clone() }
    }

    /// Returns whether members may still send with it at `wall`.
    #[must_use]
    pub fn is_of_use(&self, wall: WallTime) -> bool {
        self.until.is_none_or(|until| wall < until)
    }

    /// Returns the check that datagrams carry beside the token.
    #[must_use]
    pub const fn key_check(&self) -> u32 {
        self.key_check
    }
}

impl KeySet {
    /// Takes secrets; of two with one token the later is kept, beyond [`MAX_SECRETS`] the latest.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = GroupSecret>) -> Self {
        let mut sorted: Vec<GroupSecret> = secrets.into_iter().collect();
        sorted.sort_by_key(|secret| secret.from);
        let mut secrets: Vec<GroupSecret> = Vec::new();
        for secret in sorted {
            secrets.retain(|earlier| earlier.token != secret.token);
            secrets.push(secret);
        }
        let surplus = secrets.len().saturating_sub(MAX_SECRETS);
        secrets.drain(..surplus);
        Self { secrets }
    }

    /// Returns the secret to send with at `wall`: the latest whose time has come, or the first if none has, by a clock
    /// that is behind; `None` without secrets, and once the last one has ended.
    ///
    /// Secrets that end are those of a key service, whose times are right by any clock: before its time none of them is
    /// sent with.
    #[must_use]
    pub fn sending(&self, wall: WallTime) -> Option<&GroupSecret> {
        let latest = self.secrets.iter().rev().find(|secret| secret.from <= wall);
        let first = self.secrets.first().filter(|secret| secret.until.is_none());
        latest.or(first).filter(|secret| secret.is_of_use(wall))
    }

    /// Returns the end of the last secret: without others, nothing is sent from then on; `None` if it has none.
    #[must_use]
    pub fn ends(&self) -> Option<WallTime> {
        self.secrets.last()?.until
    }

    /// Returns the secret with this token.
    #[must_use]
    pub fn with_token(&self, token: Token) -> Option<&GroupSecret> {
        self.secrets.iter().find(|secret| secret.token == token)
    }

    /// Returns the secret that a datagram names by its token, its check and its suite.
    #[must_use]
    pub fn named(&self, token: Token, key_check: u32, suite: Suite) -> Option<&GroupSecret> {
        let secret = self.with_token(token)?;
        (secret.key_check == key_check && secret.suite == suite).then_some(secret)
    }

    /// Returns all secrets, the earliest first.
    pub fn iter(&self) -> impl Iterator<Item = &GroupSecret> {
        self.secrets.iter()
    }

    /// Returns whether the set has no secrets.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    fn secret(token: u32, from: i64) -> GroupSecret {
        let secret = Secret::new(Zeroizing::new([u8::try_from(token).unwrap(); 32]));
        GroupSecret::new(Token(token), Suite::default(), secret, WallTime::from_nanos(from))
    }

    #[test]
    fn the_latest_secret_whose_time_has_come_is_sent_with() {
        let set = KeySet::new([secret(2, 20), secret(1, 10)]);
        let sending = |wall| set.sending(WallTime::from_nanos(wall)).map(|secret| secret.token.0);
        assert_eq!(KeySet::default().sending(WallTime::default()), None);
        assert_eq!([9, 10, 19, 20, 99].map(sending), [Some(1), Some(1), Some(1), Some(2), Some(2)]);
        assert_eq!(set.with_token(Token(1)), Some(&secret(1, 10)), "an old one is still accepted");
        assert_eq!(set.with_token(Token(3)), None);
    }

    #[test]
    fn nothing_is_sent_before_the_first_and_after_the_last_of_secrets_that_end() {
        let until = |secret: GroupSecret, until| secret.ending(WallTime::from_nanos(until));
        let set = KeySet::new([until(secret(1, 10), 20), until(secret(2, 20), 30)]);
        let sending = |wall| set.sending(WallTime::from_nanos(wall)).map(|secret| secret.token.0);
        assert_eq!([9, 19, 20, 29, 30].map(sending), [None, Some(1), Some(2), Some(2), None]);
        assert_eq!((set.ends(), KeySet::default().ends()), (Some(WallTime::from_nanos(30)), None));
        assert_eq!(set.with_token(Token(2)).map(|secret| secret.token.0), Some(2), "it is still accepted");
    }

    #[test]
    fn a_token_has_one_secret_and_a_set_a_limit() {
        let set = KeySet::new((0..20).map(|index| secret(index % 10, i64::from(index))));
        let tokens: Vec<_> = set.iter().map(|secret| secret.token.0).collect();
        assert_eq!(tokens, [2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(set.iter().all(|secret| secret.from >= WallTime::from_nanos(10)));
    }
}
