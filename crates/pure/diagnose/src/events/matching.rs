//! Matching of drop events to the counters that counted the same datagrams.
//!
//! Events and counters show the same losses and are read one after the other. A loss is counted before its event is
//! available, so a snapshot that reads the counters first has the event of each counted loss, and of some that only
//! the next one counts. A loss that was counted and is in no event is *not observed*; it is reported as such, never
//! guessed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use ledger::Stage;
use units::RangeSet;

use crate::causes::{Cause, NOT_JOINED};
use crate::events::DropEvent;
use crate::events::checkpoints::HOLE;
use crate::events::fragments::Fragments;
use crate::watch::counters::evidence;
use crate::watch::finding::{Evidence, Finding, Place, Unit};
use crate::watch::snapshot::Snapshot;

/// Datagrams in drop events, of one sender, and of one stream where a profile matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagrams {
    /// Address of the sender.
    pub source: SocketAddr,
    /// Address of the destination.
    pub destination: SocketAddr,
    /// Stream and its publisher's incarnation; `None` where no profile matches.
    pub stream: Option<(u64, u64)>,
    /// Numbers of the datagrams; empty where no profile matches.
    pub numbers: RangeSet,
    /// Number of datagrams.
    pub count: u64,
}

/// Matcher of drop events and the findings of counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventMatcher {
    fragments: Fragments,
    groups: BTreeMap<(Option<Stage>, Place), Group>,
}

/// Events of one stage and place.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Events since the last snapshot.
    fresh: Bag,
    /// Events from the snapshot before, which no counter has confirmed yet.
    held: Bag,
    /// Number of events beyond the last snapshot's counts: the next one counts them.
    credit: u64,
}

/// Sender, destination and stream of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Flow {
    source: SocketAddr,
    destination: SocketAddr,
    stream: Option<(u64, u64)>,
}

/// Datagrams with their known properties.
#[derive(Clone, Debug, Default)]
struct Bag {
    count: u64,
    /// Numbers and count, by flow.
    datagrams: BTreeMap<Flow, (RangeSet, u64)>,
    /// Counts by reason and place in the kernel.
    reasons: BTreeMap<String, u64>,
    cause: Option<&'static Cause>,
}

impl Bag {
    fn take(&mut self, event: &DropEvent) {
        let stream = event.numbers.map(|numbers| (numbers.stream, numbers.incarnation));
        let flow = Flow { source: event.source, destination: event.destination, stream };
        let (numbers, count) = self.datagrams.entry(flow).or_default();
        numbers.extend(event.numbers.map(|it| it.first..it.last.saturating_add(1)));
        *count += event.count;
        self.count += event.count;
        *self.reasons.entry(event.name()).or_default() += event.count;
        self.cause = self.cause.or_else(|| event.cause());
    }

    fn join(&mut self, other: Self) {
        self.count += other.count;
        for (flow, (numbers, count)) in other.datagrams {
            let entry = self.datagrams.entry(flow).or_default();
            entry.0.extend(numbers.iter());
            entry.1 += count;
        }
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        self.cause = self.cause.or(other.cause);
    }

    fn evidence(&self) -> impl Iterator<Item = Evidence> + '_ {
        // A hole is no event of the kernel.
        let name = |reason: &str| match reason.starts_with(HOLE) {
            true => reason.to_owned(),
            false => format!("kfree_skb {reason}"),
        };
        self.reasons.iter().map(move |(reason, count)| evidence(&name(reason), *count))
    }

    fn list(&self) -> Vec<Datagrams> {
        let of = |(&Flow { source, destination, stream }, (numbers, count)): (&Flow, &(RangeSet, u64))| {
            Datagrams { source, destination, stream, numbers: numbers.clone(), count: *count }
        };
        self.datagrams.iter().map(of).collect()
    }
}

impl EventMatcher {
    /// Takes events that were read after the counters of `snapshot`.
    pub(crate) fn take(&mut self, snapshot: &Snapshot, events: impl IntoIterator<Item = DropEvent>) {
        for event in events.into_iter().filter(DropEvent::is_loss) {
            if let Some(event) = self.fragments.take(event) {
                self.put(snapshot, &event);
            }
        }
        for event in self.fragments.expire(snapshot.at) {
            self.put(snapshot, &event);
        }
    }

    fn put(&mut self, snapshot: &Snapshot, event: &DropEvent) {
        if is_unwanted(event, snapshot) {
            return;
        }
        let stage = event.stage();
        self.groups.entry((stage, place(stage, event, snapshot))).or_default().fresh.take(event);
    }

