//! Running the program: waits for conditions with a watchdog, ends what it started.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
pub(crate) use support::ports::private_bus;

/// Time a test waits before it fails with what it was waiting for. Not a measurement.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until `look` finds something.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < WATCHDOG, "still waiting for {what}");
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// The user without rights: a number reserved on every system.
const NOBODY: u32 = 65_534;

/// Runs the program to its end as a user without privileges; `None`, with a note, if that is impossible.
pub(crate) fn run_as_nobody(arguments: &[&str]) -> Option<Output> {
    let mut command = command(arguments);
    match command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("SKIPPED: the program cannot be run as another user: {error}");
            None
        }
    }
}

/// The program with arguments; nothing of the surroundings decides what it does.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallycast"));
    command.args(arguments).env("XDG_CONFIG_HOME", "/nonexistent").env("NO_COLOR", "1");
    for variable in ["TALLYCAST_BUS", "TALLYCAST_CONFIG", "TALLYCAST_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    run_with(arguments, &[], "")
}

/// Runs the program to its end, with environment variables and a standard input.
pub(crate) fn run_with(arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Output {
    let mut command = command(arguments);
    command.envs(variables.iter().copied());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    check_keys(arguments, &output.stdout);
    output
}

/// Checks the keys of all JSON in an output: the whole, or its lines.
pub(crate) fn check_keys(arguments: &[&str], output: &[u8]) {
    let verb = published_name(arguments);
    match serde_json::from_slice(output) {
        Ok(value) => check_keys_of(&verb, &value),
        Err(_) => {
            let lines =
                output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
            lines.for_each(|value| check_keys_of(&verb, &value));
        }
    }
}

/// Checks the keys of one object; each event of a verb has its own list. The reports of `bench` have schemas instead.
fn check_keys_of(verb: &str, value: &Value) {
    if !matches!(value, Value::Object(_) | Value::Array(_)) || verb.starts_with("bench") {
        return;
    }
    match value["event"].as_str() {
        // The account of a stream is the same for every verb, and of the monitor.
        Some("account" | "look") if !["send", "recv"].contains(&verb) => {
            support::keys::check("account", value)
        }
        Some(event) if ["send", "recv"].contains(&verb) => {
            support::keys::check(&format!("transfer/{event}"), value)
        }
        Some(event) => support::keys::check(&format!("{verb}/{event}"), value),
        None => support::keys::check(verb, value),
    }
}

/// Returns the published name of a command's JSON: its verb, with its subcommand if it has one.
fn published_name(arguments: &[&str]) -> String {
    let verb = arguments.first().copied().unwrap_or_default();
    let own = arguments.get(1).filter(|it| !it.starts_with('-'));
    match own {
        Some(own) if ["archive", "bench", "bridge", "config", "doctor"].contains(&verb) => {
            format!("{verb}-{own}")
        }
        _ => verb.to_owned(),
    }
}

/// Runs the program to its end with a closed standard error; returns its exit code.
pub(crate) fn run_unheard(arguments: &[&str]) -> Option<i32> {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).status();
    status.unwrap().code()
}

/// Runs the program to its end with a closed standard output; returns its exit code.
pub(crate) fn run_unread(arguments: &[&str]) -> Option<i32> {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command(arguments).stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).status();
    status.unwrap().code()
}

/// The program while it runs.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<Value>,
    what: String,
}

impl Running {
    /// Starts it.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::of(&mut command(arguments), arguments)
    }

    /// Starts it; returns its standard error, too.
    pub(crate) fn start_heard(arguments: &[&str]) -> (Self, BufReader<ChildStderr>) {
        let mut running = Self::of(command(arguments).stderr(Stdio::piped()), arguments);
        let said = BufReader::new(running.child.stderr.take().unwrap());
        (running, said)
    }

    fn of(command: &mut Command, arguments: &[&str]) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        let verb = published_name(arguments);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"));
                check_keys_of(&verb, &value);
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, what: arguments.join(" ") }
    }

    /// Returns the next line; `None` once the program has closed its output.
    pub(crate) fn next_line(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(WATCHDOG) {
            Ok(value) => Some(value),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("`{}` said nothing for {WATCHDOG:?}", self.what),
        }
    }

    /// Returns all lines up to and including the first that `wanted` accepts.
    pub(crate) fn lines_until(&mut self, mut wanted: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let mut lines = Vec::new();
        loop {
            let line = self.next_line();
            lines.push(line.unwrap_or_else(|| panic!("`{}` ended too early: {lines:?}", self.what)));
            if wanted(&lines[lines.len() - 1]) {
                return lines;
            }
        }
    }

    /// Writes into its standard input.
    pub(crate) fn write(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Closes its standard input.
    pub(crate) fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Returns its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its child processes; empty if the kernel does not list them.
    pub(crate) fn children(&self) -> Vec<String> {
        let id = self.child.id();
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end; returns what it still printed.
    pub(crate) fn wait(mut self) -> (ExitStatus, Vec<Value>) {
        let mut lines = Vec::new();
        while let Some(line) = self.next_line() {
            lines.push(line);
        }
        let status = wait_for("its end", || self.child.try_wait().unwrap());
        (status, lines)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }
}
