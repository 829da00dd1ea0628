//! Tokens for machines: name, scopes, digest and expiry; the token itself is shown once and kept nowhere.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use access::{MaySet, Principal, PrincipalName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use units::{WallTime, serde_as_text};

use crate::{Digest, Secret};

/// Beginning of every token, by which scanners of leaked secrets find it.
pub(crate) const TOKEN_PREFIX: &str = "tct_";
/// The most tokens; each request with one is compared with all.
const MAX_TOKENS: usize = 1_000;
/// The length of a token: the prefix and 256 bits in hexadecimal digits.
const TOKEN_BYTES: usize = TOKEN_PREFIX.len() + 64;

/// The tokens, as the file `tokens` holds them.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    #[serde(default)]
    token: BTreeMap<PrincipalName, Token>,
}

/// A token for a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The most that the bearer may do, whatever rules allow.
    pub scopes: MaySet,
    /// The moment from which the token is refused; never without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Expiry>,
    digest: Digest,
}

/// A moment of expiry, in UTC: `2027-01-31T00:00:00Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Expiry(Timestamp);

/// Reason why a change of the tokens is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// There is such a token already.
    #[error("the access token `{0}` exists\nremove it first: tallycast access token remove {0}")]
    Exists(PrincipalName),
    /// There is no such token.
    #[error("no access token is named `{0}`\nlist them: tallycast access token list")]
    Unknown(PrincipalName),
    /// A token where its name belongs; the error does not repeat it.
    #[error(
        "that is an access token, not its name, and may be in this shell's history now\nremove it by its name, and make another one: tallycast access token list"
    )]
    Secret,
    /// Too many tokens.
    #[error("there are {MAX_TOKENS} access tokens already\nremove those that are not needed any more")]
    TooMany,
    /// A time of expiry that is no time.
    #[error("`{0}` is not a time in UTC\nwrite it as 2027-01-31T00:00:00Z")]
    Expiry(String),
}

impl Tokens {
    /// Makes a token, and returns it for its only showing.
    ///
    /// # Errors
    /// If the name is taken, or there are too many tokens.
    ///
    /// # Panics
    /// If the system has no random bits.
    pub fn issue(
        &mut self,
        name: PrincipalName,
        scopes: MaySet,
        expires: Option<Expiry>,
    ) -> Result<Secret, TokenError> {
        if is_token(&name) {
            return Err(TokenError::Secret);
        }
        if self.token.contains_key(&name) {
            return Err(TokenError::Exists(name));
        }
        if self.token.len() == MAX_TOKENS {
            return Err(TokenError::TooMany);
        }
        let secret = Secret::random(TOKEN_PREFIX);
        self.token.insert(name, Token { scopes, expires, digest: secret.digest() });
        Ok(secret)
    }

    /// Removes a token.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn remove(&mut self, name: &PrincipalName) -> Result<(), TokenError> {
        self.token.remove(name).map(drop).ok_or_else(|| TokenError::unknown(name))
    }

    /// Returns a token by its name.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn named(&self, name: &PrincipalName) -> Result<&Token, TokenError> {
        self.token.get(name).ok_or_else(|| TokenError::unknown(name))
    }

    /// Returns the tokens, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&PrincipalName, &Token)> {
        self.token.iter()
    }

    /// Returns the principal that a token proves at a moment.
    #[must_use]
    pub fn principal(&self, now: WallTime, token: &str) -> Option<Principal> {
        if token.len() != TOKEN_BYTES {
            return None;
        }
        let digest = Digest::of(token);
        let (name, found) = self.token.iter().find(|(_, known)| known.digest == digest)?;
        found.is_valid(now).then(|| Principal::token(name.clone(), found.scopes))
    }

    /// Checks what reading does not: the number.
    pub(crate) fn check(&self) -> Result<(), TokenError> {
        if self.token.len() > MAX_TOKENS { Err(TokenError::TooMany) } else { Ok(()) }
    }
}

impl TokenError {
    fn unknown(name: &PrincipalName) -> Self {
        if is_token(name) { Self::Secret } else { Self::Unknown(name.clone()) }
    }
}

