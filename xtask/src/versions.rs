//! `cargo xtask versions`: this version together with earlier ones, each built from this repository's history.
//!
//! `tests/versions.json` lists them with the reason for each. Builds stay below `target/versions`: a commit's
//! command does not change, so the next run only plays the scenes of `tests/e2e/tests/versions.rs`. Golden files of
//! each version must be unchanged since it landed: tests of the current code read them, and would not notice a file
//! rewritten with the code.

use crate::Verdict;
use crate::suites::{self, Scope, Targets};
use crate::workspace::{Metadata, cargo, root};
use anyhow::{Context, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File with the list of versions.
const LIST: &str = "tests/versions.json";
/// Folders of golden files.
const GOLDEN: [&str; 2] = ["docs/protocol/golden", "crates/app/archive/tests/golden"];
/// Length of a commit's name in a folder name.
const SHORT: usize = 12;

/// A version that has landed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Version {
    commit: String,
    /// Purpose of testing this version.
    why: String,
    /// Scenes that it cannot play, each with the reason.
    #[serde(default)]
    without: BTreeMap<String, String>,
}

/// Builds each version that is not built yet and plays the scenes with it; one that this clone lacks is skipped.
pub(crate) fn run() -> anyhow::Result<Verdict> {
    let metadata = Metadata::load()?;
    let folder = metadata.target_directory.join("versions");
    std::fs::create_dir_all(&folder)?;
    let mut failed = Vec::new();
    for version in list()? {
        println!("beside {}: {}", version.short(), version.why);
        if !version.is_here() {
            skip(&format!("this clone has no commit {}: git fetch --unshallow", version.short()));
            continue;
        }
        let rewritten = version.rewritten()?;
        if rewritten.is_empty() {
            println!("1 passed, 0 failed, 0 skipped");
        } else {
            failed.push(format!("golden files of {} were changed: {rewritten}", version.short()));
        }
        if !version.play(&metadata, &folder)? {
            failed.push(format!("scenes beside {}", version.short()));
        }
    }
    failed.iter().for_each(|what| println!("FAILED: {what}"));
    Ok(if failed.is_empty() { Verdict::Fine } else { Verdict::FoundSomething })
}

/// Reports a skip, as a test does; its tool counts it as passed, and the report moves it.
fn skip(reason: &str) {
    println!("SKIPPED: {reason}");
    println!("1 passed, 0 failed, 0 skipped");
}

fn list() -> anyhow::Result<Vec<Version>> {
    let text = std::fs::read(root().join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{LIST} is not a list of commits, each with its reason"))
}

impl Version {
    fn short(&self) -> &str {
        self.commit.get(..SHORT).unwrap_or(&self.commit)
    }

    fn is_here(&self) -> bool {
        let ask = ["cat-file", "-e", &format!("{}^{{commit}}", self.commit)];
        git().args(ask).output().is_ok_and(|answer| answer.status.success())
    }

    /// Returns the golden files that differ from this version's, one per line.
    fn rewritten(&self) -> anyhow::Result<String> {
        let changed = ["diff", "--name-only", "--no-renames", "--diff-filter=a", &self.commit, "--"];
        let answer = git().args(changed).args(GOLDEN).output().context("cannot run git")?;
        ensure!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr).trim());
        Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    }

    /// Plays the scenes with this version; returns whether all passed.
    fn play(&self, metadata: &Metadata, folder: &Path) -> anyhow::Result<bool> {
        let command = self.build(folder)?;
        let mut arguments = vec!["--nocapture", "--test-threads=1"];
        for (scene, reason) in &self.without {
            skip(reason);
            arguments.extend(["--skip", scene]);
        }
        let mut scenes =
            suites::tests(metadata, Scope::Everything, Targets::Named(&["versions"]), &arguments);
        let status = scenes.env("TALLYCAST_EARLIER", command).status();
        Ok(status.context("cannot start cargo")?.success())
    }

    /// Returns the command of this version, built from a temporary working tree.
    fn build(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let command = folder.join(format!("tallycast-{}", self.short()));
        if command.is_file() {
            return Ok(command);
        }
        // Versions share a build folder, since most of their dependencies are the same. Cargo compares modification
        // times: a new tree is newer than the build of another one.
        let (tree, building) = (folder.join(self.short()), folder.join("target"));
        remove(&tree)?;
        succeeds(
            git().args(["worktree", "add", "--quiet", "--detach"]).args([&tree, Path::new(&self.commit)]),
        )?;
        let mut build = cargo();
        build
            .args(["build", "--package", "tallycast-cli", "--bin", "tallycast", "--target-dir"])
            .arg(&building);
        let built = succeeds(build.current_dir(&tree));
        remove(&tree)?;
        built?;
        let made = building.join("debug/tallycast");
        std::fs::rename(&made, &command).with_context(|| format!("{} was not built", made.display()))?;
        Ok(command)
    }
}

/// Removes a working tree, also an incomplete one or one that git no longer knows.
fn remove(tree: &Path) -> anyhow::Result<()> {
    if tree.exists() {
        std::fs::remove_dir_all(tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    succeeds(git().args(["worktree", "prune"]))
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(root());
    git
}

fn succeeds(command: &mut Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot run {shown}"))?;
    ensure!(status.success(), "{shown} exited with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_named_in_full_and_says_why_it_is_there() {
        let versions = list().unwrap();
        assert!(!versions.is_empty());
        for version in versions {
            let is_whole =
                version.commit.len() == 40 && version.commit.bytes().all(|it| it.is_ascii_hexdigit());
            assert!(is_whole && !version.why.is_empty(), "{version:?}");
        }
    }
}
