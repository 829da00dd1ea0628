//! One number for a whole run: equal for two runs of one seed, unless something was not deterministic.

use core::fmt;

/// A hash over everything that a network did: each datagram sent with its bytes, and each change of outcome.
///
/// Not for security, only to compare runs; its value may change with any version of the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceHash(u64);

/// 2⁶⁴ divided by the golden ratio: odd, so that each step is a bijection of the state.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl TraceHash {
    /// The hash of a run in which nothing has happened yet.
    pub(crate) const EMPTY: Self = Self(MULTIPLIER);

    /// Mixes in one 64-bit word.
    pub(crate) const fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(MULTIPLIER);
        self.0 = mixed ^ (mixed >> 32);
    }

    /// Mixes in bytes, eight at a time, and their number.
    pub(crate) fn mix_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last));
        self.mix(bytes.len() as u64);
    }
}

impl fmt::Display for TraceHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl fmt::Debug for TraceHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TraceHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_more_or_a_bit_less_is_another_trace() {
        let hash = |bytes: &[u8]| {
            let mut trace = TraceHash::EMPTY;
            trace.mix_bytes(bytes);
            trace
        };
        assert_eq!(hash(&[1, 2, 3]), hash(&[1, 2, 3]));
        assert_ne!(hash(&[0; 8]), hash(&[0; 9]));
        assert_ne!(hash(&[0; 16]), hash(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]));
    }
}
