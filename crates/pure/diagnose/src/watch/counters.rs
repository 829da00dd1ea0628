//! Losses that counters of a whole namespace, host or device show, by the table of causes.
//!
//! Counters overlap: a device's `rx_drop` includes packets for which a backlog had no room. Three show no cause:
//! `UdpSndbufErrors` and `IpOutDiscards` rise together for packets that a queue discipline refused, for packets
//! without room in the backlog on the receiving side of a veth or loopback device, and, with nothing lost, for a
//! program that does not wait for room in its own socket. `UdpInErrors` is the sum of others. Source: measured, Linux
//! 6.18.

use std::collections::BTreeMap;

use ledger::Stage;

use crate::Remedy;
use crate::causes::{CAUSES, Cause};
use crate::watch::driver::{add_what_only_drivers_count, had_no_room};
use crate::watch::finding::{Evidence, Finding, Place, Unit};
use crate::watch::snapshot::Snapshot;

/// Remark on a device's counter.
pub(crate) const ANY_PROTOCOL: &str = "; packets of any protocol are counted";

/// Backlog drops in the last snapshot that no device had counted yet: it does so a moment later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ahead {
    received: u64,
    sent: u64,
}

/// Returns the losses between two snapshots that counters other than a socket's own show.
pub(crate) fn of_counters(before: &Snapshot, after: &Snapshot, ahead: &mut Ahead) -> Vec<Finding> {
    let mut findings: Vec<Finding> = shown_by_counters()
        .into_iter()
        .flat_map(|(counters, causes)| {
            let shown = places(counters, before, after).into_iter();
            shown.filter_map(move |(place, evidence)| finding(place, evidence, &causes, after))
        })
        .collect();
    leave_to_backlog(&mut findings, before, after, ahead);
    add_what_only_drivers_count(&mut findings, before, after);
    findings.sort_by(|a, b| (a.stage, &a.place).cmp(&(b.stage, &b.place)));
    findings
}

/// Returns the causes that counters show, by the counters that are summed.
fn shown_by_counters() -> BTreeMap<&'static [&'static str], Vec<&'static Cause>> {
    let mut shown = BTreeMap::<_, Vec<_>>::new();
    for cause in CAUSES.iter().filter(|cause| !cause.counters.is_empty()) {
        shown.entry(cause.counters).or_default().push(cause);
    }
    shown
}

/// Returns the rises of counters by the place that they distinguish: processors are the host's, devices are places.
fn places(
    counters: &'static [&'static str],
    before: &Snapshot,
    after: &Snapshot,
) -> BTreeMap<Place, Vec<Evidence>> {
    let mut places = BTreeMap::<_, Vec<_>>::new();
    for counter in counters {
        let Some((name, each)) = counter.split_once('/') else {
            let rise = evidence(counter, after.rise(before, counter));
            places.entry(Place::Namespace).or_default().push(rise);
            continue;
        };
        for (of, rise) in after.rises(before, name) {
            let place = if each == "CPU" { Place::Host } else { Place::Device(of.to_owned()) };
            places.entry(place).or_default().push(evidence(&format!("{name}/{of}"), rise));
        }
    }
    places
}

