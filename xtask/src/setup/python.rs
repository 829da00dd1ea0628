//! The Python that reads the archive in tests: a virtual environment below `target/`, made again when its list changes.

use super::run_said;
use crate::workspace::root;
use std::path::PathBuf;
use std::process::Command;

/// The packages, one a line, with versions.
const REQUIREMENTS: &str = "tests/archive-readers/requirements.txt";
const ENVIRONMENT: &str = "target/readers-venv";

/// The interpreter of the environment.
pub(crate) fn interpreter() -> PathBuf {
    root().join(ENVIRONMENT).join("bin/python")
}

/// Makes the environment, unless it was made from the same list.
pub(super) fn prepare() -> anyhow::Result<()> {
    let wanted = std::fs::read_to_string(root().join(REQUIREMENTS))?;
    // Written last, so that an interrupted installation is begun again.
    let stamp = root().join(ENVIRONMENT).join("installed-requirements.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear", ENVIRONMENT]).current_dir(root());
    run_said(&mut make, "making a virtual environment for the archive's readers")?;
    let mut install = Command::new(interpreter());
    install
        .args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", REQUIREMENTS])
        .current_dir(root());
    run_said(&mut install, "installing the archive's readers from PyPI")?;
    std::fs::write(stamp, wanted)?;
    Ok(())
}
