//! The server's end of a capacity measurement: it receives.

use std::time::{Duration, Instant};

use serde_json::Value;
use sys::Cancellation;

use super::crew::{Crew, CrewError, Task};
use super::message::{Plan, Received, SocketCount, Word};
use super::options::{Options, OptionsError};
use crate::control::{Connection, Message, ServeError, Test, ensure_running};
use crate::processor_time::ProcessorTime;
use crate::report::Meter;
use crate::udp_counters::RcvbufErrors;

/// The server's part of the test.
pub const TEST: Test = Test { name: NAME, serve };
pub(super) const NAME: &str = "capacity";

/// Maximum time the server waits for a message before it checks whether it is to end.
const LISTEN: Duration = Duration::from_millis(50);

/// Serves the runs of a client in turn.
fn serve(
    parameters: Value,
    connection: &mut Connection,
    cancellation: &Cancellation,
) -> Result<(), ServeError> {
    let refused = |reason: String| ServeError::Refused(reason);
    let options: Options = serde_json::from_value(parameters)
        .map_err(|error| refused(format!("invalid test parameters: {error}")))?;
    options.check().map_err(|error| refused(error.to_string()))?;
    loop {
        let word = match connection.hear_surely()? {
            Message::Bye => return Ok(()),
            Message::Word(word) => word,
            other => return Err(connection.unexpected(&other).into()),
        };
        let Ok(Word::Prepare(plan)) = serde_json::from_value(word.clone()) else {
            return Err(connection.unexpected(&Message::Word(word)).into());
        };
        check(&options, &plan).map_err(|error| refused(error.to_string()))?;
        match serve_run(&options, plan, connection, cancellation)? {
            Served::Whole => {}
            Served::WithoutClient => return Ok(()),
        }
        ensure_running(cancellation)?;
    }
}

/// Checks a plan as its options were checked: both come from the client.
fn check(options: &Options, plan: &Plan) -> Result<(), OptionsError> {
    let Plan { threading_model, workers, payload_bytes } = *plan;
    let (workers, payloads, threading_models) = (vec![workers], vec![payload_bytes], vec![threading_model]);
    Options { workers, payloads, threading_models, ..options.clone() }.check()
}

enum Served {
    Whole,
    /// The client left before the run began.
    WithoutClient,
}

fn serve_run(
    options: &Options,
    plan: Plan,
    connection: &mut Connection,
    cancellation: &Cancellation,
) -> Result<Served, ServeError> {
    let address = connection.local_address_any_port();
    let task = Task { plan, address, buffer_bytes: options.receive_buffer_bytes, calls: options.calls };
    let (crew, ready) = Crew::begin(&task).map_err(told)?;
    // Before anything is sent: on a busy host many datagrams are dropped before the message about it is
    // received.
    let errors = RcvbufErrors::begin(address.ip());
    connection.say(&Word::Ready { endpoints: ready.endpoints, notes: ready.notes })?;
    match connection.hear_surely()? {
        Message::Bye => return Ok(Served::WithoutClient),
        Message::Word(word) if serde_json::from_value(word.clone()).ok() == Some(Word::Start) => {}
        other => return Err(connection.unexpected(&other).into()),
    }
    let (meter, processors) = (Meter::begin(), ProcessorTime::begin());
    wait_for_sent(options.duration, connection, cancellation)?;
    // Before the tail is awaited: in that quiet time processors are idle however much the receivers can take.
    let (mut used, processors) = (meter.used(), processors.shares());
    let sockets = crew.end().map_err(told)?;
    let workers_cpu_ns = workers(&sockets).map(|counted| counted.cpu_ns).sum();
    if plan.threading_model.is_of_processes() {
        used = used.with(workers_cpu_ns);
    }
    let received = Received { sockets, used, workers_cpu_ns, processors, rcvbuf_errors: errors.since() };
    connection.say(&Word::Done(Box::new(received)))?;
    Ok(Served::Whole)
}

fn workers(sockets: &[SocketCount]) -> impl Iterator<Item = &super::message::Counted> {
    sockets.iter().flat_map(|socket| &socket.workers)
}

/// Waits until the client has sent all, for at most the length of a run and the patience; if this server is to
/// end, asks the client to stop sending.
fn wait_for_sent(
    duration: Duration,
    connection: &mut Connection,
    cancellation: &Cancellation,
) -> Result<(), ServeError> {
    let longest = duration + connection.patience().silence;
    let deadline = Instant::now() + longest;
    let mut is_stopping = false;
    loop {
        if cancellation.is_cancelled() && !is_stopping {
            is_stopping = true;
            connection.say(&Word::Stop)?;
        }
        match connection.hear_word(Instant::now() + LISTEN)? {
            None if Instant::now() >= deadline => {
                return Err(ServeError::NeverSent(longest));
            }
            None => {}
            Some(Word::Sent) => return Ok(()),
            Some(other) => {
                let other = serde_json::to_value(&other).expect("words are plain data");
                return Err(connection.unexpected(&Message::Word(other)).into());
            }
        }
    }
}

fn told(error: CrewError) -> ServeError {
    ServeError::Refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::options::ThreadingModel;
    use crate::capacity::receive::QUIET;
    use crate::control::Patience;
    use crate::control::scene::{PATIENT, Scene, WATCHDOG};

    /// Longer than a client that sends a heartbeat every [`LISTEN`] can be kept from its processor.
    const SILENCE: Duration = Duration::from_secs(3);

    #[test]
    fn the_quiet_in_which_the_tail_is_waited_for_is_in_no_share_of_processors() {
        let scene = Scene::new(&[TEST], PATIENT);
        let mut client = scene.begin(NAME, serde_json::to_value(Options::default()).unwrap());
        let word = |client: &mut Connection| client.hear_word(Instant::now() + WATCHDOG).unwrap().unwrap();
        let plan = Plan { threading_model: ThreadingModel::OwnThreads, workers: 1, payload_bytes: 1 };
        client.say(&Word::Prepare(plan)).unwrap();
        assert!(matches!(word(&mut client), Word::Ready { .. }));
        let began = Instant::now();
        client.say(&Word::Start).unwrap();
        client.say(&Word::Sent).unwrap();
        let Word::Done(received) = word(&mut client) else { panic!() };
        let (used, all) = (Duration::from_nanos(received.used.elapsed_ns), began.elapsed());
        assert!(used + QUIET <= all, "of {all:?} the receivers are told to have had {used:?}");
        client.part();
        assert_eq!(scene.ended(), None);
    }

    #[test]
    fn a_client_that_never_says_that_it_has_sent_all_is_not_waited_for() {
        let scene = Scene::new(&[TEST], Patience { silence: SILENCE, ..PATIENT });
        let options = Options { duration: Duration::from_millis(10), ..Options::default() };
        let mut client = scene.begin(NAME, serde_json::to_value(options).unwrap());
        let plan = Plan { threading_model: ThreadingModel::OwnThreads, workers: 1, payload_bytes: 1 };
        client.say(&Word::Prepare(plan)).unwrap();
        let _: Word = client.hear_word(Instant::now() + WATCHDOG).unwrap().unwrap();
        client.say(&Word::Start).unwrap();
        let refusal = loop {
            match client.tell(&Message::Alive).and_then(|()| client.hear(Instant::now() + LISTEN)) {
                Ok(None) => {}
                Ok(Some(other)) => panic!("{other:?}"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(refusal.contains("has not reported within 3.01s"), "{refusal}");
    }
}
