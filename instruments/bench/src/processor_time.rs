//! Distribution of the time of all processors during a measurement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::processor_time::Ticks;

/// Shares of time of all processors of a host between two moments. Units: percent of one processor, so that
/// they add up to a hundred times the number of processors.
#[derive(Clone, Copy, PartialEq, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// Programs, including those with lowered priority (`nice`).
    pub user: f64,
    /// The kernel on behalf of programs.
    pub system: f64,
    /// Interrupts.
    pub irq: f64,
    /// Soft interrupts, among them network reception.
    pub softirq: f64,
    /// Idle.
    pub idle: f64,
    /// Idle while waiting for a disk.
    pub iowait: f64,
    /// Time used by other guests of the same machine.
    pub steal: f64,
}

/// Reading of the processors' times at the beginning of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessorTime {
    before: Option<Ticks>,
}

impl ProcessorTime {
    /// Begins the measurement.
    pub(crate) fn begin() -> Self {
        Self { before: Ticks::of_all() }
    }

    /// Returns the shares since; `None` where the kernel does not report them, or no tick has passed.
    pub(crate) fn shares(&self) -> Option<Shares> {
        Shares::of(&Ticks::of_all()?.since(&self.before?), crate::host::processors_of_machine())
    }
}

impl Shares {
    /// Returns the shares of a number of processors; `None` if the ticks are zero.
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

    /// Formats the shares in a line.
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

    fn ticks([user, nice, system, idle, iowait, irq, softirq, steal]: [u64; 8]) -> Ticks {
        Ticks { user, nice, system, idle, iowait, irq, softirq, steal }
    }

    #[test]
    fn shares_of_two_processors_add_up_to_two_hundred_percent() {
        let before = ticks([10, 0, 5, 100, 0, 1, 4, 0]);
        let now = ticks([30, 10, 15, 150, 2, 1, 12, 0]);
        let shares = Shares::of(&now.since(&before), 2).unwrap();
        assert_eq!((shares.user, shares.system, shares.softirq, shares.irq), (60.0, 20.0, 16.0, 0.0));
        assert_eq!((shares.idle, shares.iowait, shares.steal), (100.0, 4.0, 0.0));
        assert!(shares.in_words().contains("softirq 16 %, irq 0 %, idle 104 %"), "{}", shares.in_words());
        assert_eq!(Shares::of(&now.since(&now), 2), None, "no tick has passed");
    }
}
