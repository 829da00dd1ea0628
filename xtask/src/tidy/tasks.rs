//! No task without an issue: a note about work to do is useful only if somebody finds it again.

use super::Offence;
use super::rust_text::has_word;

/// Extensions of files other than Rust whose comments are checked; there the whole line counts as the comment.
const COMMENTED_FILES: &[&str] = &[".ts", ".js", ".css", ".html", ".sh", ".py", ".toml", ".yml", ".yaml"];

/// Checks a file that is not Rust.
pub(super) fn check_text(path: &str, text: &str) -> Vec<Offence> {
    if !COMMENTED_FILES.iter().any(|ending| path.ends_with(ending)) {
        return Vec::new();
    }
    let complaints = text.lines().enumerate().filter_map(|(index, line)| Some((index, open_task(line)?)));
    complaints.map(|(index, message)| Offence::new(path, index + 1, message)).collect()
}

/// Returns the offence of a comment about work to do.
pub(super) fn open_task(comment: &str) -> Option<String> {
    if has_word(comment, "FIXME") {
        return Some("FIXME: mend it, or open an issue".to_owned());
    }
    let with_issue = comment.match_indices("TODO(#").any(|(at, found)| {
        let number = &comment[at + found.len()..];
        number.find(')').is_some_and(|end| end > 0 && number[..end].bytes().all(|byte| byte.is_ascii_digit()))
    });
    (has_word(comment, "TODO") && !with_issue)
        .then(|| "TODO without an issue: write `TODO(#12)`, or do it now".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_needs_an_issue() {
        assert!(open_task("// TODO later").is_some());
        assert!(open_task("// TODO(somebody): later").is_some());
        assert!(open_task("// TODO(#): later").is_some());
        assert_eq!(open_task("// TODO(#12): later"), None);
    }

    #[test]
    fn fixme_is_refused_with_and_without_an_issue() {
        assert!(open_task("// FIXME").is_some());
        assert!(open_task("// FIXME(#12)").is_some());
        assert_eq!(open_task("// the word is inside FIXMEUP"), None);
    }

    #[test]
    fn pages_may_speak_of_the_rule() {
        let text = "# no TODO without an issue\n";
        assert!(check_text("CONVENTIONS.md", text).is_empty());
        assert_eq!(check_text("web/src/a.ts", text).len(), 1);
    }
}
