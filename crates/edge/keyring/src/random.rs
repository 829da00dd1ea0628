//! Secrets, their public names and salts from the system's random bits.

use keys::{SECRET_BYTES, Salt, Secret, Token};
use zeroize::Zeroizing;

/// Draws a secret.
///
/// # Panics
/// If the system has no random bits.
#[must_use]
pub fn random_secret() -> Secret {
    let mut bits = Zeroizing::new([0; SECRET_BYTES]);
    getrandom::fill(bits.as_mut_slice()).expect("the system draws random bits for every process");
    Secret::new(bits)
}

/// Draws a salt for one sender.
///
/// # Panics
/// If the system has no random bits.
#[must_use]
pub fn random_salt() -> Salt {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).expect("the system draws random bits for every process");
    Salt(bits)
}

/// Draws the public name of a secret.
///
/// # Panics
/// If the system has no random bits.
#[must_use]
pub fn random_token() -> Token {
    Token(getrandom::u32().expect("the system draws random bits for every process"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_salts_and_tokens_differ() {
        assert!(random_secret() != random_secret());
        assert_ne!(random_salt(), random_salt());
        // Of four tokens two are equal once in 700 million times.
        let tokens: std::collections::BTreeSet<_> = (0..4).map(|_| random_token()).collect();
        assert_eq!(tokens.len(), 4);
    }
}
