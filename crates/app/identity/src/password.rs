//! Passwords as Argon2id hashes, and their verification one at a time.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use argon2::password_hash::phc;
use argon2::{ARGON2ID_IDENT, Argon2, Params, PasswordHasher, PasswordVerifier};
use units::serde_as_text;

use crate::Secret;

/// The fewest characters of a password. Source: NIST SP 800-63B-4 §3.1.1.2, for a password as the only proof.
pub const MIN_PASSWORD_CHARS: usize = 15;
/// The longest password in bytes, so that nobody makes a service hash megabytes.
pub const MAX_PASSWORD_BYTES: usize = 1_024;
/// The largest memory that a stored hash may ask for, in KiB.
const MAX_MEMORY_KIB: u32 = 1 << 20;
/// The most passes that a stored hash may ask for.
const MAX_PASSES: u32 = 16;
/// The most passwords under verification, of which one has its turn: it takes a tenth of a second.
pub const MAX_WAITING: usize = 8;

/// Work that a guess costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// 64 MiB, 3 passes, 4 lanes. Source: RFC 9106 §4, second recommended option; above OWASP's least (19 MiB, 2, 1).
    Usual,
    /// As little as possible: for tests only.
    Least,
}

/// An Argon2id hash of a password, with salt and parameters, as a PHC string. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(String);

/// Reason why a password or its hash is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PasswordError {
    /// Too short.
    #[error(
        "the password has fewer than {MIN_PASSWORD_CHARS} characters\nseveral words are easy to keep in mind"
    )]
    Short,
    /// Too long.
    #[error("the password has more than {MAX_PASSWORD_BYTES} bytes\nchoose a shorter one")]
    Long,
    /// A stored hash of another kind, or with parameters out of bounds.
    #[error(
        "the stored hash is not of Argon2id within 1 GiB and {MAX_PASSES} passes\nset a new password: tallycast access user password NAME"
    )]
    Hash,
}

/// More passwords are being verified than this host has time for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("too many passwords are being verified\ntry again in a second")]
pub struct Busy;

/// Verification of passwords: one at a time, so that its memory is bounded.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    turn: Mutex<()>,
    waiting: AtomicUsize,
}

impl PasswordHash {
    /// Hashes a new password with a random salt.
    ///
    /// Cost: by `cost`; usually a tenth of a second and 64 MiB.
    ///
    /// # Errors
    /// If the password is too short or too long.
    ///
    /// # Panics
    /// If the system has no random bits.
    pub fn new(password: &Secret, cost: Cost) -> Result<Self, PasswordError> {
        let text = password.reveal();
        if text.chars().count() < MIN_PASSWORD_CHARS {
            return Err(PasswordError::Short);
        }
        if text.len() > MAX_PASSWORD_BYTES {
            return Err(PasswordError::Long);
        }
        Ok(Self::of(text, cost))
    }

    fn of(password: &str, cost: Cost) -> Self {
        let hash: phc::PasswordHash = Argon2::from(cost.params())
            .hash_password(password.as_bytes())
            .expect("parameters and lengths are within Argon2's");
        Self(hash.to_string())
    }

    /// Returns whether a password is the one that was hashed; compares in constant time.
    fn is_of(&self, password: &Secret) -> bool {
        let text = password.reveal();
        let hash = phc::PasswordHash::new(&self.0).expect("checked when it was read");
        text.len() <= MAX_PASSWORD_BYTES && Argon2::default().verify_password(text.as_bytes(), &hash).is_ok()
    }

    /// Returns the PHC string.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Cost {
    fn params(self) -> Params {
        let (memory_kib, passes, lanes) = match self {
            Self::Usual => (64 * 1024, 3, 4),
            Self::Least => (Params::MIN_M_COST, 1, 1),
        };
        Params::new(memory_kib, passes, lanes, None).expect("constants within Argon2's limits")
    }
}

