//! What a run takes of a host's processors, in the terms of its cost: time, frequency, and what soft interrupts took.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What one end of a run took of its host's processors.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Processor time of the end's process, the kernel's in its name included.
    pub cpu_seconds: f64,
    /// The frequency at the end of the run, a mean over the processors; null where the system does not tell it.
    pub mhz: Option<f64>,
    /// How many processors of the host soft interrupts kept busy, whomever they were for; null where the kernel does not
    /// say. Whether they are in somebody's processor time too depends on the kernel's configuration.
    pub softirq_cpus: Option<f64>,
}

/// Looks at soft interrupts while a run goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessorMeter {
    began: Instant,
    softirq_before: Option<Duration>,
}

impl ProcessorMeter {
    /// Begins to look.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), softirq_before: softirq() }
    }

    /// Returns what was taken since, of which the process took so much.
    pub(crate) fn taken(&self, cpu: Duration) -> Processor {
        let elapsed = self.began.elapsed().as_secs_f64();
        let softirq = self.softirq_before.zip(softirq()).map(|(before, now)| now.saturating_sub(before));
        let softirq_cpus = softirq.filter(|_| elapsed > 0.0).map(|time| time.as_secs_f64() / elapsed);
        Processor { cpu_seconds: cpu.as_secs_f64(), mhz: mhz(), softirq_cpus }
    }
}

/// Returns the frequency of the processors at this moment, their mean.
fn mhz() -> Option<f64> {
    mean(&scaled_frequencies()).or_else(|| mean(&frequencies_in(&fs::read_to_string("/proc/cpuinfo").ok()?)))
}

/// What the frequency scaling of each processor says (`cpufreq`), where there is any.
fn scaled_frequencies() -> Vec<f64> {
    let processors = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let khz = processors.filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("cpufreq/scaling_cur_freq")).ok()?;
        text.trim().parse::<f64>().ok()
    });
    khz.map(|khz| khz / 1_000.0).collect()
}

/// Source: `proc_cpuinfo(5)`: a line `cpu MHz` for each processor on x86, none on ARM.
fn frequencies_in(cpuinfo: &str) -> Vec<f64> {
    let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(name, _)| name.trim() == "cpu MHz")
        .filter_map(|(_, mhz)| mhz.trim().parse().ok())
        .collect()
}

/// Returns the mean of frequencies; `None` if there are none, or one of them is none.
fn mean(mhz: &[f64]) -> Option<f64> {
    probe::Moments::of(mhz).map(|moments| moments.mean).filter(|mean| *mean > 0.0)
}

fn softirq() -> Option<Duration> {
    softirq_in(&fs::read_to_string("/proc/stat").ok()?)
}

/// Source: `proc_stat(5)`: the seventh number of the first line, in ticks of 10 ms.
fn softirq_in(stat: &str) -> Option<Duration> {
    const TICK_MS: u64 = 10;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = line.split_whitespace().nth(6)?.parse().ok()?;
    Some(Duration::from_millis(ticks * TICK_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequency_is_the_mean_of_those_that_are_told() {
        let cpuinfo = "processor\t: 0\ncpu MHz\t\t: 2000.000\nprocessor\t: 1\ncpu MHz\t\t: 3000.000\n";
        assert_eq!(mean(&frequencies_in(cpuinfo)), Some(2_500.0));
        assert_eq!(mean(&frequencies_in("processor\t: 0\nHardware\t: BCM2711\n")), None);
        assert_eq!(mean(&[0.0]), None);
    }

    #[test]
    fn soft_interrupts_are_the_seventh_number() {
        assert_eq!(softirq_in("cpu  10 1 5 1000 20 3 40 2 0 0\n"), Some(Duration::from_millis(400)));
        assert_eq!(softirq_in("cpu 1 2\n"), None);
        assert_eq!(softirq_in(""), None);
    }

    #[test]
    fn what_was_taken_is_what_was_told_in_seconds() {
        let taken = ProcessorMeter::begin().taken(Duration::from_millis(1_500));
        assert_eq!(taken.cpu_seconds, 1.5);
        assert!(taken.mhz.is_none_or(|mhz| mhz > 0.0) && taken.softirq_cpus.is_none_or(|cpus| cpus >= 0.0));
    }
}
