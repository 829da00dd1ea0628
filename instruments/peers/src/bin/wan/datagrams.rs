//! The source and the reader of systems that carry datagrams: each datagram has a number and the time at which it was
//! handed over.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use peers::process::{stand_by, tell};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Datagrams a second.
pub(crate) const RATE: u32 = 1_000;
/// Size of a datagram: seven packets of a transport stream, for which SRT and RIST were made. Units: bytes.
pub(crate) const SIZE_BYTES: usize = 1_316;
/// Silence after which nothing more is expected.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// Order to the source.
#[derive(Serialize, Deserialize)]
pub(crate) struct Sending {
    /// Port of the system, or of the bus, on the source's loopback.
    pub(crate) port: u16,
    /// Duration. Units: seconds.
    pub(crate) seconds: f64,
}

/// Order to the reader.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reading {
    /// Port to which the system delivers, on the reader's loopback.
    pub(crate) port: u16,
    /// Port of the bus there.
    pub(crate) bus_port: u16,
}

/// Returns the monotonic clock of this host, the same in all its namespaces. Units: nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    #[expect(clippy::cast_sign_loss, reason = "the clock begins at zero")]
    let ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    ns
}

/// Hands over datagrams at the rate; tells how many.
pub(crate) fn source(order: Sending) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect((Ipv4Addr::LOCALHOST, order.port))?;
    stand_by()?;
    let mut datagram = [0; SIZE_BYTES];
    let count = each_due(order.seconds, |number| {
        datagram[..8].copy_from_slice(&number.to_le_bytes());
        datagram[8..16].copy_from_slice(&now_ns().to_le_bytes());
        socket.send(&datagram).map(drop).context("the system does not listen")
    })?;
    tell("sent", &count)
}

/// Calls `send` with ascending numbers at the rate; returns how many there were.
pub(crate) fn each_due(seconds: f64, mut send: impl FnMut(u64) -> Result<()>) -> Result<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a run")]
    let count = (seconds * f64::from(RATE)) as u64;
    let (began, interval) = (now_ns(), 1_000_000_000 / u64::from(RATE));
    for number in 0..count {
        let due = began + number * interval;
        std::thread::sleep(Duration::from_nanos(due.saturating_sub(now_ns())));
        send(number)?;
    }
    Ok(count)
}

/// Takes datagrams until there are no more; tells their delays. Units: microseconds.
pub(crate) fn reader(order: Reading) -> Result<()> {
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, order.port)))?;
    stand_by()?;
    socket.set_read_timeout(Some(SILENCE))?;
    let mut buffer = [0; 65_536];
    let mut delays = BTreeMap::new();
    while let Ok(size) = socket.recv(&mut buffer) {
        let arrival = now_ns();
        ensure!(size % SIZE_BYTES == 0, "{size} bytes are not whole datagrams");
        for datagram in buffer[..size].chunks_exact(SIZE_BYTES) {
            let field = |at: usize| u64::from_le_bytes(datagram[at..at + 8].try_into().expect("8 bytes"));
            delays.entry(field(0)).or_insert(arrival.saturating_sub(field(8)) as f64 / 1e3);
        }
    }
    tell("delays", &delays.into_values().collect::<Vec<f64>>())
}
