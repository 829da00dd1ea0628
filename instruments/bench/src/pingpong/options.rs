//! Options of a ping-pong; both ends check them, since a server does not trust its clients.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::builder::{BoolValueParser, TypedValueParser as _};
use clap::{ArgAction, Args, ValueEnum};
use probe::pingpong::{LARGEST_MESSAGE_BYTES, LARGEST_OF_PETRI_2007, PIECE_HEADER_BYTES, sizes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::header_bytes;

use crate::notation::{NotationError, size, time};
use crate::options::{
    LARGEST_DATAGRAM_BYTES, OptionsError, check_buffer, check_effects, check_grid, check_repeats, defaults,
    in_range,
};

/// Default receive buffer of datagrams: the setting of Petri 2007 (§2.2.2).
const USUAL_BUFFER_BYTES: usize = 33_554_432;

/// Default time to wait for an answer over datagrams.
const USUAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Options of a ping-pong. The default is the sizes of Petri 2007 over the system's TCP and in datagrams; three times,
/// because a single figure has no spread.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[group(skip)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Systems that carry the messages.
    #[arg(skip = [System::Tcp(None), System::Udp])]
    pub systems: Vec<System>,
    /// Message sizes [default: powers of four from 1 byte on, and 9288586].
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = message_size,
        default_values_t = sizes(LARGEST_OF_PETRI_2007),
        hide_default_value = true
    )]
    pub sizes: Vec<u64>,
    /// Time spent on each size in each run: seconds, or a duration such as 500ms.
    #[arg(short, long, visible_alias = "duration", value_name = "TIME", default_value = "500ms", value_parser = time)]
    pub time: Duration,
    /// Maximum number of exchanges per size and run.
    #[arg(long, value_name = "COUNT", default_value = "100000")]
    pub exchanges: u64,
    /// Number of runs.
    #[arg(long = "repeat", value_name = "COUNT", default_value = "3")]
    pub repeats: u32,
    /// Socket buffers [default: the system's for TCP; room for the largest message, 32M at most, for datagrams].
    #[arg(short = 'w', long = "window", value_name = "SIZE", value_parser = size)]
    pub buffer_bytes: Option<usize>,
    /// Largest datagram over UDP and UDT, including a header of 24 bytes [default: the path MTU].
    #[arg(long = "datagram", value_name = "SIZE", value_parser = size)]
    pub datagram_bytes: Option<usize>,
    /// Maximum wait for a reply in datagrams.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    pub timeout: Duration,
    /// Poll for messages at both ends instead of sleeping; uses a whole processor at each.
    #[arg(long = "busy-poll", action = ArgAction::SetTrue, value_parser = BoolValueParser::new().map(Wait::of))]
    pub wait: Wait,
    /// The processor of the client's end.
    #[arg(skip)]
    pub client_cpu: Option<usize>,
    /// The processor of the server's end.
    #[arg(skip)]
    pub server_cpu: Option<usize>,
    /// The client's address, which all traffic uses.
    #[arg(skip)]
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
    /// Our reliable transport over UDP, with this congestion control and its options, as in `fast?alpha=20`; by default
    /// UDT's own.
    Udt(Option<String>),
    /// Rings in shared memory, between two ends on one host.
    Shm,
    /// A layer over one of the others, which must be reliable.
    Layered {
        /// Handling of each message.
        layer: Layer,
        /// Carrier of the layer's messages.
        over: Box<System>,
    },
}

/// Handling of a message by a layer over a reliable carrier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The bytes alone, as `tcppp` and `udtpp` of Petri 2007.
    None,
    /// A head with the size before each message, as a transport layer of messages does: `vtspp`.
    Framed,
    /// The sender announces a message, and sends it once it is granted: three round trips for each exchange, as
    /// `visitpp` has them.
    Announced,
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

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

impl Options {
    /// Checks every option.
    ///
    /// # Errors
    /// [`OptionsError`] names the first invalid option.
    pub fn check(&self) -> Result<(), OptionsError> {
        check_grid(&[("--protocols", self.systems.len()), ("--sizes", self.sizes.len())], u128::MAX)?;
        in_range("the number of protocols", self.systems.len() as u128, 1..=64)?;
        in_range("the number of sizes", self.sizes.len() as u128, 1..=1_000)?;
        for size in &self.sizes {
            in_range("a size in bytes", *size, 1..=LARGEST_MESSAGE_BYTES.into())?;
        }
        in_range("-t in ms", self.time.as_millis(), 1..=86_400_000)?;
        // Eight bytes of each exchange are kept until its run is summarised.
        in_range("--exchanges", self.exchanges, 1..=10_000_000)?;
        check_repeats(self.repeats)?;
        in_range("--timeout in ms", self.timeout.as_millis(), 1..=60_000)?;
        check_buffer("-w in bytes", self.buffer_bytes)?;
        if let Some(bytes) = self.datagram_bytes {
            let range = PIECE_HEADER_BYTES as u128 + 1..=LARGEST_DATAGRAM_BYTES as u128;
            in_range("--datagram in bytes", bytes as u128, range)?;
        }
        let is_unreliable = |it: &System| it.layer() != Layer::None && !it.carrier().is_reliable();
        let has = |is_it: fn(&System) -> bool| self.systems.iter().any(|system| is_it(system.carrier()));
        let has_datagrams = has(|it| matches!(it, System::Udp | System::Udt(_)));
        let (without, remedy) = ("without datagrams", "add udp to --protocols");
        check_effects(&[
            (
                self.systems.iter().any(is_unreliable),
                "--layers",
                "over datagrams",
                "add tcp, udt or shm to --protocols",
            ),
            (!has_datagrams && self.datagram_bytes.is_some(), "--datagram", without, remedy),
            // An option given with its default value does no harm.
            (!has(|it| *it == System::Udp) && self.timeout != USUAL_TIMEOUT, "--timeout", without, remedy),
        ])
    }

