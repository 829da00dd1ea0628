//! The receivers of a run: threads of this process, or processes of their own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use sys::ReceiveSocket;

use super::message::{Counted, FromWorker, Place, Plan, SocketCount, ToWorker};
use super::options::{Calls, Places};
use super::receive;
use crate::child::{ProcessError, Program, Workers};
use flow::Ending;
use flow::udp::said_if_clamped;

/// Time a process may take to open its socket, and to count the tail of a run.
const PATIENCE: Duration = Duration::from_secs(15);

/// Name of a process in errors.
const NAME: &str = "a receiving process";

/// Reasons why there are no receivers.
#[derive(Debug, thiserror::Error)]
pub(super) enum CrewError {
    /// A socket cannot be opened.
    #[error(transparent)]
    Open(#[from] sys::OpenError),
    /// The system refused a thread, or failed while one received.
    #[error("a receiving thread failed: {0}\nlower --workers, or raise the limit with: ulimit -u")]
    Thread(std::io::Error),
    /// A process failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Receivers at work. Dropping them ends them.
pub(super) enum Crew {
    Threads(Threads),
    Processes(Workers<FromWorker>),
}

/// Parameters common to all receivers of a run.
#[derive(Clone, Copy)]
pub(super) struct Task {
    pub(super) plan: Plan,
    pub(super) address: SocketAddr,
    pub(super) buffer_bytes: Option<usize>,
    pub(super) calls: Calls,
}

/// Destinations for the senders, and notes about them.
#[derive(Clone, Default)]
pub(super) struct Ready {
    pub(super) endpoints: Vec<SocketAddr>,
    pub(super) notes: Vec<String>,
}

impl Crew {
    /// Opens all sockets and begins to receive at them.
    pub(super) fn begin(task: &Task) -> Result<(Self, Ready), CrewError> {
        if task.plan.threading_model.is_of_processes() {
            let (processes, ready) = begin_processes(task)?;
            Ok((Self::Processes(processes), ready))
        } else {
            let (threads, ready) = Threads::begin(task)?;
            Ok((Self::Threads(threads), ready))
        }
    }

    /// Waits, once sending has ended, until missing datagrams count as lost; returns the counts of each socket.
    pub(super) fn end(self) -> Result<Vec<SocketCount>, CrewError> {
        match self {
            Self::Threads(threads) => threads.end(),
            Self::Processes(mut processes) => {
                // All are notified before any is waited for, so that their quiet times overlap.
                let count = processes.ids().len();
                (0..count).try_for_each(|index| processes.tell(index, &ToWorker::Over))?;
                let mut counts = BTreeMap::new();
                while counts.len() < count {
                    match processes.hear_surely(PATIENCE)? {
                        (index, FromWorker::Done(count)) => drop(counts.insert(index, count)),
                        (index, other) => return Err(processes.unexpected(index, &other).into()),
                    }
                }
                Ok(counts.into_values().collect())
            }
        }
    }
}

impl Task {
    /// Returns the place of the next receiver, given the address `first` of the first one.
    fn place(&self, first: Option<SocketAddr>) -> Place {
        let is_shared = self.plan.threading_model.places() == Places::OnePort;
        Place {
            address: first.filter(|_| is_shared).unwrap_or(self.address),
            is_shared,
            payload_bytes: self.plan.payload_bytes,
            buffer_bytes: self.buffer_bytes,
            calls: self.calls,
        }
    }
}

impl Ready {
    /// Records a socket; members of one port are one endpoint.
    fn add(&mut self, address: SocketAddr, note: Option<String>) {
        if !self.endpoints.contains(&address) {
            self.endpoints.push(address);
        }
        self.notes.extend(note.filter(|note| !self.notes.contains(note)));
    }
}

/// Threads of this process.
pub(super) struct Threads {
    sockets: Vec<Arc<ReceiveSocket>>,
    /// Each thread with the index of its socket.
    threads: Vec<(usize, JoinHandle<std::io::Result<Counted>>)>,
    ending: Arc<Ending<()>>,
}

impl Threads {
    fn begin(task: &Task) -> Result<(Self, Ready), CrewError> {
        let plan = &task.plan;
        let sockets = if plan.threading_model.places() == Places::OneSocket { 1 } else { plan.workers };
        let mut ready = Ready::default();
        let ending = Arc::new(Ending::new().map_err(CrewError::Thread)?);
        let mut crew = Self { sockets: Vec::new(), threads: Vec::new(), ending };
        for _ in 0..sockets {
            let socket = receive::open(&task.place(ready.endpoints.first().copied()))?;
            ready.add(socket.local_address(), said_if_clamped(socket.granted_buffer()));
            crew.sockets.push(Arc::new(socket));
        }
        // Only now: the kernel distributes datagrams among the sockets of a port from the first datagram on.
        for worker in 0..plan.workers as usize {
            crew.spawn(worker % crew.sockets.len(), plan.payload_bytes).map_err(CrewError::Thread)?;
        }
        Ok((crew, ready))
    }

    fn spawn(&mut self, place: usize, payload_bytes: usize) -> std::io::Result<()> {
        let (socket, ending) = (Arc::clone(&self.sockets[place]), Arc::clone(&self.ending));
        let thread = std::thread::Builder::new()
            .name("receiver".to_owned())
            .spawn(move || receive::receive(&socket, payload_bytes, &ending))?;
        self.threads.push((place, thread));
        Ok(())
    }

    fn end(mut self) -> Result<Vec<SocketCount>, CrewError> {
        self.ending.announce_sent(());
        let mut workers = vec![Vec::new(); self.sockets.len()];
        for (place, thread) in self.threads.drain(..) {
            let counted = thread.join().expect("a receiving thread returns its errors");
            workers[place].push(counted.map_err(CrewError::Thread)?);
        }
        let count = |(socket, workers): (&Arc<ReceiveSocket>, Vec<Counted>)| {
            let drops = u64::from(socket.meminfo()?.drops);
            Ok(SocketCount { address: socket.local_address(), drops, workers })
        };
        self.sockets.iter().zip(workers).map(count).collect::<std::io::Result<_>>().map_err(CrewError::Thread)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.ending.give_up();
    }
}

/// Starts processes; each opens its socket before the next receives its place.
fn begin_processes(task: &Task) -> Result<(Workers<FromWorker>, Ready), CrewError> {
    let program = Program::this(&["bench", "capacity-worker"]).map_err(|source| {
        ProcessError::Unreachable { name: NAME, program: "/proc/self/exe".to_owned(), source }
    })?;
    // Started together, then given their places in turn: starting is what takes long.
    let mut processes = Workers::start(&program, vec![NAME; task.plan.workers as usize])?;
    let mut ready = Ready::default();
    for index in 0..task.plan.workers as usize {
        processes.tell(index, &ToWorker::Receive(task.place(ready.endpoints.first().copied())))?;
        match processes.hear_surely(PATIENCE)? {
            (_, FromWorker::Ready { address, note }) => ready.add(address, note),
            (index, other) => return Err(processes.unexpected(index, &other).into()),
        }
    }
    Ok((processes, ready))
}
