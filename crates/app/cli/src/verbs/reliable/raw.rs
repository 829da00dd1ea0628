//! Standard input into one connection, and what arrives to standard output: for any program that speaks UDT 4.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use serde_json::json;
use sys::Cancellation;
use tallycast::udt::{Address, Connection, Lifetime, Listener, SocketType, WaitError};
use units::text::{decimal_size, rate};

use super::screen::bits_per_s;
use super::{Meter, POLL_INTERVAL, TransportArguments, WATCH, meter, transport_json};
use crate::Outcome;
use crate::status_line::StatusLine;

/// Maximum size read from a stream at once. Units: bytes.
const PIECE_BYTES: usize = 256 << 10;
/// After a request to end, maximum wait while none of the queued data get through.
const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// Pieces read ahead of the connection.
const PIECES_AHEAD: usize = 4;

/// Connects, and sends standard input; received data go to standard output.
pub(crate) fn send(
    address: &Address,
    transport: &TransportArguments,
    message_bytes: Option<usize>,
    is_json: bool,
    cancellation: &Cancellation,
) -> anyhow::Result<Outcome> {
    let kind = if message_bytes.is_some() { SocketType::Datagram } else { SocketType::Stream };
    let connection = Connection::connect_to(address.resolve()?, &transport.options(address, kind)?)?;
    let line = Line::new(connection, address.to_string(), kind, is_json, cancellation);
    let input = read_ahead(message_bytes.unwrap_or(PIECE_BYTES));
    line.watched(move |line| {
        std::thread::scope(|scope| {
            let answers = scope.spawn(|| line.write_out());
            let sent = line.send_all(&input);
            line.is_over.store(true, Ordering::Relaxed);
            let answered = answers.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sent.and(answered)
        })
    })
}

/// Takes one connection, and writes what arrives to standard output.
pub(crate) fn receive(
    address: &Address,
    transport: &TransportArguments,
    is_messages: bool,
    is_json: bool,
    cancellation: &Cancellation,
) -> anyhow::Result<Outcome> {
    let kind = if is_messages { SocketType::Datagram } else { SocketType::Stream };
    let listener = Listener::bind_to(address.resolve()?, &transport.options(address, kind)?)
        .with_context(|| format!("cannot listen at {address}"))?;
    if is_json {
        let at = listener.local_address();
        eprintln!("{}", json!({"event": "listening", "address": format!("udt://{at}"), "port": at.port()}));
    }
    let connection = loop {
        match listener.accept(Some(POLL_INTERVAL)) {
            Ok(connection) => break connection,
            Err(WaitError::TimedOut) if cancellation.is_cancelled() => return Ok(Outcome::Found),
            Err(WaitError::TimedOut) => {}
            Err(error) => return Err(anyhow!(error).context("cannot accept a connection")),
        }
    };
    // One is enough: further connections are refused.
    drop(listener);
    let peer = connection.peer_address().map_or_else(String::new, |peer| format!("udt://{peer}"));
    Line::new(connection, peer, kind, is_json, cancellation).watched(Line::write_out)
}

/// One connection between standard input and output.
struct Line<'a> {
    connection: Arc<Connection>,
    peer: String,
    kind: SocketType,
    is_json: bool,
    meter: Meter,
    cancellation: &'a Cancellation,
    /// True once nothing remains to wait for.
    is_over: AtomicBool,
    /// The peer has ended.
    has_peer_ended: AtomicBool,
}

