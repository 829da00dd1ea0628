//! libudt's side of the tests: builds its program, starts it, and reads its output.

mod ours;
mod relay;

use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

pub use ours::{MEGABYTE, port, receive, send};
pub use relay::Relay;

/// A running peer; dropping it ends it.
pub struct Peer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Returns the byte at an offset of every stream.
#[must_use]
pub const fn byte_at(place: u64) -> u8 {
    let mixed = (place ^ (place >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.to_be_bytes()[0]
}

/// Returns `count` bytes of every stream from an offset on.
#[must_use]
pub fn bytes_from(place: u64, count: u64) -> Vec<u8> {
    (place..place + count).map(byte_at).collect()
}

/// Returns the peer's program, built once in `folder`; `None`, with a report, if there is no libudt or no compiler.
pub fn program(folder: &str) -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| build(folder)).as_ref()
}

fn build(folder: &str) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/peer/udt_peer.cpp");
    let program = PathBuf::from(folder).join("udt_peer");
    let output = Command::new("c++")
        .args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-o"])
        .arg(&program)
        .args([source, "-ludt", "-lpthread"])
        .output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            assert!(why.contains("udt/udt.h"), "the peer does not build:\n{why}");
            println!("SKIPPED: libudt is missing (Debian package libudt-dev)");
            None
        }
        Err(error) => {
            println!("SKIPPED: there is no C++ compiler: {error}");
            None
        }
    }
}

impl Peer {
    /// Starts the peer with these arguments.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(program: &PathBuf, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer was just built");
        let lines = BufReader::new(child.stdout.take().expect("a pipe was asked for")).lines();
        Self { child, lines }
    }

    /// Waits for the peer's next line.
    ///
    /// # Panics
    /// If it exits without one.
    pub fn line(&mut self) -> String {
        self.lines.next().expect("the peer says something").expect("the peer says text")
    }

    /// Waits for the port of a listening peer.
    ///
    /// # Panics
    /// If it prints anything else.
    pub fn port(&mut self) -> u16 {
        let line = self.line();
        line.strip_prefix("port ").and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    }

    /// Kills the peer.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}
