//! `tallycast relay`: a stream from the bus of one side to the bus of the other.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use peers::Bench;
use peers::place::{Place, Side};
use peers::process::{stand_by, tell};
use tallycast::{Bus, Dtype, Event, Node};

use crate::datagrams::{RATE, Reading, SILENCE, SIZE_BYTES, Sending, each_due, now_ns};
use crate::path::Conditions;
use crate::run::{Ports, Programs, System, spawn};

const STREAM: &str = "bench/wan";
/// Elements of a sample: as many bytes as a datagram of the other systems has. Units: elements of 8 bytes.
const ELEMENTS: usize = SIZE_BYTES / size_of::<u64>();

/// A relay on each side.
pub(crate) struct Relay(PathBuf);

impl Relay {
    pub(crate) fn new(bench: &Bench) -> Result<Self> {
        Ok(Self(bench.command()?.clone()))
    }
}

impl System for Relay {
    fn roles(&self) -> [&'static str; 2] {
        ["publisher", "subscriber"]
    }

    fn start(&mut self, place: &Place, conditions: &Conditions, ports: &Ports) -> Result<Programs> {
        let deadline = format!("{}ms", conditions.deadline().as_millis());
        let bus = bus(ports.accept);
        let mut far = place.command(Side::Reader, &self.0);
        far.args(["relay", "--listen", &format!("udt://0.0.0.0:{}?secure=off", ports.listen)]);
        far.args(["--deadline", &deadline, "--bus", &bus]);
        let mut near = place.command(Side::Source, &self.0);
        near.args(["relay", &format!("udt://{}:{}?secure=off", place.reader, ports.entry), STREAM]);
        near.args(["--deadline", &deadline, "--bus", &bus]);
        Ok(vec![spawn(&mut far)?, spawn(&mut near)?])
    }
}

/// Returns the bus of either side: each has its own loopback.
fn bus(port: u16) -> String {
    format!("udp://239.84.0.0:{port}?iface=lo")
}

/// Publishes samples at the rate; tells how many.
pub(crate) fn publisher(order: Sending) -> Result<()> {
    let node = Node::open(bus(order.port).parse::<Bus>()?)?;
    let channels = (0..ELEMENTS).map(|index| (format!("word{index}"), "1"));
    let publisher = node.publisher(STREAM).dtype(Dtype::U64).rate(RATE).channels(channels);
    let mut publisher = publisher.linger(Duration::ZERO).open()?;
    stand_by()?;
    let mut sample = [0; ELEMENTS];
    each_due(order.seconds, |number| {
        sample[..2].copy_from_slice(&[number, now_ns()]);
        publisher.send(&sample).context("the publisher does not take a sample")
    })?;
    tell("sent", &publisher.close().samples.offered)
}

/// Reads samples until there are no more; tells their delays. Units: microseconds.
pub(crate) fn subscriber(order: Reading) -> Result<()> {
    let node = Node::open(bus(order.bus_port).parse::<Bus>()?)?;
    let mut subscriber = node.subscriber(STREAM).open()?;
    stand_by()?;
    let mut delays: Vec<f64> = Vec::new();
    loop {
        match subscriber.next(SILENCE) {
            Some(Event::Block(block)) => {
                let arrival = now_ns();
                let samples = block.elements::<u64>()?.chunks_exact(ELEMENTS);
                delays.extend(samples.map(|sample| arrival.saturating_sub(sample[1]) as f64 / 1e3));
            }
            Some(Event::Ended(_)) | None => break,
            Some(_) => {}
        }
    }
    tell("delays", &delays)
}
