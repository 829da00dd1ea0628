//! Losses between one snapshot of a host and the next.

pub(crate) mod buffer;
pub(crate) mod buffer_cause;
pub(crate) mod counters;
pub(crate) mod driver;
pub(crate) mod finding;
pub(crate) mod snapshot;
mod softirq;
pub(crate) mod stall;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ledger::Stage;
use serde::{Deserialize, Serialize};

use crate::causes::{CAUSES, Cause};
use crate::events::DropEvent;
use crate::events::matching::{EventMatcher, Unplaced};
use crate::{BufferCause, Change, Remedy};
use buffer::larger_buffer;
use counters::{Ahead, evidence, of_counters, sum};
use finding::{Evidence, Finding, Unit};
use snapshot::{Owner, Snapshot, Socket};

/// Losses between two snapshots, as far as counters show them.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Losses {
    /// Findings, one for each stage and place.
    pub findings: Vec<Finding>,
    /// Minimum number of datagrams that the kernel counted for sockets which no longer exist.
    pub not_observed: u64,
    /// Datagrams in events of no known stage.
    pub unplaced: Vec<Unplaced>,
    /// Number of datagrams delivered to readers of the namespace in the same time.
    pub delivered: u64,
    /// Number of packets processed by the whole host in the same time, for any namespace.
    pub processed: u64,
}

impl Losses {
    /// Adds later losses.
    pub fn join(&mut self, later: Self) {
        self.findings.extend(later.findings);
        self.not_observed = self.not_observed.saturating_add(later.not_observed);
        self.unplaced.extend(later.unplaced);
        self.delivered = self.delivered.saturating_add(later.delivered);
        self.processed = self.processed.saturating_add(later.processed);
    }
}

/// Drop events of one namespace, read after the counters of a snapshot.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Observed {
    /// Events of datagrams freed unread.
    pub events: Vec<DropEvent>,
    /// True if only some ports are watched: the counters of the namespace cover others, too.
    pub is_of_ports: bool,
}

/// Series of snapshots of a host: every drop of a socket is reported once, as soon as its reason is known.
///
/// The kernel counts reasons for the whole namespace, and drops for each socket. With one reason, or one socket, the
/// result is exact; otherwise shares are estimated, and marked.
#[derive(Clone, Debug)]
pub struct Watch {
    before: Snapshot,
    /// Drops of sockets that have been reported, by their cookies.
    reported: BTreeMap<u64, u32>,
    event_matcher: EventMatcher,
    ahead: Ahead,
    /// Drops that the last snapshot counted by reason but not as errors yet: these follow a moment later.
    early_reasons: u64,
}

impl Watch {
    /// Starts with a first snapshot: losses before it are not reported.
    #[must_use]
    pub fn begin(first: Snapshot) -> Self {
        let reported = first.sockets.iter().map(|socket| (socket.cookie, socket.drops)).collect();
        Self {
            before: first,
            reported,
            event_matcher: EventMatcher::default(),
            ahead: Ahead::default(),
            early_reasons: 0,
        }
    }

    /// Returns the last snapshot.
    #[must_use]
    pub const fn last(&self) -> &Snapshot {
        &self.before
    }

