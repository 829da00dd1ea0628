//! `tallycast keys show` and `check`: what files of keys say, without their secrets.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::anyhow;
use archive::moment_text;
use clap::Args;
use keyring::{KeyringError, read_service, read_station};
use keys::service::ServiceFile;
use keys::{Certificate, GroupSecret, KeyFile, Token};
use serde_json::json;
use tallycast::WallTime;

use super::Files;
use crate::Outcome;
use crate::layout::{self, Align};
use crate::messages::{print_error, print_line};

/// Time before the end of a certificate from which it is told: 14 days, so that a weekly look sees it.
const SOON_NS: i64 = 14 * 86_400 * 1_000_000_000;

#[derive(Args, Debug)]
pub(super) struct Show {
    #[command(flatten)]
    files: Files,
    /// Print JSON, an object a line for each file
    #[arg(long, short = 'J')]
    json: bool,
}

#[derive(Args, Debug)]
pub(super) struct Check {
    #[command(flatten)]
    files: Files,
}

/// Shows files.
pub(super) fn show(show: &Show, now: WallTime) -> anyhow::Result<()> {
    for (index, path) in show.files.files.iter().enumerate() {
        if path.extension().is_some_and(|ending| ending == "service") {
            let service = read_service(path)?;
            if show.json {
                print_service_json(&service, now)?;
                continue;
            }
            if index > 0 {
                writeln!(std::io::stdout())?;
            }
            print_service(&service, now)?;
            continue;
        }
        let file = read_station(path)?;
        warn_of_end(path, &file, now);
        if show.json {
            print_json(&file, now)?;
            continue;
        }
        if index > 0 {
            writeln!(std::io::stdout())?;
        }
        print_text(&file, now)?;
    }
    Ok(())
}

/// Warns if a station's certificate has expired, or will soon.
pub(super) fn warn_of_end(path: &Path, file: &KeyFile, now: WallTime) {
    let Certificate { name, not_after, .. } = file.station().certificate();
    let ends = if now >= *not_after {
        "has expired"
    } else if now.offset(SOON_NS) >= *not_after {
        "expires soon"
    } else {
        return;
    };
    eprintln!(
        "warning: {}: the certificate of station `{name}` {ends}, at {}\n\
         renew it where the laboratory's authority is kept: tallycast keys renew",
        path.display(),
        moment_text(*not_after)
    );
}

fn print_json(file: &KeyFile, now: WallTime) -> std::io::Result<()> {
    let certificate = file.station().certificate();
    let secrets = file.secrets().iter().map(|secret| {
        let (token, from) = (secret.token.to_string(), moment_text(secret.from));
        json!({ "token": token, "suite": secret.suite.name(), "from": from, "state": state(file, secret, now) })
    });
    let peers =
        file.peers().iter().map(|peer| json!({ "name": peer.name, "exchange": peer.exchange.to_string() }));
    print_line(&json!({
        "laboratory": file.laboratory(),
        "authority": file.authority().to_string(),
        "fingerprint": file.authority().fingerprint(),
        "station": certificate.name,
        "signing": certificate.signing.to_string(),
        "exchange": certificate.exchange.to_string(),
        "not_before": moment_text(certificate.not_before),
        "not_after": moment_text(certificate.not_after),
        "valid": file.membership(now).is_ok(),
        "service": file.service().map(|service| json!({
            "address": service.address.as_str(), "exchange": service.exchange.to_string()
        })),
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
    writeln!(output, "connects by  {}", certificate.exchange)?;
    if let Some(service) = file.service() {
        writeln!(output, "key service  {}, {}", service.address, service.exchange.fingerprint())?;
        return Ok(());
    }
    writeln!(output)?;
    let heads = ["secret", "suite", "from", "state"].map(|head| (head, Align::Left));
    let mut table = layout::Table::new(heads);
    for secret in file.secrets() {
        let (token, suite) = (secret.token.to_string(), secret.suite.name().to_owned());
        table.row([token, suite, moment_text(secret.from), state(file, secret, now).to_owned()]);
    }
    table.lines(layout::width()).iter().try_for_each(|line| writeln!(output, "{line}"))?;
    for peer in file.peers() {
        writeln!(output, "peer {}: {}", peer.name, peer.exchange)?;
    }
    Ok(())
}

fn print_service_json(file: &ServiceFile, now: WallTime) -> std::io::Result<()> {
    let periods = file.schedule().periods();
    let secrets = file.schedule().secrets().iter().map(|secret| {
        let (token, suite) = (secret.token.to_string(), secret.suite.name());
        let (from, until) = (moment_text(secret.from), secret.until.map(moment_text));
        let state = scheduled_state(file, secret, now);
        json!({ "token": token, "suite": suite, "from": from, "until": until, "state": state })
    });
    let members = file
        .members()
        .iter()
        .map(|member| json!({ "name": member.name, "exchange": member.exchange.to_string() }));
    let removed = file.removed().iter().map(|removed| {
        let (name, exchange) = (&removed.member.name, removed.member.exchange.to_string());
        json!({ "name": name, "exchange": exchange, "at": moment_text(removed.at) })
    });
    print_line(&json!({
        "laboratory": file.laboratory(),
        "authority": file.authority().to_string(),
        "address": file.address().as_str(),
        "exchange": file.public().to_string(),
        "lifetime_ms": periods.lifetime().as_millis(),
        "kept_ms": periods.kept().as_millis(),
        "secrets": secrets.collect::<Vec<_>>(),
        "members": members.collect::<Vec<_>>(),
        "removed": removed.collect::<Vec<_>>(),
    }))
}

fn print_service(file: &ServiceFile, now: WallTime) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    let periods = file.schedule().periods();
    let (lifetime, kept) = (periods.lifetime(), periods.kept());
    writeln!(output, "laboratory   {}\nauthority    {}", file.laboratory(), file.authority().fingerprint())?;
    writeln!(output, "key service  {}\nproves by    {}", file.address(), file.public().fingerprint())?;
    writeln!(output, "secrets      sent with for {lifetime:?}, accepted for {kept:?} after that\n")?;
    // Without the suite, which is the same for all as a rule, a row fits beside its neighbours.
    let mut table = layout::Table::new(["secret", "state", "from", "until"].map(|head| (head, Align::Left)));
    for secret in file.schedule().secrets() {
        let until = secret.until.map(moment_text).unwrap_or_default();
        let state = scheduled_state(file, secret, now).to_owned();
        table.row([secret.token.to_string(), state, moment_text(secret.from), until]);
    }
    table.lines(layout::width()).iter().try_for_each(|line| writeln!(output, "{line}"))?;
    let mut suites: Vec<&str> = file.schedule().secrets().iter().map(|secret| secret.suite.name()).collect();
    suites.dedup();
    writeln!(output, "{}\n", suites.join(", then "))?;
    let mut table = layout::Table::new(["member", "connects by"].map(|head| (head, Align::Left)));
    for member in file.members() {
        table.row([member.name.clone(), member.exchange.to_string()]);
    }
    table.lines(layout::width()).iter().try_for_each(|line| writeln!(output, "{line}"))?;
    if file.removed().is_empty() {
        return Ok(());
    }
    let mut table = layout::Table::new(["removed", "at"].map(|head| (head, Align::Left)));
    for removed in file.removed() {
        table.row([removed.member.name.clone(), moment_text(removed.at)]);
    }
    writeln!(output)?;
    table.lines(layout::width()).iter().try_for_each(|line| writeln!(output, "{line}"))
}

/// Returns the state of a key service's secret.
fn scheduled_state(file: &ServiceFile, secret: &GroupSecret, now: WallTime) -> &'static str {
    if file.schedule().in_use(now).is_some_and(|it| it.token == secret.token) {
        "in use"
    } else if secret.from > now {
        "next"
    } else {
        "accepted"
    }
}

/// Returns a secret's state: sent with, sent with later, or only accepted.
fn state(file: &KeyFile, secret: &GroupSecret, now: WallTime) -> &'static str {
    if file.sending(now).is_some_and(|it| it.token == secret.token) {
        "in use"
    } else if secret.from > now {
        "next"
    } else {
        "accepted"
    }
}

