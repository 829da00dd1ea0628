//! The sender of a relayed stream: elements at the positions of the stream's publisher, and what is missing before them.
//!
//! A relay takes up a stream anywhere, and not always whole samples of it: blocks may begin and end, and holes lie,
//! inside a sample. Everything before numbering is therefore counted in elements here; the rest of the machine is the
//! same. What is missing when it arrives is skipped as `source`, and its hop and outcome are told beside the range.
//!
//! Source: `docs/protocol/stream.md`, "Relayed streams".

mod queue;
mod ranges;
mod samples;
mod unsettled;
mod upstream;

use core::ops::Range;

use ledger::{Cause, HopCounts, Stage};
use sample::Schema;
use units::{Instant, WallTime};
use wire::{Clock, DataOrigin, Fit, Origin, SampleTotals, Skipped, Tally, UpstreamHop};

use super::{Output, Phase, Sender, SenderConfig};
use queue::{ElementQueue, Next};
use ranges::Ranges;
use samples::{ElementOutcome, SampleOutcomes};
use unsettled::Unsettled;
use upstream::Upstream;

pub(super) use super::queue::Slice;

/// What makes a stream a relayed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relayed {
    /// Identity of the samples, and the hop on which they are sent; its epoch is not the sender's own.
    pub origin: Origin,
    /// Position of the first element that is passed to the sender: those below were never offered on this hop.
    pub first_position: u64,
}

/// Times of elements that a relay passes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElementTimes {
    /// Time of the sample of the first element.
    pub t0: WallTime,
    /// Clock of `t0`.
    pub clock: Clock,
    /// When the origin published them; `None` if that is not known.
    pub born: Option<Instant>,
}

/// Maximum number of nonces in a tally: beside them, the outcomes of ranges and the origin, it has room for the largest
/// statement, and the smallest one for ranges.
const MAX_NONCES: usize = 8;
/// Size of the nonces in a tally.
const MAX_NONCES_BYTES: usize = (4 + 8 * MAX_NONCES).next_multiple_of(8);
/// Maximum size of the outcomes of ranges in a tally.
const MAX_INHERITED_BYTES: usize = (4 + 2 * wire::MAX_INHERITED).next_multiple_of(8);
/// Maximum number of ranges that one range becomes when a part of it settles.
const PARTS_OF_SETTLED: usize = 3;

// What is not said of the hops before is said of the origin's samples, in tallies that leave those out.
const _: () = assert!(
    Tally::room_for_statement(
        wire::DATAGRAM_BYTES_IPV4,
        wire::ORIGIN_BYTES + MAX_INHERITED_BYTES,
        MAX_NONCES,
        0
    ) == wire::MAX_TALLY_STATEMENT_BYTES
);

/// What the sender of a relayed stream has beside the others.
#[derive(Debug)]
pub(super) struct Relaying {
    pub(super) origin: Origin,
    next_position: u64,
    samples: SampleOutcomes,
    queue: ElementQueue,
    pub(super) ranges: Ranges,
    unsettled: Unsettled,
    upstream: Upstream,
    /// True if the present tally leaves out the counts of the hops before, for lack of room beside a statement.
    leaves_out_upstream: bool,
}

impl Relaying {
    /// Creates the state of a relayed stream; `None` of any other.
    ///
    /// # Panics
    /// If readers would refuse the origin.
    pub(super) fn new(config: &SenderConfig, fit: Fit) -> Option<Box<Self>> {
        let Relayed { origin, first_position } = config.relayed?;
        assert!(origin.epoch != config.epoch, "a relay has an epoch of its own");
        assert!(usize::from(origin.hop.get()) <= wire::MAX_HOPS, "no hop is beyond {}", wire::MAX_HOPS);
        let schema: &Schema = &config.description.schema;
        Some(Box::new(Self {
            origin,
            next_position: first_position,
            samples: SampleOutcomes::new(schema.elements_per_sample(), first_position),
            queue: ElementQueue::new(schema, fit, config.linger, first_position),
            ranges: Ranges::new(first_position),
            unsettled: Unsettled::default(),
            upstream: Upstream::default(),
            leaves_out_upstream: false,
        }))
    }

