//! `tallycast send`: files and directories to a distant receiver, over as many connections as needed.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use serde_json::json;
use sys::Cancellation;
use tallycast::udt::{Address, CloseReason, Connection, Error, Options, SAFE_PACKET_BYTES, WaitError};
use transfer::{Failure, Listing, MAX_STREAMS, Notice, Patience, Place, Sender, Stripes, Tally};
use units::text;

mod ordered;

pub(crate) use ordered::carry_out;

use super::reliable::{Meter, POLL_INTERVAL, Screen, TransportArguments, WATCH, Words, raw};
use crate::Outcome;
use crate::signals;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast send shot-1042/ udt://archive.example.org            a directory, to a host that runs `tallycast recv DIR`
  tallycast send a.h5 b.h5 'udt://archive.example.org:7400?cc=reno' --bitrate 500M
  tallycast send --streams 4 shot-1042/ udt://archive.example.org       over four connections
  tallycast send --from udt://daq-3 shot-1042 udt://archive.example.org what daq-3 offers
  tallycast send shot-1042/ udt://archive.example.org --key daq.key --peer KEY   encrypted, to the owner of that public key
  tallycast send --memory 10GB udt://archive.example.org         measure the speed only
  tallycast send --raw udt://host:9000 < file                    to any program that speaks UDT 4
  tallycast send --raw --messages 8kB udt://host:9000 < file     as messages

A broken transfer resumes by itself; a stopped one resumes when the same command is given again.
Options of the address: cc, mtu, maxrate, sndbuf, rcvbuf, secure, peer and those of the congestion control.
Exit code 1: something was refused, left out or stopped; the output says what.";

const USAGE: &str = "tallycast send PATH… udt://host:7400";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    transport: TransportArguments,
    /// Send this much from memory instead of files, to measure; the receiver discards it with --memory
    #[arg(long, value_name = "SIZE", value_parser = text::size_bytes, conflicts_with = "raw")]
    memory: Option<usize>,
    /// Number of connections that share every file, 1 to 16; each takes a full share of a bottleneck
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_STREAMS)), conflicts_with = "raw")]
    streams: u32,
    /// Have this host send files of the folder that it offers; paths are below that folder, and the destination is as that host reaches it
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["raw", "memory", "patience"])]
    from: Option<Address>,
    /// Send standard input unchanged; replies go to standard output
    #[arg(long, conflicts_with = "key")]
    raw: bool,
    /// With --raw: send messages of this size, such as 8kB, instead of a stream
    #[arg(long, value_name = "SIZE", value_parser = text::size_bytes, requires = "raw")]
    messages: Option<usize>,
    /// Keep trying to reconnect for this long after the last progress; if given, also for the first connection [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = text::duration, conflicts_with = "raw")]
    patience: Option<Duration>,
    /// Print progress, every file and the account as JSON, one object per line; with --raw on standard error
    #[arg(long, short = 'J')]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let (paths, address) = arguments.words.split(USAGE)?;
    let address = address.ok_or_else(|| anyhow!("no destination is given\nwrite {USAGE}"))?;
    let cancellation = signals::cancellation()?;
    if arguments.raw {
        if let Some(path) = paths.first() {
            bail!("--raw sends standard input, not {}\nwrite < {0}, or omit --raw", path.display());
        }
        return raw::send(&address, &arguments.transport, arguments.messages, arguments.json, &cancellation);
    }
    if let Some(from) = &arguments.from {
        return ordered::send(from, &paths, &address, arguments, &cancellation);
    }
    let listing = match (arguments.memory, paths.as_slice()) {
        (Some(bytes), []) => Listing::of_memory(bytes as u64),
        (Some(_), _) => bail!("--memory sends no files\nomit the paths, or --memory"),
        (None, []) => bail!("nothing to send is given\nwrite {USAGE}, or --memory 1GB instead of paths"),
        (None, paths) => Listing::of(paths)?,
    };
    let screen = Screen::new(arguments.json);
    for left_out in &listing.left_out {
        let (path, reason) = (left_out.shown(), &left_out.reason);
        let text = || format!("warning: skipping {path}: {reason}");
        screen.say(text, || json!({"event": "left_out", "path": path, "reason": reason}));
    }
    arguments.transport.warn_if_clear(&screen, &address, address.resolve()?.ip());
    let is_something_left_out = !listing.left_out.is_empty();
    let options = divided(arguments.transport.for_files(&address)?, arguments.streams);
    let meter = Arc::new(Meter::new());
    let mut transfer = Transfer {
        address: &address,
        options,
        patience: arguments.patience,
        streams: arguments.streams,
        also: &|_| {},
        sender: Sender::new(listing),
        screen: &screen,
        meter: &meter,
        cancellation: &cancellation,
    };
    let watched = [(address.to_string(), Arc::clone(&meter))];
    let ended = std::thread::scope(|scope| {
        let work = scope.spawn(|| transfer.run());
        while !work.is_finished() {
            std::thread::sleep(WATCH);
            screen.progress(&watched);
        }
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let tally = transfer.sender.tally();
    let error = ended.as_ref().err().map(ToString::to_string);
    screen.account(&address.to_string(), &tally, &meter, error.as_deref());
    match ended {
        Err(Stopped::ByUs) => Ok(Outcome::Found),
        Err(Stopped::Failed(error)) => Err(error),
        Ok(()) => Ok(outcome(&tally, is_something_left_out)),
    }
}

const fn outcome(tally: &Tally, is_something_left_out: bool) -> Outcome {
    if tally.refused > 0 || is_something_left_out { Outcome::Found } else { Outcome::Fine }
}

/// Default time to try to continue.
const USUAL_PATIENCE: Duration = Duration::from_secs(60);
/// Shortest pause between two attempts.
const LEAST_PAUSE: Duration = Duration::from_millis(200);
/// Longest pause between two attempts, so that a receiver that returns, or a free slot, is found soon.
const MOST_PAUSE: Duration = Duration::from_secs(2);
/// The least time for an attempt to connect, however little patience is left: two round trips of the handshake.
const LEAST_ATTEMPT: Duration = Duration::from_millis(500);

/// All connections that transfer one listing.
struct Transfer<'a> {
    address: &'a Address,
    options: Options,
    /// Patience as given.
    patience: Option<Duration>,
    /// Number of parallel connections.
    streams: u32,
    /// Hears of everything, beside screen and meter.
    also: &'a (dyn Fn(&Notice<'_>) + Sync),
    sender: Sender,
    screen: &'a Screen,
    meter: &'a Meter,
    cancellation: &'a Cancellation,
}

