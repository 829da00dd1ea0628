//! State of this network namespace's links (`ip -s -d link`): packets without room, the queue
//! before them, and whether a bridge filters groups at ports without members.
//!
//! Read by netlink, which is of the namespace whatever is mounted at `/sys`, and needs no
//! privilege.

use std::{fs, io};

use crate::netlink::{Netlink, attribute, put_attribute, text, u32_at, u64_at};

/// A network link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// Its number in the kernel.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its kind, if a driver reports one: `bridge`, `veth`, `vlan`.
    pub kind: Option<String>,
    /// Number of the bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// True if it takes multicast.
    pub takes_groups: bool,
    /// Length of its queue in packets, where the link determines it (`txqueuelen`).
    pub queue_packets: u32,
    /// Queue discipline before it; `noqueue` where there is none.
    pub queue_discipline: Option<String>,
    /// Number of packets received.
    pub received_packets: u64,
    /// Number of packets sent.
    pub sent_packets: u64,
    /// Minimum number of received packets without room: drivers count them as missed, as over or in
    /// a full fifo, or as several of these.
    pub had_no_room: u64,
    /// Number of received packets dropped by its driver or the stack, for any reason.
    pub received_dropped: u64,
    /// Number of outgoing packets dropped.
    pub sent_dropped: u64,
    /// Multicast state, if it is a bridge.
    pub bridge: Option<Bridge>,
}

/// Multicast state of a bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bridge {
    /// True if it learns memberships, and sends groups to members only.
    pub snoops: bool,
    /// True if it sends queries when no other querier does.
    pub queries: bool,
    /// True if there is a querier for IPv4, the bridge or another host; `None` if the kernel does
    /// not report it, before Linux 5.15. While the bridge does not snoop, it sees none.
    pub has_querier: Option<bool>,
}

/// Lists the links of this process's network namespace.
///
/// # Errors
/// The kernel's error: there are containers that forbid netlink.
pub fn links() -> io::Result<Vec<Link>> {
    let mut found = Vec::new();
    // An empty `struct ifinfomsg`: every link.
    Netlink::open(None)?.dump(RTM_GETLINK, &[0; MESSAGE_BYTES], |kind, body| take(kind, body, &mut found))?;
    if !tells_of_queriers(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()) {
        let bridges = found.iter_mut().filter_map(|link| link.bridge.as_mut());
        bridges.for_each(|bridge| bridge.has_querier = None);
    }
    Ok(found)
}

