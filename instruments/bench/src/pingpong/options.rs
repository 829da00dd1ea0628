//! Options of a ping-pong; both ends check them, since a server does not trust its clients.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use probe::pingpong::{LARGEST_MESSAGE_BYTES, LARGEST_OF_PETRI_2007, PIECE_HEADER_BYTES, sizes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::range::{OutOfRange, in_range};
use crate::without_effect::WithoutEffect;

/// Maximum payload of UDP over IPv4. Source: RFC 768 and 791: 65,535 less 8 and 20 bytes of header.
const LARGEST_DATAGRAM_BYTES: usize = 65_507;
/// The headers of IPv4 and UDP, and those of IPv6, which are longer.
const HEADERS_BYTES: u32 = 28;
const MORE_HEADERS_OF_IPV6_BYTES: u32 = 20;

/// Default receive buffer of datagrams: the setting of Petri 2007 (§2.2.2).
const USUAL_BUFFER_BYTES: usize = 33_554_432;

/// Default time to wait for an answer over datagrams.
const USUAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Options of a ping-pong.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Systems that carry the messages.
    pub systems: Vec<System>,
    /// Sizes of the messages. Units: bytes.
    pub sizes: Vec<u64>,
    /// Maximum time of a size in each run.
    pub time: Duration,
    /// Maximum number of exchanges of a size in each run.
    pub exchanges: u64,
    /// Number of runs.
    pub repeats: u32,
    /// Socket buffers; by default the system's for TCP, and room for a message for datagrams.
    pub buffer_bytes: Option<usize>,
    /// Maximum size of a datagram; by default the path MTU's.
    pub datagram_bytes: Option<usize>,
    /// Maximum time to wait for an answer over datagrams.
    pub timeout: Duration,
    /// Way in which both ends wait.
    pub wait: Wait,
    /// The processor of the client's end.
    pub client_cpu: Option<usize>,
    /// The processor of the server's end.
    pub server_cpu: Option<usize>,
    /// The client's address, which all traffic uses.
    pub from: Option<IpAddr>,
}

/// Carrier of messages.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// A TCP connection, with this congestion control at both ends; by default the system's.
    Tcp(Option<String>),
    /// Datagrams, without retransmission.
    Udp,
}

/// Way in which an end waits for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Asleep, until the kernel wakes it.
    Sleep,
    /// Busy, by polling: no wake-up, but a whole processor.
    Spin,
}

