//! The running account of one stream and epoch at one receiving socket: its network and its reader counters.
//!
//! The owner reports every accepted datagram and every delivered element; the ledger keeps the missing ones, declares
//! gaps on evidence, and attributes them to stages. It takes the time as an argument and does no I/O. No row is
//! computed from the others, so that the law is a check and not a definition: `received` and `delivered` are counted
//! on delivery, missing numbers are kept as ranges, the horizon comes from headers, and losses are counted when their
//! range settles.
//!
//! Start with [`SocketLedger::join`], [`SocketLedger::accept`] and [`SocketLedger::expire`]; the queries are in
//! `standing`.

mod holes;
mod sender_tallies;
mod skipped_counts;
mod standing;
mod upstream;

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;

use crate::brackets::{Brackets, LedgerKey};
use crate::causes::Told;
use crate::entry::{AttributedStage, Entry, Grounds};
use crate::shares::Shares;
use crate::{AccountState, Cause, EvidenceSource, HopCounts, Outcome, Stage, StageCounts};
use holes::Holes;
use sender_tallies::SenderTallies;
use skipped_counts::Counting;
use upstream::Untold;

/// Maximum number of gaps that a ledger remembers singly; older ones are only in the totals.
///
/// A number that belongs to a forgotten gap and still arrives counts as a duplicate.
const MAX_GAPS: usize = 8_192;
/// Maximum number of gaps that wait for evidence: 1 % of 200,000 datagrams per second over the two seconds.
///
/// Beyond it the oldest settle early, with the evidence so far. Fewer than [`MAX_GAPS`], so that the change is
/// reported before the gap is forgotten.
const MAX_UNSETTLED_GAPS: usize = 4_096;

/// Times and counts that govern a ledger's decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LedgerConfig {
    /// Time for which a missing number waits for evidence.
    pub settle: Duration,
    /// Initial time after a tally for which a lower number may still be in flight.
    pub reorder_time: Duration,
    /// Initial number of accepted higher numbers that declare a number missing.
    pub reorder_count: u32,
    /// Maximum to which that count may double when late datagrams show that it was too small; the time may double in
    /// the same proportion.
    pub max_reorder_count: u32,
}

impl Default for LedgerConfig {
    /// The values of rule 7 of `docs/protocol/account.md`.
    fn default() -> Self {
        Self {
            settle: Duration::from_secs(2),
            reorder_time: Duration::from_millis(5),
            reorder_count: 3,
            max_reorder_count: 64,
        }
    }
}

/// Classification of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// It counts as received; deliver its elements in order.
    Received,
    /// It arrived after its gap had been declared: do not deliver it.
    Late,
    /// It had been received before, or its gap is forgotten: do not deliver it.
    Duplicate,
    /// Its number is before the join point.
    BeforeJoin,
    /// Its number and its position contradict datagrams received before: treat it as malformed.
    Contradictory,
}

/// Change of a gap, in the order of the changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The gap with this id was declared.
    Declared(u64),
    /// The stages of the gap with this id changed.
    Updated(u64),
}

/// The running account of one stream and epoch at one receiving socket.
#[derive(Clone, Debug)]
pub struct SocketLedger {
    key: LedgerKey,
    config: LedgerConfig,
    per_sample: u32,
    /// J and j·E.
    first: Point,
    /// H and h·E, from headers.
    horizon: Point,
    received: u64,
    duplicates: u64,
    before_join: u64,
    delivered: u64,
    /// Elements below the horizon that are neither delivered nor declared missing.
    elements_in_flight: u64,
    holes: Holes,
    gaps: VecDeque<Entry>,
    /// Number of `gaps`, from the front, whose time for evidence has passed.
    expired_gaps: usize,
    /// True while the socket's counter does not include some drops of exact evidence.
    awaits_counts: bool,
    settled_early: u64,
    datagrams: Shares,
    elements: Shares,
    reclassified: Vec<Reclassified>,
    sender_tallies: SenderTallies,
    changes: VecDeque<Change>,
    end: End,
    /// Hop on which the relay of a relayed stream sends; 0 for others.
    hop: u8,
    /// True once no more news of earlier hops is awaited.
    inherited_is_over: bool,
}