    pub(super) const fn waiting_bytes(&self) -> usize {
        self.queue.waiting_bytes()
    }

    pub(super) fn totals(&self) -> SampleTotals {
        self.samples.totals(self.next_position)
    }

    pub(super) fn next_slice(&self, now: Instant, flush: bool) -> Option<Slice> {
        match self.queue.next(now, flush) {
            Next::Slice(slice) => Some(slice),
            Next::Hole(_) | Next::Wait(_) | Next::Empty => None,
        }
    }

    /// Returns what data that leave now say of their origin.
    pub(super) fn data_origin(&self, now: Instant) -> DataOrigin {
        DataOrigin::new(self.origin, self.queue.born().map(|born| now.since(born)))
    }

    /// Returns the clock of the next slice's time.
    pub(super) fn clock(&self) -> Clock {
        self.queue.clock()
    }

    pub(super) fn payload(&mut self, slice: &Slice) -> &[u8] {
        self.queue.payload(slice)
    }

    /// Removes the next slice; returns the position behind it.
    pub(super) fn take_slice(&mut self, slice: &Slice) -> u64 {
        let end = self.queue.take_slice(slice);
        self.samples.pass(u64::from(slice.element_count), ElementOutcome::Numbered);
        self.upstream.reached(end);
        end
    }

    /// Returns the counts of the hops before in the present tally; empty: none.
    pub(super) fn told_upstream(&self) -> &[UpstreamHop] {
        if self.leaves_out_upstream { &[] } else { self.upstream.hops() }
    }

    /// Returns the size of what the present tally has more than that of the stream's publisher. Units: bytes.
    pub(super) fn tally_bytes(&self) -> usize {
        wire::relayed_bytes(Some(self.origin), self.told_upstream(), self.ranges.listed())
    }

    /// Removes the hole at the front.
    fn take_hole(&mut self, hole: &Skipped) {
        self.queue.take_hole(hole);
        self.samples.pass(len(&hole.positions), ElementOutcome::Skipped(hole.stage));
        self.upstream.reached(hole.positions.end);
    }

    /// Claims the positions of an input, which begin where those before ended.
    fn claim(&mut self, positions: &Range<u64>) {
        assert_eq!(
            positions.start, self.next_position,
            "the caller accounts for every position, in their order"
        );
        assert!(positions.start <= positions.end, "positions do not go back");
        self.next_position = positions.end;
    }

    /// Checks that causes are of all these positions, on hops before the stream's own.
    fn check(&self, positions: &Range<u64>, shares: &HopCounts) {
        assert_eq!(shares.total(), len(positions), "every missing element has a cause");
        assert!(shares.hops().len() <= usize::from(self.origin.hop.get()), "a cause lies on an earlier hop");
    }
}

const fn len(positions: &Range<u64>) -> u64 {
    positions.end.saturating_sub(positions.start)
}

