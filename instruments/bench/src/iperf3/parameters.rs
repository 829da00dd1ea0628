//! Parameters of a client: the [`Test`] as both sides understand it, and its JSON of iperf3's shape.
//!
//! Unknown keys are ignored, as in iperf3; those that would change the test are refused ([`Refusal`]) rather
//! than measured wrongly.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use serde_with::skip_serializing_none;

use super::error::ProtocolError;
use super::results::{MOST, to_count};
use super::state::Fault;
use crate::control::program_version;
use crate::options::{OptionsError, in_range};

/// Default size of a block over TCP.
pub(super) const DEFAULT_BLOCK_BYTES: usize = 128 << 10;

/// Transport protocol of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// A stream of bytes.
    Tcp,
    /// Numbered datagrams.
    Udp,
}

/// Direction of a test: the side that sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// The client sends.
    #[default]
    Forward,
    /// The server sends (`-R`).
    Reverse,
    /// Both send (`--bidir`).
    Both,
}

/// Direction of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Flow {
    /// From the client to the server.
    #[default]
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// Criterion by which a client ends its test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// After a time (`-t`); never if it is zero.
    Time(Duration),
    /// After a number of bytes over all streams (`-n`).
    Bytes(u64),
    /// After a number of blocks over all streams (`-k`).
    Blocks(u64),
}

/// One test, as both sides understand it. `Default` is the test of iperf3 without options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Test {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Direction of the data.
    pub direction: Direction,
    /// Number of streams in each direction.
    pub parallel: u32,
    /// Bytes of a block, or of a datagram's payload.
    pub block_bytes: usize,
    /// Criterion for the end of the test.
    pub end: End,
    /// Time at the beginning that the figures omit.
    pub omit: Duration,
    /// Rate of each stream. Units: bits of payload per second.
    pub rate_bits_per_s: Option<u64>,
    /// Number of blocks per burst where the rate is paced.
    pub burst: u32,
    /// True if datagrams are numbered with 64 bits.
    pub wide_counters: bool,
    /// The requested buffers of the sockets.
    pub window_bytes: Option<usize>,
    /// The requested maximum segment size of TCP.
    pub mss_bytes: Option<u32>,
    /// True if small writes are sent at once (`TCP_NODELAY`).
    pub no_delay: bool,
    /// The type of service, which contains the differentiated services code point.
    pub type_of_service: u32,
    /// The requested congestion control.
    pub congestion: Option<String>,
    /// A title for the report.
    pub title: Option<String>,
    /// A text for the reports of both sides.
    pub extra_data: Option<String>,
}

/// Identity of a stream, the same on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    /// Number of the stream in results.
    pub(super) id: u32,
    pub(super) flow: Flow,
}

impl Default for Test {
    fn default() -> Self {
        Self {
            protocol: Protocol::Tcp,
            direction: Direction::Forward,
            parallel: 1,
            block_bytes: DEFAULT_BLOCK_BYTES,
            end: End::Time(Duration::from_secs(10)),
            omit: Duration::ZERO,
            rate_bits_per_s: None,
            burst: 1,
            wide_counters: false,
            window_bytes: None,
            mss_bytes: None,
            no_delay: false,
            type_of_service: 0,
            congestion: None,
            title: None,
            extra_data: None,
        }
    }
}

impl Test {
    /// Checks every number against the limits of iperf3.
    pub(super) fn check(&self) -> Result<(), OptionsError> {
        let blocks = match self.protocol {
            Protocol::Tcp => 1..=1 << 20,
            // The header with 64-bit counters, and what a datagram over IPv4 carries.
            Protocol::Udp => 16..=65_507,
        };
        let end = match self.end {
            End::Time(time) => ("-t", time.as_secs(), 0..=86_400),
            End::Bytes(bytes) => ("-n", bytes, 1..=MOST),
            End::Blocks(blocks) => ("-k", blocks, 1..=MOST),
        };
        for (name, value, range) in [
            ("-P", u64::from(self.parallel), 1..=128),
            ("-l", self.block_bytes as u64, blocks),
            end,
            ("-O", self.omit.as_secs(), 0..=60),
            ("-b", self.rate_bits_per_s.unwrap_or(0), 0..=MOST),
            ("-b …/burst", self.burst.into(), 1..=1_000),
            ("-w", self.window_bytes.unwrap_or(0) as u64, 0..=512 << 20),
            ("-M", self.mss_bytes.unwrap_or(0).into(), 0..=9_216),
            ("-S", self.type_of_service.into(), 0..=255),
        ] {
            in_range(name, value, u128::from(*range.start())..=u128::from(*range.end()))?;
        }
        Ok(())
    }

