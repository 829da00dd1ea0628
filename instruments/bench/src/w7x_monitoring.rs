//! The measurements of the Wendelstein 7-X monitoring paper reproduced: conditions under which a receiver loses
//! datagrams, and remedies that help.
//!
//! Source: "Wie zuverlässig ist UDP? How reliable is UDP?" (Max Planck Institute for Plasma Physics,
//! Wendelstein 7-X). Its receivers had network cards of 100 Mbit/s and 1 Gbit/s. Of its remedies the larger
//! receive buffer is tested here; interrupt throttling needs a network card.

use std::time::Duration;

use probe::{Contrast, Summary};
use sys::clock;
use units::text;

use crate::report::{Agreement, Comparisons, Conclusion, Ends, Grid, ReferenceFigure, Reproduction, Watch};
use crate::sweep::{self, Options, Point, Report};
use crate::throughput::Rate;

/// The larger receive buffer: the remedy.
const LARGE_BUFFER_BYTES: usize = 8 << 20;

/// CPU load on the receiver's host, in millionths of the time.
const LOAD_PPM: u32 = 500_000;

/// The rate at which the paper first met losses. Units: bits per second.
const NORMAL_RATE: Rate = Rate::Bits(20_000_000);

/// Loss that the paper accepts: less than one datagram in ten thousand, in percent.
const ACCEPTED_PERCENT: f64 = 0.01;

/// The three measurements that the conclusions rest on.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Throughput over the size of datagrams, as fast as possible, without and with the remedy, without and
    /// with load: the paper's figure 6.
    pub sizes: Options,
    /// Small datagrams at one rate after the other.
    pub rates: Options,
    /// The rate of the paper's application, with load.
    pub normal: Options,
}

/// Reports of the three measurements, as far as each was made.
#[derive(Clone, Copy, Debug, Default)]
struct Found<'a> {
    sizes: &'a [Point],
    rates: &'a [Point],
    normal: &'a [Point],
}

impl Plan {
    /// Returns the plan for a grid.
    #[must_use]
    pub fn of(grid: Grid) -> Self {
        let (payloads, duration, repeats) = match grid {
            Grid::Short => (vec![64, 256, 1_024, 1_472], Duration::from_millis(500), 3),
            Grid::Full => {
                (vec![16, 32, 64, 128, 256, 512, 768, 1_024, 1_280, 1_472], Duration::from_secs(10), 5)
            }
        };
        let kilo_units: &[u64] = match grid {
            Grid::Short => &[50, 100, 200, 400, 0],
            Grid::Full => &[25, 50, 100, 150, 200, 250, 300, 400, 600, 800, 0],
        };
        let base = Options {
            receive_buffers: vec![None, Some(LARGE_BUFFER_BYTES)],
            duration,
            repeats,
            ..Options::default()
        };
        let rates = kilo_units.iter().map(|kilo| Rate::Units(kilo * 1_000)).collect();
        Self {
            sizes: Options { payloads, cpu_loads_ppm: vec![0, LOAD_PPM], ..base.clone() },
            rates: Options { payloads: vec![64], cpu_loads_ppm: vec![LOAD_PPM], rates, ..base.clone() },
            normal: Options {
                payloads: vec![64, 1_472],
                cpu_loads_ppm: vec![LOAD_PPM],
                rates: vec![NORMAL_RATE],
                ..base
            },
        }
    }

    /// Returns the approximate duration.
    #[must_use]
    pub fn about(&self) -> Duration {
        self.sizes.about() + self.rates.about() + self.normal.about()
    }
}

/// Measures between two ends, and compares the paper's conclusions with ours. A measurement that fails is noted in the
/// report; the earlier ones are kept.
#[must_use]
pub fn reproduce(grid: Grid, ends: Ends<'_>, watch: &mut dyn Watch) -> Reproduction {
    let mut it = Reproduction::begin("000", grid);
    let Plan { sizes, rates, normal } = Plan::of(grid);
    let parts = [("sizes", sizes), ("rates", rates), ("normal load", normal)].map(|(name, options)| {
        if watch.cancellation().is_cancelled() {
            it.skipped(name, "it was ended before".to_owned());
            return None;
        }
        it.take_sweep(name, &options, ends, watch)
    });
    assemble(it, parts, watch.cancellation().is_cancelled())
}

