//! The catalogue of every message of the product for people: errors, warnings, notes.
//!
//! People search logs for messages and manuals quote them, so changes are visible in `tests/golden/messages.txt`,
//! which `cargo xtask tidy --update` writes. That page lists all of them.

use std::collections::BTreeSet;

use super::files::File;

/// Path of the catalogue.
pub(super) const PAGE: &str = "tests/golden/messages.txt";

/// Text that precedes a message.
const MARKERS: &[&str] = &[
    "#[error(",
    "bail!(",
    "anyhow!(",
    "ensure!(",
    ".context(",
    ".with_context(",
    "eprintln!(",
    "warn!(",
    "error!(",
    "info!(",
];

/// Returns the catalogue: `crate: message`, one a line.
pub(super) fn catalogue(files: &[File]) -> String {
    let mut lines = BTreeSet::new();
    for file in files {
        let Some(package) = package_of(&file.path) else { continue };
        let Some(text) = &file.text else { continue };
        lines.extend(messages(text).into_iter().map(|message| format!("{package}: {message}\n")));
    }
    lines.into_iter().collect()
}

/// Returns the package that a file of the product's own sources belongs to.
fn package_of<'a>(path: &'a str) -> Option<&'a str> {
    let within_floor = |path: &'a str| Some(path.strip_prefix("crates/")?.split_once('/')?.1);
    let (folder, rest) = within_floor(path).or_else(|| path.strip_prefix("instruments/"))?.split_once('/')?;
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    (rest.starts_with("src/") && path.ends_with(".rs") && !is_test).then_some(folder)
}

/// Returns the messages of a source file, above its tests.
fn messages(source: &str) -> Vec<String> {
    let code = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for marker in MARKERS {
        for (at, _) in code.match_indices(marker) {
            found.extend(literal(&code[at + marker.len()..]));
        }
    }
    found
}

/// Returns the first string literal of a call's arguments, with its continuation lines joined.
fn literal(arguments: &str) -> Option<String> {
    let end = arguments.find([';', '{', '#']).unwrap_or(arguments.len());
    let start = arguments.find('"').filter(|start| *start < end)? + 1;
    let mut text = String::new();
    let mut characters = arguments[start..].chars();
    loop {
        match characters.next()? {
            '"' => return text.contains(' ').then_some(text),
            '\\' => match characters.next()? {
                '\n' => characters = characters.as_str().trim_start().chars(),
                other => text.extend(['\\', other]),
            },
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_message_is_the_first_literal_behind_its_marker() {
        let source = "#[error(\"port {0} is \\\n        taken\")]\nA(u16),\nbail!(\"no answer: {x}\");\n\
            #[error(transparent)]\nB(#[from] io::Error),\nwarn!(port, \"one two\");\n\
            #[cfg(test)]\nmod tests {\nbail!(\"not this one\");\n}";
        let mut found = messages(source);
        found.sort();
        assert_eq!(found, ["no answer: {x}", "one two", "port {0} is taken"]);
    }

    #[test]
    fn only_the_products_own_sources_are_looked_through() {
        assert_eq!(package_of("crates/edge/ring/src/ring/create.rs"), Some("ring"));
        assert_eq!(package_of("crates/edge/ring/tests/ring.rs"), None);
        assert_eq!(package_of("crates/edge/ring/src/tests.rs"), None);
        assert_eq!(package_of("xtask/src/main.rs"), None);
    }
}
