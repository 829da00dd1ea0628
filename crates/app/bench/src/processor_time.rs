//! What all processors of this host did while something was measured, by class: the kernel's own books.

use std::fs;

use serde::{Deserialize, Serialize};

/// What the kernel counts, in ticks of all processors since boot. Source: `proc_stat(5)`.
const CLASSES: usize = 8;

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
    before: Option<[u64; CLASSES]>,
}

impl ProcessorTime {
    /// Begins to look.
    pub(crate) fn begin() -> Self {
        Self { before: read() }
    }

    /// Returns what they did since; `None` where the kernel does not say, or no tick has passed.
    pub(crate) fn shares(&self) -> Option<Shares> {
        Shares::between(&self.before?, &read()?, crate::host::processors_of_machine())
    }
}

impl Shares {
    /// Returns what so many processors did between two states of their counters.
    fn between(before: &[u64; CLASSES], now: &[u64; CLASSES], processors: u32) -> Option<Self> {
        let ticks: [u64; CLASSES] = std::array::from_fn(|class| now[class].saturating_sub(before[class]));
        let total: u64 = ticks.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "ticks of a run are far below 2^53")]
        let percent = |ticks: u64| ticks as f64 * 100.0 * f64::from(processors) / total as f64;
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
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

fn read() -> Option<[u64; CLASSES]> {
    counters(&fs::read_to_string("/proc/stat").ok()?)
}

fn counters(stat: &str) -> Option<[u64; CLASSES]> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut words = line.split_whitespace().map_while(|word| word.parse().ok());
    let mut counters = [0; CLASSES];
    for place in &mut counters {
        *place = words.next()?;
    }
    Some(counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_two_processors_add_up_to_two_hundred_percent() {
        let before = counters("cpu  10 0 5 100 0 1 4 0 0 0\ncpu0 1 2 3\n").unwrap();
        let now = counters("cpu  30 10 15 150 2 1 12 0 0 0\n").unwrap();
        let shares = Shares::between(&before, &now, 2).unwrap();
        assert_eq!((shares.user, shares.system, shares.softirq, shares.irq), (60.0, 20.0, 16.0, 0.0));
        assert_eq!((shares.idle, shares.iowait, shares.steal), (100.0, 4.0, 0.0));
        assert!(shares.in_words().contains("softirq 16 %, irq 0 %, idle 104 %"), "{}", shares.in_words());
        assert_eq!(Shares::between(&now, &now, 2), None, "no tick has passed");
    }

    #[test]
    fn what_is_no_such_file_says_nothing() {
        for text in ["", "cpu 1 2\n", "cpu0 1 2 3 4 5 6 7 8\n"] {
            assert_eq!(counters(text), None, "{text}");
        }
    }
}
