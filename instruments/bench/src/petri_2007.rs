//! The measurements of Petri 2007 (VIOLA report) reproduced: ping-pongs and parallel streams, table 1 and the
//! conclusions compared with those of this measurement.
//!
//! Source: Petri, "10 Gbit/s-Performance-Messungen im VIOLA-Netz" (D-Grid, Forschungszentrum Jülich). The path had a
//! round-trip time of 20 ms and carried 10 Gbit/s; the protocols were TCP with bic and reno, and UDT 3.1. The report
//! prints its times as ms, but they are µs: half of 20 ms. The toolkits VTS and VISIT are not reproduced.

use std::time::Duration;

use probe::{Contrast, Summary};
use units::text;

use crate::control::Patience;
use crate::pingpong::{self, HALF_ROUND_TRIP, RATE, System};
use crate::report::{
    Agreement, Comparisons, Conclusion, Ends, Grid, PartOf, ReferenceFigure, Reproduction, Row, Watch,
};
use crate::throughput;

/// The largest message of the report's programs. Units: bytes.
const LARGEST: u64 = probe::pingpong::LARGEST_OF_PETRI_2007;

/// The MTUs of the report.
pub const MTUS: [u32; 2] = [1_500, 9_000];

/// Number of parallel streams here; the report does not state its own.
const STREAMS: u32 = 4;

/// Table 1 of the report: program, MTU, protocol, Δt/2 at 1 byte in µs, Mbit/s at 9,288,586 bytes.
const TABLE: [(&str, u32, &str, f64, f64); 18] = [
    ("tcppp", 1_500, "bic", 9_694.0, 1_346.0),
    ("tcppp", 1_500, "reno", 9_697.0, 1_836.0),
    ("tcppp", 9_000, "bic", 9_697.0, 2_269.0),
    ("tcppp", 9_000, "reno", 9_702.0, 2_362.0),
    ("udtpp", 1_500, "default", 9_727.0, 623.0),
    ("udtpp", 9_000, "default", 9_730.0, 587.0),
    ("vtspp", 1_500, "bic", 9_704.0, 783.0),
    ("vtspp", 1_500, "udt", 11_999.0, 358.0),
    ("vtspp", 1_500, "reno", 9_704.0, 1_686.0),
    ("vtspp", 9_000, "bic", 9_700.0, 2_260.0),
    ("vtspp", 9_000, "udt", 11_996.0, 551.0),
    ("vtspp", 9_000, "reno", 9_700.0, 2_270.0),
    ("visitpp", 1_500, "bic", 39_425.0, 500.0),
    ("visitpp", 1_500, "udt", 35_968.0, 657.0),
    ("visitpp", 1_500, "reno", 29_189.0, 1_150.0),
    ("visitpp", 9_000, "bic", 29_175.0, 1_293.0),
    ("visitpp", 9_000, "udt", 29_971.0, 407.0),
    ("visitpp", 9_000, "reno", 29_175.0, 1_414.0),
];

/// The figures of a line of table 1: size of the message, metric and unit.
const FIGURES: [(u64, &str, &str); 2] = [(1, HALF_ROUND_TRIP, "µs"), (LARGEST, RATE, "bit/s")];

/// A path between two ends, which exists until it is dropped.
pub trait Path {
    /// Returns the ends of the path.
    fn ends(&self) -> Ends;

    /// Returns notes on the path, such as a delay that could not be added.
    fn notes(&self) -> Vec<String>;
}

/// Creator of paths: with an MTU, or as they are.
pub type Lay<'a> = dyn FnMut(Option<u32>) -> Result<Box<dyn Path>, String> + 'a;

/// Measures over paths with each of these MTUs, or over one as it is; compares with the report.
pub fn measure(
    grid: Grid,
    mtus: &[Option<u32>],
    congestion_controls: &[String],
    lay: &mut Lay<'_>,
    watch: &mut dyn Watch,
) -> Reproduction {
    let mut it =
        Measuring { grid, congestion_controls, found: Vec::new(), report: Reproduction::begin("003", grid) };
    for mtu in mtus {
        if watch.cancellation().is_cancelled() {
            break;
        }
        it.measure(*mtu, lay, watch);
    }
    it.end(watch.cancellation().is_cancelled())
}

/// Results over one path.
#[derive(Clone, Debug, Default)]
struct Found {
    mtu: Option<u32>,
    /// Result of the ping-pong; none if it could not be measured.
    pingpong: Option<pingpong::Report>,
    /// Rates of one stream and of several, as received.
    one_stream: Option<Row>,
    streams: Option<Row>,
}

