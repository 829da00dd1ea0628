//! A process of this same program in another role, controlled by lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// A child process; dropping it ends it.
pub struct Process {
    child: Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Process {
    /// Starts the process.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start this program again")?;
        let input = child.stdin.take().context("a pipe was asked for")?;
        let lines = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        Ok(Self { child, input, lines })
    }

    /// Sends a message to it, as one line.
    ///
    /// # Errors
    /// If it has exited.
    pub fn say(&mut self, what: &impl Serialize) -> Result<()> {
        writeln!(self.input, "{}", serde_json::to_string(what)?)?;
        Ok(self.input.flush()?)
    }

    /// Waits for its next line, which must be `[event, value]`.
    ///
    /// # Errors
    /// If it sends something else, or exits.
    pub fn hear<T: for<'de> Deserialize<'de>>(&mut self, event: &str) -> Result<T> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            bail!("the other process exited before it sent `{event}`\nsee its error above");
        }
        let (said, value): (String, T) =
            serde_json::from_str(&line).with_context(|| format!("expected `{event}`, not {line}"))?;
        anyhow::ensure!(said == event, "expected `{event}`, not {line}");
        Ok(value)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A child process must not outlive the measurement.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a message to the parent process.
///
/// # Errors
/// If the parent has exited.
pub fn tell(event: &str, value: &impl Serialize) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(&(event, value))?)?;
    Ok(output.flush()?)
}

/// Waits for a line from the parent process; `None` after the last.
///
/// # Errors
/// If standard input cannot be read.
pub fn next_line() -> Result<Option<String>> {
    let mut line = String::new();
    Ok((std::io::stdin().read_line(&mut line)? > 0).then_some(line))
}

/// Parses a message that the parent sent with [`Process::say`].
///
/// # Errors
/// If it is malformed.
pub fn understand<T: for<'de> Deserialize<'de>>(line: &str) -> Result<T> {
    serde_json::from_str(line).with_context(|| format!("malformed message: {line}"))
}

/// Makes this process exit when its parent does, even while it waits.
pub fn end_with_leader() {
    std::thread::spawn(|| {
        while next_line().is_ok_and(|line| line.is_some()) {}
        std::process::exit(0);
    });
}
