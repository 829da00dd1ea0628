//! Schedule of the description's parts: one after the other, round after round, spread over time.
//!
//! A reader assembles parts in any order, so a request only speeds up the current round: nothing restarts, and any
//! number of requests costs no more than one.

use core::time::Duration;

use units::Instant;

/// Duration of a round: a late reader needs nothing but the group.
const ROUND: Duration = Duration::from_secs(1);
/// Duration of the first round and of a requested one; requests cannot be used to amplify traffic beyond that.
const QUICK_ROUND: Duration = Duration::from_millis(100);

/// Schedules the description's parts.
#[derive(Clone, Debug)]
pub(super) struct Carousel {
    parts: u16,
    next_part: u16,
    /// Number of parts that still leave quickly.
    quick: u16,
    last: Option<Instant>,
    due: Instant,
    /// True once every part has left.
    opened: bool,
}

impl Carousel {
    /// Begins with a quick round at `now`.
    pub(super) const fn new(parts: u16, now: Instant) -> Self {
        Self { parts, next_part: 0, quick: parts, last: None, due: now, opened: false }
    }

    /// Begins again with another number of parts; data go on meanwhile.
    pub(super) fn begin_again(&mut self, parts: u16, now: Instant) {
        *self = Self { opened: self.opened, ..Self::new(parts, now) };
    }

    /// Returns the rate of the description on the wire in parts of this many bytes.
    #[expect(clippy::cast_precision_loss, reason = "a description is small")]
    pub(super) fn bytes_per_second(&self, part_bytes: usize) -> f64 {
        (usize::from(self.parts) * part_bytes) as f64 / ROUND.as_secs_f64()
    }

    /// Returns the number of parts.
    pub(super) const fn parts(&self) -> u16 {
        self.parts
    }

    /// Returns whether a round begins with the next part.
    pub(super) const fn is_at_start(&self) -> bool {
        self.next_part == 0
    }

    /// Returns when the next part is due.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Returns whether the first round is over: no reader can decode data sent earlier.
    pub(super) const fn is_open(&self) -> bool {
        self.opened
    }

    /// Takes the part that is due and schedules the next one.
    pub(super) fn take(&mut self, now: Instant) -> u16 {
        let part = self.next_part;
        self.next_part = (part + 1) % self.parts;
        self.opened |= self.next_part == 0;
        self.quick = self.quick.saturating_sub(1);
        self.last = Some(now);
        self.due = now + if self.quick > 0 { QUICK_ROUND } else { ROUND } / u32::from(self.parts);
        part
    }

    /// Schedules every part once more, soon.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.quick = self.parts;
        let earliest = self.last.map_or(now, |last| last + QUICK_ROUND / u32::from(self.parts));
        self.due = self.due.min(earliest.max(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes parts as they fall due, until `end`. Units of the times: microseconds.
    fn play(carousel: &mut Carousel, end: Instant) -> Vec<(u64, u16)> {
        let mut seen = Vec::new();
        while carousel.due() < end {
            let due = carousel.due();
            seen.push((due.as_nanos() / 1_000, carousel.take(due)));
        }
        seen
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_short_description_is_told_every_second() {
        let seen = play(&mut Carousel::new(1, at(0)), at(3_001));
        assert_eq!(seen, [(0, 0), (1_000_000, 0), (2_000_000, 0), (3_000_000, 0)]);
    }

    #[test]
    fn the_parts_of_a_long_one_are_spread_over_the_round() {
        let mut carousel = Carousel::new(4, at(0));
        let opening = play(&mut carousel, at(76));
        assert_eq!(opening, [(0, 0), (25_000, 1), (50_000, 2), (75_000, 3)]);
        assert!(carousel.is_open());
        let round = play(&mut carousel, at(1_076));
        assert_eq!(round, [(325_000, 0), (575_000, 1), (825_000, 2), (1_075_000, 3)]);
    }

    #[test]
    fn whoever_asks_gets_every_part_within_a_tenth_of_a_second() {
        let mut carousel = Carousel::new(4, at(0));
        play(&mut carousel, at(600));
        carousel.hurry(at(700));
        let answer = play(&mut carousel, at(800));
        assert_eq!(answer, [(700_000, 2), (725_000, 3), (750_000, 0), (775_000, 1)]);
        assert_eq!(carousel.due(), at(1_025), "then it goes on as before");
    }

    #[test]
    fn a_crowd_that_asks_costs_no_more_than_one() {
        let mut carousel = Carousel::new(1, at(0));
        let mut parts = 0;
        for millis in 0..1_000 {
            carousel.hurry(at(millis));
            parts += play(&mut carousel, at(millis + 1)).len();
        }
        assert_eq!(parts, 10);
    }
}
