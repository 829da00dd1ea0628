//! The near end: takes streams from a bus and sends them over the link.
//!
//! Messages are handed to the connection only while it has room, so that their order is decided here: controls before
//! samples, the stream of the highest priority first, of a stream the oldest samples, and the newest while not all can
//! arrive in time.

mod asked;
mod counters;
mod journal;
mod queue;
mod stream;
#[cfg(test)]
mod tests;

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use ledger::HopCounts;
use sample::{StreamName, StreamPattern};
use units::{Epoch, Instant, WallTime};
use wire::Clock;

use asked::Asked;
pub use counters::NearAccount;
use stream::Stream;

use crate::ages::Ages;
use crate::frame::{self, Begin, Content, Hello, MalformedMessage, Message, Refusal, VERSION};
use crate::{Cause, DEFAULT_DEADLINE, HANDOVER, MAX_STREAMS, Path, least_deadline};

/// Interval of horizons.
const HORIZON_INTERVAL: Duration = Duration::from_millis(100);

/// Settings of a near end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NearConfig {
    /// Name of this station.
    pub station: String,
    /// A random number of this process, by which the far end recognizes a restart.
    pub incarnation: u64,
    /// Deadline from end to end, unless the far end's readers want another one.
    pub deadline: Duration,
    /// True if readers can only get a longer one.
    pub is_least: bool,
    /// Precedence of streams, by patterns of their names, where not all fit: the higher goes first. The last matching
    /// pattern counts; without one it is 0.
    pub priorities: Vec<(StreamPattern, u8)>,
}

/// A stream that is to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Began {
    /// The driver's number of the stream.
    pub slot: u16,
    /// The encoded description, as it was read.
    pub description: Vec<u8>,
    /// Epoch of the stream's publisher.
    pub origin: Epoch,
    /// Stations that send on the hops so far, from the stream's publisher to the one on whose bus it is read; empty:
    /// the station of the description.
    pub stations: Vec<String>,
    /// First position that the driver can pass in: the first of a sample.
    pub first_position: u64,
}

/// Samples, or parts of them, in the order of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elements<'a> {
    /// Their positions, behind those of the last input.
    pub positions: Range<u64>,
    /// Time of the sample in which they begin.
    pub t0: WallTime,
    /// Clock of `t0`.
    pub clock: Clock,
    /// The elements, little-endian.
    pub bytes: &'a [u8],
    /// Their age: time since the origin published them.
    pub age: Duration,
}

/// Input of a near end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NearInput<'a> {
    /// A connection to the far end is up; it replaces an earlier one.
    Connected,
    /// The connection is gone.
    Disconnected,
    /// State of the connection: before each poll.
    Path(Path),
    /// A message of the far end.
    Message(&'a [u8]),
    /// The connection gave a message up.
    Expired {
        /// Its tag.
        tag: u64,
        /// True if all of it was sent at least once.
        was_sent: bool,
    },
    /// A stream begins.
    Began(Began),
    /// Samples of a stream.
    Elements {
        /// The stream.
        slot: u16,
        /// The samples.
        elements: Elements<'a>,
    },
    /// Elements that were missing already.
    Missing {
        /// The stream.
        slot: u16,
        /// Positions behind the last.
        positions: Range<u64>,
        /// Hop and outcome of each, all on hops before the link.
        shares: HopCounts,
    },
    /// Other outcomes of elements that were missing.
    Settled {
        /// The stream.
        slot: u16,
        /// Positions as in [`NearInput::Missing`].
        positions: Range<u64>,
        /// Hop and outcome of each.
        shares: HopCounts,
    },
    /// Outcomes by counts, of which the account may take some back for others: they are told when the stream ends or
    /// they have not changed for a minute, unless better ones come before.
    Estimated {
        /// The stream.
        slot: u16,
        /// Positions as in [`NearInput::Missing`].
        positions: Range<u64>,
        /// Hop and outcome of each.
        shares: HopCounts,
    },
    /// A statement of the stream's publisher or of an earlier relay.
    Statement {
        /// The stream.
        slot: u16,
        /// The statement.
        bytes: Vec<u8>,
    },
    /// The stream has ended: nothing more comes in this slot.
    Ended {
        /// The stream.
        slot: u16,
    },
    /// Time has passed.
    Advance,
}