    /// Returns the drops of sockets that are not reported yet, because the kernel had not counted the reason when it
    /// was read.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.before.sockets.iter().map(|socket| self.unreported(socket)).sum()
    }

    /// Reports losses since the last snapshot: by counters, and by events where there are any.
    pub fn compare(&mut self, after: Snapshot, observed: Option<Observed>) -> Losses {
        let before = std::mem::replace(&mut self.before, after);
        let reasons = Reasons::between(&before, &self.before, &mut self.early_reasons);
        let mut findings = self.of_sockets(&before, &reasons);
        let after = &self.before;
        findings.extend(of_counters(&before, after, &mut self.ahead));
        let not_observed = reasons.surplus(&before, after);
        let unplaced = observed.map(|Observed { events, is_of_ports }| {
            self.event_matcher.take(after, events);
            self.event_matcher.settle(&mut findings, is_of_ports)
        });
        driver::explain(&mut findings, &before, after);
        softirq::explain(&mut findings, &before, after);
        stall::add_levels(&mut findings, after);
        let delivered =
            sum(["UdpInDatagrams", "Udp6InDatagrams"].into_iter().map(|name| after.rise(&before, name)));
        let processed = sum(after.rises(&before, "softnet_processed").map(|(_, rise)| rise));
        Losses { findings, not_observed, unplaced: unplaced.unwrap_or_default(), delivered, processed }
    }

    /// Ends the series: reports losses in events that no counter has confirmed yet.
    pub fn finish(&mut self) -> Losses {
        let (findings, unplaced) = self.event_matcher.finish(&self.before);
        Losses { findings, not_observed: self.pending(), unplaced, delivered: 0, processed: 0 }
    }

    /// Reports drops of sockets; those during the reading of a snapshot follow with the next, which counts their
    /// reason.
    fn of_sockets(&mut self, before: &Snapshot, reasons: &Reasons) -> Vec<Finding> {
        let after = &self.before;
        let mut findings = Vec::new();
        if reasons.sum() > 0 {
            for socket in &after.sockets {
                let of = |(stage, count)| finding(before, after, socket, stage, count, reasons);
                findings.extend(reasons.shares(self.unreported(socket)).into_iter().map(of));
                self.reported.insert(socket.cookie, socket.drops);
            }
        }
        self.reported.retain(|cookie, _| after.socket(*cookie).is_some());
        findings
    }

    /// Returns a socket's drops that were not reported; all of them if the socket is new.
    fn unreported(&self, socket: &Socket) -> u64 {
        socket.drops.wrapping_sub(self.reported.get(&socket.cookie).copied().unwrap_or(0)).into()
    }
}

/// Drops of all sockets of the namespace, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reasons {
    /// Drops because receive buffers were full.
    buffer: u64,
    /// Drops by socket filters.
    filter: u64,
    /// Drops because the host's UDP memory was used up.
    memory: u64,
}

impl Reasons {
    /// Returns the reasons between two snapshots. The kernel counts the reason first and the error then; `early` is
    /// the number of reasons without an error in the snapshot before, and is updated for this one.
    fn between(before: &Snapshot, after: &Snapshot, early: &mut u64) -> Self {
        let rise = |name: &str| {
            after.rise(before, &format!("Udp{name}")) + after.rise(before, &format!("Udp6{name}"))
        };
        let (buffer, checksum, reported_memory) =
            (rise("RcvbufErrors"), rise("InCsumErrors"), rise("MemErrors"));
        let with_reason = sum([buffer, checksum, reported_memory].into_iter());
        let (errors, known) = (rise("InErrors"), with_reason.saturating_add(*early));
        // Drops by a filter are errors without a counter of their own.
        let filter = errors.saturating_sub(known);
        *early = known.saturating_sub(errors).min(with_reason);
        // Since Linux 6.18 at the latest, only the socket's own counter rises if memory is short.
        let for_certain: u64 =
            after.early_drops.iter().map(|(cookie, now)| certain(before, *cookie, *now)).sum();
        let silent_memory = for_certain.saturating_sub(with_reason.saturating_add(filter));
        Self { buffer, filter, memory: reported_memory + silent_memory }
    }

    const fn sum(&self) -> u64 {
        self.buffer + self.filter + self.memory
    }

    fn each(&self) -> impl Iterator<Item = (Stage, u64)> {
        let reasons = [
            (Stage::ReceiverSocketBuffer, self.buffer),
            (Stage::ReceiverSocketFilter, self.filter),
            (Stage::ReceiverUdpMemory, self.memory),
        ];
        reasons.into_iter().filter(|(_, count)| *count > 0)
    }