/// A number and its position: datagrams below have elements below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Point {
    number: u64,
    position: u64,
}

/// Datagrams that moved from one class to another after they had been settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reclassified {
    /// The class before; `None` is unexplained.
    pub from: Option<Stage>,
    /// The class now.
    pub to: Stage,
    /// Number of datagrams.
    pub datagrams: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Open,
    /// The final tally, whose number is one below this.
    Final(u64),
    Cut,
    Unconfirmed,
}

impl SocketLedger {
    /// Opens a ledger at the first accepted datagram whose schema is known.
    ///
    /// `position` is the first position of that datagram; the caller joins at the start of a sample.
    ///
    /// # Panics
    /// If `position` is inside a sample.
    #[must_use]
    pub fn join(key: LedgerKey, config: LedgerConfig, per_sample: u32, number: u64, position: u64) -> Self {
        assert!(position.is_multiple_of(u64::from(per_sample)), "an account begins with a whole sample");
        let point = Point { number, position };
        Self {
            key,
            config,
            per_sample,
            first: point,
            horizon: point,
            received: 0,
            duplicates: 0,
            before_join: 0,
            delivered: 0,
            elements_in_flight: 0,
            holes: Holes::new(&config),
            gaps: VecDeque::new(),
            expired_gaps: 0,
            awaits_counts: false,
            settled_early: 0,
            datagrams: Shares::default(),
            elements: Shares::default(),
            reclassified: Vec::new(),
            sender_tallies: if number == 0 {
                SenderTallies::from_the_beginning()
            } else {
                SenderTallies::default()
            },
            changes: VecDeque::new(),
            end: End::Open,
            hop: 0,
            inherited_is_over: false,
        }
    }

    /// Records that the stream was relayed, and that its relay sends on this hop: what it skips as `source` was lost on
    /// an earlier one. Hop 0 is that of a stream that was not relayed.
    #[must_use]
    pub fn relayed_on(mut self, hop: u8) -> Self {
        self.hop = hop;
        if hop > 0 {
            self.sender_tallies.never_offered_below(self.first.position);
        }
        self
    }

    /// Opens a ledger where an earlier account of the same epoch ended, without a gap between them: earlier tallies
    /// of the publisher still explain later losses.
    #[must_use]
    pub fn continued(previous: &Self, key: LedgerKey) -> Self {
        let Point { number, position } = previous.horizon;
        let mut ledger = Self::join(key, previous.config, previous.per_sample, number, position);
        ledger.holes = previous.holes.emptied();
        ledger.sender_tallies = previous.sender_tallies.clone();
        ledger.sender_tallies.upstream.begin_again();
        ledger.hop = previous.hop;
        if let Some(last) = previous.gaps.back() {
            // Later rises of the totals may belong to losses of the previous account.
            ledger.sender_tallies.forget_totals_below(last.gap.numbers.end, last.gap.positions.end);
        }
        ledger
    }

    /// Records a datagram read from the socket; `positions` is empty for tallies and descriptors.
    pub fn accept(
        &mut self,
        now: Instant,
        number: u64,
        positions: Range<u64>,
        brackets: &mut Brackets,
    ) -> Accepted {
        if number < self.first.number {
            self.before_join += 1;
            return Accepted::BeforeJoin;
        }
        let accepted = if number >= self.horizon.number {
            self.advance(number, positions)
        } else if let Some(filled) = self.holes.fill(number, positions.clone()) {
            filled
        } else {
            return self.arrived_again(number, positions, brackets);
        };
        if accepted == Accepted::Received {
            brackets.read(self.key, number);
            self.received += 1;
            self.declare_due(now, brackets);
        }
        accepted
    }

