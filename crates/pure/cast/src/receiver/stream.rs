//! One stream at one socket: its description, its current epoch, and the epochs that this one replaced.

mod sources;
mod succession;

use core::cmp::Ordering;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::sync::Arc;

use ledger::{Brackets, DropNotice, LedgerConfig, LedgerKey, Stage};
use sample::Selection;
use units::{Epoch, Instant, SampleRate, StreamId};
use wire::{
    Announcement, Data, DataOrigin, Datagram, Description, DescriptorAssembler, DescriptorPart, Nonce,
    Numbered, Origin, Report, Request, Skipped, Tally, Wanted,
};

use super::challengers::Challengers;
use super::epoch::{ReceiverEpoch, Taken};
use super::newcomer::Newcomer;
use super::outbox::Outbox;
use super::plausible::Verdict;
use super::reports::ReportClock;
use super::rivals::Rivals;
use super::run::Run;
use super::stated::StatedDeadlines;
use super::unusable::Unusable;
use super::waiting::{Beginnings, WaitsSince, stated};
use super::{ReaderIdentity, ReceiverStats};

/// Replaced epochs that are kept until their accounts are settled.
const MAX_REPLACED: usize = 4;
/// Largest number of readers at which a leaving reader reports at once (RFC 3550 §6.3.7).
const MAX_CROWD_FOR_FAREWELL: u32 = 50;
/// Interval of requests for a missing description, and for the data of a paused publisher.
const REQUEST_INTERVAL: Duration = Duration::from_millis(250);

/// One stream at one socket.
#[derive(Debug)]
pub(super) struct Stream {
    id: StreamId,
    /// Time of its first datagram or announcement.
    pub(super) since: Instant,
    reader: ReaderIdentity,
    config: LedgerConfig,
    assembler: DescriptorAssembler,
    description: Option<Arc<Description>>,
    /// True if the stream is selected and no other socket of the process receives it.
    wanted: bool,
    /// True if another socket of the process receives it.
    elsewhere: bool,
    /// Evidence that is awaited for a stream that is no longer selected.
    leaving: Option<Leaving>,
    announced: Option<SocketAddr>,
    /// Age up to which its samples are of use to this reader.
    deadline: Option<Duration>,
    next_request: Instant,
    /// Numbers that came too early to be used, or belonged to an account that has ended.
    unusable: Unusable,
    beginnings: Beginnings,
    current: Option<ReceiverEpoch>,
    replaced: Vec<ReceiverEpoch>,
    /// The latest replaced epoch whose account has ended: its successor may still report how far it came.
    departed: Option<ReceiverEpoch>,
    rivals: Rivals,
    reports: ReportClock,
    /// Number of readers that report to the publisher.
    crowd: u32,
    /// True once the last report of an account that has ended has been sent.
    told_end: bool,
    /// A datagram with an implausible number, until a second one of its epoch agrees.
    doubted: Option<(Epoch, Vec<u8>)>,
    /// A new epoch that is held for its descriptor.
    newcomer: Newcomer,
    /// Datagrams of a relayed epoch that the reader waited for, held until it is known where the epoch began.
    unplaced: Newcomer,
    /// The newest epoch whose descriptor has arrived or was awaited for long enough.
    introduced: Option<Epoch>,
    /// Addresses that send in the stream's name and are not believed.
    challengers: Challengers,
    /// The earliest epoch that may replace the current one although it starts earlier by its clock, as long as the
    /// current one is not received again.
    earlier_heir: Option<(Epoch, Instant)>,
    /// True once an imposter was reported.
    told_imposter: bool,
}

/// Evidence that is awaited for a stream that is no longer selected.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    /// Deadline for the publisher's report on what it withheld.
    publisher_until: Instant,
    /// Deadline for the reporter of drop events of this host.
    drop_reporter_until: Instant,
    /// True once the publisher has reported.
    publisher_told: bool,
}

/// A datagram as it arrived, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) from: SocketAddr,
    pub(super) bytes: &'a [u8],
    /// Its origin, if it is of a relayed stream.
    pub(super) origin: Option<Origin>,
}

impl<'a> Arrival<'a> {
    /// No datagram: time has passed, or the selection has changed.
    pub(super) const NONE: Self = Self::of(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), &[]);

    /// A datagram that is still to be read.
    pub(super) const fn of(from: SocketAddr, bytes: &'a [u8]) -> Self {
        Self { from, bytes, origin: None }
    }
}