/// Output of a near end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NearOutput {
    /// A message for the far end; the connection has room for one less from now on.
    Send {
        /// Identifies it in [`NearInput::Expired`].
        tag: u64,
        /// The message.
        bytes: Vec<u8>,
        /// Instant from which it is of no use at the far end.
        deadline: Option<Instant>,
        /// Precedence of its repairs: that of its stream.
        priority: u8,
    },
    /// News for the driver.
    Event(NearEvent),
    /// Nothing to do before an input, or the deadline.
    Idle {
        /// Next instant at which to poll again.
        deadline: Option<Instant>,
    },
}

/// News of a near end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NearEvent {
    /// The far end has identified itself.
    Met {
        /// Its station.
        station: String,
    },
    /// The far end has accepted a stream: from this position on the link accounts for it.
    Opened {
        /// The stream.
        slot: u16,
        /// The first position.
        position: u64,
    },
    /// A stream is not sent.
    Refused {
        /// The stream.
        slot: u16,
        /// The reason.
        refusal: Refusal,
    },
    /// The deadline or priority of a stream has changed with the far end's readers.
    Wanted {
        /// The stream.
        slot: u16,
        /// Its deadline from now on.
        deadline: Duration,
        /// Its priority.
        priority: u8,
    },
    /// As a reader of its bus the relay is to state this deadline for a stream: over a chain of relays the ones before this
    /// one keep what its far readers want.
    Ask {
        /// Name of the stream.
        stream: StreamName,
        /// The deadline; none: that of this end's settings, if one was given.
        deadline: Option<Duration>,
    },
    /// The path has become too long for the deadline; reported once until the deadline can be kept again.
    DeadlineTooShort {
        /// The stream.
        slot: u16,
        /// Its deadline.
        deadline: Duration,
        /// The least that the path can keep.
        least: Duration,
    },
    /// The deadline can be kept again.
    DeadlineKept {
        /// The stream.
        slot: u16,
    },
    /// Elements were given up.
    GaveUp {
        /// The stream.
        slot: u16,
        /// Their positions.
        positions: Range<u64>,
        /// The cause.
        cause: Cause,
    },
    /// The far end has an outcome for all of an ended stream; the slot is free.
    Closed {
        /// The stream.
        slot: u16,
    },
    /// A message of the far end, or an input, was invalid; it was counted and ignored.
    Ignored(Fault),
}

/// Degraded mode of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Degraded {
    /// The path is too long for the deadline: everything comes too late.
    TooFar,
    /// The path is too narrow: not all can arrive in time, and the newest goes first.
    Bandwidth,
}

/// Reason why a near end ignored a message or an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A message that cannot be read.
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
    /// A message that only a near end sends.
    #[error("the far end sent a message of near ends")]
    Direction,
    /// A message of an unknown stream.
    #[error("the far end spoke of stream {0}, which is not on this link")]
    UnknownStream(u16),
    /// An acknowledgement of more than was sent.
    #[error("the far end acknowledged position {0}, which was not sent")]
    NotSent(u64),
    /// Totals that do not add up to what was sent.
    #[error("the far end's totals at position {0} are not what was sent")]
    Totals(u64),
    /// A deadline of zero or beyond the largest.
    #[error("the far end wants a deadline that is zero or longer than 60 s")]
    Deadline,
    /// An input for a stream that did not begin, or has ended.
    #[error("input for slot {0}, which has no stream")]
    NoStream(u16),
    /// An input that repeats positions.
    #[error("input at position {start}, where the stream is at {next}")]
    Position {
        /// First position of the input.
        start: u64,
        /// Next position of the stream.
        next: u64,
    },
    /// An input that contradicts itself.
    #[error("input over {elements} elements with {counted} of them")]
    Content {
        /// Number of elements by its positions.
        elements: u64,
        /// Number of elements by its content.
        counted: u64,
    },
    /// Another version of the messages.
    #[error("the far end speaks version {0} of the link's messages, this one 1")]
    Version(u16),
}

