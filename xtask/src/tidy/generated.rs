//! Files that a program writes: each must be what it writes today.

use super::Offence;
use super::files::File;

/// Compares a file with what is written today.
pub(super) fn check(files: &[File], path: &str, now: &str) -> Option<Offence> {
    let stored = files.iter().find(|file| file.path == path).and_then(|file| file.text.as_deref());
    let differs = |(index, (stored, now)): (usize, (&str, &str))| {
        (stored != now).then_some((index + 1, now.to_owned()))
    };
    let end = || std::iter::once("");
    let lines = stored.unwrap_or_default().lines().chain(end()).zip(now.lines().chain(end()));
    let (line, text) = lines.enumerate().find_map(differs)?;
    Some(Offence::new(
        path,
        line,
        format!("`{text}` is not what stands here: run `cargo xtask tidy --update`"),
    ))
}
