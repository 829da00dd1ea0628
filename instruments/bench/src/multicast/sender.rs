//! The sender to a group, or to one reader: paced, numbered, every refusal with its stage.

use std::net::{IpAddr, SocketAddr};

use probe::flow::{Due, FlowRate, FlowSent, Pace, Stamp};
use sys::{Interface, Loopback, OpenError, Outcome, Refusal, SendOptions, SendSocket, SendTechniques, clock};
use units::Instant;

use crate::refusal::stage_of;

/// Send buffer of a socket by default: 208 KiB, which the kernel reports doubled.
const SYSTEM_SEND_BUFFER_BYTES: usize = 106_496;

pub(crate) struct Sender {
    socket: SendSocket,
    to: SocketAddr,
    run: u32,
    datagram: Vec<u8>,
    sent: FlowSent,
    refusal: Option<Refusal>,
}

impl Sender {
    pub(crate) fn open(
        to: SocketAddr,
        local: IpAddr,
        run: u32,
        payload_bytes: usize,
    ) -> Result<Self, OpenError> {
        let socket = SendSocket::open(&SendOptions {
            destination: to,
            interface: Interface::find(&local.to_string()).ok(),
            ttl: 1,
            loopback: Loopback::On,
            buffer_bytes: SYSTEM_SEND_BUFFER_BYTES,
            techniques: SendTechniques { gso: false, ..SendTechniques::default() },
        })?;
        let datagram = vec![0; payload_bytes];
        Ok(Self { socket, to, run, datagram, sent: FlowSent::default(), refusal: None })
    }

    /// Sends by the rate until the end, or until `is_to_end`; returns the number of datagrams that a stall kept
    /// from being sent. The first datagram is sent in any case: a thread may be scheduled only after the end,
    /// and a run in which nothing was sent says nothing.
    pub(crate) fn send(&mut self, rate: FlowRate, end: Instant, is_to_end: &dyn Fn() -> bool) -> u64 {
        let mut pace = Pace::new(rate, clock::monotonic().min(end));
        let before = self.sent.numbered;
        loop {
            let now = clock::monotonic();
            if is_to_end() || (now >= end && self.sent.numbered > before) {
                return pace.skipped();
            }
            match pace.due(now.min(end)) {
                Due::At(moment) => clock::sleep_until(moment.min(end)),
                Due::Now(count) => {
                    (0..count).for_each(|_| self.send_one());
                    pace.hand(count);
                }
            }
        }
    }

    /// Sends the next datagram. One that finds no room is refused: it must not leave later than its stamp says.
    fn send_one(&mut self) {
        let stamp = Stamp { run: self.run, flow: 0, number: self.sent.numbered, sent: clock::monotonic() };
        stamp.write(&mut self.datagram);
        self.sent.numbered += 1;
        match self.socket.send_batch(&[&self.datagram[..]], self.to).first() {
            Some(Outcome::Refused(refusal)) => {
                self.sent.refused[stage_of(*refusal)] += 1;
                self.refusal = Some(*refusal);
            }
            Some(Outcome::Sent) | None => self.sent.bytes += self.datagram.len() as u64,
        }
    }

    pub(crate) const fn sent(&self) -> &FlowSent {
        &self.sent
    }

    /// Returns a note on refused datagrams, if there were any.
    pub(crate) fn note(&self) -> Option<String> {
        let total = self.sent.refused.total();
        let remedy = "lower the rate with -b, or see `ip route get` and the firewall";
        self.refusal
            .map(|last| format!("{total} datagrams to {} were refused; the last: {last}\n{remedy}", self.to))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_sender_that_comes_late_sends_what_is_due_first_and_ends() {
        let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = reader.local_addr().unwrap();
        let end = clock::monotonic();
        let mut sender = Sender::open(to, to.ip(), 1, 100).unwrap();
        for (is_wanted, sent) in [(false, 0), (true, 1), (true, 2)] {
            let skipped = sender.send(FlowRate::of_units(10), end, &|| !is_wanted);
            assert_eq!((skipped, sender.sent().numbered), (0, sent));
        }
        // The sender waits for an end in the future.
        let end = clock::monotonic() + Duration::from_millis(20);
        sender.send(FlowRate::of_units(10), end, &|| false);
        assert!(clock::monotonic() >= end);
    }
}