/// Context of every input of a stream.
pub(super) struct Surroundings<'a> {
    pub(super) now: Instant,
    pub(super) arrival: Arrival<'a>,
    pub(super) brackets: &'a mut Brackets,
    pub(super) out: &'a mut Outbox,
    pub(super) stats: &'a mut ReceiverStats,
    pub(super) next_key: &'a mut u32,
    pub(super) selection: &'a Selection,
    /// Maximum delay of a drop reporter, if there is one.
    pub(super) drop_reporter: Option<Duration>,
    pub(super) deadlines: &'a StatedDeadlines,
}

impl Surroundings<'_> {
    /// Returns this context for another datagram.
    fn at<'b>(&'b mut self, from: SocketAddr, bytes: &'b [u8]) -> Surroundings<'b> {
        let Self { now, brackets, out, stats, next_key, selection, drop_reporter, deadlines, .. } = self;
        let (now, arrival, drop_reporter) = (*now, Arrival::of(from, bytes), *drop_reporter);
        Surroundings { now, arrival, brackets, out, stats, next_key, selection, drop_reporter, deadlines }
    }

    fn next_key(&mut self) -> LedgerKey {
        let key = LedgerKey(*self.next_key);
        *self.next_key = self.next_key.wrapping_add(1);
        key
    }
}

impl Leaving {
    /// Returns the time of the next check.
    fn deadline(self) -> Instant {
        if self.publisher_told { self.drop_reporter_until } else { self.publisher_until }
    }
}

impl Stream {
    pub(super) fn new(
        id: StreamId,
        reader: ReaderIdentity,
        config: LedgerConfig,
        (seed, now): (u64, Instant),
        waiting: Option<WaitsSince>,
    ) -> Self {
        Self {
            id,
            since: now,
            reader,
            config,
            assembler: DescriptorAssembler::new(),
            description: None,
            wanted: false,
            elsewhere: false,
            leaving: None,
            announced: None,
            deadline: None,
            next_request: now,
            unusable: Unusable::default(),
            beginnings: Beginnings::new(waiting),
            current: None,
            replaced: Vec::new(),
            departed: None,
            rivals: Rivals::default(),
            reports: ReportClock::new(seed ^ id.0, now),
            crowd: 0,
            told_end: false,
            doubted: None,
            newcomer: Newcomer::default(),
            unplaced: Newcomer::default(),
            introduced: None,
            challengers: Challengers::new(seed ^ id.0),
            earlier_heir: None,
            told_imposter: false,
        }
    }

    /// Reads from an announcement where to request the description.
    pub(super) fn on_announcement(&mut self, announcement: &Announcement, with: &mut Surroundings<'_>) {
        let address = at_port(with.arrival.from, announcement.report_port);
        self.announced = Some(address);
        self.deadline = with.deadlines.of(&announcement.name);
        self.challengers.reports_to(announcement.epoch, address);
        self.beginnings.heard(announcement.epoch, with.now);
        if self.wants_announcement(announcement) {
            self.request_description(announcement.epoch, with);
        }
    }

    /// Returns whether an announcement gives an address for a pending request.
    pub(super) fn wants_announcement(&self, announcement: &Announcement) -> bool {
        self.description.is_none()
            || self.beginnings.awaits(announcement.epoch)
            || !self.challengers.is_empty()
    }

    pub(super) fn on_data(&mut self, data: &Data<'_>, with: &mut Surroundings<'_>) {
        with.arrival.origin = data.origin.map(DataOrigin::origin);
        let Some(state) = self.epoch_for(&data.head, with) else { return };
        let taken = state.on_data(with.now, data, with.brackets, with.out);
        self.count(taken, with);
    }

    /// Takes a run of datagrams: together, if each of them is the next one expected.
    pub(super) fn on_run(&mut self, run: &Run<'_>, with: &mut Surroundings<'_>) {
        if let Some(state) = self.undisturbed_epoch(run, with.arrival.from)
            && state.on_run(with.now, run, with.brackets, with.out)
        {
            return self.count(Taken::Accepted, with);
        }
        for (data, bytes) in run.each() {
            self.on_data(&data, &mut with.at(with.arrival.from, bytes));
        }
    }

    /// Returns the current epoch if neither the selection of a datagram nor its epoch needs a decision.
    fn undisturbed_epoch(&mut self, run: &Run<'_>, from: SocketAddr) -> Option<&mut ReceiverEpoch> {
        let head = &run.first.head;
        let schema = &self.description.as_ref()?.schema;
        let is_as_described = head.elements_per_sample == schema.elements_per_sample();
        let listens = self.wanted || self.leaving.is_some();
        let state = self.current.as_mut()?;
        let is_its = state.epoch == head.epoch && state.pin.is_at(from.ip());
        (run.datagrams() > 1 && is_as_described && listens && is_its && !state.ended).then_some(state)
    }

