//! The threads beside a steered app: one accepts connections, one for each connection takes its messages, and one
//! writes the log, sends answers and publishes the stream. The app's own thread waits for none of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ::steer::{
    Answer, App, AppError, CommandId, MAX_SESSIONS, Mark, Output, Record, Response, SessionId, Welcome,
};
use access::{Principal, PrincipalName};
use keys::PublicKey;
use sys::clock;
use units::{Epoch, Instant, WallTime};

use super::connection::{Session, serve, welcome};
use super::log_file::LogFile;
use super::{SteeringError, row};
use crate::publisher::Publisher;
use crate::udt::{Connection, Listener, WaitError};

/// Interval at which commands of an app whose steps are rare expire, and at which a failed write is tried again.
const TICK: Duration = Duration::from_millis(100);
/// Interval of looks whether the app has ended.
const LOOK: Duration = Duration::from_millis(200);

/// State that the threads share.
pub(super) struct Shared {
    core: Mutex<Core>,
    /// Signalled when there is something to write or to send.
    work: Condvar,
    /// Whether a step has something to decide: the app's thread takes the lock only then.
    is_due: AtomicBool,
    /// Time of the newest step. Units: ns since 1970 UTC; 0 before the first.
    step_ns: AtomicI64,
    is_closing: AtomicBool,
    /// Names of the keys of connections, for the rules of access.
    names: BTreeMap<PublicKey, PrincipalName>,
    began: Began,
}

/// Beginning of this run.
#[derive(Clone, Copy)]
pub(super) struct Began {
    /// Epoch of the stream of commands.
    pub(super) run: Epoch,
    /// Head of the log.
    pub(super) head: Mark,
}

struct Core {
    app: App,
    sessions: BTreeMap<SessionId, Arc<Session>>,
    /// Step at which each effect was handed out, until its outcome is written.
    steps: BTreeMap<CommandId, WallTime>,
}

/// The threads; dropping this ends them after the last record is on disk.
pub(super) struct Host {
    pub(super) shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
    writing: Option<JoinHandle<()>>,
}

impl Shared {
    pub(super) fn new(app: App, names: BTreeMap<PublicKey, PrincipalName>, began: Began) -> Self {
        let core = Core { app, sessions: BTreeMap::new(), steps: BTreeMap::new() };
        Self {
            core: Mutex::new(core),
            work: Condvar::new(),
            is_due: AtomicBool::new(false),
            step_ns: AtomicI64::new(0),
            is_closing: AtomicBool::new(false),
            names,
            began,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("the law of commands holds")
    }

    /// Hands the app to a thread that may wait, and wakes the writer.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut App, Instant) -> T) -> T {
        let mut core = self.lock();
        let result = act(&mut core.app, clock::monotonic());
        self.is_due.store(core.app.needs_step(), Ordering::Release);
        drop(core);
        self.work.notify_one();
        result
    }

    /// Hands the app to its own thread; `None` if another thread has it, which is over in microseconds.
    pub(super) fn try_with<T>(
        &self,
        act: impl FnOnce(&mut App, &mut BTreeMap<CommandId, WallTime>) -> T,
    ) -> Option<T> {
        let mut core = match self.core.try_lock() {
            Ok(core) => core,
            Err(TryLockError::WouldBlock) => return None,
            Err(TryLockError::Poisoned(_)) => panic!("the law of commands does not hold"),
        };
        let Core { app, steps, .. } = &mut *core;
        let result = act(app, steps);
        self.is_due.store(app.needs_step(), Ordering::Release);
        drop(core);
        self.work.notify_one();
        Some(result)
    }

    pub(super) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// Notes the time of a step.
    pub(super) fn stepped(&self, time: WallTime) {
        self.step_ns.store(time.as_nanos(), Ordering::Release);
    }

    /// Opens a session.
    pub(super) fn open(&self, session: &Arc<Session>, principal: Principal) -> Result<Welcome, AppError> {
        let mut core = self.lock();
        let welcome = welcome(&mut core.app, session.id, principal, self.began)?;
        core.sessions.insert(session.id, Arc::clone(session));
        Ok(welcome)
    }

    /// Closes a session.
    pub(super) fn close(&self, session: SessionId) {
        self.with(|app, _| app.close(session));
        self.lock().sessions.remove(&session);
    }

    /// Returns the principal of a connection's key.
    pub(super) fn principal(&self, key: &PublicKey) -> Principal {
        Principal::key(&key.to_string(), self.names.get(key).cloned())
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }
}

