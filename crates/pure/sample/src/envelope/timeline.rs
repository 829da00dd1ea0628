//! Times of samples, for a line of samples whose time anchors move slightly.
//!
//! Every block has its own anchor. Most agree with the prediction from the last one kept; those
//! that do not are kept too, so that both mappings are unambiguous.

use std::collections::VecDeque;

use units::{SampleRate, WallTime};

/// Maximum number of anchors of one line; beyond that, every second small correction of the older half is dropped.
///
/// A publisher with a steady clock needs one, one that corrects itself with every block one per block:
/// 4,096 are 40 s of 100 corrections a second before the first is thinned out.
const MAX_ANCHORS: usize = 4_096;
/// Maximum deviation of an anchor from the predicted time that is ignored: times are rounded to whole nanoseconds.
const AGREEMENT_NS: u64 = 1;
/// Corrections up to this many sample periods are jitter, beyond that the line is interrupted in time.
const JITTER_PERIODS: u64 = 2;
/// A step back in time by more than this is a clock that was set, not jitter.
const SET_BACK_NS: i64 = 1_000_000_000;

/// The map between a line of sample slots and time.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    rate: SampleRate,
    anchors: VecDeque<Anchor>,
}

#[derive(Clone, Copy, Debug)]
struct Anchor {
    slot: u64,
    time: WallTime,
    /// Time jumped here by more than jitter: no line is drawn to this slot, and the anchor is never thinned.
    interrupts: bool,
}

/// Effect of an anchor on the known line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Time continues.
    Onward,
    /// The clock was set back: the known samples are in the new line's future and must be dropped first.
    SetBack,
}

/// Returns the first index at or after `time` when sample `anchor_index` was at `anchor`; 0 for all before.
pub(crate) fn index_at(rate: SampleRate, anchor_index: u64, anchor: WallTime, time: WallTime) -> u64 {
    let nanos = i128::from(time.as_nanos()) - i128::from(anchor.as_nanos());
    let (numerator, divisor) = (i128::from(rate.numerator()), i128::from(rate.denominator()) * 1_000_000_000);
    // Times are rounded down to whole nanoseconds, so the first sample not before `time` is the ceiling of
    // the exact quotient. Within a few hours of the anchor 64 bits suffice, and 128-bit division is slow.
    let samples = match (i64::try_from(nanos * numerator), i64::try_from(divisor)) {
        (Ok(product), Ok(divisor)) => {
            i128::from(product.div_euclid(divisor) + i64::from(product.rem_euclid(divisor) != 0))
        }
        _ => -(-nanos * numerator).div_euclid(divisor),
    };
    u64::try_from((i128::from(anchor_index) + samples).max(0)).unwrap_or(u64::MAX)
}

impl Timeline {
    pub(super) const fn new(rate: SampleRate) -> Self {
        Self { rate, anchors: VecDeque::new() }
    }

    pub(super) fn clear(&mut self) {
        self.anchors.clear();
    }

    /// Returns the effect of an anchor at `slot`.
    pub(super) fn step(&self, slot: u64, time: WallTime) -> Step {
        match self.anchors.back() {
            Some(_) if self.time_of(slot).nanos_since(time) > SET_BACK_NS => Step::SetBack,
            _ => Step::Onward,
        }
    }

    /// Records that `slot`, behind all known slots, was at `time`.
    pub(super) fn note(&mut self, slot: u64, time: WallTime) {
        let mut anchor = Anchor { slot, time, interrupts: false };
        if let Some(last) = self.anchors.back() {
            let correction = time.nanos_since(self.time_of(slot));
            if correction.unsigned_abs() <= AGREEMENT_NS {
                return;
            }
            anchor.interrupts = correction > 0 && correction.unsigned_abs() > self.jitter_ns();
            // Anchors must ascend in time, so that a time maps to one slot.
            anchor.time = time.max(last.time.offset(1));
        }
        self.anchors.push_back(anchor);
        if self.anchors.len() > MAX_ANCHORS {
            self.thin_out();
        }
    }

    /// Returns the time of the sample in `slot`.
    pub(super) fn time_of(&self, slot: u64) -> WallTime {
        let behind = self.anchors.partition_point(|anchor| anchor.slot <= slot);
        let anchor = self.anchors.get(behind.saturating_sub(1));
        anchor.map_or(WallTime::default(), |anchor| self.rate.time_of(slot, anchor.slot, anchor.time))
    }

