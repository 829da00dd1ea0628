//! The highest rate at which no reader loses anything: the writer waits for its slowest reader.
//!
//! A ring overwrites, so its writer needs the progress of its readers: each reader writes its position to a small
//! ring of its own every sixteenth of the large one. A run in which a reader was lapped is a measurement error.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use peers::process::{stand_by, tell};
use peers::ratios;
use ring::{Idle, Read};
use serde::{Deserialize, Serialize};

use crate::latency::{RING_BYTES, RingReader, make_ring};
use crate::{PATIENCE, READER, Rings, Task, WRITER, readers_name, size_name, start};

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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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
pub(crate) fn measure(rings: &Rings) -> Result<()> {
    for message_bytes in MESSAGE_BYTES {
        for readers in READERS {
            measure_case(rings, &Task { readers, ..rings.task(message_bytes) })?;
        }
    }
    Ok(())
}

fn measure_case(rings: &Rings, task: &Task) -> Result<()> {
    let message_bytes = task.message_bytes;
    let name = format!("bandwidth/{}/{}", size_name(message_bytes), readers_name(task.readers));
    let Some(case) = rings.bench.case(name) else { return Ok(()) };
    let (ours, iceoryx) = (|| run(task), || run_iceoryx(task));
    let limit = || rings.limit.bandwidth(message_bytes, RING_BYTES);
    let mut systems: [(_, &dyn Fn() -> Result<Rate>); 3] =
        [("tallycast", &ours), ("iceoryx2", &iceoryx), ("limit", &limit)];
    let systems = if task.readers == 1 { &mut systems[..] } else { &mut systems[..1] };
    let taken = case.in_turn(systems, |run| run())?;
    let rates = |runs: &[Rate]| runs.iter().map(|rate| rate.per_second()).collect::<Vec<_>>();
    for it in &taken {
        let these = rates(&it.runs);
        case.row(it.system, "messages/s", "/s", these.clone());
        case.row(it.system, "GB/s", "GB/s", these.iter().map(|rate| rate * message_bytes as f64 / 1e9));
        if let ("tallycast" | "iceoryx2", [_, _, limit]) = (it.system, &taken[..]) {
            case.row(it.system, "ratio_to_limit", "x", ratios(&these, &rates(&limit.runs)));
        }
    }
    Ok(())
}

/// Runs one writer and its readers; returns the rate of the slowest reader.
fn run(task: &Task) -> Result<Rate> {
    let mut writer = start("write", WRITER, task)?;
    let mut sides = Vec::new();
    for index in 0..task.readers {
        let mut side = start("read", READER, &Task { index, ..task.clone() })?;
        side.go()?;
        sides.push(side);
    }
    writer.go()?;
    let mut rates = Vec::new();
    for mut side in sides {
        rates.push(side.hear::<Rate>("rate")?);
        side.end()?;
    }
    writer.end()?;
    let slowest = rates.into_iter().min_by(|one, other| one.per_second().total_cmp(&other.per_second()));
    slowest.context("there is a reader")
}

fn run_iceoryx(task: &Task) -> Result<Rate> {
    let mut publisher = start("iceoryx-publish", WRITER, task)?;
    let mut subscriber = start("iceoryx-subscribe", READER, task)?;
    subscriber.go()?;
    publisher.go()?;
    let rate = subscriber.hear("rate")?;
    subscriber.end()?;
    // The publisher keeps its memory until its subscriber has read the last sample.
    publisher.go()?;
    publisher.end()?;
    Ok(rate)
}

/// Writes as fast as the slowest reader allows.
pub(crate) fn write(task: Task) -> Result<()> {
    let message_bytes = task.message_bytes;
    let mut writer = make_ring(&task.directory, "data", RING_BYTES)?;
    stand_by()?;
    let mut followers = Followers::open(&task.directory, task.readers)?;
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
pub(crate) fn read(task: Task) -> Result<()> {
    let Task { directory, index, readers, .. } = task;
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
    tell("rate", &Rate { messages: messages as f64, seconds: begun.elapsed().as_secs_f64() })
}
