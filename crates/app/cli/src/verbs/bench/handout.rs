//! Handing a report out: text or JSON on standard output, and the files that were asked for.

use std::io::Write;
use std::path::PathBuf;

use bench::report::{Forms, Watch};
use clap::Args;
use serde_json::json;

use super::pending::Pending;
use crate::status_line::StatusLine;
use crate::stop::Stop;

/// The files a report goes into.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct FileArguments {
    /// Write figures, tables and accounts into a page that needs nothing beside it
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the figures as a picture
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Write what was measured into a table for other programs
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Where the report of a test goes that prints it at its end.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Handout {
    /// Print the report as one JSON object instead of a table (docs/bench.md names its schema)
    #[arg(short = 'J', long)]
    json: bool,
    #[command(flatten)]
    files: FileArguments,
}

/// Files that are being written.
pub(super) struct Files {
    csv: Option<Pending>,
    html: Option<Pending>,
    png: Option<Pending>,
}

impl Files {
    /// Begins them before anything is measured: a folder that cannot be written is better known now.
    pub(super) fn begin(arguments: &FileArguments) -> anyhow::Result<Self> {
        let begin = |path: &Option<PathBuf>| path.as_deref().map(Pending::new).transpose();
        let FileArguments { csv, html, png } = arguments;
        Ok(Self { csv: begin(csv)?, html: begin(html)?, png: begin(png)? })
    }

    /// Writes each for itself: what one disk cannot take is no reason to lose the others.
    pub(super) fn write(self, report: &impl Forms) -> anyhow::Result<()> {
        let written = [
            self.csv.map_or(Ok(()), |csv| csv.write(report.to_csv().as_bytes())),
            self.html.map_or(Ok(()), |html| html.write(report.to_html()?.as_bytes())),
            self.png.map_or(Ok(()), |png| png.write_picture(report.to_png())),
        ];
        written.into_iter().collect()
    }
}

impl Handout {
    /// Measures under the eyes of a terminal, and hands out what came of it; with JSON also that nothing did.
    pub(super) fn of<R: Forms>(
        &self,
        measure: impl FnOnce(&mut dyn Watch) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let files = Files::begin(&self.files)?;
        let mut terminal = Terminal { line: StatusLine::new(false), stop: Stop::on_signals()? };
        let measured = measure(&mut terminal);
        terminal.line.clear();
        let report = match measured {
            Ok(report) => report,
            Err(error) => {
                if self.json {
                    writeln!(std::io::stdout(), "{}", json!({ "error": error.to_string() }))?;
                }
                return Err(error);
            }
        };
        // Files first: a measurement is not to be lost with a pipe that nobody reads any more.
        let written = files.write(&report);
        self.print(&report)?;
        written?;
        Ok(report)
    }

    fn print(&self, report: &impl Forms) -> anyhow::Result<()> {
        if self.json {
            // Not by way of a `Value`, which would sort the fields.
            return Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(report)?)?);
        }
        Ok(write!(std::io::stdout(), "{report}")?)
    }
}

/// Shows how far it is, and hears Ctrl-C.
struct Terminal {
    line: StatusLine,
    stop: Stop,
}

impl Watch for Terminal {
    fn progress(&mut self, words: &dyn Fn() -> String) {
        self.line.show(words);
    }

    fn say(&mut self, words: &str) {
        self.line.say(words);
    }

    fn is_wanted_to_end(&self) -> bool {
        self.stop.is_wanted()
    }
}
