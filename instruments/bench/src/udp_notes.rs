//! The UDP notes: their figures, and their conclusions compared with those of this measurement.
//!
//! Source: "UDP notes" ("On UDP: datagram length, receive capacity, loss, process structure"). They were
//! measured on a Xeon X3440 (2.53 GHz, 4 cores, 8 threads) behind a 1 Gbit/s network card, which was the limit.

mod facts;

use std::time::Duration;

use probe::Contrast;

use crate::capacity::{self, CapacityError, Options, Point, Report, ThreadingModel};
use crate::control::Patience;
use crate::report::{
    Agreement, Comparisons, Conclusion, Ends, Grid, Names, PrintedHost, ReferenceFigure, Reproduction, State,
    Watch,
};

/// A figure of the notes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    /// Threading model of the receivers.
    pub threading_model: ThreadingModel,
    /// Number of receivers.
    pub workers: u32,
    /// Bytes in each datagram.
    pub payload_bytes: u64,
    /// Datagrams received per second.
    pub packets_per_second: f64,
    /// Traffic at the network card. Units: Mbit/s.
    pub network_mbits: f64,
    /// Processors kept busy, in percent of one; `None` where the notes do not state it.
    pub cpu_percent: Option<f64>,
}

/// All of the notes' figures: their models 1, 2 and 3.
pub const FIGURES: [Figure; 10] = {
    const fn own(
        workers: u32,
        payload_bytes: u64,
        packets_per_second: f64,
        network_mbits: f64,
        cpu_percent: Option<f64>,
    ) -> Figure {
        let threading_model = ThreadingModel::OwnProcesses;
        Figure { threading_model, workers, payload_bytes, packets_per_second, network_mbits, cpu_percent }
    }
    const fn shared(workers: u32, packets_per_second: f64, network_mbits: f64, cpu: f64) -> Figure {
        let threading_model = ThreadingModel::SharedThreads;
        let (payload_bytes, cpu_percent) = (1, Some(cpu));
        Figure { threading_model, workers, payload_bytes, packets_per_second, network_mbits, cpu_percent }
    }
    [
        own(1, 1, 791_676.1, 514.361, Some(100.0)),
        own(2, 1, 1_016_197.0, 713.786, Some(200.0)),
        own(4, 1, 1_395_040.0, 714.375, Some(325.0)),
        own(8, 1, 1_491_744.0, 714.036, Some(370.0)),
        own(1, 100, 571_433.4, 855.482, Some(100.0)),
        own(2, 100, 752_319.9, 855.542, Some(112.9)),
        own(4, 100, 731_545.6, 855.546, None),
        own(8, 100, 751_922.5, 855.549, None),
        shared(1, 791_676.0, 514.361, 100.0),
        shared(2, 509_868.0, 714.229, 150.0),
    ]
};

/// Minimum idle part of a processor, in percent, with which a host counts as partly idle.
const IDLE_PERCENT: f64 = 10.0;

/// Returns the notes' figure of a point, if it has one.
#[must_use]
pub fn figure(threading_model: ThreadingModel, workers: u32, payload_bytes: u64) -> Option<Figure> {
    let is_it = |it: &Figure| {
        (it.threading_model, it.workers, it.payload_bytes) == (threading_model, workers, payload_bytes)
    };
    FIGURES.into_iter().find(is_it)
}

/// Returns the options of the measurement: the notes' grid, and their two ways to receive.
#[must_use]
pub fn options(grid: Grid) -> Options {
    match grid {
        Grid::Short => Options {
            payloads: vec![1, 100],
            threading_models: vec![ThreadingModel::OwnProcesses, ThreadingModel::SharedThreads],
            duration: Duration::from_millis(500),
            ..Options::default()
        },
        Grid::Full => Options {
            threading_models: ThreadingModel::ALL.to_vec(),
            duration: Duration::from_secs(10),
            repeats: 5,
            ..Options::default()
        },
    }
}

/// Measures between two ends, and compares the figures and conclusions of the notes with ours.
///
/// # Errors
/// [`CapacityError`] if nothing could be measured.
pub fn reproduce(grid: Grid, ends: Ends<'_>, watch: &mut dyn Watch) -> Result<Reproduction, CapacityError> {
    let it = Reproduction::begin("002", grid);
    let report = capacity::measure(&options(grid), ends.server, ends.from, Patience::default(), watch)?;
    Ok(assemble(it, &report, facts::look(&report.points)))
}

