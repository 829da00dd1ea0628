//! The server's end of a capacity measurement: it receives.

use super::crew::{Crew, Task};
use super::message::{Plan, Received, SocketCount, Word};
use super::options::Options;
use crate::control::{Message, Outcome, RunResult, Serve, ServeError, Session, Test};
use crate::options::OptionsError;
use crate::processor_time::ProcessorTime;
use crate::report::Meter;
use crate::udp_counters::RcvbufErrors;

/// The server's part of the test.
pub const TEST: &dyn Serve = &Capacity;
pub(super) struct Capacity;

impl Test for Capacity {
    type Parameters = Options;
    type Word = Word;
    const NAME: &'static str = "capacity";

    fn check(&self, options: &Options) -> Result<(), ServeError> {
        options.check().map_err(ServeError::refused)
    }

    fn run(&self, options: &Options, request: Word, session: &mut Session<'_>) -> RunResult<Word> {
        let Word::Prepare(plan) = request else { return Err(session.unexpected(&request)) };
        check(options, &plan).map_err(ServeError::refused)?;
        let address = session.connection.local_address_any_port();
        let task = Task { plan, address, buffer_bytes: options.receive_buffer_bytes, calls: options.calls };
        let (crew, ready) = Crew::begin(&task).map_err(ServeError::refused)?;
        // Before anything is sent: on a busy host many datagrams are dropped before the message about it is
        // received.
        let errors = RcvbufErrors::begin(address.ip());
        session.connection.say(&Word::Ready { endpoints: ready.endpoints, notes: ready.notes })?;
        match session.connection.hear_surely()? {
            Message::Bye => return Ok(Outcome::Left),
            Message::Word(word) if serde_json::from_value(word.clone()).ok() == Some(Word::Start) => {}
            other => return Err(session.connection.unexpected(&other).into()),
        }
        let (meter, processors) = (Meter::begin(), ProcessorTime::begin());
        hear_sent(options, session)?;
        // Before the tail is awaited: in that quiet time processors are idle however much the receivers can take.
        let (mut used, processors) = (meter.used(), processors.shares());
        let sockets = crew.end().map_err(ServeError::refused)?;
        let workers_cpu_ns = workers(&sockets).map(|counted| counted.cpu_ns).sum();
        if plan.threading_model.is_of_processes() {
            used = used.with(workers_cpu_ns);
        }
        let received = Received { sockets, used, workers_cpu_ns, processors, rcvbuf_errors: errors.since() };
        Ok(Outcome::Done(Word::Done(Box::new(received))))
    }
}

/// Checks a plan as its options were checked: both come from the client.
fn check(options: &Options, plan: &Plan) -> Result<(), OptionsError> {
    let Plan { threading_model, workers, payload_bytes } = *plan;
    let (workers, payloads, threading_models) = (vec![workers], vec![payload_bytes], vec![threading_model]);
    Options { workers, payloads, threading_models, ..options.clone() }.check()
}

fn workers(sockets: &[SocketCount]) -> impl Iterator<Item = &super::message::Counted> {
    sockets.iter().flat_map(|socket| &socket.workers)
}

/// Waits until the client has sent all; if this server is to end, asks it to send no more.
fn hear_sent(options: &Options, session: &mut Session<'_>) -> Result<(), ServeError> {
    let mut is_stopping = false;
    session.hear_sent(
        options.duration,
        |word: &Word| (*word == Word::Sent).then_some(()),
        |connection| {
            if !std::mem::replace(&mut is_stopping, true) {
                connection.say(&Word::Stop)?;
            }
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::capacity::options::ThreadingModel;
    use crate::capacity::receive::TAIL;
    use crate::control::scene::{PATIENT, Scene, WATCHDOG};
    use crate::control::{Connection, Patience};

    /// Longer than a client that sends a heartbeat every [`HEARTBEAT`] can be kept from its processor.
    const SILENCE: Duration = Duration::from_secs(3);
    const HEARTBEAT: Duration = Duration::from_millis(50);

    #[test]
    fn the_quiet_in_which_the_tail_is_waited_for_is_in_no_share_of_processors() {
        let scene = Scene::new(&[TEST], PATIENT);
        let mut client = scene.begin(Capacity::NAME, serde_json::to_value(Options::default()).unwrap());
        let word = |client: &mut Connection| client.hear_word(Instant::now() + WATCHDOG).unwrap().unwrap();
        let plan = Plan { threading_model: ThreadingModel::OwnThreads, workers: 1, payload_bytes: 1 };
        client.say(&Word::Prepare(plan)).unwrap();
        assert!(matches!(word(&mut client), Word::Ready { .. }));
        let began = Instant::now();
        client.say(&Word::Start).unwrap();
        client.say(&Word::Sent).unwrap();
        let Word::Done(received) = word(&mut client) else { panic!() };
        let (used, all) = (Duration::from_nanos(received.used.elapsed_ns), began.elapsed());
        assert!(used + TAIL.quiet <= all, "of {all:?} the receivers are told to have had {used:?}");
        client.part();
        assert_eq!(scene.ended(), None);
    }

    #[test]
    fn a_client_that_never_says_that_it_has_sent_all_is_not_waited_for() {
        let scene = Scene::new(&[TEST], Patience { silence: SILENCE, ..PATIENT });
        let options = Options { duration: Duration::from_millis(10), ..Options::default() };
        let mut client = scene.begin(Capacity::NAME, serde_json::to_value(options).unwrap());
        let plan = Plan { threading_model: ThreadingModel::OwnThreads, workers: 1, payload_bytes: 1 };
        client.say(&Word::Prepare(plan)).unwrap();
        let _: Word = client.hear_word(Instant::now() + WATCHDOG).unwrap().unwrap();
        client.say(&Word::Start).unwrap();
        let refusal = loop {
            match client.tell(&Message::Alive).and_then(|()| client.hear(Instant::now() + HEARTBEAT)) {
                Ok(None) => {}
                Ok(Some(other)) => panic!("{other:?}"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(refusal.contains("has not reported within 3.01s"), "{refusal}");
    }
}
