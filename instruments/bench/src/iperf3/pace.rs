//! Pacing: the time at which each burst may leave, counted from the first.

use std::time::Duration;

use sys::clock;
use units::Instant;

/// Maximum delay that is caught up by sending faster; a longer one moves the schedule, so that no burst fills
/// buffers along the path. iperf3 catches up all of it.
const MOST_CATCH_UP: Duration = Duration::from_millis(100);

/// Interval at which a paced sender checks whether the test is over: its sleeps are exact only on the clock.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Paces the blocks of a stream.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Time from one burst to the next; `None` without pacing.
    between_bursts: Option<Duration>,
    burst: u32,
    left_in_burst: u32,
    due: Instant,
}

impl Pacer {
    /// Begins at `start`, when the first burst is due.
    pub(super) fn new(start: Instant, rate_bits_per_s: Option<u64>, burst: u32, block_bytes: usize) -> Self {
        let bits = block_bytes as f64 * 8.0 * f64::from(burst);
        let between_bursts =
            rate_bits_per_s.map(|rate| Duration::from_secs_f64((bits / rate as f64).min(1e9)));
        Self { between_bursts, burst, left_in_burst: burst, due: start }
    }

    /// Returns the time of the next block and counts it; `None` if it may leave at once.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        let between = self.between_bursts?;
        if self.left_in_burst == 0 {
            self.left_in_burst = self.burst;
            self.due += between;
            if now.since(self.due) > MOST_CATCH_UP {
                self.due = now - MOST_CATCH_UP;
            }
        }
        self.left_in_burst -= 1;
        (self.due > now).then_some(self.due)
    }

    /// Waits until the next block may leave; returns false early, once `is_over`.
    pub(super) fn wait(&mut self, is_over: impl Fn() -> bool) -> bool {
        let Some(due) = self.next(clock::monotonic()) else { return !is_over() };
        loop {
            let now = clock::monotonic();
            if is_over() {
                return false;
            }
            if now >= due {
                return true;
            }
            clock::sleep_until(due.min(now + POLL_INTERVAL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(pacer: &mut Pacer, now: Instant, count: usize) -> Vec<Option<u64>> {
        (0..count).map(|_| pacer.next(now).map(Instant::as_nanos)).collect()
    }

    #[test]
    fn blocks_of_a_burst_leave_together_and_bursts_evenly() {
        // 1,000 bytes at 8 Mbit/s: 1 ms each.
        let mut pacer = Pacer::new(Instant::from_nanos(0), Some(8_000_000), 2, 1_000);
        let two = Some(2_000_000);
        assert_eq!(times(&mut pacer, Instant::ORIGIN, 5), [None, None, two, two, Some(4_000_000)]);
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pacer = Pacer::new(Instant::from_nanos(9), None, 1, 1_000);
        assert_eq!(times(&mut pacer, Instant::ORIGIN, 3), [None; 3]);
    }

    #[test]
    fn a_long_delay_is_not_made_good_at_once() {
        let mut pacer = Pacer::new(Instant::from_nanos(0), Some(8_000_000), 1, 1_000);
        let late = Instant::from_nanos(1_000_000_000);
        let at_once = times(&mut pacer, late, 1_000).into_iter().take_while(Option::is_none).count();
        // One that was due, and 100 ms of them.
        assert_eq!(at_once, 102);
    }
}
