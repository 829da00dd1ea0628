//! The server's side of a conversation, without sockets: takes bytes of the control connection, returns
//! actions.
//!
//! The cookie has been read already: it distinguished this connection from a data stream.
//!
//! ```text
//! Parameters --parameters--> Listening --ready--> Streams --opened--> Running --TestEnd--> Results --results--> Collecting
//!                                                                                     Goodbye <--collected--|
//! ```
//!
//! Every state leads to `Over` if the peer leaves, sends an unexpected message, is silent for too long, or this
//! program is asked to end. The contract is the project's: `handle`, then `poll` until [`Output::Idle`].

use std::collections::VecDeque;
use std::time::Duration;

use units::Instant;

use super::error::ProtocolError;
use super::inbox::{Inbox, framed};
use super::parameters::{End, Test};
use super::results::Results;
use super::state::{Fault, State};

/// Time a peer may take for an expected message. Long enough for a lossy link, short enough for clients that
/// wait.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// Time a test may continue without any data, as in iperf3.
pub(super) const STALL: Duration = Duration::from_secs(120);

/// Events for a server.
#[derive(Debug)]
pub(super) enum Input<'a> {
    /// Bytes from the control connection.
    Bytes(&'a [u8]),
    /// The control connection was closed.
    Closed,
    /// Time has passed.
    Tick,
    /// The sockets for the streams are listening, as requested by [`Output::Open`].
    Ready,
    /// All streams are there.
    Opened,
    /// Streams cannot be opened, or one of them failed.
    Failed(ProtocolError, Fault),
    /// Data moved since the last check.
    Progress,
    /// The results requested by [`Output::Collect`].
    Collected(Results),
    /// The server is to end.
    Interrupt,
}

/// Actions of a server.
#[derive(Debug)]
pub(super) enum Output {
    /// Write these bytes to the control connection.
    Write(Vec<u8>),
    /// Listen for the streams of this test; the client is notified once that is done.
    Open(Box<Test>),
    /// Begin: data may flow.
    Start,
    /// The test is over: send no more.
    Halt,
    /// Receive what is still in flight, given the client's results, and count.
    Collect(Results),
    /// All results were exchanged and the client said good-bye.
    Finished,
    /// The test ends with this error.
    Failed(ProtocolError),
    /// Nothing to do before this time.
    Idle { deadline: Option<Instant> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Parameters,
    Listening,
    Streams,
    Running,
    Results,
    Collecting,
    Goodbye,
    Over,
}

impl Phase {
    const fn during(self) -> &'static str {
        match self {
            Self::Parameters => "its parameters were awaited",
            Self::Listening => "its streams were prepared",
            Self::Streams => "its streams were awaited",
            Self::Running => "the test ran",
            Self::Results => "its results were awaited",
            Self::Collecting => "results were collected",
            Self::Goodbye => "its good-bye was awaited",
            Self::Over => "nothing was awaited",
        }
    }
}

/// The server's side of one conversation.
#[derive(Debug)]
pub(super) struct Server {
    phase: Phase,
    inbox: Inbox,
    outputs: VecDeque<Output>,
    deadline: Option<Instant>,
    /// Maximum duration of the test, where its client states the duration.
    most_time: Option<Duration>,
    /// Latest end of the test.
    latest_end: Option<Instant>,
}

/// Returns the maximum duration of a test before its server ends it: the client's duration, and the time for a
/// message.
fn most_time(test: &Test) -> Option<Duration> {
    match test.end {
        End::Time(time) if !time.is_zero() => Some(test.omit + time + PATIENCE),
        End::Time(_) | End::Bytes(_) | End::Blocks(_) => None,
    }
}

impl Server {
    /// Begins with a client whose cookie was read.
    pub(super) fn new(now: Instant) -> Self {
        let outputs = VecDeque::from([Output::Write(vec![State::ParamExchange.byte()])]);
        Self {
            phase: Phase::Parameters,
            inbox: Inbox::default(),
            outputs,
            deadline: Some(now + PATIENCE),
            most_time: None,
            latest_end: None,
        }
    }

