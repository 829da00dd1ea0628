//! Counters of the reader: pieces become cycles, and complete cycles are called back.

use core::ops::Range;

use units::{Instant, RangeSet};

use super::account::{Account, Callbacks, Cycles, Pieces};
use super::cut::{Content, Cut, Place};
use super::schedule::{Callback, Schedule};
use super::sending::Sent;
use super::verdict::Limits;

/// Reader's side of a run in progress.
///
/// A piece has a number: its cycle times the pieces per cycle, plus its index in the cycle. Numbers are kept as
/// ranges, so that pieces in order take no memory.
#[derive(Clone, Debug)]
pub struct Assembly {
    cut: Cut,
    schedule: Schedule,
    right: RangeSet,
    wrong: RangeSet,
    received: u64,
    duplicates: u64,
    foreign: u64,
    callback: Callback,
    /// Newest cycle of which anything arrived.
    newest: Option<u32>,
}

/// Outcome of something that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// The last missing piece of its cycle, which was called back.
    CycleComplete(u32),
    /// A piece of a cycle that is not complete yet.
    Piece,
    /// A piece whose content is not what was sent.
    Wrong,
    /// A piece that had arrived before.
    Duplicate,
    /// Not of this run.
    Foreign,
}

impl Assembly {
    /// Begins to receive a run.
    #[must_use]
    pub fn new(cut: Cut, schedule: Schedule) -> Self {
        Self {
            cut,
            schedule,
            right: RangeSet::new(),
            wrong: RangeSet::new(),
            received: 0,
            duplicates: 0,
            foreign: 0,
            callback: Callback::default(),
            newest: None,
        }
    }

    /// Returns how the arrays of this run are cut, with which arrivals are read.
    #[must_use]
    pub const fn cut(&self) -> Cut {
        self.cut
    }

    /// Accepts an arrival after it was compared ([`Cut::read`]); `now` is a time after that comparison.
    ///
    /// With an earlier clock reading, the comparison of a cycle's last piece would not count against its deadline:
    /// the whole comparison for a cycle of one piece, hardly any of it for a cycle of many.
    pub fn accept(&mut self, now: Instant, content: Content) -> Accepted {
        let (place, is_right) = match content {
            Content::Right(place) => (place, true),
            Content::Wrong(place) => (place, false),
            Content::Foreign => return self.refuse(),
        };
        if place.cycle >= self.schedule.cycles {
            return self.refuse();
        }
        self.newest = self.newest.max(Some(place.cycle));
        let number = self.number(place);
        if self.right.contains(number) || (!is_right && self.wrong.contains(number)) {
            self.duplicates += 1;
            return Accepted::Duplicate;
        }
        if !is_right {
            self.wrong.insert(number..number + 1);
            return Accepted::Wrong;
        }
        // The right piece after all: the earlier one had the same place and wrong content.
        self.wrong.remove(number..number + 1);
        self.right.insert(number..number + 1);
        self.received += 1;
        let numbers = self.numbers(place.cycle);
        if self.right.count_in(numbers.clone()) < numbers.end - numbers.start {
            return Accepted::Piece;
        }
        self.callback.count(&self.schedule, place.cycle, now);
        Accepted::CycleComplete(place.cycle)
    }

