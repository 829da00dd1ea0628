//! Processor use of a measurement, and of other work meanwhile.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::host::Elsewhere;

/// Resources used by one end in a run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Used {
    /// Processor time of the end's process.
    pub cpu_ns: u64,
    /// Duration of the run.
    pub elapsed_ns: u64,
    /// Processors that other work kept busy on the end's host; null where the kernel does not report it.
    pub elsewhere_cpus: Option<f64>,
}

/// Meter of this host during a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    began: Instant,
    cpu_before_ns: u64,
    elsewhere: Elsewhere,
}

impl Meter {
    /// Begins the measurement.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), cpu_before_ns: cpu_ns(), elsewhere: Elsewhere::begin() }
    }

    /// Returns the resources used since.
    pub(crate) fn used(&self) -> Used {
        let cpu_ns = cpu_ns().saturating_sub(self.cpu_before_ns);
        Used {
            cpu_ns,
            elapsed_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            elsewhere_cpus: self.elsewhere.cpus(Duration::from_nanos(cpu_ns)),
        }
    }
}

impl Used {
    /// Adds the processor time of processes that worked for the end: it is not other work.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "times of a run are far below 2^53 ns")]
    pub(crate) fn with(self, cpu_ns: u64) -> Self {
        let cpus = cpu_ns as f64 / self.elapsed_ns.max(1) as f64;
        let elsewhere_cpus = self.elsewhere_cpus.map(|elsewhere| (elsewhere - cpus).max(0.0));
        Self { cpu_ns: self.cpu_ns + cpu_ns, elsewhere_cpus, ..self }
    }

    /// Returns the processor time of the end, in percent of one processor.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "times of a run are far below 2^53 ns")]
    pub fn cpu_percent(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.cpu_ns as f64 * 100.0 / self.elapsed_ns as f64 }
    }
}

/// Returns the processor time of this process so far, including the kernel's on its behalf.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_of_ones_own_took_is_nobody_elses() {
        let used = Used { cpu_ns: 10, elapsed_ns: 100, elsewhere_cpus: Some(0.75) };
        assert_eq!(used.with(50), Used { cpu_ns: 60, elapsed_ns: 100, elsewhere_cpus: Some(0.25) });
        assert_eq!(used.with(90).elsewhere_cpus, Some(0.0));
        assert_eq!(Used { elsewhere_cpus: None, ..used }.with(50).elsewhere_cpus, None);
    }
}