impl Sender {
    /// Returns the position of the next element to be passed in. A relayed stream begins at the position of its
    /// configuration, every other one at 0.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.relaying.as_ref().map_or_else(|| self.position(self.next_index), |it| it.next_position)
    }

    pub(super) fn relaying(&mut self) -> &mut Relaying {
        self.relaying.as_mut().expect("only a relay passes on positions")
    }

    pub(super) fn on_elements(&mut self, now: Instant, position: u64, times: ElementTimes, bytes: &[u8]) {
        let is_paused = self.is_paused(now) || self.withholds(now);
        let relaying = self.relaying();
        let element_bytes = relaying.queue.element_bytes();
        assert!(bytes.len().is_multiple_of(element_bytes), "elements are whole");
        let positions = position..position + (bytes.len() / element_bytes) as u64;
        relaying.claim(&positions);
        if is_paused {
            let stage = Stage::PublisherPaused;
            relaying.queue.push_hole(Skipped { positions, stage, inherited: None });
        } else {
            relaying.queue.push(now, position, times, bytes);
        }
    }

    pub(super) fn on_skipped_elements(&mut self, positions: Range<u64>, stage: Stage) {
        let is_own = matches!(stage, Stage::PublisherQueue | Stage::PublisherPaused);
        assert!(is_own, "elements lost in stage {stage} before they are numbered are inherited");
        let relaying = self.relaying();
        relaying.claim(&positions);
        relaying.queue.push_hole(Skipped { positions, stage, inherited: None });
    }

    pub(super) fn on_inherited(&mut self, positions: &Range<u64>, shares: &HopCounts, cause: Option<Cause>) {
        let relaying = self.relaying();
        relaying.claim(positions);
        relaying.check(positions, shares);
        let link = relaying.origin.hop.get() - 1;
        for mut hole in relaying.unsettled.tell(positions, shares) {
            if let Some(inherited) = hole.inherited.as_mut().filter(|inherited| inherited.hop == link) {
                inherited.cause = cause;
            }
            relaying.queue.push_hole(hole);
        }
    }

    pub(super) fn on_settled(&mut self, positions: &Range<u64>, shares: &HopCounts) {
        let relaying = self.relaying();
        relaying.check(positions, shares);
        assert!(positions.end <= relaying.next_position, "only what was inherited settles");
        let horizon = relaying.queue.position();
        for settled in relaying.unsettled.settle(positions, shares) {
            relaying.queue.settle(&settled);
            let end = settled.positions.end.min(horizon);
            relaying.ranges.settle(Skipped { positions: settled.positions.start..end, ..settled });
        }
        if matches!(self.phase, Phase::Finishing { .. }) {
            while self.relaying().ranges.relist() > 0 {}
        }
    }

    pub(super) fn on_upstream(&mut self, mut hops: Vec<UpstreamHop>) {
        let room_bytes = Tally::room_for_upstream(self.min_buffer_bytes() - self.secured_tally_bytes());
        upstream::fit(&mut hops, room_bytes);
        let relaying = self.relaying();
        assert_eq!(hops.len(), usize::from(relaying.origin.hop.get()), "every hop before is told");
        let next_position = relaying.next_position;
        relaying.upstream.hear(next_position, hops);
        relaying.upstream.reached(relaying.queue.position());
    }

    /// Decides the next step of a relayed stream while nothing may be sent; `None` if a step was done.
    pub(super) fn next_relayed_unsent(&mut self, now: Instant) -> Option<Output> {
        match self.relaying().queue.next(now, false) {
            Next::Hole(hole) => self.skip_elements(&hole),
            Next::Slice(_) | Next::Wait(_) | Next::Empty => return Some(Output::Idle { deadline: None }),
        }
        None
    }

    /// Decides the next step of a relayed stream when no tally and no part of the description is due before `timer`;
    /// `None` if a step was done that has no output.
    pub(super) fn next_relayed(&mut self, now: Instant, timer: Instant, buffer: &mut [u8]) -> Option<Output> {
        let flush = self.phase == Phase::Flushing;
        let relaying = self.relaying();
        if relaying.ranges.is_settling() {
            return self.relist(now);
        }
        match relaying.queue.next(now, flush) {
            Next::Hole(_) if self.tells_first(1) => self.begin_tally(now, false),
            Next::Hole(hole) => self.skip_elements(&hole),
            Next::Slice(slice) => {
                let ready = self.pacer.ready_at();
                if ready > now {
                    return Some(Output::Idle { deadline: Some(ready.min(timer)) });
                }
                return self.data_train::<true>(now, slice, buffer);
            }
            Next::Wait(until) => return Some(Output::Idle { deadline: Some(until.min(timer)) }),
            Next::Empty if flush => {
                self.relaying().samples.close();
                self.begin_final_tally(now);
            }
            Next::Empty => return Some(Output::Idle { deadline: Some(timer) }),
        }
        None
    }

    /// Lists a settled range again, after a tally if need be.
    fn relist(&mut self, now: Instant) -> Option<Output> {
        if self.tells_first(PARTS_OF_SETTLED) {
            self.begin_tally(now, false);
        } else {
            let added = self.relaying().ranges.relist();
            (0..added).for_each(|_| self.tallies.range_added());
        }
        None
    }

    /// Returns whether a tally has to leave before so many ranges are added: each one is told with its outcome.
    fn tells_first(&self, added: usize) -> bool {
        let plain_bytes = self.min_buffer_bytes() - self.secured_tally_bytes();
        // By then, counts of the hops before may have become as long as they can be.
        let upstream_bytes = Tally::room_for_upstream(plain_bytes).next_multiple_of(8);
        let others = wire::ORIGIN_BYTES + upstream_bytes + MAX_NONCES_BYTES + MAX_INHERITED_BYTES;
        let room = Tally::ranges_that_fit(plain_bytes.saturating_sub(others));
        // Ranges of withheld numbers may take the other half.
        let most = (room / 2).min(wire::MAX_INHERITED);
        let untold = self.tallies.untold_ranges();
        untold > 0 && untold + added > most
    }

    /// Returns the room for a statement in the present tally, beside this many new ranges.
    pub(super) fn relayed_statement_room(&self, ranges: usize) -> usize {
        let relayed = self.relaying.as_ref().map_or(0, |relaying| relaying.tally_bytes());
        // Ranges of withheld numbers take up to half of what there is for ranges.
        let withheld = self.destinations.iter().map(|destination| destination.withheld.len()).max();
        let ranges = ranges + ranges.min(withheld.unwrap_or(0));
        let plain_bytes = self.min_buffer_bytes() - self.secured_tally_bytes();
        Tally::room_for_statement(plain_bytes, relayed, MAX_NONCES, ranges)
    }

    /// Shares the room of a tally that begins: in a final one the counts of the hops before come first, in others they and
    /// a statement take turns if there is no room for both.
    pub(super) fn share_relayed_tally(&mut self, last: bool) {
        self.echoes.begin_tally(MAX_NONCES);
        let had_statement = core::mem::replace(&mut self.relaying().leaves_out_upstream, false);
        let (statement, beside) = (self.stating.next_bytes(), self.statement_room(true));
        self.relaying().leaves_out_upstream = true;
        let (alone, largest) = (self.statement_room(true), self.statement_room(false));
        let has_turn = !last && (beside + 1..=alone).contains(&statement);
        self.relaying().leaves_out_upstream = has_turn && !had_statement;
        match (has_turn, had_statement) {
            (true, true) => self.stating.pass_over_tally(),
            (true, false) => self.stating.begin_tally(alone, largest, last),
            (false, _) => self.stating.begin_tally(beside, largest, last),
        }
    }

    /// Shares the room of the final tally, which is sent once more: what was heard meanwhile comes before the statement.
    pub(super) fn share_repeated_relayed_tally(&mut self) {
        self.echoes.begin_repeated_tally(MAX_NONCES);
        if self.stating.told().len() > self.statement_room(true) {
            self.stating.pass_over_tally();
        }
    }

    /// Skips elements that never get a number.
    fn skip_elements(&mut self, hole: &Skipped) {
        self.horizon = hole.positions.end;
        let relaying = self.relaying();
        relaying.take_hole(hole);
        let opens = relaying.ranges.list(hole.clone());
        // A paused block does not call for a tally: readers that join learn of the pause from the next one.
        if opens || hole.stage != Stage::PublisherPaused {
            self.tallies.range_added();
        }
    }
}
