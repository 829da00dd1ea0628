//! Floors and tiers: a crate depends on strictly lower tiers only, and the pure floor on little else.
//!
//! Each crate under `crates/` and `instruments/` declares its place in `[package.metadata.tallycast]`; `cargo metadata`
//! lists its dependencies. Packages elsewhere (xtask, tests) are tools above all tiers.
//!
//! The floor `instruments` stands between the libraries of the product and the command: no library depends on an
//! instrument, and the command offers all of them if it is built with its feature `instruments`, the default.

use super::Offence;
use crate::workspace::{Dependency, Package, Place, root};
use std::ops::RangeInclusive;

/// The floors with the tiers they span, from the lowest up; `app` has the libraries below the instruments, and the command
/// and the Python module above them.
const FLOORS: &[(&str, RangeInclusive<u32>)] =
    &[("pure", 0..=4), ("edge", 5..=7), ("app", 8..=10), ("instruments", 11..=13), ("app", 14..=14)];

/// Path of the folder of a floor.
fn folder_of(floor: &str) -> String {
    if floor == "instruments" { "instruments/".to_owned() } else { format!("crates/{floor}/") }
}

/// External dependencies permitted in pure crates, and why each is pure.
const PURE_DEPENDENCIES: &[(&str, &str)] = &[
    ("thiserror", "derives error types; generates code and nothing else"),
    (
        "serde",
        "derives how a value is written and read, in the types' own crate; generates code and nothing else",
    ),
    ("serde_json", "JSON as functions of text"),
    ("schemars", "derives the schema of a type's JSON; generates code and nothing else"),
    ("zerocopy", "checked views of bytes as numbers without unsafe code of ours"),
    ("crc-fast", "CRC-32C and CRC-64/NVME as functions of bytes"),
    ("minicbor", "CBOR as functions of bytes"),
    ("siphasher", "a keyed hash as a function of bytes, for cookies"),
    ("blake3", "a collision-resistant hash as a function of bytes, for proofs"),
    ("exmex", "parses and evaluates expressions as functions of numbers"),
    ("num-complex", "complex numbers"),
    ("realfft", "Fourier transforms as functions of numbers"),
    (
        "ring",
        "hashes, signatures and authenticated encryption as functions of bytes; its random numbers are not used",
    ),
    ("curve25519-dalek", "public keys of X25519 as functions of bytes"),
    ("zeroize", "overwrites memory when it is dropped"),
    ("base64ct", "Base64 in constant time as functions of bytes"),
    ("toml", "TOML as functions of text"),
    ("jiff", "UTC times as text; without the features that ask for clock or zone"),
    ("snow", "handshakes of Noise as functions of bytes; random numbers are those of its caller"),
    ("subtle", "comparisons in constant time"),
    ("x25519-dalek", "key agreement as a function of bytes"),
];

/// Additional external dependencies permitted in the tests of pure crates.
const PURE_DEV_DEPENDENCIES: &[(&str, &str)] = &[
    ("proptest", "property tests, seeded and shrinking"),
    ("insta", "snapshots that a person can judge"),
    ("allocation-counter", "that the steady path allocates nothing is counted"),
];

/// Checks every package below `crates/` and `instruments/`.
pub(super) fn check(packages: &[Package]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for package in packages {
        let manifest = package.manifest();
        if !["crates/", "instruments/"].iter().any(|folder| manifest.starts_with(folder)) {
            continue;
        }
        let Some(place) = package.place() else {
            offences.push(Offence::new(
                &manifest,
                1,
                "no [package.metadata.tallycast] with `floor` and `tier`",
            ));
            continue;
        };
        let complaints = [place_complaint(&manifest, place), feature_complaint(package, place)];
        offences.extend(complaints.into_iter().flatten().map(|message| Offence::new(&manifest, 1, message)));
        for dependency in &package.dependencies {
            if let Some(message) = dependency_complaint(package, place, dependency, packages) {
                offences.push(Offence::new(&manifest, line_of(&manifest, &dependency.name), message));
            }
        }
    }
    offences
}

/// Checks that a crate is in the folder of its floor, and that its tier belongs to that floor.
fn place_complaint(manifest: &str, place: &Place) -> Option<String> {
    let Place { floor, tier, .. } = place;
    let spans: Vec<_> = FLOORS.iter().filter(|(name, _)| name == floor).map(|(_, tiers)| tiers).collect();
    if spans.is_empty() {
        return Some(format!("floor `{floor}` does not exist: pure, edge, app or instruments"));
    }
    if !manifest.starts_with(&folder_of(floor)) {
        return Some(format!("floor `{floor}` and the path {manifest} disagree"));
    }
    let named = |tiers: &&RangeInclusive<u32>| match (tiers.start(), tiers.end()) {
        (lowest, highest) if lowest == highest => lowest.to_string(),
        (lowest, highest) => format!("{lowest} to {highest}"),
    };
    (!spans.iter().any(|tiers| tiers.contains(tier))).then(|| {
        let names: Vec<String> = spans.iter().map(named).collect();
        format!("tier {tier} is not of floor `{floor}`, which has {}", names.join(" and "))
    })
}

/// Checks that a pure crate has no features.
fn feature_complaint(package: &Package, place: &Place) -> Option<String> {
    let flag = package.features.keys().next()?;
    place
        .is_pure()
        .then(|| format!("feature `{flag}` in a pure crate: an optional part is a crate of its own"))
}

