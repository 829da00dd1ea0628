//! One side of a measurement: this program, started again in a role.
//!
//! A side prepares, prints `ready`, and waits for a line on its standard input; it prints its results as numbers on
//! its last line. If its parent has exited, its standard input is closed, or its other side is silent.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

/// A running side; dropping it ends it.
pub(crate) struct Side {
    role: String,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Side {
    /// Starts this program in a role; returns when the side is ready.
    pub(crate) fn start(role: &str, arguments: &[String]) -> Result<Self> {
        Self::start_by(Command::new(this_program()?), role, arguments)
    }

    /// Starts this program in a role under another command, such as an instruction counter.
    pub(crate) fn start_by(mut command: Command, role: &str, arguments: &[String]) -> Result<Self> {
        command.args(["--role", role]).args(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {role}"))?;
        let output = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        let mut side = Self { role: role.to_owned(), child, output };
        let line = side.line()?;
        if line != READY {
            bail!("{role} printed `{line}` instead of `{READY}`\nsee its error above, and run it again");
        }
        Ok(side)
    }

    /// Lets the side continue.
    pub(crate) fn go(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("its input is a pipe")?;
        input.write_all(b"go\n").with_context(|| format!("{} exited early", self.role))
    }

    /// Waits for the side's figures.
    pub(crate) fn figures<const COUNT: usize>(&mut self) -> Result<[f64; COUNT]> {
        let line = self.line()?;
        numbers(&line).with_context(|| format!("{} printed `{line}` instead of its figures", self.role))
    }

    /// Waits until the side has exited successfully.
    pub(crate) fn end(mut self) -> Result<()> {
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{} failed: {status}\nsee its error above", self.role);
        }
        Ok(())
    }

    /// Returns the standard error of a side that was started with a pipe for it.
    pub(crate) fn take_errors(&mut self) -> Option<std::process::ChildStderr> {
        self.child.stderr.take()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // An error means that the side has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Line by which a side reports that it is prepared.
const READY: &str = "ready";

/// Reports that this side is prepared, and waits until it may continue.
pub(crate) fn stand_by() -> Result<()> {
    println!("{READY}");
    std::io::stdout().flush()?;
    wait_for_word()
}

/// Waits until this side may continue.
pub(crate) fn wait_for_word() -> Result<()> {
    let mut word = String::new();
    if std::io::stdin().read_line(&mut word)? == 0 {
        bail!("the measurement has ended");
    }
    Ok(())
}

/// Prints a side's figures.
pub(crate) fn tell(figures: &[f64]) -> Result<()> {
    let words: Vec<String> = figures.iter().map(f64::to_string).collect();
    println!("{}", words.join(" "));
    std::io::stdout().flush().context("the parent process has exited")
}

/// Parses exactly `COUNT` numbers from a line.
pub(crate) fn numbers<const COUNT: usize>(line: &str) -> Option<[f64; COUNT]> {
    let numbers: Result<Vec<f64>, _> = line.split_ascii_whitespace().map(str::parse).collect();
    numbers.ok()?.try_into().ok()
}

/// Returns a role's argument by index.
pub(crate) fn argument<T: std::str::FromStr>(arguments: &[String], at: usize) -> Result<T> {
    let text = arguments.get(at).context("missing argument of a role")?;
    text.parse().ok().with_context(|| format!("invalid argument `{text}` of this role"))
}

pub(crate) fn this_program() -> Result<std::path::PathBuf> {
    std::env::current_exe().context("cannot find this program's own path")
}
