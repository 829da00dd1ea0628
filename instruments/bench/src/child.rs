//! A process of this program that a bench has started: it ends with the bench, however that ends.
//!
//! The two exchange messages as JSON, one per line, over its standard input and output.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Time a process may take to end before it is killed.
const PATIENCE_AT_END: Duration = Duration::from_secs(5);
/// Interval at which an ending process is checked: the system waits for a child without a limit, or not at all.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The command line of a process of this program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The arguments that select its role.
    pub arguments: Vec<String>,
}

/// A process that ends when its standard input does. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct OwnedProcess {
    process: Child,
    /// Dropping it asks the process to end.
    input: Option<ChildStdin>,
}

impl Program {
    /// Returns this program, with other arguments.
    ///
    /// # Errors
    /// The system's error, if it does not know the program's path.
    pub fn this(arguments: &[&str]) -> io::Result<Self> {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Ok(Self { path: std::env::current_exe()?, arguments })
    }

    /// Returns the command that starts it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments);
        command
    }
}

impl OwnedProcess {
    /// Starts the process; returns its standard output too.
    pub(crate) fn spawn(mut command: Command) -> io::Result<(Self, ChildStdout)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for the bench alone: it ends its processes in order, and keeps the results so far.
        command.process_group(0);
        let mut process = command.spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().expect("standard output was piped");
        Ok((Self { process, input }, output))
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends the process a message.
    pub(crate) fn tell<M: Serialize>(&mut self, message: &M) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), |input| write(input, message))
    }
}

/// Returns the messages of a process, from its standard output, until it ends or writes anything else.
pub(crate) fn messages<M: DeserializeOwned>(output: impl Read) -> impl Iterator<Item = M> {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    lines.map_while(|line| serde_json::from_str(&line).ok())
}

/// Sends the bench a message, from a process that it has started.
pub(crate) fn say<M: Serialize>(message: &M) -> io::Result<()> {
    write(&mut io::stdout().lock(), message)
}

fn write<M: Serialize>(into: &mut impl Write, message: &M) -> io::Result<()> {
    let mut line = serde_json::to_string(message).expect("messages are plain data");
    line.push('\n');
    into.write_all(line.as_bytes())?;
    into.flush()
}

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        // The process ends now and removes what it made; with a small quota that takes a while.
        let patience = Instant::now() + PATIENCE_AT_END;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < patience {
            std::thread::sleep(POLL_INTERVAL);
        }
        // An error means that it has ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
