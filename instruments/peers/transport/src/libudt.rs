//! Debian's libudt, through the program of the interoperation tests.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use peers::process;

use crate::Task;
use crate::meter::Told;

/// Builds the program; returns false if there is no libudt or no compiler.
pub(crate) fn build() -> Result<bool> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/interop/peer/udt_peer.cpp");
    let output = Command::new("c++")
        .args(["-std=c++17", "-O2", "-o"])
        .arg(program()?)
        .args([source, "-ludt", "-lpthread"])
        .output();
    let Ok(output) = output else { return Ok(false) };
    if output.status.success() {
        return Ok(true);
    }
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(why.contains("udt/udt.h"), "cannot build libudt's peer:\n{why}");
    Ok(false)
}

/// Returns the path of the peer's program, in the folder of this one.
fn program() -> Result<PathBuf> {
    Ok(process::this_program()?.with_file_name("udt_peer"))
}

pub(crate) fn send(task: &Task) -> Result<Told> {
    side(task, "connect", "blast")
}

pub(crate) fn receive(task: &Task) -> Result<Told> {
    side(task, "listen", "drain")
}

/// Runs one side of a run with libudt.
fn side(task: &Task, mode: &str, action: &str) -> Result<Told> {
    let (ip, port) = (task.address.ip().to_string(), task.address.port().to_string());
    // Its sockets' buffers are small, and hold few larger packets.
    let packet_bytes = task.mtu.min(9_000).to_string();
    let milliseconds = format!("{:.0}", task.seconds * 1e3);
    let mut child = Command::new(program()?)
        .args([mode, &ip, &port, "stream", action, &packet_bytes, &milliseconds])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut figures = None;
    for line in BufReader::new(child.stdout.take().context("a pipe was asked for")?).lines() {
        let line = line?;
        if line.starts_with("port") {
            process::tell("ready", &())?;
        } else if let Some(told) = line.strip_prefix("figures ") {
            let values: Vec<f64> = told.split(' ').map(str::parse).collect::<Result<_, _>>()?;
            let [bytes, seconds, cpu_seconds, again] = values[..] else {
                bail!("unexpected output of libudt's peer: {line}")
            };
            figures = Some(Told { bytes, seconds, cpu_seconds, again });
        } else {
            ensure!(!line.starts_with("failed"), "libudt's peer {line}");
        }
    }
    child.wait()?;
    figures.context("libudt's peer printed no figures")
}
