//! Preflight of a multicast group between hosts: reception by the group and by unicast, in both directions, and its
//! diagnosis.
//!
//! Each host sends a [`Probe`] several times a second, to the group and to every known host, and reports in it what
//! it has received from them. So each knows both directions, and unicast probes distinguish a group that stopped from
//! a host that left.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use units::Instant;

use crate::Remedy;
use crate::audit::{Check, Judgement};

/// Path to another host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Multicast to the group.
    Group,
    /// Unicast to its own address.
    Direct,
}

/// Probe: a datagram by which a host shows that it can be received, and reports what it receives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Identity of the sender, drawn at random.
    pub sender: u64,
    /// Name of that host.
    pub station: String,
    /// Port for unicast probes to the sender.
    pub answer_port: u16,
    /// Number of probes sent before: to the group, and by unicast to this host.
    pub number: u64,
    /// Largest datagram that it sends to the group, in bytes of payload.
    pub largest_bytes: u64,
    /// Reception reports about others.
    pub heard: Vec<Heard>,
}

/// Reception report of a host about another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// Identity of the other host.
    pub host: u64,
    /// Number of probes received by the group.
    pub by_group: u64,
    /// Number of probes received by unicast.
    pub directly: u64,
    /// Largest datagram received by the group, in bytes of payload.
    pub largest_bytes: u64,
}

/// Peers of a host: the others that were received.
#[derive(Clone, Debug)]
pub struct Peers {
    own: u64,
    began: Instant,
    /// Number of own probes that came back by the group.
    own_probes: u64,
    peers: BTreeMap<u64, Peer>,
}

/// Another host.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Name of the host.
    pub station: String,
    /// Address for unicast probes.
    pub address: SocketAddr,
    largest_bytes: u64,
    group: Arrivals,
    direct: Arrivals,
    reported: Option<Reported>,
}

/// Probes of a host that arrived by one path.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    count: u64,
    first: u64,
    last: u64,
    last_at: Option<Instant>,
    largest_bytes: u64,
}

/// Last report of a peer about its reception of this host.
#[derive(Clone, Copy, Debug)]
struct Reported {
    heard: Heard,
    group_rose_at: Instant,
    direct_rose_at: Instant,
}

/// Maximum number of hosts that are remembered: foreign senders must not fill the memory.
pub const MAX_PEERS: usize = 64;
/// Time without probes after which a path has stopped, if the other path continues.
const STOPPED: Duration = Duration::from_secs(2);
/// Minimum number of probes for a result.
const ENOUGH: u64 = 10;

impl Peers {
    /// Starts with no peers.
    #[must_use]
    pub const fn new(own: u64, now: Instant) -> Self {
        Self { own, began: now, own_probes: 0, peers: BTreeMap::new() }
    }

    /// Takes a probe and the size of its datagram in bytes; returns its sender if it is the sender's first.
    pub fn hear(
        &mut self,
        now: Instant,
        way: Way,
        probe: Probe,
        from: SocketAddr,
        size_bytes: u64,
    ) -> Option<&Peer> {
        if probe.sender == self.own {
            self.own_probes += u64::from(way == Way::Group);
            return None;
        }
        let is_new = !self.peers.contains_key(&probe.sender);
        if is_new && self.peers.len() == MAX_PEERS {
            return None;
        }
        let mut address = from;
        address.set_port(probe.answer_port);
        let peer = self.peers.entry(probe.sender).or_insert_with(|| Peer {
            station: probe.station,
            address,
            largest_bytes: 0,
            group: Arrivals::default(),
            direct: Arrivals::default(),
            reported: None,
        });
        peer.largest_bytes = probe.largest_bytes;
        match way {
            Way::Group => peer.group.take(now, probe.number, size_bytes),
            Way::Direct => peer.direct.take(now, probe.number, size_bytes),
        }
        if let Some(heard) = probe.heard.into_iter().find(|heard| heard.host == self.own) {
            peer.take_report(now, heard);
        }
        is_new.then_some(&*peer)
    }