struct Measuring<'a> {
    grid: Grid,
    congestion_controls: &'a [String],
    found: Vec<Found>,
    report: Reproduction,
}

impl Measuring<'_> {
    fn end(self, was_interrupted: bool) -> Reproduction {
        let Measuring { found, mut report, congestion_controls, .. } = self;
        report.table = table(&found, congestion_controls);
        report.conclusions = conclusions(&found);
        report.end(was_interrupted)
    }

    fn measure(&mut self, mtu: Option<u32>, lay: &mut Lay<'_>, watch: &mut dyn Watch) {
        let pingpong = self.pingpong(mtu, lay, watch);
        let one_stream = self.throughput(mtu, 1, lay, watch);
        let streams = self.throughput(mtu, STREAMS, lay, watch);
        self.found.push(Found { mtu, pingpong, one_stream, streams });
    }

    /// Measures over a path of its own, since each local server serves one client.
    fn over<R>(
        &mut self,
        path: Result<Box<dyn Path>, String>,
        measure: impl FnOnce(Ends) -> Result<R, String>,
    ) -> Result<R, String> {
        let path = path?;
        self.report.note_all(&path.notes());
        measure(path.ends())
    }

    fn pingpong(
        &mut self,
        mtu: Option<u32>,
        lay: &mut Lay<'_>,
        watch: &mut dyn Watch,
    ) -> Option<pingpong::Report> {
        let name = format!("ping-pong over {}", over(mtu));
        let options = pingpong_options(self.grid, self.congestion_controls);
        let measure = |Ends { server, from }| {
            let options = pingpong::Options { from, ..options };
            pingpong::measure(&options, server, Patience::default(), watch).map_err(|error| error.to_string())
        };
        let measured = self.over(lay(mtu), measure);
        let report = self
            .report
            .take(&name, measured, |report| (&report.end.rows, report.end.noise.clone(), report.end.state))?;
        let charts = pingpong::charts(&report).into_iter().map(|mut chart| {
            chart.title = format!("{}, {}", chart.title, over(mtu));
            chart
        });
        self.report.charts.extend(charts);
        Some(report)
    }

    fn throughput(
        &mut self,
        mtu: Option<u32>,
        streams: u32,
        lay: &mut Lay<'_>,
        watch: &mut dyn Watch,
    ) -> Option<Row> {
        if watch.cancellation().is_cancelled() {
            return None;
        }
        let name = format!("{} over {}", text::counted(streams, "TCP stream"), over(mtu));
        let options = throughput_options(self.grid, streams);
        let measure = |Ends { server, from }| {
            let options = throughput::Options { from, ..options };
            let mut watch = PartOf { watch, part: name.clone() };
            throughput::measure(&options, None, server, Patience::default(), &mut watch)
                .map_err(|error| error.to_string())
        };
        let measured = self.over(lay(mtu), measure);
        let report = self
            .report
            .take(&name, measured, |report| (&report.end.rows, report.end.noise.clone(), report.end.state))?;
        report.end.rows.into_iter().find(|row| row.metric == RATE)
    }
}

/// Returns the options of the ping-pong: in short the sizes of table 1 and one between, in full the whole
/// curve.
fn pingpong_options(grid: Grid, congestion_controls: &[String]) -> pingpong::Options {
    let tcp = congestion_controls.iter().cloned().map(|name| System::Tcp(Some(name)));
    let systems = tcp.chain([System::Udp]).collect();
    match grid {
        Grid::Short => pingpong::Options {
            systems,
            sizes: vec![1, 1_024, 65_536, LARGEST],
            ..pingpong::Options::default()
        },
        Grid::Full => pingpong::Options {
            systems,
            time: Duration::from_secs(10),
            repeats: 5,
            ..pingpong::Options::default()
        },
    }
}

/// Returns the options for streams: for 60 s as in the report (§3.5), or for a few.
fn throughput_options(grid: Grid, streams: u32) -> throughput::Options {
    let duration = match grid {
        Grid::Short => Duration::from_secs(2),
        Grid::Full => Duration::from_secs(60),
    };
    throughput::Options { streams, duration, ..throughput::Options::default() }
}

/// Returns the name of a path.
fn over(mtu: Option<u32>) -> String {
    mtu.map_or("the path as it is".to_owned(), |mtu| format!("MTU {mtu}"))
}

