//! The far end: takes streams from the link and publishes them on a bus.
//!
//! Elements are published in the order of their positions. Samples behind a hole wait until the hole is repaired,
//! given up by the near end, or too old, and no longer. The age of a hole is inferred from the samples behind it.
//!
//! A far end outlives its connections: keep one for each near end, and it continues where it was.

mod counters;
mod inbox;
mod reader_deadlines;
mod resequencer;
mod stream;
mod succession;
#[cfg(test)]
mod tests;

use core::num::NonZeroU8;
use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ledger::HopCounts;
use units::{Epoch, Instant, WallTime};
use wire::{Clock, UpstreamHop};

pub use counters::FarTotals;
pub use reader_deadlines::WantedBy;
use reader_deadlines::{Floor, ReaderDeadlines};
use stream::Stream;

use crate::ages::Ages;
use crate::frame::{self, Begin, Content, Hello, MalformedMessage, Message, Refusal, VERSION};
use crate::{Cause, MAX_STREAMS, Path, least_deadline};

/// Interval of totals, and of the losses on the hops before.
const TOTALS_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which streams wait for their near end to come back.
pub(crate) const SUSPENSION: Duration = Duration::from_secs(60);

/// Settings of a far end.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FarConfig {
    /// Name of this station.
    pub station: String,
    /// A random number of this process.
    pub incarnation: u64,
    /// The least deadline for streams of this end, if it has one; at most [`MAX_DEADLINE`](crate::MAX_DEADLINE).
    pub deadline: Option<Duration>,
}

/// Input of a far end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FarInput<'a> {
    /// A connection to the near end is up; it replaces an earlier one.
    Connected,
    /// The connection is gone.
    Disconnected,
    /// State of the connection: before each poll.
    Path(Path),
    /// A message of the near end.
    Message {
        /// The message.
        bytes: &'a [u8],
        /// When the near end sent its last packet, by the near end's connection clock. Units: microseconds.
        sent_us: u32,
        /// When that packet arrived.
        arrived: Instant,
    },
    /// The readers of a stream and their deadlines have changed.
    Wanted {
        /// The stream.
        slot: u16,
        /// All readers that state a deadline.
        stated: Vec<WantedBy>,
        /// True if others read it, too.
        has_unstated: bool,
    },
    /// Time has passed.
    Advance,
}

/// Output of a far end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FarOutput {
    /// Something to publish.
    Publish {
        /// The stream, by a number of this end.
        slot: u16,
        /// What.
        publish: Publish,
    },
    /// A message for the near end; the connection has room for one less from now on.
    Send {
        /// The message.
        bytes: Vec<u8>,
        /// Instant from which it is of no use.
        deadline: Option<Instant>,
    },
    /// News for the driver.
    Event(FarEvent),
    /// Nothing to do before an input, or the deadline.
    Idle {
        /// Next instant at which to poll again.
        deadline: Option<Instant>,
    },
}

/// Publication of a stream, in this order: its beginning, then positions without a hole between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Publish {
    /// The stream begins.
    Begin {
        /// Description as the near end read it.
        description: Vec<u8>,
        /// Epoch of the stream's publisher.
        origin: Epoch,
        /// Hop of the bus on which it is published.
        hop: NonZeroU8,
        /// Stations that send on the hops before: as many.
        stations: Vec<String>,
        /// First position: that of a whole sample.
        first_position: u64,
        /// Deadline from end to end.
        deadline: Duration,
        /// Precedence where not all streams fit.
        priority: u8,
    },
    /// Samples, or parts of them.
    Elements {
        /// Their positions.
        positions: Range<u64>,
        /// Time of the sample in which they begin.
        t0: WallTime,
        /// Clock of `t0`.
        clock: Clock,
        /// The elements, little-endian.
        bytes: Vec<u8>,
        /// Their age since the origin published them, by estimate.
        age: Duration,
    },
    /// Elements that are missing.
    Inherited {
        /// Their positions.
        positions: Range<u64>,
        /// Hop and outcome of each, all on hops before that of the bus.
        shares: HopCounts,
        /// Why the link gave up those that it lost at stage `deadline`, if it did.
        cause: Option<Cause>,
    },
    /// Other outcomes of elements that are missing.
    Settled {
        /// Positions as in [`Publish::Inherited`].
        positions: Range<u64>,
        /// Hop and outcome of each.
        shares: HopCounts,
    },
    /// A statement of the stream's publisher or of an earlier relay, as it came.
    Statement(Vec<u8>),
    /// Cumulative losses of each hop before that of the bus.
    Upstream(Vec<UpstreamHop>),
    /// The stream has ended; the slot is free.
    End,
}

