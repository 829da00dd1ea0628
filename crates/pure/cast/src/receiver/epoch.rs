//! One received epoch: its ledger, the datagrams held for reordering, and delivery in order.

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ledger::{
    Accepted, Account, AccountState, Brackets, Change, DropNotice, EvidenceSource, HopCounts, HopShare,
    LedgerConfig, LedgerKey, Outcome, SocketLedger, Stage, StageCounts,
};
use units::{Epoch, Instant, StreamId};
use wire::{Data, DataOrigin, Description, Inherited, Numbered, Origin, Predecessor, Tally, UpstreamHop};

use super::AccountView;
use super::event::{Block, Event};
use super::holes::Holes;
use super::outbox::{Elements, Outbox};
use super::pin::Pin;
use super::plausible::{Plausibility, Verdict};
use super::run::Run;
use crate::sender::MAX_INTERVAL;

/// Tally intervals without a datagram after which a publisher counts as silent (rule 13).
const SILENT_INTERVALS: u32 = 10;
/// Maximum distance above the horizon of a number that a damaged datagram or a drop event names: the same jump that
/// an undamaged datagram may make without confirmation.
const MAX_NAMED_AHEAD: u64 = super::plausible::MAX_JUMP;
/// Delay before a successor's report on its predecessor counts: it may overtake the predecessor's last datagrams.
const WORD_DELAY: Duration = Duration::from_millis(100);
/// Maximum number of buffers kept for reuse.
const MAX_SPARE_BUFFERS: usize = 64;

/// The receiver's state of one epoch.
#[derive(Debug)]
pub(super) struct ReceiverEpoch {
    pub(super) key: LedgerKey,
    pub(super) stream: StreamId,
    pub(super) epoch: Epoch,
    /// Origin of a relayed stream, of which this is a hop epoch.
    pub(super) origin: Option<Origin>,
    pub(super) description: Arc<Description>,
    pub(super) ledger: SocketLedger,
    /// Source address of the publisher's datagrams.
    pub(super) from: SocketAddr,
    /// Addresses that are believed for this epoch.
    pub(super) pin: Pin,
    pub(super) last_heard: Instant,
    pub(super) ended: bool,
    /// Data received above a number in flight.
    waiting: BTreeMap<u64, Block<Vec<u8>>>,
    /// Gaps declared and not yet reported, in the order of the stream.
    declared: VecDeque<u64>,
    plausibility: Plausibility,
    tally_interval: Duration,
    spare: Vec<Vec<u8>>,
    /// Numbers that never reached this host.
    holes: Holes,
    /// The newest statement of a tally.
    statement: Vec<u8>,
    /// The hops before a relayed stream's own, as last told.
    upstream: Vec<UpstreamHop>,
    /// Predecessor record of the successor, and the time from which it counts.
    word: Option<(Instant, Predecessor)>,
    /// True once a later epoch has begun.
    is_replaced: bool,
    /// True if elements were delivered since the last tally.
    is_flowing: bool,
    /// What a tally told without samples, until that is reached: true if the publisher had nothing more.
    owed_horizon: Option<bool>,
}

/// The outcome of a datagram of this epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// It counts.
    Accepted,
    /// A duplicate, too late, or before the join point.
    Outside,
    /// It contradicts what is known and is treated as damaged.
    Malformed,
}

impl ReceiverEpoch {
    /// Begins the account of an epoch at its first datagram whose schema is known.
    pub(super) fn join(
        key: LedgerKey,
        config: LedgerConfig,
        (head, origin): (&Numbered, Option<Origin>),
        description: Arc<Description>,
        heard: (Instant, SocketAddr),
    ) -> Self {
        let ledger = SocketLedger::join(key, config, head.elements_per_sample, head.number, head.position())
            .relayed_on(origin.map_or(0, |origin| origin.hop.get()));
        let state = Self::with_ledger(key, ledger, (head.stream, head.epoch), description, heard);
        Self { origin, ..state }
    }

    /// Opens another account of this epoch after its last one, for the losses that its successor reports.
    pub(super) fn following(&self, key: LedgerKey, heard: (Instant, SocketAddr)) -> Self {
        Self { plausibility: self.plausibility.clone(), ..self.resumed(key, heard) }
    }

