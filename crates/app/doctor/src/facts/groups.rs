//! Groups that were joined, and the bridges that interfaces are or belong to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use diagnose::audit::{Bridge, Groups, Interface, interface_setting};
use sys::{Link, Memberships, host};

/// Returns the groups joined on an interface.
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

/// Returns whether every host joins a group: of IPv4 that of all hosts, of IPv6 those of host and link scope, which
/// the kernel joins itself.
fn is_everybodys(group: IpAddr) -> bool {
    const SCOPE_OF_LINK: u8 = 2;
    match group {
        IpAddr::V4(group) => group == Ipv4Addr::new(224, 0, 0, 1),
        IpAddr::V6(group) => group.octets()[1] & 0xf <= SCOPE_OF_LINK,
    }
}

/// Returns whether routers forward a group, and bridges only to members.
fn is_routed(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.is_multicast() && group.octets()[..3] != [224, 0, 0],
        IpAddr::V6(_) => !is_everybodys(group),
    }
}

/// Group memberships by which bridges are checked.
pub(super) struct Joined<'a> {
    /// Memberships by the interfaces' numbers.
    pub(super) memberships: &'a BTreeMap<u32, Memberships>,
    /// Groups that bridges know, by their numbers; `None` where the kernel does not report them.
    pub(super) over_bridges: Option<&'a BTreeMap<u32, BTreeSet<IpAddr>>>,
}

impl Joined<'_> {
    /// Returns the groups joined on a bridge: behind its ports, at them, or by this host.
    fn over(&self, bridge: &Link, ports: &[&Link]) -> Option<Vec<String>> {
        let behind = self.over_bridges?.get(&bridge.index).into_iter().flatten();
        let links = ports.iter().copied().chain([bridge]);
        let here = links.filter_map(|link| self.memberships.get(&link.index)).flat_map(|it| &it.groups);
        let groups: BTreeSet<IpAddr> =
            behind.chain(here).copied().filter(|group| is_routed(*group)).collect();
        Some(groups.iter().map(ToString::to_string).collect())
    }
}

/// Returns the bridge that a link is a port of.
pub(super) fn bridge_of<'a>(link: &Link, links: &'a [Link]) -> Option<&'a Link> {
    links.iter().find(|it| Some(it.index) == link.master && it.bridge.is_some())
}

/// Returns the bridges among interfaces, and those that have one of them as a port, each once.
pub(super) fn bridges(interfaces: &[Interface], links: &[Link], joined: &Joined<'_>) -> Vec<Bridge> {
    let is_looked_at = |link: &Link| interfaces.iter().any(|it| it.name == link.name);
    let has_port = |bridge: &Link| links.iter().any(|it| it.master == Some(bridge.index) && is_looked_at(it));
    let wanted = links.iter().filter(|link| is_looked_at(link) || has_port(link));
    let bridge = |link: &Link| {
        let sys::Bridge { snoops, queries, has_querier } = link.bridge?;
        let ports: Vec<&Link> = links.iter().filter(|it| it.master == Some(link.index)).collect();
        let (name, joined) = (link.name.clone(), joined.over(link, &ports));
        Some(Bridge { name, snoops, queries, has_querier, ports: ports.len(), joined })
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
            let joined = Joined { memberships: &BTreeMap::new(), over_bridges: None };
            bridges(&interfaces, &links, &joined).into_iter().map(|it| it.name).collect::<Vec<_>>()
        };
        assert_eq!(bridges(&["br0"]), ["br0"]);
        assert_eq!(bridges(&["br0", "port"]), ["br0"]);
        assert_eq!(bridges(&["port"]), ["br0"]);
        assert_eq!(bridges(&["eth0"]), [""; 0]);
        assert_eq!(bridge_of(&links[1], &links).map(|it| it.index), Some(1));
        assert_eq!(bridge_of(&links[2], &links), None);
    }

    #[test]
    fn what_is_joined_behind_a_bridge_at_a_port_or_by_this_host_is_joined_over_it() {
        let links =
            [link(1, "br0", None, true), link(2, "port", Some(1), false), link(3, "eth0", None, false)];
        let interfaces = [Interface { name: "br0".to_owned(), ..Interface::default() }];
        let groups = |of: &[&str]| of.iter().map(|it| it.parse().unwrap()).collect::<Vec<IpAddr>>();
        let of = |of: &[&str]| Memberships { groups: groups(of), ..Memberships::default() };
        // Groups of link scope, routers and all hosts are no streams; memberships of another link do not count here.
        let memberships = BTreeMap::from([
            (1, of(&["224.0.0.1", "224.0.0.251", "ff02::fb", "239.84.0.1"])),
            (2, of(&["ff15::7"])),
            (3, of(&["239.84.0.9"])),
        ]);
        let behind = BTreeMap::from([(1, groups(&["239.84.0.2", "ff02::6a"]).into_iter().collect())]);
        let judged = |over_bridges| {
            let joined = Joined { memberships: &memberships, over_bridges };
            bridges(&interfaces, &links, &joined).remove(0)
        };
        let bridge = judged(Some(&behind));
        assert_eq!(bridge.joined.unwrap(), ["239.84.0.1", "239.84.0.2", "ff15::7"]);
        assert_eq!((bridge.ports, judged(None).joined), (1, None));
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
