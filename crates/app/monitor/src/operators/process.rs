//! The process of an operator: its start, its messages, its end.
//!
//! It ends when its standard input closes, which the system does however the monitor ends. It writes its state to
//! standard output, one JSON object per line; its standard error is for users.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

use graph::plan::{Incomplete, OperatorConfig};
use serde::Deserialize;

use super::Setting;
use super::tending::Report;

/// Maximum length of a line.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// Event of an operator's process.
pub(super) enum News {
    /// Something that concerns the process with this number.
    Of(u64, Word),
    /// The monitor is done with it.
    End,
}

/// Message of a process.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Word {
    Ready,
    Report(Report),
    /// A line of standard error.
    #[serde(skip)]
    Line(String),
}

/// A process of an operator; it is killed on drop.
pub(super) struct Process {
    child: Child,
    leash: Option<ChildStdin>,
}

impl Process {
    /// Starts a process; its messages arrive as events of `number`.
    pub(super) fn start(command: &mut Command, number: u64, news: &Sender<News>) -> std::io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the monitor only: it ends its operators in order.
        command.process_group(0);
        let mut child = command.spawn()?;
        let leash = child.stdin.take();
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let process = Self { child, leash };
        if let Some(output) = output {
            let news = news.clone();
            listen("operator-output", output, move |line| {
                // A line that is not a message was printed by other code in the process.
                let word = serde_json::from_str(&line).unwrap_or(Word::Line(line));
                news.send(News::Of(number, word)).is_ok()
            })?;
        }
        if let Some(errors) = errors {
            let news = news.clone();
            listen("operator-errors", errors, move |line| {
                news.send(News::Of(number, Word::Line(line))).is_ok()
            })?;
        }
        Ok(process)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns how it ended, if it has.
    pub(super) fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Asks it to end in order.
    pub(super) fn let_go(&mut self) {
        drop(self.leash.take());
    }

    /// Ends it now.
    pub(super) fn kill(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // A failure is harmless: it has ended meanwhile.
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the command that runs an operator on the monitor's bus.
pub(super) fn command(operator: &OperatorConfig, setting: &Setting) -> Command {
    let mut command = Command::new(&setting.python);
    command.args(["-m", "tallycast.run_operator", &operator.python, "--name", &operator.name]);
    for input in &operator.inputs {
        command.args(["--input", input]);
    }
    command.args(["--output", &operator.output]);
    if let Some(every) = operator.every {
        command.args(["--every", &every.to_string()]);
    }
    if let Some(dtype) = &operator.dtype {
        command.args(["--dtype", dtype]);
    }
    for channel in &operator.channels {
        let json = serde_json::json!({"name": channel.name, "unit": channel.unit, "shape": channel.shape});
        command.args(["--channel", &json.to_string()]);
    }
    if let Some(incomplete) = operator.incomplete {
        let word = match incomplete {
            Incomplete::Hole => "hole",
            Incomplete::Give => "give",
        };
        command.args(["--incomplete", word]);
    }
    if !operator.settings.is_empty() {
        let settings = serde_json::Value::Object(operator.settings.clone());
        command.args(["--settings", &settings.to_string()]);
    }
    if let Ok(Some(bytes)) = operator.memory_bytes() {
        command.args(["--memory", &bytes.to_string()]);
    }
    if is_of_request(operator, setting) {
        command.arg("--declared");
    }
    let node = &setting.node;
    command.args(["--bus", &node.bus().to_string(), "--station", node.station(), "--tended"]);
    command
}

/// Returns whether a request can have named the function, so that only one that was declared as an operator is run.
fn is_of_request(operator: &OperatorConfig, setting: &Setting) -> bool {
    let folder = setting.programs.as_deref();
    folder.is_some_and(|folder| std::path::Path::new(&operator.python).starts_with(folder))
}

/// Passes on every line until the end, or until the receiver is gone.
fn listen(
    name: &str,
    from: impl Read + Send + 'static,
    mut tell: impl FnMut(String) -> bool + Send + 'static,
) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut from).take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(1..) if tell(String::from_utf8_lossy(&line).into_owned()) => {}
                _ => return,
            }
        }
    })?;
    Ok(())
}