    /// Handles an event.
    pub(super) fn handle(&mut self, now: Instant, input: Input<'_>) {
        if self.phase == Phase::Over {
            return;
        }
        match input {
            Input::Bytes(bytes) => self.on_bytes(now, bytes),
            Input::Closed => self.on_closed(),
            Input::Tick => self.on_time(now),
            Input::Ready => self.on_ready(now),
            Input::Opened => self.on_opened(now),
            Input::Failed(error, fault) => self.fail(error, Some(fault)),
            Input::Progress => self.on_progress(now),
            Input::Collected(results) => self.on_collected(now, &results),
            Input::Interrupt => {
                self.say(State::ServerTerminate);
                self.end(Output::Failed(ProtocolError::Interrupted));
            }
        }
    }

    /// Returns the next action.
    pub(super) fn poll(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or(Output::Idle { deadline: self.deadline })
    }

    /// Returns whether streams are awaited.
    pub(super) fn awaits_streams(&self) -> bool {
        self.phase == Phase::Streams
    }

    /// Returns whether the test is over and the client has not sent its results.
    pub(super) fn awaits_results(&self) -> bool {
        self.phase == Phase::Results
    }

    /// Returns whether data may flow.
    pub(super) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    fn on_bytes(&mut self, now: Instant, bytes: &[u8]) {
        if let Err(error) = self.inbox.push(bytes).and_then(|()| self.understand(now)) {
            let fault = match &error {
                ProtocolError::Refused(refusal) => Some(refusal.fault()),
                ProtocolError::Terminated => None,
                _ if self.phase == Phase::Parameters => Some(Fault::BAD_PARAMETERS),
                _ if self.phase == Phase::Results => Some(Fault::BAD_RESULTS),
                _ => Some(Fault::BAD_MESSAGE),
            };
            self.fail(error, fault);
        }
    }

    /// Takes messages out of the inbox while there are complete ones that this phase expects.
    fn understand(&mut self, now: Instant) -> Result<(), ProtocolError> {
        loop {
            match self.phase {
                Phase::Parameters => match self.inbox.text()? {
                    Some(text) => self.on_parameters(now, &text)?,
                    None => return Ok(()),
                },
                Phase::Results => match self.inbox.text()? {
                    Some(text) => self.on_results(&text)?,
                    None => return Ok(()),
                },
                Phase::Streams | Phase::Running | Phase::Goodbye => match self.inbox.byte() {
                    Some(byte) => self.on_state(now, byte)?,
                    None => return Ok(()),
                },
                Phase::Listening | Phase::Collecting | Phase::Over => return Ok(()),
            }
        }
    }

    fn on_parameters(&mut self, now: Instant, text: &[u8]) -> Result<(), ProtocolError> {
        let test = Test::parse(text)?;
        self.most_time = most_time(&test);
        self.outputs.push_back(Output::Open(Box::new(test)));
        self.enter(Phase::Listening, now + PATIENCE);
        Ok(())
    }

    fn on_ready(&mut self, now: Instant) {
        if self.phase == Phase::Listening {
            self.say(State::CreateStreams);
            self.enter(Phase::Streams, now + PATIENCE);
            self.on_bytes(now, &[]);
        }
    }

    fn on_opened(&mut self, now: Instant) {
        if self.phase == Phase::Streams {
            self.say(State::TestStart);
            self.say(State::TestRunning);
            self.outputs.push_back(Output::Start);
            self.latest_end = self.most_time.map(|time| now + time);
            self.enter(Phase::Running, self.next_doubt(now));
        }
    }

    fn on_progress(&mut self, now: Instant) {
        if self.phase == Phase::Running {
            self.deadline = Some(self.next_doubt(now));
        }
    }

    /// Returns the time at which a test that moves data now is ended, if nothing more arrives.
    fn next_doubt(&self, now: Instant) -> Instant {
        self.latest_end.into_iter().fold(now + STALL, Instant::min)
    }

    fn on_state(&mut self, now: Instant, byte: u8) -> Result<(), ProtocolError> {
        match (self.phase, State::from_byte(byte)) {
            (_, Some(State::ClientTerminate)) => Err(ProtocolError::Terminated),
            (Phase::Running, Some(State::TestEnd)) => {
                self.outputs.push_back(Output::Halt);
                self.say(State::ExchangeResults);
                self.enter(Phase::Results, now + PATIENCE);
                Ok(())
            }
            (Phase::Goodbye, Some(State::IperfDone)) => {
                self.end(Output::Finished);
                Ok(())
            }
            // A client that cannot open its streams, as with an unknown congestion control, says good-bye at once.
            (Phase::Streams | Phase::Running, Some(State::IperfDone)) => Err(ProtocolError::Terminated),
            _ => Err(ProtocolError::Unexpected { byte, during: self.phase.during() }),
        }
    }

