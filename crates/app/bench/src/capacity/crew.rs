//! The receivers of a run: threads of this process, or processes of their own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use sys::ReceiveSocket;

use super::message::{Counted, FromWorker, Place, Plan, SocketCount, ToWorker};
use super::options::{Calls, Places};
use super::receive::{self, Ending};
use crate::child::{OwnedProcess, Program};

/// How long a process may take to open its socket, and to count what still came.
const PATIENCE: Duration = Duration::from_secs(15);

/// Says why there are no receivers.
#[derive(Debug, thiserror::Error)]
pub(super) enum CrewError {
    /// A socket cannot be opened.
    #[error(transparent)]
    Open(#[from] sys::OpenError),
    /// The system refused a thread, or failed while one received.
    #[error("a receiving thread failed: {0}\nlower --workers, or raise the limit with: ulimit -u")]
    Thread(std::io::Error),
    /// A process cannot be started or spoken to.
    #[error("a receiving process cannot be reached: {source}\nsee whether `{program}` can be started")]
    Unreachable {
        /// What was to be started.
        program: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// A process said why it could not go on.
    #[error("a receiving process failed: {0}")]
    Failed(String),
    /// A process ended although nobody asked it to, or said nothing any more.
    #[error(
        "a receiving process ended by itself or said nothing for {PATIENCE:?}\nsee the lines above, and `dmesg` for whether it was killed"
    )]
    Lost,
}

/// Receivers at work. Dropping them ends them.
pub(super) enum Crew {
    Threads(Threads),
    Processes(Vec<Process>),
}

/// What all receivers of a run have in common.
#[derive(Clone, Copy)]
pub(super) struct Task {
    pub(super) plan: Plan,
    pub(super) address: SocketAddr,
    pub(super) buffer_bytes: Option<usize>,
    pub(super) calls: Calls,
}

/// Where the senders are to send, and what is to be known of it.
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

    /// Waits, since nothing more is sent, until what did not come is lost; returns what came at each socket.
    pub(super) fn end(self) -> Result<Vec<SocketCount>, CrewError> {
        match self {
            Self::Threads(threads) => threads.end(),
            Self::Processes(mut processes) => {
                // All are told before any is waited for: their quiet times are one.
                processes.iter_mut().try_for_each(|process| process.tell(&ToWorker::Over))?;
                processes.iter().map(Process::wait_for_count).collect()
            }
        }
    }
}

impl Task {
    /// Returns where the next receiver receives, when the first did at `first`.
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
    /// Takes note of a socket; members of one port are one endpoint.
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
    /// Each with the place of its socket.
    threads: Vec<(usize, JoinHandle<std::io::Result<Counted>>)>,
    ending: Arc<Ending>,
}

impl Threads {
    fn begin(task: &Task) -> Result<(Self, Ready), CrewError> {
        let plan = &task.plan;
        let sockets = if plan.threading_model.places() == Places::OneSocket { 1 } else { plan.workers };
        let mut ready = Ready::default();
        let mut crew = Self { sockets: Vec::new(), threads: Vec::new(), ending: Arc::default() };
        for _ in 0..sockets {
            let socket = receive::open(&task.place(ready.endpoints.first().copied()))?;
            let buffer = socket.granted_buffer();
            ready.add(socket.local_address(), buffer.clamped().then(|| buffer.to_string()));
            crew.sockets.push(Arc::new(socket));
        }
        // Only now: of sockets at one port, each is dealt its part from the first datagram on.
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
        self.ending.say_over();
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

/// A receiving process.
pub(super) struct Process {
    process: OwnedProcess,
    program: String,
    heard: Receiver<FromWorker>,
}

/// Starts processes; each opens its socket before the next is told of it.
fn begin_processes(task: &Task) -> Result<(Vec<Process>, Ready), CrewError> {
    let unreachable = |source| CrewError::Unreachable { program: "/proc/self/exe".to_owned(), source };
    let program = Program::this(&["bench", "capacity-worker"]).map_err(unreachable)?;
    // Started together and told one after the other: starting is what takes long.
    let mut processes =
        (0..task.plan.workers).map(|_| Process::start(&program)).collect::<Result<Vec<_>, _>>()?;
    let mut ready = Ready::default();
    for process in &mut processes {
        process.tell(&ToWorker::Receive(task.place(ready.endpoints.first().copied())))?;
        match process.hear()? {
            FromWorker::Ready { address, note } => ready.add(address, note),
            other => return Err(unexpected(&other)),
        }
    }
    Ok((processes, ready))
}

impl Process {
    fn start(program: &Program) -> Result<Self, CrewError> {
        let name = program.path.display().to_string();
        let unreachable = |source| CrewError::Unreachable { program: name.clone(), source };
        let (process, output) = OwnedProcess::spawn(program.command()).map_err(unreachable)?;
        let (sender, heard) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for message in lines.map_while(|line| serde_json::from_str(&line).ok()) {
                // Nobody listens any more: the process is being dropped.
                let _ = sender.send(message);
            }
        });
        Ok(Self { process, program: name, heard })
    }

    fn tell(&mut self, message: &ToWorker) -> Result<(), CrewError> {
        let mut line = serde_json::to_string(message).expect("messages are plain data");
        line.push('\n');
        self.process
            .write(&line)
            .map_err(|source| CrewError::Unreachable { program: self.program.clone(), source })
    }

    fn wait_for_count(&self) -> Result<SocketCount, CrewError> {
        match self.hear()? {
            FromWorker::Done(count) => Ok(count),
            other => Err(unexpected(&other)),
        }
    }

    fn hear(&self) -> Result<FromWorker, CrewError> {
        match self.heard.recv_timeout(PATIENCE) {
            Ok(FromWorker::Failed(reason)) => Err(CrewError::Failed(reason)),
            Ok(message) => Ok(message),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(CrewError::Lost),
        }
    }
}

fn unexpected(message: &FromWorker) -> CrewError {
    CrewError::Failed(format!(
        "it said `{}`, which was not expected\nstart the bench anew; if it comes again, report it",
        serde_json::to_string(message).unwrap_or_default()
    ))
}
