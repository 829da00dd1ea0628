//! Counters of drivers in this network namespace (`ethtool -S`), and of the interrupts that
//! processors took for devices.
//!
//! Names are requested once per device, and only the values of selected names are kept: drivers
//! have thousands. Neither takes a privilege.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use units::Instant;

use crate::host::clock;
use crate::host::counters::Counters;
use crate::host::processors::{self, counts_of_interrupts};
use crate::raw::{DRIVER_NAME_BYTES, DriverCounts};

/// Reads the driver counters of this namespace's devices, snapshot by snapshot.
///
/// - `ethtool:rx_missed_errors/eth0`: counter of a device's driver, by the driver's name
/// - `interrupts:eth0/cpu1`: how often a processor took an interrupt of a device, all its queues
///   together; wraps at 2³²
#[derive(Debug)]
pub struct DeviceCounters {
    /// Returns whether a driver's counter of this name is selected.
    wants: fn(&str) -> bool,
    /// Devices by the kernel's numbers.
    devices: BTreeMap<u32, Device>,
    /// Socket for driver counters; `None` if none can be opened.
    drivers: Option<DriverCounts>,
    interrupts: Interrupts,
}

/// Interrupts of devices by processor at the last read.
#[derive(Debug, Default)]
struct Interrupts {
    asked: Option<Instant>,
    counts: Vec<(String, u64)>,
}

/// Interval between two reads of `/proc/interrupts`, which is long; the processors that take a
/// card's interrupts change rarely.
const INTERRUPTS_EVERY: Duration = Duration::from_secs(1);

/// Properties of a device that do not change between snapshots.
#[derive(Debug)]
struct Device {
    name: String,
    /// Number of counters of its driver, selected or not.
    count: usize,
    /// Index, name and last known value of the selected counters.
    wanted: Vec<(usize, String, Option<u64>)>,
    /// True if one of them changed between the last two reads.
    has_changed: bool,
    interrupts: BTreeSet<u32>,
}

impl DeviceCounters {
    /// Creates a reader of the driver counters whose names `wants` selects.
    #[must_use]
    pub fn new(wants: fn(&str) -> bool) -> Self {
        let (drivers, interrupts) = (DriverCounts::open().ok(), Interrupts::default());
        Self { wants, devices: BTreeMap::new(), drivers, interrupts }
    }

    /// Adds the counters of the devices, which are given by number and name.
    ///
    /// Cost: nothing for a device without counters, two system calls for others; `/proc/interrupts`
    /// if a device has interrupts, once a second, and whenever a driver's counter changed.
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
        // If `/sys` belongs to another namespace or is not readable, no interrupts are known.
        let interrupts = processors::interrupt_numbers(index, name).unwrap_or_default();
        Self { name: name.to_owned(), count, wanted, has_changed: false, interrupts }
    }

    /// Adds the selected counters; returns whether the driver still has as many as when its names
    /// were read.
    fn read(&mut self, drivers: &mut DriverCounts, counters: &mut Counters) -> bool {
        // Counters that cannot be read for a moment, as while the driver resets the card, keep
        // their last value: if they were missing, their whole value would seem to be new when they
        // return.
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
            // Counters of the same name are added: some drivers use one name for all queues.
            let sum = counters.entry(format!("ethtool:{name}/{}", self.name)).or_default();
            *sum = sum.wrapping_add(value);
        }
        true
    }

    fn of_interrupts(&self) -> impl Iterator<Item = (u32, &str)> {
        self.interrupts.iter().map(|number| (*number, self.name.as_str()))
    }
}

/// Splits names of 32 bytes each, padded with zeros.
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
