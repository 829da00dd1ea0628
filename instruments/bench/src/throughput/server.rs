//! The server's end of a throughput measurement.

use super::message::{End, Live, SideResult, Word};
use super::options::Options;
use super::side::{Heard, Partner, Run, Side, SideError, check_cpu};
use super::transport::{self, Task};
use crate::control::{Connection, ControlError, Outcome, RunResult, Serve, ServeError, Session, Test};
use crate::cpu_load::LoadGenerator;
use crate::greeting::token;

/// The server's part of the test.
pub const TEST: &dyn Serve = &Throughput { admits_load: false };
/// The server's part of the test, with CPU load for clients that request it: any client can then slow down
/// everything on the host.
pub const TEST_WITH_LOAD: &dyn Serve = &Throughput { admits_load: true };

pub(super) struct Throughput {
    admits_load: bool,
}

impl Test for Throughput {
    type Parameters = Options;
    type Word = Word;
    const NAME: &'static str = "throughput";

    fn check(&self, options: &Options) -> Result<(), ServeError> {
        options.check().map_err(ServeError::refused)?;
        if options.load.is_some() && !self.admits_load {
            return Err(ServeError::Refused(
                "this server does not let clients put a CPU load on its host\nstart it with --allow-load, or leave --cpu-load out"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn run(&self, options: &Options, request: Word, session: &mut Session<'_>) -> RunResult<Word> {
        match serve_run(options, request, session) {
            Ok(Some(result)) => Ok(Outcome::Done(Word::Done(Box::new(result)))),
            Ok(None) => Ok(Outcome::GivenUp),
            Err(SideError::Control(error)) => Err(error.into()),
            Err(other) => Err(ServeError::refused(other)),
        }
    }
}

/// Serves a run; returns `None` if the client could not open its ends, or gave up.
fn serve_run(
    options: &Options,
    request: Word,
    session: &mut Session<'_>,
) -> Result<Option<SideResult>, SideError> {
    let connection = &mut *session.connection;
    let Word::Prepare { run, rate, unit_bytes, endpoints } = request else {
        return Err(connection.unexpected_word(&request).into());
    };
    // The size too comes from the client, which is not trusted.
    let sized = Options { payload_bytes: Some(unit_bytes), rate: Some(rate), ..options.clone() };
    sized.check()?;
    check_cpu(options.server_cpu)?;
    let task = Task {
        options: &sized,
        end: End::Server,
        run,
        token: token(),
        rate,
        unit_bytes,
        local: connection.local_address_any_port(),
        peer: connection.peer_address().ip(),
        patience: connection.patience().silence,
    };
    task.check_endpoints(&endpoints)?;
    let listening = transport::of(options.protocol).listen(&task)?;
    connection.say(&Word::Ready { endpoints: listening.endpoints(), token: task.token })?;
    match connection.hear_word_surely()? {
        Word::Start => {}
        Word::Stop => return Ok(None),
        other => return Err(connection.unexpected_word(&other).into()),
    }
    let flows = listening.connect(&task, &endpoints)?;
    let run = Run { options: &sized, rate, unit_bytes, cpu: options.server_cpu };
    let generator = options.load.map(LoadGenerator::begin).transpose().map_err(SideError::Thread)?;
    let side = Side::start(&run, flows)?;
    let (outcome, result) = side.run(connection, session.cancellation, &mut Serving);
    let applied_load = generator.map(LoadGenerator::end);
    outcome?;
    Ok(Some(SideResult { applied_load, ..result }))
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
            other => Err(connection.unexpected_word(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::scene::{PATIENT, Scene};
    use crate::cpu_load::CpuLoad;
    use crate::throughput::Protocol;

    /// Begins a measurement with load, and says good-bye; returns why the server broke it off, if it did.
    fn trouble(tests: &'static [&'static dyn Serve]) -> Option<String> {
        let scene = Scene::new(tests, PATIENT);
        let load = Some(CpuLoad { share_ppm: 500_000, workers: None });
        let options = Options { protocol: Protocol::Udp, load, ..Options::default() };
        scene.begin(Throughput::NAME, serde_json::to_value(options).unwrap()).part();
        scene.ended()
    }

    #[test]
    fn processors_are_kept_busy_only_where_that_is_allowed() {
        let refused = trouble(&[TEST]).unwrap();
        assert!(refused.contains("--allow-load"), "{refused}");
        assert_eq!(trouble(&[TEST_WITH_LOAD]), None);
    }
}
