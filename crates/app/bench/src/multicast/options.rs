//! What is sent to a group; both ends check it, since a server believes no client.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use probe::flow::STAMP_BYTES;
use serde::{Deserialize, Serialize};

use crate::range::{OutOfRange, in_range};
use crate::throughput::{LARGEST_DATAGRAM_BYTES, Rate};

/// How many latencies a run may have, over all its members: 8 bytes each are kept until it is summed up.
pub(super) const MOST_LATENCIES: usize = 16_000_000;

/// What is measured, and how.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The group.
    pub group: Ipv4Addr,
    /// How many members it has, at the server.
    pub receivers: u32,
    /// How fast it is sent to.
    pub rate: Rate,
    /// Bytes in a datagram.
    pub payload_bytes: usize,
    /// The members' receive buffers; without it the system's.
    pub buffer_bytes: Option<usize>,
    /// How long a run is.
    pub duration: Duration,
    /// How often the whole is done.
    pub repeats: u32,
    /// The address of the client that everything goes by.
    pub from: Option<IpAddr>,
}

/// Says which option cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A number is out of its range.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// A flood has no latency worth the name.
    #[error(
        "a latency needs a rate: at full speed every queue on the path is full\ngive one with -b, such as -b 1000pps"
    )]
    NoRate,
    /// The group is no group.
    #[error("{0} is not a multicast group\nchoose one from 224.0.0.0 to 239.255.255.255, such as 239.84.7.2")]
    NoGroup(Ipv4Addr),
}

impl Default for Options {
    /// A thousand small datagrams a second to three members; three times, because one figure says nothing of its
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
    /// [`OptionsError`] names the first that cannot be.
    pub fn check(&self) -> Result<(), OptionsError> {
        if !self.group.is_multicast() {
            return Err(OptionsError::NoGroup(self.group));
        }
        in_range("--receivers", self.receivers.into(), 1..=64)?;
        // Shorter ones have no room for the moment at which they were sent.
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
            0..=MOST_LATENCIES as u128,
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
        // 1,000 a second for 5,333 s to 3 members are 15,999,000 latencies.
        assert!(check(|it| it.duration = Duration::from_secs(5_333)));
        assert!(!check(|it| it.duration = Duration::from_secs(5_334)));
    }
}