fn assemble(mut it: Reproduction, parts: [Option<Report>; 3], was_interrupted: bool) -> Reproduction {
    let [sizes, rates, normal] = parts;
    it.table = sizes.as_ref().map(table).unwrap_or_default();
    let of_paper = printed(&it, [&sizes, &rates, &normal].map(Option::as_ref));
    it.table.extend(of_paper);
    let [of_sizes, of_rates, of_normal] =
        [&sizes, &rates, &normal].map(|report| report.as_ref().map(Report::quiet_points).unwrap_or_default());
    let noisy = of_sizes.1 + of_rates.1 + of_normal.1;
    let found = Found { sizes: &of_sizes.0, rates: &of_rates.0, normal: &of_normal.0 };
    it.conclusions = conclude(found).into_iter().map(|conclusion| conclusion.without_noisy(noisy)).collect();
    it.conclusions.extend(without_a_network());
    it.charts = [&sizes, &rates, &normal].into_iter().flatten().flat_map(sweep::charts).collect();
    it.end(was_interrupted)
}

/// Compares the numbers that the paper prints: its application's rate with the loss that it accepts, the length and volume
/// of an experiment with those of this reproduction, and numbers that only a network has.
fn printed(it: &Reproduction, reports: [Option<&Report>; 3]) -> Vec<ReferenceFigure> {
    let mut table = application(reports[2]);
    let points = || reports.into_iter().flatten().flat_map(|report| &report.points);
    let (seconds, bytes) =
        ((clock::wall().as_nanos() - it.time_ns) as f64 / 1e9, points().map(sent_bytes).sum::<u64>() as f64);
    let measured: &[f64] = if points().next().is_some() { &[seconds] } else { &[] };
    let volume: &[f64] = if bytes > 0.0 { &[bytes] } else { &[] };
    let line = ReferenceFigure::printed;
    table.extend([
        line("run of the experiment", "duration", "s", 1_800.0)
            .beside(measured)
            .remarked("here: this whole reproduction")
            .or(NOTHING),
        line("data of such a run", "size", "B", 1e12)
            .beside(volume)
            .remarked("the paper: several TB; here: all that was sent")
            .or(NOTHING),
        line("a voice over IP", "bits_per_second", "bit/s", 10e3)
            .or("no voice is sent; the paper names two digits of kbit/s to show that a monitor needs more"),
        line("slow parts of a mixed network", "bits_per_second", "bit/s", 10e6).or(NO_NETWORK),
        line("fast parts of a mixed network", "bits_per_second", "bit/s", 100e6).or(NO_NETWORK),
        line("network cards and parts", "bits_per_second", "bit/s", 100e6).or(NO_NETWORK),
        line("backbone", "bits_per_second", "bit/s", 1e9).or(NO_NETWORK),
        line("InterruptThrottleRate of e1000", "setting", "1/s", 2_500.0)
            .or("settings of a network card are not read"),
    ]);
    table
}

const NOTHING: &str = "nothing was measured";
const NO_NETWORK: &str = "network cards and switches are not examined";

/// Compares each point at the rate of the paper's application with that rate and the loss that the paper accepts.
fn application(normal: Option<&Report>) -> Vec<ReferenceFigure> {
    const FIGURES: [(&str, &str, f64, &str); 2] = [
        ("sent_bits_per_second", "bit/s", 20e6, "the rate at which the paper first met losses"),
        ("lost_percent", "%", ACCEPTED_PERCENT, "the paper accepts clearly less, after its remedies"),
    ];
    let rows = normal.iter().flat_map(|report| &report.rows);
    let ours = rows.filter_map(|row| {
        let (.., source, remark) = *FIGURES.iter().find(|(metric, ..)| *metric == row.metric)?;
        let what = format!("the application, {}", row.case);
        let figure = ReferenceFigure::of_row(row, remark.to_owned());
        Some(ReferenceFigure { what, source: Some(source), ..figure })
    });
    let ours: Vec<_> = ours.collect();
    if !ours.is_empty() {
        return ours;
    }
    let missing = |(metric, unit, source, _): (&str, &str, f64, &str)| {
        ReferenceFigure::printed("the application", metric, unit, source).or(NOTHING)
    };
    FIGURES.map(missing).into()
}

/// Returns the payload that was sent at a point.
fn sent_bytes(point: &Point) -> u64 {
    let accounts = point.runs.iter().filter_map(|run| run.account.as_ref());
    accounts.map(|account| account.sent * point.payload_bytes).sum()
}

