//! The handle of an agent's thread: commands go in, a bell wakes it, dropping the handle waits for its end.

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::bell::AgentBell;

/// An agent's thread, seen from outside.
pub(crate) struct AgentThread<C> {
    commands: mpsc::Sender<C>,
    bell: AgentBell,
    stop: fn() -> C,
    thread: Option<JoinHandle<()>>,
}

impl<C: Send + 'static> AgentThread<C> {
    /// Starts `run` in a thread of its own, whose timers are as fine as the system has them; `stop` makes the command that ends it.
    pub(crate) fn start(
        name: &str,
        bell: AgentBell,
        stop: fn() -> C,
        run: impl FnOnce(mpsc::Receiver<C>) + Send + 'static,
    ) -> io::Result<Self> {
        let (commands, taken) = mpsc::channel();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            if let Err(error) = sys::clock::lower_timer_slack() {
                tracing::debug!("timers stay as coarse as the system has them: {error}");
            }
            run(taken);
        })?;
        Ok(Self { commands, bell, stop, thread: Some(thread) })
    }
}

impl<C> AgentThread<C> {
    /// Hands the agent a command. One that has ended takes no wishes: whoever waits for an answer sees that.
    pub(crate) fn tell(&self, command: C) {
        let _ = self.commands.send(command);
        self.bell.ring();
    }

    /// Hands the agent a question and waits for the answer; `None` from an agent that has ended.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(mpsc::Sender<T>) -> C) -> Option<T> {
        let (reply, answer) = mpsc::channel();
        self.tell(question(reply));
        answer.recv().ok()
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