/// Reason for an end before completion.
/// Remedy if the receiver does not answer.
const REMEDY: &str =
    "start `tallycast recv DIR` on the other host first, and check that no firewall blocks UDP";
/// Remedy if a receiver does not answer a secured connection: it does not answer strangers.
const REMEDY_WITH_KEYS: &str = "start `tallycast recv DIR --key FILE --peer KEY` on the other host first, each end with \
     the other's public key, and check that no firewall blocks UDP";

#[derive(Debug, thiserror::Error)]
enum Stopped {
    /// The end was requested.
    #[error("stopped; the same command continues where it ended")]
    ByUs,
    /// It cannot continue.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

impl Transfer<'_> {
    fn run(&mut self) -> Result<(), Stopped> {
        let mut connected = self.connect()?;
        let mut advice = self.remedy();
        loop {
            let broken = match connected {
                Ok(connection) => {
                    advice = "give the same command again to continue";
                    match self.send_over(connection)? {
                        Some(broken) => broken,
                        None => return Ok(()),
                    }
                }
                Err(unanswered) => unanswered,
            };
            if self.meter.idle() >= self.patience() {
                let missing = self.sender.tally().missing();
                let error = anyhow!("{broken}; {missing} are missing\n{advice}");
                return Err(error.into());
            }
            if self.cancellation.wait(self.pause()) {
                return Err(Stopped::ByUs);
            }
            connected = self.connect_again()?;
        }
    }

