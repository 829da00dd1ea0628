//! The measurements of Scollo reproduced: the same grid, and the conclusions compared with those of this
//! measurement.
//!
//! Source: Scollo (DLR/TU Braunschweig), "Performance comparison analysis of data-exchange efficiency in middleware
//! systems with UDP and shared memory". Figure 2 shows a middleware, not the tool that is reproduced here; figures 7 and
//! 8 were measured on a Raspberry Pi: run this on one to reproduce them.

use std::time::Duration;

use probe::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cycle::{CpuLimit, Found, Options, Point, Report, Transport};
pub use crate::report::{Agreement, Conclusion, Grid};
use crate::report::{PrintedHost, ReferenceFigure, Section, number};

/// Receive buffer of UDP's reader: with the default, which the paper left, the array ends at the size of that buffer at any
/// cycle time, and the figure would be a setting's.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// Minimum ratio of two medians that counts as a difference: less is within the spread of repeats.
const DIFFERENT: f64 = 1.25;

/// The conclusions of the paper compared with ours.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Number of the document.
    pub document: String,
    /// Share of its grid that was measured.
    pub grid: Grid,
    /// Number of measured points.
    pub points: u64,
    /// Number of noisy ones among them: conclusions are no better than their points.
    pub noisy_points: u64,
    /// The numbers that the paper prints, and ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub table: Vec<ReferenceFigure>,
    /// Each conclusion of the paper.
    pub conclusions: Vec<Conclusion>,
}

/// Returns the options of the measurement: in short, runs of a few minutes and a search that ends a thousand
/// elements from its goal; in full, four quotas, 14 cycle times, 1,000 cycles a run, 5 repeats, which takes
/// most of a day.
///
/// Limits, cycles and quotas are the paper's (§2.5, §3); the number of repeats, which it does not state, is
/// ours.
#[must_use]
pub fn options(grid: Grid) -> Options {
    let cpus = |millicpus: &[u32]| millicpus.iter().copied().map(CpuLimit::Millicpus).collect();
    let millis = |millis: &[u64]| millis.iter().copied().map(Duration::from_millis).collect();
    match grid {
        Grid::Short => Options {
            cycle_times: millis(&[2, 5, 10]),
            cpus: cpus(&[100, 300, 1_500]),
            cycles: 100,
            step: 1_000,
            receive_buffer: Some(RECEIVE_BUFFER_BYTES),
            ..Options::default()
        },
        Grid::Full => Options {
            cycle_times: (1..=14).map(Duration::from_millis).collect(),
            cpus: cpus(&[50, 100, 300, 1_500]),
            repeats: 5,
            receive_buffer: Some(RECEIVE_BUFFER_BYTES),
            ..Options::default()
        },
    }
}

/// Returns the figures of the paper that show this quota.
#[must_use]
pub fn figures(cpus: Option<f64>) -> &'static str {
    match cpus {
        Some(0.05) => "As figure 2 (a) of Scollo, which shows a middleware.",
        Some(0.1) => "As figure 2 (b) of Scollo, which shows a middleware.",
        Some(0.3) => "As figures 3 and 4 of Scollo.",
        Some(1.5) => "As figures 5 and 6 of Scollo, and on a Raspberry Pi as figures 7 and 8.",
        _ => "",
    }
}

/// Compares the measurement with the paper's conclusions (§3.2, §4). Noisy points judge nothing.
#[must_use]
pub fn compare(report: &Report, grid: Grid) -> Comparison {
    let measured = || report.points.iter().filter(|point| point.elements().is_some());
    let quiet = report.points.iter().filter(|point| point.noise().is_empty()).cloned().collect();
    let quiet = Report { points: quiet, ..report.clone() };
    let noisy = measured().filter(|point| !point.noise().is_empty()).count();
    let pairs = Pairs::of(&quiet);
    let conclusions = [
        more_by_shm(&pairs),
        gap_closes(&pairs),
        break_even(&pairs),
        spread(&pairs),
        more_cpu(&quiet),
        limit_reached(&quiet),
    ];
    Comparison {
        document: "004".to_owned(),
        grid,
        points: measured().count() as u64,
        noisy_points: noisy as u64,
        table: table(report),
        conclusions: conclusions.map(|it| it.without_noisy(noisy)).into(),
    }
}