    fn on_results(&mut self, text: &[u8]) -> Result<(), ProtocolError> {
        let results = Results::parse(text)?;
        self.outputs.push_back(Output::Collect(results));
        self.phase = Phase::Collecting;
        self.deadline = None;
        Ok(())
    }

    fn on_collected(&mut self, now: Instant, results: &Results) {
        if self.phase == Phase::Collecting {
            self.outputs.push_back(Output::Write(framed(&results.to_bytes())));
            self.say(State::DisplayResults);
            self.enter(Phase::Goodbye, now + PATIENCE);
            self.on_bytes(now, &[]);
        }
    }

    fn on_closed(&mut self) {
        // Both have exchanged everything: some clients leave without a good-bye.
        let output = match self.phase {
            Phase::Goodbye => Output::Finished,
            phase => Output::Failed(ProtocolError::Closed { during: phase.during() }),
        };
        self.end(output);
    }

    fn on_time(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.phase {
            Phase::Goodbye => self.end(Output::Finished),
            Phase::Running => {
                let overdue = self.most_time.filter(|_| self.latest_end.is_some_and(|end| now >= end));
                let error = match overdue {
                    Some(after) => ProtocolError::Overdue { after },
                    None => ProtocolError::Stalled { silence: STALL },
                };
                self.fail(error, Some(Fault::BAD_MESSAGE));
            }
            phase => {
                let error = ProtocolError::Silent { during: phase.during(), silence: PATIENCE };
                self.fail(error, Some(Fault::BAD_MESSAGE));
            }
        }
    }

    fn say(&mut self, state: State) {
        self.outputs.push_back(Output::Write(vec![state.byte()]));
    }

    fn enter(&mut self, phase: Phase, deadline: Instant) {
        self.phase = phase;
        self.deadline = Some(deadline);
    }

