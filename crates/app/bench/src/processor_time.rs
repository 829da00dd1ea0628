//! What the processors of this host did, by class: the kernel's own books, read here and nowhere else.

use std::fs;
use std::time::Duration;

use serde::{Deserialize, Serialize};

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
    pub(crate) fn of_all() -> Option<Self> {
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
    pub(crate) fn work(&self) -> Duration {
        duration(self.user + self.nice + self.system + self.irq + self.softirq)
    }

    const fn classes(&self) -> [u64; 8] {
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
pub(crate) const fn duration(ticks: u64) -> Duration {
    const TICK_MS: u64 = 10;
    Duration::from_millis(ticks.saturating_mul(TICK_MS))
}

fn all_in(stat: &str) -> Option<Ticks> {
    Ticks::of_words(stat.lines().find_map(|line| line.strip_prefix("cpu "))?.split_whitespace())
}

fn each_in(stat: &str) -> impl Iterator<Item = (u32, Ticks)> {
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

fn net_rx_in(softirqs: &str) -> Vec<(u32, u64)> {
    let mut lines = softirqs.lines();
    let numbers = lines.next().unwrap_or("").split_whitespace();
    let numbers: Vec<u32> =
        numbers.filter_map(|word| word.strip_prefix("CPU").and_then(|number| number.parse().ok())).collect();
    let counts = lines.find_map(|line| line.trim_start().strip_prefix("NET_RX:")).unwrap_or("");
    numbers.into_iter().zip(counts.split_whitespace().map_while(|word| word.parse().ok())).collect()
}

/// What all processors of a host did between two moments. Units: percent of one processor, so that they add up to a
/// hundred times as many as there are.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// Programs, polite ones (`nice`) included.
    pub user: f64,
    /// The kernel in the name of programs.
    pub system: f64,
    /// Interrupts.
    pub irq: f64,
    /// Soft interrupts, among them what the network brings.
    pub softirq: f64,
    /// Nothing.
    pub idle: f64,
    /// Nothing, while something waited for a disk.
    pub iowait: f64,
    /// Work of other guests of the same machine.
    pub steal: f64,
}

/// Looks at the processors while something goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessorTime {
    before: Option<Ticks>,
}

impl ProcessorTime {
    /// Begins to look.
    pub(crate) fn begin() -> Self {
        Self { before: Ticks::of_all() }
    }

    /// Returns what they did since; `None` where the kernel does not say, or no tick has passed.
    pub(crate) fn shares(&self) -> Option<Shares> {
        Shares::of(&Ticks::of_all()?.since(&self.before?), crate::host::processors_of_machine())
    }
}

impl Shares {
    /// Returns the shares in what so many processors did; `None` if that is nothing.
    fn of(ticks: &Ticks, processors: u32) -> Option<Self> {
        let total: u64 = ticks.classes().iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "ticks of a run are far below 2^53")]
        let percent = |ticks: u64| ticks as f64 * 100.0 * f64::from(processors) / total as f64;
        let Ticks { user, nice, system, idle, iowait, irq, softirq, steal } = *ticks;
        (total > 0).then(|| Self {
            user: percent(user + nice),
            system: percent(system),
            irq: percent(irq),
            softirq: percent(softirq),
            idle: percent(idle),
            iowait: percent(iowait),
            steal: percent(steal),
        })
    }

    /// Says it in a line.
    #[must_use]
    pub fn in_words(&self) -> String {
        let Self { user, system, irq, softirq, idle, iowait, steal } = self;
        format!(
            "user {user:.0} %, system {system:.0} %, softirq {softirq:.0} %, irq {irq:.0} %, idle {:.0} %, steal {steal:.0} %",
            idle + iowait
        )
    }
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
    fn shares_of_two_processors_add_up_to_two_hundred_percent() {
        let before = all_in("cpu  10 0 5 100 0 1 4 0 0 0\ncpu0 1 2 3\n").unwrap();
        let now = all_in(STAT).unwrap();
        let shares = Shares::of(&now.since(&before), 2).unwrap();
        assert_eq!((shares.user, shares.system, shares.softirq, shares.irq), (60.0, 20.0, 16.0, 0.0));
        assert_eq!((shares.idle, shares.iowait, shares.steal), (100.0, 4.0, 0.0));
        assert!(shares.in_words().contains("softirq 16 %, irq 0 %, idle 104 %"), "{}", shares.in_words());
        assert_eq!(Shares::of(&now.since(&now), 2), None, "no tick has passed");
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