/// Returns the finding of counters that rose, with all causes that may explain it.
fn finding(
    place: Place,
    mut evidence: Vec<Evidence>,
    causes: &[&'static Cause],
    after: &Snapshot,
) -> Option<Finding> {
    evidence.retain(|it| it.rise > 0);
    let (cause, counter) = (causes.first()?, evidence.first()?);
    let whys: Vec<&str> = causes.iter().map(|cause| cause.why).collect();
    let note = if matches!(place, Place::Device(_)) { ANY_PROTOCOL } else { "" };
    let mut remedies: Vec<Remedy> =
        causes.iter().flat_map(|cause| cause.remedies(&place, Some(&after.settings))).collect();
    remedies.dedup();
    Some(Finding {
        stage: cause.stage,
        place,
        count: sum(evidence.iter().map(|it| it.rise)),
        unit: unit(&counter.counter),
        is_apportioned: false,
        evidence,
        levels: Vec::new(),
        cause: None,
        why: format!("{}{note}", whys.join(", or ")),
        remedies,
        datagrams: Vec::new(),
        not_observed: None,
    })
}

fn unit(counter: &str) -> Unit {
    match counter {
        _ if counter.starts_with("Udp") => Unit::Datagrams,
        _ if counter.ends_with("ReasmFails") => Unit::Failures,
        _ => Unit::Packets,
    }
}

/// Subtracts a backlog's drops from those of the device that received the packets, and of the veth device that sent
/// them, which include them. Source: measured, Linux 6.18.
///
/// The backlog's counter rises first, and a snapshot reads it last (`sys::counters`): a backlog's drop may reach the
/// device's counter in the next snapshot only, and never the other way round.
fn leave_to_backlog(findings: &mut Vec<Finding>, before: &Snapshot, after: &Snapshot, ahead: &mut Ahead) {
    let dropped = sum(after.rises(before, "softnet_dropped").map(|(_, rise)| rise));
    // Packets for which the device's own driver had no room never reached a backlog.
    let certain = |stage: Stage, place: &Place| match (stage, place) {
        (Stage::ReceiverNic, Place::Device(device)) => had_no_room(before, after, device),
        _ => 0,
    };
    let directions = [
        (Stage::ReceiverNic, "rx_drop/", &mut ahead.received),
        (Stage::SenderNic, "tx_drop/", &mut ahead.sent),
    ];
    for (stage, counter, ahead) in directions {
        let mut backlog = dropped.saturating_add(*ahead);
        for finding in findings.iter_mut().filter(|it| it.stage == stage) {
            let drops = finding.evidence.iter().filter(|it| it.counter.starts_with(counter));
            let drops = sum(drops.map(|it| it.rise)).saturating_sub(certain(stage, &finding.place));
            let explained = drops.min(backlog);
            backlog -= explained;
            finding.count -= explained;
            // The backlog's drops are those of the whole host: they may belong to another device.
            finding.is_apportioned |= explained > 0;
        }
        // Drops that a device has not counted by now were another namespace's.
        *ahead = backlog.min(dropped);
    }
    findings.retain(|finding| finding.count > 0);
}

/// Adds counts, which may be from a file that was changed.
pub(crate) fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

pub(crate) fn evidence(counter: &str, rise: u64) -> Evidence {
    Evidence { counter: counter.to_owned(), rise }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::snapshot::tests::snapshot;

    fn reported(counters: &[(&str, u64)]) -> Vec<(Stage, Place, u64)> {
        let findings = of_counters(&snapshot(0, &[]), &snapshot(1, counters), &mut Ahead::default());
        findings.into_iter().map(|it| (it.stage, it.place, it.count)).collect()
    }

    #[test]
    fn every_count_has_its_stage() {
        for (counter, stage, place) in [
            ("IpOutNoRoutes", Stage::SenderIp, Place::Namespace),
            ("Ip6OutNoRoutes", Stage::SenderIp, Place::Namespace),
            ("qdisc_drops/eth0", Stage::SenderQdisc, Place::Device("eth0".to_owned())),
            ("ingress_drops/eth0", Stage::ReceiverHook, Place::Device("eth0".to_owned())),
            ("tx_errs/eth0", Stage::SenderNic, Place::Device("eth0".to_owned())),
            ("tx_drop/eth0", Stage::SenderNic, Place::Device("eth0".to_owned())),
            ("rx_errs/eth0", Stage::ReceiverNic, Place::Device("eth0".to_owned())),
            ("rx_drop/eth0", Stage::ReceiverNic, Place::Device("eth0".to_owned())),
            ("softnet_dropped/cpu1", Stage::ReceiverBacklog, Place::Host),
            ("TcpExtIPReversePathFilter", Stage::ReceiverIp, Place::Namespace),
            ("IpReasmFails", Stage::ReceiverReassembly, Place::Namespace),
            ("Ip6ReasmFails", Stage::ReceiverReassembly, Place::Namespace),
            ("UdpInCsumErrors", Stage::ReceiverChecksum, Place::Namespace),
            ("Udp6InCsumErrors", Stage::ReceiverChecksum, Place::Namespace),
            ("UdpNoPorts", Stage::ReceiverNoSocket, Place::Namespace),
            ("Udp6NoPorts", Stage::ReceiverNoSocket, Place::Namespace),
        ] {
            assert_eq!(reported(&[(counter, 3)]), [(stage, place, 3)], "{counter}");
            assert_eq!(reported(&[(counter, 0)]), [], "{counter}");
        }
    }

    #[test]
    fn sums_and_counts_that_mislead_say_nothing() {
        assert_eq!(
            reported(&[
                ("UdpInErrors", 9),
                ("IpOutDiscards", 9),
                ("UdpSndbufErrors", 9),
                ("IpInReceives", 9)
            ]),
            []
        );
        assert_eq!(reported(&[("softnet_time_squeeze/cpu0", 9), ("rx_fifo/eth0", 9)]), []);
        assert_eq!(
            reported(&[("NET_RX/cpu0", 9), ("stat:softirq/cpu0", 99), ("interrupts:eth0/cpu0", 9)]),
            []
        );
        assert_eq!(reported(&[("pressure:io_some_us", 900_000), ("pswpin", 9), ("pswpout", 9)]), []);
    }

    #[test]
    fn what_a_backlog_dropped_is_no_drop_of_the_device_it_came_by() {
        let backlog = ("softnet_dropped/cpu0", 100);
        let of_backlog = (Stage::ReceiverBacklog, Place::Host, 100);
        assert_eq!(reported(&[backlog, ("rx_drop/eth0", 100)]), std::slice::from_ref(&of_backlog));
        let of_device = (Stage::ReceiverNic, Place::Device("eth0".to_owned()), 7);
        assert_eq!(reported(&[backlog, ("rx_drop/eth0", 107)]), [of_device.clone(), of_backlog.clone()]);
        assert_eq!(reported(&[backlog, ("rx_errs/eth0", 7)]), [of_device, of_backlog.clone()]);
        let of_sender = (Stage::SenderNic, Place::Device("veth0".to_owned()), 1);
        assert_eq!(reported(&[backlog, ("tx_drop/veth0", 101)]), [of_sender, of_backlog]);
    }

    #[test]
    fn drops_that_a_device_counts_a_snapshot_after_the_backlog_are_the_backlogs_still() {
        let at = |seconds, backlog, device| {
            snapshot(
                seconds,
                &[("softnet_dropped/cpu0", backlog), ("rx_drop/eth0", device), ("tx_drop/veth0", device)],
            )
        };
        // Read while they rise; the device's lags by up to nine.
        let snapshots =
            [at(0, 0, 0), at(1, 100, 91), at(2, 130, 125), at(3, 130, 130), at(4, 130, 134), at(5, 130, 139)];
        let mut ahead = Ahead::default();
        let mut reported = Vec::new();
        for pair in snapshots.windows(2) {
            let findings = of_counters(&pair[0], &pair[1], &mut ahead);
            reported.extend(findings.into_iter().map(|it| (pair[1].at, it.stage, it.count)));
        }
        let nic = [Stage::SenderNic, Stage::ReceiverNic];
        let expected = [
            vec![
                (snapshots[1].at, Stage::ReceiverBacklog, 100),
                (snapshots[2].at, Stage::ReceiverBacklog, 30),
            ],
            nic.map(|stage| (snapshots[4].at, stage, 4)).into(),
            nic.map(|stage| (snapshots[5].at, stage, 5)).into(),
        ];
        assert_eq!(reported, expected.concat());
    }

    #[test]
    fn versions_processors_and_directions_are_summed_and_devices_are_not() {
        let findings = reported(&[
            ("UdpNoPorts", 1),
            ("Udp6NoPorts", 2),
            ("softnet_dropped/cpu0", 3),
            ("softnet_dropped/cpu1", 4),
            ("rx_drop/a", 5),
            ("rx_errs/a", 6),
            ("rx_drop/b", 7),
        ]);
        let device = |name: &str| Place::Device(name.to_owned());
        let expected = [
            // Seven of its drops are the backlog's.
            (Stage::ReceiverNic, device("a"), 6),
            (Stage::ReceiverNic, device("b"), 5),
            (Stage::ReceiverBacklog, Place::Host, 7),
            (Stage::ReceiverNoSocket, Place::Namespace, 3),
        ];
        assert_eq!(findings, expected);
    }
}
