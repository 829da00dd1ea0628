//! Options of a bench.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use probe::Bisection;
use probe::cycle::{HEADER_BYTES, Limits};

use super::transport::Transport;
use crate::options::{
    LARGEST_DATAGRAM_BYTES, OptionsError, check_buffer, check_effects, check_grid, check_repeats, in_range,
};
use crate::quota::Quota;

/// The smallest datagram that holds an element.
const SMALLEST_DATAGRAM_BYTES: usize = HEADER_BYTES + 4;

/// Maximum number of elements of an array: with its ring a gigabyte of memory.
const MAX_ELEMENTS: u32 = 1 << 26;

/// Default period of a quota: Docker's.
const QUOTA_PERIOD: Duration = Duration::from_millis(100);

/// Maximum number of cycles of one search step: a day of 86 ms cycles. More is a typing error.
const MOST_CYCLES: u32 = 1_000_000;

/// Time from the start message until cycle 0: both processes have read it and sleep by then.
pub(super) const LEAD: Duration = Duration::from_millis(20);

/// Options of a bench.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The transports to compare.
    pub transports: Vec<Transport>,
    /// The cycle times.
    pub cycle_times: Vec<Duration>,
    /// The processor quotas.
    pub cpus: Vec<CpuLimit>,
    /// Period of the quotas.
    pub quota_period: Duration,
    /// Cycles in each run.
    pub cycles: u32,
    /// Searches at each point.
    pub repeats: u32,
    /// The largest number of elements to try. Units: elements of four bytes each.
    pub limit: u32,
    /// A search ends when the distance between values that hold and that do not is this small. Units: elements.
    pub step: u32,
    /// Criterion of a run.
    pub limits: Limits,
    /// The largest datagram, the header of 16 bytes included.
    pub datagram_bytes: usize,
    /// The reader's socket buffer.
    pub receive_buffer: Buffer,
    /// The time at which a run that has failed already ends.
    pub end_of_run: EndOfRun,
}

/// Processor time that writer and reader may take together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CpuLimit {
    /// Thousandths of a processor.
    Millicpus(u32),
    /// No limit.
    Max,
}

/// A socket buffer to request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// The kernel's default.
    System,
    /// A number of bytes.
    Bytes(usize),
}

/// The time at which a run that has failed already ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndOfRun {
    /// At once, which saves about half the time.
    WhenSettled,
    /// With its last cycle, which shows how badly it failed.
    LastCycle,
}

/// Error of a text that is not a number of processors.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid number of CPUs `{0}`\nwrite one such as 0.3, down to thousandths, or `max` for no limit")]
pub struct CpuLimitError(String);

impl Default for Options {
    /// The exchange of Scollo at the default cycle time of its middleware, without a quota.
    fn default() -> Self {
        Self {
            transports: Transport::ALL.to_vec(),
            cycle_times: vec![Duration::from_millis(10)],
            cpus: vec![CpuLimit::Max],
            quota_period: QUOTA_PERIOD,
            cycles: 1_000,
            repeats: 3,
            limit: 1_000_000,
            step: 2,
            limits: Limits::SCOLLO,
            datagram_bytes: LARGEST_DATAGRAM_BYTES,
            receive_buffer: Buffer::System,
            end_of_run: EndOfRun::WhenSettled,
        }
    }
}

impl Options {
    /// Checks every option.
    ///
    /// # Errors
    /// [`OptionsError`] names the first invalid option.
    pub fn check(&self) -> Result<(), OptionsError> {
        let lists = [
            ("--transports", self.transports.len()),
            ("--cycle-times", self.cycle_times.len()),
            ("--cpus", self.cpus.len()),
        ];
        check_grid(&lists, u128::MAX)?;
        for cycle_time in &self.cycle_times {
            in_range("a cycle time in µs", cycle_time.as_micros(), 50..=60_000_000)?;
        }
        in_range("the quota's period in µs", self.quota_period.as_micros(), 1_000..=1_000_000)?;
        in_range("--cycles", self.cycles, 1..=MOST_CYCLES.into())?;
        check_repeats(self.repeats)?;
        in_range("--limit", self.limit, 1..=MAX_ELEMENTS.into())?;
        in_range("--step", self.step, 1..=self.limit.max(2).into())?;
        in_range("the complete share in millionths", self.limits.complete_ppm, 0..=1_000_000)?;
        let datagrams = SMALLEST_DATAGRAM_BYTES as u128..=LARGEST_DATAGRAM_BYTES as u128;
        in_range("--datagram", self.datagram_bytes as u128, datagrams)?;
        if let Buffer::Bytes(bytes) = self.receive_buffer {
            check_buffer("--receive-buffer in bytes", Some(bytes))?;
        }
        self.check_effects()
    }

    /// Refuses options that would be ignored; an option given with its default value does no harm.
    fn check_effects(&self) -> Result<(), OptionsError> {
        let (no_udp, remedy) = (!self.transports.contains(&Transport::Udp), "add udp to --transports");
        let no_quota = self.cpus.iter().all(|cpus| *cpus == CpuLimit::Max);
        let of_udp = [
            ("--datagram", self.datagram_bytes != LARGEST_DATAGRAM_BYTES),
            ("--receive-buffer", self.receive_buffer != Buffer::System),
        ];
        check_effects(&of_udp.map(|(option, is_given)| (no_udp && is_given, option, "without UDP", remedy)))?;
        let period = no_quota && self.quota_period != QUOTA_PERIOD;
        check_effects(&[(period, "--quota-period", "without a quota", "give one with --cpus, such as 0.3")])
    }

