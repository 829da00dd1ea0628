//! The client's side of a conversation, without sockets: takes bytes of the control connection, returns
//! actions.
//!
//! ```text
//! Greeting --ParamExchange--> Offered --CreateStreams--> Streams --TestStart--> Starting --TestRunning--> Running
//!   Farewell <--results-- Results <--collected-- Collecting <--ExchangeResults-- Ending <--over--|
//!      |--DisplayResults--> Over
//! ```
//!
//! Streams are opened in `Streams`; a server sends [`State::TestStart`] only once it has all of them. Every
//! state leads to `Over` if the server refuses, leaves, sends an unexpected state, or is silent for too long.

use std::collections::VecDeque;

use units::Instant;

use super::error::ProtocolError;
use super::inbox::{Inbox, framed};
use super::parameters::Test;
use super::results::Results;
use super::server::{PATIENCE, STALL};
use super::state::State;

/// Length of the cookie, with a zero at its end.
pub(super) const COOKIE_BYTES: usize = 37;

/// Identifier of a client, by which its connections are recognised.
pub(super) type Cookie = [u8; COOKIE_BYTES];

/// Events for a client.
#[derive(Debug)]
pub(super) enum Input<'a> {
    /// Bytes from the control connection.
    Bytes(&'a [u8]),
    /// The control connection was closed.
    Closed,
    /// Time has passed.
    Tick,
    /// Data moved since the last check.
    Progress,
    /// A stream could not be opened, or failed.
    Failed(ProtocolError),
    /// The test has reached its end: time, bytes or blocks.
    Over,
    /// The results requested by [`Output::Collect`].
    Collected(Results),
    /// The client is to end.
    Interrupt,
}

/// Actions of a client.
#[derive(Debug)]
pub(super) enum Output {
    /// Write these bytes to the control connection.
    Write(Vec<u8>),
    /// Open the streams.
    Open,
    /// Begin: data may flow.
    Start,
    /// Receive what is still in flight, and count.
    Collect,
    /// The test is over; these are the server's results.
    Finished(Results),
    /// The test ends with this error.
    Failed(ProtocolError),
    /// Nothing to do before this time.
    Idle { deadline: Option<Instant> },
}

#[derive(Clone, PartialEq, Debug)]
enum Phase {
    Greeting,
    Offered,
    Streams,
    Starting,
    Running,
    Ending,
    Collecting,
    Results,
    Farewell(Results),
    Fault,
    Over,
}

impl Phase {
    const fn during(&self) -> &'static str {
        match self {
            Self::Greeting => "its greeting was awaited",
            Self::Offered => "its answer to the parameters was awaited",
            Self::Streams | Self::Starting => "it was to begin",
            Self::Running => "the test ran",
            Self::Ending => "it was to end the test",
            Self::Collecting | Self::Results | Self::Farewell(_) => "its results were awaited",
            Self::Fault => "it was to say why it refuses",
            Self::Over => "nothing was awaited",
        }
    }
}

/// The client's side of one conversation.
#[derive(Debug)]
pub(super) struct Client {
    test: Test,
    phase: Phase,
    inbox: Inbox,
    outputs: VecDeque<Output>,
    deadline: Option<Instant>,
}

impl Client {
    /// Begins on an established control connection.
    pub(super) fn new(now: Instant, test: Test, cookie: &Cookie) -> Self {
        let outputs = VecDeque::from([Output::Write(cookie.to_vec())]);
        let deadline = Some(now + PATIENCE);
        Self { test, phase: Phase::Greeting, inbox: Inbox::default(), outputs, deadline }
    }

    /// Handles an event.
    pub(super) fn handle(&mut self, now: Instant, input: Input<'_>) {
        if self.phase == Phase::Over {
            return;
        }
        match input {
            Input::Bytes(bytes) => {
                if let Err(error) = self.inbox.push(bytes).and_then(|()| self.understand(now)) {
                    self.fail(error);
                }
            }
            Input::Closed => self.fail(ProtocolError::Closed { during: self.phase.during() }),
            Input::Tick => self.on_time(now),
            Input::Progress => self.on_progress(now),
            Input::Failed(error) => self.leave(error),
            Input::Over => self.on_over(now),
            Input::Collected(results) => self.on_collected(now, &results),
            Input::Interrupt => self.leave(ProtocolError::Interrupted),
        }
    }

