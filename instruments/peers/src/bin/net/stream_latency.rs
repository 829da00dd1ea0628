//! Delays of a stream: a sample goes to the other side by one stream and back by another, and half of that time is
//! one way.
//!
//! Each side is a process with a publisher and a subscriber, which are two agents and the calling thread; all of
//! them run on one processor.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use peers::place::Place;
use peers::process::{end_with_leader, tell};
use serde::{Deserialize, Serialize};
use tallycast::{Bus, Dtype, Event, Node, OnFull, Pacing, Publisher, Subscriber};

/// Number of round trips before the measured ones, to warm caches and clocks.
const WARM_UP: u64 = 1_000;
/// Time after which a sample without an answer counts as sent before its reader had joined.
const JOINING: Duration = Duration::from_millis(100);
/// Time after which a later sample without an answer counts as lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// Settings that both sides share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Meeting {
    bus: String,
    there: SocketAddr,
    back: SocketAddr,
    seconds: f64,
}

impl Meeting {
    pub(crate) fn new(place: &Place, seconds: f64) -> Self {
        let (port, interface) = (place.port, place.interface);
        Self {
            bus: format!("udp://239.84.0.0:{port}?iface={interface}"),
            there: (place.reader, port.wrapping_add(5)).into(),
            back: (place.source, port.wrapping_add(6)).into(),
            seconds,
        }
    }
}

/// One end of both streams.
struct End {
    publisher: Publisher,
    subscriber: Subscriber,
}

impl End {
    fn open(
        meeting: &Meeting,
        (own, to): (&str, SocketAddr),
        (other, at): (&str, SocketAddr),
    ) -> Result<Self> {
        let node = Node::open(meeting.bus.parse::<Bus>()?)?;
        let subscriber = node.subscriber(other).from(at).open()?;
        let publisher = node.publisher(own).dtype(Dtype::U64).rate(1_000_000).linger(Duration::ZERO);
        let publisher =
            publisher.pacing(Pacing::Unlimited { train: 1 }).on_full(OnFull::Block).to(to).open()?;
        Ok(Self { publisher, subscriber })
    }

    /// Waits for the next sample; `None` if none arrives in time.
    fn receive(&mut self, patience: Duration) -> Result<Option<u64>> {
        let until = Instant::now() + patience;
        loop {
            match self.subscriber.next(until.saturating_duration_since(Instant::now())) {
                Some(Event::Block(block)) => return Ok(block.elements::<u64>()?.last().copied()),
                Some(Event::Ended(_)) => bail!("the other side has exited"),
                Some(Event::Began(_) | Event::Gap(_) | Event::Settled(_) | Event::Statement(_)) => {}
                None => return Ok(None),
            }
        }
    }
}

/// Sends samples, each after the previous one has returned.
pub(crate) fn ping(meeting: Meeting) -> Result<()> {
    let mut end = End::open(&meeting, ("bench/there", meeting.there), ("bench/back", meeting.back))?;
    let joined = Instant::now() + PATIENCE;
    while end.receive(JOINING)?.is_none() {
        ensure!(Instant::now() < joined, "no sample returned");
        end.publisher.send(&[0_u64])?;
    }
    // Answers to these that are still in flight arrive before the first one that counts.
    let (mut delays, began) = (Vec::new(), Instant::now());
    for count in 1.. {
        let sent = Instant::now();
        end.publisher.send(&[count])?;
        while end.receive(PATIENCE)?.context("a sample was lost")? != count {}
        let one_way_us = sent.elapsed().as_secs_f64() * 1e6 / 2.0;
        if count > WARM_UP {
            delays.push(one_way_us);
        }
        if began.elapsed().as_secs_f64() >= meeting.seconds {
            break;
        }
    }
    tell("delays", &delays)
}

/// Sends samples back until this process is ended.
pub(crate) fn pong(meeting: Meeting) -> Result<()> {
    let mut end = End::open(&meeting, ("bench/back", meeting.back), ("bench/there", meeting.there))?;
    end_with_leader();
    tell("ready", &())?;
    loop {
        if let Some(count) = end.receive(PATIENCE)? {
            end.publisher.send(&[count])?;
        }
    }
}