    /// Returns the streams in the order in which a client opens them.
    ///
    /// Source: observed; the second stream is number 3, the number 2 is not used.
    pub(super) fn places(&self) -> Vec<Place> {
        let flows: &[Flow] = match self.direction {
            Direction::Forward => &[Flow::ToServer],
            Direction::Reverse => &[Flow::ToClient],
            Direction::Both => &[Flow::ToServer, Flow::ToClient],
        };
        let flows = flows.iter().flat_map(|&flow| (0..self.parallel).map(move |_| flow));
        (0_u32..).zip(flows).map(|(index, flow)| Place { id: number(index), flow }).collect()
    }

    /// Returns the bytes after which the test ends, over all streams of a direction; `None` where time decides.
    pub(super) fn end_bytes(&self) -> Option<u64> {
        match self.end {
            End::Time(_) => None,
            End::Bytes(bytes) => Some(bytes),
            End::Blocks(blocks) => Some(blocks.saturating_mul(self.block_bytes as u64)),
        }
    }
}

const fn number(index: u32) -> u32 {
    if index == 0 { 1 } else { index + 2 }
}

/// Reasons why a client's request is not supported here.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Authentication with user and password.
    #[error(
        "the client requests authentication, which is not supported\nrun it without --username and --rsa-public-key-path"
    )]
    Authentication,
    /// A feature that would change the test.
    #[error("the client asks for {option}, which is not supported\nrun it without that option")]
    Unsupported {
        /// The option, as users write it.
        option: &'static str,
    },
    /// A number is out of range.
    #[error("the client's {0}")]
    OutOfRange(#[from] OptionsError),
    /// Neither TCP nor UDP, or both.
    #[error("the client names neither TCP nor UDP, or both\nsee whether it is iperf3")]
    Protocol,
    /// Two directions at once.
    #[error("the client asks for -R and --bidir at once\ntake one of them")]
    Direction,
}

impl Refusal {
    pub(super) const fn fault(&self) -> Fault {
        match self {
            Self::Authentication => Fault::NOT_AUTHORISED,
            Self::Unsupported { .. } => Fault::NOT_IMPLEMENTED,
            Self::OutOfRange(_) | Self::Protocol | Self::Direction => Fault::BAD_PARAMETERS,
        }
    }
}

/// The parameters on the wire, in iperf3's order; flags and most numbers that are not set are left out.
#[skip_serializing_none]
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Parameters {
    tcp: Option<Value>,
    udp: Option<Value>,
    omit: Option<Number>,
    time: Option<Number>,
    num: Option<Number>,
    blockcount: Option<Number>,
    #[serde(rename = "MSS")]
    mss: Option<Number>,
    nodelay: Option<Value>,
    parallel: Option<Number>,
    reverse: Option<Value>,
    bidirectional: Option<Value>,
    window: Option<Number>,
    len: Option<Number>,
    bandwidth: Option<Number>,
    /// Microseconds between two checks of iperf3's pacing; ours sleeps until each block's own time.
    pacing_timer: Option<Number>,
    burst: Option<Number>,
    #[serde(rename = "TOS")]
    tos: Option<Number>,
    title: Option<String>,
    extra_data: Option<String>,
    congestion: Option<String>,
    udp_counters_64bit: Option<Value>,
    client_version: Option<String>,
    #[serde(flatten, skip_serializing)]
    others: serde_json::Map<String, Value>,
}

/// Parameters that change the test, whichever side sends.
const REFUSED: [(&str, &str); 5] = [
    ("sctp", "--sctp"),
    ("mptcp", "--mptcp"),
    ("MPTCP", "--mptcp"),
    ("flowlabel", "-L (flow label)"),
    ("get_server_output", "--get-server-output"),
];

/// Parameters that concern the sending side: refused if that would be the server.
const REFUSED_OF_SENDERS: [(&str, &str); 3] = [
    ("fqrate", "--fq-rate with -R or --bidir"),
    ("zerocopy", "-Z with -R or --bidir"),
    ("dont_fragment", "--dont-fragment with -R or --bidir"),
];

impl Test {
    /// Reads a client's parameters, as a server.
    pub(super) fn parse(text: &[u8]) -> Result<Self, ProtocolError> {
        let parameters: Parameters = serde_json::from_slice(text)
            .map_err(|source| ProtocolError::Json { what: "parameters", source })?;
        Ok(parameters.test()?)
    }