/// Returns our figures only: the paper draws its own and prints no numbers.
fn table(report: &Report) -> Vec<ReferenceFigure> {
    let shown = ["sent_bits_per_second", "received_bits_per_second", "lost_percent"];
    let rows = report.rows.iter().filter(|row| shown.contains(&row.metric.as_str()));
    let clamped = |case: &str| {
        report.points.iter().find(|point| point.case() == case).and_then(Point::clamped_receive_buffer)
    };
    let clamped = |case: &str| clamped(case).map_or(String::new(), |why| format!("; {why}"));
    let remark = |row: &crate::Row| format!("figure 6, which names no numbers{}", clamped(&row.case));
    rows.map(|row| ReferenceFigure::of_row(row, remark(row))).collect()
}

fn conclude(found: Found<'_>) -> Vec<Conclusion> {
    vec![
        small_lose_most(found.sizes),
        load_loses(found.sizes),
        fewer_arrive(found.rates),
        buffer_remedies(found.rates),
        remedied(found.normal),
        sender_loses_none(found),
        lost_in_the_buffer(found),
    ]
}

/// Returns the conclusions that no measurement at both ends can judge.
fn without_a_network() -> [Conclusion; 2] {
    [
        Conclusion::not_judged(
            "interrupts of the network card keep the receiver from its work; throttling them loses markedly less",
            "interrupts of a network card are not examined",
        ),
        Conclusion::not_judged(
            "the network loses nothing where link speeds are not mixed and all parts do flow control (802.3x)",
            "links and parts between sender and receiver are not examined",
        ),
    ]
}

fn small_lose_most(points: &[Point]) -> Conclusion {
    let source = "small datagrams lose most";
    let pairs = without_remedy(points).filter_map(|point| {
        let alike = || {
            without_remedy(points)
                .filter(|it| it.cpu_load_percent.to_bits() == point.cpu_load_percent.to_bits())
        };
        let (least, most) =
            (alike().map(|it| it.payload_bytes).min()?, alike().map(|it| it.payload_bytes).max()?);
        let is_smallest = point.payload_bytes == least && least < most;
        Some((point, alike().find(|it| it.payload_bytes == most)?)).filter(|_| is_smallest)
    });
    compare(source, pairs, |point| format!("{} B, load {} %", point.payload_bytes, point.cpu_load_percent))
}

fn load_loses(points: &[Point]) -> Conclusion {
    let source = "high loss goes with high load of the processors";
    let loaded = without_remedy(points).filter(|point| point.cpu_load_percent > 0.0);
    let pairs = loaded.filter_map(|loaded| {
        let is_partner = |it: &&Point| it.cpu_load_percent <= 0.0 && it.payload_bytes == loaded.payload_bytes;
        Some((loaded, without_remedy(points).find(is_partner)?))
    });
    compare(source, pairs, |point| format!("{} B, load {} %", point.payload_bytes, point.cpu_load_percent))
}

/// Judges the larger buffer where the receiver keeps up on average: it holds datagrams while the receiver
/// cannot run.
fn buffer_remedies(points: &[Point]) -> Conclusion {
    let source = "losses in bursts are the receive buffer's: a larger one remedies them";
    if let Some(why) = points.iter().find_map(Point::clamped_receive_buffer) {
        return Conclusion::not_judged(source, &why);
    }
    let losing = without_remedy(points).filter(|point| is_paced(point) && lost(point) > ACCEPTED_PERCENT);
    let pairs = losing.filter_map(|small| {
        let is_partner = |it: &&Point| it.receive_buffer_bytes.is_some() && it.rate == small.rate;
        Some((small, points.iter().find(is_partner)?))
    });
    compare(source, pairs, |point| format!("{}, buffer {}", rate(point), buffer(point)))
}