/// News of a far end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FarEvent {
    /// The near end has identified itself.
    Met {
        /// Its station.
        station: String,
    },
    /// A stream of the near end is not published.
    Refused {
        /// Epoch of its publisher.
        origin: Epoch,
        /// The reason.
        refusal: Refusal,
    },
    /// A stream continues after a loss of the connection, or a restart of the near end.
    Resumed {
        /// The stream.
        slot: u16,
    },
    /// The deadline of a stream has changed with its readers.
    Deadline {
        /// The stream.
        slot: u16,
        /// The deadline.
        deadline: Duration,
    },
    /// A reader wants a deadline that the path cannot keep; the others keep theirs.
    DeadlineRefused {
        /// The stream.
        slot: u16,
        /// The reader and its deadline.
        wanted: WantedBy,
        /// Smoothed round trip of the path.
        round_trip: Duration,
    },
    /// The link lost elements: they are published as missing.
    Lost {
        /// The stream.
        slot: u16,
        /// Positions that were given up, among them elements that were missing before the link.
        positions: Range<u64>,
        /// The cause as far as it is known.
        cause: Cause,
    },
    /// A message of the near end, or an input, was invalid; it was counted and ignored.
    Ignored(FarFault),
}

/// Reason why a far end ignored a message or an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FarFault {
    /// A message that cannot be read.
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
    /// A message that only a far end sends.
    #[error("the near end sent a message of far ends")]
    Direction,
    /// A message of a stream that did not begin.
    #[error("the near end spoke of stream {0}, which did not begin")]
    UnknownStream(u16),
    /// Data that are not of the stream.
    #[error("the near end sent data that are not of their stream")]
    Data,
    /// Positions that contradict an earlier message.
    #[error("the near end tells of positions {start} to {end} what contradicts what it told before")]
    Contradiction {
        /// First position.
        start: u64,
        /// Position after the last.
        end: u64,
    },
    /// An age that is less than that of earlier samples.
    #[error("the age of what begins at position {0} goes back")]
    Age(u64),
    /// More controls than can be kept in order.
    #[error("the near end's control {0} is too far ahead")]
    Ahead(u64),
    /// An input for a stream that is not there.
    #[error("input for slot {0}, which has no stream")]
    NoStream(u16),
    /// Another version of the messages.
    #[error("the near end speaks version {0} of the link's messages, this one 1")]
    Version(u16),
}

/// The far end of a link.
#[derive(Debug)]
pub struct FarEnd {
    config: FarConfig,
    connection: Connection,
    /// The incarnation of the near end, once it has identified itself on this connection.
    near_incarnation: Option<u64>,
    /// Beginnings that have overtaken the greeting, by their number on the link.
    early: BTreeMap<u16, Vec<u8>>,
    /// The streams by their number here.
    streams: BTreeMap<u16, Stream>,
    /// Their numbers by those on the link.
    on_link: BTreeMap<u16, u16>,
    /// Numbers on the link of streams that have ended.
    ended: BTreeSet<u16>,
    next_slot: u16,
    totals_due: Instant,
    outputs: VecDeque<FarOutput>,
    ignored: u64,
}

/// State of the connection.
#[derive(Debug)]
enum Connection {
    Down,
    Up { path: Option<Path>, outbox: VecDeque<(Vec<u8>, Option<Instant>)> },
}

/// When a message was sent and has arrived.
#[derive(Clone, Copy, Debug)]
struct Times {
    sent_us: u32,
    arrived: Instant,
    round_trip: Duration,
}

