//! The measurements of Gu & Grossman 2005 reproduced: the CPU cost of UDP and TCP, and the conclusions compared
//! with those of this measurement.
//!
//! Source: Gu and Grossman, "Optimizing UDP-based Protocol Implementations" (PFLDnet 2005), sections 1 and 2:
//! table 2, and figures 1 and 2: rate against socket buffer size and against packet size (`curves`), and the
//! CPU cost of packets of every size. Their hosts communicated over a network; where that affects a comparison,
//! the conclusion is not judged and the reason is given.

mod curves;

use std::time::Duration;

use drawing::{Axis, COLOURS, Chart, Point, Series};
use probe::Summary;

use crate::cost::{self, Metric, Report, SourceCosts, SourceHost};
use crate::report::{
    Comparisons, Conclusion, Ends, Grid, PrintedHost, ReferenceFigure, Reproduction, Row, Watch,
};
use crate::sweep;
use crate::throughput::{Protocol, Rate};

pub use curves::{options_of_buffers, options_of_packets};

/// The largest packet of the paper's networks; TCP fills packets of this size there, as UDP does.
const SOURCE_MTU_BYTES: u32 = 1_500;

/// The payloads of datagrams for figure 2; the largest but one fills the paper's packets.
const PAYLOADS: [usize; 6] = [128, 256, 512, 1_024, MTU_PAYLOAD, 8_192];
const MTU_PAYLOAD: usize = 1_472;
/// Low enough that the smallest datagrams are no more than 20,000 per second. Units: bits per second.
const RATE_OF_SIZES: u64 = 20_000_000;

/// Returns the options for table 2. Packets and buffers are the paper's; the rate, which it does not state, is
/// ours.
#[must_use]
pub fn options(grid: Grid) -> cost::Options {
    match grid {
        Grid::Short => cost::Options { duration: Duration::from_millis(500), ..cost::Options::default() },
        Grid::Full => cost::Options { runs: 100, ..cost::Options::default() },
    }
}

/// Returns the options for datagrams with a payload for figure 2.
#[must_use]
pub fn options_of_size(grid: Grid, payload: usize) -> cost::Options {
    let (runs, duration) = match grid {
        Grid::Short => (5, Duration::from_millis(300)),
        Grid::Full => (20, Duration::from_secs(1)),
    };
    cost::Options {
        transports: vec![Protocol::Udp],
        datagram_bytes: payload,
        rate: Rate::Bits(RATE_OF_SIZES),
        runs,
        duration,
        ..cost::Options::default()
    }
}

/// Measures between two ends, and compares.
#[must_use]
pub fn measure(grid: Grid, ends: Ends<'_>, watch: &mut dyn Watch) -> Reproduction {
    let Ends { server, from } = ends;
    let mut it = Reproduction::begin("001", grid);
    let cost = |it: &mut Reproduction, name: &str, options: cost::Options, watch: &mut dyn Watch| {
        let measured = cost::measure(&cost::Options { from, ..options }, server, watch);
        it.take(name, measured, |report| (&report.rows, report.noise.clone(), report.end.state))
    };
    let costs = cost(&mut it, "table 2: UDP, TCP and our stream", options(grid), watch);
    it.table = table(costs.as_ref());
    if let Some(report) = &costs {
        it.conclusions = conclusions(report);
        it.charts = cost::charts(report);
        it.notes.clone_from(&report.end.notes);
    }
    let mut sizes = Vec::new();
    for payload in PAYLOADS {
        if watch.cancellation().is_cancelled() {
            break;
        }
        let name = format!("figure 2: UDP in datagrams of {payload} bytes");
        let report = cost(&mut it, &name, options_of_size(grid, payload), watch);
        sizes.extend(report.map(|report| OfSize::of(payload, &report)));
    }
    it.conclusions.push(larger_is_cheaper(&sizes));
    it.charts.extend(chart(&sizes));
    let mut sweep = |name: &str, options: &sweep::Options| {
        if watch.cancellation().is_cancelled() { None } else { it.take_sweep(name, options, ends, watch) }
    };
    let buffers = sweep("figure 1: rates over socket buffers", &options_of_buffers(grid));
    let packets = sweep("figure 2: rates over the size of packets", &options_of_packets(grid));
    for (figure, report) in [(1, &buffers), (2, &packets)] {
        it.table.extend(report.iter().flat_map(|report| curves::table(figure, report)));
        it.charts.extend(report.iter().flat_map(|report| curves::charts(figure, report)));
    }
    it.conclusions.extend(curves::conclusions_of_buffers(buffers.as_ref()));
    it.conclusions.push(curves::larger_is_faster(packets.as_ref()));
    it.end(watch.cancellation().is_cancelled())
}

