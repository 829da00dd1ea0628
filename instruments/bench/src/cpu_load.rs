//! An artificial CPU load, in place of other work of the host: threads that follow a duty cycle.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use probe::{DutyCycle, Phase};
use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::clock;
use units::Instant;

use crate::host;

/// Length of a busy slice and the idle one after it: about the time schedulers give a task, so that the load
/// resembles that of a program and not a pause.
const PERIOD: Duration = Duration::from_millis(10);

/// The whole, in millionths.
pub(crate) const LARGEST_SHARE_PPM: u32 = 1_000_000;
/// Maximum number of threads.
pub(crate) const MOST_LOAD_THREADS: u32 = 256;

/// The CPU load to apply on a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuLoad {
    /// The share of the time that each thread works, in millionths.
    pub share_ppm: u32,
    /// The number of threads; none is one per processor.
    pub workers: Option<u32>,
}

/// The load that the threads really caused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppliedLoad {
    /// Processor time of all threads.
    pub cpu_ns: u64,
    /// Running time of the threads.
    pub elapsed_ns: u64,
    /// The number of threads.
    pub workers: u32,
}

/// The threads that generate the load. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct LoadGenerator {
    threads: Vec<JoinHandle<u64>>,
    is_over: Arc<AtomicBool>,
    began: Instant,
}

impl AppliedLoad {
    /// Returns the applied load, in percent of one processor.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "times of a run are far below 2^53 ns")]
    pub fn cpu_percent(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.cpu_ns as f64 * 100.0 / self.elapsed_ns as f64 }
    }
}

impl LoadGenerator {
    /// Begins. All threads have one timetable: they are busy together.
    pub(crate) fn begin(load: CpuLoad) -> std::io::Result<Self> {
        let began = clock::monotonic();
        let timetable = DutyCycle::new(load.share_ppm, PERIOD, began);
        let mut generator = Self { threads: Vec::new(), is_over: Arc::default(), began };
        let workers = load.workers.unwrap_or_else(host::cpus).min(MOST_LOAD_THREADS);
        for _ in 0..if load.share_ppm == 0 { 0 } else { workers } {
            let is_over = Arc::clone(&generator.is_over);
            let thread = std::thread::Builder::new().name("cpu-load".to_owned());
            generator.threads.push(thread.spawn(move || follow(&timetable, &is_over))?);
        }
        Ok(generator)
    }

    /// Ends the threads; returns the load that was applied.
    pub(crate) fn end(mut self) -> AppliedLoad {
        self.is_over.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        let workers = u32::try_from(threads.len()).unwrap_or(u32::MAX);
        let took = threads.into_iter().map(|thread| thread.join().expect("computing does not panic"));
        let cpu_ns = took.sum();
        let elapsed = clock::monotonic().since(self.began);
        AppliedLoad { cpu_ns, elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), workers }
    }
}

impl Drop for LoadGenerator {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Works and sleeps by the timetable until it is over; returns the processor time used.
fn follow(timetable: &DutyCycle, is_over: &AtomicBool) -> u64 {
    while !is_over.load(Ordering::Relaxed) {
        match timetable.at(clock::monotonic()) {
            Phase::Idle { until } => clock::sleep_until(until),
            Phase::Busy { until } => work(until, is_over),
        }
    }
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Computes until a moment: arithmetic alone, which no cache or bus slows down.
fn work(until: Instant, is_over: &AtomicBool) {
    /// Takes some microseconds, so that reading the clock is a small part of it.
    const STEPS: u64 = 4_096;
    let mut value = 1_u64;
    while clock::monotonic() < until && !is_over.load(Ordering::Relaxed) {
        for step in 0..STEPS {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies a load for three periods and returns the measured one.
    fn applied_load(load: CpuLoad) -> AppliedLoad {
        let generator = LoadGenerator::begin(load).unwrap();
        clock::sleep_until(generator.began + PERIOD * 3);
        generator.end()
    }

    #[test]
    fn what_is_taken_is_measured_and_never_more_than_was_asked_for() {
        let applied_load = applied_load(CpuLoad { share_ppm: 300_000, workers: Some(2) });
        assert_eq!(applied_load.workers, 2);
        assert!(applied_load.cpu_ns > 0, "{applied_load:?}");
        // Each began at most this many periods, and in each was busy for at most its share and one clock check
        // beyond.
        let periods = applied_load.elapsed_ns / u64::try_from(PERIOD.as_nanos()).unwrap() + 1;
        let most = periods * 2 * 4_000_000;
        assert!(applied_load.cpu_ns <= most, "{applied_load:?}");
    }

    #[test]
    fn threads_end_with_whoever_has_them() {
        let generator =
            LoadGenerator::begin(CpuLoad { share_ppm: LARGEST_SHARE_PPM, workers: Some(2) }).unwrap();
        let is_over = Arc::clone(&generator.is_over);
        drop(generator);
        support::wait_until("the end of the threads", || (Arc::strong_count(&is_over) == 1).then_some(()));
    }

    #[test]
    fn nothing_takes_nothing_and_has_no_thread() {
        let applied_load = applied_load(CpuLoad { share_ppm: 0, workers: None });
        assert_eq!((applied_load.cpu_ns, applied_load.workers), (0, 0));
        assert!((applied_load.cpu_percent() - 0.0).abs() < f64::EPSILON);
    }
}
