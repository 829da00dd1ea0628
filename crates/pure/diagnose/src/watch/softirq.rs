//! Load of the processors that received packets: softirq counters next to losses.
//!
//! None of these counters is a loss: a softirq that is busy, or did not finish in one turn, may have lost nothing. So
//! they explain a loss, and are not reported alone. The interrupts of a device show which processors process its
//! packets.

use core::time::Duration;
use std::collections::BTreeSet;

use ledger::Stage;

use crate::Remedy;
use crate::watch::counters::evidence;
use crate::watch::driver::is_damage_only;
use crate::watch::finding::{Evidence, Finding, Place};
use crate::watch::snapshot::Snapshot;

/// Share of time from which a processor's softirq leaves no time for anything else.
const SATURATED: f64 = 0.9;
/// Unit of `/proc/stat`; four units are the minimum for a result.
const TICK: Duration = Duration::from_millis(10);
const LEAST_TIME: Duration = Duration::from_millis(40);

/// Work of a processor's softirq between two snapshots.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Processor<'l> {
    /// Name of the processor: `cpu1`.
    name: &'l str,
    /// Share of time that it ran, interrupts included; `None` between snapshots that are too close to each other.
    share: Option<f64>,
    /// Number of times it stopped with work left: its time or its number of packets was exhausted.
    squeezes: u64,
}

/// Adds to losses of a backlog or a device whether the softirq of its processors kept up.
pub(crate) fn explain(findings: &mut [Finding], before: &Snapshot, after: &Snapshot) {
    for finding in findings {
        let processors = match (finding.stage, &finding.place) {
            (Stage::ReceiverBacklog, _) => having_risen(before, after, "softnet_dropped"),
            (Stage::ReceiverNic, Place::Device(device)) if !is_damage_only(finding) => {
                let taking = having_risen(before, after, &format!("interrupts:{device}"));
                // A virtual device has no interrupts: its packets are processed where they were sent.
                if taking.is_empty() { having_risen(before, after, "NET_RX") } else { taking }
            }
            _ => continue,
        };
        let watched: Vec<Processor<'_>> =
            processors.iter().map(|name| Processor::of(before, after, name)).collect();
        say(finding, &watched, before, after);
    }
}

fn having_risen<'l>(before: &'l Snapshot, after: &'l Snapshot, counter: &str) -> BTreeSet<&'l str> {
    let processors = after.counters.keys().filter_map(|key| key.strip_prefix(counter)?.strip_prefix('/'));
    processors.filter(|cpu| after.rise(before, &format!("{counter}/{cpu}")) > 0).collect()
}

impl<'l> Processor<'l> {
    fn of(before: &Snapshot, after: &Snapshot, name: &'l str) -> Self {
        let rise = |counter: &str| after.rise(before, &format!("{counter}/{name}"));
        let time = after.at.since(before.at);
        let ticks = rise("stat:softirq").saturating_add(rise("stat:irq"));
        #[expect(clippy::cast_precision_loss, reason = "ticks between two snapshots are far below 2^53")]
        let share = ticks as f64 * TICK.as_secs_f64() / time.as_secs_f64();
        Self {
            name,
            share: (time >= LEAST_TIME).then_some(share.min(1.0)),
            squeezes: rise("softnet_time_squeeze"),
        }
    }

    fn is_saturated(&self) -> bool {
        self.share.is_some_and(|share| share >= SATURATED)
    }

    fn number(&self) -> &'l str {
        self.name.trim_start_matches("cpu")
    }

    /// Returns the kernel counters that show it.
    fn evidence(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        device: Option<&str>,
    ) -> impl Iterator<Item = Evidence> {
        let of_device = device.map(|device| format!("interrupts:{device}"));
        let always = ["NET_RX", "softnet_time_squeeze"].map(str::to_owned).into_iter().chain(of_device);
        let ticks =
            ["stat:softirq", "stat:irq"].map(str::to_owned).into_iter().filter(|_| self.is_saturated());
        let names = always.chain(ticks).map(|counter| format!("{counter}/{}", self.name));
        let rises: Vec<Evidence> = names.map(|name| evidence(&name, after.rise(before, &name))).collect();
        rises.into_iter().filter(|it| it.rise > 0)
    }
}

