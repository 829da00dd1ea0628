//! `tallycast keys serve` and `remove`: the key service of a laboratory, and its members.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use archive::moment_text;
use clap::Args;
use keyring::{KeyService, ServiceEvent, change_service};
use serde_json::json;
use tallycast::WallTime;
use units::text;

use crate::messages::print_line;
use crate::signals::AsChild;

#[derive(Args, Debug)]
pub(super) struct Serve {
    /// File of the key service, which `keys new --service` made
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Address to listen at [default: all of this host, at the port in the file]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// End after this time, such as 8h
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// Print progress as JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
    #[command(flatten)]
    child: AsChild,
}

#[derive(Args, Debug)]
pub(super) struct Remove {
    /// Names of the stations
    #[arg(required = true, value_name = "STATION")]
    stations: Vec<String>,
    /// File of the key service
    #[arg(long, value_name = "FILE")]
    service: PathBuf,
}

/// Serves until it is told to end.
pub(super) fn serve(serve: &Serve) -> anyhow::Result<()> {
    let stop = serve.child.cancellation()?;
    let mut service = KeyService::open(&serve.file, serve.listen, stop.clone())?;
    let (address, members) = (service.address()?, service.file().members().len());
    if serve.json {
        print_line(&json!({
            "event": "listening", "address": address, "members": members, "pid": std::process::id()
        }))?;
    } else {
        let (laboratory, plural) = (service.file().laboratory(), if members == 1 { "" } else { "s" });
        eprintln!("serving keys of `{laboratory}` at {address}, for {members} member{plural}");
    }
    end_after(serve.duration, stop)?;
    // Progress that nobody reads is no reason to end: members need their keys.
    let is_json = serve.json;
    Ok(service.run(|event| {
        let _ = if is_json { print_line(&event_json(&event)) } else { print_event(&event) };
    })?)
}

fn end_after(duration: Option<Duration>, stop: sys::Cancellation) -> std::io::Result<()> {
    let Some(duration) = duration else { return Ok(()) };
    let timer = move || {
        stop.wait(duration);
        stop.cancel();
    };
    std::thread::Builder::new().name("deadline".to_owned()).spawn(timer).map(drop)
}

fn print_event(event: &ServiceEvent) -> std::io::Result<()> {
    let mut output = std::io::stdout();
    match event {
        ServiceEvent::Asks { member, from } => writeln!(output, "{member} asks from {from}"),
        ServiceEvent::Refused { station, from } => {
            writeln!(output, "{station} asks from {from} and is refused")
        }
        ServiceEvent::Added(member) => writeln!(output, "{member} is a member"),
        ServiceEvent::Removed { member, token, from } => {
            writeln!(output, "{member} is removed; others send with {token} from {}", moment_text(*from))
        }
        ServiceEvent::InUse(token) => writeln!(output, "{token} is in use"),
        ServiceEvent::Trouble(error) => {
            eprintln!("warning: the keys stay as they are: {error}");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn event_json(event: &ServiceEvent) -> serde_json::Value {
    match event {
        ServiceEvent::Asks { member, from } => json!({"event": "asks", "station": member, "from": from}),
        ServiceEvent::Refused { station, from } => {
            json!({"event": "refused", "station": station, "from": from})
        }
        ServiceEvent::Added(member) => json!({"event": "added", "station": member}),
        ServiceEvent::Removed { member, token, from } => json!({
            "event": "removed", "station": member, "token": token.to_string(), "from": moment_text(*from)
        }),
        ServiceEvent::InUse(token) => json!({"event": "in_use", "token": token.to_string()}),
        ServiceEvent::Trouble(error) => json!({"event": "trouble", "message": error}),
        _ => json!({"event": "other"}),
    }
}

/// Removes members of a key service, whether it runs or not.
pub(super) fn remove(remove: &Remove, now: WallTime) -> anyhow::Result<()> {
    let from = change_service(&remove.service, |file| -> anyhow::Result<_> {
        file.remove(&remove.stations, now, keyring::draw)?;
        let secrets = file.schedule().secrets().iter();
        Ok(secrets.map(|secret| secret.from).find(|from| *from > now))
    })?;
    let stations = remove.stations.join(", ");
    let when = from.map(moment_text).unwrap_or_default();
    Ok(writeln!(
        std::io::stdout(),
        "{stations}: no keys any more; the others send with a new secret from {when}, if the service runs\n\
         What was sent before can still be read with the keys that were held."
    )?)
}
