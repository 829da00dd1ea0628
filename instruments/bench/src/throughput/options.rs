//! Options of a throughput measurement; both ends check them, since a server does not trust its clients.

use std::net::IpAddr;
use std::time::Duration;

use clap::ValueEnum;
use probe::flow::FlowRate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::MAX_TRAIN_BYTES;

use crate::cpu_load::{CpuLoad, LARGEST_SHARE_PPM, MOST_LOAD_THREADS};
use crate::options::{
    LARGEST_DATAGRAM_BYTES, OptionsError, check_buffer, check_effects, check_group, check_repeats, in_range,
};

/// Payload of a packet of 1,500 bytes, the MTU of most networks, with the headers of IPv4 and UDP.
const USUAL_DATAGRAM_BYTES: usize = 1_472;
/// Length of the stream protocol's header in a datagram.
const STREAM_HEADER_BYTES: usize = wire::DATA_HEADER_BYTES;
/// Last number of the usual groups of this measurement.
pub(super) const GROUP_KIND: u8 = 1;
/// Minimum sample bytes of a stream's datagram.
const LEAST_STREAM_BYTES: usize = wire::MIN_DATA_BYTES - STREAM_HEADER_BYTES;
/// Default size of a call of TCP, as in iperf3.
const USUAL_BLOCK_BYTES: usize = 128 << 10;
const LARGEST_BLOCK_BYTES: usize = 1 << 20;

/// Default rate of datagrams, as in iperf3; a test must not flood by accident.
const USUAL_DATAGRAM_RATE: Rate = Rate::Bits(1_000_000);
/// Default rate of empty datagrams, which have no bit rate.
const USUAL_EMPTY_RATE: Rate = Rate::Units(1_000);

/// Maximum number of delays that are kept in a run, over all its receivers: 8 bytes each.
pub(crate) const MOST_DELAYS: usize = 16_000_000;

/// Maximum number of intervals of a run: one per second for a day.
const MOST_INTERVALS: u128 = 86_400;

/// Options of a throughput measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Transport of the data.
    pub protocol: Protocol,
    /// Direction of the data.
    pub ways: Ways,
    /// Parallel flows in each direction.
    pub streams: u32,
    /// Receivers of each flow; more than one only over multicast.
    pub receivers: u32,
    /// Group address of multicast; if none is given, the usual one of the server's IP version.
    pub group: Option<IpAddr>,
    /// Rate of each flow; by default as fast as possible over TCP, and slow for datagrams.
    pub rate: Option<Rate>,
    /// Bytes in a datagram or in one call; by default the usual size of the transport.
    pub payload_bytes: Option<usize>,
    /// Socket buffers; by default the system's.
    pub buffer_bytes: Option<usize>,
    /// The send buffer of datagrams, if it differs.
    pub send_buffer_bytes: Option<usize>,
    /// CPU load to apply on the server's host during the runs.
    pub load: Option<CpuLoad>,
    /// Measured duration of a run.
    pub duration: Duration,
    /// Unmeasured duration before that.
    pub omit: Duration,
    /// Length of an interval.
    pub interval: Duration,
    /// Number of runs.
    pub repeats: u32,
    /// The processor of the client's threads.
    pub client_cpu: Option<usize>,
    /// The processor of the server's threads.
    pub server_cpu: Option<usize>,
    /// The client's address, which all traffic uses.
    pub from: Option<IpAddr>,
    /// The congestion control of TCP; by default the system's.
    pub congestion_control: Option<String>,
    /// Permission to fragment datagrams.
    pub fragments: Fragments,
    /// True if datagrams leave in trains, which the kernel handles as one (`UDP_SEGMENT`).
    pub gso: bool,
    /// True if trains are received whole (`UDP_GRO`).
    pub gro: bool,
    /// True if streams are secured with the keys of the stations of both ends.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub secured: bool,
    /// True if the receivers of datagrams keep every delay, for its percentiles.
    pub delay_percentiles: bool,
}

/// Transport of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Datagrams to one receiver.
    #[value(help = "Datagrams")]
    Udp,
    /// TCP connections.
    #[value(help = "A connection")]
    Tcp,
    /// A stream of this system, from its publisher to one subscriber.
    #[value(help = "A Tallycast stream")]
    Stream,
    /// Datagrams to all members of a group.
    #[value(skip)]
    Multicast,
    /// A stream of this system, to all members of a group.
    #[value(skip)]
    StreamMulticast,
}

