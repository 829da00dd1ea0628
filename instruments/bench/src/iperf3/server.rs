//! The server's side of a conversation.
//!
//! The cookie has been read already: it distinguished this connection from a data stream.
//!
//! ```text
//! Parameters --parameters--> Listening --ready--> Streams --opened--> Running --TestEnd--> Results --results--> Collecting
//!                                                                                     Goodbye <--collected--|
//! ```

use std::time::Duration;

use units::Instant;

use super::conversation::{self, Conversation, Input, Output, PATIENCE, STALL};
use super::error::ProtocolError;
use super::parameters::{End, Test};
use super::results::Results;
use super::state::{Fault, State};

/// The server's side of one conversation.
pub(super) type Server = Conversation<Phase>;

#[derive(PartialEq, Debug)]
pub(super) enum Phase {
    Parameters,
    /// With the maximum duration of the test.
    Listening(Option<Duration>),
    Streams(Option<Duration>),
    Running(Option<Limit>),
    Results,
    Collecting(Results),
    Goodbye(Results),
    Over,
}

/// Time limit of a test whose client states the duration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Limit {
    after: Duration,
    end: Instant,
}

/// Returns the maximum duration of a test before its server ends it: the client's duration, and the time for a
/// message.
fn most_time(test: &Test) -> Option<Duration> {
    match test.end {
        End::Time(time) if !time.is_zero() => Some(test.omit + time + PATIENCE),
        End::Time(_) | End::Bytes(_) | End::Blocks(_) => None,
    }
}

impl conversation::Phase for Phase {
    const OVER: Self = Self::Over;

    fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    fn during(&self) -> &'static str {
        match self {
            Self::Parameters => "its parameters were awaited",
            Self::Listening(_) => "its streams were prepared",
            Self::Streams(_) => "its streams were awaited",
            Self::Running(_) => "the test ran",
            Self::Results => "its results were awaited",
            Self::Collecting(_) => "results were collected",
            Self::Goodbye(_) => "its good-bye was awaited",
            Self::Over => "nothing was awaited",
        }
    }

    fn on_input(server: &mut Server, now: Instant, input: Input<'_>) {
        match (input, &server.phase) {
            (Input::Bytes(bytes), _) => server.on_bytes(now, bytes),
            // Both have exchanged everything: some clients leave without a good-bye.
            (Input::Closed | Input::Failed(ProtocolError::Control(_)), Self::Goodbye(told)) => {
                server.end(Output::Finished(told.clone()));
            }
            (Input::Closed, _) => server.fail(server.closed()),
            (Input::Tick, _) if server.is_late(now) => server.on_late(now),
            (Input::Tick, Self::Results) => server.request(Output::Nudge),
            (Input::Failed(error), _) => server.refuse(error),
            (Input::Interrupt, _) => {
                server.say(State::ServerTerminate);
                server.fail(ProtocolError::Interrupted);
            }
            (Input::Ready, &Self::Listening(most_time)) => {
                server.say(State::CreateStreams);
                server.enter(Self::Streams(most_time), now);
                server.on_bytes(now, &[]);
            }
            (Input::Opened, &Self::Streams(most_time)) => {
                server.say(State::TestStart);
                server.say(State::TestRunning);
                server.request(Output::Start);
                let limit = most_time.map(|after| Limit { after, end: now + after });
                server.phase = Self::Running(limit);
                server.deadline = Some(next_doubt(limit, now));
            }
            (Input::Progress, &Self::Running(limit)) => server.deadline = Some(next_doubt(limit, now)),
            (Input::Collected(results), Self::Collecting(told)) => {
                let told = told.clone();
                server.send(&results.to_bytes());
                server.say(State::DisplayResults);
                server.enter(Self::Goodbye(told), now);
                server.on_bytes(now, &[]);
            }
            // Its client ends the test, or an event came too late.
            _ => {}
        }
    }
}

/// Returns the time at which a test that moves data now is ended, if nothing more arrives.
fn next_doubt(limit: Option<Limit>, now: Instant) -> Instant {
    limit.map(|limit| limit.end).into_iter().fold(now + STALL, Instant::min)
}

impl Server {
    /// Begins with a client whose cookie was read.
    pub(super) fn new(now: Instant) -> Self {
        Self::begin(now, Phase::Parameters, vec![State::ParamExchange.byte()])
    }

