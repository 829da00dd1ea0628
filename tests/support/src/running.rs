//! A running program: its lines of output, its signals, its end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{WATCHDOG, Watchdog, wait_until};

/// A running program; dropping it kills the process, in any state, also stopped.
pub struct Running {
    child: Child,
    lines: Receiver<Value>,
    shown: String,
}

impl Running {
    /// Starts a program, which messages call `shown`; each line of its output is first passed to `check`.
    ///
    /// A line that is no JSON counts as a string.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(command: &mut Command, shown: String, check: impl Fn(&Value) + Send + 'static) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).spawn().unwrap_or_else(|why| panic!("`{shown}`: {why}"));
        let output = BufReader::new(child.stdout.take().expect("a pipe was asked for"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let text = output.lines().map_while(Result::ok);
            let values = text.map(|line| serde_json::from_str(&line).unwrap_or(Value::String(line)));
            // The receiver may have been dropped.
            values.inspect(check).map(|value| sender.send(value)).take_while(Result::is_ok).for_each(drop);
        });
        Self { child, lines, shown }
    }

    /// Returns the next line; `None` once the program has closed its output.
    ///
    /// # Panics
    /// If the watchdog ends the wait.
    pub fn next_line(&self) -> Option<Value> {
        match self.lines.recv_timeout(WATCHDOG) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("`{}` said nothing for {WATCHDOG:?}", self.shown),
        }
    }

    /// Returns the next line if it comes within `patience`.
    pub fn line_within(&self, patience: Duration) -> Option<Value> {
        self.lines.recv_timeout(patience).ok()
    }

    /// Returns all lines up to and including the first that `is_it` accepts.
    ///
    /// # Panics
    /// If the program ends before, or the watchdog ends the wait.
    pub fn lines_until(&self, mut is_it: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let mut lines = Vec::new();
        loop {
            let line = self.next_line();
            lines.push(line.unwrap_or_else(|| panic!("`{}` ended too early: {lines:?}", self.shown)));
            if is_it(&lines[lines.len() - 1]) {
                return lines;
            }
        }
    }

    /// Waits for a line that `is_it` accepts and returns it; skips earlier lines.
    ///
    /// # Panics
    /// If the program ends before, or the watchdog ends the wait.
    pub fn wait_for(&self, what: &str, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        let watchdog = Watchdog::new(format_args!("{what} from `{}`", self.shown));
        loop {
            match self.lines.recv_timeout(watchdog.check()) {
                Ok(line) if is_it(&line) => return line,
                Err(RecvTimeoutError::Disconnected) => panic!("`{}` ended before {what}", self.shown),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Skips the lines so far: later waits see only new ones.
    pub fn skip_to_now(&self) {
        while self.lines.try_recv().is_ok() {}
    }

    /// Writes into its standard input.
    ///
    /// # Panics
    /// If it has none, or has closed it.
    pub fn write(&mut self, text: &str) {
        self.child.stdin.as_mut().expect("an open input").write_all(text.as_bytes()).expect("it reads");
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Takes its standard error.
    ///
    /// # Panics
    /// If it is no pipe, or was taken.
    pub fn take_errors(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.child.stderr.take().expect("a pipe was asked for"))
    }

    /// Returns its process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its child processes; empty if the kernel does not list them.
    #[must_use]
    pub fn children(&self) -> Vec<String> {
        let id = self.id();
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it has exited.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process runs");
    }

    /// Waits for its end; returns the remaining lines and its exit status.
    ///
    /// # Panics
    /// If the watchdog ends the wait for a line, or for the end.
    pub fn finish(mut self) -> (Vec<Value>, ExitStatus) {
        let lines = std::iter::from_fn(|| self.next_line()).collect();
        let end = format!("the end of `{}`", self.shown);
        (lines, wait_until(end, || self.child.try_wait().expect("a child can be waited for")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
