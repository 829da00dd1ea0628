//! Options of a multicast measurement; the server gets and checks those of its flow ([`crate::throughput`]).

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;
use probe::flow::STAMP_BYTES;

use crate::notation::{size, time};
use crate::options::{
    LARGEST_DATAGRAM_BYTES, OptionsError, check_buffer, check_group, check_repeats, defaults, in_range,
};
use crate::throughput::{MOST_DELAYS, Rate};

/// Options of a multicast measurement. The default is a thousand small datagrams per second to three members, three
/// times, because a single figure has no spread.
#[derive(Args, Clone, PartialEq, Debug)]
#[group(skip)]
pub struct Options {
    /// Multicast group [default: 239.84.7.2, or ff15::84:7:2 over IPv6].
    #[arg(long, value_name = "GROUP")]
    pub group: Option<IpAddr>,
    /// Number of receivers at the other end.
    #[arg(long, value_name = "COUNT", default_value = "3")]
    pub receivers: u32,
    /// Sending rate: 1000pps, 100M.
    #[arg(short = 'b', long = "bitrate", value_name = "RATE", default_value = "1000pps")]
    pub rate: Rate,
    /// Bytes in a datagram.
    #[arg(short = 'l', long = "length", value_name = "SIZE", default_value = "1000", value_parser = size)]
    pub payload_bytes: usize,
    /// Receive buffers [default: the system's].
    #[arg(short = 'w', long = "window", value_name = "SIZE", value_parser = size)]
    pub buffer_bytes: Option<usize>,
    /// Duration of a run: seconds, or a duration such as 500ms.
    #[arg(short = 't', long = "time", visible_alias = "duration", value_name = "TIME", default_value = "5", value_parser = time)]
    pub duration: Duration,
    /// Number of runs.
    #[arg(long = "repeat", value_name = "COUNT", default_value = "3")]
    pub repeats: u32,
    /// The client's address, which all traffic uses.
    #[arg(skip)]
    pub from: Option<IpAddr>,
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
        check_group(self.group)?;
        in_range("--receivers", self.receivers, 1..=64)?;
        // Shorter ones have no room for their sending time.
        let payload = STAMP_BYTES as u128..=LARGEST_DATAGRAM_BYTES as u128;
        in_range("-l in bytes", self.payload_bytes as u128, payload)?;
        check_repeats(self.repeats)?;
        in_range("-t in ms", self.duration.as_millis(), 10..=86_400_000)?;
        check_buffer("-w in bytes", self.buffer_bytes)?;
        let bits = u128::from(self.rate.bits_per_second(self.payload_bytes));
        if bits == 0 {
            return Err(OptionsError::NoRate);
        }
        let in_run = bits * self.duration.as_millis() / (self.payload_bytes as u128 * 8_000);
        let delays = in_run * u128::from(self.receivers);
        in_range("the datagrams of a run times --receivers", delays, 0..=MOST_DELAYS as u128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::bounds;

    fn group(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn both_ends_of_every_range() {
        bounds! {
            payload_bytes: [28, 65_507], not [27, 65_508];
            receivers: [64], not [0, 65];
            group: [None, group("224.0.0.0"), group("ff15::1")], not [group("127.0.0.1"), group("fe80::1")];
            rate: [Rate::Units(1)], not [Rate::Bits(0), Rate::Units(0)];
            // 1,000 per second for 5,333 s to 3 members are 15,999,000 latencies.
            duration: [Duration::from_secs(5_333)], not [Duration::from_secs(5_334)];
        }
    }
}
