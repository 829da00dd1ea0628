//! The states of a test, as single bytes on the control connection, and iperf3's error numbers of a refusal.
//!
//! Source: observed between two programs of iperf 3.12, with a relay that recorded every byte; `docs/guide/bench.md`.

/// State of the test, a byte on the control connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum State {
    /// Server: all streams are there.
    TestStart = 1,
    /// Server: data may flow.
    TestRunning = 2,
    /// Client: the test is over.
    TestEnd = 4,
    /// Server: send the parameters.
    ParamExchange = 9,
    /// Server: open the data streams.
    CreateStreams = 10,
    /// Server: leaves before the end.
    ServerTerminate = 11,
    /// Client: leaves before the end.
    ClientTerminate = 12,
    /// Server: send the results, mine follow.
    ExchangeResults = 13,
    /// Server: all results have been sent.
    DisplayResults = 14,
    /// Client: good-bye.
    IperfDone = 16,
    /// Server: an error; two numbers follow.
    ServerError = 0xfe,
    /// Server: busy with another test.
    AccessDenied = 0xff,
}

impl State {
    pub(super) const ALL: [Self; 12] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParamExchange,
        Self::CreateStreams,
        Self::ServerTerminate,
        Self::ClientTerminate,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::IperfDone,
        Self::ServerError,
        Self::AccessDenied,
    ];

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u8 == byte)
    }

    pub(super) const fn byte(self) -> u8 {
        self as u8
    }
}

/// Error by which a server gives up, as its client will report it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fault {
    /// iperf3's number of the error.
    pub(super) code: u32,
    /// The accompanying system error number, or 0.
    pub(super) errno: u32,
}

impl Fault {
    /// "an option you are trying to set is not implemented yet".
    pub(super) const NOT_IMPLEMENTED: Self = Self { code: 13, errno: 0 };
    /// "unable to receive parameters from client".
    pub(super) const BAD_PARAMETERS: Self = Self { code: 114, errno: 0 };
    /// "unable to receive results".
    pub(super) const BAD_RESULTS: Self = Self { code: 117, errno: 0 };
    /// "test authorization failed".
    pub(super) const NOT_AUTHORISED: Self = Self { code: 142, errno: 0 };
    /// "unable to receive control message".
    pub(super) const BAD_MESSAGE: Self = Self { code: 112, errno: 0 };

    /// "unable to initialize stream", with the system's error.
    pub(super) fn stream(error: &std::io::Error) -> Self {
        const STREAM: u32 = 201;
        let errno = error.raw_os_error().and_then(|errno| u32::try_from(errno).ok());
        Self { code: STREAM, errno: errno.unwrap_or(0) }
    }

    /// Returns the error's bytes on the wire.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![State::ServerError.byte()];
        bytes.extend(self.code.to_be_bytes());
        bytes.extend(self.errno.to_be_bytes());
        bytes
    }
}

/// Returns the meaning of a server's error number, for the numbers that a client meets in practice.
pub(super) fn meaning(code: u32) -> &'static str {
    match code {
        5 => "the test would be longer than it allows",
        6 => "it does not allow that many streams",
        7 | 8 | 20 => "it does not allow that block size",
        10 => "it does not allow that MSS",
        12 => "it does not allow so long an omission",
        13 => "it does not know an option",
        27 | 37 | 147 => "the rate would be higher than it allows",
        114 => "it does not understand the parameters",
        117 => "it does not understand the results",
        124 | 130 | 141 => "its kernel gives no buffers of that size, see -w",
        122..=129 => "it cannot set an option of its sockets",
        134 => "it does not have that congestion control",
        142 => "it requires user and password, which is not supported",
        200..=208 => "it cannot open or use a data stream",
        _ => "see its own messages",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_one_state_or_none() {
        let known = (0..=u8::MAX).filter_map(State::from_byte).collect::<Vec<_>>();
        assert_eq!(known.len(), State::ALL.len());
        for state in State::ALL {
            assert_eq!(State::from_byte(state.byte()), Some(state));
        }
    }

    #[test]
    fn a_fault_is_nine_bytes_as_observed() {
        let refused = Fault { code: 202, errno: 93 };
        assert_eq!(refused.to_bytes(), b"\xfe\x00\x00\x00\xca\x00\x00\x00\x5d");
    }
}