    /// Divides the drops of one socket among the reasons: by share, the remainder to the largest.
    fn shares(&self, dropped: u64) -> Vec<(Stage, u64)> {
        let sum = u128::from(self.sum());
        let share =
            |count: u64| u64::try_from(u128::from(dropped) * u128::from(count) / sum).unwrap_or(u64::MAX);
        let mut shares: Vec<_> = self.each().map(|(stage, count)| (stage, share(count))).collect();
        let rest = dropped - shares.iter().map(|(_, count)| count).sum::<u64>();
        if let Some((_, largest)) = shares.iter_mut().max_by_key(|(_, count)| *count) {
            *largest += rest;
        }
        shares.retain(|(_, count)| *count > 0);
        shares
    }

    /// Returns the count beyond the possible drops of all existing sockets: it belongs to others.
    fn surplus(&self, before: &Snapshot, after: &Snapshot) -> u64 {
        let then = |cookie| before.early_drops.get(&cookie).copied().unwrap_or(0);
        let at_most =
            after.sockets.iter().map(|socket| u64::from(socket.drops.wrapping_sub(then(socket.cookie))));
        self.sum().saturating_sub(at_most.sum())
    }

    const fn is_one(&self) -> bool {
        (self.buffer > 0) as u8 + (self.filter > 0) as u8 + (self.memory > 0) as u8 <= 1
    }
}

/// Returns the drops of a socket after the counters of the earlier snapshot were read and before those of the later.
fn certain(before: &Snapshot, cookie: u64, now: u32) -> u64 {
    let then = before.socket(cookie);
    // A socket that was listed early in one snapshot and late in the other may have decreased by that difference.
    let rise = now.wrapping_sub(then.map_or(0, |socket| socket.drops));
    if rise > u32::MAX / 2 { 0 } else { rise.into() }
}

fn finding(
    before: &Snapshot,
    after: &Snapshot,
    socket: &Socket,
    stage: Stage,
    count: u64,
    reasons: &Reasons,
) -> Finding {
    let cause = (stage == Stage::ReceiverSocketBuffer).then(|| cause(before, after, socket)).flatten();
    let mut evidence = evidence_for(before, after, socket, stage, count);
    if let Some((cause, owners)) = cause.zip(owners(before, socket)) {
        evidence.extend(stall::evidence_of(cause, before, after, owners));
    }
    let why = match stage {
        Stage::ReceiverSocketBuffer => {
            let buffer = format!("the receive buffer of {} bytes was full", socket.buffer_bytes);
            cause.map_or_else(|| buffer.clone(), |cause| format!("{buffer}: {cause}"))
        }
        _ => of_stage(stage).why.to_owned(),
    };
    Finding {
        stage,
        place: socket.place(),
        count,
        unit: Unit::DatagramsOrTrains,
        is_apportioned: !reasons.is_one(),
        evidence,
        levels: Vec::new(),
        cause,
        why,
        remedies: remedies((before, after), socket, stage, count, cause),
        datagrams: Vec::new(),
        not_observed: None,
    }
}

fn cause(before: &Snapshot, after: &Snapshot, socket: &Socket) -> Option<BufferCause> {
    let owners = owners(before, socket)?;
    let cause = BufferCause::find(owners.0, owners.1, after.at.since(before.at))?;
    Some(stall::told_apart(cause, before, after, owners))
}

/// Returns the owner of a socket in the previous snapshot and now.
fn owners<'l>(before: &'l Snapshot, socket: &'l Socket) -> Option<(&'l Owner, &'l Owner)> {
    Some((before.socket(socket.cookie)?.owner.as_ref()?, socket.owner.as_ref()?))
}

fn evidence_for(
    before: &Snapshot,
    after: &Snapshot,
    socket: &Socket,
    stage: Stage,
    count: u64,
) -> Vec<Evidence> {
    let name = match stage {
        Stage::ReceiverSocketBuffer => "RcvbufErrors",
        Stage::ReceiverSocketFilter => "InErrors",
        _ => "MemErrors",
    };
    // A socket bound to any address receives both versions, counted by that of the datagram; one of version 6 may be
    // bound to a mapped one of 4.
    let versions: &[&str] = match socket.local.ip().to_canonical() {
        IpAddr::V4(_) => &["Udp"],
        IpAddr::V6(address) if address.is_unspecified() => &["Udp", "Udp6"],
        IpAddr::V6(_) => &["Udp6"],
    };
    let of_namespace = versions.iter().map(|version| format!("{version}{name}"));
    let of_namespace = of_namespace.map(|name| evidence(&name, after.rise(before, &name)));
    let of_socket = std::iter::once(evidence("SK_MEMINFO_DROPS", count));
    of_socket.chain(of_namespace.filter(|it| it.rise > 0)).collect()
}