fn dependency_complaint(
    package: &Package,
    place: &Place,
    dependency: &Dependency,
    packages: &[Package],
) -> Option<String> {
    let name = &dependency.name;
    if dependency.path.is_none() {
        return place.is_pure().then(|| foreign_complaint(dependency)).flatten();
    }
    let Some(below) = packages.iter().find(|other| other.name == *name).and_then(Package::place) else {
        return Some(format!("`{name}` has no tier, so no crate with a tier may depend on it"));
    };
    let (own, other) = (place.tier, below.tier);
    let complaint =
        || format!("`{}` (tier {own}) depends on `{name}` (tier {other}): only lower tiers", package.name);
    (other >= own).then(complaint)
}

fn foreign_complaint(dependency: &Dependency) -> Option<String> {
    let allowed: Vec<&str> = match dependency.kind.as_deref() {
        Some("dev") => PURE_DEPENDENCIES.iter().chain(PURE_DEV_DEPENDENCIES).map(|(name, _)| *name).collect(),
        _ => PURE_DEPENDENCIES.iter().map(|(name, _)| *name).collect(),
    };
    let complaint = || {
        format!(
            "a pure crate may not use `{}`; allowed here: {} (xtask/src/tidy/tiers.rs says why)",
            dependency.name,
            allowed.join(", ")
        )
    };
    (!allowed.contains(&dependency.name.as_str())).then(complaint)
}

/// Returns the line of a manifest that declares a dependency.
pub(super) fn line_of(manifest: &str, dependency: &str) -> usize {
    let text = std::fs::read_to_string(root().join(manifest)).unwrap_or_default();
    let declares =
        |line: &str| line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with([' ', '.', '=']));
    text.lines().position(declares).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Metadata;
    use serde_json::{Value, json};

    fn package(name: &str, floor: &str, tier: u32, dependencies: &Value) -> Value {
        json!({
            "name": name,
            "manifest_path": root().join(format!("{}{name}/Cargo.toml", folder_of(floor))),
            "dependencies": dependencies, "features": {}, "targets": [],
            "metadata": { "tallycast": { "floor": floor, "tier": tier } },
        })
    }

    fn own(name: &str) -> Value {
        json!({ "name": name, "kind": null, "path": "somewhere" })
    }

    fn foreign(name: &str, kind: Option<&str>) -> Value {
        json!({ "name": name, "kind": kind, "path": null })
    }

    fn messages(packages: Value) -> Vec<String> {
        let metadata: Metadata =
            serde_json::from_value(json!({ "packages": packages, "target_directory": "target" })).unwrap();
        check(&metadata.packages).into_iter().map(|offence| offence.message).collect()
    }

    #[test]
    fn a_lower_tier_may_be_used() {
        let packages = json!([
            package(
                "stones",
                "pure",
                0,
                &json!([foreign("thiserror", None), foreign("proptest", Some("dev"))])
            ),
            package("walls", "pure", 1, &json!([own("stones")])),
            package("door", "edge", 5, &json!([own("walls"), foreign("nix", None)])),
            package("scales", "instruments", 11, &json!([own("door")])),
            package("gate", "app", 14, &json!([own("scales")])),
        ]);
        assert_eq!(messages(packages), Vec::<String>::new());
    }

    #[test]
    fn the_same_and_a_higher_tier_may_not() {
        let packages = json!([
            package("stones", "pure", 1, &json!([own("walls")])),
            package("walls", "pure", 1, &json!([])),
            package("roof", "pure", 0, &json!([own("walls")])),
        ]);
        let found = messages(packages);
        assert_eq!(found[0], "`stones` (tier 1) depends on `walls` (tier 1): only lower tiers");
        assert_eq!(found[1], "`roof` (tier 0) depends on `walls` (tier 1): only lower tiers");
    }

    #[test]
    fn pure_crates_use_foreign_crates_from_the_list_only() {
        let dependencies =
            json!([foreign("tokio", None), foreign("proptest", None), foreign("tempfile", Some("dev"))]);
        let found = messages(json!([package("stones", "pure", 0, &dependencies)]));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].starts_with("a pure crate may not use `tokio`; allowed here: thiserror, "),
            "{}",
            found[0]
        );
    }

    #[test]
    fn a_crate_says_where_it_stands_and_stands_there() {
        let homeless = json!({
            "name": "stones", "manifest_path": root().join("crates/pure/stones/Cargo.toml"),
            "dependencies": [], "features": {}, "targets": [], "metadata": null,
        });
        let mut elsewhere = package("walls", "pure", 1, &json!([]));
        elsewhere["metadata"]["tallycast"]["floor"] = json!("edge");
        let roof = package("roof", "pure", 5, &json!([]));
        let found = messages(json!([homeless, elsewhere, roof, package("gate", "app", 11, &json!([]))]));
        assert!(found[0].starts_with("no [package.metadata.tallycast]"), "{found:?}");
        assert!(found[1].ends_with("disagree"), "{found:?}");
        assert_eq!(found[2], "tier 5 is not of floor `pure`, which has 0 to 4");
        assert_eq!(found[3], "tier 11 is not of floor `app`, which has 8 to 10 and 14");
    }

    #[test]
    fn pure_crates_have_no_feature_flags() {
        let mut stones = package("stones", "pure", 0, &json!([]));
        stones["features"]["fast"] = json!([]);
        let mut door = package("door", "edge", 5, &json!([]));
        door["features"]["fast"] = json!([]);
        let mut scales = door.clone();
        scales["metadata"]["tallycast"] = json!({ "floor": "edge", "tier": 5, "pure": true });
        assert_eq!(messages(json!([stones, door, scales])).len(), 2);
    }
}
