//! What the drivers of this network namespace's devices count (`ethtool -S`), and which processors took their interrupts.
//!
//! Names are asked for once for each device, and only those are read again that whoever asks wants: drivers have thousands. Neither
//! takes a privilege.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use units::Instant;

use crate::clock;
use crate::counters::Counters;
use crate::processors::{self, counts_of_interrupts};
use crate::raw::{DRIVER_NAME_BYTES, DriverCounts};

/// Reads what drivers count of the devices of this namespace, look by look.
///
/// - `ethtool:rx_missed_errors/eth0`: what the driver of a device counts, by its own name
/// - `interrupts:eth0/cpu1`: how often a processor took an interrupt of a device, all its queues together; wraps at 2³²
#[derive(Debug)]
pub struct DeviceCounters {
    /// Whether what a driver counts under a name is wanted.
    wants: fn(&str) -> bool,
    /// By the kernel's numbers.
    devices: BTreeMap<u32, Device>,
    /// `None` where no socket can be had.
    drivers: Option<DriverCounts>,
    interrupts: Interrupts,
}

/// How often processors took interrupts of devices when it was asked last.
#[derive(Debug, Default)]
struct Interrupts {
    asked: Option<Instant>,
    counts: Vec<(String, u64)>,
}

/// `/proc/interrupts` is long, and which processors take a card's does not change from one moment to the next.
const INTERRUPTS_EVERY: Duration = Duration::from_secs(1);

/// What is known of a device that does not change from look to look.
#[derive(Debug)]
struct Device {
    name: String,
    /// How many its driver has, wanted or not.
    count: usize,
    /// Where those that are wanted stand among them, and what they were when they could be read last.
    wanted: Vec<(usize, String, Option<u64>)>,
    /// Some of them were something else the time before.
    has_changed: bool,
    interrupts: BTreeSet<u32>,
}

impl DeviceCounters {
    /// Reads from now on what drivers count under the names that `wants` takes.
    #[must_use]
    pub fn new(wants: fn(&str) -> bool) -> Self {
        let (drivers, interrupts) = (DriverCounts::open().ok(), Interrupts::default());
        Self { wants, devices: BTreeMap::new(), drivers, interrupts }
    }

    /// Adds what is counted of the devices, which are told by their numbers and names.
    ///
    /// Cost: of a device without counts nothing, of others two system calls; `/proc/interrupts` if a device has interrupts, once a
    /// second, and whenever a driver's count changed.
    pub fn read(&mut self, devices: &BTreeMap<u32, String>, counters: &mut Counters) {
        self.devices.retain(|index, device| devices.get(index) == Some(&device.name));
        for (index, name) in devices {
            let drivers = self.drivers.as_mut();
            let find = |drivers: Option<&DriverCounts>| Device::find(*index, name, self.wants, drivers);
            let device = self.devices.entry(*index).or_insert_with(|| find(drivers.as_deref()));
            if let Some(drivers) = drivers.filter(|_| !device.wanted.is_empty())
                && !device.read(drivers, counters)
            {
                // It has other queues now, and other names.
                *device = find(Some(drivers));
                device.read(drivers, counters);
            }
        }
        let of: BTreeMap<u32, &str> = self.devices.values().flat_map(Device::of_interrupts).collect();
        let (now, has_changed) = (clock::monotonic(), self.devices.values().any(|device| device.has_changed));
        let is_due = self.interrupts.asked.is_none_or(|asked| now.since(asked) >= INTERRUPTS_EVERY);
        if of.is_empty() {
            self.interrupts.counts.clear();
        } else if is_due || has_changed {
            self.interrupts = Interrupts { asked: Some(now), counts: interrupts_of(&of) };
        }
        counters.extend(self.interrupts.counts.iter().cloned());
    }
}

fn interrupts_of(devices: &BTreeMap<u32, &str>) -> Vec<(String, u64)> {
    let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let counts = counts_of_interrupts(&text, |number| devices.get(&number).copied());
    counts
        .into_iter()
        .map(|((device, cpu), count)| (format!("interrupts:{device}/cpu{cpu}"), count))
        .collect()
}

impl Device {
    fn find(index: u32, name: &str, wants: fn(&str) -> bool, drivers: Option<&DriverCounts>) -> Self {
        let names = drivers.and_then(|drivers| drivers.names(name).ok());
        let names = names.map_or(Vec::new(), |bytes| names_in(&bytes));
        let count = names.len();
        let wanted = names.into_iter().enumerate().filter(|(_, name)| wants(name));
        let wanted = wanted.map(|(at, name)| (at, name, None)).collect();
        // Where `/sys` is another namespace's, or is not to be read, it has none that is known.
        let interrupts = processors::interrupt_numbers(index, name).unwrap_or_default();
        Self { name: name.to_owned(), count, wanted, has_changed: false, interrupts }
    }

    /// Adds what is wanted; tells whether the driver still has as many as when its names were asked for.
    fn read(&mut self, drivers: &mut DriverCounts, counters: &mut Counters) -> bool {
        // What cannot be read for a moment, as while the driver sets the card up again, has not risen: were it missing, all of it would
        // seem to have come when it is back.
        if let Ok(values) = drivers.values(&self.name) {
            if values.len() != self.count {
                return false;
            }
            let values: Vec<u64> = values.collect();
            let changes =
                self.wanted.iter_mut().map(|(at, _, last)| last.replace(values[*at]) != Some(values[*at]));
            self.has_changed = changes.fold(false, |any, changed| any | changed);
        }
        for (name, value) in self.wanted.iter().filter_map(|(_, name, last)| Some((name, (*last)?))) {
            // What several share is a sum: some drivers give the counts of queues the same name.
            let sum = counters.entry(format!("ethtool:{name}/{}", self.name)).or_default();
            *sum = sum.wrapping_add(value);
        }
        true
    }

    fn of_interrupts(&self) -> impl Iterator<Item = (u32, &str)> {
        self.interrupts.iter().map(|number| (*number, self.name.as_str()))
    }
}

/// Names of 32 bytes each, padded with zeros.
pub(crate) fn names_in(bytes: &[u8]) -> Vec<String> {
    let name = |bytes: &[u8]| {
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..len]).trim().to_owned()
    };
    bytes.chunks_exact(DRIVER_NAME_BYTES).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_the_first_zero_or_fill_their_place() {
        let mut bytes = [0; 3 * DRIVER_NAME_BYTES];
        bytes[..9].copy_from_slice(b"rx0_drops");
        bytes[32..64].copy_from_slice(b"rx_vlan_strip_of_thirty_two_byte");
        let expected = ["rx0_drops", "rx_vlan_strip_of_thirty_two_byte", ""];
        assert_eq!(names_in(&bytes), expected);
        assert_eq!(names_in(&bytes[..95]), expected[..2], "what is cut is left out");
    }

    #[test]
    fn the_loopback_interface_counts_nothing_and_one_that_went_is_forgotten() {
        let mut all = DeviceCounters::new(|_| true);
        let mut counters = Counters::new();
        all.read(&[(1, "lo".to_owned()), (9_999, "nosuch0".to_owned())].into(), &mut counters);
        assert_eq!((counters.len(), all.devices.len()), (0, 2));
        all.read(&[(1, "lo".to_owned())].into(), &mut counters);
        assert_eq!(all.devices.keys().collect::<Vec<_>>(), [&1]);
        // Another device under the same number.
        all.read(&[(1, "lo0".to_owned())].into(), &mut counters);
        assert_eq!(all.devices[&1].name, "lo0");
    }
}
