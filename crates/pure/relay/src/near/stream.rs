//! A stream of the near end: its queue, its account, and its controls for the far end.

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use ledger::{HopCounts, HopShare, Outcome};
use sample::{PRIORITY_LABEL, StreamName};
use units::{Epoch, Instant, StreamId};
use wire::{DATA_HEADER_BYTES, Data, Description, MAX_HOPS};

use super::counters::{Counters, NearAccount};
use super::journal::{Entry, Journal, without_first};
use super::queue::{Form, From, LinkQueue, Piece, Slice};
use super::{Began, Degraded, Elements, Fault, NearConfig, NearEvent, due};
use crate::ages::{AgeWindow, Ages};
use crate::frame::{
    self, Begin, Content, Control, HEAD_BYTES, Horizon, Message, Numbered, Refusal, Resume, Standing, Totals,
    Want,
};
use crate::{Cause, HANDOVER, MAX_DEADLINE, Path};

/// Bytes that may wait beyond those of one deadline.
const SPARE_BYTES: u64 = 1 << 20;
/// Time after which an ended stream is forgotten even if the far end has not reported all its outcomes.
const END_PATIENCE: Duration = MAX_DEADLINE;
/// Time by which the far end is told that samples will not come, before it would give them up by itself.
const LEAD: Duration = Duration::from_millis(2);

/// Time after which an estimate that has not changed is told: the tallies behind an outage have told all of it by then.
const ESTIMATE_KEPT: Duration = Duration::from_secs(60);
/// Maximum number of ranges whose outcomes are estimates; of more, the oldest are told.
const MAX_ESTIMATES: usize = 1_024;
/// Maximum number of given-up ranges that wait to be reported.
const MAX_GIVEN_UP: usize = 4_096;

/// A stream of the near end.
#[derive(Debug)]
pub(super) struct Stream {
    driver_slot: u16,
    name: StreamName,
    id: StreamId,
    origin: Epoch,
    /// Its place in the order in which streams began at this end.
    turn: u64,
    stations: Vec<String>,
    description: Vec<u8>,
    form: Form,
    deadline: Duration,
    /// Precedence by this end's settings, and the one in force.
    own_priority: u8,
    priority: u8,
    is_too_short: bool,
    phase: Phase,
    /// True once the far end has opened it.
    has_opened: bool,
    ended: Option<Instant>,
    queue: LinkQueue,
    /// True while the newest samples are sent first, because not all can arrive in time.
    is_behind: bool,
    /// The last instant at which the path was seen to be down.
    down_at: Option<Instant>,
    counters: Counters,
    journal: Journal,
    /// Outcomes by counts, by the start of their positions: what the far end is told does not change to and fro.
    estimates: BTreeMap<u64, Estimate>,
    /// When the next of them may be told.
    estimate_due: Option<Instant>,
    /// Positions that were given up and not reported yet, by their start: after an outage few messages report all.
    given_up: BTreeMap<u64, GivenUp>,
    /// Samples that the connection has, by the tag of their message.
    in_flight: BTreeMap<u64, (Range<u64>, u64)>,
    last_born: Instant,
    ages: AgeWindow,
    next_number: u64,
    is_horizon_due: bool,
    /// True if a control has left since the last samples: those that wait are next. A path that carries less than is given
    /// up would carry nothing but reports of that.
    was_control: bool,
    events: VecDeque<NearEvent>,
}

/// State of a stream on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It was not offered on this connection: there is none, or an earlier epoch goes before it.
    Unoffered,
    /// The far end has not answered: nothing but the beginning may be sent.
    Offered,
    /// The far end takes it.
    Open,
    /// One of the ends refused it.
    Refused,
}

/// Outcomes of positions by counts.
#[derive(Clone, Debug)]
struct Estimate {
    positions: Range<u64>,
    shares: HopCounts,
    /// When they are told, if they do not change.
    until: Instant,
}

/// Positions up to `end` that were given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct GivenUp {
    end: u64,
    cause: Cause,
    missing_before: u64,
}