    /// Records datagrams that continue where the last one ended, without a gap in numbers or elements, all at once;
    /// returns `false` if they do not, or if any lower number is still in flight: the caller then accepts them one by
    /// one.
    pub fn accept_run(
        &mut self,
        now: Instant,
        numbers: Range<u64>,
        positions: Range<u64>,
        brackets: &mut Brackets,
    ) -> bool {
        let Point { number, position } = self.horizon;
        let goes_on = self.holes.is_empty() && (numbers.start, positions.start) == (number, position);
        if !goes_on || positions.end > self.highest_position() || numbers.end == u64::MAX {
            return false;
        }
        self.elements_in_flight += positions.end - positions.start;
        self.horizon = Point { number: numbers.end, position: positions.end };
        self.received += numbers.end - numbers.start;
        brackets.read(self.key, numbers.start);
        self.declare_due(now, brackets);
        true
    }

    /// Returns the maximum position: the end of its sample must still be representable.
    fn highest_position(&self) -> u64 {
        u64::MAX - u64::from(self.per_sample)
    }

    /// Counts elements delivered to the readers.
    pub fn deliver(&mut self, elements: u64) {
        self.delivered += elements;
        self.elements_in_flight =
            self.elements_in_flight.checked_sub(elements).expect("only elements in flight are delivered");
    }

    /// Returns the number below which every received datagram may be delivered: nothing there is in flight.
    #[must_use]
    pub fn deliverable_below(&self) -> u64 {
        self.holes.lowest().map_or(self.horizon.number, |hole| hole.numbers.start)
    }

    /// Advances time: declares missing what has been in flight too long, settles what has waited too long.
    pub fn expire(&mut self, now: Instant, brackets: &mut Brackets) {
        self.declare_due(now, brackets);
        while let Some(entry) = self.gaps.get_mut(self.expired_gaps) {
            if now.since(entry.declared) < self.config.settle {
                break;
            }
            self.settle_oldest(brackets);
        }
        self.forget_old_gaps();
    }

    /// Ends the wait of the oldest gap that still waits for evidence.
    fn settle_oldest(&mut self, brackets: &mut Brackets) {
        self.count_named(brackets);
        let index = self.expired_gaps;
        self.expired_gaps += 1;
        let around = self.sender_tallies.skipped.around(&self.gaps[index].gap.positions);
        let hidden = self.hidden_within(&around);
        let is_exact = self.hop == 0 || self.per_sample == 1;
        let counting = if is_exact { Counting::Exact } else { Counting::WholeSamples };
        let mut explained = false;
        self.change(index, |entry, word, key| {
            entry.settle(key, brackets);
            word.skipped.explain(entry, hidden, counting);
            explained = entry.is_explained_by_totals(Stage::Source);
            Vec::new()
        });
        if explained {
            // Fewer others can have been lost before the relay.
            self.repair_inherited();
        }
    }

    /// Returns the number of elements within these positions that may have been skipped although it seems that numbers had
    /// them, or that are in flight.
    fn hidden_within(&self, positions: &Range<u64>) -> u64 {
        if positions.is_empty() {
            return 0;
        }
        let inside = |entry: &Entry| {
            let Range { start, end } = &entry.gap.positions;
            let inside = end.min(&positions.end) - start.max(&positions.start);
            entry.elements_behind_numbers().min(inside)
        };
        let gaps = self.gaps.range(self.gaps_with_positions(positions));
        gaps.map(inside).sum::<u64>() + self.elements_in_flight
    }

    /// Matches exact evidence of the socket's drops with its counter, before the counter explains anything else.
    fn count_named(&mut self, brackets: &mut Brackets) {
        if !core::mem::take(&mut self.awaits_counts) {
            return;
        }
        let oldest = self.gaps[self.expired_gaps].declared;
        for entry in self.gaps.range_mut(self.expired_gaps..).filter(|entry| entry.awaits_count()) {
            // The oldest has waited for the full time, and these for at least half of it.
            if entry.declared.since(oldest) <= self.config.settle / 2 {
                entry.count_named_anywhere(self.key, brackets);
            } else {
                entry.count_named(self.key, brackets);
            }
            self.awaits_counts |= entry.awaits_count();
        }
    }

