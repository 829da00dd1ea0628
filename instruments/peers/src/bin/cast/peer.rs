//! A source and a reader in their own processes, controlled by lines of JSON.

use anyhow::{Context, Result};
use peers::place::{Place, Side};
use peers::process::{Process, next_line};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Size of a datagram that fills an Ethernet frame. Units: bytes.
pub(crate) const FULL_BYTES: usize = wire::DATAGRAM_BYTES_IPV4;
/// Number of `f4` elements in a full datagram of a stream.
pub(crate) const ELEMENTS: usize = (FULL_BYTES - wire::DATA_HEADER_BYTES) / 4;
/// Size of a datagram with one time stamp. Units: bytes.
pub(crate) const STAMP_BYTES: usize = wire::DATA_HEADER_BYTES + 8;
/// Time stamps per second.
pub(crate) const STAMPS_HZ: u32 = 1_000;

/// Task of a source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) content: Content,
    pub(crate) seconds: f64,
}

/// Content of the datagrams.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Content {
    /// Full datagrams at a given rate.
    Bulk { datagrams_per_second: f64 },
    /// The send time, [`STAMPS_HZ`] times a second; small blocks wait `linger_ms` for others.
    Stamps { linger_ms: u64 },
}

/// Final report of a source.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Elements of a stream, or datagrams of a plain pair.
    pub(crate) units: u64,
    pub(crate) seconds: f64,
    pub(crate) cpu_s: f64,
}

/// Final report of a reader.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Received {
    /// As in [`Sent`].
    pub(crate) units: u64,
    pub(crate) datagrams: u64,
    pub(crate) cpu_s: f64,
    pub(crate) delays_us: Vec<f64>,
}

/// Reports of both sides of one run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) sent: Sent,
    pub(crate) received: Received,
}

/// A source and a reader.
pub(crate) struct Pair {
    pub(crate) system: &'static str,
    source: Process,
    reader: Process,
}

impl Pair {
    /// Starts a publisher and a subscriber of the library.
    pub(crate) fn stream(place: &Place) -> Result<Self> {
        let bus = format!("udp://239.84.0.0:{}?iface={}&rcvbuf=4194304", place.port, place.interface);
        Self::start(place, "tallycast", ["stream-source", "stream-reader"], &bus)
    }

    /// Starts the same sockets without a stream above them.
    pub(crate) fn plain(place: &Place) -> Result<Self> {
        let group = format!("239.85.0.1:{}", place.port);
        Self::start(place, "plain", ["plain-source", "plain-reader"], &group)
    }

    fn start(place: &Place, system: &'static str, roles: [&str; 2], address: &str) -> Result<Self> {
        let start = |side, role| {
            let mut command = place.command(side)?;
            command.args(["--role", role, address, place.interface]);
            Process::start(command)
        };
        let reader = start(Side::Reader, roles[1])?;
        let source = start(Side::Source, roles[0])?;
        let mut pair = Self { system, source, reader };
        pair.reader.hear::<()>("ready")?;
        Ok(pair)
    }

    /// Runs the source and the reader until both are done.
    pub(crate) fn run(&mut self, order: &Order) -> Result<Run> {
        self.source.say(order)?;
        self.reader.hear::<()>("began")?;
        self.source.say(&json!("go"))?;
        let sent = self.source.hear("sent")?;
        Ok(Run { sent, received: self.reader.hear("ended")? })
    }
}

impl Run {
    /// Returns the rate of datagrams, as the reader counted them.
    #[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
    pub(crate) fn datagrams_per_second(&self) -> f64 {
        self.received.datagrams as f64 / self.sent.seconds
    }

    pub(crate) const fn is_whole(&self) -> bool {
        self.sent.units == self.received.units
    }
}

/// Waits for the next order; `None` after the last.
pub(crate) fn next_order() -> Result<Option<Order>> {
    next_line()?.map(|line| Ok(serde_json::from_str(&line)?)).transpose()
}

/// Waits until the reader knows of this run.
pub(crate) fn wait_for_go() -> Result<()> {
    next_line()?.map(drop).context("the measurement was aborted")
}
