//! The server's end of a ping-pong: a thread that answers messages, and the control connection to the client.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use sys::{clock, scheduling};

use super::link::{self, Answering, Attending, Far, LinkError, Task, UdpEnd};
use super::message::{Finished, Word};
use super::options::{Options, System};
use crate::control::{ControlError, Outcome, RunResult, Serve, ServeError, Session, Test};
use crate::greeting::token;
use crate::report::Meter;

/// The server's part of the test.
pub const TEST: &dyn Serve = &Pingpong;
pub(super) struct Pingpong;

impl Test for Pingpong {
    type Parameters = Options;
    type Word = Word;
    const NAME: &'static str = "pingpong";

    fn check(&self, options: &Options) -> Result<(), ServeError> {
        options.check().map_err(ServeError::refused)
    }

    fn run(&self, options: &Options, request: Word, session: &mut Session<'_>) -> RunResult<Word> {
        let finished = match request {
            Word::Prepare { system, piece_bytes, endpoint, .. } => {
                let task = Task {
                    options,
                    system: &system,
                    // The size too comes from the client, which is not trusted.
                    piece_bytes: piece_bytes.clamp(1, 1 << 16),
                    local: session.connection.local_address_any_port(),
                    peer: session.connection.peer_address().ip(),
                    patience: session.connection.patience().silence,
                };
                match serve_way(&task, endpoint, session) {
                    Ok(finished) => finished,
                    // A congestion control that this host does not have must not end the others.
                    Err(WayError::Link(error)) => {
                        return Ok(Outcome::Done(Word::Refused { reason: error.to_string() }));
                    }
                    Err(WayError::Serve(error)) => return Err(error),
                }
            }
            // It crossed the message that the connection was refused.
            Word::Finish => Finished::default(),
            other => return Err(session.unexpected(&other)),
        };
        Ok(Outcome::Done(Word::Finished(finished)))
    }
}

/// Serves one connection, from its opening to its end; the client's end is at `endpoint`, if it has opened one.
fn serve_way(
    task: &Task<'_>,
    endpoint: Option<SocketAddr>,
    session: &mut Session<'_>,
) -> Result<Finished, WayError> {
    let Some((far, early)) = make(task, endpoint, session)? else { return Ok(Finished::default()) };
    let shared = SharedState::default();
    std::thread::scope(|scope| {
        let meter = Meter::begin();
        let answering = scope.spawn(|| answer(far, &shared, task.options.server_cpu));
        let outcome = tend(&shared, session, early);
        shared.is_to_end.store(true, Ordering::Relaxed);
        let finished = answering.join().expect("a thread that answers returns its errors");
        outcome?;
        Ok(Finished { used: meter.used(), ..finished })
    })
}

/// Reasons why a connection could not be served.
#[derive(Debug, thiserror::Error)]
enum WayError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl From<ControlError> for WayError {
    fn from(error: ControlError) -> Self {
        Self::Serve(error.into())
    }
}

/// Far end of a connection, and what the client said before this end saw its connection.
type Made = (Box<dyn Far>, Option<Word>);

/// Opens the far end of a connection, and sends its address to the client; `None` if the client cannot open the
/// near end.
fn make(
    task: &Task<'_>,
    endpoint: Option<SocketAddr>,
    session: &mut Session<'_>,
) -> Result<Option<Made>, WayError> {
    let token = token();
    match (task.system, endpoint) {
        (System::Udp, Some(endpoint)) => {
            let far = UdpEnd::open(task, endpoint, token)?;
            session.connection.say(&Word::Ready { endpoint: far.endpoint(), token })?;
            Ok(Some((Box::new(far), None)))
        }
        (System::Udp, None) => Err(WayError::Serve(session.unexpected(&Value::Null))),
        (_, _) => {
            let far = link::listen(task, token)?;
            session.connection.say(&Word::Ready { endpoint: far.endpoint(), token })?;
            let mut reception = Reception { session, outcome: None, early: None };
            let far = far.accept(task, &mut reception)?;
            reception.outcome.transpose()?;
            Ok(far.map(|far| (far, reception.early)))
        }
    }
}

/// Reads the control connection while the data connection is awaited: the client may give up.
struct Reception<'a, 'b> {
    session: &'a mut Session<'b>,
    /// Outcome of the wait, if it was not a connection.
    outcome: Option<Result<(), ServeError>>,
    /// The first size step: its connection exists for the client before this end has seen it.
    early: Option<Word>,
}

