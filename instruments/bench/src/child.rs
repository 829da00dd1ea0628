//! Processes of this program that a bench has started: they end with the bench, however that ends.
//!
//! [`Workers`] are those that work for it, each in [`serve`]. Both ends exchange messages as JSON, one per line, over
//! the standard input and output of the process.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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

    fn tell(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), |input| write(input, message))
    }
}

/// Message of a process to the bench.
#[derive(Debug, Serialize, Deserialize)]
enum Said<M> {
    /// A message `M` of its test.
    Word(M),
    /// Reason why it cannot continue.
    Failed(String),
}

/// Processes that work for a bench at the same time, and send it messages `M`. Dropping them ends them.
pub(crate) struct Workers<M> {
    processes: Vec<OwnedProcess>,
    /// Name of each process in errors, such as `the writer of a run`.
    names: Vec<&'static str>,
    program: String,
    /// Messages with the index of the process; `None` once that has ended.
    heard: Receiver<(usize, Option<Said<M>>)>,
}

/// Reasons why a process does not work for the bench.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    /// It could not be started or written to.
    #[error("{name} cannot be reached: {source}\nsee whether `{program}` can be started")]
    Unreachable {
        /// Name of the process.
        name: &'static str,
        /// Program that should have been started.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// It reported why it could not continue.
    #[error("{name} failed: {reason}")]
    Failed {
        /// Name of the process.
        name: &'static str,
        /// Its error text, with the remedy.
        reason: String,
    },
    /// It ended unasked.
    #[error("{0} ended unexpectedly\nsee the lines above, and `dmesg` for whether it was killed")]
    Ended(&'static str),
    /// The processes were silent for too long.
    #[error(
        "processes of the bench have been silent for {0:?}\nsee what else keeps this host busy; with a quota, take a larger one"
    )]
    Silent(Duration),
}

impl<M: Serialize + DeserializeOwned + Send + 'static> Workers<M> {
    /// Starts a process for each name.
    pub(crate) fn start(program: &Program, names: Vec<&'static str>) -> Result<Self, ProcessError> {
        let (sender, heard) = channel();
        let (processes, path) = (Vec::new(), program.path.display().to_string());
        let mut workers = Self { processes, names, program: path, heard };
        for index in 0..workers.names.len() {
            let spawned = OwnedProcess::spawn(program.command());
            let (process, output) = spawned.map_err(|source| workers.unreachable(index, source))?;
            workers.processes.push(process);
            let sender = sender.clone();
            std::thread::spawn(move || {
                // A failure to send: the channel's receiver is gone, since the processes are being dropped.
                for said in messages(output) {
                    let _ = sender.send((index, Some(said)));
                }
                let _ = sender.send((index, None));
            });
        }
        Ok(workers)
    }

    /// Returns the ids of the processes.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.process.id()).collect()
    }

    /// Sends a process a message.
    pub(crate) fn tell(&mut self, index: usize, message: &impl Serialize) -> Result<(), ProcessError> {
        self.processes[index].tell(message).map_err(|source| self.unreachable(index, source))
    }

    /// Waits for a message, and returns it with the index of its process; `None` if there is none in time.
    pub(crate) fn hear(&self, patience: Duration) -> Result<Option<(usize, M)>, ProcessError> {
        match self.heard.recv_timeout(patience) {
            Ok((index, Some(Said::Word(message)))) => Ok(Some((index, message))),
            Ok((index, Some(Said::Failed(reason)))) => {
                Err(ProcessError::Failed { name: self.names[index], reason })
            }
            Ok((index, None)) => Err(ProcessError::Ended(self.names[index])),
            // No message in time. The channel is not closed before: every process reports its end.
            Err(_) => Ok(None),
        }
    }

    /// Waits for a message; there must be one in time.
    pub(crate) fn hear_surely(&self, patience: Duration) -> Result<(usize, M), ProcessError> {
        self.hear(patience)?.ok_or(ProcessError::Silent(patience))
    }

    /// Returns the error for a message that is invalid at this point.
    pub(crate) fn unexpected(&self, index: usize, message: &M) -> ProcessError {
        let reason = format!(
            "unexpected message `{}`\nstart the bench again; if this recurs, report it",
            serde_json::to_string(message).unwrap_or_default()
        );
        ProcessError::Failed { name: self.names[index], reason }
    }

    fn unreachable(&self, index: usize, source: io::Error) -> ProcessError {
        ProcessError::Unreachable { name: self.names[index], program: self.program.clone(), source }
    }
}

/// Works as a process of a bench: `work` gets the bench's messages, and reports with [`say`]. The process ends when
/// its standard input does, however the bench ended.
///
/// # Errors
/// The error of `work`, which is also reported to the bench if that still reads.
pub(crate) fn serve<M, E>(work: impl FnOnce(&Receiver<M>) -> Result<(), E>) -> Result<(), E>
where
    M: DeserializeOwned + Send + 'static,
    E: Error + From<io::Error>,
{
    let (sender, told) = channel();
    // On its own thread, so that work can check for messages without waiting.
    std::thread::spawn(move || messages(io::stdin()).try_for_each(|message| sender.send(message)));
    let outcome = work(&told);
    match &outcome {
        Ok(()) => told.iter().for_each(drop),
        Err(error) => write(&mut io::stdout().lock(), &Said::<()>::Failed(with_causes(error)))?,
    }
    outcome
}

/// Sends the bench a message, from a process that it has started.
pub(crate) fn say<M: Serialize>(message: &M) -> io::Result<()> {
    write(&mut io::stdout().lock(), &Said::Word(message))
}

/// Returns the messages of the other end, until that ends or writes anything else.
fn messages<M: DeserializeOwned>(from: impl io::Read) -> impl Iterator<Item = M> {
    let lines = BufReader::new(from).lines().map_while(Result::ok);
    lines.map_while(|line| serde_json::from_str(&line).ok())
}

fn write<M: Serialize>(into: &mut impl Write, message: &M) -> io::Result<()> {
    let mut line = serde_json::to_string(message).expect("messages are plain data");
    line.push('\n');
    into.write_all(line.as_bytes())?;
    into.flush()
}

/// Joins an error and its causes, except those that its own text already contains.
fn with_causes(error: &impl Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a shell that runs a script.
    fn shell(script: &str) -> Program {
        Program { path: "/bin/sh".into(), arguments: vec!["-c".to_owned(), script.to_owned()] }
    }

    #[test]
    fn a_process_is_heard_until_it_fails_and_its_end_is_an_error_too() {
        let says = r#"read line; printf '{"Word":%s}\n{"Failed":"no room"}\n' "$line""#;
        let mut workers = Workers::<u32>::start(&shell(says), vec!["the first", "the second"]).unwrap();
        workers.tell(1, &7).unwrap();
        assert_eq!(workers.hear_surely(support::WATCHDOG).unwrap(), (1, 7));
        let hear = || workers.hear_surely(support::WATCHDOG).unwrap_err().to_string();
        assert_eq!(hear(), "the second failed: no room");
        assert!(hear().starts_with("the second ended unexpectedly"));
        let silent = workers.hear_surely(Duration::from_millis(1)).unwrap_err();
        assert!(matches!(silent, ProcessError::Silent(_)), "{silent}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let missing = Program { path: "/nonexistent".into(), arguments: Vec::new() };
        let error = Workers::<u32>::start(&missing, vec!["the first"]).err().unwrap().to_string();
        assert!(
            error.starts_with("the first cannot be reached") && error.contains("`/nonexistent`"),
            "{error}"
        );
    }
}
