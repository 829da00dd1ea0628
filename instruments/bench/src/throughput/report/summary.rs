//! Statistics over the runs of a measurement, and their reliability.

use units::text;

use super::{Builder, CpuUtilization, Figures, KEPT_UP, RunReport, Settings, Start, Sums};
use crate::report::noise::{self, Elsewhere};
use crate::report::number::{mean, per_second};
use crate::report::{Metric, Names, Row, Used};
use crate::throughput::LossFreeFound;
use crate::throughput::message::SideResult;

impl Builder {
    /// Joins the results of both ends for the run that has ended.
    pub(super) fn run_report(
        &self,
        sums: Sums,
        ours: &SideResult,
        theirs: Option<&SideResult>,
        trouble: Option<String>,
    ) -> RunReport {
        let Self { start, run, target_bitrate, .. } = self;
        let elsewhere = Elsewhere::of(start.same_host, &ours.used, theirs.map(|side| &side.used));
        let flows = ours.flows.iter().chain(theirs.iter().flat_map(|side| &side.flows));
        let mut noise = elsewhere.disturbances(start.same_host);
        noise.extend(behind(*target_bitrate, &start.test_start, &sums));
        RunReport {
            run: *run,
            target_bitrate: *target_bitrate,
            trouble,
            sums,
            client_cpu_percent: ours.used.cpu_percent(),
            server_cpu_percent: theirs
                .map(|side| (side.used.cpu_percent() - applied_load_percent(side)).max(0.0)),
            applied_load: theirs.and_then(|side| side.applied_load),
            client_processor: ours.processor,
            server_processor: theirs.map(|side| side.processor),
            client_elsewhere_cpus: elsewhere.client,
            server_elsewhere_cpus: elsewhere.server,
            skipped: flows.map(|flow| flow.skipped).sum(),
            noise,
        }
    }
}

/// Returns the load that was applied at an end, in percent of one processor over the time of the run.
fn applied_load_percent(side: &SideResult) -> f64 {
    let Some(applied_load) = side.applied_load else { return 0.0 };
    Used { cpu_ns: applied_load.cpu_ns, ..side.used }.cpu_percent()
}

/// Returns a note if senders were slower than requested. Data that they sent and the host refused is not
/// counted against them: it is in the account.
#[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
fn behind(target_bitrate: u64, settings: &Settings, sums: &Sums) -> Option<String> {
    let target = target_bitrate as f64 * f64::from(settings.num_streams);
    let ways =
        [(sums.sum_sent, sums.sum_received), (sums.sum_sent_bidir_reverse, sums.sum_received_bidir_reverse)];
    let handed_over = |(sent, received): (Option<Figures>, Option<Figures>)| {
        let sent = sent?;
        let packets = received.and_then(|it| it.packets).unwrap_or(0) / u64::from(settings.receivers.max(1));
        let handed = per_second(packets * settings.blksize, sent.seconds) * 8.0;
        Some(sent.bits_per_second.max(handed))
    };
    let slowest = ways.into_iter().filter_map(handed_over).reduce(f64::min)?;
    let share = if target > 0.0 { slowest / target } else { 1.0 };
    (share < KEPT_UP).then(|| format!("senders reached only {:.0} % of their rate", share * 100.0))
}

impl Sums {
    /// Adds up consecutive runs.
    pub(super) fn of_runs(runs: &[RunReport]) -> Self {
        Self {
            sum_sent: together(runs, |sums| sums.sum_sent),
            sum_received: together(runs, |sums| sums.sum_received),
            sum_sent_bidir_reverse: together(runs, |sums| sums.sum_sent_bidir_reverse),
            sum_received_bidir_reverse: together(runs, |sums| sums.sum_received_bidir_reverse),
        }
    }
}

impl CpuUtilization {
    pub(super) fn of(runs: &[RunReport]) -> Self {
        Self {
            host_total: mean(runs.iter().map(|run| run.client_cpu_percent)).unwrap_or(0.0),
            remote_total: mean(runs.iter().filter_map(|run| run.server_cpu_percent)),
        }
    }
}

/// Returns why a measurement is unreliable.
pub(super) fn noise(start: &Start, runs: &[RunReport], rows: &[Row]) -> Vec<String> {
    let elsewhere = runs.iter().map(|run| [run.client_elsewhere_cpus, run.server_elsewhere_cpus]);
    let mut noise = Elsewhere::most(elsewhere).disturbances(start.same_host);
    let is_behind = |run: &&RunReport| behind(run.target_bitrate, &start.test_start, &run.sums).is_some();
    match runs.iter().filter(is_behind).count() {
        0 => {}
        count => noise.push(format!(
            "senders did not reach their rate in {count} of {}",
            text::counted(runs.len(), "run")
        )),
    }
    if !rows.is_empty() && runs.iter().all(|run| run.trouble.is_some()) {
        noise.push("no run is whole: these are figures of runs that ended early".to_owned());
    }
    noise.extend(noise::spreads("rates", rows.iter().filter(|row| row.metric == "bits_per_second")));
    noise
}

fn together(runs: &[RunReport], of: OfSums) -> Option<Figures> {
    let runs: Vec<Figures> = runs.iter().filter_map(|run| of(&run.sums)).collect();
    let mut total = Figures::sum(runs.iter())?;
    total.seconds = runs.iter().map(|it| it.seconds).sum();
    // By time, not by bytes: several receivers have one rate.
    let bits: f64 = runs.iter().map(|it| it.bits_per_second * it.seconds).sum();
    total.bits_per_second = if total.seconds > 0.0 { bits / total.seconds } else { 0.0 };
    (total.start, total.end, total.snd_cwnd) = (0.0, total.seconds, None);
    Some(total)
}

/// Selects one of the sums.
type OfSums = fn(&Sums) -> Option<Figures>;

/// Returns the runs that a median may include: the complete ones, or all if there are none; an empty list if
/// each has another rate, as in a search that was ended early.
fn comparable(runs: &[RunReport]) -> Vec<&RunReport> {
    let rate = runs.first().map(|run| run.target_bitrate);
    if runs.iter().any(|run| Some(run.target_bitrate) != rate) {
        return Vec::new();
    }
    let is_whole = |run: &&RunReport| run.trouble.is_none();
    let whole: Vec<_> = runs.iter().filter(is_whole).collect();
    if whole.is_empty() { runs.iter().collect() } else { whole }
}

/// Returns the medians of the runs, or the result of a search.
pub(super) fn rows(settings: &Settings, runs: &[RunReport], found: Option<&LossFreeFound>) -> Vec<Row> {
    const METRICS: [Metric<Figures>; 3] = [
        ("bits_per_second", "bit/s", |it| Some(it.bits_per_second)),
        ("lost_percent", "%", |it| it.lost_percent),
        ("jitter_ms", "ms", |it| it.jitter_ms),
    ];
    if let Some(found) = found {
        return found.row(settings).into_iter().collect();
    }
    let runs = comparable(runs);
    let forward = if settings.reverse == 1 { "reverse" } else { "forward" };
    let of_way = |(way, of): (&str, OfSums)| {
        let figures: Vec<Figures> = runs.iter().filter_map(|run| of(&run.sums)).collect();
        let names = Names { bench: "throughput", case: &settings.case(way), system: &settings.system() };
        Row::each(names, &figures, &METRICS)
    };
    let ways: [(&str, OfSums); 2] =
        [(forward, |sums| sums.sum_received), ("reverse", |sums| sums.sum_received_bidir_reverse)];
    ways.into_iter().flat_map(of_way).collect()
}
