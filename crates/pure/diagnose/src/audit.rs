//! Audit of a host for continuous data: its settings, the values they should have for the expected rate, and why.
//!
//! No recommendation is a mere convention: buffers follow from the rate and the longest pause, limits from the
//! kernel's counts since the host was started. One function per subject; [`audit`] is the list.

pub mod bus;
mod card;
mod firewall;
mod groups;
mod host;
mod network;
mod processors;
mod queue;
mod tcp;
mod udt;

use core::time::Duration;
use std::collections::BTreeMap;

use crate::Remedy;
pub use card::{Card, Channels, Coalescing, Offloads, Pause, Ring};
pub use firewall::{Chain, DropRule, Firewall};
pub use groups::{Bridge, Groups};
pub use processors::{Interrupt, Processors};
pub use queue::Queue;
pub use tcp::Tcp;

/// Facts about a host. A fact that could not be read is absent.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    /// Expected load.
    pub load: Load,
    /// Numbers of `/proc/sys`, by their dotted names.
    pub settings: BTreeMap<String, u64>,
    /// Kernel counters since the host was started, as in [`Snapshot::counters`](crate::Snapshot::counters).
    pub counters: BTreeMap<String, u64>,
    /// Time since the host was started.
    pub uptime: Option<Duration>,
    /// Interfaces that are up.
    pub interfaces: Vec<Interface>,
    /// Bridges that are one of the interfaces, or have one of them as a port.
    pub bridges: Vec<Bridge>,
    /// Visible part of the firewall.
    pub firewall: Firewall,
    /// Settings of TCP.
    pub tcp: Tcp,
    /// True if groups have a route of their own (224.0.0.0/4).
    pub has_multicast_route: Option<bool>,
    /// Number of pages of UDP memory in use.
    pub udp_memory_pages: Option<u64>,
    /// State and maximum error of the clock.
    pub clock: Option<Clock>,
    /// Processors of the host.
    pub processors: Option<Processors>,
    /// Frequency governors of the processors, each once.
    pub governors: Vec<String>,
    /// Kind of guest, if this is no physical machine: `virtual machine`, `container`.
    pub guest: Option<String>,
    /// Swap in use, in bytes.
    pub swap_used_bytes: Option<u64>,
    /// Fill levels of the disks.
    pub disks: Vec<Disk>,
    /// Share of the last minute in which a task waited for `cpu`, `io`, `memory`, in percent.
    pub pressure: BTreeMap<String, f64>,
    /// Share of the last ten seconds in which a task waited for a disk, in percent.
    pub waiting_for_disks_percent: Option<f64>,
    /// Processes that are blocked at the moment, as `name[pid]`.
    pub blocked: Vec<String>,
}

/// Load that the host is expected to carry.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// Payload in bytes per second.
    pub bytes_per_second: f64,
    /// Origin of that value, as text.
    pub origin: &'static str,
    /// Longest time in which a reader does not read.
    pub longest_pause: Duration,
    /// Round-trip time to the other end, where it is known.
    pub round_trip: Option<Duration>,
}

/// Network interface.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Link rate in bits per second, where the driver reports it.
    pub bits_per_second: Option<u64>,
    /// True for a loopback interface.
    pub is_loopback: bool,
    /// True if it supports multicast.
    pub takes_groups: bool,
    /// Settings of its card.
    pub card: Card,
    /// True if it is a port of a bridge.
    pub is_bridged: bool,
    /// Groups joined on it.
    pub groups: Option<Groups>,
    /// Queue of the interface.
    pub queue: Option<Queue>,
    /// Interrupts of its card: empty for a virtual interface, `None` where they cannot be seen.
    pub interrupts: Option<Vec<Interrupt>>,
}

/// State of the clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Clock {
    /// True if a daemon disciplines it.
    pub is_synchronised: bool,
    /// Maximum error, as reported by that daemon.
    pub max_error: Duration,
}

/// Disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Disk {
    /// Mount point.
    pub path: String,
    /// Used share, from 0 to 1.
    pub used_share: f64,
}

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Judgement {
    /// Nothing to do.
    Ok,
    /// It cannot be seen here.
    NotSeen,
    /// It may lose data.
    Warn,
    /// It will lose data.
    Fail,
}

/// Check of one setting or property of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// Name of the check.
    pub name: &'static str,
    /// Result of the check.
    pub judgement: Judgement,
    /// Current value.
    pub live: String,
    /// Recommended value, where it differs.
    pub recommended: Option<String>,
    /// Reason why it matters.
    pub why: String,
    /// Remedies.
    pub remedies: Vec<Remedy>,
}

