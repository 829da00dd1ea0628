//! Network interfaces, by name, index or address.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::SockaddrStorage;

use crate::raw;

/// A network interface in its state at the time of the look-up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its number in the kernel.
    pub index: u32,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// True if it leads back to this host only.
    pub loopback: bool,
    /// True if it is up.
    pub up: bool,
    /// Its MTU: the largest IP packet it carries, in bytes.
    pub mtu: u32,
}

/// Reason why an interface cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// No interface has that name, index or address.
    #[error("no network interface `{asked}`\nthis host has {existing}")]
    NotFound {
        /// The name, index or address asked for.
        asked: String,
        /// Existing interfaces, with their addresses.
        existing: String,
    },
    /// The kernel did not list them.
    #[error("the network interfaces cannot be listed")]
    List(#[from] io::Error),
}

impl Interface {
    /// Returns all interfaces, by index.
    ///
    /// # Errors
    /// If the kernel does not list them.
    pub fn all() -> io::Result<Vec<Self>> {
        let mut found = BTreeMap::new();
        for entry in getifaddrs()? {
            // The interface has vanished since it was listed.
            let Some(bare) = Self::bare(&entry) else { continue };
            let interface = found.entry(bare.index).or_insert(bare);
            interface.addresses.extend(entry.address.as_ref().and_then(ip_address));
        }
        Ok(found.into_values().collect())
    }

    /// Returns the interface whose name, index or one of whose addresses is `asked`.
    ///
    /// # Errors
    /// [`InterfaceError::NotFound`] lists those that exist.
    pub fn find(asked: &str) -> Result<Self, InterfaceError> {
        let all = Self::all()?;
        let index = asked.parse::<u32>().ok();
        let address = asked.parse::<IpAddr>().ok();
        let matches = |interface: &&Self| {
            interface.name == asked
                || index == Some(interface.index)
                || address.is_some_and(|address| interface.addresses.contains(&address))
        };
        all.iter().find(matches).cloned().ok_or_else(|| InterfaceError::NotFound {
            asked: asked.to_owned(),
            existing: all.iter().map(Self::described).collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns the first IPv4 address.
    #[must_use]
    pub fn v4(&self) -> Option<Ipv4Addr> {
        self.addresses.iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        })
    }

    /// Returns the first IPv6 address.
    #[must_use]
    pub fn v6(&self) -> Option<Ipv6Addr> {
        self.addresses.iter().find_map(|address| match address {
            IpAddr::V6(address) => Some(*address),
            IpAddr::V4(_) => None,
        })
    }

    fn bare(entry: &InterfaceAddress) -> Option<Self> {
        Some(Self {
            index: if_nametoindex(entry.interface_name.as_str()).ok()?,
            mtu: raw::interface_mtu(&entry.interface_name).ok()?,
            name: entry.interface_name.clone(),
            addresses: Vec::new(),
            loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
            up: entry.flags.contains(InterfaceFlags::IFF_UP),
        })
    }

    fn described(&self) -> String {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        let state = if self.up { "" } else { ", down" };
        format!("{} ({}{state})", self.name, addresses.join(" "))
    }
}

impl FromStr for Interface {
    type Err = InterfaceError;

    /// Looks the interface up, see [`Interface::find`].
    fn from_str(asked: &str) -> Result<Self, InterfaceError> {
        Self::find(asked)
    }
}

/// Returns whether a group is a different one at each interface: that of a link, or of an interface
/// (RFC 4291 §2.7).
pub(crate) const fn needs_link(group: IpAddr) -> bool {
    match group {
        IpAddr::V6(group) => group.is_multicast() && matches!(group.segments()[0] & 0xf, 1 | 2),
        IpAddr::V4(_) => false,
    }
}

fn ip_address(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_index_and_address_lead_to_the_same_interface() {
        let lo = Interface::find("lo").unwrap();
        assert!(lo.loopback && lo.up);
        assert_eq!(lo.v4(), Some(Ipv4Addr::LOCALHOST));
        assert!(lo.mtu >= 1_500);
        assert_eq!(Interface::find(&lo.index.to_string()).unwrap(), lo);
        assert_eq!(Interface::find("127.0.0.1").unwrap(), lo);
    }

    #[test]
    fn an_unknown_interface_is_answered_with_those_that_exist() {
        let said = "nosuch0".parse::<Interface>().unwrap_err().to_string();
        assert!(said.contains("`nosuch0`") && said.contains("lo (127.0.0.1"), "{said}");
    }
}
