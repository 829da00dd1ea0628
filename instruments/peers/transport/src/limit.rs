//! The kernel's UDP with trains at both ends and nothing else: no acknowledgement, no order, no pacing.
//!
//! Lost datagrams are not retransmitted, so the reader's bytes are fewer than the source's.

use std::time::Duration;

use anyhow::Result;
use peers::process;
use sys::{
    Interest, Loopback, Outcome, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket, SendOptions,
    SendSocket, SendTechniques, clock,
};

use crate::Task;
use crate::meter::{Meter, Told};

/// Size of the UDP and IPv4 headers. Units: bytes.
const HEADERS_BYTES: usize = 28;
/// Maximum size of a datagram, or of a train. Units: bytes.
const MOST_BYTES: usize = 65_507;
/// Requested size of the kernel's buffers. Units: bytes.
const KERNEL_BUFFER_BYTES: usize = 8 << 20;
/// Silence after which the reader takes the source to have ended.
const END: Duration = Duration::from_millis(500);

pub(crate) fn send(task: &Task) -> Result<Told> {
    let mut socket = SendSocket::open(&SendOptions {
        destination: task.address,
        interface: None,
        ttl: 1,
        loopback: Loopback::Off,
        buffer_bytes: KERNEL_BUFFER_BYTES,
        techniques: SendTechniques::default(),
    })?;
    socket.connect(task.address)?;
    let mut poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Write)?;
    let segment_bytes = (task.mtu as usize - HEADERS_BYTES).min(MOST_BYTES);
    let train = vec![7_u8; MOST_BYTES / segment_bytes * segment_bytes];
    let mut meter = Meter::begin();
    while meter.goes_on(task) {
        let outcomes = socket.send_train(&train, segment_bytes, task.address);
        let sent = outcomes.iter().filter(|outcome| **outcome == Outcome::Sent).count();
        meter.sent(sent * segment_bytes);
        if sent < outcomes.len() {
            poller.wait(Some(clock::monotonic() + Duration::from_millis(1)))?;
        }
    }
    Ok(meter.of_source(0))
}

pub(crate) fn receive(task: &Task) -> Result<Told> {
    let socket = ReceiveSocket::open(&ReceiveOptions::at(task.address, KERNEL_BUFFER_BYTES))?;
    let mut poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Read)?;
    process::tell("ready", &())?;
    let mut batch = ReceiveBatch::for_trains();
    poller.wait(None)?;
    let mut meter = Meter::begin();
    while meter.silence() < END {
        if socket.receive_batch(&mut batch)? == 0 {
            poller.wait(Some(clock::monotonic() + END))?;
            continue;
        }
        meter.received(batch.iter().map(|received| received.bytes.len()).sum());
    }
    Ok(meter.of_reader())
}
