//! The highest rate at which no reader loses anything: the writer waits for its slowest reader.
//!
//! A ring overwrites, so its writer needs the progress of its readers: each reader writes its position to a small
//! ring of its own every sixteenth of the large one. A run in which a reader was lapped is a measurement error.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use peers::Row;
use ring::{Idle, Read};

use crate::latency::{RING_BYTES, RingReader, make_ring};
use crate::place::{Standing, stand_on};
use crate::side::{Side, argument, stand_by, tell};
use crate::{Bench, PATIENCE, size_name};

/// Duration of writing in one run.
pub(crate) const DURATION: Duration = Duration::from_millis(250);

const MESSAGE_BYTES: [usize; 3] = [64, 1 << 10, 1 << 16];
const READERS: [usize; 3] = [1, 2, 8];

/// Size of the batches in which small records are published: one publication per page of data.
pub(crate) const BATCH_BYTES: u64 = 4096;

/// The writer stays within three quarters of the ring of its slowest reader ...
const AHEAD_BYTES: u64 = RING_BYTES as u64 / 4 * 3;

/// ... which reports its position every sixteenth of the ring.
const REPORT_BYTES: u64 = RING_BYTES as u64 / 16;

/// Size of a ring for positions: a reader can be at most a dozen reports ahead of the writer's check.
const POSITIONS_BYTES: usize = 4096;

/// Number of records written between two readings of the clock.
const RECORDS_PER_CLOCK: usize = 16;

/// Number of messages that arrived, and the time they took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) messages: f64,
    pub(crate) seconds: f64,
}

impl Rate {
    fn per_second(self) -> f64 {
        self.messages / self.seconds
    }
}

/// Measures every size: the ring alone with several readers, all systems with one reader.
pub(crate) fn measure(bench: &Bench) -> Result<()> {
    for message_bytes in MESSAGE_BYTES {
        for readers in READERS {
            measure_case(bench, message_bytes, readers)?;
        }
    }
    Ok(())
}

fn measure_case(bench: &Bench, message_bytes: usize, readers: usize) -> Result<()> {
    let plural = if readers == 1 { "" } else { "s" };
    let case = format!("bandwidth/{}/{readers}-reader{plural}", size_name(message_bytes));
    if bench.leaves_out(&case) {
        return Ok(());
    }
    let systems: &[&str] = if readers == 1 { &["tallycast", "iceoryx2", "limit"] } else { &["tallycast"] };
    let mut rates = vec![Vec::new(); systems.len()];
    for _ in 0..bench.runs {
        for (system, rates) in systems.iter().zip(&mut rates) {
            bench.check()?;
            let rate = match *system {
                "tallycast" => run(bench, message_bytes, readers)?,
                "iceoryx2" => run_iceoryx(bench, message_bytes)?,
                _ => bench.limit.bandwidth(message_bytes, RING_BYTES)?,
            };
            rates.push(rate.per_second());
        }
    }
    for (system, rates_of) in systems.iter().zip(&rates) {
        let row =
            |metric, unit, runs: &[f64]| bench.report.row(&Row { case: &case, system, metric, unit, runs });
        row("messages/s", "/s", rates_of);
        let gigabytes: Vec<f64> = rates_of.iter().map(|rate| rate * message_bytes as f64 / 1e9).collect();
        row("GB/s", "GB/s", &gigabytes);
        if let (1, "tallycast" | "iceoryx2") = (readers, *system) {
            let ratios: Vec<f64> = rates_of.iter().zip(&rates[2]).map(|(rate, limit)| rate / limit).collect();
            row("ratio_to_limit", "x", &ratios);
        }
    }
    Ok(())
}

/// Runs one writer and its readers; returns the rate of the slowest reader.
fn run(bench: &Bench, message_bytes: usize, readers: usize) -> Result<Rate> {
    let directory = bench.place.directory().display().to_string();
    let mut writer =
        Side::start("write", &[directory.clone(), message_bytes.to_string(), readers.to_string()])?;
    let mut sides = Vec::new();
    for index in 0..readers {
        let mut side = Side::start("read", &[directory.clone(), index.to_string(), readers.to_string()])?;
        side.go()?;
        sides.push(side);
    }
    writer.go()?;
    let mut slowest: Option<Rate> = None;
    for mut side in sides {
        let [messages, seconds] = side.figures()?;
        side.end()?;
        let rate = Rate { messages, seconds };
        if slowest.is_none_or(|slowest| rate.per_second() < slowest.per_second()) {
            slowest = Some(rate);
        }
    }
    writer.end()?;
    slowest.context("there is a reader")
}

