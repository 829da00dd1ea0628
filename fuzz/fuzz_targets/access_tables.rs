//! Any bytes as the files of users and tokens: refused with a line of them and without their secrets, or read the same when
//! they are written again.
//!
//! A fuzzer cannot guess TOML, so most inputs are changes to valid files.
#![no_main]

use std::sync::LazyLock;

use fuzz::private_files::PrivateFolder;
use fuzz::spoil::Spoil;
use identity::{Folder, FolderError};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use units::WallTime;

/// As `tallycast access` writes them; nobody knows the password.
const USERS: &str = "# Written by `tallycast access`.\n[user.ada]\nrole = \"operator\"\n\
    password = \"$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$/yVpNPkqHFQ7zJSfTVUEsCaXhNjkHLnqZVRJsuy5PBs\"\n\
    signed_out = 2\n";
const TOKENS: &str = "[token.scraper]\nscopes = \"read,steer\"\nexpires = \"2027-01-31T00:00:00Z\"\n\
    digest = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"\n";

static FILES: LazyLock<PrivateFolder> = LazyLock::new(PrivateFolder::new);

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    of_users: bool,
    whole: Option<&'a [u8]>,
    spoils: Vec<Spoil<'a>>,
}

fuzz_target!(|input: Input<'_>| {
    let (name, valid) = if input.of_users { ("users", USERS) } else { ("tokens", TOKENS) };
    let mut file = input.whole.unwrap_or(valid.as_bytes()).to_vec();
    input.spoils.iter().take(8).for_each(|spoil| spoil.apply(&mut file));
    FILES.clear();
    FILES.put(name, &file);
    let folder = Folder::new(FILES.path());
    let content = match folder.read() {
        Ok(content) => content,
        Err(error) => {
            if let FolderError::Table { line, .. } = &error {
                assert!(*line <= file.split(|byte| *byte == b'\n').count(), "{error}");
            }
            let told = error.to_string();
            return assert!(
                !told.contains("yVpNPkqHFQ7zJSf") && !told.contains("9f86d081884c7d65"),
                "{told}"
            );
        }
    };
    assert!(!format!("{content:?}").contains("yVpNPkqHFQ7zJSf"), "a hash is shown");
    folder.change_users(|_| Ok(())).expect("what was read can be written");
    folder.change_tokens(|_| Ok(())).expect("what was read can be written");
    assert_eq!(folder.read().expect("what it writes, it reads"), content);
    assert!(content.tokens.principal(WallTime::from_nanos(0), "tct_").is_none());
});
