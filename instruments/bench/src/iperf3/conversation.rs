//! Common part of both sides of a conversation, without sockets: takes bytes of the control connection and other
//! events, returns actions.
//!
//! The contract is the project's: [`handle`](Conversation::handle), then [`poll`](Conversation::poll) until
//! [`Output::Idle`]. The phases of a side and its answers to its peer are in `client` and `server`. Every phase
//! leads to the end if the peer leaves, sends an unexpected message, is silent for too long, or this program is
//! asked to end.

use std::collections::VecDeque;
use std::time::Duration;

use units::Instant;

use super::error::ProtocolError;
use super::inbox::{Inbox, framed};
use super::parameters::Test;
use super::results::Results;
use super::state::State;

/// Length of the cookie, with a zero at its end.
pub(super) const COOKIE_BYTES: usize = 37;
/// Time a peer may take for an expected message. Long enough for a lossy link, short enough for clients that
/// wait.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// Time a test may continue without any data, as in iperf3.
pub(super) const STALL: Duration = Duration::from_secs(120);

/// Identifier of a client, by which its connections are recognised.
pub(super) type Cookie = [u8; COOKIE_BYTES];

/// Events for a side.
#[derive(Debug)]
pub(super) enum Input<'a> {
    /// Bytes from the control connection.
    Bytes(&'a [u8]),
    /// The control connection was closed.
    Closed,
    /// Time has passed.
    Tick,
    /// The streams can be opened, as requested by [`Output::Open`]: a server listens for them.
    Ready,
    /// All streams are there.
    Opened,
    /// A stream could not be opened, or failed.
    Failed(ProtocolError),
    /// Data moved since the last check.
    Progress,
    /// The client's test has reached its end: time, bytes or blocks.
    Over,
    /// The results requested by [`Output::Collect`].
    Collected(Results),
    /// This side is to end.
    Interrupt,
}

/// Actions of a side.
#[derive(Debug)]
pub(super) enum Output {
    /// Write these bytes to the control connection.
    Write(Vec<u8>),
    /// Open the streams of this test: a client connects them, a server listens for them.
    Open(Box<Test>),
    /// Begin: data may flow.
    Start,
    /// The test is over: send no more.
    Halt,
    /// The client does not send its results: it may wait for another block.
    Nudge,
    /// Receive what is still in flight, given the peer's results if they are known, and count.
    Collect(Option<Results>),
    /// The test is over; these are the peer's results.
    Finished(Results),
    /// The test ends with this error.
    Failed(ProtocolError),
    /// Nothing to do before this time.
    Idle { deadline: Option<Instant> },
}

/// Phases of one side.
pub(super) trait Phase: Sized + PartialEq {
    /// The last phase.
    const OVER: Self;

    /// Returns whether data may flow.
    fn is_running(&self) -> bool;

    /// Returns the activity of this side, for errors.
    fn during(&self) -> &'static str;

    /// Handles an event of a conversation that is not over.
    fn on_input(conversation: &mut Conversation<Self>, now: Instant, input: Input<'_>);
}

/// One side of a conversation.
#[derive(Debug)]
pub(super) struct Conversation<P> {
    pub(super) phase: P,
    pub(super) inbox: Inbox,
    /// Time at which the peer's silence ends the conversation; `None` while nothing is awaited from it.
    pub(super) deadline: Option<Instant>,
    outputs: VecDeque<Output>,
}

impl<P: Phase> Conversation<P> {
    /// Begins on an established control connection, with the first bytes of this side.
    pub(super) fn begin(now: Instant, phase: P, first: Vec<u8>) -> Self {
        let outputs = VecDeque::from([Output::Write(first)]);
        Self { phase, inbox: Inbox::default(), deadline: Some(now + PATIENCE), outputs }
    }

    /// Handles an event.
    pub(super) fn handle(&mut self, now: Instant, input: Input<'_>) {
        if self.phase != P::OVER {
            P::on_input(self, now, input);
        }
    }

    /// Returns the next action.
    pub(super) fn poll(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or(Output::Idle { deadline: self.deadline })
    }

    /// Requests an action.
    pub(super) fn request(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn say(&mut self, state: State) {
        self.request(Output::Write(vec![state.byte()]));
    }

    pub(super) fn send(&mut self, text: &[u8]) {
        self.request(Output::Write(framed(text)));
    }

    /// Enters a phase in which a message of the peer is awaited.
    pub(super) fn enter(&mut self, phase: P, now: Instant) {
        self.phase = phase;
        self.deadline = Some(now + PATIENCE);
    }

    /// Counts, in a phase in which nothing is awaited from the peer.
    pub(super) fn collect(&mut self, phase: P, told: Option<Results>) {
        self.request(Output::Collect(told));
        self.phase = phase;
        self.deadline = None;
    }

    /// Returns whether an awaited message, or data, did not arrive in time.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Returns the error of a peer that was silent for too long.
    pub(super) fn silence(&self) -> ProtocolError {
        if self.phase.is_running() {
            return ProtocolError::Stalled { silence: STALL };
        }
        ProtocolError::Silent { during: self.phase.during(), silence: PATIENCE }
    }

    pub(super) fn unexpected(&self, byte: u8) -> ProtocolError {
        ProtocolError::Unexpected { byte, during: self.phase.during() }
    }

    pub(super) fn closed(&self) -> ProtocolError {
        ProtocolError::Closed { during: self.phase.during() }
    }

    pub(super) fn fail(&mut self, error: ProtocolError) {
        self.end(Output::Failed(error));
    }

    pub(super) fn end(&mut self, output: Output) {
        self.request(output);
        self.phase = P::OVER;
        self.deadline = None;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const NOW: Instant = Instant::ORIGIN;

    /// Polls until idle; returns the written bytes, and the names of all other outputs.
    pub(crate) fn drain<P: Phase>(side: &mut Conversation<P>) -> (Vec<u8>, Vec<String>) {
        let (mut written, mut told) = (Vec::new(), Vec::new());
        loop {
            match side.poll() {
                Output::Write(bytes) => written.extend(bytes),
                Output::Idle { .. } => return (written, told),
                Output::Open(test) => told.push(format!("open {}", test.parallel)),
                Output::Failed(error) => told.push(format!("failed: {error}")),
                Output::Collect(Some(results)) => told.push(format!("collect {}", results.streams.len())),
                Output::Finished(results) => told.push(format!("finished {}", results.streams.len())),
                other => told.push(format!("{other:?}")),
            }
        }
    }

    /// Returns the number of verdicts: a conversation ends with one.
    pub(crate) fn verdicts(told: &[String]) -> usize {
        told.iter().filter(|it| it.starts_with("failed") || it.starts_with("finished")).count()
    }
}