    /// Returns the reception reports about the others.
    pub fn heard(&self) -> impl Iterator<Item = Heard> + '_ {
        self.peers.iter().map(|(host, peer)| Heard {
            host: *host,
            by_group: peer.group.count,
            directly: peer.direct.count,
            largest_bytes: peer.group.largest_bytes,
        })
    }

    /// Returns the known peers.
    pub fn known(&self) -> impl Iterator<Item = (u64, &Peer)> {
        self.peers.iter().map(|(id, peer)| (*id, peer))
    }

    /// Checks the reception so far; `largest_bytes` is the largest datagram that was sent to the group.
    #[must_use]
    pub fn judge(&self, now: Instant, largest_bytes: u64) -> Vec<Check> {
        let mut checks = vec![self.joined()];
        if self.peers.is_empty() {
            checks.push(nobody(now.since(self.began)));
        }
        for peer in self.peers.values() {
            checks.push(peer.arrives(self.began));
            checks.push(peer.leaves(self.began));
            checks.extend(peer.sizes(largest_bytes));
        }
        checks
    }

    fn joined(&self) -> Check {
        if self.own_probes > 0 {
            return Check::new("group-joined", Judgement::Ok, "own probes come back", "");
        }
        Check::new(
            "group-joined",
            Judgement::Fail,
            "own probes to the group do not come back",
            "this host did not join the group that it sends to, or its own firewall drops the probes",
        )
        .with_remedies([
            Remedy::by_hand("name the interface (`--interface`, `iface=` on the bus)"),
            Remedy::by_hand("see `ip maddress`, `nft list ruleset`, `tallycast doctor watch`"),
        ])
    }
}

fn nobody(time: Duration) -> Check {
    let live = format!("no other host was received in {:.0} s", time.as_secs_f64());
    let why = "one host alone cannot test it: the same command must run on another one at the same time; if it does, neither receives the other";
    Check::new("company", Judgement::Fail, live, why).with_remedies([
        Remedy::by_hand("run it there, too, and here with `--peer HOST`: unicast probes show whether only the group is lost"),
        Remedy::by_hand("between routed networks groups need more than one hop (`ttl=` on the bus) and a router that forwards them"),
    ])
}

impl Arrivals {
    fn take(&mut self, now: Instant, number: u64, size_bytes: u64) {
        if self.count == 0 {
            self.first = number;
        }
        self.count += 1;
        self.last = self.last.max(number);
        self.last_at = Some(now);
        self.largest_bytes = self.largest_bytes.max(size_bytes);
    }

    /// Returns the number of probes sent between the first and the last that arrived, both included.
    const fn said(&self) -> u64 {
        if self.count == 0 { 0 } else { (self.last - self.first).saturating_add(1) }
    }

    /// Returns whether it stopped while the other path continued.
    fn stopped_before(&self, other: &Self) -> bool {
        let pair = self.last_at.zip(other.last_at);
        pair.is_some_and(|(own, other)| other.since(own) > STOPPED)
    }
}

impl Peer {
    fn take_report(&mut self, now: Instant, heard: Heard) {
        let before = self.reported;
        let rose_at = |rose: bool, at: fn(&Reported) -> Instant| match &before {
            Some(before) if !rose => at(before),
            _ => now,
        };
        let had = before.map(|reported| reported.heard);
        self.reported = Some(Reported {
            heard,
            group_rose_at: rose_at(had.is_none_or(|had| heard.by_group > had.by_group), |reported| {
                reported.group_rose_at
            }),
            direct_rose_at: rose_at(had.is_none_or(|had| heard.directly > had.directly), |reported| {
                reported.direct_rose_at
            }),
        });
    }

    fn name(&self) -> String {
        format!("{} ({})", self.station, self.address.ip())
    }

    /// Checks the direction from the peer.
    fn arrives(&self, began: Instant) -> Check {
        let (group, direct, name) = (&self.group, &self.direct, self.name());
        if group.count == 0 {
            let live = format!("from {name} nothing by the group, {} directly", direct.count);
            return Check::new("group-arrives", Judgement::Fail, live, NOT_BY_GROUP)
                .with_remedies(not_here());
        }
        if group.stopped_before(direct) {
            let after = group.last_at.map_or(Duration::ZERO, |at| at.since(began));
            let live = format!(
                "from {name} nothing by the group after {:.0} s, while unicast continues",
                after.as_secs_f64()
            );
            return Check::new("group-lasts", Judgement::Fail, live, FORGOTTEN).with_remedies(querier());
        }
        let lost = group.said().saturating_sub(group.count);
        let live = format!("from {name} {} of {} by the group", group.count, group.said());
        if lost > 0 {
            let why = "at ten small datagrams a second none should be lost";
            return Check::new("group-arrives", Judgement::Warn, live, why)
                .with_remedies([Remedy::by_hand("`tallycast doctor watch` on both hosts names the stage")]);
        }
        Check::new("group-arrives", Judgement::Ok, live, "")
    }

