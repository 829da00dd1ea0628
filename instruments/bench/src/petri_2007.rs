//! The measurements of Petri 2007 (VIOLA report) reproduced: ping-pongs and parallel streams, table 1 and the
//! conclusions compared with those of this measurement.
//!
//! Source: Petri, "10 Gbit/s-Performance-Messungen im VIOLA-Netz" (D-Grid, Forschungszentrum Jülich). The path had a
//! round-trip time of 20 ms and carried 10 Gbit/s; the protocols were TCP with bic and reno, and UDT 3.1. The report
//! prints its times as ms, but they are µs: half of 20 ms.
//!
//! Its programs are systems of `bench pingpong` here: `tcppp` is TCP and `udtpp` our UDT with UDT's own control. `vtspp`
//! goes through VTS, a transport layer for messages: a head before each message. `visitpp` goes through VISIT, in which a
//! message takes three times half a round trip by that table: it is announced, granted and sent.

use std::time::Duration;

use probe::{Contrast, Summary};
use units::text;

use crate::control::Patience;
use crate::pingpong::{self, HALF_ROUND_TRIP, Layer, RATE, System};
use crate::report::{
    Agreement, Comparisons, Conclusion, Ends, Grid, NO_CARD, Names, PartOf, PrintedHost, ReferenceFigure,
    Reproduction, Row, Watch, noise,
};
use crate::throughput;

/// The largest message of the report's programs. Units: bytes.
const LARGEST: u64 = probe::pingpong::LARGEST_OF_PETRI_2007;

/// The MTUs of the report.
pub const MTUS: [u32; 2] = [1_500, 9_000];

/// Number of parallel streams here; the report does not state its own.
const STREAMS: u32 = 4;

/// Half of the round-trip time of the report's path.
pub const DELAY: Duration = Duration::from_millis(10);

/// The congestion controls of the report's TCP.
const SOURCE_CONTROLS: [&str; 2] = ["bic", "reno"];

/// Control of the report's TCP streams (§3.5).
const CONTROL_OF_STREAMS: &str = "reno";

/// The report's limit: below it, the path or the protocol does not fill a tenth of the card. Units: bits per second.
const GIGABIT: f64 = 1e9;

/// Number of the packet that is lost on the path with a loss: within a fraction of a second of the start at any rate
/// that matters here.
const LOST_PACKET: u64 = 20_000;

/// Number of packets for each lost one in the report (§4.2).
const PACKETS_PER_LOSS: f64 = 40e6;

/// Largest message for which the report finds UDT's latency insignificant. Units: bytes.
const SMALL_MESSAGE_BYTES: u64 = 128 << 10;

/// Half round-trip time from which a path counts as long here. Units: µs.
const LONG_PATH_US: f64 = 1_000.0;

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
    fn ends(&self) -> Ends<'_>;

    /// Returns notes on the path, such as how its delay was made.
    fn notes(&self) -> Vec<String>;

    /// Ends the path; returns why what was measured over it is unreliable, if it is.
    fn end(self: Box<Self>) -> Vec<String>;
}

/// Wanted path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// As it is.
    AsItIs,
    /// With this MTU and the report's delay.
    Delayed {
        /// MTU of the path.
        mtu: u32,
    },
    /// Likewise, by the link emulator, which loses a chosen packet in each direction, or none.
    Emulated {
        /// MTU of the path.
        mtu: u32,
        /// Number of the packet, from 0.
        lost: Option<u64>,
    },
}

/// Creator of paths.
pub type Lay<'a> = dyn FnMut(Wanted) -> Result<Box<dyn Path>, String> + 'a;

/// Measures over paths with each of the report's MTUs, or over one path as it is; compares with the report.
pub fn measure(
    grid: Grid,
    has_mtus: bool,
    congestion_controls: &[String],
    lay: &mut Lay<'_>,
    watch: &mut dyn Watch,
) -> Reproduction {
    let report = Reproduction::begin("003", grid);
    let mut it = Measuring { grid, congestion_controls, found: Vec::new(), with_loss: None, report };
    let mtus = MTUS.map(Some);
    for mtu in if has_mtus { &mtus[..] } else { &[None] } {
        if watch.cancellation().is_cancelled() {
            break;
        }
        it.measure(*mtu, lay, watch);
    }
    if has_mtus && !watch.cancellation().is_cancelled() {
        it.measure_loss(lay, watch);
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
    /// Reasons why the ping-pong is unreliable as a whole.
    disturbances: Vec<String>,
    /// Reasons why the streams are unreliable.
    noise_of_streams: Vec<String>,
}

/// Rates of one stream over the emulated link.
#[derive(Clone, Debug, Default)]
struct WithLoss {
    without: Option<Row>,
    with: Option<Row>,
    noise: Vec<String>,
}

struct Measuring<'a> {
    grid: Grid,
    congestion_controls: &'a [String],
    found: Vec<Found>,
    with_loss: Option<WithLoss>,
    report: Reproduction,
}