    /// Adds the datagrams in events to the findings of counters; adds findings for losses that no counter shows.
    ///
    /// With `counts_others`, the counters of the namespace include more ports than the events: those are left out,
    /// and events are reported without them.
    pub(crate) fn settle(&mut self, findings: &mut Vec<Finding>, counts_others: bool) -> Vec<Unplaced> {
        if counts_others {
            findings.retain(|finding| matches!(finding.place, Place::Socket { .. }));
        }
        self.correct_shares(findings);
        findings.retain(|finding| finding.count > 0);
        let mut unplaced = Vec::new();
        for ((stage, place), group) in &mut self.groups {
            let Some(stage) = *stage else {
                unplaced.extend(group.unplaced());
                continue;
            };
            let counted =
                findings.iter_mut().find(|finding| finding.stage == stage && finding.place == *place);
            let is_alone = counts_others && !matches!(place, Place::Socket { .. });
            match counted {
                Some(finding) => group.give(finding),
                None => findings.extend(group.report(stage, place, is_alone)),
            }
        }
        for finding in &mut *findings {
            let nothing_named = finding.datagrams.is_empty() && finding.not_observed.is_none();
            if nothing_named {
                finding.not_observed = Some(finding.count);
            }
        }
        self.groups.retain(|_, group| group.held.count + group.credit > 0);
        unplaced
    }

    /// Corrects shares: if counters show only the sum that a socket dropped for several reasons, events of the same
    /// sum show the shares.
    fn correct_shares(&self, findings: &mut [Finding]) {
        let places: BTreeSet<Place> =
            findings.iter().filter(|it| it.is_apportioned).map(|it| it.place.clone()).collect();
        for place in &places {
            let named = |stage: Stage| self.groups.get(&(Some(stage), place.clone())).map_or(0, Group::named);
            let is_here = |finding: &&mut Finding| finding.place == *place;
            let counted: u64 = findings.iter_mut().filter(is_here).map(|it| it.count).sum();
            let named_here =
                self.groups.iter().filter(|((_, at), _)| at == place).map(|(_, group)| group.named());
            if named_here.sum::<u64>() == counted {
                for finding in findings.iter_mut().filter(is_here) {
                    (finding.count, finding.is_apportioned) = (named(finding.stage), false);
                }
            }
        }
    }

    /// Reports all held events.
    pub(crate) fn finish(&mut self, snapshot: &Snapshot) -> (Vec<Finding>, Vec<Unplaced>) {
        for event in self.fragments.finish() {
            self.put(snapshot, &event);
        }
        let (mut findings, mut unplaced) = (Vec::new(), Vec::new());
        for ((stage, place), mut group) in std::mem::take(&mut self.groups) {
            match stage {
                None => unplaced.extend(group.unplaced()),
                Some(stage) => {
                    findings.extend(group.report(stage, &place, false));
                    findings.extend(group.report(stage, &place, false));
                }
            }
        }
        (findings, unplaced)
    }
}

/// Datagrams that were freed for a reason and at a place of the kernel that belong to no known stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unplaced {
    /// Reason and place, by the kernel's names, with counts.
    pub evidence: Vec<Evidence>,
    /// Datagrams of the events.
    pub datagrams: Vec<Datagrams>,
    /// Number of datagrams.
    pub count: u64,
}

impl Group {
    /// Returns the number of losses that events name and no counter has shown.
    const fn named(&self) -> u64 {
        self.credit + self.held.count + self.fresh.count
    }

    /// Adds the events of its stage and place to a counter's finding.
    fn give(&mut self, finding: &mut Finding) {
        let (named, fresh) = (self.named(), self.fresh.count);
        let mut bag = std::mem::take(&mut self.held);
        bag.join(std::mem::take(&mut self.fresh));
        finding.evidence.extend(bag.evidence());
        finding.datagrams = bag.list();
        // A datagram in fragments fails several times: the number without an event is unknown.
        let is_countable = finding.unit != Unit::Failures || named == 0;
        finding.not_observed = Some(if is_countable { finding.count.saturating_sub(named) } else { 0 });
        self.credit = 0;
        let rest = named.saturating_sub(finding.count).min(fresh);
        if finding.unit == Unit::Datagrams {
            // Either the next snapshot counts them, or none ever does; they have been listed.
            self.held = Bag { count: rest, cause: bag.cause, ..Bag::default() };
        } else {
            self.credit = rest;
        }
    }