    /// Returns the largest message.
    pub(super) fn largest_bytes(&self) -> u32 {
        let largest = self.sizes.iter().copied().max().unwrap_or(1);
        u32::try_from(largest).expect("sizes were checked")
    }

    /// Returns the message bytes that one datagram to `peer` holds, on a path with this MTU.
    pub(super) fn piece_bytes(&self, mtu_bytes: Option<u32>, peer: &SocketAddr) -> u32 {
        let of_path = (mtu_bytes.unwrap_or(1_500) as usize).saturating_sub(header_bytes(peer));
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

impl System {
    /// Returns the carrier below a layer, or the system itself.
    pub(super) fn carrier(&self) -> &Self {
        match self {
            Self::Layered { over, .. } => over,
            system => system,
        }
    }

    /// Returns the layer over the carrier.
    pub(super) const fn layer(&self) -> Layer {
        match self {
            Self::Layered { layer, .. } => *layer,
            _ => Layer::None,
        }
    }

    /// Puts a layer over a carrier.
    #[must_use]
    pub fn through(self, layer: Layer) -> Self {
        if layer == Layer::None { self } else { Self::Layered { layer, over: Box::new(self) } }
    }

    /// Returns whether it loses no message.
    #[must_use]
    pub const fn is_reliable(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::Udt(_) | Self::Shm)
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::None => "none",
            Self::Framed => "framed",
            Self::Announced => "announced",
        })
    }
}

impl Wait {
    const fn of(is_busy: bool) -> Self {
        if is_busy { Self::Spin } else { Self::Sleep }
    }
}

fn message_size(text: &str) -> Result<u64, NotationError> {
    size(text).map(|bytes| bytes as u64)
}

impl fmt::Display for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(None) => formatter.pad("tcp"),
            Self::Tcp(Some(congestion)) => formatter.pad(&format!("tcp {congestion}")),
            Self::Udp => formatter.pad("udp"),
            Self::Udt(None) => formatter.pad("udt"),
            Self::Udt(Some(control)) => formatter.pad(&format!("udt {control}")),
            Self::Shm => formatter.pad("shm"),
            Self::Layered { layer, over } => formatter.pad(&format!("{layer} {over}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{bounds, ignored};

    #[test]
    fn both_ends_of_every_range() {
        bounds! {
            sizes: [vec![1, 1 << 30]], not [vec![0], vec![(1 << 30) + 1], vec![]];
            datagram_bytes: [Some(25), Some(65_507)], not [Some(24), Some(65_508)];
            exchanges: [1], not [0];
            systems: [], not [vec![]];
            repeats: [], not [0];
        }
    }

    #[test]
    fn options_that_nothing_heeds_are_refused() {
        let refused = |system: System, change: fn(&mut Options)| {
            let mut options = Options { systems: vec![system], ..Options::default() };
            change(&mut options);
            ignored(options.check())
        };
        let datagram = |it: &mut Options| it.datagram_bytes = Some(1_472);
        let timeout = |it: &mut Options| it.timeout = Duration::from_secs(1);
        let default = |it: &mut Options| it.timeout = Duration::from_millis(500);
        assert_eq!(refused(System::Tcp(None), datagram), Some("--datagram"));
        assert_eq!(refused(System::Tcp(None), timeout), Some("--timeout"));
        assert_eq!(refused(System::Tcp(None), default), None);
        assert_eq!([refused(System::Udp, datagram), refused(System::Udp, timeout)], [None; 2]);
        assert_eq!(refused(System::Udt(None), datagram), None, "it sets the size of UDT's packets");
        assert_eq!(refused(System::Udt(None), timeout), Some("--timeout"));
        assert_eq!(refused(System::Udp.through(Layer::Framed), |_| {}), Some("--layers"));
        assert_eq!(refused(System::Shm.through(Layer::Announced), |_| {}), None);
    }

    #[test]
    fn a_datagram_fills_the_path_and_holds_its_head() {
        let options = Options::default();
        let [v4, v6] = ["192.0.2.7:1", "[2001:db8::1]:1"].map(|text| text.parse().unwrap());
        assert_eq!(options.piece_bytes(Some(1_500), &v4), 1_500 - 28 - 24);
        assert_eq!(options.piece_bytes(Some(9_000), &v6), 9_000 - 48 - 24);
        assert_eq!(options.piece_bytes(Some(65_536), &v4), 65_507 - 24);
        let told = Options { datagram_bytes: Some(25), ..options };
        assert_eq!(told.piece_bytes(Some(1_500), &v4), 1);
    }
}
