//! Shared views: the time in which a change of one page is on all others, and what a hundred viewers of one view cost
//! the real monitor server beyond the bytes that they are sent.
//!
//! All pages are connections of this process, and ask and confirm as the page does. `limit` is a process that sends as many
//! bare sockets the bytes that one page was sent, a write for all bytes of one moment. So `beyond_bytes` is what the server
//! does for its viewers other than sending. Options: [`Bench`].

mod bare;
mod monitor;
mod pages;

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use peers::process::{Role, plays};
use peers::{Bench, Case, Extent, quantiles, ratios};

use monitor::Viewed;
use pages::{Changes, Pages, Phase};

/// Pages that show one view.
const MANY: usize = 100;
/// Time in which pages open and are drawn: they are not measured in it.
const WARM_UP: Duration = Duration::from_millis(1_500);
/// Changes of a view a second: of a script, and of a hand that drags.
const CHANGES_PER_S: [u32; 2] = [10, 50];

/// What a page shows.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    plots: usize,
    traces_per_plot: usize,
    width_px: u32,
    /// Samples of each trace a second.
    rate_hz: u32,
    name: &'static str,
}

/// A page on a desk, a full page, and a page of fast signals: a million samples a second in all.
const SHAPES: [Shape; 3] = [
    Shape { plots: 6, traces_per_plot: 4, width_px: 640, rate_hz: 1_000, name: "6-plots-24-traces" },
    Shape { plots: 24, traces_per_plot: 4, width_px: 320, rate_hz: 1_000, name: "24-plots-96-traces" },
    Shape {
        plots: 6,
        traces_per_plot: 4,
        width_px: 640,
        rate_hz: 40_000,
        name: "6-plots-24-traces-at-40-kHz",
    },
];

fn main() -> Result<()> {
    if plays(&[Role::new("bare-sender", bare::send)])? {
        return Ok(());
    }
    let bench = Bench::begin("views", Extent { runs: 5, seconds: 5.0 }, Extent { runs: 1, seconds: 2.0 })?;
    let Extent { runs, seconds } = bench.extent;
    bench.introduce(&format!(
        "medians of {runs} runs of {seconds} s over loopback; server, pages and publishers share all processors"
    ));
    let run_time = Duration::from_secs_f64(seconds);
    for rate in CHANGES_PER_S {
        let Some(case) = bench.case(format!("{MANY}-pages/{rate}-changes-per-s")) else { continue };
        let taken = case.in_turn(&mut [("tallycast", ())], |()| changes(&bench, rate, run_time))?;
        for (place, metric) in ["reached_p50", "reached_p99", "reached_max"].into_iter().enumerate() {
            case.row("tallycast", metric, "ms", taken[0].runs.iter().map(|run| run[place]));
        }
    }
    for shape in SHAPES {
        let Some(case) = bench.case(shape.name.to_owned()) else { continue };
        let taken = case.in_turn(&mut [("tallycast", ())], |()| {
            Ok([viewers(&bench, shape, 1, run_time)?, viewers(&bench, shape, MANY, run_time)?])
        })?;
        rows(&case, &taken[0].runs);
    }
    Ok(())
}

/// Returns the median, p99 and maximum of the time from a change's sending to its arrival at each page, in milliseconds.
fn changes(bench: &Bench, per_s: u32, run_time: Duration) -> Result<[f64; 3]> {
    let shape = SHAPES[0];
    let monitor = Viewed::start(bench, shape)?;
    let changes = Changes::new(per_s, run_time);
    let pages = Pages::open(monitor.server.address(), shape, MANY, Arc::clone(&changes))?;
    let mut presenter = pages::Presenter::open(monitor.server.address(), Arc::clone(&changes))?;
    sleep(WARM_UP);
    presenter.change(bench)?;
    let heard = pages.close()?;
    monitor.end()?;
    let delays: Vec<f64> = heard.into_iter().flat_map(|page| page.delays_ms).collect();
    ensure!(
        delays.len() == MANY * changes.count(),
        "of {} changes, {MANY} pages heard {} times",
        changes.count(),
        delays.len()
    );
    Ok(quantiles(delays, [0.5, 0.99, 1.0]))
}

/// What some pages cost, a second.
struct Cost {
    /// Processor time of the server. Units: seconds.
    server: f64,
    /// Processor time of bare sockets that send the same bytes. Units: seconds.
    bare: f64,
    /// Frames and bytes that one page was sent.
    frames: f64,
    bytes: f64,
}

impl Cost {
    fn beyond(&self) -> f64 {
        self.server - self.bare
    }
}

fn viewers(bench: &Bench, shape: Shape, count: usize, run_time: Duration) -> Result<Cost> {
    let monitor = Viewed::start(bench, shape)?;
    let pages = Pages::open(monitor.server.address(), shape, count, Changes::none())?;
    sleep(WARM_UP);
    let before = monitor.server.processor_time()?;
    pages.enter(Phase::Measured);
    sleep(run_time);
    pages.enter(Phase::Over);
    let server = (monitor.server.processor_time()? - before).as_secs_f64();
    let heard = pages.close()?;
    monitor.end()?;
    bench.check()?;
    let seconds = run_time.as_secs_f64();
    let [frames, bytes] = [
        heard.iter().map(|page| page.frames as f64).sum::<f64>(),
        heard.iter().map(|page| page.bytes as f64).sum::<f64>(),
    ]
    .map(|sum| sum / count as f64 / seconds);
    let pieces = heard.into_iter().next().map(|page| page.pieces).unwrap_or_default();
    let bare = bare::measure(&pieces, count)? / seconds;
    Ok(Cost { server: server / seconds, bare, frames, bytes })
}

/// Prints the figures of runs with one page, and with many.
fn rows(case: &Case<'_>, runs: &[[Cost; 2]]) {
    for (place, name) in ["/1-page".to_owned(), format!("/{MANY}-pages")].iter().enumerate() {
        let (case, of) =
            (case.with(name), |figure: fn(&Cost) -> f64| runs.iter().map(move |run| figure(&run[place])));
        case.row("tallycast", "busy", "ms/s", of(|cost| 1e3 * cost.server));
        case.row("limit", "busy", "ms/s", of(|cost| 1e3 * cost.bare));
        case.row("tallycast", "beyond_bytes", "ms/s", of(|cost| 1e3 * cost.beyond()));
        case.row("tallycast", "frames_per_page", "/s", of(|cost| cost.frames));
        case.row("tallycast", "bytes_per_page", "/s", of(|cost| cost.bytes));
    }
    let [one, many] = [0, 1].map(|place| runs.iter().map(|run| run[place].beyond()).collect::<Vec<_>>());
    case.with(&format!("/{MANY}-pages")).row("tallycast", "beyond_bytes_to_one", "", ratios(&many, &one));
}
