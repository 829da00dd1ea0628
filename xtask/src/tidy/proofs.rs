//! Tests named in pages exist: a table whose last column is called "test" is a list of proofs.

use super::Offence;

/// A source file: its path, relative to the root, and its text.
pub(super) type Source<'a> = (&'a str, &'a str);

/// Checks the tests named in a page's tables: `FILE::NAME` between backticks, with the file's name without its
/// extension, or its folder's if the file is called `tests.rs`.
pub(super) fn check(path: &str, text: &str, sources: &[Source<'_>]) -> Vec<Offence> {
    if !path.ends_with(".md") {
        return Vec::new();
    }
    let mut offences = Vec::new();
    let mut is_proven = false;
    for (index, line) in text.lines().enumerate() {
        let Some(last) = last_cell(line) else {
            is_proven = false;
            continue;
        };
        if last == "test" {
            is_proven = true;
        } else if is_proven && !last.starts_with("--") {
            let absent = named(last).filter(|name| !exists(name, sources));
            offences.extend(absent.map(|name| Offence::new(path, index + 1, complaint(name))));
            if named(last).next().is_none() {
                offences.push(Offence::new(path, index + 1, "a row without a test: name it as `file::test`"));
            }
        }
    }
    offences
}

fn last_cell(line: &str) -> Option<&str> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    row.rsplit('|').next().map(str::trim)
}

/// Returns the texts between backticks that look like the path of a test.
fn named(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2).filter(|name| name.contains("::"))
}

fn exists(name: &str, sources: &[Source<'_>]) -> bool {
    let Some((file, test)) = name.rsplit_once("::") else { return false };
    let wanted = format!("fn {test}(");
    let endings = [format!("/{file}.rs"), format!("/{file}/tests.rs")];
    sources
        .iter()
        .filter(|(path, _)| endings.iter().any(|ending| path.ends_with(ending.as_str())))
        .any(|(_, text)| text.match_indices(&wanted).any(|(at, _)| is_test(&text[..at])))
}

/// Returns whether a function is marked as a test, by the text before it.
fn is_test(before: &str) -> bool {
    let attributes = before.trim_end().lines().rev().map(str::trim);
    let mut attributes = attributes.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    attributes.any(|line| line == "#[test]")
}

fn complaint(name: &str) -> String {
    format!("there is no test `{name}`: name one that exists, or write it")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: &[Source<'static>] = &[
        ("crates/a/src/tail.rs", "#[test]\n    /// Why.\n    fn it_ends() {}\n    fn no_test() {}\n"),
        ("crates/a/src/tail/tests.rs", "#[test]\nfn it_begins() {}\n"),
    ];

    fn messages(rows: &str) -> Vec<String> {
        let page = format!("| what | test |\n|---|---|\n{rows}");
        check("page.md", &page, SOURCES).into_iter().map(|offence| offence.message).collect()
    }

    #[test]
    fn tests_that_exist_may_be_named() {
        assert!(messages("| a | `tail::it_ends`, `tail::it_begins` |\n").is_empty());
    }

    #[test]
    fn others_may_not_and_every_row_has_one() {
        for absent in ["tail::it_never_ends", "tail::no_test", "head::it_ends", "tail::it"] {
            let said = messages(&format!("| a | by `{absent}` |\n"));
            assert_eq!(said, [complaint(absent)]);
        }
        assert_eq!(messages("| a | everywhere |\n").len(), 1);
    }

    #[test]
    fn other_tables_and_other_files_name_what_they_like() {
        let page = "| test | what |\n|---|---|\n| a | `tail::x` |\n\n| what | test |\n\n| a | `tail::x` |\n";
        assert!(check("page.md", page, SOURCES).is_empty());
        assert!(check("page.rs", "| what | test |\n| a | `tail::x` |\n", SOURCES).is_empty());
    }
}