    /// Matches all exact evidence of the socket's drops with its counter, because another ledger is about to be
    /// opened that may claim the counts so far.
    pub fn claim_named(&mut self, brackets: &mut Brackets) {
        if core::mem::take(&mut self.awaits_counts) {
            for entry in self.gaps.range_mut(self.expired_gaps..) {
                entry.count_named_anywhere(self.key, brackets);
            }
        }
    }

    /// Returns when [`SocketLedger::expire`] is due if nothing arrives before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let settle = self.gaps.get(self.expired_gaps).map(|entry| entry.declared + self.config.settle);
        Instant::earlier(settle, self.holes.next_deadline())
    }

    /// Attributes numbers to a stage on exact evidence, including numbers not yet known to be missing.
    pub fn name_exactly(
        &mut self,
        numbers: Range<u64>,
        stage: Stage,
        source: EvidenceSource,
        brackets: &mut Brackets,
    ) {
        if !self.sender_tallies.remember_numbers(numbers.clone(), stage, source) {
            return; // Tallies repeat their ranges.
        }
        for index in self.gaps_with_numbers(&numbers) {
            self.change(index, |entry, _, key| {
                let moved = entry.name_exactly(numbers.clone(), stage, source, key, brackets);
                moved.into_iter().map(|(from, count)| (from, stage, count)).collect()
            });
        }
    }

    /// Attributes elements to a stage before numbering, including elements not yet known to be missing.
    pub fn name_skipped(&mut self, positions: Range<u64>, stage: Stage) {
        let mut news = self.sender_tallies.remember_positions(positions.clone(), stage);
        if news == 0 {
            return;
        }
        for index in self.gaps_with_positions(&positions) {
            self.change(index, |entry, _, _| {
                news = news.saturating_sub(entry.name_skipped(positions.clone(), stage));
                Vec::new()
            });
        }
        for (within, count) in self.sender_tallies.skipped.listed(&positions, stage, news) {
            self.withdraw_totals(&within, stage, count);
        }
    }

    /// Withdraws explanations by totals: the elements that they counted are other ones.
    fn withdraw_totals(&mut self, positions: &Range<u64>, stage: Stage, mut count: u64) {
        for index in self.gaps_with_positions(positions) {
            if count == 0 {
                return;
            }
            self.change(index, |entry, _, _| {
                count -= entry.withdraw_totals(stage, count);
                Vec::new()
            });
        }
    }

    /// Records the outcome of elements on an earlier hop, and why a link gave them up, including elements not yet known to
    /// be missing. They are skipped at stage `source`; hops that are not before the relay's are ignored.
    pub fn name_inherited(
        &mut self,
        positions: &Range<u64>,
        hop: u8,
        outcome: Outcome,
        cause: Option<Cause>,
    ) {
        let told = Told { hop, outcome, cause };
        if hop >= self.hop || !self.sender_tallies.upstream.remember(positions.clone(), told) {
            return;
        }
        for index in self.gaps_with_positions(positions) {
            self.change(index, |entry, _, _| {
                entry.name_inherited(positions, told);
                Vec::new()
            });
        }
    }

    /// Records the counts of earlier hops in a tally at this position, all since the stream's publisher began; `None` if it
    /// has none. They repair what lost tallies would have told. Elements of gaps whose time for evidence has passed take
    /// part.
    pub fn inherited_rose(&mut self, position: u64, counts: Option<&HopCounts>) {
        if self.hop == 0 {
            return;
        }
        if let Some(counts) = counts {
            self.sender_tallies.upstream.counts(position, counts);
        }
        self.repair_inherited();
    }

    fn repair_inherited(&mut self) {
        let Some(mut untold) = self.sender_tallies.upstream.untold() else { return };
        let mut spare = self.spare_for_skipped(&untold);
        for index in 0..self.expired_gaps {
            let entry = &self.gaps[index];
            if !entry.is_repaired() && (untold.is_empty() || !entry.may_be_repaired()) {
                continue;
            }
            let (open, count) = entry.inherited_by_range();
            let skipped = entry.elements_without_stage_but_by_upstream().min(spare);
            let (mut by_totals, others) = untold.take_for(&open, count + skipped);
            let skipped = others.total().saturating_sub(count);
            spare -= skipped;
            by_totals.add_all(&others);
            if entry.inherited_by_totals() == Some((&by_totals, skipped)) {
                continue;
            }
            self.change(index, |entry, _, _| {
                entry.name_inherited_by_totals(by_totals, skipped);
                Vec::new()
            });
        }
    }

    /// Returns how many of the untold losses must be of elements without number and stage in gaps whose time for evidence
    /// has passed: there is no other place for them.
    fn spare_for_skipped(&self, untold: &Untold) -> u64 {
        let is_open = |entry: &Entry| entry.elements_without_stage_but_by_upstream() > 0;
        let has_forgotten = self.gaps.front().is_some_and(|entry| entry.gap.id > 0);
        if untold.is_empty() || has_forgotten || !self.gaps.range(..self.expired_gaps).any(is_open) {
            return 0;
        }
        let (mut left, mut elsewhere) = (untold.clone(), self.elements_in_flight);
        for (index, entry) in self.gaps.iter().enumerate() {
            let (open, count) = entry.inherited_by_range();
            left.take_for(&open, count);
            elsewhere += entry.elements_behind_numbers();
            if index >= self.expired_gaps {
                elsewhere += entry.elements_without_stage();
            }
        }
        left.len().saturating_sub(elsewhere)
    }

    /// Ends the wait for news of earlier hops: what is unsettled there becomes unexplained.
    pub fn give_up_inherited(&mut self) {
        if core::mem::replace(&mut self.inherited_is_over, true) || self.hop == 0 {
            return;
        }
        for index in 0..self.gaps.len() {
            self.change(index, |entry, _, _| {
                entry.give_up_inherited();
                Vec::new()
            });
        }
        // Gaps that are forgotten are only in the totals.
        self.elements.inherited.give_up();
    }

    /// Records an accepted tally: everything below it has been sent, and its totals repair what lost tallies would
    /// have listed.
    ///
    /// `withheld` are datagrams below the tally's number that were never handed to the network, `skipped`
    /// elements below its position that never had a number, both since the epoch began.
    pub fn tally(
        &mut self,
        now: Instant,
        at: (u64, u64),
        withheld: &StageCounts,
        skipped: &StageCounts,
        brackets: &mut Brackets,
    ) {
        let (number, position) = at;
        self.holes.expect_no_more_below(number, now);
        for rise in self.sender_tallies.withheld_rose(number, withheld) {
            brackets.tally_totals_rose(now, self.key, rise.stage, rise.count, rise.between);
        }
        let per_sample = if self.hop == 0 { 1 } else { u64::from(self.per_sample) };
        self.sender_tallies.skipped_rose(position, skipped, |at| at % per_sample);
    }

    /// Records that the epoch ended below this number, according to its successor.
    pub fn ended_below(&mut self, number: u64) {
        if matches!(self.end, End::Open | End::Unconfirmed) && number == self.horizon.number {
            self.end = End::Final(number);
        }
    }

    /// Records that the tally with this number was the publisher's final one; of several the highest counts.
    pub fn final_tally(&mut self, number: u64) {
        match self.end {
            End::Open => self.end = End::Final(number + 1),
            End::Final(next) => self.end = End::Final(next.max(number + 1)),
            End::Cut | End::Unconfirmed => {}
        }
    }

    /// Ends the account at the publisher's silence or new epoch: no more data are expected, the tail is unknown.
    ///
    /// Numbers in flight are declared missing at once and settle in due time.
    pub fn give_up(&mut self, now: Instant, brackets: &mut Brackets) {
        if self.expects_more() {
            self.end = End::Unconfirmed;
        }
        self.holes.expect_nothing(now);
        self.declare_due(now, brackets);
    }

    /// Records that the epoch reached this number and position, from another source than its own datagrams:
    /// everything between them and the horizon is missing. Has no effect unless they are beyond the horizon.
    pub fn reached(&mut self, now: Instant, (number, position): (u64, u64), brackets: &mut Brackets) {
        let Point { number: known, position: known_position } = self.horizon;
        // Samples that were lost before numbering have no number of their own.
        let is_beyond = number > known || number == known && position > known_position;
        if !is_beyond || position < known_position || position > self.highest_position() || number == u64::MAX
        {
            return;
        }
        self.holes.jump(known..number, known_position..position);
        self.elements_in_flight += position - known_position;
        self.horizon = Point { number, position };
        self.holes.expect_nothing(now);
        self.declare_due(now, brackets);
    }

    /// Records that a publisher that had fallen silent continues.
    pub fn resume(&mut self) {
        if self.end == End::Unconfirmed {
            self.end = End::Open;
        }
    }

    /// Closes the last sample of an account that ends: its outstanding pieces are missing, for unknown reasons.
    pub fn close_last_sample(&mut self, now: Instant) {
        let Point { number, position } = self.horizon;
        let end = position.next_multiple_of(u64::from(self.per_sample));
        if position == end {
            return;
        }
        self.horizon.position = end;
        let mut entry = Entry::new(self.next_gap_id(), number..number, position..end, now, Grounds::Certain);
        entry.expired = true;
        entry.recount();
        self.declare(entry);
    }

    /// Ends the account because the reader leaves: the law then holds up to the first number that is neither received
    /// nor missing, and unsettled numbers become unexplained.
    ///
    /// The caller has delivered what [`SocketLedger::deliverable_below`] allows, and discards the rest.
    pub fn cut(&mut self, now: Instant, brackets: &mut Brackets) {
        if let Some(lowest) = self.holes.lowest() {
            let limit = Point { number: lowest.numbers.start, position: lowest.positions.start };
            self.received -= self.holes.received_above_lowest();
            self.elements_in_flight -= self.horizon.position - limit.position;
            self.horizon = limit;
            self.holes.clear();
        }
        self.expire(now + self.config.settle, brackets);
        self.close_last_sample(now);
        if self.state() != AccountState::Closed {
            self.end = End::Cut;
        }
    }

    /// Takes the oldest change of a gap.
    pub fn take_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// Moves the horizon to a new highest number; the skipped numbers become a hole.
    fn advance(&mut self, number: u64, positions: Range<u64>) -> Accepted {
        // H, one above the number, must still be representable.
        let highest = self.highest_position();
        if positions.start < self.horizon.position || positions.end > highest || number == u64::MAX {
            return Accepted::Contradictory;
        }
        self.holes.jump(self.horizon.number..number, self.horizon.position..positions.start);
        self.holes.received_above(number);
        self.elements_in_flight += positions.end - self.horizon.position;
        self.horizon = Point { number: number + 1, position: positions.end };
        Accepted::Received
    }

    fn arrived_again(&mut self, number: u64, positions: Range<u64>, brackets: &mut Brackets) -> Accepted {
        let index = self.gaps.partition_point(|entry| entry.gap.numbers.end <= number);
        let Some(entry) = self.gaps.get(index).filter(|entry| entry.misses(number)) else {
            self.duplicates += 1;
            return Accepted::Duplicate;
        };
        if !entry.could_have_held(&positions) {
            return Accepted::Contradictory;
        }
        self.change(index, |entry, _, _| {
            let moved = entry.arrived_late(number, positions, brackets);
            moved.into_iter().map(|(from, count)| (from, Stage::Late, count)).collect()
        });
        self.holes.widen(self.gaps[index].cause);
        Accepted::Late
    }

    fn declare_due(&mut self, now: Instant, brackets: &mut Brackets) {
        while let Some((hole, cause)) = self.holes.take_due(now) {
            let missing = hole.positions.end - hole.positions.start;
            self.elements_in_flight -= missing;
            let mut entry = Entry::new(self.next_gap_id(), hole.numbers, hole.positions, now, cause);
            if self.hop > 0 {
                entry.relayed_on(self.hop, self.inherited_is_over);
            }
            self.sender_tallies.apply_to(&mut entry, self.key, brackets);
            entry.recount();
            self.declare(entry);
        }
        while self.gaps.len() - self.expired_gaps > MAX_UNSETTLED_GAPS {
            self.settled_early += 1;
            self.settle_oldest(brackets);
        }
        self.forget_old_gaps();
    }

    fn next_gap_id(&self) -> u64 {
        self.gaps.back().map_or(0, |entry| entry.gap.id + 1)
    }

    /// Adds a new gap to the totals.
    fn declare(&mut self, entry: Entry) {
        self.awaits_counts |= entry.awaits_count();
        self.datagrams.add(&entry.datagrams);
        self.elements.add(&Shares::of(&entry.gap));
        self.changes.push_back(Change::Declared(entry.gap.id));
        self.gaps.push_back(entry);
    }

    /// Changes one gap and adds the difference to the totals.
    fn change(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Entry, &mut SenderTallies, LedgerKey) -> Vec<(AttributedStage, Stage, u64)>,
    ) {
        let entry = &mut self.gaps[index];
        let before = entry.gap.clone();
        self.datagrams.subtract(&entry.datagrams);
        self.elements.subtract(&Shares::of(&before));
        let moved = act(entry, &mut self.sender_tallies, self.key);
        entry.recount();
        self.awaits_counts |= entry.awaits_count();
        self.datagrams.add(&entry.datagrams);
        self.elements.add(&Shares::of(&entry.gap));
        if entry.gap != before && self.changes.back() != Some(&Change::Updated(before.id)) {
            self.changes.push_back(Change::Updated(before.id));
        }
        for (from, to, datagrams) in moved {
            self.reclassify(from, to, datagrams);
        }
    }

    fn reclassify(&mut self, from: AttributedStage, to: Stage, datagrams: u64) {
        match self.reclassified.iter_mut().find(|move_| move_.from == from && move_.to == to) {
            Some(move_) => move_.datagrams += datagrams,
            None => self.reclassified.push(Reclassified { from, to, datagrams }),
        }
    }

    fn gaps_with_numbers(&self, numbers: &Range<u64>) -> Range<usize> {
        let start = self.gaps.partition_point(|entry| entry.gap.numbers.end <= numbers.start);
        let end = self.gaps.partition_point(|entry| entry.gap.numbers.start < numbers.end);
        start..end.max(start)
    }

    fn gaps_with_positions(&self, positions: &Range<u64>) -> Range<usize> {
        let start = self.gaps.partition_point(|entry| entry.gap.positions.end <= positions.start);
        let end = self.gaps.partition_point(|entry| entry.gap.positions.start < positions.end);
        start..end.max(start)
    }

    /// Keeps the newest gaps only; the totals keep the counts of the forgotten ones.
    fn forget_old_gaps(&mut self) {
        while self.gaps.len() > MAX_GAPS && self.expired_gaps > 0 {
            let forgotten = self.gaps.pop_front().expect("more gaps than the limit");
            self.expired_gaps -= 1;
            self.sender_tallies.forget_below(forgotten.gap.numbers.end, forgotten.gap.positions.end);
        }
        if self.gaps.is_empty() {
            let lowest = self.holes.lowest();
            let number = lowest.map_or(self.horizon.number, |hole| hole.numbers.start);
            let position = lowest.map_or(self.horizon.position, |hole| hole.positions.start);
            self.sender_tallies.forget_below(number, position);
        }
    }
}

#[cfg(test)]
mod tests;
