//! Arrival times of datagrams on the machine's clock; the kernel stamps them with another clock.
//!
//! The model uses the time at which a datagram reached this host, not the time of the read. So a late read that the
//! emulated delay can hide changes nothing; a later one shows as lateness.

use core::time::Duration;

use sys::clock;
use units::{Instant, WallTime};

/// Interval between comparisons of both clocks: in that time they drift by half a microsecond at 500 ppm, the
/// kernel's maximum slew rate.
const EVERY: Duration = Duration::from_millis(1);
/// Maximum age of a datagram's time stamp: a larger one means that the clock was set.
const MOST_BACK: Duration = Duration::from_secs(1);

/// Converts the kernel's arrival times to the monotonic clock.
pub(crate) struct Arrivals {
    pair: (Instant, WallTime),
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        Self { pair: clock::pair() }
    }

    /// Returns the arrival time of a datagram that is read at `now`.
    pub(crate) fn at(&mut self, now: Instant, kernel_time: Option<WallTime>) -> Instant {
        let Some(kernel_time) = kernel_time else { return now };
        if now.since(self.pair.0) >= EVERY {
            self.pair = clock::pair();
        }
        on_monotonic(self.pair, now, kernel_time)
    }
}

fn on_monotonic((instant, wall): (Instant, WallTime), now: Instant, kernel_time: WallTime) -> Instant {
    let nanos = kernel_time.nanos_since(wall);
    let by = Duration::from_nanos(nanos.unsigned_abs());
    let at = if nanos < 0 { instant - by } else { instant + by };
    if now.since(at) > MOST_BACK { now } else { at.min(now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: (Instant, WallTime) = (Instant::from_nanos(10_000_000_000), WallTime::from_nanos(500));

    #[test]
    fn a_time_of_the_kernel_is_put_on_the_other_clock() {
        let now = PAIR.0 + Duration::from_micros(50);
        let at = |nanos| on_monotonic(PAIR, now, WallTime::from_nanos(nanos));
        assert_eq!(at(500), PAIR.0);
        assert_eq!(at(20_500), PAIR.0 + Duration::from_micros(20));
        assert_eq!(at(-19_500), PAIR.0 - Duration::from_micros(20));
    }

    #[test]
    fn a_clock_that_was_set_moves_nothing() {
        let at = |nanos| on_monotonic(PAIR, PAIR.0, WallTime::from_nanos(nanos));
        assert_eq!(at(501), PAIR.0, "nothing comes after it was read");
        assert_eq!(at(500 - 1_000_000_000), PAIR.0 - Duration::from_secs(1));
        assert_eq!(at(499 - 1_000_000_000), PAIR.0);
    }
}