impl Verifier {
    /// Returns whether a password is that of `hash`, after the same work if there is no hash: the time tells
    /// nobody which users exist.
    ///
    /// # Errors
    /// [`Busy`], at once, if too many wait already.
    pub(crate) fn verify(&self, password: &Secret, hash: Option<&PasswordHash>) -> Result<bool, Busy> {
        /// A hash of a password that nobody has.
        static OF_NOBODY: LazyLock<PasswordHash> =
            LazyLock::new(|| PasswordHash::of(Secret::random("").reveal(), Cost::Usual));
        // A bound, not a lock: no ordering is needed.
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Busy);
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = hash.unwrap_or(&OF_NOBODY).is_of(password);
        drop(turn);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(is_same && hash.is_some())
    }
}

impl FromStr for PasswordHash {
    type Err = PasswordError;

    fn from_str(text: &str) -> Result<Self, PasswordError> {
        let hash = phc::PasswordHash::new(text).map_err(|_| PasswordError::Hash)?;
        let params = Params::try_from(&hash).map_err(|_| PasswordError::Hash)?;
        let is_whole = hash.salt.is_some() && hash.hash.is_some();
        let is_bounded = params.m_cost() <= MAX_MEMORY_KIB && params.t_cost() <= MAX_PASSES;
        if hash.algorithm == ARGON2ID_IDENT && is_whole && is_bounded {
            Ok(Self(text.to_owned()))
        } else {
            Err(PasswordError::Hash)
        }
    }
}

impl fmt::Display for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PasswordHash(…)")
    }
}

serde_as_text!(PasswordHash);

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn hash(text: &str) -> PasswordHash {
        PasswordHash::new(&secret(text), Cost::Least).unwrap()
    }

    #[test]
    fn a_password_is_recognised_and_another_is_not() {
        let (hash, verifier) = (hash("correct horse battery"), Verifier::default());
        assert_eq!(verifier.verify(&secret("correct horse battery"), Some(&hash)), Ok(true));
        assert_eq!(verifier.verify(&secret("correct horse batterz"), Some(&hash)), Ok(false));
        assert_eq!(verifier.verify(&secret(""), Some(&hash)), Ok(false));
    }

    #[test]
    fn an_unknown_user_costs_the_same_work_and_never_passes() {
        assert_eq!(Verifier::default().verify(&secret("correct horse battery"), None), Ok(false));
    }

    #[test]
    fn equal_passwords_have_different_hashes_and_none_is_shown() {
        let [one, other] = ["correct horse battery"; 2].map(hash);
        assert_ne!(one, other);
        assert_eq!(format!("{one:?}"), "PasswordHash(…)");
        assert_eq!(one.to_string().parse(), Ok(one));
    }

    #[test]
    fn the_parameters_are_those_of_the_rfc() {
        let params = Cost::Usual.params();
        assert_eq!((params.m_cost(), params.t_cost(), params.p_cost()), (65_536, 3, 4));
    }

    #[test]
    fn the_last_length_is_taken_and_the_next_refused() {
        let new = |text: &str| PasswordHash::new(&secret(text), Cost::Least).map(drop);
        assert_eq!((new(&"ü".repeat(15)), new(&"ü".repeat(14))), (Ok(()), Err(PasswordError::Short)));
        assert_eq!((new(&"x".repeat(1_024)), new(&"x".repeat(1_025))), (Ok(()), Err(PasswordError::Long)));
    }

    #[test]
    fn a_hash_of_another_kind_or_out_of_bounds_is_refused() {
        let good = hash("correct horse battery").0;
        for bad in [
            String::new(),
            "correct horse battery".to_owned(),
            good.replace("argon2id", "argon2i"),
            good.replace("m=8,", "m=1048577,"),
            good.replace("t=1,", "t=17,"),
            good.rsplit_once('$').unwrap().0.to_owned(),
        ] {
            assert_eq!(bad.parse::<PasswordHash>(), Err(PasswordError::Hash), "{bad}");
        }
    }

    #[test]
    fn those_who_would_wait_too_long_are_told_at_once() {
        let verifier = Verifier::default();
        verifier.waiting.store(MAX_WAITING, Ordering::Relaxed);
        assert_eq!(verifier.verify(&secret("x"), None), Err(Busy));
        assert_eq!(verifier.waiting.load(Ordering::Relaxed), MAX_WAITING);
    }
}