impl Stream {
    pub(super) fn new(began: Began, turn: u64, config: &NearConfig, now: Instant) -> Result<Self, Refusal> {
        let description = Description::decode(&began.description).map_err(|_| Refusal::Description)?;
        let mut stations: Vec<String> =
            began.stations.iter().map(|station| frame::station_name(station)).collect();
        if stations.is_empty() {
            stations.push(frame::station_name(&description.station));
        }
        // The first station is the publisher's, the last one sends on the bus that this end reads: either may be this
        // one.
        if stations[..stations.len() - 1].iter().skip(1).any(|station| *station == config.station) {
            return Err(Refusal::Loop);
        }
        stations.push(config.station.clone());
        if stations.len() > MAX_HOPS {
            return Err(Refusal::TooManyHops);
        }
        let form = Form::of(&description.schema);
        if !began.first_position.is_multiple_of(u64::from(form.per_sample)) {
            return Err(Refusal::Description);
        }
        let of_name = config.priorities.iter().rfind(|(pattern, _)| pattern.matches(&description.name));
        let labelled = || description.schema.labels.get(PRIORITY_LABEL)?.parse().ok();
        let priority = of_name.map(|(_, priority)| *priority).or_else(labelled).unwrap_or(0);
        Ok(Self {
            driver_slot: began.slot,
            id: wire::stream_id(&description.name, &description.schema),
            name: description.name,
            origin: began.origin,
            turn,
            stations,
            description: began.description,
            form,
            deadline: config.deadline,
            own_priority: priority,
            priority,
            is_too_short: false,
            phase: Phase::Unoffered,
            has_opened: false,
            ended: None,
            queue: LinkQueue::new(form),
            is_behind: false,
            down_at: None,
            counters: Counters::new(began.first_position),
            journal: Journal::default(),
            estimates: BTreeMap::new(),
            estimate_due: None,
            given_up: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            last_born: now,
            ages: AgeWindow::default(),
            next_number: 0,
            is_horizon_due: false,
            was_control: false,
            events: VecDeque::new(),
        })
    }

    pub(super) const fn driver_slot(&self) -> u16 {
        self.driver_slot
    }

    pub(super) const fn name(&self) -> &StreamName {
        &self.name
    }

    pub(super) fn is_refused(&self) -> bool {
        self.phase == Phase::Refused
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    pub(super) fn poll_event(&mut self) -> Option<NearEvent> {
        self.events.pop_front()
    }

    pub(super) const fn terms(&self) -> (Duration, u8) {
        (self.deadline, self.priority)
    }

    pub(super) const fn account(&self) -> NearAccount {
        self.counters.account()
    }

    pub(super) fn take_ages(&mut self) -> Option<Ages> {
        self.ages.take()
    }

    pub(super) const fn degraded(&self) -> Option<Degraded> {
        match (self.is_too_short, self.is_behind) {
            (true, _) => Some(Degraded::TooFar),
            (false, true) => Some(Degraded::Bandwidth),
            (false, false) => None,
        }
    }

    pub(super) const fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Returns whether samples wait for a far end that takes the stream.
    pub(super) fn has_samples(&self) -> bool {
        self.is_open() && !self.queue.is_empty()
    }

    /// Returns the key that orders streams with waiting samples: the least goes first.
    pub(super) fn precedence(&self) -> (u8, Option<Instant>) {
        (u8::MAX - self.priority, self.queue.oldest().map(|piece| piece.born))
    }

    /// Returns whether nothing is left to do for it.
    pub(super) fn is_closed(&self, now: Instant) -> bool {
        let Some(ended) = self.ended else { return false };
        let is_answered = self.is_open() && self.journal.is_empty() && self.counters.is_complete();
        is_answered || self.is_refused() || now >= ended + END_PATIENCE
    }

    /// Another connection is there, on which it was not offered.
    pub(super) fn withdraw(&mut self) {
        if self.phase != Phase::Refused {
            self.phase = Phase::Unoffered;
        }
    }

    /// Returns whether it is still to be offered.
    pub(super) fn is_unoffered(&self) -> bool {
        self.phase == Phase::Unoffered
    }

    /// Returns whether another stream is offered behind this one: a later epoch of the same stream once the far end has
    /// answered, which then keeps the order; another beginning of the same epoch once this one is closed.
    pub(super) fn goes_before(&self, other: &Self) -> bool {
        let is_answered = match self.phase {
            Phase::Unoffered | Phase::Offered => false,
            Phase::Open => self.origin != other.origin,
            Phase::Refused => true,
        };
        self.id == other.id && self.turn < other.turn && !is_answered
    }

    /// Returns the message with which it begins on a connection, `None` if it was refused.
    pub(super) fn offer(&mut self) -> Option<Begin<'_>> {
        if self.phase == Phase::Refused {
            return None;
        }
        self.phase = Phase::Offered;
        let (stations, description) = (self.stations.clone(), &self.description[..]);
        Some(Begin {
            origin: self.origin,
            deadline: self.deadline,
            is_least: false,
            goes_on: self.has_opened,
            priority: self.own_priority,
            stations,
            description,
        })
    }