/// Compares the numbers that the paper prints with ours, noisy points included.
fn table(report: &Report) -> Vec<ReferenceFigure> {
    let at = |transport: Transport, cpus: f64| {
        let points = report.points.iter().filter(move |point| point.transport == transport);
        points.filter(move |point| point.cpus == Some(cpus) && point.elements().is_some())
    };
    let of = |what: &str, source: f64, values: Vec<f64>| {
        ReferenceFigure::printed(what, "multiplicity", "elements", source).beside(&values).or(NOT_MEASURED)
    };
    let medians = |transport, cpus| at(transport, cpus).map(median).collect::<Vec<_>>();
    let widths = |transport, cpus, cycle_time: Option<Duration>| {
        let is_it =
            |point: &&Point| cycle_time.is_none_or(|time| u128::from(point.cycle_time_ns) == time.as_nanos());
        at(transport, cpus).filter(is_it).map(width).collect::<Vec<_>>()
    };
    let (udp, shm, ten) = (Transport::Udp, Transport::Shm, Some(Duration::from_millis(10)));
    let gain: Vec<f64> = gain(report, shm).into_iter().collect();
    let mut table = vec![
        of("0.3 CPUs, shared memory: all above", 200_000.0, medians(shm, 0.3)),
        of("0.3 CPUs, UDP: all below", 200_000.0, medians(udp, 0.3)),
        of("0.3 CPUs, shared memory: range of the repeats", 40_000.0, widths(shm, 0.3, None)),
        of("0.3 CPUs, UDP at 10 ms: range of the repeats", 100_000.0, widths(udp, 0.3, ten)),
        of("1.5 CPUs, shared memory: range of the repeats", 200_000.0, widths(shm, 1.5, None)),
        of("1.5 CPUs, UDP: range of the repeats", 200_000.0, widths(udp, 1.5, None)),
        ReferenceFigure::printed("shared memory, 1.5 against 0.3 CPUs", "times", "", 2.0)
            .beside(&gain)
            .remarked("the paper: more than double")
            .or(NOT_MEASURED),
        ReferenceFigure::printed("1.5 CPUs, shared memory: always at the limit above", "duration", "ms", 6.0)
            .beside(&always_at_limit(report))
            .remarked("the paper: nearly always; here the shortest cycle time from which it is always")
            .or("no cycle time was measured at which every search reached the limit"),
    ];
    table.extend(settings(report));
    table.extend(HOSTS.iter().flat_map(PrintedHost::beside_this));
    table
}