fn remedies(
    snapshots: (&Snapshot, &Snapshot),
    socket: &Socket,
    stage: Stage,
    count: u64,
    cause: Option<BufferCause>,
) -> Vec<Remedy> {
    let pid = socket.owner.as_ref().map(|owner| owner.pid);
    match (stage, cause) {
        // A larger buffer would only be full later.
        (Stage::ReceiverSocketBuffer, Some(BufferCause::TooSlow)) => vec![Remedy::by_hand(
            "let the reader do less for each datagram: many with one call (recvmmsg), trains (UDP_GRO), several sockets (SO_REUSEPORT)",
        )],
        (Stage::ReceiverSocketBuffer, Some(BufferCause::Starved)) => {
            let fifo = pid.map(|pid| {
                Remedy::by_change("let the reader run before other programs", Change::Priority { pid })
            });
            fifo.into_iter().chain(larger_buffer(snapshots, socket, count)).collect()
        }
        (Stage::ReceiverSocketBuffer, Some(BufferCause::BlockedBySwap)) => {
            let stay = Remedy::by_hand(
                "keep the reader in memory (mlockall, `MemorySwapMax=0` of its unit), or let other programs use less of it",
            );
            [stay].into_iter().chain(larger_buffer(snapshots, socket, count)).collect()
        }
        (Stage::ReceiverSocketBuffer, Some(BufferCause::Blocked | BufferCause::BlockedByDisk)) => {
            let elsewhere = Remedy::by_hand(
                "let another thread write to the disk, or log less: the one that receives must not wait for it",
            );
            [elsewhere].into_iter().chain(larger_buffer(snapshots, socket, count)).collect()
        }
        (Stage::ReceiverSocketBuffer, _) => larger_buffer(snapshots, socket, count),
        _ => of_stage(stage).remedies(&socket.place(), None),
    }
}

/// Returns the cause of a stage of sockets, which has only one.
fn of_stage(stage: Stage) -> &'static Cause {
    CAUSES.iter().find(|cause| cause.stage == stage).expect("the table has the stages of sockets")
}

#[cfg(test)]
mod tests {
    use super::snapshot::tests::snapshot;
    use super::snapshot::{Owner, Settings, Thread};
    use super::*;
    use crate::Place;
    use units::Random;

    fn socket(cookie: u64, drops: u32) -> Socket {
        let local = "127.0.0.1:7400".parse().unwrap();
        Socket { cookie, local, buffer_bytes: 212_992, drops, owner: None }
    }

    /// Adds sockets with the given drops before and after the counters were read.
    fn with(mut snapshot: Snapshot, sockets: &[(u64, u32, u32)]) -> Snapshot {
        snapshot.early_drops = sockets.iter().map(|(cookie, early, _)| (*cookie, *early)).collect();
        snapshot.sockets = sockets.iter().map(|(cookie, _, late)| socket(*cookie, *late)).collect();
        snapshot
    }

    fn losses(before: &Snapshot, after: &Snapshot) -> Losses {
        Watch::begin(before.clone()).compare(after.clone(), None)
    }

    #[test]
    fn what_is_given_to_readers_is_of_the_namespace_and_what_is_taken_in_of_all_processors() {
        let after = [("UdpInDatagrams", 3), ("Udp6InDatagrams", 4), ("softnet_processed/cpu0", 50)];
        let seen = losses(
            &snapshot(0, &[]),
            &snapshot(1, &[&after[..], &[("softnet_processed/cpu1", 60)]].concat()),
        );
        assert_eq!((seen.delivered, seen.processed), (7, 110));
        assert_eq!(seen.findings, []);
    }