    /// Checks the direction to the peer, by that host's reports.
    fn leaves(&self, began: Instant) -> Check {
        let name = self.name();
        let Some(Reported { heard, group_rose_at, direct_rose_at }) = self.reported else {
            let live = format!("{name} does not report that it receives this host");
            if self.group.count + self.direct.count < ENOUGH {
                return Check::new(
                    "group-leaves",
                    Judgement::NotSeen,
                    live,
                    "it was not received for long enough",
                );
            }
            let why =
                "its probes arrive here, and ours do not arrive there, neither by the group nor directly";
            return Check::new("group-leaves", Judgement::Fail, live, why).with_remedies([Remedy::by_hand(
                "look for a firewall between the two, or a path that works in one direction only",
            )]);
        };
        if heard.by_group == 0 {
            let live =
                format!("{name} receives nothing from this host by the group, {} directly", heard.directly);
            return Check::new("group-leaves", Judgement::Fail, live, NOT_BY_GROUP)
                .with_remedies([Remedy::by_hand("run the same there: it reports remedies for that host")])
                .with_remedies(querier());
        }
        if direct_rose_at.since(group_rose_at) > STOPPED {
            let live = format!(
                "{name} receives nothing by the group after {:.0} s, while unicast continues",
                group_rose_at.since(began).as_secs_f64()
            );
            return Check::new("group-lasts", Judgement::Fail, live, FORGOTTEN).with_remedies(querier());
        }
        let live = format!("{name} receives this host by the group ({} probes)", heard.by_group);
        Check::new("group-leaves", Judgement::Ok, live, "")
    }

    /// Checks the largest datagrams in both directions, where small ones arrive.
    fn sizes(&self, sent_bytes: u64) -> Vec<Check> {
        let name = self.name();
        // Headers of IP and UDP.
        let headers = if self.address.is_ipv4() { 28 } else { 48 };
        let mut checks = Vec::new();
        let mut judge = |says: &str, largest: u64, sent: u64| {
            let live = format!("{says}: {largest} bytes of payload, {sent} were sent");
            checks.push(if largest >= sent {
                Check::new("largest-datagram", Judgement::Ok, live, "")
            } else {
                let why = "larger ones leave their host unfragmented and do not arrive: a device between has a smaller MTU";
                Check::new("largest-datagram", Judgement::Fail, live, why).with_remedies([
                    Remedy::by_hand("one MTU for all hosts and switches of the network"),
                    Remedy::by_hand(&format!("or datagrams that fit: `mtu={}` on the bus, which counts headers, too", largest + headers)),
                ])
            });
        };
        if self.group.count >= ENOUGH {
            judge(&format!("largest from {name}"), self.group.largest_bytes, self.largest_bytes);
        }
        if let Some(reported) = self.reported.filter(|reported| reported.heard.by_group >= ENOUGH) {
            judge(&format!("largest to {name}"), reported.heard.largest_bytes, sent_bytes);
        }
        checks
    }
}

const NOT_BY_GROUP: &str = "the two reach each other, but the group does not get through: not joined on the interface where it arrives, \
                            dropped by rp_filter or a firewall, or not forwarded by a switch";
const FORGOTTEN: &str = "a switch or bridge that snoops on IGMP forgets members without a querier: groups then stop after some \
                         minutes";

fn not_here() -> [Remedy; 2] {
    [
        Remedy::by_hand(
            "`tallycast doctor watch` reports what this host drops; `tallycast doctor audit` looks at rp_filter and interfaces",
        ),
        Remedy::by_hand("on the switch: IGMP snooping needs a querier, or must be off for this network"),
    ]
}