/// Returns the shortest cycle time from which shared memory with 1.5 CPUs reached the limit in every search. Units: ms.
fn always_at_limit(report: &Report) -> Vec<f64> {
    let points = report.points.iter().filter(|it| it.transport == Transport::Shm && it.cpus == Some(1.5));
    let mut points: Vec<&Point> = points.filter(|point| point.elements().is_some()).collect();
    points.sort_by_key(|point| std::cmp::Reverse(point.cycle_time_ns));
    let is_at_limit = |point: &&&Point| point.searches().iter().all(|it| it.found == Found::Limit);
    let last = points.iter().take_while(is_at_limit).last();
    last.map(|point| millis(point.cycle_time_ns)).into_iter().collect()
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

const NOT_MEASURED: &str = "it was not measured";

/// Table 1 of the paper.
const HOSTS: [PrintedHost; 2] = [
    PrintedHost {
        name: "notebook of the paper",
        processors: Some(6.0),
        clock_ghz: Some(2.6),
        memory_gb: Some(32.0),
        card_gbits: None,
    },
    PrintedHost {
        name: "Raspberry Pi of the paper",
        processors: Some(4.0),
        clock_ghz: Some(1.8),
        memory_gb: Some(4.0),
        card_gbits: None,
    },
];

/// Compares the settings that the paper prints (§2.1, §2.4, §2.5, §3.1) with those of this measurement.
fn settings(report: &Report) -> Vec<ReferenceFigure> {
    let options = &report.start.options;
    let setting = ReferenceFigure::setting;
    let share = |millicpus: f64| millicpus / 10.0 / f64::from(report.start.host.cpus);
    let cycle_times = || report.points.iter().map(|point| millis(point.cycle_time_ns));
    let (least, most) = (cycle_times().reduce(f64::min), cycle_times().reduce(f64::max));
    let grid = |what: &str, source: f64, here: Option<f64>| {
        let here: Vec<f64> = here.into_iter().collect();
        ReferenceFigure::printed(what, "duration", "ms", source).beside(&here).or(NOT_MEASURED)
    };
    let default = Options::default().cycle_times.into_iter().next();
    let default = default.map(|time| time.as_secs_f64() * 1e3);
    let rule = [cyclic::ALARM_ABOVE as f64, cyclic::AFTER_ALARM as f64];
    let of_rule = |figure: ReferenceFigure| figure.remarked("here: the timer rule of cyclic apps");
    vec![
        grid("cycle time of Dominion by default", 10.0, default),
        of_rule(setting("semaphore: cycles behind that raise an alarm, above", "cycles", 100.0, rule[0])),
        of_rule(setting("semaphore: cycles behind after an alarm", "cycles", 10.0, rule[1])),
        setting("limit of the search", "elements", 1_000_000.0, options.limit.into()),
        setting("last step of the search", "elements", 2.0, options.step.into()),
        setting("cycles of a run", "", 1_000.0, options.cycles.into()),
        setting("complete cycles of a run that holds", "%", 99.95, f64::from(options.complete_ppm) / 1e4),
        ReferenceFigure::printed("complete cycles of a run at first", "setting", "%", 100.0)
            .or("each run is judged by one share of complete cycles"),
        ReferenceFigure::printed("cycle time above which either share does", "duration", "ms", 5.0)
            .or("each run is judged by one share of complete cycles"),
        setting("0.05 CPUs as a part of the host's", "%", 0.989, share(50.0)),
        setting("0.05 CPUs as a part of the host's, misprinted", "%", 0.0989, share(50.0)),
        setting("0.1 CPUs as a part of the host's", "%", 1.978, share(100.0)),
        grid("shortest cycle time of figure 2 (a)", 1.0, least),
        grid("longest cycle time of figure 2 (a)", 7.0, most),
        grid("shortest cycle time of figure 2 (b)", 8.0, least),
        grid("longest cycle time of figure 2 (b)", 14.0, most),
    ]
}

/// Points at which both transports were measured.
struct Pairs<'a> {
    /// Pairs in which at least one transport carried something.
    carrying: Vec<Pair<'a>>,
    /// Number of pairs in which neither did: two zeros are equal, and say nothing about either transport.
    carrying_nothing: usize,
    /// The limit of the searches. Units: elements.
    limit: f64,
}

/// Both transports at one quota and cycle time.
struct Pair<'a> {
    udp: &'a Point,
    shm: &'a Point,
}

impl<'a> Pairs<'a> {
    fn of(report: &'a Report) -> Self {
        let of = |transport| {
            let points = report.points.iter().filter(move |point: &&Point| point.transport == transport);
            points.filter(|point| point.elements().is_some())
        };
        let partner = |udp: &Point| {
            of(Transport::Shm).find(|shm| shm.cpus == udp.cpus && shm.cycle_time_ns == udp.cycle_time_ns)
        };
        let pairs = of(Transport::Udp).filter_map(|udp| Some(Pair { udp, shm: partner(udp)? }));
        let (carrying, nothing): (Vec<_>, Vec<_>) = pairs.partition(Pair::carries);
        let limit = report.start.options.limit.into();
        Self { carrying, carrying_nothing: nothing.len(), limit }
    }

    /// Returns the pairs that show which transport carries more: where both reached the limit the search ended
    /// before that was known.
    fn below_limit(&self) -> Vec<&Pair<'a>> {
        self.carrying.iter().filter(|pair| !pair.is_at(self.limit)).collect()
    }

    /// Describes the pairs that are left out because neither carried anything; empty if there are none.
    fn without_nothing(&self) -> String {
        left_out(self.carrying_nothing, "neither carried anything")
    }

    /// Describes the pairs that are left out of a comparison of sizes; empty if there are none.
    fn without_ties(&self) -> String {
        let at_limit = self.carrying.len() - self.below_limit().len();
        self.without_nothing() + &left_out(at_limit, "both reached the limit")
    }
}

fn left_out(points: usize, why: &str) -> String {
    if points == 0 { String::new() } else { format!("; left out: {points} at which {why}") }
}

impl Pair<'_> {
    fn carries(&self) -> bool {
        median(self.udp) > 0.0 || median(self.shm) > 0.0
    }

    fn is_at(&self, limit: f64) -> bool {
        median(self.udp) >= limit && median(self.shm) >= limit
    }

    /// Returns the ratio of shared memory to UDP; `None` if one of them carried nothing.
    fn ratio(&self) -> Option<f64> {
        ratio(self.shm, self.udp)
    }

    fn shm_carries_more(&self) -> bool {
        median(self.shm) > median(self.udp)
    }
}

