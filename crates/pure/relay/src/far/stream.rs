//! A stream of the far end: its samples from arrival to publication.

use core::num::NonZeroU8;
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use ledger::{HopCounts, HopShare, Outcome, Stage};
use units::{Epoch, Instant, SampleRate, StreamId};
use wire::{Data, Description, MAX_HOPS, UpstreamHop};

use super::counters::{Counters, FarTotals};
use super::inbox::{Arrived, Inbox};
use super::resequencer::{Known, KnownOutcome, Place, Resequencer};
use super::{FarConfig, FarEvent, FarFault, FarOutput, Floor, Publish, ReaderDeadlines, SUSPENSION, Times};
use crate::ages::{AgeWindow, Ages};
use crate::frame::{Begin, Content, Control, Message, Refusal, Resume, Standing, Want};
use crate::{Cause, HANDOVER, MAX_DEADLINE};

/// Bytes that may wait behind holes beyond those of one deadline.
const SPARE_BYTES: u64 = 1 << 21;
/// Maximum size of the data that wait for the first control, which tells where the stream begins.
const MAX_EARLY_BYTES: usize = 1 << 22;
/// Time for which the near end is told of a stream's end.
pub(super) const FAREWELL: Duration = Duration::from_secs(10);

/// A stream of the far end.
#[derive(Debug)]
pub(super) struct Stream {
    id: StreamId,
    origin: Epoch,
    description: Vec<u8>,
    stations: Vec<String>,
    form: Form,
    priority: u8,
    /// Deadlines of the relays, and those of the readers.
    floor: Floor,
    reader_deadlines: ReaderDeadlines,
    /// The deadline that is kept.
    deadline: Duration,
    /// The near end that sends it, and its number on the connection, while there is one.
    incarnation: Option<u64>,
    number: Option<u16>,
    suspended_since: Option<Instant>,
    /// When the near end last sent samples or a control of it.
    heard: Option<Instant>,
    /// While earlier epochs of its publisher are not out: until when it waits for them at the latest.
    held_until: Option<Instant>,
    /// What of it became too old meanwhile, or too much: up to where, and the cause.
    skipped: Option<(Place, Cause)>,
    inbox: Inbox,
    /// Data that came before the first control, which has the position where the near end's counts begin; then `None`.
    early: Option<Vec<(Early, Times)>>,
    state: State,
    /// Position of the near end, and the birth of its newest samples.
    horizon: Option<(Place, Instant)>,
    end: Option<u64>,
    is_forgotten: bool,
    told: Vec<UpstreamHop>,
    ages: AgeWindow,
    outputs: VecDeque<Output>,
}

/// Form of its samples.
#[derive(Clone, Copy, Debug)]
struct Form {
    dtype: sample::Dtype,
    per_sample: u32,
    rate: SampleRate,
}

/// State of a stream.
#[derive(Debug)]
enum State {
    /// The first control has not come: the position where the stream begins is not known.
    Waiting,
    /// Elements are published.
    Open(Open),
    /// All was published.
    Ended { counters: Option<Counters>, at: Option<Instant> },
}

/// A data message that came before the first control.
#[derive(Debug)]
struct Early {
    born_us: u32,
    missing_before: u64,
    datagram: Vec<u8>,
}

#[derive(Debug)]
struct Open {
    counters: Counters,
    waiting: Resequencer,
    /// Birth of the samples published last, by the near end's clock on this connection.
    released_us: Option<u32>,
}

#[derive(Debug)]
enum Output {
    Publish(Publish),
    Lost(Range<u64>, Cause),
}

