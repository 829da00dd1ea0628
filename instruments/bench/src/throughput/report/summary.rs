//! Statistics over the runs of a measurement, and their reliability.

use super::{CpuUtilization, End, Figures, KEPT_UP, RunReport, Settings, Start, Sums};
use crate::report::noise::{self, Elsewhere};
use crate::report::{Row, RowNames, Used};
use crate::throughput::message::SideResult;

/// Results of both ends for a run.
pub(super) struct Sides<'a> {
    pub(super) ours: &'a SideResult,
    pub(super) theirs: Option<&'a SideResult>,
    pub(super) skipped: u64,
    pub(super) trouble: Option<String>,
    pub(super) target_bitrate: u64,
}

pub(super) fn run_report(run: u32, start: &Start, sums: Sums, sides: Sides<'_>) -> RunReport {
    let Sides { ours, theirs, skipped, trouble, target_bitrate } = sides;
    let elsewhere = Elsewhere::of(start.same_host, &ours.used, theirs.map(|side| &side.used));
    let mut noise = elsewhere.disturbances(start.same_host);
    noise.extend(behind(target_bitrate, &start.test_start, &sums));
    RunReport {
        run,
        target_bitrate,
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
        skipped,
        noise,
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
        let handed = super::bits_per_second(packets * settings.blksize, sent.seconds);
        Some(sent.bits_per_second.max(handed))
    };
    let slowest = ways.into_iter().filter_map(handed_over).reduce(f64::min)?;
    let share = if target > 0.0 { slowest / target } else { 1.0 };
    (share < KEPT_UP).then(|| format!("senders reached only {:.0} % of their rate", share * 100.0))
}

/// Completes the end of a report with the statistics over its runs.
pub(super) fn sum_up(start: &Start, end: &mut End) {
    end.sums = Sums {
        sum_sent: together(&end.runs, |sums| sums.sum_sent),
        sum_received: together(&end.runs, |sums| sums.sum_received),
        sum_sent_bidir_reverse: together(&end.runs, |sums| sums.sum_sent_bidir_reverse),
        sum_received_bidir_reverse: together(&end.runs, |sums| sums.sum_received_bidir_reverse),
    };
    end.cpu_utilization_percent = CpuUtilization {
        host_total: mean(end.runs.iter().map(|run| run.client_cpu_percent)).unwrap_or(0.0),
        remote_total: mean(end.runs.iter().filter_map(|run| run.server_cpu_percent)),
    };
    end.rows = match &end.loss_free {
        Some(found) => found.row(&start.test_start).into_iter().collect(),
        None => rows(&start.test_start, &comparable(&end.runs)),
    };
    let elsewhere = end
        .runs
        .iter()
        .map(|run| Elsewhere { client: run.client_elsewhere_cpus, server: run.server_elsewhere_cpus });
    end.noise = Elsewhere::most(elsewhere).disturbances(start.same_host);
    let is_behind = |run: &&RunReport| behind(run.target_bitrate, &start.test_start, &run.sums).is_some();
    match end.runs.iter().filter(is_behind).count() {
        0 => {}
        count => {
            end.noise.push(format!("senders did not reach their rate in {count} runs of {}", end.runs.len()))
        }
    }
    if !end.rows.is_empty() && end.runs.iter().all(|run| run.trouble.is_some()) {
        end.noise.push("no run is whole: these are figures of runs that ended early".to_owned());
    }
    let rates = end.rows.iter().filter(|row| row.metric == "bits_per_second");
    let spreads = noise::spreads("rates", rates);
    end.noise.extend(spreads);
}

/// Adds up consecutive runs.
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

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    #[expect(clippy::cast_precision_loss, reason = "there are few runs")]
    let count = values.len() as f64;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
}

/// Selects one of the sums.
type OfSums = fn(&Sums) -> Option<Figures>;
/// Selects one of the figures.
type OfFigures = fn(&Figures) -> Option<f64>;

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

fn rows(settings: &Settings, runs: &[&RunReport]) -> Vec<Row> {
    let forward = if settings.reverse == 1 { "reverse" } else { "forward" };
    let ways: [(&str, OfSums); 2] =
        [(forward, |sums| sums.sum_received), ("reverse", |sums| sums.sum_received_bidir_reverse)];
    let metrics: [(&str, &str, OfFigures); 3] = [
        ("bits_per_second", "bit/s", |it| Some(it.bits_per_second)),
        ("lost_percent", "%", |it| it.lost_percent),
        ("jitter_ms", "ms", |it| it.jitter_ms),
    ];
    let mut rows = Vec::new();
    for (way, of) in ways {
        let figures: Vec<Figures> = runs.iter().filter_map(|run| of(&run.sums)).collect();
        for (metric, unit, value) in metrics {
            let values: Vec<f64> = figures.iter().filter_map(value).collect();
            let (case, system) = (settings.case(way), settings.system());
            let names = RowNames { bench: "throughput", case: &case, system: &system, metric, unit };
            rows.extend(Row::of(names, &values));
        }
    }
    rows
}
