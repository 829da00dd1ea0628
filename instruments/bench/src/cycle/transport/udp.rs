//! Datagrams over the loopback interface: from one process to the other, without a network interface card.

use std::net::{Ipv4Addr, SocketAddr};

use sys::{Outcome, ReceiveOptions, ReceiveTechniques, SendOptions, SendSocket, SendTechniques};
use units::Instant;

use super::{Opened, ReceiveEnd, SendEnd, Task, TransportError};
use flow::udp::{self, said_if_clamped};

/// The send buffer: loopback empties it with every call, so it need only hold one datagram of the largest size.
const SEND_BUFFER_BYTES: usize = 1 << 20;

struct Sender {
    socket: SendSocket,
    to: SocketAddr,
}

struct Receiver(udp::Receiver);

pub(super) fn open_send(task: &Task) -> Result<Opened<dyn SendEnd>, TransportError> {
    let to: SocketAddr =
        task.endpoint.parse().map_err(|_| TransportError::Endpoint(task.endpoint.clone()))?;
    let socket = SendSocket::open(&SendOptions {
        buffer_bytes: SEND_BUFFER_BYTES,
        techniques: SendTechniques::default(),
        ..udp::to(to)
    })?;
    let notes = said_if_clamped(socket.granted_buffer()).into_iter().collect();
    Ok(Opened { end: Box::new(Sender { socket, to }), endpoint: task.endpoint.clone(), notes })
}

pub(super) fn open_receive(task: &Task) -> Result<Opened<dyn ReceiveEnd>, TransportError> {
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let options = ReceiveOptions {
        techniques: ReceiveTechniques { gro: false, ..ReceiveTechniques::default() },
        ..ReceiveOptions::at(address, task.buffer_bytes)
    };
    let receiver = udp::Receiver::open(&options, task.unit_bytes)?;
    let notes = said_if_clamped(receiver.buffer()).into_iter().collect();
    Ok(Opened { endpoint: receiver.address().to_string(), end: Box::new(Receiver(receiver)), notes })
}

impl SendEnd for Sender {
    fn send(&mut self, pieces: &[&[u8]]) -> Result<u64, TransportError> {
        let outcomes = self.socket.send_batch(pieces, self.to);
        Ok(outcomes.iter().filter(|outcome| **outcome != Outcome::Sent).count() as u64)
    }
}

impl ReceiveEnd for Receiver {
    fn receive(&mut self, until: Instant, take: &mut dyn FnMut(&[u8])) -> Result<u64, TransportError> {
        let mut taken = self.take_batch(take)?;
        if taken == 0 {
            self.0.wait(until)?;
            taken = self.take_batch(take)?;
        }
        Ok(taken)
    }

    fn dropped(&self) -> Option<u64> {
        self.0.drops()
    }
}

impl Receiver {
    fn take_batch(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<u64, TransportError> {
        self.0.take()?;
        let datagrams = self.0.batch.iter();
        let received = datagrams.len() as u64;
        datagrams.for_each(|datagram| take(datagram.bytes));
        Ok(received)
    }
}