    pub(super) fn on_tally(&mut self, tally: &Tally, with: &mut Surroundings<'_>) {
        with.arrival.origin = tally.origin;
        if let Some(start) = never_offered(tally) {
            self.beginnings.heard(tally.head.epoch, with.now);
            self.starts_at(tally.head.epoch, start, with);
        }
        let Some(state) = self.epoch_for(&tally.head, with) else { return };
        let taken = state.on_tally(with.now, tally, with.brackets, with.out);
        if taken == Taken::Accepted {
            self.reports.announced(with.now, tally.report_interval);
            self.crowd = tally.readers;
            self.wake_publisher(tally, with);
        }
        self.count(taken, with);
        if taken == Taken::Accepted
            && let Some(leaving) = &mut self.leaving
        {
            leaving.publisher_told = true;
            self.leave_if_told(with);
        }
    }

    pub(super) fn on_descriptor(&mut self, part: &DescriptorPart<'_>, with: &mut Surroundings<'_>) {
        with.arrival.origin = part.origin;
        if self.is_held_back(&part.head, with) {
            return;
        }
        match self.assembler.accept(part) {
            Ok(Some(description)) => self.described(part.head.epoch, description, with),
            Ok(None) => {}
            Err(_) => with.stats.malformed += 1,
        }
        let is_newest = self.current.as_ref().is_none_or(|state| state.epoch <= part.head.epoch)
            || self.gives_way_to(part.head.epoch);
        if let Some(word) = part.predecessor.as_ref().filter(|_| is_newest) {
            if self.newcomer.oldest().is_some_and(|oldest| oldest < part.head.epoch) {
                // The predecessor was received, and its own descriptor will not arrive any more.
                self.introduce_all(with);
            }
            self.hear_of_predecessor(word, &part.head, with);
        }
        self.introduce(part.head.epoch, with);
        let Some(state) = self.epoch_for(&part.head, with) else { return };
        if !part.addresses.is_empty() {
            state.pin.lists(part.addresses.iter().map(|address| address.ip()));
        }
        let taken = state.on_control(with.now, (&part.head, part.origin), with.brackets, with.out);
        self.count(taken, with);
    }

    /// Takes a description that was put together elsewhere.
    pub(super) fn on_description(
        &mut self,
        epoch: Epoch,
        description: &Description,
        with: &mut Surroundings<'_>,
    ) {
        self.described(epoch, description.clone(), with);
        self.introduce(epoch, with);
    }

    /// Adopts a description: another epoch of the same stream may take its reports at another port.
    fn described(&mut self, epoch: Epoch, description: Description, with: &mut Surroundings<'_>) {
        self.rivals.described(epoch, at_port(with.arrival.from, description.report_port));
        self.wanted = !self.elsewhere && with.selection.wants(&description.name);
        self.deadline = with.deadlines.of(&description.name);
        let description = Arc::new(description);
        let gives_way = self.gives_way_to(epoch);
        match &mut self.current {
            Some(state) if state.epoch > epoch && !gives_way => return,
            Some(state) if state.epoch == epoch => state.description = Arc::clone(&description),
            Some(_) | None => {}
        }
        self.description = Some(description);
    }

    /// Records a datagram that could not be read although its header gave its number.
    pub(super) fn on_damaged(&mut self, head: &Numbered, with: &mut Surroundings<'_>) {
        let is_believed =
            |state: &ReceiverEpoch| !state.is_alive() || state.pin.is_at(with.arrival.from.ip());
        if self.current.as_ref().is_none_or(is_believed)
            && !self.epochs().any(|state| state.epoch == head.epoch)
        {
            self.beginnings.heard(head.epoch, with.now);
            self.beginnings.came_too_early(head.epoch, head.number);
        }
        let epochs = self.current.iter_mut().chain(&mut self.replaced);
        let from = with.arrival.from.ip();
        for state in epochs.filter(|state| state.epoch == head.epoch && state.pin.is_at(from)) {
            state.damaged(with.now, head, with.brackets, with.out);
        }
    }

    /// Records datagrams that the kernel was seen to free.
    pub(super) fn on_drop(&mut self, notice: &DropNotice, with: &mut Surroundings<'_>) {
        let epochs = self.current.iter_mut().chain(&mut self.replaced);
        for state in epochs.filter(|state| state.epoch.incarnation == notice.incarnation) {
            state.dropped(with.now, notice, with.brackets, with.out);
        }
        self.leave_if_told(with);
    }