impl Measuring<'_> {
    fn end(self, was_interrupted: bool) -> Reproduction {
        let Measuring { grid, found, with_loss, mut report, congestion_controls } = self;
        report.table = table(&found, congestion_controls);
        report.table.extend(limits(&found, with_loss.as_ref()));
        report.table.extend(settings(grid));
        report.conclusions = conclusions(&found, with_loss.as_ref());
        report.note_all(&[
            "vtspp is measured through our `framed` layer, visitpp through our `announced` one: the toolkits VTS and VISIT \
             themselves are not reproduced"
                .to_owned(),
        ]);
        report.end(was_interrupted)
    }

    fn measure(&mut self, mtu: Option<u32>, lay: &mut Lay<'_>, watch: &mut dyn Watch) {
        let wanted = mtu.map_or(Wanted::AsItIs, |mtu| Wanted::Delayed { mtu });
        let (pingpong, disturbances) = self.pingpong(mtu, lay(wanted), watch);
        let (one_stream, mut noise_of_streams) = self.throughput(&over(mtu), 1, lay(wanted), watch);
        let (streams, noise) = self.throughput(&over(mtu), STREAMS, lay(wanted), watch);
        noise_of_streams.extend(noise);
        self.found.push(Found { mtu, pingpong, one_stream, streams, disturbances, noise_of_streams });
    }

    /// Measures one stream over the emulated link without a loss, and with one lost packet.
    fn measure_loss(&mut self, lay: &mut Lay<'_>, watch: &mut dyn Watch) {
        let mtu = MTUS[0];
        let mut rate = |lost: Option<u64>| {
            let over = match lost {
                None => format!("the emulated link, MTU {mtu}"),
                Some(number) => format!("the emulated link, MTU {mtu}, packet {number} lost"),
            };
            self.throughput(&over, 1, lay(Wanted::Emulated { mtu, lost }), watch)
        };
        let ((without, mut noise), (with, more)) = (rate(None), rate(Some(LOST_PACKET)));
        noise.extend(more);
        self.with_loss = Some(WithLoss { without, with, noise });
    }

    /// Measures over a path of its own, since each local server serves one client; returns also why the path was
    /// unreliable.
    fn over<R>(
        &mut self,
        path: Result<Box<dyn Path>, String>,
        measure: impl FnOnce(Ends<'_>) -> Result<R, String>,
    ) -> (Result<R, String>, Vec<String>) {
        match path {
            Ok(path) => {
                self.report.note_all(&path.notes());
                let measured = measure(path.ends());
                (measured, path.end())
            }
            Err(reason) => (Err(reason), Vec::new()),
        }
    }

    fn pingpong(
        &mut self,
        mtu: Option<u32>,
        path: Result<Box<dyn Path>, String>,
        watch: &mut dyn Watch,
    ) -> (Option<pingpong::Report>, Vec<String>) {
        let name = format!("ping-pong over {}", over(mtu));
        let options = pingpong_options(self.grid, self.congestion_controls);
        let measure = |Ends { server, from }: Ends<'_>| {
            let options = pingpong::Options { from, ..options };
            let mut watch = PartOf { watch, part: name.clone() };
            pingpong::measure(&options, server, Patience::default(), &mut watch)
                .map_err(|error| error.to_string())
        };
        let (measured, mut disturbances) = self.over(path, measure);
        let taken = self
            .report
            .take(&name, measured, |report| (&report.end.rows, report.end.noise.clone(), report.end.state));
        self.report.disturb(&disturbances);
        let Some(report) = taken else { return (None, disturbances) };
        disturbances.extend(report.disturbances());
        let charts = pingpong::charts(&report).into_iter().map(|mut chart| {
            chart.title = format!("{}, {}", chart.title, over(mtu));
            chart
        });
        self.report.charts.extend(charts);
        (Some(report), disturbances)
    }

    fn throughput(
        &mut self,
        over: &str,
        streams: u32,
        path: Result<Box<dyn Path>, String>,
        watch: &mut dyn Watch,
    ) -> (Option<Row>, Vec<String>) {
        if watch.cancellation().is_cancelled() {
            return (None, Vec::new());
        }
        let name = format!("{} over {over}", text::counted(streams, "TCP stream"));
        let options = throughput_options(self.grid, streams, self.congestion_controls);
        let measure = |Ends { server, from }: Ends<'_>| {
            let options = throughput::Options { from, ..options };
            let mut watch = PartOf { watch, part: name.clone() };
            throughput::measure(&options, None, server, Patience::default(), &mut watch)
                .map_err(|error| error.to_string())
        };
        let (measured, mut noise) = self.over(path, measure);
        let taken = self
            .report
            .take(&name, measured, |report| (&report.end.rows, report.end.noise.clone(), report.end.state));
        self.report.disturb(&noise);
        let Some(report) = taken else { return (None, noise) };
        noise.extend(report.end.noise);
        (report.end.rows.into_iter().find(|row| row.metric == RATE), noise)
    }
}

