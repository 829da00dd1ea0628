//! Processor time of this host by class, from the kernel's counters; no other module reads them.

use std::fs;
use std::time::Duration;

use crate::host::processors::numbers_of_heading;

/// Processor time since boot. Units: ticks of the kernel.
///
/// Source: `proc_stat(5)`, the first eight numbers of a line; the others are contained in these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticks {
    /// Programs.
    pub user: u64,
    /// Programs of low priority.
    pub nice: u64,
    /// The kernel on behalf of programs.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a task waited for a disk.
    pub iowait: u64,
    /// Interrupts.
    pub irq: u64,
    /// Soft interrupts.
    pub softirq: u64,
    /// Time taken by other guests of the same machine.
    pub steal: u64,
}

impl Ticks {
    /// Returns the ticks of all processors together; `None` if the kernel does not report them.
    #[must_use]
    pub fn of_all() -> Option<Self> {
        all_in(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Returns the ticks of each processor that is online, with its number.
    #[must_use]
    pub fn of_each() -> Vec<(u32, Self)> {
        fs::read_to_string("/proc/stat").map_or(Vec::new(), |stat| each_in(&stat).collect())
    }

    /// Returns the ticks since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let (now, before) = (self.classes(), before.classes());
        Self::of_classes(std::array::from_fn(|class| now[class].saturating_sub(before[class])))
    }

    /// Returns the time for which programs, the kernel and interrupts were at work.
    #[must_use]
    pub fn work(&self) -> Duration {
        duration(self.user + self.nice + self.system + self.irq + self.softirq)
    }

    /// Returns the ticks by class, in the kernel's order.
    #[must_use]
    pub const fn classes(&self) -> [u64; 8] {
        let Self { user, nice, system, idle, iowait, irq, softirq, steal } = *self;
        [user, nice, system, idle, iowait, irq, softirq, steal]
    }

    const fn of_classes([user, nice, system, idle, iowait, irq, softirq, steal]: [u64; 8]) -> Self {
        Self { user, nice, system, idle, iowait, irq, softirq, steal }
    }

    fn of_words<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut words = words.map_while(|word| word.parse().ok());
        let mut classes = [0; 8];
        for class in &mut classes {
            *class = words.next()?;
        }
        Some(Self::of_classes(classes))
    }
}

/// Returns the duration of `ticks` ticks: 10 ms each, whatever the kernel's own tick is
/// (`USER_HZ`).
#[must_use]
pub const fn duration(ticks: u64) -> Duration {
    const TICK_MS: u64 = 10;
    Duration::from_millis(ticks.saturating_mul(TICK_MS))
}

fn all_in(stat: &str) -> Option<Ticks> {
    Ticks::of_words(stat.lines().find_map(|line| line.strip_prefix("cpu "))?.split_whitespace())
}

pub(crate) fn each_in(stat: &str) -> impl Iterator<Item = (u32, Ticks)> {
    stat.lines().filter_map(|line| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        // The line of all processors has a space here, and its first number would be taken for a
        // processor's number.
        let is_of_one = !line.starts_with("cpu ");
        let number = words.next().filter(|_| is_of_one)?.parse().ok()?;
        Some((number, Ticks::of_words(words)?))
    })
}

/// Returns how often each processor polled for received packets (`NET_RX` of `/proc/softirqs`)
/// since boot, with its number; empty if the kernel does not report it.
#[must_use]
pub fn net_rx_of_each() -> Vec<(u32, u64)> {
    fs::read_to_string("/proc/softirqs").map_or(Vec::new(), |text| net_rx_in(&text))
}

pub(crate) fn net_rx_in(softirqs: &str) -> Vec<(u32, u64)> {
    let mut lines = softirqs.lines();
    let numbers = numbers_of_heading(lines.next().unwrap_or(""));
    let counts = lines.find_map(|line| line.trim_start().strip_prefix("NET_RX:")).unwrap_or("");
    numbers.into_iter().zip(counts.split_whitespace().map_while(|word| word.parse().ok())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  30 10 15 150 2 1 12 0 0 0\ncpu0 20 10 5 100 0 1 10 0 0 0\ncpu3 10 0 10 50 2 0 2 0 0 0\nintr 7\n";

    #[test]
    fn receiving_is_counted_by_processor_and_gaps_in_their_numbers_stay() {
        let text = "          CPU0       CPU2\n  HI:   1  2\n NET_TX:  3  4\n NET_RX:  50  60\n";
        assert_eq!(net_rx_in(text), [(0, 50), (2, 60)]);
        for damaged in ["", "CPU0 CPU1", "CPUx\nNET_RX: 1", "CPU0\nNET_RX: x", "CPU0 CPU1\nNET_RX: 7"] {
            assert!(net_rx_in(damaged).len() <= 1, "{damaged}");
        }
    }

    #[test]
    fn each_processor_has_its_number_and_its_work_leaves_idle_and_waiting_out() {
        let each: Vec<_> = each_in(STAT).map(|(number, ticks)| (number, ticks.work())).collect();
        assert_eq!(each, [(0, Duration::from_millis(460)), (3, Duration::from_millis(220))]);
        let sum: Duration = each.iter().map(|(_, work)| *work).sum();
        assert_eq!(all_in(STAT).unwrap().work(), sum);
    }

    #[test]
    fn what_is_no_such_file_says_nothing() {
        for text in ["", "cpu 1 2\n", "cpu0 1 2 3 4 5 6 7\n"] {
            assert_eq!((all_in(text), each_in(text).count()), (None, 0), "{text}");
        }
        assert!(Ticks::of_all().is_none() || !Ticks::of_each().is_empty());
    }
}
