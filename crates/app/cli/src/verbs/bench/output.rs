//! Running a bench under the eyes of a terminal, and handing out what it found.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use bench::cycle::{self, Options, Program, Progress, Report, State, Watch};
use clap::Args;

use super::pending::Pending;
use crate::Outcome;
use crate::status_line::StatusLine;
use crate::stop::Stop;

/// Where the report goes, beside the table.
#[derive(Args, Debug)]
pub(super) struct Output {
    /// Print the report as one JSON object instead of a table (docs/formats/bench-cycle.schema.json)
    #[arg(long, short = 'J')]
    json: bool,
    /// Write figures, table and account into a page that needs nothing beside it
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the figures as a picture
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
}

/// Measures and hands out; `finish` completes the report before.
pub(super) fn measure(
    options: &Options,
    output: &Output,
    finish: impl FnOnce(&mut Report),
) -> anyhow::Result<Outcome> {
    options.check()?;
    // Made before anything is measured: a folder that cannot be written is better known now than in an hour.
    let html = output.html.as_deref().map(Pending::new).transpose()?;
    let png = output.png.as_deref().map(Pending::new).transpose()?;
    let stop = Stop::on_signals()?;
    let mut terminal = Terminal { line: StatusLine::new(false), stop };
    terminal.line.say(&format!("this takes at most {}", in_words(options.longest())));
    let mut report = cycle::run(options, &this_program()?, &mut terminal)?;
    terminal.line.clear();
    finish(&mut report);
    // Files first, and each for itself: hours of measuring are not to be lost with a pipe that nobody reads any more,
    // nor with a disk that is full.
    let written = [
        html.map_or(Ok(()), |html| html.write(report.to_html()?.as_bytes())),
        png.map_or(Ok(()), |png| png.write_picture(report.to_png())),
    ];
    print(&report, output)?;
    written.into_iter().collect::<anyhow::Result<()>>()?;
    outcome(&report)
}

fn print(report: &Report, output: &Output) -> anyhow::Result<()> {
    if output.json {
        // Not by way of a `Value`, which would sort the fields.
        return Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(report)?)?);
    }
    Ok(write!(std::io::stdout(), "{report}")?)
}

/// Writes a duration in the unit that leaves a number to be grasped.
fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        0..120 => format!("{} s", duration.as_secs() + 1),
        120..7_200 => format!("{} min", duration.as_secs().div_ceil(60)),
        _ => format!("{} h", duration.as_secs().div_ceil(3_600)),
    }
}

fn outcome(report: &Report) -> anyhow::Result<Outcome> {
    let measured = report.points.iter().filter(|point| point.multiplicity().is_some()).count();
    if measured == 0 && report.end.state == State::Complete {
        bail!("no point could be measured\nthe report says why for each");
    }
    let whole =
        report.points.iter().all(|point| point.multiplicity().is_some() && point.broken_off().is_none());
    let is_whole = whole && report.end.state == State::Complete;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_rounded_up() {
        for (seconds, words) in [(0, "1 s"), (119, "120 s"), (120, "2 min"), (121, "3 min"), (7_200, "2 h")] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
