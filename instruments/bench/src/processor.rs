//! Processor use of a run, in the terms of its cost: time, frequency, and soft interrupts.

use std::fs;
use std::time::{Duration, Instant};

use probe::BusyFrequency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use sys::processor_time::{self, Ticks};

/// Interval at which the frequency is read during a run: rarely enough that reading is no part of a cost, and
/// often enough for a run of half a second. The kernel counts work in ticks of 10 ms.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Processor use of one end of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Processor time of the end's process, including the kernel's on its behalf.
    pub cpu_seconds: f64,
    /// Mean frequency of the host's processors while they were busy, weighted by busy time; null where the
    /// system does not report it.
    pub mhz: Option<f64>,
    /// The lowest frequency of a busy processor; null where no work was seen.
    pub least_mhz: Option<f64>,
    /// The highest frequency of a busy processor; null where no work was seen.
    pub most_mhz: Option<f64>,
    /// Source of the frequency; null without one.
    pub mhz_source: Option<FrequencySource>,
    /// Processors of the host that soft interrupts kept busy, for whatever process; null where the kernel does
    /// not report it. The kernel's configuration decides whether they also count as processor time of a
    /// process.
    pub softirq_cpus: Option<f64>,
}

/// Source of the processors' frequency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrequencySource {
    /// Frequency scaling of each processor, read during the run.
    Cpufreq,
    /// `/proc/cpuinfo`, which has a nominal frequency in most virtual machines.
    Cpuinfo,
}

/// Meter of frequencies and soft interrupts during a run.
#[derive(Debug)]
pub(crate) struct ProcessorMeter {
    began: Instant,
    before: Option<Ticks>,
    /// Times of each processor at the beginning.
    each_before: Vec<(u32, Ticks)>,
    /// Times of each processor at the last reading.
    each: Vec<(u32, Ticks)>,
    looked: Instant,
    scaling: BusyFrequency,
}

impl ProcessorMeter {
    /// Begins the measurement.
    pub(crate) fn begin() -> Self {
        let (began, each) = (Instant::now(), Ticks::of_each());
        let (before, scaling) = (Ticks::of_all(), BusyFrequency::default());
        Self { began, before, each_before: each.clone(), each, looked: began, scaling }
    }

    /// Reads the frequencies if the interval has passed: to be called repeatedly during the run.
    pub(crate) fn look(&mut self) {
        if self.looked.elapsed() >= POLL_INTERVAL {
            self.look_now();
        }
    }

    fn look_now(&mut self) {
        let now = Ticks::of_each();
        // Idle processors are not read: of many processors few work for a run.
        for (processor, busy) in work_between(&self.each, &now).filter(|(_, busy)| !busy.is_zero()) {
            if let Some(mhz) = scaled_frequency(processor) {
                self.scaling.take(mhz, busy);
            }
        }
        (self.each, self.looked) = (now, Instant::now());
    }

    /// Returns the use since the beginning, given the process's own `cpu` time.
    pub(crate) fn taken(mut self, cpu: Duration) -> Processor {
        self.look_now();
        let elapsed = self.began.elapsed().as_secs_f64();
        let ticks = self.before.zip(Ticks::of_all()).map(|(before, now)| now.since(&before));
        let softirq = ticks.map(|ticks| processor_time::duration(ticks.softirq));
        let softirq_cpus = softirq.filter(|_| elapsed > 0.0).map(|time| time.as_secs_f64() / elapsed);
        let (frequency, mhz_source) = self.frequency();
        let (least_mhz, most_mhz) = frequency.range().unzip();
        let (cpu_seconds, mhz) = (cpu.as_secs_f64(), frequency.mhz());
        Processor { cpu_seconds, mhz, least_mhz, most_mhz, mhz_source, softirq_cpus }
    }