impl Found {
    /// Returns whether the path has this MTU; a path as it is has no line in the report.
    fn is_of(&self, mtu: u32) -> bool {
        self.mtu == Some(mtu)
    }

    /// Returns the times of a message of one byte with each congestion control.
    fn smallest_over_tcp(&self) -> impl Iterator<Item = &Row> {
        self.pingpong.iter().flat_map(|pingpong| {
            let systems = pingpong.start.test_start.systems.iter();
            let over_tcp = systems.filter(|system| system.starts_with("tcp"));
            over_tcp.filter_map(|system| pingpong.row(system, 1, HALF_ROUND_TRIP))
        })
    }

    fn row(&self, congestion: &str, size: u64, metric: &str) -> Option<&Row> {
        self.pingpong.as_ref()?.row(&format!("tcp {congestion}"), size, metric)
    }
}

/// Compares table 1 with our figures, and adds those measured here that have no line in that table.
fn table(found: &[Found], congestion_controls: &[String]) -> Vec<ReferenceFigure> {
    let mut table = Vec::new();
    for (what, mtu, protocol, time_us, mbits) in TABLE {
        let name = format!("{what}, mtu{mtu}, {protocol}");
        let of = |size, metric| {
            let row = found.iter().find(|it| it.is_of(mtu))?.row(protocol, size, metric);
            row.filter(|_| what == "tcppp").cloned()
        };
        let why = why_not(what, mtu, protocol, found, congestion_controls);
        table.extend(FIGURES.into_iter().zip([time_us, mbits * 1e6]).map(
            |((size, metric, unit), source)| {
                let here = of(size, metric);
                let remark = if here.is_some() { String::new() } else { why.clone() };
                ReferenceFigure {
                    here,
                    remark,
                    ..ReferenceFigure::new(name.clone(), metric, unit, Some(source))
                }
            },
        ));
    }
    table.extend(found.iter().flat_map(beyond));
    table
}

/// Returns why a line of the report's table has no figure here.
fn why_not(what: &str, mtu: u32, protocol: &str, found: &[Found], congestion_controls: &[String]) -> String {
    match (what, protocol) {
        (_, "udt") | ("udtpp", _) => "not yet here: our reliable transport over UDP".to_owned(),
        ("tcppp", _) if !found.iter().any(|it| it.is_of(mtu)) => {
            format!("no path with MTU {mtu} was measured")
        }
        ("tcppp", _) if !congestion_controls.iter().any(|name| name == protocol) => {
            format!("this host has no {protocol}: sudo modprobe tcp_{protocol}")
        }
        ("tcppp", _) => "not measured".to_owned(),
        _ => "its toolkit is not reproduced".to_owned(),
    }
}

/// Returns the figures of a path that have no line in the report.
fn beyond(found: &Found) -> Vec<ReferenceFigure> {
    let Some(pingpong) = &found.pingpong else { return Vec::new() };
    let in_document = |system: &str| {
        let name = system.strip_prefix("tcp ").unwrap_or("");
        TABLE
            .iter()
            .any(|(what, mtu, protocol, ..)| *what == "tcppp" && *protocol == name && found.is_of(*mtu))
    };
    let systems = pingpong.start.test_start.systems.iter().filter(|system| !in_document(system));
    let lines = systems.flat_map(|system| {
        FIGURES.map(|(size, metric, unit)| {
            let here = pingpong.row(system, size, metric).cloned();
            let is_lost = here.is_none() && system == "udp";
            let remark = if is_lost { "no message came back whole" } else { "" }.to_owned();
            let what = format!("pingpong, {}, {system}", over(found.mtu));
            ReferenceFigure { here, remark, ..ReferenceFigure::new(what, metric, unit, None) }
        })
    });
    lines.collect()
}

/// Compares with the report's conclusions (§4).
fn conclusions(found: &[Found]) -> Vec<Conclusion> {
    let not_yet = |source| Conclusion::not_judged(source, "our reliable transport over UDP is not yet here");
    vec![
        jumbo_frames(found),
        parallel_streams(found),
        small_messages(found),
        not_yet("UDT's higher latency matters less where the path is long, above all below 128 KiB"),
        not_yet("UDT does not get above 1 Gbit/s"),
        not_yet("UDT gains nothing from jumbo frames"),
        Conclusion::not_judged(
            "one packet in 40 million that is lost pulls TCP below 1 Gbit/s",
            "nothing is lost on this path, so there is nothing to recover from",
        ),
        Conclusion::not_judged(
            "the defaults of a network card can be a disaster: below 1 Mbit/s with its TCP segmentation",
            "it was one card and its driver",
        ),
    ]
}

