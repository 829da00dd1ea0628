//! Groups that were joined, and the bridges that interfaces are or belong to.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use fate::audit::{Bridge, Groups, Interface, interface_setting};
use sys::{Link, Memberships, host};

/// Returns what was joined on an interface.
pub(super) fn of(interface: &sys::Interface, all: &BTreeMap<u32, Memberships>) -> Groups {
    let memberships = all.get(&interface.index).cloned().unwrap_or_default();
    let forced = host::sysctl(&interface_setting(&interface.name, "force_igmp_version"));
    let joined = memberships.groups.iter().filter(|group| !is_everybodys(**group));
    Groups {
        igmp_version: memberships.igmp_version,
        forced_version: forced.unwrap_or(0),
        joined: joined.map(ToString::to_string).collect(),
    }
}

/// Of IPv4 the group of all hosts, of IPv6 those that leave neither the host nor the link: the kernel joins them by itself.
fn is_everybodys(group: IpAddr) -> bool {
    const SCOPE_OF_LINK: u8 = 2;
    match group {
        IpAddr::V4(group) => group == Ipv4Addr::new(224, 0, 0, 1),
        IpAddr::V6(group) => group.octets()[1] & 0xf <= SCOPE_OF_LINK,
    }
}

/// Returns the bridge that a link is a port of.
pub(super) fn bridge_of<'a>(link: &Link, links: &'a [Link]) -> Option<&'a Link> {
    links.iter().find(|it| Some(it.index) == link.master && it.bridge.is_some())
}

/// Returns the bridges among interfaces, and those that have one of them as a port, each once.
pub(super) fn bridges(interfaces: &[Interface], links: &[Link]) -> Vec<Bridge> {
    let is_looked_at = |link: &Link| interfaces.iter().any(|it| it.name == link.name);
    let has_port = |bridge: &Link| links.iter().any(|it| it.master == Some(bridge.index) && is_looked_at(it));
    let wanted = links.iter().filter(|link| is_looked_at(link) || has_port(link));
    let bridge = |link: &Link| {
        let sys::Bridge { snoops, queries, has_querier } = link.bridge?;
        Some(Bridge { name: link.name.clone(), snoops, queries, has_querier })
    };
    wanted.filter_map(bridge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, master: Option<u32>, is_bridge: bool) -> Link {
        let bridge = sys::Bridge { snoops: true, queries: false, has_querier: Some(false) };
        Link { index, name: name.to_owned(), master, bridge: is_bridge.then_some(bridge), ..Link::default() }
    }

    #[test]
    fn a_bridge_is_looked_at_for_itself_and_for_its_ports() {
        let links =
            [link(1, "br0", None, true), link(2, "port", Some(1), false), link(3, "eth0", None, false)];
        let bridges = |names: &[&str]| {
            let interfaces: Vec<Interface> = names
                .iter()
                .map(|name| Interface { name: (*name).to_owned(), ..Interface::default() })
                .collect();
            bridges(&interfaces, &links).into_iter().map(|it| it.name).collect::<Vec<_>>()
        };
        assert_eq!(bridges(&["br0"]), ["br0"]);
        assert_eq!(bridges(&["br0", "port"]), ["br0"]);
        assert_eq!(bridges(&["port"]), ["br0"]);
        assert_eq!(bridges(&["eth0"]), [""; 0]);
        assert_eq!(bridge_of(&links[1], &links).map(|it| it.index), Some(1));
        assert_eq!(bridge_of(&links[2], &links), None);
    }

    #[test]
    fn groups_that_the_kernel_joins_by_itself_are_left_out() {
        let everybodys = ["224.0.0.1", "ff02::1", "ff01::1", "ff02::1:ff00:7"]
            .map(|group| is_everybodys(group.parse().unwrap()));
        assert_eq!(everybodys, [true; 4]);
        assert_eq!(
            ["239.84.0.1", "ff05::2", "ff15::7"].map(|it| is_everybodys(it.parse().unwrap())),
            [false; 3]
        );
    }
}
