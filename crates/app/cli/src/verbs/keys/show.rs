//! `tallycast keys show` and `check`: what files of keys say, without their secrets.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use archive::moment_text;
use clap::Args;
use keyring::{KeyringError, read_station};
use keys::{GroupSecret, KeyFile, PublicKey, Token};
use serde_json::json;
use tallycast::WallTime;

use super::Files;
use crate::Outcome;
use crate::layout::{self, Align};
use crate::messages::{print_error, print_line};

#[derive(Args, Debug)]
pub(super) struct Show {
    /// A station's file
    file: PathBuf,
    /// Print JSON
    #[arg(long, short = 'J')]
    json: bool,
}

#[derive(Args, Debug)]
pub(super) struct Check {
    #[command(flatten)]
    files: Files,
}

/// Shows a file.
pub(super) fn show(show: &Show, now: WallTime) -> anyhow::Result<()> {
    let file = read_station(&show.file)?;
    let print = if show.json { print_json } else { print_text };
    Ok(print(&file, now)?)
}

fn print_json(file: &KeyFile, now: WallTime) -> std::io::Result<()> {
    let certificate = file.station().certificate();
    let secrets = file.secrets().iter().map(|secret| {
        let (token, from) = (secret.token.to_string(), moment_text(secret.from));
        json!({ "token": token, "suite": secret.suite.name(), "from": from, "state": state(file, secret, now) })
    });
    let peers = file.peers().iter().map(|peer| json!({ "name": peer.name, "exchange": hex(&peer.exchange) }));
    print_line(&json!({
        "laboratory": file.laboratory(),
        "authority": hex(&file.authority()),
        "fingerprint": file.authority().fingerprint(),
        "station": certificate.name,
        "signing": hex(&certificate.signing),
        "exchange": hex(&certificate.exchange),
        "not_before": moment_text(certificate.not_before),
        "not_after": moment_text(certificate.not_after),
        "valid": file.membership(now).is_ok(),
        "secrets": secrets.collect::<Vec<_>>(),
        "peers": peers.collect::<Vec<_>>(),
    }))
}

fn print_text(file: &KeyFile, now: WallTime) -> std::io::Result<()> {
    let certificate = file.station().certificate();
    let (from, until) = (moment_text(certificate.not_before), moment_text(certificate.not_after));
    let validity = if now < certificate.not_before {
        format!("not before {from}")
    } else if now >= certificate.not_after {
        format!("expired at {until}")
    } else {
        format!("until {until}")
    };
    let mut output = std::io::stdout().lock();
    writeln!(output, "laboratory   {}\nauthority    {}", file.laboratory(), file.authority().fingerprint())?;
    writeln!(output, "station      {}\ncertificate  {validity}", certificate.name)?;
    writeln!(output, "signs by     {}", certificate.signing.fingerprint())?;
    writeln!(output, "connects by  {}\n", hex(&certificate.exchange))?;
    let heads = ["secret", "suite", "from", "state"].map(|head| (head, Align::Left));
    let mut table = layout::Table::new(heads);
    for secret in file.secrets() {
        let (token, suite) = (secret.token.to_string(), secret.suite.name().to_owned());
        table.row([token, suite, moment_text(secret.from), state(file, secret, now).to_owned()]);
    }
    table.lines(layout::width()).iter().try_for_each(|line| writeln!(output, "{line}"))?;
    for peer in file.peers() {
        writeln!(output, "peer {}: {}", peer.name, hex(&peer.exchange))?;
    }
    Ok(())
}

/// Returns a secret's state: sent with, sent with later, or only accepted.
fn state(file: &KeyFile, secret: &GroupSecret, now: WallTime) -> &'static str {
    if secret.from > now {
        return "next";
    }
    let is_sending = file.sending(now).is_some_and(|sending| sending.token == secret.token);
    if is_sending { "in use" } else { "accepted" }
}

fn hex(key: &PublicKey) -> String {
    key.0.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
}

/// Checks files, each for itself and all for the same secrets.
pub(super) fn check(check: &Check, now: WallTime) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::Fine;
    let mut first: Option<(&Path, BTreeSet<Token>)> = None;
    let mut found = |error: anyhow::Error| {
        print_error(&error);
        outcome = Outcome::Found;
    };
    for path in &check.files.files {
        let file = match valid(path, now) {
            Ok(file) => file,
            Err(error) => {
                found(error);
                continue;
            }
        };
        let tokens: BTreeSet<Token> = file.secrets().iter().map(|secret| secret.token).collect();
        let (like, expected) = first.get_or_insert_with(|| (path, tokens.clone()));
        if *expected != tokens {
            let (path, like) = (path.display(), like.display());
            found(anyhow!("{path} has other secrets than {like}\ncompare them: tallycast keys show FILE"));
        }
        let certificate = file.station().certificate();
        let until = moment_text(certificate.not_after);
        writeln!(std::io::stdout(), "{}: station {}, valid until {until}", path.display(), certificate.name)?;
    }
    Ok(outcome)
}

/// Reads a file that is of use now.
fn valid(path: &Path, now: WallTime) -> anyhow::Result<KeyFile> {
    let file = read_station(path)?;
    let certificate = |error| KeyringError::Certificate { path: path.to_owned(), error };
    file.membership(now).map_err(certificate)?;
    if file.sending(now).is_none() {
        let from = file.secrets().first().map_or_else(String::new, |secret| moment_text(secret.from));
        return Err(anyhow!("{}: no secret is to be used before {from}\ncheck the clock", path.display()));
    }
    Ok(file)
}
