//! Latency of a message: half of the round-trip time over two rings.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use peers::process::{stand_by, tell};
use peers::{quantiles, ratios};
use ring::shared::{Options, SharedRing};
use ring::{Idle, Read, Reader, Writer, wait_any};
use serde::{Deserialize, Serialize};

use crate::{PATIENCE, READER, Rings, WRITER, size_name, start};

/// Default size of `ring::shared`, within the second-level cache of most processors.
pub(crate) const RING_BYTES: usize = 1 << 20;

/// Message size, ring size and number of exchanges of each case.
const CASES: [(usize, usize, usize); 4] = [
    (64, RING_BYTES, 40_000),
    (1 << 10, RING_BYTES, 40_000),
    (1 << 16, RING_BYTES, 20_000),
    (1 << 22, 1 << 24, 200),
];

/// Minimum number of exchanges before the first measured one; they also go twice round the ring, so that all of it
/// is mapped.
const MIN_WARM_UP: usize = 200;

/// The median, the 99th and the 99.9th percentile. Units: microseconds, one way.
pub(crate) type Quantiles = [f64; 3];

const SHARES: [f64; 3] = [0.5, 0.99, 0.999];

/// Waiting mode of a side: spinning or asleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Wait {
    Spin,
    Futex,
}

/// One run of round trips.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Exchange {
    pub(crate) directory: PathBuf,
    pub(crate) wait: Wait,
    pub(crate) message_bytes: usize,
    pub(crate) ring_bytes: usize,
    pub(crate) warm_up: usize,
    pub(crate) count: usize,
}

/// Measures every size, spinning and asleep.
pub(crate) fn measure(rings: &Rings) -> Result<()> {
    for (message_bytes, ring_bytes, count) in CASES {
        for wait in [Wait::Spin, Wait::Futex] {
            let warm_up = (2 * ring_bytes / message_bytes).max(MIN_WARM_UP);
            let directory = rings.directory.path().to_owned();
            measure_case(rings, &Exchange { directory, wait, message_bytes, ring_bytes, warm_up, count })?;
        }
    }
    Ok(())
}

fn measure_case(rings: &Rings, exchange: &Exchange) -> Result<()> {
    let name = format!("latency/{}/{}", size_name(exchange.message_bytes), exchange.wait.name());
    let Some(case) = rings.bench.case(name) else { return Ok(()) };
    let mut systems: [(_, &dyn Fn() -> Result<Quantiles>); 3] = [
        ("tallycast", &|| between(["ping", "pong"], exchange)),
        ("iceoryx2", &|| between(["iceoryx-ping", "iceoryx-pong"], exchange)),
        ("limit", &|| rings.limit.latency(exchange)),
    ];
    let taken = case.in_turn(&mut systems, |run| run())?;
    let medians = |runs: &[Quantiles]| runs.iter().map(|run| run[0]).collect::<Vec<_>>();
    for it in &taken {
        for (index, metric) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
            case.row(it.system, metric, "us", it.runs.iter().map(|run| run[index]));
        }
        if it.system != "limit" {
            case.row(it.system, "ratio_to_limit", "x", ratios(&medians(&it.runs), &medians(&taken[2].runs)));
        }
    }
    Ok(())
}

/// Runs two roles against each other; the first reports the figures.
fn between([ping, pong]: [&'static str; 2], exchange: &Exchange) -> Result<Quantiles> {
    let mut first = start(ping, WRITER, exchange)?;
    let mut second = start(pong, READER, exchange)?;
    second.go()?;
    first.go()?;
    let figures = first.hear("figures")?;
    first.end()?;
    // The publisher may need to keep its messages until they were read.
    second.go().ok();
    second.end()?;
    Ok(figures)
}

/// Sends every message, and measures.
pub(crate) fn ping(exchange: Exchange) -> Result<()> {
    let mut writer = make_ring(&exchange.directory, "ping", exchange.ring_bytes)?;
    stand_by()?;
    let mut reader = RingReader::open(&exchange.directory, "pong", exchange.wait.idle())?;
    let message = vec![3_u8; exchange.message_bytes];
    let figures = exchange.time(|| {
        send(&mut writer, &message)?;
        reader.expect().map(|_| ())
    })?;
    tell("figures", &figures)
}

/// Sends every message back.
pub(crate) fn pong(exchange: Exchange) -> Result<()> {
    let mut reader = RingReader::open(&exchange.directory, "ping", exchange.wait.idle())?;
    let mut writer = make_ring(&exchange.directory, "pong", exchange.ring_bytes)?;
    stand_by()?;
    for _ in 0..exchange.total() {
        send(&mut writer, reader.expect()?)?;
    }
    Ok(())
}

/// Writes like a writer that does not know how its readers wait.
fn send(writer: &mut Writer, message: &[u8]) -> Result<()> {
    writer.write(0, [0, 0], &[message])?;
    writer.ring_doorbell();
    Ok(())
}

/// A reader of another process's ring, and its means to wait.
pub(crate) struct RingReader {
    shared: SharedRing,
    reader: Reader,
    idle: Idle,
    record: Vec<u8>,
}

impl RingReader {
    pub(crate) fn open(directory: &Path, name: &str, idle: Idle) -> Result<Self> {
        let shared = ring::shared::open(&ring_path(directory, name))?;
        // Nothing is written before both sides are ready.
        let reader = shared.ring().reader_at_head();
        Ok(Self { shared, reader, idle, record: Vec::new() })
    }

    /// Waits until the ring returns something other than `Empty`.
    pub(crate) fn next(&mut self) -> Result<Read> {
        let Self { shared, reader, idle, record } = self;
        let look = || match reader.read(record) {
            Read::Empty => None,
            other => Some(other),
        };
        wait_any(&[shared.doorbell()], *idle, PATIENCE, look).context("the other side fell silent")
    }

    /// Returns a record if one is available now.
    pub(crate) fn look(&mut self) -> Read {
        self.reader.read(&mut self.record)
    }

    /// Returns the reader's position.
    pub(crate) fn position(&self) -> u64 {
        self.reader.position()
    }

    /// Waits for a record.
    fn expect(&mut self) -> Result<&[u8]> {
        match self.next()? {
            Read::Record { .. } => Ok(&self.record),
            other => bail!("expected a record, not {other:?}"),
        }
    }
}

pub(crate) fn make_ring(directory: &Path, name: &str, capacity_bytes: usize) -> Result<Writer> {
    let mut options = Options::default();
    options.capacity_bytes = capacity_bytes;
    Ok(ring::shared::create(&ring_path(directory, name), &options)?)
}

fn ring_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(name).with_extension(ring::shared::RING_EXTENSION)
}

impl Exchange {
    /// Times every exchange after the warm-up.
    pub(crate) fn time(&self, mut exchange: impl FnMut() -> Result<()>) -> Result<Quantiles> {
        for _ in 0..self.warm_up {
            exchange()?;
        }
        let mut one_way_us = Vec::with_capacity(self.count);
        for _ in 0..self.count {
            let begun = Instant::now();
            exchange()?;
            one_way_us.push(begun.elapsed().as_secs_f64() * 1e6 / 2.0);
        }
        Ok(quantiles(one_way_us, SHARES))
    }

    pub(crate) const fn total(&self) -> usize {
        self.warm_up + self.count
    }
}

impl Wait {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Futex => "futex",
        }
    }

    const fn idle(self) -> Idle {
        match self {
            Self::Spin => Idle::Spin,
            Self::Futex => Idle::Sleep,
        }
    }
}
