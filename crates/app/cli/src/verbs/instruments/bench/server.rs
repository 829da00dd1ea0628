//! `tallycast bench -s`: the end that waits for clients.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context;
use bench::Program;
use bench::control::{self, Lifetime, Patience, Serve, ServerEvent, ServerOptions, Unwelcome};
use clap::Args;

use super::scene::control_keys;
use crate::Outcome;
use crate::signals;
use crate::verbs::reliable::keys::{KeyArguments, shown};

/// The default port of a server.
pub(super) const DEFAULT_PORT: u16 = 7_430;

/// The tests a server supports.
const TESTS: &[&dyn Serve] = &of(bench::throughput::TEST);
/// Tests including a CPU load for clients that request it.
const TESTS_WITH_LOAD: &[&dyn Serve] = &of(bench::throughput::TEST_WITH_LOAD);

const fn of(throughput: &'static dyn Serve) -> [&'static dyn Serve; 4] {
    [throughput, bench::pingpong::TEST, bench::path_mtu::TEST, bench::capacity::TEST]
}

#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Wait for clients, one after the other
    #[arg(short, long, conflicts_with = "client")]
    pub(super) server: bool,
    /// Address a server listens on; 0.0.0.0 admits every host of the network
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), requires = "server")]
    listen: IpAddr,
    /// Exit after one client
    #[arg(short = '1', long, requires = "server")]
    one_off: bool,
    /// Let clients put a CPU load on this host (`sweep --cpu-load`)
    #[arg(long, requires = "server")]
    allow_load: bool,
}

/// Serves clients until it is stopped.
pub(super) fn run(arguments: &Arguments, port: u16, keys: &KeyArguments) -> anyhow::Result<Outcome> {
    let lifetime = if arguments.one_off { Lifetime::OneClient } else { Lifetime::UntilStopped };
    let listen = SocketAddr::new(arguments.listen, port);
    let (keys, station) = (keys.listed()?, keys.station()?);
    if let Some(keys) = &keys {
        eprintln!("public key: {}; clients that are listed: {}", shown(&keys.public()), keys.peers.len());
    } else if !listen.ip().is_loopback() {
        eprintln!(
            "no key: every host that reaches this one may load it; --key FILE and --peer admit listed clients only"
        );
    }
    let keys = keys.as_ref().map(|keys| control_keys(keys, station));
    let options = ServerOptions { listen, lifetime, patience: Patience::default(), keys };
    let cancellation = signals::cancellation()?;
    let tests = if arguments.allow_load { TESTS_WITH_LOAD } else { TESTS };
    control::serve(&options, tests, &tell, &cancellation)?;
    Ok(Outcome::Fine)
}

/// Serves the process that started this one: sends it the address, and ends with it.
pub(super) fn run_for_parent(listen: IpAddr) -> anyhow::Result<Outcome> {
    let cancellation = signals::cancellation()?;
    signals::cancel_with_parent(&cancellation)?;
    let listen = SocketAddr::new(listen, 0);
    let (lifetime, patience) = (Lifetime::UntilStopped, Patience::default());
    let options = ServerOptions { listen, lifetime, patience, keys: None };
    let watch = |event: ServerEvent| {
        if let ServerEvent::Listening(address) = event {
            // A parent that does not read has died: then standard input ends too.
            let _ = writeln!(std::io::stdout(), "{address}");
        }
    };
    // A client that measures with its own host may load it.
    control::serve(&options, TESTS_WITH_LOAD, &watch, &cancellation)?;
    Ok(Outcome::Fine)
}

/// Returns the command that starts this program in another role.
pub(super) fn this_program(role: &str) -> anyhow::Result<Program> {
    Program::this(&["bench", role]).context("the path of this program cannot be determined")
}

fn tell(event: ServerEvent) {
    match event {
        ServerEvent::Listening(address) => eprintln!("listening on {address}; stop with Ctrl-C"),
        ServerEvent::Began { client, test } => eprintln!("{client} measures {test}"),
        ServerEvent::Ended { client, trouble: None } => eprintln!("{client} has finished"),
        ServerEvent::Ended { client, trouble: Some(trouble) } => eprintln!("{client} broke off: {trouble}"),
        ServerEvent::Refused { client, reason, count } => {
            let why = match reason {
                Unwelcome::Clear => "it has no key".to_owned(),
                Unwelcome::Handshake => "it calls another key than this one".to_owned(),
                Unwelcome::Unlisted(key) => {
                    format!("its key is not listed; to admit it: --peer {}", shown(&key))
                }
                Unwelcome::Silent => "it did not complete the handshake".to_owned(),
            };
            eprintln!("{client} was refused ({count} so far): {why}");
        }
        ServerEvent::TurnedAway(client) => eprintln!("{client} was refused: the server is busy"),
    }
}
