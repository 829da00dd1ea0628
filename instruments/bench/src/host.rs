//! State of this host during a measurement: a figure means little without it.

use std::fs;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::processor_time::{self, Ticks};

/// State of this host at the beginning of a bench.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Kernel and its version, such as `Linux 6.18.0`.
    pub kernel: String,
    /// The machine's architecture, such as `x86_64`.
    pub machine: String,
    /// The processor's model name; empty where it is not reported.
    pub cpu: String,
    /// Number of processors that this process may use.
    #[schemars(range(min = 1))]
    pub cpus: u32,
    /// Tasks ready to run, averaged over a minute (`/proc/loadavg`).
    pub load_1min: Option<f64>,
    /// Default receive buffer of a socket (`net.core.rmem_default`).
    pub rmem_default_bytes: Option<u64>,
    /// The largest receive buffer without privilege (`net.core.rmem_max`).
    pub rmem_max_bytes: Option<u64>,
}

impl Host {
    /// Reads the state of this host.
    #[must_use]
    pub fn look() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            kernel: format!("Linux {}", release.trim()),
            machine: std::env::consts::ARCH.to_owned(),
            cpu: cpu_name(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cpus: cpus(),
            load_1min: load(),
            rmem_default_bytes: sys::host::receive_buffer_default().ok(),
            rmem_max_bytes: sys::host::receive_buffer_limit().ok(),
        }
    }

    /// Describes the host and its load, which was another one `after` the measurement.
    pub(crate) fn in_words(&self, after: Option<f64>) -> String {
        let Self { kernel, machine, cpu, cpus, load_1min, .. } = self;
        let load = |load: Option<f64>| load.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        let cpu = if cpu.is_empty() { "unnamed" } else { cpu };
        let (before, after) = (load(*load_1min), load(after));
        format!("{kernel} {machine}, {cpus} CPUs ({cpu}), load {before} before and {after} after")
    }
}

/// Returns the number of processors that this process may use.
#[must_use]
pub(crate) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}

/// Returns the number of processors of the machine, whether or not this process may use them.
#[must_use]
pub(crate) fn processors_of_machine() -> u32 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_one = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    u32::try_from(stat.lines().filter(is_one).count()).unwrap_or(u32::MAX).max(1)
}

/// Returns the memory of the host. Units: GB.
#[must_use]
pub(crate) fn memory_gb() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024.0 / 1e9)
}

/// Returns the number of tasks ready to run, averaged over a minute.
#[must_use]
pub(crate) fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

/// Returns the default send buffer of a socket (`net.core.wmem_default`) as a size to request: half of what the
/// kernel reports.
#[must_use]
pub(crate) fn send_buffer_default() -> Option<usize> {
    let bytes = sys::host::sysctl("net.core.wmem_default").ok()?;
    usize::try_from(bytes / 2).ok()
}

/// Processor time used by others during a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elsewhere {
    began: Instant,
    busy: Option<Duration>,
}

impl Elsewhere {
    /// Begins the measurement.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), busy: busy() }
    }

    /// Returns the number of processors that others kept busy since, given the time `ours` that this program
    /// used; `None` where `/proc/stat` does not report it.
    pub(crate) fn cpus(&self, ours: Duration) -> Option<f64> {
        let (before, now) = (self.busy?, busy()?);
        let others = now.saturating_sub(before).saturating_sub(ours);
        let elapsed = self.began.elapsed().as_secs_f64();
        (elapsed > 0.0).then(|| others.as_secs_f64() / elapsed)
    }
}

/// Returns the busy time of all processors together since boot, without interrupts.
fn busy() -> Option<Duration> {
    Ticks::of_all().as_ref().map(busy_in)
}

/// Soft interrupts are left out because those of the loopback interface are caused by the bench; steal is kept
/// because another guest's work disturbs as much as a neighbour's.
fn busy_in(ticks: &Ticks) -> Duration {
    processor_time::duration(ticks.user + ticks.nice + ticks.system + ticks.steal)
}

/// Returns the name of the first processor: `model name` on most machines, `Model` or `Hardware` on ARM boards.
fn cpu_name(cpuinfo: &str) -> String {
    let value = |key: &str| {
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    ["model name", "Model", "Hardware"].into_iter().find_map(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_known() {
        let host = Host::look();
        assert!(host.kernel.starts_with("Linux "), "{}", host.kernel);
        assert!(host.cpus >= 1);
    }

    #[test]
    fn busy_time_leaves_idle_and_soft_interrupts_out() {
        let (user, nice, system, idle) = (10, 1, 5, 1_000);
        let (iowait, irq, softirq, steal) = (20, 3, 40, 2);
        let ticks = Ticks { user, nice, system, idle, iowait, irq, softirq, steal };
        assert_eq!(busy_in(&ticks), Duration::from_millis(180));
    }

    #[test]
    fn processors_have_names_on_two_architectures() {
        assert_eq!(cpu_name("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"), "Some CPU @ 2 GHz");
        assert_eq!(cpu_name("processor\t: 0\nHardware\t: BCM2711\nModel\t: Pi 4\n"), "Pi 4");
        assert_eq!(cpu_name(""), "");
    }
}
