//! When each recorded sample is published again, and which time it carries.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use archive::{Archive, Piece, Recording};
use source::{Playback, Speed};
use tallycast::{Block, Clock, Publisher, SampleRate, Schema, Stage, WallTime};

use super::Times;
use crate::stop::Stop;
use crate::verbs::publish::played_rate;
use crate::wholeness::parts;

/// The whole of time.
const ALWAYS: Range<WallTime> = WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX);

/// The plan that all streams of a replay follow, so that they stay in step.
pub(super) struct Schedule {
    stop: Stop,
    began: Instant,
    began_at: WallTime,
    /// The earliest recorded sample.
    origin: WallTime,
    speed: Speed,
    /// The speed as a number.
    factor: f64,
    times: Times,
    /// Samples that went out so far, over all streams.
    published: AtomicU64,
}

impl Schedule {
    pub(super) fn new(stop: Stop, origin: WallTime, speed: Speed, times: Times) -> anyhow::Result<Self> {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let began_at = WallTime::from_nanos(i64::try_from(since_1970.as_nanos())?);
        let factor = speed.to_string().parse::<SampleRate>()?.as_hz();
        Ok(Self {
            stop,
            began: Instant::now(),
            began_at,
            origin,
            speed,
            factor,
            times,
            published: AtomicU64::new(0),
        })
    }

    /// Returns how many samples went out so far.
    pub(super) fn published(&self) -> u64 {
        // Relaxed: only shown.
        self.published.load(Ordering::Relaxed)
    }

    /// Returns the schema of what is published: samples that carry the present time come at another rate.
    pub(super) fn schema(&self, recorded: &Schema) -> anyhow::Result<Schema> {
        let mut schema = recorded.clone();
        if self.times == Times::Now {
            schema.rate = played_rate(recorded.rate, self.speed)?;
        }
        Ok(schema)
    }

    pub(super) const fn clock(&self) -> Clock {
        match self.times {
            Times::Now => Clock::System,
            Times::Original => Clock::Recorded,
        }
    }

    /// Waits until what was recorded at `time` is due; `false` if the end is wished for meanwhile.
    pub(super) fn wait_for(&self, time: WallTime) -> bool {
        let due = Duration::from_nanos(u64::try_from(self.after_origin(time)).unwrap_or(0));
        !self.stop.wait(due.saturating_sub(self.began.elapsed()))
    }

    /// Returns the time that a sample recorded at `time` carries.
    fn carried(&self, time: WallTime) -> WallTime {
        match self.times {
            Times::Original => time,
            Times::Now => self.began_at.offset(self.after_origin(time)),
        }
    }

    /// Returns how long after the beginning of the replay something recorded at `time` is due, in nanoseconds.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a microsecond within a hundred days, and exact at true time"
    )]
    fn after_origin(&self, time: WallTime) -> i64 {
        let nanos = time.nanos_since(self.origin);
        if self.factor == 1.0 { nanos } else { (nanos as f64 / self.factor) as i64 }
    }
}

/// Publishes one recorded epoch, sample for sample and hole for hole, until its end or the wish to end.
pub(super) fn replay(
    archive: &Archive,
    recording: &Recording,
    publisher: &mut Publisher,
    schedule: &Schedule,
) -> anyhow::Result<()> {
    for piece in archive.epoch(recording, ALWAYS) {
        let going_on = match piece? {
            Piece::Epoch(_) => true,
            Piece::Hole(hole) => {
                let going_on = schedule.wait_for(hole.t1);
                publisher.skip(hole.samples, Stage::Source)?;
                going_on
            }
            Piece::Block(block) => replay_block(&block, publisher, schedule)?,
        };
        if !going_on {
            break;
        }
    }
    Ok(())
}

/// Publishes a block in portions as they become due; `false` if the end is wished for meanwhile.
fn replay_block(block: &Block, publisher: &mut Publisher, schedule: &Schedule) -> anyhow::Result<bool> {
    let sample_bytes = block.schema.sample_bytes();
    let portion = block.schema.rate.samples_in(Playback::REST.mul_f64(schedule.factor)).max(1);
    for part in parts(block.samples, block.missing.iter(), block.schema.elements_per_sample()) {
        let mut start = part.samples.start;
        while start < part.samples.end {
            let end = part.samples.end.min(start + portion);
            // A portion is due once its last sample was taken.
            if !schedule.wait_for(block.time_of(block.first_index + end)) {
                return Ok(false);
            }
            if part.whole {
                let bytes = byte_range(start..end, sample_bytes);
                let time = schedule.carried(block.time_of(block.first_index + start));
                publisher.send_bytes_at(time, &block.data.as_bytes()[bytes])?;
                schedule.published.fetch_add(end - start, Ordering::Relaxed);
            } else {
                publisher.skip(end - start, Stage::Source)?;
            }
            start = end;
        }
    }
    Ok(true)
}

fn byte_range(samples: Range<u64>, sample_bytes: usize) -> Range<usize> {
    let at = |sample: u64| usize::try_from(sample).expect("a block lies in memory") * sample_bytes;
    at(samples.start)..at(samples.end)
}
