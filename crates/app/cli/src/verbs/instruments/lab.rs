//! `tallycast lab`: congestion controls compared in the virtual network; the runs are in the crate `cc-lab`.

mod compare;
mod setting;
mod sweep;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use clap::{Args, Subcommand};
use drawing::Forms;
use serde::Serialize;
use sys::Cancellation;

use super::files::{FileArguments, Files};
use super::pending::Pending;
use crate::Outcome;
use crate::signals;
use crate::status_line::StatusLine;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast lab compare --cc reno,cubic,udt,bbr --rate 1G --rtt 20ms --loss 1e-5 --flows 4 --seeds 10
  tallycast lab compare --cc all --html compare.html             every built-in control, with curves over time
  tallycast lab compare --cc 'fast?alpha=20,fast?alpha=200'      one control with different options
  tallycast lab sweep --cc reno,cubic,udt --html sweep.html      goodput against loss and round-trip time

Nothing leaves this host: flows of the real transport run packet by packet over a virtual network, and one seed
gives one result everywhere. A control of one's own: examples/lab_own_control.rs.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Compare controls on one path: goodput, queue, loss, fairness, and friendliness to Reno
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Arguments),
    /// Goodput of each control against loss and round-trip time
    #[command(after_help = sweep::EXAMPLES)]
    Sweep(sweep::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match &arguments.what {
        What::Compare(arguments) => compare::run(arguments),
        What::Sweep(arguments) => sweep::run(arguments),
    }
}

/// Destinations of the results.
#[derive(Args, Debug)]
#[group(skip)]
struct Results {
    /// Print one JSON object per line instead of a table
    #[arg(short = 'J', long)]
    json: bool,
    /// Write everything as one JSON object, including conditions and curves over time
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    files: FileArguments,
}

impl Results {
    /// Runs with progress on a terminal, and prints the result; nothing after Ctrl-C.
    fn of<R: Forms, L: Serialize>(
        &self,
        play: impl FnOnce(&(dyn Fn(f64) -> bool + Sync)) -> Option<R>,
        lines: impl FnOnce(&R) -> &[L],
    ) -> anyhow::Result<Outcome> {
        let files = Files::begin(&self.files)?;
        let save = self.save.as_deref().map(Pending::new).transpose()?;
        let screen = Screen::new()?;
        let report = play(&|part| screen.goes_on(part));
        drop(screen);
        let Some(report) = report else {
            eprintln!("stopped early: no result");
            return Ok(Outcome::Found);
        };
        let saved = save.map_or(Ok(()), |save| save.write(&serde_json::to_vec(&report)?));
        let written = files.write(&report);
        if self.json {
            for line in lines(&report) {
                crate::messages::print_line(&serde_json::to_value(line)?)?;
            }
        } else {
            let mut output = std::io::stdout().lock();
            write!(output, "{report}")?;
            output.flush()?;
        }
        saved.and(written).map(|()| Outcome::Fine)
    }
}

/// Shows the progress, and handles Ctrl-C; all worker threads report to it.
struct Screen {
    line: Mutex<StatusLine>,
    cancellation: Cancellation,
    began: Instant,
}

impl Screen {
    fn new() -> anyhow::Result<Self> {
        let line = Mutex::new(StatusLine::new(false));
        Ok(Self { line, cancellation: signals::cancellation()?, began: Instant::now() })
    }

    fn goes_on(&self, part: f64) -> bool {
        // A thread that finds it busy skips its report.
        if let Ok(mut line) = self.line.try_lock() {
            let passed = self.began.elapsed().as_secs_f64();
            let left = passed * (1.0 - part) / part.max(1e-6);
            line.show(|| format!("{:.0}% played, about {left:.0} s left", part * 100.0));
        }
        !self.cancellation.is_cancelled()
    }
}