/// The near end of a link.
#[derive(Debug)]
pub struct NearEnd {
    config: NearConfig,
    connection: Connection,
    /// The streams by their number on the link.
    streams: BTreeMap<u16, Stream>,
    next_slot: u16,
    /// Number of streams that have begun.
    begun: u64,
    next_tag: u64,
    /// Streams that have last sent a control, and a horizon: the next one goes on from there.
    served: Served,
    horizon_due: Instant,
    asked: Asked,
    events: VecDeque<NearEvent>,
    ignored: u64,
}

/// State of the connection.
#[derive(Debug)]
enum Connection {
    Down,
    Up { path: Option<(Path, Instant)>, outbox: VecDeque<Vec<u8>> },
}

impl NearEnd {
    /// Creates a near end without streams and connection.
    ///
    /// # Panics
    /// If the deadline is zero or longer than [`MAX_DEADLINE`](crate::MAX_DEADLINE), which the driver checks.
    #[must_use]
    pub fn new(config: NearConfig, now: Instant) -> Self {
        assert!(
            !config.deadline.is_zero() && config.deadline <= crate::MAX_DEADLINE,
            "a deadline of {:?} was checked before",
            config.deadline
        );
        let station = frame::station_name(&config.station);
        Self {
            asked: Asked::new(config.deadline),
            config: NearConfig { station, ..config },
            connection: Connection::Down,
            streams: BTreeMap::new(),
            next_slot: 0,
            begun: 0,
            next_tag: 0,
            served: Served::default(),
            horizon_due: now,
            events: VecDeque::new(),
            ignored: 0,
        }
    }

    /// Takes an input.
    pub fn handle(&mut self, now: Instant, input: NearInput<'_>) {
        self.expire(now);
        let outcome = match input {
            NearInput::Connected => {
                self.connect(now);
                Ok(())
            }
            NearInput::Disconnected => {
                self.disconnect(now);
                Ok(())
            }
            NearInput::Path(path) => {
                self.on_path(now, path);
                Ok(())
            }
            NearInput::Message(bytes) => self.on_message(now, bytes),
            NearInput::Expired { tag, was_sent } => {
                self.on_expired(now, tag, was_sent);
                Ok(())
            }
            NearInput::Began(began) => {
                self.on_began(now, began);
                Ok(())
            }
            NearInput::Elements { slot, elements } => {
                self.of_driver(slot).and_then(|stream| stream.push(now, &elements))
            }
            NearInput::Missing { slot, positions, shares } => {
                self.of_driver(slot).and_then(|stream| stream.missing(now, positions, shares))
            }
            NearInput::Settled { slot, positions, shares } => {
                self.of_driver(slot).map(|stream| stream.settled(positions, shares))
            }
            NearInput::Estimated { slot, positions, shares } => {
                self.of_driver(slot).map(|stream| stream.estimated(now, positions, shares))
            }
            NearInput::Statement { slot, bytes } => {
                self.of_driver(slot).map(|stream| stream.statement(bytes))
            }
            NearInput::Ended { slot } => self.of_driver(slot).map(|stream| stream.end(now)),
            NearInput::Advance => Ok(()),
        };
        if let Err(fault) = outcome {
            self.ignored += 1;
            self.events.push_back(NearEvent::Ignored(fault));
        }
        self.expire(now);
        self.close_streams(now);
        self.offer_streams();
        self.ask(now);
    }

    /// Returns the next output; to be called until it is idle.
    pub fn poll(&mut self, now: Instant) -> NearOutput {
        if let Some(event) = self.events.pop_front() {
            return NearOutput::Event(event);
        }
        for stream in self.streams.values_mut() {
            if let Some(event) = stream.poll_event() {
                return NearOutput::Event(event);
            }
        }
        match self.next_message(now) {
            Some(Outgoing { bytes, deadline, priority }) => {
                let tag = self.next_tag;
                self.next_tag += 1;
                if let Connection::Up { path: Some((path, _)), .. } = &mut self.connection {
                    path.room = path.room.saturating_sub(1);
                }
                NearOutput::Send { tag, bytes, deadline, priority }
            }
            None => NearOutput::Idle { deadline: self.deadline(now) },
        }
    }