    /// Opens an account, from the first sample on, for a later epoch of which nothing was received.
    pub(super) fn unheard_successor(&self, key: LedgerKey, config: LedgerConfig, epoch: Epoch) -> Self {
        let (identity, description) = ((self.stream, epoch), Arc::clone(&self.description));
        let state = Self::unheard(key, config, identity, description, (self.last_heard, self.from));
        Self { pin: self.pin.clone(), plausibility: self.plausibility.clone(), ..state }
    }

    /// Opens an account, from the first sample on, for an epoch of which nothing was received. `silence` is the time
    /// of the last datagram and the address from which its successor reports it.
    pub(super) fn unheard(
        key: LedgerKey,
        config: LedgerConfig,
        identity: (StreamId, Epoch),
        description: Arc<Description>,
        silence: (Instant, SocketAddr),
    ) -> Self {
        let ledger = SocketLedger::join(key, config, description.schema.elements_per_sample(), 0, 0);
        Self::with_ledger(key, ledger, identity, description, silence)
    }

    /// Begins another account of this epoch, which had fallen silent, where its last one ended.
    pub(super) fn resumed(&self, key: LedgerKey, heard: (Instant, SocketAddr)) -> Self {
        let ledger = SocketLedger::continued(&self.ledger, key);
        let (identity, description) = ((self.stream, self.epoch), Arc::clone(&self.description));
        // It is still believed from its earlier address, too.
        let (pin, origin) = (self.pin.clone(), self.origin);
        Self { pin, origin, ..Self::with_ledger(key, ledger, identity, description, heard) }
    }

    fn with_ledger(
        key: LedgerKey,
        ledger: SocketLedger,
        identity: (StreamId, Epoch),
        description: Arc<Description>,
        heard: (Instant, SocketAddr),
    ) -> Self {
        let (now, from) = heard;
        let (stream, epoch) = identity;
        Self {
            key,
            stream,
            epoch,
            origin: None,
            plausibility: Plausibility::new(&description.schema, now),
            description,
            ledger,
            from,
            pin: Pin::new(from.ip()),
            last_heard: now,
            ended: false,
            waiting: BTreeMap::new(),
            declared: VecDeque::new(),
            tally_interval: MAX_INTERVAL,
            spare: Vec::new(),
            holes: Holes::default(),
            statement: Vec::new(),
            upstream: Vec::new(),
            word: None,
            is_replaced: false,
            is_flowing: false,
            owed_horizon: None,
        }
    }

    /// Follows a publisher that has moved: reports are sent to its new address.
    pub(super) fn moves_to(&mut self, from: SocketAddr) {
        self.pin.moves_to(from.ip());
        self.from = from;
    }

    /// Returns whether the publisher seems alive: the epoch has neither ended nor fallen silent.
    pub(super) fn is_alive(&self) -> bool {
        self.ledger.expects_more()
    }

