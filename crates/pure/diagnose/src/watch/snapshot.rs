//! The state of a host at one moment, as far as it can be read without privilege.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound;

use serde::{Deserialize, Serialize, Serializer};
use units::Instant;

use crate::watch::finding::Place;

/// A snapshot of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// Time of the snapshot.
    pub at: Instant,
    /// Kernel counters by name, as `sys::counters` has them: `UdpRcvbufErrors`, `rx_drop/eth0`, ….
    pub counters: BTreeMap<String, u64>,
    /// Levels at this moment by name, as `sys::levels` has them: `UDP mem`, `FRAG memory`, and settings that limit
    /// them; and the space on the disks of blocked readers ([`crate::disk_levels`]).
    pub levels: BTreeMap<String, u64>,
    /// UDP sockets of the network namespace, listed after the counters were read; in the order of their cookies.
    pub sockets: Vec<Socket>,
    /// Drops of sockets, by their cookies, before the counters were read: the certain drops of a socket between two
    /// snapshots are a part of the counters' rise between them.
    pub early_drops: BTreeMap<u64, u32>,
    /// Names of network devices, by their numbers.
    pub devices: BTreeMap<u32, String>,
    /// Settings that remedies change.
    pub settings: Settings,
}

/// A UDP socket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Socket {
    /// Identity among all sockets of the host.
    pub cookie: u64,
    /// Address that it is bound to.
    pub local: SocketAddr,
    /// Size of its receive buffer, the kernel's overhead included, in bytes.
    pub buffer_bytes: u32,
    /// Drops so far: datagrams, or trains where it takes them; wraps.
    pub drops: u32,
    /// Owner; `None` where it may not be seen.
    pub owner: Option<Owner>,
}

/// A process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// Activity of its threads so far.
    pub threads: Vec<Thread>,
}

/// Activity of a thread so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct Thread {
    /// Number of the thread.
    pub tid: u32,
    /// Running time, in nanoseconds.
    pub ran_ns: u64,
    /// Time runnable without a processor, in nanoseconds.
    pub waited_ns: u64,
    /// True if it is blocked at this moment, as by a disk.
    pub is_blocked: bool,
    /// Number of page faults that had to read from a disk.
    #[serde(default)]
    pub major_faults: u64,
}

/// An array in the order of the fields, which is also how it is read. Major faults are left out where there were none,
/// as in files from before they were recorded.
impl Serialize for Thread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { tid, ran_ns, waited_ns, is_blocked, major_faults } = *self;
        match major_faults {
            0 => (tid, ran_ns, waited_ns, is_blocked).serialize(serializer),
            faults => (tid, ran_ns, waited_ns, is_blocked, faults).serialize(serializer),
        }
    }
}

/// Current settings of the host; `None` where they cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// `net.core.rmem_max`: largest receive buffer that a program can request, in bytes as requested.
    pub rmem_max_bytes: Option<u64>,
    /// `net.core.rmem_default`: receive buffer of a socket without a request, the kernel's overhead included, in
    /// bytes.
    pub rmem_default_bytes: Option<u64>,
    /// `net.core.netdev_max_backlog`, in packets.
    pub netdev_max_backlog: Option<u64>,
}

impl Socket {
    pub(crate) fn place(&self) -> Place {
        let owner = self.owner.as_ref().map(|owner| (owner.pid, owner.name.clone()));
        Place::Socket { cookie: self.cookie, local: self.local, owner }
    }
}

impl Snapshot {
    pub(crate) fn socket(&self, cookie: u64) -> Option<&Socket> {
        let index = self.sockets.binary_search_by_key(&cookie, |socket| socket.cookie).ok()?;
        Some(&self.sockets[index])
    }

    /// Returns whether a counter rose since an earlier snapshot that levels and their limits help to explain.
    #[must_use]
    pub fn wants_levels(&self, before: &Self) -> bool {
        const COUNTERS: [&str; 4] = ["IpReasmFails", "Ip6ReasmFails", "UdpMemErrors", "Udp6MemErrors"];
        const OF_PROCESSORS: [&str; 2] = ["softnet_dropped", "softnet_time_squeeze"];
        // Where memory for datagrams is short only the sockets' own counters rise.
        let drops = |snapshot: &Self, cookie| snapshot.socket(cookie).map_or(0, |socket| socket.drops);
        COUNTERS.iter().any(|name| self.rise(before, name) > 0)
            || OF_PROCESSORS.iter().any(|name| self.rises(before, name).any(|(_, rise)| rise > 0))
            || self.sockets.iter().any(|socket| socket.drops != drops(before, socket.cookie))
    }

    /// Returns the rise of a counter since an earlier snapshot; 0 for one that was reset meanwhile.
    pub(crate) fn rise(&self, before: &Self, name: &str) -> u64 {
        let count = |snapshot: &Self| snapshot.counters.get(name).copied();
        let Some(now) = count(self) else { return 0 };
        // A new device has counted from zero; a counter that its driver reports only now may be older.
        let then = count(before).unwrap_or_else(|| if before.may_have_counted(name) { now } else { 0 });
        now.checked_sub(then).unwrap_or_else(|| wrapped(name, then, now))
    }

