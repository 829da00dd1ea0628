//! The handle of an agent's thread: a command queue, a waker, and a drop that waits for the thread's end.

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::waker::AgentWaker;

/// How an agent's thread runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadTuning {
    /// What it does while there is nothing to do.
    pub idle: Idle,
    /// The only processor it may use.
    pub cpu: Option<usize>,
    /// Its priority in `SCHED_FIFO`, 1 to 99: it then runs before all that are in no real-time class.
    pub fifo: Option<u8>,
}

/// What an agent does while there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Idle {
    /// Sleeps until something comes: to be woken takes some microseconds.
    #[default]
    Park,
    /// Looks again whenever the processor has nothing else to do.
    Yield,
    /// Looks again at once: takes a whole processor, and gives the shortest delays.
    Spin,
}

impl Idle {
    /// Passes a moment without sleeping; `false` if the thread is to sleep until something comes.
    pub(crate) fn stays_awake(self) -> bool {
        match self {
            Self::Park => return false,
            Self::Yield => std::thread::yield_now(),
            Self::Spin => std::hint::spin_loop(),
        }
        true
    }
}

impl ThreadTuning {
    /// Applies it to the calling thread.
    fn apply(self) -> io::Result<()> {
        if let Some(cpu) = self.cpu {
            let what = |error| explained(error, &format!("an agent cannot be kept on processor {cpu}"));
            sys::scheduling::pin_to_cpu(cpu).map_err(what)?;
        }
        if let Some(priority) = self.fifo {
            let what = |error| explained(error, &format!("an agent cannot run in SCHED_FIFO at {priority}"));
            sys::scheduling::run_fifo(priority).map_err(what)?;
        }
        if let Err(error) = sys::clock::lower_timer_slack() {
            tracing::debug!("timers stay as coarse as the system has them: {error}");
        }
        Ok(())
    }
}

/// Says what could not be done, and what the system said.
fn explained(error: io::Error, what: &str) -> io::Error {
    let way_out = match error.kind() {
        io::ErrorKind::PermissionDenied => "\nit takes root, or CAP_SYS_NICE",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{what}: {error}{way_out}"))
}

/// An agent's thread, seen from outside.
pub(crate) struct AgentThread<C> {
    commands: mpsc::Sender<C>,
    waker: AgentWaker,
    stop: fn() -> C,
    thread: Option<JoinHandle<()>>,
}

impl<C: Send + 'static> AgentThread<C> {
    /// Starts `run` in a thread of its own, whose timers are as fine as the system has them; `stop` makes the command that ends it.
    ///
    /// Fails if the thread cannot be had as `tuning` asks for it.
    pub(crate) fn start(
        name: &str,
        tuning: ThreadTuning,
        commands: mpsc::Sender<C>,
        waker: AgentWaker,
        stop: fn() -> C,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let tuned = tuning.apply();
            let may_run = tuned.is_ok();
            let _ = tell.send(tuned);
            if may_run {
                run();
            }
        })?;
        told.recv().map_err(io::Error::other)??;
        Ok(Self { commands, waker, stop, thread: Some(thread) })
    }
}

impl<C> AgentThread<C> {
    /// Queues a command for the agent. An agent that has ended drops it, and a caller that waits for an answer gets none.
    pub(crate) fn tell(&self, command: C) {
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    /// Hands the agent a question and waits for the answer; `None` from an agent that has ended.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(mpsc::Sender<T>) -> C) -> Option<T> {
        self.put(question).recv().ok()
    }

    /// Hands the agent a question; returns where the answer comes, none from an agent that has ended.
    pub(crate) fn put<T>(&self, question: impl FnOnce(mpsc::Sender<T>) -> C) -> mpsc::Receiver<T> {
        let (reply, answer) = mpsc::channel();
        self.tell(question(reply));
        answer
    }
}

impl<C> Drop for AgentThread<C> {
    fn drop(&mut self) {
        self.tell((self.stop)());
        if let Some(thread) = self.thread.take() {
            // A panic of the agent was printed by its own thread.
            let _ = thread.join();
        }
    }
}