    /// Makes the first connection: a missing receiver is an error, unless a patience was given.
    fn connect(&self) -> Result<Result<Connection, String>, Stopped> {
        let peer = self.address.resolve().map_err(anyhow::Error::from)?;
        let refused = WaitError::Closed(CloseReason::Refused);
        match Connection::connect_to(peer, &self.options_now()) {
            Ok(connection) => Ok(Ok(connection)),
            // Somebody is there: it may have room for us soon.
            Err(error @ Error::Connect { reason, .. }) if self.patience.is_some() || reason == refused => {
                let (address, error) = (self.address.to_string(), format!("{error}"));
                let text = || format!("warning: {error}; trying again");
                self.screen.say(text, || json!({"event": "broken", "peer": address, "error": error}));
                Ok(Err(error))
            }
            Err(error @ Error::Connect { .. }) => Err(anyhow!("{error}\n{}", self.remedy()).into()),
            Err(other) => Err(anyhow::Error::from(other).into()),
        }
    }

    /// Returns the wait before the next attempt, which grows with the number of failed ones.
    fn pause(&self) -> Duration {
        let idle = self.meter.idle();
        (idle / 8).clamp(LEAST_PAUSE, MOST_PAUSE).min(self.patience().saturating_sub(idle))
    }

    const fn remedy(&self) -> &'static str {
        if self.options.keys.is_some() { REMEDY_WITH_KEYS } else { REMEDY }
    }

    fn patience(&self) -> Duration {
        self.patience.unwrap_or(USUAL_PATIENCE)
    }

    /// Returns the options of a connection, with a time-out that ends with the patience.
    fn options_now(&self) -> Options {
        let mut options = self.options.clone();
        let left = self.patience().saturating_sub(self.meter.idle()).max(LEAST_ATTEMPT);
        options.socket.connect_timeout = options.socket.connect_timeout.min(left);
        options
    }

    /// Tries again; returns the reason if there is no answer.
    fn connect_again(&self) -> Result<Result<Connection, String>, Stopped> {
        // A host may return with another address.
        let peer = self.address.resolve().map_err(Error::from);
        match peer.and_then(|peer| Connection::connect_to(peer, &self.options_now())) {
            Ok(connection) => Ok(Ok(connection)),
            Err(error @ (Error::Connect { .. } | Error::Address(_))) => Ok(Err(error.to_string())),
            Err(error) => Err(anyhow!(error).into()),
        }
    }

    /// Uses smaller packets from now on if full ones did not arrive.
    fn shrink_packets(&mut self, failure: &Failure) {
        let Some(packet_bytes) = too_large(failure) else { return };
        self.options.socket.packet_bytes = smaller(packet_bytes);
        let taken = self.options.socket.packet_bytes;
        self.screen.say(
            || {
                format!(
                    "warning: using packets of {taken} bytes from now on, as with mtu={taken} in the address"
                )
            },
            || json!({"event": "narrower", "packet_bytes": taken}),
        );
    }

    /// Joins a striped transfer with the first connection, and opens the others; without parallel streams the first
    /// stays alone.
    fn all_streams(&self, first: Arc<Connection>) -> Result<Vec<Arc<Connection>>, Failure> {
        let streams = self.streams;
        if streams == 1 {
            return Ok(vec![first]);
        }
        let (bundle, cancellation) = (RandomState::new().build_hasher().finish(), self.cancellation);
        let join = |index, connection: Arc<Connection>| {
            let stop = || cancellation.is_cancelled();
            transfer::join(&*connection, &Place { bundle, streams, index }, &stop).map(|()| connection)
        };
        let gone = |error: Error| Failure::Connection(error.into());
        let peer = first.peer_address();
        let peer = peer.ok_or_else(|| Failure::Connection(std::io::ErrorKind::NotConnected.into()))?;
        let options = self.options_now();
        let another = |index| {
            let connection = Connection::connect_to(peer, &options).map_err(gone)?;
            connection.set_receive_timeout(Some(POLL_INTERVAL));
            connection.set_send_timeout(Some(POLL_INTERVAL));
            join(index, Arc::new(connection))
        };
        let first = join(0, first)?;
        std::thread::scope(|scope| {
            // All at once: each takes two round trips.
            let others: Vec<_> = (1..streams).map(|index| scope.spawn(move || another(index))).collect();
            let joined = others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            std::iter::once(Ok(first)).chain(joined).collect()
        })
    }

    /// Sends over one connection; returns the reason if it broke.
    fn send_over(&mut self, connection: Connection) -> Result<Option<String>, Stopped> {
        connection.set_receive_timeout(Some(POLL_INTERVAL));
        connection.set_send_timeout(Some(POLL_INTERVAL));
        let connection = Arc::new(connection);
        let peer = self.address.to_string();
        let (screen, meter, cancellation, also) = (self.screen, self.meter, self.cancellation, self.also);
        let mut notice = |notice: Notice<'_>| {
            meter.notice(&notice);
            screen.notice(&peer, &notice);
            also(&notice);
        };
        let carried = || meter.carried();
        let patience = Patience { at_most: self.patience(), carried: &carried };
        let stop = || cancellation.is_cancelled();
        let streams = self.all_streams(connection);
        let sent = streams.and_then(|streams| {
            meter.connected(&streams);
            match &streams[..] {
                [only] => self.sender.send_within(&**only, Some(patience), &stop, &mut notice),
                several => {
                    self.sender.send_within(&Stripes::sending(several), Some(patience), &stop, &mut notice)
                }
            }
        });
        match sent {
            Ok(()) => Ok(None),
            Err(Failure::Stopped) => Err(Stopped::ByUs),
            Err(failure) if !failure.is_worth_another_try() => Err(anyhow!(failure).into()),
            Err(failure) => {
                meter.part();
                self.shrink_packets(&failure);
                let text = || format!("warning: {failure}; trying to continue");
                screen.say(text, || json!({"event": "broken", "peer": peer, "error": failure.to_string()}));
                Ok(Some(failure.to_string()))
            }
        }
    }
}

