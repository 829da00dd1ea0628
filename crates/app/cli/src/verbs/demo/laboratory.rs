//! What a secured demo makes for itself: keys of a laboratory with two stations, rotations, users and a token of the page.
//!
//! Keys are made and changed by the commands that the guide "Secure a bus" shows, run from this program.

use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use access::{MaySet, Role};
use anyhow::{Context, bail};
use archive::Signatory;
use identity::{Cost, Expiry, Folder, PasswordHash, Secret, User};
use keys::Token;
use sys::clock;
use tallycast::Bus;

use crate::verbs::reliable::keys::forbid_core_dumps;

/// Station of the publishers.
const PUBLISHERS: &str = "publishers";
/// Station of the readers.
const READERS: &str = "readers";
/// Time until the first rotation, and from it to the second.
const FIRST_INTERVAL: Duration = Duration::from_secs(6);
/// Time between further ones, each of which is told.
const ROTATION_INTERVAL: Duration = Duration::from_secs(60);
/// Time from a rotation until stations send with the new secret: all have read their files long before.
const UNTIL_USE: Duration = Duration::from_secs(2);
/// Time after which the use of a new secret can be expected of every publisher, on a busy machine too.
const IN_USE_AFTER: Duration = Duration::from_secs(4);

/// Users of the page, with their roles.
const USERS: [(&str, Role); 3] =
    [("viewer", Role::Viewer), ("operator", Role::Operator), ("admin", Role::Administrator)];
const TOKEN: &str = "metrics";
/// Rules of the page: on loopback, too, everybody signs in.
const RULES: &str = "\
allow role:viewer        viewer    **
allow role:operator      operator  **
allow role:administrator *         **
allow token:metrics      read      **
";

/// The files of a secured demo.
pub(super) struct Laboratory {
    folder: PathBuf,
    bus: String,
}

/// What opens the page.
pub(super) struct SignIns {
    users: Vec<(&'static str, Secret)>,
    token: Secret,
}

impl Laboratory {
    /// Makes the keys of two stations, and of another laboratory, in `folder`.
    pub(super) fn make(folder: &Path, bus: String) -> anyhow::Result<Self> {
        forbid_core_dumps();
        let folder = std::path::absolute(folder).context("cannot tell the folder of this process")?;
        let laboratory = Self { folder, bus };
        let [keys, other] = ["keys", "outsider"].map(|name| laboratory.folder.join(name));
        let place = laboratory.path(PUBLISHERS);
        let authority = keys.join("demo.authority");
        tallycast(&["keys", "new", path(&keys)?, "--laboratory", "demo", "--station", PUBLISHERS])?;
        tallycast(&["keys", "add", READERS, "--authority", path(&authority)?, "--like", path(&place)?])?;
        tallycast(&["keys", "new", path(&other)?, "--laboratory", "outsider", "--station", "outsider"])?;
        for bus in [laboratory.publishers(), laboratory.readers(), laboratory.outsiders()] {
            bus.parse::<Bus>()?;
        }
        Ok(laboratory)
    }

    /// Returns the bus of the publishers, who sign what they publish.
    pub(super) fn publishers(&self) -> String {
        with_keys(&self.bus, &self.path(PUBLISHERS)) + "&proof=on"
    }

    /// Returns who must have signed.
    pub(super) fn signatory(&self) -> anyhow::Result<Signatory> {
        let authority = keyring::read_station(&self.path(PUBLISHERS))?.authority();
        Ok(Signatory { authority, station: Some(PUBLISHERS.to_owned()) })
    }

    /// Returns the bus of the readers.
    pub(super) fn readers(&self) -> String {
        with_keys(&self.bus, &self.path(READERS))
    }

    /// Returns the bus of somebody who has keys of another laboratory.
    pub(super) fn outsiders(&self) -> String {
        with_keys(&self.bus, &self.folder.join("outsider/outsider.keys"))
    }

    /// Makes users, a token and rules of the page.
    pub(super) fn sign_ins(&self) -> anyhow::Result<SignIns> {
        let path = self.access();
        DirBuilder::new().recursive(true).mode(0o700).create(&path).with_context(|| cannot_write(&path))?;
        let folder = Folder::new(&path);
        let rules = folder.rules_path();
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&rules);
        let written = file.and_then(|mut file| file.write_all(RULES.as_bytes()));
        written.with_context(|| cannot_write(&rules))?;
        let mut users = Vec::new();
        for (name, role) in USERS {
            let password = password();
            let user = User::new(role, PasswordHash::new(&password, Cost::Usual)?);
            folder.change_users(|all| all.add(name.parse().expect("a plain name"), user))?;
            users.push((name, password));
        }
        let (scopes, expires) = (MaySet::from_iter([access::May::Read]), Expiry::in_days(clock::wall(), 1));
        let issue = |tokens: &mut identity::Tokens| {
            tokens.issue(TOKEN.parse().expect("a plain name"), scopes, Some(expires))
        };
        Ok(SignIns { users, token: folder.change_tokens(issue)? })
    }

