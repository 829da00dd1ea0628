//! Secrets in memory, and the public names that datagrams call them by.

use core::fmt;
use core::str::FromStr;

use zeroize::Zeroizing;

/// Size of a secret. Units: bytes.
pub const SECRET_BYTES: usize = 32;

/// 256 random bits that are overwritten when they are dropped and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<[u8; SECRET_BYTES]>);

/// Public name of a group secret in datagrams: chosen at random when the secret is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// Authenticated encryption of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Suite {
    /// AES-256-GCM (NIST SP 800-38D): the faster where the processor has instructions for AES.
    #[default]
    Aes256Gcm = 1,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305 = 2,
}

impl Secret {
    /// Takes random bytes as a secret.
    #[must_use]
    pub const fn new(bytes: Zeroizing<[u8; SECRET_BYTES]>) -> Self {
        Self(bytes)
    }

    /// Returns the secret itself: to derive keys or to write its file, never for a log.
    #[must_use]
    pub fn reveal(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}", self.0)
    }
}

/// Error for a text that is no token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a key token has 8 hexadecimal digits\nlist them: tallycast keys show")]
pub struct InvalidToken;

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let is_hex = text.len() == 8 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).ok().filter(|_| is_hex);
        number.map(Self).ok_or(InvalidToken)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Token({self})")
    }
}

impl Suite {
    /// Both suites.
    pub const ALL: [Self; 2] = [Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Returns the suite with this code on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.code() == code)
    }

    /// Returns the suite's code on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the suite's name in key files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// Returns the suite with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.name() == name)
    }

    pub(crate) fn algorithm(self) -> &'static ring::aead::Algorithm {
        match self {
            Self::Aes256Gcm => &ring::aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &ring::aead::CHACHA20_POLY1305,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new(Zeroizing::new([0x5a; SECRET_BYTES]));
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }

    #[test]
    fn a_token_reads_what_it_writes() {
        for token in [Token(0), Token(0x1a2b_3c4d), Token(u32::MAX)] {
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        for text in ["", "1a2b3c4", "1a2b3c4d5", "+1a2b3c4", "1a2b3c4g"] {
            assert_eq!(text.parse::<Token>(), Err(InvalidToken), "{text}");
        }
    }

    #[test]
    fn suites_have_codes_and_names_of_their_own() {
        for suite in Suite::ALL {
            assert_eq!(Suite::from_code(suite.code()), Some(suite));
            assert_eq!(Suite::from_name(suite.name()), Some(suite));
        }
        assert_eq!((Suite::from_code(0), Suite::from_code(3)), (None, None));
    }
}
