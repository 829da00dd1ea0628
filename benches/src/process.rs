//! A process of this same program in a role of its own, led by lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// A process that is led from here; dropping it ends it.
pub struct Process {
    child: Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("this program cannot start itself")?;
        let input = child.stdin.take().context("a pipe was asked for")?;
        let lines = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        Ok(Self { child, input, lines })
    }

    /// Says something to it, in a line.
    ///
    /// # Errors
    /// If it has ended.
    pub fn say(&mut self, what: &impl Serialize) -> Result<()> {
        writeln!(self.input, "{}", serde_json::to_string(what)?)?;
        Ok(self.input.flush()?)
    }

    /// Waits for its next line, which must be `[event, value]`.
    ///
    /// # Errors
    /// If it says something else, or ends.
    pub fn hear<T: for<'de> Deserialize<'de>>(&mut self, event: &str) -> Result<T> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            bail!("the other process ended before it said `{event}`\nits own error stands above");
        }
        let (said, value): (String, T) =
            serde_json::from_str(&line).with_context(|| format!("`{event}` was expected, not {line}"))?;
        anyhow::ensure!(said == event, "`{event}` was expected, not {line}");
        Ok(value)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Whatever it is doing, nothing of a measurement outlives it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says something to the process that leads.
///
/// # Errors
/// If nobody listens.
pub fn tell(event: &str, value: &impl Serialize) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(&(event, value))?)?;
    Ok(output.flush()?)
}

/// Waits for a line of the process that leads; `None` once it says no more.
///
/// # Errors
/// If standard input cannot be read.
pub fn next_line() -> Result<Option<String>> {
    let mut line = String::new();
    Ok((std::io::stdin().read_line(&mut line)? > 0).then_some(line))
}

/// Reads what the leading process said with [`Process::say`].
///
/// # Errors
/// If it is something else.
pub fn understand<T: for<'de> Deserialize<'de>>(line: &str) -> Result<T> {
    serde_json::from_str(line).with_context(|| format!("this was not understood: {line}"))
}

/// Lets this process end with the one that leads, whatever it is waiting for then.
pub fn end_with_leader() {
    std::thread::spawn(|| {
        while next_line().is_ok_and(|line| line.is_some()) {}
        std::process::exit(0);
    });
}
