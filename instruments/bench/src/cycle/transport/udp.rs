//! Datagrams over the loopback interface: from one process to the other, without a network interface card.

use std::net::{Ipv4Addr, SocketAddr};

use sys::{
    Interest, Loopback, Outcome, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket, ReceiveTechniques,
    SendOptions, SendSocket, SendTechniques,
};
use units::Instant;

use super::{Opened, ReceiveEnd, SendEnd, Task, TransportError};

/// The send buffer: loopback empties it with every call, so it need only hold one datagram of the largest size.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// The poller's only descriptor.
const SOCKET: u64 = 0;

struct Sender {
    socket: SendSocket,
    to: SocketAddr,
}

struct Receiver {
    socket: ReceiveSocket,
    batch: ReceiveBatch,
    poller: Poller,
}

pub(super) fn open_send(task: &Task) -> Result<Opened<dyn SendEnd>, TransportError> {
    let to: SocketAddr =
        task.endpoint.parse().map_err(|_| TransportError::Endpoint(task.endpoint.clone()))?;
    let socket = SendSocket::open(&SendOptions {
        destination: to,
        interface: None,
        ttl: 1,
        loopback: Loopback::On,
        buffer_bytes: SEND_BUFFER_BYTES,
        techniques: SendTechniques::default(),
    })?;
    let notes = said_if_clamped(socket.granted_buffer());
    Ok(Opened { end: Box::new(Sender { socket, to }), endpoint: task.endpoint.clone(), notes })
}

pub(super) fn open_receive(task: &Task) -> Result<Opened<dyn ReceiveEnd>, TransportError> {
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let socket = ReceiveSocket::open(&ReceiveOptions {
        techniques: ReceiveTechniques { gro: false, ..ReceiveTechniques::default() },
        ..ReceiveOptions::at(address, task.buffer_bytes)
    })?;
    let (endpoint, notes) = (socket.local_address().to_string(), said_if_clamped(socket.granted_buffer()));
    let poller = Poller::new()?;
    poller.add(&socket, SOCKET, Interest::Read)?;
    let batch = ReceiveBatch::with_slot_bytes(task.unit_bytes);
    Ok(Opened { end: Box::new(Receiver { socket, batch, poller }), endpoint, notes })
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
            self.poller.wait(Some(until))?;
            taken = self.take_batch(take)?;
        }
        Ok(taken)
    }

    fn dropped(&self) -> Option<u64> {
        self.socket.meminfo().ok().map(|info| u64::from(info.drops))
    }
}

impl Receiver {
    fn take_batch(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<u64, TransportError> {
        let received = self.socket.receive_batch(&mut self.batch)?;
        self.batch.iter().for_each(|datagram| take(datagram.bytes));
        Ok(received as u64)
    }
}

fn said_if_clamped(buffer: sys::Buffer) -> Vec<String> {
    if buffer.clamped() { vec![buffer.to_string()] } else { Vec::new() }
}