    /// Returns the parameters as a client sends them.
    pub(super) fn to_parameters(&self) -> Vec<u8> {
        let (time, num, blockcount) = self.end.numbers();
        let flag = |is_set: bool| is_set.then_some(Value::Bool(true));
        let number = |number: u64| Some(Number::from(number));
        let positive = |value: u64| number(value).filter(|_| value > 0);
        let parameters = Parameters {
            tcp: flag(self.protocol == Protocol::Tcp),
            udp: flag(self.protocol == Protocol::Udp),
            omit: number(self.omit.as_secs()),
            time: number(time),
            num: number(num),
            blockcount: number(blockcount),
            mss: positive(self.mss_bytes.unwrap_or(0).into()),
            nodelay: flag(self.no_delay),
            parallel: number(self.parallel.into()),
            reverse: flag(self.direction == Direction::Reverse),
            bidirectional: flag(self.direction == Direction::Both),
            window: positive(self.window_bytes.unwrap_or(0) as u64),
            len: number(self.block_bytes as u64),
            bandwidth: self.rate_bits_per_s.map(Number::from),
            pacing_timer: number(1_000),
            burst: Some(Number::from(self.burst)).filter(|_| self.burst > 1),
            tos: positive(self.type_of_service.into()),
            title: self.title.clone(),
            extra_data: self.extra_data.clone(),
            congestion: self.congestion.clone(),
            udp_counters_64bit: self.wide_counters.then(|| Value::from(1)),
            client_version: Some(program_version().to_owned()),
            others: serde_json::Map::new(),
        };
        serde_json::to_vec(&parameters).expect("numbers and texts become JSON")
    }
}

impl End {
    /// Returns seconds, bytes and blocks as iperf3 writes them: one of them, and zeros.
    pub(super) const fn numbers(self) -> (u64, u64, u64) {
        match self {
            Self::Time(time) => (time.as_secs(), 0, 0),
            Self::Bytes(bytes) => (0, bytes, 0),
            Self::Blocks(blocks) => (0, 0, blocks),
        }
    }
}

impl Parameters {
    fn test(self) -> Result<Test, Refusal> {
        if self.others.contains_key("authtoken") {
            return Err(Refusal::Authentication);
        }
        let direction = self.direction()?;
        self.refuse_others(direction)?;
        let test = Test {
            protocol: self.protocol()?,
            direction,
            parallel: small(self.parallel),
            block_bytes: small(self.len) as usize,
            end: match (count(self.num), count(self.blockcount)) {
                (0, 0) => End::Time(Duration::from_secs(count(self.time))),
                (0, blocks) => End::Blocks(blocks),
                (bytes, _) => End::Bytes(bytes),
            },
            omit: Duration::from_secs(count(self.omit)),
            rate_bits_per_s: Some(count(self.bandwidth)).filter(|rate| *rate > 0),
            burst: small(self.burst).max(1),
            wide_counters: is_set(self.udp_counters_64bit.as_ref()),
            window_bytes: Some(small(self.window) as usize).filter(|bytes| *bytes > 0),
            mss_bytes: Some(small(self.mss)).filter(|mss| *mss > 0),
            no_delay: is_set(self.nodelay.as_ref()),
            type_of_service: small(self.tos),
            congestion: self.congestion,
            title: self.title,
            extra_data: self.extra_data,
        };
        test.check()?;
        Ok(test)
    }

    fn refuse_others(&self, direction: Direction) -> Result<(), Refusal> {
        let of_senders = REFUSED_OF_SENDERS.iter().filter(|_| direction != Direction::Forward);
        let mut refused = REFUSED.iter().chain(of_senders);
        match refused.find(|(key, _)| is_set(self.others.get(*key))) {
            Some((_, option)) => Err(Refusal::Unsupported { option }),
            None => Ok(()),
        }
    }

    fn direction(&self) -> Result<Direction, Refusal> {
        match (is_set(self.reverse.as_ref()), is_set(self.bidirectional.as_ref())) {
            (false, false) => Ok(Direction::Forward),
            (true, false) => Ok(Direction::Reverse),
            (false, true) => Ok(Direction::Both),
            (true, true) => Err(Refusal::Direction),
        }
    }

    fn protocol(&self) -> Result<Protocol, Refusal> {
        match (is_set(self.tcp.as_ref()), is_set(self.udp.as_ref())) {
            (true, false) => Ok(Protocol::Tcp),
            (false, true) => Ok(Protocol::Udp),
            _ => Err(Refusal::Protocol),
        }
    }
}

/// Returns a count; 0 if it is not given.
fn count(number: Option<Number>) -> u64 {
    number.map_or(0, |number| to_count(&number))
}

/// Returns a count whose range is far below the largest number.
fn small(number: Option<Number>) -> u32 {
    u32::try_from(count(number)).unwrap_or(u32::MAX)
}