fn run_iceoryx(bench: &Bench, message_bytes: usize) -> Result<Rate> {
    let arguments = [bench.place.directory().display().to_string(), message_bytes.to_string()];
    let mut publisher = Side::start("iceoryx-publish", &arguments)?;
    let mut subscriber = Side::start("iceoryx-subscribe", &arguments)?;
    subscriber.go()?;
    publisher.go()?;
    let [messages, seconds] = subscriber.figures()?;
    subscriber.end()?;
    // The publisher keeps its memory until its subscriber has read the last sample.
    publisher.go()?;
    publisher.end()?;
    Ok(Rate { messages, seconds })
}

/// Writes as fast as the slowest reader allows.
pub(crate) fn write(arguments: &[String]) -> Result<()> {
    stand_on(Standing::First)?;
    let directory: PathBuf = argument(arguments, 0)?;
    let (message_bytes, readers): (usize, usize) = (argument(arguments, 1)?, argument(arguments, 2)?);
    let mut writer = make_ring(&directory, "data", RING_BYTES)?;
    stand_by()?;
    let mut followers = Followers::open(&directory, readers)?;
    let message = vec![3_u8; message_bytes];
    let end = Instant::now() + DURATION;
    let mut published = 0;
    while Instant::now() < end {
        for _ in 0..RECORDS_PER_CLOCK {
            if writer.head() + message_bytes as u64 > followers.all_read + AHEAD_BYTES {
                writer.publish();
                followers.wait()?;
            }
            writer.stage(0, [0, 0], &[&message])?;
            if writer.head() - published >= BATCH_BYTES {
                writer.publish();
                published = writer.head();
            }
        }
    }
    writer.publish();
    // The ring's content stays available to its readers after its writer has exited.
    Ok(())
}

/// The writer's knowledge of its readers.
struct Followers {
    positions: Vec<(RingReader, u64)>,
    /// Position up to which all readers have read.
    all_read: u64,
}

impl Followers {
    fn open(directory: &Path, readers: usize) -> Result<Self> {
        let open = |index| Ok((RingReader::open(directory, &format!("position-{index}"), Idle::Spin)?, 0));
        Ok(Self { positions: (0..readers).map(open).collect::<Result<_>>()?, all_read: 0 })
    }

    /// Waits until the slowest reader has advanced.
    fn wait(&mut self) -> Result<()> {
        let before = self.all_read;
        let look = || self.look().map(|()| (self.all_read > before).then_some(())).transpose();
        ring::wait_any(&[], Idle::Spin, PATIENCE, look).context("a reader fell silent")?
    }

    fn look(&mut self) -> Result<()> {
        for (reader, position) in &mut self.positions {
            loop {
                match reader.look() {
                    Read::Record { totals: [read_until, _], .. } => *position = read_until,
                    Read::Empty => break,
                    other => bail!("cannot read a reader's position: {other:?}"),
                }
            }
        }
        self.all_read = self.positions.iter().map(|(_, position)| *position).min().unwrap_or(u64::MAX);
        Ok(())
    }
}

/// Reads, and reports its position.
pub(crate) fn read(arguments: &[String]) -> Result<()> {
    stand_on(Standing::Second)?;
    let directory: PathBuf = argument(arguments, 0)?;
    let (index, readers): (usize, usize) = (argument(arguments, 1)?, argument(arguments, 2)?);
    // Several readers share a processor, so one that spins would block the others.
    let idle = if readers == 1 { Idle::Spin } else { Idle::Yield };
    let mut data = RingReader::open(&directory, "data", idle)?;
    let mut positions = make_ring(&directory, &format!("position-{index}"), POSITIONS_BYTES)?;
    stand_by()?;
    let (mut messages, mut told, mut begun) = (0_u64, 0, None);
    loop {
        let read = match data.look() {
            Read::Empty => data.next()?,
            other => other,
        };
        match read {
            Read::Record { .. } => messages += 1,
            Read::Closed => break,
            Read::Lapped { .. } => {
                bail!("a reader was lapped: the run is invalid\nthis is a fault of the bench")
            }
            other => bail!("cannot read the ring: {other:?}"),
        }
        begun.get_or_insert_with(Instant::now);
        if data.position() - told >= REPORT_BYTES {
            told = data.position();
            positions.write(0, [told, 0], &[])?;
        }
    }
    let begun = begun.context("nothing was written")?;
    tell(&[messages as f64, begun.elapsed().as_secs_f64()])
}
