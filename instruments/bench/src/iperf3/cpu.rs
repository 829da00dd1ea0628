//! Processor time of this process during a test, in percent of one processor, as iperf3 reports it.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use sys::clock;
use units::Instant;

/// Processor time since the process began. Units: seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpu {
    at: Instant,
    total_s: f64,
    user_s: f64,
    system_s: f64,
}

/// Shares of one processor. Units: percent.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct CpuPercent {
    /// User and kernel mode together.
    pub(super) total: f64,
    /// User mode.
    pub(super) user: f64,
    /// Kernel mode.
    pub(super) system: f64,
}

impl Cpu {
    /// Reads the times now.
    pub(super) fn look() -> Self {
        let total = clock_gettime(ClockId::ProcessCPUTime);
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let (user_s, system_s) = shares(&stat).unwrap_or_default();
        let total_s = total.tv_sec as f64 + total.tv_nsec as f64 / 1e9;
        Self { at: clock::monotonic(), total_s, user_s, system_s }
    }

    /// Returns the times used since.
    pub(super) fn since(self) -> CpuPercent {
        let now = Self::look();
        let elapsed = now.at.since(self.at).as_secs_f64();
        let percent =
            |now: f64, before: f64| if elapsed > 0.0 { (now - before) / elapsed * 100.0 } else { 0.0 };
        CpuPercent {
            total: percent(now.total_s, self.total_s),
            user: percent(now.user_s, self.user_s),
            system: percent(now.system_s, self.system_s),
        }
    }
}

/// Source: `proc_pid_stat(5)`: after the name in parentheses, the 12th and 13th field are ticks of 10 ms in user and in
/// kernel mode.
fn shares(stat: &str) -> Option<(f64, f64)> {
    const TICKS_PER_S: f64 = 100.0;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    Some((fields.next()?? / TICKS_PER_S, fields.next()?? / TICKS_PER_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_read_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 100 0 0 0 250 125 0 0 20 0 1 0 5 1 1";
        assert_eq!(shares(stat), Some((2.5, 1.25)));
        assert_eq!(shares(""), None);
        assert_eq!(shares("7 (x) S 1 2"), None);
    }
}
