//! Secrets in memory: overwritten when they are dropped, never shown; and the digests that are kept of them.

use std::fmt;
use std::str::FromStr;

use units::serde_as_text;
use zeroize::Zeroizing;

/// A password, token or session secret. It has no `Display`, and `Debug` does not show it.
#[derive(PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

/// The BLAKE3 digest of a random secret: enough to recognise it, useless to whoever reads the file.
///
/// Two digests are compared in constant time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(blake3::Hash);

/// Error for a text that is no digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a digest has 64 hexadecimal digits\nmake another access token: tallycast access token new NAME")]
pub struct InvalidDigest;

impl Secret {
    /// Takes a text as a secret.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Draws 256 random bits from the system, and writes them in hexadecimal digits behind `prefix`.
    ///
    /// # Panics
    /// If the system has no random bits.
    #[must_use]
    pub fn random(prefix: &str) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut bits = Zeroizing::new([0; 32]);
        getrandom::fill(bits.as_mut_slice()).expect("the system draws random bits for every process");
        // Of its final size at once: a buffer that grows leaves copies behind.
        let mut text = Zeroizing::new(String::with_capacity(prefix.len() + 2 * bits.len()));
        text.push_str(prefix);
        for byte in bits.iter() {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        Self(text)
    }

    /// Returns the secret itself: to send it to its owner, never to a log.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the digest to be kept of a random secret.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl Digest {
    /// Returns the digest of a secret as it is presented.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(blake3::hash(secret.as_bytes()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Digest(…)")
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        blake3::Hash::from_hex(text).map(Self).map_err(|_| InvalidDigest)
    }
}

serde_as_text!(Digest);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::random("tct_");
        let shown = format!("{secret:?} {:?}", secret.digest());
        assert_eq!(shown, "Secret(…) Digest(…)");
    }

    #[test]
    fn random_secrets_have_256_bits_and_differ() {
        let [one, other] = [Secret::random("tct_"), Secret::random("tct_")];
        assert!(one != other && one.digest() != other.digest());
        assert_eq!(one.reveal().len(), "tct_".len() + 64);
        assert!(one.reveal()[4..].bytes().all(|digit| digit.is_ascii_hexdigit()));
    }

    #[test]
    fn a_digest_reads_what_it_writes() {
        let digest = Digest::of("secret");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!("00".parse::<Digest>(), Err(InvalidDigest));
    }
}
