//! Publishing a stream: samples at a rate, sent to the network without further calls.
//!
//! Begin with [`Node::publisher`]; `builder` has the settings of a stream.

mod builder;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use cast::send::ReaderReport;
use engine::{Publication, PublicationConfig, PublicationStatus};
use ledger::Stage;
use sample::{Dtype, Element, Schema, StreamName};
use units::{Epoch, WallTime};
use wire::Totals;
use zerocopy::IntoBytes;

use crate::node::{Node, NodeError};
use crate::sample_clock::SampleClock;
use crate::schedule::Schedule;
use crate::steady_clock::{SteadyClock, SteadyTime};
use crate::timeline::{self, Run, Timeline};
pub use builder::PublisherBuilder;
use builder::open_publication;
pub(crate) use builder::{HELD_PART_OF_RING, ring_bytes, with_ring_or_without};

#[cfg(target_endian = "big")]
compile_error!("samples are little-endian in memory as on the wire; big-endian hosts are not supported");

/// Interval at which a publisher that waits for readers checks for them, because their arrival wakes no
/// publisher: a fifth of the time in which one on this host finds it.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Last position to which an epoch may be skipped: sums of positions remain within 64 bits.
const MAX_POSITION: u64 = 1 << 62;

/// Handling of samples for which there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFull {
    /// Overwrite the oldest unsent samples; they are counted as `publisher_queue`.
    #[default]
    Overwrite,
    /// Wait until there is room.
    Block,
    /// Refuse the samples with [`PublishError::Full`].
    Error,
}

/// Reason why samples could not be published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The elements have another type.
    #[error("the stream's elements are {stream}, not {given}")]
    Dtype {
        /// Type that the stream was declared with.
        stream: Dtype,
        /// Type of the samples given.
        given: Dtype,
    },
    /// The bytes are not a whole number of samples.
    #[error("{bytes} bytes are not whole samples of {sample_bytes} bytes each")]
    Ragged {
        /// Number of bytes given.
        bytes: usize,
        /// Size of one sample.
        sample_bytes: usize,
    },
    /// The number of times is not that of the samples.
    #[error("{samples} samples have {times} times\ngive one time for each sample")]
    Times {
        /// Number of samples given.
        samples: usize,
        /// Number of times given.
        times: usize,
    },
    /// A time is before that of the previous sample.
    #[error(
        "the time of a sample is {back:?} before that of the previous sample; within an epoch times must not go back\n\
         send the samples in order; if a clock was set back, begin a new epoch (begin_anew)"
    )]
    TimeGoesBack {
        /// Difference of the two times.
        back: Duration,
    },
    /// There is no room, with [`OnFull::Error`].
    #[error("the queue to the network is full\nsend less, or use on_full = overwrite or block")]
    Full,
    /// There was no room within the publisher's patience.
    #[error(
        "the queue to the network was full for {patience:?}; {taken} samples of the block were accepted\n\
         send less, make the queue larger (queue_bytes), or wait longer (patience)"
    )]
    StillFull {
        /// Time that it waited.
        patience: Duration,
        /// Number of samples of the block that were accepted before; they will be sent.
        taken: u64,
    },
    /// One sample does not fit into the queue.
    #[error("one sample of {0} bytes does not fit into the queue\nuse smaller frames")]
    TooLarge(usize),
    /// The block never fits into the queue.
    #[error(
        "a block of {bytes} bytes does not fit into the queue of {queue_bytes} bytes\n\
         send smaller blocks, or make the queue larger (queue_bytes)"
    )]
    BlockTooLarge {
        /// Size of the block.
        bytes: usize,
        /// Capacity of the empty queue.
        queue_bytes: usize,
    },
    /// The process was forked after the publisher was opened, and this is the child: what it sent would have the
    /// parent's numbers.
    #[error(
        "this publisher was opened before the process was forked, and belongs to the parent\n\
         open a node and a publisher in the child"
    )]
    Forked,
    /// The sending agent has failed: nothing is sent any more.
    #[error("the sending agent has failed\nsee the log for the reason, and open the publisher on a new node")]
    Ended,
    /// A new epoch cannot begin; the one before has ended.
    #[error("a new epoch cannot begin, and publishing has stopped: {0}")]
    Begin(#[from] Box<NodeError>),
    /// Only the stage `source` may be skipped.
    #[error("samples cannot be skipped in stage {0}: a publisher may only use stage `source`")]
    Stage(Stage),
    /// A hole would go beyond the last position that an epoch can have.
    #[error("a hole of {0} samples is longer than an epoch can be\nbegin a new epoch (begin_anew)")]
    HoleTooLong(u64),
}