    /// Returns whether the publisher fell silent without its final tally, so that the epoch may continue.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.ledger.state() == AccountState::Unconfirmed
    }

    /// Returns whether an account may begin at this datagram: only at the start of a sample.
    pub(super) const fn may_join(head: &Numbered) -> bool {
        head.element_offset == 0
    }

    pub(super) fn on_data(
        &mut self,
        now: Instant,
        data: &Data<'_>,
        brackets: &mut Brackets,
        out: &mut Outbox,
    ) -> Taken {
        if data.dtype != self.description.schema.dtype || data.origin.map(DataOrigin::origin) != self.origin {
            self.damaged(now, &data.head, brackets, out);
            return Taken::Malformed;
        }
        let taken = self.accept(now, &data.head, data.positions(), brackets);
        if taken == Taken::Accepted {
            self.queue(now, data, out);
        }
        self.tell(now, out);
        taken
    }

    /// Takes datagrams that continue where the last one ended; returns `false` without effect if they do not, or if
    /// any datagram is waiting.
    pub(super) fn on_run(
        &mut self,
        now: Instant,
        run: &Run<'_>,
        brackets: &mut Brackets,
        out: &mut Outbox,
    ) -> bool {
        let in_turn = self.waiting.is_empty() && self.declared.is_empty();
        let positions = run.positions();
        if run.first.dtype != self.description.schema.dtype
            || run.first.origin.map(DataOrigin::origin) != self.origin
            || !in_turn
            || !self.ledger.accept_run(now, run.numbers(), positions.clone(), brackets)
        {
            return false;
        }
        self.last_heard = now;
        self.plausibility.heard(now, run.datagrams());
        self.ledger.resume();
        self.take_changes(out);
        self.deliver(positions.end - positions.start);
        out.run(now, self.elements(), run);
        self.tell(now, out);
        true
    }

    /// Records a tally or a descriptor, which carry no elements.
    pub(super) fn on_control(
        &mut self,
        now: Instant,
        (head, origin): (&Numbered, Option<Origin>),
        brackets: &mut Brackets,
        out: &mut Outbox,
    ) -> Taken {
        if origin != self.origin {
            self.damaged(now, head, brackets, out);
            return Taken::Malformed;
        }
        let position = head.position();
        let taken = self.accept(now, head, position..position, brackets);
        self.tell(now, out);
        taken
    }

    /// Records a tally and applies its content.
    ///
    /// Its ranges are evidence even when the tally itself no longer counts: the final one is sent five times under
    /// one number, and may contain more each time.
    pub(super) fn on_tally(
        &mut self,
        now: Instant,
        tally: &Tally,
        brackets: &mut Brackets,
        out: &mut Outbox,
    ) -> Taken {
        let taken = self.on_control(now, (&tally.head, tally.origin), brackets, out);
        if taken == Taken::Malformed {
            return taken;
        }
        for withheld in &tally.withheld {
            let source = EvidenceSource::TallyRange;
            self.ledger.name_exactly(withheld.numbers.clone(), withheld.stage, source, brackets);
        }
        for skipped in &tally.skipped {
            self.ledger.name_skipped(skipped.positions.clone(), skipped.stage);
            if let Some(inherited) = skipped.inherited {
                let Inherited { hop, outcome, cause } = inherited;
                self.ledger.name_inherited(&skipped.positions, hop, outcome, cause);
            }
        }
        if taken == Taken::Accepted {
            self.hear_totals(now, tally, brackets, out);
        }
        let counts = (!tally.upstream.is_empty()).then(|| counts_of(&tally.upstream));
        self.ledger.inherited_rose(tally.head.position(), counts.as_ref());
        if taken == Taken::Accepted
            && self.upstream != tally.upstream
            && !tally.upstream.is_empty()
            && !self.ended
        {
            self.upstream.clone_from(&tally.upstream);
            let hops = tally.upstream.clone();
            out.event(Event::Upstream { stream: self.stream, epoch: self.epoch, hops });
        }
        if let Some((reason, lost)) = self.holes.take_tally(tally) {
            let source = EvidenceSource::DropEvent(reason);
            for numbers in lost.iter() {
                self.ledger.name_exactly(numbers, Stage::Network, source, brackets);
            }
        }
        if !tally.statement.is_empty() && self.statement != tally.statement && !self.ended {
            self.statement.clone_from(&tally.statement);
            let bytes = tally.statement.clone();
            out.event(Event::Statement { stream: self.stream, epoch: self.epoch, bytes });
        }
        self.tell(now, out);
        taken
    }

    fn hear_totals(&mut self, now: Instant, tally: &Tally, brackets: &mut Brackets, out: &mut Outbox) {
        let per_sample = u64::from(tally.head.elements_per_sample);
        let totals = &tally.totals;
        let mut withheld = StageCounts::of(Stage::Injected, totals.datagrams.injected);
        withheld[Stage::SenderSocket] = totals.datagrams.sender_socket;
        withheld[Stage::SenderIp] = totals.datagrams.sender_ip;
        withheld[Stage::SenderQdisc] = totals.datagrams.sender_qdisc;
        withheld[Stage::SenderNic] = totals.datagrams.sender_nic;
        let elements = |samples: u64| samples.saturating_mul(per_sample);
        let mut skipped = StageCounts::of(Stage::Source, elements(totals.samples.source));
        skipped[Stage::PublisherQueue] = elements(totals.samples.publisher_queue);
        skipped[Stage::PublisherPaused] = elements(totals.samples.publisher_paused);
        let at = (tally.head.number, tally.head.position());
        self.ledger.tally(now, at, &withheld, &skipped, brackets);
        self.tally_interval = tally.next_tally.clamp(crate::sender::FIRST_INTERVAL, MAX_INTERVAL);
        if tally.last {
            self.ledger.final_tally(tally.head.number);
        }
        if !core::mem::take(&mut self.is_flowing) && !tally.last {
            let is_idle = totals.samples.queued == 0;
            if self.owed_horizon.replace(is_idle).is_none() {
                out.owe_horizon(self.stream);
            }
        }
    }

    /// Records from its successor how far this epoch came. Datagrams of this epoch take precedence until that counts.
    pub(super) fn hear_successor(&mut self, now: Instant, word: &Predecessor) {
        self.word.get_or_insert((now + WORD_DELAY, *word));
    }

    /// Applies the successor's record if it is plausible: numbers that did not arrive are missing.
    pub(super) fn believe(
        &mut self,
        now: Instant,
        word: &Predecessor,
        brackets: &mut Brackets,
        out: &mut Outbox,
    ) {
        if !self.can_have_reached(now, word) {
            return;
        }
        let per_sample = self.description.schema.elements_per_sample();
        self.ledger.reached(now, (word.next_number, word.position(per_sample)), brackets);
        if word.is_final {
            self.ledger.ended_below(word.next_number);
        }
        self.tell(now, out);
    }

    /// Returns whether the successor plausibly reports more of this epoch than was received.
    pub(super) fn misses_end(&self, now: Instant, word: &Predecessor) -> bool {
        let per_sample = self.description.schema.elements_per_sample();
        let horizon = (self.ledger.next_number(), self.ledger.horizon_position());
        self.epoch == word.epoch
            && horizon < (word.next_number, word.position(per_sample))
            && self.can_have_reached(now, word)
    }

    /// Returns whether another epoch can have begun and come this far since this one was last received.
    pub(super) fn can_precede(&self, now: Instant, word: &Predecessor) -> bool {
        let per_sample = self.description.schema.elements_per_sample();
        let sent = (word.next_number, word.position(per_sample));
        word.next_number > 0 && self.plausibility.can_have_reached(now, sent, per_sample)
    }

    fn can_have_reached(&self, now: Instant, word: &Predecessor) -> bool {
        let per_sample = self.description.schema.elements_per_sample();
        let samples = word.position(per_sample).saturating_sub(self.ledger.horizon_position());
        let beyond = (word.next_number.saturating_sub(self.ledger.next_number()), samples);
        self.plausibility.can_have_reached(now, beyond, per_sample)
    }

    /// Records a datagram that arrived unreadable, although its header gave its number.
    pub(super) fn damaged(
        &mut self,
        now: Instant,
        head: &Numbered,
        brackets: &mut Brackets,
        out: &mut Outbox,
    ) {
        // An account that has ended takes no more evidence, but its successor may need it.
        if self.ended && head.number < self.ledger.next_number() {
            return;
        }
        self.last_heard = now;
        if head.number < self.ledger.next_number().saturating_add(MAX_NAMED_AHEAD) {
            self.name_undecoded(head.number..head.number + 1, brackets);
        }
        self.tell(now, out);
    }

    /// Records datagrams that the kernel was seen to free before they reached this socket.
    pub(super) fn dropped(
        &mut self,
        now: Instant,
        notice: &DropNotice,
        brackets: &mut Brackets,
        out: &mut Outbox,
    ) {
        let Range { start, end } = notice.numbers;
        let named = start..end.min(self.ledger.next_number().saturating_add(MAX_NAMED_AHEAD));
        if notice.stage == Stage::Network {
            self.holes.add(named, notice.reason);
            return;
        }
        if !self.ended && named.start < named.end {
            self.ledger.name_exactly(named, notice.stage, EvidenceSource::DropEvent(notice.reason), brackets);
            self.tell(now, out);
        }
    }

    /// Advances time.
    pub(super) fn advance(&mut self, now: Instant, brackets: &mut Brackets, out: &mut Outbox) {
        if let Some((_, word)) = self.word.take_if(|(due, _)| *due <= now) {
            self.believe(now, &word, brackets, out);
            if self.is_replaced {
                self.replaced(now, brackets, out);
            }
        }
        if self.may_fall_silent() && now >= self.silent_at() {
            self.ledger.give_up(now, brackets);
        }
        self.ledger.expire(now, brackets);
        self.tell(now, out);
    }

    /// Ends the epoch because a later one has begun.
    pub(super) fn replaced(&mut self, now: Instant, brackets: &mut Brackets, out: &mut Outbox) {
        self.is_replaced = true;
        if self.word.is_some() {
            return; // Its successor's record ends it.
        }
        self.ledger.give_up(now, brackets);
        self.ledger.claim_named(brackets);
        self.tell(now, out);
    }

    /// Ends the account because the reader leaves.
    pub(super) fn cut(&mut self, now: Instant, brackets: &mut Brackets, out: &mut Outbox) {
        if self.ended {
            return;
        }
        self.word = None;
        self.tell(now, out);
        self.waiting.clear();
        self.ledger.cut(now, brackets);
        self.tell(now, out);
    }

    /// Returns whether a replaced epoch still accepts a datagram: one of its own, below its horizon or below the end
    /// that its successor reports.
    pub(super) fn misses(&self, head: &Numbered) -> bool {
        let told = self.word.map_or(0, |(_, word)| word.next_number);
        self.epoch == head.epoch && head.number < self.ledger.next_number().max(told)
    }

    /// Returns the time of the next change without input.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let silence = self.may_fall_silent().then(|| self.silent_at());
        let word = self.word.filter(|_| !self.ended).map(|(due, _)| due);
        Instant::earlier(word, Instant::earlier(silence, self.ledger.next_deadline()))
    }

    /// Returns a view of this epoch with the given account.
    pub(super) fn view(&self, account: Account) -> AccountView {
        AccountView {
            stream: self.stream,
            epoch: self.epoch,
            origin: self.origin,
            description: Arc::clone(&self.description),
            account,
            reclassified: self.ledger.reclassified().to_vec(),
            last_heard: self.last_heard,
            reorder_count: self.ledger.reorder_count(),
            settled_early: self.ledger.settled_early(),
        }
    }

    /// Returns whether it has the samples of another epoch: both are the origin's, or hops of it.
    pub(super) fn is_kin_of(&self, epoch: Epoch, origin: Option<Origin>) -> bool {
        self.origin.map_or(self.epoch, |origin| origin.epoch) == origin.map_or(epoch, |origin| origin.epoch)
    }

    /// Returns the publisher's address for reports.
    pub(super) fn report_address(&self) -> SocketAddr {
        let mut address = self.from;
        address.set_port(self.description.report_port);
        address
    }

    /// Judges whether number and position are plausible.
    pub(super) fn judge(&mut self, now: Instant, head: &Numbered) -> Verdict {
        let horizon = (self.ledger.next_number(), self.ledger.horizon_position());
        self.plausibility.judge(now, head, horizon)
    }

    /// Attributes numbers to `decode`: their datagrams arrived and were not used.
    pub(super) fn name_undecoded(&mut self, numbers: Range<u64>, brackets: &mut Brackets) {
        self.ledger.name_exactly(numbers, Stage::Decode, EvidenceSource::Malformed, brackets);
    }

    /// Returns whether silence ends the account: not while the successor's record waits to count.
    fn may_fall_silent(&self) -> bool {
        self.word.is_none() && self.ledger.expects_more()
    }

    fn silent_at(&self) -> Instant {
        self.last_heard + self.tally_interval * SILENT_INTERVALS
    }

    fn accept(
        &mut self,
        now: Instant,
        head: &Numbered,
        positions: Range<u64>,
        brackets: &mut Brackets,
    ) -> Taken {
        match self.ledger.accept(now, head.number, positions, brackets) {
            Accepted::Received => {
                self.last_heard = now;
                self.plausibility.heard(now, 1);
                self.ledger.resume();
                Taken::Accepted
            }
            Accepted::Late | Accepted::Duplicate | Accepted::BeforeJoin => {
                self.last_heard = now;
                Taken::Outside
            }
            Accepted::Contradictory => {
                self.name_undecoded(head.number..head.number + 1, brackets);
                Taken::Malformed
            }
        }
    }

    /// Delivers data at once if nothing below is in flight, otherwise holds them.
    fn queue(&mut self, now: Instant, data: &Data<'_>, out: &mut Outbox) {
        let number = data.head.number;
        self.take_changes(out);
        let in_turn = self.waiting.is_empty() && self.declared.is_empty();
        if in_turn && number < self.ledger.deliverable_below() {
            self.deliver(u64::from(data.element_count));
            out.block(self.elements(), Block::of(data, now));
            return;
        }
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.extend_from_slice(data.payload);
        self.waiting.insert(number, Block::of(data, now).with(payload));
    }

    /// Emits everything that has become certain, in the order of the stream; ends the account once it is complete.
    fn tell(&mut self, now: Instant, out: &mut Outbox) {
        self.tell_certain(out);
        if !self.ended && self.is_over() {
            self.ledger.give_up_inherited();
            self.ledger.close_last_sample(now);
            self.tell_certain(out);
            self.ended = true;
            let account = self.ledger.account();
            out.event(Event::Ended { stream: self.stream, epoch: self.epoch, account });
        }
    }

    fn tell_certain(&mut self, out: &mut Outbox) {
        self.take_changes(out);
        loop {
            let gap = self.declared.front().and_then(|id| self.ledger.gap(*id));
            let held = self.waiting.first_key_value().map(|(number, _)| *number);
            match (gap, held) {
                (Some(gap), held) if held.is_none_or(|number| gap.numbers.start <= number) => {
                    let event = Event::Gap { stream: self.stream, epoch: self.epoch, gap: gap.clone() };
                    self.declared.pop_front();
                    out.event(event);
                }
                (_, Some(number)) if number < self.ledger.deliverable_below() => self.hand_over_first(out),
                _ => break,
            }
        }
    }

    fn is_over(&self) -> bool {
        self.word.is_none() && self.ledger.state() != AccountState::Open && self.ledger.nothing_pending()
    }

    fn take_changes(&mut self, out: &mut Outbox) {
        while let Some(change) = self.ledger.take_change() {
            let (Change::Declared(id) | Change::Updated(id)) = change;
            let Some(gap) = self.ledger.gap(id).filter(|gap| !gap.is_empty()) else { continue };
            match change {
                Change::Declared(id) => self.declared.push_back(id),
                Change::Updated(id) if self.declared.contains(&id) => {}
                Change::Updated(_) => {
                    out.event(Event::Settled { stream: self.stream, epoch: self.epoch, gap: gap.clone() });
                }
            }
        }
    }

    fn hand_over_first(&mut self, out: &mut Outbox) {
        let Some((_, mut held)) = self.waiting.pop_first() else { return };
        let mut payload = core::mem::take(&mut held.payload);
        let (stream, dtype) = self.elements();
        self.deliver((payload.len() / dtype.size_bytes()) as u64);
        out.block((stream, dtype), held.with(&payload));
        if self.spare.len() < MAX_SPARE_BUFFERS {
            payload.clear();
            self.spare.push(payload);
        }
    }

    fn deliver(&mut self, elements: u64) {
        self.is_flowing = true;
        self.ledger.deliver(elements);
    }

    /// Tells the horizon of a tally, at a moment at which the socket was empty, if nothing that has arrived is held and
    /// nothing is in flight; returns whether it is still to be told.
    pub(super) fn tell_horizon(&mut self, at: Instant, out: &mut Outbox) -> bool {
        let is_reached = self.waiting.is_empty()
            && self.declared.is_empty()
            && self.ledger.deliverable_below() >= self.ledger.next_number();
        if self.ended {
            self.owed_horizon = None;
        }
        if let Some(is_idle) = self.owed_horizon.take_if(|_| is_reached) {
            let (stream, epoch, position) = (self.stream, self.epoch, self.ledger.horizon_position());
            out.event(Event::Horizon { stream, epoch, position, at, is_idle });
        }
        self.owed_horizon.is_some()
    }

    fn elements(&self) -> Elements {
        (self.stream, self.description.schema.dtype)
    }
}

/// Returns the counts of the hops before the one of a tally.
fn counts_of(upstream: &[UpstreamHop]) -> HopCounts {
    let shares = (0..=u8::MAX).zip(upstream).flat_map(|(hop, rows)| {
        let lost = rows.lost.nonzero().map(|(stage, count)| (Outcome::Lost(stage), count));
        let unexplained = Some((Outcome::Unexplained, rows.unexplained)).filter(|(_, count)| *count > 0);
        lost.chain(unexplained).map(move |(outcome, count)| HopShare { hop, outcome, count })
    });
    shares.collect()
}
