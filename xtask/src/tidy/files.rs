//! Files that the rules check: those that git tracks, and those that it would track once added.
//!
//! Without git (a source archive) the folders are walked instead, and every file counts as tracked.

use crate::workspace::root;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Maximum size of a text file: larger files are data.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Folders that are never part of the sources, for the walk without git.
const OUTPUT_FOLDERS: &[&str] = &[".git", "target", "node_modules", "dist"];

/// A file of the repository.
pub(super) struct File {
    /// Relative to the root, with forward slashes.
    pub(super) path: String,
    /// The contents, unless too large or not UTF-8.
    pub(super) text: Option<String>,
    /// True if git tracks it already; a new file is work in progress.
    pub(super) tracked: bool,
}

/// Every file of the repository, by path.
pub(super) fn list() -> anyhow::Result<Vec<File>> {
    let (paths, tracked) = match (git(&["--cached", "--others", "--exclude-standard"]), git(&["--cached"])) {
        (Some(all), Some(tracked)) => (all, tracked),
        _ => {
            let all = walked()?;
            (all.clone(), all)
        }
    };
    let present = paths.into_iter().filter(|path| root().join(path).is_file());
    Ok(present.map(|path| File { text: text(&path), tracked: tracked.contains(&path), path }).collect())
}

fn git(options: &[&str]) -> Option<BTreeSet<String>> {
    let output =
        Command::new("git").args(["ls-files", "-z"]).args(options).current_dir(root()).output().ok()?;
    let listing = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn walked() -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if !entry.file_type()?.is_dir() {
                found.insert(crate::workspace::relative(&entry.path()));
            } else if !OUTPUT_FOLDERS.iter().any(|output| name == *output) {
                folders.push(entry.path());
            }
        }
    }
    Ok(found)
}

fn text(path: &str) -> Option<String> {
    let path = root().join(Path::new(path));
    let small = std::fs::metadata(&path).ok()?.len() <= MAX_TEXT_BYTES;
    if small { std::fs::read_to_string(path).ok() } else { None }
}