impl Default for Load {
    fn default() -> Self {
        Self { bytes_per_second: 0.0, origin: "", longest_pause: Duration::ZERO, round_trip: None }
    }
}

impl Judgement {
    /// All results.
    pub const ALL: [Self; 4] = [Self::Ok, Self::NotSeen, Self::Warn, Self::Fail];

    /// Returns the name of the result.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotSeen => "not seen",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl Check {
    pub(crate) fn new(
        name: &'static str,
        judgement: Judgement,
        live: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        let (live, why) = (live.into(), why.into());
        Self { name, judgement, live, recommended: None, why, remedies: Vec::new() }
    }

    fn not_seen(name: &'static str, why: &str) -> Self {
        Self::new(name, Judgement::NotSeen, "?", why)
    }

    pub(crate) fn with_remedies(mut self, remedies: impl IntoIterator<Item = Remedy>) -> Self {
        self.remedies.extend(remedies);
        self
    }

    fn recommending(
        self,
        recommended: impl Into<String>,
        remedies: impl IntoIterator<Item = Remedy>,
    ) -> Self {
        Self { recommended: Some(recommended.into()), remedies: remedies.into_iter().collect(), ..self }
    }
}

impl Facts {
    fn setting(&self, name: &str) -> Option<u64> {
        self.settings.get(name).copied()
    }

    /// Returns the sum of a kernel counter over all processors or devices.
    fn counted(&self, name: &str) -> u64 {
        let of_places = self.counters.iter().filter(|(key, _)| key.split('/').next() == Some(name));
        of_places.map(|(_, count)| count).sum()
    }
}

/// Names of the checks of an audit.
pub const CHECK_NAMES: &[&str] = &[
    "receive-buffer-limit",
    "receive-buffer-default",
    "send-buffer-limit",
    "udp-memory",
    "backlog",
    "softirq-budget",
    "rp-filter",
    "interfaces",
    "multicast-interface",
    "mtu",
    "link-speed",
    "multicast-route",
    "group-membership",
    "group-querier",
    "firewall",
    "reassembly",
    "card",
    "card-ring",
    "card-channels",
    "card-coalescing",
    "card-pause",
    "card-offloads",
    "card-settings",
    "send-queue",
    "udt-buffers",
    "tcp-buffers",
    "tcp-window-scaling",
    "tcp-sack",
    "tcp-timestamps",
    "tcp-congestion-control",
    "clock",
    "processor-frequency",
    "processor-isolation",
    "interrupt-affinity",
    "guest",
    "swap",
    "disk",
    "pressure",
    "disk-stall",
    "bus-streams",
    "bus-keys",
    "bus-secrets",
    "bus-certificates",
    "bus-clocks",
];

/// Checks a host, each subject separately; a subject may have several checks, such as one for each interface.
#[must_use]
pub fn audit(facts: &Facts) -> Vec<Check> {
    const CHECKS: [fn(&Facts) -> Vec<Check>; 28] = [
        network::receive_buffer_limit,
        network::receive_buffer_default,
        network::send_buffer_limit,
        network::udp_memory,
        network::backlog,
        network::softirq_budget,
        network::reverse_path,
        network::interfaces,
        network::multicast_route,
        groups::memberships,
        groups::queriers,
        firewall::firewall,
        network::reassembly,
        network::card,
        card::settings,
        queue::send_queues,
        udt::buffers,
        tcp::buffers,
        tcp::options,
        tcp::congestion_control,
        host::clock,
        host::frequency,
        processors::isolation,
        processors::interrupts,
        host::guest,
        host::memory_and_disks,
        host::pressure,
        host::disk_stall,
    ];
    let checks: Vec<Check> = CHECKS.iter().flat_map(|judge| judge(facts)).collect();
    debug_assert!(
        checks.iter().all(|it| CHECK_NAMES.contains(&it.name)),
        "every check is in the list of names"
    );
    checks
}

/// Returns the `sysctl` name of an interface's IPv4 setting: with slashes if the interface's name has a dot.
#[must_use]
pub fn interface_setting(interface: &str, setting: &str) -> String {
    let separator = if interface.contains('.') { '/' } else { '.' };
    ["net", "ipv4", "conf", interface, setting].join(&separator.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_host_that_shows_nothing_nothing_is_claimed() {
        for check in audit(&Facts::default()) {
            assert!(matches!(check.judgement, Judgement::NotSeen | Judgement::Ok), "{check:?}");
        }
    }
}
