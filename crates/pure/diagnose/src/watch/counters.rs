//! Meanings of counters for a whole namespace, host or device: one row each.
//!
//! Counters overlap: a device's `rx_drop` includes packets for which a backlog had no room. Three have no row:
//! `UdpSndbufErrors` and `IpOutDiscards` rise together for packets that a queue discipline refused, for packets
//! without room in the backlog on the receiving side of a veth or loopback device, and, with nothing lost, for a
//! program that does not wait for room in its own socket. `UdpInErrors` is the sum of others. Source: measured, Linux
//! 6.18.

use ledger::Stage;

use crate::Remedy;
use crate::fix::tunables::BACKLOG;
use crate::watch::driver::{add_what_only_drivers_count, had_no_room};
use crate::watch::finding::{Evidence, Finding, Place, Unit};
use crate::watch::snapshot::{Settings, Snapshot};

/// Meaning of a rise of counters.
struct Rule {
    /// Counters whose sum is the loss; with a `/`, of each processor or device.
    counters: &'static [&'static str],
    place: Where,
    stage: Stage,
    unit: Unit,
    why: &'static str,
    remedies: fn(&Settings) -> Vec<Remedy>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Namespace,
    /// Counted for each processor of the host.
    Processors,
    /// Counted for each device.
    Devices,
}

const RULES: &[Rule] = &[
    Rule {
        counters: &["IpOutNoRoutes", "Ip6OutNoRoutes"],
        place: Where::Namespace,
        stage: Stage::SenderIp,
        unit: Unit::Packets,
        why: "there is no route to their destination",
        remedies: |_| {
            vec![Remedy::by_hand(
                "add a route to the destination, or name the interface (`iface=` on the bus)",
            )]
        },
    },
    Rule {
        counters: &["qdisc_drops"],
        place: Where::Devices,
        stage: Stage::SenderQdisc,
        unit: Unit::Packets,
        why: "the queue discipline of the device they leave by had no room for them; packets of any protocol are counted",
        remedies: |_| {
            vec![
                Remedy::by_hand("send at a lower rate: pace the sender below the rate of the device"),
                Remedy::by_hand("make the limit of the queue larger (`tc -s qdisc` shows which)"),
            ]
        },
    },
    Rule {
        counters: &["ingress_drops"],
        place: Where::Devices,
        stage: Stage::ReceiverHook,
        unit: Unit::Packets,
        why: "a program on the device they came in by dropped them; packets of any protocol are counted",
        remedies: |_| {
            vec![Remedy::by_hand("see what it is (`tc filter show dev DEVICE ingress`, `bpftool net`)")]
        },
    },
    Rule {
        counters: &["tx_errs", "tx_drop"],
        place: Where::Devices,
        stage: Stage::SenderNic,
        unit: Unit::Packets,
        why: "the device could not send them; packets of any protocol are counted",
        remedies: |_| {
            vec![Remedy::by_hand(
                "send at a lower rate, or make the ring of the device larger (`ethtool -g`, `-G tx`)",
            )]
        },
    },
    Rule {
        counters: &["rx_errs", "rx_drop"],
        place: Where::Devices,
        stage: Stage::ReceiverNic,
        unit: Unit::Packets,
        why: "the device had no room for them, or no program receives their protocol; packets of any protocol are counted",
        remedies: |_| {
            vec![Remedy::by_hand(
                "see which count rises (`ethtool -S`); make the ring larger (`ethtool -g`, `-G rx`), or switch flow control on (`ethtool -A`)",
            )]
        },
    },
    Rule {
        counters: &["softnet_dropped"],
        place: Where::Processors,
        stage: Stage::ReceiverBacklog,
        unit: Unit::Packets,
        why: "the backlog of a processor was full: its softirq could not keep up",
        remedies: |settings| vec![longer_backlog(settings)],
    },
    Rule {
        counters: &["TcpExtIPReversePathFilter"],
        place: Where::Namespace,
        stage: Stage::ReceiverIp,
        unit: Unit::Packets,
        why: "the route back to their sender uses another interface (rp_filter)",
        remedies: |_| {
            vec![Remedy::by_hand(
                "set net.ipv4.conf.INTERFACE.rp_filter and …conf.all.rp_filter to 2 or 0, or add a route to the sender",
            )]
        },
    },
    Rule {
        counters: &["IpReasmFails", "Ip6ReasmFails"],
        place: Where::Namespace,
        stage: Stage::ReceiverReassembly,
        unit: Unit::Failures,
        why: "datagrams came in fragments of which some were missing, or there was no memory to wait for them",
        remedies: |_| {
            vec![Remedy::by_hand(
                "send datagrams that fit into the path's MTU (`mtu=` on the bus; `tallycast bench --probe-mtu` finds it)",
            )]
        },
    },
    Rule {
        counters: &["UdpInCsumErrors", "Udp6InCsumErrors"],
        place: Where::Namespace,
        stage: Stage::ReceiverChecksum,
        unit: Unit::Datagrams,
        why: "their checksum was wrong: a faulty card, cable, switch or offload",
        remedies: |_| {
            vec![Remedy::by_hand(
                "look for the faulty part: another cable, `ethtool -K DEVICE rx off` to try without the card's own check",
            )]
        },
    },
    Rule {
        counters: &["UdpNoPorts", "Udp6NoPorts"],
        place: Where::Namespace,
        stage: Stage::ReceiverNoSocket,
        unit: Unit::Datagrams,
        why: "no socket was bound to their destination",
        remedies: |_| {
            vec![Remedy::by_hand(
                "start the reader first, and see that port and address are those it is bound to",
            )]
        },
    },
];

