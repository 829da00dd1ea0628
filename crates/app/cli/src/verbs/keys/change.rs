//! `tallycast keys rotate` and `retire`: the secrets of a group, in the files of all its stations.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use archive::{Moment, moment_text};
use clap::Args;
use keyring::{Change, read_station};
use keys::{GroupSecret, KeyFile, SecretError, Suite, Token};
use tallycast::WallTime;

use super::show::warn_of_end;
use super::{Files, draw, suite};

#[derive(Args, Debug)]
pub(super) struct Rotate {
    #[command(flatten)]
    files: Files,
    /// Time from which stations send with it: now, +10min, or 2027-01-31T12:00:00Z
    #[arg(long, default_value = "+10min", value_name = "TIME", value_parser = when, allow_hyphen_values = true)]
    from: Moment,
    /// Encryption of datagrams; by default that of the secret before
    #[arg(long, value_parser = suite())]
    suite: Option<Suite>,
}

#[derive(Args, Debug)]
pub(super) struct Retire {
    /// Key token of the secret: its public name, as shown
    token: Token,
    #[command(flatten)]
    files: Files,
}

/// Reads a time at or after now.
fn when(text: &str) -> Result<Moment, String> {
    match if text == "now" { Ok(Moment::AfterStart(0)) } else { text.parse() } {
        Ok(moment @ (Moment::At(_) | Moment::AfterStart(_))) => Ok(moment),
        _ => Err("write now, +10min, or a time in UTC such as 2027-01-31T12:00:00Z".to_owned()),
    }
}

/// Adds one new secret to all files.
pub(super) fn rotate(rotate: &Rotate, now: WallTime) -> anyhow::Result<()> {
    let mut change = Change::begin(&rotate.files.files)?;
    let mut files = read(&rotate.files.files)?;
    files.iter().for_each(|(path, file)| warn_of_end(path, file, now));
    let from = rotate.from.in_recording(now, now);
    let known: Vec<&GroupSecret> = files.iter().flat_map(|(_, file)| file.secrets()).collect();
    if let Some(later) = known.iter().find(|secret| secret.from > from) {
        // It would be used again after the new one, and perhaps be known to a station that was lost.
        bail!(
            "the secret {} comes after that, from {}\ngive a later time, or retire that one first",
            later.token,
            moment_text(later.from)
        );
    }
    let before = known.iter().max_by_key(|secret| secret.from).ok_or(SecretError::OfService)?;
    let (old, suite) = (before.token, rotate.suite.unwrap_or(before.suite));
    let secret = draw(suite, from, &known);
    for (path, file) in &mut files {
        file.add_secret(secret.clone()).with_context(|| path.display().to_string())?;
        change.stage(path, file)?;
    }
    change.commit()?;
    Ok(writeln!(
        std::io::stdout(),
        "{}: stations send with this secret from {}\n\
         Copy each file to its station before that. When all have it, the one before can go:\n  \
         tallycast keys retire {old} FILE...",
        secret.token,
        moment_text(from)
    )?)
}

/// Removes a secret from all files that have it.
pub(super) fn retire(retire: &Retire, now: WallTime) -> anyhow::Result<()> {
    let mut change = Change::begin(&retire.files.files)?;
    let mut files = read(&retire.files.files)?;
    let has_it = |file: &KeyFile| file.secrets().iter().any(|secret| secret.token == retire.token);
    if !files.iter().any(|(_, file)| has_it(file)) {
        return Err(SecretError::Unknown(retire.token).into());
    }
    for (path, file) in &mut files {
        if !has_it(file) {
            eprintln!("{}: has no secret {} any more, and stays as it is", path.display(), retire.token);
            continue;
        }
        file.retire_secret(retire.token, now).with_context(|| path.display().to_string())?;
        change.stage(path, file)?;
    }
    Ok(change.commit()?)
}

/// Reads the files of one laboratory's stations.
fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<(&Path, KeyFile)>> {
    let files = paths.iter().map(|path| Ok((path.as_path(), read_station(path)?)));
    let files: Vec<(&Path, KeyFile)> = files.collect::<anyhow::Result<_>>()?;
    if let Some([(one, _), (other, _)]) = files.windows(2).find_map(|pair| {
        let [one, other] = pair else { return None };
        (one.1.authority() != other.1.authority()).then_some([one, other])
    }) {
        bail!(
            "{} and {} belong to different laboratories\nname the files of one at a time",
            one.display(),
            other.display()
        );
    }
    Ok(files)
}