    /// Gives up the samples that only the connection had.
    pub(super) fn disconnect(&mut self, now: Instant) {
        self.down_at = Some(now);
        if self.phase == Phase::Open {
            self.phase = Phase::Offered;
        }
        let mut lost: Vec<_> = core::mem::take(&mut self.in_flight).into_values().collect();
        lost.sort_by_key(|(positions, _)| positions.start);
        for (positions, missing_before) in lost {
            self.give_up(now, positions, missing_before, Cause::LinkDown);
        }
    }

    pub(super) fn push(&mut self, now: Instant, elements: &Elements<'_>) -> Result<(), Fault> {
        let Range { start, end } = elements.positions;
        let counted = (elements.bytes.len() / self.form.element_bytes()) as u64;
        let is_whole = elements.bytes.len().is_multiple_of(self.form.element_bytes());
        if start >= end || counted != end - start || !is_whole || end > ledger::MAX_POSITION {
            return Err(Fault::Content { elements: end.saturating_sub(start), counted });
        }
        let first = self.counters.account().first;
        if end <= first {
            // The far end has the stream from an earlier start of this end.
            return Ok(());
        }
        self.reach(now, start.max(first))?;
        self.last_born = self.last_born.max(now - elements.age);
        let piece = Piece::new(&self.form, elements, self.last_born, now, self.counters.missing());
        self.counters.offer(&elements.positions);
        self.queue.push(piece);
        self.queue.drop_below(first);
        Ok(())
    }

    pub(super) fn missing(
        &mut self,
        now: Instant,
        positions: Range<u64>,
        shares: HopCounts,
    ) -> Result<(), Fault> {
        let elements = positions.end.saturating_sub(positions.start);
        if elements == 0 || shares.total() != elements || positions.end > ledger::MAX_POSITION {
            return Err(Fault::Content { elements, counted: shares.total() });
        }
        let first = self.counters.account().first;
        if positions.end <= first {
            return Ok(());
        }
        let shares = without_first(&shares, first.saturating_sub(positions.start));
        let positions = positions.start.max(first)..positions.end;
        self.reach(now, positions.start)?;
        self.miss(positions, shares);
        Ok(())
    }

    pub(super) fn settled(&mut self, positions: Range<u64>, shares: HopCounts) {
        self.estimates.remove(&positions.start);
        self.tell(Control::Settled { positions, shares }, self.counters.missing());
    }

    pub(super) fn estimated(&mut self, now: Instant, positions: Range<u64>, shares: HopCounts) {
        let start = positions.start;
        let known = self.estimates.get(&start).filter(|known| known.shares == shares);
        let until = known.map_or(now + ESTIMATE_KEPT, |known| known.until);
        self.estimates.insert(start, Estimate { positions, shares, until });
        self.estimate_due = Instant::earlier(self.estimate_due, Some(until));
        if self.estimates.len() > MAX_ESTIMATES
            && let Some((&oldest, _)) = self.estimates.first_key_value()
        {
            self.tell_estimate(oldest);
        }
    }

    /// Tells the estimates that have not changed for long; all of them when the stream ends.
    fn tell_estimates(&mut self, now: Instant) {
        let is_due = |it: &Estimate| self.has_ended() || it.until <= now;
        let due: Vec<u64> =
            self.estimates.iter().filter(|(_, it)| is_due(it)).map(|(&start, _)| start).collect();
        due.into_iter().for_each(|start| self.tell_estimate(start));
        self.estimate_due = self.estimates.values().map(|it| it.until).min();
    }