fn assemble(mut it: Reproduction, report: &Report, facts: Vec<Conclusion>) -> Reproduction {
    it.measured("capacity", report, &report.rows, &report.noise());
    it.table = FIGURES.iter().flat_map(|figure| reference_figures(report, figure)).collect();
    it.table.extend(PEAKS.map(|(payload, source)| peak(report, payload, source)));
    it.table.extend(facts::table());
    it.table.extend(HOST.beside_this());
    it.conclusions.clone_from(&report.conclusions);
    it.conclusions.extend(facts);
    it.charts = capacity::charts(report);
    it.notes.clone_from(&report.end.notes);
    it.state = report.end.state;
    it.end(report.end.state == State::Interrupted)
}

/// Compares the figures of one of the notes' points with ours: packets per second, the traffic that they are, and the CPU
/// time of the receivers.
fn reference_figures(report: &Report, figure: &Figure) -> Vec<ReferenceFigure> {
    let Figure { threading_model, workers, payload_bytes, packets_per_second, network_mbits, cpu_percent } =
        *figure;
    let point = report.point(threading_model, workers, payload_bytes);
    let bound = point.is_some_and(Point::is_limited_by_senders);
    let remark = if bound { "the senders were the limit" } else { "" };
    let why = if point.is_some() { "the system does not tell it" } else { "this point was not measured" };
    let line = |metric: &str, unit: &str, source: Option<f64>| {
        let is_here = |row: &&crate::Row| {
            let is_of_point = point.is_some_and(|point| point.case() == row.case);
            is_of_point && row.metric == metric && row.system == threading_model.name()
        };
        let what = format!("{payload_bytes} B, {workers} {threading_model}");
        let here = report.rows.iter().find(is_here).cloned();
        ReferenceFigure {
            here,
            remark: remark.to_owned(),
            ..ReferenceFigure::new(what, metric, unit, source)
        }
    };
    let network = ReferenceFigure {
        here: point.and_then(traffic),
        remark: "frames of the sent datagrams, as at a network card".to_owned(),
        ..line("network_bits_per_second", "bit/s", Some(network_mbits * 1e6))
    };
    let lines = [
        line("packets_per_second", "1/s", Some(packets_per_second)),
        network,
        line("receivers_cpu_percent", "%", cpu_percent),
    ];
    lines.map(|line| line.or(why)).into()
}

/// The notes' machine.
const HOST: PrintedHost = PrintedHost {
    name: "host of the notes",
    processors: Some(8.0),
    clock_ghz: Some(2.53),
    memory_gb: Some(8.0),
    card_gbits: Some(1.0),
};

/// The most that one machine received according to the notes' text: bytes of payload, datagrams per second.
const PEAKS: [(u64, f64); 2] = [(SMALLEST_PAYLOAD, 1.5e6), (USUAL_PAYLOAD, 750e3)];

/// Compares the most that processes received of datagrams of a size, with however many processes.
fn peak(report: &Report, payload_bytes: u64, source: f64) -> ReferenceFigure {
    let own = of(&report.points, ThreadingModel::OwnProcesses).filter(|it| it.payload_bytes == payload_bytes);
    let rates = own.filter_map(|point| Some(point.packets_per_second()?.median));
    let best: Vec<f64> = rates.reduce(f64::max).into_iter().collect();
    let what = format!("{payload_bytes} B, at the peak");
    ReferenceFigure::printed(&what, "packets_per_second", "1/s", source)
        .beside(&best)
        .or("it was not measured")
}

/// Headers of a datagram in an Ethernet frame without its checksum: Ethernet, IPv4, UDP. Units: bytes.
const FRAME_HEADER_BYTES: u64 = 14 + 20 + 8;
/// Smallest such frame: shorter ones are filled up. The notes' figures are those of frames of this size. Units: bytes.
const LEAST_FRAME_BYTES: u64 = 60;

/// Returns the traffic of a point's sent datagrams, in frames as the notes' card counted them.
#[expect(clippy::cast_precision_loss, reason = "datagrams of a run are far below 2^53")]
fn traffic(point: &Point) -> Option<crate::Row> {
    let frame_bits = (FRAME_HEADER_BYTES + point.payload_bytes).max(LEAST_FRAME_BYTES) * 8;
    let rates = point.whole_runs().filter(|run| run.seconds > 0.0);
    let rates: Vec<f64> = rates.map(|run| (run.account.sent * frame_bits) as f64 / run.seconds).collect();
    let (case, system) = (point.case(), point.threading_model.name());
    let names = Names { bench: "capacity", case: &case, system };
    crate::Row::of(names, "network_bits_per_second", "bit/s", &rates)
}