    /// Returns the account of a stream on this link, `None` if it is not there.
    #[must_use]
    pub fn account(&self, slot: u16) -> Option<NearAccount> {
        self.streams.values().find(|stream| stream.driver_slot() == slot).map(Stream::account)
    }

    /// Returns the deadline and the priority of a stream, `None` if it is not there.
    #[must_use]
    pub fn terms(&self, slot: u16) -> Option<(Duration, u8)> {
        self.streams.values().find(|stream| stream.driver_slot() == slot).map(Stream::terms)
    }

    /// Returns the number of invalid messages and inputs, which were ignored.
    #[must_use]
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the ages at which samples of a stream were sent since the last call; `None` if there were none.
    pub fn take_ages(&mut self, slot: u16) -> Option<Ages> {
        self.streams.values_mut().find(|stream| stream.driver_slot() == slot)?.take_ages()
    }

    /// Returns the degraded mode of a stream; `None` if there is none.
    #[must_use]
    pub fn degraded(&self, slot: u16) -> Option<Degraded> {
        self.streams.values().find(|stream| stream.driver_slot() == slot)?.degraded()
    }

    /// Returns the bytes that wait to be sent.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.streams.values().map(Stream::queued_bytes).sum()
    }

    fn connect(&mut self, now: Instant) {
        self.disconnect(now);
        let NearConfig { incarnation, station, .. } = &self.config;
        let hello = Hello { version: VERSION, incarnation: *incarnation, station: station.clone() };
        let hello = Message::plain(0, Content::Hello(hello)).encode();
        self.connection = Connection::Up { path: None, outbox: [hello].into() };
        // Numbers on the link begin anew: messages of another connection cannot be confused with those of this one.
        // these.
        let streams = core::mem::take(&mut self.streams);
        self.next_slot = 0;
        for mut stream in streams.into_values() {
            stream.withdraw();
            self.add(stream);
        }
        self.horizon_due = now;
    }

    fn disconnect(&mut self, now: Instant) {
        self.connection = Connection::Down;
        self.streams.values_mut().for_each(|stream| stream.disconnect(now));
    }

    fn on_path(&mut self, now: Instant, path: Path) {
        if let Connection::Up { path: known, .. } = &mut self.connection {
            *known = Some((path, now));
        }
        let least = least_deadline(path.round_trip);
        self.streams.values_mut().for_each(|stream| stream.check_deadline(least));
    }

    fn on_began(&mut self, now: Instant, began: Began) {
        let slot = began.slot;
        let refused = |refusal| NearEvent::Refused { slot, refusal };
        if self.streams.len() >= MAX_STREAMS {
            return self.events.push_back(refused(Refusal::TooManyStreams));
        }
        if self.of_driver(slot).is_ok() {
            self.ignored += 1;
            return self.events.push_back(NearEvent::Ignored(Fault::NoStream(slot)));
        }
        self.begun += 1;
        match Stream::new(began, self.begun, &self.config, now) {
            Ok(stream) => self.add(stream),
            Err(refusal) => self.events.push_back(refused(refusal)),
        }
    }

    /// Gives a stream a number on the link.
    fn add(&mut self, stream: Stream) {
        while self.streams.contains_key(&self.next_slot) {
            self.next_slot = self.next_slot.wrapping_add(1);
        }
        let number = self.next_slot;
        self.next_slot = self.next_slot.wrapping_add(1);
        self.streams.insert(number, stream);
    }

    /// Offers streams to the far end: the next epoch of a stream once it has answered for the one before, because
    /// messages overtake each other.
    fn offer_streams(&mut self) {
        let Connection::Up { outbox, .. } = &mut self.connection else { return };
        let is_next = |stream: &Stream| {
            stream.is_unoffered() && !self.streams.values().any(|before| before.goes_before(stream))
        };
        let next: Vec<u16> =
            self.streams.iter().filter(|(_, stream)| is_next(stream)).map(|(&number, _)| number).collect();
        for number in next {
            if let Some(begin) = self.streams.get_mut(&number).and_then(Stream::offer) {
                let NearConfig { deadline, is_least, .. } = self.config;
                let begin = Begin { deadline, is_least, ..begin };
                outbox.push_back(Message::plain(number, Content::Begin(begin)).encode());
            }
        }
    }

    fn of_driver(&mut self, slot: u16) -> Result<&mut Stream, Fault> {
        let mut streams = self.streams.values_mut();
        streams
            .find(|stream| stream.driver_slot() == slot && !stream.has_ended())
            .ok_or(Fault::NoStream(slot))
    }

    fn on_message(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Fault> {
        let Message { slot, content, .. } = Message::decode(bytes)?;
        if let Content::Hello(hello) = content {
            return self.on_hello(hello);
        }
        let Some(stream) = self.streams.get_mut(&slot) else {
            // The far end sends totals of an ended stream for a while.
            let is_late = slot < self.next_slot && matches!(content, Content::Totals(_) | Content::Want(_));
            return if is_late { Ok(()) } else { Err(Fault::UnknownStream(slot)) };
        };
        match content {
            Content::Resume(resume) => stream.resume(now, resume),
            Content::Totals(totals) => stream.on_totals(totals),
            Content::Want(want) => {
                self.asked.call();
                stream.want(want, self.config.is_least.then_some(self.config.deadline))
            }
            Content::Refuse(refusal) => {
                self.asked.call();
                stream.refuse(refusal);
                Ok(())
            }
            Content::Hello(_)
            | Content::Begin(_)
            | Content::Data(_)
            | Content::Horizon(_)
            | Content::Control(_) => Err(Fault::Direction),
        }
    }

    fn on_hello(&mut self, hello: Hello) -> Result<(), Fault> {
        if hello.version != VERSION {
            return Err(Fault::Version(hello.version));
        }
        self.events.push_back(NearEvent::Met { station: hello.station });
        Ok(())
    }

    fn on_expired(&mut self, now: Instant, tag: u64, was_sent: bool) {
        let cause = match (self.is_up(), was_sent) {
            (false, _) => Cause::LinkDown,
            (true, true) => Cause::Repair,
            (true, false) => Cause::Bandwidth,
        };
        for stream in self.streams.values_mut() {
            if stream.on_expired(now, tag, cause) {
                return;
            }
        }
    }

    fn is_up(&self) -> bool {
        matches!(&self.connection, Connection::Up { path: Some((path, _)), .. } if path.is_up)
    }

    fn path(&self) -> Option<(Path, Instant)> {
        match self.connection {
            Connection::Down => None,
            Connection::Up { path, .. } => path,
        }
    }

    /// Gives up what cannot arrive in time any more.
    fn expire(&mut self, now: Instant) {
        let round_trip = self.path().map_or(Duration::ZERO, |(path, _)| path.round_trip);
        let is_up = self.is_up();
        self.streams.values_mut().for_each(|stream| stream.expire(now, round_trip, is_up));
    }

    /// Asks on its own bus for the deadlines that far readers want.
    fn ask(&mut self, now: Instant) {
        if self.asked.is_due(now) {
            let kept = self.streams.values().filter(|stream| !stream.is_refused());
            let kept = kept.map(|stream| (stream.name(), stream.terms().0));
            let changes = self.asked.update(now, kept).into_iter();
            self.events.extend(changes.map(|(stream, deadline)| NearEvent::Ask { stream, deadline }));
        }
    }

    fn close_streams(&mut self, now: Instant) {
        let Self { events, asked, .. } = self;
        self.streams.retain(|_, stream| {
            let is_closed = stream.is_closed(now);
            if is_closed {
                asked.call();
                while let Some(event) = stream.poll_event() {
                    events.push_back(event);
                }
                events.push_back(NearEvent::Closed { slot: stream.driver_slot() });
            }
            !is_closed
        });
    }

    fn next_message(&mut self, now: Instant) -> Option<Outgoing> {
        let (path, at) = self.path().filter(|(path, _)| path.room > 0)?;
        let Connection::Up { outbox, .. } = &mut self.connection else { return None };
        if path.is_up || self.streams.values().all(|stream| !stream.has_samples()) {
            if let Some(bytes) = outbox.pop_front() {
                return Some(Outgoing { bytes, deadline: None, priority: u8::MAX });
            }
            // Controls of a stream take no room from samples of a higher priority.
            let waiting = self.streams.values().filter(|stream| stream.has_samples());
            let highest = waiting.map(|stream| stream.terms().1).max().unwrap_or(0);
            let control = in_turn(&mut self.streams, &mut self.served.control, |number, stream| {
                let priority = stream.terms().1;
                (priority >= highest)
                    .then(|| Some((stream.next_control(now, &path, at, number)?, priority)))?
            });
            if let Some((bytes, priority)) = control {
                return Some(Outgoing { bytes, deadline: None, priority });
            }
        }
        if path.is_up && now >= self.horizon_due {
            self.horizon_due = now + HORIZON_INTERVAL;
            self.streams.values_mut().for_each(Stream::call_horizon);
        }
        if path.is_up {
            let horizon = in_turn(&mut self.streams, &mut self.served.horizon, |number, stream| {
                Some((stream.next_horizon(now, &path, at, number)?, stream.terms().1))
            });
            if let Some(((bytes, deadline), priority)) = horizon {
                return Some(Outgoing { bytes, deadline: Some(deadline), priority });
            }
        }
        let tag = self.next_tag;
        let of_samples = self.streams.iter_mut().filter(|(_, stream)| stream.has_samples());
        let (&number, stream) = of_samples.min_by_key(|(_, stream)| stream.precedence())?;
        let priority = stream.terms().1;
        let (bytes, deadline) = stream.next_samples(&path, at, number, tag)?;
        Some(Outgoing { bytes, deadline, priority })
    }

    fn deadline(&self, now: Instant) -> Option<Instant> {
        let path = self.path().map(|(path, _)| path);
        let round_trip = path.map_or(Duration::ZERO, |path| path.round_trip);
        let has_room = path.is_some_and(|path| path.is_up && path.room > 0);
        let is_open = self.streams.values().any(Stream::is_open);
        let horizon = (has_room && is_open).then_some(self.horizon_due.max(now));
        let streams = self.streams.values().filter_map(|stream| stream.deadline(round_trip));
        streams.chain(horizon).chain(self.asked.deadline()).min()
    }
}

/// A message that leaves.
struct Outgoing {
    bytes: Vec<u8>,
    deadline: Option<Instant>,
    priority: u8,
}

/// Numbers of the streams that were served last.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    control: u16,
    horizon: u16,
}

/// Asks the streams in turn, from the one behind the last that was served; returns the first answer. A stream that always
/// has one does not hold up the others.
fn in_turn<T>(
    streams: &mut BTreeMap<u16, Stream>,
    last: &mut u16,
    mut ask: impl FnMut(u16, &mut Stream) -> Option<T>,
) -> Option<T> {
    for turn in [last.saturating_add(1)..=u16::MAX, 0..=*last] {
        for (&number, stream) in streams.range_mut(turn) {
            if let Some(answer) = ask(number, stream) {
                *last = number;
                return Some(answer);
            }
        }
    }
    None
}

/// Returns the instant at which samples must have arrived at the far end.
fn due(born: Instant, deadline: Duration) -> Instant {
    born + deadline.saturating_sub(HANDOVER)
}

impl Default for NearConfig {
    fn default() -> Self {
        Self {
            station: String::new(),
            incarnation: 0,
            deadline: DEFAULT_DEADLINE,
            is_least: false,
            priorities: Vec::new(),
        }
    }
}