/// Reasons why an option is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A list is empty.
    #[error("nothing to measure: no {0} is named\nname at least one")]
    Nothing(&'static str),
    /// A number is out of its range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// An option without effect on this measurement.
    #[error(transparent)]
    WithoutEffect(#[from] WithoutEffect),
}

impl Default for Options {
    /// The sizes of Petri 2007 over the system's TCP and in datagrams; three times, because a single figure has no
    /// spread.
    fn default() -> Self {
        Self {
            systems: vec![System::Tcp(None), System::Udp],
            sizes: sizes(LARGEST_OF_PETRI_2007),
            time: Duration::from_millis(500),
            exchanges: 100_000,
            repeats: 3,
            buffer_bytes: None,
            datagram_bytes: None,
            timeout: USUAL_TIMEOUT,
            wait: Wait::Sleep,
            client_cpu: None,
            server_cpu: None,
            from: None,
        }
    }
}

impl Options {
    /// Checks every option.
    ///
    /// # Errors
    /// [`OptionsError`] names the first invalid option.
    pub fn check(&self) -> Result<(), OptionsError> {
        let nothing = |what, is_empty| if is_empty { Err(OptionsError::Nothing(what)) } else { Ok(()) };
        nothing("protocol", self.systems.is_empty())?;
        nothing("size", self.sizes.is_empty())?;
        in_range("the number of protocols", self.systems.len() as u128, 1..=64)?;
        in_range("the number of sizes", self.sizes.len() as u128, 1..=1_000)?;
        for size in &self.sizes {
            in_range("a size in bytes", (*size).into(), 1..=LARGEST_MESSAGE_BYTES.into())?;
        }
        in_range("-t in ms", self.time.as_millis(), 1..=86_400_000)?;
        // Eight bytes of each exchange are kept until its run is summarised.
        in_range("--exchanges", self.exchanges.into(), 1..=10_000_000)?;
        in_range("--repeat", self.repeats.into(), 1..=10_000)?;
        in_range("--timeout in ms", self.timeout.as_millis(), 1..=60_000)?;
        if let Some(bytes) = self.buffer_bytes {
            in_range("-w in bytes", bytes as u128, 1..=1 << 30)?;
        }
        if let Some(bytes) = self.datagram_bytes {
            let range = PIECE_HEADER_BYTES as u128 + 1..=LARGEST_DATAGRAM_BYTES as u128;
            in_range("--datagram in bytes", bytes as u128, range)?;
        }
        self.check_effects()
    }

    /// Refuses options that would be ignored; an option given with its default value does no harm.
    fn check_effects(&self) -> Result<(), OptionsError> {
        let without_datagrams = |option| {
            let (when, remedy) = ("without datagrams", "add udp to --protocols");
            Err(WithoutEffect { option, when, remedy }.into())
        };
        if self.systems.contains(&System::Udp) {
            return Ok(());
        }
        if self.datagram_bytes.is_some() {
            return without_datagrams("--datagram");
        }
        if self.timeout != USUAL_TIMEOUT {
            return without_datagrams("--timeout");
        }
        Ok(())
    }

    /// Returns the largest message.
    pub(super) fn largest_bytes(&self) -> u32 {
        let largest = self.sizes.iter().copied().max().unwrap_or(1);
        u32::try_from(largest).expect("sizes were checked")
    }

    /// Returns the message bytes that one datagram holds, on a path with this MTU.
    pub(super) fn piece_bytes(&self, mtu_bytes: Option<u32>, is_ipv6: bool) -> u32 {
        let headers = HEADERS_BYTES + if is_ipv6 { MORE_HEADERS_OF_IPV6_BYTES } else { 0 };
        let of_path = mtu_bytes.unwrap_or(1_500).saturating_sub(headers) as usize;
        let datagram = self.datagram_bytes.unwrap_or(of_path.min(LARGEST_DATAGRAM_BYTES));
        u32::try_from(datagram.saturating_sub(PIECE_HEADER_BYTES).max(1)).expect("a datagram is small")
    }

    /// Returns the socket buffer to request where messages arrive in datagrams.
    pub(super) fn datagram_buffer_bytes(&self) -> usize {
        // Queued data takes up to twice its size in a buffer.
        let of_message = (self.largest_bytes() as usize).saturating_mul(2);
        self.buffer_bytes.unwrap_or(of_message.clamp(1 << 20, USUAL_BUFFER_BYTES))
    }
}

impl fmt::Display for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(None) => formatter.pad("tcp"),
            Self::Tcp(Some(congestion)) => formatter.pad(&format!("tcp {congestion}")),
            Self::Udp => formatter.pad("udp"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_every_range() {
        let check = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check().is_ok()
        };
        assert!(check(|_| {}));
        assert!(check(|it| it.sizes = vec![1, 1 << 30]) && !check(|it| it.sizes = vec![0]));
        assert!(!check(|it| it.sizes = vec![(1 << 30) + 1]) && !check(|it| it.sizes.clear()));
        assert!(check(|it| it.datagram_bytes = Some(25)) && !check(|it| it.datagram_bytes = Some(24)));
        assert!(
            check(|it| it.datagram_bytes = Some(65_507)) && !check(|it| it.datagram_bytes = Some(65_508))
        );
        assert!(check(|it| it.exchanges = 1) && !check(|it| it.exchanges = 0));
        assert!(!check(|it| it.systems.clear()) && !check(|it| it.repeats = 0));
    }

    #[test]
    fn options_that_nothing_heeds_are_refused() {
        let refused = |systems: Vec<System>, change: fn(&mut Options)| {
            let mut options = Options { systems, ..Options::default() };
            change(&mut options);
            match options.check() {
                Ok(()) => None,
                Err(OptionsError::WithoutEffect(it)) => Some(it.option),
                Err(error) => panic!("{error}"),
            }
        };
        let (tcp, udp) = (vec![System::Tcp(None)], vec![System::Udp]);
        let datagram = |it: &mut Options| it.datagram_bytes = Some(1_472);
        let timeout = |it: &mut Options| it.timeout = Duration::from_secs(1);
        let default = |it: &mut Options| it.timeout = Duration::from_millis(500);
        assert_eq!(refused(tcp.clone(), datagram), Some("--datagram"));
        assert_eq!(refused(tcp.clone(), timeout), Some("--timeout"));
        assert_eq!(
            (refused(tcp, default), refused(udp.clone(), datagram), refused(udp, timeout)),
            (None, None, None)
        );
    }

    #[test]
    fn a_datagram_fills_the_path_and_holds_its_head() {
        let options = Options::default();
        assert_eq!(options.piece_bytes(Some(1_500), false), 1_500 - 28 - 24);
        assert_eq!(options.piece_bytes(Some(9_000), true), 9_000 - 48 - 24);
        assert_eq!(options.piece_bytes(Some(65_536), false), 65_507 - 24);
        let told = Options { datagram_bytes: Some(25), ..options };
        assert_eq!(told.piece_bytes(Some(1_500), false), 1);
    }
}
