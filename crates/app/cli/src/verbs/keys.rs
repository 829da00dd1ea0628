//! `tallycast keys`: makes, shows, checks and changes the files of keys of a laboratory's stations.

mod change;
mod make;
mod peers;
mod serve;
mod show;

use std::path::PathBuf;

use anyhow::bail;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use keys::{GroupSecret, Suite};
use tallycast::WallTime;

use crate::Outcome;
use crate::settings::Sources;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast keys new                               authority, first secret, and this station's file, in ./keys
  tallycast keys add daq-2 --authority keys/lab.authority --like keys/daq-1.keys
  tallycast keys show keys/daq-1.keys              key tokens, times, fingerprints; never a secret
  tallycast keys rotate keys/*.keys                the next secret, for all stations
  tallycast keys peers keys/*.keys                 stations may send each other files, and measure
  tallycast keys retire 1a2b3c4d keys/*.keys       an old one is not accepted any more
  tallycast keys serve keys/lab.service            a key service instead: it makes and hands out the secrets
  tallycast keys remove daq-2 --service keys/lab.service

A bus with keys=FILE is secured: udp://239.84.0.0:7400?shm=on&keys=keys/daq-1.keys";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Make the keys of a laboratory: its authority, its first secret, and the file of this station
    New(make::New),
    /// Make the file of another station
    Add(make::Add),
    /// Give stations new certificates; their keys stay
    Renew(make::Renew),
    /// Show stations' files without their secrets
    Show(show::Show),
    /// Check stations' files: valid now, and with the same secrets; exit code 1 if not
    Check(show::Check),
    /// Add the next secret to stations' files
    Rotate(change::Rotate),
    /// Remove a secret from stations' files: it is not accepted any more
    Retire(change::Retire),
    /// Let stations connect to each other: each file lists the others, for send, recv and bench
    Peers(peers::Peers),
    /// Serve keys: make the secrets in time, and give them to the stations that are members
    Serve(serve::Serve),
    /// Remove stations from a key service: they are blind within a second
    Remove(serve::Remove),
}

/// Stations' files.
#[derive(Args, Debug)]
struct Files {
    /// Stations' files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    super::reliable::keys::forbid_core_dumps();
    let now = sys::clock::wall();
    match arguments.what {
        What::New(new) => make::new(&new, now, sources)?,
        What::Add(add) => make::add(&add, now, sources)?,
        What::Renew(renew) => make::renew(&renew, now)?,
        What::Show(show) => show::show(&show, now)?,
        What::Check(check) => return show::check(&check, now),
        What::Rotate(rotate) => change::rotate(&rotate, now)?,
        What::Retire(retire) => change::retire(&retire, now)?,
        What::Peers(peers) => peers::peers(&peers)?,
        What::Serve(serve) => serve::serve(&serve)?,
        What::Remove(remove) => serve::remove(&remove, now)?,
    }
    Ok(Outcome::Fine)
}

/// Draws a secret of the group, with a token that is not `taken`.
fn draw(suite: Suite, from: WallTime, taken: &[&GroupSecret]) -> GroupSecret {
    let mut token = keyring::random_token();
    while taken.iter().any(|known| known.token == token) {
        token = keyring::random_token();
    }
    GroupSecret::new(token, suite, keyring::random_secret(), from)
}

/// Reads a suite by its name.
fn suite() -> impl TypedValueParser<Value = Suite> {
    let by_name = |name: String| Suite::from_name(&name).expect("one of the names");
    PossibleValuesParser::new(Suite::ALL.map(Suite::name)).map(by_name)
}

/// Returns the name of the file of a station or a laboratory.
fn file_name(name: &str, ending: &str) -> anyhow::Result<String> {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-.@+".contains(letter);
    if !name.starts_with(char::is_alphanumeric)
        || !name.chars().all(is_plain)
        || name.len() > keys::MAX_NAME_BYTES
    {
        bail!(
            "`{}` names no file of keys\nwrite letters, digits, and any of _ - . @ + within {} bytes",
            name.escape_debug(),
            keys::MAX_NAME_BYTES
        );
    }
    Ok(format!("{name}.{ending}"))
}