/// Returns the options of the ping-pong: in short the sizes of table 1 and one between, in full the whole
/// curve.
///
/// Systems: TCP with every control of this host, UDP, and each program of the report with its protocols, as far as this
/// host has them.
fn pingpong_options(grid: Grid, congestion_controls: &[String]) -> pingpong::Options {
    let tcp = |name: &str| System::Tcp(Some(name.to_owned()));
    let all = congestion_controls.iter().map(|name| tcp(name));
    let of_source =
        SOURCE_CONTROLS.into_iter().filter(|name| congestion_controls.iter().any(|it| it == name));
    let layered = of_source.map(tcp).chain([System::Udt(None)]);
    let through = |layer| layered.clone().map(move |system| system.through(layer));
    let systems = all.chain([System::Udp, System::Udt(None)]);
    let systems = systems.chain(through(Layer::Framed)).chain(through(Layer::Announced)).collect();
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

/// Returns the options for streams: with reno for 60 s as in the report (§3.5), or for a few.
fn throughput_options(grid: Grid, streams: u32, congestion_controls: &[String]) -> throughput::Options {
    let duration = match grid {
        Grid::Short => Duration::from_secs(2),
        Grid::Full => Duration::from_secs(60),
    };
    let congestion_control = congestion_controls.iter().find(|name| *name == CONTROL_OF_STREAMS).cloned();
    throughput::Options { streams, duration, congestion_control, ..throughput::Options::default() }
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

    /// Returns the times of a message of one byte over TCP with each congestion control.
    fn smallest_over_tcp(&self) -> impl Iterator<Item = &Row> {
        self.over_tcp(1, HALF_ROUND_TRIP)
    }

    /// Returns the figures of a message size over TCP alone, with each congestion control.
    fn over_tcp(&self, size: u64, metric: &str) -> impl Iterator<Item = &Row> {
        self.pingpong.iter().flat_map(move |pingpong| {
            let systems = pingpong.start.test_start.systems.iter();
            let over_tcp = systems.filter(|system| system.starts_with("tcp"));
            over_tcp.filter_map(move |system| pingpong.row(system, size, metric))
        })
    }

    fn row(&self, system: &str, size: u64, metric: &str) -> Option<&Row> {
        self.pingpong.as_ref()?.row(system, size, metric)
    }

    /// Returns the highest rate of the largest message over TCP.
    fn best_over_tcp(&self) -> Option<f64> {
        self.over_tcp(LARGEST, RATE).map(|row| row.median).reduce(f64::max)
    }

    /// Returns the ping-pong's sizes that are small for the report.
    fn small_sizes(&self) -> impl Iterator<Item = u64> {
        let sizes = self.pingpong.iter().flat_map(|it| it.start.test_start.sizes.clone());
        sizes.filter(|size| *size < SMALL_MESSAGE_BYTES)
    }
}

/// Our UDT in a ping-pong, and with it the report's `udtpp`.
const UDT: &str = "udt";

/// Returns the system of a ping-pong that reproduces a line of table 1.
fn system(what: &str, protocol: &str) -> String {
    let carrier =
        if matches!(protocol, "udt" | "default") { UDT.to_owned() } else { format!("tcp {protocol}") };
    match what {
        "vtspp" => format!("{} {carrier}", Layer::Framed),
        "visitpp" => format!("{} {carrier}", Layer::Announced),
        _ => carrier,
    }
}

/// Compares table 1 with our figures, and adds those measured here that have no line in that table.
fn table(found: &[Found], congestion_controls: &[String]) -> Vec<ReferenceFigure> {
    let mut table = Vec::new();
    for (what, mtu, protocol, time_us, mbits) in TABLE {
        let name = format!("{what}, mtu{mtu}, {protocol}");
        let system = system(what, protocol);
        let of = |size, metric| found.iter().find(|it| it.is_of(mtu))?.row(&system, size, metric).cloned();
        let why = why_not(mtu, protocol, found, congestion_controls);
        table.extend(FIGURES.into_iter().zip([time_us, mbits * 1e6]).map(
            |((size, metric, unit), source)| {
                let here = of(size, metric);
                ReferenceFigure { here, ..ReferenceFigure::printed(&name, metric, unit, source) }.or(&why)
            },
        ));
    }
    table.extend(MTUS.map(|mtu| round_trip(found.iter().find(|it| it.is_of(mtu)), mtu)));
    table.extend(found.iter().flat_map(beyond));
    table
}

/// Returns why a line of the report's table has no figure here.
fn why_not(mtu: u32, protocol: &str, found: &[Found], congestion_controls: &[String]) -> String {
    let is_tcp = SOURCE_CONTROLS.contains(&protocol);
    if !found.iter().any(|it| it.is_of(mtu)) {
        format!("no path with MTU {mtu} was measured")
    } else if is_tcp && !congestion_controls.iter().any(|name| name == protocol) {
        format!("this host has no {protocol}: sudo modprobe tcp_{protocol}")
    } else {
        NOT_MEASURED.to_owned()
    }
}

const NOT_MEASURED: &str = "it was not measured";

/// Compares the round-trip time of the report's path with that of ours, by the fastest control's message of one byte.
fn round_trip(found: Option<&Found>, mtu: u32) -> ReferenceFigure {
    let names = Names { bench: "pingpong", case: "1B", system: "tcp" };
    let fastest = found.and_then(|it| it.smallest_over_tcp().min_by(|a, b| a.median.total_cmp(&b.median)));
    let here = fastest.and_then(|row| {
        let of = |half_us: f64| half_us * 2e-3;
        Some(Row {
            min: of(row.min),
            max: of(row.max),
            runs: row.runs,
            ..Row::of(names, "round_trip", "ms", &[of(row.median)])?
        })
    });
    let what = format!("path, mtu{mtu}");
    ReferenceFigure { here, ..ReferenceFigure::printed(&what, "round_trip", "ms", 20.0) }
        .or(&format!("no path with MTU {mtu} was measured"))
}

/// Returns the figures of a path that have no line in the report.
fn beyond(found: &Found) -> Vec<ReferenceFigure> {
    let Some(pingpong) = &found.pingpong else { return Vec::new() };
    let in_document = |it: &str| {
        let is_it = |what: &str, protocol: &str| system(what, protocol) == it;
        TABLE.iter().any(|(what, mtu, protocol, ..)| found.is_of(*mtu) && is_it(what, protocol))
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

/// Compares the rates that the report's text names as limits (§2, §4.2 to §4.5) with ours.
fn limits(found: &[Found], with_loss: Option<&WithLoss>) -> Vec<ReferenceFigure> {
    let rate = |what: &str, source: f64, here: Option<&Row>| {
        let figure = ReferenceFigure::printed(what, RATE, "bit/s", source);
        ReferenceFigure { here: here.cloned(), ..figure }
    };
    let udt = found.iter().filter_map(|it| it.row(UDT, LARGEST, RATE));
    let udt = udt.max_by(|a, b| a.median.total_cmp(&b.median));
    let lost = "run it as root, with --netns: it takes an emulated link that loses a packet";
    let without = with_loss.and_then(|it| it.without.as_ref());
    let with = with_loss.and_then(|it| it.with.as_ref());
    let mut limits = vec![
        rate("an emulated path, at its fastest", GIGABIT, without)
            .remarked("the report: emulators falsify above; here one TCP stream over ours, no packet lost")
            .or(lost),
        rate("one TCP stream, a packet lost", GIGABIT, with)
            .remarked(&format!("the report: below; here packet {LOST_PACKET} is lost"))
            .or(lost),
        rate("UDT at its fastest", GIGABIT, udt).remarked("the report: below").or(NOT_MEASURED),
    ];
    let several = found.iter().filter_map(|it| it.streams.as_ref());
    let several = several.max_by(|a, b| a.median.total_cmp(&b.median));
    limits.push(
        rate("several TCP streams", GIGABIT, several)
            .remarked("the report: above, where processors become the limit")
            .or(NOT_MEASURED),
    );
    for it in found {
        for (streams, row) in [(1, &it.one_stream), (STREAMS, &it.streams)] {
            let what = format!("{}, {}", text::counted(streams, "TCP stream"), over(it.mtu));
            let remark = "figures 11 to 14, which name no numbers".to_owned();
            let figure = ReferenceFigure::new(what, RATE, "bit/s", None);
            limits.extend(row.clone().map(|row| ReferenceFigure { here: Some(row), remark, ..figure }));
        }
    }
    limits.push(rate("Myricom's card with its TCP segmentation", 1e6, None).or(NO_CARD));
    limits
}

/// Compares the settings of the report's hosts (§2.2) and of its measurement with those of this one.
fn settings(grid: Grid) -> Vec<ReferenceFigure> {
    let buffers = [("least", 4_096.0), ("default", 8_388_608.0), ("largest", 33_554_432.0)];
    let of_tcp = |name: &'static str| {
        buffers.into_iter().enumerate().map(move |(index, (word, source))| {
            let setting = ReferenceFigure::kernel_setting(name, index, "B", source);
            ReferenceFigure { what: format!("{name}, {word}"), ..setting }
        })
    };
    let alone = |name, unit, source| ReferenceFigure::kernel_setting(name, 0, unit, source);
    let setting = ReferenceFigure::setting;
    let of_card = |what: &str, metric: &str, unit: &str, source: f64| {
        ReferenceFigure::printed(what, metric, unit, source).or(NO_CARD)
    };
    let seconds = throughput_options(grid, 1, &[]).duration.as_secs_f64();
    let kernel =
        [alone("net.core.rmem_max", "B", 33_554_432.0), alone("net.core.wmem_max", "B", 33_554_432.0)]
            .into_iter()
            .chain(of_tcp("net.ipv4.tcp_rmem"))
            .chain(of_tcp("net.ipv4.tcp_wmem"))
            .chain([
                alone("net.core.netdev_max_backlog", "packets", 100_000.0),
                alone("net.ipv4.tcp_timestamps", "", 1.0),
                alone("net.ipv4.tcp_sack", "", 0.0),
                alone("net.ipv4.tcp_no_metrics_save", "", 1.0),
            ]);
    let of_cards = [
        of_card("txqueuelen", "setting", "packets", 100_000.0),
        of_card("cards of each kind", "setting", "", 2.0),
        of_card("lro of Neterion's card", "setting", "", 1.0),
        of_card("lanes of PCI Express, Neterion", "setting", "", 4.0),
        of_card("lanes of PCI Express, Myricom", "setting", "", 8.0),
    ];
    let of_measurement = [
        setting("least message", "B", 1.0, 1.0),
        setting("largest message", "B", 9_288_586.0, LARGEST as f64),
        setting(
            "message below which UDT's latency matters little",
            "B",
            131_072.0,
            SMALL_MESSAGE_BYTES as f64,
        ),
        ReferenceFigure::printed("time of a stream", "duration", "s", 60.0).beside(&[seconds]),
        ReferenceFigure::printed(
            "loss of the path at first",
            "packets_per_loss",
            "packets",
            PACKETS_PER_LOSS,
        )
        .or(&format!("bit errors of a fibre; here packet {LOST_PACKET} of each run is lost instead")),
        ReferenceFigure::printed("the same as a part, below", "share", "", 1e-7)
            .or(&format!("bit errors of a fibre; here packet {LOST_PACKET} of each run is lost instead")),
        ReferenceFigure::printed("rate and round trip of a LAN to those of a WAN", "times", "", 10.0)
            .or(COMPUTED),
        ReferenceFigure::printed("time in which reno recovers, WAN to LAN", "times", "", 100.0).or(COMPUTED),
    ];
    kernel.chain(of_cards).chain(of_measurement).chain(HOST.beside_this()).collect()
}

/// The report's hosts: two processors of two cores, four modules of 512 MB.
const HOST: PrintedHost = PrintedHost {
    name: "host of the report",
    processors: Some(4.0),
    clock_ghz: Some(1.8),
    memory_gb: Some(2.048),
    card_gbits: Some(10.0),
};

const COMPUTED: &str = "the report computes it, from 1 Gbit/s over 1 ms to 10 Gbit/s over 10 ms";

/// Compares with the report's conclusions (§4). Nothing is judged by a measurement that is unreliable as a whole.
fn conclusions(found: &[Found], with_loss: Option<&WithLoss>) -> Vec<Conclusion> {
    let disturbances: Vec<String> = found.iter().flat_map(|it| it.disturbances.clone()).collect();
    let of_streams: Vec<String> = found.iter().flat_map(|it| it.noise_of_streams.clone()).collect();
    let of_loss = with_loss.map_or(&[][..], |it| &it.noise);
    vec![
        jumbo_frames(found).unless(&disturbances),
        parallel_streams(found).unless(&of_streams),
        small_messages(found).unless(&disturbances),
        latency_of_udt(found).unless(&disturbances),
        rate_of_udt(found).unless(&disturbances),
        jumbo_frames_of_udt(found).unless(&disturbances),
        one_loss(with_loss).unless(of_loss),
        Conclusion::not_judged(
            "the defaults of a network card can be a disaster: below 1 Mbit/s with its TCP segmentation",
            "it was one card and its driver",
        ),
    ]
}

/// Compares the time of small messages over UDT with the fastest TCP's, on a path that is long.
fn latency_of_udt(found: &[Found]) -> Conclusion {
    let source = "UDT's higher latency matters less where the path is long, above all below 128 KiB";
    let is_long = |it: &&Found| it.smallest_over_tcp().any(|row| row.median >= LONG_PATH_US);
    let long: Vec<&Found> = found.iter().filter(is_long).collect();
    if long.is_empty() {
        return Conclusion::not_judged(source, "no path here is long: run it as root, with --netns");
    }
    let pairs = long.iter().flat_map(|it| {
        it.small_sizes().filter_map(move |size| {
            let fastest = it.over_tcp(size, HALF_ROUND_TRIP).min_by(|a, b| a.median.total_cmp(&b.median))?;
            Some((it.mtu, size, Gain::of(it.row(UDT, size, HALF_ROUND_TRIP)?, fastest)?))
        })
    });
    let pairs: Vec<_> = pairs.collect();
    let here = pairs.iter().map(|(mtu, size, gain)| format!("{:.2} at {size} B, {}", gain.times, over(*mtu)));
    let here = format!("times as long as the fastest TCP: {}", here.collect::<Vec<_>>().join("; "));
    Comparisons::of(pairs.iter().map(|(.., gain)| gain.contrast)).turned().conclude(source, &here)
}

/// Judges UDT's rate where TCP shows that the path carries more than a gigabit per second.
fn rate_of_udt(found: &[Found]) -> Conclusion {
    let source = "UDT does not get above 1 Gbit/s";
    let rates: Vec<(Option<u32>, &Row, f64)> = found
        .iter()
        .filter_map(|it| Some((it.mtu, it.row(UDT, LARGEST, RATE)?, it.best_over_tcp()?)))
        .collect();
    if rates.is_empty() {
        return Conclusion::not_measured(source);
    }
    let told = rates.iter().map(|(mtu, udt, tcp)| {
        format!("UDT {}, TCP {} over {}", text::rate(udt.median), text::rate(*tcp), over(*mtu))
    });
    let here = told.collect::<Vec<_>>().join("; ");
    if let Some((_, udt, _)) = rates.iter().find(|(_, udt, _)| udt.min > GIGABIT && !noise::is_wide(udt)) {
        let here = format!("{here}: up to {}", text::rate(udt.median));
        return Conclusion::new(source, &here, Agreement::Differs);
    }
    if rates.iter().all(|(.., tcp)| *tcp <= GIGABIT) {
        return Conclusion::not_judged(source, &format!("this path carries no more to TCP, either; {here}"));
    }
    if rates.iter().any(|(_, udt, _)| noise::is_wide(udt)) {
        return Conclusion::not_judged(source, &format!("{SPREAD}; {here}"));
    }
    Conclusion::new(source, &here, Agreement::Agrees)
}

fn jumbo_frames_of_udt(found: &[Found]) -> Conclusion {
    let source = "UDT gains nothing from jumbo frames";
    let of = |mtu: u32| found.iter().find(|it| it.is_of(mtu))?.row(UDT, LARGEST, RATE);
    let [Some(small), Some(large)] = MTUS.map(of) else {
        return Conclusion::not_judged(source, TWO_MTUS);
    };
    let Some(gain) = Gain::of(large, small) else { return Conclusion::not_measured(source) };
    let here = format!("with MTU 9000 {:.2} times the rate", gain.times);
    Comparisons::of([gain.contrast]).turned().conclude(source, &here)
}

/// Compares a stream that loses one packet with one that loses none, over the same emulated link.
fn one_loss(with_loss: Option<&WithLoss>) -> Conclusion {
    let source = "one packet in 40 million that is lost pulls TCP below 1 Gbit/s";
    let both = with_loss.and_then(|it| it.without.as_ref().zip(it.with.as_ref()));
    let Some((without, with)) = both else {
        let why = "it takes an emulated link that loses a packet: run it as root, with --netns";
        return Conclusion::not_judged(source, why);
    };
    let here = format!(
        "{} without a loss, {} with packet {LOST_PACKET} lost",
        text::rate(without.median),
        text::rate(with.median)
    );
    if without.median <= GIGABIT {
        let why = format!("the emulated link carries no more than 1 Gbit/s on this host; {here}");
        return Conclusion::not_judged(source, &why);
    }
    let is_pulled = if with.max < GIGABIT { Contrast::More } else { Contrast::Less };
    let is_clear = repeats(without).against(&repeats(with)) != Contrast::Unclear;
    Comparisons::of([if is_clear { is_pulled } else { Contrast::Unclear }]).conclude(source, &here)
}

const SPREAD: &str = "repeats of one spread over more than a tenth, or there is only one";
const TWO_MTUS: &str = "it takes a path with MTU 1500 and one with 9000: run it as root, with --netns";

fn jumbo_frames(found: &[Found]) -> Conclusion {
    let source = "TCP gains from jumbo frames: bic 69 %, reno 29 %";
    let of = |mtu| found.iter().find(|it| it.is_of(mtu));
    let [Some(small), Some(large)] = MTUS.map(of) else {
        return Conclusion::not_judged(source, TWO_MTUS);
    };
    let systems = small.pingpong.as_ref().map_or(&[][..], |it| &it.start.test_start.systems);
    let over_tcp = systems.iter().filter_map(|system| Some((system, system.strip_prefix("tcp ")?)));
    let gains: Vec<(&str, Gain)> = over_tcp
        .filter_map(|(system, name)| {
            Some((name, Gain::of(large.row(system, LARGEST, RATE)?, small.row(system, LARGEST, RATE)?)?))
        })
        .collect();
    let here = gains.iter().map(|(name, gain)| format!("{name} {:.2} times the rate", gain.times));
    let here = here.collect::<Vec<_>>().join(", ");
    let note = "a cable between two namespaces, unlike the emulated link, takes 64 KiB in one piece, whatever its MTU";
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
    let found = Comparisons::of(others.map(|row| contrast(row, shortest)));
    let here = format!("{} medians from {:.1} to {longest:.1} µs", rows.len(), shortest.median);
    if found.more > 0 {
        Conclusion::new(source, &here, Agreement::Differs)
    } else if found.unclear > 0 {
        Conclusion::not_judged(source, &format!("{SPREAD}; {here}"))
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
        (more.median > 0.0 && less.median > 0.0)
            .then(|| Self { times: more.median / less.median, contrast: contrast(more, less) })
    }
}

/// Compares two figures; one whose repeats spread so widely that the report marks it as noisy shows nothing.
fn contrast(one: &Row, other: &Row) -> Contrast {
    if noise::is_wide(one) || noise::is_wide(other) {
        return Contrast::Unclear;
    }
    repeats(one).against(&repeats(other))
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
