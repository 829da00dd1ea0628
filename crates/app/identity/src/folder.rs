//! The folder of access files: `access` (rules), `users` and `tokens`.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use access::{Policy, PolicyError, Reach};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sys::private_file::{self, Privacy, Stamp};
use zeroize::Zeroizing;

use crate::{FileError, TokenError, Tokens, UserError, Users};

/// Name of the file of rules.
const RULES: &str = "access";
/// Name of the file of users.
const USERS: &str = "users";
/// Name of the file of tokens.
const TOKENS: &str = "tokens";
/// The largest file: ten thousand users.
const MAX_FILE_BYTES: usize = 4 << 20;

/// A folder of access files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder(PathBuf);

/// Content of a folder at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// The rules, if there is a file of them.
    pub rules: Option<Policy>,
    /// The local users.
    pub users: Users,
    /// The tokens.
    pub tokens: Tokens,
}

/// Reason why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// A file cannot be read or written, or must not be trusted.
    #[error(transparent)]
    File(#[from] FileError),
    /// The rules are wrong.
    #[error("{}, {error}", .path.display())]
    Rules {
        /// Path of the file.
        path: PathBuf,
        /// The line, and what is wrong.
        error: PolicyError,
    },
    /// The file of users or tokens is not what this program writes.
    #[error("{}, line {line}: {message}\nmend the line, or restore the file", .path.display())]
    Table {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A user cannot be added, changed or removed.
    #[error(transparent)]
    User(#[from] UserError),
    /// A token cannot be made or removed.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The rules are gone.
    #[error("{} was removed\nrestart the service if it is to run without rules", .0.display())]
    Removed(PathBuf),
}

impl Folder {
    /// Names a folder, which need not exist: then there are neither rules nor users nor tokens.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns the path of the file of rules.
    #[must_use]
    pub fn rules_path(&self) -> PathBuf {
        self.0.join(RULES)
    }

    /// Reads and checks everything.
    ///
    /// # Errors
    /// The first file that is wrong, may be read by others, or could have been written by others.
    pub fn read(&self) -> Result<Content, FolderError> {
        let rules = private_file::read(&self.rules_path(), Privacy::Open, MAX_FILE_BYTES)?;
        let parse = |text: Zeroizing<String>| {
            Policy::parse(&text).map_err(|error| FolderError::Rules { path: self.rules_path(), error })
        };
        Ok(Content { rules: rules.map(parse).transpose()?, users: self.users()?, tokens: self.tokens()? })
    }

    /// Changes the users, and writes them if `change` succeeds.
    ///
    /// # Errors
    /// If `change` fails, or the file cannot be read or written.
    pub fn change_users<T>(
        &self,
        change: impl FnOnce(&mut Users) -> Result<T, UserError>,
    ) -> Result<T, FolderError> {
        let _lock = self.lock()?;
        let mut users = self.users()?;
        let changed = change(&mut users)?;
        self.write(USERS, &users)?;
        Ok(changed)
    }

    /// Changes the tokens, and writes them if `change` succeeds.
    ///
    /// # Errors
    /// If `change` fails, or the file cannot be read or written.
    pub fn change_tokens<T>(
        &self,
        change: impl FnOnce(&mut Tokens) -> Result<T, TokenError>,
    ) -> Result<T, FolderError> {
        let _lock = self.lock()?;
        let mut tokens = self.tokens()?;
        let changed = change(&mut tokens)?;
        self.write(TOKENS, &tokens)?;
        Ok(changed)
    }

    fn users(&self) -> Result<Users, FolderError> {
        let users: Users = self.table(USERS)?;
        users.check()?;
        Ok(users)
    }

    fn tokens(&self) -> Result<Tokens, FolderError> {
        let tokens: Tokens = self.table(TOKENS)?;
        tokens.check()?;
        Ok(tokens)
    }

    /// Returns the states of the files, by which a change is noticed.
    pub(crate) fn stamps(&self) -> [Stamp; 3] {
        [RULES, USERS, TOKENS].map(|name| private_file::stamp(&self.0.join(name)))
    }

    fn table<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, FolderError> {
        let path = self.0.join(name);
        let Some(text) = private_file::read(&path, Privacy::Secret, MAX_FILE_BYTES)? else {
            return Ok(T::default());
        };
        toml::from_str(&text).map_err(|error| {
            // Not the error's whole text, which quotes the line: it may have the hash of a password.
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            FolderError::Table { path, line, message: error.message().to_owned() }
        })
    }

    fn write(&self, name: &str, table: &impl Serialize) -> Result<(), FileError> {
        let text = toml::to_string(table).expect("names and texts are TOML");
        private_file::replace(&self.0.join(name), &format!("# Written by `tallycast access`.\n{text}"))
    }

    /// Makes the folder, if there is none, and waits until no other process changes it.
    fn lock(&self) -> Result<File, FileError> {
        let failed = |action| {
            let path = self.0.clone();
            move |source| FileError::System { action, path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed("make"))?;
        let folder = File::open(&self.0).map_err(failed("open"))?;
        flock(&folder, FlockOperation::LockExclusive).map_err(|error| failed("lock")(error.into()))?;
        Ok(folder)
    }
}

impl FolderError {
    /// Returns whether the same files may be readable a moment later, as after too many open files.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::File(error) if error.may_pass())
    }
}

impl Content {
    /// Returns the rules, or what holds without them.
    #[must_use]
    pub fn policy(&self, reach: Reach) -> Policy {
        self.rules.clone().unwrap_or(Policy::without_file(reach))
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use access::Role;

    use super::*;
    use crate::users::tests::user;

    fn add(folder: &Folder, name: &str) -> Result<(), FolderError> {
        folder
            .change_users(|users| users.add(name.parse().unwrap(), user(Role::Viewer, "the first password")))
    }

    #[test]
    fn a_folder_that_is_not_there_is_empty_and_made_for_its_owner_alone() {
        let scene = tempfile::tempdir().unwrap();
        let folder = Folder::new(scene.path().join("deep/tallycast"));
        let content = folder.read().unwrap();
        assert_eq!((content.rules, content.users.iter().len(), content.tokens.iter().len()), (None, 0, 0));
        add(&folder, "ada").unwrap();
        assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(folder.read().unwrap().users.iter().len(), 1);
    }

    #[test]
    fn a_refused_change_writes_nothing() {
        let scene = tempfile::tempdir().unwrap();
        let folder = Folder::new(scene.path());
        add(&folder, "ada").unwrap();
        let before = folder.stamps();
        assert!(matches!(add(&folder, "ada"), Err(FolderError::User(UserError::Exists(_)))));
        assert_eq!(folder.stamps(), before);
    }

    #[test]
    fn changes_at_the_same_time_are_all_kept() {
        let scene = tempfile::tempdir().unwrap();
        let folder = Folder::new(scene.path());
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d", "e", "f"] {
                let folder = &folder;
                scope.spawn(move || add(folder, name).unwrap());
            }
        });
        assert_eq!(folder.read().unwrap().users.iter().len(), 6);
    }

    #[test]
    fn a_damaged_table_is_told_by_its_line_without_its_hash() {
        let scene = tempfile::tempdir().unwrap();
        let folder = Folder::new(scene.path());
        let told = |text: &str| {
            private_file::replace(&scene.path().join(USERS), text).unwrap();
            folder.read().unwrap_err().to_string()
        };
        let error = told("# note\n[user.ada]\nrole = \"viewer\"\npassword = \"$argon2i$secret\"\n");
        assert!(error.contains("users, line 4: the stored hash is not of Argon2id"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        let error = told("[user.ada]\nrole = \"boss\"\n");
        assert!(error.contains("users, line 2: unknown word `boss`"), "{error}");
        let error = told("[user.ada]\nrule = \"viewer\"\n");
        assert!(error.contains("users, line 2: unknown field `rule`"), "{error}");
        let error = told("[user.\"ada@example.org\"]\nrole = \"viewer\"\npassword = \"\"\n");
        assert!(error.contains("users, line 3"), "{error}");
        let error = told("[user\n");
        assert!(error.contains("users, line 1"), "{error}");
    }

    #[test]
    fn a_wrong_rule_is_told_with_its_file() {
        let scene = tempfile::tempdir().unwrap();
        let folder = Folder::new(scene.path());
        private_file::replace(&folder.rules_path(), "\nalow anyone read **").unwrap();
        let error = folder.read().unwrap_err().to_string();
        assert!(error.contains("access, line 2: a line begins with"), "{error}");
    }
}