    /// Reports losses that no counter showed for a whole snapshot; all of them if no counter will follow.
    fn report(&mut self, stage: Stage, place: &Place, is_alone: bool) -> Option<Finding> {
        let fresh = std::mem::take(&mut self.fresh);
        let mut bag = std::mem::replace(&mut self.held, fresh);
        self.credit = 0;
        if is_alone {
            bag.join(std::mem::take(&mut self.held));
        }
        let cause = bag.cause.filter(|_| bag.count > 0)?;
        Some(Finding {
            stage,
            place: place.clone(),
            count: bag.count,
            unit: Unit::Datagrams,
            is_apportioned: false,
            evidence: bag.evidence().collect(),
            levels: Vec::new(),
            cause: None,
            why: cause.why.to_owned(),
            remedies: cause.remedies(place, None),
            datagrams: bag.list(),
            not_observed: Some(0),
        })
    }

    fn unplaced(&mut self) -> Option<Unplaced> {
        let bag = std::mem::take(&mut self.fresh);
        let (evidence, datagrams) = (bag.evidence().collect(), bag.list());
        (bag.count > 0).then_some(Unplaced { evidence, datagrams, count: bag.count })
    }
}

/// Returns the place of an event on the host, as the counters of its stage have it.
fn place(stage: Option<Stage>, event: &DropEvent, snapshot: &Snapshot) -> Place {
    let of_socket = || {
        let by_cookie = event.socket.and_then(|cookie| snapshot.socket(cookie));
        let mut bound = snapshot.sockets.iter().filter(|socket| is_bound(socket.local, event.destination));
        // If the kernel does not name the socket, the only possible one.
        let by_address = bound.next().filter(|_| bound.next().is_none() && event.socket.is_none());
        by_cookie.or(by_address).map_or(Place::Namespace, |socket| socket.place())
    };
    let of_device = || {
        let name = event.device.and_then(|device| snapshot.devices.get(&device));
        name.map_or(Place::Namespace, |name| Place::Device(name.clone()))
    };
    match stage {
        Some(Stage::ReceiverSocketBuffer | Stage::ReceiverSocketFilter | Stage::ReceiverUdpMemory) => {
            of_socket()
        }
        Some(Stage::SenderQdisc | Stage::SenderNic | Stage::Network | Stage::ReceiverNic) => of_device(),
        // A firewall has no counter; a program on the device has the device's, or its driver's.
        Some(Stage::ReceiverHook) if is_of_device(event) => of_device(),
        Some(Stage::ReceiverBacklog) => Place::Host,
        _ => Place::Namespace,
    }
}

/// Returns whether a program on the device dropped it, which the device counts.
fn is_of_device(event: &DropEvent) -> bool {
    let is_of_driver = |location: &str| location.ends_with("_xdp_rcv_skb");
    &*event.reason == "TC_INGRESS" || event.location.as_deref().is_some_and(is_of_driver)
}

/// Returns whether it was sent to a group and no socket of the namespace is bound to receive it: a switch without IGMP
/// snooping brings groups that were joined by other hosts, and a card lets them in. Nothing is lost to a reader.
fn is_unwanted(event: &DropEvent, snapshot: &Snapshot) -> bool {
    let is_bound = |local| match event.destination.port() {
        // A later fragment has no ports.
        0 => is_bound(local, SocketAddr::new(event.destination.ip(), local.port())),
        _ => is_bound(local, event.destination),
    };
    let is_not_joined = || event.cause().is_some_and(|cause| cause.name == NOT_JOINED);
    event.destination.ip().is_multicast()
        && is_not_joined()
        && !snapshot.sockets.iter().any(|socket| is_bound(socket.local))
}