/// Divides rate and buffers among parallel connections: together they have those of one.
fn divided(mut options: Options, streams: u32) -> Options {
    /// Least buffer of a stream: 6 MB.
    const LEAST_PACKETS: u32 = 4_096;
    let socket = &mut options.socket;
    socket.max_bytes_per_s = socket.max_bytes_per_s.map(|rate| (rate / u64::from(streams)).max(1));
    for packets in [&mut socket.send_buffer_packets, &mut socket.receive_buffer_packets] {
        *packets = (*packets / streams).max(LEAST_PACKETS.min(*packets));
    }
    options
}

/// Returns the size of the packets that did not arrive, if a connection broke for that.
fn too_large(failure: &Failure) -> Option<u32> {
    let Failure::Connection(error) = failure else { return None };
    match error.get_ref()?.downcast_ref()? {
        WaitError::Closed(CloseReason::PmtuBlackHole { packet_bytes }) => Some(*packet_bytes),
        _ => None,
    }
}

/// Returns a packet size to try after a larger one did not arrive: first one that nearly every path carries, then
/// what IPv4 hosts must take (RFC 791 §3.1).
const fn smaller(packet_bytes: u32) -> u32 {
    const LEAST_OF_IPV4: u32 = 576;
    if packet_bytes > SAFE_PACKET_BYTES { SAFE_PACKET_BYTES } else { LEAST_OF_IPV4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_connections_share_rate_and_buffers() {
        let mut options = Options::stream();
        options.socket.max_bytes_per_s = Some(1_000);
        (options.socket.send_buffer_packets, options.socket.receive_buffer_packets) = (46_080, 100);
        let socket = divided(options, 4).socket;
        assert_eq!((socket.max_bytes_per_s, socket.send_buffer_packets), (Some(250), 11_520));
        assert_eq!(socket.receive_buffer_packets, 100);
    }

    #[test]
    fn a_black_hole_takes_smaller_packets_and_no_other_failure_does() {
        let closed = |reason| Failure::Connection(std::io::Error::other(WaitError::Closed(reason)));
        assert_eq!(too_large(&closed(CloseReason::PmtuBlackHole { packet_bytes: 9_000 })), Some(9_000));
        assert_eq!(too_large(&closed(CloseReason::Silent)), None);
        assert_eq!(too_large(&Failure::Stopped), None);
        assert_eq!([9_000, 1_500, 1_280, 576].map(smaller), [1_280, 1_280, 576, 576]);
    }
}