/// Backlog drops in the last snapshot that no device had counted yet: it does so a moment later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ahead {
    received: u64,
    sent: u64,
}

/// Returns the losses between two snapshots that counters other than a socket's own show.
pub(crate) fn of_counters(before: &Snapshot, after: &Snapshot, ahead: &mut Ahead) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule.judge(before, after)).collect();
    leave_to_backlog(&mut findings, before, after, ahead);
    add_what_only_drivers_count(&mut findings, before, after);
    findings.sort_by(|a, b| (a.stage, &a.place).cmp(&(b.stage, &b.place)));
    findings
}

impl Rule {
    fn judge(&self, before: &Snapshot, after: &Snapshot) -> Vec<Finding> {
        match self.place {
            Where::Namespace => {
                let rises = self.counters.iter().map(|name| evidence(name, after.rise(before, name)));
                self.finding(Place::Namespace, rises.collect(), after).into_iter().collect()
            }
            Where::Processors => {
                let of = |name| {
                    after.rises(before, name).map(move |(cpu, rise)| evidence(&format!("{name}/{cpu}"), rise))
                };
                let rises = self.counters.iter().flat_map(|name| of(*name));
                self.finding(Place::Host, rises.collect(), after).into_iter().collect()
            }
            Where::Devices => {
                let mut devices: Vec<&str> = self
                    .counters
                    .iter()
                    .flat_map(|name| after.rises(before, name))
                    .map(|(device, _)| device)
                    .collect();
                devices.sort_unstable();
                devices.dedup();
                let of = |device: &str| {
                    let names = self.counters.iter().map(|name| format!("{name}/{device}"));
                    let rises = names.map(|name| evidence(&name, after.rise(before, &name)));
                    self.finding(Place::Device(device.to_owned()), rises.collect(), after)
                };
                devices.into_iter().filter_map(of).collect()
            }
        }
    }

    fn finding(&self, place: Place, mut evidence: Vec<Evidence>, after: &Snapshot) -> Option<Finding> {
        evidence.retain(|it| it.rise > 0);
        let count = sum(evidence.iter().map(|it| it.rise));
        (count > 0).then(|| Finding {
            stage: self.stage,
            place,
            count,
            unit: self.unit,
            is_apportioned: false,
            evidence,
            levels: Vec::new(),
            cause: None,
            why: self.why.to_owned(),
            remedies: (self.remedies)(&after.settings),
            datagrams: Vec::new(),
            not_observed: None,
        })
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

fn longer_backlog(settings: &Settings) -> Remedy {
    /// Default in the kernel (`net/core/hotdata.c`).
    const DEFAULT: u64 = 1_000;
    let now = settings.netdev_max_backlog;
    let value = now.unwrap_or(DEFAULT).saturating_mul(2);
    Remedy::by_sysctl("twice as long a backlog", BACKLOG, value, now)
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

    #[test]
    fn a_backlog_becomes_twice_what_it_is() {
        let remedy = longer_backlog(&Settings { netdev_max_backlog: Some(3_000), ..Settings::default() });
        assert_eq!(remedy.command().as_deref(), Some("sysctl -w net.core.netdev_max_backlog=6000"));
        let remedy = longer_backlog(&Settings::default());
        assert_eq!(remedy.command().as_deref(), Some("sysctl -w net.core.netdev_max_backlog=2000"));
    }
}