impl FarEnd {
    /// Creates a far end without streams and connection.
    #[must_use]
    pub fn new(config: FarConfig, now: Instant) -> Self {
        let station = frame::station_name(&config.station);
        Self {
            config: FarConfig { station, ..config },
            connection: Connection::Down,
            near_incarnation: None,
            early: BTreeMap::new(),
            streams: BTreeMap::new(),
            on_link: BTreeMap::new(),
            ended: BTreeSet::new(),
            next_slot: 0,
            totals_due: now,
            outputs: VecDeque::new(),
            ignored: 0,
        }
    }

    /// Takes an input.
    pub fn handle(&mut self, now: Instant, input: FarInput<'_>) {
        let outcome = match input {
            FarInput::Connected => {
                self.connect(now);
                Ok(())
            }
            FarInput::Disconnected => {
                self.disconnect(now);
                Ok(())
            }
            FarInput::Path(path) => {
                if let Connection::Up { path: known, .. } = &mut self.connection {
                    *known = Some(path);
                }
                Ok(())
            }
            FarInput::Message { bytes, sent_us, arrived } => {
                let round_trip = self.path().map_or(Duration::ZERO, |path| path.round_trip);
                self.on_message(now, bytes, Times { sent_us, arrived, round_trip })
            }
            FarInput::Wanted { slot, stated, has_unstated } => self.want(slot, stated, has_unstated),
            FarInput::Advance => Ok(()),
        };
        if let Err(fault) = outcome {
            self.ignored += 1;
            self.outputs.push_back(FarOutput::Event(FarEvent::Ignored(fault)));
        }
        self.release(now);
        self.tell(now);
    }

    /// Returns the next output; to be called until it is idle.
    pub fn poll(&mut self, now: Instant) -> FarOutput {
        if let Some(output) = self.outputs.pop_front() {
            return output;
        }
        if let Connection::Up { path: Some(path), outbox } = &mut self.connection
            && path.room > 0
            && let Some((bytes, deadline)) = outbox.pop_front()
        {
            path.room -= 1;
            return FarOutput::Send { bytes, deadline };
        }
        let holes = self.streams.values().filter_map(Stream::deadline);
        let totals = (!self.streams.is_empty()).then_some(self.totals_due.max(now));
        let forgotten =
            self.streams.values().filter_map(Stream::suspended_since).map(|since| since + SUSPENSION);
        FarOutput::Idle { deadline: holes.chain(totals).chain(forgotten).min() }
    }

    /// Returns the account of a stream, `None` if it is not there.
    #[must_use]
    pub fn totals(&self, slot: u16) -> Option<FarTotals> {
        self.streams.get(&slot).and_then(Stream::totals)
    }

    /// Returns the deadline and the priority of a stream, `None` if it is not there.
    #[must_use]
    pub fn terms(&self, slot: u16) -> Option<(Duration, u8)> {
        self.streams.get(&slot).map(|stream| (stream.kept(), stream.priority()))
    }

    /// Returns the number of invalid messages and inputs, which were ignored.
    #[must_use]
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the ages at which samples of a stream were published since the last call; `None` if there were none.
    pub fn take_ages(&mut self, slot: u16) -> Option<Ages> {
        self.streams.get_mut(&slot)?.take_ages()
    }

