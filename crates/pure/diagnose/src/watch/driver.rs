//! Loss counters of drivers (`ethtool -S`), by the names in the table of causes.
//!
//! Every driver has names of its own, and most of its counters are no losses. Names that are not in the table, such as
//! those of bytes, packets and flow control requests, are ignored. `rx_no_buffer_count` alone is no loss: Intel's cards
//! keep such a packet in their own memory, and mostly deliver it a moment later. All except those that are apart are
//! also part of the errors and drops of `/proc/net/dev`.

use std::collections::BTreeMap;

use ledger::Stage;

use crate::Remedy;
use crate::causes::{CAUSES, Cause, DriverCount};
use crate::watch::counters::{ANY_PROTOCOL, evidence, sum};
use crate::watch::finding::{Evidence, Finding, Place, Unit};
use crate::watch::snapshot::Snapshot;

/// Names of counters with the cause that they show.
#[derive(Clone, Copy)]
struct Shown {
    cause: &'static Cause,
    kind: DriverCount,
    names: &'static [&'static str],
}

fn shown_by_drivers() -> impl Iterator<Item = Shown> {
    let of =
        |cause: &'static Cause| cause.drivers.iter().map(move |&(kind, names)| Shown { cause, kind, names });
    CAUSES.iter().flat_map(of)
}

/// Returns whether a rise of a driver's counter of this name may indicate a loss.
#[must_use]
pub fn driver_counts_losses(name: &str) -> bool {
    shown_by(&bare(name)).is_some()
}

fn shown_by(bare: &str) -> Option<Shown> {
    shown_by_drivers().find(|shown| shown.names.contains(&bare))
}

/// Returns the name of a counter without its queue.
fn bare(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    // `rx0`, `rxq1`, `queue`, `0`.
    let without_number = words.map(|word| word.trim_end_matches(|letter: char| letter.is_ascii_digit()));
    let kept = without_number.filter(|word| !matches!(*word, "" | "queue" | "q" | "ring" | "ch"));
    let words: Vec<&str> = kept.map(|word| if word == "rxq" { "rx" } else { word }).collect();
    let name = words.join("_").to_ascii_lowercase();
    // Some have the queue's kind in the middle: `queue_0_rx_xdp_drop` has it in front already.
    name.replace("rx_rx_", "rx_")
}

/// Rise of one device's counters with the same meaning.
struct Rise {
    shown: Shown,
    count: u64,
    evidence: Vec<Evidence>,
}

const PREFIX: &str = "ethtool:";

/// Returns the rises of a device's counters, the largest first.
///
/// A driver that counts for each queue often counts the sum, too, or the same packet at several places: only the
/// largest count is certain.
fn rises(before: &Snapshot, after: &Snapshot, device: &str, stage: Stage) -> Vec<Rise> {
    let mut found: Vec<Rise> = Vec::new();
    for shown in shown_by_drivers().filter(|shown| shown.cause.stage == stage) {
        let mut sums = BTreeMap::<(String, bool), u64>::new();
        let mut evidences = Vec::new();
        for key in
            after.of_prefix(PREFIX).filter(|key| key.rsplit_once('/').is_some_and(|(_, of)| of == device))
        {
            let name = &key[PREFIX.len()..key.len() - device.len() - 1];
            let bare = bare(name);
            let rise = after.rise(before, key);
            if rise > 0 && shown.names.contains(&bare.as_str()) {
                let is_of_queue = name.bytes().any(|letter| letter.is_ascii_digit());
                let sum = sums.entry((bare, is_of_queue)).or_default();
                *sum = sum.saturating_add(rise);
                evidences.push(evidence(key, rise));
            }
        }
        if let Some(count) = sums.into_values().max() {
            found.push(Rise { shown, count, evidence: evidences });
        }
    }
    found.sort_by_key(|rise| std::cmp::Reverse(rise.count));
    found
}

/// Returns the number of a device's dropped packets for which its driver certainly had no room.
pub(crate) fn had_no_room(before: &Snapshot, after: &Snapshot, device: &str) -> u64 {
    let rises = rises(before, after, device, Stage::ReceiverNic);
    rises
        .iter()
        .filter(|rise| rise.shown.kind == DriverCount::NoRoom)
        .map(|rise| rise.count)
        .max()
        .unwrap_or(0)
}

