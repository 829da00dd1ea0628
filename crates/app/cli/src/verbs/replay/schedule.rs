//! Publication times of recorded samples, and the times they carry.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use archive::{Archive, Piece, Recording};
use source::{Playback, Speed};
use sys::Cancellation;
use tallycast::{Block, Clock, Publisher, SampleRate, Schema, Stage, WallTime};

use super::Times;
use super::inherited::Inherited;
use crate::verbs::publish::played_rate;
use crate::wholeness::{Part, parts};

/// The schedule that all streams of a replay follow, so that they stay in step.
pub(super) struct Schedule {
    cancellation: Cancellation,
    began: Instant,
    began_at: WallTime,
    /// The earliest sample that is replayed, or the start of the range.
    origin: WallTime,
    speed: Speed,
    /// The speed as a number.
    factor: f64,
    times: Times,
    /// Number of samples published so far, over all streams.
    published: AtomicU64,
}

impl Schedule {
    /// Makes a plan that begins now.
    pub(super) fn new(
        cancellation: Cancellation,
        origin: WallTime,
        speed: Speed,
        times: Times,
    ) -> anyhow::Result<Self> {
        let factor = speed.to_string().parse::<SampleRate>()?.as_hz();
        let (began, began_at) = now()?;
        let published = AtomicU64::new(0);
        Ok(Self { cancellation, began, began_at, origin, speed, factor, times, published })
    }

    /// Begins now instead.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        (self.began, self.began_at) = now()?;
        Ok(())
    }

    /// Returns the number of samples published so far.
    pub(super) fn published(&self) -> u64 {
        // Relaxed: only shown.
        self.published.load(Ordering::Relaxed)
    }

    /// Returns the schema of the published stream: samples with the current time have another rate.
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

    /// Waits until data recorded at `time` are due; `false` if the end is requested meanwhile.
    pub(super) fn wait_for(&self, time: WallTime) -> bool {
        let due = Duration::from_nanos(u64::try_from(self.after_origin(time)).unwrap_or(0));
        !self.cancellation.wait(due.saturating_sub(self.began.elapsed()))
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

/// Returns the present on both clocks.
fn now() -> anyhow::Result<(Instant, WallTime)> {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok((Instant::now(), WallTime::from_nanos(i64::try_from(since_1970.as_nanos())?)))
}

/// One recorded epoch being published again.
pub(super) struct Replay<'a> {
    pub(super) recording: &'a Recording,
    pub(super) publisher: Publisher,
    pub(super) schedule: &'a Schedule,
    /// Holes so far.
    pub(super) inherited: Inherited,
}

impl Replay<'_> {
    /// Publishes the samples and holes of a range of time in order, until its end or a request to end.
    pub(super) fn run(&mut self, archive: &Archive, range: Range<WallTime>) -> anyhow::Result<()> {
        for piece in archive.epoch(self.recording, range) {
            let going_on = match piece? {
                Piece::Epoch(_) => true,
                // A hole at the end of the replay is not part of it.
                Piece::Hole(hole) if !self.schedule.wait_for(hole.t1) => false,
                Piece::Hole(hole) => {
                    self.publisher.skip(hole.samples, Stage::Source)?;
                    self.inherited.add(&hole);
                    true
                }
                Piece::Block(block) => self.block(&block)?,
            };
            if !going_on {
                break;
            }
        }
        Ok(())
    }

    /// Publishes a block as it becomes due; `false` if the end is requested meanwhile.
    fn block(&mut self, block: &Block) -> anyhow::Result<bool> {
        let per_sample = block.schema.elements_per_sample();
        for Part { samples, whole } in parts(block.samples, block.missing.iter(), per_sample) {
            let going_on = if whole { self.whole(block, samples)? } else { self.partial(block, samples)? };
            if !going_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Publishes samples in portions as they become due.
    fn whole(&mut self, block: &Block, samples: Range<u64>) -> anyhow::Result<bool> {
        let sample_bytes = block.schema.sample_bytes();
        let portion = block.schema.rate.samples_in(Playback::REST.mul_f64(self.schedule.factor)).max(1);
        let mut start = samples.start;
        while start < samples.end {
            let end = samples.end.min(start + portion);
            // A portion is due at the time of its last sample.
            if !self.schedule.wait_for(block.time_of(block.first_index + end)) {
                return Ok(false);
            }
            let bytes = byte_range(start..end, sample_bytes);
            let time = self.schedule.carried(block.time_of(block.first_index + start));
            self.publisher.send_bytes_at(time, &block.data.as_bytes()[bytes])?;
            self.schedule.published.fetch_add(end - start, Ordering::Relaxed);
            start = end;
        }
        Ok(true)
    }

    /// Publishes samples that were recorded in part, as a hole.
    fn partial(&mut self, block: &Block, samples: Range<u64>) -> anyhow::Result<bool> {
        if !self.schedule.wait_for(block.time_of(block.first_index + samples.end)) {
            return Ok(false);
        }
        self.publisher.skip(samples.end - samples.start, Stage::Source)?;
        let per_sample = u64::from(block.schema.elements_per_sample());
        let first = block.first_index * per_sample;
        let elements = samples.start * per_sample..samples.end * per_sample;
        let missing = block.missing.intersection(elements.clone());
        let missing = missing.map(|range| first + range.start..first + range.end);
        let elements = first + elements.start..first + elements.end;
        self.inherited.add_partial(self.recording, &elements, missing);
        Ok(true)
    }
}

fn byte_range(samples: Range<u64>, sample_bytes: usize) -> Range<usize> {
    let at = |sample: u64| usize::try_from(sample).expect("a block fits in memory") * sample_bytes;
    at(samples.start)..at(samples.end)
}
