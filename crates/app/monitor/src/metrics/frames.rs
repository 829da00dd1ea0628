//! Frames in the metrics: how often views are drawn, and how many pages are sent the same bytes.

use super::{Kind, Picture};
use crate::viewer::WorkCounts;

impl Picture {
    pub(super) fn add_frames(&mut self, counts: WorkCounts) {
        let one = |count: u64| vec![(Vec::new(), count as f64)];
        let families = [
            (
                "frames_drawn",
                "renditions of views drawn from live memory, each for all pages that ask for the same",
                Kind::Counter,
                one(counts.drawn),
            ),
            (
                "frames_encoded",
                "frames encoded: with those reused, the frames sent",
                Kind::Counter,
                one(counts.encoded),
            ),
            (
                "frames_reused",
                "frames sent that had been encoded for another page",
                Kind::Counter,
                one(counts.reused),
            ),
        ];
        self.add_all("tallycast_monitor_", families);
    }
}
