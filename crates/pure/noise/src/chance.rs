//! Random bytes from a seed, by a ratchet: an earlier draw cannot be computed from the state that remains.

use core::fmt;

use keys::Secret;
use ring::hmac;
use zeroize::Zeroizing;

/// Source of the random bytes of one port: ephemeral keys, numbers of sessions, keys of cookies.
pub(crate) struct Chance {
    state: Zeroizing<[u8; 32]>,
}

impl Chance {
    pub(crate) fn new(seed: &Secret) -> Self {
        Self { state: Zeroizing::new(*seed.reveal()) }
    }

    /// Draws 32 bytes, and replaces the state by one from which they cannot be computed.
    ///
    /// Source: "fast key erasure" (Bernstein 2017), with HMAC-SHA256 as the pseudorandom function.
    pub(crate) fn draw(&mut self) -> Zeroizing<[u8; 32]> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.state[..]);
        let drawn = of(&key, b"drawn");
        self.state = of(&key, b"state");
        drawn
    }

    /// Draws a number.
    pub(crate) fn number(&mut self) -> u32 {
        let drawn = self.draw();
        u32::from_le_bytes([drawn[0], drawn[1], drawn[2], drawn[3]])
    }
}

fn of(key: &hmac::Key, subject: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut bytes = Zeroizing::new([0; 32]);
    bytes.copy_from_slice(hmac::sign(key, subject).as_ref());
    bytes
}

impl fmt::Debug for Chance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Chance(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ_and_follow_from_the_seed() {
        let seed = |first| Secret::new(Zeroizing::new([first; 32]));
        let draws = |first| {
            let mut chance = Chance::new(&seed(first));
            (0..100).map(|_| *chance.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        let distinct: std::collections::BTreeSet<_> = draws(1).into_iter().chain(draws(2)).collect();
        assert_eq!(distinct.len(), 200);
    }
}
