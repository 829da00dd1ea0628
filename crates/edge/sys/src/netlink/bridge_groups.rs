//! Groups that bridges of this host know to be joined, and the bridges behind which they are
//! (`bridge mdb`).
//!
//! A bridge that snoops keeps a table of groups and ports; memberships that are not renewed expire
//! after some minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::{Netlink, attributes, u16_at, u32_at};

/// Message type (`linux/rtnetlink.h`). Answers have the type of the request, not that of
/// notifications (the kernel's `br_mdb_dump`).
const RTM_GETMDB: u16 = 86;
/// Address family of bridges (`PF_BRIDGE`).
const FAMILY: u8 = 7;
/// Size of `struct br_port_msg`: the family, and the number of the bridge.
const MESSAGE_BYTES: usize = 8;
/// Attributes, one within the other (`linux/if_bridge.h`): the table, a group in it, one of its ports.
const MDBA_MDB: u16 = 1;
const MDBA_MDB_ENTRY: u16 = 1;
const MDBA_MDB_ENTRY_INFO: u16 = 1;
/// Offset of the group in `struct br_mdb_entry`, which the protocol follows, in network order.
const GROUP_AT: usize = 8;
const PROTOCOL_AT: usize = 24;
const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

/// Returns the groups that are joined over each bridge of this network namespace, by the bridges'
/// numbers; bridges without a membership are left out.
///
/// # Errors
/// The kernel's error: it may have been built without bridges, or without snooping.
pub fn bridge_groups() -> io::Result<BTreeMap<u32, BTreeSet<IpAddr>>> {
    let mut found = BTreeMap::new();
    let mut body = [0; MESSAGE_BYTES];
    // Unless the family of bridges is requested, the kernel returns other tables.
    body[0] = FAMILY;
    Netlink::open(None)?.dump(RTM_GETMDB, &body, |kind, body| take(kind, body, &mut found))?;
    Ok(found)
}

pub(crate) fn take(kind: u16, body: &[u8], found: &mut BTreeMap<u32, BTreeSet<IpAddr>>) {
    let Some((bridge, rest)) = u32_at(body, 4).zip(body.get(MESSAGE_BYTES..)) else { return };
    if kind != RTM_GETMDB {
        return;
    }
    let tables = attributes(rest, MDBA_MDB);
    let groups = tables.flat_map(|table| attributes(table, MDBA_MDB_ENTRY));
    let entries = groups.flat_map(|group| attributes(group, MDBA_MDB_ENTRY_INFO));
    for group in entries.filter_map(group) {
        found.entry(bridge).or_default().insert(group);
    }
}

/// Reads the group of a `struct br_mdb_entry`; `None` if it is of neither version of IP.
fn group(entry: &[u8]) -> Option<IpAddr> {
    let address = entry.get(GROUP_AT..)?;
    match u16::from_be(u16_at(entry, PROTOCOL_AT)?) {
        ETH_P_IP => Some(Ipv4Addr::from(*address.first_chunk::<4>()?).into()),
        ETH_P_IPV6 => Some(Ipv6Addr::from(*address.first_chunk::<16>()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute_of(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(content.len() + 4).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn entry(address: &[u8], protocol: u16) -> Vec<u8> {
        let mut bytes = vec![0; 28];
        bytes[GROUP_AT..][..address.len()].copy_from_slice(address);
        bytes[PROTOCOL_AT..][..2].copy_from_slice(&protocol.to_be_bytes());
        attribute_of(MDBA_MDB_ENTRY, &attribute_of(MDBA_MDB_ENTRY_INFO, &bytes))
    }

    #[test]
    fn groups_of_both_versions_are_read_and_what_is_cut_off_is_not() {
        let v6: Ipv6Addr = "ff15::7".parse().unwrap();
        let entries =
            [entry(&[239, 84, 0, 1], ETH_P_IP), entry(&v6.octets(), ETH_P_IPV6), entry(&[1, 0, 0x5e], 0)];
        let mut message = vec![7, 0, 0, 0];
        message.extend(3_u32.to_ne_bytes());
        message.extend(attribute_of(MDBA_MDB, &entries.concat()));
        let read = |message: &[u8]| {
            let mut found = BTreeMap::new();
            take(RTM_GETMDB, message, &mut found);
            found
        };
        let expected = BTreeSet::from(["239.84.0.1".parse().unwrap(), v6.into()]);
        assert_eq!(read(&message), BTreeMap::from([(3, expected.clone())]));
        for end in 0..message.len() {
            let groups = read(&message[..end]);
            assert!(groups.values().all(|it| it.is_subset(&expected)), "{groups:?}");
        }
    }
}