pub(crate) fn is_bound(local: SocketAddr, destination: SocketAddr) -> bool {
    // A socket of version 6 may be bound to a mapped address of version 4.
    let address = local.ip().to_canonical();
    local.port() == destination.port() && (address.is_unspecified() || address == destination.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Numbers;
    use crate::events::tests::event;
    use crate::watch::snapshot::tests::snapshot;
    use crate::{Losses, Observed, Socket, Watch};
    use units::Random;

    const COOKIE: u64 = 7;

    fn socket(drops: u32) -> Socket {
        let local = "10.0.0.2:7400".parse().unwrap();
        Socket { cookie: COOKIE, local, buffer_bytes: 8_192, drops, owner: None }
    }

    /// Returns a snapshot of a socket that dropped `drops` datagrams because its buffer was full.
    fn full(seconds: u64, drops: u32) -> Snapshot {
        let count = u64::from(drops);
        let mut snapshot = snapshot(seconds, &[("UdpRcvbufErrors", count), ("UdpInErrors", count)]);
        snapshot.sockets = vec![socket(drops)];
        snapshot.early_drops = BTreeMap::from([(COOKIE, drops)]);
        snapshot
    }

    fn numbered(reason: &str, first: u64, last: u64) -> DropEvent {
        let numbers = Some(Numbers { stream: 5, incarnation: 1, first, last });
        DropEvent { numbers, count: last - first + 1, socket: Some(COOKIE), ..event(reason) }
    }

    fn observed(events: Vec<DropEvent>) -> Option<Observed> {
        Some(Observed { events, is_of_ports: false })
    }

    /// Stage, count, numbers and number not observed.
    type Reported = (Stage, u64, Vec<(u64, u64)>, u64);

    fn reported(losses: &Losses) -> Vec<Reported> {
        let ranges = |finding: &Finding| {
            let numbers = finding.datagrams.iter().flat_map(|it| it.numbers.iter());
            numbers.map(|range| (range.start, range.end - 1)).collect()
        };
        let of = |it: &Finding| (it.stage, it.count, ranges(it), it.not_observed.unwrap());
        losses.findings.iter().map(of).collect()
    }

    #[test]
    fn what_was_counted_is_named() {
        let mut watch = Watch::begin(full(0, 0));
        let losses = watch.compare(full(1, 9), observed(vec![numbered("SOCKET_RCVBUFF", 3, 11)]));
        assert_eq!(reported(&losses), [(Stage::ReceiverSocketBuffer, 9, vec![(3, 11)], 0)]);
        let evidence = losses.findings[0].evidence.last().unwrap();
        assert_eq!((evidence.counter.as_str(), evidence.rise), ("kfree_skb SOCKET_RCVBUFF", 9));
        assert_eq!(reported(&watch.finish()), []);
    }

    #[test]
    fn what_no_event_names_is_not_observed() {
        let mut watch = Watch::begin(full(0, 0));
        let losses = watch.compare(full(1, 9), observed(vec![numbered("SOCKET_RCVBUFF", 3, 6)]));
        assert_eq!(reported(&losses), [(Stage::ReceiverSocketBuffer, 9, vec![(3, 6)], 5)]);
        let losses = watch.compare(full(2, 10), observed(vec![]));
        assert_eq!(reported(&losses), [(Stage::ReceiverSocketBuffer, 1, vec![], 1)]);
    }

    #[test]
    fn without_events_nothing_is_said_of_what_they_would_have_named() {
        let losses = Watch::begin(full(0, 0)).compare(full(1, 9), None);
        assert_eq!((losses.findings[0].not_observed, &losses.findings[0].datagrams), (None, &vec![]));
    }

    #[test]
    fn failures_that_are_counted_for_each_fragment_are_not_taken_for_datagrams() {
        let lost = || numbered("FRAG_REASM_TIMEOUT", 0, 1);
        let losses = Watch::begin(snapshot(0, &[]))
            .compare(snapshot(1, &[("IpReasmFails", 12)]), observed(vec![lost()]));
        assert_eq!(reported(&losses), [(Stage::ReceiverReassembly, 12, vec![(0, 1)], 0)]);
        let losses =
            Watch::begin(snapshot(0, &[])).compare(snapshot(1, &[("IpReasmFails", 12)]), observed(vec![]));
        assert_eq!(reported(&losses), [(Stage::ReceiverReassembly, 12, vec![], 12)]);
    }

    #[test]
    fn an_event_that_comes_before_its_counter_waits_for_it() {
        let mut watch = Watch::begin(full(0, 0));
        let losses = watch.compare(full(1, 0), observed(vec![numbered("SOCKET_RCVBUFF", 0, 3)]));
        assert_eq!(reported(&losses), []);
        let losses = watch.compare(full(2, 4), observed(vec![]));
        assert_eq!(reported(&losses), [(Stage::ReceiverSocketBuffer, 4, vec![(0, 3)], 0)]);
        // A part of them.
        let losses = watch.compare(full(3, 6), observed(vec![numbered("SOCKET_RCVBUFF", 4, 9)]));
        assert_eq!(reported(&losses), [(Stage::ReceiverSocketBuffer, 2, vec![(4, 9)], 0)]);
        let losses = watch.compare(full(4, 10), observed(vec![]));
        assert_eq!(reported(&losses), [(Stage::ReceiverSocketBuffer, 4, vec![], 0)]);
    }

    #[test]
    fn losses_without_a_counter_are_reported_by_their_events_a_snapshot_later_or_at_the_end() {
        let not_joined =
            || DropEvent { location: Some("ip_rcv_finish_core".into()), ..numbered("NOT_SPECIFIED", 0, 9) };
        let mut watch = Watch::begin(snapshot(0, &[]));
        assert_eq!(reported(&watch.compare(snapshot(1, &[]), observed(vec![not_joined()]))), []);
        let losses = watch.compare(snapshot(2, &[]), observed(vec![not_joined()]));
        assert_eq!(reported(&losses), [(Stage::ReceiverIp, 10, vec![(0, 9)], 0)]);
        assert_eq!(losses.findings[0].evidence[0].counter, "kfree_skb NOT_SPECIFIED @ ip_rcv_finish_core");
        assert_eq!(reported(&watch.finish()), [(Stage::ReceiverIp, 10, vec![(0, 9)], 0)]);
        assert_eq!(reported(&watch.finish()), []);
    }

    #[test]
    fn a_group_that_no_socket_wanted_is_no_loss_and_one_that_a_socket_is_bound_to_is() {
        let to = |destination: &str, location: &str| DropEvent {
            location: Some(location.into()),
            destination: destination.parse().unwrap(),
            ..numbered("NOT_SPECIFIED", 0, 9)
        };
        let destinations = ["239.84.1.2:7400", "[ff15::1]:7400", "239.84.1.2:0", "10.0.0.2:7400"];
        for (local, lost) in [
            ("10.0.0.2:7400", [false, false, false, true]),
            ("239.84.1.2:7400", [true, false, true, true]),
            ("239.84.1.2:7401", [false, false, true, true]),
            ("[::ffff:239.84.1.2]:7400", [true, false, true, true]),
            ("0.0.0.0:7400", [true, true, true, true]),
        ] {
            for (destination, is_lost) in destinations.iter().zip(lost) {
                let bound = |seconds| {
                    let sockets = vec![Socket { local: local.parse().unwrap(), ..socket(0) }];
                    Snapshot { sockets, ..snapshot(seconds, &[]) }
                };
                let mut watch = Watch::begin(bound(0));
                let location =
                    if destination.starts_with('[') { "ip6_mc_input" } else { "ip_rcv_finish_core" };
                watch.compare(bound(1), observed(vec![to(destination, location)]));
                let expected = if is_lost { vec![(Stage::ReceiverIp, 10, vec![(0, 9)], 0)] } else { vec![] };
                assert_eq!(reported(&watch.finish()), expected, "{destination}, and a socket at {local}");
            }
        }
    }

    #[test]
    fn of_some_ports_only_the_namespaces_counters_say_nothing() {
        let no_socket = DropEvent { socket: None, ..numbered("NO_SOCKET", 5, 6) };
        let events = Observed { events: vec![no_socket], is_of_ports: true };
        let losses =
            Watch::begin(snapshot(0, &[])).compare(snapshot(1, &[("UdpNoPorts", 1_000)]), Some(events));
        assert_eq!(reported(&losses), [(Stage::ReceiverNoSocket, 2, vec![(5, 6)], 0)]);
    }

    #[test]
    fn for_which_of_two_reasons_a_socket_dropped_events_say() {
        let mut after = full(1, 0);
        after.counters.extend([("UdpRcvbufErrors".to_owned(), 30), ("UdpInErrors".to_owned(), 40)]);
        let mut other = socket(36);
        other.cookie = 8;
        after.sockets = vec![socket(4), other];
        let of =
            |reason, cookie, first, last| DropEvent { socket: Some(cookie), ..numbered(reason, first, last) };
        let events = vec![
            of("SOCKET_FILTER", COOKIE, 0, 2),
            of("SOCKET_RCVBUFF", COOKIE, 3, 3),
            of("SOCKET_RCVBUFF", 8, 0, 28),
            of("SOCKET_FILTER", 8, 29, 35),
        ];
        let mut before = full(0, 0);
        before.sockets.push(Socket { cookie: 8, ..socket(0) });
        let reported = |events| {
            let losses = Watch::begin(before.clone()).compare(after.clone(), observed(events));
            losses.findings.iter().map(|it| (it.stage, it.count, it.is_apportioned)).collect::<Vec<_>>()
        };
        let (buffer, filter) = (Stage::ReceiverSocketBuffer, Stage::ReceiverSocketFilter);
        let expected = [(buffer, 1, false), (filter, 3, false), (buffer, 29, false), (filter, 7, false)];
        assert_eq!(reported(events), expected);
        // None for the other reason is no loss for it.
        let events = vec![of("SOCKET_FILTER", COOKIE, 0, 3), of("SOCKET_RCVBUFF", 8, 0, 35)];
        assert_eq!(reported(events), [(filter, 4, false), (buffer, 36, false)]);
    }

    #[test]
    fn a_socket_that_the_kernel_does_not_name_is_the_only_possible_one() {
        let event = DropEvent { socket: None, ..numbered("SOCKET_RCVBUFF", 0, 3) };
        let mut watch = Watch::begin(full(0, 0));
        let losses = watch.compare(full(1, 4), observed(vec![event]));
        assert_eq!(reported(&losses), [(Stage::ReceiverSocketBuffer, 4, vec![(0, 3)], 0)]);
    }

    #[test]
    fn drops_without_a_stage_are_reported_as_unplaced() {
        let event = DropEvent { location: Some("new_function".into()), ..numbered("NOT_SPECIFIED", 0, 3) };
        let losses = Watch::begin(snapshot(0, &[])).compare(snapshot(1, &[]), observed(vec![event]));
        assert_eq!((reported(&losses), losses.unplaced.len(), losses.unplaced[0].count), (vec![], 1, 4));
        assert_eq!(losses.unplaced[0].evidence[0].counter, "kfree_skb NOT_SPECIFIED @ new_function");
    }

    #[test]
    fn every_loss_is_reported_once_and_named_once_whenever_it_comes() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut watch = Watch::begin(full(0, 0));
            let (mut number, mut counted, mut named, mut unnamed, mut missed) =
                (0_u32, 0, RangeSet::default(), 0, 0);
            for seconds in 1..20 {
                let mut events = Vec::new();
                let mut drop_some = |number: &mut u32| {
                    for _ in 0..random.below(4) {
                        let count = 1 + random.below(9) as u32;
                        // An event is lost now and then.
                        if random.chance(0.9) {
                            let first = u64::from(*number);
                            events.push(numbered("SOCKET_RCVBUFF", first, first + u64::from(count) - 1));
                        } else {
                            missed += u64::from(count);
                        }
                        *number += count;
                    }
                };
                drop_some(&mut number);
                let snapshot = full(seconds, number);
                // Between the counters' reading and the events'.
                drop_some(&mut number);
                for (_, count, ranges, not_observed) in reported(&watch.compare(snapshot, observed(events))) {
                    (counted, unnamed) = (counted + count, unnamed + not_observed);
                    for (first, last) in ranges {
                        assert_eq!(
                            named.insert(first..last + 1),
                            last - first + 1,
                            "seed {seed}: named twice"
                        );
                    }
                }
            }
            for (_, count, ranges, not_observed) in
                reported(&watch.compare(full(20, number), observed(vec![])))
            {
                (counted, unnamed) = (counted + count, unnamed + not_observed);
                named.extend(ranges.into_iter().map(|(first, last)| first..last + 1));
            }
            assert_eq!(counted, u64::from(number), "seed {seed}");
            assert_eq!(named.count_in(0..u64::MAX) + missed, u64::from(number), "seed {seed}");
            assert_eq!(unnamed, missed, "seed {seed}");
        }
    }

    #[test]
    fn a_socket_is_bound_to_its_own_address_also_where_that_is_mapped() {
        let is_bound = |local: &str, to: &str| is_bound(local.parse().unwrap(), to.parse().unwrap());
        assert!(is_bound("10.0.0.2:7", "10.0.0.2:7") && is_bound("[::]:7", "10.0.0.2:7"));
        assert!(
            is_bound("[::ffff:10.0.0.2]:7", "10.0.0.2:7") && is_bound("[::ffff:0.0.0.0]:7", "10.0.0.2:7")
        );
        assert!(!is_bound("[::ffff:10.0.0.3]:7", "10.0.0.2:7") && !is_bound("10.0.0.2:8", "10.0.0.2:7"));
    }
}