fn querier() -> [Remedy; 2] {
    [
        Remedy::by_hand("switch an IGMP querier on, on one switch or router of the network"),
        Remedy::by_command(
            "where the bridge is a Linux host, on that",
            "ip link set BRIDGE type bridge mcast_querier 1",
            "ip link set BRIDGE type bridge mcast_querier 0",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u64 = 1;
    const PEER: u64 = 2;

    /// Two hosts that send a probe every 100 ms; `way` has the time in milliseconds until which a path leads from one
    /// to the other.
    struct Scene {
        peers: [Peers; 2],
        now: Instant,
        said: u64,
    }

    impl Scene {
        fn new() -> Self {
            let peers = [OWN, PEER].map(|id| Peers::new(id, Instant::ORIGIN));
            Self { peers, now: Instant::ORIGIN, said: 0 }
        }

        /// Advances by a time in which these paths lead to the other host.
        fn pass(&mut self, seconds: u64, leads: impl Fn(usize, Way, u64) -> bool) {
            for _ in 0..10 * seconds {
                self.now += Duration::from_millis(100);
                for from in 0..2 {
                    for way in [Way::Group, Way::Direct] {
                        let size_bytes = if self.said.is_multiple_of(5) { 1_472 } else { 300 };
                        let knows = way == Way::Group || self.peers[from].known().next().is_some();
                        if knows && leads(from, way, size_bytes) {
                            let probe = self.probe(from);
                            let source = format!("10.0.0.{}:7400", from + 1).parse().unwrap();
                            self.peers[1 - from].hear(self.now, way, probe.clone(), source, size_bytes);
                            if way == Way::Group {
                                self.peers[from].hear(self.now, way, probe, source, size_bytes);
                            }
                        }
                    }
                }
                self.said += 1;
            }
        }

        fn probe(&self, from: usize) -> Probe {
            Probe {
                sender: [OWN, PEER][from],
                station: format!("daq-{}", from + 1),
                answer_port: 7_410,
                number: self.said,
                largest_bytes: 1_472,
                heard: self.peers[from].heard().collect(),
            }
        }

        fn judged(&self, host: usize) -> Vec<(&'static str, Judgement)> {
            let checks = self.peers[host].judge(self.now, 1_472);
            checks.iter().map(|it| (it.name, it.judgement)).filter(|(_, it)| *it != Judgement::Ok).collect()
        }
    }

    #[test]
    fn two_hosts_that_hear_each_other_have_nothing_to_say() {
        let mut scene = Scene::new();
        scene.pass(5, |_, _, _| true);
        assert_eq!((scene.judged(0), scene.judged(1)), (vec![], vec![]));
        let checks = scene.peers[0].judge(scene.now, 1_472);
        let live: Vec<&str> = checks.iter().map(|it| it.live.as_str()).collect();
        assert_eq!(live[1], "from daq-2 (10.0.0.2) 50 of 50 by the group");
        assert_eq!(live[3], "largest from daq-2 (10.0.0.2): 1472 bytes of payload, 1472 were sent");
    }

    #[test]
    fn one_host_alone_cannot_tell() {
        let mut scene = Scene::new();
        scene.pass(3, |_, _, _| false);
        assert_eq!(
            scene.judged(0),
            [("group-joined", Judgement::Fail), ("company", Judgement::Fail)],
            "nor did its own probes come back"
        );
    }

    #[test]
    fn a_group_that_works_in_one_direction_only_is_reported_at_both_ends() {
        let mut scene = Scene::new();
        scene.pass(5, |from, way, _| from == 0 || way == Way::Direct);
        assert_eq!(scene.judged(0), [("group-arrives", Judgement::Fail)]);
        // Its own probes do not come back either in this scene.
        assert_eq!(scene.judged(1), [("group-joined", Judgement::Fail), ("group-leaves", Judgement::Fail)]);
    }

    #[test]
    fn a_group_that_stops_while_the_hosts_still_hear_each_other_was_forgotten_by_a_switch() {
        let mut scene = Scene::new();
        scene.pass(4, |_, _, _| true);
        scene.pass(3, |from, way, _| from == 0 || way == Way::Direct);
        assert_eq!(scene.judged(0), [("group-lasts", Judgement::Fail)]);
        assert_eq!(scene.judged(1), [("group-lasts", Judgement::Fail)]);
        let live = &scene.peers[0].judge(scene.now, 1_472)[1].live;
        assert_eq!(live, "from daq-2 (10.0.0.2) nothing by the group after 4 s, while unicast continues");
    }

    #[test]
    fn a_host_that_went_away_is_not_taken_for_a_group_that_stopped() {
        let mut scene = Scene::new();
        scene.pass(4, |_, _, _| true);
        scene.pass(5, |_, _, _| false);
        assert_eq!(scene.judged(0), []);
    }

    #[test]
    fn datagrams_that_are_too_large_for_the_path_are_reported_at_both_ends() {
        let mut scene = Scene::new();
        scene.pass(5, |from, _, size_bytes| from == 0 || size_bytes < 1_000);
        let largest = ("largest-datagram", Judgement::Fail);
        assert_eq!(scene.judged(0), [("group-arrives", Judgement::Warn), largest]);
        assert_eq!(scene.judged(1), [largest]);
    }

    #[test]
    fn strangers_do_not_fill_the_memory() {
        let mut peers = Peers::new(OWN, Instant::ORIGIN);
        let probe = Scene::new().probe(1);
        let from = "10.0.0.9:1".parse().unwrap();
        for sender in 2..1_000 {
            peers.hear(Instant::ORIGIN, Way::Group, Probe { sender, ..probe.clone() }, from, 300);
        }
        assert_eq!(peers.known().count(), MAX_PEERS);
    }
}