    /// Returns the next action.
    pub(super) fn poll(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or(Output::Idle { deadline: self.deadline })
    }

    /// Returns whether data may flow.
    pub(super) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    fn understand(&mut self, now: Instant) -> Result<(), ProtocolError> {
        loop {
            match self.phase {
                Phase::Results => match self.inbox.text()? {
                    Some(text) => self.enter(Phase::Farewell(Results::parse(&text)?), now),
                    None => return Ok(()),
                },
                Phase::Fault => match self.inbox.array::<8>() {
                    Some([a, b, c, d, errno @ ..]) => {
                        let (code, errno) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes(errno));
                        return Err(ProtocolError::Fault { code, errno });
                    }
                    None => return Ok(()),
                },
                Phase::Over | Phase::Collecting => return Ok(()),
                _ => match self.inbox.byte() {
                    Some(byte) => self.on_state(now, byte)?,
                    None => return Ok(()),
                },
            }
        }
    }

    fn on_state(&mut self, now: Instant, byte: u8) -> Result<(), ProtocolError> {
        let unexpected = ProtocolError::Unexpected { byte, during: self.phase.during() };
        let state = State::from_byte(byte).ok_or(unexpected)?;
        match (&self.phase, state) {
            (_, State::AccessDenied) => Err(ProtocolError::Busy),
            (_, State::ServerTerminate) => Err(ProtocolError::Terminated),
            (_, State::ServerError) => {
                self.enter(Phase::Fault, now);
                Ok(())
            }
            (Phase::Greeting, State::ParamExchange) => {
                self.outputs.push_back(Output::Write(framed(&self.test.to_parameters())));
                self.enter(Phase::Offered, now);
                Ok(())
            }
            (Phase::Offered, State::CreateStreams) => {
                self.outputs.push_back(Output::Open);
                self.enter(Phase::Streams, now);
                Ok(())
            }
            (Phase::Streams, State::TestStart) => {
                self.enter(Phase::Starting, now);
                Ok(())
            }
            (Phase::Starting, State::TestRunning) => {
                self.outputs.push_back(Output::Start);
                self.phase = Phase::Running;
                self.deadline = Some(now + STALL);
                Ok(())
            }
            (Phase::Ending, State::ExchangeResults) => {
                self.outputs.push_back(Output::Collect);
                self.phase = Phase::Collecting;
                self.deadline = None;
                Ok(())
            }
            (Phase::Farewell(results), State::DisplayResults) => {
                let results = results.clone();
                self.say(State::IperfDone);
                self.end(Output::Finished(results));
                Ok(())
            }
            (phase, state) => Err(ProtocolError::unexpected(state, phase.during())),
        }
    }

    fn on_over(&mut self, now: Instant) {
        if self.phase == Phase::Running {
            self.say(State::TestEnd);
            self.enter(Phase::Ending, now);
        }
    }

    fn on_collected(&mut self, now: Instant, results: &Results) {
        if self.phase == Phase::Collecting {
            self.outputs.push_back(Output::Write(framed(&results.to_bytes())));
            self.enter(Phase::Results, now);
            if let Err(error) = self.understand(now) {
                self.fail(error);
            }
        }
    }

    fn on_progress(&mut self, now: Instant) {
        if self.phase == Phase::Running {
            self.deadline = Some(now + STALL);
        }
    }

    fn on_time(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        let error = match &self.phase {
            Phase::Running => ProtocolError::Stalled { silence: STALL },
            phase => ProtocolError::Silent { during: phase.during(), silence: PATIENCE },
        };
        self.leave(error);
    }

    /// Ends, and notifies the server.
    fn leave(&mut self, error: ProtocolError) {
        self.say(State::ClientTerminate);
        self.fail(error);
    }

    fn say(&mut self, state: State) {
        self.outputs.push_back(Output::Write(vec![state.byte()]));
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.deadline = Some(now + PATIENCE);
    }

    fn fail(&mut self, error: ProtocolError) {
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

    fn drain(client: &mut Client) -> (Vec<u8>, Vec<String>) {
        let (mut written, mut told) = (Vec::new(), Vec::new());
        loop {
            match client.poll() {
                Output::Write(bytes) => written.extend(bytes),
                Output::Idle { .. } => return (written, told),
                Output::Failed(error) => told.push(format!("failed: {error}")),
                Output::Finished(results) => told.push(format!("finished {}", results.streams.len())),
                other => told.push(format!("{other:?}")),
            }
        }
    }

    fn client() -> Client {
        let mut client = Client::new(NOW, plain(), &[b'a'; COOKIE_BYTES]);
        assert_eq!(drain(&mut client).0, [b'a'; COOKIE_BYTES]);
        client
    }

    fn running() -> Client {
        let mut client = client();
        client.handle(NOW, Input::Bytes(&[9, 10, 1, 2]));
        assert_eq!(drain(&mut client).1, ["Open", "Start"]);
        client
    }

    #[test]
    fn a_whole_conversation_says_what_iperf3_says() {
        let mut client = client();
        client.handle(NOW, Input::Bytes(&[9]));
        assert_eq!(drain(&mut client).0, framed(&plain().to_parameters()));
        client.handle(NOW, Input::Bytes(&[10, 1, 2]));
        assert_eq!(drain(&mut client).1, ["Open", "Start"]);
        client.handle(NOW, Input::Over);
        assert_eq!(drain(&mut client).0, [4]);
        client.handle(NOW, Input::Bytes(&[13]));
        assert_eq!(drain(&mut client).1, ["Collect"]);
        client.handle(NOW, Input::Collected(Results::default()));
        assert_eq!(drain(&mut client).0, framed(&Results::default().to_bytes()));
        client.handle(NOW, Input::Bytes(&[&framed(b"{\"streams\":[{}]}")[..], &[14]].concat()));
        assert_eq!(drain(&mut client), (vec![16], vec!["finished 1".to_owned()]));
    }

    #[test]
    fn a_server_that_refuses_is_quoted() {
        for (bytes, said) in [
            (&b"\xff"[..], "failed: the server is busy"),
            (
                b"\xfe\0\0\0\x86\0\0\0\x02",
                "failed: the server refuses the test: it does not have that congestion control (its error 134: No such file",
            ),
            (b"\x0b", "failed: the peer was ended"),
            (b"H", "failed: unexpected byte 0x48 from the peer while its greeting was awaited"),
            (b"\x02", "failed: unexpected byte 0x02 from the peer while its greeting"),
        ] {
            let mut client = client();
            client.handle(NOW, Input::Bytes(bytes));
            let (_, told) = drain(&mut client);
            assert!(told[0].starts_with(said), "{told:?}");
        }
    }

    #[test]
    fn a_server_that_is_gone_or_silent_ends_the_test() {
        let mut client = running();
        client.handle(NOW, Input::Closed);
        assert!(drain(&mut client).1[0].contains("left while the test ran"));

        let mut client = running();
        client.handle(NOW, Input::Over);
        client.handle(NOW + PATIENCE, Input::Tick);
        let (written, told) = drain(&mut client);
        assert_eq!(written, [4, 12]);
        assert!(told[0].contains("silent for 20s"), "{told:?}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_in_arbitrary_pieces_end_in_one_verdict(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            cut in 1..64_usize,
            over in any::<bool>(),
        ) {
            let mut client = if over { running() } else { client() };
            client.handle(NOW, Input::Over);
            for piece in bytes.chunks(cut) {
                client.handle(NOW, Input::Bytes(piece));
                client.handle(NOW, Input::Collected(Results::default()));
            }
            client.handle(NOW, Input::Closed);
            let (_, told) = drain(&mut client);
            let verdicts = told.iter().filter(|it| it.starts_with("failed") || it.starts_with("finished"));
            prop_assert_eq!(verdicts.count(), 1, "{:?}", told);
        }
    }
}
