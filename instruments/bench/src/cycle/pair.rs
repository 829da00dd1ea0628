//! The two processes of a search, seen by the bench: started, instructed, read and ended.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use probe::cycle::Account;
use sys::{Cancellation, clock};

use super::message::{FromWorker, Role, Task, ToWorker};
use crate::child::{self, OwnedProcess, Program};

/// Maximum silence of a process beyond the time its run takes. At the smallest quota a process gets a hundredth
/// of a processor.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval at which the request to end is checked: the channel of the processes' messages has no descriptor to
/// wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Reasons why a run could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// A process could not be started or written to.
    #[error("the {side} of a run cannot be reached: {source}\nsee whether `{program}` can be started")]
    Unreachable {
        /// Writer or reader.
        side: &'static str,
        /// Program that should have been started.
        program: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A process reported why it could not continue.
    #[error("the {side} of a run failed: {reason}")]
    Failed {
        /// Writer or reader.
        side: &'static str,
        /// Its error text, with the remedy.
        reason: String,
    },
    /// A process ended unasked.
    #[error(
        "the {side} of a run ended unexpectedly\nsee the lines above, and `dmesg` for whether it was killed"
    )]
    Ended {
        /// Writer or reader.
        side: &'static str,
    },
    /// A process sent a message that is not valid in the present state.
    #[error(
        "the {side} of a run sent an unexpected message `{said}`\nstart the bench again; if this recurs, report it"
    )]
    Unexpected {
        /// Writer or reader.
        side: &'static str,
        /// Text of the message.
        said: String,
    },
    /// The processes were silent for too long.
    #[error(
        "the two processes of a run have been silent for {0:?}\ntake a larger --cpus, or see what else keeps this host busy"
    )]
    Silent(Duration),
}

/// Results of a run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Measured {
    pub(super) account: Account,
    pub(super) writer_cpu_ns: u64,
    pub(super) reader_cpu_ns: u64,
    pub(super) dropped_by_socket: Option<u64>,
    /// Notes on the endpoints, such as buffers that the kernel clamped.
    pub(super) notes: Vec<String>,
}

/// A run that both processes have been asked to begin.
pub(super) struct Begun {
    /// Start of cycle 0.
    pub(super) start: units::Instant,
    /// Duration from there if nothing is late.
    planned: Duration,
    notes: Vec<String>,
}

/// A writer and a reader. Dropping ends both.
pub(super) struct Pair {
    writer: Worker,
    reader: Worker,
    heard: Receiver<(Role, Option<FromWorker>)>,
}

struct Worker {
    role: Role,
    process: OwnedProcess,
    program: String,
}

impl Pair {
    /// Starts both processes.
    pub(super) fn start(program: &Program) -> Result<Self, PairError> {
        let (sender, heard) = channel();
        let writer = Worker::start(Role::Writer, program, sender.clone())?;
        let reader = Worker::start(Role::Reader, program, sender)?;
        Ok(Self { writer, reader, heard })
    }

    /// Returns the ids of both processes.
    pub(super) fn process_ids(&self) -> [u32; 2] {
        [self.writer.process.id(), self.reader.process.id()]
    }

    /// Prepares both ends of `task`, whose role and endpoint are filled in here, and asks both to begin after
    /// `lead`.
    pub(super) fn begin(&mut self, task: &Task, lead: Duration) -> Result<Begun, PairError> {
        let notes = self.prepare(task)?;
        let start = clock::monotonic() + lead;
        let start_ns = start.as_nanos();
        // The reader first: it must listen before the writer sends.
        self.reader.tell(&ToWorker::Start { start_ns })?;
        self.writer.tell(&ToWorker::Start { start_ns })?;
        Ok(Begun { start, planned: task.cycle_time * task.cycles, notes })
    }