fn say(finding: &mut Finding, processors: &[Processor<'_>], before: &Snapshot, after: &Snapshot) {
    let saturated: Vec<&Processor<'_>> = processors.iter().filter(|it| it.is_saturated()).collect();
    let squeezed: Vec<&Processor<'_>> = processors.iter().filter(|it| it.squeezes > 0).collect();
    let device = match &finding.place {
        Place::Device(name) => Some(name.clone()),
        _ => None,
    };
    let reported = processors.iter().filter(|it| it.is_saturated() || it.squeezes > 0);
    let more: Vec<Evidence> = reported.flat_map(|it| it.evidence(before, after, device.as_deref())).collect();
    finding.evidence.extend(more);
    if !saturated.is_empty() {
        let each = saturated
            .iter()
            .map(|it| format!("{} ran {:.0} % of the time", it.number(), it.share.unwrap_or(1.0) * 100.0));
        let each: Vec<String> = each.collect();
        finding.why = format!("{}; the softirq of processor {}", finding.why, each.join(", of processor "));
        // The first remedy: more room only lets packets wait longer.
        finding.remedies.insert(0, spread(saturated.len() < number_of_processors(after), device.as_deref()));
    }
    if !squeezed.is_empty() {
        let numbers: Vec<&str> = squeezed.iter().map(|it| it.number()).collect();
        let what = "its turn ended before its work was done";
        finding.why =
            format!("{}; {what} (softnet_time_squeeze, processor {})", finding.why, numbers.join(", "));
        finding.remedies.push(longer_turns(after));
    }
}

/// Returns the number of processors that ever received packets.
fn number_of_processors(snapshot: &Snapshot) -> usize {
    snapshot.of_prefix("softnet_processed/").count()
}

fn spread(has_others: bool, device: Option<&str>) -> Remedy {
    let device = device.unwrap_or("DEVICE");
    Remedy::by_hand(&if has_others {
        format!(
            "spread what comes in over the other processors: several queues (`ethtool -L {device} combined N`), RPS (`echo MASK > /sys/class/net/{device}/queues/rx-0/rps_cpus`); keep the reader off this one"
        )
    } else {
        "reduce the number of packets or the cost of each: larger datagrams, trains (UDP_GRO), shorter firewall rule sets; every processor is busy with them".to_owned()
    })
}

/// Setting of the softirq's budget. The defaults are in `net/core/hotdata.c`: packets, and microseconds at 250 ticks
/// a second.
const BUDGET: &str = "net.core.netdev_budget";
const BUDGET_TIME: &str = "net.core.netdev_budget_usecs";

/// Returns a remedy for a person: it affects the whole host, and a measurement of one stream would not prove it.
fn longer_turns(after: &Snapshot) -> Remedy {
    let what = "let a softirq work longer before it yields: twice the packets and the time";
    let now = |name: &str| after.levels.get(name).copied();
    let Some((packets, time)) = now(BUDGET).zip(now(BUDGET_TIME)) else {
        return Remedy::by_hand(&format!(
            "{what} ({BUDGET}, {BUDGET_TIME}, in the host's own network namespace)"
        ));
    };
    let set = |times: u64| {
        let [packets, time] = [packets, time].map(|now| now.saturating_mul(times));
        format!("sysctl -w {BUDGET}={packets} {BUDGET_TIME}={time}")
    };
    Remedy::by_command(what, set(2), set(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::counters::{Ahead, of_counters};
    use crate::watch::snapshot::tests::snapshot;

    fn reported(after: &Snapshot) -> Vec<Finding> {
        let drivers = after.of_prefix("ethtool:").map(|name| (name, 0));
        let processed = [("softnet_processed/cpu0", 5), ("softnet_processed/cpu1", 5)];
        let before = snapshot(0, &processed.into_iter().chain(drivers).collect::<Vec<_>>());
        let mut findings = of_counters(&before, after, &mut Ahead::default());
        crate::watch::driver::explain(&mut findings, &before, after);
        explain(&mut findings, &before, after);
        findings
    }

    fn names(finding: &Finding) -> Vec<&str> {
        finding.evidence.iter().map(|it| it.counter.as_str()).collect()
    }

    /// Both processors received packets; the second's softirq ran for `ticks` of a second's hundred.
    fn busy(ticks: u64, counters: &[(&str, u64)]) -> Snapshot {
        let all = [
            ("NET_RX/cpu0", 40),
            ("NET_RX/cpu1", 900),
            ("softnet_processed/cpu0", 50),
            ("softnet_processed/cpu1", 9_000),
            ("stat:softirq/cpu0", 3),
            ("stat:softirq/cpu1", ticks),
        ];
        snapshot(1, &[&all, counters].concat())
    }

    #[test]
    fn a_backlog_of_a_processor_that_did_nothing_else_is_spread_over_others_first() {
        let finding = reported(&busy(97, &[("softnet_dropped/cpu1", 7)])).remove(0);
        assert_eq!(names(&finding), ["softnet_dropped/cpu1", "NET_RX/cpu1", "stat:softirq/cpu1"]);
        assert!(
            finding.why.ends_with("; the softirq of processor 1 ran 97 % of the time"),
            "{}",
            finding.why
        );
        assert!(finding.remedies[0].what.contains("rps_cpus"), "{:?}", finding.remedies);
        assert!(
            finding.remedies[1].command().unwrap().contains("netdev_max_backlog"),
            "{:?}",
            finding.remedies
        );
    }

    #[test]
    fn a_softirq_that_kept_up_explains_nothing() {
        let below = reported(&busy(89, &[("softnet_dropped/cpu1", 7)])).remove(0);
        assert_eq!((names(&below), below.remedies.len()), (vec!["softnet_dropped/cpu1"], 1));
        let other = reported(&busy(97, &[("softnet_dropped/cpu0", 7)])).remove(0);
        assert_eq!(names(&other), ["softnet_dropped/cpu0"], "another processor's");
        let reached = reported(&busy(90, &[("softnet_dropped/cpu1", 7)])).remove(0);
        assert_eq!(reached.remedies.len(), 2);
    }

    #[test]
    fn between_snapshots_too_near_to_each_other_no_share_is_seen() {
        let at = |millis| Snapshot {
            at: units::Instant::ORIGIN + Duration::from_millis(millis),
            ..busy(millis / 10, &[("softnet_dropped/cpu1", 7)])
        };
        let number = |millis| reported(&at(millis)).remove(0).remedies.len();
        assert_eq!((number(39), number(40)), (1, 2));
    }

    #[test]
    fn alone_a_busy_softirq_is_no_loss() {
        assert_eq!(
            reported(&busy(100, &[("softnet_time_squeeze/cpu1", 9), ("interrupts:eth0/cpu1", 99)])),
            []
        );
    }

    #[test]
    fn a_turn_that_was_too_short_is_made_longer_and_taken_back() {
        let mut after = busy(10, &[("softnet_dropped/cpu1", 7), ("softnet_time_squeeze/cpu1", 4)]);
        let by_hand = reported(&after).remove(0);
        assert_eq!(names(&by_hand), ["softnet_dropped/cpu1", "NET_RX/cpu1", "softnet_time_squeeze/cpu1"]);
        assert_eq!((by_hand.remedies.len(), by_hand.remedies[1].command()), (2, None));
        after.levels = [(BUDGET.to_owned(), 300), (BUDGET_TIME.to_owned(), 8_000)].into();
        let remedy = reported(&after).remove(0).remedies.remove(1);
        let expected = "sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=16000";
        assert_eq!(remedy.command().as_deref(), Some(expected));
        let back = "sysctl -w net.core.netdev_budget=300 net.core.netdev_budget_usecs=8000";
        assert_eq!(remedy.undo().as_deref(), Some(back));
        assert_eq!(remedy.change, None, "`fix` leaves it to a person");
    }

    #[test]
    fn a_full_ring_is_explained_by_the_processors_that_take_its_interrupts() {
        let ring = [("rx_drop/eth0", 9), ("ethtool:rx_missed_errors/eth0", 9), ("interrupts:eth0/cpu1", 70)];
        let finding = reported(&busy(100, &ring)).remove(0);
        let expected = [
            "rx_drop/eth0",
            "ethtool:rx_missed_errors/eth0",
            "NET_RX/cpu1",
            "interrupts:eth0/cpu1",
            "stat:softirq/cpu1",
        ];
        assert_eq!(names(&finding), expected);
        assert!(finding.remedies[0].what.contains("ethtool -L eth0"), "{:?}", finding.remedies);
        assert!(finding.remedies[1].what.contains("ethtool -g eth0"), "{:?}", finding.remedies);
        let elsewhere = [("rx_drop/eth0", 9), ("interrupts:eth0/cpu0", 70)];
        assert_eq!(names(&reported(&busy(100, &elsewhere)).remove(0)), ["rx_drop/eth0"]);
        let damaged = [("rx_errs/eth0", 9), ("ethtool:rx_crc_errors/eth0", 9), ("interrupts:eth0/cpu1", 70)];
        assert_eq!(
            reported(&busy(100, &damaged)).remove(0).remedies.len(),
            1,
            "nobody was too slow for them"
        );
    }

    #[test]
    fn where_every_processor_is_busy_with_it_there_is_nothing_to_spread() {
        let all = [("softnet_dropped/cpu0", 7), ("softnet_dropped/cpu1", 7), ("stat:irq/cpu0", 95)];
        let finding = reported(&busy(100, &all)).remove(0);
        assert!(
            finding.why.contains("processor 0 ran 98 % of the time, of processor 1 ran 100 %"),
            "{}",
            finding.why
        );
        assert!(finding.remedies[0].what.contains("every processor"), "{:?}", finding.remedies);
    }
}