    /// Returns whether a counter is a driver's and its device existed.
    fn may_have_counted(&self, name: &str) -> bool {
        let device = name.strip_prefix("ethtool:").and_then(|rest| Some(rest.rsplit_once('/')?.1));
        device.is_some_and(|device| self.devices.values().any(|it| it == device))
    }

    /// Returns the names of counters with a prefix.
    pub(crate) fn of_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.counters.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.map(|(name, _)| name.as_str()).take_while(move |name| name.starts_with(prefix))
    }

    /// Returns the counters with a prefix, with the part of the name behind the slash: processors or devices.
    pub(crate) fn rises<'a>(
        &'a self,
        before: &'a Self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a str, u64)> {
        self.of_prefix(name).filter_map(move |key| {
            let place = key.strip_prefix(name)?.strip_prefix('/')?;
            Some((place, self.rise(before, key)))
        })
    }
}

/// Returns the rise of a counter that fell. Most counters of processors have 32 bits; others that fell were reset at
/// an unknown time. Times of processors (`stat:…`) have more bits, and may decrease a little.
///
/// Those of queues have 32 bits, too, and are reset whenever the queue is set up again, which is more likely.
fn wrapped(name: &str, then: u64, now: u64) -> u64 {
    let is_of_processor = OF_32_BITS.iter().any(|of| name.starts_with(of)) && name.contains("/cpu");
    match (u32::try_from(then), u32::try_from(now)) {
        (Ok(then), Ok(now)) if is_of_processor => now.wrapping_sub(then).into(),
        _ => 0,
    }
}

/// Prefixes of processor counters with 32 bits.
const OF_32_BITS: [&str; 3] = ["softnet_", "NET_RX/", "interrupts:"];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use core::time::Duration;

    /// Returns a snapshot some seconds after the first.
    pub(crate) fn snapshot(seconds: u64, counters: &[(&str, u64)]) -> Snapshot {
        let counters = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let at = Instant::ORIGIN + Duration::from_secs(seconds);
        let (sockets, early_drops, settings) = (Vec::new(), BTreeMap::new(), Settings::default());
        let levels = BTreeMap::new();
        let devices = BTreeMap::from([(2, "eth0".to_owned())]);
        Snapshot { at, counters, levels, sockets, early_drops, devices, settings }
    }

    #[test]
    fn counts_rise_from_what_they_were() {
        let before = snapshot(
            0,
            &[("UdpNoPorts", 5), ("rx_drop/eth0", 9), ("softnet_dropped/cpu0", u64::from(u32::MAX))],
        );
        let after = snapshot(
            1,
            &[("UdpNoPorts", 8), ("rx_drop/eth0", 2), ("softnet_dropped/cpu0", 3), ("rx_drop/new", 4)],
        );
        let rise = |name| after.rise(&before, name);
        assert_eq!((rise("UdpNoPorts"), rise("no such"), rise("rx_drop/new")), (3, 0, 4));
        assert_eq!(rise("rx_drop/eth0"), 0, "the device was replaced");
        assert_eq!(rise("softnet_dropped/cpu0"), 4, "32 bits");
        assert_eq!(after.rises(&before, "rx_drop").collect::<Vec<_>>(), [("eth0", 0), ("new", 4)]);
    }

    #[test]
    fn a_counter_that_a_driver_reports_late_has_not_risen_and_one_of_a_new_device_has() {
        let after = snapshot(1, &[("ethtool:rx0_drops/eth0", 7), ("ethtool:rx0_drops/eth9", 7)]);
        let rise = |name| after.rise(&snapshot(0, &[]), name);
        assert_eq!((rise("ethtool:rx0_drops/eth0"), rise("ethtool:rx0_drops/eth9")), (0, 7));
    }

    #[test]
    fn levels_are_wanted_where_something_rose_that_they_explain() {
        let before = snapshot(0, &[("IpReasmFails", 3), ("UdpNoPorts", 3), ("softnet_time_squeeze/cpu1", 3)]);
        let wants = |counters: &[_]| snapshot(1, counters).wants_levels(&before);
        assert!(!wants(&[("IpReasmFails", 3), ("UdpNoPorts", 9), ("softnet_time_squeeze/cpu1", 3)]));
        assert!(wants(&[("IpReasmFails", 4)]) && wants(&[("softnet_time_squeeze/cpu1", 4)]));
        let local = "127.0.0.1:1".parse().unwrap();
        let mut after = snapshot(1, &[]);
        after.sockets = vec![Socket { cookie: 1, local, buffer_bytes: 1, drops: 1, owner: None }];
        assert!(after.wants_levels(&before) && !after.wants_levels(&after));
    }

    #[test]
    fn only_what_has_32_bits_wraps_there() {
        let most = u64::from(u32::MAX);
        for (name, expected) in [
            ("softnet_time_squeeze/cpu1", 4),
            ("NET_RX/cpu1", 4),
            ("interrupts:eth0/cpu1", 4),
            ("stat:softirq/cpu1", 0),
            ("ethtool:rx_missed_errors/cpu1", 0),
            ("rx_drop/cpu1", 0),
            ("pswpin", 0),
        ] {
            assert_eq!(
                snapshot(1, &[(name, 3)]).rise(&snapshot(0, &[(name, most)]), name),
                expected,
                "{name}"
            );
        }
    }
}
