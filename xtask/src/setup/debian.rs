//! System packages by apt-get, as root or with a sudo without a password; otherwise the command to type is printed.

use super::{run_said, say};
use std::process::{Command, Stdio};

/// Result of an installation.
pub(super) enum Outcome {
    /// The packages are installed.
    Installed,
    /// Not Debian, or neither root nor sudo; the command to type has been printed.
    NotAllowed,
    /// apt-get was run and failed.
    Failed(anyhow::Error),
}

/// Installs `packages`, all at once, after one `apt-get update`.
pub(super) fn install(packages: &[&str]) -> Outcome {
    if packages.is_empty() {
        return Outcome::Installed;
    }
    let typed =
        format!("apt-get update && apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !succeeds("apt-get", &["--version"]) {
        say(&format!("this is not a Debian system; install the equivalent of: {}", packages.join(" ")));
        return Outcome::NotAllowed;
    }
    let Some(privilege) = privilege() else {
        say(&format!("not root, so nothing is installed. Type:\n    sudo sh -c '{typed}'"));
        say("until then, what needs it is left out and counted as skipped");
        return Outcome::NotAllowed;
    };
    // One stale source fails the whole update, and the package may be in another: the installation decides.
    if let Err(error) = run_said(&mut apt_get(privilege, &["update", "-q"]), "reading Debian's package lists")
    {
        say(&format!("{error:#}"));
    }
    let what = format!("installing the Debian packages {} (may take minutes)", packages.join(", "));
    let mut arguments = vec!["install", "-y", "-q", "--no-install-recommends"];
    arguments.extend(packages);
    run_said(&mut apt_get(privilege, &arguments), &what).map_or_else(Outcome::Failed, |()| Outcome::Installed)
}

/// Privilege with which packages are installed.
#[derive(Clone, Copy)]
enum Privilege {
    Root,
    Sudo,
}

fn privilege() -> Option<Privilege> {
    let user = Command::new("id").arg("-u").stdin(Stdio::null()).output().ok()?;
    if user.stdout.trim_ascii() == b"0" {
        return Some(Privilege::Root);
    }
    succeeds("sudo", &["-n", "true"]).then_some(Privilege::Sudo)
}

fn apt_get(privilege: Privilege, arguments: &[&str]) -> Command {
    // `env` rather than an environment variable of ours: sudo would drop it.
    let line = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    let words = match privilege {
        Privilege::Root => line.to_vec(),
        Privilege::Sudo => ["sudo", "-n"].into_iter().chain(line).collect(),
    };
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(arguments);
    command
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}