/// Totals of the epochs of a publisher that have ended, all together.
///
/// Readers have an account for each epoch; the sum of those accounts is to be compared with these totals.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EarlierEpochs {
    /// Number of epochs that have ended.
    pub epochs: u64,
    /// Totals of their samples and datagrams.
    pub totals: Totals,
}

/// A stream being published. Dropping it sends the queued samples and the final tally.
///
/// Sending never waits for the network unless [`OnFull::Block`] is set. A publisher may be moved to another
/// thread. In a forked child it refuses to send ([`PublishError::Forked`]), and closing or dropping it there leaves the
/// parent's stream as it is.
///
/// ```
/// # use tallycast::{Bus, Dtype, Node, Stage};
/// # let node = Node::open("udp://239.84.0.0:7493?iface=lo".parse::<Bus>()?)?;
/// let mut publisher = node.publisher("lab/level").dtype(Dtype::I16).rate("48k").channel(("level", "mV")).open()?;
/// publisher.send(&[1_i16, 2, 3])?; // just taken
/// publisher.skip(5, Stage::Source)?; // the device lost five: readers see a hole of stage `source`
/// publisher.send_at(tallycast::now(), &[9_i16])?; // the device knows when
/// publisher.send_when_due(&[10_i16, 11])?; // waits until they would have been taken
/// let totals = publisher.close();
/// assert_eq!((totals.samples.numbered, totals.samples.source), (6, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Publisher {
    publication: Option<Publication>,
    /// Keeps the sending agent alive until the publication, dropped before it, has ended.
    node: Node,
    name: StreamName,
    schema: Schema,
    /// Configuration of the current epoch; that of the next one differs only in its epoch.
    config: PublicationConfig,
    /// Probability with which datagrams are withheld.
    loss: f64,
    on_full: OnFull,
    patience: Option<Duration>,
    host_clock: SteadyClock,
    sample_clock: SampleClock,
    timeline: Timeline,
    schedule: Schedule,
    earlier: EarlierEpochs,
}

impl Publisher {
    /// Publishes samples, the last of which is taken now; their times follow from count and rate, kept close to the
    /// host's clock.
    ///
    /// If that clock is set for longer than two seconds, times follow it: forward immediately, back by up to
    /// a second in small steps; if it is set back by more, a [new epoch](Self::begin_anew) begins
    /// automatically, with one warning.
    ///
    /// Shape: `[samples, elements per sample]`, row-major; `&[[f32; 2]]` is given as `rows.as_flattened()`.
    ///
    /// # Errors
    /// [`PublishError`]; then nothing was accepted, except with [`PublishError::StillFull`].
    pub fn send<E: Element>(&mut self, samples: &[E]) -> Result<(), PublishError> {
        self.check_dtype::<E>()?;
        self.send_bytes(samples.as_bytes())
    }

