//! Times of a peer's handshakes: each is accepted once.
//!
//! WireGuard remembers the newest alone. Here one key has many handshakes at a time, a port for each connection, and
//! they may overtake each other: the newest few hundred are remembered, and older ones are refused.

use std::collections::BTreeSet;

/// Number of handshakes of one key that may overtake each other.
const MAX_RECENT: usize = 256;

/// Times of one peer's handshakes that were accepted. Units: nanoseconds since 1970, by the peer's clock.
#[derive(Debug, Default)]
pub(crate) struct Timestamps {
    /// Times up to this one are refused.
    floor: u64,
    recent: BTreeSet<u64>,
}

impl Timestamps {
    /// Returns whether no handshake of this time was accepted, and accepts it.
    pub(crate) fn accept(&mut self, time: u64) -> bool {
        if time <= self.floor || !self.recent.insert(time) {
            return false;
        }
        while self.recent.len() > MAX_RECENT {
            self.floor = self.recent.pop_first().unwrap_or(self.floor);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_accepted_once_and_forgotten_ones_never_again() {
        let mut times = Timestamps::default();
        assert!(times.accept(1_000) && times.accept(500) && !times.accept(1_000) && !times.accept(0));
        (2_000..3_000).for_each(|time| assert!(times.accept(time)));
        assert_eq!(times.recent.len(), MAX_RECENT);
        assert!(!times.accept(500) && !times.accept(600) && !times.accept(2_000) && !times.accept(2_999));
        assert!(times.accept(3_000));
    }
}
