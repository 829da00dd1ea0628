//! Builds of the command: the one under test, and one of an earlier version.

use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

use crate::lan::Host;
use crate::process::{Command, binary};

/// The variable that names the command of an earlier version.
const EARLIER: &str = "TALLYCAST_EARLIER";

/// One build of `tallycast`.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    is_earlier: bool,
}

impl Program {
    /// Returns the command under test.
    #[must_use]
    pub fn under_test() -> Self {
        Self { path: binary(), is_earlier: false }
    }

    /// Returns the command of an earlier version, or reports why there is none and returns `None`.
    ///
    /// # Panics
    /// If it is named and does not exist.
    #[must_use]
    pub fn earlier_or_skip() -> Option<Self> {
        let Some(path) = std::env::var_os(EARLIER).map(PathBuf::from) else {
            println!("SKIPPED: {EARLIER} names no earlier version: cargo xtask test --nightly versions");
            return None;
        };
        assert!(path.exists(), "{EARLIER}: {} is missing", path.display());
        Some(Self { path, is_earlier: true })
    }

    /// Starts it with these arguments on a host.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(&self, host: &Host, arguments: &[&str]) -> Command {
        Command::start_program(host, &self.path, arguments)
    }

    /// Runs it to its end on a host.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn run(&self, host: &Host, arguments: &[&str]) -> Output {
        let program = self.path.to_str().expect("a path of plain text");
        host.command(program).args(arguments).output().expect("a program that is there can be run")
    }

    /// Runs it to its end on a host; returns its lines of JSON, and its exit status.
    ///
    /// # Panics
    /// If it cannot be started, or prints something else.
    #[must_use]
    pub fn ask(&self, host: &Host, arguments: &[&str]) -> (Vec<Value>, Option<i32>) {
        let output = self.run(host, arguments);
        let text = String::from_utf8(output.stdout).expect("what is said is text");
        let said = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
        (said.collect(), output.status.code())
    }

    /// Returns whether it has this verb.
    #[must_use]
    pub fn knows(&self, host: &Host, verb: &[&str]) -> bool {
        self.run(host, &[verb, &["--help"]].concat()).status.success()
    }
}

/// Shows the version.
impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_earlier { "the earlier version" } else { "this version" })
    }
}
