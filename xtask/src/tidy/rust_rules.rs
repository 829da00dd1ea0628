//! Rules about Rust source: module heads, the address of `unsafe`, lint exceptions, comments, and no empty crates.

use super::rust_text::{self, Line, has_word};
use super::{Offence, tasks};

/// Folders in which `unsafe` is permitted: the system floor and, one day, the Python module.
const HOMES_OF_UNSAFE: &[&str] = &["crates/edge/", "crates/app/python/"];

/// Returns all offences against these rules in one file; an empty crate is work in progress until git tracks it.
pub(super) fn check(path: &str, text: &str, tracked: bool) -> Vec<Offence> {
    let lines = rust_text::split(text);
    let mut offences = Vec::new();
    offences.extend(head(path, text));
    if tracked {
        offences.extend(empty_crate(path, &lines));
    }
    for (index, line) in lines.iter().enumerate() {
        let complaints = [
            unsafe_elsewhere(path, &line.code),
            lint_allowed(&line.code),
            tasks::open_task(&line.comment),
            commented_out(&line.comment),
        ];
        offences
            .extend(complaints.into_iter().flatten().map(|message| Offence::new(path, index + 1, message)));
    }
    offences
}

/// Checks that a file begins with its purpose.
fn head(path: &str, text: &str) -> Option<Offence> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let says_something = first.strip_prefix("//!").is_some_and(|rest| !rest.trim().is_empty());
    let message = "opens without `//!`: say what this file is for, what it is not, where to start";
    (!says_something).then(|| Offence::new(path, 1, message))
}

/// Checks that a crate has code.
fn empty_crate(path: &str, lines: &[Line]) -> Option<Offence> {
    let is_root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    let items =
        lines.iter().map(|line| line.code.trim()).filter(|code| !code.is_empty() && !code.starts_with("#!["));
    let code: String = items.flat_map(str::split_whitespace).collect();
    let message = "an empty crate: it arrives with its first working feature";
    (is_root && (code.is_empty() || code == "fnmain(){}")).then(|| Offence::new(path, 1, message))
}

fn unsafe_elsewhere(path: &str, code: &str) -> Option<String> {
    let at_home = HOMES_OF_UNSAFE.iter().any(|home| path.starts_with(home));
    (!at_home && has_word(code, "unsafe"))
        .then(|| "`unsafe` outside crates/edge: move the system call or the cell there".to_owned())
}

fn lint_allowed(code: &str) -> Option<String> {
    let code: String = code.split_whitespace().collect();
    let outright = code.contains("#[allow(") || code.contains("#![allow(");
    let conditional = code.contains("cfg_attr(") && code.contains(",allow(");
    (outright || conditional).then(|| "a lint allowed: use `#[expect(lint, reason = \"…\")]`".to_owned())
}

/// Detects code in a comment, by forms that prose does not have.
fn commented_out(comment: &str) -> Option<String> {
    let body = comment.strip_prefix("//").filter(|rest| !rest.starts_with(['/', '!']))?.trim();
    let statement = body.ends_with(';')
        && ((body.starts_with("let ") && body.contains(" = "))
            || (body.starts_with("use ") && body.contains("::"))
            || body.starts_with("return ")
            || body.ends_with(");")
            || body.ends_with(")?;"));
    let block = body == "}" || (body.starts_with("fn ") && body.ends_with('{'));
    (statement || block).then(|| "commented-out code: delete it, git remembers".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(path, text, true).into_iter().map(|offence| offence.to_string()).collect()
    }

    fn complains(path: &str, text: &str, about: &str) -> bool {
        messages(path, text).iter().any(|message| message.contains(about))
    }

    #[test]
    fn a_file_must_open_with_its_purpose() {
        assert!(complains("a.rs", "use std::fmt;\n", "a.rs:1: opens without"));
        assert!(complains("a.rs", "//!\nuse std::fmt;\n", "opens without"));
        assert!(complains("a.rs", "", "opens without"));
        assert!(messages("a.rs", "\n//! What it is for.\nfn f() {}\n").is_empty());
    }

    #[test]
    fn unsafe_has_an_address() {
        let text = "//! X.\nfn f() { unsafe { g() } }\n";
        assert!(complains("crates/pure/wire/src/view.rs", text, "view.rs:2: `unsafe` outside"));
        assert!(messages("crates/edge/sys/src/view.rs", text).is_empty());
        assert!(messages("crates/app/cli/src/view.rs", "//! X.\n// Not unsafe: \"unsafe\".\n").is_empty());
    }

    #[test]
    fn lints_are_expected_and_never_allowed() {
        assert!(complains("a.rs", "//! X.\n#[allow(dead_code)]\nfn f() {}\n", "a.rs:2: a lint allowed"));
        assert!(complains("a.rs", "//! X.\n#![ allow(dead_code)]\n", "a lint allowed"));
        assert!(complains("a.rs", "//! X.\n#[cfg_attr(test, allow(dead_code))]\n", "a lint allowed"));
        assert!(messages("a.rs", "//! X.\n#[expect(dead_code, reason = \"…\")]\nfn f() {}\n").is_empty());
        assert!(
            messages("a.rs", "//! X.\n// Never #[allow(x)].\nfn allow() { allow(\"#[allow(\") }\n")
                .is_empty()
        );
    }

    #[test]
    fn a_crate_with_nothing_in_it_is_refused_once_git_has_it() {
        let path = "crates/pure/wire/src/lib.rs";
        assert!(complains(path, "//! Wire.\n#![warn(missing_docs)]\n", "an empty crate"));
        assert!(complains("xtask/src/main.rs", "//! X.\nfn main() {}\n", "an empty crate"));
        assert!(check(path, "//! Wire.\n", false).is_empty());
        assert!(messages(path, "//! Wire.\nmod layout;\n").is_empty());
        assert!(messages("crates/pure/wire/src/layout.rs", "//! Only words.\n").is_empty());
    }

    #[test]
    fn code_in_comments_is_told_from_prose() {
        for code in ["// let a = 1;", "// use std::fmt;", "// send(datagram);", "// }", "// return 1;"] {
            assert!(complains("a.rs", &format!("//! X.\n{code}\n"), "commented-out code"), "{code}");
        }
        let prose = [
            "// let the writer go on;",
            "/// let a = 1;",
            "// The ring lapped us; use the totals.",
            "// use it",
        ];
        for words in prose {
            assert!(messages("a.rs", &format!("//! X.\n{words}\n")).is_empty(), "{words}");
        }
    }
}
