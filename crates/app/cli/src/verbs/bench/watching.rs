//! Output of a running measurement: text, one JSON object at its end, or one per line.

use std::io::Write;

use bench::throughput::{Interval, Report, RunReport, Start, Watch};
use serde_json::{Value, json};
use sys::Cancellation;

use crate::Outcome;
use crate::signals;
use crate::verbs::pending::Pending;

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Text,
    /// Also both hosts in full.
    VerboseText,
    Json,
    JsonStream,
}

/// Destination of the output: a terminal, or a file.
pub(super) struct Watching {
    form: Form,
    cancellation: Cancellation,
    logfile: Option<Pending>,
    /// First error of printing, reported once at the end.
    trouble: Option<std::io::Error>,
}

impl Watching {
    pub(super) fn new(form: Form, logfile: Option<Pending>) -> anyhow::Result<Self> {
        Ok(Self { form, cancellation: signals::cancellation()?, logfile, trouble: None })
    }

    /// Prints the report.
    pub(super) fn end(mut self, report: &Report) -> anyhow::Result<()> {
        match self.form {
            Form::Text | Form::VerboseText => self.print(&report.to_string()),
            // Serialised directly: a `Value` would sort the fields.
            Form::Json => self.print(&format!("{}\n", serde_json::to_string(report)?)),
            Form::JsonStream => self.event("end", &serde_json::to_value(&report.end)?),
        }
        self.close()
    }

    /// Reports that nothing was measured, also in JSON if that is the output.
    pub(super) fn fail(mut self, error: anyhow::Error) -> anyhow::Result<Outcome> {
        let said = error.to_string();
        match self.form {
            Form::Text | Form::VerboseText => {}
            Form::Json => self.print(&format!("{}\n", json!({ "error": said }))),
            Form::JsonStream => self.event("error", &Value::String(said)),
        }
        self.close()?;
        Err(error)
    }

    fn close(self) -> anyhow::Result<()> {
        self.trouble.map_or(Ok(()), Err)?;
        self.logfile.map_or(Ok(()), Pending::finish)
    }

    fn event(&mut self, event: &str, data: &Value) {
        self.print(&format!("{}\n", json!({ "event": event, "data": data })));
    }

    /// Flushes each line: readers of a pipe wait for it.
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

impl Watch for Watching {
    fn began(&mut self, start: &Start) {
        match self.form {
            Form::Text => self.print(&format!("{}\n", start.in_words())),
            Form::VerboseText => self.print(&format!("{}\n{}\n", start.in_words(), start.limits_in_words())),
            Form::Json => {}
            Form::JsonStream => self.event("start", &plain(start)),
        }
    }

    fn interval(&mut self, interval: &Interval) {
        match self.form {
            Form::Text | Form::VerboseText => self.print(&interval.in_words()),
            Form::Json => {}
            Form::JsonStream => self.event("interval", &plain(interval)),
        }
    }

    fn run_ended(&mut self, run: &RunReport) {
        match self.form {
            Form::Text | Form::VerboseText => self.print(&run.in_words()),
            Form::Json => {}
            Form::JsonStream => self.event("run", &plain(run)),
        }
    }

    fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }
}

fn plain(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("a report is plain data")
}