    #[test]
    fn what_two_looks_saw_is_counted_together_and_never_beyond_what_there_is_room_for() {
        let seen =
            |delivered, processed| Losses { delivered, processed, not_observed: 1, ..Losses::default() };
        let mut all = seen(3, 5);
        all.join(seen(4, u64::MAX));
        assert_eq!((all.delivered, all.processed, all.not_observed), (7, u64::MAX, 2));
        let changed = [("softnet_processed/cpu0", u64::MAX), ("softnet_processed/cpu1", 9)];
        assert_eq!(losses(&snapshot(0, &[]), &snapshot(1, &changed)).processed, u64::MAX);
    }

    fn reported(losses: &Losses) -> Vec<(u64, Stage, u64, bool)> {
        let of = |it: &Finding| match it.place {
            Place::Socket { cookie, .. } => (cookie, it.stage, it.count, it.is_apportioned),
            _ => (0, it.stage, it.count, it.is_apportioned),
        };
        losses.findings.iter().map(of).collect()
    }

    #[test]
    fn one_reason_is_that_of_every_socket() {
        let before = with(snapshot(0, &[]), &[(1, 5, 5), (2, 0, 0)]);
        let counters = [("UdpRcvbufErrors", 12), ("UdpInErrors", 12)];
        let after = with(snapshot(1, &counters), &[(1, 15, 15), (2, 2, 2), (3, 0, 0)]);
        let losses = losses(&before, &after);
        let buffer = Stage::ReceiverSocketBuffer;
        assert_eq!(reported(&losses), [(1, buffer, 10, false), (2, buffer, 2, false)]);
        assert_eq!(losses.not_observed, 0);
    }

    #[test]
    fn an_error_that_is_no_buffer_and_no_checksum_is_a_filter() {
        let before = with(snapshot(0, &[]), &[(1, 0, 0)]);
        let counters = [("Udp6InErrors", 500), ("Udp6InCsumErrors", 100)];
        let losses = losses(&before, &with(snapshot(1, &counters), &[(1, 400, 400)]));
        let expected =
            [(1, Stage::ReceiverSocketFilter, 400, false), (0, Stage::ReceiverChecksum, 100, false)];
        assert_eq!(reported(&losses), expected);
    }

    #[test]
    fn an_error_that_is_counted_a_moment_after_its_reason_is_no_filter() {
        let at = |seconds, drops, [buffer, checksum, errors]: [u64; 3]| {
            let counters =
                [("UdpRcvbufErrors", buffer), ("UdpInCsumErrors", checksum), ("UdpInErrors", errors)];
            with(snapshot(seconds, &counters), &[(1, drops, drops)])
        };
        let mut watch = Watch::begin(at(0, 0, [0, 0, 0]));
        let mut reported = |snapshot| {
            watch.compare(snapshot, None).findings.iter().map(|it| (it.stage, it.count)).collect::<Vec<_>>()
        };
        let (buffer, filter) = (Stage::ReceiverSocketBuffer, Stage::ReceiverSocketFilter);
        // One of ten, then two, and one with a wrong checksum.
        assert_eq!(reported(at(1, 10, [10, 0, 9])), [(buffer, 10)]);
        assert_eq!(reported(at(2, 20, [20, 1, 18])), [(buffer, 10), (Stage::ReceiverChecksum, 1)]);
        assert_eq!(reported(at(3, 20, [20, 1, 21])), []);
        assert_eq!(reported(at(4, 23, [20, 1, 24])), [(filter, 3)]);
        // A reason that never follows does not hide later ones for ever.
        assert_eq!(reported(at(5, 33, [30, 1, 24])), [(buffer, 10)]);
        assert_eq!(reported(at(6, 33, [30, 1, 24])), []);
        assert_eq!(reported(at(7, 36, [30, 1, 27])), [(filter, 3)]);
    }

