//! Any text as a stored password hash: refused, or a hash by which a sign-in is decided without a panic.
//!
//! Only cheap hashes are computed: one may ask for a gigabyte.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use access::{Reach, Role};
use fuzz::private_files::PrivateFolder;
use fuzz::spoil::Spoil;
use identity::{Folder, Identity, PasswordHash, Secret, User};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use units::Instant;

const VALID: &str =
    "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$/yVpNPkqHFQ7zJSfTVUEsCaXhNjkHLnqZVRJsuy5PBs";
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

static FILES: LazyLock<PrivateFolder> = LazyLock::new(PrivateFolder::new);

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    whole: Option<&'a str>,
    spoils: Vec<Spoil<'a>>,
    password: &'a str,
}

fuzz_target!(|input: Input<'_>| {
    let mut bytes = input.whole.unwrap_or(VALID).as_bytes().to_vec();
    input.spoils.iter().take(4).for_each(|spoil| spoil.apply(&mut bytes));
    let Ok(text) = String::from_utf8(bytes) else { return };
    let Ok(hash) = text.parse::<PasswordHash>() else { return };
    assert_eq!(hash.to_string(), text);
    assert!(!format!("{hash:?}").contains(&text), "a hash is shown");
    if !is_cheap(&text) {
        return;
    }
    FILES.clear();
    let folder = Folder::new(FILES.path());
    let ada = || "ada".parse().expect("a name");
    folder
        .change_users(|users| users.add(ada(), User::new(Role::Viewer, hash)))
        .expect("a folder of our own");
    let identity = Identity::open(folder, Reach::Elsewhere).expect("what was written is read");
    let password = Secret::new(input.password.to_owned());
    drop(identity.sign_in(Instant::from_nanos(1), SOURCE, "ada", &password));
});

/// Returns whether memory, passes and lanes have one digit, or two of memory.
fn is_cheap(hash: &str) -> bool {
    let digits =
        |name: &str| hash.split(['$', ',']).find_map(|part| part.strip_prefix(name)).map_or(99, str::len);
    digits("m=") <= 2 && digits("t=") == 1 && digits("p=") == 1
}