/// Sets the length in packets of the queue of a link of this process's network namespace
/// (`txqueuelen`), where the link determines it; the ring of a TUN device gets the same length.
///
/// # Errors
/// The kernel's error: `PermissionDenied` without `CAP_NET_ADMIN`, `ENODEV` if there is no such
/// link.
pub fn set_queue_packets(index: u32, packets: u32) -> io::Result<()> {
    let mut body = vec![0; MESSAGE_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    put_attribute(&mut body, IFLA_TXQLEN, &packets.to_ne_bytes());
    Netlink::open(None)?.change(RTM_NEWLINK, &body)
}

/// Returns whether a kernel reports the queriers that a bridge sees; without a querier the output
/// looks like that of an older kernel.
pub(crate) fn tells_of_queriers(release: &str) -> bool {
    const FIRST: (u32, u32) = (5, 15);
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    let version = numbers.next().zip(numbers.next());
    matches!(version, Some((Ok(major), Ok(minor))) if (major, minor) >= FIRST)
}

pub(crate) fn take(kind: u16, body: &[u8], links: &mut Vec<Link>) {
    if kind == RTM_NEWLINK {
        links.extend(read(body));
    }
}

/// Message types (`linux/rtnetlink.h`).
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
/// Size of `struct ifinfomsg`.
const MESSAGE_BYTES: usize = 16;
/// Attributes of a link (`linux/if_link.h`).
const IFLA_IFNAME: u16 = 3;
const IFLA_QDISC: u16 = 6;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_STATS64: u16 = 23;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const IFLA_BR_MCAST_QUERIER: u16 = 25;
const IFLA_BR_MCAST_QUERIER_STATE: u16 = 47;
/// Attribute that is present while there is a querier (`linux/if_bridge.h`).
const BRIDGE_QUERIER_IP_ADDRESS: u16 = 1;
/// Flag of a link that takes groups (`linux/if.h`).
const IFF_MULTICAST: u32 = 0x1000;
/// Indices of the counters of packets without room in `struct rtnl_link_stats64`, in words of 64
/// bits: over, fifo and missed.
const NO_ROOM: [usize; 3] = [11, 14, 15];
/// Indices of its counters of received and sent packets.
const PACKETS: [usize; 2] = [0, 1];
/// Indices of its counters of dropped packets, received and outgoing.
const DROPPED: [usize; 2] = [6, 7];

/// Parses a link; `None` if it is truncated, or has no name.
fn read(body: &[u8]) -> Option<Link> {
    let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
    let attributes = body.get(MESSAGE_BYTES..)?;
    let of = |kind| attribute(attributes, kind);
    let info = of(IFLA_LINKINFO);
    let kind = info.and_then(|info| attribute(info, IFLA_INFO_KIND)).map(text);
    let is_bridge = kind.as_deref() == Some("bridge");
    let bridge = info.filter(|_| is_bridge).and_then(|info| read_bridge(attribute(info, IFLA_INFO_DATA)?));
    let counts = of(IFLA_STATS64).unwrap_or_default();
    let count = |word: usize| u64_at(counts, 8 * word).unwrap_or(0);
    let ([received_packets, sent_packets], [received_dropped, sent_dropped]) =
        (PACKETS.map(count), DROPPED.map(count));
    Some(Link {
        index,
        name: text(of(IFLA_IFNAME)?),
        kind,
        master: of(IFLA_MASTER).and_then(|content| u32_at(content, 0)),
        takes_groups: flags & IFF_MULTICAST != 0,
        queue_packets: of(IFLA_TXQLEN).and_then(|content| u32_at(content, 0)).unwrap_or(0),
        queue_discipline: of(IFLA_QDISC).map(text),
        received_packets,
        sent_packets,
        had_no_room: NO_ROOM.iter().filter_map(|word| u64_at(counts, 8 * word)).max().unwrap_or(0),
        received_dropped,
        sent_dropped,
        bridge,
    })
}

fn read_bridge(data: &[u8]) -> Option<Bridge> {
    let is_on = |kind| Some(*attribute(data, kind)?.first()? != 0);
    let state = attribute(data, IFLA_BR_MCAST_QUERIER_STATE);
    Some(Bridge {
        snoops: is_on(IFLA_BR_MCAST_SNOOPING)?,
        queries: is_on(IFLA_BR_MCAST_QUERIER)?,
        has_querier: Some(state.is_some_and(|state| attribute(state, BRIDGE_QUERIER_IP_ADDRESS).is_some())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    fn attribute_of(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_attribute(&mut bytes, kind, content);
        bytes
    }

    /// Builds a link as the kernel writes it, with the state of a bridge.
    pub(crate) fn message(kind: &str, state: Option<&[u8]>) -> Vec<u8> {
        const NESTED: u16 = 0x8000;
        let mut body = vec![0; MESSAGE_BYTES];
        body[4] = 7;
        body[8..12].copy_from_slice(&(IFF_MULTICAST | 3).to_ne_bytes());
        let counts: Vec<u8> = (0..24_u64).flat_map(|count| (count * 100).to_ne_bytes()).collect();
        let mut data = attribute_of(IFLA_BR_MCAST_SNOOPING, &[1]);
        data.extend(attribute_of(IFLA_BR_MCAST_QUERIER, &[0]));
        data.extend(
            state.map(|state| attribute_of(IFLA_BR_MCAST_QUERIER_STATE | NESTED, state)).unwrap_or_default(),
        );
        let mut info = attribute_of(IFLA_INFO_KIND, format!("{kind}\0").as_bytes());
        info.extend(attribute_of(IFLA_INFO_DATA | NESTED, &data));
        for (kind, content) in [
            (IFLA_IFNAME, &b"lab0\0"[..]),
            (IFLA_TXQLEN, &1_000_u32.to_ne_bytes()),
            (IFLA_QDISC, b"fq_codel\0"),
            (IFLA_MASTER, &9_u32.to_ne_bytes()),
            (IFLA_STATS64, &counts),
            (IFLA_LINKINFO, &info),
        ] {
            body.extend(attribute_of(kind, content));
        }
        body
    }

    #[test]
    fn a_link_is_told_with_its_queue_and_what_it_had_no_room_for() {
        let expected = Link {
            index: 7,
            name: "lab0".to_owned(),
            kind: Some("veth".to_owned()),
            master: Some(9),
            takes_groups: true,
            queue_packets: 1_000,
            queue_discipline: Some("fq_codel".to_owned()),
            received_packets: 0,
            sent_packets: 100,
            had_no_room: 1_500,
            received_dropped: 600,
            sent_dropped: 700,
            bridge: None,
        };
        assert_eq!(read(&message("veth", None)), Some(expected));
    }

    #[test]
    fn a_bridge_tells_whether_somebody_asks() {
        let querier = |state: Option<&[u8]>| {
            let bridge = read(&message("bridge", state)).unwrap().bridge.unwrap();
            assert!(bridge.snoops && !bridge.queries);
            bridge.has_querier
        };
        assert_eq!(querier(None), Some(false));
        assert_eq!(querier(Some(&[])), Some(false));
        let address = attribute_of(BRIDGE_QUERIER_IP_ADDRESS, &[10, 0, 0, 1]);
        assert_eq!(querier(Some(&address)), Some(true));
    }

    #[test]
    fn kernels_tell_of_queriers_since_5_15() {
        let tells = ["5.14.99", "4.19.0", "5", "", "x.y"].map(tells_of_queriers);
        assert_eq!(tells, [false; 5]);
        assert_eq!(["5.15.0", "5.15-rc1", "6.1.0-18-amd64"].map(tells_of_queriers), [true; 3]);
    }

    #[test]
    fn what_is_cut_or_changed_is_none_or_another_link() {
        let whole = message("bridge", Some(&[]));
        for end in 0..whole.len() {
            let _ = read(&whole[..end]);
        }
        let mut random = Random::new(5);
        for _ in 0..20_000 {
            let mut body = whole.clone();
            for _ in 0..random.below(6) {
                let at = random.below(body.len() as u64) as usize;
                body[at] = random.below(256) as u8;
            }
            body.truncate(random.below(body.len() as u64 + 1) as usize);
            let _ = read(&body);
        }
    }

    #[test]
    fn a_link_that_is_not_there_has_no_queue_to_set() {
        let error = set_queue_packets(u32::MAX / 2, 5).unwrap_err();
        // ENODEV; or a lack of permission.
        assert!(
            error.raw_os_error() == Some(19) || error.kind() == io::ErrorKind::PermissionDenied,
            "{error}"
        );
    }

    #[test]
    fn the_kernel_tells_of_the_loopback_interface() {
        let links = links().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        let flags = fs::read_to_string("/sys/class/net/lo/flags").unwrap();
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap();
        // IFF_MULTICAST of `linux/if.h`.
        assert_eq!((lo.index, lo.master, lo.bridge, lo.takes_groups), (1, None, None, flags & 0x1000 != 0));
        assert_eq!(lo.queue_discipline.as_deref(), Some("noqueue"));
    }
}