    #[test]
    fn drops_that_no_count_of_the_namespace_knows_are_for_want_of_memory() {
        let before = with(snapshot(0, &[]), &[(1, 0, 0)]);
        let losses = losses(&before, &with(snapshot(1, &[]), &[(1, 3_826, 3_826)]));
        assert_eq!(reported(&losses), [(1, Stage::ReceiverUdpMemory, 3_826, false)]);
    }

    #[test]
    fn drops_between_the_readings_of_one_snapshot_are_reported_with_the_next() {
        let counters = |count| [("UdpRcvbufErrors", count), ("UdpInErrors", count)];
        // Before the first reading of the counters, and after the second.
        let mut watch = Watch::begin(with(snapshot(0, &counters(7)), &[(1, 0, 7)]));
        let losses = watch.compare(with(snapshot(1, &counters(7)), &[(1, 7, 20)]), None);
        assert_eq!((reported(&losses), losses.not_observed, watch.pending()), (vec![], 0, 13));
        let losses = watch.compare(with(snapshot(2, &counters(20)), &[(1, 20, 20)]), None);
        let expected = vec![(1, Stage::ReceiverSocketBuffer, 13, false)];
        assert_eq!((reported(&losses), losses.not_observed, watch.pending()), (expected, 0, 0));
    }