/// Checks files, each for itself and all for one laboratory and the same secrets.
pub(super) fn check(check: &Check, now: WallTime) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::Fine;
    let mut first: Option<(&Path, KeyFile)> = None;
    let mut found = |error: anyhow::Error| {
        print_error(&error);
        outcome = Outcome::Found;
    };
    for path in &check.files.files {
        let file = match read_station(path) {
            Ok(file) => file,
            Err(error) => {
                found(error.into());
                continue;
            }
        };
        let (like, expected) = first.get_or_insert_with(|| (path, file.clone()));
        if let Some(difference) = difference(&file, expected) {
            let (path, like) = (path.display(), like.display());
            found(anyhow!("{path} {difference} {like}\ncompare them: tallycast keys show {path} {like}"));
        }
        match check_time(path, &file, now) {
            Ok(()) => {
                warn_of_end(path, &file, now);
                let certificate = file.station().certificate();
                let until = moment_text(certificate.not_after);
                let (path, name) = (path.display(), &certificate.name);
                writeln!(std::io::stdout(), "{path}: station {name}, valid until {until}")?;
            }
            Err(error) => found(error),
        }
    }
    Ok(outcome)
}

/// Returns what keeps two stations from reading each other, as words between the names of their files.
fn difference(file: &KeyFile, other: &KeyFile) -> Option<String> {
    if file.authority() != other.authority() {
        return Some("belongs to another laboratory than".to_owned());
    }
    let tokens = |file: &KeyFile| file.secrets().iter().map(|it| it.token).collect::<BTreeSet<Token>>();
    if tokens(file) != tokens(other) {
        return Some("has other secrets than".to_owned());
    }
    file.secrets().iter().find_map(|secret| {
        let same = other.secrets().iter().find(|it| it.token == secret.token)?;
        let part = if secret.secret != same.secret {
            "value"
        } else if secret.suite != same.suite {
            "suite"
        } else if secret.from != same.from {
            "time"
        } else {
            return None;
        };
        Some(format!("gives the secret {} another {part} than", secret.token))
    })
}

/// Checks that a file is of use now.
fn check_time(path: &Path, file: &KeyFile, now: WallTime) -> anyhow::Result<()> {
    let certificate = |error| KeyringError::Certificate { path: path.to_owned(), error };
    file.membership(now).map_err(certificate)?;
    if let Some(from) = file.sending(now).map(|secret| secret.from).filter(|from| *from > now) {
        let from = moment_text(from);
        return Err(anyhow!("{}: no secret is to be used before {from}\ncheck the clock", path.display()));
    }
    Ok(())
}
