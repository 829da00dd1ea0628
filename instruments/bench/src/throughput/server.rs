//! The server's end of a throughput measurement.

use std::path::Path;
use std::time::Duration;

use super::message::{End, Live, SideResult, Word};
use super::options::Options;
use super::side::{GRACE, Heard, Partner, Run, Side, SideError, check_cpu};
use super::transport::{self, Task, TransportError};
use crate::control::{Connection, ControlError, Outcome, RunResult, Serve, ServeError, Session, Test};
use crate::cpu_load::LoadGenerator;
use crate::greeting::token;

/// The server's part of the test.
pub const TEST: &dyn Serve = &Throughput { admits_load: false, grace: GRACE };
/// The server's part of the test, with CPU load for clients that request it: any client can then slow down
/// everything on the host.
pub const TEST_WITH_LOAD: &dyn Serve = &Throughput { admits_load: true, grace: GRACE };

pub(crate) struct Throughput {
    admits_load: bool,
    /// Time a client may take to end a run.
    grace: Duration,
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
        match serve_run(options, self.grace, request, session) {
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
    grace: Duration,
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
    let station = connection.station().map(Path::to_owned);
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
        station: station.as_deref(),
    };
    task.check_endpoints(&endpoints).map_err(TransportError::from)?;
    let listening = transport::of(options.protocol).listen(&task)?;
    connection.say(&Word::Ready { endpoints: listening.endpoints(), token: task.token })?;
    match connection.hear_word_surely()? {
        Word::Start => {}
        Word::Stop => return Ok(None),
        other => return Err(connection.unexpected_word(&other).into()),
    }
    let flows = listening.connect(&task, &endpoints)?;
    let run = Run { options: &sized, rate, unit_bytes, cpu: options.server_cpu, grace };
    let generator = options.load.map(LoadGenerator::begin).transpose().map_err(SideError::Thread)?;
    let side = Side::start(&run, flows)?;
    if options.delay_percentiles {
        // The client sends from now on: the start of a receiver is no delay of the path. A broken connection is
        // noticed by the run, which ends the threads.
        let _ = connection.say(&Word::Start);
    }
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
    use std::time::Instant;

    use super::*;
    use crate::control::Message;
    use crate::control::scene::{PATIENT, Scene, WATCHDOG};
    use crate::cpu_load::CpuLoad;
    use crate::throughput::{Protocol, Rate};

    const HEARTBEAT: Duration = Duration::from_millis(50);
    const IMPATIENT: &dyn Serve = &Throughput { admits_load: false, grace: HEARTBEAT };

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

    #[test]
    fn a_client_that_stays_alive_and_never_finishes_is_not_waited_for() {
        let scene = Scene::new(&[IMPATIENT], PATIENT);
        let duration = Duration::from_millis(10);
        let options = Options { protocol: Protocol::Multicast, duration, ..Options::default() };
        let mut client = scene.begin(Throughput::NAME, serde_json::to_value(options).unwrap());
        let (rate, endpoints) = (Rate::Units(1), Vec::new());
        client.say(&Word::Prepare { run: 0, rate, unit_bytes: 100, endpoints }).unwrap();
        let word = client.hear_word(Instant::now() + WATCHDOG).unwrap().unwrap();
        assert!(matches!(word, Word::Ready { .. }), "{word:?}");
        client.say(&Word::Start).unwrap();
        let refusal = loop {
            match client.tell(&Message::Alive).and_then(|()| client.hear(Instant::now() + HEARTBEAT)) {
                Ok(None | Some(Message::Word(_))) => {}
                Ok(Some(other)) => panic!("{other:?}"),
                Err(error) => break error,
            }
        };
        let ControlError::Failed { reason, .. } = refusal else { panic!("{refusal}") };
        assert!(reason.contains("has not ended the run 50ms after it should have"), "{reason}");
    }
}