    fn tell_estimate(&mut self, start: u64) {
        if let Some(Estimate { positions, shares, .. }) = self.estimates.remove(&start)
            && positions.start >= self.counters.account().first
        {
            self.settled(positions, shares);
        }
    }

    pub(super) fn statement(&mut self, bytes: Vec<u8>) {
        self.tell(Control::Statement(bytes), self.counters.missing());
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.ended = Some(now);
        self.tell_estimates(now);
        self.tell_end();
    }

    fn tell_end(&mut self) {
        self.tell(Control::End { position: self.counters.next() }, self.counters.missing());
    }

    pub(super) fn refuse(&mut self, refusal: Refusal) {
        if self.phase != Phase::Refused {
            self.phase = Phase::Refused;
            self.queue = LinkQueue::new(self.form);
            self.in_flight.clear();
            self.events.push_back(NearEvent::Refused { slot: self.driver_slot, refusal });
        }
    }

    /// Takes the far end's answer to the beginning.
    pub(super) fn resume(&mut self, now: Instant, resume: Resume) -> Result<(), Fault> {
        if self.phase != Phase::Offered {
            return Err(Fault::Direction);
        }
        self.tell_given_up();
        match resume.standing {
            Standing::Same => {
                self.counters.check_position(resume.position)?;
                self.journal.resend(resume.controls)?;
                self.queue.drop_below(resume.position);
            }
            Standing::Fresh => self.begin_at(self.first_alive(), now),
            Standing::Other => {
                if resume.position > ledger::MAX_POSITION {
                    return Err(Fault::NotSent(resume.position));
                }
                self.begin_at(resume.position.max(self.counters.known_from()), now);
            }
        }
        self.phase = Phase::Open;
        self.has_opened = true;
        self.is_horizon_due = true;
        let position = self.counters.account().first;
        self.events.push_back(NearEvent::Opened { slot: self.driver_slot, position });
        Ok(())
    }

    pub(super) fn on_totals(&mut self, totals: Totals) -> Result<(), Fault> {
        if self.phase != Phase::Open {
            return Ok(());
        }
        if self.counters.report(totals)? {
            self.journal.taken(totals.controls)?;
            self.in_flight.retain(|_, (positions, _)| positions.end > totals.position);
        }
        Ok(())
    }

    /// Takes the deadline and priority for the far readers; the deadline is at least `least`, if that is given.
    pub(super) fn want(&mut self, want: Want, least: Option<Duration>) -> Result<(), Fault> {
        if want.deadline.is_zero() || want.deadline > MAX_DEADLINE {
            return Err(Fault::Deadline);
        }
        let deadline = least.map_or(want.deadline, |least| want.deadline.max(least));
        let priority = want.priority.max(self.own_priority);
        if (deadline, priority) != (self.deadline, self.priority) {
            (self.deadline, self.priority) = (deadline, priority);
            let slot = self.driver_slot;
            self.events.push_back(NearEvent::Wanted { slot, deadline, priority });
        }
        Ok(())
    }

    /// Says once that the path is too long for the deadline.
    pub(super) fn check_deadline(&mut self, least: Duration) {
        let is_too_short = self.deadline < least;
        if is_too_short && !self.is_too_short {
            let (slot, deadline) = (self.driver_slot, self.deadline);
            self.events.push_back(NearEvent::DeadlineTooShort { slot, deadline, least });
        } else if self.is_too_short && !is_too_short {
            self.events.push_back(NearEvent::DeadlineKept { slot: self.driver_slot });
        }
        self.is_too_short = is_too_short;
    }

    /// Takes the loss of a message by the connection; returns whether it was of this stream.
    pub(super) fn on_expired(&mut self, now: Instant, tag: u64, cause: Cause) -> bool {
        let Some((positions, missing_before)) = self.in_flight.remove(&tag) else { return false };
        self.give_up(now, positions, missing_before, cause);
        true
    }