impl Stream {
    /// Reads a stream that a near end wants to send to this station.
    pub(super) fn new(begin: &Begin<'_>, config: &FarConfig) -> Result<Self, Refusal> {
        let Begin { origin, deadline, priority, stations, description, .. } = begin;
        let last = stations.len().checked_sub(1).filter(|last| *last > 0).ok_or(Refusal::Description)?;
        // The first is the publisher's, the last the near end's.
        if stations[..last].iter().skip(1).any(|before| *before == config.station) {
            return Err(Refusal::Loop);
        }
        if stations.len() > MAX_HOPS {
            return Err(Refusal::TooManyHops);
        }
        if deadline.is_zero() || *deadline > MAX_DEADLINE {
            return Err(Refusal::Deadline);
        }
        let read = Description::decode(description).map_err(|_| Refusal::Description)?;
        let schema = &read.schema;
        let floor = floor(begin, config.deadline);
        Ok(Self {
            id: wire::stream_id(&read.name, schema),
            origin: *origin,
            description: description.to_vec(),
            stations: stations.clone(),
            form: Form { dtype: schema.dtype, per_sample: schema.elements_per_sample(), rate: schema.rate },
            priority: *priority,
            floor,
            reader_deadlines: ReaderDeadlines::default(),
            deadline: ReaderDeadlines::default().deadline(floor),
            incarnation: None,
            number: None,
            suspended_since: None,
            heard: None,
            held_until: None,
            skipped: None,
            inbox: Inbox::default(),
            early: Some(Vec::new()),
            state: State::Waiting,
            horizon: None,
            end: None,
            is_forgotten: false,
            told: Vec::new(),
            ages: AgeWindow::default(),
            outputs: VecDeque::new(),
        })
    }

    pub(super) const fn id(&self) -> StreamId {
        self.id
    }

    pub(super) const fn origin(&self) -> Epoch {
        self.origin
    }

    pub(super) const fn number(&self) -> Option<u16> {
        self.number
    }

    /// Returns since when no near end sends it; `None` while one does, and of a stream that has ended.
    pub(super) fn suspended_since(&self) -> Option<Instant> {
        self.suspended_since.filter(|_| !self.has_ended())
    }

    pub(super) const fn is_suspended(&self) -> bool {
        self.number.is_none()
    }

    pub(super) const fn has_opened(&self) -> bool {
        matches!(self.state, State::Open(_)) && !self.is_held()
    }