    fn fail(&mut self, error: ProtocolError, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.outputs.push_back(Output::Write(fault.to_bytes()));
        }
        self.end(Output::Failed(error));
    }

    fn end(&mut self, output: Output) {
        self.outputs.push_back(output);
        self.phase = Phase::Over;
        self.deadline = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::parameters::tests::plain;
    use proptest::prelude::*;

    const NOW: Instant = Instant::ORIGIN;

    /// Polls until idle; returns the written bytes, and the names of all other outputs.
    fn drain(server: &mut Server) -> (Vec<u8>, Vec<String>) {
        let (mut written, mut told) = (Vec::new(), Vec::new());
        loop {
            match server.poll() {
                Output::Write(bytes) => written.extend(bytes),
                Output::Idle { .. } => return (written, told),
                Output::Open(test) => told.push(format!("open {}", test.parallel)),
                Output::Failed(error) => told.push(format!("failed: {error}")),
                Output::Collect(results) => told.push(format!("collect {}", results.streams.len())),
                other => told.push(format!("{other:?}")),
            }
        }
    }

    fn running() -> Server {
        running_test(&Test { end: End::Time(Duration::ZERO), ..plain() })
    }

    fn running_test(test: &Test) -> Server {
        let mut server = Server::new(NOW);
        server.handle(NOW, Input::Bytes(&framed(&test.to_parameters())));
        server.handle(NOW, Input::Ready);
        server.handle(NOW, Input::Opened);
        drain(&mut server);
        server
    }

    #[test]
    fn a_whole_conversation_says_what_iperf3_says() {
        let mut server = Server::new(NOW);
        assert_eq!(drain(&mut server).0, [9]);
        server.handle(NOW, Input::Bytes(&framed(&plain().to_parameters())));
        assert_eq!(drain(&mut server), (vec![], vec!["open 1".to_owned()]));
        server.handle(NOW, Input::Ready);
        assert_eq!(drain(&mut server).0, [10]);
        server.handle(NOW, Input::Opened);
        assert_eq!(drain(&mut server), (vec![1, 2], vec!["Start".to_owned()]));
        let end = [&[4_u8][..], &framed(b"{\"streams\":[{\"id\":1}]}")].concat();
        server.handle(NOW, Input::Bytes(&end));
        assert_eq!(drain(&mut server), (vec![13], vec!["Halt".to_owned(), "collect 1".to_owned()]));
        server.handle(NOW, Input::Collected(Results::default()));
        let (written, _) = drain(&mut server);
        assert_eq!(written, [framed(&Results::default().to_bytes()), vec![14]].concat());
        server.handle(NOW, Input::Bytes(&[16]));
        assert_eq!(drain(&mut server).1, ["Finished"]);
    }

    #[test]
    fn a_client_that_vanishes_or_is_ended_ends_the_test() {
        for (input, said) in [
            (Input::Closed, "failed: the peer left while the test ran"),
            (Input::Bytes(&[12]), "failed: the peer was ended before"),
            (Input::Bytes(&[200]), "failed: unexpected byte 0xc8 from the peer while the test ran"),
            (Input::Interrupt, "failed: ended before"),
        ] {
            let mut server = running();
            server.handle(NOW, input);
            let (_, told) = drain(&mut server);
            assert!(told[0].starts_with(said), "{told:?}");
        }
    }

    #[test]
    fn what_is_refused_is_told_to_the_client_in_its_numbers() {
        let mut server = Server::new(NOW);
        drain(&mut server);
        server.handle(NOW, Input::Bytes(&framed(br#"{"tcp":true,"parallel":1,"len":9,"authtoken":"x"}"#)));
        let (written, told) = drain(&mut server);
        assert_eq!(written, Fault::NOT_AUTHORISED.to_bytes());
        assert!(told[0].contains("--username"), "{told:?}");
    }

    #[test]
    fn silence_has_an_end_in_every_phase() {
        let mut server = Server::new(NOW);
        drain(&mut server);
        server.handle(NOW + (PATIENCE - Duration::from_nanos(1)), Input::Tick);
        assert_eq!(drain(&mut server), (vec![], vec![]));
        server.handle(NOW + PATIENCE, Input::Tick);
        assert!(drain(&mut server).1[0].contains("silent for 20s"));

        let mut server = running();
        server.handle(NOW + Duration::from_secs(100), Input::Progress);
        server.handle(NOW + STALL, Input::Tick);
        assert_eq!(drain(&mut server).1, Vec::<String>::new());
        server.handle(NOW + Duration::from_secs(100) + STALL, Input::Tick);
        assert!(drain(&mut server).1[0].contains("no data for 120s"));
    }

    #[test]
    fn a_test_that_its_client_never_ends_is_ended_although_data_moves() {
        let (omit, time) = (Duration::from_secs(2), Duration::from_secs(300));
        let mut server = running_test(&Test { end: End::Time(time), omit, ..plain() });
        let end = NOW + (omit + time + PATIENCE);
        for second in 0..(omit + time + PATIENCE).as_secs() {
            server.handle(NOW + Duration::from_secs(second), Input::Progress);
            server.handle(NOW + Duration::from_secs(second), Input::Tick);
        }
        assert_eq!(drain(&mut server).1, Vec::<String>::new());
        assert!(matches!(server.poll(), Output::Idle { deadline } if deadline == Some(end)));
        server.handle(end, Input::Tick);
        assert!(drain(&mut server).1[0].contains("after 322s"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_in_arbitrary_pieces_end_in_one_verdict(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            cut in 1..64_usize,
            whole in any::<bool>(),
        ) {
            let mut server = if whole { running() } else { Server::new(NOW) };
            for piece in bytes.chunks(cut) {
                server.handle(NOW, Input::Bytes(piece));
            }
            server.handle(NOW, Input::Closed);
            let (_, told) = drain(&mut server);
            let verdicts = told.iter().filter(|it| it.starts_with("failed") || *it == "Finished").count();
            prop_assert_eq!(verdicts, 1, "{:?}", told);
        }

        #[test]
        fn pieces_do_not_matter(cut in 1..200_usize) {
            let conversation = framed(&plain().to_parameters());
            let (mut whole, mut pieces) = (Server::new(NOW), Server::new(NOW));
            whole.handle(NOW, Input::Bytes(&conversation));
            conversation.chunks(cut).for_each(|piece| pieces.handle(NOW, Input::Bytes(piece)));
            prop_assert_eq!(drain(&mut whole), drain(&mut pieces));
        }
    }
}
