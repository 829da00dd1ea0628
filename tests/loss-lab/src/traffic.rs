//! Numbered datagrams in the format of our publishers, and those that did not arrive.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::time::Duration;

use anyhow::bail;
use diagnose::Profile;
use sample::Dtype;
use units::{Epoch, StreamId, WallTime};
use wire::{Clock, Data, Numbered};

use crate::processors::take_backlogs;

/// Numbers that were sent, and those that did not arrive.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    pub(crate) missing: BTreeSet<u64>,
    /// Notes of the class.
    pub(crate) notes: Vec<String>,
    /// Sockets kept open until the doctor has taken its snapshot: closed sockets are not visible.
    pub(crate) sockets: Vec<UdpSocket>,
    /// Maximum number of lost markers: a full queue may drop them, too.
    pub(crate) markers: u64,
}

impl Planted {
    /// Keeps a socket open until the doctor has taken its snapshot.
    pub(crate) fn keep(mut self, socket: UdpSocket) -> Self {
        self.sockets.push(socket);
        self
    }

    /// Compares the numbers sent with those that arrived.
    pub(crate) fn of(sent: Range<u64>, arrived: &BTreeSet<u64>) -> Self {
        let missing = sent.filter(|number| !arrived.contains(number)).collect();
        Self { missing, ..Self::default() }
    }
}

/// Returns a datagram with `payload_bytes` of samples.
pub(crate) fn datagram(number: u64, payload_bytes: usize) -> Vec<u8> {
    let payload = vec![0; payload_bytes];
    let elements = u32::try_from(payload_bytes / 4).expect("a datagram's size");
    let head = Numbered {
        stream: StreamId(0x1ab),
        epoch: Epoch { start_ns: 1, incarnation: 1 },
        number,
        first_index: number,
        element_offset: 0,
        elements_per_sample: elements,
    };
    let (t0, clock, dtype) = (WallTime::from_nanos(0), Clock::Unknown, Dtype::F4);
    let data = Data { head, t0, clock, dtype, element_count: elements, origin: None, payload: &payload };
    let mut bytes = vec![0; data.encoded_bytes()];
    data.encode(&mut bytes).expect("there is room for it");
    bytes
}

/// Default payload size of a datagram of the laboratory.
pub(crate) const PAYLOAD_BYTES: usize = 400;

/// Sends datagrams one by one; those that the host refuses count as lost.
pub(crate) fn send(
    writer: &UdpSocket,
    to: SocketAddr,
    numbers: Range<u64>,
    payload_bytes: usize,
) -> anyhow::Result<()> {
    for number in numbers {
        send_one(writer, &datagram(number, payload_bytes), to)?;
    }
    Ok(())
}

/// Sends a datagram, or a train of them.
pub(crate) fn send_one(writer: &UdpSocket, bytes: &[u8], to: SocketAddr) -> anyhow::Result<()> {
    /// EPERM: a firewall of the sender's own host; ENOBUFS: no room in its queue.
    const REFUSALS: [i32; 2] = [1, 105];
    loop {
        match writer.send_to(bytes, to) {
            Ok(_) => return Ok(()),
            Err(error) if error.raw_os_error().is_some_and(|code| REFUSALS.contains(&code)) => return Ok(()),
            // The socket's own buffer is full: retry.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends trains of `segments` datagrams in one piece each (`UDP_SEGMENT`).
pub(crate) fn send_trains(
    writer: &UdpSocket,
    to: SocketAddr,
    trains: Range<u64>,
    segments: u64,
    payload_bytes: usize,
) -> anyhow::Result<()> {
    let segment_bytes = i32::try_from(datagram(0, payload_bytes).len())?;
    nix::sys::socket::setsockopt(writer, nix::sys::socket::sockopt::UdpGsoSegment, &segment_bytes)?;
    for train in trains {
        let numbers = train * segments..(train + 1) * segments;
        let pieces: Vec<Vec<u8>> = numbers.map(|number| datagram(number, payload_bytes)).collect();
        send_one(writer, &pieces.concat(), to)?;
    }
    Ok(())
}

/// Reads the datagrams that have arrived; cuts trains at `segment_bytes`.
pub(crate) fn arrived(reader: &UdpSocket, into: &mut BTreeSet<u64>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(size) = reader.recv(&mut bytes) {
        let one = datagram_bytes(&bytes[..size]);
        into.extend(
            bytes[..size].chunks(one).filter_map(|bytes| Some(Profile::TALLYCAST.read(bytes)?.number)),
        );
    }
}

/// Returns the size of a train's first datagram, by its own header.
fn datagram_bytes(bytes: &[u8]) -> usize {
    Data::decode(bytes).map_or_else(
        || {
            let field = |at: usize| {
                bytes.get(at..at + 4).and_then(|it| it.first_chunk()).map(|it| u32::from_le_bytes(*it))
            };
            let header = bytes.get(6..8).map_or(0, |it| usize::from(u16::from_le_bytes([it[0], it[1]])));
            (header + field(12).map_or(0, |payload| payload as usize)).clamp(1, bytes.len().max(1))
        },
        |data| data.encoded_bytes(),
    )
}

/// Number of retransmissions of a marker: queues drain within seconds.
const MARKERS: u32 = 2_000;

/// Waits until everything sent before has passed or is lost: a marker sent after it has arrived, and datagrams that
/// the marker overtook were read. Returns the maximum number of markers that did not arrive.
pub(crate) fn settle(writer: &UdpSocket, markers: &UdpSocket, to: SocketAddr) -> anyhow::Result<u64> {
    let mut bytes = [0; 16];
    while markers.recv(&mut bytes).is_ok() {}
    markers.set_nonblocking(false)?;
    markers.set_read_timeout(Some(Duration::from_millis(10)))?;
    for lost in 0..MARKERS {
        send_one(writer, b"marker", to)?;
        if markers.recv(&mut bytes).is_ok() {
            return Ok(u64::from(lost) + take_backlogs()?);
        }
    }
    bail!("nothing passes from the sender to the reader")
}
