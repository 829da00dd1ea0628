//! The far end of a backfill: it asks for what its archive misses, and stores what comes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use archive::{ArchiveError, Refiller, Store, StoreError, Supply, Want};
use engine::{ReliablePort, WaitError};
use sys::clock;
use tallycast::RelayBackfill;
use udt::SocketId;
use units::{Instant, RangeSet, WallTime};

use super::message::{self, Answer, MAX_RANGES, Message, Wanted};
use super::{ANSWER_BYTES, Counters, LOOK, POLL_INTERVAL, SILENCE, send, size_bytes};
use crate::Notice;

/// Time after which the other archive is asked again for what it lacked: it may have been refilled itself.
const ASK_AGAIN: Duration = Duration::from_secs(600);
/// Time after which the other archive is asked how far it reaches, if nothing is known to be missing.
const REACH: Duration = Duration::from_secs(60);
/// Time after which a question that was refused is asked again.
const REFUSED: Duration = Duration::from_secs(30);
/// Free space beyond the size of an answer from which on a disk that was full is tried again: for indices and notes.
const SPARE_BYTES: u64 = 1 << 20;
/// Maximum number of connections at a time: one for each near relay.
const MAX_FETCHERS: usize = 64;

/// The backfill of a far relay: a thread for each near relay that has an archive.
pub(crate) struct Fetchers {
    shared: Arc<Shared>,
    notices: (Sender<Notice>, Receiver<Notice>),
    threads: Vec<JoinHandle<()>>,
}

/// Opens the archive that is filled.
pub(crate) type OpenStore = Box<dyn Fn() -> Result<Arc<dyn Store>, StoreError> + Send + Sync>;

struct Shared {
    port: Arc<ReliablePort>,
    root: PathBuf,
    open: OpenStore,
    /// Opened once the archive exists; one writer for all threads.
    refiller: Mutex<Option<Refiller>>,
    counters: Counters,
    ends: AtomicBool,
}

impl Fetchers {
    pub(crate) fn new(port: Arc<ReliablePort>, root: PathBuf, open: OpenStore) -> Self {
        let (refiller, counters, ends) = (Mutex::new(None), Counters::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { port, root, open, refiller, counters, ends });
        Self { shared, notices: channel(), threads: Vec::new() }
    }

    /// Fetches over a connection from now on.
    pub(crate) fn welcome(&mut self, socket: SocketId) {
        self.threads.retain(|thread| !thread.is_finished());
        let (shared, notices) = (Arc::clone(&self.shared), self.notices.0.clone());
        let work = move || {
            let fetcher = Fetcher::new(&shared, socket, notices);
            if let Err(error) = fetcher.run() {
                tracing::debug!("a backfill's connection is over: {error}");
            }
            shared.port.leave(socket);
        };
        let thread = (self.threads.len() < MAX_FETCHERS)
            .then(|| std::thread::Builder::new().name("relay-backfill".to_owned()).spawn(work));
        match thread {
            Some(Ok(thread)) => self.threads.push(thread),
            _ => self.shared.port.leave(socket),
        }
    }

    /// Returns what has happened since the last call.
    pub(crate) fn notices(&self) -> impl Iterator<Item = Notice> + '_ {
        self.notices.1.try_iter()
    }

    pub(crate) fn state(&self) -> RelayBackfill {
        self.shared.counters.state()
    }
}

impl Drop for Fetchers {
    fn drop(&mut self) {
        // Read by the threads between two calls; nothing else depends on it.
        self.shared.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// What is known of an epoch in the other archive.
#[derive(Default)]
struct Known {
    /// Samples that its answers covered: those that are still missing, it lacks.
    answered: RangeSet,
    since: Option<Instant>,
    /// Time of the last question, whatever it was about.
    asked: Option<Instant>,
    /// When to ask again, once a question was refused.
    refused_until: Option<Instant>,
    /// The refusal that was reported last.
    refusal: String,
}

/// One connection.
struct Fetcher<'a> {
    shared: &'a Shared,
    socket: SocketId,
    notices: Sender<Notice>,
    known: BTreeMap<PathBuf, Known>,
    /// Number of the next question.
    next: u64,
    /// When the archive was read whole.
    read: Instant,
    /// The trouble with the archive that was told, and is not over.
    trouble: Option<String>,
    /// Free space without which nothing is asked: the disk was full.
    needed_bytes: Option<u64>,
}

/// Outcome of a question.
enum Reply {
    Supply(Supply),
    Refused(String),
}

impl<'a> Fetcher<'a> {
    fn new(shared: &'a Shared, socket: SocketId, notices: Sender<Notice>) -> Self {
        let (known, read) = (BTreeMap::new(), clock::monotonic());
        Self { shared, socket, notices, known, next: 0, read, trouble: None, needed_bytes: None }
    }

