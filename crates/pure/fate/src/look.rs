//! What a host shows at one moment, to whoever may ask without privilege.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use units::Instant;

use crate::verdict::Place;

/// A look at a host.
#[derive(Clone, PartialEq, Debug)]
pub struct Look {
    /// When it was taken.
    pub at: Instant,
    /// The kernel's counts by name, as `sys::counters` has them: `UdpRcvbufErrors`, `rx_drop/eth0`, ….
    pub counters: BTreeMap<String, u64>,
    /// The UDP sockets of the network namespace, listed after the counts were read; in the order of their cookies.
    pub sockets: Vec<Socket>,
    /// The drops of sockets, by their cookies, as they were before the counts were read: what a socket dropped between two looks
    /// for certain is a part of what was counted between them.
    pub early_drops: BTreeMap<u64, u32>,
    /// The names of network devices, by their numbers.
    pub devices: BTreeMap<u32, String>,
    /// The settings that cures change.
    pub settings: Settings,
}

/// A UDP socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Socket {
    /// What tells it from every other.
    pub cookie: u64,
    /// Where it is bound.
    pub local: SocketAddr,
    /// What its receive buffer holds, the kernel's overhead included.
    pub buffer_bytes: u32,
    /// What it dropped so far: datagrams, or trains where it takes them; wraps.
    pub drops: u32,
    /// Whose it is; `None` where that may not be seen.
    pub owner: Option<Owner>,
}

/// A process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// What its threads did so far.
    pub threads: Vec<Thread>,
}

/// What a thread did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// How long it ran, in nanoseconds.
    pub ran_ns: u64,
    /// How long it could have run and had no processor, in nanoseconds.
    pub waited_ns: u64,
    /// It is blocked at this moment, as by a disk.
    pub is_blocked: bool,
}

/// Settings of the host as they are now; `None` where they cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// `net.core.rmem_max`: the largest receive buffer that a program gets by asking, as asked for.
    pub rmem_max_bytes: Option<u64>,
    /// `net.core.rmem_default`: what a socket has that asks for none, the kernel's overhead included.
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

impl Look {
    pub(crate) fn socket(&self, cookie: u64) -> Option<&Socket> {
        let index = self.sockets.binary_search_by_key(&cookie, |socket| socket.cookie).ok()?;
        Some(&self.sockets[index])
    }

    /// Returns by how much a count rose since an earlier look; nothing for one that began anew meanwhile.
    pub(crate) fn rise(&self, before: &Self, name: &str) -> u64 {
        let count = |look: &Self| look.counters.get(name).copied();
        let Some(now) = count(self) else { return 0 };
        // A device that has come since has counted from zero.
        let then = count(before).unwrap_or(0);
        now.checked_sub(then).unwrap_or_else(|| wrapped(name, then, now))
    }

    /// Returns the counts whose names begin so, with what stands behind the slash: processors or devices.
    pub(crate) fn rises<'a>(
        &'a self,
        before: &'a Self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a str, u64)> {
        self.counters.keys().filter_map(move |key| {
            let place = key.strip_prefix(name)?.strip_prefix('/')?;
            Some((place, self.rise(before, key)))
        })
    }
}

/// Counts of processors have 32 bits; others that fell have begun anew, nobody knows when.
///
/// Those of queues have 32 bits, too, and begin anew whenever somebody sets the queue up again, which is likelier.
fn wrapped(name: &str, then: u64, now: u64) -> u64 {
    let is_of_processor = name.contains("/cpu");
    match (u32::try_from(then), u32::try_from(now)) {
        (Ok(then), Ok(now)) if is_of_processor => now.wrapping_sub(then).into(),
        _ => 0,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use core::time::Duration;

    /// Makes a look some seconds after the first.
    pub(crate) fn look(seconds: u64, counters: &[(&str, u64)]) -> Look {
        let counters = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let at = Instant::ORIGIN + Duration::from_secs(seconds);
        let (sockets, early_drops, settings) = (Vec::new(), BTreeMap::new(), Settings::default());
        let devices = BTreeMap::from([(2, "eth0".to_owned())]);
        Look { at, counters, sockets, early_drops, devices, settings }
    }

    #[test]
    fn counts_rise_from_what_they_were() {
        let before =
            look(0, &[("UdpNoPorts", 5), ("rx_drop/eth0", 9), ("softnet_dropped/cpu0", u64::from(u32::MAX))]);
        let after = look(
            1,
            &[("UdpNoPorts", 8), ("rx_drop/eth0", 2), ("softnet_dropped/cpu0", 3), ("rx_drop/new", 4)],
        );
        let rise = |name| after.rise(&before, name);
        assert_eq!((rise("UdpNoPorts"), rise("no such"), rise("rx_drop/new")), (3, 0, 4));
        assert_eq!(rise("rx_drop/eth0"), 0, "the device was replaced");
        assert_eq!(rise("softnet_dropped/cpu0"), 4, "32 bits");
        assert_eq!(after.rises(&before, "rx_drop").collect::<Vec<_>>(), [("eth0", 0), ("new", 4)]);
    }
}