impl Protocol {
    /// Returns whether a flow may have several receivers.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        matches!(self, Self::Multicast | Self::StreamMulticast)
    }

    /// Returns whether the stream protocol carries the data.
    #[must_use]
    pub const fn is_stream(self) -> bool {
        matches!(self, Self::Stream | Self::StreamMulticast)
    }
}

/// Directions of the data of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ways {
    /// The client sends.
    Forward,
    /// The server sends.
    Reverse,
    /// Both send.
    Both,
}

/// Direction of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From the client to the server.
    Forward,
    /// From the server to the client.
    Reverse,
}

/// Rate of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Bits of payload per second; 0 is as fast as possible.
    Bits(u64),
    /// Datagrams, or calls, per second; 0 is as fast as possible.
    Units(u64),
}

/// Permission to fragment datagrams that are larger than the path MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fragments {
    /// The system's default.
    Allowed,
    /// Datagrams that are too large are refused.
    Forbidden,
}

impl Default for Options {
    /// One TCP connection from the client to the server, as in iperf3; three times, because a single figure has
    /// no spread.
    fn default() -> Self {
        Self {
            protocol: Protocol::Tcp,
            ways: Ways::Forward,
            streams: 1,
            receivers: 1,
            group: None,
            rate: None,
            payload_bytes: None,
            buffer_bytes: None,
            send_buffer_bytes: None,
            load: None,
            duration: Duration::from_secs(10),
            omit: Duration::ZERO,
            interval: Duration::from_secs(1),
            repeats: 3,
            client_cpu: None,
            server_cpu: None,
            from: None,
            congestion_control: None,
            fragments: Fragments::Allowed,
            // As in iperf3, so that figures can be compared.
            gso: false,
            gro: false,
            secured: false,
            delay_percentiles: false,
        }
    }
}

impl Options {
    /// Checks every option.
    ///
    /// # Errors
    /// [`OptionsError`] names the first invalid option.
    pub fn check(&self) -> Result<(), OptionsError> {
        in_range("-P", self.streams, 1..=128)?;
        in_range("--receivers", self.receivers, 1..=64)?;
        // Each has a socket and a receive area of up to 4 MiB.
        in_range("-P times --receivers", u128::from(self.streams) * u128::from(self.receivers), 1..=256)?;
        check_repeats(self.repeats)?;
        in_range("-t in ms", self.duration.as_millis(), 10..=86_400_000)?;
        in_range("-O in ms", self.omit.as_millis(), 0..=600_000)?;
        in_range("-i in ms", self.interval.as_millis(), 10..=86_400_000)?;
        let intervals = (self.duration + self.omit).as_millis() / self.interval.as_millis();
        in_range("the number of intervals", intervals, 0..=MOST_INTERVALS)?;
        check_buffer("a socket buffer in bytes", self.buffer_bytes)?;
        check_buffer("a socket buffer in bytes", self.send_buffer_bytes)?;
        if let Some(load) = self.load {
            in_range("--cpu-load in millionths", load.share_ppm, 0..=LARGEST_SHARE_PPM.into())?;
            in_range("--cpu-load-workers", load.workers.unwrap_or(1), 1..=MOST_LOAD_THREADS.into())?;
        }
        if let Some(bytes) = self.payload_bytes {
            let range = match self.protocol {
                Protocol::Tcp => 1..=LARGEST_BLOCK_BYTES as u128,
                Protocol::Udp | Protocol::Multicast => 0..=LARGEST_DATAGRAM_BYTES as u128,
                Protocol::Stream | Protocol::StreamMulticast => {
                    LEAST_STREAM_BYTES as u128..=(LARGEST_DATAGRAM_BYTES - self.stream_header_bytes()) as u128
                }
            };
            in_range("-l in bytes", bytes as u128, range)?;
        }
        if self.payload_bytes == Some(0) && matches!(self.rate, Some(Rate::Bits(1..))) {
            return Err(OptionsError::EmptyBits);
        }
        check_group(self.group)?;
        self.check_effects()
    }

