//! Processors: which exist, which are isolated from other work, and which take an interface's
//! interrupts.
//!
//! Read from `/sys` and `/proc/irq`, which every user may read. `/sys` is of the network namespace
//! that mounted it: an interface of another namespace is not looked up there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

/// Set of processor numbers.
pub type ProcessorSet = BTreeSet<u32>;

/// An interrupt of a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interrupt {
    /// Its number, as in `/proc/interrupts`.
    pub number: u32,
    /// Processors that may take it.
    pub allowed: ProcessorSet,
    /// Processors that take it; before Linux 4.13 those that may.
    pub taken_by: ProcessorSet,
}

/// Returns the processors that are online.
///
/// # Errors
/// If `/sys` cannot be read.
pub fn online() -> io::Result<ProcessorSet> {
    read_set("/sys/devices/system/cpu/online")
}

/// Returns the processors on which the scheduler places no other work (`isolcpus=`).
///
/// # Errors
/// If `/sys` cannot be read.
pub fn isolated() -> io::Result<ProcessorSet> {
    read_set("/sys/devices/system/cpu/isolated")
}

/// Returns the processors without a regular tick while one thread runs (`nohz_full=`); empty on
/// kernels without this feature.
#[must_use]
pub fn without_ticks() -> ProcessorSet {
    read_set("/sys/devices/system/cpu/nohz_full").unwrap_or_default()
}

/// Returns the interrupts of an interface; virtual ones have none.
///
/// # Errors
/// `NotFound` if `/sys` has another interface under this name; else the kernel's error.
pub fn interrupts(interface: &crate::Interface) -> io::Result<Vec<Interrupt>> {
    let numbers = interrupt_numbers(interface.index, &interface.name)?;
    // An interrupt that has gone meanwhile, or is not set up, has no processor.
    Ok(numbers.into_iter().filter_map(|number| read_interrupt(number).ok()).collect())
}

/// Returns the numbers of an interface's interrupts; virtual ones have none.
///
/// # Errors
/// As [`interrupts`].
pub(crate) fn interrupt_numbers(index: u32, name: &str) -> io::Result<BTreeSet<u32>> {
    let link = format!("/sys/class/net/{name}");
    let found = fs::read_to_string(format!("{link}/ifindex"))?;
    if found.trim().parse() != Ok(index) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let Ok(device) = fs::canonicalize(format!("{link}/device")) else { return Ok(BTreeSet::new()) };
    Ok(message_interrupts(&device).unwrap_or_else(|| {
        named_interrupts(&fs::read_to_string("/proc/interrupts").unwrap_or_default(), name)
    }))
}

