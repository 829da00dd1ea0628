//! Groups: memberships of the interfaces, and the presence of a querier.
//!
//! A switch that snoops sends a group to ports on which it received a membership report, and removes them unless the
//! report is repeated, which hosts do only when a querier asks. Without a querier groups end some minutes after they
//! began.

use super::{Check, Facts, Interface, Judgement};
use crate::Remedy;

/// Groups that were joined on an interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Groups {
    /// IGMP version in use; `None` without IPv4.
    pub igmp_version: Option<u8>,
    /// Forced version (`force_igmp_version`); 0 is none.
    pub forced_version: u64,
    /// Addresses of the groups, without those that every host has joined.
    pub joined: Vec<String>,
}

/// Bridge of this host, which is a switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bridge {
    /// Name of the bridge.
    pub name: String,
    /// True if it snoops membership reports.
    pub snoops: bool,
    /// True if it is a querier when there is no other.
    pub queries: bool,
    /// True if there is a querier, as far as the kernel reports.
    pub has_querier: Option<bool>,
    /// Number of ports.
    pub ports: usize,
    /// Groups beyond link-local scope that are known to be joined on it; `None` where that is unknown.
    pub joined: Option<Vec<String>>,
}

pub(super) fn memberships(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "group-membership";
    /// Maximum number of groups shown: a longer list does not help on a screen.
    const SHOWN: usize = 4;
    let outside = facts.interfaces.iter().filter(|it| !it.is_loopback && it.takes_groups);
    let one = |interface: &Interface| {
        let Some(groups) = &interface.groups else {
            return Check::not_seen(CHECK, &format!("/proc/net/igmp has no entry for {}", interface.name));
        };
        let version = groups.igmp_version.map_or_else(String::new, |version| format!(", IGMPv{version}"));
        let shown = groups.joined.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if groups.joined.len() > SHOWN { ", …" } else { "" };
        let list = if shown.is_empty() { String::new() } else { format!(" ({shown}{more})") };
        let live = format!("{}: {} joined{list}{version}", interface.name, groups.joined.len());
        let why = "a group is received on the interface where it was joined, and on no other; no counter rises for it elsewhere";
        Check::new(CHECK, Judgement::Ok, live, why)
    };
    outside.map(one).collect()
}

pub(super) fn queriers(facts: &Facts) -> Vec<Check> {
    let bridges = facts.bridges.iter().map(bridge);
    let is_bridged = |interface: &&Interface| {
        interface.is_bridged || facts.bridges.iter().any(|bridge| bridge.name == interface.name)
    };
    let links = facts.interfaces.iter().filter(|it| !it.is_loopback && it.takes_groups && !is_bridged(it));
    let (heard, not_heard): (Vec<_>, Vec<_>) =
        links.map(|it| (it, heard(it))).partition(|(_, it)| it.is_some());
    let heard = heard.into_iter().filter_map(|(interface, version)| {
        let live = format!("{}: a querier of version {} was received", interface.name, version?);
        Some(Check::new(CHECK, Judgement::Ok, live, WHY))
    });
    let names: Vec<&str> = not_heard.iter().map(|(it, _)| it.name.as_str()).collect();
    bridges.chain(heard).chain(not_seen(&names)).collect()
}

const CHECK: &str = "group-querier";
const WHY: &str = "a switch that snoops forgets members unless a querier asks for them again, and the group ends there: after 260 s as a rule";

/// Returns the IGMP version of a querier that was received: a host keeps it only for an older one.
fn heard(interface: &Interface) -> Option<u8> {
    let groups = interface.groups.as_ref()?;
    groups.igmp_version.filter(|version| *version < 3 && groups.forced_version == 0)
}

