//! The command under test: where it is, how it starts on a host, and its events.

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use support::{Running, wait_until};

use crate::lan::Host;

/// A running `tallycast`; dropping it kills the process.
pub struct Command(Running);

/// Returns the path of the command under test.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn binary() -> PathBuf {
    let built = std::env::var_os("TALLYCAST_BIN").map(PathBuf::from).unwrap_or_else(|| {
        let program = std::env::current_exe().expect("whoever runs is a program");
        // Programs are in target/PROFILE, tests in target/PROFILE/deps.
        let folder = program.parent().expect("a program lies in a folder");
        let profile = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
        profile.join("tallycast")
    });
    assert!(built.exists(), "{} is missing: cargo build -p tallycast-cli", built.display());
    built
}

/// Returns the path of one of the library's examples.
fn example(name: &str) -> PathBuf {
    let built = binary().with_file_name("examples").join(name);
    assert!(built.exists(), "{} is missing: cargo build -p tallycast --examples", built.display());
    built
}

impl Command {
    /// Starts one of the library's examples on a host, on the host's bus; it reads streams from its join point on.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start_example(host: &Host, name: &str) -> Self {
        let mut command = host.command(example(name).to_str().expect("a path of plain text"));
        command.env("TALLYCAST_BUS", host.bus_from_now(""));
        Self::spawn(command, &[])
    }

    /// Starts `tallycast` with these arguments on a host.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(host: &Host, arguments: &[&str]) -> Self {
        Self::start_program(host, &binary(), arguments)
    }

    /// Starts a given build of `tallycast` on a host.
    pub(crate) fn start_program(host: &Host, program: &Path, arguments: &[&str]) -> Self {
        Self::spawn(host.command(program.to_str().expect("a path of plain text")), arguments)
    }

    /// Starts `tallycast` as a user without any privilege, in nobody's group; `None`, with a report, if this is not
    /// possible here.
    #[must_use]
    pub fn start_unprivileged(host: &Host, arguments: &[&str]) -> Option<Self> {
        let binary = binary();
        let unprivileged = || host.unprivileged_command(binary.to_str().expect("a path of plain text"));
        if !unprivileged().arg("--version").output().is_ok_and(|output| output.status.success()) {
            println!("SKIPPED: there is no setpriv, or nobody may not reach {}", binary.display());
            return None;
        }
        Some(Self::spawn(unprivileged(), arguments))
    }

    /// Starts `tallycast` on a host, with its standard error redirected to a file.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start_saying_into(host: &Host, arguments: &[&str], errors: File) -> Self {
        let mut command = host.command(binary().to_str().expect("a path of plain text"));
        command.stderr(errors);
        Self::spawn(command, arguments)
    }

    /// Starts `tallycast` with these arguments on this machine itself: for scenes with one host only.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start_here(arguments: &[&str]) -> Self {
        Self::spawn(std::process::Command::new(binary()), arguments)
    }

    fn spawn(mut command: std::process::Command, arguments: &[&str]) -> Self {
        command.args(arguments).stdin(Stdio::null());
        let shown = format!("{command:?}");
        Self(Running::start(&mut command, shown, |_| ()))
    }

    /// Waits until a reader has read `count` blocks from now on.
    ///
    /// # Panics
    /// If they do not arrive before the watchdog.
    pub fn wait_for_blocks(&self, count: usize) {
        self.skip_to_now();
        let mut seen = 0;
        self.wait_for("enough blocks", |line| {
            seen += usize::from(line["event"] == "block");
            seen >= count
        });
    }

    /// Waits until a reader receives the sample with this index, or a later one.
    ///
    /// # Panics
    /// If it does not arrive before the watchdog.
    pub fn wait_for_sample(&self, index: u64) {
        self.wait_for(&format!("sample {index}"), |line| {
            line["event"] == "block" && line["first_index"].as_u64().is_some_and(|first| first >= index)
        });
    }

    /// Returns the index of the next sample a reader receives.
    ///
    /// # Panics
    /// If none arrives before the watchdog.
    #[must_use]
    pub fn sample_now(&self) -> u64 {
        self.skip_to_now();
        self.wait_for_event("block")["first_index"].as_u64().expect("a block begins at a sample")
    }

    /// Waits for the next event of this kind.
    pub fn wait_for_event(&self, kind: &str) -> Value {
        self.wait_for(kind, |line| line["event"] == kind)
    }

    /// Makes a change while all threads of the process are stopped.
    ///
    /// # Panics
    /// If the process has exited, or does not stop before the watchdog.
    pub fn while_stopped(&self, change: impl FnOnce()) {
        self.signal(Signal::STOP);
        wait_until("all threads to stop", || self.has_stopped().then_some(()));
        change();
        self.signal(Signal::CONT);
    }

    /// Returns whether all threads are in the state `T` (stopped).
    fn has_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id())).expect("the process runs");
        let mut states =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        // The state is the field after the name in brackets (proc_pid_stat(5)).
        states.all(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
    }

    /// Interrupts the process, as Ctrl-C does, and returns the remaining lines and the exit status.
    ///
    /// # Panics
    /// If it does not end before the watchdog.
    pub fn interrupt(self) -> (Vec<Value>, ExitStatus) {
        self.signal(Signal::INT);
        self.finish()
    }

    /// Waits until the process exits and returns the remaining lines and the exit status.
    ///
    /// # Panics
    /// If it does not end before the watchdog.
    pub fn finish(self) -> (Vec<Value>, ExitStatus) {
        self.0.finish()
    }
}

impl Deref for Command {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.0
    }
}
