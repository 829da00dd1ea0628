//! One case: its systems take turns within every run, so that disturbances affect all of them.

use anyhow::{Context, Result};
use peers::Row;

use crate::Bench;
use crate::search::highest_that_holds;

/// Requested rate of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Pace {
    /// Rate; `None` means as fast as possible.
    pub(crate) datagrams_per_second: Option<f64>,
    pub(crate) seconds: f64,
}

/// Result of a run. Units: datagrams, or bytes of whole datagrams.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Run {
    pub(crate) datagram_bytes: usize,
    pub(crate) sent: u64,
    /// Datagrams at the reader that received fewest.
    pub(crate) received: u64,
    pub(crate) seconds: f64,
    pub(crate) source_cpu_s: Option<f64>,
    /// Processor time of the reader that used most.
    pub(crate) reader_cpu_s: Option<f64>,
    /// Receive buffer granted to a reader's socket, as the kernel counts it.
    pub(crate) receive_buffer_bytes: Option<usize>,
    /// Datagrams missing without a known reason; zero for systems that keep no account of reasons.
    pub(crate) unexplained: u64,
}

/// A system that moves datagrams from a source to readers.
pub(crate) trait Contestant {
    /// Its name in rows.
    fn system(&self) -> &'static str;

    /// Runs the system once.
    fn run(&mut self, pace: Pace) -> Result<Run>;

    /// Returns whether the system accepts a rate and reports its losses.
    fn is_paced(&self) -> bool {
        true
    }
}

/// Share of the requested rate from which it counts as reached; below, the source was too slow.
const REACHED: f64 = 0.95;
/// Share of the highest rate at which a search begins: paced senders cannot reach more.
const UNPACED_SHARE: f64 = 0.98;

impl Run {
    #[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
    pub(crate) fn datagrams_per_second(&self) -> f64 {
        self.received as f64 / self.seconds
    }

    fn gigabits_per_second(&self) -> f64 {
        self.datagrams_per_second() * self.datagram_bytes as f64 * 8.0 / 1e9
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
    fn sent_per_second(&self) -> f64 {
        self.sent as f64 / self.seconds
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
    fn loss_percent(&self) -> f64 {
        (1.0 - self.received as f64 / self.sent as f64) * 100.0
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
    fn source_cpu_ns(&self) -> Option<f64> {
        Some(self.source_cpu_s? / self.sent as f64 * 1e9)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
    fn reader_cpu_ns(&self) -> Option<f64> {
        Some(self.reader_cpu_s? / self.received as f64 * 1e9)
    }
}

/// Results of one system in all runs of a case.
struct Record {
    system: &'static str,
    unpaced: Vec<Run>,
    /// Loss-free runs; `None` if no rate was loss-free.
    loss_free: Vec<Option<Run>>,
    /// Start rate of the next search.
    rate: Option<f64>,
}

/// Measures a case and prints its rows; the first system is the reference of the others.
pub(crate) fn measure(bench: &Bench, case: &str, contestants: &mut [Box<dyn Contestant + '_>]) -> Result<()> {
    let mut records: Vec<Record> = contestants.iter().map(|contestant| Record::new(&**contestant)).collect();
    for repeat in 1..=bench.runs {
        for (contestant, record) in contestants.iter_mut().zip(&mut records) {
            bench.interrupt.check()?;
            bench.progress(&format!("{case}: {} ({repeat} of {})", record.system, bench.runs));
            record
                .repeat(bench, &mut **contestant)
                .with_context(|| format!("{case}: cannot measure {}", record.system))?;
        }
    }
    for record in &records {
        record.print(bench, case);
    }
    if let [limit, others @ ..] = &records[..] {
        others.iter().for_each(|other| other.compare(bench, case, limit));
    }
    Ok(())
}

impl Record {
    fn new(contestant: &dyn Contestant) -> Self {
        Self { system: contestant.system(), unpaced: Vec::new(), loss_free: Vec::new(), rate: None }
    }

    /// Takes each figure once.
    fn repeat(&mut self, bench: &Bench, contestant: &mut dyn Contestant) -> Result<()> {
        let unpaced = contestant.run(Pace { datagrams_per_second: None, seconds: bench.seconds })?;
        if let Some(granted_bytes) = unpaced.receive_buffer_bytes {
            bench.say_granted(granted_bytes);
        }
        if contestant.is_paced() {
            let highest = unpaced.sent_per_second() * UNPACED_SHARE;
            let found = highest_that_holds(highest, self.rate, |rate| {
                bench.interrupt.check()?;
                let run =
                    contestant.run(Pace { datagrams_per_second: Some(rate), seconds: bench.seconds })?;
                Ok((run.received == run.sent && run.sent_per_second() >= rate * REACHED).then_some(run))
            })?;
            self.rate = found.as_ref().map(|(rate, _)| *rate).or(self.rate);
            self.loss_free.push(found.map(|(_, run)| run));
        }
        self.unpaced.push(unpaced);
        Ok(())
    }

    fn print(&self, bench: &Bench, case: &str) {
        let row = |metric, unit, runs: &[f64]| {
            if !runs.is_empty() {
                bench.report.row(&Row { case, system: self.system, metric, unit, runs });
            }
        };
        let unpaced = |value: &dyn Fn(&Run) -> Option<f64>| -> Vec<f64> {
            self.unpaced.iter().filter_map(value).collect()
        };
        row("datagrams", "/s", &unpaced(&|run| Some(run.datagrams_per_second())));
        row("goodput", "Gbit/s", &unpaced(&|run| Some(run.gigabits_per_second())));
        row("loss", "%", &unpaced(&|run| Some(run.loss_percent())));
        if self.unpaced.iter().any(|run| run.unexplained > 0) {
            row("unexplained", "/run", &unpaced(&|run| Some(run.unexplained as f64)));
        }
        row("cpu_per_datagram_source", "ns", &unpaced(&Run::source_cpu_ns));
        row("cpu_per_datagram_reader", "ns", &unpaced(&Run::reader_cpu_ns));
        row("loss_free_datagrams", "/s", &self.loss_free(Run::datagrams_per_second));
        row("loss_free_goodput", "Gbit/s", &self.loss_free(Run::gigabits_per_second));
    }

    /// Returns a figure of every run; empty if no rate was loss-free.
    fn loss_free(&self, value: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.loss_free.iter().map(|run| run.as_ref().map_or(0.0, &value)).collect()
    }

    /// Prints the figures of this system as a share of the limit's in the same run.
    fn compare(&self, bench: &Bench, case: &str, limit: &Self) {
        let row = |metric, these: &[f64], those: &[f64]| {
            let pairs = these.iter().zip(those).filter(|(_, that)| **that > 0.0);
            let runs: Vec<f64> = pairs.map(|(this, that)| this / that).collect();
            if !runs.is_empty() {
                bench.report.row(&Row { case, system: self.system, metric, unit: "x", runs: &runs });
            }
        };
        let goodput =
            |record: &Self| -> Vec<f64> { record.unpaced.iter().map(Run::gigabits_per_second).collect() };
        row("goodput_to_limit", &goodput(self), &goodput(limit));
        let loss_free = |record: &Self| record.loss_free(Run::gigabits_per_second);
        row("loss_free_to_limit", &loss_free(self), &loss_free(limit));
    }
}