    /// Publishes samples given as little-endian bytes; otherwise like [`Publisher::send`].
    ///
    /// # Errors
    /// Those of [`Publisher::send`].
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), PublishError> {
        self.send_by(sys::clock::pair(), bytes)
    }

    /// Returns the time that [`Publisher::send`] would now give to the first of this many samples: for those that are
    /// published in parts, with [holes](Self::skip) between them.
    ///
    /// # Errors
    /// Those of [`Publisher::send`], where the host's clock was set back.
    pub fn time_of_taken(&mut self, samples: u64) -> Result<WallTime, PublishError> {
        self.follow_clock(samples, sys::clock::pair())
    }

    /// Publishes samples, the first of which was taken at `t0`; otherwise like [`Publisher::send`].
    ///
    /// Within an epoch times never go back. If `t0` is before the previous sample by a second at most,
    /// samples get somewhat later times until theirs are reached; in a stream of [its own
    /// times](PublisherBuilder::own_times) they are refused. If it is earlier, as after a device's clock was
    /// set back, a [new epoch](Self::begin_anew) begins automatically, with a warning.
    ///
    /// # Errors
    /// [`PublishError::TimeGoesBack`], and those of [`Publisher::send`].
    pub fn send_at<E: Element>(&mut self, t0: WallTime, samples: &[E]) -> Result<(), PublishError> {
        self.check_dtype::<E>()?;
        self.send_bytes_at(t0, samples.as_bytes())
    }

    /// Publishes samples given as little-endian bytes, the first of which was taken at `t0`.
    ///
    /// # Errors
    /// Those of [`Publisher::send_at`].
    pub fn send_bytes_at(&mut self, t0: WallTime, bytes: &[u8]) -> Result<(), PublishError> {
        self.check_whole(bytes)?;
        self.keep_order(&[t0])?;
        self.write(t0, bytes)
    }

    /// Publishes samples given as little-endian bytes, each with its own time; otherwise like [`Publisher::send`].
    ///
    /// Samples whose times follow the rate are sent together, all others one by one. Unless the stream is
    /// declared to have [its own times](PublisherBuilder::own_times), readers get times that are accurate to
    /// half a sample period.
    ///
    /// # Errors
    /// [`PublishError::Times`] if there are not as many times as samples, [`PublishError::TimeGoesBack`] as
    /// [`Publisher::send_at`] says, and those of [`Publisher::send`], which then may have taken some.
    pub fn send_bytes_timed(&mut self, times: &[WallTime], bytes: &[u8]) -> Result<(), PublishError> {
        let (rate, sample_bytes) = (self.schema.rate, self.schema.sample_bytes());
        let samples = bytes.len() / sample_bytes;
        if samples != times.len() {
            return Err(PublishError::Times { samples, times: times.len() });
        }
        self.check_whole(bytes)?;
        self.keep_order(times)?;
        let tolerance_ns = self.schema.time_tolerance().as_nanos();
        let mut rest = bytes;
        let mut taken = 0;
        while let Some(&t0) = times.get(taken) {
            let follows = |&(index, time): &(u64, &WallTime)| {
                u128::from(time.nanos_since(rate.time_of(index, 0, t0)).unsigned_abs()) <= tolerance_ns
            };
            let run = (0..).zip(&times[taken..]).take_while(follows).count();
            let (head, tail) = rest.split_at(run * sample_bytes);
            self.write(t0, head)?;
            (rest, taken) = (tail, taken + run);
        }
        Ok(())
    }

    /// Waits until samples are due by count and rate, then publishes them: for sources without a clock of
    /// their own, such as a simulation.
    ///
    /// The first call starts the schedule; every later time follows from it, so that delays of the caller do
    /// not accumulate. A caller that is late by more than 100 ms restarts the schedule: missed samples are
    /// not caught up.
    ///
    /// # Errors
    /// Those of [`Publisher::send`].
    pub fn send_when_due<E: Element>(&mut self, samples: &[E]) -> Result<(), PublishError> {
        self.check_dtype::<E>()?;
        self.send_bytes_when_due(samples.as_bytes())
    }

    /// Publishes samples given as little-endian bytes like [`send_when_due`](Self::send_when_due).
    ///
    /// # Errors
    /// Those of [`Publisher::send`].
    pub fn send_bytes_when_due(&mut self, bytes: &[u8]) -> Result<(), PublishError> {
        let (first_index, count) = (self.next_index(), self.samples_in(bytes));
        sys::clock::sleep_until(self.schedule.due(sys::clock::monotonic(), first_index, count));
        self.send_bytes(bytes)
    }

    /// Skips samples that the source does not have; readers see a hole of stage `source`.
    ///
    /// # Errors
    /// [`PublishError::Stage`] for any other stage, [`PublishError::HoleTooLong`] beyond 2^62 elements.
    pub fn skip(&mut self, samples: u64, stage: Stage) -> Result<(), PublishError> {
        if stage != Stage::Source {
            return Err(PublishError::Stage(stage));
        }
        let elements = u64::from(self.schema.elements_per_sample());
        let end = self.next_index().checked_add(samples).and_then(|end| end.checked_mul(elements));
        if end.is_none_or(|end| end > MAX_POSITION) {
            return Err(PublishError::HoleTooLong(samples));
        }
        if samples > 0 {
            let sample_bytes = self.schema.sample_bytes();
            self.check_home()?;
            let publication = self.publication.as_mut().ok_or(PublishError::Ended)?;
            publication.skip(samples).map_err(|_| PublishError::TooLarge(sample_bytes))?;
        }
        Ok(())
    }

    /// Returns the index of the next sample.
    #[must_use]
    pub fn next_index(&self) -> u64 {
        self.publication.as_ref().map_or(0, Publication::next_index)
    }

    /// Returns the stream's name.
    #[must_use]
    pub const fn name(&self) -> &StreamName {
        &self.name
    }

    /// Returns the schema of the samples.
    #[must_use]
    pub const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the publisher's current epoch.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.config.epoch
    }

    /// Ends the epoch as [`close`](Self::close) does, and begins another, whose samples are counted from 0;
    /// returns the final status of the one that ended.
    ///
    /// For a device that restarts, or whose clock was set back.
    ///
    /// # Errors
    /// [`PublishError::Begin`] if the next epoch cannot begin; then nothing is published any more.
    /// [`PublishError::Forked`] in a forked child.
    pub fn begin_anew(&mut self) -> Result<PublicationStatus, PublishError> {
        self.check_home()?;
        let ended = self.publication.take().map_or_else(PublicationStatus::default, Publication::finish);
        self.earlier.epochs += 1;
        self.earlier.totals.add(&ended.totals);
        let stream = wire::stream_id(&self.name, &self.schema);
        self.config.epoch = self.node.new_epoch(stream);
        let publication = open_publication(&self.node, &self.config).map_err(Box::new)?;
        publication.inject(self.loss);
        self.publication = Some(publication);
        self.timeline = Timeline::default();
        self.sample_clock.begin_anew();
        self.schedule = Schedule::new(self.schema.rate);
        Ok(ended)
    }

    /// Withholds data datagrams with this probability from now on.
    pub fn set_injection(&mut self, probability: f64) {
        self.loss = probability;
        if let Some(publication) = &self.publication {
            publication.inject(probability);
        }
    }

    /// Returns the totals of the current epoch so far; at most a tenth of a second old.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.status().totals
    }

    /// Returns the totals of the epochs before the current one, whether they ended automatically, because
    /// times went back, or were [ended](Self::begin_anew).
    ///
    /// ```
    /// # use tallycast::{Bus, Node};
    /// # let node = Node::open("shm://earlier-epochs".parse::<Bus>()?)?;
    /// let mut publisher = node.publisher("lab/level").rate(10).open()?;
    /// publisher.send_at(tallycast::now(), &[1.0, 2.0])?;
    /// publisher.begin_anew()?;
    /// publisher.send_at(tallycast::now(), &[3.0])?;
    /// let earlier = publisher.earlier_epochs();
    /// assert_eq!((earlier.epochs, earlier.totals.samples.offered), (1, 2));
    /// assert_eq!(publisher.close().samples.offered, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn earlier_epochs(&self) -> EarlierEpochs {
        self.earlier
    }

    /// Returns the readers that report, with their last reports; asks the sending agent.
    #[must_use]
    pub fn readers(&self) -> Vec<ReaderReport> {
        self.node.send_agent().map_or_else(|_| Vec::new(), |agent| agent.readers(self.epoch()))
    }

    /// Returns the number of readers: those that read this host's memory, and those that report from other
    /// hosts; asks the sending agent.
    ///
    /// Cost: a few system calls for every reader of this host.
    #[must_use]
    pub fn reader_count(&self) -> usize {
        let on_host = self.publication.as_ref().map_or(0, Publication::readers_on_host);
        if self.node.bus().has_network() { on_host + self.readers().len() } else { on_host }
    }

    /// Waits until there are `count` readers, but not longer than `patience`; returns their number then.
    ///
    /// Readers of one process that receive from the network count as one, because they report together.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tallycast::{Bus, Node};
    /// # let node = Node::open("shm://wait-for-readers".parse::<Bus>()?)?;
    /// let publisher = node.publisher("lab/level").rate(10).open()?;
    /// assert_eq!(publisher.wait_for_readers(1, Duration::ZERO), 0);
    /// let subscriber = node.subscriber("lab/level").open()?;
    /// assert_eq!(publisher.wait_for_readers(1, Duration::from_secs(5)), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_for_readers(&self, count: usize, patience: Duration) -> usize {
        // A deadline that cannot be represented means none.
        let deadline = Instant::now().checked_add(patience);
        loop {
            let there = self.reader_count();
            let left = deadline.map_or(Duration::MAX, |it| it.saturating_duration_since(Instant::now()));
            if there >= count || left.is_zero() || self.has_ended() {
                return there;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }

    /// Ends the epoch: sends the queued samples, then the final tally; returns the totals of the epoch.
    #[must_use]
    pub fn close(self) -> Totals {
        self.close_with_status().totals
    }

    /// Ends the epoch like [`close`](Self::close), and returns the last status of the sending agent.
    #[must_use]
    pub fn close_with_status(mut self) -> PublicationStatus {
        self.publication.take().map_or_else(PublicationStatus::default, Publication::finish)
    }

    /// Returns the last status of the sending agent.
    #[must_use]
    pub fn status(&self) -> PublicationStatus {
        self.publication.as_ref().map_or_else(PublicationStatus::default, Publication::status)
    }

    /// Publishes samples that were taken at a moment on both of the host's clocks.
    fn send_by(&mut self, clocks: (units::Instant, WallTime), bytes: &[u8]) -> Result<(), PublishError> {
        self.check_whole(bytes)?;
        let t0 = self.follow_clock(self.samples_in(bytes), clocks)?;
        self.write(t0, bytes)
    }

    /// Refuses to publish in a forked child.
    fn check_home(&self) -> Result<(), PublishError> {
        let is_of_parent = self.publication.as_ref().is_some_and(Publication::is_of_parent);
        if is_of_parent { Err(PublishError::Forked) } else { Ok(()) }
    }

    fn check_dtype<E: Element>(&self) -> Result<(), PublishError> {
        let (stream, given) = (self.schema.dtype, E::DTYPE);
        if stream == given { Ok(()) } else { Err(PublishError::Dtype { stream, given }) }
    }

    fn samples_in(&self, bytes: &[u8]) -> u64 {
        (bytes.len() / self.schema.sample_bytes()) as u64
    }

    fn check_whole(&self, bytes: &[u8]) -> Result<(), PublishError> {
        let sample_bytes = self.schema.sample_bytes();
        let is_whole = bytes.len().is_multiple_of(sample_bytes);
        if is_whole { Ok(()) } else { Err(PublishError::Ragged { bytes: bytes.len(), sample_bytes }) }
    }

    /// Returns whether samples taken at `t0` would begin a new epoch, because they are too far before the
    /// previous ones.
    #[must_use]
    pub fn would_begin_anew(&self, t0: WallTime) -> bool {
        self.timeline.lead_over(t0) > timeline::MAX_LEAD
    }

    /// Refuses times that go back within a block by more than can be corrected, before any of it is accepted;
    /// begins a new epoch if the block as a whole is too early.
    fn keep_order(&mut self, times: &[WallTime]) -> Result<(), PublishError> {
        // Times with nanosecond accuracy are published unchanged or not at all.
        let most = if self.schema.has_own_times() { Duration::ZERO } else { timeline::MAX_LEAD };
        let back = |newest: WallTime, time: WallTime| {
            Duration::from_nanos(u64::try_from(newest.nanos_since(time)).unwrap_or(0))
        };
        let Some(&first) = times.first() else { return Ok(()) };
        let mut newest = first;
        for &time in times {
            if back(newest, time) > most {
                return Err(PublishError::TimeGoesBack { back: back(newest, time) });
            }
            newest = newest.max(time);
        }
        let lead = self.timeline.lead_over(first);
        if self.would_begin_anew(first) {
            tracing::warn!("times were set back by {lead:?}: `{}` continues in a new epoch", self.name);
            self.begin_anew()?;
        } else if lead > most {
            return Err(PublishError::TimeGoesBack { back: lead });
        }
        Ok(())
    }

    /// Writes whole samples in runs whose times never go back.
    fn write(&mut self, t0: WallTime, bytes: &[u8]) -> Result<(), PublishError> {
        self.check_home()?;
        if self.has_ended() {
            return Err(PublishError::Ended);
        }
        let (rate, sample_bytes) = (self.schema.rate, self.schema.sample_bytes());
        let of_block = self.samples_in(bytes);
        if self.on_full == OnFull::Error {
            self.check_room(bytes.len(), self.timeline.most_runs(t0, of_block))?;
        }
        let (mut requested, mut rest) = (t0, bytes);
        while !rest.is_empty() {
            let run = self.timeline.next_run(rate, requested, self.samples_in(rest), of_block);
            let size = usize::try_from(run.samples).unwrap_or(usize::MAX).saturating_mul(sample_bytes);
            let (part, others) = rest.split_at(size.min(rest.len()));
            let index = self.next_index();
            let written = self.write_run(run.first, part);
            self.timeline.told(rate, Run { samples: self.next_index() - index, ..run });
            if run.first != requested {
                self.sample_clock.told(index, run.first);
            }
            written?;
            requested = rate.time_of(run.samples, 0, requested);
            rest = others;
        }
        Ok(())
    }

    /// Writes samples whose times follow the rate.
    fn write_run(&mut self, t0: WallTime, bytes: &[u8]) -> Result<(), PublishError> {
        let (rate, sample_bytes) = (self.schema.rate, self.schema.sample_bytes());
        if self.on_full == OnFull::Block {
            let max_block = (self.publication().max_block_bytes() / 4 / sample_bytes).max(1) * sample_bytes;
            return self.write_blocking(t0, bytes, max_block);
        }
        self.publication_mut().write(t0, bytes, rate).map_err(|_| PublishError::TooLarge(sample_bytes))
    }

    /// Returns whether nothing is published any more.
    fn has_ended(&self) -> bool {
        self.publication.as_ref().is_none_or(Publication::has_ended)
    }

    fn check_room(&self, bytes: usize, runs: usize) -> Result<(), PublishError> {
        let queue_bytes = self.publication().max_block_bytes();
        if bytes > queue_bytes {
            return Err(PublishError::BlockTooLarge { bytes, queue_bytes });
        }
        if self.publication().would_overwrite(bytes, runs) { Err(PublishError::Full) } else { Ok(()) }
    }

    /// Writes in parts that fit, each once there is room for it.
    fn write_blocking(&mut self, t0: WallTime, bytes: &[u8], max_block: usize) -> Result<(), PublishError> {
        let (rate, sample_bytes) = (self.schema.rate, self.schema.sample_bytes());
        let first = self.next_index();
        // A deadline that cannot be represented means none.
        let deadline = self.patience.and_then(|patience| Instant::now().checked_add(patience));
        for part in bytes.chunks(max_block) {
            let left = deadline.map_or(Duration::MAX, |it| it.saturating_duration_since(Instant::now()));
            if !self.publication().wait_for_room(part.len(), left) {
                let patience = self.patience.filter(|_| !self.publication().has_ended());
                let taken = self.next_index() - first;
                return Err(patience
                    .map_or(PublishError::Ended, |it| PublishError::StillFull { patience: it, taken }));
            }
            let t0 = rate.time_of(self.next_index(), first, t0);
            self.publication_mut().write(t0, part, rate).map_err(|_| PublishError::TooLarge(sample_bytes))?;
        }
        Ok(())
    }

    /// Returns the time of the first of `samples` that have just been taken; begins a new epoch if the host's
    /// clock was set back by more than can be corrected.
    fn follow_clock(
        &mut self,
        samples: u64,
        clocks: (units::Instant, WallTime),
    ) -> Result<WallTime, PublishError> {
        let SteadyTime { wall, step_ns } = self.host_clock.read(clocks);
        if step_ns != 0 {
            self.sample_clock.begin_anew();
            let first = self.sample_clock.time_of(self.next_index(), samples, self.schema.rate, wall);
            self.on_clock_set(first, step_ns)?;
        }
        let (rate, index) = (self.schema.rate, self.next_index());
        Ok(self.sample_clock.time_of(index, samples, rate, wall))
    }

    /// Handles a step of the host's clock; by that clock the next sample was taken at `first`.
    fn on_clock_set(&mut self, first: WallTime, step_ns: i64) -> Result<(), PublishError> {
        let by = Duration::from_nanos(step_ns.unsigned_abs());
        if step_ns < 0 && self.would_begin_anew(first) {
            tracing::warn!(
                "the host's clock was set back by {by:?}: `{}` continues in a new epoch",
                self.name
            );
            self.begin_anew()?;
        } else if by > timeline::MAX_LEAD {
            let direction = if step_ns < 0 { "back" } else { "forward" };
            tracing::warn!(
                "the host's clock was set {direction} by {by:?}: the times of `{}` follow it",
                self.name
            );
        }
        self.sample_clock.begin_anew();
        Ok(())
    }

    fn publication(&self) -> &Publication {
        self.publication.as_ref().expect("a publisher in use is open")
    }

    fn publication_mut(&mut self) -> &mut Publication {
        self.publication.as_mut().expect("a publisher in use is open")
    }
}
