//! The near end of a backfill: it dials, and answers from the archive that is recorded here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use archive::{Archive, Supply};
use engine::{ReliablePort, Standing, WaitError};
use sample::StreamName;
use sys::clock;
use tallycast::{Epoch, RelayBackfill, StreamPattern};
use udt::{SocketConfig, SocketId};

use super::message::{self, Answer, MAX_RANGES, Message, PIECE_BYTES, Refusal, Wanted};
use super::{ANSWER_BYTES, Counters, POLL_INTERVAL, SILENCE, send, yielding};

/// Pause before the next attempt to connect: live samples come first, and nothing here is urgent.
const PAUSE: Duration = Duration::from_millis(500);

/// Archive from which a far relay may fetch, and streams of it.
#[derive(Clone, Debug)]
pub struct Source {
    /// Folder of the archive; it need not exist yet.
    pub archive: PathBuf,
    /// Streams that may be fetched: those that are relayed.
    pub patterns: Vec<StreamPattern>,
}

/// A thread that answers one far relay; dropping it ends it.
pub(crate) struct Supplier {
    ends: Arc<AtomicBool>,
    counters: Arc<Counters>,
    peer: Arc<Mutex<SocketAddr>>,
    thread: Option<JoinHandle<()>>,
}

impl Supplier {
    pub(crate) fn begin(
        port: Arc<ReliablePort>,
        peer: SocketAddr,
        config: &SocketConfig,
        station: &str,
        source: Source,
    ) -> Self {
        let (ends, counters) = (Arc::new(AtomicBool::new(false)), Arc::new(Counters::default()));
        let (asked, counted) = (Arc::clone(&ends), Arc::clone(&counters));
        let (config, station, peer) = (yielding(config), station.to_owned(), Arc::new(Mutex::new(peer)));
        let worker =
            Worker { port, peer: Arc::clone(&peer), config, station, source, ends: asked, counters: counted };
        let thread =
            std::thread::Builder::new().name("relay-backfill".to_owned()).spawn(move || worker.run());
        let thread =
            thread.map_err(|error| tracing::error!("holes of the far archive are not filled: {error}"));
        Self { ends, counters, peer, thread: thread.ok() }
    }

    /// Dials the far relay at another address from now on.
    pub(crate) fn follow(&self, peer: SocketAddr) {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = peer;
    }

    pub(crate) fn state(&self) -> RelayBackfill {
        self.counters.state()
    }
}

impl Drop for Supplier {
    fn drop(&mut self) {
        // Read by the worker between two calls; nothing else depends on it.
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Worker {
    port: Arc<ReliablePort>,
    peer: Arc<Mutex<SocketAddr>>,
    config: SocketConfig,
    station: String,
    source: Source,
    ends: Arc<AtomicBool>,
    counters: Arc<Counters>,
}

impl Worker {
    fn run(self) {
        while !self.is_over() {
            if let Some(socket) = self.connect() {
                if let Err(error) = self.answer(socket) {
                    tracing::debug!("a backfill's connection is over: {error}");
                }
                self.port.leave(socket);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed) || self.port.failed().is_some()
    }

    fn connect(&self) -> Option<SocketId> {
        let peer = *self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = self.port.begin_to_connect(peer, self.config.clone());
        loop {
            match self.port.standing(socket) {
                Some(Standing::Connected) => return Some(socket),
                Some(Standing::Connecting) if !self.is_over() => std::thread::sleep(POLL_INTERVAL),
                _ => {
                    self.port.leave(socket);
                    return None;
                }
            }
        }
    }

    fn send(&self, socket: SocketId, message: &Message) -> Result<(), WaitError> {
        send(&self.port, socket, message, || self.is_over())
    }

    /// Answers until the connection is over, or the far end is silent.
    fn answer(&self, socket: SocketId) -> Result<(), WaitError> {
        self.send(socket, &Message::Greeting(self.station.clone()))?;
        let (mut bytes, mut heard) = (Vec::new(), clock::monotonic());
        while !self.is_over() && clock::monotonic() < heard + SILENCE {
            match self.port.receive_message(socket, &mut bytes, Some(POLL_INTERVAL)) {
                Ok(true) => heard = clock::monotonic(),
                Ok(false) => break,
                Err(WaitError::TimedOut) => continue,
                Err(error) => return Err(error),
            }
            match Message::decode(&bytes) {
                Ok(Message::Here) => {}
                Ok(Message::Want(wanted)) => {
                    self.reply(socket, wanted)?;
                    heard = clock::monotonic();
                }
                other => {
                    Counters::add(&self.counters.refused, 1);
                    tracing::warn!("a far relay asks in a way that is not understood: {other:?}");
                    break;
                }
            }
        }
        Ok(())
    }

    fn reply(&self, socket: SocketId, wanted: Wanted) -> Result<(), WaitError> {
        let id = wanted.id;
        let supply = match self.supply(&wanted) {
            Ok(supply) => supply,
            Err(reason) => {
                Counters::add(&self.counters.refused, 1);
                self.counters.fails(Path::new(&wanted.stream), &wanted.stream, &reason);
                return self.send(socket, &Message::Refusal(Refusal { id, reason }));
            }
        };
        self.counters.works(Path::new(&wanted.stream));
        let content = message::encode(&supply, &self.station);
        let blake3 = blake3::hash(&content).to_hex().to_string();
        self.send(socket, &Message::Answer(Answer { id, bytes: content.len() as u64, blake3 }))?;
        for piece in content.chunks(PIECE_BYTES) {
            self.send(socket, &Message::Piece(piece.to_vec()))?;
        }
        self.counters.add_blocks(&supply.blocks);
        Ok(())
    }

    /// Reads what is asked for; otherwise returns why not, in words.
    fn supply(&self, wanted: &Wanted) -> Result<Supply, String> {
        let name: StreamName =
            wanted.stream.parse().map_err(|_| "the name of the stream is none".to_owned())?;
        let epoch: Epoch = wanted.epoch.parse().map_err(|_| "the epoch is none".to_owned())?;
        if !self.source.patterns.iter().any(|pattern| pattern.matches(&name)) {
            return Err(format!("{name} is not relayed from here"));
        }
        if wanted.samples.len() > MAX_RANGES {
            return Err(format!("more than {MAX_RANGES} ranges at once"));
        }
        let samples = message::ranges(&wanted.samples).map_err(|fault| fault.to_string())?;
        let archive = Archive::open(&self.source.archive).map_err(|error| error.to_string())?;
        let found =
            archive.supply((&name, epoch), &samples, ANSWER_BYTES).map_err(|error| error.to_string())?;
        found.ok_or_else(|| format!("{name} in epoch {epoch} is not in the archive here"))
    }
}
