//! Options of a multicast measurement; both ends check them, since a server does not trust its clients.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use probe::flow::STAMP_BYTES;
use serde::{Deserialize, Serialize};

use crate::range::{OutOfRange, in_range};
use crate::throughput::{LARGEST_DATAGRAM_BYTES, MOST_DELAYS, Rate};

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

/// Reasons why an option is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A number is out of its range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// A flood has no meaningful latency.
    #[error(
        "a latency needs a rate: at full speed every queue on the path is full\ngive one with -b, such as -b 1000pps"
    )]
    NoRate,
    /// The address is not a multicast group.
    #[error("{0} is not a multicast group\nchoose one from 224.0.0.0 to 239.255.255.255, such as 239.84.7.2")]
    NoGroup(Ipv4Addr),
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
        if !self.group.is_multicast() {
            return Err(OptionsError::NoGroup(self.group));
        }
        in_range("--receivers", self.receivers.into(), 1..=64)?;
        // Shorter ones have no room for their sending time.
        let payload = STAMP_BYTES as u128..=LARGEST_DATAGRAM_BYTES as u128;
        in_range("-l in bytes", self.payload_bytes as u128, payload)?;
        in_range("--repeat", self.repeats.into(), 1..=10_000)?;
        in_range("-t in ms", self.duration.as_millis(), 10..=86_400_000)?;
        if let Some(bytes) = self.buffer_bytes {
            in_range("-w in bytes", bytes as u128, 1..=1 << 30)?;
        }
        let bits = u128::from(self.rate.bits_per_second(self.payload_bytes));
        if bits == 0 {
            return Err(OptionsError::NoRate);
        }
        let in_run = bits * self.duration.as_millis() / (self.payload_bytes as u128 * 8_000);
        in_range(
            "the datagrams of a run times --receivers",
            in_run * u128::from(self.receivers),
            0..=MOST_DELAYS as u128,
        )?;
        Ok(())
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
        assert!(check(|it| it.payload_bytes = 28) && !check(|it| it.payload_bytes = 27));
        assert!(check(|it| it.payload_bytes = 65_507) && !check(|it| it.payload_bytes = 65_508));
        assert!(check(|it| it.receivers = 64) && !check(|it| it.receivers = 65));
        assert!(!check(|it| it.receivers = 0) && !check(|it| it.group = Ipv4Addr::LOCALHOST));
        assert!(!check(|it| it.rate = Rate::Bits(0)) && !check(|it| it.rate = Rate::Units(0)));
        // 1,000 per second for 5,333 s to 3 members are 15,999,000 latencies.
        assert!(check(|it| it.duration = Duration::from_secs(5_333)));
        assert!(!check(|it| it.duration = Duration::from_secs(5_334)));
    }
}
