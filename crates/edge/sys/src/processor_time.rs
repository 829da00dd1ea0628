//! Processor time of this host by class: the kernel's own counters, read here and nowhere else.

use std::fs;
use std::time::Duration;

use crate::processors::numbers_of_heading;

/// What processors did since boot. Units: ticks of the kernel.
///
/// Source: `proc_stat(5)`, the first eight numbers of a line; what follows is in these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticks {
    /// Programs.
    pub user: u64,
    /// Polite programs.
    pub nice: u64,
    /// The kernel in the name of programs.
    pub system: u64,
    /// Nothing.
    pub idle: u64,
    /// Nothing, while something waited for a disk.
    pub iowait: u64,
    /// Interrupts.
    pub irq: u64,
    /// Soft interrupts.
    pub softirq: u64,
    /// Work of other guests of the same machine.
    pub steal: u64,
}

impl Ticks {
    /// Returns those of all processors together; `None` where the kernel does not say.
    #[must_use]
    pub fn of_all() -> Option<Self> {
        all_in(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Returns those of each processor that is switched on, with its number.
    #[must_use]
    pub fn of_each() -> Vec<(u32, Self)> {
        fs::read_to_string("/proc/stat").map_or(Vec::new(), |stat| each_in(&stat).collect())
    }

    /// Returns what was done since an earlier look.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let (now, before) = (self.classes(), before.classes());
        Self::of_classes(std::array::from_fn(|class| now[class].saturating_sub(before[class])))
    }

    /// Returns how long programs, their kernel and interrupts were at work.
    #[must_use]
    pub fn work(&self) -> Duration {
        duration(self.user + self.nice + self.system + self.irq + self.softirq)
    }

    /// Returns them in the order of the kernel.
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

/// Returns how long so many ticks are: 10 ms each, whatever the kernel's own are (`USER_HZ`).
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
        // The line of all of them has a space here, and its first number would be taken for that of a processor.
        let is_of_one = !line.starts_with("cpu ");
        let number = words.next().filter(|_| is_of_one)?.parse().ok()?;
        Some((number, Ticks::of_words(words)?))
    })
}

/// Returns how often each processor looked for what the network brought (`NET_RX` of `/proc/softirqs`) since boot, with its
/// number; nothing where the kernel does not say.
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
