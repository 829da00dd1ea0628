//! Virtual environments of this tool below `target/`, each rebuilt when its list of packages changes.

use super::run_said;
use crate::workspace::root;
use std::path::PathBuf;
use std::process::Command;

/// A virtual environment and its packages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment {
    /// Folder, relative to the root.
    folder: &'static str,
    /// File of the packages, one per line, with versions.
    requirements: &'static str,
    /// Description for the user.
    about: &'static str,
}

/// Reads the archive with third-party tools.
pub(crate) const READERS: Environment = Environment {
    folder: "target/readers-venv",
    requirements: "tests/archive-readers/requirements.txt",
    about: "the archive's readers",
};

/// Builds the wheel.
pub(crate) const WHEEL: Environment = Environment {
    folder: "target/wheel-venv",
    requirements: "python/requirements-build.txt",
    about: "what builds the wheel",
};

/// Tests the package, with its optional dependencies.
pub(crate) const PACKAGE: Environment = Environment {
    folder: "target/python-venv",
    requirements: "python/requirements-test.txt",
    about: "what tests the Python package",
};

/// Compares the package with its peers.
pub(crate) const BENCH: Environment = Environment {
    folder: "target/bench-python/venv",
    requirements: "instruments/peers/python/requirements.txt",
    about: "what Python is measured with",
};

impl Environment {
    /// Returns the interpreter of the environment.
    pub(crate) fn interpreter(self) -> PathBuf {
        root().join(self.folder).join("bin/python")
    }

    /// Returns a command of the environment's Python, at the root.
    pub(crate) fn python(self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.interpreter());
        command.args(arguments).current_dir(root());
        command
    }

    /// Creates the environment, unless it was created from the same list.
    pub(super) fn prepare(self) -> anyhow::Result<()> {
        let wanted = std::fs::read_to_string(root().join(self.requirements))?;
        // Written last, so that an interrupted installation is repeated.
        let stamp = root().join(self.folder).join("installed-requirements.txt");
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear", self.folder]).current_dir(root());
        run_said(&mut make, &format!("making a virtual environment for {}", self.about))?;
        let install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", self.requirements];
        run_said(&mut self.python(&install), &format!("installing {} from PyPI", self.about))?;
        std::fs::write(stamp, wanted)?;
        Ok(())
    }
}
