//! Names that state a subject: no crate, module or folder for miscellaneous code.

use super::Offence;
use crate::workspace::Package;

/// Names of catch-alls.
const DRAWERS: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// Extensions of source files; other files may have any name.
const SOURCES: &[&str] = &["rs", "ts", "js", "py", "css"];

/// Checks the names of the workspace's packages.
pub(super) fn check_crates(packages: &[Package]) -> Vec<Offence> {
    let bad = packages.iter().filter(|package| is_drawer(&package.name));
    bad.map(|package| Offence::new(&package.manifest(), 1, complaint(&package.name))).collect()
}

/// Checks the folders and the name of a source file.
pub(super) fn check_path(path: &str) -> Option<Offence> {
    let (stem, ending) = path.rsplit_once('.')?;
    if !SOURCES.contains(&ending) {
        return None;
    }
    let part = stem.split('/').find(|part| is_drawer(part))?;
    Some(Offence::new(path, 1, complaint(part)))
}

fn is_drawer(name: &str) -> bool {
    let last_word = name.rsplit(['_', '-', '.']).next().unwrap_or(name);
    DRAWERS.contains(&last_word)
}

fn complaint(name: &str) -> String {
    format!("`{name}` names no subject: say what it is about, as `loss_list` or `clock_map` do")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawers_are_refused_as_file_folder_and_part_of_a_name() {
        for path in ["crates/pure/wire/src/util.rs", "tests/common/mod.rs", "web/src/plot_helpers.ts"] {
            assert!(check_path(path).is_some(), "{path}");
        }
    }

    #[test]
    fn subjects_are_accepted() {
        for path in ["crates/pure/wire/src/layout.rs", "crates/app/cli/src/commonly_used.rs", "docs/misc.md"]
        {
            assert_eq!(check_path(path), None, "{path}");
        }
    }
}