    #[test]
    fn every_drop_is_reported_once_whenever_it_comes_between_the_readings() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            // Two sockets; the namespace's counters are their sum.
            let (mut drops, mut reported_of, mut watch) = ([0_u32; 2], [0_u64; 2], None::<Watch>);
            for seconds in 0..20 {
                let mut drop_some = || {
                    for count in &mut drops {
                        *count += if random.chance(0.4) { random.below(50) as u32 } else { 0 };
                    }
                    drops
                };
                let (early, counted, late) = (drop_some(), drop_some(), drop_some());
                let sum = u64::from(counted[0] + counted[1]);
                let counters = [("UdpRcvbufErrors", sum), ("UdpInErrors", sum)];
                let after =
                    with(snapshot(seconds, &counters), &[(1, early[0], late[0]), (2, early[1], late[1])]);
                let Some(watch) = &mut watch else {
                    reported_of = late.map(u64::from);
                    watch = Some(Watch::begin(after));
                    continue;
                };
                let losses = watch.compare(after, None);
                for (cookie, stage, count, is_apportioned) in reported(&losses) {
                    assert_eq!((stage, is_apportioned), (Stage::ReceiverSocketBuffer, false), "seed {seed}");
                    reported_of[cookie as usize - 1] += count;
                }
                assert_eq!(losses.not_observed, 0, "seed {seed}");
                let all: u64 = late.iter().map(|count| u64::from(*count)).sum();
                assert_eq!(reported_of[0] + reported_of[1] + watch.pending(), all, "seed {seed}");
            }
        }
    }

    #[test]
    fn what_was_counted_for_sockets_that_are_closed_is_not_observed() {
        let before = with(snapshot(0, &[]), &[(1, 0, 0), (2, 0, 0)]);
        let counters = [("UdpRcvbufErrors", 100), ("UdpInErrors", 100)];
        let losses = losses(&before, &with(snapshot(1, &counters), &[(1, 30, 30)]));
        assert_eq!(reported(&losses), [(1, Stage::ReceiverSocketBuffer, 30, false)]);
        assert_eq!(losses.not_observed, 70);
    }

    #[test]
    fn several_reasons_are_shared_out_and_said_to_be() {
        let before = with(snapshot(0, &[]), &[(1, 0, 0), (2, 0, 0)]);
        let counters = [("UdpRcvbufErrors", 20), ("UdpInErrors", 30)];
        let losses = losses(&before, &with(snapshot(1, &counters), &[(1, 10, 10), (2, 20, 20)]));
        let (buffer, filter) = (Stage::ReceiverSocketBuffer, Stage::ReceiverSocketFilter);
        let expected =
            [(1, buffer, 7, true), (1, filter, 3, true), (2, buffer, 14, true), (2, filter, 6, true)];
        assert_eq!(reported(&losses), expected);
        assert_eq!(losses.not_observed, 0);
    }

    #[test]
    fn counts_of_sockets_wrap() {
        let before = with(snapshot(0, &[]), &[(1, u32::MAX, u32::MAX)]);
        let counters = [("UdpRcvbufErrors", 5), ("UdpInErrors", 5)];
        let losses = losses(&before, &with(snapshot(1, &counters), &[(1, 4, 4)]));
        assert_eq!(reported(&losses), [(1, Stage::ReceiverSocketBuffer, 5, false)]);
    }

    #[test]
    fn the_remedy_of_a_full_buffer_follows_its_cause() {
        let owner = |ran_ms: u64, waited_ms: u64| Owner {
            pid: 77,
            name: "reader".to_owned(),
            threads: vec![Thread {
                tid: 77,
                ran_ns: ran_ms * 1_000_000,
                waited_ns: waited_ms * 1_000_000,
                major_faults: 0,
                is_blocked: false,
            }],
        };
        let remedies_of = |ran_ms, waited_ms| {
            let mut before = with(snapshot(0, &[]), &[(1, 0, 0)]);
            before.sockets[0].owner = Some(owner(0, 0));
            let mut after =
                with(snapshot(1, &[("UdpRcvbufErrors", 100), ("UdpInErrors", 100)]), &[(1, 100, 100)]);
            after.sockets[0].owner = Some(owner(ran_ms, waited_ms));
            after.settings = Settings {
                rmem_max_bytes: Some(212_992),
                rmem_default_bytes: Some(100_000),
                netdev_max_backlog: None,
            };
            let finding = losses(&before, &after).findings.remove(0);
            (finding.cause.unwrap(), finding.remedies)
        };
        let (cause, remedies) = remedies_of(100, 0);
        assert_eq!((cause, remedies.len()), (BufferCause::Burst, 2));
        // 212,992 and 100 datagrams of 2,304 bytes: 443,392, rounded up to 524,288, half of which is requested.
        let Some(Change::ReceiveBuffer { cookie: 1, pid: 77, asked_bytes, before_bytes, .. }) =
            remedies[0].change
        else {
            panic!("{remedies:?}");
        };
        assert_eq!((asked_bytes, before_bytes), (262_144, 106_496));
        assert_eq!(remedies[0].undo().as_deref(), Some("tallycast doctor undo"));
        assert_eq!(remedies[1].command().as_deref(), Some("sysctl -w net.core.rmem_max=262144"));
        assert_eq!(remedies[1].undo().as_deref(), Some("sysctl -w net.core.rmem_max=212992"));
        let (cause, remedies) = remedies_of(500, 300);
        assert_eq!(cause, BufferCause::Starved);
        assert_eq!(remedies[0].undo().as_deref(), Some("chrt --all-tasks --other --pid 0 77"));
        let (cause, remedies) = remedies_of(990, 0);
        assert_eq!(
            (cause, remedies.len(), remedies[0].command().as_deref()),
            (BufferCause::TooSlow, 1, None)
        );
    }

    #[test]
    fn the_counters_of_the_version_that_a_socket_takes_are_its_evidence() {
        let after = snapshot(1, &[("UdpRcvbufErrors", 1), ("Udp6RcvbufErrors", 2)]);
        let names = |local: &str| {
            let socket = Socket { local: local.parse().unwrap(), ..socket(1, 3) };
            let evidence = evidence_for(&snapshot(0, &[]), &after, &socket, Stage::ReceiverSocketBuffer, 3);
            evidence.into_iter().skip(1).map(|it| it.counter).collect::<Vec<_>>()
        };
        assert_eq!(names("0.0.0.0:1"), ["UdpRcvbufErrors"]);
        assert_eq!(names("[::]:1"), ["UdpRcvbufErrors", "Udp6RcvbufErrors"]);
        assert_eq!(names("[::1]:1"), ["Udp6RcvbufErrors"]);
        assert_eq!(names("[::ffff:127.0.0.1]:1"), ["UdpRcvbufErrors"]);
    }
}