fn more_by_shm(pairs: &Pairs<'_>) -> Conclusion {
    let (pairs, without) = (pairs.below_limit(), pairs.without_ties());
    let ratios: Vec<f64> = pairs.iter().filter_map(|pair| pair.ratio()).collect();
    let more = pairs.iter().filter(|pair| pair.shm_carries_more()).count();
    let mut here = format!("more by shared memory at {more} of {} points", pairs.len());
    if !ratios.is_empty() {
        let (least, most) = extremes(&ratios);
        here = format!("{here}, {least:.1} to {most:.1} times as much");
    }
    let nothing = pairs.len() - ratios.len();
    if nothing > 0 {
        here = format!("{here}; at {nothing} of them one of the two carried nothing");
    }
    let source = "shared memory carries consistently more than UDP";
    Conclusion::new(source, &here, Agreement::of_share(more, pairs.len())).with(&without)
}

fn gap_closes(pairs: &Pairs<'_>) -> Conclusion {
    let (pairs, without) = (pairs.below_limit(), pairs.without_ties());
    // The quotas that the paper calls low, and the ends of the curve of each.
    let low = pairs.iter().filter(|pair| pair.udp.cpus.is_some_and(|cpus| cpus < 1.0));
    let mut quotas: Vec<f64> = low.filter_map(|pair| pair.udp.cpus).collect();
    quotas.dedup();
    let ends = |cpus: f64| {
        // Ends at which one of them carried nothing have no ratio: the curve begins after them.
        let of_quota = || pairs.iter().filter(|pair| pair.udp.cpus == Some(cpus) && pair.ratio().is_some());
        let shortest = of_quota().min_by_key(|pair| pair.udp.cycle_time_ns)?;
        let longest = of_quota().max_by_key(|pair| pair.udp.cycle_time_ns)?;
        let differ = shortest.udp.cycle_time_ns < longest.udp.cycle_time_ns;
        Some((cpus, shortest.ratio()?, longest.ratio()?)).filter(|_| differ)
    };
    let curves: Vec<(f64, f64, f64)> = quotas.into_iter().filter_map(ends).collect();
    let closing = curves.iter().filter(|(_, shortest, longest)| longest * DIFFERENT < *shortest).count();
    let words = curves.iter().map(|(cpus, shortest, longest)| {
        format!("at {cpus} CPUs from {shortest:.1} times at the shortest cycle time to {longest:.1} at the longest")
    });
    Conclusion::new(
        "with little CPU the advantage of shared memory gets smaller as the cycle time gets longer",
        &words.collect::<Vec<_>>().join("; "),
        Agreement::of_share(closing, curves.len()),
    )
    .with(&without)
}

fn break_even(pairs: &Pairs<'_>) -> Conclusion {
    let (pairs, without) = (pairs.below_limit(), pairs.without_ties());
    let even: Vec<String> =
        pairs.iter().filter(|pair| !pair.shm_carries_more()).map(|pair| pair.udp.case()).collect();
    let here = match &even[..] {
        [] => "UDP carried as much as shared memory at no point".to_owned(),
        cases => format!("UDP carried as much or more at {}", cases.join(", ")),
    };
    let agreement = match (&pairs[..], &even[..]) {
        ([], _) => Agreement::NotMeasured,
        (_, []) => Agreement::Differs,
        _ => Agreement::Agrees,
    };
    let source = "there might be a point from which on UDP carries as much as shared memory";
    Conclusion::new(source, &here, agreement).with(&without)
}

