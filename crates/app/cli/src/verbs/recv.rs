//! `tallycast recv`: takes what `tallycast send` brings, into a directory.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::json;
use tallycast::udt::{Address, Connection, Listener, WaitError};
use transfer::{Failure, Notice, Receiver, Store, Tally, Whereto};

use super::reliable::{LOOK, Meter, Screen, WATCH, WayArguments, Words, raw};
use crate::Outcome;
use crate::stop::Stop;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast recv incoming/                            from whoever sends, at port 7400, until Ctrl-C
  tallycast recv incoming/ udt://10.0.0.1:9000 --once one transfer, at one interface
  tallycast recv --memory                             nothing but the speed
  tallycast recv --raw udt://0.0.0.0:9000 > file      from any program that speaks UDT 4
  tallycast recv --raw --messages udt://0.0.0.0:9000  messages, one behind the other

What is not whole yet lies in .tallycast-partial of the directory; a file in its place is whole and verified.
Whoever reaches the port may send: let only those reach it who may. Files that are there stay, unless --overwrite.
Exit code 1: something was refused or is missing; it is said what.";

const USAGE: &str = "tallycast recv DIR udt://0.0.0.0:7400";
/// Where senders are waited for unless it is said.
const USUAL: &str = "udt://0.0.0.0:7400";
/// Connections served at once; more wait until others have ended.
const MOST_CONNECTIONS: usize = 64;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    way: WayArguments,
    /// End after one whole transfer
    #[arg(long)]
    once: bool,
    /// Files may replace others of their name
    #[arg(long, conflicts_with_all = ["memory", "raw"])]
    overwrite: bool,
    /// Verify what arrives and forget it, to measure
    #[arg(long, conflicts_with = "raw")]
    memory: bool,
    /// Take one connection, and write what arrives to standard output as it is
    #[arg(long, conflicts_with = "once")]
    raw: bool,
    /// With --raw: messages in place of a stream
    #[arg(long, requires = "raw")]
    messages: bool,
    /// Tell progress, every file and each account as JSON, one object a line; with --raw on standard error
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let (paths, address) = arguments.words.split(USAGE)?;
    let usual = || USUAL.parse::<Address>().map_err(anyhow::Error::from);
    let address = address.map_or_else(usual, Ok)?;
    let stop = Stop::on_signals()?;
    let whereto = match paths.as_slice() {
        [] if arguments.raw => {
            return raw::receive(&address, &arguments.way, arguments.messages, arguments.json, &stop);
        }
        [] if arguments.memory => Whereto::Nowhere,
        [] => bail!("it is not said where to put what arrives\nwrite {USAGE}"),
        _ if arguments.raw || arguments.memory => {
            bail!("--raw and --memory need no directory\nleave it out, or them")
        }
        [directory] => Whereto::Directory(open(directory, arguments.overwrite)?),
        [_, other, ..] => bail!("one directory is enough, `{}` is another\nwrite {USAGE}", other.display()),
    };
    let listener = Listener::bind_to(address.resolve()?, &arguments.way.for_files(&address)?)
        .with_context(|| format!("{address} cannot be listened at"))?;
    let screen = Screen::new(arguments.json);
    let at = listener.local_address();
    let text = || format!("waiting at udt://{at} for `tallycast send PATH… udt://this-host:{}`", at.port());
    screen.say(text, || json!({"event": "listening", "address": format!("udt://{at}"), "port": at.port()}));
    let service = Service {
        receiver: Receiver::new(whereto),
        once: arguments.once,
        screen: &screen,
        stop: &stop,
        ending: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    service.serve(&listener)?;
    let ending = service.ending.into_inner().unwrap_or_else(PoisonError::into_inner);
    match ending.failure.filter(|_| arguments.once) {
        Some(failure) => Err(failure),
        None if ending.is_something_refused || ending.is_something_missing => Ok(Outcome::Found),
        None => Ok(Outcome::Fine),
    }
}

fn open(directory: &Path, may_replace: bool) -> anyhow::Result<Store> {
    Store::open(directory, may_replace)
        .with_context(|| format!("{} cannot take what arrives", directory.display()))
}

/// Serves one connection a thread.
struct Service<'a> {
    receiver: Receiver,
    once: bool,
    screen: &'a Screen,
    stop: &'a Stop,
    ending: Mutex<Ending>,
    is_over: AtomicBool,
}

/// What became of everything so far.
#[derive(Default)]
struct Ending {
    is_something_refused: bool,
    /// The last connection broke, or its transfer could not go on.
    is_something_missing: bool,
    /// Why this end could not go on.
    failure: Option<anyhow::Error>,
}

impl Service<'_> {
    fn serve(&self, listener: &Listener) -> anyhow::Result<()> {
        std::thread::scope(|scope| {
            let mut sessions = Vec::new();
            while !self.is_over() {
                sessions.retain(|(_, session): &(_, std::thread::ScopedJoinHandle<'_, ()>)| {
                    !session.is_finished()
                });
                let meters: Vec<_> = sessions.iter().map(|(meter, _)| Clone::clone(meter)).collect();
                self.screen.progress(&meters);
                if sessions.len() == MOST_CONNECTIONS {
                    std::thread::sleep(WATCH);
                    continue;
                }
                match listener.accept(Some(WATCH)) {
                    Ok(connection) => {
                        let peer = connection
                            .peer_address()
                            .map_or_else(String::new, |peer| format!("udt://{peer}"));
                        let meter = Arc::new(Meter::new());
                        let watched = (peer.clone(), Arc::clone(&meter));
                        sessions
                            .push((watched, scope.spawn(move || self.session(connection, &peer, &meter))));
                    }
                    Err(WaitError::TimedOut) => {}
                    Err(error) => {
                        self.is_over.store(true, Ordering::Relaxed);
                        return Err(anyhow!(error).context("no more connections can be taken"));
                    }
                }
            }
            Ok(())
        })
    }

    fn is_over(&self) -> bool {
        self.stop.is_wanted() || self.is_over.load(Ordering::Relaxed)
    }

    /// What one connection brings.
    fn session(&self, connection: Connection, peer: &str, meter: &Meter) {
        connection.set_receive_timeout(Some(LOOK));
        connection.set_send_timeout(Some(LOOK));
        let connection = Arc::new(connection);
        meter.connected(&connection);
        let mut tally = Tally::default();
        let mut notice = |notice: Notice<'_>| {
            meter.notice(&notice);
            self.screen.notice(peer, &notice);
        };
        let received = self.receiver.receive(&*connection, &|| self.is_over(), &mut tally, &mut notice);
        let error = received.as_ref().err().map(ToString::to_string);
        if let Some(error) = &error {
            let text = || format!("warning: {peer}: {error}");
            self.screen.say(text, || json!({"event": "broken", "peer": peer, "error": error}));
        }
        self.screen.account(peer, &tally, meter, error.as_deref());
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        ending.is_something_refused |= tally.refused > 0;
        // Who offered nothing, as a stranger who knocks, says nothing of what others brought.
        if tally.offered > 0 {
            ending.is_something_missing = tally.missing() > 0;
        }
        let is_last = match received {
            Ok(()) => true,
            Err(failure @ (Failure::Store { .. } | Failure::Room { .. })) => {
                ending.failure = Some(failure.into());
                true
            }
            Err(_) => false,
        };
        if is_last && self.once {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}