    /// Returns the maximum duration of the whole measurement, if every run continues to its end.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let tries = Bisection::new(self.limit.into(), self.step.into()).tries_at_most();
        let per_point = tries.saturating_mul(self.repeats);
        let of_runs: Duration = self.cycle_times.iter().map(|cycle_time| *cycle_time * self.cycles).sum();
        let cycle_times = u32::try_from(self.cycle_times.len()).unwrap_or(u32::MAX);
        let of_curve = |cpus: &CpuLimit| {
            let lead = cpus.quota(self.quota_period).map_or(LEAD, |quota| quota.lead());
            (of_runs + lead.saturating_mul(cycle_times)).saturating_mul(per_point)
        };
        let transports = u32::try_from(self.transports.len()).unwrap_or(u32::MAX);
        self.cpus
            .iter()
            .map(of_curve)
            .fold(Duration::ZERO, Duration::saturating_add)
            .saturating_mul(transports)
    }
}

impl Buffer {
    /// Returns the size to request from the kernel.
    pub(super) fn asked_bytes(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            // The kernel doubles a requested size, and reports its default doubled; 208 KiB is that of every
            // kernel since 2.6, for where it cannot be read.
            Self::System => {
                let default = sys::host::receive_buffer_default().unwrap_or(212_992);
                usize::try_from(default / 2).unwrap_or(usize::MAX)
            }
        }
    }
}

impl CpuLimit {
    /// Returns the quota; `None` without a limit.
    #[must_use]
    pub const fn quota(self, period: Duration) -> Option<Quota> {
        match self {
            Self::Millicpus(millicpus) => Some(Quota { millicpus, period }),
            Self::Max => None,
        }
    }

    /// Returns the number of processors; `None` without a limit.
    #[must_use]
    pub fn cpus(self) -> Option<f64> {
        match self {
            Self::Millicpus(millicpus) => Some(f64::from(millicpus) / 1_000.0),
            Self::Max => None,
        }
    }
}

impl FromStr for CpuLimit {
    type Err = CpuLimitError;

    fn from_str(text: &str) -> Result<Self, CpuLimitError> {
        let error = || CpuLimitError(text.to_owned());
        if text == "max" {
            return Ok(Self::Max);
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || fraction.len() > 3 || !are_digits(whole) || !are_digits(fraction) {
            return Err(error());
        }
        let whole: u32 = whole.parse().map_err(|_| error())?;
        let thousandths: u32 = format!("{fraction:0<3}").parse().map_err(|_| error())?;
        let millicpus = whole.checked_mul(1_000).and_then(|it| it.checked_add(thousandths));
        millicpus.filter(|it| *it > 0).map(Self::Millicpus).ok_or_else(error)
    }
}

impl fmt::Display for CpuLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cpus() {
            Some(cpus) => formatter.pad(&cpus.to_string()),
            None => formatter.pad("max"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{bounds, ignored};

    #[test]
    fn numbers_of_cpus_are_exact_to_a_thousandth() {
        for (text, millicpus) in [("0.05", 50), ("0.3", 300), ("1.5", 1_500), ("2", 2_000), ("0.001", 1)] {
            let limit: CpuLimit = text.parse().unwrap();
            assert_eq!(limit, CpuLimit::Millicpus(millicpus));
            assert_eq!(limit.to_string(), text);
        }
        assert_eq!("max".parse(), Ok(CpuLimit::Max));
        for text in ["", "0", "0.0004", ".5", "-1", "1e3", "NaN", "1.+5", "99999999999"] {
            assert!(text.parse::<CpuLimit>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_default_is_in_order_and_takes_at_most_so_long() {
        let options = Options::default();
        assert_eq!(options.check(), Ok(()));
        let searches = 3 * u32::try_from(options.transports.len()).unwrap();
        let run = Duration::from_secs(10) + Duration::from_millis(20);
        assert_eq!(options.longest(), run * 20 * searches);
    }

    #[test]
    fn both_ends_of_every_range() {
        bounds! {
            datagram_bytes: [20, 65_507], not [19, 65_508];
            cycles: [1, 1_000_000], not [0, 1_000_001];
            repeats: [1], not [0];
            limit: [1 << 26], not [0, (1 << 26) + 1];
            step: [1_000_000], not [0, 1_000_001];
            cpus: [], not [vec![]];
            transports: [], not [vec![]];
            cycle_times: [], not [vec![], vec![Duration::from_micros(49)]];
            limits: [], not [Limits { complete_ppm: 1_000_001, ..Limits::SCOLLO }];
            receive_buffer: [], not [Buffer::Bytes(0)];
            quota_period: [], not [Duration::from_micros(999)];
        }
    }

    #[test]
    fn options_that_nothing_heeds_are_refused() {
        let refused = |transport, change: fn(&mut Options)| {
            let mut options = Options { transports: vec![transport], ..Options::default() };
            change(&mut options);
            ignored(options.check())
        };
        let datagram = |it: &mut Options| it.datagram_bytes = 1_472;
        let buffer = |it: &mut Options| it.receive_buffer = Buffer::Bytes(1);
        let period = |it: &mut Options| it.quota_period = Duration::from_millis(50);
        let partly_limited = |it: &mut Options| {
            it.quota_period = Duration::from_millis(50);
            it.cpus = vec![CpuLimit::Max, CpuLimit::Millicpus(300)];
        };
        let (udp, shm) = (Transport::Udp, Transport::Shm);
        assert_eq!([refused(udp, datagram), refused(udp, buffer), refused(shm, |_| {})], [None; 3]);
        assert_eq!(refused(shm, datagram), Some("--datagram"));
        assert_eq!(refused(shm, buffer), Some("--receive-buffer"));
        assert_eq!(refused(udp, period), Some("--quota-period"));
        assert_eq!(refused(udp, partly_limited), None);
    }
}
