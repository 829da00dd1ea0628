//! Names of users, groups, tokens and keys.

use core::fmt;
use core::str::FromStr;

use units::serde_as_text;

/// The longest name of a principal or group in bytes: an address of mail, as providers name users, fits usually.
pub const MAX_PRINCIPAL_NAME_BYTES: usize = 128;

/// Name of a user, group, token or key: one word that an access file can hold.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrincipalName(String);

/// Error for a name that an access file cannot hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "invalid name `{0}` of a user, group, token or key\n\
     write letters, digits, and any of _ - . @ + / within {MAX_PRINCIPAL_NAME_BYTES} bytes"
)]
pub struct InvalidPrincipalName(pub String);

impl PrincipalName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PrincipalName {
    type Err = InvalidPrincipalName;

    fn from_str(name: &str) -> Result<Self, InvalidPrincipalName> {
        let is_plain = |character: char| character.is_alphanumeric() || "_-.@+/".contains(character);
        let fits = (1..=MAX_PRINCIPAL_NAME_BYTES).contains(&name.len());
        if fits && name.chars().all(is_plain) {
            Ok(Self(name.to_owned()))
        } else {
            let shown = name.chars().take(MAX_PRINCIPAL_NAME_BYTES).collect::<String>();
            Err(InvalidPrincipalName(shown.escape_debug().to_string()))
        }
    }
}

impl fmt::Display for PrincipalName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl fmt::Debug for PrincipalName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

serde_as_text!(PrincipalName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_bounded_length() {
        for name in ["ada", "ada@example.org", "/plant/operators", "müller", "a+b", &"x".repeat(128)] {
            assert_eq!(name.parse::<PrincipalName>().unwrap().to_string(), name);
        }
        for name in ["", "a b", "a,b", "a#b", "a=b", "a:b", "*", "a\u{1b}[2J", "\u{202e}x", &"x".repeat(129)]
        {
            assert!(name.parse::<PrincipalName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_refused_name_cannot_command_the_terminal_that_shows_it() {
        let error = "a\u{1b}[2J\n".parse::<PrincipalName>().unwrap_err();
        assert_eq!(error.0, "a\\u{1b}[2J\\n");
    }
}
