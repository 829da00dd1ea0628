//! Options of a bench.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use probe::Bisection;
use probe::cycle::{HEADER_BYTES, Limits};
use units::text;

use super::transport::Transport;
use crate::notation::millionths;
use crate::options::{
    LARGEST_DATAGRAM_BYTES, OptionsError, check_buffer, check_effects, check_grid, check_repeats, defaults,
    in_range,
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

/// Options of a bench. The default is the exchange of Scollo at the cycle time of its middleware, without a quota.
#[derive(Args, Clone, PartialEq, Debug)]
#[group(skip)]
pub struct Options {
    /// Transports to compare.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "udp,shm")]
    pub transports: Vec<Transport>,
    /// Cycle times: 10ms, 1ms,2ms,5ms or 1..14ms.
    #[arg(long, value_name = "DURATIONS", default_value = "10ms", value_parser = text::durations)]
    pub cycle_times: text::Durations,
    /// CPU quota of writer and reader together: 0.05,0.3 or max; enforced by a control group.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "max")]
    pub cpus: Vec<CpuLimit>,
    /// Period of the quota.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = text::duration)]
    pub quota_period: Duration,
    /// Cycles per run.
    #[arg(long, value_name = "COUNT", default_value = "1000")]
    pub cycles: u32,
    /// Searches per point.
    #[arg(long = "repeat", value_name = "COUNT", default_value = "3")]
    pub repeats: u32,
    /// Largest array to try, in elements of four bytes.
    #[arg(long, value_name = "ELEMENTS", default_value = "1000000")]
    pub limit: u32,
    /// Resolution of a search, in elements.
    #[arg(long, value_name = "ELEMENTS", default_value = "2")]
    pub step: u32,
    /// Callbacks of a run that may miss their deadline.
    #[arg(long = "max-late", value_name = "COUNT", default_value = "0")]
    pub late_allowed: u64,
    /// Share of a run's cycles that must arrive complete, rounded down to whole cycles.
    #[arg(long = "min-complete", value_name = "PART", default_value = "99.95%", value_parser = millionths)]
    pub complete_ppm: u32,
    /// Largest datagram, including its header of 16 bytes.
    #[arg(long = "datagram", value_name = "SIZE", default_value = "65507", value_parser = text::size_bytes)]
    pub datagram_bytes: usize,
    /// Receive buffer of the reader [default: the system's].
    #[arg(long, value_name = "SIZE", value_parser = text::size_bytes)]
    pub receive_buffer: Option<usize>,
    /// Continue runs to the last cycle even when they have already failed.
    #[arg(long)]
    pub whole_runs: bool,
}

/// Processor time that writer and reader may take together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CpuLimit {
    /// Thousandths of a processor.
    Millicpus(u32),
    /// No limit.
    Max,
}

/// Error of a text that is not a number of processors.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid number of CPUs `{0}`\nwrite one such as 0.3, down to thousandths, or `max` for no limit")]
pub struct CpuLimitError(String);

impl Default for Options {
    fn default() -> Self {
        defaults()
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
        in_range("the complete share in millionths", self.complete_ppm, 0..=1_000_000)?;
        let datagrams = SMALLEST_DATAGRAM_BYTES as u128..=LARGEST_DATAGRAM_BYTES as u128;
        in_range("--datagram", self.datagram_bytes as u128, datagrams)?;
        check_buffer("--receive-buffer in bytes", self.receive_buffer)?;
        self.check_effects()
    }

    /// Refuses options that would be ignored; an option given with its default value does no harm.
    fn check_effects(&self) -> Result<(), OptionsError> {
        let (no_udp, remedy) = (!self.transports.contains(&Transport::Udp), "add udp to --transports");
        let no_quota = self.cpus.iter().all(|cpus| *cpus == CpuLimit::Max);
        let of_udp = [
            ("--datagram", self.datagram_bytes != LARGEST_DATAGRAM_BYTES),
            ("--receive-buffer", self.receive_buffer.is_some()),
        ];
        check_effects(&of_udp.map(|(option, is_given)| (no_udp && is_given, option, "without UDP", remedy)))?;
        let period = no_quota && self.quota_period != QUOTA_PERIOD;
        check_effects(&[(period, "--quota-period", "without a quota", "give one with --cpus, such as 0.3")])
    }

    /// Returns the criterion of a run.
    pub(super) const fn limits(&self) -> Limits {
        Limits { late_allowed: self.late_allowed, complete_ppm: self.complete_ppm }
    }

    /// Returns the size of the reader's socket buffer to request from the kernel.
    pub(super) fn receive_buffer_bytes(&self) -> usize {
        flow::udp::receive_buffer_bytes(self.receive_buffer)
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
        assert_eq!((options.check(), options.limits()), (Ok(()), Limits::SCOLLO));
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
            complete_ppm: [], not [1_000_001];
            receive_buffer: [], not [Some(0)];
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
        let buffer = |it: &mut Options| it.receive_buffer = Some(1);
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
