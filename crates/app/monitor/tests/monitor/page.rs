//! The page's files, or the hint how to build them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ledger::Stage;

use crate::scene::{bus, get, monitor};

#[test]
fn the_page_or_the_way_to_it_is_served_under_a_strict_policy() {
    let monitor = monitor(&bus());
    let answer = get(monitor.address(), "/");
    assert_eq!(answer.status, 200);
    let head = answer.head.to_lowercase();
    assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    let body = String::from_utf8(answer.body).unwrap();
    assert!(body.contains("<title>Tallycast</title>") || body.contains("cargo xtask page"), "{body}");
}

#[test]
fn the_guide_is_served_with_a_heading_for_each_stage() {
    let monitor = monitor(&bus());
    let answer = get(monitor.address(), "/guide");
    assert_eq!(answer.status, 200);
    let body = String::from_utf8(answer.body).unwrap();
    for stage in Stage::ALL.into_iter().map(Stage::name).chain(["unexplained", "unsettled"]) {
        let (built, written) = (format!("<h2 id=\"{stage}\">"), format!("\n## {stage}\n"));
        assert!(body.contains(&built) || body.contains(&written), "{stage}");
    }
}

/// Pages that describe what is sent in JSON.
const DESCRIBED: [&str; 3] = [
    include_str!("../../../../../docs/protocol/page.md"),
    include_str!("../../../../../docs/protocol/runs.md"),
    include_str!("../../../../../docs/reference/formats/account.md"),
];

/// Returns the names of the keys that the answers and messages in a folder of `tests/golden/keys` have.
fn published(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden/keys").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let names = |text: String| {
        let paths = text.lines().filter_map(|line| line.split_once(": ")).map(|(path, _)| path);
        paths.flat_map(|path| path.split('.')).map(|key| key.replace("[]", "")).collect::<Vec<_>>()
    };
    files.flat_map(names).filter(|key| !key.is_empty() && key != "*").collect()
}

#[test]
fn every_published_key_is_described_and_every_described_field_of_a_stream_is_published() {
    let is_described = |key: &str| {
        DESCRIBED
            .iter()
            .any(|page| page.contains(&format!("`{key}`")) || page.contains(&format!("\"{key}\"")))
    };
    for folder in ["api", "page"] {
        let missing: Vec<String> = published(folder).into_iter().filter(|key| !is_described(key)).collect();
        assert!(missing.is_empty(), "docs/protocol/page.md says nothing of {missing:?}");
    }
    let section = DESCRIBED[0].split_once("\n### Stream\n").unwrap().1.split("\n### ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let fields = rows.flat_map(|cell| cell.split(", ")).map(|field| field.trim_matches('`'));
    let published = published("api");
    let unknown: Vec<&str> = fields.filter(|field| !published.contains(*field)).collect();
    assert!(unknown.is_empty(), "no stream has {unknown:?}");
}
