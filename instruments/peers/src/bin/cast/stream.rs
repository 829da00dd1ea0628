//! The two sides of a stream: a publisher and a subscriber, as in a program that uses the library.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use peers::process::{end_with_leader, tell};
use peers::{Whose, cpu_seconds};
use tallycast::{Dtype, Event, Node, OnFull, PublisherBuilder, StreamAccount};

use crate::peer::{self, Content, ELEMENTS, Order, Received, STAMPS_HZ, Sent};

/// Blocks of bulk data per second.
const BLOCKS_HZ: u32 = 1_000;
/// Maximum time without a publication between two runs.
const PATIENCE: Duration = Duration::from_secs(600);

/// Publishes one stream after the other, as ordered.
pub(crate) fn source(bus: &str, _interface: &str) -> Result<()> {
    let node = Node::open(bus.parse()?)?;
    let mut run = 0;
    while let Some(order) = peer::next_order()? {
        run += 1;
        let stream = node.publisher(format!("bench/run{run}")).on_full(OnFull::Block);
        let sent = match order.content {
            Content::Bulk { datagrams_per_second } => bulk(stream, datagrams_per_second, &order)?,
            Content::Stamps { linger_ms } => stamps(stream.linger(Duration::from_millis(linger_ms)), &order)?,
        };
        tell("sent", &sent)?;
    }
    Ok(())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of some megahertz")]
fn bulk(stream: PublisherBuilder, datagrams_per_second: f64, order: &Order) -> Result<Sent> {
    let samples_per_second = (datagrams_per_second * ELEMENTS as f64) as u32;
    let mut publisher = stream.dtype(Dtype::F4).rate(samples_per_second).open()?;
    let block = vec![1.0_f32; (samples_per_second / BLOCKS_HZ).max(1) as usize];
    peer::wait_for_go()?;
    let (began, cpu) = (Instant::now(), cpu_seconds(Whose::Process));
    while began.elapsed().as_secs_f64() < order.seconds {
        publisher.send_when_due(&block)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let units = publisher.close().samples.offered;
    Ok(Sent { units, seconds, cpu_s: cpu_seconds(Whose::Process) - cpu })
}

fn stamps(stream: PublisherBuilder, order: &Order) -> Result<Sent> {
    let mut publisher = stream.dtype(Dtype::U64).rate(STAMPS_HZ).open()?;
    peer::wait_for_go()?;
    let (began, cpu) = (Instant::now(), cpu_seconds(Whose::Process));
    let mut due = sys::clock::monotonic();
    while began.elapsed().as_secs_f64() < order.seconds {
        due += Duration::from_secs(1) / STAMPS_HZ;
        sys::clock::sleep_until(due);
        publisher.send(&[sys::clock::monotonic().as_nanos()])?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let units = publisher.close().samples.offered;
    Ok(Sent { units, seconds, cpu_s: cpu_seconds(Whose::Process) - cpu })
}

/// Reads one stream after the other and reports the counts of each.
pub(crate) fn reader(bus: &str, _interface: &str) -> Result<()> {
    let node = Node::open(bus.parse()?)?;
    let mut subscriber = node.subscriber("bench/*").reader("bench").open()?;
    end_with_leader();
    tell("ready", &())?;
    let mut delays_us = Vec::new();
    let mut cpu = 0.0;
    while let Some(event) = subscriber.next(PATIENCE) {
        match event {
            Event::Began(_) => {
                cpu = cpu_seconds(Whose::Process);
                tell("began", &())?;
            }
            Event::Block(block) if block.schema.dtype == Dtype::U64 => {
                let now = sys::clock::monotonic().as_nanos();
                #[expect(clippy::cast_precision_loss, reason = "a delay is small")]
                let delay = |sent: &u64| now.saturating_sub(*sent) as f64 / 1e3;
                delays_us.extend(block.elements::<u64>()?.iter().map(delay));
            }
            Event::Ended(account) => {
                let cpu_s = cpu_seconds(Whose::Process) - cpu;
                tell("ended", &received(&account, cpu_s, std::mem::take(&mut delays_us))?)?;
            }
            Event::Block(_) | Event::Gap(_) | Event::Settled(_) => {}
        }
    }
    Ok(())
}

fn received(account: &StreamAccount, cpu_s: f64, delays_us: Vec<f64>) -> Result<Received> {
    let balance = &account.account;
    balance.check().with_context(|| format!("the account of `{}` does not balance", account.stream))?;
    let datagrams = balance.datagrams.context("the reader of a socket has no network counters")?.received;
    Ok(Received { units: balance.elements.delivered, datagrams, cpu_s, delays_us })
}