    /// Returns whether every cycle is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.callback.count == u64::from(self.schedule.cycles)
    }

    /// Returns whether the run can no longer be good, so that the rest of it need not be awaited.
    ///
    /// A piece that arrives after a later cycle has begun is late: such a cycle is either late or lost.
    #[must_use]
    pub fn is_settled(&self, limits: &Limits) -> bool {
        let Some(newest) = self.newest else { return false };
        let numbers = self.numbers(newest);
        let newest_is_whole = self.right.count_in(numbers.clone()) == numbers.end - numbers.start;
        let whole_before = self.callback.count - u64::from(newest_is_whole);
        let behind = u64::from(newest).saturating_sub(whole_before);
        let bearable = limits.late_allowed.saturating_add(limits.lost_allowed(self.schedule.cycles));
        self.callback.late > limits.late_allowed || behind > bearable
    }

    /// Ends the run: pieces that were sent and have not arrived by now count as lost.
    #[must_use]
    pub fn close(self, sent: &Sent) -> Account {
        let mut cycles = Cycles {
            planned: u64::from(self.schedule.cycles),
            sent: sent.cycles,
            complete: self.callback.count,
            ..Cycles::default()
        };
        let mut pieces = Pieces {
            handed: sent.handed,
            refused: sent.refused,
            received: self.received,
            duplicates: self.duplicates,
            foreign: self.foreign,
            ..Pieces::default()
        };
        for cycle in 0..u32::try_from(sent.cycles).unwrap_or(u32::MAX) {
            let numbers = self.numbers(cycle);
            let all = numbers.end - numbers.start;
            let (right, wrong) = (self.right.count_in(numbers.clone()), self.wrong.count_in(numbers));
            pieces.wrong += wrong;
            pieces.absent += all - right - wrong;
            cycles.missing += u64::from(right + wrong == 0);
            cycles.incomplete += u64::from(right < all && right + wrong > 0);
        }
        Account { cycles, pieces, callbacks: Callbacks { writer: sent.callback, reader: self.callback } }
    }

    fn refuse(&mut self) -> Accepted {
        self.foreign += 1;
        Accepted::Foreign
    }

    fn number(&self, place: Place) -> u64 {
        u64::from(place.cycle) * u64::from(self.cut.pieces()) + u64::from(place.piece)
    }

    fn numbers(&self, cycle: u32) -> Range<u64> {
        let first = self.number(Place { cycle, piece: 0 });
        first..first + u64::from(self.cut.pieces())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use proptest::prelude::*;

    const CYCLE_TIME: Duration = Duration::from_millis(1);

    fn schedule(cycles: u32) -> Schedule {
        Schedule { start: Instant::ORIGIN, cycle_time: CYCLE_TIME, cycles }
    }

    fn limits(late_allowed: u64, complete_ppm: u32) -> Limits {
        Limits { late_allowed, complete_ppm }
    }

    /// Treatment of a piece in flight.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Delivery {
        Arrives,
        Refused,
        Lost,
        Damaged,
        Twice,
        Late,
        DamagedThenRight,
    }

    const DELIVERIES: [Delivery; 7] = [
        Delivery::Arrives,
        Delivery::Refused,
        Delivery::Lost,
        Delivery::Damaged,
        Delivery::Twice,
        Delivery::Late,
        Delivery::DamagedThenRight,
    ];

    /// Sends `deliveries.len() / pieces` cycles, each piece with its delivery; returns the account.
    fn play(cut: Cut, deliveries: &[Delivery]) -> Account {
        let cycles = u32::try_from(deliveries.len()).unwrap() / cut.pieces();
        let schedule = schedule(cycles);
        let (mut assembly, mut late) = (Assembly::new(cut, schedule), Vec::new());
        let mut sending = crate::cycle::Sending::new(schedule);
        let mut deliveries = deliveries.iter();
        while let Some(cycle) = sending.next_cycle() {
            let (begin, mut memory, mut refused) = (schedule.begin(cycle), Vec::new(), 0);
            for piece in cut.write(cycle, &mut memory) {
                let mut damaged = piece.to_vec();
                damaged[16] ^= 1;
                match deliveries.next().unwrap() {
                    Delivery::Arrives => {
                        let _ = assembly.accept(begin, cut.read(piece));
                    }
                    Delivery::Refused => refused += 1,
                    Delivery::Lost => {}
                    Delivery::Damaged => {
                        assert_eq!(assembly.accept(begin, cut.read(&damaged)), Accepted::Wrong)
                    }
                    Delivery::Twice => {
                        let _ = assembly.accept(begin, cut.read(piece));
                        assert_eq!(assembly.accept(begin, cut.read(piece)), Accepted::Duplicate);
                    }
                    Delivery::Late => late.push(piece.to_vec()),
                    Delivery::DamagedThenRight => {
                        assert_eq!(assembly.accept(begin, cut.read(&damaged)), Accepted::Wrong);
                        let _ = assembly.accept(begin, cut.read(piece));
                    }
                }
            }
            sending.count(u64::from(cut.pieces()), refused, begin);
        }
        for piece in &late {
            let _ = assembly.accept(schedule.end() + CYCLE_TIME, cut.read(piece));
        }
        assembly.close(sending.sent())
    }

    #[test]
    fn a_cycle_is_called_back_with_its_last_piece_whatever_their_order() {
        let cut = Cut::new(1, 10, 36).unwrap();
        let mut assembly = Assembly::new(cut, schedule(2));
        let mut memory = Vec::new();
        let pieces: Vec<_> = cut.write(1, &mut memory).collect();
        let now = Instant::from_nanos(5);
        assert_eq!(assembly.accept(now, cut.read(pieces[1])), Accepted::Piece);
        assert_eq!(assembly.accept(now, cut.read(pieces[0])), Accepted::CycleComplete(1));
        assert!(!assembly.is_complete());
        let mut memory = Vec::new();
        let first: Vec<_> = cut.write(0, &mut memory).collect();
        for piece in first {
            let _ = assembly.accept(now, cut.read(piece));
        }
        assert!(assembly.is_complete());
    }

    #[test]
    fn cycles_beyond_the_run_are_foreign() {
        let cut = Cut::new(1, 1, 100).unwrap();
        let mut assembly = Assembly::new(cut, schedule(2));
        let (mut last, mut beyond) = (Vec::new(), Vec::new());
        let last = cut.write(1, &mut last).next().unwrap();
        let beyond = cut.write(2, &mut beyond).next().unwrap();
        assert_eq!(assembly.accept(Instant::ORIGIN, cut.read(last)), Accepted::CycleComplete(1));
        assert_eq!(assembly.accept(Instant::ORIGIN, cut.read(beyond)), Accepted::Foreign);
        assert_eq!(assembly.accept(Instant::ORIGIN, cut.read(b"hello")), Accepted::Foreign);
    }

    #[test]
    fn a_run_is_settled_by_the_first_cycle_too_many_and_not_before() {
        let cut = Cut::new(1, 1, 100).unwrap();
        let mut assembly = Assembly::new(cut, schedule(1_000));
        let accept = |assembly: &mut Assembly, cycle| {
            let mut memory = Vec::new();
            let piece = cut.write(cycle, &mut memory).next().unwrap();
            assert_eq!(assembly.accept(Instant::ORIGIN, cut.read(piece)), Accepted::CycleComplete(cycle));
        };
        // One cycle of a thousand may be lost: floor(0.9995 · 1000) = 999 must come.
        let limits = limits(0, 999_500);
        for cycle in [0, 2] {
            accept(&mut assembly, cycle);
            assert!(!assembly.is_settled(&limits), "cycle {cycle}");
        }
        accept(&mut assembly, 4);
        assert!(assembly.is_settled(&limits));
    }

    #[test]
    fn a_run_is_settled_by_one_late_callback_more_than_allowed() {
        let cut = Cut::new(1, 1, 100).unwrap();
        let mut assembly = Assembly::new(cut, schedule(10));
        for (cycle, settled) in [(0, false), (1, true)] {
            let mut memory = Vec::new();
            let piece = cut.write(cycle, &mut memory).next().unwrap();
            let _ = assembly.accept(Instant::from_nanos(1_000_000_000), cut.read(piece));
            assert_eq!(assembly.is_settled(&limits(1, 1_000_000)), settled);
        }
    }

    #[test]
    fn a_run_whose_callbacks_may_all_be_late_is_never_settled() {
        let cut = Cut::new(1, 1, 100).unwrap();
        let mut assembly = Assembly::new(cut, schedule(1_000));
        let mut memory = Vec::new();
        let last = cut.write(999, &mut memory).next().unwrap();
        let _ = assembly.accept(Instant::from_nanos(1_000_000_000), cut.read(last));
        assert!(!assembly.is_settled(&limits(u64::MAX, 999_500)));
    }

    proptest! {
        #[test]
        fn every_account_adds_up_and_tells_the_outcomes_of_the_pieces(
            pieces in 1_u32..5,
            deliveries in prop::collection::vec(prop::sample::select(&DELIVERIES[..]), 0..200),
        ) {
            let cut = Cut::new(1, pieces * 5, 36).unwrap();
            prop_assert_eq!(cut.pieces(), pieces);
            let whole = deliveries.len() / pieces as usize * pieces as usize;
            let account = play(cut, &deliveries[..whole]);
            prop_assert_eq!(account.check(), Ok(()));

            let count = |wanted: &[Delivery]| deliveries[..whole].iter().filter(|delivery| wanted.contains(delivery)).count() as u64;
            let right = [Delivery::Arrives, Delivery::Twice, Delivery::Late, Delivery::DamagedThenRight];
            prop_assert_eq!(account.pieces.received, count(&right));
            prop_assert_eq!(account.pieces.wrong, count(&[Delivery::Damaged]));
            prop_assert_eq!(account.pieces.absent, count(&[Delivery::Lost, Delivery::Refused]));
            prop_assert_eq!(account.pieces.refused, count(&[Delivery::Refused]));
            prop_assert_eq!(account.pieces.duplicates, count(&[Delivery::Twice]));
            let complete = deliveries[..whole].chunks(pieces as usize);
            let complete = complete.filter(|cycle| cycle.iter().all(|delivery| right.contains(delivery))).count() as u64;
            prop_assert_eq!(account.cycles.complete, complete);
        }
    }
}