/// Cost of datagrams of one size for both ends together.
#[derive(Clone, PartialEq, Debug)]
struct OfSize {
    payload: usize,
    cost: Option<Summary>,
    is_noisy: bool,
}

impl OfSize {
    fn of(payload: usize, report: &Report) -> Self {
        let runs = report.of(Protocol::Udp).into_iter().flat_map(|it| &it.runs);
        let whole = runs.filter(|run| run.trouble.is_none());
        let costs: Vec<f64> =
            whole.filter_map(|run| Some(run.send_mhz_per_mbit? + run.receive_mhz_per_mbit?)).collect();
        Self { payload, cost: Summary::of(&costs), is_noisy: !report.noise.is_empty() }
    }
}

/// Judges that packets as large as the MTU cost less than smaller ones.
fn larger_is_cheaper(sizes: &[OfSize]) -> Conclusion {
    const SOURCE: &str = "the packet should be as large as the MTU: smaller ones take more of the processors";
    let at_mtu = sizes.iter().find(|it| it.payload == MTU_PAYLOAD);
    if at_mtu.is_some_and(|it| it.is_noisy) {
        return Conclusion::not_judged(SOURCE, &format!("it was noisy at {MTU_PAYLOAD} bytes"));
    }
    let Some(at_mtu) = at_mtu.and_then(|it| it.cost) else { return Conclusion::not_measured(SOURCE) };
    let (mut dearer, mut told, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for OfSize { payload, cost, is_noisy } in sizes.iter().filter(|it| it.payload < MTU_PAYLOAD) {
        if *is_noisy {
            left_out.push(format!("{payload} bytes, at which it was noisy"));
            continue;
        }
        let Some(cost) = cost else {
            left_out.push(format!("{payload} bytes, of which no run told a cost"));
            continue;
        };
        dearer.push(cost.against(&at_mtu));
        told.push(format!("{:.3} at {payload}", cost.median));
    }
    let here = (!told.is_empty()).then(|| {
        let (at_mtu, told) = (at_mtu.median, told.join(", "));
        format!("both ends together {at_mtu:.3} MHz/(Mbit/s) at {MTU_PAYLOAD} bytes, {told}")
    });
    Comparisons::of(dearer).conclude_but(SOURCE, here.into_iter().collect(), &left_out)
}

/// Draws the cost of datagrams of each size; `None` if nothing was measured.
fn chart(sizes: &[OfSize]) -> Option<Chart> {
    #[expect(clippy::cast_precision_loss, reason = "a datagram is small")]
    let point = |it: &OfSize| {
        let cost = it.cost?;
        Some(Point::spread(it.payload as f64, cost.median, cost.min, cost.max))
    };
    let points: Vec<Point> = sizes.iter().filter_map(point).collect();
    (!points.is_empty()).then(|| Chart {
        title: "Both ends, UDP (as figure 2 of Gu & Grossman 2005)".to_owned(),
        x: Axis::logarithmic("payload of a datagram [B]"),
        y: Axis::linear("cost [MHz/(Mbit/s)]", 0.001),
        series: vec![Series { name: "UDP".to_owned(), colour: COLOURS[0], points }],
    })
}

/// Selects one of a host's transports.
type OfHost = fn(&SourceHost) -> SourceCosts;

/// Compares table 2: our medians with each of the paper's hosts, and those of our stream, which the paper does not have.
fn table(report: Option<&Report>) -> Vec<ReferenceFigure> {
    let source: [(Protocol, OfHost); 2] =
        [(Protocol::Udp, |host| host.udp), (Protocol::Tcp, |host| host.tcp)];
    let hosts = cost::hosts();
    let of_paper = source.into_iter().flat_map(|(protocol, of_host)| {
        hosts.iter().flat_map(move |host| {
            let what = format!("{}, {}", protocol.name(), host.name);
            Metric::ALL.map(|metric| {
                let source = cost_of(&of_host(host), metric);
                reference_figure(report, protocol, metric, &what, Some(source))
            })
        })
    });
    let ours =
        Metric::ALL.map(|metric| reference_figure(report, Protocol::Stream, metric, "our stream", None));
    let hosts = HOSTS.iter().flat_map(PrintedHost::beside_this);
    of_paper.chain(ours).chain(settings(report)).chain(hosts).collect()
}

/// Table 1 of the paper.
const HOSTS: [PrintedHost; 5] = {
    const fn host(name: &'static str, clock_ghz: f64, memory_gb: f64, card_gbits: f64) -> PrintedHost {
        PrintedHost {
            name,
            processors: Some(2.0),
            clock_ghz: Some(clock_ghz),
            memory_gb: Some(memory_gb),
            card_gbits: Some(card_gbits),
        }
    }
    [
        host("host onno", 1.5, 8.0, 10.0),
        host("host sara77", 2.4, 2.0, 1.0),
        host("host ncdm171", 1.0, 2.0, 1.0),
        host("host win91", 2.4, 2.0, 1.0),
        host("host ncdm87", 2.4, 4.0, 1.0),
    ]
};

/// Compares the settings that the paper prints (§2) with those of this measurement.
fn settings(report: Option<&Report>) -> [ReferenceFigure; 6] {
    let of = |what: &str, unit: &str, source: f64, value: fn(&Report) -> Option<f64>| {
        let here: Vec<f64> = report.and_then(value).into_iter().collect();
        ReferenceFigure::printed(what, "setting", unit, source).beside(&here).or(NOT_MEASURED)
    };
    [
        of("MTU of the hosts", "B", SOURCE_MTU_BYTES.into(), |report| {
            Some(report.start.client.interface.as_ref()?.mtu_bytes.into())
        }),
        of("packet, with IP and UDP headers", "B", 1_500.0, |report| {
            Some(report.start.test_start.datagram_bytes as f64 + 28.0)
        }),
        of("socket buffers", "B", 1e6, |report| Some(report.start.test_start.sock_bufsize as f64)),
        of("runs", "", 100.0, |report| Some(report.start.test_start.runs.into())),
        of("loss that a rate may have", "%", 0.1, |_| Some(curves::MOST_LOST_PERCENT)),
        ReferenceFigure::printed("processors of a host with Hyper-Threading", "setting", "", 0.5)
            .or("whole processors are counted, and their threads as processors"),
    ]
}

const NOT_MEASURED: &str = "it was not measured";

fn cost_of(costs: &SourceCosts, metric: Metric) -> f64 {
    match metric {
        Metric::SendMhzPerMbit => costs.send_mhz_per_mbit,
        Metric::ReceiveMhzPerMbit => costs.receive_mhz_per_mbit,
        Metric::DelayMs => costs.delay_ms,
    }
}

fn reference_figure(
    report: Option<&Report>,
    protocol: Protocol,
    metric: Metric,
    what: &str,
    source: Option<f64>,
) -> ReferenceFigure {
    let system = protocol.name().to_lowercase();
    let is_it = |row: &&Row| row.system == system && row.metric == metric.name();
    let here = report.and_then(|report| report.rows.iter().find(is_it)).cloned();
    let published = ReferenceFigure::new(what.to_owned(), metric.name(), metric.unit(), source);
    let why = match metric {
        Metric::DelayMs if report.is_some_and(|it| !it.start.same_host) => {
            "the two hosts have no clock in common"
        }
        _ => NOT_MEASURED,
    };
    ReferenceFigure { here, ..published }.or(why)
}

/// Compares the measurement with the paper's conclusions from table 2. Nothing is judged by a noisy one.
#[must_use]
pub fn conclusions(report: &Report) -> Vec<Conclusion> {
    let all = [
        cheaper(report, "UDP costs less processor than TCP to send", Metric::SendMhzPerMbit),
        cheaper(report, "UDP costs less processor than TCP to receive", Metric::ReceiveMhzPerMbit),
        receiving_costs_more(report),
        delay(report),
    ];
    all.map(|it| it.unless(&report.noise)).into()
}

fn cheaper(report: &Report, source: &str, metric: Metric) -> Conclusion {
    let Some((udp, tcp)) = pair(report, metric) else { return Conclusion::not_measured(source) };
    let here = told(metric, &udp, &tcp);
    match larger_packets(report) {
        Some(why) => Conclusion::not_judged(source, &format!("{why}; {here}")),
        None => compared(source, &here, &tcp, &udp),
    }
}

/// Returns why TCP packets are larger than UDP's here; `None` if they are equal.
fn larger_packets(report: &Report) -> Option<String> {
    if report.start.same_host {
        let why = "on one host TCP's data pass in pieces of up to 64 KiB, which are not segmented, UDP's in packets of 1,500 bytes";
        return Some(why.to_owned());
    }
    let link = report.start.client.interface.as_ref()?;
    (link.mtu_bytes > SOURCE_MTU_BYTES).then(|| {
        format!(
            "{} takes packets of {} bytes, which TCP fills and UDP, at the source's 1,500, does not",
            link.name, link.mtu_bytes
        )
    })
}

fn receiving_costs_more(report: &Report) -> Conclusion {
    const SOURCE: &str = "receiving costs more processor than sending";
    let of = |metric| report.of(Protocol::Udp).and_then(|it| Summary::of(&it.values(metric)));
    let Some((send, receive)) = of(Metric::SendMhzPerMbit).zip(of(Metric::ReceiveMhzPerMbit)) else {
        return Conclusion::not_measured(SOURCE);
    };
    let here =
        format!("over UDP {:.3} to send and {:.3} MHz/(Mbit/s) to receive", send.median, receive.median);
    if report.start.same_host {
        let why =
            "both ends are on one host, where the kernel's part of receiving is done in the sender's call";
        return Conclusion::not_judged(SOURCE, &format!("{why}; {here}"));
    }
    compared(SOURCE, &here, &receive, &send)
}

fn delay(report: &Report) -> Conclusion {
    const SOURCE: &str = "the delay in the end systems is not longer with UDP than with TCP";
    let Some((udp, tcp)) = pair(report, Metric::DelayMs) else {
        return if report.start.same_host {
            Conclusion::not_measured(SOURCE)
        } else {
            Conclusion::not_judged(SOURCE, "the two hosts have no clock in common")
        };
    };
    let here = told(Metric::DelayMs, &udp, &tcp);
    Comparisons::of([udp.against(&tcp)]).turned().conclude(SOURCE, &here)
}

/// Returns the figures of UDP and TCP.
fn pair(report: &Report, metric: Metric) -> Option<(Summary, Summary)> {
    let of = |protocol| Summary::of(&report.of(protocol)?.values(metric));
    of(Protocol::Udp).zip(of(Protocol::Tcp))
}

fn told(metric: Metric, udp: &Summary, tcp: &Summary) -> String {
    format!("UDP {:.3}, TCP {:.3} {}", udp.median, tcp.median, metric.unit())
}

/// Judges that one is more than the other.
fn compared(source: &str, here: &str, more: &Summary, less: &Summary) -> Conclusion {
    Comparisons::of([more.against(less)]).conclude(source, here)
}

#[cfg(test)]
mod tests;
