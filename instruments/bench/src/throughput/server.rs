//! The server's end of a throughput measurement.

use std::net::SocketAddr;

use serde_json::Value;
use sys::Cancellation;

use super::message::{End, Live, SideResult, Word};
use super::options::{Options, Rate};
use super::side::{Heard, Partner, Run, Side, SideError, check_cpu};
use super::transport::{self, Task};
use crate::control::{Connection, ControlError, Message, ServeError, Test, ensure_running};
use crate::cpu_load::LoadGenerator;
use crate::greeting::token;

/// The server's part of the test.
pub const TEST: Test = Test { name: NAME, serve: serve_without_load };
/// The server's part of the test, with CPU load for clients that request it: any client can then slow down
/// everything on the host.
pub const TEST_WITH_LOAD: Test = Test { name: NAME, serve: serve_with_load };
pub(super) const NAME: &str = "throughput";

fn serve_without_load(
    parameters: Value,
    connection: &mut Connection,
    cancellation: &Cancellation,
) -> Result<(), ServeError> {
    let options = checked(parameters)?;
    if options.load.is_some() {
        return Err(ServeError::Refused(
            "this server does not let clients put a CPU load on its host\nstart it with --allow-load, or leave --cpu-load out"
                .to_owned(),
        ));
    }
    serve(&options, connection, cancellation)
}

fn serve_with_load(
    parameters: Value,
    connection: &mut Connection,
    cancellation: &Cancellation,
) -> Result<(), ServeError> {
    serve(&checked(parameters)?, connection, cancellation)
}

fn checked(parameters: Value) -> Result<Options, ServeError> {
    let options: Options = serde_json::from_value(parameters)
        .map_err(|error| ServeError::Refused(format!("invalid test parameters: {error}")))?;
    options.check().map_err(|error| ServeError::Refused(error.to_string()))?;
    Ok(options)
}

/// Serves the runs of a client in turn.
fn serve(
    options: &Options,
    connection: &mut Connection,
    cancellation: &Cancellation,
) -> Result<(), ServeError> {
    loop {
        let word = match connection.hear_surely()? {
            Message::Bye => return Ok(()),
            Message::Word(word) => word,
            other => return Err(connection.unexpected(&other).into()),
        };
        match serde_json::from_value(word.clone()) {
            Ok(Word::Prepare { run, rate, unit_bytes, endpoints }) => {
                let prepared = Prepared { run, rate, unit_bytes, endpoints };
                serve_run(options, &prepared, connection, cancellation).map_err(told)?;
            }
            _ => return Err(connection.unexpected(&Message::Word(word)).into()),
        }
        ensure_running(cancellation)?;
    }
}

struct Prepared {
    run: u32,
    rate: Rate,
    unit_bytes: usize,
    endpoints: Vec<SocketAddr>,
}

fn serve_run(
    options: &Options,
    prepared: &Prepared,
    connection: &mut Connection,
    cancellation: &Cancellation,
) -> Result<(), SideError> {
    let Prepared { run, rate, unit_bytes, endpoints } = prepared;
    // The size too comes from the client, which is not trusted.
    let sized = Options { payload_bytes: Some(*unit_bytes), rate: Some(*rate), ..options.clone() };
    sized.check()?;
    check_cpu(options.server_cpu)?;
    let task = Task {
        options: &sized,
        end: End::Server,
        run: *run,
        token: token(),
        rate: *rate,
        unit_bytes: *unit_bytes,
        local: connection.local_address_any_port(),
        peer: connection.peer_address().ip(),
        patience: connection.patience().silence,
    };
    task.check_endpoints(endpoints)?;
    let listening = transport::of(options.protocol).listen(&task)?;
    connection.say(&Word::Ready { endpoints: listening.endpoints(), token: task.token })?;
    match connection.hear_word(std::time::Instant::now() + task.patience)? {
        Some(Word::Start) => {}
        // The client could not open its ends, or gave up.
        Some(Word::Stop) => return Ok(()),
        Some(other) => {
            let other = serde_json::to_value(&other).expect("words are plain data");
            return Err(connection.unexpected(&Message::Word(other)).into());
        }
        None => {
            return Err(
                ControlError::Silent { peer: connection.peer_address(), silence: task.patience }.into()
            );
        }
    }
    let flows = listening.connect(&task, endpoints)?;
    let run = Run { options: &sized, rate: *rate, unit_bytes: *unit_bytes, cpu: options.server_cpu };
    let generator = options.load.map(LoadGenerator::begin).transpose().map_err(SideError::Thread)?;
    let side = Side::start(&run, flows)?;
    let (outcome, result) = side.run(connection, cancellation, &mut Serving);
    let result = SideResult { applied_load: generator.map(LoadGenerator::end), ..result };
    outcome?;
    Ok(connection.say(&Word::Done(Box::new(result)))?)
}

/// Reports to the client at every mark.
struct Serving;

impl Partner for Serving {
    fn mark(&mut self, live: Live, connection: &mut Connection) -> Result<(), ControlError> {
        connection.say(&Word::Live(live))
    }

    fn hear(&mut self, word: Word, connection: &mut Connection) -> Result<Heard, ControlError> {
        match word {
            Word::Stop => Ok(Heard::Stop),
            other => {
                let other = serde_json::to_value(&other).expect("words are plain data");
                Err(connection.unexpected(&Message::Word(other)))
            }
        }
    }
}

fn told(error: SideError) -> ServeError {
    match error {
        SideError::Control(error) => ServeError::Control(error),
        other => ServeError::Refused(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::scene::{PATIENT, Scene};
    use crate::cpu_load::CpuLoad;
    use crate::throughput::Protocol;

    /// Begins a measurement with load, and says good-bye; returns why the server broke it off, if it did.
    fn trouble(tests: &'static [Test]) -> Option<String> {
        let scene = Scene::new(tests, PATIENT);
        let load = Some(CpuLoad { share_ppm: 500_000, workers: None });
        let options = Options { protocol: Protocol::Udp, load, ..Options::default() };
        scene.begin(NAME, serde_json::to_value(options).unwrap()).part();
        scene.ended()
    }

    #[test]
    fn processors_are_kept_busy_only_where_that_is_allowed() {
        let refused = trouble(&[TEST]).unwrap();
        assert!(refused.contains("--allow-load"), "{refused}");
        assert_eq!(trouble(&[TEST_WITH_LOAD]), None);
    }
}