    /// Believes another address of an epoch.
    pub(super) fn moves_to(&mut self, epoch: Epoch, to: SocketAddr) {
        let epochs = self.current.iter_mut().chain(&mut self.replaced);
        epochs.filter(|state| state.epoch == epoch).for_each(|state| state.moves_to(to));
    }

    /// Advances time: accounts settle, reports fall due.
    /// Tells the horizon of the current epoch if one is to be told; returns whether it is to be told later.
    pub(super) fn tell_horizon(&mut self, now: Instant, out: &mut Outbox) -> bool {
        self.current.as_mut().is_some_and(|state| state.tell_horizon(now, out))
    }

    pub(super) fn advance(&mut self, with: &mut Surroundings<'_>) {
        for state in self.current.iter_mut().chain(&mut self.replaced) {
            state.advance(with.now, with.brackets, with.out);
        }
        let current = self.current.as_ref().map(|state| state.epoch);
        let over =
            self.replaced.extract_if(.., |state| state.ended).filter(|state| Some(state.epoch) < current);
        self.departed = over.chain(self.departed.take()).max_by_key(|state| state.epoch);
        if self.newcomer.until().is_some_and(|until| until <= with.now) {
            self.introduce_all(with);
        }
        if self.unplaced.until().is_some_and(|until| until <= with.now) {
            self.place_anyway(with);
        }
        self.challenge(with);
        self.leave_if_told(with);
        if self.has_reports() && self.reports.is_due(with.now) {
            self.report(with);
        }
    }

    /// Returns whether there is an account to report on: one that has ended is reported once more.
    fn has_reports(&self) -> bool {
        self.current.is_some() && !self.told_end
    }

    fn report(&mut self, with: &mut Surroundings<'_>) {
        let Some(state) = &self.current else { return };
        let report = self.report_on(state, with.now);
        if let Some((epoch, report_to)) = self.rivals.take_turn(with.now) {
            // A report on a foreign epoch notifies a publisher of its rival.
            with.out.report(state.report_address(), Report { epoch, ..report.clone() });
            if let Some(address) = report_to {
                with.out.report(address, report);
            }
            return;
        }
        self.told_end = state.ended;
        with.out.report(state.report_address(), report);
    }

    fn report_on(&self, state: &ReceiverEpoch, now: Instant) -> Report {
        let waiting = self.deadline.map(|deadline| stated(Some(deadline)));
        Report { waiting, ..self.reader.report(state, now) }
    }

    /// Takes other deadlines, of which publishers learn soon.
    pub(super) fn deadlines_changed(&mut self, with: &Surroundings<'_>) {
        let Some(description) = &self.description else { return };
        let before = core::mem::replace(&mut self.deadline, with.deadlines.of(&description.name));
        if self.deadline != before && self.has_reports() {
            self.reports.hurry(with.now);
        }
    }

    /// Records whether another socket of the process receives this stream; one socket is enough.
    pub(super) fn is_elsewhere(&mut self, elsewhere: bool, with: &mut Surroundings<'_>) {
        self.elsewhere = elsewhere;
        self.selection_changed(with);
    }

    /// Joins or leaves the stream according to the current selection.
    ///
    /// A reader that leaves while losses wait for evidence keeps receiving until the publisher's next tally, which
    /// lists everything withheld below it, and until its drop reporter has reported what the kernel freed: an account
    /// cut there need not leave anything unexplained.
    pub(super) fn selection_changed(&mut self, with: &mut Surroundings<'_>) {
        let Some(description) = &self.description else { return };
        let was_wanted =
            core::mem::replace(&mut self.wanted, !self.elsewhere && with.selection.wants(&description.name));
        if self.wanted {
            if !was_wanted {
                self.beginnings.wanted_from(with.now);
            }
            self.leaving = None;
        } else if self.elsewhere {
            self.leave_for_good(with);
        } else {
            let publisher_until = with.now + self.config.settle;
            let drop_reporter_until =
                with.now + with.drop_reporter.unwrap_or_default().min(self.config.settle);
            let leaving = Leaving { publisher_until, drop_reporter_until, publisher_told: false };
            self.leaving.get_or_insert(leaving);
            self.leave_if_told(with);
        }
    }

