//! The page: npm packages and the build of `web/` into `web/dist`, each only if older than its sources.
//!
//! The sources also include the guide to losses, which the page contains.

use crate::setup::{self, Need, run_said};
use crate::workspace::root;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Last file that npm writes when it installs; if older than the lock file, the packages are outdated.
const INSTALLED: &str = "node_modules/.package-lock.json";
/// File that the build writes.
const BUILT: &str = "dist/index.html";
/// Folder outside `web/` that is part of the page.
const GUIDE: &str = "docs/guide/losses.md";
/// Folders of `web/` that are not part of the page.
const NOT_IN_THE_PAGE: &[&str] = &["node_modules", "dist", "dev", "test", "tests"];

/// Builds the page on request.
pub(crate) fn run() -> anyhow::Result<()> {
    let preparation = setup::prepare(&[Need::Page]);
    if let Some(obstacle) = preparation.obstacle(&[Need::Page]) {
        bail!("cannot build the page: {obstacle}");
    }
    eprintln!("the page is in web/dist; monitor servers built from now on contain it");
    Ok(())
}

/// Returns a command that runs npm in `web/`.
pub(crate) fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(web()).env("NO_COLOR", "1");
    command
}

/// Installs the page's packages, unless they are those of the lock file.
pub(crate) fn install() -> anyhow::Result<()> {
    let lock = modified(&web().join("package-lock.json")).context("web/package-lock.json does not exist")?;
    if modified(&web().join(INSTALLED)).is_some_and(|installed| installed >= lock) {
        return Ok(());
    }
    run_said(&mut npm(&["ci", "--no-audit", "--no-fund"]), "installing the page's npm packages")
}

/// Builds the page, unless it is newer than all of its sources.
pub(crate) fn build() -> anyhow::Result<()> {
    let newest = newest_source(&web())?
        .max(modified(&root().join(GUIDE)).with_context(|| format!("{GUIDE} does not exist"))?);
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

/// Returns the modification time of the newest source of the page.
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
