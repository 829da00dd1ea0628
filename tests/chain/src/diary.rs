//! Outcomes of a stream's elements before a link, as the reader of that bus had them: the truth for everything that is
//! published behind the link.

use core::ops::Range;

use units::{Epoch, RangeSet};

/// The diary of a stream's epoch.
#[derive(Clone, Debug)]
pub struct Diary {
    /// Epoch of the stream's publisher.
    pub origin: Epoch,
    /// Positions that were missing when they were due.
    pub missing: RangeSet,
    /// Positions that the near relay did not read in time.
    pub lapped: RangeSet,
    /// First position that each incarnation of the near relay could read.
    pub starts: Vec<u64>,
    /// One behind the last position, once it is known.
    pub end: Option<u64>,
    /// True if a near relay was started behind the last position: the one before may have died before it told the end.
    pub may_be_cut: bool,
    /// True if the near relay that read it has died, and none has read it since: it may have died before it told of it.
    pub is_left: bool,
}

impl Diary {
    pub(crate) fn new(origin: Epoch) -> Self {
        Self {
            origin,
            missing: RangeSet::new(),
            lapped: RangeSet::new(),
            starts: Vec::new(),
            end: None,
            may_be_cut: false,
            is_left: false,
        }
    }

    /// Returns the number of elements that the near relay did not have.
    pub(crate) fn missing_in(&self, positions: &Range<u64>) -> u64 {
        let mut all = self.missing.clone();
        for range in self.lapped.intersection(positions.clone()) {
            all.insert(range);
        }
        all.count_in(positions.clone())
    }
}
