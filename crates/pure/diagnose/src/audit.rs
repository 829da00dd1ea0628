//! Whether a host is set up for continuous data: what it is, what it should be for the rate it shall carry, and why.
//!
//! Nothing is recommended by custom: buffers follow from the rate and the longest pause, limits from what the host has counted since
//! it was started. One function a subject; [`audit`] is the list.

mod card;
mod firewall;
mod groups;
mod host;
mod network;
mod processors;
mod queue;
mod tcp;

use core::time::Duration;
use std::collections::BTreeMap;

use crate::Remedy;
pub use card::{Card, Channels, Coalescing, Pause, Ring};
pub use firewall::{Chain, DropRule, Firewall};
pub use groups::{Bridge, Groups};
pub use processors::{Interrupt, Processors};
pub use queue::Queue;
pub use tcp::Tcp;

/// What was found out about a host. What could not be read is not there.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    /// What shall be carried.
    pub load: Load,
    /// Numbers of `/proc/sys`, by their dotted names.
    pub settings: BTreeMap<String, u64>,
    /// What the kernel has counted since the host was started, as in [`Snapshot::counters`](crate::Snapshot::counters).
    pub counters: BTreeMap<String, u64>,
    /// How long ago the host was started.
    pub uptime: Option<Duration>,
    /// The interfaces that are switched on.
    pub interfaces: Vec<Interface>,
    /// The bridges that are, or have as a port, one of the interfaces.
    pub bridges: Vec<Bridge>,
    /// What is to be seen of the firewall.
    pub firewall: Firewall,
    /// How TCP is set.
    pub tcp: Tcp,
    /// Whether groups have a route of their own (224.0.0.0/4).
    pub has_multicast_route: Option<bool>,
    /// Pages of UDP memory in use, and the size of a page.
    pub udp_memory_pages: Option<u64>,
    /// Whether the clock is disciplined, and by how much it may be wrong.
    pub clock: Option<Clock>,
    /// Its processors.
    pub processors: Option<Processors>,
    /// How processors choose their frequency, each governor once.
    pub governors: Vec<String>,
    /// What this is, if no machine of its own: `virtual machine`, `container`.
    pub guest: Option<String>,
    /// Bytes of swap in use.
    pub swap_used_bytes: Option<u64>,
    /// How full disks are.
    pub disks: Vec<Disk>,
    /// The share of the last minute in which something waited for `cpu`, `io`, `memory`, in percent.
    pub pressure: BTreeMap<String, f64>,
    /// The share of the last ten seconds in which something waited for a disk, in percent.
    pub waiting_for_disks_percent: Option<f64>,
    /// The processes that are blocked this moment, as `name[pid]`.
    pub blocked: Vec<String>,
}

/// What shall be carried.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// Payload in a second.
    pub bytes_per_second: f64,
    /// Where that is from, in words.
    pub origin: &'static str,
    /// How long a reader may not come to read.
    pub longest_pause: Duration,
    /// How long to the other end and back, where that is known.
    pub round_trip: Option<Duration>,
}

/// A network interface.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The largest IP packet, in bytes.
    pub mtu: u32,
    /// What it carries, where its driver tells.
    pub bits_per_second: Option<u64>,
    /// Leads back to this host only.
    pub is_loopback: bool,
    /// Takes groups.
    pub takes_groups: bool,
    /// How its card is set.
    pub card: Card,
    /// It is a port of a bridge.
    pub is_bridged: bool,
    /// What was joined on it.
    pub groups: Option<Groups>,
    /// The queue before it.
    pub queue: Option<Queue>,
    /// Its card's interrupts: none if it is a virtual one, nothing where they cannot be seen.
    pub interrupts: Option<Vec<Interrupt>>,
}

/// A clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Clock {
    /// A daemon disciplines it.
    pub is_synchronised: bool,
    /// By how much it may be wrong, as that daemon says.
    pub max_error: Duration,
}

/// A disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Disk {
    /// Where it is mounted.
    pub path: String,
    /// How much of it is used, from 0 to 1.
    pub used_share: f64,
}

/// How a host stands in one respect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Judgement {
    /// Nothing to do.
    Ok,
    /// It cannot be seen here.
    NotSeen,
    /// It may cost data.
    Warn,
    /// It will.
    Fail,
}

/// The judgement of a host in one respect.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// The respect in which the host is judged.
    pub name: &'static str,
    /// How it stands.
    pub judgement: Judgement,
    /// What it is now.
    pub live: String,
    /// What it should be, where that is another value.
    pub recommended: Option<String>,
    /// Why that matters.
    pub why: String,
    /// What helps.
    pub remedies: Vec<Remedy>,
}

impl Default for Load {
    fn default() -> Self {
        Self { bytes_per_second: 0.0, origin: "", longest_pause: Duration::ZERO, round_trip: None }
    }
}

impl Judgement {
    /// Returns it in a word.
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

    /// Returns what the kernel has counted under a name, all processors or devices together.
    fn counted(&self, name: &str) -> u64 {
        let of_places = self.counters.iter().filter(|(key, _)| key.split('/').next() == Some(name));
        of_places.map(|(_, count)| count).sum()
    }
}

/// Judges a host, each respect on its own; one respect may have several checks, such as one for each interface.
#[must_use]
pub fn audit(facts: &Facts) -> Vec<Check> {
    const CHECKS: [fn(&Facts) -> Vec<Check>; 27] = [
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
    CHECKS.iter().flat_map(|judge| judge(facts)).collect()
}

/// Returns the name of an interface's setting of IPv4, as `sysctl` takes it: where a dot is in the interface's, with slashes.
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
