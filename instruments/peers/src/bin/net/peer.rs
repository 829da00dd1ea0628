//! Other programs as contestants: a server on the reader's side, a client on the source's.
//!
//! They count their own losses; a run without a report counts as failed. If one is not installed, the bench prints
//! how to install it, and measures the rest.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use peers::place::{Place, Side};
use peers::{Bench, Standing};

/// Offset of a peer server's port: the place's own port may be in use by another system.
const PORT_ABOVE: u16 = 1;

/// Returns whether a peer is installed, and notes how to install a missing one.
pub(crate) fn is_there(bench: &Bench, program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if asked.is_err() {
        bench.note(&format!(
            "{program}: not measured: install it with: apt-get install --no-install-recommends {program}"
        ));
    }
    asked.is_ok()
}

/// Returns the port of a peer's server.
pub(crate) const fn port(place: &Place) -> u16 {
    place.port.wrapping_add(PORT_ABOVE)
}

/// Returns a command that runs a program on one side, on that side's processor.
pub(crate) fn command(place: &Place, side: Side, program: &str) -> Result<Command> {
    let standing = if side == Side::Source { Standing::Source } else { Standing::Reader { index: 0 } };
    let processor = standing.processor()?.context("a side has a processor")?;
    let mut command = place.command(side, "taskset");
    command.args(["--cpu-list", &processor.to_string(), program]).stdin(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// Runs a client to its end; returns its output.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let output = command.stderr(Stdio::piped()).output().context("cannot start a peer's client")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "a peer's client exited with {}: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(said)
}
