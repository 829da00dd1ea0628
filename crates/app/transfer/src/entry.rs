//! Offered entry: a file or a directory, with a path that can only be below the receiver's directory.

use serde::{Deserialize, Serialize};

use crate::store::PARTIAL_FOLDER;

/// Maximum length of the name of a file or directory within another, as file systems have it. Units: bytes.
const MAX_NAME_BYTES: usize = 255;
/// Maximum length of a path. Units: bytes.
const MAX_PATH_BYTES: usize = 4_096;

/// File or directory that is offered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Path below the receiver's directory, parts divided by `/`.
    pub path: String,
    /// Kind of entry.
    pub kind: Kind,
    /// Size; 0 for a directory. Units: bytes.
    pub bytes: u64,
    /// Time of the last change, since 1970. Units: nanoseconds.
    pub modified_ns: u64,
    /// Permissions, as in `chmod`; only the lower nine bits are kept.
    pub mode: u32,
}

/// Kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file.
    File,
    /// A directory; those above a file need not be offered.
    Directory,
}

/// Reason why a path is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the name `{path}` is refused: {reason}")]
pub struct UnsafeName {
    /// Offered path, without unprintable characters.
    pub path: String,
    /// Fault of the path.
    pub reason: &'static str,
}

impl Entry {
    /// Returns the parts of the path, each a name within the one before.
    ///
    /// # Errors
    /// [`UnsafeName`] if it could lead out of the receiver's directory.
    pub fn parts(&self) -> Result<Vec<&str>, UnsafeName> {
        parts(&self.path)
    }

    /// Returns the name of the partial file: the same for the same state of the same file.
    pub(crate) fn key(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.path.as_bytes());
        hasher.update(&[0]);
        hasher.update(&self.bytes.to_le_bytes());
        hasher.update(&self.modified_ns.to_le_bytes());
        hasher.finalize().to_hex().as_str()[..32].to_owned()
    }
}

/// Returns the parts of a path, each a name within the one before.
///
/// # Errors
/// [`UnsafeName`] if it could lead out of its directory.
pub(crate) fn parts(path: &str) -> Result<Vec<&str>, UnsafeName> {
    let unsafe_name = |reason| {
        let path = path.chars().filter(|letter| !letter.is_control()).take(200).collect();
        UnsafeName { path, reason }
    };
    if path.len() > MAX_PATH_BYTES {
        return Err(unsafe_name("it is longer than 4096 bytes"));
    }
    let parts: Vec<&str> = path.split('/').collect();
    for part in &parts {
        let reason = match *part {
            "" => "it is absolute, empty, or has an empty part",
            "." | ".." => "it leaves the directory",
            part if part.len() > MAX_NAME_BYTES => "a part of it is longer than 255 bytes",
            part if part.contains(char::is_control) => "it contains a control character",
            _ => continue,
        };
        return Err(unsafe_name(reason));
    }
    if parts[0] == PARTIAL_FOLDER {
        return Err(unsafe_name("the name is reserved for incomplete files"));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str) -> Entry {
        Entry { path: path.to_owned(), kind: Kind::File, bytes: 5, modified_ns: 6, mode: 0o644 }
    }

    #[test]
    fn only_names_below_the_directory_are_taken() {
        assert_eq!(entry("a/b c/ü.csv").parts(), Ok(vec!["a", "b c", "ü.csv"]));
        assert_eq!(entry("..hidden/...").parts(), Ok(vec!["..hidden", "..."]));
        let long = "x".repeat(256);
        let deep = "x/".repeat(2_100);
        for path in
            ["", "/", "/etc/passwd", "a/../../b", "..", "a//b", "a/", "./a", "a\0b", "a\nb", &long, &deep]
        {
            assert!(entry(path).parts().is_err(), "{path:?}");
        }
        assert!(entry(".tallycast-partial/x").parts().is_err());
        assert!(entry("a/.tallycast-partial").parts().is_ok());
    }

    #[test]
    fn another_state_of_a_file_is_kept_apart() {
        let one = entry("a");
        assert_eq!(one.key(), entry("a").key());
        for other in [entry("b"), Entry { bytes: 4, ..entry("a") }, Entry { modified_ns: 7, ..entry("a") }] {
            assert_ne!(one.key(), other.key());
        }
    }
}
