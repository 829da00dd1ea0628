//! The sender to a group, or to one reader: paced, numbered, every refusal with its stage.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use probe::flow::{FlowRate, FlowSent, Stamp};
use sys::{Interface, OpenError, Refusal, SendOptions, clock};
use units::Instant;

use crate::flow::udp::{self, LOWER_THE_RATE, Outcomes};
use crate::flow::{self, Paced, Room, Timetable};

pub(crate) struct Sender {
    socket: udp::Sender,
    to: SocketAddr,
    run: u32,
    datagram: Vec<u8>,
    outcomes: Outcomes,
}

impl Sender {
    pub(crate) fn open(
        to: SocketAddr,
        local: IpAddr,
        run: u32,
        payload_bytes: usize,
    ) -> Result<Self, OpenError> {
        let interface = Interface::find(&local.to_string()).ok();
        let socket = udp::Sender::open(&SendOptions { interface, ..udp::to(to) })?;
        Ok(Self { socket, to, run, datagram: vec![0; payload_bytes], outcomes: Outcomes::default() })
    }

    /// Sends by the rate until the end, or until `is_to_end`; returns the number of datagrams that a stall kept
    /// from being sent.
    pub(crate) fn send(&mut self, rate: FlowRate, end: Instant, is_to_end: &dyn Fn() -> bool) -> u64 {
        let timetable = Timetable { start: clock::monotonic().min(end), end, rate };
        flow::send(self, timetable, is_to_end).skipped
    }

    /// Sends the next datagram. One that finds no room is refused: it must not leave later than its stamp says.
    fn send_one(&mut self) {
        let Self { socket, to, run, datagram, outcomes } = self;
        let stamp = Stamp { run: *run, flow: 0, number: outcomes.sent.numbered, sent: clock::monotonic() };
        stamp.write(datagram);
        outcomes.sent.numbered += 1;
        let mut has_room = true;
        socket.send_batch(&[&datagram[..]], *to, outcomes, |_| has_room = false);
        if !has_room {
            outcomes.refuse(Refusal::SocketFull);
        }
    }

    pub(crate) const fn sent(&self) -> &FlowSent {
        &self.outcomes.sent
    }

    /// Returns a note on refused datagrams, if there were any.
    pub(crate) fn note(&self) -> Option<String> {
        // Datagrams have a size that every path takes: no other remedy applies.
        self.outcomes.refused(self.to).map(|refused| format!("{refused}\n{LOWER_THE_RATE}"))
    }
}

impl Paced for Sender {
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
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn each_call_goes_on_with_the_numbers_of_the_last() {
        let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
        reader.set_read_timeout(Some(support::WATCHDOG)).unwrap();
        let to = reader.local_addr().unwrap();
        let end = clock::monotonic();
        let mut sender = Sender::open(to, to.ip(), 1, 100).unwrap();
        for (is_wanted, sent) in [(false, 0), (true, 1), (true, 2)] {
            let skipped = sender.send(FlowRate::of_units(10), end, &|| !is_wanted);
            assert_eq!((skipped, sender.sent().numbered), (0, sent));
        }
        let mut bytes = [0; 200];
        for number in 0..2 {
            let len = reader.recv(&mut bytes).unwrap();
            assert_eq!((len, Stamp::read(&bytes[..len]).unwrap().number), (100, number));
        }
    }
}
