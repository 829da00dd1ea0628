//! No path of a single machine: committed files mean the same everywhere.

use super::Offence;
use std::path::Path;

/// Parents of personal folders.
const HOMES: &[&str] = &["/home/", "/Users/", "/root/"];

/// Folders of every system: a checkout directly in one of them does not make them private.
const SHARED_FOLDERS: &[&str] =
    &["/", "/tmp", "/opt", "/srv", "/mnt", "/var", "/usr", "/usr/src", "/home", "/builds"];

/// The paths of the current machine.
pub(super) struct Machine {
    prefixes: Vec<String>,
}

impl Machine {
    /// Returns personal folders, this checkout and its parent folder.
    pub(super) fn of_checkout(checkout: &Path) -> Self {
        let mut prefixes: Vec<String> = HOMES.iter().map(|&home| home.to_owned()).collect();
        let parent = checkout
            .parent()
            .filter(|parent| !SHARED_FOLDERS.iter().any(|shared| *parent == Path::new(shared)));
        prefixes.extend(
            [Some(checkout), parent].into_iter().flatten().map(|folder| format!("{}/", folder.display())),
        );
        Self { prefixes }
    }

    /// Returns every line of `text` that names such a path.
    pub(super) fn check(&self, path: &str, text: &str) -> Vec<Offence> {
        let lines = text.lines().enumerate();
        let complaints = lines.filter_map(|(index, line)| {
            let prefix = self.prefixes.iter().find(|prefix| names_path(line, prefix))?;
            Some(Offence::new(
                path,
                index + 1,
                format!("a path of one machine (`{prefix}…`): make it relative"),
            ))
        });
        complaints.collect()
    }
}

/// Returns whether an absolute path with this prefix begins somewhere in `line`; a URL or a longer path does not
/// count.
fn names_path(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + prefix.len()..].chars().next();
        before.is_none_or(|c| !c.is_alphanumeric() && !"/.-_~}".contains(c))
            && after.is_some_and(|c| c.is_alphanumeric() || "._-".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences(line: &str) -> usize {
        Machine::of_checkout(Path::new("/build-farm/tallycast")).check("a.md", line).len()
    }

    #[test]
    fn personal_folders_and_the_checkout_are_refused() {
        for folder in ["home/someone/x", "root/.cargo", "build-farm/tallycast/target", "build-farm/notes"] {
            assert_eq!(offences(&format!("see \"/{folder}\" there")), 1, "{folder}");
        }
    }

    #[test]
    fn relative_paths_system_folders_and_addresses_are_fine() {
        for words in [
            "target/x",
            "/proc/1/root/",
            "https://example.org/home/page",
            "/usr/bin/chromium",
            "a /home/ folder",
        ] {
            assert_eq!(offences(words), 0, "{words}");
        }
    }

    #[test]
    fn a_checkout_in_a_shared_folder_does_not_make_it_private() {
        let machine = Machine::of_checkout(Path::new("/tmp/checkout-of-this-test"));
        assert!(machine.check("a.md", "mkdir /tmp/other").is_empty());
        assert_eq!(machine.check("a.md", "cd /tmp/checkout-of-this-test/web").len(), 1);
    }
}
