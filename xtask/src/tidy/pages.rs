//! Pages name only crates that exist, at the tier they have.

use super::Offence;
use crate::workspace::Package;

/// Folders whose subfolders are crates.
const FOLDERS: [&str; 4] = ["crates/pure/", "crates/edge/", "crates/app/", "instruments/"];

/// Checks a Markdown page: `crates/FLOOR/NAME` and `instruments/NAME` anywhere, and table rows like ``| `wire` | pure 3 | … |``.
pub(super) fn check(path: &str, text: &str, packages: &[Package]) -> Vec<Offence> {
    if !path.ends_with(".md") {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    let complaints = lines.flat_map(|(index, line)| {
        let found = path_complaints(line, packages).into_iter().chain(row_complaint(line, packages));
        found.map(move |message| Offence::new(path, index + 1, message))
    });
    complaints.collect()
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
        check("ARCHITECTURE.md", page, &metadata.packages)
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
    fn a_page_tells_the_tier_the_crate_has() {
        assert_eq!(messages("| `wire` | pure 2 | bytes |"), ["`wire` is pure 3, not pure 2"]);
    }
}
