//! The ring between processes: one-way latency spinning and asleep, the highest rate at which no reader loses
//! anything, and the writer's cost per record by number of readers.
//!
//! The references, measured alternately with it in every run, are `limit`, a bare ring of two processes and two
//! copies (`limit.c`), and `iceoryx2`, another library of this kind. All copy in and copy out. Each side is a
//! process of its own (this program starts itself again in either role), pinned to a processor of its own.
//!
//! `--json` prints rows as objects; `--quick` takes fewer runs, for trying; `--only TEXT` takes the cases whose
//! names contain it.

mod bandwidth;
mod cost;
mod iceoryx;
mod latency;
mod limit;
mod place;
mod side;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use peers::Report;

use limit::Limit;
use place::Place;

/// Maximum time one side waits for the other: far longer than any scheduling delay.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--role") {
        return play(&arguments[at + 1..]);
    }
    let bench = Bench::prepare(&arguments)?;
    latency::measure(&bench)?;
    bandwidth::measure(&bench)?;
    cost::measure(&bench)
}

/// State shared by all cases.
struct Bench {
    report: Report,
    place: Place,
    limit: Limit,
    /// Number of runs per figure.
    runs: usize,
    /// Text that the names of measured cases contain.
    only: String,
    interrupted: Arc<AtomicBool>,
}

impl Bench {
    fn prepare(arguments: &[String]) -> Result<Self> {
        let report = Report::from_arguments("ring");
        let quick = arguments.iter().any(|argument| argument == "--quick");
        let runs = if quick { 2 } else { 5 };
        let only = arguments.iter().position(|argument| argument == "--only");
        let only = only.and_then(|at| arguments.get(at + 1)).cloned().unwrap_or_default();
        let place = Place::new()?;
        let limit = Limit::build(place.directory())?;
        // Ctrl-C ends the sides directly; this program then reports it and cleans up.
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .context("cannot install signal handlers")?;
        }
        report.note(&format!(
            "medians of {runs} runs (smallest – largest), the systems in turn; ratio_to_limit within each run: \
             of delays less is better, of rates more"
        ));
        if quick {
            report.note("quick: too few runs to be quoted");
        }
        report.note(&place.describe());
        Ok(Self { report, place, limit, runs, only, interrupted })
    }

    fn leaves_out(&self, case: &str) -> bool {
        !case.contains(&self.only)
    }

    fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

/// Runs one side of a pair.
fn play(arguments: &[String]) -> Result<()> {
    let [role, arguments @ ..] = arguments else { bail!("missing role") };
    match role.as_str() {
        "ping" => latency::ping(arguments),
        "pong" => latency::pong(arguments),
        "write" => bandwidth::write(arguments),
        "read" => bandwidth::read(arguments),
        "cost-write" => cost::write(arguments),
        "cost-read" => cost::read(arguments),
        "iceoryx-ping" => iceoryx::ping(arguments),
        "iceoryx-pong" => iceoryx::pong(arguments),
        "iceoryx-publish" => iceoryx::publish(arguments),
        "iceoryx-subscribe" => iceoryx::subscribe(arguments),
        other => bail!("unknown role `{other}`"),
    }
}

/// Formats a size as in case names.
fn size_name(size_bytes: usize) -> String {
    match size_bytes {
        bytes if bytes < 1 << 10 => format!("{bytes}B"),
        bytes if bytes < 1 << 20 => format!("{}KiB", bytes >> 10),
        bytes => format!("{}MiB", bytes >> 20),
    }
}