    /// Returns the folder of the page's users, tokens and rules.
    pub(super) fn access(&self) -> PathBuf {
        self.folder.join("access")
    }

    /// Returns the folder of state of the monitor server: it makes its certificate authority there.
    pub(super) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn path(&self, station: &str) -> PathBuf {
        self.folder.join("keys").join(format!("{station}.keys"))
    }
}

impl SignIns {
    /// Prints users with passwords, and the token: made for this demo, and of no use after it.
    pub(super) fn tell(&self) {
        for (place, (name, password)) in self.users.iter().enumerate() {
            let head = if place == 0 { "sign in" } else { "" };
            eprintln!("{head:<9} {name:<9} {}", password.reveal());
        }
        eprintln!("token     {TOKEN:<9} {}", self.token.reveal());
    }
}

/// Changes of the secret while the demo runs.
pub(super) struct Rotations<'a> {
    laboratory: &'a Laboratory,
    next: Instant,
    made: Vec<Rotation>,
}

/// A new secret, by its public name.
struct Rotation {
    token: Token,
    made: Instant,
}

impl<'a> Rotations<'a> {
    pub(super) fn of(laboratory: &'a Laboratory) -> Self {
        Self { laboratory, next: Instant::now() + FIRST_INTERVAL, made: Vec::new() }
    }

    /// Makes the next secret if it is time for it, and retires the one before the present one.
    pub(super) fn look(&mut self) -> anyhow::Result<()> {
        if Instant::now() < self.next {
            return Ok(());
        }
        self.next += if self.made.is_empty() { FIRST_INTERVAL } else { ROTATION_INTERVAL };
        let files = [PUBLISHERS, READERS].map(|station| self.laboratory.path(station));
        let files = [path(&files[0])?, path(&files[1])?];
        let tokens = || anyhow::Ok(tokens(&keyring::read_station(Path::new(files[0]))?));
        let before = tokens()?;
        // All stations send with the last one by now.
        if let [.., old, _] = before.as_slice() {
            tallycast(&["keys", "retire", &old.to_string(), files[0], files[1]])?;
        }
        let from = format!("+{}s", UNTIL_USE.as_secs());
        tallycast(&["keys", "rotate", "--from", &from, files[0], files[1]])?;
        let new = tokens()?.into_iter().find(|token| !before.contains(token));
        let token = new.context("the file of keys has no new secret")?;
        eprintln!("rotation  secret {token}, in use in {} s", UNTIL_USE.as_secs());
        self.made.push(Rotation { token, made: Instant::now() });
        Ok(())
    }

    /// Returns the secrets that publishers must have begun to use.
    pub(super) fn in_use(&self) -> Vec<Token> {
        let old = self.made.iter().filter(|rotation| rotation.made.elapsed() > IN_USE_AFTER);
        old.map(|rotation| rotation.token).collect()
    }
}

fn tokens(file: &keys::KeyFile) -> Vec<Token> {
    file.secrets().iter().map(|secret| secret.token).collect()
}

/// Returns a password that can be typed: 64 random bits.
fn password() -> Secret {
    // Of its final size at once: a buffer that grows leaves copies behind.
    let mut text = String::with_capacity(17);
    let [one, other] = [(); 2].map(|()| keyring::random_token());
    write!(text, "{one}-{other}").expect("a text takes everything");
    Secret::new(text)
}

fn with_keys(bus: &str, keys: &Path) -> String {
    let separator = if bus.contains('?') { '&' } else { '?' };
    format!("{bus}{separator}keys={}", keys.display())
}

/// Returns a path as an argument, which the option of a bus can hold.
fn path(path: &Path) -> anyhow::Result<&str> {
    match path.to_str().filter(|text| !text.contains('&')) {
        Some(text) => Ok(text),
        None => bail!("a bus cannot name {}\nname another folder with --dir", path.display()),
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}\nname another folder with --dir", path.display())
}

/// Runs this program with other arguments to its end; it says itself what is wrong.
fn tallycast(arguments: &[&str]) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("cannot find the executable of this program")?;
    let mut command = Command::new(program);
    let status = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if !status.success() {
        bail!("tallycast {} failed: {status}", arguments[..2].join(" "));
    }
    Ok(())
}