    /// Leaves the stream as soon as no further evidence on its losses is expected.
    fn leave_if_told(&mut self, with: &mut Surroundings<'_>) {
        let Some(leaving) = self.leaving else { return };
        let current = self.current.as_ref().filter(|state| !state.ended && state.ledger.is_unsettled());
        let waits = current.is_some_and(|state| {
            let publisher_tells = !leaving.publisher_told && state.ledger.expects_more();
            with.now < leaving.drop_reporter_until || publisher_tells && with.now < leaving.publisher_until
        });
        if !waits {
            self.leave_for_good(with);
        }
    }

    /// Returns whether the stream is being left.
    pub(super) const fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Returns the time of the publisher's latest datagram if the stream is selected and its account ended without
    /// the final tally.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        let silent = |state: &&ReceiverEpoch| state.ended && state.is_unconfirmed();
        self.current.as_ref().filter(|_| self.wanted).filter(silent).map(|state| state.last_heard)
    }

    /// Leaves the stream and forgets its accounts.
    fn leave_for_good(&mut self, with: &mut Surroundings<'_>) {
        self.leaving = None;
        self.departed = None;
        drop(self.challengers.clear());
        self.leave(with);
        for state in self.current.take().into_iter().chain(std::mem::take(&mut self.replaced)) {
            self.unusable.remember(state.epoch, state.ledger.next_number().saturating_sub(1));
        }
    }

    /// Leaves the stream: accounts are cut.
    pub(super) fn leave(&mut self, with: &mut Surroundings<'_>) {
        // Received datagrams go into an account, or are counted.
        self.introduce_all(with);
        self.place_anyway(with);
        for state in self.current.iter_mut().chain(&mut self.replaced) {
            state.cut(with.now, with.brackets, with.out);
        }
        if let Some(state) = self.current.as_ref()
            && self.has_reports()
            && self.crowd <= MAX_CROWD_FOR_FAREWELL
        {
            with.out.report(state.report_address(), self.report_on(state, with.now));
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let current = self.current.as_ref().and_then(ReceiverEpoch::next_deadline);
        let replaced = self.replaced.iter().filter_map(ReceiverEpoch::next_deadline).min();
        let report = self.has_reports().then(|| self.reports.due());
        let epochs = Instant::earlier(current, replaced);
        let newcomers = Instant::earlier(self.newcomer.until(), self.unplaced.until());
        let held = Instant::earlier(self.challengers_due(), newcomers);
        let others = Instant::earlier(held, self.leaving.map(Leaving::deadline));
        Instant::earlier(epochs, Instant::earlier(report, others))
    }

    /// Returns the key of every ledger of this stream and the highest number seen.
    pub(super) fn ledgers(&self) -> impl Iterator<Item = (LedgerKey, u64)> + '_ {
        let epochs = self.current.iter().chain(&self.replaced).filter(|state| !state.ended);
        epochs.map(|state| (state.key, state.ledger.next_number().saturating_sub(1)))
    }

    /// Returns the epochs whose accounts are shown.
    pub(super) fn epochs(&self) -> impl Iterator<Item = &ReceiverEpoch> {
        self.current.iter().chain(&self.replaced)
    }

    pub(super) fn description(&self) -> Option<&Arc<Description>> {
        self.description.as_ref()
    }

    /// Returns whether nothing but datagrams is known of the stream.
    pub(super) const fn is_stray(&self) -> bool {
        self.description.is_none() && self.announced.is_none()
    }

    /// Returns the epoch of a datagram, and begins it if necessary; `None` if the datagram is not to be used.
    fn epoch_for(&mut self, head: &Numbered, with: &mut Surroundings<'_>) -> Option<&mut ReceiverEpoch> {
        if self.current.as_ref().is_none_or(|state| state.epoch != head.epoch) {
            self.beginnings.heard_datagram(head, with.now);
        }
        if self.description.is_none() {
            self.request_description(head.epoch, with);
            return self.too_early(head, with);
        }
        if self.is_held_back(head, with) {
            return None;
        }
        let Some(description) = &self.description else { return None };
        if !(self.wanted || self.is_leaving()) {
            with.stats.unwanted += 1;
            self.unusable.remember(head.epoch, head.number);
            return None;
        }
        if head.elements_per_sample != description.schema.elements_per_sample() {
            with.stats.malformed += 1;
            self.on_damaged(head, with);
            return None;
        }
        match self.current.as_ref().map(|state| state.epoch.cmp(&head.epoch)) {
            Some(Ordering::Greater) if !self.gives_way_to(head.epoch) => self.replaced_epoch(head, with),
            Some(Ordering::Equal) => self.current_epoch(head, with),
            Some(Ordering::Less) if self.replaced.iter().any(|state| state.misses(head)) => {
                with.stats.replaced += 1;
                let from = with.arrival.from.ip();
                self.replaced.iter_mut().find(|state| state.misses(head) && state.pin.is_at(from))
            }
            Some(_) if self.waits_for_descriptor(head.epoch) => {
                self.request_description(head.epoch, with);
                let Arrival { from, bytes, .. } = with.arrival;
                if !self.newcomer.hold(with.now, head.epoch, from, bytes) {
                    self.introduce_all(with);
                }
                None
            }
            Some(_) | None => {
                if self.newcomer.oldest().is_some() {
                    // The predecessor has ended meanwhile: the held datagrams come first.
                    self.introduce_all(with);
                    return self.epoch_for(head, with);
                }
                if let Some(ip) = self.survivor() {
                    // The same publisher had another epoch between the current one and this one.
                    self.take_over(ip, with);
                    return self.epoch_for(head, with);
                }
                self.begin(head, with)
            }
        }
    }

    /// Returns the current epoch if it can use this datagram.
    fn current_epoch(&mut self, head: &Numbered, with: &mut Surroundings<'_>) -> Option<&mut ReceiverEpoch> {
        let state = self.current.as_mut()?;
        if state.ended && head.number < state.ledger.next_number() {
            with.stats.after_end += 1;
            return None;
        }
        let verdict = state.judge(with.now, head);
        match verdict {
            Verdict::Plausible | Verdict::Confirmed => {}
            Verdict::Suspicious => return self.doubt(head, with),
            Verdict::Elsewhere => {
                state.cut(with.now, with.brackets, with.out);
                self.beginnings.begins_again(head.epoch);
                return self.begin_at(head, verdict, with);
            }
        }
        if self.current.as_ref().is_some_and(|state| state.ended) {
            self.resume(head, with)?;
        }
        if verdict == Verdict::Confirmed {
            self.believe_doubted(with);
        }
        self.current.as_mut()
    }

    /// Keeps an implausible datagram until a second one agrees.
    fn doubt(&mut self, head: &Numbered, with: &mut Surroundings<'_>) -> Option<&mut ReceiverEpoch> {
        with.stats.suspicious += 1;
        self.doubted = Some((head.epoch, with.arrival.bytes.to_vec()));
        None
    }

    /// Takes the implausible datagram that a second one has confirmed.
    fn believe_doubted(&mut self, with: &mut Surroundings<'_>) {
        let Some(state) = &mut self.current else { return };
        let Some((_, bytes)) = self.doubted.take_if(|(epoch, _)| *epoch == state.epoch) else { return };
        let taken = match Datagram::decode(&bytes) {
            Ok(Datagram::Data(data)) => state.on_data(with.now, &data, with.brackets, with.out),
            Ok(Datagram::Tally(tally)) => state.on_tally(with.now, &tally, with.brackets, with.out),
            Ok(Datagram::Descriptor(part)) => {
                state.on_control(with.now, (&part.head, part.origin), with.brackets, with.out)
            }
            Ok(_) | Err(_) => return,
        };
        self.count(taken, with);
    }

    /// Begins a new epoch at its first plausible datagram.
    fn begin(&mut self, head: &Numbered, with: &mut Surroundings<'_>) -> Option<&mut ReceiverEpoch> {
        if with.arrival.origin.is_some() && head.number == 0 {
            self.starts_at(head.epoch, head.position(), with);
            if self.current.as_ref().is_some_and(|state| state.epoch == head.epoch) {
                return self.current_epoch(head, with);
            }
        }
        let start = self.start(head, with);
        let schema = &self.description.as_ref()?.schema;
        if self.is_unplaced(head, start, schema.rate, with) {
            let Arrival { from, bytes, .. } = with.arrival;
            if !self.unplaced.hold(with.now, head.epoch, from, bytes) {
                self.place_anyway(with);
            }
            return None;
        }
        match self.beginnings.judge(head, start, schema, with.now) {
            Verdict::Suspicious if self.wanted => self.doubt(head, with),
            verdict => self.begin_at(head, verdict, with),
        }
    }

    /// Returns whether the reader waited for this epoch of a relayed stream, and it is not known yet where it began.
    fn is_unplaced(&self, head: &Numbered, start: u64, rate: SampleRate, with: &Surroundings<'_>) -> bool {
        with.arrival.origin.is_some()
            && self.wanted
            && self.beginnings.start(head.epoch).is_none()
            && self.beginnings.waited_for(head, start, rate, with.now)
    }

    /// Records at which position an epoch of a relayed stream began, and takes the datagrams that were held for it.
    fn starts_at(&mut self, epoch: Epoch, position: u64, with: &mut Surroundings<'_>) {
        if self.beginnings.starts_at(epoch, position) {
            for held in self.unplaced.take() {
                self.take_held(&held.bytes, &mut with.at(held.from, &held.bytes));
            }
        }
    }

    /// Takes the held datagrams although it is not known where their epoch began: its account begins with them.
    fn place_anyway(&mut self, with: &mut Surroundings<'_>) {
        for held in self.unplaced.take() {
            if let Ok(datagram) = Datagram::decode(&held.bytes)
                && let Some(head) = datagram.head()
            {
                self.beginnings.starts_at(held.epoch, head.position());
            }
            self.take_held(&held.bytes, &mut with.at(held.from, &held.bytes));
        }
    }

    /// Begins a new epoch at a datagram, and ends the current one.
    ///
    /// If the reader waited for the epoch and samples lie below this datagram, the account begins with the epoch's first
    /// sample.
    fn begin_at(
        &mut self,
        head: &Numbered,
        verdict: Verdict,
        with: &mut Surroundings<'_>,
    ) -> Option<&mut ReceiverEpoch> {
        let description = self.description.clone()?;
        let start = self.start(head, with);
        let waited =
            self.wanted && self.beginnings.waited_for(head, start, description.schema.rate, with.now);
        let misses_samples = waited && head.position() > start;
        if !misses_samples && !self.may_begin(head) {
            return self.too_early(head, with);
        }
        self.retire(head.epoch, with);
        self.rivals.forget(head.epoch);
        // An epoch has one account at a time: one that still settles ends before the next begins.
        for state in self.replaced.iter_mut().filter(|state| state.epoch == head.epoch) {
            state.cut(with.now, with.brackets, with.out);
        }
        self.replaced.retain(|state| state.epoch != head.epoch);
        let first = match misses_samples {
            true => head.at(self.beginnings.first_number(head, start), start),
            false => *head,
        };
        let heard = (with.now, with.arrival.from);
        let first_and_origin = (&first, with.arrival.origin);
        let mut state =
            ReceiverEpoch::join(with.next_key(), self.config, first_and_origin, description, heard);
        let early = self.beginnings.begun(head.epoch);
        if misses_samples {
            with.brackets.opened_below(state.key, head.number);
        }
        for numbers in early.iter().filter(|numbers| numbers.end > first.number) {
            state.name_undecoded(numbers.start.max(first.number)..numbers.end, with.brackets);
        }
        // A relay serves the deadline of the reader from the first samples on.
        let tells_relay = state.origin.is_some() && self.deadline.is_some();
        if waited || tells_relay {
            // The group is received: the publisher need not hold the beginning any longer for this reader.
            let waiting = self.beginnings.waiting_state(self.deadline);
            let request = Request { waiting, ..self.request(head.epoch, Wanted::Data) };
            with.out.request(state.report_address(), request);
        }
        self.begun(state, first.first_index, with);
        if verdict != Verdict::Plausible {
            // The datagram that this one confirms came first.
            self.believe_doubted(with);
        }
        self.current.as_mut()
    }

    /// Returns the first whole sample's position in the epoch of the datagram that arrives: of a stream that was not
    /// relayed 0, of another one as far as it is known.
    fn start(&self, head: &Numbered, with: &Surroundings<'_>) -> u64 {
        if with.arrival.origin.is_none() {
            return 0;
        }
        let start = self.beginnings.start(head.epoch).unwrap_or_else(|| head.position());
        start.next_multiple_of(u64::from(head.elements_per_sample))
    }

    /// Returns whether an account may begin here: of a selected stream, at the start of a sample, above all datagrams
    /// that came too early to be used, which are no losses, and above an earlier account, so that nothing is
    /// delivered twice.
    fn may_begin(&self, head: &Numbered) -> bool {
        self.wanted && ReceiverEpoch::may_join(head) && !self.unusable.overtook(head.epoch, head.number)
    }

    /// Counts a datagram that came before an account could begin.
    fn too_early(&mut self, head: &Numbered, with: &mut Surroundings<'_>) -> Option<&mut ReceiverEpoch> {
        with.stats.undescribed += 1;
        self.beginnings.came_too_early(head.epoch, head.number);
        self.unusable.remember(head.epoch, head.number);
        None
    }

    /// Requests data from a paused publisher: the reader's next report may be seconds away.
    ///
    /// Of many readers, only those ask that joined after the previous tally: one request ends the pause for all.
    fn wake_publisher(&mut self, tally: &Tally, with: &mut Surroundings<'_>) {
        let asks = tally.paused && !tally.last && !self.is_leaving() && with.now >= self.next_request;
        let Some(state) = self.current.as_ref().filter(|state| asks && state.epoch == tally.head.epoch)
        else {
            return;
        };
        let (to, epoch) = (state.report_address(), state.epoch);
        self.next_request = with.now + REQUEST_INTERVAL;
        with.out.request(to, self.request(epoch, Wanted::Data));
    }

    fn request_description(&mut self, epoch: Epoch, with: &mut Surroundings<'_>) {
        self.request_with(epoch, None, with);
    }

    /// Requests the description of an epoch whose datagrams cannot be read without it.
    pub(super) fn request_described(&mut self, epoch: Epoch, nonce: Nonce, with: &mut Surroundings<'_>) {
        self.beginnings.heard(epoch, with.now);
        self.request_with(epoch, Some(nonce), with);
    }

    fn request_with(&mut self, epoch: Epoch, nonce: Option<Nonce>, with: &mut Surroundings<'_>) {
        let Some(address) = self.announced else { return };
        if with.now >= self.next_request {
            self.next_request = with.now + REQUEST_INTERVAL;
            let waiting = self.beginnings.waiting_state(self.deadline);
            let request = Request { waiting, nonce, ..self.request(epoch, Wanted::Descriptor) };
            with.out.request(address, request);
        }
    }

    /// Asks a publisher, where it sends from and where it was announced, to repeat a nonce.
    pub(super) fn request_proof(
        &mut self,
        (epoch, to): (Epoch, SocketAddr),
        nonce: Nonce,
        with: &mut Surroundings<'_>,
    ) {
        // A recording of an epoch before the current one must not leave anything behind.
        let may_begin = self.current.as_ref().is_none_or(|state| state.epoch <= epoch);
        if may_begin {
            self.beginnings.heard(epoch, with.now);
        }
        let waiting = self.beginnings.waiting_state(self.deadline).filter(|_| may_begin);
        let request = Request { waiting, nonce: Some(nonce), ..self.request(epoch, Wanted::Descriptor) };
        with.out.request(to, request);
        if let Some(announced) = self.announced.filter(|announced| *announced != to) {
            with.out.request(announced, request);
        }
    }

    /// Returns a request without extensions.
    const fn request(&self, epoch: Epoch, what: Wanted) -> Request {
        Request { stream: self.id, epoch, reader: self.reader.id, what, waiting: None, nonce: None }
    }

    fn count(&mut self, taken: Taken, with: &mut Surroundings<'_>) {
        if taken == Taken::Malformed {
            with.stats.malformed += 1;
        }
        // New losses and the end of an account are reported early, within the budget.
        let news = self.current.as_ref().is_some_and(|state| state.ended || state.ledger.is_unsettled());
        if news && self.has_reports() {
            self.reports.hurry(with.now);
        }
    }
}

