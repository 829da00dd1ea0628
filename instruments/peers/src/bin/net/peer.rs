//! Other programs as contestants: a server on the reader's side, a client on the source's.
//!
//! They count their own losses; a run without a report counts as failed. If one is not installed, the bench prints
//! how to install it, and measures the rest.

use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use peers::place::{Place, Side};

use crate::standing::Standing;

/// Offset of a peer server's port: the place's own port may be in use by another system.
const PORT_ABOVE: u16 = 1;

/// A server that runs until it is dropped.
pub(crate) struct Server(Child);

/// Returns whether a program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok()
}

/// Returns the port of a peer's server.
pub(crate) const fn port(place: &Place) -> u16 {
    place.port.wrapping_add(PORT_ABOVE)
}

/// Returns a command that runs a program on one side, on that side's processor.
pub(crate) fn command(place: &Place, side: Side, program: &str) -> Result<Command> {
    let standing = if side == Side::Source { Standing::Source } else { Standing::Reader { index: 0 } };
    let mut command = place.command_of(side, "taskset");
    command.args(["--cpu-list", &standing.processor()?.to_string(), program]);
    command.stdin(Stdio::null());
    Ok(command)
}

impl Server {
    /// Starts a server; returns once it has printed that it is ready.
    pub(crate) fn start(mut command: Command, ready: &str) -> Result<Self> {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut server = Self(child.context("cannot start a peer's server")?);
        let mut lines = BufReader::new(server.0.stdout.take().context("its output is a pipe")?);
        let mut line = String::new();
        while !line.contains(ready) {
            line.clear();
            ensure!(lines.read_line(&mut line)? > 0, "a peer's server exited before it printed `{ready}`");
        }
        // Its later output is not needed, but must be read, or it would block.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Ok(server)
    }

    /// Starts a server that prints nothing when it is ready; `/proc/net` shows whether it listens.
    pub(crate) fn start_silent(place: &Place, mut command: Command) -> Result<Self> {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Self(child.context("cannot start a peer's server")?);
        let suffix = format!(":{:04X}", port(place));
        for _ in 0..MOST_POLLS {
            let tables = format!("/proc/{}/net/", server.0.id());
            let mut sockets = String::new();
            for table in ["tcp", "tcp6"] {
                let path = format!("{tables}{table}");
                std::fs::File::open(&path)
                    .and_then(|mut file| file.read_to_string(&mut sockets))
                    .with_context(|| format!("cannot read {path}"))?;
            }
            let local = |line: &str| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&suffix));
            if sockets.lines().any(local) {
                return Ok(server);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        anyhow::bail!("a peer's server does not listen on port {}", port(place))
    }
}

/// Number of checks whether a server listens, and the pause between them.
const MOST_POLLS: u32 = 1_000;
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(2);

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a client to its end; returns its output.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let output = command.output().context("cannot start a peer's client")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "a peer's client exited with {}: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(said)
}