    /// Refuses options that would be ignored.
    fn check_effects(&self) -> Result<(), OptionsError> {
        let (is_tcp, is_stream) = (self.protocol == Protocol::Tcp, self.protocol.is_stream());
        let (several, congestion) = (self.receivers > 1, self.congestion_control.is_some());
        let is_whole = self.fragments == Fragments::Forbidden;
        let no_train = self.payload_bytes.is_some_and(|bytes| !(1..=MAX_TRAIN_BYTES / 2).contains(&bytes));
        check_effects(&[
            (self.secured && !is_stream, "--secured", "without a stream", "add --stream"),
            (several && !self.protocol.is_multicast(), "--receivers", "without multicast", "add --multicast"),
            (congestion && !is_tcp, "-C", "without TCP", "measure TCP"),
            (is_whole && is_tcp, "--dont-fragment", "with TCP, which never fragments", "add -u"),
            (is_whole && is_stream, "--dont-fragment", "with a stream", "take the size of datagrams with -l"),
        ])?;
        for (option, is_on) in [("--gso", self.gso), ("--gro", self.gro)] {
            let size = "take a size from 1 to 32753 with -l";
            check_effects(&[
                (is_on && is_stream, option, "with a stream, which uses trains in any case", "add -u"),
                (is_on && is_tcp, option, "with TCP, whose trains are the system's", "add -u"),
                (is_on && no_train, option, "with datagrams of which no train holds two", size),
            ])?;
        }
        Ok(())
    }

    /// Returns the directions of the data.
    #[must_use]
    pub const fn ways(&self) -> &'static [Way] {
        match self.ways {
            Ways::Forward => &[Way::Forward],
            Ways::Reverse => &[Way::Reverse],
            Ways::Both => &[Way::Forward, Way::Reverse],
        }
    }

    /// Returns the bytes of a unit on a path whose packets have room for this payload.
    #[must_use]
    pub fn unit_bytes(&self, room_bytes: Option<usize>) -> usize {
        let fits = room_bytes.unwrap_or(USUAL_DATAGRAM_BYTES);
        self.payload_bytes.unwrap_or(match self.protocol {
            Protocol::Tcp => USUAL_BLOCK_BYTES,
            Protocol::Udp | Protocol::Multicast => fits.clamp(1, USUAL_DATAGRAM_BYTES),
            // The payload of a datagram of the same size.
            Protocol::Stream | Protocol::StreamMulticast => {
                let samples = fits.min(USUAL_DATAGRAM_BYTES).saturating_sub(self.stream_header_bytes());
                samples.max(LEAST_STREAM_BYTES)
            }
        })
    }

    /// Returns what a datagram of a stream has beside its samples.
    pub(super) const fn stream_header_bytes(&self) -> usize {
        STREAM_HEADER_BYTES + if self.secured { wire::SECURED_DATA_BYTES } else { 0 }
    }

    /// Returns the rate of each flow.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate.unwrap_or(match (self.protocol, self.payload_bytes) {
            (Protocol::Tcp, _) => Rate::Bits(0),
            (_, Some(0)) => USUAL_EMPTY_RATE,
            _ => USUAL_DATAGRAM_RATE,
        })
    }

    /// Returns the duration of a run, the unmeasured part included.
    #[must_use]
    pub fn run_time(&self) -> Duration {
        self.omit + self.duration
    }

    /// Returns the ends of intervals, since the beginning of a run. The unmeasured part has its own intervals.
    #[must_use]
    pub fn marks(&self) -> Vec<Duration> {
        let part = |from: Duration, length: Duration| {
            let whole = u32::try_from(length.as_nanos() / self.interval.as_nanos()).unwrap_or(u32::MAX);
            let marks = (1..=whole).map(move |count| from + self.interval * count);
            let rest = (self.interval * whole < length).then_some(from + length);
            marks.chain(rest)
        };
        part(Duration::ZERO, self.omit).chain(part(self.omit, self.duration)).collect()
    }
}

/// Returns the payload of datagrams as large as UDP's with `datagram_bytes`: less with another header.
#[must_use]
pub const fn payload_of_datagram(protocol: Protocol, datagram_bytes: usize) -> usize {
    if protocol.is_stream() { datagram_bytes.saturating_sub(STREAM_HEADER_BYTES) } else { datagram_bytes }
}

