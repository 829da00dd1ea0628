//! Another program that runs beside a measurement.

use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::time::clock_getcpuclockid;
use rustix::process::{Pid, Signal, kill_process};

/// Maximum number of checks whether a server listens.
const MOST_POLLS: u32 = 1_000;
/// Interval between these checks: a server that prints nothing does not announce that it is ready.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A program that runs until this is dropped.
pub struct Server(Child);

impl Server {
    /// Starts a program; returns once it has printed a line that contains `ready`, with that line.
    ///
    /// # Errors
    /// If it cannot be started, or exits before.
    pub fn start(command: &mut Command, ready: &str) -> Result<(Self, String)> {
        let mut server = Self::spawn(command.stdout(Stdio::piped()))?;
        let mut lines = BufReader::new(server.0.stdout.take().context("its output is a pipe")?);
        let mut line = String::new();
        while !line.contains(ready) {
            line.clear();
            ensure!(lines.read_line(&mut line)? > 0, "a server exited before it printed `{ready}`");
        }
        // Its later output is not needed, but must be read, or it would block.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Ok((server, line))
    }

    /// Starts a program that prints nothing when it is ready; `/proc/net` shows whether it listens.
    ///
    /// # Errors
    /// If it cannot be started, or does not listen on the port.
    pub fn start_silent(command: &mut Command, port: u16) -> Result<Self> {
        let server = Self::spawn(command.stdout(Stdio::null()))?;
        let suffix = format!(":{port:04X}");
        let local = |line: &str| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&suffix));
        for _ in 0..MOST_POLLS {
            for table in ["tcp", "tcp6"] {
                let path = format!("/proc/{}/net/{table}", server.0.id());
                let sockets =
                    std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
                if sockets.lines().any(local) {
                    return Ok(server);
                }
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        bail!("a server does not listen on port {port}")
    }

    /// Returns the processor time that all threads of its process have used so far, those that have ended too.
    ///
    /// # Errors
    /// If the system has no such clock.
    ///
    /// Source: `clock_getcpuclockid(3)`.
    pub fn processor_time(&self) -> Result<Duration> {
        let clock = clock_getcpuclockid(nix::unistd::Pid::from_raw(self.0.id().cast_signed()))?;
        Ok(clock.now()?.into())
    }

    fn spawn(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("cannot start {}", command.get_program().display()))?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An orderly end removes the files that a program has in shared memory. An error means that it has exited.
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        let _ = self.0.wait();
    }
}
