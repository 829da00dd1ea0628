//! Output of a report: text or JSON on standard output, and the requested files.

use std::io::Write;

use bench::report::{Forms, Watch};
use clap::Args;
use serde_json::json;
use sys::Cancellation;

use crate::signals;
use crate::status_line::StatusLine;
use crate::verbs::files::{FileArguments, Files};

/// Destinations of the report of a test that prints it at its end.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Handout {
    /// Print the report as one JSON object instead of a table (docs/guide/bench.md names its schema)
    #[arg(short = 'J', long)]
    json: bool,
    #[command(flatten)]
    files: FileArguments,
}

impl Handout {
    /// Measures with progress on a terminal, and prints the result; with JSON also the absence of one.
    pub(super) fn of<R: Forms>(
        &self,
        measure: impl FnOnce(&mut dyn Watch) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let files = Files::begin(&self.files)?;
        let mut terminal = Terminal { line: StatusLine::new(false), cancellation: signals::cancellation()? };
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
        // Files first, so that a closed pipe does not lose the measurement.
        let written = files.write(&report);
        self.print(&report)?;
        written?;
        Ok(report)
    }

    fn print(&self, report: &impl Forms) -> anyhow::Result<()> {
        if self.json {
            // Serialised directly: a `Value` would sort the fields.
            return Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(report)?)?);
        }
        Ok(write!(std::io::stdout(), "{report}")?)
    }
}

/// Shows the progress, and handles Ctrl-C.
struct Terminal {
    line: StatusLine,
    cancellation: Cancellation,
}

impl Watch for Terminal {
    fn progress(&mut self, words: &dyn Fn() -> String) {
        self.line.show(words);
    }

    fn say(&mut self, words: &str) {
        self.line.say(words);
    }

    fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }
}