impl Host {
    /// Starts the threads.
    pub(super) fn start(
        shared: Shared,
        listener: Listener,
        log: LogFile,
        publisher: Publisher,
    ) -> Result<Self, SteeringError> {
        let shared = Arc::new(shared);
        let mut host = Self { shared: Arc::clone(&shared), accepting: None, writing: None };
        let writer = Writer::new(Arc::clone(&shared), log, publisher);
        host.writing = Some(spawn("tallycast-steer", move || writer.run())?);
        host.accepting = Some(spawn("tallycast-steer", move || accept_all(&shared, &listener))?);
        Ok(host)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.with(|app, _| app.end());
        self.shared.is_closing.store(true, Ordering::Release);
        self.shared.work.notify_all();
        for thread in [self.writing.take(), self.accepting.take()].into_iter().flatten() {
            if thread.join().is_err() {
                tracing::error!("a thread of steering panicked: the log tells what was applied until then");
            }
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, SteeringError> {
    Builder::new().name(name.to_owned()).spawn(run).map_err(SteeringError::Thread)
}

/// Accepts connections until the app ends, each on a thread of its own; then ends them all.
fn accept_all(shared: &Arc<Shared>, listener: &Listener) {
    let mut serving: Vec<JoinHandle<()>> = Vec::new();
    while !shared.is_closing() {
        match listener.accept(Some(LOOK)) {
            // Connections without a session yet are few and short.
            Ok(connection) if serving.len() < 2 * MAX_SESSIONS => {
                serving.extend(serve_on_a_thread(shared, connection));
            }
            Ok(connection) => connection.hang_up(),
            Err(WaitError::TimedOut) => {}
            Err(error) => {
                tracing::error!("no further connection can steer this app: {error}\nstart it again");
                break;
            }
        }
        serving.retain(|thread| !thread.is_finished());
    }
    let sessions: Vec<_> = shared.lock().sessions.values().cloned().collect();
    sessions.iter().for_each(|session| session.hang_up());
    for thread in serving {
        if thread.join().is_err() {
            tracing::error!("a thread that served a connection to steer this app panicked");
        }
    }
}

fn serve_on_a_thread(shared: &Arc<Shared>, connection: Connection) -> Option<JoinHandle<()>> {
    let of_thread = Arc::clone(shared);
    match spawn("tallycast-steer", move || serve(&of_thread, connection)) {
        Ok(thread) => Some(thread),
        Err(error) => {
            tracing::warn!("{error}; the connection is ended");
            None
        }
    }
}

/// The thread that writes records, and sends what may leave once they are on disk.
struct Writer {
    shared: Arc<Shared>,
    log: LogFile,
    publisher: Publisher,
    /// Positions of the parameters by name.
    places: BTreeMap<String, usize>,
    /// Records that are not on disk yet.
    unwritten: VecDeque<Unwritten>,
    /// Number of records of this run that are on disk.
    written: u64,
    newest: WallTime,
    is_failure_told: bool,
}

struct Unwritten {
    number: u64,
    /// Time of the row: for a change, that of its step.
    time: WallTime,
    record: Record,
}

type Sending = (Arc<Session>, Response);

impl Writer {
    fn new(shared: Arc<Shared>, log: LogFile, publisher: Publisher) -> Self {
        let core = shared.lock();
        let places = core.app.parameters().enumerate().map(|(place, it)| (it.name.clone(), place)).collect();
        drop(core);
        let (unwritten, newest) = (VecDeque::new(), WallTime::from_nanos(0));
        Self { shared, log, publisher, places, unwritten, written: 0, newest, is_failure_told: false }
    }

    fn run(mut self) {
        loop {
            let is_last = self.shared.is_closing();
            let sending = self.gather(is_last);
            send_all(sending);
            let before = self.written;
            self.write();
            if self.written > before {
                let sending = self.release();
                send_all(sending);
            }
            if is_last {
                break;
            }
        }
        if !self.unwritten.is_empty() {
            tracing::error!("{} records of commands could not be written", self.unwritten.len());
        }
    }

    /// Waits for something to do, and takes the records to write and the answers that leave at once.
    fn gather(&mut self, is_last: bool) -> Vec<Sending> {
        let shared = Arc::clone(&self.shared);
        let mut core = shared.lock();
        let mut sending = self.take(&mut core);
        if self.unwritten.is_empty() && sending.is_empty() && !is_last {
            (core, _) = shared.work.wait_timeout(core, TICK).expect("the law of commands holds");
            // An app whose steps are rare does not keep a command beyond its deadline.
            if core.app.needs_step() {
                core.app.tick(clock::monotonic());
            }
            sending = self.take(&mut core);
        } else if self.is_failure_told && !is_last {
            (core, _) = shared.work.wait_timeout(core, TICK).expect("the law of commands holds");
        }
        drop(core);
        sending
    }

    /// Takes what the app puts out.
    fn take(&mut self, core: &mut Core) -> Vec<Sending> {
        let mut sending = Vec::new();
        while let Some(output) = core.app.poll() {
            match output {
                Output::Write { number, record } => {
                    let time = self.time_of(core, &record);
                    self.unwritten.push_back(Unwritten { number, time, record });
                }
                Output::Answer { session, id, answer } => {
                    if let Some(session) = core.sessions.get(&session) {
                        let head = self.log.head();
                        sending.push((Arc::clone(session), Response::Answer { id, answer, head }));
                    }
                }
            }
        }
        sending
    }

    /// Returns the time of a record's row: that of the step for a change, else of the newest step.
    fn time_of(&mut self, core: &mut Core, record: &Record) -> WallTime {
        let step = match record {
            Record::Outcome { id, .. } => core.steps.remove(id),
            _ => None,
        };
        let newest = match self.shared.step_ns.load(Ordering::Acquire) {
            0 => clock::wall(),
            nanos => WallTime::from_nanos(nanos),
        };
        // Times of a stream do not go back.
        self.newest = self.newest.max(step.unwrap_or(newest));
        self.newest
    }

    /// Writes and publishes the records.
    fn write(&mut self) {
        if self.unwritten.is_empty() {
            return;
        }
        let now = clock::wall();
        let records: Vec<_> = self.unwritten.iter().map(|it| (now, it.record.clone())).collect();
        let appended = self.log.append(&records);
        if let Err(error) = &appended {
            if !std::mem::replace(&mut self.is_failure_told, true) {
                tracing::error!(
                    "the log of commands cannot be written, so no command takes effect: {error}\nfree space on its disk; it is tried again"
                );
            }
            return;
        }
        if std::mem::take(&mut self.is_failure_told) {
            tracing::info!("the log of commands is written again");
        }
        for (Unwritten { number, time, record }, mark) in
            self.unwritten.iter().zip(appended.unwrap_or_default())
        {
            let row = row::row(*number, record, mark, &self.places);
            if let Err(error) = self.publisher.send_at(*time, &row) {
                tracing::warn!("a record of a command is in the log, and not in its stream: {error}");
            }
        }
        self.written += self.unwritten.len() as u64;
    }

    /// Tells the app what is on disk, and takes the answers and news that leave now.
    fn release(&mut self) -> Vec<Sending> {
        let shared = Arc::clone(&self.shared);
        let mut core = shared.lock();
        core.app.written(self.written);
        let told: Vec<Unwritten> = self.unwritten.drain(..).collect();
        let mut sending = self.take(&mut core);
        let watching: Vec<_> = core.sessions.values().filter(|it| it.is_watching()).cloned().collect();
        if !watching.is_empty() {
            for response in told.iter().flat_map(|it| news(&core.app, &it.record)) {
                sending.extend(watching.iter().map(|session| (Arc::clone(session), response.clone())));
            }
        }
        self.shared.is_due.store(core.app.needs_step(), Ordering::Release);
        sending
    }
}

fn send_all(sending: Vec<Sending>) {
    sending.iter().for_each(|(session, response)| session.send(response));
}

/// Returns what those who watch are told of a record.
fn news(app: &App, record: &Record) -> Vec<Response> {
    let now = clock::monotonic();
    let state = || Response::State { totals: *app.totals(), switches: app.switches() };
    match record {
        Record::Outcome { parameter, answer: Answer::Applied(_) | Answer::Uncertain, .. } => {
            app.listed(now, parameter).map(Response::Parameter).into_iter().chain([state()]).collect()
        }
        Record::Outcome { .. } | Record::Attempt { .. } | Record::Switch { .. } | Record::Omitted { .. } => {
            vec![state()]
        }
        Record::Lease { group, .. } => {
            app.members(group).filter_map(|name| app.listed(now, name)).map(Response::Parameter).collect()
        }
        _ => Vec::new(),
    }
}