/// Adds losses that only drivers count.
pub(crate) fn add_what_only_drivers_count(findings: &mut Vec<Finding>, before: &Snapshot, after: &Snapshot) {
    let mut devices: Vec<&str> =
        after.of_prefix(PREFIX).filter_map(|key| Some(key.rsplit_once('/')?.1)).collect();
    devices.sort_unstable();
    devices.dedup();
    for device in devices {
        for stage in [Stage::ReceiverNic, Stage::ReceiverHook] {
            let apart = rises(before, after, device, stage)
                .into_iter()
                .filter(|rise| rise.shown.kind == DriverCount::Apart);
            for rise in apart {
                if stage == Stage::ReceiverHook {
                    leave_to_program(findings, before, after, device, rise.count);
                }
                add(findings, device, rise);
            }
        }
    }
    findings.retain(|finding| finding.count > 0);
}

fn add(findings: &mut Vec<Finding>, device: &str, rise: Rise) {
    let Rise { shown: Shown { cause, .. }, count, evidence } = rise;
    let place = Place::Device(device.to_owned());
    let remedies = cause.remedies(&place, None);
    if let Some(finding) = findings.iter_mut().find(|it| it.stage == cause.stage && it.place == place) {
        finding.count = finding.count.saturating_add(count);
        // The losses of a device's stage are explained by all the counters of its driver.
        if cause.stage == Stage::ReceiverHook {
            finding.evidence.extend(evidence);
            finding.remedies.extend(remedies);
        }
        return;
    }
    findings.push(Finding {
        stage: cause.stage,
        place,
        count,
        unit: Unit::Packets,
        is_apportioned: false,
        evidence,
        levels: Vec::new(),
        cause: None,
        why: why(cause),
        remedies,
        datagrams: Vec::new(),
        not_observed: None,
    });
}

/// Subtracts the packets that a program dropped from the device's finding: `virtio_net` counts them among its
/// `rx_drops`, which are then at least as many, and so among the drops of the device.
fn leave_to_program(
    findings: &mut [Finding],
    before: &Snapshot,
    after: &Snapshot,
    device: &str,
    dropped: u64,
) {
    let rises = rises(before, after, device, Stage::ReceiverNic);
    let is_of_drops =
        |it: &&Evidence| it.counter.strip_prefix(PREFIX).is_some_and(|key| of_name(key, "rx_drops"));
    let drops = rises.iter().flat_map(|rise| &rise.evidence).filter(is_of_drops).map(|it| it.rise);
    let has_both = sum(drops) >= dropped;
    let place = Place::Device(device.to_owned());
    let is_its = |it: &&mut Finding| it.stage == Stage::ReceiverNic && it.place == place;
    if let Some(finding) = findings.iter_mut().find(is_its).filter(|_| has_both) {
        finding.count = finding.count.saturating_sub(dropped);
        finding.is_apportioned = true;
    }
}

/// Returns whether a device's counter has this name, for any queue.
fn of_name(key: &str, wanted: &str) -> bool {
    key.rsplit_once('/').is_some_and(|(name, _)| bare(name) == wanted)
}

/// Adds cause and remedy to the losses of a device whose driver counts more exactly.
pub(crate) fn explain(findings: &mut [Finding], before: &Snapshot, after: &Snapshot) {
    for finding in findings.iter_mut().filter(|it| matches!(it.stage, Stage::ReceiverNic | Stage::SenderNic))
    {
        let Place::Device(device) = &finding.place else { continue };
        let rises = rises(before, after, device, finding.stage);
        let Some(first) = rises.first() else { continue };
        finding.why = why(first.shown.cause);
        let mut remedies: Vec<Remedy> =
            rises.iter().flat_map(|rise| rise.shown.cause.remedies(&finding.place, None)).collect();
        remedies.dedup();
        // Remedies with a command stay; text gives way to more specific text.
        remedies.extend(finding.remedies.drain(..).filter(|remedy| remedy.command().is_some()));
        finding.remedies = remedies;
        for evidence in rises.into_iter().flat_map(|rise| rise.evidence) {
            // A counter that is apart has added its own.
            if !finding.evidence.contains(&evidence) {
                finding.evidence.push(evidence);
            }
        }
    }
}