impl Rate {
    /// Returns the payload bits per second for units of `unit_bytes`; 0 is as fast as possible.
    #[must_use]
    pub const fn bits_per_second(self, unit_bytes: usize) -> u64 {
        match self {
            Self::Bits(bits) => bits,
            Self::Units(units) => units.saturating_mul(unit_bytes as u64 * 8),
        }
    }

    /// Returns the timetable of units of `unit_bytes`.
    #[must_use]
    pub fn of_units(self, unit_bytes: usize) -> FlowRate {
        match self {
            Self::Bits(bits) => FlowRate::of_bits(bits, unit_bytes as u64),
            Self::Units(units) => FlowRate::of_units(units),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp() -> Options {
        Options { protocol: Protocol::Udp, ..Options::default() }
    }

    fn stream() -> Options {
        Options { protocol: Protocol::Stream, ..Options::default() }
    }

    #[test]
    fn the_limits_of_a_payload_are_those_of_the_protocol() {
        for (options, bytes, is_fine) in [
            (udp(), 0, true),
            (udp(), 65_507, true),
            (udp(), 65_508, false),
            (stream(), 19, false),
            (stream(), 20, true),
            (stream(), 65_427, true),
            (stream(), 65_428, false),
            (Options::default(), 0, false),
            (Options::default(), 1 << 20, true),
            (Options::default(), (1 << 20) + 1, false),
        ] {
            let options = Options { payload_bytes: Some(bytes), ..options };
            assert_eq!(options.check().is_ok(), is_fine, "{bytes} of {:?}", options.protocol);
        }
    }

    #[test]
    fn empty_datagrams_are_counted_not_weighed() {
        let empty = Options { payload_bytes: Some(0), ..udp() };
        assert_eq!((empty.check(), empty.rate()), (Ok(()), Rate::Units(1_000)));
        let weighed = Options { rate: Some(Rate::Bits(5)), ..empty };
        assert_eq!(weighed.check(), Err(OptionsError::EmptyBits));
        assert_eq!(udp().rate(), Rate::Bits(1_000_000));
        assert_eq!(Options::default().rate(), Rate::Bits(0));
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        let refused = |options: Options| options.check().unwrap_err().to_string();
        assert!(refused(Options { receivers: 2, ..udp() }).contains("add --multicast"));
        let cubic = Some("cubic".to_owned());
        assert!(refused(Options { congestion_control: cubic, ..udp() }).contains("-C has no effect"));
        let whole = Options { fragments: Fragments::Forbidden, ..Options::default() };
        assert!(refused(whole).contains("add -u"));
        assert!(refused(Options { gro: true, ..stream() }).contains("--gro has no effect with a stream"));
        assert!(refused(Options { receivers: 2, ..stream() }).contains("add --multicast"));
        assert!(refused(Options { secured: true, ..udp() }).contains("--secured has no effect"));
        assert!(
            refused(Options { gso: true, ..Options::default() }).contains("--gso has no effect with TCP")
        );
        let size = |bytes| Options { gro: true, payload_bytes: Some(bytes), ..udp() };
        assert!(
            refused(size(0)).contains("--gro has no effect")
                && refused(size(32_754)).contains("from 1 to 32753")
        );
        assert_eq!((size(1).check(), size(32_753).check()), (Ok(()), Ok(())));
        assert!(
            refused(Options { group: Some([127, 0, 0, 1].into()), ..udp() })
                .contains("not a multicast group")
        );
    }

    #[test]
    fn intervals_begin_anew_after_what_is_omitted_and_the_last_may_be_short() {
        let millis = Duration::from_millis;
        let options =
            Options { duration: millis(250), omit: millis(150), interval: millis(100), ..Options::default() };
        assert_eq!(options.marks(), [100, 150, 250, 350, 400].map(millis));
        let whole = Options { omit: Duration::ZERO, duration: millis(200), ..options };
        assert_eq!(whole.marks(), [100, 200].map(millis));
    }

    #[test]
    fn a_datagram_fits_the_path_unless_told_otherwise() {
        assert_eq!(udp().unit_bytes(Some(65_508)), 1_472);
        assert_eq!(udp().unit_bytes(Some(1_252)), 1_252);
        assert_eq!((stream().unit_bytes(Some(65_508)), stream().unit_bytes(Some(72))), (1_392, 20));
        assert_eq!(Options { payload_bytes: Some(9_000), ..udp() }.unit_bytes(Some(1_472)), 9_000);
    }
}
