//! The client's side of a conversation.
//!
//! ```text
//! Greeting --ParamExchange--> Offered --CreateStreams--> Streams --TestStart--> Starting --TestRunning--> Running
//!   Farewell <--results-- Results <--collected-- Collecting <--ExchangeResults-- Ending <--over--|
//!      |--DisplayResults--> Over
//! ```
//!
//! Streams are opened in `Streams`; a server sends [`State::TestStart`] only once it has all of them.

use units::Instant;

use super::conversation::{self, Conversation, Cookie, Input, Output, STALL};
use super::error::ProtocolError;
use super::parameters::Test;
use super::results::Results;
use super::state::State;

/// The client's side of one conversation.
pub(super) type Client = Conversation<Phase>;

#[derive(PartialEq, Debug)]
pub(super) enum Phase {
    Greeting(Box<Test>),
    Offered(Box<Test>),
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

impl conversation::Phase for Phase {
    const OVER: Self = Self::Over;

    fn is_running(&self) -> bool {
        matches!(self, Self::Running)
    }

    fn during(&self) -> &'static str {
        match self {
            Self::Greeting(_) => "its greeting was awaited",
            Self::Offered(_) => "its answer to the parameters was awaited",
            Self::Streams | Self::Starting => "it was to begin",
            Self::Running => "the test ran",
            Self::Ending => "it was to end the test",
            Self::Collecting | Self::Results | Self::Farewell(_) => "its results were awaited",
            Self::Fault => "it was to say why it refuses",
            Self::Over => "nothing was awaited",
        }
    }

    fn on_input(client: &mut Client, now: Instant, input: Input<'_>) {
        match (input, &client.phase) {
            (Input::Bytes(bytes), _) => client.on_bytes(now, bytes),
            (Input::Closed, _) => client.fail(client.closed()),
            (Input::Tick, _) if client.is_late(now) => client.leave(client.silence()),
            (Input::Failed(error), _) => client.leave(error),
            (Input::Interrupt, _) => client.leave(ProtocolError::Interrupted),
            (Input::Progress, Self::Running) => client.deadline = Some(now + STALL),
            (Input::Over, Self::Running) => {
                client.say(State::TestEnd);
                client.enter(Self::Ending, now);
            }
            (Input::Collected(results), Self::Collecting) => {
                client.send(&results.to_bytes());
                client.enter(Self::Results, now);
                client.on_bytes(now, &[]);
            }
            // It learns from its server that all streams are there, or an event came too late.
            _ => {}
        }
    }
}

impl Client {
    /// Begins on an established control connection.
    pub(super) fn new(now: Instant, test: Test, cookie: &Cookie) -> Self {
        Self::begin(now, Phase::Greeting(Box::new(test)), cookie.to_vec())
    }

    fn on_bytes(&mut self, now: Instant, bytes: &[u8]) {
        if let Err(error) = self.inbox.push(bytes).and_then(|()| self.understand(now)) {
            self.fail(error);
        }
    }

    /// Takes messages out of the inbox while there are complete ones that this phase expects.
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
        match (&self.phase, State::from_byte(byte)) {
            (_, Some(State::AccessDenied)) => return Err(ProtocolError::Busy),
            (_, Some(State::ServerTerminate)) => return Err(ProtocolError::Terminated),
            (_, Some(State::ServerError)) => self.enter(Phase::Fault, now),
            (Phase::Greeting(test), Some(State::ParamExchange)) => {
                let test = test.clone();
                self.send(&test.to_parameters());
                self.enter(Phase::Offered(test), now);
            }
            (Phase::Offered(test), Some(State::CreateStreams)) => {
                self.request(Output::Open(test.clone()));
                self.enter(Phase::Streams, now);
            }
            (Phase::Streams, Some(State::TestStart)) => self.enter(Phase::Starting, now),
            (Phase::Starting, Some(State::TestRunning)) => {
                self.request(Output::Start);
                self.phase = Phase::Running;
                self.deadline = Some(now + STALL);
            }
            (Phase::Ending, Some(State::ExchangeResults)) => self.collect(Phase::Collecting, None),
            (Phase::Farewell(results), Some(State::DisplayResults)) => {
                let results = results.clone();
                self.say(State::IperfDone);
                self.end(Output::Finished(results));
            }
            _ => return Err(self.unexpected(byte)),
        }
        Ok(())
    }

    /// Ends, and notifies the server.
    fn leave(&mut self, error: ProtocolError) {
        self.say(State::ClientTerminate);
        self.fail(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::conversation::tests::{NOW, drain, verdicts};
    use crate::iperf3::conversation::{COOKIE_BYTES, PATIENCE};
    use crate::iperf3::inbox::framed;
    use proptest::prelude::*;

    fn client() -> Client {
        let mut client = Client::new(NOW, Test::default(), &[b'a'; COOKIE_BYTES]);
        assert_eq!(drain(&mut client).0, [b'a'; COOKIE_BYTES]);
        client
    }

    fn running() -> Client {
        let mut client = client();
        client.handle(NOW, Input::Bytes(&[9, 10, 1, 2]));
        assert_eq!(drain(&mut client).1, ["open 1", "Start"]);
        client
    }

    #[test]
    fn a_whole_conversation_says_what_iperf3_says() {
        let mut client = client();
        client.handle(NOW, Input::Bytes(&[9]));
        assert_eq!(drain(&mut client).0, framed(&Test::default().to_parameters()));
        client.handle(NOW, Input::Bytes(&[10, 1, 2]));
        assert_eq!(drain(&mut client).1, ["open 1", "Start"]);
        client.handle(NOW, Input::Over);
        assert_eq!(drain(&mut client).0, [4]);
        client.handle(NOW, Input::Bytes(&[13]));
        assert_eq!(drain(&mut client).1, ["Collect(None)"]);
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
            prop_assert_eq!(verdicts(&told), 1, "{:?}", told);
        }
    }
}