    fn on_bytes(&mut self, now: Instant, bytes: &[u8]) {
        if let Err(error) = self.inbox.push(bytes).and_then(|()| self.understand(now)) {
            self.refuse(error);
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
                    Some(text) => {
                        let told = Results::parse(&text)?;
                        self.collect(Phase::Collecting(told.clone()), Some(told));
                    }
                    None => return Ok(()),
                },
                Phase::Streams(_) | Phase::Running(_) | Phase::Goodbye(_) => match self.inbox.byte() {
                    Some(byte) => self.on_state(now, byte)?,
                    None => return Ok(()),
                },
                Phase::Listening(_) | Phase::Collecting(_) | Phase::Over => return Ok(()),
            }
        }
    }

    fn on_parameters(&mut self, now: Instant, text: &[u8]) -> Result<(), ProtocolError> {
        let test = Test::parse(text)?;
        let most_time = most_time(&test);
        self.request(Output::Open(Box::new(test)));
        self.enter(Phase::Listening(most_time), now);
        Ok(())
    }

    fn on_state(&mut self, now: Instant, byte: u8) -> Result<(), ProtocolError> {
        match (&self.phase, State::from_byte(byte)) {
            (_, Some(State::ClientTerminate)) => return Err(ProtocolError::Terminated),
            (Phase::Running(_), Some(State::TestEnd)) => {
                self.request(Output::Halt);
                self.say(State::ExchangeResults);
                self.enter(Phase::Results, now);
            }
            (Phase::Goodbye(told), Some(State::IperfDone)) => {
                let told = told.clone();
                self.end(Output::Finished(told));
            }
            // A client that cannot open its streams, as with an unknown congestion control, says good-bye at once.
            (Phase::Streams(_) | Phase::Running(_), Some(State::IperfDone)) => {
                return Err(ProtocolError::Terminated);
            }
            _ => return Err(self.unexpected(byte)),
        }
        Ok(())
    }

    fn on_late(&mut self, now: Instant) {
        match &self.phase {
            Phase::Goodbye(told) => self.end(Output::Finished(told.clone())),
            Phase::Running(Some(limit)) if now >= limit.end => {
                let after = limit.after;
                self.refuse(ProtocolError::Overdue { after });
            }
            _ => self.refuse(self.silence()),
        }
    }

    /// Ends, and tells the client why, in iperf3's numbers.
    fn refuse(&mut self, error: ProtocolError) {
        let fault = match (&error, &self.phase) {
            (ProtocolError::Terminated, _) => None,
            (ProtocolError::Refused(refusal), _) => Some(refusal.fault()),
            (ProtocolError::Stream { source, .. }, _) => Some(Fault::stream(source)),
            (ProtocolError::Silent { .. }, _) => Some(Fault::BAD_MESSAGE),
            (_, Phase::Parameters) => Some(Fault::BAD_PARAMETERS),
            (_, Phase::Results) => Some(Fault::BAD_RESULTS),
            _ => Some(Fault::BAD_MESSAGE),
        };
        if let Some(fault) = fault {
            self.request(Output::Write(fault.to_bytes()));
        }
        self.fail(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::conversation::tests::{NOW, drain, verdicts};
    use crate::iperf3::inbox::framed;
    use proptest::prelude::*;

    fn running() -> Server {
        running_test(&Test { end: End::Time(Duration::ZERO), ..Test::default() })
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
        server.handle(NOW, Input::Bytes(&framed(&Test::default().to_parameters())));
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
        assert_eq!(drain(&mut server).1, ["finished 1"]);
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
        let mut server = running_test(&Test { end: End::Time(time), omit, ..Test::default() });
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
            prop_assert_eq!(verdicts(&told), 1, "{:?}", told);
        }

        #[test]
        fn pieces_do_not_matter(cut in 1..200_usize) {
            let conversation = framed(&Test::default().to_parameters());
            let (mut whole, mut pieces) = (Server::new(NOW), Server::new(NOW));
            whole.handle(NOW, Input::Bytes(&conversation));
            conversation.chunks(cut).for_each(|piece| pieces.handle(NOW, Input::Bytes(piece)));
            prop_assert_eq!(drain(&mut whole), drain(&mut pieces));
        }
    }
}