/// Returns one check for all links without visible groups.
fn not_seen(names: &[&str]) -> Option<Check> {
    let first = names.first()?;
    let why = format!(
        "a host does not record whether switches behind {} snoop, or whether there is a querier; {WHY}",
        names.join(", ")
    );
    let look = Remedy::by_hand(&format!(
        "two queries arrive in 250 s if there is a querier: timeout 260 tcpdump -ni {first} 'igmp[0] == 0x11'"
    ));
    Some(Check { remedies: vec![look], ..Check::not_seen(CHECK, &why) })
}

fn bridge(bridge: &Bridge) -> Check {
    let Bridge { name, snoops, queries, has_querier, ports, joined } = bridge;
    let found = |judgement, words: &str| Check::new(CHECK, judgement, format!("{name}: {words}"), WHY);
    let (judgement, words) = match (snoops, queries, has_querier) {
        (false, ..) => return found(Judgement::Ok, "does not snoop: groups go to every port"),
        (true, true, _) => return found(Judgement::Ok, "snoops, and is the querier if there is no other"),
        (true, false, Some(true)) => return found(Judgement::Ok, "snoops, and there is a querier"),
        // Such as the bridge of containers of which none is running.
        (true, false, _) if *ports == 0 => {
            return found(Judgement::Ok, "snoops and is no querier; it has no ports, so it carries nothing");
        }
        (true, false, Some(false)) => (Judgement::Fail, "snoops, and there is no querier"),
        (true, false, None) => (
            Judgement::Warn,
            "snoops and is no querier; this kernel does not report whether there is another",
        ),
    };
    // The bridge itself forgets groups that no querier asked about for some minutes: so no loss is known, but one is
    // possible.
    let (judgement, joined) = match joined.as_deref() {
        None => (Judgement::Warn, "; the kernel does not report the groups joined on it".to_owned()),
        Some([]) => (Judgement::Warn, "; no group beyond the link is known to be joined on it".to_owned()),
        Some(groups) => (judgement, format!("; groups joined on it: {}", groups.len())),
    };
    // Measured with Linux 6.18: of 500 datagrams of a group all reached a port that had not joined it, with a querier
    // none.
    let why = format!("{WHY}; this bridge itself sends groups to every port meanwhile, joined or not");
    let set = |setting: &str, value: u8| format!("ip link set dev {name} type bridge {setting} {value}");
    let remedies = [
        Remedy::by_command("make the bridge a querier", set("mcast_querier", 1), set("mcast_querier", 0)),
        Remedy::by_command("or switch snooping off", set("mcast_snooping", 0), set("mcast_snooping", 1)),
    ];
    Check::new(CHECK, judgement, format!("{name}: {words}{joined}"), why)
        .recommending("one querier", remedies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, version: u8, forced_version: u64) -> Interface {
        let joined = (1..=5).map(|last| format!("239.84.0.{last}")).collect();
        let groups = Some(Groups { igmp_version: Some(version), forced_version, joined });
        Interface { name: name.to_owned(), takes_groups: true, groups, ..Interface::default() }
    }

    #[test]
    fn what_is_joined_is_said_and_what_cannot_be_read_too() {
        let unread = Interface { name: "eth1".to_owned(), takes_groups: true, ..Interface::default() };
        let deaf = Interface { takes_groups: false, ..link("eth2", 3, 0) };
        let facts = Facts { interfaces: vec![link("eth0", 3, 0), unread, deaf], ..Facts::default() };
        let checks = memberships(&facts);
        let expected = "eth0: 5 joined (239.84.0.1, 239.84.0.2, 239.84.0.3, 239.84.0.4, …), IGMPv3";
        assert_eq!((checks[0].judgement, checks[0].live.as_str()), (Judgement::Ok, expected));
        assert_eq!((checks.len(), checks[1].judgement), (2, Judgement::NotSeen));
    }

    /// Returns a bridge with a port that snoops, without a querier; and these groups are joined on it.
    fn joined(groups: &[&str]) -> Bridge {
        let joined = Some(groups.iter().map(|group| (*group).to_owned()).collect());
        let (name, has_querier) = ("br0".to_owned(), Some(false));
        Bridge { name, snoops: true, has_querier, ports: 1, joined, ..Bridge::default() }
    }

    #[test]
    fn where_nobody_is_known_to_have_joined_a_missing_querier_is_no_failure() {
        let judge = |bridge| {
            let check = queriers(&Facts { bridges: vec![bridge], ..Facts::default() }).remove(0);
            (check.judgement, check.live, check.remedies.len())
        };
        let (judgement, live, remedies) = judge(joined(&["239.84.0.1", "ff15::7"]));
        assert_eq!(
            (judgement, live.as_str()),
            (Judgement::Fail, "br0: snoops, and there is no querier; groups joined on it: 2")
        );
        assert_eq!(remedies, 2);
        let (judgement, live, remedies) = judge(joined(&[]));
        assert_eq!((judgement, remedies), (Judgement::Warn, 2), "{live}");
        assert!(live.ends_with("; no group beyond the link is known to be joined on it"), "{live}");
        assert_eq!(judge(Bridge { joined: None, ..joined(&[]) }).0, Judgement::Warn);
        let (judgement, live, remedies) = judge(Bridge { ports: 0, ..joined(&["239.84.0.1"]) });
        assert_eq!((judgement, remedies), (Judgement::Ok, 0), "{live}");
    }

    #[test]
    fn snooping_without_a_querier_fails() {
        let judge = |snoops, queries, has_querier| {
            let bridge = Bridge { snoops, queries, has_querier, ..joined(&["239.84.0.1"]) };
            queriers(&Facts { bridges: vec![bridge], ..Facts::default() }).remove(0)
        };
        for heard in [None, Some(false), Some(true)] {
            assert_eq!(judge(false, false, heard).judgement, Judgement::Ok);
            assert_eq!(judge(true, true, heard).judgement, Judgement::Ok);
        }
        assert_eq!(judge(true, false, Some(true)).judgement, Judgement::Ok);
        assert_eq!(judge(true, false, None).judgement, Judgement::Warn);
        let check = judge(true, false, Some(false));
        assert_eq!(check.judgement, Judgement::Fail);
        let commands =
            |of: fn(&Remedy) -> Option<String>| check.remedies.iter().filter_map(of).collect::<Vec<_>>();
        let set =
            ["mcast_querier", "mcast_snooping"].map(|it| format!("ip link set dev br0 type bridge {it}"));
        assert_eq!(commands(Remedy::command), [format!("{} 1", set[0]), format!("{} 0", set[1])]);
        assert_eq!(commands(Remedy::undo), [format!("{} 0", set[0]), format!("{} 1", set[1])]);
    }

    #[test]
    fn an_older_querier_leaves_a_trace_and_a_forced_version_is_none() {
        let judge = |version, forced| {
            let facts = Facts { interfaces: vec![link("eth0", version, forced)], ..Facts::default() };
            queriers(&facts).remove(0).judgement
        };
        assert_eq!((judge(2, 0), judge(1, 0)), (Judgement::Ok, Judgement::Ok));
        assert_eq!((judge(3, 0), judge(2, 2)), (Judgement::NotSeen, Judgement::NotSeen));
    }

    #[test]
    fn of_ports_the_bridge_is_judged_and_of_other_links_it_is_said_once() {
        let bridge = Bridge { name: "br0".to_owned(), ..Bridge::default() };
        let port = Interface { is_bridged: true, ..link("port", 3, 0) };
        let loopback = Interface { is_loopback: true, ..link("lo", 3, 0) };
        let interfaces = vec![link("br0", 3, 0), port, link("eth0", 3, 0), link("eth1", 3, 0), loopback];
        let checks = queriers(&Facts { bridges: vec![bridge], interfaces, ..Facts::default() });
        let judgements: Vec<_> = checks.iter().map(|it| it.judgement).collect();
        assert_eq!(judgements, [Judgement::Ok, Judgement::NotSeen]);
        assert!(checks[1].why.contains("behind eth0, eth1 snoop"), "{}", checks[1].why);
    }
}