impl Attending for Reception<'_, '_> {
    fn goes_on(&mut self) -> bool {
        if self.early.is_some() {
            return true;
        }
        self.outcome = match self.session.connection.hear_word(std::time::Instant::now()) {
            Ok(None) => self.session.ensure_running().err().map(Err),
            Ok(Some(Word::Finish)) => Some(Ok(())),
            Ok(Some(word @ Word::SizeStep { .. })) => {
                self.early = Some(word);
                None
            }
            Ok(Some(other)) => Some(Err(self.session.unexpected(&other))),
            Err(error) => Some(Err(error.into())),
        };
        self.outcome.is_none()
    }
}

/// Handles the client's messages, of which the first may be known already, until it ends the connection.
fn tend(shared: &SharedState, session: &mut Session<'_>, mut early: Option<Word>) -> Result<(), ServeError> {
    loop {
        let word = match early.take() {
            Some(word) => word,
            None => session.hear_word()?,
        };
        match word {
            Word::SizeStep { message_bytes, first } => {
                *shared.size_step() = SizeStep { message_bytes, first, answered: 0 };
                session.connection.say(&Word::SizeStepBegun)?;
            }
            Word::SizeStepEnd => {
                let answered = shared.size_step().answered;
                session.connection.say(&Word::SizeStepEnded { answered })?;
            }
            Word::Finish => return Ok(()),
            other => return Err(session.unexpected(&other)),
        }
    }
}

/// Answers until asked to end.
fn answer(mut far: Box<dyn Far>, shared: &SharedState, cpu: Option<usize>) -> Finished {
    // Refused on some kernels; pauses then end up to 50 µs late.
    let _ = clock::lower_timer_slack();
    let pinned = cpu.map_or(Ok(()), scheduling::pin_to_cpu);
    let mut failure = pinned.err().map(|error| format!("the server's thread cannot be pinned: {error}"));
    while failure.is_none() && !shared.is_to_end() {
        match far.answer(shared) {
            Ok(()) => {}
            // The client has closed its end.
            Err(LinkError::Closed) => break,
            Err(error) => failure = Some(error.to_string()),
        }
    }
    Finished { evidence: far.evidence(), failure, notes: far.notes(), ..Finished::default() }
}

/// State shared by the two threads of a server.
#[derive(Default)]
struct SharedState {
    size_step: Mutex<SizeStep>,
    is_to_end: AtomicBool,
}

/// A size step, and the number of its messages that were answered.
#[derive(Clone, Copy, Default)]
struct SizeStep {
    message_bytes: u32,
    first: u64,
    answered: u64,
}

impl SharedState {
    fn size_step(&self) -> MutexGuard<'_, SizeStep> {
        self.size_step.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answering for SharedState {
    fn message_bytes(&self) -> u32 {
        self.size_step().message_bytes
    }

    fn came(&self, exchange: Option<u64>) -> bool {
        let mut size_step = self.size_step();
        // A late message of an earlier size step, whose exchange was given up.
        let is_of_size_step = exchange.is_none_or(|exchange| exchange >= size_step.first);
        size_step.answered += u64::from(is_of_size_step);
        is_of_size_step
    }

    fn is_to_end(&self) -> bool {
        self.is_to_end.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::control::Connection;
    use crate::control::scene::{PATIENT, Scene, WATCHDOG};

    fn hear(client: &mut Connection) -> Word {
        client.hear_word(Instant::now() + WATCHDOG).unwrap().unwrap()
    }

    #[test]
    fn a_client_that_cannot_connect_gives_up_and_the_next_way_is_served() {
        let scene = Scene::new(&[TEST], PATIENT);
        let mut client = scene.begin(Pingpong::NAME, serde_json::to_value(Options::default()).unwrap());
        for run in 0..2 {
            let system = System::Tcp(None);
            client.say(&Word::Prepare { run, system, piece_bytes: 1_448, endpoint: None }).unwrap();
            assert!(matches!(hear(&mut client), Word::Ready { .. }));
            // No client connects.
            client.say(&Word::Finish).unwrap();
            assert_eq!(hear(&mut client), Word::Finished(Finished::default()));
        }
        client.part();
        assert_eq!(scene.ended(), None);
    }
}
