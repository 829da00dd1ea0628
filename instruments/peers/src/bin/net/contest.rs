//! One case: its systems take turns within every run, so that disturbances affect all of them.

use anyhow::Result;
use peers::{Bench, Case, Taken, ratios};

use crate::limit;
use crate::search::highest_that_holds;

/// Requested rate of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Pace {
    /// Rate; `None` means as fast as possible.
    pub(crate) datagrams_per_second: Option<f64>,
    pub(crate) seconds: f64,
}

/// Result of a run. Units: datagrams, or bytes of whole datagrams.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Run {
    pub(crate) datagram_bytes: usize,
    pub(crate) sent: u64,
    /// Datagrams at the reader that received fewest.
    pub(crate) received: u64,
    pub(crate) seconds: f64,
    pub(crate) source_cpu_s: f64,
    /// Processor time of the reader that used most.
    pub(crate) reader_cpu_s: f64,
    /// Receive buffer granted to a reader's socket, as the kernel counts it.
    pub(crate) receive_buffer_bytes: Option<usize>,
    /// Datagrams missing without a known reason; zero for systems that keep no account of reasons.
    pub(crate) unexplained: u64,
    /// Delays of stamped datagrams.
    pub(crate) delays_us: Vec<f64>,
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

/// Figures of one system in one run of a case.
pub(crate) struct Repeat {
    pub(crate) unpaced: Run,
    /// Run at the highest loss-free rate: `None` if it was not searched for, or no rate was loss-free.
    pub(crate) loss_free: Option<Option<Run>>,
}

/// Share of the requested rate from which it counts as reached; below, the source was too slow.
const REACHED: f64 = 0.95;
/// Share of the highest rate at which a search begins: paced senders cannot reach more.
const UNPACED_SHARE: f64 = 0.98;

impl Run {
    pub(crate) fn datagrams_per_second(&self) -> f64 {
        self.received as f64 / self.seconds
    }

    fn gigabits_per_second(&self) -> f64 {
        self.datagrams_per_second() * self.datagram_bytes as f64 * 8.0 / 1e9
    }

    fn sent_per_second(&self) -> f64 {
        self.sent as f64 / self.seconds
    }

    fn loss_percent(&self) -> f64 {
        (1.0 - self.received as f64 / self.sent as f64) * 100.0
    }

    pub(crate) fn source_cpu_ns(&self) -> f64 {
        self.source_cpu_s / self.sent as f64 * 1e9
    }

    pub(crate) fn reader_cpu_ns(&self) -> f64 {
        self.reader_cpu_s / self.received as f64 * 1e9
    }
}

/// Measures a case and prints its rows; the first system is the reference of the others.
pub(crate) fn measure(
    bench: &Bench,
    case: &Case<'_>,
    contestants: Vec<Box<dyn Contestant + '_>>,
) -> Result<()> {
    let records = measure_systems(bench, case, contestants)?;
    if let [limit, others @ ..] = &records[..] {
        others.iter().for_each(|other| compare(case, other, limit));
    }
    Ok(())
}

/// Measures the systems of a case and prints their rows.
pub(crate) fn measure_systems(
    bench: &Bench,
    case: &Case<'_>,
    contestants: Vec<Box<dyn Contestant + '_>>,
) -> Result<Vec<Taken<Repeat>>> {
    let mut systems = searched(contestants);
    let records = case.in_turn(&mut systems, |it| it.repeat(bench, bench.extent.seconds))?;
    records.iter().for_each(|record| print(case, record));
    Ok(records)
}

/// A contestant, and the rate at which its next search begins.
pub(crate) struct Searched<'a> {
    pub(crate) contestant: Box<dyn Contestant + 'a>,
    rate: Option<f64>,
}

/// Returns contestants with their names, before their first search.
pub(crate) fn searched<'a>(contestants: Vec<Box<dyn Contestant + 'a>>) -> Vec<(&'static str, Searched<'a>)> {
    contestants.into_iter().map(|it| (it.system(), Searched { contestant: it, rate: None })).collect()
}

impl Searched<'_> {
    /// Takes each figure once.
    pub(crate) fn repeat(&mut self, bench: &Bench, seconds: f64) -> Result<Repeat> {
        let Self { contestant, rate: last } = self;
        let unpaced = contestant.run(Pace { datagrams_per_second: None, seconds })?;
        if let Some(granted_bytes) = unpaced.receive_buffer_bytes {
            note_granted(bench, granted_bytes);
        }
        if !contestant.is_paced() {
            return Ok(Repeat { unpaced, loss_free: None });
        }
        let highest = unpaced.sent_per_second() * UNPACED_SHARE;
        let found = highest_that_holds(highest, *last, |rate| {
            bench.check()?;
            let run = contestant.run(Pace { datagrams_per_second: Some(rate), seconds })?;
            Ok((run.received == run.sent && run.sent_per_second() >= rate * REACHED).then_some(run))
        })?;
        *last = found.as_ref().map(|(rate, _)| *rate).or(*last);
        Ok(Repeat { unpaced, loss_free: Some(found.map(|(_, run)| run)) })
    }
}

fn note_granted(bench: &Bench, granted_bytes: usize) {
    let (asked, granted) = (limit::BUFFER_BYTES >> 20, granted_bytes as f64 / f64::from(1 << 20));
    bench.note(&format!(
        "receive buffers: {asked} MiB requested, which the kernel doubles; {granted:.2} MiB granted"
    ));
}

fn print(case: &Case<'_>, record: &Taken<Repeat>) {
    let unpaced = |metric, unit, value: &dyn Fn(&Run) -> f64| {
        case.row(record.system, metric, unit, record.runs.iter().map(|repeat| value(&repeat.unpaced)));
    };
    unpaced("datagrams", "/s", &Run::datagrams_per_second);
    unpaced("goodput", "Gbit/s", &Run::gigabits_per_second);
    unpaced("loss", "%", &Run::loss_percent);
    if record.runs.iter().any(|repeat| repeat.unpaced.unexplained > 0) {
        unpaced("unexplained", "/run", &|run| run.unexplained as f64);
    }
    unpaced("cpu_per_datagram_source", "ns", &Run::source_cpu_ns);
    unpaced("cpu_per_datagram_reader", "ns", &Run::reader_cpu_ns);
    case.row(record.system, "loss_free_datagrams", "/s", loss_free(record, Run::datagrams_per_second));
    case.row(record.system, "loss_free_goodput", "Gbit/s", loss_free(record, Run::gigabits_per_second));
}

/// Returns a figure of every search; zero where no rate was loss-free.
pub(crate) fn loss_free(record: &Taken<Repeat>, value: impl Fn(&Run) -> f64) -> Vec<f64> {
    let searched = record.runs.iter().filter_map(|repeat| repeat.loss_free.as_ref());
    searched.map(|run| run.as_ref().map_or(0.0, &value)).collect()
}

/// Prints the figures of a system as a share of the limit's in the same run.
fn compare(case: &Case<'_>, record: &Taken<Repeat>, limit: &Taken<Repeat>) {
    let goodput = |record: &Taken<Repeat>| -> Vec<f64> {
        record.runs.iter().map(|repeat| repeat.unpaced.gigabits_per_second()).collect()
    };
    case.row(record.system, "goodput_to_limit", "x", ratios(&goodput(record), &goodput(limit)));
    let [these, those] = [record, limit].map(|record| loss_free(record, Run::gigabits_per_second));
    case.row(record.system, "loss_free_to_limit", "x", ratios(&these, &those));
}
