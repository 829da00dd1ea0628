//! Numbers neither received nor declared missing: runs between received ones.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use units::{Instant, RangeSet};

use super::{Accepted, LedgerConfig};
use crate::entry::Grounds;

/// The runs of numbers in flight, in ascending order.
#[derive(Clone, Debug)]
pub(super) struct Holes {
    holes: VecDeque<Hole>,
    /// Numbers received above the lowest hole, which have not been delivered to a reader that leaves now.
    above_lowest: RangeSet,
    window: Window,
    numbers_in_flight: u64,
}

/// Amount of evidence that makes a number missing: it grows when datagrams arrive late.
#[derive(Clone, Copy, Debug)]
struct Window {
    count: u32,
    max_count: u32,
    time: Duration,
    max_time: Duration,
}

/// A maximal run between two received datagrams.
///
/// A hole without numbers holds only elements: they were lost before they were numbered, which is certain at once.
#[derive(Clone, Debug)]
pub(super) struct Hole {
    pub(super) numbers: Range<u64>,
    pub(super) positions: Range<u64>,
    /// Number of higher numbers received since it opened.
    above: u32,
    /// Time at which it becomes missing in any case, because a tally reported everything below as sent.
    deadline: Option<Instant>,
}

impl Holes {
    pub(super) fn new(config: &LedgerConfig) -> Self {
        let growth = config.max_reorder_count / config.reorder_count.max(1);
        Self::with_window(Window {
            count: config.reorder_count,
            max_count: config.max_reorder_count,
            time: config.reorder_time,
            max_time: config.reorder_time * growth.max(1),
        })
    }

    const fn with_window(window: Window) -> Self {
        Self { holes: VecDeque::new(), above_lowest: RangeSet::new(), window, numbers_in_flight: 0 }
    }

    /// Creates an empty set with the current window of this one.
    pub(super) const fn emptied(&self) -> Self {
        Self::with_window(self.window)
    }

    pub(super) fn lowest(&self) -> Option<&Hole> {
        self.holes.front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.holes.is_empty()
    }

    pub(super) const fn numbers_in_flight(&self) -> u64 {
        self.numbers_in_flight
    }

    pub(super) const fn reorder_count(&self) -> u32 {
        self.window.count
    }

    pub(super) const fn received_above_lowest(&self) -> u64 {
        self.above_lowest.len()
    }

    /// Opens a hole for skipped numbers or elements.
    pub(super) fn jump(&mut self, numbers: Range<u64>, positions: Range<u64>) {
        if numbers.is_empty() && positions.is_empty() {
            return;
        }
        self.numbers_in_flight += numbers.end - numbers.start;
        self.holes.push_back(Hole { numbers, positions, above: 0, deadline: None });
    }

    /// Counts a received number for all holes below it.
    pub(super) fn received_above(&mut self, number: u64) {
        let mut is_above_one = false;
        for hole in self.holes.iter_mut().take_while(|hole| hole.numbers.end <= number) {
            hole.above = hole.above.saturating_add(1);
            is_above_one = true;
        }
        if is_above_one {
            self.above_lowest.insert(number..number + 1);
        }
    }

    /// Removes a number from its hole; `None` if it is in none.
    pub(super) fn fill(&mut self, number: u64, positions: Range<u64>) -> Option<Accepted> {
        let index = self.holes.iter().position(|hole| hole.numbers.contains(&number))?;
        let Hole { numbers, positions: inside, above, deadline } = self.holes[index].clone();
        if positions.start < inside.start || positions.end > inside.end {
            return Some(Accepted::Contradictory);
        }
        self.holes.remove(index);
        let part = |numbers, positions| Hole { numbers, positions, above, deadline };
        let left = part(numbers.start..number, inside.start..positions.start);
        let right = part(number + 1..numbers.end, positions.end..inside.end);
        for part in [right, left] {
            if !(part.numbers.is_empty() && part.positions.is_empty()) {
                self.holes.insert(index, part);
            }
        }
        self.numbers_in_flight -= 1;
        self.received_above(number);
        self.forget_below_lowest();
        Some(Accepted::Received)
    }

    /// Records a tally that was sent after everything below `number`: numbers that do not arrive within the reorder
    /// time are missing.
    pub(super) fn expect_no_more_below(&mut self, number: u64, now: Instant) {
        self.set_deadline(number, now + self.window.time);
    }

    /// Records that no more data are expected: everything in flight is missing at once.
    pub(super) fn expect_nothing(&mut self, now: Instant) {
        self.set_deadline(u64::MAX, now);
    }

    fn set_deadline(&mut self, number: u64, deadline: Instant) {
        for hole in self.holes.iter_mut().take_while(|hole| hole.numbers.end <= number) {
            hole.deadline = Some(hole.deadline.map_or(deadline, |known| known.min(deadline)));
        }
    }

    /// Takes the lowest hole, with its cause, if the evidence declares it missing.
    ///
    /// Holes fall due in order: evidence for a higher one holds for all below it.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(Hole, Grounds)> {
        let lowest = self.holes.front()?;
        let expired = lowest.deadline.is_some_and(|deadline| deadline <= now);
        let cause = if lowest.numbers.is_empty() {
            Grounds::Certain
        } else if lowest.above >= self.window.count {
            Grounds::Overtaken
        } else if expired {
            Grounds::Awaited
        } else {
            return None;
        };
        let hole = self.holes.pop_front()?;
        self.numbers_in_flight -= hole.numbers.end - hole.numbers.start;
        self.forget_below_lowest();
        Some((hole, cause))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.holes.front()?.deadline
    }

    /// Extends the wait: a late datagram has shown that the evidence was too weak.
    ///
    /// Only the part of the window that declared it grows: if the count doubled after a decision by a tally, every
    /// loss would wait for datagrams that give no evidence.
    pub(super) fn widen(&mut self, cause: Grounds) {
        let Window { count, max_count, time, max_time } = &mut self.window;
        match cause {
            Grounds::Overtaken => *count = count.saturating_mul(2).min(*max_count),
            Grounds::Awaited => *time = (*time * 2).min(*max_time),
            Grounds::Certain => {}
        }
    }

    pub(super) fn clear(&mut self) {
        *self = self.emptied();
    }

    fn forget_below_lowest(&mut self) {
        match self.holes.front() {
            Some(lowest) => {
                let start = lowest.numbers.start;
                self.above_lowest.remove(0..start);
            }
            None => self.above_lowest = RangeSet::new(),
        }
    }
}
