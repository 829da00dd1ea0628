//! From which address a life is believed: the one that it began at, and those that it lists, while they are heard.
//!
//! Any host of a segment can send to a group. What comes in a life's name from elsewhere is an imposter's, or the publisher's
//! own after its address has changed; which of the two shows when the first address falls silent. So it is held meanwhile,
//! within bounds, and counted as `imposter`: it is neither late nor missing. Source addresses that are forged are not
//! defended against; that takes keys.
//!
//! Source: `docs/protocol/stream.md`, "Security".

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

/// A life that was not heard for so many of its tally intervals may have moved to another address.
const SILENT_TALLIES: u32 = 3;
/// But not sooner: a busy host may be stopped for so long.
const MIN_SILENCE: Duration = Duration::from_secs(1);
/// The most datagrams that are held of other addresses, and their bytes: about a second of a thousand small ones.
const MAX_HELD: usize = 1_024;
const MAX_HELD_BYTES: usize = 1 << 20;

/// The addresses from which a life is believed.
#[derive(Clone, Debug)]
pub(super) struct Pin {
    /// Where it began.
    first: IpAddr,
    /// Where it went when that had fallen silent.
    moved_to: Option<IpAddr>,
    /// What its descriptors list.
    listed: Vec<IpAddr>,
}

/// Who sent a datagram in a life's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sender {
    /// The publisher.
    Believed,
    /// The publisher, from an address that it had not used before: it has moved.
    Moved,
    /// Somebody else, as far as can be told.
    Imposter,
}

/// Datagrams from addresses that are not believed, the oldest first.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    datagrams: VecDeque<(SocketAddr, Vec<u8>)>,
    size_bytes: usize,
}

impl Pin {
    pub(super) const fn new(first: IpAddr) -> Self {
        Self { first, moved_to: None, listed: Vec::new() }
    }

    /// Takes over what a descriptor of the life lists.
    pub(super) fn lists(&mut self, addresses: impl Iterator<Item = IpAddr>) {
        self.listed = addresses.take(wire::MAX_ADDRESSES).collect();
    }

    /// Tells whether a datagram comes from where the life is.
    pub(super) fn is_at(&self, from: IpAddr) -> bool {
        from == self.first || self.moved_to == Some(from) || self.listed.contains(&from)
    }

    /// Judges who sent a datagram; the life was silent for so long, and tells a tally every `tally_interval`.
    pub(super) fn judge(&mut self, from: IpAddr, silence: Duration, tally_interval: Duration) -> Sender {
        if self.is_at(from) {
            return Sender::Believed;
        }
        if silence < (tally_interval * SILENT_TALLIES).max(MIN_SILENCE) {
            return Sender::Imposter;
        }
        self.moved_to = Some(from);
        Sender::Moved
    }
}

impl HeldBack {
    /// Holds a datagram; of too many the oldest give way.
    pub(super) fn hold(&mut self, from: SocketAddr, bytes: &[u8]) {
        self.datagrams.push_back((from, bytes.to_vec()));
        self.size_bytes += bytes.len();
        while self.datagrams.len() > MAX_HELD || self.size_bytes > MAX_HELD_BYTES {
            let oldest = self.datagrams.pop_front();
            self.size_bytes -= oldest.map_or(0, |(_, bytes)| bytes.len());
        }
    }

    /// Takes what came from an address, and forgets the rest.
    pub(super) fn take(&mut self, from: IpAddr) -> Vec<Vec<u8>> {
        let all = core::mem::take(self).datagrams.into_iter();
        all.filter(|(source, _)| source.ip() == from).map(|(_, bytes)| bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    const TALLY: Duration = Duration::from_millis(100);

    #[test]
    fn another_address_is_an_imposters_until_the_first_has_fallen_silent() {
        let mut pin = Pin::new(ip(1));
        assert_eq!(pin.judge(ip(1), Duration::ZERO, TALLY), Sender::Believed);
        assert_eq!(pin.judge(ip(2), MIN_SILENCE - Duration::from_nanos(1), TALLY), Sender::Imposter);
        assert_eq!(pin.judge(ip(2), MIN_SILENCE, TALLY), Sender::Moved);
        assert_eq!(pin.judge(ip(2), Duration::ZERO, TALLY), Sender::Believed);
        assert_eq!(
            pin.judge(ip(1), Duration::ZERO, TALLY),
            Sender::Believed,
            "it was the publisher's all along"
        );
        let second = Duration::from_secs(1);
        assert_eq!(
            pin.judge(ip(3), second * 3 - Duration::from_nanos(1), second),
            Sender::Imposter,
            "it idles"
        );
    }

    #[test]
    fn addresses_that_the_publisher_lists_are_its_own() {
        let mut pin = Pin::new(ip(1));
        pin.lists([ip(7), ip(8)].into_iter());
        assert_eq!(pin.judge(ip(8), Duration::ZERO, TALLY), Sender::Believed);
        pin.lists((10..100).map(ip));
        assert_eq!(pin.listed.len(), wire::MAX_ADDRESSES);
    }

    #[test]
    fn what_is_held_is_bounded_and_only_what_is_asked_for_comes_back() {
        let mut held = HeldBack::default();
        let from = |last| SocketAddr::new(ip(last), 7400);
        for number in 0..3_000_u32 {
            held.hold(from(1 + (number % 2) as u8), &number.to_le_bytes());
        }
        assert_eq!((held.datagrams.len(), held.size_bytes), (MAX_HELD, 4 * MAX_HELD));
        held.hold(from(1), &[0; MAX_HELD_BYTES]);
        assert_eq!(held.datagrams.len(), 1, "the size counts as well");
        held.hold(from(2), &[7]);
        assert_eq!(held.take(ip(2)), [[7]]);
        assert_eq!((held.datagrams.len(), held.size_bytes), (0, 0));
    }
}