/// Returns the position at which a relay took a stream up: below it, its tallies list what it never offered. It is 0 if
/// they list all that was skipped as `source`, and nothing of the kind.
fn never_offered(tally: &Tally) -> Option<u64> {
    tally.origin?;
    let skipped = || tally.skipped.iter().filter(|skipped| skipped.stage == Stage::Source);
    let is_it = |skipped: &&Skipped| skipped.positions.start == 0 && skipped.inherited.is_none();
    if let Some(never_offered) = skipped().find(is_it) {
        return Some(never_offered.positions.end);
    }
    let listed: u64 = skipped().map(|skipped| skipped.positions.end - skipped.positions.start).sum();
    let samples = listed / u64::from(tally.head.elements_per_sample);
    (samples >= tally.totals.samples.source).then_some(0)
}

/// Returns another port of the same host; an IPv6 address keeps its scope.
pub(super) const fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

impl ReaderIdentity {
    fn report(&self, state: &ReceiverEpoch, now: Instant) -> Report {
        Report {
            stream: state.stream,
            epoch: state.epoch,
            reader: self.id,
            name: self.name.clone(),
            state: state.ledger.state(),
            age: now.since(state.last_heard),
            receive_buffer_bytes: self.receive_buffer_bytes,
            datagrams: state.ledger.network_rows(),
            elements: state.ledger.reader_rows(),
            waiting: None,
        }
    }
}
