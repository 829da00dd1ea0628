//! Pages name only files that exist, and crates at the tier they have.

use super::Offence;
use crate::workspace::Package;

/// Folders whose subfolders are crates.
const FOLDERS: [&str; 4] = ["crates/pure/", "crates/edge/", "crates/app/", "instruments/"];

/// Folders at the root whose files pages name.
const ROOTS: [&str; 8] =
    ["crates/", "docs/", "examples/", "instruments/", "python/", "tests/", "web/", "xtask/"];

/// Endings of a name that is one of a file.
const FILES: [&str; 7] = [".css", ".md", ".mjs", ".py", ".rs", ".toml", ".ts"];

/// Checks a Markdown page: `crates/FLOOR/NAME` and `instruments/NAME` anywhere, files in backticks, and table rows like
/// ``| `wire` | pure 3 | … |``. `exists` tells whether the checkout has a file.
pub(super) fn check(
    path: &str,
    text: &str,
    packages: &[Package],
    exists: impl Fn(&str) -> bool,
) -> Vec<Offence> {
    if !path.ends_with(".md") {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    let complaints = lines.flat_map(|(index, line)| {
        let of_files = absent_files(line, &exists);
        let found =
            of_files.into_iter().chain(path_complaints(line, packages)).chain(row_complaint(line, packages));
        found.map(move |message| Offence::new(path, index + 1, message))
    });
    complaints.collect()
}

/// Files that a line names in backticks and the checkout lacks; a name in capitals stands for any.
fn absent_files(line: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let quoted = line.split('`').skip(1).step_by(2);
    let is_file = |name: &&str| {
        ROOTS.iter().any(|root| name.starts_with(root))
            && FILES.iter().any(|ending| name.ends_with(ending))
            && !name.contains("NAME")
            && !name.contains(['{', '<', '*', ' '])
    };
    quoted.filter(is_file).filter(|name| !exists(name)).map(|name| format!("{name} does not exist")).collect()
}

fn path_complaints(line: &str, packages: &[Package]) -> Vec<String> {
    let mentions = FOLDERS.iter().flat_map(|folder| {
        // Tests of the command have a folder of that name.
        let is_of_tests = |at: usize| line[..at].ends_with("tests/");
        line.match_indices(folder).filter(move |(at, _)| !is_of_tests(*at)).filter_map(move |(at, found)| {
            let rest = &line[at + found.len()..];
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let name = &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())];
            (!name.is_empty() && name != "clippy").then(|| format!("{folder}{name}"))
        })
    });
    let absent = mentions.filter(|folder| {
        let manifest = format!("{folder}/Cargo.toml");
        !packages.iter().any(|package| package.manifest() == manifest)
    });
    absent.map(|folder| format!("{folder} does not exist")).collect()
}

fn row_complaint(line: &str, packages: &[Package]) -> Option<String> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    let (floor, tier) = cells.next()?.split_once(' ')?;
    let tier: u32 = tier.parse().ok()?;
    let manifests = FOLDERS.map(|folder| format!("{folder}{name}/Cargo.toml"));
    let Some(package) = packages.iter().find(|package| manifests.contains(&package.manifest())) else {
        return Some(format!("crate `{name}` ({floor}) does not exist"));
    };
    let place = package.place()?;
    (place.floor != floor || place.tier != tier)
        .then(|| format!("`{name}` is {} {}, not {floor} {tier}", place.floor, place.tier))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Metadata, root};
    use serde_json::json;

    fn messages(page: &str) -> Vec<String> {
        let metadata: Metadata = serde_json::from_value(json!({ "target_directory": "target", "packages": [{
            "name": "wire", "manifest_path": root().join("crates/pure/wire/Cargo.toml"),
            "dependencies": [], "features": {}, "targets": [],
            "metadata": { "tallycast": { "floor": "pure", "tier": 3 } },
        }]}))
        .unwrap();
        check("ARCHITECTURE.md", page, &metadata.packages, |name| name == "crates/pure/wire/src/lib.rs")
            .into_iter()
            .map(|offence| offence.message)
            .collect()
    }

    #[test]
    fn crates_that_exist_may_be_spoken_of() {
        let page = "See `crates/pure/wire/src/lib.rs` and crates/pure/, crates/pure/clippy.toml, tests/instruments/x.rs.\n| `wire` | pure 3 | bytes |\n";
        assert!(messages(page).is_empty(), "{:?}", messages(page));
    }

    #[test]
    fn crates_that_do_not_exist_may_not() {
        assert_eq!(messages("in `crates/edge/warp`."), ["crates/edge/warp does not exist"]);
        assert_eq!(messages("| `warp` | edge 5 | speed |"), ["crate `warp` (edge) does not exist"]);
    }

    #[test]
    fn files_that_do_not_exist_may_not_either() {
        assert_eq!(
            messages("(`crates/pure/wire/src/old.rs`)"),
            ["crates/pure/wire/src/old.rs does not exist"]
        );
        let any =
            "`xtask/src/NAME.rs`, `tests/<group>/a.ts`, `tests/*.rs`, `docs/a.md docs/b.md`, `src/c.rs`";
        assert!(messages(any).is_empty(), "{:?}", messages(any));
    }

    #[test]
    fn a_page_tells_the_tier_the_crate_has() {
        assert_eq!(messages("| `wire` | pure 2 | bytes |"), ["`wire` is pure 3, not pure 2"]);
    }
}
