//! The demo's processes: started from this program, ended however the demo ends.
//!
//! Each holds the read end of a pipe as its standard input and ends, in order, when that closes. This program closes it
//! to end a child; the system closes it however this program ends. The output of a child is kept.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

/// Interval at which an ending child is checked: the system waits for a child without a limit, or not at all.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Role of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Source,
    Monitor,
    Recorder,
    /// A reader at the far site.
    FarReader,
    /// A relay, or the path between the relays.
    Carrier,
    /// A reader of a secured demo that must get nothing.
    Outsider,
}

/// Publishers end before their readers, since the monitor server publishes derived streams; what carries streams to the far
/// site ends after its readers.
const ORDER_OF_ENDING: [Role; 6] =
    [Role::Source, Role::Monitor, Role::Recorder, Role::FarReader, Role::Carrier, Role::Outsider];
/// Lines of an outsider's messages that are kept.
const KEPT_MESSAGES: usize = 20;

/// A line of JSON that a child printed.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Line {
    /// The child.
    pub(super) child: String,
    /// Printed object.
    pub(super) value: Value,
}

/// Exit of a child.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Exit {
    /// The child.
    pub(super) child: String,
    /// Exit code: 0, or 1 if it found something.
    pub(super) code: i32,
}

/// What a child has printed so far, except for states, which repeat for as long as it runs.
type Heard = Arc<Mutex<Vec<Value>>>;

/// All processes of a demo. Dropping ends those that still run.
#[derive(Default)]
pub(super) struct Children {
    running: Vec<Running>,
    lines: Vec<Line>,
    exits: Vec<Exit>,
    messages: Vec<(String, Vec<String>)>,
}

struct Running {
    role: Role,
    name: String,
    process: Child,
    /// Dropping it asks the child to end.
    leash: Option<ChildStdin>,
    heard: Heard,
    output: Option<JoinHandle<()>>,
    /// Messages of an outsider; others show theirs themselves.
    messages: Option<JoinHandle<Vec<String>>>,
}

impl Children {
    /// Starts this program with other arguments.
    pub(super) fn start<'a>(
        &mut self,
        role: Role,
        name: &str,
        arguments: impl Iterator<Item = &'a str>,
    ) -> anyhow::Result<()> {
        self.start_with(role, name, arguments, &[])
    }

    /// Starts this program with other arguments and environment variables.
    pub(super) fn start_with<'a>(
        &mut self,
        role: Role,
        name: &str,
        arguments: impl Iterator<Item = &'a str>,
        variables: &[(&str, &OsStr)],
    ) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("cannot find the executable of this program")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).envs(variables.iter().copied());
        if role == Role::Outsider {
            command.stderr(Stdio::piped());
        }
        // Ctrl-C is for the demo alone: it ends its children in their order.
        command.process_group(0);
        let mut process = command.spawn().with_context(|| format!("{name} cannot be started"))?;
        let leash = process.stdin.take();
        let heard = Heard::default();
        let output = process.stdout.take().map(|output| {
            let heard = Arc::clone(&heard);
            std::thread::spawn(move || hear(output, &heard))
        });
        let messages = process.stderr.take().map(|errors| std::thread::spawn(move || first_lines(errors)));
        self.running.push(Running { role, name: name.to_owned(), process, leash, heard, output, messages });
        Ok(())
    }

    /// Returns an error if a child ended without being asked to; it has printed the reason itself.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        for child in &mut self.running {
            if let Some(status) = child.process.try_wait()? {
                bail!("the process of {} ended early: {status}", child.name);
            }
        }
        Ok(())
    }

    /// Returns the first event of a kind that a running child has printed.
    pub(super) fn heard(&self, name: &str, event: &str) -> Option<Value> {
        let child = self.running.iter().find(|child| child.name == name)?;
        let heard = child.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().find(|value| value["event"] == event).cloned()
    }

    /// Asks all of them to end, one role after the other, and waits for it.
    ///
    /// `patience` is what each role has for it.
    pub(super) fn finish_all(&mut self, patience: Duration) -> anyhow::Result<()> {
        ORDER_OF_ENDING.into_iter().try_for_each(|role| self.finish(role, patience))
    }

    /// Returns the lines printed by the children that have ended.
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns how the children ended that have.
    pub(super) fn exits(&self) -> &[Exit] {
        &self.exits
    }

    /// Returns what the outsiders that have ended were told, by their names.
    pub(super) fn messages(&self) -> &[(String, Vec<String>)] {
        &self.messages
    }

    fn finish(&mut self, role: Role, patience: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        let (mut ending, staying): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.running).into_iter().partition(|child| child.role == role);
        self.running = staying;
        ending.iter_mut().for_each(|child| drop(child.leash.take()));
        for mut child in ending {
            let code = child.wait(patience.saturating_sub(began.elapsed()))?;
            // A thread that panicked has kept what came before.
            let _ = child.output.take().map(JoinHandle::join);
            let values = std::mem::take(&mut *child.heard.lock().unwrap_or_else(PoisonError::into_inner));
            let name = child.name.clone();
            let messages = child.messages.take().map(|messages| messages.join().unwrap_or_default());
            self.messages.extend(messages.map(|messages| (name.clone(), messages)));
            self.exits.push(Exit { child: name.clone(), code });
            self.lines.extend(values.into_iter().map(|value| Line { child: name.clone(), value }));
        }
        Ok(())
    }
}

impl Running {
    /// Waits until the child has ended, and returns its exit code; after `patience` it is killed.
    fn wait(&mut self, patience: Duration) -> anyhow::Result<i32> {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait()? {
                break status;
            }
            if began.elapsed() > patience {
                self.process.kill()?;
                self.process.wait()?;
                bail!("the process of {} did not end within {patience:?} and was killed", self.name);
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        // A reader that found a wrong account exits with 1; the verdict names it.
        match status.code() {
            Some(code @ (0 | 1)) => Ok(code),
            _ => bail!("the process of {} failed: {status}", self.name),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A failure is harmless: the child has ended already, or ends because its standard input has just closed.
        if matches!(self.process.try_wait(), Ok(None)) {
            drop(self.process.kill());
            drop(self.process.wait());
        }
    }
}

fn hear(output: impl std::io::Read, heard: &Mutex<Vec<Value>>) {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let values = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    for value in values.filter(|value| value["event"] != "state") {
        heard.lock().unwrap_or_else(PoisonError::into_inner).push(value);
    }
}

/// Reads to the end, and keeps the first lines.
fn first_lines(errors: impl std::io::Read) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in BufReader::new(errors).lines().map_while(Result::ok) {
        if lines.len() < KEPT_MESSAGES {
            lines.push(line);
        }
    }
    lines
}
