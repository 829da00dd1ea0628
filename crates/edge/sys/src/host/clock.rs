//! The two clocks, and sleeping until a moment.
//!
//! Pure machines never call this module: `engine` passes them `now`.

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use units::{Instant, WallTime};

/// Timer slack once lowered: the delay by which the kernel may end a sleep late in order to save a
/// wake-up.
///
/// Source: measured. With the default of 50 µs a sleep of 100 µs takes 155–159 µs, with 1 µs 106–108 µs.
const TIMER_SLACK_NS: u64 = 1_000;

/// Number of times that [`pair`] reads both clocks; it keeps the pair read with the least time in
/// between.
const PAIR_ATTEMPTS: usize = 3;

/// Returns the time on the monotonic clock (`CLOCK_MONOTONIC`: since boot, without suspended time).
#[must_use]
pub fn monotonic() -> Instant {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    let nanos = i128::from(tv_sec) * 1_000_000_000 + i128::from(tv_nsec);
    Instant::from_nanos(u64::try_from(nanos).expect("584 years of uptime fit, and none is negative"))
}

/// Returns whether a daemon (NTP, PTP) reports this host's clock as synchronised, and its maximum
/// error.
///
/// # Errors
/// If the kernel does not report it, as in some containers.
pub fn discipline() -> io::Result<(bool, Duration)> {
    let (is_synchronised, micros) = crate::raw::clock_discipline()?;
    Ok((is_synchronised, Duration::from_micros(micros)))
}

/// Returns the UTC time of this host (`CLOCK_REALTIME`).
#[must_use]
pub fn wall() -> WallTime {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    WallTime::from_nanos(tv_sec.saturating_mul(1_000_000_000).saturating_add(tv_nsec))
}

/// Returns both clocks at one moment, to within the time it takes to read a clock.
#[must_use]
pub fn pair() -> (Instant, WallTime) {
    let read = |_| {
        let (before, wall, after) = (monotonic(), wall(), monotonic());
        let took = after.since(before);
        (took, before + took / 2, wall)
    };
    let (_, monotonic, wall) =
        (0..PAIR_ATTEMPTS).map(read).min_by_key(|(took, ..)| *took).expect("at least one attempt");
    (monotonic, wall)
}

/// Lets this thread's sleeps end within microseconds of their time.
///
/// # Errors
/// The kernel's error, on kernels that forbid it; sleeps then end up to 50 µs late.
pub fn lower_timer_slack() -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS))?)
}

/// Sleeps until `deadline`, through signals; returns immediately if it has passed.
pub fn sleep_until(deadline: Instant) {
    // Setting a timer that has expired already takes as long as any: on some virtual machines more
    // than twenty microseconds.
    if deadline <= monotonic() {
        return;
    }
    let deadline = timespec(deadline);
    // The only error of an absolute sleep on a valid clock is a signal, after which it continues.
    while clock_nanosleep_absolute(ClockId::Monotonic, &deadline).is_err() {}
}

pub(crate) fn timespec(instant: Instant) -> Timespec {
    let nanos = instant.as_nanos();
    let part = |value: u64| i64::try_from(value).expect("a second has fewer nanoseconds than an i64");
    Timespec { tv_sec: part(nanos / 1_000_000_000), tv_nsec: part(nanos % 1_000_000_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_its_clock() {
        assert!(discipline().is_ok());
    }
    use std::time::Duration;

    #[test]
    fn a_sleep_ends_at_its_deadline_and_not_before() {
        lower_timer_slack().unwrap();
        let deadline = monotonic() + Duration::from_millis(3);
        sleep_until(deadline);
        assert!(monotonic() >= deadline);
        sleep_until(Instant::ORIGIN);
    }

    #[test]
    fn a_pair_lies_between_what_was_read_around_it() {
        let before = (monotonic(), wall());
        let (instant, time) = pair();
        assert!(before.0 <= instant && instant <= monotonic());
        assert!(before.1 <= time && time <= wall());
    }
}
