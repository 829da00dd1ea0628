//! Declared dependencies are used: an unused one costs every build, and the manifest claims a tie that is none.
//!
//! A source uses a crate where its name begins a path (`serde::de`) or is imported whole (`use sys;`). Sources of a
//! package are the Rust files below its manifest, and its targets elsewhere, such as examples.

use super::files::File;
use super::{Offence, rust_text, tiers};
use crate::workspace::{Dependency, Package, Target};

/// Manifest of the workspace.
const WORKSPACE: &str = "Cargo.toml";

/// Checks the dependencies of every package, and those that the workspace offers to its packages.
pub(super) fn check<'a>(packages: &'a [Package], files: &[File]) -> Vec<Offence> {
    let of_packages = packages.iter().flat_map(|package| {
        let code = code_of(package, files);
        let unused = package.dependencies.iter().filter(move |it| !uses(&code, &library(it, packages)));
        let name = |it: &'a Dependency| it.rename.as_ref().unwrap_or(&it.name);
        unused.map(move |it| offence(&package.manifest(), name(it), "no source of this package uses it"))
    });
    let text = |path: &str| files.iter().find(|file| file.path == path)?.text.as_deref();
    let members: Vec<&str> = packages.iter().filter_map(|package| text(&package.manifest())).collect();
    let offered = offered(text(WORKSPACE).unwrap_or_default());
    let unused = offered.filter(|name| !members.iter().any(|manifest| inherits(manifest, name)));
    of_packages.chain(unused.map(|name| offence(WORKSPACE, name, "no package takes it"))).collect()
}

fn offence(manifest: &str, name: &str, why: &str) -> Offence {
    Offence::new(manifest, tiers::line_of(manifest, name), format!("unused dependency `{name}`: {why}"))
}

/// Returns the code of a package, without comments and strings.
fn code_of(package: &Package, files: &[File]) -> String {
    let manifest = package.manifest();
    let folder = manifest.trim_end_matches("Cargo.toml");
    let is_target = |path: &str| package.targets.iter().any(|it| it.src_path.ends_with(path));
    let is_own = |path: &str| path.ends_with(".rs") && (path.starts_with(folder) || is_target(path));
    let sources = files.iter().filter(|file| is_own(&file.path)).filter_map(|file| file.text.as_deref());
    sources.flat_map(rust_text::split).map(|line| line.code + "\n").collect()
}

/// Returns the name of a dependency in sources: the one given to it, that of its library, or that of its package.
fn library(dependency: &Dependency, packages: &[Package]) -> String {
    let package = packages.iter().find(|package| package.name == dependency.name);
    let is_library = |target: &&Target| target.kind.iter().any(|kind| kind.ends_with("lib"));
    let target = package.and_then(|package| package.targets.iter().find(is_library));
    let of_package = target.map_or(&dependency.name, |target| &target.name);
    dependency.rename.as_ref().unwrap_or(of_package).replace('-', "_")
}

fn uses(code: &str, library: &str) -> bool {
    let continues = |it: char| it.is_alphanumeric() || "_:.>".contains(it);
    code.match_indices(library).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + library.len()..]);
        let is_first = !before.strip_suffix("::").unwrap_or(before).ends_with(continues);
        is_first && after.starts_with("::") || before.ends_with("use ") && after.starts_with([';', ' '])
    })
}

/// Returns the names below `[workspace.dependencies]`.
fn offered(manifest: &str) -> impl Iterator<Item = &str> {
    let table = manifest.split("\n[workspace.dependencies]\n").nth(1).unwrap_or_default();
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.split_once(" = ")?.0))
}

fn inherits(manifest: &str, name: &str) -> bool {
    let rests = manifest.lines().filter_map(|line| line.strip_prefix(name));
    rests.map(str::trim_start).any(|rest| {
        rest.starts_with(".workspace") || rest.starts_with('=') && rest.contains("workspace = true")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Metadata, root};
    use serde_json::json;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: Some(text.to_owned()), tracked: true }
    }

    fn messages(code: &str, workspace: &str) -> Vec<String> {
        let manifest = |name: &str| root().join("crates").join(name).join("Cargo.toml");
        let library =
            |name: &str| json!({ "name": name, "kind": ["lib"], "src_path": root().join("none.rs") });
        let example =
            json!({ "name": "one", "kind": ["example"], "src_path": root().join("examples/one.rs") });
        let dependencies = json!([
            { "name": "tallycast-stones", "path": "somewhere" }, { "name": "crc-fast" }, { "name": "serde" }
        ]);
        let metadata: Metadata = serde_json::from_value(json!({ "target_directory": "target", "packages": [
            { "name": "tallycast-stones", "manifest_path": manifest("stones"), "dependencies": [],
              "features": {}, "targets": [library("stones")] },
            { "name": "walls", "manifest_path": manifest("walls"), "dependencies": dependencies,
              "features": {}, "targets": [library("walls"), example] },
        ] }))
        .unwrap();
        let own = "[dependencies]\nserde.workspace = true\nstones = { workspace = true }\n";
        let files = [
            file("Cargo.toml", workspace),
            file("crates/walls/Cargo.toml", own),
            file("crates/walls/src/lib.rs", code),
            file("crates/other/src/lib.rs", "use serde::de; use crc_fast::crc; use stones::Stone;"),
            file("examples/one.rs", "use serde as format;"),
        ];
        check(&metadata.packages, &files).into_iter().map(|offence| offence.message).collect()
    }

    #[test]
    fn a_dependency_is_used_under_the_name_of_its_library() {
        assert_eq!(messages("pub use stones;\nfn a() { ::crc_fast::crc(1) }", ""), [""; 0]);
    }

    #[test]
    fn comments_strings_variables_and_longer_names_use_nothing() {
        let code = "//! stones::Stone\nlet stones = \"crc_fast::crc\"; mill_stones::turn(self.stones, mill::stones::turn);";
        let why = "no source of this package uses it";
        let expected = ["tallycast-stones", "crc-fast"].map(|it| format!("unused dependency `{it}`: {why}"));
        assert_eq!(messages(code, ""), expected);
    }

    #[test]
    fn the_workspace_offers_what_a_package_takes() {
        let table = "[workspace]\n\n[workspace.dependencies]\n# For a = b.\nserde = \"1\"\nstones = { path = \"s\" }\n\
                     ser = \"1\"\n\n[profile.dev]\ndebug = 1\n";
        let found = messages("use {stones::Stone, crc_fast::crc};", table);
        assert_eq!(found, ["unused dependency `ser`: no package takes it"]);
    }
}