    /// Returns whether nothing was published of it yet.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting) || self.is_held()
    }

    /// Returns whether it waits for earlier epochs of its publisher.
    pub(super) const fn is_held(&self) -> bool {
        self.held_until.is_some()
    }

    /// Returns whether it is an earlier epoch of the same stream that is not out.
    pub(super) fn precedes(&self, next: &Self) -> bool {
        self.id == next.id && self.origin < next.origin && !self.has_ended()
    }

    /// Lets it wait for earlier epochs, whose readers are its own.
    pub(super) fn hold(&mut self, until: Instant, reader_deadlines: ReaderDeadlines) {
        self.held_until = Some(until);
        self.reader_deadlines = reader_deadlines;
    }

    /// Returns whether it has waited for long enough while its near end was there.
    pub(super) fn has_waited(&self, now: Instant) -> bool {
        !self.is_suspended() && self.held_until.is_some_and(|until| now >= until)
    }

    /// Lets it wait on: earlier epochs are still told of.
    pub(super) const fn wait_until(&mut self, until: Instant) {
        self.held_until = Some(until);
    }

    /// Returns when the near end last sent samples or a control of it.
    pub(super) const fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// Lets it be published.
    pub(super) fn let_go(&mut self) -> Result<(), FarFault> {
        self.held_until = None;
        if let Some((end, cause)) = self.skipped.take() {
            self.lose(end, cause, true);
        }
        self.on_controls()
    }

    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended { .. })
    }

    /// Returns the request to the near end: the deadline to keep.
    pub(super) const fn want(&self) -> Want {
        Want { deadline: self.deadline, priority: 0 }
    }

    pub(super) const fn reader_deadlines(&self) -> &ReaderDeadlines {
        &self.reader_deadlines
    }

    pub(super) const fn reader_deadlines_mut(&mut self) -> &mut ReaderDeadlines {
        &mut self.reader_deadlines
    }

    /// Decides which deadline is kept; returns whether it has changed.
    pub(super) fn decide(&mut self) -> bool {
        let deadline = self.reader_deadlines.deadline(self.floor);
        core::mem::replace(&mut self.deadline, deadline) != deadline
    }

    /// Returns the deadline that is kept.
    pub(super) const fn kept(&self) -> Duration {
        self.deadline
    }

    pub(super) const fn priority(&self) -> u8 {
        self.priority
    }

    pub(super) fn take_ages(&mut self) -> Option<Ages> {
        self.ages.take()
    }

    pub(super) fn totals(&self) -> Option<FarTotals> {
        self.counters().map(Counters::totals)
    }

    pub(super) fn held_bytes(&self) -> usize {
        let early = self.early.iter().flatten().map(|(early, _)| early.datagram.len()).sum();
        match &self.state {
            State::Open(open) => open.waiting.bytes() + early,
            State::Waiting | State::Ended { .. } => early,
        }
    }

    /// Returns whether nothing is left to report of it.
    pub(super) fn is_gone(&self, now: Instant) -> bool {
        self.gone_at().is_some_and(|at| self.is_forgotten || now >= at)
    }

    /// Returns until when the near end may ask how it ended.
    fn gone_at(&self) -> Option<Instant> {
        match self.state {
            State::Ended { at, .. } => {
                at.map(|at| at + if self.is_suspended() { SUSPENSION } else { FAREWELL })
            }
            State::Waiting | State::Open(_) => None,
        }
    }

    /// Returns whether a beginning asks for the outcome of what was published to its end: the connection was lost before the
    /// near end heard of it.
    pub(super) fn is_asked_again(&self, begin: &Begin<'_>, incarnation: u64) -> bool {
        let has_outcome = matches!(self.state, State::Ended { counters: Some(_), .. }) && !self.is_forgotten;
        let is_its = self.incarnation == Some(incarnation) && self.early.is_none();
        has_outcome && begin.goes_on && is_its && self.is_suspended()
    }

    /// Waits for the near end to come back.
    pub(super) fn suspend(&mut self, now: Instant) {
        self.number = None;
        self.suspended_since.get_or_insert(now);
        if let State::Open(open) = &mut self.state {
            open.released_us = None;
            open.waiting.forget_clock();
        }
        if let Some(early) = &mut self.early {
            early.clear();
        }
    }

    pub(super) const fn is_forgotten(&self) -> bool {
        self.is_forgotten
    }

    /// Takes it that the near end does not come back: the samples that are here are published, and the end.
    pub(super) const fn forget(&mut self) {
        self.is_forgotten = true;
    }

    /// The near end was gone for too long: as [`Self::forget`], but an epoch that waits for an earlier one is not published.
    pub(super) fn abandon(&mut self, now: Instant) {
        self.forget();
        if self.is_held() {
            self.outputs.clear();
            self.state = State::Ended { counters: None, at: Some(now) };
        }
    }

    /// Takes the stream up on a connection; returns the answer to the near end.
    pub(super) fn resume(
        &mut self,
        now: Instant,
        number: u16,
        incarnation: u64,
        begin: &Begin<'_>,
    ) -> Resume {
        self.number = Some(number);
        self.suspended_since = None;
        self.floor = floor(begin, self.floor.far);
        self.priority = begin.priority;
        self.deadline = self.reader_deadlines.deadline(self.floor);
        let is_same = self.incarnation == Some(incarnation);
        self.incarnation = Some(incarnation);
        let has_started = self.early.is_none();
        let open = match &mut self.state {
            State::Open(open) => open,
            State::Ended { counters: Some(counters), at } => {
                *at = Some(now);
                let (position, controls) = (counters.next().position, self.inbox.taken());
                return Resume { standing: Standing::Same, position, controls };
            }
            State::Waiting | State::Ended { counters: None, .. } => {
                self.inbox = Inbox::default();
                return Resume { standing: Standing::Fresh, position: 0, controls: 0 };
            }
        };
        let position = open.counters.next().position;
        if is_same && has_started {
            return Resume { standing: Standing::Same, position, controls: self.inbox.taken() };
        }
        // The other incarnation sends what waits here again, or gives it up.
        open.waiting.clear();
        self.early = Some(Vec::new());
        (self.inbox, self.horizon, self.end, self.skipped) = (Inbox::default(), None, None, None);
        Resume { standing: Standing::Other, position, controls: 0 }
    }

    /// Takes a message.
    pub(super) fn take(&mut self, message: &Message<'_>, times: Times) -> Result<(), FarFault> {
        let Message { born_us, missing_before, .. } = *message;
        let born = times.born(born_us);
        if matches!(message.content, Content::Data(_) | Content::Control(_)) {
            self.heard = Some(times.arrived);
        }
        if self.has_ended() {
            return self.take_late(
                &message.content,
                missing_before,
                (born_us, born.unwrap_or(times.arrived)),
            );
        }
        match &message.content {
            Content::Data(datagram) => self.on_data(born_us, missing_before, datagram, times),
            Content::Horizon(horizon) => {
                self.inbox.skip_to(horizon.first_control);
                let born = born.ok_or(FarFault::Age(horizon.position))?;
                self.on_controls()?;
                self.reach(horizon.position, missing_before, born)
            }
            Content::Control(numbered) => {
                let born = born.ok_or(FarFault::Age(0))?;
                self.inbox.add(numbered.clone(), missing_before, (born_us, born))?;
                self.on_controls()
            }
            Content::Refuse(_) => {
                self.is_forgotten = true;
                Ok(())
            }
            Content::Hello(_)
            | Content::Begin(_)
            | Content::Resume(_)
            | Content::Totals(_)
            | Content::Want(_) => Err(FarFault::Direction),
        }
    }

    /// Takes messages that come behind the end: nothing of them is published, but the near end waits until its controls are taken.
    fn take_late(
        &mut self,
        content: &Content<'_>,
        missing_before: u64,
        born: (u32, Instant),
    ) -> Result<(), FarFault> {
        match content {
            Content::Control(numbered) => self.inbox.add(numbered.clone(), missing_before, born)?,
            Content::Horizon(horizon) => self.inbox.skip_to(horizon.first_control),
            _ => {}
        }
        while self.inbox.take().is_some() {}
        Ok(())
    }

    /// Publishes the next samples, and gives up those that are too old.
    pub(super) fn release(&mut self, now: Instant, is_up: bool) {
        if self.is_held() {
            return;
        }
        let cause = if is_up && !self.is_forgotten { Cause::Repair } else { Cause::LinkDown };
        while self.release_one(now, cause) {}
        let (end, is_forgotten) = (self.end, self.is_forgotten);
        let is_over = match &self.state {
            State::Waiting => is_forgotten,
            State::Open(open) => is_forgotten || end.is_some_and(|end| open.counters.next().position >= end),
            State::Ended { .. } => false,
        };
        if is_over {
            let was_open = self.has_opened();
            let mut counters =
                match core::mem::replace(&mut self.state, State::Ended { counters: None, at: None }) {
                    State::Open(open) => Some(open.counters),
                    State::Waiting | State::Ended { .. } => None,
                };
            if let Some(counters) = &mut counters {
                counters.end();
                self.outputs.push_back(Output::Publish(Publish::Upstream(counters.upstream(&self.stations))));
            }
            self.state = State::Ended { counters, at: Some(now) };
            if was_open {
                self.outputs.push_back(Output::Publish(Publish::End));
            }
        }
    }

    /// Returns the next output.
    pub(super) fn poll(&mut self, slot: u16) -> Option<FarOutput> {
        if self.is_held() {
            return None;
        }
        Some(match self.outputs.pop_front()? {
            Output::Publish(publish) => FarOutput::Publish { slot, publish },
            Output::Lost(positions, cause) => FarOutput::Event(FarEvent::Lost { slot, positions, cause }),
        })
    }

    /// Returns when the next hole is given up, or earlier epochs are not waited for any more.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting | State::Open(_) if self.is_held() => {
                self.held_until.filter(|_| !self.is_suspended())
            }
            State::Open(open) => self.hole(open).map(|(_, until)| until),
            State::Waiting => None,
            State::Ended { .. } => self.gone_at(),
        }
    }

    /// Returns the losses of the hops before that of the bus, if they have changed.
    pub(super) fn upstream_news(&mut self) -> Option<Vec<UpstreamHop>> {
        let State::Open(open) = &self.state else { return None };
        if self.is_held() {
            return None;
        }
        let upstream = open.counters.upstream(&self.stations);
        if upstream == self.told {
            return None;
        }
        self.told.clone_from(&upstream);
        Some(upstream)
    }

    /// Returns the totals for the near end.
    pub(super) fn totals_message(&self) -> Option<Message<'static>> {
        if self.early.is_some() {
            // Before the near end has sent its start, it would take them for totals from there.
            return None;
        }
        let mut totals = self.counters()?.reported();
        totals.controls = self.inbox.taken();
        Some(Message::plain(self.number?, Content::Totals(totals)))
    }

    fn counters(&self) -> Option<&Counters> {
        match &self.state {
            State::Waiting => None,
            State::Open(open) => Some(&open.counters),
            State::Ended { counters, .. } => counters.as_ref(),
        }
    }

    fn on_data(
        &mut self,
        born_us: u32,
        missing_before: u64,
        datagram: &[u8],
        times: Times,
    ) -> Result<(), FarFault> {
        let data = Data::decode(datagram).ok_or(FarFault::Data)?;
        let is_of_stream = (data.head.stream, data.head.epoch) == (self.id, self.origin)
            && (data.head.elements_per_sample, data.dtype) == (self.form.per_sample, self.form.dtype)
            && data.origin.is_none()
            && data.positions().end <= ledger::MAX_POSITION;
        if !is_of_stream {
            return Err(FarFault::Data);
        }
        let positions = data.positions();
        let born = times.born(born_us).ok_or(FarFault::Age(positions.start))?;
        if let Some(early) = &mut self.early {
            let held: usize = early.iter().map(|(early, _)| early.datagram.len()).sum();
            if held + datagram.len() <= MAX_EARLY_BYTES {
                early.push((Early { born_us, missing_before, datagram: datagram.to_vec() }, times));
            }
            return Ok(());
        }
        match &mut self.state {
            State::Open(open) => {
                let next = self.skipped.map_or_else(|| open.counters.next(), |(end, _)| end);
                if positions.end <= next.position {
                    // These samples were given up before they came.
                    return Ok(());
                }
                let missing_before = open.counters.missing_before(missing_before);
                let bytes = data.payload.to_vec();
                let outcome = KnownOutcome::Samples { t0: data.t0, clock: data.clock, bytes };
                let born_us = Some(born_us);
                let known = Known { positions, missing_before, born, born_us, outcome };
                open.waiting.add(next, open.released_us, known)?;
                self.skip(times.arrived);
                Ok(())
            }
            State::Waiting | State::Ended { .. } => Ok(()),
        }
    }

    /// While it is held: gives up what is too old, and what is too much.
    fn skip(&mut self, now: Instant) {
        let (bound_bytes, kept) = (self.bound_bytes(), self.kept());
        let State::Open(open) = &mut self.state else { return };
        while let Some(first) = open.waiting.first().filter(|_| self.held_until.is_some()) {
            let cause = match now.since(first.born) > kept {
                true => Cause::Repair,
                false if open.waiting.bytes() as u64 > bound_bytes => Cause::Memory,
                false => return,
            };
            self.skipped = Some((first.end(), cause));
            open.waiting.pop_first();
        }
    }

    fn on_controls(&mut self) -> Result<(), FarFault> {
        let mut outcome = Ok(());
        // While it is held only its beginning is taken: the other controls wait, of which the near end has few under way.
        while !(self.is_held() && self.early.is_none())
            && let Some(arrived) = self.inbox.take()
        {
            outcome = outcome.and(self.on_control(arrived));
        }
        outcome
    }

    fn on_control(&mut self, arrived: Arrived) -> Result<(), FarFault> {
        let Arrived { control, missing_before, born_us, born } = arrived;
        if let Control::Start { position } = control {
            return self.start(position);
        }
        if let Control::Statement(bytes) = control {
            self.outputs.push_back(Output::Publish(Publish::Statement(bytes)));
            return Ok(());
        }
        let is_early = self.early.is_some();
        let State::Open(open) = &mut self.state else { return Err(FarFault::Data) };
        if is_early {
            // Without a beginning the control has no place.
            return Err(FarFault::Data);
        }
        let next = open.counters.next();
        let missing_before = open.counters.missing_before(missing_before);
        let known = |positions, outcome| {
            let born_us = Some(born_us);
            Known { positions, missing_before, born, born_us, outcome }
        };
        match control {
            Control::Missing { positions, shares } if positions.end <= next.position => {
                self.settle(positions, shares);
                Ok(())
            }
            Control::Missing { positions, shares } => {
                let known = known(positions, KnownOutcome::Missing(shares));
                open.waiting.add(next, None, known)
            }
            Control::Settled { positions, shares } => {
                if !open.waiting.settle(&positions, &shares) {
                    self.settle(positions, shares);
                }
                Ok(())
            }
            Control::GivenUp { positions, cause } => {
                open.counters.corrected(&positions, cause);
                let known = known(positions, KnownOutcome::GivenUp(cause));
                open.waiting.add(next, None, known)
            }
            Control::End { position } => {
                self.end = Some(position);
                self.reach_here(position, missing_before, born);
                Ok(())
            }
            Control::Start { .. } | Control::Statement(_) => unreachable!("they were taken above"),
        }
    }

    /// Begins, or continues with another incarnation of the near end.
    fn start(&mut self, position: u64) -> Result<(), FarFault> {
        let refused = FarFault::Contradiction { start: position, end: position };
        let link = u8::try_from(self.stations.len() - 1).expect("at most eight");
        match &mut self.state {
            State::Waiting => {
                let counters = Counters::open(self.form.per_sample, link, position).ok_or(refused)?;
                let open = Open { counters, waiting: Resequencer::default(), released_us: None };
                self.state = State::Open(open);
                self.outputs.push_back(Output::Publish(Publish::Begin {
                    description: self.description.clone(),
                    origin: self.origin,
                    hop: NonZeroU8::new(link + 1).expect("the link is not the last"),
                    stations: self.stations.clone(),
                    first_position: position,
                    deadline: self.deadline,
                    priority: self.priority,
                }));
            }
            State::Open(open) => {
                let next = open.counters.next().position;
                if position < next {
                    return Err(refused);
                }
                if position > next {
                    // The near end that was started again did not read these elements.
                    let (hop, count) = (link - 1, position - next);
                    let share = HopShare { hop, outcome: Outcome::Lost(Stage::ReaderLag), count };
                    let (positions, shares) =
                        open.counters.missing(next..position, [share].into_iter().collect());
                    self.outputs.push_back(Output::Publish(Publish::Inherited {
                        positions,
                        shares,
                        cause: None,
                    }));
                }
                open.counters.restart();
            }
            State::Ended { .. } => {}
        }
        let mut outcome = Ok(());
        for (Early { born_us, missing_before, datagram }, times) in self.early.take().into_iter().flatten() {
            outcome = outcome.and(self.on_data(born_us, missing_before, &datagram, times));
        }
        outcome
    }

    fn settle(&mut self, positions: Range<u64>, shares: HopCounts) {
        let State::Open(open) = &mut self.state else { return };
        if let Some((positions, shares)) = open.counters.settled(positions, shares) {
            self.outputs.push_back(Output::Publish(Publish::Settled { positions, shares }));
        }
    }

    /// Takes the progress of the near end.
    fn reach(&mut self, position: u64, missing_before: u64, born: Instant) -> Result<(), FarFault> {
        let State::Open(open) = &self.state else { return Ok(()) };
        if self.early.is_some() {
            return Ok(());
        }
        if position > ledger::MAX_POSITION {
            return Err(FarFault::Contradiction { start: position, end: position });
        }
        let missing_before = open.counters.missing_before(missing_before);
        self.reach_here(position, missing_before, born);
        Ok(())
    }

    fn reach_here(&mut self, position: u64, missing: u64, born: Instant) {
        if self.horizon.is_none_or(|(known, _)| known.position <= position) {
            self.horizon = Some((Place { position, missing }, born));
        }
    }

    /// Returns the place behind the hole at the next position, and the instant at which it is given up; `None` if there
    /// is no hole.
    fn hole(&self, open: &Open) -> Option<(Place, Instant)> {
        let next = open.counters.next();
        let (end, born) = match open.waiting.first() {
            Some(known) if known.positions.start == next.position => return None,
            Some(known) => {
                let start = known.positions.start;
                // A sample before the one that came is older by a period.
                let is_sample = start.is_multiple_of(u64::from(self.form.per_sample));
                let period = self.form.rate.duration_of(u64::from(is_sample));
                (Place { position: start, missing: known.missing_before }, known.born - period)
            }
            None => self.horizon.filter(|(end, _)| end.position > next.position && next.leads_to(*end))?,
        };
        Some((end, born + self.kept().saturating_sub(HANDOVER)))
    }

    /// Publishes the next range; returns whether there was one.
    fn release_one(&mut self, now: Instant, cause: Cause) -> bool {
        let bound_bytes = self.bound_bytes();
        let kept = self.kept();
        let State::Open(open) = &self.state else { return false };
        if let Some((end, until)) = self.hole(open) {
            let is_full = open.waiting.bytes() as u64 > bound_bytes;
            if now < until && !is_full && !self.is_forgotten {
                return false;
            }
            let cause = if is_full && now < until { Cause::Memory } else { cause };
            self.lose(end, cause, true);
            return true;
        }
        let State::Open(open) = &mut self.state else { return false };
        let Some(known) = open.waiting.pop_first() else { return false };
        let end = known.end();
        let Known { positions, born, born_us, outcome, .. } = known;
        match outcome {
            KnownOutcome::Missing(shares) => {
                let (positions, shares) = open.counters.missing(positions, shares);
                self.outputs.push_back(Output::Publish(Publish::Inherited {
                    positions,
                    shares,
                    cause: None,
                }));
            }
            KnownOutcome::GivenUp(cause) => self.lose(end, cause, false),
            KnownOutcome::Samples { .. } if now.since(born) > kept => self.lose(end, cause, true),
            KnownOutcome::Samples { t0, clock, bytes } => {
                open.released_us = born_us;
                open.counters.delivered(positions.clone());
                let age = now.since(born);
                self.ages.record(age);
                let elements = Publish::Elements { positions, t0, clock, bytes, age };
                self.outputs.push_back(Output::Publish(elements));
            }
        }
        true
    }

    /// Counts the elements up to a place that did not come.
    fn lose(&mut self, end: Place, cause: Cause, is_assumed: bool) {
        let State::Open(open) = &mut self.state else { return };
        if let Some((positions, shares)) = open.counters.lost_until(end, cause) {
            if is_assumed {
                open.counters.assume(positions.clone(), cause);
            }
            let inherited = Publish::Inherited { positions: positions.clone(), shares, cause: Some(cause) };
            self.outputs.push_back(Output::Publish(inherited));
            self.outputs.push_back(Output::Lost(positions, cause));
        }
    }

    fn bound_bytes(&self) -> u64 {
        let sample_bytes = u64::from(self.form.per_sample) * self.form.dtype.size_bytes() as u64;
        let of_deadline = self.form.rate.samples_in(self.kept()).saturating_mul(sample_bytes);
        of_deadline.max(sample_bytes).saturating_add(SPARE_BYTES)
    }
}

/// Returns the deadlines of the relays.
const fn floor(begin: &Begin<'_>, far: Option<Duration>) -> Floor {
    Floor { near: begin.deadline, is_least: begin.is_least, far }
}
