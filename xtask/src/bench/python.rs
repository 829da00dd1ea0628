//! `cargo xtask bench python`: the package for Python compared with its peers from PyPI, each with the same NumPy.
//!
//! The measurement is in `instruments/peers/python`. The package is assembled below `target/`, optimised, so that neither a
//! development build in `python/` nor an installed wheel is measured by mistake.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::setup::{self, BENCH, Need};
use crate::workspace::{cargo, root};

/// Name of the measurement.
pub(super) const NAME: &str = "python";

/// Folder in which the package is assembled.
const SITE: &str = "target/bench-python/site";

/// Prepares the package; returns the command to run.
pub(super) fn prepared(target_directory: &Path) -> anyhow::Result<Command> {
    if let Some(obstacle) = setup::prepare(&[Need::PythonBench]).obstacle(&[Need::PythonBench]) {
        bail!("cannot measure from Python: {obstacle}");
    }
    let mut build = cargo();
    build.args(["build", "--release", "--package", "tallycast-python", "--target-dir"]).arg(target_directory);
    setup::run_said(&mut build, "building the Python module (the first time takes minutes)")?;
    let site = put_together(&target_directory.join("release/lib_core.so"))?;
    let mut command = BENCH.python(&["instruments/peers/python/main.py"]);
    command.env("PYTHONPATH", site);
    Ok(command)
}

/// Copies the sources of the package and its module into one folder, as in a wheel.
fn put_together(module: &Path) -> anyhow::Result<PathBuf> {
    let site = root().join(SITE);
    let package = site.join("tallycast");
    if package.exists() {
        fs::remove_dir_all(&package).context("cannot remove the previous measurement's package")?;
    }
    copy_sources(&root().join("python/tallycast"), &package)?;
    let place = package.join("_core.abi3.so");
    fs::copy(module, &place).with_context(|| format!("cannot copy {}", module.display()))?;
    Ok(site)
}

fn copy_sources(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let name = path.file_name().expect("an entry has a name");
        if path.is_dir() {
            if name != "__pycache__" {
                copy_sources(&path, &to.join(name))?;
            }
        } else if path.extension().is_some_and(|ending| ending == "py") {
            fs::copy(&path, to.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}