    fn run(mut self) -> Result<(), WaitError> {
        while !self.is_over() {
            let mut has_more = false;
            match self.wants() {
                Ok(wants) => {
                    self.shared.counters.works(Path::new(""));
                    for want in &wants {
                        if self.is_full() {
                            break;
                        }
                        has_more |= self.fetch(want)?;
                        if self.is_over() {
                            return Ok(());
                        }
                    }
                }
                // There is no archive until the first recording.
                Err(ArchiveError::NoArchive(_)) => {}
                Err(error) => {
                    self.shared.counters.fails(Path::new(""), "", &error.to_string());
                    self.warn_once(format!("{}: holes are not filled: {error}", self.shared.root.display()));
                }
            }
            if !has_more {
                self.rest()?;
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.shared.ends.load(Ordering::Relaxed) || self.shared.port.failed().is_some()
    }

    fn warn(&self, what: String) {
        Counters::add(&self.shared.counters.refused, 1);
        // The receiver is gone only while the relay ends.
        drop(self.notices.send(Notice::Warning { what }));
    }

    /// Tells of trouble with the archive, once until it is over.
    fn warn_once(&mut self, what: String) {
        if self.trouble.as_ref() == Some(&what) {
            return Counters::add(&self.shared.counters.refused, 1);
        }
        self.trouble = Some(what.clone());
        self.warn(what);
    }

    /// Returns whether the disk was full, and has not enough room yet.
    fn is_full(&mut self) -> bool {
        let Some(needed_bytes) = self.needed_bytes else { return false };
        // A disk that does not tell is tried.
        let has_room = self.with(|refiller| refiller.space_bytes()).map_or(true, |free| free >= needed_bytes);
        self.needed_bytes = self.needed_bytes.filter(|_| !has_room);
        !has_room
    }

    /// Waits until it is time to look for holes again, and shows the near end that this one is there.
    fn rest(&self) -> Result<(), WaitError> {
        self.send(&Message::Here)?;
        let (until, mut bytes) = (clock::monotonic() + LOOK, Vec::new());
        while clock::monotonic() < until && !self.is_over() {
            match self.shared.port.receive_message(self.socket, &mut bytes, Some(POLL_INTERVAL)) {
                Err(WaitError::TimedOut) => {}
                Err(error) => return Err(error),
                // No question is open.
                Ok(_) => return Err(WaitError::TimedOut),
            }
        }
        Ok(())
    }

    fn send(&self, message: &Message) -> Result<(), WaitError> {
        send(&self.shared.port, self.socket, message, || self.is_over())
    }

    fn with<T>(&self, act: impl FnOnce(&mut Refiller) -> Result<T, ArchiveError>) -> Result<T, ArchiveError> {
        let mut refiller = self.shared.refiller.lock().unwrap_or_else(PoisonError::into_inner);
        if refiller.is_none() {
            let none = |_| ArchiveError::NoArchive(self.shared.root.clone());
            *refiller = Some(Refiller::open((self.shared.open)().map_err(none)?)?);
        }
        act(refiller.as_mut().expect("it was opened"))
    }

    fn wants(&mut self) -> Result<Vec<Want>, ArchiveError> {
        let now = clock::monotonic();
        let is_due = now >= self.read + ASK_AGAIN;
        if is_due {
            self.read = now;
        }
        let wants = self.with(|refiller| {
            if is_due {
                refiller.look_again();
            }
            refiller.wants()
        })?;
        let sum = |of: &dyn Fn(&Want) -> u64| -> u64 { wants.iter().map(of).sum() };
        let lacking = |want: &Want| {
            let answered = self.known.get(want.folder()).map(|known| &known.answered);
            answered.map_or(0, |answered| want.missing.iter().map(|it| answered.count_in(it)).sum())
        };
        let counters = &self.shared.counters;
        // Plain counters for display.
        counters.missing.store(sum(&|want| want.missing.len()), Ordering::Relaxed);
        counters.ranges.store(sum(&|want| want.missing.range_count() as u64), Ordering::Relaxed);
        counters.lacking.store(sum(&lacking), Ordering::Relaxed);
        Ok(wants)
    }

    /// Asks for some of the samples that an epoch misses. Returns whether to ask for more at once.
    fn fetch(&mut self, want: &Want) -> Result<bool, WaitError> {
        let now = clock::monotonic();
        let description = &want.description;
        let key = want.folder().to_owned();
        let known = self.known.entry(key.clone()).or_default();
        if known.since.is_some_and(|since| now >= since + ASK_AGAIN) {
            *known = Known { refusal: core::mem::take(&mut known.refusal), ..Known::default() };
        }
        let mut missing = want.missing.clone();
        missing.remove_all(known.answered.iter());
        let is_idle = missing.is_empty() && known.asked.is_some_and(|asked| now < asked + REACH);
        if known.refused_until.is_some_and(|until| now < until) || is_idle {
            return Ok(false);
        }
        known.since.get_or_insert(now);
        known.asked = Some(now);
        let asked: RangeSet = missing.iter().take(MAX_RANGES).collect();
        let reply = self.ask(want, &asked)?;
        let known = self.known.entry(key).or_default();
        let reason = match reply {
            Reply::Supply(supply) => {
                let is_answered = !supply.answered.is_empty();
                self.shared.counters.works(want.folder());
                known.answered = known.answered.iter().chain(supply.answered.iter()).collect();
                let is_longer = !want.is_open && supply.reaches.end > want.recorded.end;
                let reaches_further = supply.reaches.start < want.recorded.start || is_longer;
                if !is_answered && !reaches_further {
                    return Ok(false);
                }
                match self.store(want, &supply) {
                    Ok(()) => {
                        self.trouble = None;
                        return Ok(true);
                    }
                    Err(error) => {
                        self.on_not_stored(want, &supply, &error);
                        self.rest()?;
                        return Ok(false);
                    }
                }
            }
            Reply::Refused(reason) => reason,
        };
        known.refused_until = Some(now + REFUSED);
        if !asked.is_empty() {
            self.shared.counters.fails(want.folder(), description.name.as_str(), &reason);
        }
        if core::mem::replace(&mut known.refusal, reason.clone()) != reason {
            self.warn(format!("{}: its holes are not filled: {reason}", description.name));
        }
        Ok(false)
    }

    fn on_not_stored(&mut self, want: &Want, supply: &Supply, error: &ArchiveError) {
        // Whether the samples are stored is not known: the next look tells.
        self.known.clear();
        let (name, reason) = (&want.description.name, error.to_string());
        self.shared.counters.fails(want.folder(), name.as_str(), &reason);
        if error.is_no_space() {
            self.needed_bytes = Some(size_bytes(&supply.blocks) + SPARE_BYTES);
        }
        self.warn_once(format!("{name}: {reason}"));
    }

    fn store(&self, want: &Want, supply: &Supply) -> Result<(), ArchiveError> {
        self.with(|refiller| refiller.store(want, supply, now_utc()))?;
        let per_sample = u64::from(want.description.schema.elements_per_sample());
        let lacking: RangeSet =
            supply.lacking.iter().map(|it| it.start / per_sample..it.end.div_ceil(per_sample)).collect();
        let samples = supply.blocks.iter().map(|block| block.samples).sum();
        self.shared.counters.add_blocks(&supply.blocks);
        drop(self.notices.send(Notice::Refilled {
            stream: want.description.name.to_string(),
            epoch: want.description.epoch.to_string(),
            samples,
            missing: want.missing.len().saturating_sub(supply.answered.len()),
            lacking: lacking.len(),
        }));
        Ok(())
    }

    fn ask(&mut self, want: &Want, samples: &RangeSet) -> Result<Reply, WaitError> {
        let id = self.next;
        self.next += 1;
        let (stream, epoch) = (want.description.name.to_string(), want.description.epoch.to_string());
        self.send(&Message::Want(Wanted { id, stream, epoch, samples: message::pairs(samples) }))?;
        let Answer { bytes, blake3, .. } = match self.receive()? {
            Ok(Message::Answer(answer)) if answer.id == id => answer,
            Ok(Message::Refusal(refusal)) if refusal.id == id => return Ok(Reply::Refused(refusal.reason)),
            other => return self.part(&format!("an answer that was not asked for: {other:?}")),
        };
        let most = 4 * ANSWER_BYTES as u64 + 2 * want.description.schema.sample_bytes() as u64;
        if bytes > most {
            return self.part(&format!("an answer of {bytes} bytes, where at most {most} were asked for"));
        }
        let mut content = Vec::new();
        while (content.len() as u64) < bytes {
            match self.receive()? {
                Ok(Message::Piece(piece)) => content.extend(piece),
                other => return self.part(&format!("an answer that does not go on: {other:?}")),
            }
        }
        if content.len() as u64 != bytes || blake3::hash(&content).to_hex().as_str() != blake3 {
            return self.part("an answer that does not match its hash");
        }
        Ok(match message::decode(&content, &want.description, samples) {
            Ok(supply) => Reply::Supply(supply),
            Err(fault) => Reply::Refused(format!("the answer cannot be used: {fault}")),
        })
    }

    /// Gives up a connection whose peer violates the protocol; the peer may connect again.
    fn part<T>(&self, what: &str) -> Result<T, WaitError> {
        self.warn(format!("a near relay sends {what}; its connection for holes is given up"));
        std::thread::sleep(LOOK);
        Err(WaitError::TimedOut)
    }

    /// Waits for the next message.
    fn receive(&self) -> Result<Result<Message, message::Fault>, WaitError> {
        let (mut bytes, end) = (Vec::new(), clock::monotonic() + SILENCE);
        loop {
            match self.shared.port.receive_message(self.socket, &mut bytes, Some(POLL_INTERVAL)) {
                Ok(true) => return Ok(Message::decode(&bytes)),
                Err(WaitError::TimedOut) if clock::monotonic() < end && !self.is_over() => {}
                Ok(false) => return Err(WaitError::TimedOut),
                Err(error) => return Err(error),
            }
        }
    }
}

fn now_utc() -> WallTime {
    clock::wall()
}
