//! Options of a multicast measurement; both ends check them, since a server does not trust its clients.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use probe::flow::STAMP_BYTES;
use serde::{Deserialize, Serialize};

use crate::options::{
    LARGEST_DATAGRAM_BYTES, OptionsError, check_buffer, check_group, check_repeats, in_range,
};
use crate::throughput::{MOST_DELAYS, Rate};

/// Options of a multicast measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The group.
    pub group: Ipv4Addr,
    /// Number of members, at the server.
    pub receivers: u32,
    /// Rate of the sender.
    pub rate: Rate,
    /// Bytes in a datagram.
    pub payload_bytes: usize,
    /// The members' receive buffers; by default the system's.
    pub buffer_bytes: Option<usize>,
    /// Duration of a run.
    pub duration: Duration,
    /// Number of runs.
    pub repeats: u32,
    /// The client's address, which all traffic uses.
    pub from: Option<IpAddr>,
}

impl Default for Options {
    /// A thousand small datagrams per second to three members; three times, because a single figure has no
    /// spread.
    fn default() -> Self {
        Self {
            group: Ipv4Addr::new(239, 84, 7, 2),
            receivers: 3,
            rate: Rate::Units(1_000),
            payload_bytes: 1_000,
            buffer_bytes: None,
            duration: Duration::from_secs(5),
            repeats: 3,
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

    #[test]
    fn both_ends_of_every_range() {
        bounds! {
            payload_bytes: [28, 65_507], not [27, 65_508];
            receivers: [64], not [0, 65];
            group: [Ipv4Addr::new(224, 0, 0, 0)], not [Ipv4Addr::LOCALHOST];
            rate: [Rate::Units(1)], not [Rate::Bits(0), Rate::Units(0)];
            // 1,000 per second for 5,333 s to 3 members are 15,999,000 latencies.
            duration: [Duration::from_secs(5_333)], not [Duration::from_secs(5_334)];
        }
    }
}
