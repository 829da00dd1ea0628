//! A paced load for another program's reader: numbered datagrams at a given rate for a limited time.
//!
//! `doctor fix` measures with it where there is no traffic: the same load before and after a change. The reader
//! gets datagrams that it does not know; the caller has to know that it tolerates them.

use std::net::SocketAddr;
use std::time::Duration;

use probe::flow::FlowRate;
use sys::{OpenError, clock};

use crate::multicast::Sender;

/// A sender to one socket of this host.
pub struct Feed {
    sender: Sender,
    rate: FlowRate,
}

/// Counts of the datagrams of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fed {
    /// Datagrams that the host took.
    pub sent: u64,
    /// Datagrams that it refused: no room, a firewall.
    pub refused: u64,
    /// Datagrams never sent, since this process had no processor when they were due.
    pub skipped: u64,
}

impl Feed {
    /// Payload of each datagram: it fits an Ethernet frame.
    pub const PAYLOAD_BYTES: usize = 1_000;
    /// Maximum rate: a single thread cannot keep a higher one.
    pub const MOST_PER_SECOND: u64 = 1_000_000;

    /// Opens a socket that sends `per_second` datagrams per second, at most [`Self::MOST_PER_SECOND`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(to: SocketAddr, per_second: u64) -> Result<Self, OpenError> {
        let sender = Sender::open(to, to.ip(), 0, Self::PAYLOAD_BYTES)?;
        Ok(Self { sender, rate: FlowRate::of_units(per_second.clamp(1, Self::MOST_PER_SECOND)) })
    }

    /// Sends evenly for `time` and never catches up, or until `is_to_end`.
    pub fn send(&mut self, time: Duration, is_to_end: &dyn Fn() -> bool) -> Fed {
        let counts = |sender: &Sender| {
            let sent = sender.sent();
            (sent.numbered, sent.refused.total())
        };
        let before = counts(&self.sender);
        let skipped = self.sender.send(self.rate, clock::monotonic() + time, is_to_end);
        let after = counts(&self.sender);
        let refused = after.1 - before.1;
        Fed { sent: after.0 - before.0 - refused, refused, skipped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn no_more_is_sent_than_is_due_and_all_of_it_is_told() {
        let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
        reader.set_read_timeout(Some(support::WATCHDOG)).unwrap();
        let mut feed = Feed::open(reader.local_addr().unwrap(), 1_000).unwrap();
        let mut received = 0;
        for _ in 0..2 {
            let fed = feed.send(Duration::from_millis(50), &|| false);
            let mut bytes = [0; 2_000];
            assert_eq!(fed.refused, 0);
            for _ in 0..fed.sent {
                assert_eq!(reader.recv(&mut bytes).unwrap(), Feed::PAYLOAD_BYTES);
            }
            assert!((1..=51).contains(&(fed.sent + fed.skipped)), "{fed:?}");
            received += fed.sent;
        }
        assert!(received > 0);
        reader.set_nonblocking(true).unwrap();
        assert!(reader.recv(&mut [0; 2_000]).is_err(), "more came than was told");
        assert_eq!(feed.send(Duration::from_secs(3_600), &|| true), Fed::default());
    }
}
