//! The two processes of a search, seen by the bench: started, instructed, read and ended.

use std::time::{Duration, Instant};

use probe::cycle::Account;
use sys::{Cancellation, clock};

use super::message::{FromWorker, Role, Task, ToWorker};
use crate::child::{ProcessError, Program, Workers};

/// Maximum silence of a process beyond the time its run takes. At the smallest quota a process gets a hundredth
/// of a processor.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval at which the request to end is checked: the channel of the processes' messages has no descriptor to
/// wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Names of the processes by their [`Role`].
const NAMES: [&str; 2] = ["the writer of a run", "the reader of a run"];

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
    ends: Workers<FromWorker>,
}

impl Pair {
    /// Starts both processes.
    pub(super) fn start(program: &Program) -> Result<Self, ProcessError> {
        Workers::start(program, NAMES.to_vec()).map(|ends| Self { ends })
    }

    /// Returns the ids of both processes.
    pub(super) fn process_ids(&self) -> Vec<u32> {
        self.ends.ids()
    }

    /// Prepares both ends of `task`, whose role and endpoint are filled in here, and asks both to begin after
    /// `lead`.
    pub(super) fn begin(&mut self, task: &Task, lead: Duration) -> Result<Begun, ProcessError> {
        let notes = self.prepare(task)?;
        let start = clock::monotonic() + lead;
        let start_ns = start.as_nanos();
        // The reader first: it must listen before the writer sends.
        self.tell(Role::Reader, &ToWorker::Start { start_ns })?;
        self.tell(Role::Writer, &ToWorker::Start { start_ns })?;
        Ok(Begun { start, planned: task.cycle_time * task.cycles, notes })
    }

    /// Waits until the run is over; `cancellation` stops it early.
    pub(super) fn finish(
        &mut self,
        begun: Begun,
        cancellation: &Cancellation,
    ) -> Result<Measured, ProcessError> {
        let Begun { start, planned, notes } = begun;
        let planned = start.since(clock::monotonic()) + planned;
        let deadline = Instant::now() + planned + PATIENCE;
        let (mut stopped, mut writer_cpu_ns) = (false, 0);
        loop {
            match self.ends.hear(POLL_INTERVAL)? {
                None if Instant::now() >= deadline => return Err(ProcessError::Silent(planned + PATIENCE)),
                None | Some((_, FromWorker::Settled)) if stopped => {}
                None if !cancellation.is_cancelled() => {}
                None | Some((_, FromWorker::Settled)) => {
                    stopped = true;
                    self.tell(Role::Writer, &ToWorker::Stop)?;
                }
                Some((_, FromWorker::Sent { sent, cpu_ns })) => {
                    stopped = true;
                    writer_cpu_ns = cpu_ns;
                    self.tell(Role::Reader, &ToWorker::Close(sent))?;
                }
                Some((_, FromWorker::Received { account, cpu_ns, dropped_by_socket })) => {
                    let reader_cpu_ns = cpu_ns;
                    return Ok(Measured { account, writer_cpu_ns, reader_cpu_ns, dropped_by_socket, notes });
                }
                Some((end, other)) => return Err(self.ends.unexpected(end, &other)),
            }
        }
    }

    /// Prepares both ends, the one that the other needs first; returns their notes.
    fn prepare(&mut self, task: &Task) -> Result<Vec<String>, ProcessError> {
        let first = task.transport.first();
        let second = if first == Role::Writer { Role::Reader } else { Role::Writer };
        let (endpoint, mut notes) = self.prepare_end(Task { role: first, ..task.clone() })?;
        let (_, more) = self.prepare_end(Task { role: second, endpoint, ..task.clone() })?;
        notes.extend(more);
        Ok(notes)
    }

    fn prepare_end(&mut self, task: Task) -> Result<(String, Vec<String>), ProcessError> {
        self.tell(task.role, &ToWorker::Prepare(task))?;
        match self.ends.hear_surely(PATIENCE)? {
            (_, FromWorker::Ready { endpoint, notes }) => Ok((endpoint, notes)),
            (end, other) => Err(self.ends.unexpected(end, &other)),
        }
    }

    fn tell(&mut self, role: Role, message: &ToWorker) -> Result<(), ProcessError> {
        self.ends.tell(role as usize, message)
    }
}