/// Compares points with the notes' conclusions; with `same_host` no network card was involved. Noisy points judge nothing.
#[must_use]
pub fn conclude(points: &[Point], same_host: bool) -> Vec<Conclusion> {
    let (quiet, noisy) = quiet(points);
    let all = [
        processes_beat_threads(&quiet),
        threads_lose(&quiet),
        processes_gain(&quiet),
        processes_gain_little(&quiet, same_host),
        loss_falls(&quiet),
        processors_idle(&quiet, same_host),
    ];
    all.map(|it| it.without_noisy(noisy)).into()
}

/// Returns the points that the report does not call unreliable, and the number of those that it does.
fn quiet(points: &[Point]) -> (Vec<Point>, usize) {
    let quiet: Vec<Point> = points.iter().filter(|point| point.noise.is_empty()).cloned().collect();
    let noisy = points.len() - quiet.len();
    (quiet, noisy)
}

fn processes_beat_threads(points: &[Point]) -> Conclusion {
    let own = of(points, ThreadingModel::OwnProcesses).filter(|own| own.workers > 1);
    let pairs =
        own.filter_map(|own| Some((own, partner(points, own, ThreadingModel::SharedThreads, own.workers)?)));
    let source = "build several processes at different ports, not several threads at one port";
    judge(source, "more by processes at ports of their own than by as many threads at one socket", pairs)
}

fn threads_lose(points: &[Point]) -> Conclusion {
    let two = of(points, ThreadingModel::SharedThreads).filter(|point| point.workers == 2);
    let pairs = two.filter_map(|two| Some((partner(points, two, two.threading_model, 1)?, two)));
    let source = "with more threads at one socket less is received: they fight for its lock, and each datagram wakes all";
    judge(source, "more by one thread than by two at one socket", pairs)
}

/// Size of the datagrams of which the notes received more with more processes. Units: bytes of payload.
const SMALLEST_PAYLOAD: u64 = 1;

/// Size of those of which they did not, since the network card was saturated.
const USUAL_PAYLOAD: u64 = 100;

fn processes_gain(points: &[Point]) -> Conclusion {
    let source = "with datagrams of 1 byte: the more processes, the more is received";
    let found = "more by as many processes as were measured than by one";
    judge(source, found, most_and_one(points, SMALLEST_PAYLOAD))
}

fn processes_gain_little(points: &[Point], same_host: bool) -> Conclusion {
    let source =
        "with datagrams of 100 bytes more processes receive not markedly more: the network card is used up";
    let measured = most_and_one(points, USUAL_PAYLOAD)
        .next()
        .and_then(|(most, one)| Some((most.workers, most.packets_per_second()?, one.packets_per_second()?)));
    let Some((workers, together, alone)) = measured else { return Conclusion::not_measured(source) };
    let here = format!("{:.0}/s by {workers} processes, {:.0}/s by one", together.median, alone.median);
    if same_host {
        let why = format!("both ends are on one host, without a network card that could be used up; {here}");
        return Conclusion::not_judged(source, &why);
    }
    match together.against(&alone) {
        Contrast::More => Conclusion::new(source, &here, Agreement::Differs),
        Contrast::Less | Contrast::Alike => Conclusion::new(source, &here, Agreement::Agrees),
        Contrast::Unclear => Conclusion::not_judged(source, &format!("repeats spread too widely; {here}")),
    }
}

/// Pairs the point with the most processes with that of one process, for datagrams of a size.
fn most_and_one(points: &[Point], payload_bytes: u64) -> impl Iterator<Item = (&Point, &Point)> {
    let own = of(points, ThreadingModel::OwnProcesses).filter(move |it| it.payload_bytes == payload_bytes);
    own.filter(|point| point.workers == 1).filter_map(|one| Some((most(points, one)?, one)))
}

