//! The server's clocks: UTC, which samples, gaps and pages are compared with, and one that never steps, by which ages, rates and
//! patience are.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use units::WallTime;

/// Where the beats of all pages are counted from; any time is as good.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) wall: WallTime,
    pub(crate) steady: Instant,
}

/// Returns this moment.
pub(crate) fn now() -> Moment {
    Moment { wall: wall(), steady: Instant::now() }
}

/// Returns the system's time.
pub(crate) fn wall() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Returns the time since an origin that is the same for all callers in this process; zero before it. Units: nanoseconds.
pub(crate) fn nanos_since_origin(steady: Instant) -> u64 {
    let since = steady.saturating_duration_since(*ORIGIN);
    // Within 64 bits for five centuries.
    since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
}

#[cfg(test)]
pub(crate) fn origin() -> Instant {
    *ORIGIN
}
