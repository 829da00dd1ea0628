//! Running a bench under the eyes of a terminal, and handing out what it found.

use std::io::Write;

use anyhow::{Context, bail};
use bench::cycle::{self, Options, Program, Progress, Report, State, Watch};
use clap::Args;

use crate::Outcome;
use crate::status_line::StatusLine;
use crate::stop::Stop;

/// Where the report goes, beside the table.
#[derive(Args, Debug)]
pub(crate) struct Output {
    /// Print the report as one JSON object instead of a table (docs/formats/bench-cycle.schema.json)
    #[arg(long, short = 'J')]
    pub(crate) json: bool,
}

/// Measures and hands out.
pub(crate) fn measure(options: &Options, output: &Output) -> anyhow::Result<Outcome> {
    options.check()?;
    let stop = Stop::on_signals()?;
    let mut terminal = Terminal { line: StatusLine::new(false), stop };
    terminal.line.say(&format!("this takes at most {:?}", options.longest()));
    let report = cycle::run(options, &this_program()?, &mut terminal)?;
    terminal.line.clear();
    hand_out(&report, output)?;
    outcome(&report)
}

/// Prints a report.
fn hand_out(report: &Report, output: &Output) -> anyhow::Result<()> {
    if output.json {
        // Not by way of a `Value`, which would sort the fields.
        return Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(report)?)?);
    }
    Ok(write!(std::io::stdout(), "{report}")?)
}

fn outcome(report: &Report) -> anyhow::Result<Outcome> {
    let measured = report.points.iter().filter(|point| point.multiplicity().is_some()).count();
    if measured == 0 && report.end.state == State::Complete {
        bail!("no point could be measured\nthe report says why for each");
    }
    let is_whole = measured == report.points.len() && report.end.state == State::Complete;
    Ok(if is_whole { Outcome::Fine } else { Outcome::Found })
}

/// How this program is started as one of the two processes.
fn this_program() -> anyhow::Result<Program> {
    let path = std::env::current_exe().context("this program does not find itself")?;
    Ok(Program { path, arguments: vec!["bench".to_owned(), "cycle-worker".to_owned()] })
}

/// Shows how far it is, and hears Ctrl-C.
struct Terminal {
    line: StatusLine,
    stop: Stop,
}

impl Watch for Terminal {
    fn progress(&mut self, progress: &Progress) {
        self.line.show(|| progress.to_string());
    }

    fn is_wanted_to_end(&self) -> bool {
        self.stop.is_wanted()
    }
}