/// Returns the message-signalled interrupts of a card; those of a virtual card are listed at the
/// device that carries it.
fn message_interrupts(device: &Path) -> Option<BTreeSet<u32>> {
    let is_virtual = device.file_name()?.to_str()?.starts_with("virtio");
    let place = if is_virtual { device.parent()? } else { device };
    let entries = fs::read_dir(place.join("msi_irqs")).ok()?;
    Some(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

fn read_interrupt(number: u32) -> io::Result<Interrupt> {
    let allowed = read_set(&format!("/proc/irq/{number}/smp_affinity_list"))?;
    let taken_by = read_set(&format!("/proc/irq/{number}/effective_affinity_list"));
    Ok(Interrupt { number, taken_by: taken_by.unwrap_or_else(|_| allowed.clone()), allowed })
}

fn read_set(path: &str) -> io::Result<ProcessorSet> {
    parse_set(&fs::read_to_string(path)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Maximum number of processors that Linux can be built for.
const MOST: u32 = 8_192;

/// Parses `0-3,8`; empty text is an empty set, and so is `(null)`, as some kernels write it.
pub(crate) fn parse_set(text: &str) -> Option<ProcessorSet> {
    let text = text.trim();
    if text.is_empty() || text == "(null)" {
        return Some(ProcessorSet::new());
    }
    let mut set = ProcessorSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        set.extend(first..=last);
    }
    Some(set)
}

/// Returns interrupts whose names contain an interface's name (`proc_interrupts(5)`): `eth0`,
/// `eth0-rx-1`, `i40e-eth0-TxRx-3`.
pub(crate) fn named_interrupts(text: &str, name: &str) -> BTreeSet<u32> {
    let is_of = |word: &str| word.split(['-', ',', '@', ':']).any(|part| part == name);
    let is_its = |(_, rest): &(u32, &str)| rest.split_whitespace().any(is_of);
    text.lines().filter_map(numbered_line).filter(is_its).map(|(number, _)| number).collect()
}

/// Counts how often each processor took interrupts, by owner: `whose` returns the owner of an
/// interrupt's number.
///
/// A line has as many counts as the heading has processors, those that are offline left out
/// (`proc_interrupts(5)`).
pub(crate) fn counts_of_interrupts<'w>(
    text: &str,
    whose: impl Fn(u32) -> Option<&'w str>,
) -> BTreeMap<(&'w str, u32), u64> {
    let mut lines = text.lines();
    let processors = numbers_of_heading(lines.next().unwrap_or_default());
    let mut counts = BTreeMap::new();
    for (number, rest) in lines.filter_map(numbered_line) {
        let Some(whose) = whose(number) else { continue };
        let of_line = rest.split_whitespace().map_while(|word| word.parse::<u32>().ok());
        for (processor, count) in processors.iter().zip(of_line).filter(|(_, count)| *count > 0) {
            *counts.entry((whose, *processor)).or_default() += u64::from(count);
        }
    }
    counts
}

/// Parses `34:  663  0 …`: interrupts with a number are those of devices.
fn numbered_line(line: &str) -> Option<(u32, &str)> {
    let (number, rest) = line.split_once(':')?;
    Some((number.trim().parse().ok()?, rest))
}

/// Parses `CPU0  CPU2`: the processors for which a table of `/proc` has columns.
pub(crate) fn numbers_of_heading(line: &str) -> Vec<u32> {
    let number = |word: &str| word.strip_prefix("CPU")?.parse().ok();
    line.split_whitespace().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interface;

    #[test]
    fn lists_of_processors_are_read() {
        let set = |text: &str| parse_set(text).map(|set| set.into_iter().collect::<Vec<_>>());
        assert_eq!(set("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!((set("\n"), set(" (null)\n")), (Some(vec![]), Some(vec![])));
        assert_eq!(set("8191").map(|it| it.len()), Some(1));
        for strange in ["8192", "2-1", "0-4294967295", "1,", "-", "a", "1--2"] {
            assert_eq!(set(strange), None, "{strange}");
        }
    }

    #[test]
    fn interrupts_are_found_by_the_interfaces_name() {
        let text = "           CPU0       CPU1\n 34:        663          0 PCI-MSIX-0000:00:05.0   1-edge      eth0-rx-0\n \
                    35:  0  1 IR-PCI-MSI 524289-edge i40e-eth0-TxRx-0\n 36:  0  1 IO-APIC 5-edge  usb1, eth0\n \
                    37:  1  1 IO-APIC 5-edge eth01\nNMI: 0 0 eth0\n";
        assert_eq!(named_interrupts(text, "eth0").into_iter().collect::<Vec<_>>(), [34, 35, 36]);
        assert_eq!(named_interrupts(text, "eth").len() + named_interrupts("", "eth0").len(), 0);
    }

    #[test]
    fn interrupts_are_counted_by_device_and_processor() {
        let text = "      CPU0  CPU2\n 34:   663   0  PCI-MSIX 1-edge  eth0-rx-0\n 35:     2   4  PCI-MSIX 1-edge eth0-rx-1\n \
                     36:     9   9  PCI-MSIX 5-edge  usb1\n 37:  x 4\nNMI: 1 1 Non-maskable\n 38: 5\n";
        let whose = |number| match number {
            34 | 35 => Some("eth0"),
            37 | 38 => Some("eth1"),
            _ => None,
        };
        let counts: Vec<_> = counts_of_interrupts(text, whose).into_iter().collect();
        assert_eq!(counts, [(("eth0", 0), 665), (("eth0", 2), 4), (("eth1", 0), 5)]);
        assert!(counts_of_interrupts("", whose).is_empty());
    }

    #[test]
    fn this_host_has_a_processor_and_the_loopback_interface_no_interrupt() {
        assert!(!online().unwrap().is_empty() && isolated().unwrap().is_subset(&online().unwrap()));
        let lo = Interface::find("lo").unwrap();
        assert_eq!(interrupts(&lo).unwrap(), []);
        let another = Interface { index: lo.index + 1, ..lo };
        assert_eq!(interrupts(&another).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
