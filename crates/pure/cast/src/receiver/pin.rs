//! Addresses that are believed for an epoch: its first, those that it lists, and those that it moved to.
//!
//! Any host of a segment can send to a group. Datagrams in a stream's name from elsewhere come from an imposter, from
//! the publisher itself after its address has changed, or from a standby; see [`super::challengers`]. Forged source
//! addresses are not detected; that takes keys.
//!
//! Source: `docs/protocol/stream.md`, "Believed sources".

use core::net::IpAddr;

/// The addresses that are believed for an epoch.
#[derive(Clone, Debug)]
pub(super) struct Pin {
    /// Address of its first datagram.
    first: IpAddr,
    /// Address that took over when the first had fallen silent.
    moved_to: Option<IpAddr>,
    /// Addresses listed by its descriptors.
    listed: Vec<IpAddr>,
}

impl Pin {
    pub(super) const fn new(first: IpAddr) -> Self {
        Self { first, moved_to: None, listed: Vec::new() }
    }

    /// Adds the addresses that a descriptor of the epoch lists.
    pub(super) fn lists(&mut self, addresses: impl Iterator<Item = IpAddr>) {
        self.listed = addresses.take(wire::MAX_ADDRESSES).collect();
    }

    /// Believes another address, too: the first one may return.
    pub(super) const fn moves_to(&mut self, address: IpAddr) {
        self.moved_to = Some(address);
    }

    /// Returns whether a datagram comes from an address of the epoch.
    pub(super) fn is_at(&self, from: IpAddr) -> bool {
        from == self.first || self.moved_to == Some(from) || self.listed.contains(&from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn an_epoch_is_believed_from_its_first_its_new_and_its_listed_addresses() {
        let mut pin = Pin::new(ip(1));
        assert!(pin.is_at(ip(1)) && !pin.is_at(ip(2)));
        pin.moves_to(ip(2));
        assert!(pin.is_at(ip(1)) && pin.is_at(ip(2)), "the first was the publisher's all along");
        pin.lists([ip(7), ip(8)].into_iter());
        assert!(pin.is_at(ip(8)));
        pin.lists((10..100).map(ip));
        assert_eq!(pin.listed.len(), wire::MAX_ADDRESSES);
        assert!(!pin.is_at(ip(8)), "the newest list counts");
    }
}