/// Returns whether a value is true: iperf3 writes `true` or a number.
fn is_set(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(set)) => *set,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(_) | Value::Array(_) | Value::Object(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by iperf 3.12.
    const OBSERVED: &str = r#"{"tcp":true,"omit":1,"time":1,"num":0,"blockcount":0,"MSS":1000,"nodelay":true,"parallel":1,"window":102400,"len":1000,"bandwidth":10000000,"fqrate":100000000,"pacing_timer":2000,"burst":5,"TOS":16,"title":"hello","extra_data":"foo","repeating_payload":1,"zerocopy":1,"client_version":"3.12"}"#;

    #[test]
    fn parameters_of_another_program_are_read() {
        let expected = Test {
            block_bytes: 1_000,
            end: End::Time(Duration::from_secs(1)),
            omit: Duration::from_secs(1),
            rate_bits_per_s: Some(10_000_000),
            burst: 5,
            window_bytes: Some(102_400),
            mss_bytes: Some(1_000),
            no_delay: true,
            type_of_service: 16,
            title: Some("hello".to_owned()),
            extra_data: Some("foo".to_owned()),
            ..Test::default()
        };
        assert_eq!(Test::parse(OBSERVED.as_bytes()).unwrap(), expected);
    }

    fn refusal(change: &str) -> Option<Refusal> {
        let text = format!(r#"{{"tcp":true,"time":1,"parallel":1,"len":1000{change}}}"#);
        match Test::parse(text.as_bytes()) {
            Ok(_) => None,
            Err(ProtocolError::Refused(refusal)) => Some(refusal),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn what_would_be_another_test_is_refused() {
        assert_eq!(refusal(r#","authtoken":"x""#), Some(Refusal::Authentication));
        assert_eq!(refusal(r#","sctp":true"#), Some(Refusal::Unsupported { option: "--sctp" }));
        assert_eq!(refusal(r#","fqrate":1000"#), None, "who sends is the client");
        assert!(matches!(refusal(r#","fqrate":1000,"reverse":true"#), Some(Refusal::Unsupported { .. })));
        assert_eq!(refusal(r#","udp":true"#), Some(Refusal::Protocol));
        assert_eq!(refusal(r#","reverse":true,"bidirectional":true"#), Some(Refusal::Direction));
        assert_eq!(refusal(r#","get_server_output":0,"something_new":1"#), None);
    }

    #[test]
    fn both_sides_of_every_limit() {
        let text = |parallel: u64, len: u64, udp: bool| {
            format!(
                r#"{{"{}":true,"time":1,"parallel":{parallel},"len":{len}}}"#,
                if udp { "udp" } else { "tcp" }
            )
        };
        let cases = [
            (0, 1_000, false, false),
            (1, 1_000, false, true),
            (128, 1_000, false, true),
            (129, 1_000, false, false),
            (1, 0, false, false),
            (1, 1 << 20, false, true),
            (1, (1 << 20) + 1, false, false),
            (1, 15, true, false),
            (1, 16, true, true),
            (1, 65_507, true, true),
            (1, 65_508, true, false),
        ];
        for (parallel, len, udp, taken) in cases {
            assert_eq!(
                Test::parse(text(parallel, len, udp).as_bytes()).is_ok(),
                taken,
                "{parallel} {len} {udp}"
            );
        }
    }

    #[test]
    fn streams_are_numbered_as_observed() {
        let test = Test { parallel: 2, direction: Direction::Both, ..Test::default() };
        let numbers: Vec<_> = test.places().iter().map(|place| (place.id, place.flow)).collect();
        let (up, down) = (Flow::ToServer, Flow::ToClient);
        assert_eq!(numbers, [(1, up), (3, up), (4, down), (5, down)]);
    }

    fn tests() -> impl Strategy<Value = Test> {
        let direction =
            prop_oneof![Just(Direction::Forward), Just(Direction::Reverse), Just(Direction::Both)];
        let end = prop_oneof![
            (0..=86_400_u64).prop_map(|seconds| End::Time(Duration::from_secs(seconds))),
            (1..=MOST).prop_map(End::Bytes),
            (1..=MOST).prop_map(End::Blocks),
        ];
        let numbers = (1..=128_u32, 16..=65_507_usize, 0..=60_u64, 1..=1_000_u32, 0..=255_u32);
        (direction, end, numbers, any::<bool>(), prop::option::of(1..=MOST)).prop_map(
            |(
                direction,
                end,
                (parallel, block_bytes, omit, burst, type_of_service),
                udp,
                rate_bits_per_s,
            )| Test {
                protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
                direction,
                parallel,
                block_bytes,
                end,
                omit: Duration::from_secs(omit),
                rate_bits_per_s,
                burst,
                wide_counters: udp,
                type_of_service,
                ..Test::default()
            },
        )
    }

    proptest! {
        #[test]
        fn what_a_client_tells_a_server_understands(test in tests()) {
            prop_assert_eq!(Test::parse(&test.to_parameters()).unwrap(), test);
        }

        #[test]
        fn no_text_is_a_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Test::parse(&text);
        }
    }
}
