//! Backlog: samples that were still waiting when newer ones came.
//!
//! A block that was handed over at once is no backlog, however large it is: an image at 10 Hz has a tenth of a second
//! to leave, and at its own rate it does. Only leftovers of earlier blocks show that sending lags behind the source,
//! because the process was stopped or the source is faster than its stated rate.

use core::time::Duration;

use units::Instant;

/// Time in which a backlog is cleared: long enough not to be a burst, short enough to stay timely.
const BACKLOG_TIME: Duration = Duration::from_millis(50);
/// Time within which samples count as one block: a large block takes a while to be copied.
const BLOCK_TIME: Duration = Duration::from_millis(10);
/// Multiple of the held time within which held samples leave: at the stream's rate with its headroom of a quarter
/// they have caught up after four times as long; the fifth allows for sleeps that end late.
const HELD_TIMES: u32 = 5;
/// Growth of the waiting samples, as a multiple of those held, from which on the source is faster than its stated
/// rate: they are then a backlog like any other.
const HELD_GROWTH: usize = 2;

/// The waiting samples, and the part of them that waits too long.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    /// Units: bytes of samples, here and in the ring.
    waiting: usize,
    /// Start of the newest block's arrival.
    newest_block: Option<Instant>,
    /// Bytes that were waiting then and still are.
    left_over: usize,
    /// The rate that clears the leftovers in time.
    bytes_per_second: f64,
    /// Samples held on purpose, which are no backlog while they leave at the stream's own pace.
    held: Option<Held>,
}

/// Samples that wait because the beginning of the epoch was held.
#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: usize,
    until: Instant,
}

impl Backlog {
    pub(super) const fn new() -> Self {
        Self { waiting: 0, newest_block: None, left_over: 0, bytes_per_second: 0.0, held: None }
    }

    /// Records the number of waiting bytes.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
    pub(super) fn waiting(&mut self, now: Instant, bytes: usize) {
        let is_new_block = self.newest_block.is_none_or(|since| now.since(since) >= BLOCK_TIME);
        if bytes > self.waiting && is_new_block {
            self.newest_block = Some(now);
            self.left_over = self.waiting;
            self.bytes_per_second = self.left_over as f64 / BACKLOG_TIME.as_secs_f64();
        }
        self.waiting = bytes;
        self.left_over = self.left_over.min(bytes);
        let is_held = |held: &Held| bytes > 0 && bytes <= held.bytes * HELD_GROWTH && now < held.until;
        self.held = self.held.filter(is_held);
    }

    /// Records that all waiting samples were held on purpose for this time.
    pub(super) fn was_held(&mut self, now: Instant, held_for: Duration) {
        self.held = Some(Held { bytes: self.waiting, until: now + held_for * HELD_TIMES });
    }

    /// Returns whether some held samples have not left yet.
    pub(super) const fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Returns the number of waiting bytes.
    pub(super) const fn waiting_bytes(&self) -> usize {
        self.waiting
    }

    /// Records that this many bytes left, the oldest first.
    pub(super) const fn taken(&mut self, bytes: usize) {
        self.waiting = self.waiting.saturating_sub(bytes);
        self.left_over = self.left_over.saturating_sub(bytes);
    }

    /// Returns the rate that clears the backlog; zero without one.
    pub(super) const fn bytes_per_second(&self) -> f64 {
        if self.left_over == 0 || self.held.is_some() { 0.0 } else { self.bytes_per_second }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_block_of_any_size_is_no_backlog_while_it_leaves_before_the_next() {
        let mut backlog = Backlog::new();
        for round in 0..5 {
            backlog.waiting(at(round * 100), 8_000_000);
            for _ in 0..80 {
                assert_eq!(backlog.bytes_per_second(), 0.0);
                backlog.taken(100_000);
            }
        }
    }

    #[test]
    fn a_block_that_comes_in_parts_is_one() {
        let mut backlog = Backlog::new();
        for (millis, bytes) in [(0, 1_000_000), (3, 2_900_000), (9, 5_700_000)] {
            backlog.waiting(at(millis), bytes);
            assert_eq!(backlog.bytes_per_second(), 0.0);
        }
    }

    #[test]
    fn what_a_stall_left_behind_is_made_up_for_within_its_time() {
        let mut backlog = Backlog::new();
        // The process was stopped for a while; then samples keep coming.
        backlog.waiting(at(500), 10_000_000);
        backlog.waiting(at(510), 10_200_000);
        assert_eq!(backlog.bytes_per_second(), 200e6, "10 MB within 50 ms");
        backlog.taken(9_999_999);
        assert_eq!(backlog.bytes_per_second(), 200e6);
        backlog.taken(1);
        assert_eq!(backlog.bytes_per_second(), 0.0, "the rest is new");
    }

    #[test]
    fn what_was_held_is_no_backlog_until_it_has_left_or_its_time_is_over() {
        let held = |waits: &[(u64, usize)]| {
            let mut backlog = Backlog::new();
            backlog.waiting(at(0), 1_000_000);
            backlog.waiting(at(140), 2_000_000);
            assert!(backlog.bytes_per_second() > 0.0);
            backlog.was_held(at(150), Duration::from_millis(150));
            for (millis, bytes) in waits {
                assert_eq!(backlog.bytes_per_second(), 0.0, "before {millis} ms");
                backlog.waiting(at(*millis), *bytes);
            }
            backlog.bytes_per_second() > 0.0
        };
        assert!(!held(&[(200, 2_100_000), (899, 2_200_000)]));
        assert!(held(&[(200, 2_100_000), (900, 2_200_000)]), "it should have left long ago");
        assert!(held(&[(200, 4_000_001)]), "the source is faster than it said");
        assert!(held(&[(200, 0), (300, 1_000), (320, 2_000)]), "what was held has left");
    }

    #[test]
    fn what_the_ring_took_back_waits_no_more() {
        let mut backlog = Backlog::new();
        backlog.waiting(at(0), 5_000_000);
        backlog.waiting(at(20), 6_000_000);
        backlog.waiting(at(25), 0);
        assert_eq!(backlog.bytes_per_second(), 0.0);
    }
}