impl<'a> Line<'a> {
    fn new(
        connection: Connection,
        peer: String,
        kind: SocketType,
        is_json: bool,
        cancellation: &'a Cancellation,
    ) -> Self {
        connection.set_receive_timeout(Some(POLL_INTERVAL));
        connection.set_send_timeout(Some(POLL_INTERVAL));
        let (connection, meter) = (Arc::new(connection), Meter::new());
        meter.connected(std::slice::from_ref(&connection));
        let (is_over, has_peer_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { connection, peer, kind, is_json, meter, cancellation, is_over, has_peer_ended }
    }

    /// Runs the work on a thread, and shows its progress.
    fn watched(&self, work: impl FnOnce(&Self) -> anyhow::Result<()> + Send) -> anyhow::Result<Outcome> {
        let mut status = StatusLine::new(self.is_json);
        let ended = std::thread::scope(|scope| {
            let work = scope.spawn(|| work(self));
            while !work.is_finished() {
                std::thread::sleep(WATCH);
                status.show(|| self.meter.read().text());
            }
            work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        status.clear();
        self.say_sum(ended.as_ref().err());
        ended?;
        Ok(if self.cancellation.is_cancelled() { Outcome::Found } else { Outcome::Fine })
    }

    fn send_all(&self, input: &Receiver<std::io::Result<Vec<u8>>>) -> anyhow::Result<()> {
        loop {
            match input.recv_timeout(POLL_INTERVAL) {
                Ok(piece) => self.send(&piece.context("standard input cannot be read")?)?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.cancellation.is_cancelled() || self.has_peer_ended.load(Ordering::Relaxed) {
                break;
            }
        }
        self.until_done(|| self.connection.flush())
    }

    /// Reports how much the other end may not have received.
    fn unacknowledged(&self, error: WaitError) -> anyhow::Error {
        let queued_bytes = self.queued_bytes();
        let queued = if queued_bytes > 0 { decimal_size(queued_bytes) } else { "the end".to_owned() };
        anyhow!(
            "{error}\n{queued} of the sent data is not acknowledged: {} may not have received it",
            self.peer
        )
    }

    fn send(&self, mut piece: &[u8]) -> anyhow::Result<()> {
        while !piece.is_empty() {
            let sent = if self.kind == SocketType::Stream {
                self.until_done(|| self.connection.send(piece))?
            } else {
                self.until_done(|| self.connection.send_message(piece, Lifetime::default()))?;
                piece.len()
            };
            self.meter.moved(sent);
            piece = &piece[sent..];
        }
        Ok(())
    }

    /// Writes what arrives to standard output until the peer ends.
    fn write_out(&self) -> anyhow::Result<()> {
        let mut output = std::io::stdout().lock();
        let mut piece = vec![0; PIECE_BYTES];
        // Checked each time: a peer that sends continuously must not keep this end from ending.
        while !self.cancellation.is_cancelled() {
            let received = if self.kind == SocketType::Stream {
                self.connection.receive(&mut piece).map(|count| (count > 0).then_some(count))
            } else {
                self.connection.receive_message(&mut piece).map(|is_there| is_there.then_some(piece.len()))
            };
            match received {
                Ok(Some(count)) => {
                    output.write_all(&piece[..count])?;
                    output.flush()?;
                    self.meter.moved(count);
                }
                Ok(None) => break,
                Err(WaitError::TimedOut) if self.is_over() => break,
                Err(WaitError::TimedOut) => {}
                // The sender notices it by the missing acknowledgement.
                Err(_) if self.is_over.load(Ordering::Relaxed) => break,
                Err(error) => {
                    self.has_peer_ended.store(true, Ordering::Relaxed);
                    return Err(anyhow!("{error}\nthe remaining data of {} did not arrive", self.peer));
                }
            }
        }
        self.has_peer_ended.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Repeats an action that timed out until it succeeds. After a request to end, only while something gets through
    /// within [`LAST_PATIENCE`].
    fn until_done<T>(&self, act: impl Fn() -> Result<T, WaitError>) -> anyhow::Result<T> {
        let mut last = (self.queued_bytes(), Instant::now());
        loop {
            match act() {
                Err(WaitError::TimedOut) => {}
                done => return done.map_err(|error| self.unacknowledged(error)),
            }
            let queued_bytes = self.queued_bytes();
            if queued_bytes != last.0 || !self.cancellation.is_cancelled() {
                last = (queued_bytes, Instant::now());
            } else if last.1.elapsed() >= LAST_PATIENCE {
                return Err(self.unacknowledged(WaitError::TimedOut));
            }
        }
    }

    fn queued_bytes(&self) -> u64 {
        self.connection.stats().map_or(0, |stats| stats.queued_bytes)
    }

    fn is_over(&self) -> bool {
        self.cancellation.is_cancelled() || self.is_over.load(Ordering::Relaxed)
    }

    /// Reports the size moved, on standard error, since standard output belongs to the data.
    fn say_sum(&self, error: Option<&anyhow::Error>) {
        let stats = self.meter.stats();
        let (bytes, took) = self.meter.sum();
        let bits_per_s = bits_per_s(bytes, took);
        if let Some(count) = self.meter.take_absurdity() {
            if self.is_json {
                eprintln!("{}", meter::absurdity_json(&self.peer, count));
            } else {
                eprintln!("{}", meter::absurdity_text(count));
            }
        }
        if self.is_json {
            let error = error.map(|error| format!("{error:#}"));
            let sum = json!({
                "event": "sum",
                "peer": self.peer,
                "moved_bytes": bytes,
                "seconds": took.as_secs_f64(),
                "goodput_bits_per_second": bits_per_s.round(),
                "error": error,
                "transport": stats.as_ref().map(transport_json),
            });
            return eprintln!("{sum}");
        }
        let (size, rate) = (decimal_size(bytes), rate(bits_per_s));
        eprintln!("{}: {size} in {:.1} s, {rate}", self.peer, took.as_secs_f64());
    }
}

/// Reads standard input on a thread that may block.
fn read_ahead(piece_bytes: usize) -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, pieces) = sync_channel(PIECES_AHEAD);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut piece = Vec::new();
            let read = input.by_ref().take(piece_bytes as u64).read_to_end(&mut piece);
            let is_last = read.as_ref().is_ok_and(|count| *count == 0);
            if is_last || sender.send(read.map(|_| piece)).is_err() {
                return;
            }
        }
    });
    pieces
}
