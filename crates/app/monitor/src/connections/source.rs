//! What counts as one source: an address of IPv4, a network of IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where connections come from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Source(IpAddr);

/// A host of IPv6 chooses any address of its network. Source: RFC 4291 §2.5.1, interface identifiers of 64 bits.
const NETWORK_BITS: u32 = 64;

impl Source {
    /// Returns the source of an address; one of IPv4 is the same in both its spellings.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(IpAddr::V4(address)),
            IpAddr::V6(Ipv6Addr::LOCALHOST) => Self(IpAddr::V6(Ipv6Addr::LOCALHOST)),
            IpAddr::V6(address) => {
                Self(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << NETWORK_BITS))))
            }
        }
    }
}

impl Default for Source {
    fn default() -> Self {
        Self(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V6(network) if network != Ipv6Addr::LOCALHOST => write!(f, "{network}/{NETWORK_BITS}"),
            address => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_source_whatever_its_addresses_are() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::1").to_string(), "::1");
        assert_eq!(of("2001:db8::1").to_string(), "2001:db8::/64");
    }
}