    /// Returns the first slot at or after `time`. It is monotonic in `time`.
    pub(super) fn first_at_or_after(&self, time: WallTime) -> u64 {
        let behind = self.anchors.partition_point(|anchor| anchor.time <= time);
        let Some(anchor) = self.anchors.get(behind.saturating_sub(1)) else { return 0 };
        let slot = index_at(self.rate, anchor.slot, anchor.time, time);
        match self.anchors.get(behind) {
            Some(next) => slot.min(next.slot),
            None => slot,
        }
    }

    /// Returns whether time jumped just before `slot`.
    pub(super) fn interrupted_at(&self, slot: u64) -> bool {
        let at = self.anchors.partition_point(|anchor| anchor.slot < slot);
        self.anchors.get(at).is_some_and(|anchor| anchor.slot == slot && anchor.interrupts)
    }

    /// Drops the anchors that no slot from `slot` on needs.
    pub(super) fn forget_before(&mut self, slot: u64) {
        while self.anchors.get(1).is_some_and(|second| second.slot <= slot) {
            self.anchors.pop_front();
        }
    }

    fn jitter_ns(&self) -> u64 {
        u64::try_from(self.rate.duration_of(JITTER_PERIODS).as_nanos()).unwrap_or(u64::MAX)
    }

    fn thin_out(&mut self) {
        let mut number = 0;
        let older = self.anchors.len() / 2;
        self.anchors.retain(|anchor| {
            number += 1;
            anchor.interrupts || number > older || number % 2 == 1
        });
        if self.anchors.len() > MAX_ANCHORS {
            self.anchors.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    #[test]
    fn slot_and_time_are_each_others_inverse() {
        let mut timeline = Timeline::new("1000/3".parse().unwrap());
        timeline.note(0, WallTime::from_nanos(500));
        for slot in 0..10_000 {
            let time = timeline.time_of(slot);
            assert_eq!(timeline.first_at_or_after(time), slot);
            assert_eq!(timeline.first_at_or_after(time.offset(1)), slot + 1);
        }
    }

    #[test]
    fn far_from_the_anchor_is_as_exact_as_near() {
        let rate: SampleRate = "1M".parse().unwrap();
        let anchor = WallTime::from_nanos(0);
        let year = 365 * 86_400 * 1_000_000_u64;
        for index in [year, year + 1] {
            assert_eq!(index_at(rate, 0, anchor, rate.time_of(index, 0, anchor)), index);
        }
    }

    #[test]
    fn slots_never_fall_when_time_rises_however_anchors_jitter() {
        let mut random = Random::new(5);
        let mut timeline = Timeline::new("1k".parse().unwrap());
        let mut slot = 0;
        for _ in 0..300 {
            let jitter = random.below(2_000_001) as i64 - 1_000_000;
            timeline.note(slot, WallTime::from_nanos(slot as i64 * 1_000_000 + jitter));
            slot += 1 + random.below(20);
        }
        let mut last = 0;
        for time in (0..slot as i64 * 1_000_000).step_by(77_777) {
            let at = timeline.first_at_or_after(WallTime::from_nanos(time));
            assert!(at >= last);
            last = at;
        }
    }

    #[test]
    fn the_number_of_anchors_is_bounded() {
        let mut timeline = Timeline::new("1k".parse().unwrap());
        for slot in 0..20_000_u64 {
            let jitter = if slot % 2 == 0 { 100 } else { 300 };
            timeline.note(slot, WallTime::from_nanos(slot as i64 * 1_000_000 + jitter));
        }
        assert!(timeline.anchors.len() <= MAX_ANCHORS);
        assert_eq!(timeline.first_at_or_after(WallTime::from_nanos(7_000_000_000 - 1_000)), 7_000);
    }

    #[test]
    fn a_jump_in_time_interrupts_the_line_and_jitter_does_not() {
        let mut timeline = Timeline::new("1k".parse().unwrap());
        timeline.note(0, WallTime::from_nanos(0));
        timeline.note(10, WallTime::from_nanos(11_000_000));
        assert!(!timeline.interrupted_at(10));
        timeline.note(20, WallTime::from_nanos(31_000_000));
        assert!(timeline.interrupted_at(20));
        assert!(!timeline.interrupted_at(19));
        assert_eq!(timeline.step(30, WallTime::from_nanos(-960_000_000)), Step::SetBack);
        assert_eq!(timeline.step(30, WallTime::from_nanos(39_000_000)), Step::Onward);
    }
}
