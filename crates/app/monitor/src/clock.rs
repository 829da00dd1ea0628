//! The server's clock in UTC, which samples, gaps and pages are compared with.

use std::time::{SystemTime, UNIX_EPOCH};

use units::WallTime;

/// Returns the system's time.
pub(crate) fn wall() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
