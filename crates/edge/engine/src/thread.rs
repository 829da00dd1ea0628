//! The handle of an agent's thread: a command queue, a waker, and a drop that waits for the thread's end.

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::waker::AgentWaker;

/// Settings of an agent's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadTuning {
    /// Behaviour while there is nothing to do.
    pub idle: Idle,
    /// The only processor it may use.
    pub cpu: Option<usize>,
    /// Its priority in `SCHED_FIFO`, 1 to 99: it then preempts all threads outside the real-time
    /// classes.
    pub fifo: Option<u8>,
}

/// Behaviour of an agent while there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Idle {
    /// Sleeps until an event: waking takes some microseconds.
    #[default]
    Park,
    /// Polls whenever the processor has nothing else to do.
    Yield,
    /// Polls continuously: takes a whole processor, and gives the shortest delays.
    Spin,
}

impl Idle {
    /// Passes a moment without sleeping; `false` if the thread is to sleep until an event.
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
    /// Applies the settings to the calling thread.
    fn apply(self) -> io::Result<()> {
        if let Some(cpu) = self.cpu {
            let what = |error| explained(error, &format!("an agent cannot be pinned to processor {cpu}"));
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

/// Returns an error that says what failed, and what the system reported.
fn explained(error: io::Error, what: &str) -> io::Error {
    let way_out = match error.kind() {
        io::ErrorKind::PermissionDenied => "\nrun it as root, or with CAP_SYS_NICE",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{what}: {error}{way_out}"))
}

/// Handle of an agent's thread.
pub(crate) struct AgentThread<C> {
    commands: mpsc::Sender<C>,
    waker: AgentWaker,
    stop: fn() -> C,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread; a forked child has not.
    home: sys::Home,
}

impl<C: Send + 'static> AgentThread<C> {
    /// Starts `run` in a thread of its own with the finest timers of the system; `stop` makes the
    /// command that ends it.
    ///
    /// Fails if the thread cannot be created or tuned as `tuning` asks.
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
        Ok(Self { commands, waker, stop, thread: Some(thread), home: sys::Home::here() })
    }
}

impl<C> AgentThread<C> {
    /// Returns whether this is a forked child of the process that has the thread.
    pub(crate) fn is_of_parent(&self) -> bool {
        !self.home.is_here()
    }

    /// Queues a command for the agent. An agent that has ended drops it, and a waiting caller gets
    /// no answer; that of a parent process gets none.
    pub(crate) fn tell(&self, command: C) {
        if self.is_of_parent() {
            return;
        }
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    /// Sends the agent a request and waits for the answer; `None` from an agent that has ended.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(mpsc::Sender<T>) -> C) -> Option<T> {
        self.put(question).recv().ok()
    }

    /// Sends the agent a request; returns the channel of the answer, which stays empty if the agent
    /// has ended.
    pub(crate) fn put<T>(&self, question: impl FnOnce(mpsc::Sender<T>) -> C) -> mpsc::Receiver<T> {
        let (reply, answer) = mpsc::channel();
        self.tell(question(reply));
        answer
    }
}

impl<C> Drop for AgentThread<C> {
    fn drop(&mut self) {
        if self.is_of_parent() {
            // Waiting for a thread of the parent would never end.
            std::mem::forget(self.thread.take());
            return;
        }
        self.tell((self.stop)());
        if let Some(thread) = self.thread.take() {
            // A panic of the agent was printed by its own thread.
            let _ = thread.join();
        }
    }
}
