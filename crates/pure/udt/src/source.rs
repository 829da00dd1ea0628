//! Source networks: addresses that share a limit of scarce slots.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the 64-bit network prefix of an IPv6 address.
///
/// A host has one IPv4 address and 2⁶⁴ IPv6 addresses to choose from (RFC 4291 §2.5.4); the host itself is one source
/// in either family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Source(IpAddr);

impl Source {
    /// Returns the source of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            address @ IpAddr::V6(Ipv6Addr::LOCALHOST) => Self(address),
            IpAddr::V6(address) => {
                let [first, second, third, fourth, ..] = address.segments();
                Self(Ipv6Addr::new(first, second, third, fourth, 0, 0, 0, 0).into())
            }
            address @ IpAddr::V4(_) => Self(address),
        }
    }
}

impl Source {
    /// Returns its address; that of a network ends in zeros.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.0
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V6(network) if network != Ipv6Addr::LOCALHOST => write!(f, "{network}/64"),
            address => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str) -> Source {
        Source::of(address.parse().unwrap())
    }

    #[test]
    fn an_ipv4_address_is_one_neighbour_and_so_are_the_addresses_of_an_ipv6_network() {
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_eq!(source("10.0.0.1"), source("::ffff:10.0.0.1"));
        assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        assert_ne!(source("::1"), source("::2"), "the host itself");
        let said = ["10.0.0.1", "::ffff:10.0.0.1", "::1", "2001:db8:1:2::1"].map(|it| source(it).to_string());
        assert_eq!(said, ["10.0.0.1", "10.0.0.1", "::1", "2001:db8:1:2::/64"]);
    }
}