    /// Gives up samples that cannot arrive in time, and those beyond the bound on bytes.
    pub(super) fn expire(&mut self, now: Instant, round_trip: Duration, is_up: bool) {
        if !is_up {
            self.down_at = Some(now);
        }
        if self.estimate_due.is_some_and(|due| due <= now) {
            self.tell_estimates(now);
        }
        let bound_bytes = self.bound_bytes();
        while let Some(piece) = self.queue.oldest() {
            let was_down = self.down_at.is_some_and(|down_at| piece.born <= down_at);
            let cause = if now >= self.last_call(piece.born, round_trip) {
                match was_down {
                    true => Cause::LinkDown,
                    false if piece.entered == now || self.is_too_short => Cause::Repair,
                    false => Cause::Bandwidth,
                }
            } else if self.queue.bytes() as u64 > bound_bytes && self.queue.len() > 1 {
                if was_down { Cause::LinkDown } else { Cause::Memory }
            } else {
                break;
            };
            let piece = self.queue.pop_oldest().expect("it was there");
            self.give_up(now, piece.positions, piece.missing_before, cause);
        }
        self.decide_order(now);
    }

    pub(super) fn deadline(&self, round_trip: Duration) -> Option<Instant> {
        let oldest = self.queue.oldest().map(|piece| self.last_call(piece.born, round_trip));
        let forgotten = self.ended.map(|ended| ended + END_PATIENCE);
        Instant::earlier(self.estimate_due, Instant::earlier(oldest, forgotten))
    }

    pub(super) const fn call_horizon(&mut self) {
        self.is_horizon_due = true;
    }

    pub(super) fn next_horizon(
        &mut self,
        now: Instant,
        path: &Path,
        at: Instant,
        number: u16,
    ) -> Option<(Vec<u8>, Instant)> {
        if !(self.is_open() && core::mem::take(&mut self.is_horizon_due)) {
            return None;
        }
        let horizon = Horizon { position: self.counters.next(), first_control: self.journal.first() };
        let message = Message {
            slot: number,
            born_us: frame::born_us(path.clock_us, at, self.last_born),
            missing_before: self.counters.on_link(self.counters.missing()),
            content: Content::Horizon(horizon),
        };
        Some((message.encode(), now + self.deadline))
    }

    pub(super) fn next_control(
        &mut self,
        now: Instant,
        path: &Path,
        at: Instant,
        number: u16,
    ) -> Option<Vec<u8>> {
        debug_assert!(now >= at, "the path was told before");
        if !self.is_open() || self.was_control && self.has_samples() {
            return None;
        }
        if !self.journal.has_unsent() {
            self.tell_given_up();
        }
        let (control_number, entry) = self.journal.send()?;
        self.was_control = true;
        let content = Content::Control(Numbered { number: control_number, control: entry.control.clone() });
        let message = Message {
            slot: number,
            born_us: frame::born_us(path.clock_us, at, entry.born),
            missing_before: self.counters.on_link(entry.missing_before),
            content,
        };
        Some(message.encode())
    }

    /// Returns the next message of samples.
    pub(super) fn next_samples(
        &mut self,
        path: &Path,
        at: Instant,
        number: u16,
        tag: u64,
    ) -> Option<(Vec<u8>, Option<Instant>)> {
        let from = if self.is_behind || !path.is_up { From::Newest } else { From::Oldest };
        let room_bytes = path.message_bytes.checked_sub(HEAD_BYTES + DATA_HEADER_BYTES)?;
        let head = wire::Numbered {
            stream: self.id,
            epoch: self.origin,
            number: self.next_number,
            first_index: 0,
            element_offset: 0,
            elements_per_sample: self.form.per_sample,
        };
        let (form, counters) = (self.form, &self.counters);
        let (bytes, positions, born, missing_before) = self.queue.take(from, room_bytes, |slice| {
            let bytes = encode(slice, head, &form);
            let message = Message {
                slot: number,
                born_us: frame::born_us(path.clock_us, at, slice.born),
                missing_before: counters.on_link(slice.missing_before),
                content: Content::Data(&bytes),
            };
            (message.encode(), slice.positions.clone(), slice.born, slice.missing_before)
        })?;
        self.next_number += 1;
        self.was_control = false;
        self.ages.record(at.since(born));
        self.in_flight.insert(tag, (positions, missing_before));
        Some((bytes, Some(due(born, self.deadline))))
    }

    /// Returns the instant from which samples cannot arrive in time any more, with time left to report that.
    fn last_call(&self, born: Instant, round_trip: Duration) -> Instant {
        born + self.deadline.saturating_sub(HANDOVER + LEAD + round_trip / 2)
    }

