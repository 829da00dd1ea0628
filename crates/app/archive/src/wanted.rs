//! Samples that a reader of an archive requests.

use core::ops::Range;

use units::WallTime;

/// A range of time and a range of indices: samples in both are requested.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) times: Range<WallTime>,
    pub(crate) indices: Range<u64>,
}

impl Wanted {
    /// Everything recorded.
    pub(crate) const ALL: Self =
        Self { times: WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX), indices: 0..u64::MAX };

    /// Returns whether everything below an index and a time is before the request.
    pub(crate) fn ends_before(&self, next_index: u64, t1: WallTime) -> bool {
        t1 <= self.times.start || next_index <= self.indices.start
    }

    /// Returns whether everything from an index and a time on is behind the request.
    pub(crate) fn begins_behind(&self, first_index: u64, t0: WallTime) -> bool {
        t0 >= self.times.end || first_index >= self.indices.end
    }
}