/// Judges by the lost part, which is valid even if the senders are the limit. If one process lost next to
/// nothing none can lose less, and runs that were cut short or sent nothing are left out.
fn loss_falls(points: &[Point]) -> Conclusion {
    let source = "with the number of processes markedly less is lost";
    let (mut here, mut contrasts, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for one in of(points, ThreadingModel::OwnProcesses).filter(|point| point.workers == 1) {
        let size = one.payload_bytes;
        let Some(most) = most(points, one) else { continue };
        let Some((alone, together)) = one.lost_percent().zip(most.lost_percent()) else {
            left_out.push(format!("{size} B, since no run is whole in which anything was sent"));
            continue;
        };
        if one.is_limited_by_senders() {
            left_out.push(format!("{size} B, since one process lost next to nothing"));
            continue;
        }
        contrasts.push(alone.against(&together));
        let (alone, together, workers) = (alone.median, together.median, most.workers);
        here.push(format!("{size} B: {alone:.1} % by one, {together:.1} % by {workers}"));
    }
    Comparisons::of(contrasts).conclude_but(source, here, &left_out)
}

fn processors_idle(points: &[Point], same_host: bool) -> Conclusion {
    let source = "at the peak the processors are not used up: the network card is the limit";
    let rate = |point: &&Point| point.packets_per_second().map_or(0.0, |it| it.median);
    let best = points.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let shares = best.and_then(|best| Some((best, best.whole_runs().last()?.processors?)));
    let Some((best, shares)) = shares else { return Conclusion::not_measured(source) };
    let idle = shares.idle + shares.iowait;
    let here =
        format!("at the peak, {} {}, {idle:.0} % of a processor was idle", best.threading_model, best.case());
    match same_host {
        true => {
            let why = format!("both ends are on one host, without a network card; {here}");
            Conclusion::not_judged(source, &why)
        }
        // Idle processors do not prove that the card is the limit: that would show at the card.
        false if idle > IDLE_PERCENT => {
            Conclusion::not_judged(source, &format!("how busy the network card was is not read; {here}"))
        }
        false => Conclusion::new(source, &here, Agreement::Differs),
    }
}

/// Judges whether the first of each pair received more than the second. If neither lost anything the senders
/// were the limit, and the pair proves nothing.
fn judge<'a>(source: &str, found: &str, pairs: impl Iterator<Item = (&'a Point, &'a Point)>) -> Conclusion {
    let tells = |(a, b): &(&Point, &Point)| !(a.is_limited_by_senders() && b.is_limited_by_senders());
    let (pairs, bound): (Vec<_>, Vec<_>) = pairs.partition(tells);
    let contrasts: Vec<(f64, Contrast)> = pairs
        .iter()
        .filter_map(|(a, b)| {
            let (a, b) = (a.packets_per_second()?, b.packets_per_second()?);
            (b.median > 0.0).then(|| (a.median / b.median, a.against(&b)))
        })
        .collect();
    let comparisons = Comparisons::of(contrasts.iter().map(|(_, contrast)| *contrast));
    let Comparisons { more, less, .. } = comparisons;
    let fold = |with: fn(f64, f64) -> f64| contrasts.iter().map(|(ratio, _)| *ratio).reduce(with);
    let mut here = match (fold(f64::min), fold(f64::max)) {
        (Some(least), Some(most)) => format!(
            "{found} at {more} of {} points, less at {less}; {least:.2} to {most:.2} times as much",
            contrasts.len()
        ),
        _ if bound.is_empty() => return Conclusion::not_measured(source),
        _ => return Conclusion::not_judged(source, "next to nothing was lost, the senders were the limit"),
    };
    if !bound.is_empty() {
        here += &format!("; left out: {} at which the senders were the limit", bound.len());
    }
    comparisons.conclude(source, &here)
}

fn of(points: &[Point], threading_model: ThreadingModel) -> impl Iterator<Item = &Point> {
    points.iter().filter(move |point| point.threading_model == threading_model)
}

/// Returns the point of another threading model or number of receivers with datagrams of the same size.
fn partner<'a>(
    points: &'a [Point],
    to: &Point,
    threading_model: ThreadingModel,
    workers: u32,
) -> Option<&'a Point> {
    of(points, threading_model).find(|it| it.workers == workers && it.payload_bytes == to.payload_bytes)
}

/// Returns the point with the most receivers that is otherwise like this one, if they are more.
fn most<'a>(points: &'a [Point], like: &Point) -> Option<&'a Point> {
    let alike = of(points, like.threading_model).filter(|it| it.payload_bytes == like.payload_bytes);
    alike.max_by_key(|point| point.workers).filter(|most| most.workers > like.workers)
}

#[cfg(test)]
mod tests;