/// Returns whether a device lost packets only because they were damaged: then it was not too slow for them.
pub(crate) fn is_damage_only(finding: &Finding) -> bool {
    let of_driver = finding.evidence.iter().filter_map(|it| it.counter.strip_prefix(PREFIX));
    let names = of_driver.filter_map(|key| Some(bare(key.rsplit_once('/')?.0)));
    let mut shown = names.filter_map(|name| shown_by(&name)).peekable();
    // A cause without room may also have counters that only hint at it.
    let is_room = |cause: &Cause| cause.drivers.iter().any(|(kind, _)| *kind == DriverCount::NoRoom);
    shown.peek().is_some() && shown.all(|it| it.kind == DriverCount::Hint && !is_room(it.cause))
}

fn why(cause: &Cause) -> String {
    format!("{}{ANY_PROTOCOL}", cause.why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::counters::{Ahead, of_counters};
    use crate::watch::snapshot::tests::snapshot;

    fn reported(counters: &[(&str, u64)]) -> Vec<Finding> {
        let zeros: Vec<(&str, u64)> = counters.iter().map(|(name, _)| (*name, 0)).collect();
        let (before, after) = (snapshot(0, &zeros), snapshot(1, counters));
        let mut findings = of_counters(&before, &after, &mut Ahead::default());
        explain(&mut findings, &before, &after);
        findings
    }

    fn names(finding: &Finding) -> Vec<&str> {
        finding.evidence.iter().map(|it| it.counter.as_str()).collect()
    }

    #[test]
    fn a_queues_counter_is_known_by_what_it_counts() {
        for (name, expected) in [
            ("rx_missed_errors", "rx_missed_errors"),
            ("rx_queue_0_drops", "rx_drops"),
            ("rx_queue_13_xdp_drops", "rx_xdp_drops"),
            ("rx0_xdp_drop", "rx_xdp_drop"),
            ("queue_3_rx_xdp_drop", "rx_xdp_drop"),
            ("[12]: rx_discards", "rx_discards"),
            ("rx_dropped.nic", "rx_dropped_nic"),
            ("ch0_rx_discards", "rx_discards"),
            ("", ""),
        ] {
            assert_eq!(bare(name), expected, "{name}");
            assert_eq!(driver_counts_losses(name), !name.is_empty(), "{name}");
        }
    }

    #[test]
    fn what_is_no_loss_is_not_looked_at() {
        for name in [
            "rx_packets",
            "rx_queue_0_xdp_packets",
            "tx_kicks",
            "rx_flow_control_xoff",
            "rx_pause",
            "peer_ifindex",
            "port.rx_dropped",
        ] {
            assert!(!driver_counts_losses(name), "{name}");
        }
    }

    #[test]
    fn each_counter_has_its_meaning_and_its_remedy() {
        for Shown { cause, kind, names: all } in shown_by_drivers() {
            for name in all {
                assert_eq!(bare(name), *name, "it would never be found");
                let counter = format!("ethtool:{name}/eth0");
                let count = match cause.stage {
                    Stage::SenderNic => "tx_drop/eth0",
                    Stage::ReceiverNic => "rx_drop/eth0",
                    _ => "nothing",
                };
                let findings = reported(&[(&counter, 7), (count, 9)]);
                let finding = findings.first().unwrap_or_else(|| panic!("{name}"));
                assert_eq!((findings.len(), finding.stage), (1, cause.stage), "{name}");
                assert_eq!(finding.place, Place::Device("eth0".to_owned()));
                let is_apart = kind == DriverCount::Apart;
                let expected = match (is_apart, cause.stage) {
                    (true, Stage::ReceiverHook) => 7,
                    (true, _) => 16,
                    _ => 9,
                };
                assert_eq!(finding.count, expected, "{name}");
                assert!(names(finding).contains(&counter.as_str()), "{name}: {finding:?}");
                assert_eq!(finding.why, why(cause));
                let remedy = &finding.remedies[0].what;
                assert_eq!(remedy, &cause.remedies[0].replace("DEVICE", "eth0"), "{name}");
                assert!(!remedy.contains("DEVICE"), "{remedy}");
                // A counter that others include is no loss alone.
                assert_eq!(reported(&[(&counter, 7)]).len(), usize::from(is_apart), "{name}");
            }
        }
    }

    #[test]
    fn the_counter_that_rose_most_is_the_first_remedy() {
        let findings = reported(&[
            ("rx_errs/eth0", 9),
            ("ethtool:rx_crc_errors/eth0", 2),
            ("ethtool:rx_missed_errors/eth0", 7),
        ]);
        assert_eq!(findings[0].remedies.len(), 2);
        assert!(
            findings[0].remedies[0].what.contains("ring") && findings[0].remedies[1].what.contains("cable")
        );
        assert!(findings[0].why.starts_with("the device had no room"), "{}", findings[0].why);
        assert!(!is_damage_only(&findings[0]));
        assert!(is_damage_only(&reported(&[("rx_errs/eth0", 9), ("ethtool:rx_crc_errors/eth0", 9)])[0]));
        assert!(!is_damage_only(&reported(&[("rx_errs/eth0", 9)])[0]), "nobody knows");
    }

    #[test]
    fn drops_of_an_xdp_program_are_reported_without_events_and_the_sum_of_queues_is_not_counted_twice() {
        let findings = reported(&[
            ("ethtool:rx_queue_0_xdp_drops/veth0", 3),
            ("ethtool:rx_queue_1_xdp_drops/veth0", 4),
            ("ethtool:rx_queue_1_xdp_drops/veth1", 5),
            ("ethtool:rx_queue_0_drops/veth0", 0),
        ]);
        let reported: Vec<_> = findings.iter().map(|it| (it.stage, it.count, names(it).len())).collect();
        assert_eq!(reported, [(Stage::ReceiverHook, 7, 2), (Stage::ReceiverHook, 5, 1)]);
        let findings = self::reported(&[("ethtool:rx_xdp_drops/eth0", 7), ("ethtool:rx0_xdp_drops/eth0", 7)]);
        assert_eq!((findings.len(), findings[0].count), (1, 7));
    }

    #[test]
    fn a_program_before_the_stack_and_one_before_that_are_one_stage_of_a_device() {
        let findings = reported(&[("ingress_drops/eth0", 2), ("ethtool:rx_queue_0_xdp_drops/eth0", 3)]);
        assert_eq!((findings.len(), findings[0].count, findings[0].remedies.len()), (1, 5, 2));
        assert_eq!(names(&findings[0]), ["ingress_drops/eth0", "ethtool:rx_queue_0_xdp_drops/eth0"]);
    }

    #[test]
    fn what_a_program_dropped_is_no_want_of_room_where_the_driver_counts_it_as_both() {
        let of = |drops| {
            let counters = [
                ("rx_drop/eth0", drops),
                ("ethtool:rx0_drops/eth0", drops),
                ("ethtool:rx0_xdp_drops/eth0", 5),
            ];
            reported(&counters).iter().map(|it| (it.stage, it.count)).collect::<Vec<_>>()
        };
        assert_eq!(of(5), [(Stage::ReceiverHook, 5)]);
        assert_eq!(of(4), [(Stage::ReceiverNic, 4), (Stage::ReceiverHook, 5)], "another driver");
        assert_eq!(of(8), [(Stage::ReceiverNic, 3), (Stage::ReceiverHook, 5)]);
    }

    #[test]
    fn what_a_ring_had_no_room_for_is_no_backlogs() {
        let findings = reported(&[
            ("softnet_dropped/cpu0", 100),
            ("rx_drop/eth0", 60),
            ("ethtool:rx_missed_errors/eth0", 60),
        ]);
        let reported: Vec<_> = findings.iter().map(|it| (it.stage, it.count)).collect();
        assert_eq!(reported, [(Stage::ReceiverNic, 60), (Stage::ReceiverBacklog, 100)]);
    }
}
