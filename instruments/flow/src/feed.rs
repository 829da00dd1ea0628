//! A paced load for another program's reader: numbered datagrams at a given rate for a limited time.
//!
//! `doctor fix` measures with it where there is no traffic: the same load before and after a change. The reader
//! gets datagrams that it does not know; the caller has to know that it tolerates them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use probe::flow::{FlowRate, Stamp};
use sys::{Interface, OpenError, Refusal, SendOptions, clock};
use units::Instant;

use crate::udp::{self, Outcomes};
use crate::{Paced, Room, Timetable};

/// A sender to one socket of this host.
pub struct Feed {
    socket: udp::Sender,
    to: SocketAddr,
    rate: FlowRate,
    datagram: [u8; Self::PAYLOAD_BYTES],
    outcomes: Outcomes,
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
        let interface = Interface::find(&to.ip().to_string()).ok();
        let socket = udp::Sender::open(&SendOptions { interface, ..udp::to(to) })?;
        let rate = FlowRate::of_units(per_second.clamp(1, Self::MOST_PER_SECOND));
        Ok(Self { socket, to, rate, datagram: [0; Self::PAYLOAD_BYTES], outcomes: Outcomes::default() })
    }

    /// Sends evenly for `time` and never catches up, or until `is_to_end`.
    pub fn send(&mut self, time: Duration, is_to_end: &dyn Fn() -> bool) -> Fed {
        let counts = |outcomes: &Outcomes| (outcomes.taken, outcomes.sent.refused.total());
        let (taken, refused) = counts(&self.outcomes);
        let (start, rate) = (clock::monotonic(), self.rate);
        let skipped = crate::send(self, Timetable { start, end: start + time, rate }, is_to_end).skipped;
        let after = counts(&self.outcomes);
        Fed { sent: after.0 - taken, refused: after.1 - refused, skipped }
    }

    /// Sends the next datagram. One that finds no room is refused: none leaves later than it is due.
    fn send_one(&mut self) {
        let Self { socket, to, datagram, outcomes, .. } = self;
        let number = outcomes.sent.numbered;
        Stamp { run: 0, flow: 0, number, sent: clock::monotonic() }.write(datagram);
        outcomes.sent.numbered += 1;
        let mut has_room = true;
        socket.send_batch(&[&datagram[..]], *to, outcomes, |_| has_room = false);
        if !has_room {
            outcomes.refuse(Refusal::SocketFull);
        }
    }
}

impl Paced for Feed {
    type Error = Infallible;

    fn send(&mut self, count: u32) -> Result<Room, Infallible> {
        (0..count).for_each(|_| self.send_one());
        Ok(Room::Taken(count))
    }

    fn wait_for_room(&mut self, _until: Instant) -> Result<(), Infallible> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn reader() -> UdpSocket {
        let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
        reader.set_read_timeout(Some(support::WATCHDOG)).unwrap();
        reader
    }

    #[test]
    fn no_more_is_sent_than_is_due_and_all_of_it_is_told() {
        let reader = reader();
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

    #[test]
    fn each_call_goes_on_with_the_numbers_of_the_last() {
        let reader = reader();
        let mut feed = Feed::open(reader.local_addr().unwrap(), 10).unwrap();
        for (is_wanted, sent) in [(false, 0), (true, 1), (true, 1)] {
            let fed = feed.send(Duration::ZERO, &|| !is_wanted);
            assert_eq!(fed, Fed { sent, ..Fed::default() });
        }
        let mut bytes = [0; 2_000];
        for number in 0..2 {
            let len = reader.recv(&mut bytes).unwrap();
            assert_eq!(Stamp::read(&bytes[..len]).unwrap().number, number);
        }
    }
}
