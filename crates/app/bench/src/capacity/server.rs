//! The server's end of a capacity measurement: it receives.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::crew::{Crew, CrewError, Task};
use super::message::{Plan, Received, SocketCount, Word};
use super::options::{Options, OptionsError};
use crate::control::{Connection, EndWish, Message, ServeError, Test};
use crate::processor_time::ProcessorTime;
use crate::report::Meter;
use crate::udp_counters::RcvbufErrors;

/// What a server has to know to take part.
pub const TEST: Test = Test { name: NAME, serve };
pub(super) const NAME: &str = "capacity";

/// How long the server listens before it looks whether it is to end.
const LISTEN: Duration = Duration::from_millis(50);

/// Serves the runs of a client, one after the other.
fn serve(
    parameters: Value,
    connection: &mut Connection,
    is_wanted_to_end: &EndWish<'_>,
) -> Result<(), ServeError> {
    let refused = |reason: String| ServeError::Refused(reason);
    let options: Options = serde_json::from_value(parameters)
        .map_err(|error| refused(format!("the parameters of the test are none: {error}")))?;
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
        match serve_run(&options, plan, connection, is_wanted_to_end)? {
            Served::Whole => {}
            Served::WithoutClient => return Ok(()),
        }
        if is_wanted_to_end() {
            return Err(refused("the server was ended".to_owned()));
        }
    }
}

/// Checks a plan as its options were: each is the client's word.
fn check(options: &Options, plan: &Plan) -> Result<(), OptionsError> {
    let Plan { structure, workers, payload_bytes } = *plan;
    let (workers, payloads, structures) = (vec![workers], vec![payload_bytes], vec![structure]);
    Options { workers, payloads, structures, ..options.clone() }.check()
}

enum Served {
    Whole,
    /// It has left before the run began.
    WithoutClient,
}

fn serve_run(
    options: &Options,
    plan: Plan,
    connection: &mut Connection,
    is_wanted_to_end: &EndWish<'_>,
) -> Result<Served, ServeError> {
    let address = connection.local_address().ip();
    let task = Task { plan, address, buffer_bytes: options.receive_buffer_bytes, calls: options.calls };
    let (crew, ready) = Crew::begin(&task).map_err(told)?;
    // Before anything is sent: on a busy host much is dropped before the word of it is heard.
    let errors = RcvbufErrors::begin(address);
    connection.say(&Word::Ready { endpoints: ready.endpoints, notes: ready.notes })?;
    match connection.hear_surely()? {
        Message::Bye => return Ok(Served::WithoutClient),
        Message::Word(word) if serde_json::from_value(word.clone()).ok() == Some(Word::Start) => {}
        other => return Err(connection.unexpected(&other).into()),
    }
    let (meter, processors) = (Meter::begin(), ProcessorTime::begin());
    wait_for_sent(options.duration, connection, is_wanted_to_end)?;
    let sockets = crew.end().map_err(told)?;
    let workers_cpu_ns = workers(&sockets).map(|counted| counted.cpu_ns).sum();
    let mut used = meter.used();
    if plan.structure.is_of_processes() {
        used = used.with(workers_cpu_ns);
    }
    let (processors, rcvbuf_errors) = (processors.shares(), errors.since());
    let received = Received { sockets, used, workers_cpu_ns, processors, rcvbuf_errors };
    connection.say(&Word::Done(Box::new(received)))?;
    Ok(Served::Whole)
}

fn workers(sockets: &[SocketCount]) -> impl Iterator<Item = &super::message::Counted> {
    sockets.iter().flat_map(|socket| &socket.workers)
}

/// Waits until the client has sent all, as long as a run is and patience lasts; if this server is to end, asks it to send
/// no more.
fn wait_for_sent(
    duration: Duration,
    connection: &mut Connection,
    is_wanted_to_end: &EndWish<'_>,
) -> Result<(), ServeError> {
    let longest = duration + connection.patience().silence;
    let deadline = Instant::now() + longest;
    let mut is_stopping = false;
    loop {
        if is_wanted_to_end() && !is_stopping {
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