    /// Returns whether nothing is left to do for any stream, with a connection or without one.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    /// Returns the bytes that wait behind holes, or for the end of an earlier epoch.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.streams.values().map(Stream::held_bytes).sum()
    }

    fn connect(&mut self, now: Instant) {
        self.disconnect(now);
        let FarConfig { incarnation, station, .. } = &self.config;
        let hello = Hello { version: VERSION, incarnation: *incarnation, station: station.clone() };
        let outbox = [(Message::plain(0, Content::Hello(hello)).encode(), None)].into();
        self.connection = Connection::Up { path: None, outbox };
    }

    fn disconnect(&mut self, now: Instant) {
        self.connection = Connection::Down;
        self.on_link.clear();
        self.ended.clear();
        self.near_incarnation = None;
        self.early.clear();
        self.streams.values_mut().for_each(|stream| stream.suspend(now));
    }

    const fn path(&self) -> Option<Path> {
        match self.connection {
            Connection::Down => None,
            Connection::Up { path, .. } => path,
        }
    }

    fn send(&mut self, message: &Message<'_>, deadline: Option<Instant>) {
        if let Connection::Up { outbox, .. } = &mut self.connection {
            outbox.push_back((message.encode(), deadline));
        }
    }

    fn on_message(&mut self, now: Instant, bytes: &[u8], times: Times) -> Result<(), FarFault> {
        let message = Message::decode(bytes)?;
        match message.content {
            Content::Hello(hello) => return self.on_hello(now, hello),
            Content::Begin(begin) => {
                match self.near_incarnation {
                    Some(incarnation) => self.on_begin(now, message.slot, &begin, incarnation),
                    None if self.early.len() < MAX_STREAMS => {
                        drop(self.early.insert(message.slot, bytes.to_vec()))
                    }
                    None => return Err(FarFault::UnknownStream(message.slot)),
                }
                return Ok(());
            }
            Content::Refuse(_) if self.early.remove(&message.slot).is_some() => return Ok(()),
            Content::Resume(_) | Content::Totals(_) | Content::Want(_) => return Err(FarFault::Direction),
            Content::Data(_) | Content::Horizon(_) | Content::Control(_) | Content::Refuse(_) => {}
        }
        let unknown = FarFault::UnknownStream(message.slot);
        if self.ended.contains(&message.slot) {
            // Messages overtake each other: this one left before the stream's end.
            return Ok(());
        }
        let slot = *self.on_link.get(&message.slot).ok_or(unknown)?;
        let stream = self.streams.get_mut(&slot).ok_or(unknown)?;
        stream.take(&message, times)
    }

    fn on_hello(&mut self, now: Instant, hello: Hello) -> Result<(), FarFault> {
        if hello.version != VERSION {
            return Err(FarFault::Version(hello.version));
        }
        self.near_incarnation = Some(hello.incarnation);
        self.outputs.push_back(FarOutput::Event(FarEvent::Met { station: hello.station }));
        for bytes in core::mem::take(&mut self.early).into_values() {
            if let Message { slot, content: Content::Begin(begin), .. } = Message::decode(&bytes)? {
                self.on_begin(now, slot, &begin, hello.incarnation);
            }
        }
        Ok(())
    }

    fn on_begin(&mut self, now: Instant, number: u16, begin: &Begin<'_>, incarnation: u64) {
        match self.accept(now, number, begin, incarnation) {
            Ok(resume) => {
                let slot = self.on_link[&number];
                self.send(&Message::plain(number, Content::Resume(resume)), None);
                // The near end may know another one from before.
                let want = self.streams[&slot].want();
                self.send(&Message::plain(number, Content::Want(want)), None);
            }
            Err(refusal) => {
                self.ignored += 1;
                self.send(&Message::plain(number, Content::Refuse(refusal)), None);
                let origin = begin.origin;
                self.outputs.push_back(FarOutput::Event(FarEvent::Refused { origin, refusal }));
            }
        }
    }

    /// Takes a stream that begins; returns what this end has of it.
    fn accept(
        &mut self,
        now: Instant,
        number: u16,
        begin: &Begin<'_>,
        incarnation: u64,
    ) -> Result<frame::Resume, Refusal> {
        let fresh = Stream::new(begin, &self.config)?;
        let is_known = |known: &Stream| {
            known.origin() == begin.origin && (!known.has_ended() || known.is_asked_again(begin, incarnation))
        };
        let known = self.streams.iter().find(|(_, known)| is_known(known));
        let is_full = self.streams.len() >= MAX_STREAMS || self.on_link.contains_key(&number);
        let is_new = known.is_none();
        let slot = match known {
            Some((_, known)) if known.id() != fresh.id() => return Err(Refusal::AnotherDescription),
            Some((_, known)) if !known.is_suspended() => return Err(Refusal::Claimed),
            Some((&slot, known)) => {
                if known.has_opened() {
                    self.outputs.push_back(FarOutput::Event(FarEvent::Resumed { slot }));
                }
                slot
            }
            None if is_full => return Err(Refusal::TooManyStreams),
            None => self.add(fresh),
        };
        self.end_before(slot);
        if is_new || self.streams[&slot].is_held() {
            self.hold_back(now, slot);
        }
        self.on_link.insert(number, slot);
        self.ended.remove(&number);
        self.totals_due = self.totals_due.min(now + TOTALS_INTERVAL);
        let stream = self.streams.get_mut(&slot).expect("it is there");
        Ok(stream.resume(now, number, incarnation, begin))
    }

    /// Gives a stream a number of this end.
    fn add(&mut self, stream: Stream) -> u16 {
        while self.streams.contains_key(&self.next_slot) {
            self.next_slot = self.next_slot.wrapping_add(1);
        }
        let slot = self.next_slot;
        self.next_slot = self.next_slot.wrapping_add(1);
        self.streams.insert(slot, stream);
        slot
    }

    fn want(&mut self, slot: u16, stated: Vec<WantedBy>, has_unstated: bool) -> Result<(), FarFault> {
        let stream = self.streams.get_mut(&slot).ok_or(FarFault::NoStream(slot))?;
        stream.reader_deadlines_mut().update(stated, has_unstated);
        self.judge_deadlines();
        Ok(())
    }

    /// Decides which deadline each stream has, and tells the near end of changes.
    fn judge_deadlines(&mut self) {
        // Before it is measured the round trip is zero.
        let Some(round_trip) = self.path().map(|path| path.round_trip).filter(|it| !it.is_zero()) else {
            return;
        };
        let mut messages = Vec::new();
        for (&slot, stream) in &mut self.streams {
            for wanted in stream.reader_deadlines_mut().judge(least_deadline(round_trip)) {
                self.ignored += 1;
                self.outputs.push_back(FarOutput::Event(FarEvent::DeadlineRefused {
                    slot,
                    wanted,
                    round_trip,
                }));
            }
            if stream.decide() {
                let deadline = stream.kept();
                self.outputs.push_back(FarOutput::Event(FarEvent::Deadline { slot, deadline }));
                let want = Content::Want(stream.want());
                messages.extend(stream.number().map(|number| Message::plain(number, want)));
            }
        }
        for message in messages {
            self.send(&message, None);
        }
    }

    /// Publishes the next samples, and gives up those that are too old.
    fn release(&mut self, now: Instant) {
        self.refuse_superseded();
        self.end_silent(now);
        let is_up = self.path().is_some_and(|path| path.is_up);
        for (&slot, stream) in &mut self.streams {
            if stream.suspended_since().is_some_and(|since| now >= since + SUSPENSION) {
                stream.abandon(now);
            }
            stream.release(now, is_up);
            while let Some(output) = stream.poll(slot) {
                self.outputs.push_back(output);
            }
        }
        self.let_go(now, is_up);
        let gone: Vec<u16> =
            self.streams.iter().filter(|(_, stream)| stream.is_gone(now)).map(|(&slot, _)| slot).collect();
        for slot in gone {
            self.streams.remove(&slot);
            let (ended, on_link) =
                core::mem::take(&mut self.on_link).into_iter().partition(|(_, there)| *there == slot);
            self.on_link = on_link;
            self.ended.extend(BTreeMap::into_keys(ended));
        }
    }

    /// Reports the progress of the streams to the near end and to the bus.
    fn tell(&mut self, now: Instant) {
        if now < self.totals_due {
            return;
        }
        self.totals_due = now + TOTALS_INTERVAL;
        self.judge_deadlines();
        let deadline = Some(now + 2 * TOTALS_INTERVAL);
        let mut messages = Vec::new();
        for (&slot, stream) in &mut self.streams {
            if let Some(upstream) = stream.upstream_news() {
                let publish = Publish::Upstream(upstream);
                self.outputs.push_back(FarOutput::Publish { slot, publish });
            }
            messages.extend(stream.totals_message());
        }
        for message in messages {
            self.send(&message, deadline);
        }
    }
}

impl Times {
    /// Returns when samples were born by this end's clock, `None` if they were sent before.
    fn born(&self, born_us: u32) -> Option<Instant> {
        let age_us = self.sent_us.wrapping_sub(born_us);
        // Half of the clock's range lies before an instant, half after it.
        let age = (age_us <= u32::MAX / 2).then(|| Duration::from_micros(age_us.into()))?;
        Some(self.arrived - age - self.round_trip / 2)
    }
}