    /// Sends the newest first once the oldest has waited for most of the deadline, until nothing waits.
    fn decide_order(&mut self, now: Instant) {
        match self.queue.oldest() {
            None => self.is_behind = false,
            Some(piece) if now.since(piece.born) > self.deadline * 3 / 4 => self.is_behind = true,
            Some(_) => {}
        }
    }

    fn bound_bytes(&self) -> u64 {
        let sample_bytes = u64::from(self.form.per_sample) * self.form.element_bytes() as u64;
        let of_deadline = self.form.rate.samples_in(self.deadline).saturating_mul(sample_bytes);
        of_deadline.max(sample_bytes).saturating_add(SPARE_BYTES)
    }

    /// Returns the first position of a whole sample that can still be sent.
    fn first_alive(&self) -> u64 {
        let first = self.queue.oldest().map_or(self.counters.next(), |piece| piece.positions.start);
        first.max(self.counters.known_from()).next_multiple_of(u64::from(self.form.per_sample))
    }

    fn begin_at(&mut self, position: u64, now: Instant) {
        self.counters.begin_at(position);
        self.journal.begin_at(position, now);
        self.queue.drop_below(position);
        if self.has_ended() {
            // An earlier far end may have taken this one already.
            self.tell_end();
        }
    }

    /// Checks that an input does not go back; positions that it leaves out are missing, unexplained.
    fn reach(&mut self, now: Instant, start: u64) -> Result<(), Fault> {
        let next = self.counters.next();
        debug_assert!(now >= self.last_born || self.queue.is_empty(), "births are in the past");
        if start < next {
            return Err(Fault::Position { start, next });
        }
        if start > next {
            let hop = u8::try_from(self.stations.len() - 2).expect("at most eight");
            let share = HopShare { hop, outcome: Outcome::Unexplained, count: start - next };
            self.miss(next..start, [share].into_iter().collect());
        }
        Ok(())
    }

    fn miss(&mut self, positions: Range<u64>, shares: HopCounts) {
        let before = self.counters.missing();
        self.counters.miss(&positions);
        self.tell(Control::Missing { positions, shares }, before);
    }

    fn give_up(&mut self, now: Instant, positions: Range<u64>, missing_before: u64, cause: Cause) {
        debug_assert!(!positions.is_empty(), "something was in the message at {now:?}");
        self.counters.gave_up(&positions, cause);
        let Range { mut start, end } = positions;
        let mut told = GivenUp { end, cause, missing_before };
        let goes_on = |one: &GivenUp| (one.cause, one.missing_before) == (cause, missing_before);
        if let Some(behind) = self.given_up.get(&end).filter(|behind| goes_on(behind)) {
            told.end = behind.end;
            self.given_up.remove(&end);
        }
        if let Some((&before, known)) = self.given_up.range(..start).next_back()
            && known.end == start
            && goes_on(known)
        {
            start = before;
        }
        self.given_up.insert(start, told);
        if self.given_up.len() > MAX_GIVEN_UP {
            self.tell_given_up();
        }
    }

    /// Turns the positions that were given up into controls.
    fn tell_given_up(&mut self) {
        for (start, GivenUp { end, cause, missing_before }) in core::mem::take(&mut self.given_up) {
            if self.has_opened {
                let event = NearEvent::GaveUp { slot: self.driver_slot, positions: start..end, cause };
                self.events.push_back(event);
            }
            self.tell(Control::GivenUp { positions: start..end, cause }, missing_before);
        }
    }

    fn tell(&mut self, control: Control, missing_before: u64) {
        self.journal.push(Entry { control, missing_before, born: self.last_born });
    }
}

fn encode(slice: &Slice<'_>, head: wire::Numbered, form: &Form) -> Vec<u8> {
    let positions = &slice.positions;
    let data = Data {
        head: head.at(head.number, positions.start),
        t0: slice.t0,
        clock: slice.clock,
        dtype: form.dtype,
        element_count: u32::try_from(positions.end - positions.start).expect("a message has few elements"),
        origin: None,
        payload: slice.bytes,
    };
    let mut bytes = vec![0; data.encoded_bytes()];
    data.encode(&mut bytes).expect("the buffer has its size");
    bytes
}
