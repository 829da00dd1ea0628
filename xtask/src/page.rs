//! The page: npm packages and the build of `web/` into `web/dist`, each only when older than what it is made from.
//!
//! Beside `web/` that is the guide to losses, which the page carries.

use crate::setup::{self, Need, run_said};
use crate::workspace::root;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// What npm writes last when it installs; older than the lock file, it speaks of an older list.
const INSTALLED: &str = "node_modules/.package-lock.json";
/// What the build writes.
const BUILT: &str = "dist/index.html";
/// Of what lies outside `web/`, the page is made from this folder.
const GUIDE: &str = "docs/operations";
/// Folders of `web/` that do not go into the page.
const NOT_IN_THE_PAGE: &[&str] = &["node_modules", "dist", "dev", "test", "tests"];

/// Builds the page because somebody asked for it.
pub(crate) fn run() -> anyhow::Result<()> {
    let preparation = setup::prepare(&[Need::Page]);
    if let Some(obstacle) = preparation.obstacle(&[Need::Page]) {
        bail!("the page could not be built: {obstacle}");
    }
    eprintln!("the page is in web/dist; a monitor server built from now on carries it");
    Ok(())
}

/// A command that runs npm in `web/`.
pub(crate) fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(web()).env("NO_COLOR", "1");
    command
}

/// Installs the page's packages, unless they are those of the lock file.
pub(crate) fn install() -> anyhow::Result<()> {
    let lock = modified(&web().join("package-lock.json")).context("web/package-lock.json is not there")?;
    if modified(&web().join(INSTALLED)).is_some_and(|installed| installed >= lock) {
        return Ok(());
    }
    run_said(&mut npm(&["ci", "--no-audit", "--no-fund"]), "installing the page's npm packages")
}

/// Builds the page, unless it is newer than all it is made from.
pub(crate) fn build() -> anyhow::Result<()> {
    let newest = newest_source(&web())?.max(newest_source(&root().join(GUIDE))?);
    if modified(&web().join(BUILT)).is_some_and(|built| built >= newest) {
        return Ok(());
    }
    run_said(&mut npm(&["run", "build"]), "building the page")
}

fn web() -> PathBuf {
    root().join("web")
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

/// When the newest file that goes into the page was changed.
fn newest_source(folder: &Path) -> anyhow::Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in folder.read_dir()? {
        let entry = entry?;
        let name = entry.file_name();
        let ours =
            !name.to_string_lossy().starts_with('.') && !NOT_IN_THE_PAGE.iter().any(|other| name == *other);
        if ours && entry.file_type()?.is_dir() {
            newest = newest.max(newest_source(&entry.path())?);
        } else if ours {
            newest = newest.max(entry.metadata()?.modified()?);
        }
    }
    Ok(newest)
}