fn jumbo_frames(found: &[Found]) -> Conclusion {
    let source = "TCP gains from jumbo frames: bic 69 %, reno 29 %";
    let of = |mtu| found.iter().find(|it| it.is_of(mtu));
    let [Some(small), Some(large)] = MTUS.map(of) else {
        return Conclusion::not_judged(
            source,
            "it takes a path with MTU 1500 and one with 9000: run it as root, with --netns",
        );
    };
    let systems = small.pingpong.as_ref().map_or(&[][..], |it| &it.start.test_start.systems);
    let names = systems.iter().filter_map(|system| system.strip_prefix("tcp "));
    let gains: Vec<(&str, Gain)> = names
        .filter_map(|name| {
            Some((name, Gain::of(large.row(name, LARGEST, RATE)?, small.row(name, LARGEST, RATE)?)?))
        })
        .collect();
    let here = gains.iter().map(|(name, gain)| format!("{name} {:.2} times the rate", gain.times));
    let here = here.collect::<Vec<_>>().join(", ");
    let note = "a cable between two namespaces takes 64 KiB in one piece, whatever its MTU, where segmentation is left to it";
    Comparisons::of(gains.iter().map(|(_, gain)| gain.contrast))
        .conclude(source, &format!("with MTU 9000 {here}; {note}"))
}

fn parallel_streams(found: &[Found]) -> Conclusion {
    let gains: Vec<(Option<u32>, Gain)> = found
        .iter()
        .filter_map(|it| Some((it.mtu, Gain::of(it.streams.as_ref()?, it.one_stream.as_ref()?)?)))
        .collect();
    let here =
        gains.iter().map(|(mtu, gain)| format!("{:.2} times the rate over {}", gain.times, over(*mtu)));
    Comparisons::of(gains.iter().map(|(_, gain)| gain.contrast)).conclude(
        "parallel TCP streams raise the rate clearly: more robust against loss, and more processors at work",
        &format!("{STREAMS} streams have {} of one", here.collect::<Vec<_>>().join(", ")),
    )
}

/// Compares each time with the shortest: a spread too wide to show a difference does not show equality either.
fn small_messages(found: &[Found]) -> Conclusion {
    let source = "a message of one byte takes the same time with bic and with reno, with MTU 1500 and 9000: the path decides";
    let rows: Vec<&Row> = found.iter().flat_map(Found::smallest_over_tcp).collect();
    if rows.len() < 2 {
        return Conclusion::not_measured(source);
    }
    let shortest = rows.iter().min_by(|a, b| a.median.total_cmp(&b.median)).expect("there are two");
    let longest = rows.iter().map(|row| row.median).fold(0.0, f64::max);
    let others = rows.iter().filter(|row| !std::ptr::eq(*row, shortest));
    let found = Comparisons::of(others.map(|row| repeats(row).against(&repeats(shortest))));
    let here = format!("{} medians from {:.1} to {longest:.1} µs", rows.len(), shortest.median);
    if found.more > 0 {
        Conclusion::new(source, &here, Agreement::Differs)
    } else if found.unclear > 0 {
        let why = "repeats of one spread over more than a tenth, or there is only one";
        Conclusion::not_judged(source, &format!("{why}; {here}"))
    } else {
        Conclusion::new(source, &here, Agreement::Agrees)
    }
}

/// Ratio of one rate to another.
#[derive(Clone, Copy, Debug)]
struct Gain {
    times: f64,
    contrast: Contrast,
}

impl Gain {
    /// `None` if either is zero.
    fn of(more: &Row, less: &Row) -> Option<Self> {
        (more.median > 0.0 && less.median > 0.0).then(|| Self {
            times: more.median / less.median,
            contrast: repeats(more).against(&repeats(less)),
        })
    }
}

/// Returns the repeats of a row. The row has their extremes and not their quartiles; the extremes are used
/// instead, which judges less.
fn repeats(row: &Row) -> Summary {
    let Row { min, median, max, .. } = *row;
    let count = usize::try_from(row.runs).unwrap_or(usize::MAX);
    Summary { min, lower_quartile: min, median, upper_quartile: max, max, count }
}

#[cfg(test)]
mod tests;
