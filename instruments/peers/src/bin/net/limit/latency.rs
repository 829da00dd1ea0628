//! Delays through the bare sockets: a datagram goes to the other side and back, and half of that time is one way.

use std::net::{SocketAddrV4, UdpSocket};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use peers::place::Place;
use peers::process::{end_with_leader, tell};
use serde::{Deserialize, Serialize};

/// Message size: the minimum of sockperf. Units: bytes.
const MESSAGE_BYTES: usize = 14;
/// Number of round trips before the measured ones, to warm caches and clocks.
const WARM_UP: u32 = 1_000;

/// Waiting mode of a side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Waiting {
    /// Asleep in the system call.
    Blocking,
    /// Polling continuously.
    Spinning,
}

/// Settings that both sides share.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Ping {
    reader: SocketAddrV4,
    waiting: Waiting,
    seconds: f64,
}

impl Ping {
    pub(crate) fn new(place: &Place, waiting: Waiting, seconds: f64) -> Self {
        Self { reader: SocketAddrV4::new(place.reader, place.port), waiting, seconds }
    }
}

/// Sends datagrams, each after the previous one has returned.
pub(crate) fn ping(ping: Ping) -> Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(ping.reader)?;
    ping.waiting.prepare(&socket)?;
    let mut bytes = [0; MESSAGE_BYTES];
    let mut delays = Vec::new();
    let began = Instant::now();
    let mut count = 0_u32;
    while began.elapsed().as_secs_f64() < ping.seconds {
        count += 1;
        bytes[..4].copy_from_slice(&count.to_le_bytes());
        let sent = Instant::now();
        socket.send(&bytes)?;
        ping.waiting.receive(|| socket.recv(&mut bytes))?;
        let one_way_us = sent.elapsed().as_secs_f64() * 1e6 / 2.0;
        ensure!(bytes[..4] == count.to_le_bytes(), "the datagram that returned is not the one that was sent");
        if count > WARM_UP {
            delays.push(one_way_us);
        }
    }
    tell("delays", &delays)
}

/// Sends datagrams back until this process is ended.
pub(crate) fn pong(ping: Ping) -> Result<()> {
    let socket = UdpSocket::bind(ping.reader).with_context(|| format!("cannot bind {}", ping.reader))?;
    ping.waiting.prepare(&socket)?;
    end_with_leader();
    tell("ready", &())?;
    let mut bytes = [0; MESSAGE_BYTES];
    loop {
        let (size_bytes, from) = ping.waiting.receive(|| socket.recv_from(&mut bytes))?;
        socket.send_to(&bytes[..size_bytes], from)?;
    }
}

impl Waiting {
    fn prepare(self, socket: &UdpSocket) -> Result<()> {
        Ok(socket.set_nonblocking(self == Self::Spinning)?)
    }

    /// Waits until something arrives.
    fn receive<T>(self, mut receive: impl FnMut() -> std::io::Result<T>) -> Result<T> {
        loop {
            match receive() {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                received => return Ok(received?),
            }
        }
    }
}