fn spread(pairs: &Pairs<'_>) -> Conclusion {
    let (pairs, without) = (&pairs.carrying, pairs.without_nothing());
    let share_of_median = |point: &Point| {
        point.elements().filter(|it| it.median > 0.0).map_or(0.0, |it| (it.max - it.min) / it.median)
    };
    let wider = pairs.iter().filter(|pair| width(pair.shm) > width(pair.udp)).count();
    let mean = |of: &dyn Fn(&Pair<'_>) -> f64| number::mean(pairs.iter().map(of)).unwrap_or(0.0) * 100.0;
    let (shm, udp) = (mean(&|pair| share_of_median(pair.shm)), mean(&|pair| share_of_median(pair.udp)));
    Conclusion::new(
        "the results of shared memory deviate more than those of UDP",
        &format!(
            "they spread over more elements at {wider} of {} points; as a share of the median over {shm:.0} % against {udp:.0} % on average",
            pairs.len()
        ),
        Agreement::of_share(wider, pairs.len()),
    )
    .with(&without)
}

/// Returns how many times as much a transport carries with 1.5 as with 0.3 CPUs.
///
/// The median over the cycle times: one disturbed search must not decide for all.
fn gain(report: &Report, transport: Transport) -> Option<f64> {
    let of = |cpus: f64| {
        let points = report.points.iter().filter(move |point| point.transport == transport);
        points.filter(move |point| point.cpus == Some(cpus) && point.elements().is_some())
    };
    let gains = of(0.3).filter_map(|less| {
        let more = of(1.5).find(|more| more.cycle_time_ns == less.cycle_time_ns)?;
        ratio(more, less)
    });
    Summary::of(&gains.collect::<Vec<_>>()).map(|gains| gains.median)
}

fn more_cpu(report: &Report) -> Conclusion {
    let source = "more CPU helps shared memory, to more than double, and UDP hardly";
    match (gain(report, Transport::Shm), gain(report, Transport::Udp)) {
        (Some(shm), Some(udp)) => {
            let holds = [shm > DIFFERENT, udp < DIFFERENT].into_iter().filter(|holds| *holds).count();
            let here = format!(
                "from 0.3 to 1.5 CPUs shared memory carries {shm:.1} times as much, UDP {udp:.1} times"
            );
            Conclusion::new(source, &here, Agreement::of_share(holds, 2))
        }
        _ => Conclusion::not_measured(source),
    }
}

fn limit_reached(report: &Report) -> Conclusion {
    let points = report.points.iter().filter(|point| {
        point.transport == Transport::Shm && point.cpus == Some(1.5) && point.cycle_time_ns > 6_000_000
    });
    let searches: Vec<bool> =
        points.flat_map(|point| point.searches().iter().map(|it| it.found == Found::Limit)).collect();
    let reached = searches.iter().filter(|reached| **reached).count();
    Conclusion::new(
        "with 1.5 CPUs and above 6 ms shared memory nearly always reaches the limit of 1,000,000 elements",
        &format!("the limit was reached in {reached} of {} searches", searches.len()),
        match (reached, searches.len()) {
            (_, 0) => Agreement::NotMeasured,
            (0, _) => Agreement::Differs,
            (reached, all) if reached * 10 >= all * 8 => Agreement::Agrees,
            _ => Agreement::Partly,
        },
    )
}

impl Conclusion {
    /// Adds the points that the conclusion leaves out.
    fn with(mut self, left_out: &str) -> Self {
        self.here += left_out;
        self
    }
}

/// Returns the ratio of the median of one point to that of another; `None` if either is zero.
fn ratio(a: &Point, b: &Point) -> Option<f64> {
    let (a, b) = (median(a), median(b));
    (a > 0.0 && b > 0.0).then(|| a / b)
}

fn median(point: &Point) -> f64 {
    point.elements().map_or(0.0, |spread| spread.median)
}

fn width(point: &Point) -> f64 {
    point.elements().map_or(0.0, |it| it.max - it.min)
}

fn extremes(values: &[f64]) -> (f64, f64) {
    let fold = |with: fn(f64, f64) -> f64| values.iter().copied().reduce(with).unwrap_or(0.0);
    (fold(f64::min), fold(f64::max))
}

impl Comparison {
    /// Compares the numbers and each conclusion of the paper with the results here.
    pub(crate) fn sections(&self) -> [Section; 2] {
        [ReferenceFigure::section(&self.table), Section::conclusions(&self.document, &self.conclusions)]
    }

    /// Returns notes on how far the comparison can be relied on.
    pub(crate) fn notes(&self) -> Vec<String> {
        let Self { points, noisy_points, .. } = self;
        let noisy = (*noisy_points > 0).then(|| {
            format!(
                "{noisy_points} of {points} points were noisy: measure on an idle host before you trust them"
            )
        });
        let buffer = (!self.table.is_empty()).then(|| {
            format!(
                "UDP's reader asks for a receive buffer of {} MiB; the paper left the default, at which UDP ends at the \
                 size of that buffer",
                RECEIVE_BUFFER_BYTES >> 20
            )
        });
        let short = "this was a short run: --full measures the whole grid of the paper";
        noisy.into_iter().chain(buffer).chain((self.grid == Grid::Short).then(|| short.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests;
