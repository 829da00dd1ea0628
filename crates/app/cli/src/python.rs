//! The Python that has the package `tallycast`: bridges, readers of files and exports run in it.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Variable that names the interpreter; the default is the one next to this command, then the one in `PATH`.
const PYTHON_VARIABLE: &str = "TALLYCAST_PYTHON";

/// An interpreter that has the package.
pub(crate) struct Python(PathBuf);

impl Python {
    /// Finds the interpreter.
    ///
    /// # Errors
    /// There is none, or it lacks the package; the text says what to install for `purpose`, such as "the bridges".
    pub(crate) fn find(purpose: &str) -> anyhow::Result<Self> {
        let python = interpreter();
        check_package(&python, purpose)?;
        Ok(Self(python))
    }

    /// Returns a command that runs a module of the package.
    pub(crate) fn module(&self, name: &str) -> Command {
        let mut command = Command::new(&self.0);
        command.arg("-m").arg(name);
        if let Ok(own) = std::env::current_exe() {
            command.env("TALLYCAST_BIN", own);
        }
        command
    }
}

/// Returns the interpreter that most likely has the package: a wheel installs this command next to it.
fn interpreter() -> PathBuf {
    let named = std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
    let beside = || {
        let command = std::env::current_exe().ok()?;
        Some(command.with_file_name("python3")).filter(|python| python.is_file())
    };
    named.or_else(beside).unwrap_or_else(|| PathBuf::from("python3"))
}

fn check_package(python: &Path, purpose: &str) -> anyhow::Result<()> {
    const IS_MISSING: &str =
        "import importlib.util, sys; sys.exit(importlib.util.find_spec('tallycast') is None)";
    let found = Command::new(python).args(["-c", IS_MISSING]).stdin(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => anyhow::bail!(
            "{python} does not find the package `tallycast`, which contains {purpose}\n\
             build its wheel in a checkout (cargo xtask wheel) and install it: {python} -m pip install target/wheels/tallycast-*.whl; \
             or name another interpreter with {PYTHON_VARIABLE}",
            python = python.display()
        ),
        Err(error) => anyhow::bail!(
            "{} cannot be run: {error}\ninstall Python 3.10 or newer, or name an interpreter with {PYTHON_VARIABLE}",
            python.display()
        ),
    }
}

/// Standard output of a child, which is ended with it.
pub(crate) struct Output {
    child: Child,
    output: ChildStdout,
}

impl Output {
    /// Starts a child in a process group of its own: what ends this process by Ctrl-C leaves it to us.
    pub(crate) fn of(command: &mut Command) -> std::io::Result<Self> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let output = child.stdout.take().expect("it is piped");
        Ok(Self { child, output })
    }
}

impl Read for Output {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.output.read(buffer)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // It may have ended; there is nothing to do if it cannot be ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