    /// Waits until the run is over; `cancellation` stops it early.
    pub(super) fn finish(
        &mut self,
        begun: Begun,
        cancellation: &Cancellation,
    ) -> Result<Measured, PairError> {
        let Begun { start, planned, notes } = begun;
        let planned = start.since(clock::monotonic()) + planned;
        let deadline = Instant::now() + planned + PATIENCE;
        let (mut stopped, mut writer_cpu_ns) = (false, 0);
        loop {
            match self.hear(deadline, planned)? {
                None | Some((Role::Reader, FromWorker::Settled)) if stopped => {}
                None if !cancellation.is_cancelled() => {}
                None | Some((Role::Reader, FromWorker::Settled)) => {
                    stopped = true;
                    self.writer.tell(&ToWorker::Stop)?;
                }
                Some((Role::Writer, FromWorker::Sent { sent, cpu_ns })) => {
                    stopped = true;
                    writer_cpu_ns = cpu_ns;
                    self.reader.tell(&ToWorker::Close(sent))?;
                }
                Some((Role::Reader, FromWorker::Received { account, cpu_ns, dropped_by_socket })) => {
                    let reader_cpu_ns = cpu_ns;
                    return Ok(Measured { account, writer_cpu_ns, reader_cpu_ns, dropped_by_socket, notes });
                }
                Some((role, other)) => return Err(unexpected(role, &other)),
            }
        }
    }

    /// Prepares both ends, the one that the other needs first; returns their notes.
    fn prepare(&mut self, task: &Task) -> Result<Vec<String>, PairError> {
        let first = task.transport.first();
        let second = if first == Role::Writer { Role::Reader } else { Role::Writer };
        let (endpoint, mut notes) = self.prepare_end(Task { role: first, ..task.clone() })?;
        let (_, more) = self.prepare_end(Task { role: second, endpoint, ..task.clone() })?;
        notes.extend(more);
        Ok(notes)
    }

    fn prepare_end(&mut self, task: Task) -> Result<(String, Vec<String>), PairError> {
        let worker = if task.role == Role::Writer { &mut self.writer } else { &mut self.reader };
        worker.tell(&ToWorker::Prepare(task))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.hear(deadline, Duration::ZERO)? {
                None => {}
                Some((_, FromWorker::Ready { endpoint, notes })) => return Ok((endpoint, notes)),
                Some((role, other)) => return Err(unexpected(role, &other)),
            }
        }
    }

    /// Waits a moment for a message of either process; `None` if there was none.
    fn hear(&self, deadline: Instant, planned: Duration) -> Result<Option<(Role, FromWorker)>, PairError> {
        match self.heard.recv_timeout(POLL_INTERVAL) {
            Ok((role, Some(FromWorker::Failed(reason)))) => {
                Err(PairError::Failed { side: side(role), reason })
            }
            Ok((role, Some(message))) => Ok(Some((role, message))),
            Ok((role, None)) => Err(PairError::Ended { side: side(role) }),
            Err(RecvTimeoutError::Disconnected) => Err(PairError::Ended { side: side(Role::Reader) }),
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                Err(PairError::Silent(planned + PATIENCE))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }
}

impl Worker {
    fn start(
        role: Role,
        program: &Program,
        heard: Sender<(Role, Option<FromWorker>)>,
    ) -> Result<Self, PairError> {
        let name = program.path.display().to_string();
        let unreachable = |source| PairError::Unreachable { side: side(role), program: name.clone(), source };
        let (process, output) = OwnedProcess::spawn(program.command()).map_err(unreachable)?;
        std::thread::spawn(move || {
            for message in child::messages(output) {
                // The channel's receiver is gone: the pair is being dropped.
                let _ = heard.send((role, Some(message)));
            }
            let _ = heard.send((role, None));
        });
        Ok(Self { role, process, program: name })
    }

    fn tell(&mut self, message: &ToWorker) -> Result<(), PairError> {
        self.process.tell(message).map_err(|source| PairError::Unreachable {
            side: side(self.role),
            program: self.program.clone(),
            source,
        })
    }
}

const fn side(role: Role) -> &'static str {
    match role {
        Role::Writer => "writer",
        Role::Reader => "reader",
    }
}

fn unexpected(role: Role, message: &FromWorker) -> PairError {
    PairError::Unexpected { side: side(role), said: serde_json::to_string(message).unwrap_or_default() }
}
