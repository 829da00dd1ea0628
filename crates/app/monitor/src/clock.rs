//! The server's clocks: UTC, which samples, gaps and pages are compared with, and one that never steps, by which ages, rates and
//! patience are.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use units::WallTime;

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