    /// Returns the observed frequency and its source.
    fn frequency(&self) -> (BusyFrequency, Option<FrequencySource>) {
        let mut seen = self.scaling;
        if seen.mhz().is_none() {
            // The run was so short that no processor was seen at work: their present frequencies are used.
            let all = self.each.iter().filter_map(|(processor, _)| scaled_frequency(*processor));
            all.for_each(|mhz| seen.take(mhz, Duration::ZERO));
        }
        if seen.mhz().is_some() {
            return (seen, Some(FrequencySource::Cpufreq));
        }
        let told = frequencies_in(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
        let busy: Vec<_> = work_between(&self.each_before, &self.each).collect();
        for (processor, mhz) in told {
            let work = busy.iter().find(|(it, _)| *it == processor).map_or(Duration::ZERO, |(_, work)| *work);
            seen.take(mhz, work);
        }
        (seen, seen.mhz().map(|_| FrequencySource::Cpuinfo))
    }
}

/// Returns the clock of the processors; `None` where the system does not report it. Units: MHz.
pub(crate) fn clock_mhz() -> Option<f64> {
    ProcessorMeter::begin().frequency().0.mhz()
}

/// Returns the working time of each processor between two readings; processors that are new are left out.
fn work_between(before: &[(u32, Ticks)], now: &[(u32, Ticks)]) -> impl Iterator<Item = (u32, Duration)> {
    now.iter().filter_map(|(processor, ticks)| {
        let (_, before) = before.iter().find(|(it, _)| it == processor)?;
        Some((*processor, ticks.since(before).work()))
    })
}

/// Returns the frequency of a processor from its scaling driver (`cpufreq`), in megahertz, where it has one.
fn scaled_frequency(processor: u32) -> Option<f64> {
    let path = format!("/sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_cur_freq");
    let khz: f64 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    Some(khz / 1_000.0)
}

/// Returns the frequency of each processor that has an entry.
///
/// Source: `proc_cpuinfo(5)`: `processor` and `cpu MHz` of each on x86; ARM has no such line.
fn frequencies_in(cpuinfo: &str) -> Vec<(u32, f64)> {
    let (mut processor, mut found) = (0, Vec::new());
    for (name, value) in cpuinfo.lines().filter_map(|line| line.split_once(':')) {
        match (name.trim(), value.trim()) {
            ("processor", number) => processor = number.parse().unwrap_or(processor),
            ("cpu MHz", mhz) => found.extend(mhz.parse().ok().map(|mhz| (processor, mhz))),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(user: u64, idle: u64) -> Ticks {
        Ticks { user, nice: 0, system: 0, idle, iowait: 0, irq: 0, softirq: 0, steal: 0 }
    }

    #[test]
    fn each_processor_has_the_frequency_that_is_told_of_it() {
        let cpuinfo = "processor\t: 0\ncpu MHz\t\t: 2000.000\nprocessor\t: 3\ncpu MHz\t\t: 3000.000\n";
        assert_eq!(frequencies_in(cpuinfo), [(0, 2_000.0), (3, 3_000.0)]);
        assert_eq!(frequencies_in("processor\t: 0\nHardware\t: BCM2711\n"), []);
    }

    #[test]
    fn work_is_told_of_each_processor_that_was_there_before() {
        let before = [(0, ticks(100, 7)), (1, ticks(50, 7))];
        let now = [(0, ticks(103, 99)), (1, ticks(50, 99)), (2, ticks(9, 9))];
        let work: Vec<_> = work_between(&before, &now).collect();
        assert_eq!(work, [(0, Duration::from_millis(30)), (1, Duration::ZERO)]);
    }

    #[test]
    fn what_was_taken_is_what_was_told_in_seconds_and_a_frequency_names_its_source() {
        let mut meter = ProcessorMeter::begin();
        meter.look();
        let taken = meter.taken(Duration::from_millis(1_500));
        assert_eq!(taken.cpu_seconds, 1.5);
        assert!(taken.softirq_cpus.is_none_or(|cpus| cpus >= 0.0));
        assert_eq!(taken.mhz.is_some(), taken.mhz_source.is_some());
        if let (Some(mhz), Some(least), Some(most)) = (taken.mhz, taken.least_mhz, taken.most_mhz) {
            assert!(least <= mhz * (1.0 + 1e-9) && mhz <= most * (1.0 + 1e-9), "{taken:?}");
        }
    }
}