/// Returns whether what was given as a name has the form of a token.
fn is_token(name: &PrincipalName) -> bool {
    name.as_str().len() == TOKEN_BYTES && name.as_str().starts_with(TOKEN_PREFIX)
}

impl Token {
    /// Returns whether the token has not expired.
    #[must_use]
    pub fn is_valid(&self, now: WallTime) -> bool {
        self.expires.is_none_or(|expires| i128::from(now.as_nanos()) < expires.0.as_nanosecond())
    }
}

impl Expiry {
    /// Returns the moment a number of days after another, in whole seconds.
    #[must_use]
    pub fn in_days(now: WallTime, days: u16) -> Self {
        let seconds = now.as_nanos() / 1_000_000_000 + i64::from(days) * 86_400;
        Self(Timestamp::from_second(seconds).expect("64-bit nanoseconds end centuries before this calendar"))
    }
}

impl FromStr for Expiry {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        text.parse().map(Self).map_err(|_| TokenError::Expiry(text.escape_debug().to_string()))
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0.to_string())
    }
}

serde_as_text!(Expiry);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> PrincipalName {
        text.parse().unwrap()
    }

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_token_proves_its_bearer_until_it_expires_or_is_removed() {
        let mut tokens = Tokens::default();
        let expiry = Expiry::in_days(WallTime::from_nanos(5), 1);
        let scopes = "read".parse().unwrap();
        let secret = tokens.issue(name("scraper"), scopes, Some(expiry)).unwrap();
        let at = |tokens: &Tokens, nanos| tokens.principal(WallTime::from_nanos(nanos), secret.reveal());
        assert_eq!(at(&tokens, 86_400 * SECOND - 1), Some(Principal::token(name("scraper"), scopes)));
        assert_eq!(at(&tokens, 86_400 * SECOND), None);
        tokens.remove(&name("scraper")).unwrap();
        assert_eq!(at(&tokens, 0), None);
    }

    #[test]
    fn no_other_text_proves_anything() {
        let mut tokens = Tokens::default();
        let secret = tokens.issue(name("scraper"), MaySet::ALL, None).unwrap();
        let digest = secret.digest().to_string();
        let longer = format!("{}0", secret.reveal());
        let other = Secret::random(TOKEN_PREFIX);
        for text in ["", "tct_", &secret.reveal()[4..], &digest, &longer, other.reveal()] {
            assert_eq!(tokens.principal(WallTime::from_nanos(0), text), None);
        }
    }

    #[test]
    fn the_file_holds_the_digest_and_not_the_token() {
        let mut tokens = Tokens::default();
        let secret = tokens
            .issue(name("scraper"), MaySet::ALL, Some("2027-01-31T00:00:00Z".parse().unwrap()))
            .unwrap();
        let text = toml::to_string(&tokens).unwrap();
        assert!(
            !text.contains(&secret.reveal()[4..]) && text.contains("expires = \"2027-01-31T00:00:00Z\""),
            "{text}"
        );
        assert_eq!(toml::from_str::<Tokens>(&text).unwrap(), tokens);
    }

    #[test]
    fn a_token_in_the_place_of_its_name_is_not_repeated() {
        let mut tokens = Tokens::default();
        let secret = tokens.issue(name("a"), MaySet::ALL, None).unwrap();
        let given = name(secret.reveal());
        for error in [
            tokens.issue(given.clone(), MaySet::ALL, None).unwrap_err(),
            tokens.remove(&given).unwrap_err(),
            tokens.named(&given).unwrap_err(),
        ] {
            assert_eq!(error, TokenError::Secret);
            assert!(!error.to_string().contains(&secret.reveal()[4..]), "{error}");
        }
        assert!(matches!(tokens.remove(&name("tct_b")), Err(TokenError::Unknown(_))), "only a name");
    }

    #[test]
    fn a_name_is_given_once_and_a_wrong_time_refused() {
        let mut tokens = Tokens::default();
        tokens.issue(name("a"), MaySet::ALL, None).unwrap();
        assert!(matches!(tokens.issue(name("a"), MaySet::ALL, None), Err(TokenError::Exists(_))));
        assert!(matches!("tomorrow".parse::<Expiry>(), Err(TokenError::Expiry(_))));
    }
}
