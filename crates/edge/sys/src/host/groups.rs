//! Groups that this host has joined, by interface, with the version of IGMP (`/proc/net/igmp`,
//! `igmp6`).
//!
//! The version is the only trace of a querier that a host keeps: it uses version 3 unless it has
//! received an older query lately, or `force_igmp_version` sets another. A querier of version 3
//! leaves no trace.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fs, io};

/// Memberships on an interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Memberships {
    /// Version of IGMP used there; `None` without IPv4.
    pub igmp_version: Option<u8>,
    /// Joined groups, of both versions of IP.
    pub groups: Vec<IpAddr>,
}

/// Returns the memberships of this network namespace, by the interfaces' numbers.
///
/// # Errors
/// If `/proc` cannot be read. A host without IPv6 has no IPv6 groups.
pub fn memberships() -> io::Result<BTreeMap<u32, Memberships>> {
    let mut found = BTreeMap::new();
    parse_igmp(&fs::read_to_string("/proc/self/net/igmp")?, &mut found);
    parse_igmp6(&fs::read_to_string("/proc/self/net/igmp6").unwrap_or_default(), &mut found);
    Ok(found)
}

/// Parses for each interface a line with its number, name, count and version, then one for each
/// group that begins with a tab (the kernel's `igmp_mc_seq_show`): the address in memory order, in
/// hexadecimal.
pub(crate) fn parse_igmp(text: &str, found: &mut BTreeMap<u32, Memberships>) {
    let mut index = None;
    for line in text.lines().skip(1) {
        if line.starts_with('\t') {
            let group = line.split_whitespace().next().and_then(|word| u32::from_str_radix(word, 16).ok());
            let of_interface = index.and_then(|index| found.get_mut(&index));
            if let Some((group, memberships)) = group.zip(of_interface) {
                memberships.groups.push(IpAddr::V4(Ipv4Addr::from(group.to_ne_bytes())));
            }
            continue;
        }
        index = line.split_whitespace().next().and_then(|word| word.parse().ok());
        let version = line.rsplit_once('V').and_then(|(_, word)| word.trim().parse().ok());
        if let Some(index) = index {
            found.entry(index).or_default().igmp_version = version;
        }
    }
}

/// Parses a line for each group (the kernel's `igmp6_mc_seq_show`): the interface's number and
/// name, the address in hexadecimal.
pub(crate) fn parse_igmp6(text: &str, found: &mut BTreeMap<u32, Memberships>) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let index = words.next().and_then(|word| word.parse::<u32>().ok());
        let group = words.nth(1).and_then(|word| u128::from_str_radix(word, 16).ok());
        if let Some((index, group)) = index.zip(group) {
            found.entry(index).or_default().groups.push(IpAddr::V6(Ipv6Addr::from(group)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// As Linux 6.18 writes it.
    const IGMP: &str = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
        1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
        4\teth0:1    :     2      V2\n\t\t\t\t010054EF     1 0:00000000\t\t1\n\t\t\t\t010000E0     1 0:00000000\t\t0\n";
    const IGMP6: &str = "4    eth0            ff020000000000000000000000000001     1 0000000C 0\n";

    fn parsed(igmp: &str, igmp6: &str) -> BTreeMap<u32, Memberships> {
        let mut found = BTreeMap::new();
        parse_igmp(igmp, &mut found);
        parse_igmp6(igmp6, &mut found);
        found
    }

    #[test]
    fn groups_are_told_by_interface_with_the_version() {
        let found = parsed(IGMP, IGMP6);
        let of = |index: u32| &found[&index];
        assert_eq!((of(1).igmp_version, of(4).igmp_version), (Some(3), Some(2)));
        if cfg!(target_endian = "little") {
            let expected =
                ["239.84.0.1", "224.0.0.1", "ff02::1"].map(|group| group.parse::<IpAddr>().unwrap());
            assert_eq!(of(4).groups, expected);
        }
        assert_eq!(parsed("", "").len(), 0);
        assert_eq!(
            parsed("Idx\n\t\t\t\t010000E0 1\nx eth0 : 1 V3\n\t\t\t\t010000E0\n", "x\n7 eth0 zz\n").len(),
            0
        );
        assert_eq!(parsed("Idx\n7\teth0 : 1 Vx\n\t\t\t\tzz\n", "")[&7], Memberships::default());
    }

    #[test]
    fn what_a_socket_joins_is_listed() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let group = Ipv4Addr::new(239, 84, 77, 1);
        socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
        let found = memberships().unwrap();
        assert!(found[&1].groups.contains(&group.into()) && found[&1].igmp_version.is_some(), "{found:?}");
    }
}