/// Searches for a rate beyond the peak at which less arrives, though more is sent. If nothing was lost at any
/// rate none was critical, and if no more was sent none is beyond the peak.
fn fewer_arrive(points: &[Point]) -> Conclusion {
    let source = "past a critical rate fewer bytes arrive in all than at a lower one";
    let (mut here, mut falls, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for wanted in [None, Some(LARGE_BUFFER_BYTES as u64)] {
        let curve = points.iter().filter(|it| it.receive_buffer_bytes == wanted);
        let curve = curve.filter(|it| it.clamped_receive_buffer().is_none());
        let mut curve: Vec<(&Point, Summary, Summary)> =
            curve.filter_map(|point| Some((point, sent(point)?, point.received()?))).collect();
        curve.sort_by(|(_, a, _), (_, b, _)| a.median.total_cmp(&b.median));
        let best = curve.iter().enumerate().max_by(|(_, a), (_, b)| a.2.median.total_cmp(&b.2.median));
        let Some((place, (point, most_sent, most))) = best.filter(|_| curve.len() > 1) else { continue };
        if curve.iter().all(|(point, ..)| !loses(point)) {
            left_out.push(format!("buffer {}: next to nothing was lost at any rate", buffer(point)));
            continue;
        }
        let contrast = |(_, sent, received): &(&Point, Summary, Summary)| match sent.against(most_sent) {
            Contrast::More => most.against(received),
            Contrast::Unclear => Contrast::Unclear,
            Contrast::Less | Contrast::Alike => Contrast::Alike,
        };
        let beyond = &curve[place + 1..];
        let fell = beyond.iter().find(|it| contrast(it) == Contrast::More);
        let is_unclear = beyond.iter().any(|it| contrast(it) == Contrast::Unclear);
        falls.push(match (fell, is_unclear) {
            (Some(_), _) => Contrast::More,
            (None, true) => Contrast::Unclear,
            (None, false) => Contrast::Alike,
        });
        let peak = format!(
            "buffer {}: most, {:.1} Mbit/s, arrived at {}",
            buffer(point),
            most.median / 1e6,
            rate(point)
        );
        here.push(match fell {
            Some((point, _, received)) => {
                format!("{peak}, and {:.1} Mbit/s at {}", received.median / 1e6, rate(point))
            }
            None => format!("{peak}, and not markedly less beyond it"),
        });
    }
    Comparisons::of(falls).conclude_but(source, here, &left_out)
}

/// Judges the remedy by the points that lost data without it. Every run must lose less than the paper accepts;
/// if only some do, or if there was nothing to remedy, there is no verdict.
fn remedied(points: &[Point]) -> Conclusion {
    let source = "after the remedies there is no loss under normal load: clearly less than 1 in 10,000";
    if let Some(why) = points.iter().find_map(Point::clamped_receive_buffer) {
        return Conclusion::not_judged(source, &why);
    }
    let (mut here, mut holds, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for point in points.iter().filter(|it| it.receive_buffer_bytes.is_some()) {
        let name = format!("{} B at {}, load {} %", point.payload_bytes, rate(point), point.cpu_load_percent);
        let is_partner = |it: &&Point| {
            let place = |it: &Point| (it.payload_bytes, it.rate, it.cpu_load_percent.to_bits());
            it.receive_buffer_bytes.is_none() && place(it) == place(point)
        };
        let Some(lost) = point.lost_percent() else {
            left_out.push(format!("{name}: no run is whole in which anything was sent"));
            continue;
        };
        if !loses(point) && !points.iter().filter(is_partner).any(loses) {
            left_out.push(format!("{name}: next to nothing was lost without the remedy, either"));
            continue;
        }
        holds.push(less_than_accepted(&lost));
        here.push(format!("{name}: {:.4} % lost, at most {:.4} %", lost.median, lost.max));
    }
    Comparisons::of(holds).conclude_but(source, here, &left_out)
}

/// Compares the accepted loss with the measured one: the accepted loss is above that of every run, or it is
/// not.
fn less_than_accepted(lost: &Summary) -> Contrast {
    let accepted = Summary::of(&[ACCEPTED_PERCENT; 2]).expect("it is a number");
    match accepted.against(lost) {
        Contrast::More if lost.max >= ACCEPTED_PERCENT => Contrast::Unclear,
        contrast => contrast,
    }
}

fn sender_loses_none(found: Found<'_>) -> Conclusion {
    let source = "the sender loses none";
    let (sent, lost) = total(found, |stage| stage.starts_with("sender"));
    let here = format!("{lost} of {sent} datagrams were refused at the sender");
    let agreement = if lost == 0 { Agreement::Agrees } else { Agreement::Differs };
    match sent {
        0 => Conclusion::not_measured(source),
        _ => Conclusion::new(source, &here, agreement),
    }
}

fn lost_in_the_buffer(found: Found<'_>) -> Conclusion {
    let source = "what the receiver loses it loses in the receive buffer of the socket";
    let (_, in_buffer) = total(found, |stage| stage == "receiver_socket_buffer");
    let missing: u64 = accounts(found).map(crate::throughput::Account::missing).sum();
    let here = format!("{in_buffer} of {missing} lost datagrams are in the kernel's count of the sockets");
    if missing == 0 {
        return Conclusion::not_judged(source, "nothing was lost");
    }
    let count = |datagrams: u64| usize::try_from(datagrams).unwrap_or(usize::MAX);
    Conclusion::new(source, &here, Agreement::of_share(count(in_buffer), count(missing)))
}

/// Returns the accounts of all complete runs.
fn accounts(found: Found<'_>) -> impl Iterator<Item = &crate::throughput::Account> {
    let points = [found.sizes, found.rates, found.normal].into_iter().flatten();
    let whole = points.flat_map(|point| &point.runs).filter(|run| run.trouble.is_none());
    whole.filter_map(|run| run.account.as_ref())
}

/// Returns the number of sent datagrams, and of those lost at the selected stages.
fn total(found: Found<'_>, wanted: impl Fn(&str) -> bool) -> (u64, u64) {
    let lost = |account: &crate::throughput::Account| {
        account.lost.iter().filter(|(stage, _)| wanted(stage)).map(|(_, count)| count).sum::<u64>()
    };
    accounts(found).fold((0, 0), |(sent, sum), account| (sent + account.sent, sum + lost(account)))
}

/// Judges whether the first of each pair lost more than the second. A pair proves nothing if neither lost a
/// significant part, or if one was cut short or sent nothing.
fn compare<'a>(
    source: &str,
    pairs: impl Iterator<Item = (&'a Point, &'a Point)>,
    name: impl Fn(&Point) -> String,
) -> Conclusion {
    let (mut here, mut contrasts, mut quiet, mut unknown) = (Vec::new(), Vec::new(), 0, 0);
    for (a, b) in pairs {
        let Some((of_a, of_b)) = a.lost_percent().zip(b.lost_percent()) else {
            unknown += 1;
            continue;
        };
        if of_a.median <= ACCEPTED_PERCENT && of_b.median <= ACCEPTED_PERCENT {
            quiet += 1;
            continue;
        }
        contrasts.push(of_a.against(&of_b));
        here.push(format!("{}: {:.2} % lost; {}: {:.2} %", name(a), of_a.median, name(b), of_b.median));
    }
    let left_out = [(quiet, "next to nothing was lost"), (unknown, "no run is whole, or nothing was sent")];
    let left_out = left_out.iter().filter(|(count, _)| *count > 0);
    let left_out: Vec<String> =
        left_out.map(|(count, why)| format!("{} at which {why}", text::counted(*count, "pair"))).collect();
    Comparisons::of(contrasts).conclude_but(source, here, &left_out)
}

/// Returns the points with the system's receive buffer.
fn without_remedy(points: &[Point]) -> impl Iterator<Item = &Point> {
    points.iter().filter(|point| point.receive_buffer_bytes.is_none())
}

/// Returns the sent datagrams; `None` if there were none.
fn sent(point: &Point) -> Option<Summary> {
    point.sent().filter(|sent| sent.median > 0.0)
}

/// Returns whether more was lost than the paper accepts, in any run.
fn loses(point: &Point) -> bool {
    point.lost_percent().is_some_and(|it| it.max >= ACCEPTED_PERCENT)
}

fn lost(point: &Point) -> f64 {
    point.lost_percent().map_or(0.0, |it| it.median)
}

const fn is_paced(point: &Point) -> bool {
    !matches!(point.rate, Rate::Bits(0) | Rate::Units(0))
}

fn rate(point: &Point) -> String {
    match point.rate {
        Rate::Bits(0) | Rate::Units(0) => "full speed".to_owned(),
        Rate::Bits(bits) => format!("{} Mbit/s", bits / 1_000_000),
        Rate::Units(units) => format!("{units}/s"),
    }
}

fn buffer(point: &Point) -> String {
    point.receive_buffer_bytes.map_or("of the system".to_owned(), |bytes| format!("of {} MiB", bytes >> 20))
}

#[cfg(test)]
mod tests;
