//! Latency of a message: half of the round-trip time over two rings.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use peers::{Row, percentile};
use ring::shared::{Options, SharedRing};
use ring::{Idle, Read, Reader, Writer, wait_any};

use crate::place::{Standing, stand_on};
use crate::side::{Side, argument, stand_by, tell};
use crate::{Bench, PATIENCE, size_name};

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

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Waiting mode of a side: spinning or asleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    Spin,
    Futex,
}

/// One run of round trips.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) wait: Wait,
    pub(crate) message_bytes: usize,
    pub(crate) ring_bytes: usize,
    pub(crate) warm_up: usize,
    pub(crate) count: usize,
}

/// Measures every size, spinning and asleep.
pub(crate) fn measure(bench: &Bench) -> Result<()> {
    for (message_bytes, ring_bytes, count) in CASES {
        for wait in [Wait::Spin, Wait::Futex] {
            let warm_up = (2 * ring_bytes / message_bytes).max(MIN_WARM_UP);
            measure_case(bench, &Exchange { wait, message_bytes, ring_bytes, warm_up, count })?;
        }
    }
    Ok(())
}

fn measure_case(bench: &Bench, exchange: &Exchange) -> Result<()> {
    let case = format!("latency/{}/{}", size_name(exchange.message_bytes), exchange.wait.name());
    if bench.leaves_out(&case) {
        return Ok(());
    }
    let mut runs: [(&str, Vec<Quantiles>); 3] =
        ["tallycast", "iceoryx2", "limit"].map(|name| (name, Vec::new()));
    for _ in 0..bench.runs {
        for (system, runs) in &mut runs {
            bench.check()?;
            runs.push(match *system {
                "tallycast" => between(bench, ["ping", "pong"], exchange)?,
                "iceoryx2" => between(bench, ["iceoryx-ping", "iceoryx-pong"], exchange)?,
                _ => bench.limit.latency(exchange)?,
            });
        }
    }
    let limit = runs[2].1.clone();
    for (system, runs) in &runs {
        let row =
            |metric, unit, runs: &[f64]| bench.report.row(&Row { case: &case, system, metric, unit, runs });
        for (at, (metric, _)) in QUANTILES.into_iter().enumerate() {
            row(metric, "us", &runs.iter().map(|run| run[at]).collect::<Vec<_>>());
        }
        if *system != "limit" {
            let ratios: Vec<f64> = runs.iter().zip(&limit).map(|(run, limit)| run[0] / limit[0]).collect();
            row("ratio_to_limit", "x", &ratios);
        }
    }
    Ok(())
}

/// Runs two roles against each other; the first reports the figures.
fn between(bench: &Bench, [ping, pong]: [&str; 2], exchange: &Exchange) -> Result<Quantiles> {
    let arguments = exchange.arguments(bench.place.directory());
    let mut first = Side::start(ping, &arguments)?;
    let mut second = Side::start(pong, &arguments)?;
    second.go()?;
    first.go()?;
    let figures = first.figures()?;
    first.end()?;
    // The publisher may need to keep its messages until they were read.
    second.go().ok();
    second.end()?;
    Ok(figures)
}

/// Sends every message, and measures.
pub(crate) fn ping(arguments: &[String]) -> Result<()> {
    stand_on(Standing::First)?;
    let (directory, exchange) = Exchange::from_arguments(arguments)?;
    let mut writer = make_ring(&directory, "ping", exchange.ring_bytes)?;
    stand_by()?;
    let mut reader = RingReader::open(&directory, "pong", exchange.wait.idle())?;
    let message = vec![3_u8; exchange.message_bytes];
    let figures = exchange.time(|| {
        send(&mut writer, &message)?;
        reader.expect().map(|_| ())
    })?;
    tell(&figures)
}

/// Sends every message back.
pub(crate) fn pong(arguments: &[String]) -> Result<()> {
    stand_on(Standing::Second)?;
    let (directory, exchange) = Exchange::from_arguments(arguments)?;
    let mut reader = RingReader::open(&directory, "ping", exchange.wait.idle())?;
    let mut writer = make_ring(&directory, "pong", exchange.ring_bytes)?;
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
        one_way_us.sort_by(f64::total_cmp);
        Ok(QUANTILES.map(|(_, share)| percentile(&one_way_us, share)))
    }

    pub(crate) const fn total(&self) -> usize {
        self.warm_up + self.count
    }

    fn arguments(&self, directory: &Path) -> Vec<String> {
        let numbers = [self.message_bytes, self.ring_bytes, self.warm_up, self.count];
        let words = [directory.display().to_string(), self.wait.to_string()];
        words.into_iter().chain(numbers.map(|number| number.to_string())).collect()
    }

    pub(crate) fn from_arguments(arguments: &[String]) -> Result<(PathBuf, Self)> {
        let exchange = Self {
            wait: argument(arguments, 1)?,
            message_bytes: argument(arguments, 2)?,
            ring_bytes: argument(arguments, 3)?,
            warm_up: argument(arguments, 4)?,
            count: argument(arguments, 5)?,
        };
        Ok((argument(arguments, 0)?, exchange))
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

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Wait {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        [Self::Spin, Self::Futex].into_iter().find(|wait| wait.name() == name).ok_or(())
    }
}
