//! The sender to a group, or to one reader: paced, numbered, every refusal with its stage.

use std::net::{IpAddr, SocketAddr};

use probe::flow::{Due, FlowRate, FlowSent, Pace, Stamp};
use sys::{Interface, Loopback, OpenError, Outcome, Refusal, SendOptions, SendSocket, SendTechniques, clock};
use units::Instant;

use crate::refusal::stage_of;

/// What the kernel gives a socket that asks for none: 208 KiB, told doubled.
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

    /// Sends by the rate until the end, or until nobody wants it any more; returns how many a stall kept from being sent.
    pub(crate) fn send(&mut self, rate: FlowRate, end: Instant, is_to_end: &dyn Fn() -> bool) -> u64 {
        let mut pace = Pace::new(rate, clock::monotonic());
        loop {
            let now = clock::monotonic();
            if now >= end || is_to_end() {
                return pace.skipped();
            }
            match pace.due(now) {
                Due::At(moment) => clock::sleep_until(moment.min(end)),
                Due::Now(count) => {
                    (0..count).for_each(|_| self.send_one());
                    pace.hand(count);
                }
            }
        }
    }

    /// Sends the next datagram. One that finds no room is refused: it is not to leave later than it says.
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

    /// Says what was refused, if anything was.
    pub(crate) fn note(&self) -> Option<String> {
        let total = self.sent.refused.total();
        let remedy = "lower the rate with -b, or see `ip route get` and the firewall";
        self.refusal
            .map(|last| format!("{total} datagrams to {} were refused; the last: {last}\n{remedy}", self.to))
    }
}
