//! Output of a measurement: text or JSON on standard output or into a file, while it runs or at its end, and the
//! requested files.

use std::io::Write;

use bench::report::{self, Forms};
use bench::throughput::{self, Interval, RunReport, Start};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use sys::Cancellation;

use crate::messages;
use crate::signals;
use crate::status_line::StatusLine;
use crate::verbs::instruments::files::{FileArguments, Files};
use crate::verbs::instruments::pending::Pending;

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
        measure: impl FnOnce(&mut dyn report::Watch) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let form = if self.json { Form::Json } else { Form::Text };
        let terminal = Terminal::new(form, None, StatusLine::new(false))?;
        terminal.hand_out(&self.files, |terminal| measure(terminal))
    }
}

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Text,
    /// Also both hosts in full.
    VerboseText,
    /// One object, at the end.
    Json,
    /// One object per line, from the start on.
    JsonStream,
}

/// Prints, shows the progress, and handles Ctrl-C.
pub(super) struct Terminal {
    form: Form,
    line: StatusLine,
    cancellation: Cancellation,
    logfile: Option<Pending>,
    /// First error of printing, reported once at the end.
    trouble: Option<std::io::Error>,
}

impl Terminal {
    /// Prints into `logfile`, or else on standard output.
    pub(super) fn new(form: Form, logfile: Option<Pending>, line: StatusLine) -> anyhow::Result<Self> {
        Ok(Self { form, line, cancellation: signals::cancellation()?, logfile, trouble: None })
    }

    /// Measures, and hands the report out.
    pub(super) fn hand_out<R: Forms>(
        mut self,
        files: &FileArguments,
        measure: impl FnOnce(&mut Self) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let files = Files::begin(files)?;
        let measured = measure(&mut self);
        self.line.clear();
        // Files first, each independently, so that a closed pipe does not lose the measurement.
        let written = measured.as_ref().map_or(Ok(()), |report| files.write(report));
        match &measured {
            Ok(report) => self.end(report)?,
            Err(error) => self.fail(&error.to_string()),
        }
        self.trouble.map_or(Ok(()), Err)?;
        self.logfile.map_or(Ok(()), Pending::finish)?;
        written?;
        measured
    }

    /// Prints the report, which tells why it is not whole.
    fn end(&mut self, report: &impl Forms) -> anyhow::Result<()> {
        messages::note_told();
        match self.form {
            Form::Text | Form::VerboseText => self.print(&report.to_string()),
            // Serialised directly: a `Value` would sort the fields.
            Form::Json => self.print(&format!("{}\n", serde_json::to_string(report)?)),
            Form::JsonStream => self.event("end", &plain(report)["end"]),
        }
        Ok(())
    }

    /// Reports that nothing was measured, if the output is JSON.
    fn fail(&mut self, error: &str) {
        messages::note_told();
        match self.form {
            Form::Text | Form::VerboseText => {}
            Form::Json => self.print(&format!("{}\n", json!({ "error": error }))),
            Form::JsonStream => self.event("error", &error.into()),
        }
    }

    /// Prints a text or an event while it runs, as the form asks for.
    fn tell(&mut self, event: &str, data: &impl Serialize, words: impl FnOnce() -> String) {
        match self.form {
            Form::Text | Form::VerboseText => self.print(&words()),
            Form::Json => {}
            Form::JsonStream => self.event(event, &plain(data)),
        }
    }

    fn event(&mut self, event: &str, data: &Value) {
        self.print(&format!("{}\n", json!({ "event": event, "data": data })));
    }

    /// Flushes each text: readers of a pipe wait for it.
    fn print(&mut self, text: &str) {
        let written = match &mut self.logfile {
            Some(logfile) => logfile.append(text.as_bytes()),
            None => {
                let mut output = std::io::stdout().lock();
                output.write_all(text.as_bytes()).and_then(|()| output.flush())
            }
        };
        if let Err(error) = written {
            // The output is closed: there is no reason to continue.
            self.cancellation.cancel();
            self.trouble.get_or_insert(error);
        }
    }
}

impl report::Watch for Terminal {
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

impl throughput::Watch for Terminal {
    fn began(&mut self, start: &Start) {
        let limits = (self.form == Form::VerboseText).then(|| start.limits_in_words() + "\n");
        self.tell("start", start, || start.in_words() + "\n" + &limits.unwrap_or_default());
    }

    fn interval(&mut self, interval: &Interval) {
        self.tell("interval", interval, || interval.in_words());
    }

    fn run_ended(&mut self, run: &RunReport) {
        self.tell("run", run, || run.in_words());
    }
}

fn plain(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("a report is plain data")
}
